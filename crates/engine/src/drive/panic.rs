//! Panics of code that is not the engine's: nodes, reducers, branches. Each ends its run and nothing else.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Waits for `future`; `Err` is the message of its panic. The caller pins it: a future that an `async fn` takes by value is
/// in it twice and is copied when it begins.
pub(crate) async fn catch_panic<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Result<T, String> {
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(panic_message(&*panic))),
    })
    .await
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
