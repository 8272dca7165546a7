//! Work whose length depends on stored bytes: reading a long log must not hold up a worker of the runtime.

/// More bytes than this are worked on elsewhere: reading them takes about a millisecond.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// Does work on so many bytes. Much is done on a thread for blocking work, so that nobody else waits for it.
pub(crate) async fn work_on_bytes<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= MAX_INLINE_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn much_work_leaves_the_worker_and_its_panic_comes_back() {
        let thread = || std::thread::current().id();
        let here = thread();
        assert_eq!(work_on_bytes(MAX_INLINE_BYTES, thread).await, here);
        assert_ne!(work_on_bytes(MAX_INLINE_BYTES + 1, thread).await, here);
        let panicked = crate::drive::catch_panic(std::pin::pin!(work_on_bytes(
            MAX_INLINE_BYTES + 1,
            || panic!("brittle")
        )))
        .await;
        assert_eq!(panicked, Err::<(), _>("brittle".to_owned()));
    }
}
