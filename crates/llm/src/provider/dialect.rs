//! The interface of vendor dialects.
//!
//! A [`Dialect`] builds the HTTP request; its [`AnswerDecoder`] converts the response to deltas. Limits, usage counts
//! and the rules about how an answer may end are the same for all dialects and are implemented here.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use crate::error::ModelError;
use crate::http::{ModelHttpRequest, ModelResponseLimits, SseEvent, SseEventTooLong};
use crate::message::ToolCall;
use crate::model::{ChatRequest, Delta, FinishReason, SamplingSetting, TokenCountSource, Usage};
use crate::token_estimate::AnswerTokenCounter;

/// The request format of a vendor.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// Builds the HTTP request.
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError>;

    /// Returns the settings that the model does not take.
    fn unsupported_settings(&self) -> Vec<SamplingSetting>;

    /// Returns the decoder for the answer to that request.
    fn decoder(&self, request: &ChatRequest) -> Box<dyn AnswerDecoder>;
}

/// Decodes one answer.
pub(crate) trait AnswerDecoder: Send {
    /// Decodes one event of a streamed answer.
    fn decode_event(&mut self, event: &SseEvent, out: &mut DeltaBuffer)
    -> Result<DecodeProgress, ModelError>;

    /// Decodes an answer that was not streamed.
    fn decode_body(&mut self, body: &[u8], out: &mut DeltaBuffer) -> Result<(), ModelError>;

    /// Called at the end of the response. Returns how the answer ended, if the vendor said so.
    fn finish_decoding(&mut self, out: &mut DeltaBuffer) -> Result<AnswerEnding, ModelError>;
}

/// The progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeProgress {
    /// More will follow.
    InProgress,
    /// The answer is complete; usage counts may follow.
    AnswerComplete,
    /// Nothing more will follow.
    StreamEnded,
}

/// How an answer ended.
#[derive(Debug, Default)]
pub(crate) struct AnswerEnding {
    /// The finish reason, if the vendor sent one. Without it the answer was cut off.
    pub(crate) finish: Option<FinishReason>,
    /// The usage that the vendor reported.
    pub(crate) reported: ReportedUsage,
}

/// Usage counts as a vendor sends them. They may be missing or wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportedUsage {
    pub(crate) input: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) cache_written: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

impl ReportedUsage {
    /// Returns the count at a JSON pointer such as `/usage/prompt_tokens`, or `None` if it is not a count.
    pub(crate) fn count_at(value: &Value, path: &str) -> Option<u64> {
        value.pointer(path).and_then(Value::as_u64).filter(|count| *count <= MAX_PLAUSIBLE_TOKENS)
    }
}

/// A larger token count is not plausible and is ignored.
const MAX_PLAUSIBLE_TOKENS: u64 = 100_000_000;

/// The output of a decoder. It enforces the limits, counts the output and cleans text.
#[derive(Debug)]
pub(crate) struct DeltaBuffer {
    deltas: VecDeque<Delta>,
    token_counter: AnswerTokenCounter,
    bytes: usize,
    calls: usize,
    has_text: bool,
    call_ids: HashSet<String>,
    limits: ModelResponseLimits,
}

impl DeltaBuffer {
    pub(crate) fn new(limits: ModelResponseLimits) -> Self {
        Self {
            deltas: VecDeque::new(),
            token_counter: AnswerTokenCounter::default(),
            bytes: 0,
            calls: 0,
            has_text: false,
            call_ids: HashSet::new(),
            limits,
        }
    }

    /// Adds text.
    pub(crate) fn push_text(&mut self, text: impl Into<String>) -> Result<(), ModelError> {
        let text = replace_nul(text.into());
        if text.is_empty() {
            return Ok(());
        }
        self.has_text = true;
        self.push(text.len(), Delta::Text { text })
    }

    /// Adds text that is put together here and that no model wrote, so that nobody pays for it.
    pub(crate) fn push_uncounted_text(&mut self, text: String) -> Result<(), ModelError> {
        self.check_room_for(text.len())?;
        (self.bytes, self.has_text) = (self.bytes + text.len(), true);
        self.deltas.push_back(Delta::Text { text });
        Ok(())
    }

    /// Adds reasoning text, or the end of a reasoning block with the vendor's signature.
    pub(crate) fn push_reasoning(
        &mut self,
        text: impl Into<String>,
        signature: Option<String>,
    ) -> Result<(), ModelError> {
        let text = replace_nul(text.into());
        if text.is_empty() && signature.is_none() {
            return Ok(());
        }
        let bytes = text.len() + signature.as_ref().map_or(0, String::len);
        self.push(bytes, Delta::Reasoning { text, signature })
    }

    /// Adds a complete tool call. An id that is missing or already used is replaced, so that ids are unique.
    pub(crate) fn push_tool_call(&mut self, mut call: ToolCall) -> Result<(), ModelError> {
        self.calls += 1;
        if self.calls > self.limits.tool_calls {
            let reason = format!("more than {} tool calls in one answer", self.limits.tool_calls);
            return Err(ModelError::LimitExceeded { reason });
        }
        call.id = replace_nul(call.id);
        if call.id.is_empty() {
            call.id = format!("call-{}", random_hex_id());
        }
        if !self.call_ids.insert(call.id.clone()) {
            call.id = format!("{}-{}", call.id, self.calls);
            self.call_ids.insert(call.id.clone());
        }
        self.push(call.arguments.to_string().len(), Delta::ToolCall(call))
    }

    /// Checks that this many bytes that are still held back would fit.
    pub(crate) fn check_room_for(&self, bytes: usize) -> Result<(), ModelError> {
        if self.bytes + bytes > self.limits.answer_bytes {
            let reason = format!("the answer has more than {} bytes", self.limits.answer_bytes);
            return Err(ModelError::LimitExceeded { reason });
        }
        Ok(())
    }

    fn push(&mut self, bytes: usize, delta: Delta) -> Result<(), ModelError> {
        self.check_room_for(bytes)?;
        self.bytes += bytes;
        self.token_counter.add_delta(&delta);
        self.deltas.push_back(delta);
        Ok(())
    }

    /// Returns the next delta.
    pub(super) fn pop(&mut self) -> Option<Delta> {
        self.deltas.pop_front()
    }

    /// Adds the end, if the answer may end like this.
    pub(super) fn push_done(
        &mut self,
        ending: &AnswerEnding,
        request: &ChatRequest,
    ) -> Result<(), ModelError> {
        let Some(finish) = ending.finish else {
            return Err(ModelError::Broken { reason: "it ended without saying so".into() });
        };
        // Servers report different finish reasons for answers with tool calls, so the content decides.
        let finish = match finish {
            FinishReason::Stop | FinishReason::ToolCalls if self.calls > 0 => FinishReason::ToolCalls,
            FinishReason::ToolCalls => FinishReason::Stop,
            other => other,
        };
        if !self.has_text && self.calls == 0 && matches!(finish, FinishReason::Stop | FinishReason::Other) {
            return Err(ModelError::Empty { reason: "neither words nor tool calls".into() });
        }
        let usage = plausible_usage(&ending.reported, || self.token_counter.usage(request));
        self.deltas.push_back(Delta::Done { usage, finish });
        Ok(())
    }
}

/// Returns the vendor's counts if they are plausible, otherwise an estimate, which has to read the whole request.
fn plausible_usage(reported: &ReportedUsage, own: impl FnOnce() -> Usage) -> Usage {
    let (input, output) = match (reported.input, reported.output) {
        (Some(input @ 1..), Some(output @ 1..)) => (input, output),
        (input, output) => {
            let own = own();
            let believable = |count: Option<u64>, own: u64| count.filter(|count| *count > 0 || own == 0);
            match (believable(input, own.input_tokens), believable(output, own.output_tokens)) {
                (Some(input), Some(output)) => (input, output),
                _ => return own,
            }
        }
    };
    Usage {
        input_tokens: input,
        cached_tokens: reported.cached.unwrap_or(0).min(input),
        cache_written_tokens: reported.cache_written.unwrap_or(0).min(input),
        output_tokens: output,
        reasoning_tokens: reported.reasoning.unwrap_or(0).min(output),
        counted: TokenCountSource::Reported,
        cost_micros: None,
    }
}

/// Replaces NUL characters, which some stores reject.
fn replace_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Returns a short random id.
fn random_hex_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    let state = std::collections::hash_map::RandomState::new();
    format!("{:012x}", state.build_hasher().finish() & 0xffff_ffff_ffff)
}

/// Parses vendor JSON. A lone surrogate, which no string can hold, becomes U+FFFD.
pub(crate) fn parse_vendor_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ModelError> {
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(mended) = without_lone_surrogates(text)
        && let Ok(value) = serde_json::from_str(&mended)
    {
        return Ok(value);
    }
    Err(ModelError::Broken {
        reason: format!("a piece of it could not be read: {}", json_error_position(&error)),
    })
}

/// Describes where and how parsing failed, without quoting the vendor's bytes.
fn json_error_position(error: &serde_json::Error) -> String {
    format!("{:?} at line {} column {}", error.classify(), error.line(), error.column()).to_lowercase()
}

fn without_lone_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    let unit = |text: &str| u16::from_str_radix(text.get(2..6)?, 16).ok();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let length = match escape.as_bytes().get(1) {
            Some(b'u') => match unit(escape) {
                Some(0xd800..=0xdbff)
                    if escape.get(6..8) == Some("\\u")
                        && matches!(unit(&escape[6..]), Some(0xdc00..=0xdfff)) =>
                {
                    12
                }
                Some(0xd800..=0xdfff) => {
                    mended.push('\u{fffd}');
                    rest = &escape[6..];
                    changed = true;
                    continue;
                }
                Some(_) => 6,
                None => 2,
            },
            Some(_) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
            None => 1,
        };
        mended.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    mended.push_str(rest);
    changed.then_some(mended)
}

impl From<SseEventTooLong> for ModelError {
    fn from(_: SseEventTooLong) -> Self {
        Self::LimitExceeded { reason: "one piece of the answer is larger than is taken in".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_a_whole_one_kept() {
        let read = |text: &str| parse_vendor_json::<String>(text).map_err(|error| error.to_string());
        assert_eq!(read(r#""a\ud800b""#).as_deref(), Ok("a\u{fffd}b"));
        assert_eq!(read(r#""\udc00\ud83c\udf89\ud83d""#).as_deref(), Ok("\u{fffd}🎉\u{fffd}"));
        assert_eq!(read(r#""\\ud800""#).as_deref(), Ok("\\ud800"));
        assert_eq!(
            read(r#""\ud800"#).expect_err("cut"),
            "the answer of the model broke off: a piece of it could not be read: eof at line 1 column 7"
        );
        assert!(read("{garbage").is_err());
    }

    #[test]
    fn counts_that_cannot_be_true_give_way_to_our_own() {
        let own = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        let tokens = |input, output| {
            plausible_usage(&ReportedUsage { input, output, ..ReportedUsage::default() }, || own)
        };
        assert_eq!(tokens(Some(9), Some(4)).counted, TokenCountSource::Reported);
        for (input, output) in [(None, Some(4)), (Some(9), None), (Some(0), Some(4)), (Some(9), Some(0))] {
            assert_eq!(tokens(input, output), own, "{input:?} {output:?}");
        }
        for json in ["-5", "1e30", "\"7\"", "3.5", "999999999999"] {
            let usage: Value = serde_json::from_str(&format!("{{\"n\":{json}}}")).expect("json");
            assert_eq!(ReportedUsage::count_at(&usage, "/n"), None, "{json}");
        }
        let generous = ReportedUsage {
            input: Some(9),
            output: Some(4),
            cached: Some(50),
            reasoning: Some(50),
            ..ReportedUsage::default()
        };
        let usage = plausible_usage(&generous, || own);
        assert_eq!((usage.cached_tokens, usage.reasoning_tokens), (9, 4));
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let mut out = DeltaBuffer::new(ModelResponseLimits::default());
        for id in ["a", "a", "", ""] {
            let call = ToolCall { id: id.into(), name: "t".into(), arguments: Value::Null };
            out.push_tool_call(call).expect("room");
        }
        let ids: HashSet<String> = out
            .deltas
            .iter()
            .map(|delta| match delta {
                Delta::ToolCall(call) => call.id.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.contains("a") && !ids.contains(""));
    }

    #[test]
    fn a_nul_goes_no_further() {
        let mut out = DeltaBuffer::new(ModelResponseLimits::default());
        out.push_text("a\0b").expect("room");
        assert_eq!(out.deltas[0], Delta::Text { text: "a\u{fffd}b".into() });
    }
}
