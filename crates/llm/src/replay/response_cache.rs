//! Caches complete answers in memory for a while, separately for each tenant. Only answers that would be the same again
//! are cached.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::fingerprint::request_fingerprint;
use super::mark_as_already_paid;
use crate::model::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, ModelRole};

/// The cache. It is shared by all tenants and models, which are part of its keys.
#[derive(Clone, Debug)]
pub struct ModelResponseCache {
    shared: Arc<Mutex<ModelResponseCacheState>>,
    lifetime: Duration,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct ModelResponseCacheState {
    entries: HashMap<String, CachedModelResponse>,
    order: VecDeque<(String, Instant)>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedModelResponse {
    deltas: Arc<[Delta]>,
    stored_at: Instant,
    bytes: usize,
}

impl ModelResponseCache {
    /// Creates an empty cache. Answers expire after `lifetime`, and together take at most `most_bytes`.
    pub fn new(lifetime: Duration, most_bytes: usize) -> Self {
        Self { shared: Arc::default(), lifetime, max_bytes: most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, ModelResponseCacheState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &str) -> Option<Arc<[Delta]>> {
        let shared = self.lock();
        let kept = shared.entries.get(key)?;
        (kept.stored_at.elapsed() < self.lifetime).then(|| kept.deltas.clone())
    }

    fn put(&self, key: String, deltas: Vec<Delta>) {
        let bytes = key.len() + deltas.iter().map(delta_bytes).sum::<usize>();
        if bytes > self.max_bytes {
            return;
        }
        let since = Instant::now();
        let mut shared = self.lock();
        let shared = &mut *shared;
        shared.bytes += bytes;
        shared.order.push_back((key.clone(), since));
        if let Some(old) =
            shared.entries.insert(key, CachedModelResponse { deltas: deltas.into(), stored_at: since, bytes })
        {
            shared.bytes -= old.bytes;
        }
        while let Some((oldest, its)) = shared.order.front() {
            let current = shared.entries.get(oldest).is_some_and(|kept| kept.stored_at == *its);
            let spent = its.elapsed() >= self.lifetime || shared.bytes > self.max_bytes;
            if current && !spent {
                break;
            }
            if let Some((oldest, _)) = shared.order.pop_front()
                && current
                && let Some(gone) = shared.entries.remove(&oldest)
            {
                shared.bytes -= gone.bytes;
            }
        }
    }
}

/// A model whose answers are cached for one tenant.
#[derive(Clone)]
pub struct CachedModel {
    inner: Arc<dyn ChatModel>,
    cache: ModelResponseCache,
    tenant: String,
}

impl CachedModel {
    /// Wraps a model. An answer is never returned to another tenant.
    pub fn new(inner: Arc<dyn ChatModel>, cache: ModelResponseCache, tenant: impl Into<String>) -> Self {
        Self { inner, cache, tenant: tenant.into() }
    }
}

impl ChatModel for CachedModel {
    fn info(&self) -> ModelInfo {
        self.inner.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.inner.info_for_role(role)
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        // With a temperature above zero the caller wants a new answer.
        if request.temperature != Some(0.0) {
            return self.inner.stream(request);
        }
        let name = self.inner.info_for_role(request.role).name;
        let key = request_fingerprint(&[&self.tenant, &name], &request);
        if let Some(kept) = self.cache.get(&key) {
            let deltas: Vec<_> = kept.iter().cloned().map(|delta| Ok(mark_as_already_paid(delta))).collect();
            return stream::iter(deltas).boxed();
        }
        let cache = self.cache.clone();
        let mut seen = Vec::new();
        let deltas = self.inner.stream(request).inspect(move |delta| {
            let Ok(delta) = delta else { return };
            seen.push(delta.clone());
            if let Delta::Done { finish: FinishReason::Stop | FinishReason::ToolCalls, .. } = delta {
                cache.put(key.clone(), std::mem::take(&mut seen));
            }
        });
        deltas.boxed()
    }
}

fn delta_bytes(delta: &Delta) -> usize {
    let inside = match delta {
        Delta::Text { text } => text.len(),
        Delta::Reasoning { text, signature } => text.len() + signature.as_ref().map_or(0, String::len),
        Delta::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.to_string().len(),
        Delta::Done { .. } => 0,
    };
    std::mem::size_of::<Delta>() + inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::scripted::{ScriptedModel, ScriptedReply};
    use crate::{ModelError, collect_reply};

    fn request(id: &str, temperature: Option<f32>) -> ChatRequest {
        ChatRequest { temperature, ..ChatRequest::new(vec![Message::user(id, "같은 질문")]) }
    }

    async fn ask_text(model: &CachedModel, request: ChatRequest) -> String {
        match collect_reply(model.stream(request)).await {
            Ok(reply) => reply.text,
            Err(error) => error.code().to_owned(),
        }
    }

    fn two_cached_models(scripts: Vec<ScriptedReply>, bytes: usize) -> (CachedModel, CachedModel) {
        let inner = Arc::new(ScriptedModel::new(scripts));
        let cache = ModelResponseCache::new(Duration::from_secs(60), bytes);
        (CachedModel::new(inner.clone(), cache.clone(), "갑"), CachedModel::new(inner, cache, "을"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_question_of_the_same_tenant_is_asked_once_in_its_lifetime() {
        let (ours, theirs) = two_cached_models(["하나", "둘", "셋"].map(ScriptedReply::text).into(), 100_000);
        assert_eq!(ask_text(&ours, request("a", Some(0.0))).await, "하나");
        assert_eq!(ask_text(&ours, request("b", Some(0.0))).await, "하나");
        assert_eq!(ask_text(&theirs, request("a", Some(0.0))).await, "둘", "another tenant");
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(ask_text(&ours, request("a", Some(0.0))).await, "셋", "too old");
    }

    #[tokio::test]
    async fn free_words_and_failures_are_not_kept() {
        let lost = ModelError::Broken { reason: "reset".into() };
        let scripts = vec![
            ScriptedReply::text("하나"),
            ScriptedReply::text("둘"),
            ScriptedReply::text("반").then_fails(lost),
            ScriptedReply::text("잘린").finish(FinishReason::Length),
            ScriptedReply::text("넷"),
        ];
        let (model, _) = two_cached_models(scripts, 100_000);
        assert_eq!(ask_text(&model, request("a", Some(0.7))).await, "하나");
        assert_eq!(ask_text(&model, request("a", None)).await, "둘");
        assert_eq!(ask_text(&model, request("a", Some(0.0))).await, "truncated");
        assert_eq!(ask_text(&model, request("a", Some(0.0))).await, "잘린");
        assert_eq!(ask_text(&model, request("a", Some(0.0))).await, "넷");
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let cache = ModelResponseCache::new(Duration::from_secs(60), 2_000);
        for number in 0..100 {
            cache.put(format!("{number}"), vec![Delta::Text { text: "가".repeat(100) }]);
            assert!(cache.lock().bytes <= 2_000);
        }
        assert!(cache.get("99").is_some() && cache.get("0").is_none(), "the oldest goes first");
        cache.put("huge".into(), vec![Delta::Text { text: "가".repeat(10_000) }]);
        assert!(cache.get("huge").is_none());
    }
}
