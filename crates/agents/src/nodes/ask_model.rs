//! Sends a request to a model: the reply is recorded, streamed, counted and noted. Requests are retried here and, where a node can do
//! without the reply, in `brief_request`.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::NodeError;
use doran_engine::store::RunUsage;
use doran_llm::{
    ChatModel, ChatRequest, ModelError, ModelInfo, ModelKind, ModelReply, ModelRetryPolicy, ModelRole,
    RequestLabel,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::call_trace::CallTrace;
use super::context_window::halve_request;
use super::model_request::RequestLog;
use super::node_work::NodeWork;
use super::reply_hints::hint_after_empty_reply;
use crate::protocol::{ModelCallNote, ModelRequestNote, UnfinishedRequestNote, request_digest};
use crate::state::ModelChoice;

/// A model for each role.
#[derive(Clone)]
pub struct Models {
    /// Writes what a person reads.
    pub main: Arc<dyn ChatModel>,
    /// Decides quickly.
    pub small: Arc<dyn ChatModel>,
    /// How often a request that failed is sent again.
    pub retries: ModelRetryPolicy,
    /// Models that a turn may choose instead.
    pub catalog: Option<Arc<dyn ModelCatalog>>,
}

/// Models that a turn may choose by name.
pub trait ModelCatalog: Send + Sync + 'static {
    /// The model of this name.
    fn open(&self, name: &str) -> Result<Arc<dyn ChatModel>, ModelError>;
}

impl Models {
    /// One model for everything.
    pub fn single(model: Arc<dyn ChatModel>) -> Self {
        Self { main: model.clone(), small: model, retries: ModelRetryPolicy::default(), catalog: None }
    }

    /// The model for a role in a turn. A chosen model also decides where there is no other one for that.
    pub(super) fn for_role(
        &self,
        role: ModelRole,
        chosen: &ModelChoice,
    ) -> Result<Arc<dyn ChatModel>, ModelError> {
        let own = match role {
            ModelRole::Main => &self.main,
            ModelRole::Small => &self.small,
        };
        match &chosen.model {
            Some(name) if Arc::ptr_eq(own, &self.main) => match &self.catalog {
                Some(catalog) => catalog.open(name),
                None => Err(ModelError::Rejected { reason: format!("there is no model `{name}` to choose") }),
            },
            Some(_) | None => Ok(own.clone()),
        }
    }
}

impl Models {
    /// How many passages are looked up for a question unless settings say otherwise. A model that quotes reads more of them
    /// at no cost.
    pub(crate) fn default_passages(&self, chosen: &ModelChoice) -> usize {
        match self.for_role(ModelRole::Main, chosen).map(|model| model.info().kind) {
            Ok(ModelKind::Extractive) => 12,
            // A model that cannot be opened fails when it is asked.
            Ok(ModelKind::Language) | Err(_) => 4,
        }
    }
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Models({}, {})", self.main.info().name, self.small.info().name)
    }
}

/// Whether the words of a reply are for the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyVisibility {
    Shown,
    Hidden,
}

/// What is recorded of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RecordedModelReply {
    reply: ModelReply,
    ms: u64,
    /// The digest of the request that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<CallTrace>,
    /// The requests before the one that was answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unfinished: Vec<UnfinishedRequestNote>,
}

impl NodeWork {
    /// The reply to a request. A failure that may pass is followed by another request, after the time that the vendor
    /// asked for, as long as no word of the reply has come; see [`ModelRetryPolicy`]. Any other failure is final: the
    /// engine does not run the node again for it. A request that is too long for the model is sent in half the length,
    /// for as long as there is something to leave out. After an empty reply the model gets a hint.
    pub(crate) async fn ask(
        &self,
        models: &Models,
        request: ChatRequest,
        words: ReplyVisibility,
    ) -> Result<ModelReply, NodeError> {
        let model = &models.for_role(request.role, &self.chosen).map_err(permanent_error)?;
        let (purpose, role) = (request.purpose.clone(), request.role);
        let call = async {
            self.cx.check_may_spend()?;
            let mut log = RequestLog::new(self, model, &request);
            let (started, mut failures, mut request) = (Instant::now(), 0, request);
            let mut hinted = false;
            loop {
                let sent = Instant::now();
                let error = match log.send(&request, words).await {
                    Ok(reply) => {
                        let (unfinished, ms) = (log.take_unfinished(), duration_millis(sent.elapsed()));
                        let request = Some(request_digest(&request));
                        let trace = log.take_trace();
                        return Ok(RecordedModelReply { reply, ms, request, trace, unfinished });
                    }
                    Err(error) => error,
                };
                if let ModelError::TooLong { .. } = error
                    && let Some(shorter) = halve_request(&request, self.language)
                {
                    tracing::warn!(%error, "the request is too long for the model; sending half of it");
                    request = shorter;
                    continue;
                }
                failures += 1;
                let wait = models.retries.wait_before_next(failures, started.elapsed(), &error);
                let Some(wait) = wait.filter(|_| !log.has_answer_begun()) else {
                    return Err(permanent_error(error));
                };
                tracing::info!(
                    code = error.code(),
                    wait_ms = duration_millis(wait),
                    "the request to the model failed; retrying"
                );
                tokio::time::sleep(wait).await;
                self.cx.heartbeat();
                if matches!(error, ModelError::Empty { .. }) && !hinted {
                    (request, hinted) = (hint_after_empty_reply(request, self.language), true);
                }
            }
        };
        let RecordedModelReply { reply, ms, request, trace, unfinished } =
            self.cx.closing_effect("model", call).await?;
        for request in unfinished {
            self.record_unfinished(request)?;
        }
        self.record_usage(&model.info(), (&purpose, role), &reply, ms, (request, trace))?;
        Ok(reply)
    }

    /// Notes a request that brought no reply, and counts what it is estimated to have taken.
    pub(super) fn record_unfinished(&self, request: UnfinishedRequestNote) -> Result<(), NodeError> {
        let usage = RunUsage {
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            cost_micros: request.cost_micros.unwrap_or(0),
        };
        self.note_model_call(ModelCallNote::Unfinished(request));
        if usage.is_zero() { Ok(()) } else { self.cx.spend(usage) }
    }

    /// Notes what a reply took, and counts it against the limits of the run.
    pub(super) fn record_usage(
        &self,
        about: &ModelInfo,
        (purpose, role): (&RequestLabel, ModelRole),
        reply: &ModelReply,
        ms: u64,
        (request, trace): (Option<String>, Option<CallTrace>),
    ) -> Result<(), NodeError> {
        self.note_model_call(ModelCallNote::Asked(ModelRequestNote {
            name: about.name.clone(),
            kind: about.kind,
            purpose: purpose.clone(),
            role,
            finish: reply.finish,
            input_tokens: reply.usage.input_tokens,
            output_tokens: reply.usage.output_tokens,
            cached_tokens: reply.usage.cached_tokens,
            cost_micros: reply.usage.cost_micros,
            counted: reply.usage.counted,
            ms,
            request,
            at: trace.as_ref().map(|trace| trace.at),
            span: trace.map(|trace| trace.span),
        }));
        self.cx.spend(RunUsage {
            input_tokens: reply.usage.input_tokens,
            output_tokens: reply.usage.output_tokens,
            // What a model without a known price costs is in no sum; its note says so.
            cost_micros: reply.usage.cost_micros.unwrap_or(0),
        })
    }
}

/// The engine does not run a node again for it.
pub(super) fn permanent_error(error: ModelError) -> NodeError {
    let code = error.kind().failure_code();
    NodeError::permanent(error).with_code(code)
}

pub(super) fn duration_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
