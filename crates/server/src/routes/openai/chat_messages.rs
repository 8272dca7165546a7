//! What a client of this dialect asks, and what it is told when the run asks back.

use doran_agents::{AskOptions, EarlierMessage, UserLanguage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::runs::percent_encode;
use crate::api::QuestionInfo;
use crate::error::{ApiError, ApiErrorCode};

/// A message of the client's conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct OpenAiMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    role: String,
    /// The text, or a list of parts with `text`.
    #[serde(default)]
    content: Value,
}

impl OpenAiMessage {
    /// The words, whether they came as one text or in parts.
    fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

/// What is asked, and what comes before it. On a thread of ours the agent knows what was said.
pub(super) fn question_from_messages(
    messages: &[OpenAiMessage],
    known: bool,
    most: usize,
) -> Result<(String, AskOptions), ApiError> {
    let bad = |en: &str, ko: &str| ApiError::with_message(ApiErrorCode::BadInput, en, ko);
    let last = messages.iter().rposition(|said| said.role == "user");
    let last = last.ok_or_else(|| {
        bad("`messages` holds no message of the user", "`messages`에 사용자의 메시지가 없습니다")
    })?;
    let question = messages[last].text();
    if question.trim().is_empty() {
        return Err(bad("the last message of the user is empty", "사용자의 마지막 메시지가 비어 있습니다"));
    }
    let mut options = AskOptions::default();
    let mut system = Vec::new();
    for said in &messages[..last] {
        let text = said.text();
        match said.role.as_str() {
            _ if text.trim().is_empty() => {}
            "system" | "developer" => system.push(text),
            "user" if !known => options.earlier.push(EarlierMessage::Asked(text)),
            "assistant" if !known => options.earlier.push(EarlierMessage::Answered(text)),
            _ => {}
        }
    }
    options.system = (!system.is_empty()).then(|| system.join("\n\n"));
    let earlier =
        options.earlier.iter().map(|(EarlierMessage::Asked(text) | EarlierMessage::Answered(text))| text);
    let all: Vec<&String> = earlier.chain(&options.system).chain([&question]).collect();
    if all.iter().map(|text| text.len()).sum::<usize>() > most {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("`messages` have more than {most} bytes"),
            format!("`messages`가 {most}바이트를 넘습니다"),
        ));
    }
    if all.iter().any(|text| text.contains('\0')) {
        return Err(bad("`messages` hold a NUL character", "`messages`에 NUL 문자가 있습니다"));
    }
    Ok((question, options))
}

/// Whether it holds Korean.
pub(super) fn is_korean(text: &str) -> bool {
    text.chars().any(|char| ('가'..='힣').contains(&char))
}

/// What a person is told when the run waits for one: what it asks, and where to answer.
pub(super) fn waiting_text(questions: &[QuestionInfo], thread: &str, language: UserLanguage) -> String {
    let place = format!("/t/{}", percent_encode(thread));
    let approval = questions.iter().all(|asked| asked.interrupt().is_tool_approval());
    let mut text = match (language, approval) {
        (UserLanguage::Ko, true) => {
            format!("이 실행은 승인을 기다립니다. 이 서버의 {place} 화면에서 답해 주세요.")
        }
        (UserLanguage::Ko, false) => {
            format!("이 실행은 답을 기다립니다. 이 서버의 {place} 화면에서 답해 주세요.")
        }
        (UserLanguage::En, true) => {
            format!("This run waits for an approval. Answer it on this server's page {place}.")
        }
        (UserLanguage::En, false) => {
            format!("This run waits for an answer. Answer it on this server's page {place}.")
        }
    };
    for asked in questions {
        let question = asked.interrupt();
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
        let asked =
            QuestionInfo { id: "q".into(), run: "r".into(), node: "n".into(), kind, question, problem: None };
        let told = |language| waiting_text(std::slice::from_ref(&asked), "t", language);
        assert!(told(UserLanguage::Ko).contains(ko), "{}", told(UserLanguage::Ko));
        assert!(told(UserLanguage::En).contains(en), "{}", told(UserLanguage::En));
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
