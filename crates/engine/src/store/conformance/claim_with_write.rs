//! Claims that another write makes on the way: both happen or none, and nobody gets between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;

use super::fixture::*;
use crate::id::ThreadKey;
use crate::store::*;

/// How often a thief tries to get between two halves. Each time it tries without a pause.
const THEFTS: usize = 12;

fn thief() -> WorkerLease {
    WorkerLease { worker: "thief".into(), ..long_lease() }
}

/// Claims runs of a thread as long as it is not told to stop. Gives what it got.
struct ThiefTask {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<ClaimedRun>>,
}

impl ThiefTask {
    async fn start<S: Store>(b: &StoreFixture<S>, thread: &ThreadKey) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tried = Arc::new(tokio::sync::Notify::new());
        let (store, thread, stopped, tries) = (b.store.clone(), thread.clone(), stop.clone(), tried.clone());
        let task = tokio::spawn(async move {
            let mut stolen = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                stolen.extend(store.claim(&thief(), Some(&thread), 1).await.expect("claim"));
                tries.notify_one();
                tokio::task::yield_now().await;
            }
            stolen
        });
        tried.notified().await;
        Self { stop, task }
    }

    async fn stop(self) -> Vec<ClaimedRun> {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.expect("a task")
    }
}

pub(super) async fn an_answer_claims_its_run_before_anybody_else<S: Store>(b: StoreFixture<S>) {
    for _ in 0..THEFTS {
        let thread = b.new_thread_key();
        let run = b.start_and_pause(&thread, &["q"]).await;
        let thief = ThiefTask::start(&b, &thread).await;
        let answer = answer_signal(&[("q", "a")]);
        let signalled = b.store.signal_and_claim(&run.run.key(), answer, Some(&long_lease())).await;
        let SignalOutcome { run: row, claimed } = signalled.expect("answered");
        assert_eq!(thief.stop().await, [], "nobody gets between the answer and the claim");
        let claimed = claimed.expect("a claim");
        assert_eq!((row.run, row.status), (run.run.run, RunStatus::Running));
        assert_eq!((claimed.run.run, claimed.run.epoch), (run.run.run, run.run.epoch + 1));
        assert_eq!((claimed.head, record_lines(&claimed.records)), (3, vec!["0.0 q Done a".to_owned()]));
        assert!(b.claim(&thread).await.is_none(), "the lease holds");
        b.write_steps(&claimed, &["after"]).await;
        assert_eq!(b.log_text(&thread).await, "in ask answer after");
    }
}

pub(super) async fn a_retry_claims_its_run_before_anybody_else<S: Store>(b: StoreFixture<S>) {
    for _ in 0..THEFTS {
        let thread = b.new_thread_key();
        let run = b.start_and_fail(&thread).await;
        let thief = ThiefTask::start(&b, &thread).await;
        let retry = RunSignal::Retry { body: b"again".to_vec(), fingerprint: "f".into() };
        let signalled = b.store.signal_and_claim(&run.run.key(), retry, Some(&long_lease())).await;
        let claimed = signalled.expect("tried again").claimed.expect("a claim");
        assert_eq!(thief.stop().await, []);
        assert_eq!((claimed.run.run, claimed.run.epoch), (run.run.run, run.run.epoch + 1));
    }
}

pub(super) async fn a_signal_that_is_refused_claims_nothing<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    let before = b.dump_thread(&thread).await;
    let wrong = answer_signal(&[("p", "a")]);
    let signalled = b.store.signal_and_claim(&run.run.key(), wrong, Some(&long_lease())).await;
    refused!(signalled, StoreError::Conflict(_));
    assert_eq!(b.dump_thread(&thread).await, before);
    // Without a claim, and for a worker that does not know the graph, the run waits.
    let other = WorkerLease { graphs: Some(vec!["other".to_owned()].into()), ..long_lease() };
    let signalled =
        b.store.signal_and_claim(&run.run.key(), answer_signal(&[("q", "a")]), Some(&other)).await;
    assert_eq!(signalled.expect("answered").claimed, None);
    assert_eq!(b.claim(&thread).await.expect("it waits").run.run, run.run.run);
}

pub(super) async fn a_cancel_claims_the_run_that_waited<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let paused = b.start_and_pause(&thread, &["q"]).await;
    let next = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let cancel = RunSignal::Cancel { body: b"cancel".to_vec() };
    let signalled =
        b.store.signal_and_claim(&paused.run.key(), cancel, Some(&long_lease())).await.expect("signalled");
    assert_eq!((signalled.run.run, signalled.run.status), (paused.run.run, RunStatus::Cancelled));
    assert_eq!(signalled.claimed.expect("a claim").run.run, next.run);
    assert_eq!(b.log_text(&thread).await, "in ask cancel in");
}

pub(super) async fn an_end_claims_the_next_run_before_anybody_else<S: Store>(b: StoreFixture<S>) {
    for status in [RunStatus::Finished, RunStatus::Failed, RunStatus::Cancelled].repeat(THEFTS / 3) {
        let thread = b.new_thread_key();
        let run = b.start(&thread).await;
        let next = b.submit_queued(&thread, IfBusy::Enqueue).await;
        let thief = ThiefTask::start(&b, &thread).await;
        let end = Commit {
            head: run.head,
            entries: vec![new_entry(EntryKind::Finished, "end", 0)],
            claim_next: Some(long_lease()),
            ..status_commit(status)
        };
        let committed = b.store.commit(&run.fence(), end).await.expect("ended");
        assert_eq!(thief.stop().await, [], "nobody gets between the end and the claim");
        let claimed = committed.next.expect("a claim");
        assert!(!committed.next_waits, "it is taken");
        assert_eq!((committed.head, claimed.head), (2, 3));
        assert_eq!(
            (claimed.run.run, claimed.run.epoch, claimed.run.status),
            (next.run, 1, RunStatus::Running)
        );
        assert_eq!(b.run_row(&run).await.status, status);
        assert!(b.claim(&thread).await.is_none(), "the lease holds");
        b.write_steps(&claimed, &["after"]).await;
        assert_eq!(b.log_text(&thread).await, "in end in after");
    }
}

pub(super) async fn an_end_claims_only_what_the_worker_may_take<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let end = |run: &ClaimedRun, claim_next| Commit {
        head: run.head,
        entries: vec![new_entry(EntryKind::Finished, "end", 0)],
        claim_next,
        ..status_commit(RunStatus::Finished)
    };
    // Nobody waits.
    let run = b.start(&thread).await;
    let committed = b.store.commit(&run.fence(), end(&run, Some(long_lease()))).await.expect("ended");
    assert_eq!((committed.next, committed.next_waits), (None, false));
    // The worker does not know the graph of the run that waits.
    let run = b.start(&thread).await;
    let next = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let other = WorkerLease { graphs: Some(vec!["other".to_owned()].into()), ..long_lease() };
    let committed = b.store.commit(&run.fence(), end(&run, Some(other))).await.expect("ended");
    assert_eq!((committed.next, committed.next_waits), (None, true));
    assert_eq!(b.claim(&thread).await.expect("it waits").run.run, next.run);
}

/// The run itself is what can be claimed: a worker has to end it.
pub(super) async fn a_pause_of_a_run_to_be_cancelled_claims_it_again<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.cancel(&run.run).await;
    let pause = Commit { claim_next: Some(long_lease()), ..status_commit(RunStatus::Paused) };
    let committed = b.store.commit(&run.fence(), Commit { head: run.head, ..pause }).await.expect("paused");
    let claimed = committed.next.expect("a claim");
    assert_eq!((claimed.run.run, claimed.run.epoch), (run.run.run, run.run.epoch + 1));
    assert!(claimed.run.cancel_asked);
    refused!(b.store.commit(&run.fence(), Commit::default()).await, StoreError::Fenced);
    assert!(b.claim(&thread).await.is_none(), "the new lease holds");
}
