//! Hints for models that answer nothing, or make a call again whose result they have. Small models do both, and a
//! sentence often helps where the same request again would not.

use doran_llm::{ChatRequest, Message, MessagePart, Role, TextOrigin, ToolCall, ToolChoice};
use doran_retrieval::Language;

/// The request again after a reply without words and calls.
pub(super) fn hint_after_empty_reply(request: ChatRequest, language: Language) -> ChatRequest {
    let hint = language.pick(
        "방금 답이 비어 있었습니다. 위의 질문에 문장으로 답하거나, 필요하면 도구를 호출하세요.",
        "Your last reply was empty. Answer the question above in words, or call a tool if you need one.",
    );
    with_hint(request, "empty-reply", hint.to_owned())
}

/// The request, with a hint if the newest calls were already made and answered for this question. If they are made once
/// more after the hint, no more calls may be made: a small model would go on with them.
pub(crate) fn hint_at_repeated_calls(mut request: ChatRequest, language: Language) -> ChatRequest {
    let Some((names, times)) = repeated_tools(&request.messages) else { return request };
    if times > 1 {
        request.tool_choice = ToolChoice::None;
    }
    let hint = match has_failed_result(&request.messages) {
        false => language.pick(
            format!("같은 인자로 이미 호출한 도구입니다: {names}. 결과는 위에 있습니다. 이제 그 결과로 답하세요."),
            format!("You have called {names} with the same arguments before. The results are above. Answer with them now."),
        ),
        true => language.pick(
            format!("같은 인자로 이미 호출했고 실패한 도구입니다: {names}. 위의 오류를 읽고 인자를 고치거나 도구 없이 답하세요."),
            format!("You have called {names} with the same arguments before, and it failed. Read the error above and correct the arguments, or answer without tools."),
        ),
    };
    with_hint(request, "repeated-call", hint)
}

/// The tools of the newest calls, if each of these calls also stands before them in this turn, and how often at least.
fn repeated_tools(messages: &[Message]) -> Option<(String, usize)> {
    let turn = messages.iter().rposition(|message| message.role == Role::User)?;
    let rounds: Vec<Vec<&ToolCall>> =
        messages[turn..].iter().map(calls_of).filter(|calls| !calls.is_empty()).collect();
    let (newest, earlier) = rounds.split_last()?;
    let times_made = |call: &&ToolCall| {
        let equal = |known: &&&ToolCall| known.name == call.name && known.arguments == call.arguments;
        earlier.iter().flatten().filter(equal).count()
    };
    let times = newest.iter().map(times_made).min()?;
    let names: Vec<&str> = newest.iter().map(|call| call.name.as_str()).collect();
    (times > 0).then(|| (names.join(", "), times))
}

/// Whether the newest calls brought an error.
fn has_failed_result(messages: &[Message]) -> bool {
    messages.last().is_some_and(|message| message.tool_results().any(|result| result.failed))
}

fn calls_of(message: &Message) -> Vec<&ToolCall> {
    let calls = message.parts.iter().filter_map(|part| match part {
        MessagePart::ToolCall(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

fn with_hint(mut request: ChatRequest, name: &str, hint: String) -> ChatRequest {
    let parts = vec![MessagePart::Text { text: hint, origin: TextOrigin::Program }];
    let id = format!("hint-{name}");
    request.messages.push(Message::new(id, Role::User, parts));
    request
}

#[cfg(test)]
mod tests {
    use doran_llm::ToolResult;
    use serde_json::json;

    use super::*;

    /// A call of `add` with this argument, and its result. It fails without one.
    fn round(id: &str, x: impl Into<Option<i64>>) -> [Message; 2] {
        let x: Option<i64> = x.into();
        let call = ToolCall { id: id.into(), name: "add".into(), arguments: json!({ "x": x }) };
        let result = ToolResult {
            call: id.into(),
            name: "add".into(),
            text: "1".into(),
            failed: x.is_none(),
            origin: TextOrigin::Program,
        };
        let parts = vec![MessagePart::ToolCall(call)];
        [
            Message::new(format!("call-{id}"), Role::Assistant, parts),
            Message::tool_output(format!("result-{id}"), [result]),
        ]
    }

    fn hint(messages: &[&[Message]]) -> Option<String> {
        let request = ChatRequest::new(messages.concat());
        let count = request.messages.len();
        let hinted = hint_at_repeated_calls(request, Language::English);
        hinted.messages.get(count).map(Message::text)
    }

    #[test]
    fn a_call_that_was_made_before_in_the_turn_is_pointed_out() {
        let question = [Message::user("q", "1+0?")];
        let (first, same, other) = (round("1", 1), round("2", 1), round("3", 2));
        assert_eq!(
            hint(&[&question, &first, &same]).as_deref(),
            Some(
                "You have called add with the same arguments before. The results are above. Answer with them now."
            )
        );
        let failed = [round("4", None), round("5", None)].concat();
        assert_eq!(
            hint(&[&question, &failed]).as_deref(),
            Some(
                "You have called add with the same arguments before, and it failed. Read the error above and correct the arguments, or answer without tools."
            )
        );
        assert_eq!(hint(&[&question]), None);
        assert_eq!(hint(&[&question, &first]), None, "the first call");
        assert_eq!(hint(&[&question, &first, &other]), None, "other arguments");
        assert_eq!(hint(&[&question, &first, &question, &same]), None, "another question");
    }
}
