//! Batches concurrent writes: one statement, one transaction and one disk sync for all of them.
//!
//! A batcher takes writes of one kind and has one statement in flight. A write that finds none in flight is sent at once and
//! alone. Writes that arrive meanwhile wait, and are sent together. No write is delayed to wait for others. A second
//! statement would gain nothing: the server writes its log one flush after another, and smaller batches cost it more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use doran_engine::store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The most writes in one statement, and the approximate limit of their bytes.
const MAX_WRITES_PER_BATCH: usize = 64;
const MAX_BATCH_BYTES: usize = 1 << 20;

/// A kind of write that can be batched.
pub(super) trait BatchWriter: Send + Sync + 'static {
    /// One write.
    type Item: Send + Sync + 'static;
    /// The result of a write.
    type Done: Send + 'static;

    /// The approximate size of the write in bytes.
    fn byte_size(item: &Self::Item) -> usize;

    /// Executes all writes in one transaction and returns their results in order. `None` means that a write was not
    /// done; executing it alone finds out why. An error applies to all writes.
    fn write_batch(
        &self,
        items: &[Self::Item],
    ) -> impl Future<Output = Result<Vec<Option<Self::Done>>, StoreError>> + Send;
}

/// The result of a write, or the item itself if the batch did not do it.
pub(super) type BatchedWriteResult<T> =
    Result<Result<<T as BatchWriter>::Done, <T as BatchWriter>::Item>, StoreError>;

/// Batches writes of one kind. See the module documentation.
pub(super) struct WriteBatcher<T: BatchWriter> {
    writer: T,
    queue: Mutex<BatchQueue<T>>,
}

struct BatchQueue<T: BatchWriter> {
    in_flight: bool,
    waiting: VecDeque<(T::Item, oneshot::Sender<BatchedWriteResult<T>>)>,
}

impl<T: BatchWriter> WriteBatcher<T> {
    pub(super) fn new(work: T) -> Arc<Self> {
        Arc::new(Self {
            writer: work,
            queue: Mutex::new(BatchQueue { in_flight: false, waiting: VecDeque::new() }),
        })
    }

    /// Writes `item`, alone or in a batch.
    pub(super) async fn write(self: &Arc<Self>, item: T::Item) -> BatchedWriteResult<T> {
        let waiting = {
            let mut queue = self.lock_queue();
            if !std::mem::replace(&mut queue.in_flight, true) {
                Err(item)
            } else {
                let (answer, waiting) = oneshot::channel();
                queue.waiting.push_back((item, answer));
                Ok(waiting)
            }
        };
        match waiting {
            Ok(waiting) => {
                waiting.await.unwrap_or_else(|_| Err(StoreError::Unknown(ANSWER_LOST_MESSAGE.into())))
            }
            Err(item) => {
                let place = InFlightPermit(self);
                let items = [item];
                let came = self.writer.write_batch(&items).await;
                drop(place);
                let [item] = items;
                came.map(|done| done.into_iter().next().flatten().ok_or(item))
            }
        }
    }

    /// Sends waiting writes until there are none. The caller has the turn.
    async fn drain_queue(self: Arc<Self>) {
        let place = InFlightPermit(&self);
        loop {
            let batch = self.lock_queue().next_batch();
            if batch.is_empty() {
                break;
            }
            let (items, answers): (Vec<T::Item>, Vec<_>) = batch.into_iter().unzip();
            match self.writer.write_batch(&items).await {
                Ok(done) => {
                    // Writes without a result were not done.
                    let done = done.into_iter().chain(std::iter::repeat_with(|| None));
                    for ((item, answer), done) in items.into_iter().zip(answers).zip(done) {
                        // The caller may no longer be waiting.
                        answer.send(Ok(done.ok_or(item))).ok();
                    }
                }
                Err(error) => {
                    for (item, answer) in items.into_iter().zip(answers) {
                        answer.send(error_for_item(&error, item)).ok();
                    }
                }
            }
        }
        drop(place);
    }

    fn lock_queue(&self) -> MutexGuard<'_, BatchQueue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const ANSWER_LOST_MESSAGE: &str = "the program ended before the database answered";

/// Converts the error of a batch to the result of one of its writes.
fn error_for_item<T, D>(error: &StoreError, item: T) -> Result<Result<D, T>, StoreError> {
    match error {
        StoreError::Unknown(source) => Err(StoreError::Unknown(source.to_string().into())),
        StoreError::Unavailable(source) => Err(StoreError::Unavailable(source.to_string().into())),
        StoreError::Full(source) => Err(StoreError::Full(source.to_string().into())),
        // One write made the database roll back the whole batch. Each is executed alone and gets its own error.
        _ => Ok(Err(item)),
    }
}

impl<T: BatchWriter> BatchQueue<T> {
    fn next_batch(&mut self) -> Vec<(T::Item, oneshot::Sender<BatchedWriteResult<T>>)> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while let Some((item, _)) = self.waiting.front()
            && batch.len() < MAX_WRITES_PER_BATCH
            && (batch.is_empty() || bytes + T::byte_size(item) <= MAX_BATCH_BYTES)
        {
            bytes += T::byte_size(item);
            batch.extend(self.waiting.pop_front());
        }
        batch
    }
}

/// The turn of a statement. Dropping it sends the waiting writes.
struct InFlightPermit<'a, T: BatchWriter>(&'a Arc<WriteBatcher<T>>);

impl<T: BatchWriter> Drop for InFlightPermit<'_, T> {
    fn drop(&mut self) {
        let mut queue = self.0.lock_queue();
        let next = if queue.waiting.is_empty() { None } else { Handle::try_current().ok() };
        match next {
            Some(runtime) => {
                drop(runtime.spawn(self.0.clone().drain_queue()));
            }
            None => {
                queue.in_flight = false;
                // Without a runtime nothing can send them. Dropping them tells the callers.
                queue.waiting.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::*;

    /// Doubles numbers once it is allowed to run. Odd numbers are not done, 13 fails the whole batch.
    struct DoublingBatchWriter {
        gate: Arc<Semaphore>,
        sent: Arc<Mutex<Vec<usize>>>,
        in_flight: AtomicUsize,
    }

    struct InFlightCounterGuard<'a>(&'a AtomicUsize);

    impl Drop for InFlightCounterGuard<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl BatchWriter for DoublingBatchWriter {
        type Item = u64;
        type Done = u64;

        fn byte_size(item: &u64) -> usize {
            usize::try_from(*item).unwrap_or(usize::MAX)
        }

        async fn write_batch(&self, items: &[u64]) -> Result<Vec<Option<u64>>, StoreError> {
            assert!(self.in_flight.fetch_add(1, Ordering::SeqCst) == 0);
            let _left = InFlightCounterGuard(&self.in_flight);
            self.sent.lock().expect("lock").push(items.len());
            self.gate.acquire().await.expect("gate").forget();
            if items.contains(&13) {
                return Err(StoreError::Unknown("cut".into()));
            }
            if items.contains(&17) {
                return Err(StoreError::Conflict("one of them".into()));
            }
            Ok(items.iter().map(|item| item.is_multiple_of(2).then_some(item * 2)).collect())
        }
    }

    fn doubling_batcher() -> (Arc<WriteBatcher<DoublingBatchWriter>>, Arc<Semaphore>, Arc<Mutex<Vec<usize>>>)
    {
        let (gate, sent) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::default()));
        let work =
            DoublingBatchWriter { gate: gate.clone(), sent: sent.clone(), in_flight: AtomicUsize::new(0) };
        (WriteBatcher::new(work), gate, sent)
    }

    async fn spawn_write(
        lane: &Arc<WriteBatcher<DoublingBatchWriter>>,
        item: u64,
    ) -> tokio::task::JoinHandle<BatchedWriteResult<DoublingBatchWriter>> {
        let lane = lane.clone();
        let task = tokio::spawn(async move { lane.write(item).await });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn writes_that_wait_go_together_and_each_gets_its_own_answer() {
        let (lane, gate, sent) = doubling_batcher();
        let mut tasks = Vec::new();
        for item in [2, 4, 6, 7, 8] {
            tasks.push(spawn_write(&lane, item).await);
        }
        gate.add_permits(10);
        let mut came = Vec::new();
        for task in tasks {
            came.push(task.await.expect("task").expect("sent"));
        }
        assert_eq!(came, [Ok(4), Ok(8), Ok(12), Err(7), Ok(16)]);
        let sent = sent.lock().expect("lock").clone();
        assert_eq!(sent.iter().sum::<usize>(), 5);
        assert_eq!(sent, [1, 4]);
    }

    #[tokio::test]
    async fn an_error_of_a_batch_reaches_everybody_in_it_and_a_refusal_gives_the_writes_back() {
        for (bad, unknown) in [(13, true), (17, false)] {
            let (lane, gate, _) = doubling_batcher();
            let alone = spawn_write(&lane, 2).await;
            let batch = [spawn_write(&lane, 6).await, spawn_write(&lane, bad).await];
            gate.add_permits(10);
            assert!(alone.await.expect("task").expect("sent").is_ok());
            for (task, item) in batch.into_iter().zip([6, bad]) {
                match task.await.expect("task") {
                    Err(StoreError::Unknown(_)) => assert!(unknown),
                    Ok(back) => assert_eq!((back, unknown), (Err(item), false)),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    #[tokio::test]
    async fn a_caller_who_goes_away_leaves_its_place_to_those_who_wait() {
        let (lane, gate, _) = doubling_batcher();
        let gone = [spawn_write(&lane, 2).await, spawn_write(&lane, 4).await];
        let waits = spawn_write(&lane, 6).await;
        for task in gone {
            task.abort();
            assert!(task.await.is_err());
        }
        gate.add_permits(10);
        let came = tokio::time::timeout(Duration::from_secs(60), waits).await.expect("in time");
        assert_eq!(came.expect("task").expect("sent"), Ok(12));
    }

    #[tokio::test]
    async fn a_batch_has_a_most_of_writes_and_of_bytes() {
        let (lane, gate, sent) = doubling_batcher();
        let mut tasks = vec![spawn_write(&lane, 2).await, spawn_write(&lane, 4).await];
        let large = u64::try_from(MAX_BATCH_BYTES).expect("fits");
        for item in [large, large, 2].into_iter().chain(std::iter::repeat_n(2, MAX_WRITES_PER_BATCH)) {
            tasks.push(spawn_write(&lane, item).await);
        }
        gate.add_permits(1000);
        for task in tasks {
            assert!(task.await.expect("task").expect("sent").is_ok());
        }
        let sent = sent.lock().expect("lock").clone();
        assert_eq!(sent.iter().sum::<usize>(), MAX_WRITES_PER_BATCH + 5);
        assert!(sent.iter().all(|count| *count <= MAX_WRITES_PER_BATCH), "{sent:?}");
        assert!(sent.iter().filter(|count| **count == 1).count() >= 3, "{sent:?}");
    }
}
