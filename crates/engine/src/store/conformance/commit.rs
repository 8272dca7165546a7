//! Commits: all of it or nothing, and only by the one who holds the run.

use super::fixture::*;
use crate::id::RunId;
use crate::store::*;

pub(super) async fn entries_are_numbered_without_a_gap<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    assert_eq!(b.write_steps(&run, &["a", "b"]).await.head, 3);
    let committed = b.write_steps(&run, &["c"]).await;
    assert_eq!(committed.head, 4);
    assert!(!committed.cancel_asked && !committed.next_waits);
    let log = b.log_entries(&thread).await;
    assert_eq!(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(log[3].at, committed.at);
    assert_eq!(b.log_text(&thread).await, "in a b c");
    assert_eq!(b.head(&thread).await, 4);
}

pub(super) async fn an_entry_names_its_parent<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    let entries = vec![
        step_with_snapshot("a", 0, "A"),
        new_entry(EntryKind::Inner, "b", 2),
        step_on_branch("c", 1, 0),
        step_entry("d"),
    ];
    b.commit(&run, Commit { entries, ..Commit::default() }).await;
    let log = b.log_entries(&thread).await;
    assert_eq!(log.iter().map(|entry| entry.parent).collect::<Vec<_>>(), [0, 1, 2, 1, 4]);
    assert_eq!(log.iter().map(|entry| entry.base).collect::<Vec<_>>(), [0, 0, 2, 0, 0]);
    assert_eq!(log[2].kind, EntryKind::Inner);
}

pub(super) async fn an_entry_names_its_run<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = b.start_and_finish(&thread, vec![step_entry("a")]).await;
    b.append_edits(&thread, vec![new_entry(EntryKind::Edited, "e", 0)]).await;
    let second = b.start_and_finish(&thread, vec![]).await;
    let runs: Vec<Option<RunId>> = b.log_entries(&thread).await.iter().map(|entry| entry.run).collect();
    assert_eq!(runs, [Some(first.run), Some(first.run), None, Some(second.run)]);
}

pub(super) async fn entries_lie_side_by_side<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = b.start_and_finish(&thread, vec![step_entry("a"), step_entry("b")]).await;
    let second = b.start_and_finish(&thread, vec![step_entry("c")]).await;
    assert_eq!((first.first_seq, first.parent_seq, first.last_seq), (Some(1), Some(0), Some(3)));
    assert_eq!((second.first_seq, second.parent_seq, second.last_seq), (Some(4), Some(3), Some(5)));
}

pub(super) async fn a_wrong_head_writes_nothing<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.write_steps(&run, &["a"]).await;
    let before = b.dump_thread(&thread).await;
    for head in [0, 1, 3] {
        let commit = Commit { head, ..full_commit() };
        refused!(b.store.commit(&run.fence(), commit).await, StoreError::Conflict(_) | StoreError::Fenced);
    }
    assert_eq!(b.dump_thread(&thread).await, before);
    b.write_steps(&run, &["b"]).await;
}

pub(super) async fn records_alone_need_no_new_head<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.write_steps(&run, &["a"]).await;
    let records = vec![record("0.0", "k", RecordStage::Done, "r")];
    let commit = Commit { head: 0, records, ..Commit::default() };
    let committed = b.store.commit(&run.fence(), commit).await.expect("records alone");
    assert_eq!(committed.head, 2);
    b.write_steps(&run, &["b"]).await;
}

/// A commit that changes everything a commit can.
fn full_commit() -> Commit {
    Commit {
        head: 0,
        entries: vec![step_with_snapshot("x", 0, "X"), step_entry("y")],
        records: vec![record("0.0", "k", RecordStage::Done, "r")],
        clear_records: true,
        usage: RunUsage { input_tokens: 1, output_tokens: 2, cost_micros: 3 },
        steps: 1,
        status: Some(NewStatus { status: RunStatus::Failed, error: Some(run_failure()) }),
        claim_next: Some(long_lease()),
        durability: Durability::Now,
    }
}

pub(super) async fn a_fenced_write_changes_nothing<S: Store>(b: StoreFixture<S>) {
    let (thread, other) = (b.new_thread_key(), b.new_thread_key());
    let old = b.start_and_lose(&thread).await;
    b.commit(
        &old,
        Commit { records: vec![record("0.0", "k", RecordStage::Begun, "1")], ..Commit::default() },
    )
    .await;
    b.submit_queued(&thread, IfBusy::Enqueue).await;
    b.start(&other).await;
    let lease = std::time::Duration::from_millis(1);
    let held = b
        .store
        .claim(&WorkerLease { lease, ..long_lease() }, Some(&thread), 1)
        .await
        .expect("claim")
        .remove(0);
    let before = (b.dump_thread(&thread).await, b.dump_thread(&other).await);
    let fence = held.fence();
    let stale = [
        old.fence(),
        Fence { epoch: 0, ..fence.clone() },
        Fence { epoch: 3, ..fence.clone() },
        Fence { run: RunId::random(), ..fence.clone() },
        Fence { thread: other.clone(), ..fence.clone() },
        Fence { thread: b.new_thread_key(), ..fence.clone() },
        Fence { thread: crate::id::ThreadKey { tenant: random_tenant(), ..thread.clone() }, ..fence.clone() },
    ];
    // A step and an end that have nothing else to them may be written by a way of their own.
    let finished = vec![new_entry(EntryKind::Finished, "out", 0)];
    let plain_end = Commit { entries: finished, ..status_commit(RunStatus::Finished) };
    for fence in stale {
        for commit in [full_commit(), steps_commit(&["x"]), plain_end.clone()] {
            let commit = Commit { head: 1, ..commit };
            refused!(b.store.commit(&fence, commit).await, StoreError::Fenced);
        }
    }
    assert_eq!((b.dump_thread(&thread).await, b.dump_thread(&other).await), before);
    sleep_millis(15).await;
    let next = b.claim(&thread).await.expect("a lost run");
    assert_eq!(record_lines(&next.records), ["0.0 k Begun 1"]);
}

/// The old writer knows the newest entry, and the new one has just shown that its own claim holds.
pub(super) async fn a_stale_step_beside_a_write_of_the_new_claim_is_fenced<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let old = b.start_and_lose(&thread).await;
    let new = b.claim(&thread).await.expect("a lost run");
    let records = vec![record("0.0", "call#0", RecordStage::Done, "r")];
    b.store.commit(&new.fence(), Commit { records, ..Commit::default() }).await.expect("records");
    let commit = Commit { head: new.head, ..steps_commit(&["old"]) };
    refused!(b.store.commit(&old.fence(), commit).await, StoreError::Fenced);
    assert_eq!(b.log_text(&thread).await, "in");
    b.write_steps(&new, &["new"]).await;
}

pub(super) async fn an_ended_run_takes_no_write<S: Store>(b: StoreFixture<S>) {
    for status in [RunStatus::Finished, RunStatus::Failed, RunStatus::Cancelled] {
        let thread = b.new_thread_key();
        let run = b.start(&thread).await;
        b.commit(&run, status_commit(status)).await;
        let before = b.dump_thread(&thread).await;
        let commit = Commit { head: 1, ..full_commit() };
        refused!(b.store.commit(&run.fence(), commit).await, StoreError::Fenced);
        assert_eq!(b.dump_thread(&thread).await, before);
    }
}

pub(super) async fn a_paused_run_takes_no_write<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    assert_eq!(b.run_row(&run).await.status, RunStatus::Paused);
    assert_eq!(b.thread_row(&thread).await.active, Some(run.run.run));
    let before = b.dump_thread(&thread).await;
    let commit = Commit { head: 2, ..full_commit() };
    refused!(b.store.commit(&run.fence(), commit).await, StoreError::Fenced);
    assert_eq!(b.dump_thread(&thread).await, before);
}

pub(super) async fn the_end_frees_the_thread<S: Store>(b: StoreFixture<S>) {
    for status in [RunStatus::Finished, RunStatus::Failed, RunStatus::Cancelled] {
        let thread = b.new_thread_key();
        let run = b.start(&thread).await;
        let waits = b.submit_queued(&thread, IfBusy::Enqueue).await;
        assert!(!b.write_steps(&run, &["a"]).await.next_waits, "still busy");
        let ended = b.commit(&run, Commit { entries: vec![step_entry("z")], ..status_commit(status) }).await;
        assert!(ended.next_waits);
        let row = b.run_row(&run).await;
        assert_eq!((row.status, row.last_seq, row.ended_at), (status, Some(3), Some(ended.at)));
        assert_eq!(b.thread_row(&thread).await.active, None);
        let next = b.claim(&thread).await.expect("the run that waits");
        assert_eq!((next.run.run, next.run.parent_seq), (waits.run, Some(3)));
    }
}

pub(super) async fn a_failure_is_kept<S: Store>(b: StoreFixture<S>) {
    let run = b.start_and_fail(&b.new_thread_key()).await;
    let row = b.run_row(&run).await;
    assert_eq!((row.status, row.error), (RunStatus::Failed, Some(run_failure())));
}

pub(super) async fn usage_and_steps_add_up<S: Store>(b: StoreFixture<S>) {
    let run = b.start(&b.new_thread_key()).await;
    for spent in [1_u64, 10, 100_000_000_000] {
        let usage = RunUsage { input_tokens: spent, output_tokens: spent * 2, cost_micros: spent * 3 };
        b.commit(&run, Commit { usage, steps: 2, ..Commit::default() }).await;
    }
    let row = b.run_row(&run).await;
    let sum = 100_000_000_011;
    assert_eq!(row.usage, RunUsage { input_tokens: sum, output_tokens: sum * 2, cost_micros: sum * 3 });
    assert_eq!(row.steps, 6);
}

pub(super) async fn a_commit_tells_of_a_wish_to_cancel<S: Store>(b: StoreFixture<S>) {
    let run = b.start(&b.new_thread_key()).await;
    assert!(!b.write_steps(&run, &["a"]).await.cancel_asked);
    b.cancel(&run.run).await;
    assert!(b.write_steps(&run, &["b"]).await.cancel_asked);
    assert!(b.write_steps(&run, &["c"]).await.cancel_asked, "until it is heard");
}

pub(super) async fn an_empty_commit_is_fine<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    let committed = b.commit(&run, Commit::default()).await;
    assert_eq!(committed.head, 1);
    assert_eq!(b.run_row(&run).await, run.run);
}

pub(super) async fn any_bytes_survive<S: Store>(b: StoreFixture<S>) {
    let all: Vec<u8> = (0..=255).chain([0, 0, 0xff, 0xfe]).collect();
    for bytes in
        [all, Vec::new(), b"\0".to_vec(), b"'; DROP TABLE runs; --".to_vec(), b"{\"a\":\"\\u0000\"}".to_vec()]
    {
        check_bytes_everywhere(&b, bytes).await;
    }
}

pub(super) async fn a_megabyte_survives<S: Store>(b: StoreFixture<S>) {
    check_bytes_everywhere(
        &b,
        (0..1 << 20).map(|place: u32| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
    )
    .await;
}

/// Keeps the bytes wherever bytes can be kept and reads them back.
async fn check_bytes_everywhere<S: Store>(b: &StoreFixture<S>, bytes: Vec<u8>) {
    let thread = b.new_thread_key();
    let mut new = NewRun { options: bytes.clone(), ..b.new_run(&thread) };
    new.first.body = bytes.clone();
    new.claim = Some(WorkerLease { lease: std::time::Duration::from_millis(1), ..long_lease() });
    let run = expect_started(b.store.submit(new).await);
    let snapshot = Some(bytes.clone());
    let entries =
        vec![NewEntry { kind: EntryKind::Step, body: bytes.clone(), parent: None, base: 0, snapshot }];
    let records =
        vec![Record { path: "0.0".into(), key: "k".into(), stage: RecordStage::Done, body: bytes.clone() }];
    b.commit(&run, Commit { entries, records, ..Commit::default() }).await;
    let run = b.claim_when_lost(&thread).await;
    assert!(run.run.options == bytes, "options");
    assert!(run.records[0].body == bytes, "a record");
    let log = b.log_entries(&thread).await;
    assert!(log[0].body == bytes && log[1].body == bytes, "a body");
    let loaded = b.store.load(&thread, None).await.expect("load");
    assert!(loaded.snapshot == Some((2, bytes.clone())), "a snapshot");
    b.store.cache_value(&b.tenant, "bytes", &bytes, None).await.expect("keep");
    assert!(b.store.cached_value(&b.tenant, "bytes").await.expect("cached") == Some(bytes), "a cached value");
}
