//! Token counts of our own, for when a vendor reports none or nonsense.
//!
//! A token is taken for three bytes of UTF-8, rounded up: near the truth for Korean and code, too high for English,
//! so a budget kept with it is kept.

use crate::message::{Message, MessagePart};
use crate::model::{ChatRequest, Delta, TokenCountSource, Usage};

/// How many bytes of UTF-8 are taken for a token.
pub const BYTES_PER_TOKEN: u64 = 3;

/// About how many tokens a text has: a third of its bytes, rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// About how many tokens a conversation has.
fn estimate_messages(messages: &[Message]) -> u64 {
    messages.iter().flat_map(|message| &message.parts).map(estimate_part_tokens).sum()
}

/// About how many tokens a request has: its messages, tools and schema.
fn estimate_request(request: &ChatRequest) -> u64 {
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            estimate_tokens(&tool.name)
                + estimate_tokens(&tool.description)
                + estimate_json_tokens(&tool.parameters)
        })
        .sum();
    let schema = request.schema.as_ref().map_or(0, |schema| estimate_json_tokens(&schema.schema));
    estimate_messages(&request.messages) + tools + schema
}

/// What an answer took by our own count.
pub(crate) fn estimate_usage(request: &ChatRequest, deltas: &[Delta]) -> Usage {
    let mut tally = AnswerTokenCounter::default();
    deltas.iter().for_each(|delta| tally.add_delta(delta));
    tally.usage(request)
}

/// Estimates the tokens of an answer while it comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerTokenCounter {
    text_bytes: u64,
    reasoning_bytes: u64,
}

impl AnswerTokenCounter {
    /// Adds the next piece of the answer.
    pub fn add_delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text { text } => self.text_bytes += text.len() as u64,
            Delta::Reasoning { text, .. } => self.reasoning_bytes += text.len() as u64,
            Delta::ToolCall(call) => {
                self.text_bytes += (call.name.len() + call.arguments.to_string().len()) as u64;
            }
            Delta::Done { .. } => {}
        }
    }

    /// The estimate for the request and the pieces so far.
    pub fn usage(self, request: &ChatRequest) -> Usage {
        Usage {
            input_tokens: estimate_request(request),
            output_tokens: (self.text_bytes + self.reasoning_bytes).div_ceil(BYTES_PER_TOKEN),
            reasoning_tokens: self.reasoning_bytes.div_ceil(BYTES_PER_TOKEN),
            counted: TokenCountSource::Estimated,
            ..Usage::default()
        }
    }
}

fn estimate_part_tokens(part: &MessagePart) -> u64 {
    match part {
        MessagePart::Text { text, .. } | MessagePart::Reasoning { text, .. } => estimate_tokens(text),
        MessagePart::Passage(passage) => estimate_tokens(&passage.title) + estimate_tokens(&passage.text),
        MessagePart::ToolCall(call) => estimate_tokens(&call.name) + estimate_json_tokens(&call.arguments),
        MessagePart::ToolResult(result) => estimate_tokens(&result.text),
        // Vendors count a picture by its size in pixels; about this many for a usual one.
        MessagePart::Image(_) => 1_000,
    }
}

fn estimate_json_tokens(value: &serde_json::Value) -> u64 {
    estimate_tokens(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_three_bytes_rounded_up() {
        assert_eq!(["", "a", "abc", "abcd", "가", "가나다"].map(estimate_tokens), [0, 1, 1, 2, 1, 3]);
    }

    #[test]
    fn everything_that_is_sent_is_counted() {
        let mut request = ChatRequest::new(vec![Message::user("m1", "가나다")]);
        assert_eq!(estimate_request(&request), 3);
        request.tools.push(crate::ToolSpec {
            name: "abc".into(),
            description: "abc".into(),
            parameters: serde_json::json!({"a":1}),
        });
        assert_eq!(estimate_request(&request), 8);
    }
}
