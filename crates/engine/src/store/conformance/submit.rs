//! Runs are accepted, once, and in turn.

use serde_json::json;

use super::fixture::*;
use crate::id::RunId;
use crate::store::*;

pub(super) async fn a_run_on_a_free_thread_starts_at_once<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let metadata = metadata_from_json(json!({ "누구": "둘리", "n": 1, "deep": { "a": [null, true] } }));
    let new = NewRun { metadata: metadata.clone(), options: b"opt".to_vec(), ..b.new_run(&thread) };
    let claimed = expect_started(b.store.submit(new.clone()).await);
    let row = claimed.run.clone();
    assert_eq!(
        (row.thread.clone(), row.run, row.status, row.epoch),
        (thread.clone(), new.run, RunStatus::Running, 1)
    );
    assert_eq!((row.graph.as_str(), row.fingerprint.as_str()), ("chat", "f1"));
    assert_eq!((row.first_seq, row.parent_seq, row.last_seq), (Some(1), Some(0), None));
    assert!(row.started_at.is_some() && row.ended_at.is_none() && row.error.is_none() && !row.cancel_asked);
    assert_eq!((row.metadata.clone(), row.options.clone()), (metadata, b"opt".to_vec()));
    assert_eq!((claimed.head, claimed.records.len()), (1, 0));
    assert_eq!(b.run_row(&claimed).await, row);
    let found = b.thread_row(&thread).await;
    assert_eq!((found.head, found.active, found.metadata.len()), (1, Some(new.run), 0));
    let log = b.log_entries(&thread).await;
    assert_eq!((log.len(), log[0].seq, log[0].parent, log[0].base), (1, 1, 0, 0));
    assert_eq!(
        (log[0].kind, log[0].run, log[0].body.as_slice()),
        (EntryKind::Started, Some(new.run), &b"in"[..])
    );
}

pub(super) async fn a_run_without_a_claim_waits<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let (row, stop) = expect_queued(b.store.submit(NewRun { claim: None, ..b.new_run(&thread) }).await);
    assert_eq!(
        (row.status, row.epoch, row.first_seq, row.parent_seq, stop),
        (RunStatus::Queued, 0, None, None, None)
    );
    assert!(row.started_at.is_none());
    let found = b.thread_row(&thread).await;
    assert_eq!((found.head, found.active), (0, None));
    assert_eq!(b.store.run(&row.key()).await.expect("run"), row);
}

pub(super) async fn a_run_names_its_thread_once<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let named = |title: &str| NewRun {
        thread_metadata: metadata_from_json(json!({ "제목": title, "none": null })),
        ..b.new_run(&thread)
    };
    let first = expect_started(b.store.submit(named("첫 질문")).await);
    assert_eq!(b.thread_row(&thread).await.metadata, metadata_from_json(json!({ "제목": "첫 질문" })));
    let filter = ThreadFilter {
        metadata: metadata_from_json(json!({ "제목": "첫 질문" })),
        ..ThreadFilter::default()
    };
    let found = b.store.threads(&thread.tenant, &filter).await.expect("threads");
    assert_eq!(found.len(), 1, "a thread is found by the name that its run gave it");
    // One that is refused names nothing, and neither does one that comes second; what is not there yet is added.
    refused!(b.store.submit(named("busy")).await, StoreError::Busy { .. });
    b.finish(&first).await;
    let more = metadata_from_json(json!({ "제목": "둘째", "agent": "chat" }));
    let second = expect_started(b.store.submit(NewRun { thread_metadata: more, ..b.new_run(&thread) }).await);
    let both = metadata_from_json(json!({ "제목": "첫 질문", "agent": "chat" }));
    assert_eq!(b.thread_row(&thread).await.metadata, both);
    let waits = NewRun {
        thread_metadata: metadata_from_json(json!({ "queued": true })),
        if_busy: IfBusy::Enqueue,
        ..b.new_run(&thread)
    };
    expect_queued(b.store.submit(waits).await);
    assert_eq!(b.thread_row(&thread).await.metadata.get("queued"), Some(&json!(true)));
    b.finish(&second).await;
    let nul = NewRun {
        thread_metadata: metadata_from_json(json!({ "a": "\u{0}" })),
        ..b.new_run(&b.new_thread_key())
    };
    refused!(b.store.submit(nul).await, StoreError::Conflict(_));
}

fn with_idempotency_key(run: NewRun, key: &str, hash: &str) -> NewRun {
    NewRun { idempotency: Some(RunIdempotencyKey { key: key.into(), hash: hash.into() }), ..run }
}

pub(super) async fn the_same_key_gives_the_same_run<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = expect_started(b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await);
    // The thread is busy by now, and the key still counts first.
    let again = expect_repeated(b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await);
    assert_eq!(again, first.run);
    b.finish(&first).await;
    let again = expect_repeated(b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await);
    assert_eq!((again.run, again.status), (first.run.run, RunStatus::Finished));
    assert_eq!(b.log_text(&thread).await, "in out");
}

pub(super) async fn the_same_key_for_something_else_is_refused<S: Store>(b: StoreFixture<S>) {
    let (thread, other) = (b.new_thread_key(), b.new_thread_key());
    let first = expect_started(b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await);
    b.finish(&first).await;
    let before = b.dump_thread(&thread).await;
    refused!(
        b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "H")).await,
        StoreError::KeyReused(_)
    );
    refused!(
        b.store.submit(with_idempotency_key(b.new_run(&other), "k", "H")).await,
        StoreError::KeyReused(_)
    );
    assert_eq!(b.dump_thread(&thread).await, before);
    refused!(b.store.thread(&other).await, StoreError::NotFound { .. });
}

pub(super) async fn keys_belong_to_a_tenant<S: Store>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    let ours =
        expect_started(b.store.submit(with_idempotency_key(b.new_run(&b.new_thread_key()), "k", "h")).await);
    let theirs = expect_started(
        other.store.submit(with_idempotency_key(other.new_run(&other.new_thread_key()), "k", "other")).await,
    );
    assert_ne!(ours.run.run, theirs.run.run);
}

pub(super) async fn a_key_outlives_its_thread<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = expect_started(b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await);
    b.finish(&first).await;
    assert!(b.store.delete_thread(&thread).await.expect("deleted"));
    refused!(
        b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await,
        StoreError::Conflict(_)
    );
    refused!(
        b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "H")).await,
        StoreError::KeyReused(_)
    );
    refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
}

pub(super) async fn a_refused_run_leaves_no_key<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let active = b.start(&thread).await;
    refused!(
        b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await,
        StoreError::Busy { .. }
    );
    b.finish(&active).await;
    expect_started(b.store.submit(with_idempotency_key(b.new_run(&thread), "k", "h")).await);
}

pub(super) async fn a_used_run_id_is_refused<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_finish(&thread, vec![]).await.run;
    let before = b.dump_thread(&thread).await;
    refused!(b.store.submit(NewRun { run, ..b.new_run(&thread) }).await, StoreError::Conflict(_));
    assert_eq!(b.dump_thread(&thread).await, before);
}

pub(super) async fn a_busy_thread_refuses<S: Store>(b: StoreFixture<S>) {
    let (running, paused) = (b.new_thread_key(), b.new_thread_key());
    let runs = [b.start(&running).await, b.start_and_pause(&paused, &["q"]).await];
    for (thread, active) in [running, paused].iter().zip(runs) {
        let before = b.dump_thread(thread).await;
        match b.store.submit(b.new_run(thread)).await {
            Err(StoreError::Busy { thread: named, run }) => {
                assert_eq!((named, run), (thread.thread.clone(), active.run.run));
            }
            other => panic!("should be busy, not {other:?}"),
        }
        assert_eq!(b.dump_thread(thread).await, before);
    }
}

pub(super) async fn a_thread_with_a_queue_refuses<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let waits = b.submit_queued(&thread, IfBusy::Enqueue).await;
    match b.store.submit(b.new_run(&thread)).await {
        Err(StoreError::Busy { run, .. }) => assert_eq!(run, waits.run),
        other => panic!("should be busy, not {other:?}"),
    }
}

pub(super) async fn enqueued_runs_go_first_in_first_out<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let mut active = b.start(&thread).await;
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(b.submit_queued(&thread, IfBusy::Enqueue).await.run);
    }
    assert!(b.claim(&thread).await.is_none());
    for (place, run) in order.iter().enumerate() {
        assert!(b.finish(&active).await.next_waits);
        active = b.claim(&thread).await.expect("the next run");
        assert_eq!(active.run.run, *run, "place {place}");
        assert!(b.claim(&thread).await.is_none());
    }
    assert!(!b.finish(&active).await.next_waits);
}

pub(super) async fn nobody_overtakes_those_who_wait<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let second = NewRun { if_busy: IfBusy::Enqueue, ..b.new_run(&thread) };
    let (second, _) = expect_queued(b.store.submit(second).await);
    let claimed = b.claim(&thread).await.expect("the first run");
    assert_eq!(claimed.run.run, first.run);
    b.finish(&claimed).await;
    assert_eq!(b.claim(&thread).await.expect("the second run").run.run, second.run);
}

pub(super) async fn an_interrupt_asks_a_running_run_and_goes_next<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let active = b.start(&thread).await;
    let enqueued = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let new = NewRun { if_busy: IfBusy::Interrupt, ..b.new_run(&thread) };
    let (waits, stop) = expect_queued(b.store.submit(new).await);
    assert_eq!((waits.status, stop), (RunStatus::Queued, Some(active.run.run)));
    assert!(b.run_row(&active).await.cancel_asked);
    let commit = Commit {
        entries: vec![new_entry(EntryKind::Cancelled, "end", 0)],
        ..status_commit(RunStatus::Cancelled)
    };
    let ended = b.commit(&active, commit).await;
    assert!(ended.cancel_asked && ended.next_waits);
    let next = b.claim(&thread).await.expect("the run that interrupts");
    assert_eq!((next.run.run, next.run.parent_seq), (waits.run, Some(2)));
    b.finish(&next).await;
    assert_eq!(b.claim(&thread).await.expect("the enqueued run").run.run, enqueued.run);
}

pub(super) async fn interrupts_go_in_the_order_they_came<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let active = b.start(&thread).await;
    let first = b.submit_queued(&thread, IfBusy::Interrupt).await;
    let second = b.submit_queued(&thread, IfBusy::Rollback).await;
    b.finish(&active).await;
    let next = b.claim(&thread).await.expect("the first");
    assert_eq!(next.run.run, first.run);
    b.finish(&next).await;
    assert_eq!(b.claim(&thread).await.expect("the second").run.run, second.run);
}

pub(super) async fn an_interrupt_ends_a_paused_run_at_once<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let paused = b.start_and_pause(&thread, &["q"]).await;
    b.submit_queued(&thread, IfBusy::Enqueue).await;
    let new = NewRun { if_busy: IfBusy::Interrupt, ..b.new_run(&thread) };
    let next = expect_started(b.store.submit(new).await);
    assert_eq!(b.log_text(&thread).await, "in ask stop in");
    assert_eq!(b.log_entries(&thread).await[2].kind, EntryKind::Cancelled);
    assert_eq!(b.log_entries(&thread).await[2].run, Some(paused.run.run));
    let old = b.run_row(&paused).await;
    assert_eq!((old.status, old.last_seq), (RunStatus::Cancelled, Some(3)));
    assert!(old.ended_at.is_some());
    assert_eq!((next.run.first_seq, next.run.parent_seq), (Some(4), Some(3)));
    assert_eq!(b.thread_row(&thread).await.active, Some(next.run.run));
}

pub(super) async fn a_rollback_starts_where_the_stopped_run_did<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    let paused = b.start_and_pause(&thread, &["q"]).await;
    let new = NewRun { if_busy: IfBusy::Rollback, ..b.new_run(&thread) };
    let next = expect_started(b.store.submit(new).await);
    assert_eq!(b.run_row(&paused).await.status, RunStatus::Cancelled);
    assert_eq!((next.run.parent_seq, next.run.first_seq), (Some(2), Some(6)));
    assert_eq!(b.log_text(&thread).await, "in a in ask stop in");
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a in");
}

pub(super) async fn a_rollback_of_a_running_run_waits<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    let active = b.start(&thread).await;
    let new = NewRun { if_busy: IfBusy::Rollback, ..b.new_run(&thread) };
    let (waits, stop) = expect_queued(b.store.submit(new).await);
    assert_eq!(stop, Some(active.run.run));
    b.write_steps(&active, &["b"]).await;
    b.commit(
        &active,
        Commit {
            entries: vec![new_entry(EntryKind::Cancelled, "end", 0)],
            ..status_commit(RunStatus::Cancelled)
        },
    )
    .await;
    let next = b.claim(&thread).await.expect("the run that rolls back");
    assert_eq!((next.run.run, next.run.parent_seq), (waits.run, Some(2)));
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a in");
}

pub(super) async fn an_interrupt_of_a_free_thread_just_starts<S: Store>(b: StoreFixture<S>) {
    for if_busy in [IfBusy::Interrupt, IfBusy::Rollback, IfBusy::Enqueue] {
        let thread = b.new_thread_key();
        b.start_and_finish(&thread, vec![step_entry("a")]).await;
        let run = expect_started(b.store.submit(NewRun { if_busy, ..b.new_run(&thread) }).await);
        assert_eq!(run.run.parent_seq, Some(2), "{if_busy:?}");
    }
}

fn starting_from(run: NewRun, parent: Seq) -> NewRun {
    NewRun { first: NewRunEntry { parent: Some(parent), ..run.first }, ..run }
}

pub(super) async fn a_run_may_start_from_an_older_entry<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a"), step_entry("b")]).await;
    let run = expect_started(b.store.submit(starting_from(b.new_run(&thread), 2)).await);
    assert_eq!((run.run.parent_seq, run.run.first_seq, run.head), (Some(2), Some(4), 4));
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a in");
    b.finish(&run).await;
    let root = expect_started(b.store.submit(starting_from(b.new_run(&thread), 0)).await);
    assert_eq!(root.run.parent_seq, Some(0));
    assert_eq!(b.loaded_text(&thread, None).await, "- | in");
}

pub(super) async fn the_base_of_a_run_is_the_nearest_snapshot<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_with_snapshot("a", 0, "A"), new_entry(EntryKind::Step, "b", 2)])
        .await;
    let mut bases = Vec::new();
    for parent in [1, 2, 3] {
        let run = expect_started(b.store.submit(starting_from(b.new_run(&thread), parent)).await);
        let log = b.log_entries(&thread).await;
        bases.push(log[log.len() - 1].base);
        b.commit(&run, status_commit(RunStatus::Finished)).await;
    }
    assert_eq!(bases, [0, 2, 2]);
}

pub(super) async fn a_missing_parent_is_not_found<S: Store>(b: StoreFixture<S>) {
    let (thread, none) = (b.new_thread_key(), b.new_thread_key());
    b.start_and_finish(&thread, vec![]).await;
    let before = b.dump_thread(&thread).await;
    refused!(b.store.submit(starting_from(b.new_run(&thread), 2)).await, StoreError::NotFound { .. });
    assert_eq!(b.dump_thread(&thread).await, before);
    let new = starting_from(b.new_run(&none), 1);
    let run: RunId = new.run;
    refused!(b.store.submit(new).await, StoreError::NotFound { .. });
    refused!(b.store.thread(&none).await, StoreError::NotFound { .. });
    refused!(b.store.run(&none.run(run)).await, StoreError::NotFound { .. });
}
