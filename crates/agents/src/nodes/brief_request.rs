//! Short requests on the way to an answer. One that fails costs its reply and nothing else: the node goes on without it.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::NodeError;
use doran_llm::{ChatModel, ChatRequest, ModelError, ModelReply, ModelRetryPolicy};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::ask_model::{ReplyVisibility, duration_millis};
use super::call_trace::CallTrace;
use super::model_request::RequestLog;
use super::node_work::NodeWork;
use crate::protocol::{UnfinishedRequestNote, request_digest};

/// A request that may fail, with its limits.
pub(super) struct BriefRequest<'a> {
    /// The name by which its reply is recorded.
    pub(super) effect: &'static str,
    pub(super) model: &'a Arc<dyn ChatModel>,
    pub(super) request: &'a ChatRequest,
    /// Nobody waits longer than this, retries included.
    pub(super) timeout: Duration,
    /// Bytes of a reply that are read; one that goes on is no reply to this request.
    pub(super) max_reply_bytes: usize,
    /// How often it is sent again; without this, never.
    pub(super) retries: Option<ModelRetryPolicy>,
}

/// What is recorded of a call: the reply, or why there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RecordedBriefReply {
    reply: Option<ModelReply>,
    failed: Option<String>,
    ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<CallTrace>,
    /// The requests without a reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unfinished: Vec<UnfinishedRequestNote>,
}

impl NodeWork {
    /// The reply, or why there is none. It is recorded, counted and noted either way. An error is one of the run: it may not
    /// spend any more.
    pub(super) async fn ask_briefly(
        &self,
        asked: BriefRequest<'_>,
    ) -> Result<Result<ModelReply, String>, NodeError> {
        let BriefRequest { effect, model, request, timeout, max_reply_bytes, retries } = asked;
        let call = async {
            self.cx.check_may_spend()?;
            let (started, mut log) = (Instant::now(), RequestLog::new(self, model, request));
            log.max_reply_bytes = max_reply_bytes;
            let reply = send_with_retries(&mut log, request, retries);
            let (reply, failed) = match tokio::time::timeout(timeout, reply).await {
                Ok(Ok(reply)) => (Some(reply), None),
                Ok(Err(error)) => (None, Some(error.to_string())),
                Err(_) => (None, Some(format!("no reply within {} seconds", timeout.as_secs()))),
            };
            log.stop();
            let (unfinished, ms) = (log.take_unfinished(), duration_millis(started.elapsed()));
            let trace = log.take_trace();
            Ok::<_, NodeError>(RecordedBriefReply { reply, failed, ms, trace, unfinished })
        };
        let RecordedBriefReply { reply, failed, ms, trace, unfinished } =
            self.cx.effect(effect, call).await?;
        for request in unfinished {
            self.record_unfinished(request)?;
        }
        let Some(reply) = reply else { return Ok(Err(failed.unwrap_or_default())) };
        let (purpose, digest) = (&request.purpose, Some(request_digest(request)));
        self.record_usage(&model.info(), (purpose, request.role), &reply, ms, (digest, trace))?;
        Ok(Ok(reply))
    }
}

async fn send_with_retries(
    log: &mut RequestLog<'_>,
    request: &ChatRequest,
    retries: Option<ModelRetryPolicy>,
) -> Result<ModelReply, ModelError> {
    let (began, mut sent) = (Instant::now(), 0);
    loop {
        sent += 1;
        let error = match log.send(request, ReplyVisibility::Hidden).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let wait = retries.and_then(|retries| retries.wait_before_next(sent, began.elapsed(), &error));
        let Some(wait) = wait.filter(|_| !log.has_answer_begun()) else { return Err(error) };
        tokio::time::sleep(wait).await;
    }
}
