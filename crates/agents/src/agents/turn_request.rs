//! How the client wants a turn to be answered: with tools of its own, in a format of its own, with other settings of
//! the model. Agents that call a model in a loop take it ([`super::Agent::accepts_turn_requests`]).

use doran_llm::{ChatRequest, ModelReply, ResponseSchema, SchemaValidator, ToolChoice, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::TurnProgress;

/// The most problems with arguments that are reported to a model.
const MAX_ARGUMENT_PROBLEMS: usize = 5;

/// How a turn is to be answered. The default leaves everything to the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct TurnRequest {
    /// Tools that the client runs. One of the same name as a tool of the agent takes its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// Whether a model may, must or must not call them. A must holds for the next request to the model only.
    #[serde(skip_serializing_if = "is_auto")]
    pub tool_choice: ToolChoice,
    /// Whether a reply has at most one tool call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub one_call_per_reply: bool,
    /// The shape that the answer must have, if it is to be JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<ResponseSchema>,
    /// How freely words of the answer are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Only the likeliest words that together have this probability are chosen from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Asks for the same choice of words again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which a reply ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Maximum number of tokens of a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClientTool {
    /// The tool as a model sees it.
    pub spec: ToolSpec,
    /// Whether a call whose arguments do not fit the schema is refused before the client is asked to run it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

fn is_auto(choice: &ToolChoice) -> bool {
    *choice == ToolChoice::Auto
}

impl TurnRequest {
    /// Whether it leaves everything to the agent.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The tool of this name that the client runs.
    pub(crate) fn client_tool(&self, name: &str) -> Option<&ClientTool> {
        let may_call = self.tool_choice != ToolChoice::None;
        self.tools.iter().find(|tool| may_call && tool.spec.name == name)
    }

    /// What a model is offered beside the agent's own tools, and whether it must call one.
    pub(crate) fn offered_tools(
        &self,
        own: Vec<ToolSpec>,
        progress: &TurnProgress,
    ) -> (Vec<ToolSpec>, ToolChoice) {
        let theirs = || self.tools.iter().map(|tool| tool.spec.clone());
        let auto = |tools: Vec<ToolSpec>| match tools.is_empty() {
            true => (tools, ToolChoice::None),
            false => (tools, ToolChoice::Auto),
        };
        match &self.tool_choice {
            // Tools that were called before stay known, as vendors want them to be.
            ToolChoice::None if own.is_empty() => (theirs().collect(), ToolChoice::None),
            ToolChoice::None => auto(own),
            choice @ (ToolChoice::Required | ToolChoice::Named(_)) if !progress.tool_choice_applied => {
                (theirs().collect(), choice.clone())
            }
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => {
                let own = own.into_iter().filter(|tool| self.client_tool(&tool.name).is_none());
                auto(own.chain(theirs()).collect())
            }
        }
    }

    /// The same request with the settings of the turn.
    pub(crate) fn apply_settings(&self, mut request: ChatRequest) -> ChatRequest {
        request.schema = self.response_schema.clone().or(request.schema);
        // A client that sets only one of the two leaves the other to the model.
        request.temperature =
            if self.top_p.is_some() { self.temperature } else { self.temperature.or(request.temperature) };
        request.top_p = self.top_p.or(request.top_p);
        request.seed = self.seed.or(request.seed);
        if !self.stop.is_empty() {
            request.stop.clone_from(&self.stop);
        }
        request.max_output_tokens = self.max_output_tokens.or(request.max_output_tokens);
        request
    }

    /// How far the turn has come after a request with these tools.
    pub(crate) fn progress_after_request(&self, progress: TurnProgress) -> TurnProgress {
        let applied = matches!(self.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        TurnProgress { tool_choice_applied: applied, ..progress }
    }

    /// A reply with as many calls as are allowed.
    pub(crate) fn limit_calls(&self, mut reply: ModelReply) -> ModelReply {
        if self.one_call_per_reply {
            reply.tool_calls.truncate(1);
        }
        reply
    }
}

impl ClientTool {
    /// What is wrong with the arguments of a call, if this tool wants them to fit.
    pub(crate) fn argument_problems(&self, arguments: &Value) -> Vec<String> {
        if !self.strict {
            return Vec::new();
        }
        match SchemaValidator::new(&self.spec.parameters) {
            Ok(validator) => {
                let problems = validator.violations(arguments, MAX_ARGUMENT_PROBLEMS);
                problems.iter().map(ToString::to_string).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec { name: name.into(), description: description.into(), parameters: json!({}) }
    }

    fn offered(choice: ToolChoice, applied: bool) -> (Vec<String>, ToolChoice) {
        let tool = ClientTool { spec: spec("weather", "theirs"), strict: false };
        let request = TurnRequest { tools: vec![tool], tool_choice: choice, ..TurnRequest::default() };
        let own = vec![spec("calculator", "own"), spec("weather", "own")];
        let progress = TurnProgress { tool_choice_applied: applied, ..TurnProgress::default() };
        let (tools, choice) = request.offered_tools(own, &progress);
        (tools.into_iter().map(|tool| format!("{} {}", tool.name, tool.description)).collect(), choice)
    }

    #[test]
    fn a_tool_choice_is_about_tools_of_the_client_and_required_holds_once() {
        let both = vec!["calculator own".to_owned(), "weather theirs".to_owned()];
        assert_eq!(offered(ToolChoice::Auto, false), (both.clone(), ToolChoice::Auto));
        assert_eq!(
            offered(ToolChoice::Required, false),
            (vec!["weather theirs".to_owned()], ToolChoice::Required)
        );
        assert_eq!(offered(ToolChoice::Required, true), (both, ToolChoice::Auto));
        assert_eq!(
            offered(ToolChoice::None, false),
            (vec!["calculator own".to_owned(), "weather own".to_owned()], ToolChoice::Auto)
        );
    }

    #[test]
    fn without_tools_nothing_changes() {
        let request = TurnRequest::default();
        assert!(request.is_default());
        assert_eq!(
            request.offered_tools(Vec::new(), &TurnProgress::default()),
            (Vec::new(), ToolChoice::None)
        );
        assert_eq!(serde_json::to_value(&request).expect("JSON"), json!({}));
    }
}
