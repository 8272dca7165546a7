//! A model that returns scripted replies and records the requests.
//!
//! Replies are used in order. When no reply is left, the request fails with an error that names it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{StreamExt, stream};
use serde::Serialize;

use crate::message::ToolCall;
use crate::model::{
    ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelError, ModelInfo, ModelKind, Usage,
};
use crate::request_label::RequestLabel;
use crate::token_estimate;

/// One reply of a script.
#[derive(Debug, Default)]
pub struct ScriptedReply {
    deltas: Vec<Delta>,
    calls: usize,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    ending: ScriptedReplyEnding,
}

#[derive(Debug, Default)]
enum ScriptedReplyEnding {
    #[default]
    Done,
    Failure(ModelError),
    Hangs,
    StopsShort,
}

impl ScriptedReply {
    /// A text reply, streamed word by word, with the space after each word.
    pub fn text(text: impl AsRef<str>) -> Self {
        let words = text.as_ref().split_inclusive(char::is_whitespace);
        let deltas = words.map(|word| Delta::Text { text: word.into() }).collect();
        Self { deltas, ..Self::default() }
    }

    /// A JSON reply.
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Self::text(text),
            Err(error) => {
                Self::failure(ModelError::Rejected { reason: format!("the script is not JSON: {error}") })
            }
        }
    }

    /// A tool call. Its id is `call-1`, `call-2`, … within the reply.
    pub fn call(name: impl Into<String>, arguments: serde_json::Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// An error instead of a reply.
    pub fn failure(error: ModelError) -> Self {
        Self { ending: ScriptedReplyEnding::Failure(error), ..Self::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: serde_json::Value) -> Self {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        self.deltas.push(Delta::ToolCall(ToolCall { id, name: name.into(), arguments }));
        self
    }

    /// Sets the reported usage, instead of an estimate.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the finish reason, instead of `stop` or `tool_calls`.
    #[must_use]
    pub fn finish(mut self, finish: FinishReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Ends the stream with an error.
    #[must_use]
    pub fn then_fails(mut self, error: ModelError) -> Self {
        self.ending = ScriptedReplyEnding::Failure(error);
        self
    }

    /// Never ends the stream: it stalls.
    #[must_use]
    pub fn then_hangs(mut self) -> Self {
        self.ending = ScriptedReplyEnding::Hangs;
        self
    }

    /// Ends the stream without a final event, as a lost connection does.
    #[must_use]
    pub fn then_stops_short(mut self) -> Self {
        self.ending = ScriptedReplyEnding::StopsShort;
        self
    }

    fn into_stream(self, request: &ChatRequest) -> DeltaStream {
        let usage = self.usage.unwrap_or_else(|| token_estimate::estimate_usage(request, &self.deltas));
        let finish =
            self.finish.unwrap_or(if self.calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop });
        let body = stream::iter(self.deltas.into_iter().map(Ok));
        match self.ending {
            ScriptedReplyEnding::Done => {
                body.chain(stream::iter([Ok(Delta::Done { usage, finish })])).boxed()
            }
            ScriptedReplyEnding::Failure(error) => body.chain(stream::iter([Err(error)])).boxed(),
            ScriptedReplyEnding::Hangs => body.chain(stream::pending()).boxed(),
            ScriptedReplyEnding::StopsShort => body.boxed(),
        }
    }
}

/// A model that returns scripted replies and records the requests. Clones share both.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    name: String,
    shared: Arc<Mutex<ScriptedModelState>>,
}

#[derive(Debug)]
struct ScriptedModelState {
    replies: VecDeque<ScriptedReply>,
    requests: Vec<ChatRequest>,
}

impl ScriptedModel {
    /// Creates a model that returns these replies in order.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let shared = ScriptedModelState { replies: replies.into_iter().collect(), requests: Vec::new() };
        Self { name: "scripted".into(), shared: Arc::new(Mutex::new(shared)) }
    }

    /// Sets the name of the model.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a reply after the remaining ones.
    pub fn push(&self, reply: ScriptedReply) {
        self.lock().replies.push_back(reply);
    }

    /// Returns every request so far, in order.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.lock().requests.clone()
    }

    /// Returns the purposes of the requests so far, to check which model calls a turn made.
    pub fn purposes(&self) -> Vec<RequestLabel> {
        self.lock().requests.iter().map(|request| request.purpose.clone()).collect()
    }

    /// Returns the number of replies that were not used yet.
    pub fn remaining_replies(&self) -> usize {
        self.lock().replies.len()
    }

    fn lock(&self) -> MutexGuard<'_, ScriptedModelState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatModel for ScriptedModel {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            name: self.name.clone(),
            kind: ModelKind::Language,
            ko: "시험용 대본 모델입니다. 미리 적어 둔 답만 말합니다.".into(),
            en: "A scripted model for tests. It says only what was written down before.".into(),
            unsupported_settings: Vec::new(),
        }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let mut shared = self.lock();
        shared.requests.push(request.clone());
        let reply = shared.replies.pop_front();
        let number = shared.requests.len();
        drop(shared);
        match reply {
            Some(reply) => reply.into_stream(&request),
            None => {
                let reason =
                    format!("the script has no reply left for request {number} ({})", request.purpose);
                stream::iter([Err(ModelError::Rejected { reason })]).boxed()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::collect_reply;
    use crate::message::Message;

    fn ask(purpose: RequestLabel) -> ChatRequest {
        ChatRequest { purpose, ..ChatRequest::new(vec![Message::user("m1", "안녕?")]) }
    }

    #[tokio::test]
    async fn replies_come_in_order_and_requests_are_kept_exactly() {
        let model = ScriptedModel::new([
            ScriptedReply::text("하나 둘"),
            ScriptedReply::json(&json!({"route": "agent"})),
            ScriptedReply::call("calculator", json!({"x": 1})),
        ]);
        let first = collect_reply(model.stream(ask(RequestLabel::ANSWER))).await.expect("reply");
        let route = collect_reply(model.stream(ask(RequestLabel::new("route")))).await.expect("reply");
        let second = collect_reply(model.stream(ask(RequestLabel::ANSWER))).await.expect("reply");
        assert_eq!((first.text.as_str(), first.finish), ("하나 둘", FinishReason::Stop));
        assert_eq!(route.text, r#"{"route":"agent"}"#);
        assert_eq!((second.tool_calls[0].id.as_str(), second.finish), ("call-1", FinishReason::ToolCalls));
        assert_eq!(
            model.requests(),
            [ask(RequestLabel::ANSWER), ask(RequestLabel::new("route")), ask(RequestLabel::ANSWER)]
        );
        assert_eq!(model.remaining_replies(), 0);
    }

    #[tokio::test]
    async fn a_script_that_has_run_out_says_so() {
        let error = collect_reply(ScriptedModel::new([]).stream(ask(RequestLabel::new("plan"))))
            .await
            .expect_err("empty");
        assert_eq!(
            error.to_string(),
            "the model does not take the request: the script has no reply left for request 1 (plan)"
        );
    }

    #[tokio::test]
    async fn an_error_comes_after_the_words_before_it() {
        let broken = ModelError::Broken { reason: "reset".into() };
        let model = ScriptedModel::new([
            ScriptedReply::text("반쯤 온 ").then_fails(broken),
            ScriptedReply::text("반").then_stops_short(),
        ]);
        let mut stream = model.stream(ask(RequestLabel::ANSWER));
        assert!(matches!(stream.next().await, Some(Ok(Delta::Text { text })) if text == "반쯤 "));
        assert!(stream.next().await.is_some_and(|delta| delta.is_ok()));
        assert!(matches!(stream.next().await, Some(Err(ModelError::Broken { .. }))));
        let error = collect_reply(model.stream(ask(RequestLabel::ANSWER))).await.expect_err("no end");
        assert_eq!(error.code(), "truncated");
    }
}
