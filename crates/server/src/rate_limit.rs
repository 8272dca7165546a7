//! Rate limit per API key: a token bucket.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::authentication::ApiCaller;

/// Requests a key may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// In the long run.
    pub per_minute: f64,
    /// At once.
    pub burst: f64,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { per_minute: 1200.0, burst: 200.0 }
    }
}

/// Wrong keys that get 401, all together; more get 429.
const WRONG_KEY_LIMIT: RateLimit = RateLimit { per_minute: 60.0, burst: 100.0 };

/// The buckets of all keys. Callers without a key are programs of this machine and are not counted.
#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    rate: RateLimit,
    buckets: Arc<Mutex<HashMap<Arc<str>, TokenBucket>>>,
    wrong_keys: Arc<Mutex<Option<TokenBucket>>>,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    refilled_at: Instant,
}

impl RateLimiter {
    pub(crate) fn new(rate: RateLimit) -> Self {
        Self { rate, buckets: Arc::default(), wrong_keys: Arc::default() }
    }

    /// Counts a request, or tells how long to wait.
    pub(crate) fn take(&self, caller: &ApiCaller) -> Result<(), Duration> {
        let Some(key) = &caller.key else { return Ok(()) };
        self.take_at(key, Instant::now())
    }

    /// Counts a request with a wrong key, or tells how long to wait. There is one bucket for all: who guesses has as
    /// many keys and addresses as he likes.
    pub(crate) fn take_for_wrong_key(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut wrong = self.wrong_keys.lock().unwrap_or_else(PoisonError::into_inner);
        wrong
            .get_or_insert(TokenBucket { tokens: WRONG_KEY_LIMIT.burst, refilled_at: now })
            .take(WRONG_KEY_LIMIT, now)
    }

    fn take_at(&self, key: &Arc<str>, now: Instant) -> Result<(), Duration> {
        // There are as many buckets as keys were ever used, so they need no clearing.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets
            .entry(key.clone())
            .or_insert(TokenBucket { tokens: self.rate.burst, refilled_at: now })
            .take(self.rate, now)
    }
}

impl TokenBucket {
    fn take(&mut self, RateLimit { per_minute, burst }: RateLimit, now: Instant) -> Result<(), Duration> {
        let per_second = (per_minute / 60.0).max(f64::MIN_POSITIVE);
        let since = now.saturating_duration_since(self.refilled_at).as_secs_f64();
        *self = Self { tokens: (self.tokens + since * per_second).min(burst), refilled_at: now };
        if self.tokens < 1.0 {
            let wait = (1.0 - self.tokens) / per_second;
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::from_secs(3600)));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_calls_too_often_waits_and_others_do_not() {
        let rates = RateLimiter::new(RateLimit { per_minute: 60.0, burst: 2.0 });
        let (a, b, now): (Arc<str>, Arc<str>, Instant) = ("a".into(), "b".into(), Instant::now());
        assert!(rates.take_at(&a, now).is_ok() && rates.take_at(&a, now).is_ok());
        let wait = rates.take_at(&a, now).expect_err("empty");
        assert!((0.9..=1.1).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(rates.take_at(&b, now).is_ok());
        assert!(rates.take_at(&a, now + wait).is_ok());
        assert!(rates.take_at(&a, now + wait).is_err());
    }
}
