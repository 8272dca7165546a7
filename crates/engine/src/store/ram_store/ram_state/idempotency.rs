//! Responses stored under idempotency keys.

use super::{RamState, RamStoredResponse, RamTenant, add_duration};
use crate::id::TenantId;
use crate::store::{IdempotentResponse, Millis, ResponseRetention};

impl RamState {
    pub(in super::super) fn stored_response(
        &self,
        tenant: &TenantId,
        key: &str,
        now: Millis,
    ) -> Option<IdempotentResponse> {
        let stored = self.tenants.get(tenant)?.responses.get(key)?;
        (now < stored.expires).then(|| stored.response.clone())
    }

    pub(in super::super) fn store_response(
        &mut self,
        tenant: &TenantId,
        key: &str,
        response: &IdempotentResponse,
        retention: ResponseRetention,
        now: Millis,
    ) {
        let tenant = self.tenants.entry(tenant.clone()).or_default();
        if tenant.responses.get(key).is_some_and(|stored| now < stored.expires) {
            return;
        }
        tenant.last_response += 1;
        let number = tenant.last_response;
        let expires = add_duration(now, retention.lifetime);
        let stored = RamStoredResponse { response: response.clone(), number, expires };
        tenant.responses.insert(key.to_owned(), stored);
        let deleted = number.saturating_sub(retention.max_per_tenant as u64);
        tenant.responses.retain(|_, stored| stored.number > deleted);
    }
}

impl RamTenant {
    /// Returns how many there were.
    pub(super) fn remove_expired_responses(&mut self, now: Millis) -> u64 {
        let before = self.responses.len();
        self.responses.retain(|_, stored| now < stored.expires);
        (before - self.responses.len()) as u64
    }
}
