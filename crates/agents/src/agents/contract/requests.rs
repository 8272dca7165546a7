//! The model requests of the contract agent, as pure functions of the state, so that they can be shown later.

use async_trait::async_trait;
use doran_engine::NodeError;
use doran_llm::{
    ChatRequest, Message, MessagePart, ModelRole, Role, TextOrigin, ToolCall, ToolChoice, ToolResult,
    ToolSpec, response_schema_of,
};
use doran_retrieval::{DocumentTenant, HEADING_SEPARATOR, Language};
use schemars::JsonSchema;
use serde::Deserialize;

use super::ContractAgent;
use super::call_planning::propose_calls;
use super::contract_documents::ContractDocuments;
use super::prompts::PlanPromptVariables;
use super::state::{ContractState, ToolRun, call_signature};
use crate::agents::RequestExplainer;
use crate::nodes::{
    MAX_DECISION_TOKENS, fit_messages, fit_request, remaining_tokens, retrieve_node_error, titles_message,
};
use crate::prompt::tool_names;
use crate::request_format::{
    MATERIAL_MESSAGE_ID, NOTE_PREFIX, standard_contract_heading, user_contract_heading,
};
use crate::request_purpose::RequestPurpose;
use crate::source::{AnswerSource, AnswerSourceKind};
use crate::state::{conversation_language, newest_question};
use crate::tools::{ToolPolicy, Toolbox, names};

/// Whether a question is about contracts.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct InScope {
    // First, so that a model thinks before it chooses.
    pub(super) reason: String,
    pub(super) in_scope: bool,
    pub(super) need_previous_context: bool,
}

/// Whether a question leans on the turn before it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NeedsPrevious {
    // First, so that a model thinks before it chooses.
    #[allow(dead_code, reason = "asked for because a model decides better when it says why")]
    pub(super) reasoning: String,
    pub(super) need_previous_context: bool,
}

/// Whether what was collected holds an answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Sufficiency {
    // First, so that a model thinks before it chooses.
    pub(super) reasoning: String,
    pub(super) is_sufficient: bool,
    pub(super) missing_info: Option<String>,
}

impl ContractAgent {
    pub(super) fn documents(&self, state: &ContractState) -> ContractDocuments {
        ContractDocuments { index: self.index.clone(), contract: state.contract_id.clone() }
    }

    /// Its own tools as settings leave them, and those that settings give it.
    pub(super) fn toolbox(&self, state: &ContractState) -> Result<Toolbox, NodeError> {
        let names: Vec<&str> = self.own_tools.iter().map(|(name, _)| *name).collect();
        let mut toolbox = self.documents(state).toolbox()?.restricted_to(&names);
        for (name, policy) in &self.own_tools {
            toolbox.set_policy(name, *policy);
        }
        Ok(toolbox.merged_with(&self.extra_tools))
    }

    /// Whether a tool is among those it has.
    pub(super) fn may_call(&self, name: &str) -> bool {
        self.own_tools.iter().any(|(own, policy)| *own == name && *policy != ToolPolicy::Deny)
            || self.extra_tools.get(name).is_some()
    }

    /// Whether it was given a memory.
    pub(super) fn has_memory(&self) -> bool {
        names::MEMORY_TOOLS.iter().any(|name| self.extra_tools.get(name).is_some())
    }

    /// What the tools that settings give it are called.
    fn extra_tool_names(&self) -> Vec<String> {
        self.extra_tools.specs().into_iter().map(|spec| spec.name).collect()
    }

    fn tool_specs(&self, state: &ContractState) -> Result<Vec<ToolSpec>, NodeError> {
        Ok(self.toolbox(state)?.specs())
    }

    /// A small decision about the question, with the turn before it.
    fn small_model_request(
        &self,
        state: &ContractState,
        system: String,
        purpose: RequestPurpose,
    ) -> ChatRequest {
        let mut messages = vec![Message::system("system", system)];
        let conversation =
            state.previous_turn().into_iter().chain(newest_question(&state.messages).cloned()).collect();
        let room = remaining_tokens(self.context_length, &messages, &[]).min(MAX_DECISION_TOKENS);
        messages.extend(fit_messages(
            conversation,
            room,
            conversation_language(self.language, &state.messages),
        ));
        ChatRequest {
            purpose: purpose.label(),
            role: ModelRole::Small,
            temperature: Some(0.0),
            ..ChatRequest::new(messages)
        }
    }

    pub(super) fn scope_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let system = self
            .prompts
            .scope(conversation_language(self.language, &state.messages), self.extra_tool_names())?;
        Ok(ChatRequest {
            schema: Some(response_schema_of::<InScope>()),
            ..self.small_model_request(state, system, RequestPurpose::Scope)
        })
    }

    pub(super) fn previous_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let system = self.prompts.previous(state.progress.language)?;
        let request = self.small_model_request(state, system, RequestPurpose::PreviousContext);
        Ok(ChatRequest { schema: Some(response_schema_of::<NeedsPrevious>()), ..request })
    }

    /// The calls that rules propose before the model is asked for the first time.
    pub(super) fn calls_by_rules(&self, state: &ContractState, articles: &[String]) -> Vec<ToolCall> {
        let first = state.iteration_count == 0 && state.tool_history.is_empty();
        let mut calls = if first { propose_calls(&state.user_message, articles) } else { Vec::new() };
        calls.retain(|call| self.may_call(&call.name));
        calls
    }

    pub(super) fn plan_request(
        &self,
        state: &ContractState,
        rules: &[ToolCall],
        documents: &[String],
    ) -> Result<ChatRequest, NodeError> {
        let tools = self.tool_specs(state)?;
        let plan = PlanPromptVariables {
            missing_info: state.missing_info.clone().unwrap_or_default(),
            proposed: rules.iter().map(call_signature).collect(),
            done: state.tool_history.iter().map(|run| call_signature(&run.call)).collect(),
            explored: state.explored_articles.clone(),
            unexplored: state.unexplored_articles.clone(),
            more: self.extra_tool_names(),
            tools: tool_names(&tools),
        };
        let language = state.progress.language;
        let system = self.prompts.plan(language, plan)?;
        let mut messages = messages_with_tool_history(state, system);
        let heading = language.pick("[계약서 목록]", "[The contracts]");
        messages.splice(1..1, titles_message(heading, documents));
        let request = ChatRequest {
            purpose: RequestPurpose::Plan.label(),
            tools,
            tool_choice: ToolChoice::Auto,
            ..ChatRequest::new(messages)
        };
        Ok(fit_request(request, self.context_length, state.progress.language))
    }

    pub(super) fn evaluate_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let (explored, unexplored) = (&state.explored_articles, &state.unexplored_articles);
        let system = self.prompts.evaluate(state.progress.language, explored, unexplored)?;
        let request = ChatRequest {
            purpose: RequestPurpose::Sufficiency.label(),
            schema: Some(response_schema_of::<Sufficiency>()),
            temperature: Some(0.0),
            // Vendors want to know the tools whose calls and results they are shown.
            tools: self.tool_specs(state)?,
            tool_choice: ToolChoice::None,
            ..ChatRequest::new(messages_with_tool_history(state, system))
        };
        Ok(fit_request(request, self.context_length, state.progress.language))
    }

    pub(super) fn answer_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let temperature = state.progress.chosen.temperature;
        let previous = state.need_previous_context == Some(true);
        let more: Vec<&ToolRun> = state
            .tool_history
            .iter()
            .filter(|run| !names::CONTRACT_TOOLS.contains(&run.call.name.as_str()))
            .collect();
        let system = self.prompts.contract(language, previous, !more.is_empty())?;
        let mut messages = vec![Message::system("system", system)];
        messages.extend(source_messages_by_side(&state.collected_info, language));
        messages.extend(lookup_notes_message(state, language));
        messages.extend(state.standing_instruction().cloned());
        if previous {
            messages.extend(state.previous_turn());
        }
        messages.extend(newest_question(&state.messages).cloned());
        if more.is_empty() {
            let request = ChatRequest { temperature, ..ChatRequest::new(messages) };
            return Ok(fit_request(request, self.context_length, language));
        }
        messages.extend(calls_and_results(&more));
        // Vendors want to know the tools whose calls and results they are shown.
        let tools = self.tool_specs(state)?;
        let tool_choice = ToolChoice::None;
        let request = ChatRequest { tools, tool_choice, temperature, ..ChatRequest::new(messages) };
        Ok(fit_request(request, self.context_length, language))
    }
}

#[async_trait]
impl RequestExplainer<ContractState> for ContractAgent {
    async fn explain(
        &self,
        node: &str,
        state: &ContractState,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        let request = match node {
            "scope_validator" => self.scope_request(state),
            "check_previous_context" => self.previous_request(state),
            "planner" => {
                let titles = self.documents(state).planner_titles(tenant).await;
                let (documents, articles) = titles.map_err(retrieve_node_error)?;
                self.plan_request(state, &self.calls_by_rules(state, &articles), &documents)
            }
            "evaluator" => self.evaluate_request(state),
            "respond" => self.answer_request(state),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![request?])
    }
}

/// The question with what was looked up for it, as calls and results of the model.
fn messages_with_tool_history(state: &ContractState, system: String) -> Vec<Message> {
    let mut messages = vec![Message::system("system", system)];
    messages.extend(state.standing_instruction().cloned());
    if state.need_previous_context == Some(true) {
        messages.extend(state.previous_turn());
    }
    messages.extend(newest_question(&state.messages).cloned());
    if !state.tool_history.is_empty() {
        messages.extend(calls_and_results(&state.tool_history.iter().collect::<Vec<_>>()));
    }
    messages
}

fn calls_and_results(runs: &[&ToolRun]) -> [Message; 2] {
    let calls = runs.iter().map(|run| MessagePart::ToolCall(run.call.clone())).collect();
    let results = runs.iter().map(|run| ToolResult {
        call: run.call.id.clone(),
        name: run.call.name.clone(),
        text: run.text.clone(),
        failed: run.failed,
        origin: run.origin,
    });
    [Message::new("calls", Role::Assistant, calls), Message::tool_output("results", results)]
}

/// What has to be said beside the places: that nothing was found, or what those who looked noted.
fn lookup_notes_message(state: &ContractState, language: Language) -> Option<Message> {
    let mut notes: Vec<String> = Vec::new();
    for note in
        state.tool_history.iter().flat_map(|run| &run.notes).map(|note| format!("{NOTE_PREFIX}{note}"))
    {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let has_searched =
        state.tool_history.iter().any(|run| names::CONTRACT_TOOLS.contains(&run.call.name.as_str()));
    let heading = language.pick("[찾아본 결과]", "[What was looked up]");
    let nothing = language.pick("찾은 조항이 없습니다.", "No article was found.");
    let text = match (state.collected_info.is_empty(), notes.is_empty()) {
        (true, true) if has_searched => format!("{heading}\n{nothing}"),
        (_, true) => return None,
        (_, false) => heading.to_owned(),
    };
    let mut parts = vec![MessagePart::Text { text, origin: TextOrigin::Program }];
    if !notes.is_empty() {
        // They hold names of documents.
        parts.push(MessagePart::Text {
            text: format!("\n{}", notes.join("\n")),
            origin: TextOrigin::Document,
        });
    }
    Some(Message::new(MATERIAL_MESSAGE_ID, Role::System, parts))
}

/// What was collected, the user's contract and the standard contract each under its own heading.
fn source_messages_by_side(collected: &[AnswerSource], language: Language) -> Vec<Message> {
    let by_side = |kind: AnswerSourceKind, id: &str, heading: &str| {
        let of_kind: Vec<&AnswerSource> = collected
            .iter()
            .filter(|source| {
                (source.kind == AnswerSourceKind::Standard) == (kind == AnswerSourceKind::Standard)
            })
            .collect();
        let titled = of_kind.iter().map(|source| {
            let mut material = source.to_passage();
            material.title = format!("{heading}{HEADING_SEPARATOR}{}", material.title);
            MessagePart::Passage(material)
        });
        let mut parts =
            vec![MessagePart::Text { text: format!("[{heading}]\n"), origin: TextOrigin::Program }];
        parts.extend(titled);
        (!of_kind.is_empty()).then(|| Message::new(id, Role::System, parts))
    };
    let user = by_side(AnswerSourceKind::User, "user", user_contract_heading(language));
    let standard = by_side(AnswerSourceKind::Standard, "standard", standard_contract_heading(language));
    user.into_iter().chain(standard).collect()
}
