//! Claims runs, drives them in the background, renews their leases and releases them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::drive::{self, HaltReason, RunContext};
use crate::error::EngineError;
use crate::failpoint::mutant;
use crate::id::ThreadKey;
use crate::runtime::graph_handle::RunOutcome;
use crate::runtime::registered_graph::{AnyGraph, ClaimedRunOutcome};
use crate::runtime::run_driving::RunDriving;
use crate::runtime::{ClaimLease, LeaseTime, LiveFeed, NextRun, RunAdmission, RuntimeInner};
use crate::store::{ClaimedRun, Fence, LeaseRenewal, Seq, StoreError, WorkerLease};

/// A run that this process drives.
pub(crate) struct ActiveRun {
    pub fence: Fence,
    lease: Arc<ClaimLease>,
    pub live: Arc<LiveFeed>,
    pub cancel: CancellationToken,
    release: CancellationToken,
    pub outcome: watch::Sender<Option<RunOutcome>>,
    abort: AbortHandle,
}

impl RuntimeInner {
    /// Drives a run in a task of its own. Its claim was requested at `requested_at`.
    fn drive_claimed_run(
        self: &Arc<Self>,
        graph: Arc<dyn AnyGraph>,
        claimed: ClaimedRun,
        requested_at: LeaseTime,
    ) {
        drop(self.begin_driving(graph, claimed, requested_at, None).1);
    }

    /// Begins to drive a run. Its claim was requested at `requested_at`. `accepted` is the first entry of a run that was accepted
    /// just now, and what the gate decided then. Whoever gets the work either polls it or drops it: then it becomes a task.
    pub(super) fn begin_driving(
        self: &Arc<Self>,
        graph: Arc<dyn AnyGraph>,
        claimed: ClaimedRun,
        requested_at: LeaseTime,
        accepted: Option<(Vec<u8>, Option<RunAdmission>)>,
    ) -> (Arc<ActiveRun>, Option<RunDriving>) {
        let (first, admitted) = accepted.unzip();
        let lease = Arc::new(ClaimLease::new(self.claim.clone(), requested_at));
        let live = Arc::new(LiveFeed::new(claimed.head));
        let mut run = RunContext::new(self.options.limits.clone(), *claimed.run.run.as_uuid().as_bytes());
        run.live_feed = Some(live.clone());
        run.max_tasks_per_step = self.options.max_tasks_per_step.max(1);
        run.suspect_permit = Some(self.suspect_permit.clone());
        run.timer_alarm = Some(self.timer_alarm.clone());
        let next_run = Arc::new(NextRun::new(self.clone()));
        run.next_run = Some(next_run.clone());
        run.observer = self.options.observer.clone();
        run.gate = self.gate_of_run(&claimed.run.thread.tenant, admitted.flatten());
        if claimed.run.cancel_asked {
            run.cancel.cancel();
        }
        let (abort, registration) = AbortHandle::new_pair();
        let active = Arc::new(ActiveRun {
            fence: claimed.fence(),
            lease: lease.clone(),
            live,
            cancel: run.cancel.clone(),
            release: run.release.clone(),
            outcome: watch::Sender::new(None),
            abort,
        });
        if self.stop.is_cancelled() {
            active.release.cancel();
        }
        let older = {
            let mut held = self.lock_active_runs();
            match held.get(&active.fence.run) {
                // The answer to this claim came so late that the run was claimed again meanwhile.
                Some(newer) if newer.fence.epoch > active.fence.epoch => return (newer.clone(), None),
                _ => held.insert(active.fence.run, active.clone()),
            }
        };
        if let Some(older) = older {
            self.abandon(&older, "it was claimed again");
        }
        let (inner, driven) = (self.clone(), active.clone());
        let work = async move {
            let guard = ActiveRunGuard { inner: &inner, active: &driven };
            let (end, committed) = graph.drive(run, inner.store.clone(), claimed, lease, first).await;
            let next_waits = committed.as_ref().is_some_and(|committed| committed.next_waits);
            let ended =
                !matches!(end, Err(HaltReason::Lost(_) | HaltReason::Rejected(_) | HaltReason::Released));
            let rest = inner.to_run_outcome(&driven.fence, end);
            drop(guard);
            if ended {
                inner.tell_observer(&driven.fence.thread.run(driven.fence.run), driven.live.head());
            }
            inner.start_expected_timers();
            driven.outcome.send_replace(Some(rest));
            driven.live.wake_watchers();
            match next_run.take() {
                Some((next, requested_at)) => inner.drive_unless_late(next, requested_at),
                None if next_waits || ended && committed.is_none() => {
                    inner.claim_waiting_run_or_log(&driven.fence.thread).await;
                }
                None => {}
            }
            let runs_wait = inner.worker_state().take_runs_wait_for_capacity();
            if runs_wait && let Err(error) = inner.claim_unclaimed_runs_boxed().await {
                tracing::warn!(%error, "could not look for runs");
                inner.worker_state().scan_for_lost_runs();
            }
        };
        let driving = RunDriving::new(Abortable::new(work, registration), active.clone());
        (active, Some(driving))
    }

    fn to_run_outcome(&self, fence: &Fence, end: Result<ClaimedRunOutcome, HaltReason>) -> RunOutcome {
        match end {
            Ok(ClaimedRunOutcome::Finished(state, row)) => RunOutcome::Finished(state, row),
            Ok(ClaimedRunOutcome::Paused(asks)) => RunOutcome::Paused(asks),
            Err(HaltReason::Failed { failure, .. }) => RunOutcome::Failed(failure),
            Err(HaltReason::Cancelled) => RunOutcome::Cancelled,
            Err(HaltReason::Released) => RunOutcome::Left("the process is shutting down".into()),
            Err(HaltReason::Rejected(reason)) => RunOutcome::Left(reason),
            Err(HaltReason::Lost(error)) => {
                let reason = crate::error::error_chain(&error);
                tracing::warn!(run = %fence.run, reason, "run left this worker");
                drop(self.report_unknown_write::<()>(Err(error)));
                self.worker_state().scan_for_lost_runs();
                RunOutcome::Left(reason)
            }
        }
    }

    /// Claims what waits on one thread and drives it.
    pub(super) async fn claim_waiting_run(self: &Arc<Self>, thread: &ThreadKey) -> Result<(), EngineError> {
        if self.stop.is_cancelled() || self.capacity() == 0 {
            return Ok(());
        }
        let (claimed, requested_at) = self.claim_runs(Some(thread), 1).await?;
        self.drive_claimed_runs(claimed, requested_at);
        Ok(())
    }

    /// Claims runs of the graphs that are known here, and says when it sent the claim. Claims whose reply came so late
    /// that their lease may be over are left to the next scan.
    async fn claim_runs(
        &self,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<(Vec<ClaimedRun>, LeaseTime), StoreError> {
        let requested_at = LeaseTime::now();
        let claimed = self.store.claim(&self.claim_of_known_graphs(), only, limit).await?;
        if requested_at.elapsed() < self.claim.lease {
            return Ok((claimed, requested_at));
        }
        self.worker_state().scan_for_lost_runs();
        Ok((Vec::new(), requested_at))
    }

    /// As `claim_waiting_run`, but logs the error: the next scan tries again.
    pub(super) fn claim_waiting_run_or_log<'a>(
        self: &'a Arc<Self>,
        thread: &'a ThreadKey,
    ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            if let Err(error) = self.claim_waiting_run(thread).await {
                tracing::warn!(%thread, %error, "could not claim the next run of the thread");
                self.worker_state().scan_for_lost_runs();
            }
        })
    }

    /// `claim_unclaimed_runs` as a boxed future, for a task that it may start itself.
    fn claim_unclaimed_runs_boxed<'a>(
        self: &'a Arc<Self>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + 'a>> {
        Box::pin(self.claim_unclaimed_runs())
    }

    /// Drives a run that another write claimed. A claim whose reply came so late that its lease may be over is left
    /// to the next scan.
    pub(super) fn drive_unless_late(self: &Arc<Self>, claimed: ClaimedRun, requested_at: LeaseTime) {
        if requested_at.elapsed() < self.claim.lease {
            self.drive_claimed_runs(vec![claimed], requested_at);
        } else {
            self.worker_state().scan_for_lost_runs();
        }
    }

    fn drive_claimed_runs(self: &Arc<Self>, claimed: Vec<ClaimedRun>, requested_at: LeaseTime) {
        for claimed in claimed {
            crate::failpoint::hit("worker.after_claim");
            match self.find_graph(&claimed.run.graph) {
                Ok(graph) => {
                    self.drive_claimed_run(graph, claimed, requested_at);
                }
                // It was claimed to be cancelled: to end a run nobody has to know its graph.
                Err(_) => {
                    let inner = self.clone();
                    tokio::spawn(async move {
                        let fence = claimed.fence();
                        let lease = Arc::new(ClaimLease::new(inner.claim.clone(), requested_at));
                        let halt = drive::cancel_claimed(inner.store.clone(), claimed, lease).await;
                        let ended = matches!(halt, HaltReason::Cancelled);
                        inner.to_run_outcome(&fence, Err(halt));
                        if ended {
                            inner.tell_observer(&fence.thread.run(fence.run), Seq::MAX);
                            inner.claim_waiting_run_or_log(&fence.thread).await;
                        }
                    });
                }
            }
        }
    }

    /// Claims whatever nobody works on.
    pub(super) async fn claim_unclaimed_runs(self: &Arc<Self>) -> Result<(), EngineError> {
        loop {
            let room = self.capacity().min(64);
            if room == 0 || self.stop.is_cancelled() {
                return Ok(());
            }
            let (claimed, requested_at) = self.claim_runs(None, room).await?;
            let few = claimed.len() < room;
            self.drive_claimed_runs(claimed, requested_at);
            if few {
                return Ok(());
            }
        }
    }

    /// Starts the task that renews leases, once.
    pub(super) fn start_lease_keeper(self: &Arc<Self>) {
        if self.worker_state().claim_lease_keeper() {
            tokio::spawn(keep_leases(Arc::downgrade(self), self.options.lease, self.options.scan));
        }
    }

    /// Renews all leases. A run that is lost is dropped here; a wish to cancel is passed on. `false` when some could not
    /// be renewed just now.
    async fn renew_leases(&self) -> Result<bool, StoreError> {
        let held: Vec<Arc<ActiveRun>> = self.lock_active_runs().values().cloned().collect();
        if held.is_empty() {
            return Ok(true);
        }
        let mut all = true;
        crate::failpoint::hit("worker.before_renew");
        let fences: Vec<Fence> = held.iter().map(|active| active.fence.clone()).collect();
        let requested_at = LeaseTime::now();
        let renewed = self.store.renew(&self.claim, &fences).await?;
        for (active, answer) in held.iter().zip(renewed) {
            match answer {
                LeaseRenewal::Held => active.lease.note_renewed(requested_at),
                LeaseRenewal::CancelAsked => {
                    active.lease.note_renewed(requested_at);
                    active.cancel.cancel();
                }
                LeaseRenewal::Busy => all = false,
                LeaseRenewal::Lost if stale_workers_go_on() => {}
                LeaseRenewal::Lost => self.abandon(active, "another worker has it, or it ended"),
            }
        }
        Ok(all)
    }

    /// Stops driving a run without a word in its log: it is not ours any more.
    fn abandon(&self, active: &ActiveRun, reason: &str) {
        if active.outcome.borrow().is_some() {
            return;
        }
        active.abort.abort();
        self.remove_active_run(active);
        self.worker_state().scan_for_lost_runs();
        active.outcome.send_if_modified(|rest| {
            let open = rest.is_none();
            if open {
                *rest = Some(RunOutcome::Left(reason.to_owned()));
            }
            open
        });
        active.live.wake_watchers();
    }

    /// Removes a claim from the active runs. A run that was answered quickly may have a new one under the same id, which stays.
    fn remove_active_run(&self, gone: &ActiveRun) {
        let mut active = self.lock_active_runs();
        if active.get(&gone.fence.run).is_some_and(|held| held.fence.epoch == gone.fence.epoch) {
            active.remove(&gone.fence.run);
        }
    }

    /// Past two thirds of its lease somebody else may be about to take a run over: stop before that. Nobody takes a run
    /// on a store that no one else can open.
    fn abandon_expiring_runs(&self) {
        if self.store.is_exclusive() || stale_workers_go_on() {
            return;
        }
        let expiring = |active: &&Arc<ActiveRun>| active.lease.age() > self.claim.lease * 2 / 3;
        let held: Vec<Arc<ActiveRun>> = self.lock_active_runs().values().filter(expiring).cloned().collect();
        for active in held {
            self.abandon(&active, "the lease could not be renewed in time");
        }
    }

    fn abandon_all(&self, reason: &str) {
        let held: Vec<Arc<ActiveRun>> = self.lock_active_runs().values().cloned().collect();
        for active in held {
            self.abandon(&active, reason);
        }
    }

    /// Lets go of everything, orderly until `time_limit` is over.
    pub(super) async fn drain(&self, time_limit: Duration) {
        self.stop.cancel();
        let held: Vec<Arc<ActiveRun>> = self.lock_active_runs().values().cloned().collect();
        held.iter().for_each(|active| active.release.cancel());
        let all_rest = async {
            for active in &held {
                let mut rest = active.outcome.subscribe();
                // An error means that the sender is gone, and the run with it.
                drop(rest.wait_for(Option::is_some).await);
            }
        };
        drop(timeout(time_limit, all_rest).await);
        self.abandon_all("the process is shutting down");
        // A lease that ends now lets the next worker take over at once.
        let fences: Vec<Fence> = held.iter().map(|active| active.fence.clone()).collect();
        let now = WorkerLease { worker: self.claim.worker.clone(), lease: Duration::ZERO, graphs: None };
        if let Err(error) = self.store.renew(&now, &fences).await {
            tracing::warn!(%error, "could not hand over leases; they run out by themselves");
        }
    }
}

/// Seeded bugs: a worker does not mind that it lost its runs.
fn stale_workers_go_on() -> bool {
    mutant("ignore_fence") || mutant("stale_worker_goes_on")
}

/// Removes a run from the active runs however its task ends, a panic of the engine included.
struct ActiveRunGuard<'a> {
    inner: &'a RuntimeInner,
    active: &'a ActiveRun,
}

impl Drop for ActiveRunGuard<'_> {
    fn drop(&mut self) {
        self.inner.remove_active_run(self.active);
    }
}

/// Renews leases and looks for runs that nobody works on, as long as the runtime lives.
async fn keep_leases(inner: std::sync::Weak<RuntimeInner>, lease: Duration, scan: Duration) {
    let mut tick = interval((lease / 3).min(scan).max(Duration::from_millis(5)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut renewed_at = Instant::now();
    let mut scanned_at = Instant::now();
    loop {
        tick.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        let now = Instant::now();
        if now - renewed_at >= lease / 3 {
            match timeout(lease / 3, inner.renew_leases()).await {
                Ok(Ok(true)) => renewed_at = now,
                // The lease of what is being written to is renewed with the next tick.
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "could not renew leases"),
                Err(_) => tracing::warn!("renewing leases takes too long"),
            }
            inner.abandon_expiring_runs();
        }
        let scans = inner.worker_state().scans();
        if scans && now - scanned_at >= scan {
            scanned_at = now;
            // Leases are renewed in this loop too, so a store that does not answer must not hold it up. A claim that
            // is cut off here runs out by itself.
            match timeout(lease / 3, inner.claim_unclaimed_runs()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "could not look for runs"),
                Err(_) => tracing::warn!("looking for runs takes too long"),
            }
        }
        if inner.stop.is_cancelled() && inner.lock_active_runs().is_empty() {
            return;
        }
    }
}
