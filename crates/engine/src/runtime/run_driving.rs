//! The work of a run, done by a caller who waits for it or by a task.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use crate::runtime::run_worker::ActiveRun;

thread_local! {
    /// Whether a caller on this thread is doing the work of a run.
    static IS_DRIVING: Cell<bool> = const { Cell::new(false) };
}

/// Drives a run as long as it is polled, and ends when the run rests. What is left when it is dropped becomes a task, so a run goes
/// on without its caller. A caller who waits for the run saves the task and the two times that one thread wakes another.
pub(crate) struct RunDriving {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    active: Arc<ActiveRun>,
    runtime: Handle,
}

impl RunDriving {
    /// The work of `active`, which is not begun.
    pub(super) fn new<T>(work: impl Future<Output = T> + Send + 'static, active: Arc<ActiveRun>) -> Self {
        let work = Box::pin(async move { drop(work.await) });
        Self { work: Some(work), active, runtime: Handle::current() }
    }

    /// The work, unless this is called by a node of a run that its caller drives: that one would be polled from inside the other,
    /// and the stack would grow with each run that starts another.
    pub(super) fn for_caller(self) -> Option<Self> {
        (!IS_DRIVING.get()).then_some(self)
    }
}

impl Future for RunDriving {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut work) = self.work.take() else { return Poll::Ready(()) };
        let outer = IS_DRIVING.replace(true);
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        IS_DRIVING.set(outer);
        match polled {
            Ok(Poll::Pending) => {}
            // Whoever waits finds in the log how far a run came whose work panicked.
            Ok(Poll::Ready(())) | Err(_) => return Poll::Ready(()),
        }
        self.work = Some(work);
        // What is left when the run rests is to look for other runs.
        if self.active.outcome.borrow().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for RunDriving {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(work);
        }
    }
}
