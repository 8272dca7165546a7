//! Decides whether a request that failed is sent again, and after how long. The sender counts its requests.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::error::ModelError;

/// How often a request is sent and how long the waits between are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRetryPolicy {
    /// The most requests, the first one included.
    pub max_requests: u32,
    /// The first wait. Each further one is twice as long, with jitter.
    pub first_wait: Duration,
    /// The longest wait that is chosen here. A vendor may ask for more.
    pub max_wait: Duration,
    /// How long after the first request another one may still be sent. A vendor that asks for a longer wait has failed.
    pub max_elapsed: Duration,
}

impl Default for ModelRetryPolicy {
    fn default() -> Self {
        Self {
            max_requests: 3,
            first_wait: Duration::from_millis(500),
            max_wait: Duration::from_secs(8),
            max_elapsed: Duration::from_secs(60),
        }
    }
}

impl ModelRetryPolicy {
    /// The wait before the next request, after `sent` requests in `elapsed` time, the last of which failed with `error`.
    /// `None` means that the error is final.
    ///
    /// Do not ask after the first word of an answer: half an answer is never joined to another.
    pub fn wait_before_next(&self, sent: u32, elapsed: Duration, error: &ModelError) -> Option<Duration> {
        if !error.is_transient() || sent == 0 || sent >= self.max_requests {
            return None;
        }
        let waits = ExponentialBuilder::default()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.max_wait)
            .with_max_times(self.max_requests as usize)
            .with_jitter();
        let wait = waits.build().nth(sent as usize - 1)?;
        let wait = error.retry_after().map_or(wait, |requested| requested.max(wait));
        (elapsed + wait <= self.max_elapsed).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(seconds: u64) -> ModelError {
        let retry_after = Some(Duration::from_secs(seconds));
        ModelError::RateLimited { reason: "often".into(), retry_after }
    }

    #[test]
    fn a_failure_that_may_pass_is_tried_three_times() {
        let (policy, error) = (ModelRetryPolicy::default(), ModelError::Broken { reason: "reset".into() });
        let wait = |sent| policy.wait_before_next(sent, Duration::ZERO, &error);
        let (first, second) = (wait(1).expect("a wait"), wait(2).expect("a wait"));
        assert!(first >= policy.first_wait && first < second * 2, "{first:?} {second:?}");
        assert_eq!((wait(3), wait(4)), (None, None));
    }

    #[test]
    fn a_vendor_is_left_alone_as_long_as_it_asks_within_the_limit() {
        let policy = ModelRetryPolicy::default();
        let wait = |elapsed, seconds| {
            policy
                .wait_before_next(1, Duration::from_secs(elapsed), &limited(seconds))
                .map(|wait| wait.as_secs())
        };
        assert_eq!((wait(0, 20), wait(39, 20)), (Some(20), Some(20)));
        assert_eq!((wait(50, 20), wait(0, 86_400)), (None, None));
    }

    #[test]
    fn a_refusal_is_final() {
        let refused = ModelError::Unauthorized { reason: "no".into() };
        assert_eq!(ModelRetryPolicy::default().wait_before_next(1, Duration::ZERO, &refused), None);
    }
}
