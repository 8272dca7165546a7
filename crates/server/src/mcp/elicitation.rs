//! Questions of a run, put to the person before an MCP host.

use doran_agents::Language;
use doran_agents::protocol::{EffectOutcomeAnswer, InterruptQuestion, ToolApprovalAnswer};
use doran_engine::QuestionKind;
use rmcp::RoleServer;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use rmcp::service::{ElicitationMode, Peer};
use serde_json::{Value, json};

use crate::api::QuestionInfo;

/// The most bytes of the arguments of a tool that a person is shown.
const MAX_SHOWN_ARGUMENT_BYTES: usize = 4000;

/// What a person is asked in a form, and how the form is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionForm {
    /// May the tool be called?
    Approval,
    /// Did the call happen?
    Outcome,
    /// Anything else.
    Words,
}

/// Whether the host can show a form to a person.
pub(super) fn can_ask(peer: &Peer<RoleServer>) -> bool {
    peer.supported_elicitation_modes().contains(&ElicitationMode::Form)
}

/// Asks the person. Nothing without an answer: the question stays open.
pub(super) async fn ask_person(
    peer: &Peer<RoleServer>,
    question: &QuestionInfo,
    language: Language,
) -> Option<Value> {
    let form = QuestionForm::of(question);
    let schema = serde_json::from_value(form.schema(language))
        .inspect_err(|error| tracing::error!(%error, "the form of a question is no schema that MCP takes"))
        .ok()?;
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: shown_question(question, language),
        requested_schema: schema,
    };
    match peer.create_elicitation(params).await {
        Ok(answer) => form.answer(&answer),
        Err(error) => {
            tracing::info!(%error, "an MCP host did not put a question to its person");
            None
        }
    }
}

/// The question in words, with the call it is about.
pub(super) fn shown_question(question: &QuestionInfo, language: Language) -> String {
    let parsed = InterruptQuestion::from_json(&question.question);
    let mut text = parsed.text(language);
    if let Some((name, arguments)) = parsed.tool() {
        let mut arguments = arguments.to_string();
        if arguments.len() > MAX_SHOWN_ARGUMENT_BYTES {
            arguments.truncate(arguments.floor_char_boundary(MAX_SHOWN_ARGUMENT_BYTES));
            arguments.push('…');
        }
        text.push_str(&format!("\n{name} {arguments}"));
    }
    text
}

impl QuestionForm {
    fn of(question: &QuestionInfo) -> Self {
        match InterruptQuestion::from_json(&question.question) {
            _ if question.kind == QuestionKind::EffectUnknown => Self::Outcome,
            InterruptQuestion::ApproveTool { .. } => Self::Approval,
            InterruptQuestion::ToolUnknown { .. } => Self::Outcome,
            InterruptQuestion::ClientTool { .. }
            | InterruptQuestion::Question { .. }
            | InterruptQuestion::Unknown(_) => Self::Words,
        }
    }

    fn schema(self, language: Language) -> Value {
        let (properties, required) = match self {
            Self::Approval => (
                json!({ "approve": { "type": "boolean", "title": language.pick("승인", "Approve") } }),
                json!(["approve"]),
            ),
            Self::Outcome => (
                json!({
                    "happened": { "type": "boolean", "title": language.pick("실행되었음", "It happened") },
                    "result": { "type": "string", "title": language.pick("결과 (실행된 경우)", "What it gave, if it happened") },
                }),
                json!(["happened"]),
            ),
            Self::Words => (
                json!({ "answer": { "type": "string", "title": language.pick("답", "Answer") } }),
                json!(["answer"]),
            ),
        };
        json!({ "type": "object", "properties": properties, "required": required })
    }

    /// The answer of the person. Who closes the form has not answered; who declines an approval has refused it.
    fn answer(self, result: &ElicitResult) -> Option<Value> {
        let field = |name: &str| result.content.as_ref().and_then(|content| content.get(name));
        match (self, &result.action) {
            (Self::Approval, ElicitationAction::Accept) => {
                let approve = field("approve").and_then(Value::as_bool)?;
                Some(ToolApprovalAnswer { approve, ..ToolApprovalAnswer::default() }.to_json())
            }
            (Self::Approval, ElicitationAction::Decline) => Some(ToolApprovalAnswer::default().to_json()),
            (Self::Outcome, ElicitationAction::Accept) => {
                Some(match field("happened").and_then(Value::as_bool)? {
                    true => {
                        EffectOutcomeAnswer::Result(field("result").cloned().unwrap_or_default()).to_json()
                    }
                    false => EffectOutcomeAnswer::Retry(true).to_json(),
                })
            }
            (Self::Words, ElicitationAction::Accept) => field("answer").cloned(),
            (_, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "the cases below read plainly")]
    fn check(form: QuestionForm, action: ElicitationAction, content: Value, expected: Option<Value>) {
        let result = ElicitResult::new(action).with_content(content);
        assert_eq!(form.answer(&result), expected, "{form:?} {result:?}");
    }

    #[test]
    fn only_a_clear_yes_of_a_person_is_one() {
        use ElicitationAction::{Accept, Cancel, Decline};
        let form = QuestionForm::Approval;
        check(form, Accept, json!({ "approve": true }), Some(json!({ "approve": true })));
        check(form, Accept, json!({ "approve": false }), Some(json!({ "approve": false })));
        check(form, Accept, json!({ "approve": "yes" }), None);
        check(form, Accept, json!({}), None);
        check(form, Decline, json!({ "approve": true }), Some(json!({ "approve": false })));
        check(form, Cancel, json!({ "approve": true }), None);
    }

    #[test]
    fn a_call_whose_outcome_is_unknown_is_made_again_only_if_a_person_says_so() {
        use ElicitationAction::{Accept, Decline};
        let form = QuestionForm::Outcome;
        check(form, Accept, json!({ "happened": false }), Some(json!({ "retry": true })));
        check(form, Accept, json!({ "happened": true, "result": "ok" }), Some(json!({ "result": "ok" })));
        check(form, Accept, json!({ "happened": true }), Some(json!({ "result": null })));
        check(form, Decline, json!({ "happened": false }), None);
        check(QuestionForm::Words, Accept, json!({ "answer": "사흘" }), Some(json!("사흘")));
        check(QuestionForm::Words, Decline, json!({}), None);
    }

    #[test]
    fn every_form_is_one_that_hosts_can_show() {
        for form in [QuestionForm::Approval, QuestionForm::Outcome, QuestionForm::Words] {
            let schema = form.schema(Language::Korean);
            serde_json::from_value::<rmcp::model::ElicitationSchema>(schema).expect("a form");
        }
    }
}
