//! How long a server that has too much to do is asked again.

use std::time::{Duration, Instant};

/// A queue moves on when a document was read, which may take a minute. After this long without any nothing moves.
const MAX_BUSY_WAIT: Duration = Duration::from_secs(600);
/// A wait that people do not notice needs no word.
const SILENT_BUSY_WAIT: Duration = Duration::from_secs(5);

/// The patience of one run, over all that it hands in. Whoever has waited in vain does not wait for the next one too.
#[derive(Debug)]
pub(crate) struct BusyServerRetry {
    pub(crate) max_wait: Duration,
    /// When the server first did not take what is handed in now.
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
    fn a_wait_is_told_once_and_ends_unless_something_moves() {
        let mut patience = BusyServerRetry::default();
        let began = Instant::now();
        let mut after = |seconds| patience.decide(began + Duration::from_secs(seconds));
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
        patience.reset();
        let mut after = |seconds| patience.decide(began + Duration::from_secs(seconds));
        assert_eq!(
            [700, 1299, 1300].map(&mut after),
            [BusyRetryDecision::WaitSilently, BusyRetryDecision::WaitSilently, BusyRetryDecision::GiveUp]
        );
    }
}
