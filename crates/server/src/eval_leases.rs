//! Leases: one server at a time runs the evaluations of a tenant. A server that died holds its lease until it expires.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::TenantId;
use doran_engine::store::{KeyValueStore, KeyValueWrite, RamStore, StoreError};
use serde::{Deserialize, Serialize};

/// Where the leases are.
const LEASE_BUCKET: &str = "eval_leases";
/// How long a lease lasts after it was last renewed.
const LEASE: Duration = Duration::from_secs(30);

/// The evaluation of a tenant that runs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EvalLease {
    /// The run that holds it.
    pub(crate) run: String,
    /// The set.
    pub(crate) set: String,
    /// Whether somebody wants it to stop.
    pub(crate) stop: bool,
}

/// How a lease stands when it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvalLeaseStatus {
    Held,
    /// Somebody wants the run to stop.
    StopAsked,
    /// It ran out, and may be another's.
    Lost,
}

/// The leases of all tenants, shared by the replicas of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EvalLeases(Arc<dyn KeyValueStore>);

impl Default for EvalLeases {
    /// Those of a server without replicas.
    fn default() -> Self {
        Self(Arc::new(RamStore::new()))
    }
}

impl EvalLeases {
    pub(crate) fn new(values: Arc<dyn KeyValueStore>) -> Self {
        Self(values)
    }

    /// The lease of a tenant that is held and can be read, with its revision.
    async fn read(&self, tenant: &TenantId) -> Result<Option<(EvalLease, u64)>, StoreError> {
        let found = self.0.key_value(LEASE_BUCKET, tenant.as_str()).await?;
        // A lease in an unknown format is ignored. The version that wrote it lets it expire.
        Ok(found.and_then(|found| Some((serde_json::from_slice(&found.value).ok()?, found.revision))))
    }

    async fn write(
        &self,
        tenant: &TenantId,
        expected: Option<u64>,
        lease: &EvalLease,
    ) -> Result<bool, StoreError> {
        let bytes = serde_json::to_vec(lease).map_err(|error| StoreError::Rejected(error.into()))?;
        let write = KeyValueWrite {
            lifetime: Some(LEASE),
            ..KeyValueWrite::put(LEASE_BUCKET, tenant.as_str(), expected, &bytes)
        };
        Ok(self.0.write_key_value(write).await?.is_some())
    }

    /// Whether a server may be at work on this run. A lease that cannot be read counts as held until it runs out.
    pub(crate) async fn may_be_held_by(&self, tenant: &TenantId, run: &str) -> Result<bool, StoreError> {
        let found = self.0.key_value(LEASE_BUCKET, tenant.as_str()).await?;
        let Some(found) = found else { return Ok(false) };
        Ok(serde_json::from_slice::<EvalLease>(&found.value).map_or_else(
            |error| {
                tracing::error!(%tenant, %error, "the lease of an evaluation cannot be read");
                true
            },
            |lease| lease.run == run,
        ))
    }

    /// Takes the lease of a tenant. False if it is held.
    pub(crate) async fn take(&self, tenant: &TenantId, lease: &EvalLease) -> Result<bool, StoreError> {
        self.write(tenant, None, lease).await
    }

    /// Holds the lease of a run for longer.
    pub(crate) async fn renew(&self, tenant: &TenantId, run: &str) -> Result<EvalLeaseStatus, StoreError> {
        loop {
            match self.read(tenant).await? {
                Some((lease, revision)) if lease.run == run => {
                    // Somebody may ask it to stop between both.
                    if self.write(tenant, Some(revision), &lease).await? {
                        let status =
                            if lease.stop { EvalLeaseStatus::StopAsked } else { EvalLeaseStatus::Held };
                        return Ok(status);
                    }
                }
                Some(_) | None => return Ok(EvalLeaseStatus::Lost),
            }
        }
    }

    /// Asks the run of a set to stop. Whether there is one.
    pub(crate) async fn ask_to_stop(&self, tenant: &TenantId, set: &str) -> Result<bool, StoreError> {
        loop {
            match self.read(tenant).await? {
                Some((lease, revision)) if lease.set == set => {
                    if self.write(tenant, Some(revision), &EvalLease { stop: true, ..lease }).await? {
                        return Ok(true);
                    }
                }
                Some(_) | None => return Ok(false),
            }
        }
    }

    /// Gives the lease of a run back.
    pub(crate) async fn give_back(&self, tenant: &TenantId, run: &str) -> Result<(), StoreError> {
        loop {
            match self.read(tenant).await? {
                Some((lease, revision)) if lease.run == run => {
                    let write = KeyValueWrite::remove(LEASE_BUCKET, tenant.as_str(), revision);
                    if self.0.write_key_value(write).await?.is_some() {
                        return Ok(());
                    }
                }
                Some(_) | None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(run: &str, set: &str) -> EvalLease {
        EvalLease { run: run.into(), set: set.into(), stop: false }
    }

    #[tokio::test]
    async fn one_run_of_a_tenant_holds_the_lease_until_it_gives_it_back() {
        let values: Arc<dyn KeyValueStore> = Arc::new(RamStore::new());
        let (here, there) = (EvalLeases::new(values.clone()), EvalLeases::new(values));
        let (tenant, other) = (TenantId::local(), TenantId::new("b").expect("a name"));
        assert!(here.take(&tenant, &lease("1", "leave")).await.expect("no error"));
        assert!(!there.take(&tenant, &lease("2", "rules")).await.expect("no error"), "one at a time");
        assert!(there.take(&other, &lease("3", "rules")).await.expect("no error"), "tenants do not wait");
        assert!(there.may_be_held_by(&tenant, "1").await.expect("read"));
        assert!(!there.may_be_held_by(&tenant, "2").await.expect("read"));
        assert_eq!(here.renew(&tenant, "1").await.expect("renewed"), EvalLeaseStatus::Held);
        // Another replica gets a request to stop the run.
        assert!(!there.ask_to_stop(&tenant, "rules").await.expect("no error"));
        assert!(there.ask_to_stop(&tenant, "leave").await.expect("no error"));
        assert_eq!(here.renew(&tenant, "1").await.expect("renewed"), EvalLeaseStatus::StopAsked);
        // Only its own run gives it back.
        there.give_back(&tenant, "2").await.expect("nothing");
        assert!(here.may_be_held_by(&tenant, "1").await.expect("read"));
        here.give_back(&tenant, "1").await.expect("given back");
        assert!(!there.may_be_held_by(&tenant, "1").await.expect("read"));
        assert_eq!(here.renew(&tenant, "1").await.expect("no error"), EvalLeaseStatus::Lost);
        assert!(there.take(&tenant, &lease("2", "rules")).await.expect("no error"));
    }

    #[tokio::test]
    async fn a_lease_that_cannot_be_read_is_held_until_it_runs_out() {
        let values: Arc<dyn KeyValueStore> = Arc::new(RamStore::new());
        let (leases, tenant) = (EvalLeases::new(values.clone()), TenantId::local());
        let damaged = KeyValueWrite::put(LEASE_BUCKET, tenant.as_str(), None, b"{}");
        let revision = values.write_key_value(damaged).await.expect("written").expect("new");
        assert!(!leases.take(&tenant, &lease("1", "leave")).await.expect("no error"));
        assert!(leases.may_be_held_by(&tenant, "1").await.expect("read"));
        let ended = KeyValueWrite::remove(LEASE_BUCKET, tenant.as_str(), revision);
        values.write_key_value(ended).await.expect("written").expect("removed");
        assert!(!leases.may_be_held_by(&tenant, "1").await.expect("read"));
        assert!(leases.take(&tenant, &lease("1", "leave")).await.expect("no error"));
    }
}
