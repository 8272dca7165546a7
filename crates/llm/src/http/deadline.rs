//! A movable deadline for the waits of one response.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// One timer for all waits of a response. It is extended when it fires too early, instead of being reset for every
/// chunk: setting a timer wakes the timer thread, and most chunks arrive long before the deadline.
#[derive(Debug)]
pub(super) struct MovableDeadline {
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl MovableDeadline {
    pub(super) fn expiring_at(moment: Instant) -> Self {
        Self { timer: Box::pin(sleep_until(moment)), deadline: moment }
    }

    /// Sets the deadline.
    pub(super) fn set_deadline(&mut self, moment: Instant) {
        self.deadline = moment;
    }

    /// Waits for the future. Returns `None` if the deadline passes first.
    pub(super) async fn wait_for<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // Set only here, because a future that is ready at once needs no timer.
            if self.deadline < self.timer.deadline() {
                self.timer.as_mut().reset(self.deadline);
            }
            loop {
                ready!(self.timer.as_mut().poll(cx));
                if self.timer.deadline() >= self.deadline {
                    return Poll::Ready(None);
                }
                self.timer.as_mut().reset(self.deadline);
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
        let started = Instant::now();
        let mut deadline = MovableDeadline::expiring_at(started + 10 * second);
        assert_eq!(deadline.wait_for(async { 7 }).await, Some(7));
        deadline.set_deadline(started + 30 * second);
        assert_eq!(deadline.wait_for(sleep(20 * second)).await, Some(()));
        assert_eq!(deadline.wait_for(pending::<()>()).await, None);
        assert_eq!(started.elapsed().as_secs(), 30);
        let mut deadline = MovableDeadline::expiring_at(Instant::now() + 300 * second);
        deadline.set_deadline(Instant::now() + 5 * second);
        assert_eq!(deadline.wait_for(pending::<()>()).await, None);
        assert_eq!(started.elapsed().as_secs(), 35);
        // A timer that has fired can be set again.
        deadline.set_deadline(Instant::now() + 5 * second);
        assert_eq!(deadline.wait_for(sleep(4 * second)).await, Some(()));
        assert_eq!(deadline.wait_for(pending::<()>()).await, None);
        assert_eq!(started.elapsed().as_secs(), 40);
    }
}
