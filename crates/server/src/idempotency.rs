//! Requests that may be sent again. What a `POST` changed is answered once more from what was kept under the key that its
//! client gave, and nothing is done twice.
//!
//! A question to an agent is not kept here: the store knows the run that a key started, and the same key comes back to
//! that run. A key that is kept here is none of a question. Refusals are not kept either: once their reason is gone, the same request under the same key may be taken.
//! What is kept outlives the process, for a day, and of each tenant only so much.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use doran_engine::store::StoreError;
use doran_engine::{EngineError, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::Instrument;

use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};

/// How long an answer is kept: as long as the store knows the keys of runs.
const STORED_RESPONSE_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Requests with a key that work side by side. Those with the same key never do.
const LOCK_STRIPES: usize = 64;

/// The header by which a client repeats a request.
pub(crate) const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// Tells that an answer was given before.
const REPLAYED_HEADER: &str = "idempotent-replayed";

/// The key by which a client repeats a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY_HEADER) else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(key.to_owned()))
        }
        Ok(_) | Err(_) => Err(ApiError::with_message(
            ApiErrorCode::BadHeader,
            "`Idempotency-Key` takes 1 to 200 visible ASCII characters",
            "`Idempotency-Key`는 눈에 보이는 ASCII 문자 1~200자입니다",
        )),
    }
}

/// Refuses a key that stands for something else than a question, which the store keeps the keys of.
pub(crate) async fn check_key_unused(app: &ServerApp, tenant: &TenantId, key: &str) -> Result<(), ApiError> {
    match load_stored_response(app, tenant, &stored_response_name(key)).await? {
        Some(_) => Err(EngineError::from(StoreError::KeyReused(key.to_owned())).into()),
        None => Ok(()),
    }
}

/// Where the answer to the request with this key is kept.
fn stored_response_name(key: &str) -> String {
    format!("http-once/{}", sha256_of_parts(&[key.as_bytes()]))
}

async fn load_stored_response(
    app: &ServerApp,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<StoredResponse>, ApiError> {
    let kept = app.runtime.store().cached_value(tenant, name).await.map_err(EngineError::from)?;
    // What was forgotten is kept as nothing until it is cleared away.
    Ok(kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// What all requests with a key share.
#[derive(Clone, Default)]
pub(crate) struct IdempotencyCache(Arc<IdempotencyCacheState>);

struct IdempotencyCacheState {
    key_locks: [Arc<tokio::sync::Mutex<()>>; LOCK_STRIPES],
    /// What this process kept, oldest first.
    stored_names: Mutex<HashMap<TenantId, VecDeque<String>>>,
}

impl Default for IdempotencyCacheState {
    fn default() -> Self {
        Self { key_locks: std::array::from_fn(|_| Arc::default()), stored_names: Mutex::default() }
    }
}

impl IdempotencyCache {
    /// Where requests that end up under this name wait for each other.
    fn key_lock(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let number = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        self.0.key_locks[number % LOCK_STRIPES].clone()
    }

    /// Counts what was kept and gives what is to be forgotten for it.
    fn record_and_evict(&self, tenant: &TenantId, name: String, most: usize) -> Option<String> {
        let mut kept = self.0.stored_names.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = kept.entry(tenant.clone()).or_default();
        mine.push_back(name);
        (mine.len() > most).then(|| mine.pop_front()).flatten()
    }
}

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct StoredResponse {
    /// The hash of what was asked.
    asked: String,
    status: u16,
    body: Value,
}

/// A request as far as it can be known again.
pub(crate) struct IdempotentRequest {
    app: ServerApp,
    tenant: TenantId,
    key: Option<String>,
    /// Method, path and query, and with the body their hash.
    fingerprint: String,
}

impl FromRequestParts<ServerApp> for IdempotentRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &ServerApp) -> Result<Self, ApiError> {
        let tenant = ApiCaller::from_request_parts(parts, app).await?.tenant;
        let key = idempotency_key(&parts.headers)?;
        let what = format!("{} {}", parts.method, parts.uri);
        Ok(Self { app: app.clone(), tenant, key, fingerprint: what })
    }
}

impl IdempotentRequest {
    /// The key of the client.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// With the body it came with.
    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        if self.key.is_some() {
            self.fingerprint = sha256_of_parts(&[self.fingerprint.as_bytes(), body]);
        }
        self
    }

    /// The answer that was kept for this request, or what `act` comes to. With a key `act` is done to its end even when
    /// the client goes away in between, for it will ask again.
    pub(crate) async fn respond_once(
        self,
        act: impl Future<Output = Result<(StatusCode, Value), ApiError>> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let Some(key) = &self.key else {
            let (status, body) = act.await?;
            return Ok((status, Json(body)).into_response());
        };
        let asked = self.fingerprint.clone();
        let name = stored_response_name(key);
        let key = key.clone();
        let working = async move {
            let lane = self.app.idempotency.key_lock(&name);
            let _alone = lane.lock().await;
            if let Some(kept) = load_stored_response(&self.app, &self.tenant, &name).await? {
                return kept.replay(&asked, key);
            }
            let (status, body) = act.await?;
            let kept = StoredResponse { asked, status: status.as_u16(), body };
            self.store_response(name, &kept).await;
            Ok((status, Json(kept.body)).into_response())
        };
        let working = tokio::spawn(working.instrument(tracing::Span::current()));
        working.await.map_err(|error| {
            tracing::error!(%error, "a request that may be sent again failed");
            ApiError::from(ApiErrorCode::Internal)
        })?
    }

    /// What was done is done: an answer that could not be kept is given all the same.
    async fn store_response(&self, name: String, kept: &StoredResponse) {
        let store = self.app.runtime.store();
        let bytes = serde_json::to_vec(kept).unwrap_or_default();
        if let Err(error) =
            store.cache_value(&self.tenant, &name, &bytes, Some(STORED_RESPONSE_LIFETIME)).await
        {
            tracing::warn!(%error, "an answer could not be kept for its idempotency key");
            return;
        }
        let most = self.app.limits.max_stored_responses;
        if let Some(oldest) = self.app.idempotency.record_and_evict(&self.tenant, name, most)
            && let Err(error) = store.cache_value(&self.tenant, &oldest, b"", Some(Duration::ZERO)).await
        {
            tracing::warn!(%error, "an old answer could not be forgotten");
        }
    }
}

impl StoredResponse {
    fn replay(self, asked: &str, key: String) -> Result<Response, ApiError> {
        if self.asked != asked {
            return Err(EngineError::from(StoreError::KeyReused(key)).into());
        }
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut response = (status, Json(self.body)).into_response();
        response.headers_mut().insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
        Ok(response)
    }
}

/// The hash of these parts, whichever bytes they hold.
fn sha256_of_parts(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}
