//! Stored responses to requests that a client may repeat under an idempotency key.
//!
//! The engine does not call this: a server does, for requests that start no run. (The key of a run is stored with the
//! run, see [`NewRun::idempotency`](super::NewRun::idempotency).) The trait is defined here because a store depends on the
//! engine alone, and because one database holds both and one [`gc`](super::ThreadMaintenance::gc) clears both.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::id::TenantId;

/// What was answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentResponse {
    /// The hash of the request. The same key with another hash is a different request.
    pub request_hash: String,
    /// The response. A store never reads it.
    pub response: Vec<u8>,
}

/// How long and how many responses are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseRetention {
    /// How long a response is stored, by the store's clock.
    pub lifetime: Duration,
    /// The most responses of one tenant. When there are more, the oldest are deleted.
    pub max_per_tenant: usize,
}

/// Stores responses by idempotency key. Each backend passes `conformance::check_idempotency`.
#[async_trait]
pub trait IdempotencyStore: Send + Sync + 'static {
    /// The response stored under `key`, unless it has expired.
    async fn stored_response(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Option<IdempotentResponse>, StoreError>;

    /// Stores a response. `Ok` means that it is on disk. If `key` already has a response that has not expired, that one
    /// stays and nothing changes.
    ///
    /// Writers in several processes may exceed `max_per_tenant` by their number for a moment.
    async fn store_response(
        &self,
        tenant: &TenantId,
        key: &str,
        response: &IdempotentResponse,
        retention: ResponseRetention,
    ) -> Result<(), StoreError>;
}
