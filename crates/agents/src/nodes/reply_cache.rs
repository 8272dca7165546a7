//! Caches replies at temperature 0.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::NodeError;
use doran_llm::{ChatRequest, ModelReply, RequestLabel};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::ask_model::{Models, ReplyVisibility, permanent_error};
use super::node_work::NodeWork;
use crate::protocol::{CachedReplyNote, ModelCallNote};

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

    /// As [`NodeWork::ask`] without words, unless the same request was sent before. What is worth keeping is for the caller to
    /// say, with the key that comes along.
    pub(crate) async fn ask_cached(
        cache: Option<&Self>,
        work: &NodeWork,
        models: &Models,
        request: ChatRequest,
    ) -> Result<(ModelReply, Option<CacheKey>), NodeError> {
        let name = models.for_role(request.role, &work.chosen).map_err(permanent_error)?.info().name;
        // Replies are kept per tenant, so a run of nobody has none.
        let key = match (cache, work.cx.tenant()) {
            (Some(_), Some(tenant)) if request.temperature == Some(0.0) => {
                reply_cache_key(tenant.as_str(), &request, &name)
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
            let (purpose, finish) = (request.purpose, reply.finish);
            let note = CachedReplyNote { name, purpose, finish, cached: true };
            work.note_model_call(ModelCallNote::FromCache(note));
            return Ok((reply, None));
        }
        Ok((work.ask(models, request, ReplyVisibility::Hidden).await?, Some(key)))
    }

    fn get(&self, key: &CacheKey) -> Option<ModelReply> {
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.get(key).filter(|(since, _)| since.elapsed() < self.lifetime).map(|(_, reply)| reply.clone())
    }

    /// Keeps a reply for later.
    pub(crate) fn insert(&self, key: CacheKey, reply: ModelReply) {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.len() >= MAX_CACHED_REPLIES
            && let Some(oldest) = replies.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key)
        {
            replies.remove(&oldest);
        }
        replies.insert(key, (Instant::now(), reply));
    }
}

fn reply_cache_key(tenant: &str, request: &ChatRequest, model: &str) -> Option<CacheKey> {
    let mut hash = Sha256::new();
    hash.update(tenant.as_bytes());
    hash.update([0]);
    hash.update(model.as_bytes());
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
