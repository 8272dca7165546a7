//! The questions of a run to the person at the terminal, and how their answers are read.

use std::collections::BTreeMap;

use doran_agents::protocol::{EffectOutcomeAnswer, ToolApprovalAnswer};
use doran_engine::QuestionKind;
use doran_retrieval::Language;
use doran_server::api::QuestionInfo;
use serde_json::Value;

use super::ChatSession;
use crate::output::bilingual;

impl ChatSession<'_> {
    /// Asks each question. Anything but a clear yes is a no. The end of the input is no answer.
    pub(super) async fn ask_questions(
        &mut self,
        questions: &[QuestionInfo],
    ) -> anyhow::Result<Option<BTreeMap<String, Value>>> {
        let mut answers = BTreeMap::new();
        for question in questions {
            let is_approval = question.interrupt().is_tool_approval();
            self.output.print_note(&format_question(question, self.output.language));
            if question.kind == QuestionKind::EffectUnknown {
                let Some(settled) = self.ask_effect_outcome().await? else { return Ok(None) };
                answers.insert(question.id.clone(), settled.to_json());
                continue;
            }
            let hint = match (is_approval, self.output.language) {
                (true, Language::Korean) => "[예/아니요] ",
                (true, Language::English) => "[y/N] ",
                (false, _) => "? ",
            };
            let Some(line) = self.read_line(hint).await? else { return Ok(None) };
            let line = line.trim();
            let answer = match is_approval {
                true => ToolApprovalAnswer { approve: is_yes(&line.to_lowercase()), ..Default::default() }
                    .to_json(),
                false => line.into(),
            };
            answers.insert(question.id.clone(), answer);
        }
        Ok(Some(answers))
    }

    /// Asks for the outcome of a call that must not be repeated. An unclear reply is asked again.
    async fn ask_effect_outcome(&mut self) -> anyhow::Result<Option<EffectOutcomeAnswer>> {
        self.output.print_message(&bilingual!(
            "  `예`, 또는 `예 결과`: 실행되었다 · `아니요`: 실행되지 않았다. 지금 실행한다",
            "  `y`, or `y RESULT`: it happened · `n`: it did not, and is made now"
        ));
        let hint = self.output.language.pick("[예/아니요] ", "[y/n] ");
        loop {
            let Some(line) = self.read_line(hint).await? else { return Ok(None) };
            if let Some(settled) = parse_effect_outcome(&line) {
                return Ok(Some(settled));
            }
        }
    }
}

/// Parses the reply: a yes, optionally followed by the result of the call, or a no.
fn parse_effect_outcome(line: &str) -> Option<EffectOutcomeAnswer> {
    let (first, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    match (first.to_lowercase().as_str(), rest.trim()) {
        (word, "") if is_yes(word) => Some(EffectOutcomeAnswer::Result(Value::Null)),
        (word, result) if is_yes(word) => Some(EffectOutcomeAnswer::Result(result.into())),
        ("n" | "no" | "아니요" | "아니오" | "아니" | "ㄴ", "") => {
            Some(EffectOutcomeAnswer::Retry(true))
        }
        _ => None,
    }
}

fn is_yes(word: &str) -> bool {
    matches!(word, "y" | "yes" | "예" | "네" | "ㅇ" | "응")
}

/// A question of a run, in the user's language.
pub(crate) fn format_question(pending: &QuestionInfo, language: Language) -> String {
    let question = pending.interrupt();
    let mut text = format!("? {}", question.text(language));
    if let Some((name, arguments)) = question.tool() {
        text.push_str(&format!("\n  {name} {arguments}"));
    }
    if let Some(problem) = &pending.problem {
        text.push_str(&format!("\n  ({problem})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_word_says_what_became_of_a_call() {
        for (line, expected) in [
            ("예", Some(json!({ "result": null }))),
            ("  Y  ", Some(json!({ "result": null }))),
            ("yes 메일 3통을 보냄", Some(json!({ "result": "메일 3통을 보냄" }))),
            ("아니요", Some(json!({ "retry": true }))),
            ("n", Some(json!({ "retry": true }))),
            ("no idea", None),
            ("", None),
            ("yesterday", None),
        ] {
            assert_eq!(parse_effect_outcome(line).map(|outcome| outcome.to_json()), expected, "{line}");
        }
    }
}
