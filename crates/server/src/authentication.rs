//! API keys. A key gives access to the data of one tenant. Without any keys there is one tenant, and only requests from this
//! machine are accepted.
//!
//! Keys are stored as hashes, so the file of keys cannot be used to call the server. A key is 256 random bits, so one round of
//! SHA-256 is enough. All hashes are compared in constant time.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use doran_engine::TenantId;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::ServerApp;
use crate::error::{ApiError, ApiErrorCode};

/// The most bytes of a key that is looked at.
const MAX_KEY_BYTES: usize = 200;

/// The SHA-256 of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The hash of a key.
    pub fn from_secret(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Whether both are the same, in a time that does not tell where they differ.
    fn constant_time_eq(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// A key as the server knows it.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// What a person calls it, for lists and logs.
    pub name: String,
    /// Whose things it opens.
    pub tenant: TenantId,
    /// By what it is known.
    pub hash: KeyHash,
    /// Whether it may change what holds for everybody: models and their keys.
    pub is_admin: bool,
}

/// All keys. Cheap to clone; a change is seen by every clone at once.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(Arc<watch::Sender<Arc<[ApiKey]>>>);

impl ApiKeys {
    /// These keys.
    pub fn new(keys: Vec<ApiKey>) -> Self {
        Self(Arc::new(watch::Sender::new(keys.into())))
    }

    /// These keys from now on. A request that was let in goes on; a stream whose key is gone ends.
    pub fn replace(&self, keys: Vec<ApiKey>) {
        self.0.send_replace(keys.into());
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.current().is_empty()
    }

    fn current(&self) -> Arc<[ApiKey]> {
        self.0.borrow().clone()
    }

    fn find_by_secret(&self, secret: &str) -> Option<ApiKey> {
        let hash = KeyHash::from_secret(secret);
        let mut found = None;
        for key in self.current().iter() {
            if key.hash.constant_time_eq(&hash) {
                found = Some(key.clone());
            }
        }
        found
    }

    /// Ends once the key of this caller opens nothing more. Never ends for a caller that needed none.
    pub(crate) async fn wait_until_revoked(&self, caller: &ApiCaller) {
        let Some(hash) = caller.hash else { return std::future::pending().await };
        let mut changes = self.0.subscribe();
        let is_gone =
            |keys: &Arc<[ApiKey]>| !keys.iter().any(|key| key.hash == hash && key.tenant == caller.tenant);
        drop(changes.wait_for(is_gone).await);
    }
}

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiCaller {
    /// The tenant whose data the request is about.
    pub(crate) tenant: TenantId,
    /// The name of the key; none where there are no keys.
    pub(crate) key: Option<Arc<str>>,
    /// By what the key is known.
    pub(crate) hash: Option<KeyHash>,
    /// Whether it may change what holds for everybody. Without keys the only user of the server may.
    pub(crate) is_admin: bool,
}

/// A caller that may change what holds for everybody.
#[derive(Clone, Debug)]
pub(crate) struct AdminCaller;

/// Lets in who has a key, or everybody where there are none. What comes after finds the [`ApiCaller`] in the request.
pub(crate) async fn authenticate(State(app): State<ServerApp>, mut request: Request, next: Next) -> Response {
    match authenticate_headers(&app.keys, request.headers()) {
        Ok(caller) => {
            if let Err(wait) = app.rate_limiter.take(&caller) {
                return ApiError::with_retry_after(ApiErrorCode::TooMany, wait).into_response();
            }
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        // Guessing keys is slow; a right key never waits for wrong ones.
        Err(ApiErrorCode::WrongKey) => match app.rate_limiter.take_for_wrong_key() {
            Ok(()) => ApiError::from(ApiErrorCode::WrongKey).into_response(),
            Err(wait) => ApiError::with_retry_after(ApiErrorCode::TooMany, wait).into_response(),
        },
        Err(code) => ApiError::from(code).into_response(),
    }
}

/// Turns a request away when its tenant has too many that are being answered, those that wait for a run included. There
/// is always room for other tenants.
pub(crate) async fn admit_request(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
    next: Next,
) -> Response {
    match app.shares.requests.try_acquire(caller.tenant.as_str(), 1) {
        Ok(_room) => next.run(request).await,
        Err(_) => {
            app.metrics.count_request_shed();
            ApiError::from(ApiErrorCode::Overloaded).into_response()
        }
    }
}

fn authenticate_headers(keys: &ApiKeys, headers: &HeaderMap) -> Result<ApiCaller, ApiErrorCode> {
    if keys.is_empty() {
        return Ok(ApiCaller { tenant: TenantId::local(), key: None, hash: None, is_admin: true });
    }
    let secret = read_secret(headers)?.ok_or(ApiErrorCode::NoKey)?;
    let key = keys.find_by_secret(secret).ok_or(ApiErrorCode::WrongKey)?;
    let (name, hash) = (Some(key.name.into()), Some(key.hash));
    Ok(ApiCaller { tenant: key.tenant, key: name, hash, is_admin: key.is_admin })
}

/// `Authorization: Bearer KEY`, as OpenAI's clients send it, or `X-Api-Key: KEY`. Two different ones are refused.
fn read_secret(headers: &HeaderMap) -> Result<Option<&str>, ApiErrorCode> {
    let mut found: Option<&str> = None;
    let bearer = headers.get_all(header::AUTHORIZATION).iter().map(|value| {
        let text = value.to_str().map_err(|_| ApiErrorCode::WrongKey)?;
        let (scheme, secret) = text.split_once(' ').ok_or(ApiErrorCode::WrongKey)?;
        if scheme.eq_ignore_ascii_case("bearer") { Ok(secret.trim()) } else { Err(ApiErrorCode::WrongKey) }
    });
    let plain =
        headers.get_all("x-api-key").iter().map(|value| value.to_str().map_err(|_| ApiErrorCode::WrongKey));
    for secret in bearer.chain(plain) {
        let secret = secret?;
        if secret.is_empty() || secret.len() > MAX_KEY_BYTES || found.is_some_and(|other| other != secret) {
            return Err(ApiErrorCode::WrongKey);
        }
        found = Some(secret);
    }
    Ok(found)
}

impl<S: Send + Sync> FromRequestParts<S> for ApiCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // A route that was not put behind `authenticate` lets nobody in.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiErrorCode::NoKey.into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AdminCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let caller = ApiCaller::from_request_parts(parts, state).await?;
        if caller.is_admin { Ok(Self) } else { Err(ApiErrorCode::AdminOnly.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> ApiKeys {
        let key = |name: &str, secret: &str| ApiKey {
            name: name.into(),
            tenant: TenantId::new(name).expect("a name"),
            hash: KeyHash::from_secret(secret),
            is_admin: false,
        };
        ApiKeys::new(vec![key("a", "doran_a"), key("b", "doran_b")])
    }

    fn check(headers: &[(&str, &str)], expected: Result<&str, ApiErrorCode>) {
        let map: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (name.parse::<axum::http::HeaderName>().expect("name"), value.parse().expect("value"))
            })
            .collect();
        let found = authenticate_headers(&keys(), &map).map(|caller| caller.tenant.as_str().to_owned());
        assert_eq!(found.as_deref().map_err(|code| *code), expected, "{headers:?}");
    }

    #[test]
    fn a_key_opens_the_things_of_its_tenant_only() {
        check(&[("authorization", "Bearer doran_a")], Ok("a"));
        check(&[("authorization", "bearer doran_b")], Ok("b"));
        check(&[("x-api-key", "doran_b")], Ok("b"));
        check(&[("x-api-key", "doran_b"), ("authorization", "Bearer doran_b")], Ok("b"));
        check(&[], Err(ApiErrorCode::NoKey));
        for wrong in ["Bearer", "Bearer ", "Bearer doran_", "Bearer doran_A", "Basic doran_a", "doran_a"] {
            check(&[("authorization", wrong)], Err(ApiErrorCode::WrongKey));
        }
        check(&[("x-api-key", "doran_a"), ("authorization", "Bearer doran_b")], Err(ApiErrorCode::WrongKey));
    }

    #[test]
    fn a_key_that_was_taken_away_opens_nothing_more() {
        let keys = keys();
        let clone = keys.clone();
        assert!(clone.find_by_secret("doran_a").is_some());
        keys.replace(Vec::new());
        assert!(clone.find_by_secret("doran_a").is_none() && clone.is_empty());
    }

    #[test]
    fn a_hash_is_read_as_it_is_written_and_printed_by_nobody() {
        let hash = KeyHash::from_secret("doran_a");
        assert_eq!(KeyHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(KeyHash::parse("00"), None);
        assert_eq!(KeyHash::parse(&"가".repeat(64)), None);
        assert_eq!(format!("{hash:?}"), "KeyHash(…)");
    }
}
