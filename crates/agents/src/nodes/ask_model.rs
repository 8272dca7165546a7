//! Asks a model: the reply is recorded, shown while it comes, counted and noted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::NodeError;
use doran_engine::store::RunUsage;
use doran_llm::{
    ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelError, ModelInfo, ModelReply, ModelRole,
    ReplyCollector, RequestLabel,
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::context_window::halve_request;
use super::node_work::NodeWork;
use crate::protocol::{CachedReplyNote, ModelCallNote, ModelRequestNote};

/// A model that says nothing for so long will not say anything. Longer than the five minutes that a local one gets for
/// its first word.
const MODEL_SILENCE_TIMEOUT: Duration = Duration::from_secs(330);

/// Whoever wants us to wait longer is as good as away.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How often a model is asked in all before it is taken to be away: what the engine does unless told otherwise.
pub(crate) const MAX_MODEL_ATTEMPTS: u32 = 3;

/// A model for each role.
#[derive(Clone)]
pub struct Models {
    /// Writes what a person reads.
    pub main: Arc<dyn ChatModel>,
    /// Decides quickly.
    pub small: Arc<dyn ChatModel>,
}

impl Models {
    /// One model for everything.
    pub fn single(model: Arc<dyn ChatModel>) -> Self {
        Self { main: model.clone(), small: model }
    }

    pub(super) fn for_role(&self, role: ModelRole) -> &Arc<dyn ChatModel> {
        match role {
            ModelRole::Main => &self.main,
            ModelRole::Small => &self.small,
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
}

impl NodeWork {
    /// The reply to a request. What may go away by itself is tried again by the engine, after the time the model asked
    /// for; what will not is the node's error. A request that is too long for the model is asked again in half the
    /// length, for as long as there is something to leave out.
    pub(crate) async fn ask(
        &self,
        models: &Models,
        request: ChatRequest,
        words: ReplyVisibility,
    ) -> Result<ModelReply, NodeError> {
        let model = models.for_role(request.role);
        let (purpose, role) = (request.purpose.clone(), request.role);
        let call = async {
            let begun = Instant::now();
            let mut request = request;
            loop {
                let error = match self.collect_reply(model.stream(request.clone()), words).await {
                    Ok(reply) => {
                        return Ok(RecordedModelReply { reply, ms: duration_millis(begun.elapsed()) });
                    }
                    Err(error) => error,
                };
                let next = match &error {
                    ModelError::TooLong { .. } => halve_request(&request, self.language),
                    _ => None,
                };
                let Some(next) = next else { return Err(model_node_error(error).await) };
                tracing::warn!(%error, "the request is sent again in half its length");
                request = next;
            }
        };
        let RecordedModelReply { reply, ms } = self.cx.closing_effect("model", call).await?;
        self.record_usage(&model.info(), (&purpose, role), &reply, ms)?;
        Ok(reply)
    }

    /// Notes what a reply took, and counts it against the limits of the run.
    pub(super) fn record_usage(
        &self,
        about: &ModelInfo,
        (purpose, role): (&RequestLabel, ModelRole),
        reply: &ModelReply,
        ms: u64,
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
        }));
        self.cx.spend(RunUsage {
            input_tokens: reply.usage.input_tokens,
            output_tokens: reply.usage.output_tokens,
            // What a model without a known price costs is in no sum; its note says so.
            cost_micros: reply.usage.cost_micros.unwrap_or(0),
        })
    }

    /// The whole reply, its words shown as they come. A reply without its end, or without anything in it, is an error
    /// and never a short answer.
    async fn collect_reply(
        &self,
        mut deltas: DeltaStream,
        words: ReplyVisibility,
    ) -> Result<ModelReply, ModelError> {
        let mut collector = ReplyCollector::default();
        loop {
            let next = tokio::time::timeout(MODEL_SILENCE_TIMEOUT, deltas.next()).await;
            let Some(delta) = next.map_err(|_| silence_error())? else {
                return Err(ModelError::Broken { reason: "it ended without saying so".into() });
            };
            let delta = delta?;
            match (&delta, words) {
                (Delta::Text { text }, ReplyVisibility::Shown) => self.cx.emit_text(text.clone()),
                _ => self.cx.heartbeat(),
            }
            if let Some(reply) = collector.add_delta(delta) {
                return check_not_empty(reply);
            }
        }
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
    ModelError::Unavailable {
        reason: format!("it said nothing for {} seconds", MODEL_SILENCE_TIMEOUT.as_secs()),
        retry_after: None,
        source: None,
    }
}

/// An error by what can be done about it, after the time that the model wants to be left alone.
async fn model_node_error(error: ModelError) -> NodeError {
    let code = error.kind().failure_code();
    let wait = error.retry_after();
    if !error.is_transient() || wait.is_some_and(|wait| wait > MAX_RETRY_AFTER) {
        return NodeError::permanent(error).with_code(code);
    }
    if let Some(wait) = wait {
        tokio::time::sleep(wait).await;
    }
    NodeError::transient(error).with_code(code)
}

pub(super) fn duration_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Names a request to a model.
pub(crate) type CacheKey = [u8; 32];

/// Replies at temperature 0, for as long as they may be used again. Kept in the process, per tenant.
#[derive(Debug)]
pub(crate) struct ReplyCache {
    lifetime: Duration,
    replies: Mutex<HashMap<CacheKey, (Instant, ModelReply)>>,
}

/// Most replies kept at a time; the oldest goes first.
const MAX_CACHED_REPLIES: usize = 1024;

impl ReplyCache {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { lifetime, replies: Mutex::default() }
    }

    /// As [`NodeWork::ask`] without words, unless the same was asked before. What is worth keeping is for the caller to
    /// say, with the key that comes along.
    pub(crate) async fn ask_cached(
        cache: Option<&Self>,
        work: &NodeWork,
        models: &Models,
        request: ChatRequest,
    ) -> Result<(ModelReply, Option<CacheKey>), NodeError> {
        // Replies are kept per tenant, so a run of nobody has none.
        let key = match (cache, work.cx.tenant()) {
            (Some(_), Some(tenant)) if request.temperature == Some(0.0) => {
                reply_cache_key(tenant.as_str(), &request, models)
            }
            _ => None,
        };
        let (Some(cache), Some(key)) = (cache, key) else {
            return Ok((work.ask(models, request, ReplyVisibility::Hidden).await?, None));
        };
        // Recorded, so that a node that runs again finds the cache as it was.
        let known = async { Ok::<_, NodeError>(cache.get(&key)) };
        let known: Option<ModelReply> = work.cx.effect("cached", known).await?;
        if let Some(reply) = known {
            let name = models.for_role(request.role).info().name;
            let (purpose, finish) = (request.purpose, reply.finish);
            let note = CachedReplyNote { name, purpose, finish, cached: true };
            work.note_model_call(ModelCallNote::FromCache(note));
            return Ok((reply, None));
        }
        Ok((work.ask(models, request, ReplyVisibility::Hidden).await?, Some(key)))
    }

    fn get(&self, key: &CacheKey) -> Option<ModelReply> {
        let kept = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|(since, _)| since.elapsed() < self.lifetime).map(|(_, reply)| reply.clone())
    }

    /// Keeps a reply for later.
    pub(crate) fn insert(&self, key: CacheKey, reply: ModelReply) {
        let mut kept = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_CACHED_REPLIES
            && let Some(oldest) = kept.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key)
        {
            kept.remove(&oldest);
        }
        kept.insert(key, (Instant::now(), reply));
    }
}

fn reply_cache_key(tenant: &str, request: &ChatRequest, models: &Models) -> Option<CacheKey> {
    let mut hash = Sha256::new();
    hash.update(tenant.as_bytes());
    hash.update([0]);
    hash.update(models.for_role(request.role).info().name.as_bytes());
    hash.update([0]);
    hash.update(serde_json::to_vec(&CacheKeyRequest::from_request(request)).ok()?);
    Some(hash.finalize().into())
}

/// A request without the ids of its messages, which differ from thread to thread.
#[derive(Serialize)]
struct CacheKeyRequest<'a> {
    messages: Vec<(doran_llm::Role, &'a [doran_llm::MessagePart])>,
    purpose: &'a RequestLabel,
    tools: &'a [doran_llm::ToolSpec],
    schema: &'a Option<doran_llm::ResponseSchema>,
}

impl<'a> CacheKeyRequest<'a> {
    fn from_request(request: &'a ChatRequest) -> Self {
        Self {
            messages: request
                .messages
                .iter()
                .map(|message| (message.role, message.parts.as_slice()))
                .collect(),
            purpose: &request.purpose,
            tools: &request.tools,
            schema: &request.schema,
        }
    }
}
