//! Runs are accepted, once, and in turn.

use serde_json::json;

use super::bench::*;
use crate::id::RunId;
use crate::store::*;

pub(super) async fn a_run_on_a_free_thread_starts_at_once<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let metadata = pairs(json!({ "누구": "둘리", "n": 1, "deep": { "a": [null, true] } }));
    let new = NewRun { metadata: metadata.clone(), options: b"opt".to_vec(), ..b.new_run(&thread) };
    let claimed = started(b.store.submit(new.clone()).await);
    let row = claimed.run.clone();
    assert_eq!(
        (row.thread.clone(), row.run, row.status, row.epoch),
        (thread.clone(), new.run, Status::Running, 1)
    );
    assert_eq!((row.graph.as_str(), row.fingerprint.as_str()), ("chat", "f1"));
    assert_eq!((row.first_seq, row.parent_seq, row.last_seq), (Some(1), Some(0), None));
    assert!(row.started_at.is_some() && row.ended_at.is_none() && row.error.is_none() && !row.cancel_asked);
    assert_eq!((row.metadata.clone(), row.options.clone()), (metadata, b"opt".to_vec()));
    assert_eq!((claimed.head, claimed.records.len()), (1, 0));
    assert_eq!(b.row(&claimed).await, row);
    let found = b.thread(&thread).await;
    assert_eq!((found.head, found.active, found.metadata.len()), (1, Some(new.run), 0));
    let log = b.log(&thread).await;
    assert_eq!((log.len(), log[0].seq, log[0].parent, log[0].base), (1, 1, 0, 0));
    assert_eq!(
        (log[0].kind, log[0].run, log[0].body.as_slice()),
        (EntryKind::Started, Some(new.run), &b"in"[..])
    );
}

pub(super) async fn a_run_without_a_claim_waits<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let (row, stop) = queued(b.store.submit(NewRun { claim: None, ..b.new_run(&thread) }).await);
    assert_eq!(
        (row.status, row.epoch, row.first_seq, row.parent_seq, stop),
        (Status::Queued, 0, None, None, None)
    );
    assert!(row.started_at.is_none());
    let found = b.thread(&thread).await;
    assert_eq!((found.head, found.active), (0, None));
    assert_eq!(b.store.run(&row.key()).await.expect("run"), row);
}

pub(super) async fn a_run_names_its_thread_once<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let named = |title: &str| NewRun {
        thread_metadata: pairs(json!({ "제목": title, "none": null })),
        ..b.new_run(&thread)
    };
    let first = started(b.store.submit(named("첫 질문")).await);
    assert_eq!(b.thread(&thread).await.metadata, pairs(json!({ "제목": "첫 질문" })));
    let filter =
        ThreadFilter { metadata: pairs(json!({ "제목": "첫 질문" })), ..ThreadFilter::default() };
    let found = b.store.threads(&thread.tenant, &filter).await.expect("threads");
    assert_eq!(found.len(), 1, "a thread is found by the name that its run gave it");
    // One that is refused names nothing, and neither does one that comes second; what is not there yet is added.
    refused!(b.store.submit(named("busy")).await, StoreError::Busy { .. });
    b.finish(&first).await;
    let more = pairs(json!({ "제목": "둘째", "agent": "chat" }));
    let second = started(b.store.submit(NewRun { thread_metadata: more, ..b.new_run(&thread) }).await);
    let both = pairs(json!({ "제목": "첫 질문", "agent": "chat" }));
    assert_eq!(b.thread(&thread).await.metadata, both);
    let waits = NewRun {
        thread_metadata: pairs(json!({ "queued": true })),
        if_busy: IfBusy::Enqueue,
        ..b.new_run(&thread)
    };
    queued(b.store.submit(waits).await);
    assert_eq!(b.thread(&thread).await.metadata.get("queued"), Some(&json!(true)));
    b.finish(&second).await;
    let nul = NewRun { thread_metadata: pairs(json!({ "a": "\u{0}" })), ..b.new_run(&b.key()) };
    refused!(b.store.submit(nul).await, StoreError::Conflict(_));
}

fn keyed(run: NewRun, key: &str, hash: &str) -> NewRun {
    NewRun { idempotency: Some(Idempotency { key: key.into(), hash: hash.into() }), ..run }
}

pub(super) async fn the_same_key_gives_the_same_run<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let first = started(b.store.submit(keyed(b.new_run(&thread), "k", "h")).await);
    // The thread is busy by now, and the key still counts first.
    let again = repeated(b.store.submit(keyed(b.new_run(&thread), "k", "h")).await);
    assert_eq!(again, first.run);
    b.finish(&first).await;
    let again = repeated(b.store.submit(keyed(b.new_run(&thread), "k", "h")).await);
    assert_eq!((again.run, again.status), (first.run.run, Status::Finished));
    assert_eq!(b.bodies(&thread).await, "in out");
}

pub(super) async fn the_same_key_for_something_else_is_refused<S: Store>(b: Bench<S>) {
    let (thread, other) = (b.key(), b.key());
    let first = started(b.store.submit(keyed(b.new_run(&thread), "k", "h")).await);
    b.finish(&first).await;
    let before = b.all(&thread).await;
    refused!(b.store.submit(keyed(b.new_run(&thread), "k", "H")).await, StoreError::KeyReused(_));
    refused!(b.store.submit(keyed(b.new_run(&other), "k", "H")).await, StoreError::KeyReused(_));
    assert_eq!(b.all(&thread).await, before);
    refused!(b.store.thread(&other).await, StoreError::NotFound { .. });
}

pub(super) async fn keys_belong_to_a_tenant<S: Store>(b: Bench<S>) {
    let other = b.neighbour();
    let ours = started(b.store.submit(keyed(b.new_run(&b.key()), "k", "h")).await);
    let theirs = started(other.store.submit(keyed(other.new_run(&other.key()), "k", "other")).await);
    assert_ne!(ours.run.run, theirs.run.run);
}

pub(super) async fn a_refused_run_leaves_no_key<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let active = b.start(&thread).await;
    refused!(b.store.submit(keyed(b.new_run(&thread), "k", "h")).await, StoreError::Busy { .. });
    b.finish(&active).await;
    started(b.store.submit(keyed(b.new_run(&thread), "k", "h")).await);
}

pub(super) async fn a_used_run_id_is_refused<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.finished(&thread, vec![]).await.run;
    let before = b.all(&thread).await;
    refused!(b.store.submit(NewRun { run, ..b.new_run(&thread) }).await, StoreError::Conflict(_));
    assert_eq!(b.all(&thread).await, before);
}

pub(super) async fn a_busy_thread_refuses<S: Store>(b: Bench<S>) {
    let (running, paused) = (b.key(), b.key());
    let runs = [b.start(&running).await, b.paused(&paused, &["q"]).await];
    for (thread, active) in [running, paused].iter().zip(runs) {
        let before = b.all(thread).await;
        match b.store.submit(b.new_run(thread)).await {
            Err(StoreError::Busy { thread: named, run }) => {
                assert_eq!((named, run), (thread.thread.clone(), active.run.run));
            }
            other => panic!("should be busy, not {other:?}"),
        }
        assert_eq!(b.all(thread).await, before);
    }
}

pub(super) async fn a_thread_with_a_queue_refuses<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let waits = b.queue(&thread, IfBusy::Enqueue).await;
    match b.store.submit(b.new_run(&thread)).await {
        Err(StoreError::Busy { run, .. }) => assert_eq!(run, waits.run),
        other => panic!("should be busy, not {other:?}"),
    }
}

pub(super) async fn enqueued_runs_go_first_in_first_out<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let mut active = b.start(&thread).await;
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(b.queue(&thread, IfBusy::Enqueue).await.run);
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

pub(super) async fn nobody_overtakes_those_who_wait<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let first = b.queue(&thread, IfBusy::Enqueue).await;
    let second = NewRun { if_busy: IfBusy::Enqueue, ..b.new_run(&thread) };
    let (second, _) = queued(b.store.submit(second).await);
    let claimed = b.claim(&thread).await.expect("the first run");
    assert_eq!(claimed.run.run, first.run);
    b.finish(&claimed).await;
    assert_eq!(b.claim(&thread).await.expect("the second run").run.run, second.run);
}

pub(super) async fn an_interrupt_asks_a_running_run_and_goes_next<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let active = b.start(&thread).await;
    let enqueued = b.queue(&thread, IfBusy::Enqueue).await;
    let new = NewRun { if_busy: IfBusy::Interrupt, ..b.new_run(&thread) };
    let (waits, stop) = queued(b.store.submit(new).await);
    assert_eq!((waits.status, stop), (Status::Queued, Some(active.run.run)));
    assert!(b.row(&active).await.cancel_asked);
    let commit = Commit { entries: vec![entry(EntryKind::Cancelled, "end", 0)], ..to(Status::Cancelled) };
    let ended = b.commit(&active, commit).await;
    assert!(ended.cancel_asked && ended.next_waits);
    let next = b.claim(&thread).await.expect("the run that interrupts");
    assert_eq!((next.run.run, next.run.parent_seq), (waits.run, Some(2)));
    b.finish(&next).await;
    assert_eq!(b.claim(&thread).await.expect("the enqueued run").run.run, enqueued.run);
}

pub(super) async fn interrupts_go_in_the_order_they_came<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let active = b.start(&thread).await;
    let first = b.queue(&thread, IfBusy::Interrupt).await;
    let second = b.queue(&thread, IfBusy::Rollback).await;
    b.finish(&active).await;
    let next = b.claim(&thread).await.expect("the first");
    assert_eq!(next.run.run, first.run);
    b.finish(&next).await;
    assert_eq!(b.claim(&thread).await.expect("the second").run.run, second.run);
}

pub(super) async fn an_interrupt_ends_a_paused_run_at_once<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let paused = b.paused(&thread, &["q"]).await;
    b.queue(&thread, IfBusy::Enqueue).await;
    let new = NewRun { if_busy: IfBusy::Interrupt, ..b.new_run(&thread) };
    let next = started(b.store.submit(new).await);
    assert_eq!(b.bodies(&thread).await, "in ask stop in");
    assert_eq!(b.log(&thread).await[2].kind, EntryKind::Cancelled);
    assert_eq!(b.log(&thread).await[2].run, Some(paused.run.run));
    let old = b.row(&paused).await;
    assert_eq!((old.status, old.last_seq), (Status::Cancelled, Some(3)));
    assert!(old.ended_at.is_some());
    assert_eq!((next.run.first_seq, next.run.parent_seq), (Some(4), Some(3)));
    assert_eq!(b.thread(&thread).await.active, Some(next.run.run));
}

pub(super) async fn a_rollback_starts_where_the_stopped_run_did<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a")]).await;
    let paused = b.paused(&thread, &["q"]).await;
    let new = NewRun { if_busy: IfBusy::Rollback, ..b.new_run(&thread) };
    let next = started(b.store.submit(new).await);
    assert_eq!(b.row(&paused).await.status, Status::Cancelled);
    assert_eq!((next.run.parent_seq, next.run.first_seq), (Some(2), Some(6)));
    assert_eq!(b.bodies(&thread).await, "in a in ask stop in");
    assert_eq!(b.loaded(&thread, None).await, "- | in a in");
}

pub(super) async fn a_rollback_of_a_running_run_waits<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a")]).await;
    let active = b.start(&thread).await;
    let new = NewRun { if_busy: IfBusy::Rollback, ..b.new_run(&thread) };
    let (waits, stop) = queued(b.store.submit(new).await);
    assert_eq!(stop, Some(active.run.run));
    b.write(&active, &["b"]).await;
    b.commit(
        &active,
        Commit { entries: vec![entry(EntryKind::Cancelled, "end", 0)], ..to(Status::Cancelled) },
    )
    .await;
    let next = b.claim(&thread).await.expect("the run that rolls back");
    assert_eq!((next.run.run, next.run.parent_seq), (waits.run, Some(2)));
    assert_eq!(b.loaded(&thread, None).await, "- | in a in");
}

pub(super) async fn an_interrupt_of_a_free_thread_just_starts<S: Store>(b: Bench<S>) {
    for if_busy in [IfBusy::Interrupt, IfBusy::Rollback, IfBusy::Enqueue] {
        let thread = b.key();
        b.finished(&thread, vec![step("a")]).await;
        let run = started(b.store.submit(NewRun { if_busy, ..b.new_run(&thread) }).await);
        assert_eq!(run.run.parent_seq, Some(2), "{if_busy:?}");
    }
}

fn from(run: NewRun, parent: Seq) -> NewRun {
    NewRun { first: NewRunEntry { parent: Some(parent), ..run.first }, ..run }
}

pub(super) async fn a_run_may_start_from_an_older_entry<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a"), step("b")]).await;
    let run = started(b.store.submit(from(b.new_run(&thread), 2)).await);
    assert_eq!((run.run.parent_seq, run.run.first_seq, run.head), (Some(2), Some(4), 4));
    assert_eq!(b.loaded(&thread, None).await, "- | in a in");
    b.finish(&run).await;
    let root = started(b.store.submit(from(b.new_run(&thread), 0)).await);
    assert_eq!(root.run.parent_seq, Some(0));
    assert_eq!(b.loaded(&thread, None).await, "- | in");
}

pub(super) async fn the_base_of_a_run_is_the_nearest_snapshot<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![snap("a", 0, "A"), entry(EntryKind::Step, "b", 2)]).await;
    let mut bases = Vec::new();
    for parent in [1, 2, 3] {
        let run = started(b.store.submit(from(b.new_run(&thread), parent)).await);
        let log = b.log(&thread).await;
        bases.push(log[log.len() - 1].base);
        b.commit(&run, to(Status::Finished)).await;
    }
    assert_eq!(bases, [0, 2, 2]);
}

pub(super) async fn a_missing_parent_is_not_found<S: Store>(b: Bench<S>) {
    let (thread, none) = (b.key(), b.key());
    b.finished(&thread, vec![]).await;
    let before = b.all(&thread).await;
    refused!(b.store.submit(from(b.new_run(&thread), 2)).await, StoreError::NotFound { .. });
    assert_eq!(b.all(&thread).await, before);
    let new = from(b.new_run(&none), 1);
    let run: RunId = new.run;
    refused!(b.store.submit(new).await, StoreError::NotFound { .. });
    refused!(b.store.thread(&none).await, StoreError::NotFound { .. });
    refused!(b.store.run(&none.run(run)).await, StoreError::NotFound { .. });
}
