//! How long a request to a busy server is retried.

use std::time::{Duration, Instant};

/// A queue moves on when a document was read, which may take a minute. After this long without any nothing moves.
const MAX_BUSY_WAIT: Duration = Duration::from_secs(600);
/// A wait that people do not notice is not reported.
const SILENT_BUSY_WAIT: Duration = Duration::from_secs(5);

/// Retries of one command, over all files that it uploads. After one file was given up, the next one is not waited for.
#[derive(Debug)]
pub(crate) struct BusyServerRetry {
    pub(crate) max_wait: Duration,
    /// When the server first refused the current file.
    busy_since: Option<Instant>,
    notified: bool,
}

/// What to do about a server that is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BusyRetryDecision {
    WaitSilently,
    /// And say what is waited for.
    WaitAndNotify,
    /// No longer.
    GiveUp,
}

impl Default for BusyServerRetry {
    fn default() -> Self {
        Self::with_max_wait(MAX_BUSY_WAIT)
    }
}

impl BusyServerRetry {
    /// One that lasts so long.
    pub(crate) fn with_max_wait(max_wait: Duration) -> Self {
        Self { max_wait, busy_since: None, notified: false }
    }

    /// The server is busy.
    pub(crate) fn decide(&mut self, now: Instant) -> BusyRetryDecision {
        let waited = now.saturating_duration_since(*self.busy_since.get_or_insert(now));
        if waited >= self.max_wait {
            return BusyRetryDecision::GiveUp;
        }
        if waited < SILENT_BUSY_WAIT || self.notified {
            return BusyRetryDecision::WaitSilently;
        }
        self.notified = true;
        BusyRetryDecision::WaitAndNotify
    }

    /// The server has taken something, so it moves.
    pub(crate) fn reset(&mut self) {
        self.busy_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_reported_once_and_ends_unless_something_moves() {
        let mut retry = BusyServerRetry::default();
        let began = Instant::now();
        let mut after = |seconds| retry.decide(began + Duration::from_secs(seconds));
        assert_eq!(
            [0, 4, 5, 6, 599].map(&mut after),
            [
                BusyRetryDecision::WaitSilently,
                BusyRetryDecision::WaitSilently,
                BusyRetryDecision::WaitAndNotify,
                BusyRetryDecision::WaitSilently,
                BusyRetryDecision::WaitSilently
            ]
        );
        assert_eq!([600, 601].map(after), [BusyRetryDecision::GiveUp; 2]);
        retry.reset();
        let mut after = |seconds| retry.decide(began + Duration::from_secs(seconds));
        assert_eq!(
            [700, 1299, 1300].map(&mut after),
            [BusyRetryDecision::WaitSilently, BusyRetryDecision::WaitSilently, BusyRetryDecision::GiveUp]
        );
    }
}
