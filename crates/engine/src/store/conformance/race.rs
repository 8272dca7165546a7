//! Many at once: exactly one wins, and the others learn that they did not.

use std::collections::BTreeSet;

use super::fixture::*;
use crate::id::RunId;
use crate::store::*;

const CONCURRENT_CALLS: usize = 16;

/// Runs `act` many times side by side and collects what came of each.
async fn run_concurrently<S: Store, T, F>(b: &StoreFixture<S>, act: impl Fn(StoreFixture<S>) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..CONCURRENT_CALLS).map(|_| tokio::spawn(act(b.clone()))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.expect("a task"));
    }
    results
}

pub(super) async fn of_many_submits_one_is_active<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let submits = run_concurrently(&b, |b| {
        let run = b.new_run(&thread);
        async move { b.store.submit(run).await }
    });
    let mut winners = Vec::new();
    for submitted in submits.await {
        match submitted {
            Ok(SubmitOutcome::Started(claimed)) => winners.push(claimed),
            Err(StoreError::Busy { .. }) => {}
            other => panic!("should start or be busy, not {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(b.thread_row(&thread).await.active, Some(winners[0].run.run));
    assert_eq!(b.log_text(&thread).await, "in");
    let rows = b.store.runs(&b.tenant, &RunFilter::default()).await.expect("runs");
    assert_eq!(rows.len(), 1, "a refused run leaves nothing");
}

pub(super) async fn of_many_enqueued_runs_each_gets_its_turn<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let submits = run_concurrently(&b, |b| {
        let run = NewRun { if_busy: IfBusy::Enqueue, ..b.new_run(&thread) };
        async move { b.store.submit(run).await.expect("submit") }
    });
    let mut active = None;
    for submitted in submits.await {
        if let SubmitOutcome::Started(claimed) = submitted {
            assert!(active.replace(claimed).is_none(), "one run starts");
        }
    }
    let mut ended = BTreeSet::new();
    while let Some(claimed) = active {
        b.finish(&claimed).await;
        assert!(ended.insert(claimed.run.run), "a run has one turn");
        active = b.claim(&thread).await;
    }
    assert_eq!(ended.len(), CONCURRENT_CALLS);
    let log = b.log_entries(&thread).await;
    assert!(log.chunks(2).all(|pair| pair[0].run == pair[1].run), "runs do not interleave");
    assert_eq!(log.len(), 2 * CONCURRENT_CALLS);
}

pub(super) async fn each_run_is_claimed_once<S: Store>(b: StoreFixture<S>) {
    let mut threads = Vec::new();
    let mut wanted = BTreeSet::new();
    for _ in 0..CONCURRENT_CALLS {
        let thread = b.new_thread_key();
        wanted.insert(b.submit_queued(&thread, IfBusy::Reject).await.run);
        threads.push(thread);
    }
    let claims = run_concurrently(&b, |b| {
        let threads = threads.clone();
        async move {
            let mut taken: Vec<ClaimedRun> = b.store.claim(&long_lease(), None, 3).await.expect("claim");
            for thread in &threads {
                taken.extend(b.claim(thread).await);
            }
            taken
        }
    });
    let claimed: Vec<ClaimedRun> = claims.await.into_iter().flatten().collect();
    let ours: Vec<&ClaimedRun> =
        claimed.iter().filter(|claimed| claimed.run.thread.tenant == b.tenant).collect();
    let runs: BTreeSet<RunId> = ours.iter().map(|claimed| claimed.run.run).collect();
    assert_eq!((ours.len(), runs), (CONCURRENT_CALLS, wanted));
    assert!(ours.iter().all(|claimed| claimed.run.epoch == 1));
}

pub(super) async fn one_of_two_answers_wins<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    let answers = run_concurrently(&b, |b| {
        let key = run.run.key();
        async move { b.store.signal(&key, answer_signal(&[("q", "a")])).await }
    });
    let mut won = 0;
    for answered in answers.await {
        match answered {
            Ok(_) => won += 1,
            Err(StoreError::Conflict(_)) => {}
            other => panic!("should be taken or a conflict, not {other:?}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(b.log_text(&thread).await, "in ask answer");
}

pub(super) async fn one_key_makes_one_run<S: Store>(b: StoreFixture<S>) {
    let submits = run_concurrently(&b, |b| {
        let idempotency = Some(RunIdempotencyKey { key: "k".into(), hash: "h".into() });
        let run = NewRun { idempotency, ..b.new_run(&b.new_thread_key()) };
        async move { b.store.submit(run).await.expect("submit") }
    });
    let mut runs = BTreeSet::new();
    let mut starts = 0;
    for submitted in submits.await {
        match submitted {
            SubmitOutcome::Started(claimed) => {
                starts += 1;
                runs.insert(claimed.run.run);
            }
            SubmitOutcome::Repeated(row) => {
                runs.insert(row.run);
            }
            SubmitOutcome::Queued { run, .. } => panic!("run {} should not wait", run.run),
        }
    }
    assert_eq!((starts, runs.len()), (1, 1));
    let threads = b.store.threads(&b.tenant, &ThreadFilter::default()).await.expect("threads");
    assert_eq!(threads.len(), 1, "a repeated run makes no thread");
}

pub(super) async fn one_of_many_edits_wins<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![]).await;
    let edits = run_concurrently(&b, |b| {
        let thread = thread.clone();
        async move { b.store.append_entry(&thread, 1, step_entry("e")).await }
    });
    let mut won = 0;
    for edited in edits.await {
        match edited {
            Ok(seq) => {
                assert_eq!(seq, 2);
                won += 1;
            }
            Err(StoreError::Conflict(_)) => {}
            other => panic!("should be taken or a conflict, not {other:?}"),
        }
    }
    assert_eq!((won, b.log_text(&thread).await.as_str()), (1, "in e"));
}

pub(super) async fn a_delete_and_a_commit_leave_nothing_half_done<S: Store>(b: StoreFixture<S>) {
    for _ in 0..CONCURRENT_CALLS {
        let thread = b.new_thread_key();
        let run = b.start(&thread).await;
        let (writer, fence) = (b.clone(), run.fence());
        let records = vec![record("0.0", "a", RecordStage::Done, "1")];
        let commit =
            Commit { head: 1, entries: vec![step_with_snapshot("a", 0, "A")], records, ..Commit::default() };
        let write = tokio::spawn(async move { writer.store.commit(&fence, commit).await });
        assert!(b.store.delete_thread(&thread).await.expect("delete"));
        match write.await.expect("a task") {
            Ok(_) | Err(StoreError::Fenced) => {}
            other => panic!("should be written or fenced, not {other:?}"),
        }
        refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
        refused!(b.store.run(&run.run.key()).await, StoreError::NotFound { .. });
        let again = b.start(&thread).await;
        assert_eq!((again.head, again.records.len()), (1, 0));
    }
}

pub(super) async fn a_takeover_and_a_commit_agree<S: Store>(b: StoreFixture<S>) {
    for _ in 0..CONCURRENT_CALLS {
        let thread = b.new_thread_key();
        let lost = b.start_and_lose(&thread).await;
        let (writer, fence) = (b.clone(), lost.fence());
        let commit = Commit {
            head: 1,
            records: vec![record("0.0", "a", RecordStage::Done, "1")],
            ..steps_commit(&["late"])
        };
        let write = tokio::spawn(async move { writer.store.commit(&fence, commit).await });
        let taken = loop {
            // A store may pass over a thread that somebody writes to at this moment.
            if let Some(taken) = b.claim(&thread).await {
                break taken;
            }
        };
        match write.await.expect("a task") {
            Ok(_) => assert_eq!((taken.head, taken.records.len()), (2, 1), "the next worker sees it all"),
            Err(StoreError::Fenced) => {
                assert_eq!((taken.head, taken.records.len()), (1, 0), "and nothing of it");
            }
            other => panic!("should be written or fenced, not {other:?}"),
        }
        assert_eq!((b.head(&thread).await, taken.run.epoch), (taken.head, 2));
    }
}

pub(super) async fn no_run_waits_on_a_free_thread_unnoticed<S: Store>(b: StoreFixture<S>) {
    for _ in 0..CONCURRENT_CALLS {
        let thread = b.new_thread_key();
        let active = b.start(&thread).await;
        let (other, new) = (b.clone(), NewRun { if_busy: IfBusy::Enqueue, ..b.new_run(&thread) });
        let submit = tokio::spawn(async move { other.store.submit(new).await.expect("submit") });
        let ended = b
            .store
            .commit(&active.fence(), Commit { head: 1, ..status_commit(RunStatus::Finished) })
            .await
            .expect("end");
        match submit.await.expect("a task") {
            SubmitOutcome::Started(next) => {
                assert!(!ended.next_waits);
                assert_eq!(b.thread_row(&thread).await.active, Some(next.run.run));
            }
            SubmitOutcome::Queued { run, .. } => {
                assert!(ended.next_waits, "somebody has to be told of the run that waits");
                assert_eq!(b.claim(&thread).await.expect("the run that waits").run.run, run.run);
            }
            SubmitOutcome::Repeated(row) => panic!("run {} is new", row.run),
        }
    }
}

pub(super) async fn an_answer_and_a_cancel_agree<S: Store>(b: StoreFixture<S>) {
    for _ in 0..CONCURRENT_CALLS {
        let thread = b.new_thread_key();
        let run = b.start_and_pause(&thread, &["q"]).await;
        let (other, key) = (b.clone(), run.run.key());
        let answers =
            tokio::spawn(async move { other.store.signal(&key, answer_signal(&[("q", "a")])).await });
        let cancelled = b.cancel(&run.run).await;
        match answers.await.expect("a task") {
            Ok(_) => {
                assert_eq!((cancelled.status, cancelled.cancel_asked), (RunStatus::Running, true));
                assert_eq!(b.log_text(&thread).await, "in ask answer");
            }
            Err(StoreError::Conflict(_)) => {
                assert_eq!(cancelled.status, RunStatus::Cancelled);
                assert_eq!(b.log_text(&thread).await, "in ask cancel");
            }
            other => panic!("should be taken or a conflict, not {other:?}"),
        }
    }
}
