//! Limits requests that read a whole document or a whole conversation. Few of them run at once, and tenants take turns, because
//! each keeps all it reads in memory until its response is ready.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use doran_agents::admission::AdmissionPermit;

use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};

/// The permit of a request to read a lot.
pub(crate) struct BulkRead(#[allow(dead_code, reason = "held until the answer is made")] AdmissionPermit);

impl BulkRead {
    /// Waits for a permit of this caller.
    pub(crate) async fn acquire(app: &ServerApp, caller: &ApiCaller) -> Result<Self, ApiError> {
        let permit = app.shares.bulk_reads.acquire(caller.tenant.as_str(), 1).await;
        Ok(Self(permit.map_err(|_| ApiErrorCode::Overloaded)?))
    }
}

impl FromRequestParts<ServerApp> for BulkRead {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &ServerApp) -> Result<Self, ApiError> {
        Self::acquire(app, &ApiCaller::from_request_parts(parts, app).await?).await
    }
}
