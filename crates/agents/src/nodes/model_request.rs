//! One request to a model. Every request that is sent is accounted for, however it ends: answered, failed, or dropped because the
//! run was stopped.

use std::sync::Arc;
use std::time::Duration;

use doran_llm::{
    AnswerTokenCounter, ChatModel, ChatRequest, Delta, FinishReason, ModelError, ModelReply, ReplyCollector,
    RequestLabel, Usage,
};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::ask_model::{ReplyVisibility, duration_millis};
use super::call_trace::CallTrace;
use super::node_work::NodeWork;
use crate::protocol::UnfinishedRequestNote;

/// A model that says nothing for so long will not say anything. Longer than the five minutes that a local one gets for
/// its first word.
const MODEL_SILENCE_TIMEOUT: Duration = Duration::from_secs(330);

/// What the note of a request says that was dropped before its end.
const STOPPED: &str = "stopped";

/// The requests of one call. Those without a reply are noted when it is dropped, unless they were taken.
pub(super) struct RequestLog<'a> {
    work: &'a NodeWork,
    model: &'a Arc<dyn ChatModel>,
    purpose: RequestLabel,
    role: doran_llm::ModelRole,
    unfinished: Vec<UnfinishedRequestNote>,
    in_flight: Option<RequestInFlight>,
    last_trace: Option<CallTrace>,
    answer_begun: bool,
    /// A reply that goes on longer is an error.
    pub(super) max_reply_bytes: usize,
}

struct RequestInFlight {
    request: ChatRequest,
    sent: Instant,
    trace: CallTrace,
    counter: AnswerTokenCounter,
}

impl<'a> RequestLog<'a> {
    pub(super) fn new(work: &'a NodeWork, model: &'a Arc<dyn ChatModel>, request: &ChatRequest) -> Self {
        Self {
            work,
            model,
            purpose: request.purpose.clone(),
            role: request.role,
            unfinished: Vec::new(),
            in_flight: None,
            last_trace: None,
            answer_begun: false,
            max_reply_bytes: usize::MAX,
        }
    }

    /// Sends one request. Its words are shown as they come, blanks in front only together with a word. A reply without
    /// its end, or without anything in it, is an error and never a short answer.
    pub(super) async fn send(
        &mut self,
        request: &ChatRequest,
        words: ReplyVisibility,
    ) -> Result<ModelReply, ModelError> {
        let trace = CallTrace::begin(&self.work.cx);
        self.in_flight = Some(RequestInFlight {
            request: request.clone(),
            sent: Instant::now(),
            trace: trace.clone(),
            counter: AnswerTokenCounter::default(),
        });
        self.last_trace = Some(trace.clone());
        let outcome = trace.scope(self.collect_reply(request, words)).await;
        match &outcome {
            Ok(_) => self.in_flight = None,
            Err(error) => self.end_request(error.code(), is_billed(error)),
        }
        outcome
    }

    async fn collect_reply(
        &mut self,
        request: &ChatRequest,
        words: ReplyVisibility,
    ) -> Result<ModelReply, ModelError> {
        let tenant = self.work.cx.tenant().map(ToString::to_string);
        let mut deltas = self.model.stream(ChatRequest { tenant, ..request.clone() });
        let mut collector = ReplyCollector::default();
        let (mut blanks, mut bytes) = (String::new(), 0);
        loop {
            let next = tokio::time::timeout(MODEL_SILENCE_TIMEOUT, deltas.next()).await;
            let Some(delta) = next.map_err(|_| silence_error())? else {
                return Err(ModelError::Broken { reason: "it ended without saying so".into() });
            };
            let delta = delta?;
            if let Some(in_flight) = &mut self.in_flight {
                in_flight.counter.add_delta(&delta);
            }
            if let Delta::Text { text } | Delta::Reasoning { text, .. } = &delta {
                bytes += text.len();
            }
            if bytes > self.max_reply_bytes {
                let reason = format!("its reply was over {} bytes", self.max_reply_bytes);
                return Err(ModelError::LimitExceeded { reason });
            }
            self.work.cx.heartbeat();
            match &delta {
                Delta::Text { text } if !self.answer_begun && text.trim().is_empty() => blanks.push_str(text),
                Delta::Text { text } => {
                    self.answer_begun = true;
                    if words == ReplyVisibility::Shown {
                        self.work.show_reply_text(std::mem::take(&mut blanks) + text);
                    }
                }
                Delta::ToolCall(_) => self.answer_begun = true,
                Delta::Reasoning { .. } | Delta::Done { .. } => {}
            }
            if let Some(reply) = collector.add_delta(delta) {
                return check_not_empty(reply);
            }
        }
    }

    /// Whether a word of a reply, or a call of a tool, has come. What a person may have seen is not requested again.
    pub(super) fn has_answer_begun(&self) -> bool {
        self.answer_begun
    }

    /// Ends the request in flight, if there is one: nobody waits for its reply any more.
    pub(super) fn stop(&mut self) {
        self.end_request(STOPPED, true);
    }

    /// Where the newest request stands in the trace of the run.
    pub(super) fn take_trace(&mut self) -> Option<CallTrace> {
        self.last_trace.take()
    }

    /// The requests that brought no reply. They are the caller's to note.
    pub(super) fn take_unfinished(&mut self) -> Vec<UnfinishedRequestNote> {
        std::mem::take(&mut self.unfinished)
    }

    /// Ends the request in flight, with an estimate of what it took if the vendor has worked on it.
    fn end_request(&mut self, reason: &str, billed: bool) {
        let Some(RequestInFlight { request, sent, trace, counter }) = self.in_flight.take() else { return };
        let usage = if billed || self.answer_begun { counter.usage(&request) } else { Usage::default() };
        let about = self.model.info();
        self.unfinished.push(UnfinishedRequestNote {
            name: about.name,
            kind: about.kind,
            purpose: self.purpose.clone(),
            role: self.role,
            unfinished: reason.to_owned(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_micros: self.model.cost_micros(self.role, &usage),
            counted: usage.counted,
            ms: duration_millis(sent.elapsed()),
            at: Some(trace.at),
            span: Some(trace.span),
        });
    }
}

impl Drop for RequestLog<'_> {
    fn drop(&mut self) {
        self.stop();
        for request in self.take_unfinished() {
            if let Err(error) = self.work.record_unfinished(request) {
                // The run ends anyway: its last request failed or it was stopped.
                tracing::debug!(%error, "a request that failed reached a limit of the run");
            }
        }
    }
}

/// Whether the vendor took the request and began to work on it, as far as an error tells.
fn is_billed(error: &ModelError) -> bool {
    match error {
        ModelError::Broken { .. }
        | ModelError::Empty { .. }
        | ModelError::Filtered { .. }
        | ModelError::LimitExceeded { .. } => true,
        ModelError::Unavailable { .. }
        | ModelError::Unreachable { .. }
        | ModelError::RateLimited { .. }
        | ModelError::Unauthorized { .. }
        | ModelError::OutOfCredit { .. }
        | ModelError::TooLong { .. }
        | ModelError::Rejected { .. }
        | ModelError::NotRecorded { .. } => false,
    }
}

fn check_not_empty(reply: ModelReply) -> Result<ModelReply, ModelError> {
    let empty = reply.text.trim().is_empty() && reply.tool_calls.is_empty();
    match reply.finish {
        FinishReason::Filtered if empty => {
            Err(ModelError::Filtered { reason: "the vendor held the answer back".into() })
        }
        _ if empty => Err(ModelError::Empty { reason: "it had neither words nor tool calls".into() }),
        _ => Ok(reply),
    }
}

fn silence_error() -> ModelError {
    ModelError::Broken { reason: format!("it said nothing for {} seconds", MODEL_SILENCE_TIMEOUT.as_secs()) }
}
