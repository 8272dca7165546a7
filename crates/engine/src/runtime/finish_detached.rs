//! Work that goes on when its caller stops waiting for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::error::EngineError;

/// Does what was begun to its end, also when the caller stops waiting for it. A client that leaves must not leave a
/// run behind that is accepted and driven by nobody.
///
/// The caller does the work as long as it waits. What is left when it goes away becomes a task: most callers stay, and a
/// task costs more than the rest of starting a run.
pub(super) fn finish_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> impl Future<Output = Result<T, EngineError>> + Send {
    FinishDetached { work: Some(Box::pin(work)), begun_on: None }
}

struct FinishDetached<F: Future<Output: Send + 'static> + Send + 'static> {
    work: Option<Pin<Box<F>>>,
    /// Where it was begun. What was not begun need not be finished.
    begun_on: Option<Handle>,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for FinishDetached<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.begun_on.is_none() {
            self.begun_on = Some(Handle::current());
        }
        // Work that panics is not polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for FinishDetached<F> {
    fn drop(&mut self) {
        if let (Some(work), Some(runtime)) = (self.work.take(), self.begun_on.take()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn work_that_was_begun_is_finished_without_its_caller() {
        let (gate, done) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let work = |gate: Arc<Semaphore>, done: Arc<Semaphore>| async move {
            gate.acquire().await.expect("open").forget();
            done.add_permits(1);
            Ok(7)
        };
        let mut left = Box::pin(finish_detached(work(gate.clone(), done.clone())));
        assert!(futures_util::poll!(left.as_mut()).is_pending());
        drop(left);
        gate.add_permits(1);
        let finished = tokio::time::timeout(Duration::from_secs(60), done.acquire()).await;
        finished.expect("in time").expect("open").forget();
        // A caller that stays gets the result, and what was not begun is not done.
        gate.add_permits(1);
        let finished = finish_detached(work(gate.clone(), done.clone())).await;
        assert_eq!(finished.expect("no error"), 7);
        drop(finish_detached(work(gate.clone(), done.clone())));
        gate.add_permits(1);
        tokio::task::yield_now().await;
        assert_eq!((gate.available_permits(), done.available_permits()), (1, 1));
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller_once() {
        let work: Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send>> =
            Box::pin(async { panic!("on the way") });
        let caught = tokio::spawn(finish_detached(work)).await;
        assert!(caught.is_err_and(|error| error.is_panic()));
    }
}
