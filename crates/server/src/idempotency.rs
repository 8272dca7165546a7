//! `Idempotency-Key`: a `POST` that a client repeats under the same key changes nothing again. It gets the stored response.
//!
//! Only successful responses are stored, so a refused request can be repeated under its key once the reason is gone. Stored
//! responses survive a restart. They expire after a day, and a tenant has at most
//! [`ServerLimits::max_stored_responses`](crate::ServerLimits::max_stored_responses).
//!
//! The key of a request that starts a run is stored with that run, not here.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use doran_engine::store::{IdempotencyStore, IdempotentResponse, ResponseRetention, StoreError};
use doran_engine::{EngineError, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::Instrument;

use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};

/// How long a response is stored: as long as the store knows the keys of runs.
const STORED_RESPONSE_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How many requests with a key can work at the same time. Those with the same key never do.
const LOCK_STRIPES: usize = 64;

/// The header by which a client repeats a request.
pub(crate) const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// Marks a response that was stored.
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

/// Rejects the key of a run that already has a stored response: it was used for another request.
pub(crate) async fn check_key_unused(app: &ServerApp, tenant: &TenantId, key: &str) -> Result<(), ApiError> {
    match app.idempotency.load(tenant, key).await? {
        Some(_) => Err(EngineError::from(StoreError::KeyReused(key.to_owned())).into()),
        None => Ok(()),
    }
}

/// The stored responses, and locks that make requests with the same key wait for each other.
#[derive(Clone)]
pub(crate) struct StoredResponses {
    store: Arc<dyn IdempotencyStore>,
    key_locks: Arc<[tokio::sync::Mutex<()>; LOCK_STRIPES]>,
}

impl StoredResponses {
    pub(crate) fn new(store: Arc<dyn IdempotencyStore>) -> Self {
        Self { store, key_locks: Arc::new(std::array::from_fn(|_| tokio::sync::Mutex::default())) }
    }

    fn key_lock(&self, key: &str) -> &tokio::sync::Mutex<()> {
        let number = key.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        &self.key_locks[number % LOCK_STRIPES]
    }

    async fn load(&self, tenant: &TenantId, key: &str) -> Result<Option<IdempotentResponse>, ApiError> {
        Ok(self.store.stored_response(tenant, key).await.map_err(EngineError::from)?)
    }
}

/// The response as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredResponse {
    status: u16,
    body: Value,
}

/// A request that can be recognised when it is repeated.
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
        let fingerprint = format!("{} {}", parts.method, parts.uri);
        Ok(Self { app: app.clone(), tenant, key, fingerprint })
    }
}

impl IdempotentRequest {
    /// The key of the client.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Includes the body in the fingerprint.
    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        if self.key.is_some() {
            self.fingerprint = sha256_of_parts(&[self.fingerprint.as_bytes(), body]);
        }
        self
    }

    /// Returns the stored response of this request, or runs `act` and stores its response. With a key, `act` runs to its
    /// end even if the client disconnects, because the client will ask again.
    pub(crate) async fn respond_once(
        self,
        act: impl Future<Output = Result<(StatusCode, Value), ApiError>> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let Some(key) = self.key.clone() else {
            let (status, body) = act.await?;
            return Ok((status, Json(body)).into_response());
        };
        let working = async move {
            let _lock = self.app.idempotency.key_lock(&key).lock().await;
            if let Some(stored) = self.app.idempotency.load(&self.tenant, &key).await? {
                return self.replay(&stored, key);
            }
            let (status, body) = act.await?;
            let response = StoredResponse { status: status.as_u16(), body };
            self.store_response(&key, &response).await;
            Ok((status, Json(response.body)).into_response())
        };
        let working = tokio::spawn(working.instrument(tracing::Span::current()));
        working.await.map_err(|error| {
            tracing::error!(%error, "the handler of a request with an idempotency key panicked");
            ApiError::from(ApiErrorCode::Internal)
        })?
    }

    /// The request has taken effect, so the client gets its response even if it could not be stored.
    async fn store_response(&self, key: &str, response: &StoredResponse) {
        let stored = async {
            let response = serde_json::to_vec(response).map_err(|error| StoreError::Other(error.into()))?;
            let response = IdempotentResponse { request_hash: self.fingerprint.clone(), response };
            let retention = ResponseRetention {
                lifetime: STORED_RESPONSE_LIFETIME,
                max_per_tenant: self.app.limits.max_stored_responses,
            };
            self.app.idempotency.store.store_response(&self.tenant, key, &response, retention).await
        };
        if let Err(error) = stored.await {
            tracing::warn!(
                %error,
                "could not store the response for an idempotency key: the client changes things twice if it repeats \
                 the request"
            );
        }
    }

    fn replay(&self, stored: &IdempotentResponse, key: String) -> Result<Response, ApiError> {
        if stored.request_hash != self.fingerprint {
            return Err(EngineError::from(StoreError::KeyReused(key)).into());
        }
        let unreadable = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "the stored response of an idempotency key cannot be read");
            ApiError::from(ApiErrorCode::Internal)
        };
        let stored: StoredResponse =
            serde_json::from_slice(&stored.response).map_err(|error| unreadable(&error))?;
        let status = StatusCode::from_u16(stored.status).map_err(|error| unreadable(&error))?;
        let mut response = (status, Json(stored.body)).into_response();
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
