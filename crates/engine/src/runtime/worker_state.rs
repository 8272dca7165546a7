//! What this process does besides driving the runs it has: whether it renews leases, and which runs it looks for.

/// Which runs are looked for, now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum RunScan {
    /// None: this process drives what it is given.
    #[default]
    Off,
    /// Runs that were lost here, once their lease is over.
    LostRuns,
    /// All runs that nobody works on.
    WaitingRuns,
}

/// The state of a runtime as a worker.
#[derive(Debug, Default)]
pub(super) struct WorkerState {
    lease_keeper_started: bool,
    scan: RunScan,
    /// Runs may wait that nobody will announce, because this process had no room for them.
    pub(super) runs_wait_for_capacity: bool,
}

impl WorkerState {
    /// Notes that the lease keeper runs. `true` the first time: the caller that gets it starts the lease keeper.
    pub(super) fn claim_lease_keeper(&mut self) -> bool {
        !std::mem::replace(&mut self.lease_keeper_started, true)
    }

    /// From now on, looks for runs that were lost here.
    pub(super) fn scan_for_lost_runs(&mut self) {
        self.scan = self.scan.max(RunScan::LostRuns);
    }

    /// From now on, looks for all runs that nobody works on.
    pub(super) fn scan_for_waiting_runs(&mut self) {
        self.scan = RunScan::WaitingRuns;
    }

    /// Whether it looks for runs at all.
    pub(super) fn scans(&self) -> bool {
        self.scan != RunScan::Off
    }

    /// Whether runs may wait for room. `true` is given once, since the caller then looks for them.
    pub(super) fn take_runs_wait_for_capacity(&mut self) -> bool {
        std::mem::take(&mut self.runs_wait_for_capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_run_never_narrows_what_is_looked_for() {
        let mut state = WorkerState::default();
        assert!(!state.scans());
        state.scan_for_lost_runs();
        assert_eq!(state.scan, RunScan::LostRuns);
        state.scan_for_waiting_runs();
        state.scan_for_lost_runs();
        assert_eq!(state.scan, RunScan::WaitingRuns);
    }

    #[test]
    fn the_lease_keeper_is_started_once_and_waiting_runs_are_looked_for_once() {
        let mut state = WorkerState { runs_wait_for_capacity: true, ..WorkerState::default() };
        assert!(state.claim_lease_keeper() && !state.claim_lease_keeper());
        assert!(state.take_runs_wait_for_capacity() && !state.take_runs_wait_for_capacity());
    }
}
