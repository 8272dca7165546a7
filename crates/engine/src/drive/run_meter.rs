//! What a run has spent, worked on and shown, against its limits.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::drive::run_context::RunContext;
use crate::drive::run_limits::{ExceededLimit, RunLimits, exceeded_limit};
use crate::failpoint;
use crate::runtime::RunAdmission;
use crate::store::{Commit, RunFailure, RunUsage};

pub(super) struct RunMeter {
    /// Steps finished, those of subgraphs in this claim included.
    steps: u32,
    /// Steps of the outer graph that the row of the run counts.
    steps_in_row: u32,
    /// Those that it does not count yet.
    steps_not_in_row: u32,
    usage: RunUsage,
    /// The part of it that the row of the run counts.
    usage_in_row: RunUsage,
    active_before: Duration,
    since: Instant,
    /// What the run may cost by the word of its gate.
    admitted_cost: Option<u64>,
    /// Why it must not spend more.
    refused: Option<RunFailure>,
}

impl RunMeter {
    pub(super) fn new() -> Self {
        Self {
            steps: 0,
            steps_in_row: 0,
            steps_not_in_row: 0,
            usage: RunUsage::default(),
            usage_in_row: RunUsage::default(),
            active_before: Duration::ZERO,
            since: Instant::now(),
            admitted_cost: None,
            refused: None,
        }
    }

    /// Goes on from an earlier claim of the run. The row of the run counts `steps_in_row` steps; `logged` are those in its log, which
    /// may be more.
    pub(super) fn continue_from_claim(&mut self, steps_in_row: u32, logged: u32, usage: RunUsage) {
        self.steps = steps_in_row.max(logged);
        self.steps_in_row = steps_in_row;
        self.steps_not_in_row = self.steps - steps_in_row;
        (self.usage, self.usage_in_row) = (usage, usage);
        if failpoint::mutant("budget_reset_by_claim") {
            self.usage = RunUsage::default();
        }
    }

    /// What of the usage the row of the run counts.
    pub(super) fn usage_in_row(&self) -> RunUsage {
        self.usage_in_row
    }

    /// What the run has cost.
    pub(super) fn cost_micros(&self) -> u64 {
        self.usage.cost_micros
    }

    /// What the gate decided. It counts with what the row of the run has.
    pub(super) fn note_admission(&mut self, admission: RunAdmission) {
        (self.admitted_cost, self.refused) = match admission {
            RunAdmission::Admitted { cost_left } => {
                (cost_left.map(|left| self.usage_in_row.cost_micros.saturating_add(left)), None)
            }
            RunAdmission::Refused(failure) => (Some(self.usage.cost_micros), Some(failure)),
        };
    }

    /// What the run may cost at most.
    fn most_cost(&self, limits: &RunLimits) -> Option<u64> {
        match (limits.cost_micros, self.admitted_cost) {
            (Some(own), Some(admitted)) => Some(own.min(admitted)),
            (own, admitted) => own.or(admitted),
        }
    }

    /// A commit has added this to the row of the run.
    pub(super) fn note_usage_in_row(&mut self, usage: RunUsage) {
        self.usage_in_row += usage;
    }
}

impl RunContext {
    pub(crate) fn set_active_before(&self, active: Duration) {
        self.lock_meter().active_before = active;
    }

    /// Counts the steps of a commit, and tells the store of all it does not know when the row of the run is written
    /// anyway. In between the log alone knows them, so that a step writes its entry and nothing else. A commit that
    /// fails ends the claim, and the next one counts anew.
    pub(super) fn count_commit_steps(&self, commit: &mut Commit) {
        let mut meter = self.lock_meter();
        let untold = meter.steps_not_in_row.saturating_add(commit.steps);
        let tells = commit.status.is_some() || !commit.usage.is_zero();
        (commit.steps, meter.steps_not_in_row) = if tells { (untold, 0) } else { (0, untold) };
        meter.steps_in_row = meter.steps_in_row.saturating_add(commit.steps);
    }

    /// Counts what was spent. `Err` when that is too much.
    pub(crate) fn spend(&self, usage: RunUsage) -> Result<(), ExceededLimit> {
        let mut meter = self.lock_meter();
        meter.usage += usage;
        // Only tokens and money are looked at here: a step that is under way may finish.
        let cost_micros = meter.most_cost(&self.limits);
        let money = RunLimits { steps: u32::MAX, active: None, cost_micros, ..self.limits.clone() };
        exceeded_limit(&money, 0, Duration::ZERO, &meter.usage).map_or(Ok(()), Err)
    }

    /// An error if the gate decided that the run must not spend more.
    pub(crate) fn check_may_spend(&self) -> Result<(), RunFailure> {
        self.lock_meter().refused.clone().map_or(Ok(()), Err)
    }

    /// Counts what the step spent before it was started again, when a finished task of it is not run again.
    pub(crate) fn add_earlier_usage(&self, usage: RunUsage) {
        self.lock_meter().usage += usage;
    }

    /// What was spent and no row counts: by the tasks of a step that will not be finished.
    pub(crate) fn unbooked_usage(&self) -> RunUsage {
        let meter = self.lock_meter();
        meter.usage.saturating_sub(meter.usage_in_row)
    }

    /// Steps and usage as the row of the run has them after the last commit.
    pub(crate) fn booked_steps_and_usage(&self) -> (u32, RunUsage) {
        let meter = self.lock_meter();
        (meter.steps_in_row, meter.usage_in_row)
    }

    pub(crate) fn count_step(&self) {
        self.lock_meter().steps += 1;
    }

    /// Time worked on so far, earlier claims included.
    pub(crate) fn active_time(&self) -> Duration {
        let meter = self.lock_meter();
        meter.active_before + meter.since.elapsed()
    }

    /// Counts what is shown to watchers. `false` when that is too much; then the run is stopped.
    pub(crate) fn count_shown_bytes(&self, bytes: u64) -> bool {
        let fits = self.shown_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
            <= self.limits.shown_bytes;
        if !fits {
            self.shown_too_much.cancel();
        }
        fits
    }

    /// The limit on what is shown, when it is exceeded.
    pub(crate) fn exceeded_shown_bytes(&self) -> Option<ExceededLimit> {
        self.shown_too_much.is_cancelled().then_some(ExceededLimit::ShownBytes(self.limits.shown_bytes))
    }

    /// Ends when the run was worked on for as long as it may be, or showed as much as it may.
    pub(crate) async fn wait_for_limit(&self) -> ExceededLimit {
        tokio::select! {
            limit = self.wait_for_time_limit() => limit,
            () = self.shown_too_much.cancelled() => ExceededLimit::ShownBytes(self.limits.shown_bytes),
        }
    }

    async fn wait_for_time_limit(&self) -> ExceededLimit {
        let Some(most) = self.limits.active else { return std::future::pending().await };
        loop {
            let left = most.saturating_sub(self.active_time());
            if left.is_zero() {
                return ExceededLimit::Active(most);
            }
            tokio::time::sleep(left).await;
        }
    }

    pub(crate) fn check_limits(&self) -> Result<(), ExceededLimit> {
        let (steps, active, usage) = {
            let meter = self.lock_meter();
            let active = if self.limits.active.is_some() { meter.since.elapsed() } else { Duration::ZERO };
            (meter.steps, meter.active_before + active, meter.usage)
        };
        exceeded_limit(&self.limits, steps, active, &usage).map_or(Ok(()), Err)
    }

    pub(super) fn lock_meter(&self) -> MutexGuard<'_, RunMeter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
