//! Commits that are on disk later: they are checked, ordered and read like any other, and can be waited for.
//!
//! What is on disk after a power failure cannot be seen from here. The power-loss test looks at that.

use super::fixture::*;
use crate::store::*;

fn later(commit: Commit) -> Commit {
    Commit { durability: Durability::Later, ..commit }
}

pub(super) async fn positions_rise_and_can_be_waited_for<S: Store>(b: StoreFixture<S>) {
    b.store.wait_until_durable(CommitPosition::default()).await.expect("before every commit");
    let run = b.start(&b.new_thread_key()).await;
    let mut last = CommitPosition::default();
    for durability in [Durability::Later, Durability::Now, Durability::Later, Durability::Later] {
        let commit = Commit { durability, ..steps_commit(&["a"]) };
        let position = b.commit(&run, commit).await.position;
        assert!(position > last, "{position:?} after {last:?}");
        last = position;
    }
    b.store.wait_until_durable(last).await.expect("the newest");
    b.store.wait_until_durable(CommitPosition(1)).await.expect("an old one");
}

pub(super) async fn a_later_commit_is_read_like_any_other<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_lose(&thread).await;
    let records = vec![record("0.0", "k", RecordStage::Done, "r")];
    let usage = RunUsage { input_tokens: 1, output_tokens: 2, cost_micros: 3 };
    for (head, body) in (1..).zip(["a", "b", "c"]) {
        let commit = later(Commit { head, ..steps_commit(&[body]) });
        assert_eq!(b.store.commit(&run.fence(), commit).await.expect("commit").head, head + 1);
    }
    b.store
        .commit(&run.fence(), later(Commit { records, usage, ..Commit::default() }))
        .await
        .expect("records");
    assert_eq!(b.log_text(&thread).await, "in a b c");
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a b c");
    assert_eq!(b.head(&thread).await, 4);
    assert_eq!(b.run_row(&run).await.usage, usage);
    let next = b.claim(&thread).await.expect("the lease ran out");
    assert_eq!((next.head, record_lines(&next.records)), (4, vec!["0.0 k Done r".to_owned()]));
}

pub(super) async fn a_later_commit_is_checked_like_any_other<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let old = b.start_and_lose(&thread).await;
    let held = b.claim(&thread).await.expect("claim");
    let commit = |head| later(Commit { head, ..steps_commit(&["x"]) });
    refused!(b.store.commit(&old.fence(), commit(1)).await, StoreError::Fenced);
    refused!(b.store.commit(&held.fence(), commit(2)).await, StoreError::Conflict(_));
    b.store.commit(&held.fence(), commit(1)).await.expect("commit");
    refused!(b.store.commit(&held.fence(), commit(1)).await, StoreError::Conflict(_));
    assert_eq!(b.log_text(&thread).await, "in x");
}

pub(super) async fn a_run_that_starts_later_is_accepted_like_any_other<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let new = |if_busy| NewRun { if_busy, durability: InputDurability::Later, ..b.new_run(&thread) };
    let run = expect_started(b.store.submit(new(IfBusy::Reject)).await);
    b.store.wait_until_durable(run.position).await.expect("durable");
    let step = later(Commit { head: 1, ..steps_commit(&["a"]) });
    assert!(b.store.commit(&run.fence(), step).await.expect("commit").position > run.position);
    refused!(b.store.submit(new(IfBusy::Reject)).await, StoreError::Busy { .. });
    expect_queued(b.store.submit(new(IfBusy::Enqueue)).await);
    assert_eq!(b.log_text(&thread).await, "in a");
}

/// A worker whose entries were lost must not go on as if they were there.
pub(super) async fn records_are_refused_when_entries_are_missing<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.write_steps(&run, &["a"]).await;
    let commit = |head| Commit {
        head,
        records: vec![record("0.0", "k", RecordStage::Begun, "")],
        ..Commit::default()
    };
    refused!(b.store.commit(&run.fence(), commit(3)).await, StoreError::Conflict(_));
    b.store.commit(&run.fence(), commit(2)).await.expect("the newest entry is known");
}

pub(super) async fn many_wait_at_once<S: Store>(b: StoreFixture<S>) {
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let b = b.clone();
            tokio::spawn(async move {
                let thread = b.new_thread_key();
                let run = b.start(&thread).await;
                for _ in 0..4 {
                    let committed = b.commit(&run, later(steps_commit(&["a"]))).await;
                    b.store.wait_until_durable(committed.position).await.expect("durable");
                }
                b.log_text(&thread).await
            })
        })
        .collect();
    for waits in waiting {
        assert_eq!(waits.await.expect("task"), "in a a a a");
    }
}
