//! Runs futures side by side, on as many cores as there are and so many at a time, and aborts them when nobody waits
//! any more.
//!
//! A future that is ready at once costs no task of its own: a few workers poll each future once and hand only those
//! that have to wait to the scheduler. A worker that was busy for a while lets others have its core.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::AbortHandle;

/// How long a worker polls futures before it lets other tasks of the process go on.
const MAX_BUSY_TIME: Duration = Duration::from_micros(200);

/// How long results are gathered while workers still find futures that are ready at once.
const MAX_GATHER_TIME: Duration = Duration::from_millis(1);

type FanOutFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures under way. Dropping it aborts them.
pub(crate) struct FanOut<T> {
    done: mpsc::UnboundedReceiver<(usize, T)>,
    shared: Arc<FanOutShared<T>>,
}

struct FanOutShared<T> {
    waiting: Vec<Mutex<Option<FanOutFuture<T>>>>,
    next: AtomicUsize,
    /// One for each future that may be at work.
    permits: Arc<Semaphore>,
    /// Workers that poll futures for the first time and do not wait for a permit.
    polling_workers: AtomicUsize,
    /// Notified when there is one less.
    polled: Notify,
    aborts: Mutex<AbortHandles>,
}

#[derive(Default)]
struct AbortHandles {
    closed: bool,
    handles: Vec<AbortHandle>,
}

/// Starts all of them, at most `limit` at a time.
pub(crate) fn run_concurrently<T: Send + 'static>(futures: Vec<FanOutFuture<T>>, limit: usize) -> FanOut<T> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(futures.len());
    let (tx, done) = mpsc::unbounded_channel();
    let shared = Arc::new(FanOutShared {
        waiting: futures.into_iter().map(|future| Mutex::new(Some(future))).collect(),
        next: AtomicUsize::new(0),
        permits: Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS))),
        polling_workers: AtomicUsize::new(workers),
        polled: Notify::new(),
        aborts: Mutex::default(),
    });
    for _ in 0..workers {
        let handle = tokio::spawn(poll_waiting_futures(shared.clone(), tx.clone())).abort_handle();
        shared.add_abort_handle(handle);
    }
    FanOut { done, shared }
}

impl<T> FanOut<T> {
    /// The next that finished, each with its place among the futures given. `None` when a worker is gone. Those that are
    /// ready at once come together.
    pub(crate) async fn next_batch(&mut self) -> Option<Vec<(usize, T)>> {
        let mut finished = vec![self.done.recv().await?];
        let gather = async {
            while self.shared.polling_workers.load(Ordering::SeqCst) > 0 {
                tokio::select! {
                    more = self.done.recv() => match more {
                        Some(more) => finished.push(more),
                        None => return,
                    },
                    () = self.shared.polled.notified() => {}
                }
            }
        };
        // When the time is over, what has finished is enough.
        drop(tokio::time::timeout(MAX_GATHER_TIME, gather).await);
        while let Ok(more) = self.done.try_recv() {
            finished.push(more);
        }
        Some(finished)
    }
}

/// A worker that polls futures for the first time.
struct PollingWorker<'a, T>(&'a FanOutShared<T>);

impl<T> Drop for PollingWorker<'_, T> {
    fn drop(&mut self) {
        self.0.polling_workers.fetch_sub(1, Ordering::SeqCst);
        self.0.polled.notify_one();
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
    let mut busy_since = Instant::now();
    let mut polling = PollingWorker(&shared);
    loop {
        let permit = match shared.permits.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                drop(polling);
                // An error means that nobody waits any more.
                let Ok(permit) = shared.permits.clone().acquire_owned().await else { return };
                shared.polling_workers.fetch_add(1, Ordering::SeqCst);
                polling = PollingWorker(&shared);
                permit
            }
        };
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
                    drop(permit);
                });
                shared.add_abort_handle(task.abort_handle());
            }
        }
        if busy_since.elapsed() >= MAX_BUSY_TIME {
            tokio::task::yield_now().await;
            busy_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collect<T: Send + 'static>(futures: Vec<FanOutFuture<T>>) -> Vec<(usize, T)> {
        let count = futures.len();
        let mut fan = run_concurrently(futures, usize::MAX);
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(fan.next_batch().await.expect("a result"));
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
                    // Only one of two that compute at the same time ever sees the other.
                    let until = Instant::now() + Duration::from_secs(10);
                    while Instant::now() < until && most.load(Ordering::SeqCst) < 2 {
                        std::hint::spin_loop();
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                }) as FanOutFuture<()>
            })
            .collect();
        collect(futures).await;
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
            assert!(most.load(Ordering::SeqCst) >= 2);
        }
    }

    #[tokio::test]
    async fn what_is_ready_at_once_comes_together_and_waits_for_nobody_else() {
        let futures = (0..40)
            .map(|n| {
                Box::pin(async move {
                    if n == 7 {
                        std::future::pending::<()>().await;
                    }
                }) as FanOutFuture<()>
            })
            .collect::<Vec<_>>();
        let mut fan = run_concurrently(futures, usize::MAX);
        assert_eq!(fan.next_batch().await.expect("results").len(), 39);
        // Neither does a future that waits for a worker hold them up.
        let futures = (0..40)
            .map(|n| {
                Box::pin(async move {
                    if n >= 20 {
                        std::future::pending::<()>().await;
                    }
                }) as FanOutFuture<()>
            })
            .collect::<Vec<_>>();
        let mut fan = run_concurrently(futures, 3);
        assert_eq!(fan.next_batch().await.expect("results").len(), 20);
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
        let fan = run_concurrently(futures, usize::MAX);
        tokio::task::yield_now().await;
        drop(fan);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&held), 1);
    }

    fn spin(time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn computing_lets_other_tasks_go_on() {
        let futures = (0..40).map(|_| Box::pin(async { spin(MAX_BUSY_TIME) }) as FanOutFuture<()>).collect();
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        collect(futures).await;
        other.abort();
        assert!(turns.load(Ordering::SeqCst) >= 20, "{turns:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_at_work_than_may_be() {
        let running = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let futures = (0..50)
            .map(|n| {
                let (running, most) = (running.clone(), most.clone());
                Box::pin(async move {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    if n % 3 > 0 {
                        tokio::time::sleep(Duration::from_millis(n)).await;
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                }) as FanOutFuture<()>
            })
            .collect::<Vec<_>>();
        let mut fan = run_concurrently(futures, 7);
        let mut finished = 0;
        while finished < 50 {
            finished += fan.next_batch().await.expect("a result").len();
        }
        assert_eq!(most.load(Ordering::SeqCst), 7);
    }
}
