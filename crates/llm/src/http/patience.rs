//! How long an answer is waited for.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// One clock for all the waits of an answer. It is moved on when it rings too early instead of being set anew for every
/// piece: a timer that is set wakes the thread that keeps the timers, and most pieces come long before it rings.
#[derive(Debug)]
pub(super) struct Patience {
    rings: Pin<Box<Sleep>>,
    until: Instant,
}

impl Patience {
    pub(super) fn until(moment: Instant) -> Self {
        Self { rings: Box::pin(sleep_until(moment)), until: moment }
    }

    /// Waits until this moment from now on.
    pub(super) fn set(&mut self, moment: Instant) {
        self.until = moment;
    }

    /// What comes of the future, or none if it takes too long.
    pub(super) async fn wait<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(came) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(came));
            }
            // Only now, as what is there already needs no clock.
            if self.until < self.rings.deadline() {
                self.rings.as_mut().reset(self.until);
            }
            loop {
                ready!(self.rings.as_mut().poll(cx));
                if self.rings.deadline() >= self.until {
                    return Poll::Ready(None);
                }
                self.rings.as_mut().reset(self.until);
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_it_was_set_to_later_or_sooner() {
        let second = Duration::from_secs(1);
        let begun = Instant::now();
        let mut patience = Patience::until(begun + 10 * second);
        assert_eq!(patience.wait(async { 7 }).await, Some(7));
        patience.set(begun + 30 * second);
        assert_eq!(patience.wait(sleep(20 * second)).await, Some(()));
        assert_eq!(patience.wait(pending::<()>()).await, None);
        assert_eq!(begun.elapsed().as_secs(), 30);
        let mut patience = Patience::until(Instant::now() + 300 * second);
        patience.set(Instant::now() + 5 * second);
        assert_eq!(patience.wait(pending::<()>()).await, None);
        assert_eq!(begun.elapsed().as_secs(), 35);
        // A clock that rang waits again when it is set again.
        patience.set(Instant::now() + 5 * second);
        assert_eq!(patience.wait(sleep(4 * second)).await, Some(()));
        assert_eq!(patience.wait(pending::<()>()).await, None);
        assert_eq!(begun.elapsed().as_secs(), 40);
    }
}
