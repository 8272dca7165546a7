//! How long a claim certainly holds, as far as this process knows.
//!
//! Two clocks are read, and the one that has gone further counts: the clock of the runtime, and on Linux one that also
//! goes on while the machine sleeps. A process that was frozen, or a laptop that was closed, must not believe that it
//! still has a run that another worker may have taken long ago.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::failpoint::mutant;
use crate::store::{Fence, LeaseRenewal, RunStore, StoreError, WorkerLease};

/// How long to wait before a lease is requested again that could not be given because somebody wrote to the run.
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTime {
    runtime: Instant,
    since_boot: Duration,
}

impl LeaseTime {
    pub(crate) fn now() -> Self {
        Self { runtime: Instant::now(), since_boot: since_boot() }
    }

    /// The time since then, by the clock that has gone further.
    pub(crate) fn elapsed(self) -> Duration {
        self.runtime.elapsed().max(since_boot().saturating_sub(self.since_boot))
    }
}

/// The time since the machine was started, sleep included.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// Only Linux has such a clock within reach.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    Duration::ZERO
}

/// The lease of one claim.
#[derive(Debug)]
pub(crate) struct ClaimLease {
    claim: WorkerLease,
    /// When the request that was granted last was sent.
    granted: Mutex<LeaseTime>,
}

impl ClaimLease {
    /// A lease that was requested at `requested_at`.
    pub(crate) fn new(claim: WorkerLease, requested_at: LeaseTime) -> Self {
        Self { claim, granted: Mutex::new(requested_at) }
    }

    /// It was renewed by a request sent at `requested_at`.
    pub(crate) fn note_renewed(&self, requested_at: LeaseTime) {
        *self.granted.lock().unwrap_or_else(PoisonError::into_inner) = requested_at;
    }

    /// The time since the request that was granted last.
    pub(crate) fn age(&self) -> Duration {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Whether nobody else can have taken the run by now.
    pub(crate) fn holds(&self) -> bool {
        self.age() < self.claim.lease
    }

    /// Makes sure that the run is still this worker's. A lease that ran out is requested again: nobody may have wanted
    /// the run meanwhile.
    pub(crate) async fn ensure_held(
        &self,
        store: &(impl RunStore + ?Sized),
        fence: &Fence,
    ) -> Result<(), StoreError> {
        while !self.holds() && !mutant("stale_worker_goes_on") {
            let requested_at = LeaseTime::now();
            match store.renew(&self.claim, std::slice::from_ref(fence)).await?.first() {
                Some(LeaseRenewal::Held | LeaseRenewal::CancelAsked) => self.note_renewed(requested_at),
                Some(LeaseRenewal::Busy) => tokio::time::sleep(BUSY_WAIT).await,
                Some(LeaseRenewal::Lost) | None => return Err(StoreError::Fenced),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease_of_a_minute(requested_at: LeaseTime) -> ClaimLease {
        ClaimLease::new(
            WorkerLease { worker: "w".into(), lease: Duration::from_secs(60), graphs: None },
            requested_at,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_by_whichever_clock_has_gone_further() {
        let now = LeaseTime::now();
        assert!(lease_of_a_minute(now).holds());
        let slept = LeaseTime { since_boot: now.since_boot.saturating_sub(Duration::from_secs(61)), ..now };
        assert_eq!(
            lease_of_a_minute(slept).holds(),
            slept.since_boot == now.since_boot,
            "the machine slept for longer than the lease, where there is a clock that counts it"
        );
        let lease = lease_of_a_minute(now);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(!lease.holds(), "the runtime's clock has gone further");
        lease.note_renewed(LeaseTime::now());
        assert!(lease.holds());
    }
}
