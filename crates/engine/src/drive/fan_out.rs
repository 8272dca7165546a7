//! Runs futures side by side, on as many cores as there are, and aborts them when nobody waits any more.
//!
//! A future that is ready at once costs no task of its own: a few workers poll each future once and hand only those
//! that have to wait to the scheduler. A future that computes for long keeps one worker busy, and the others go on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

type FanOutFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures under way. Dropping it aborts them.
pub(crate) struct FanOut<T> {
    done: mpsc::UnboundedReceiver<(usize, T)>,
    shared: Arc<FanOutShared<T>>,
}

struct FanOutShared<T> {
    waiting: Vec<Mutex<Option<FanOutFuture<T>>>>,
    next: AtomicUsize,
    aborts: Mutex<AbortHandles>,
}

#[derive(Default)]
struct AbortHandles {
    closed: bool,
    handles: Vec<AbortHandle>,
}

/// Starts all of them.
pub(crate) fn run_concurrently<T: Send + 'static>(futures: Vec<FanOutFuture<T>>) -> FanOut<T> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(futures.len());
    let (tx, done) = mpsc::unbounded_channel();
    let shared = Arc::new(FanOutShared {
        waiting: futures.into_iter().map(|future| Mutex::new(Some(future))).collect(),
        next: AtomicUsize::new(0),
        aborts: Mutex::default(),
    });
    for _ in 0..workers {
        let handle = tokio::spawn(poll_waiting_futures(shared.clone(), tx.clone())).abort_handle();
        shared.add_abort_handle(handle);
    }
    FanOut { done, shared }
}

impl<T> FanOut<T> {
    /// The next that finished, with its place among the futures given. `None` when a worker is gone.
    pub(crate) async fn next(&mut self) -> Option<(usize, T)> {
        self.done.recv().await
    }

    /// Another that finished already.
    pub(crate) fn try_next(&mut self) -> Option<(usize, T)> {
        self.done.try_recv().ok()
    }
}

impl<T> Drop for FanOut<T> {
    fn drop(&mut self) {
        let mut aborts = self.shared.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        aborts.closed = true;
        aborts.handles.drain(..).for_each(|handle| handle.abort());
    }
}

impl<T> FanOutShared<T> {
    fn add_abort_handle(&self, handle: AbortHandle) {
        let mut aborts = self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        if aborts.closed {
            handle.abort();
        } else {
            aborts.handles.push(handle);
        }
    }
}

async fn poll_waiting_futures<T: Send + 'static>(
    shared: Arc<FanOutShared<T>>,
    tx: mpsc::UnboundedSender<(usize, T)>,
) {
    loop {
        let place = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = shared.waiting.get(place) else { return };
        let taken = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut future) = taken else { continue };
        match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            Poll::Ready(value) => {
                if tx.send((place, value)).is_err() {
                    return;
                }
            }
            Poll::Pending => {
                let tx = tx.clone();
                let task = tokio::spawn(async move {
                    let value = future.await;
                    // Nobody waits any more when this fails, and then the value is not wanted.
                    drop(tx.send((place, value)));
                });
                shared.add_abort_handle(task.abort_handle());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    async fn collect<T: Send + 'static>(futures: Vec<FanOutFuture<T>>) -> Vec<(usize, T)> {
        let count = futures.len();
        let mut fan = run_concurrently(futures);
        let mut all = Vec::new();
        while all.len() < count {
            all.push(fan.next().await.expect("a result"));
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn sleepers_sleep_together() {
        let begun = tokio::time::Instant::now();
        let futures = (0..10u64)
            .map(|n| {
                Box::pin(async move { tokio::time::sleep(Duration::from_millis(20 + n)).await })
                    as FanOutFuture<()>
            })
            .collect();
        assert_eq!(collect(futures).await.len(), 10);
        assert!(begun.elapsed() < Duration::from_millis(40));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn computing_uses_more_than_one_core() {
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let futures = (0..4)
            .map(|_| {
                let (running, most) = (running.clone(), most.clone());
                Box::pin(async move {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let until = Instant::now() + Duration::from_millis(30);
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                }) as FanOutFuture<()>
            })
            .collect();
        collect(futures).await;
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
            assert_eq!(most.load(Ordering::SeqCst), 2);
        }
    }

    #[tokio::test]
    async fn dropping_it_aborts_what_waits() {
        let held = Arc::new(());
        let futures = (0..3)
            .map(|_| {
                let held = held.clone();
                Box::pin(async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }) as FanOutFuture<()>
            })
            .collect();
        let fan = run_concurrently(futures);
        tokio::task::yield_now().await;
        drop(fan);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
