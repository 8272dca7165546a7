//! What a node may be given: retries, timeouts, and a cache of earlier results.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{NodeError, NodeErrorKind};

/// Which errors of a node are tried again, how often and how patiently: transient ones, unless
/// [`RetryPolicy::retry_on`] says otherwise.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// Tries in all, the first included.
    pub attempts: u32,
    /// Wait before the second try.
    pub first_wait: Duration,
    /// Each wait is this many times the one before. A number that is negative or not finite is refused by `build`.
    pub factor: f64,
    /// No wait is longer.
    pub max_wait: Duration,
    /// Which errors are tried again.
    pub retried_errors: RetriedErrors,
}

/// Which errors of a node are tried again.
#[derive(Clone, Default)]
pub struct RetriedErrors(Option<ErrorPredicate>);

type ErrorPredicate = Arc<dyn Fn(&NodeError) -> bool + Send + Sync>;

impl std::fmt::Debug for RetriedErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "chosen errors" } else { "transient errors" })
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::times(3)
    }
}

impl RetryPolicy {
    /// No second try.
    pub fn never() -> Self {
        Self::times(1)
    }

    /// So many tries in all, from half a second, doubling, up to half a minute.
    pub fn times(attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            first_wait: Duration::from_millis(500),
            factor: 2.0,
            max_wait: Duration::from_secs(30),
            retried_errors: RetriedErrors::default(),
        }
    }

    /// Another first wait.
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// Tries again the errors for which `decide` says so, transient or not. A node that ran out of time is always tried
    /// again; a panic never is.
    pub fn retry_on(mut self, decide: impl Fn(&NodeError) -> bool + Send + Sync + 'static) -> Self {
        self.retried_errors = RetriedErrors(Some(Arc::new(decide)));
        self
    }

    /// Whether an error that a node gave is one to try again.
    pub(crate) fn retries(&self, error: &NodeError) -> bool {
        match (&error.kind, &self.retried_errors.0) {
            (NodeErrorKind::Transient | NodeErrorKind::Permanent | NodeErrorKind::NotDone, Some(decide)) => {
                decide(error)
            }
            (kind, _) => matches!(kind, NodeErrorKind::Transient),
        }
    }

    /// The wait after `tried` tries, or `None` when that was enough. `jitter` is in 0..1; a wait is cut by up to half,
    /// so that many runs that failed together do not come back together.
    pub(crate) fn wait_after(&self, tried: u32, jitter: f64) -> Option<Duration> {
        if tried >= self.attempts {
            return None;
        }
        if self.first_wait.is_zero() {
            return Some(Duration::ZERO);
        }
        let exponent = i32::try_from(tried.saturating_sub(1)).unwrap_or(i32::MAX);
        let wait = self.first_wait.as_secs_f64() * self.factor.powi(exponent);
        let wait = wait.min(self.max_wait.as_secs_f64());
        // A wait at the very end of what a duration can hold may round past it.
        Some(Duration::try_from_secs_f64(wait * (1.0 - jitter / 2.0)).unwrap_or(self.max_wait))
    }

    /// Whether waits can be worked out with it.
    pub(crate) fn is_valid(&self) -> bool {
        self.factor.is_finite() && self.factor >= 0.0
    }
}

/// How long one try of a node may take. Nothing is limited unless set.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTimeout {
    /// In all.
    pub total: Option<Duration>,
    /// Without a sign of life: a delta, a recorded call, a heartbeat.
    pub idle: Option<Duration>,
}

impl NodeTimeout {
    /// At most this long in all.
    pub fn total(limit: Duration) -> Self {
        Self { total: Some(limit), idle: None }
    }

    /// At most this long without a sign of life.
    pub fn idle(limit: Duration) -> Self {
        Self { total: None, idle: Some(limit) }
    }
}

/// When an earlier result of a node may stand in for running it. Kept per tenant, graph shape, node and, for a task of
/// a dynamic fan-out, its item.
pub struct NodeCachePolicy<S> {
    pub(crate) key: Arc<dyn Fn(&S) -> String + Send + Sync>,
    pub(crate) lifetime: Option<Duration>,
}

impl<S> NodeCachePolicy<S> {
    /// Results are the same where `key` is the same.
    pub fn by_key(key: impl Fn(&S) -> String + Send + Sync + 'static) -> Self {
        Self { key: Arc::new(key), lifetime: None }
    }

    /// How long a result may be used.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_longest_and_end() {
        let retry = RetryPolicy { max_wait: Duration::from_secs(3), ..RetryPolicy::times(5) };
        let waits: Vec<Option<u128>> =
            (1..=5).map(|tried| retry.wait_after(tried, 0.0).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits, [Some(500), Some(1000), Some(2000), Some(3000), None]);
        assert_eq!(retry.wait_after(1, 1.0), Some(Duration::from_millis(250)));
        assert_eq!(RetryPolicy::never().wait_after(1, 0.0), None);
    }

    #[test]
    fn no_policy_that_is_built_panics_when_it_waits() {
        let longest = RetryPolicy { max_wait: Duration::MAX, factor: f64::MAX, ..RetryPolicy::times(9000) };
        assert_eq!(longest.wait_after(8000, 0.0), Some(Duration::MAX));
        let none = RetryPolicy::times(9000).first_wait(Duration::ZERO);
        assert_eq!(none.wait_after(8000, 0.0), Some(Duration::ZERO));
    }
}
