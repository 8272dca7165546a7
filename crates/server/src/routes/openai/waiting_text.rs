//! The text for a run that waits for a person.

use doran_agents::Language;

use crate::api::QuestionInfo;
use crate::url_encoding::percent_encode;

/// The text for a person that the run waits for: what it asks, and where to answer.
pub(super) fn waiting_text(
    questions: &[QuestionInfo],
    origin: &str,
    thread: &str,
    language: Language,
) -> String {
    let place = format!("{origin}/t/{}", percent_encode(thread));
    let approval = questions.iter().all(|waiting| waiting.interrupt().is_tool_approval());
    let mut text = match (language, approval) {
        (Language::Korean, true) => {
            format!("이 실행은 승인을 기다립니다. {place} 에서 답해 주세요.")
        }
        (Language::Korean, false) => {
            format!("이 실행은 답을 기다립니다. {place} 에서 답해 주세요.")
        }
        (Language::English, true) => {
            format!("This run waits for an approval. Answer it on the page {place}")
        }
        (Language::English, false) => {
            format!("This run waits for an answer. Answer it on the page {place}")
        }
    };
    for waiting in questions {
        let question = waiting.interrupt();
        text.push_str(&format!("\n\n- {}", question.text(language)));
        if let Some((name, arguments)) = question.tool() {
            text.push_str(&format!(" `{name} {arguments}`"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use doran_engine::QuestionKind;
    use serde_json::{Value, json};

    use super::*;

    fn check(question: Value, ko: &str, en: &str) {
        let kind = QuestionKind::Ask;
        let waiting =
            QuestionInfo { id: "q".into(), run: "r".into(), node: "n".into(), kind, question, problem: None };
        let text = |language| waiting_text(std::slice::from_ref(&waiting), "http://localhost", "t", language);
        assert!(text(Language::Korean).contains(ko), "{}", text(Language::Korean));
        assert!(text(Language::English).contains(en), "{}", text(Language::English));
    }

    #[test]
    fn a_tool_waits_for_an_approval_and_a_question_for_an_answer() {
        let tool = json!({
            "type": "approve_tool", "call": "a", "name": "calculator", "arguments": {}, "why": "policy",
            "approval": "", "ko": "쓸까요?", "en": "use it?",
        });
        check(tool, "승인을 기다립니다", "waits for an approval");
        check(json!({ "ko": "며칠?", "en": "which days?" }), "답을 기다립니다", "waits for an answer");
        check(json!("며칠?"), "며칠?", "waits for an answer");
    }
}
