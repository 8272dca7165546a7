//! Puts a conversation in the form that every vendor accepts.
//!
//! A run that is stopped, interrupted or fails during a tool call leaves the call without a result. Vendors reject a
//! conversation with such a call, with a result that no call precedes, or with an empty message. So every request is
//! repaired here before a dialect sees it; the stored conversation stays as it is.

use std::collections::{HashMap, HashSet};

use crate::message::{Message, MessagePart, Role, TextOrigin, ToolCall, ToolResult};

/// The result of a call that has none.
const INTERRUPTED_CALL: &str = "Error: the call was interrupted. Whether it took effect is not known.";

/// Returns the conversation with one result for every tool call, directly after the call and in the order of the calls.
/// Results without a call, second results, second calls with one id and empty messages are left out.
pub(super) fn repair_conversation(messages: Vec<Message>) -> Vec<Message> {
    let mut repaired: Vec<Message> = Vec::with_capacity(messages.len());
    let mut results = results_by_call(&messages);
    for (at, mut message) in messages.into_iter().enumerate() {
        // Results stand with their calls.
        message.parts.retain(|part| !matches!(part, MessagePart::ToolResult(_)));
        let mut ids = HashSet::new();
        message.parts.retain(|part| match part {
            MessagePart::ToolCall(call) => ids.insert(call.id.clone()),
            _ => true,
        });
        if is_empty(&message) {
            continue;
        }
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        let id = message.id.clone();
        repaired.push(message);
        if calls.is_empty() {
            continue;
        }
        let results = calls.into_iter().map(|call| {
            let found = results.remove(&(at, call.id.clone()));
            MessagePart::ToolResult(found.unwrap_or_else(|| interrupted_result(call)))
        });
        let (id, parts) = (format!("{id}-results"), results.collect());
        repaired.push(Message::new(id, Role::Tool, parts));
    }
    repaired
}

/// The first result of every call, by the place of the message that made the call and the id of the call. An id may come
/// again in a later message.
fn results_by_call(messages: &[Message]) -> HashMap<(usize, String), ToolResult> {
    let mut made: HashMap<&str, usize> = HashMap::new();
    let mut results = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        for result in message.tool_results() {
            if let Some(place) = made.get(result.call.as_str()) {
                results.entry((*place, result.call.clone())).or_insert_with(|| result.clone());
            }
        }
        made.extend(message.tool_calls().map(|call| (call.id.as_str(), at)));
    }
    results
}

fn interrupted_result(call: ToolCall) -> ToolResult {
    ToolResult {
        call: call.id,
        name: call.name,
        text: INTERRUPTED_CALL.to_owned(),
        failed: true,
        origin: TextOrigin::Program,
    }
}

/// Whether a message has nothing that a vendor is sent. Reasoning alone is not an answer.
fn is_empty(message: &Message) -> bool {
    message.parts.iter().all(|part| match part {
        MessagePart::Text { text, .. } => text.trim().is_empty(),
        MessagePart::Reasoning { .. } => true,
        MessagePart::Passage(_)
        | MessagePart::ToolCall(_)
        | MessagePart::ToolResult(_)
        | MessagePart::Image(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calling(id: &str, calls: &[&str]) -> Message {
        let call = |id: &&str| {
            MessagePart::ToolCall(ToolCall { id: (*id).into(), name: "add".into(), arguments: json!({}) })
        };
        Message::new(id, Role::Assistant, calls.iter().map(call).collect())
    }

    fn result(call: &str, text: &str) -> ToolResult {
        let (call, text) = (call.to_owned(), text.to_owned());
        ToolResult { call, name: "add".into(), text, failed: false, origin: TextOrigin::Tool }
    }

    fn check(messages: Vec<Message>, expected: &str) {
        let shown = |part: &MessagePart| match part {
            MessagePart::Text { text, .. } => text.clone(),
            MessagePart::ToolCall(call) => format!("{}?", call.id),
            MessagePart::ToolResult(result) if result.text == INTERRUPTED_CALL => format!("{}!", result.call),
            MessagePart::ToolResult(result) => format!("{}={}", result.call, result.text),
            other => format!("{other:?}"),
        };
        let repaired = repair_conversation(messages);
        let lines: Vec<String> = repaired
            .iter()
            .map(|message| message.parts.iter().map(shown).collect::<Vec<_>>().join("+"))
            .collect();
        assert_eq!(lines.join(" "), expected);
    }

    #[test]
    fn every_call_has_its_result_right_after_it() {
        let (user, next) = (|| Message::user("u", "hi"), || Message::user("v", "next"));
        let output = |results: &[(&str, &str)]| {
            Message::tool_output("t", results.iter().map(|(call, text)| result(call, text)))
        };
        check(vec![user(), calling("a", &["c"]), output(&[("c", "1")]), next()], "hi c? c=1 next");
        check(vec![user(), calling("a", &["c", "d"]), next()], "hi c?+d? c!+d! next");
        check(vec![user(), calling("a", &["c", "d"]), output(&[("d", "2")]), next()], "hi c?+d? c!+d=2 next");
        check(vec![user(), calling("a", &["c"]), next(), output(&[("c", "1")])], "hi c? c=1 next");
        check(vec![user(), output(&[("c", "1")]), calling("a", &["c"])], "hi c? c!");
        check(vec![user(), calling("a", &["c", "c"]), output(&[("c", "1"), ("c", "2")])], "hi c? c=1");
        let again =
            vec![calling("a", &["c"]), output(&[("c", "1")]), calling("b", &["c"]), output(&[("c", "2")])];
        check(again, "c? c=1 c? c=2");
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let thought = MessagePart::Reasoning { text: "hm".into(), signature: None };
        let thinking = Message::new("a", Role::Assistant, vec![thought]);
        check(
            vec![Message::user("u", "hi"), thinking, Message::user("v", " \n"), Message::user("w", "x")],
            "hi x",
        );
    }
}
