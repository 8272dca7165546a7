//! Several replicas on one database: they take over each other's runs, and none gets a run twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use doran_engine::id::RunId;
use doran_engine::store::{
    Commit, HistoryStore, IfBusy, LeaseRenewal, NewRun, NewStatus, Record, RecordStage, RunFilter, RunStatus,
    RunStore, StoreError, WorkerLease,
};
use doran_store::postgres::PostgresStore;

use super::{connect_plain, enqueue_run, entry_bodies, local_thread, new_run, open, start, step, worker};
use crate::postgres_server;

#[tokio::test]
async fn a_run_is_taken_over_and_its_old_writer_fenced() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (left, right) = (open(&url).await, open(&url).await);
    let thread = local_thread("t");
    let old = start(&left, NewRun { claim: Some(worker("left")), ..new_run(&thread) }).await;
    let open_question =
        Record { path: "1.0".into(), key: "ask#1".into(), stage: RecordStage::Open, body: b"?".to_vec() };
    let step = Commit { records: vec![open_question], ..step(1, "one") };
    left.commit(&old.fence(), step).await.expect("commit");
    let held = right.claim(&worker("right"), None, 10).await.expect("claim");
    assert!(held.is_empty(), "the lease still holds");

    let gone = WorkerLease { lease: Duration::ZERO, ..worker("left") };
    left.renew(&gone, &[old.fence()]).await.expect("renew");
    let new =
        right.claim(&worker("right"), None, 10).await.expect("claim").pop().expect("a run without a lease");
    assert_eq!((new.run.run, new.run.epoch, new.head, new.records.len()), (old.run.run, 2, 2, 1));
    let refused = left.commit(&old.fence(), super::step(2, "late")).await;
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    let fences = [old.fence(), new.fence()];
    let renewed = right.renew(&worker("right"), &fences).await.expect("renew");
    assert_eq!(renewed, [LeaseRenewal::Lost, LeaseRenewal::Held]);
    right.commit(&new.fence(), super::step(2, "two")).await.expect("commit");
    assert_eq!(entry_bodies(&right, &thread).await, "in one two");
}

#[tokio::test]
async fn a_thread_that_is_locked_for_long_keeps_no_other_lease_from_being_renewed() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let claimed = |name: &str| NewRun { claim: Some(worker("w")), ..new_run(&local_thread(name)) };
    let (locked, free) = (start(&store, claimed("locked")).await, start(&store, claimed("free")).await);
    let other = connect_plain(&url).await;
    // What removing a thread does first.
    let lock = "begin; select 1 from threads where thread = 'locked' for update;
        select 1 from runs where thread = 'locked' for update";
    other.batch_execute(lock).await.expect("locked");
    let fences = [locked.fence(), free.fence()];
    let renewed = store.renew(&worker("w"), &fences).await.expect("renewed");
    assert_eq!(renewed, [LeaseRenewal::Busy, LeaseRenewal::Held]);
    other.batch_execute("rollback").await.expect("unlocked");
    let renewed = store.renew(&worker("w"), &fences).await.expect("renewed");
    assert_eq!(renewed, [LeaseRenewal::Held, LeaseRenewal::Held]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_never_claim_the_same_run() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let stores = [Arc::new(open(&url).await), Arc::new(open(&url).await)];
    for i in 0..60 {
        enqueue_run(&stores[0], &local_thread(&format!("t{i}"))).await;
    }
    let claimers = (0..8).map(|i| {
        let store = Arc::clone(&stores[i % 2]);
        tokio::spawn(async move {
            let mut mine = Vec::new();
            // A thread that the other one has just locked is passed over, so nothing found is no proof of the end.
            while mine.len() < 60 {
                let claimed = store.claim(&worker(&format!("w{i}")), None, 3).await.expect("claim");
                mine.extend(claimed.iter().map(|claimed| (claimed.run.run, claimed.run.epoch)));
                let queued = RunFilter { status: Some(RunStatus::Queued), limit: 1, ..RunFilter::default() };
                if store.runs(&local_thread("t").tenant, &queued).await.expect("runs").is_empty() {
                    break;
                }
            }
            mine
        })
    });
    let mut all = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        all.extend(claimer.await.expect("task"));
    }
    let distinct: BTreeSet<RunId> = all.iter().map(|(run, _)| *run).collect();
    assert_eq!((all.len(), distinct.len()), (60, 60));
    assert!(all.iter().all(|(_, epoch)| *epoch == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_never_activate_two_runs_of_a_thread() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let stores = [Arc::new(open(&url).await), Arc::new(open(&url).await)];
    let thread = local_thread("t");
    for _ in 0..10 {
        let run = NewRun { claim: None, if_busy: IfBusy::Enqueue, ..new_run(&thread) };
        stores[0].submit(run).await.expect("submit");
    }
    let mut order = Vec::new();
    for _ in 0..10 {
        let claimers = (0..8).map(|i| {
            let (store, thread) = (Arc::clone(&stores[i % 2]), thread.clone());
            tokio::spawn(async move {
                store.claim(&worker(&format!("w{i}")), Some(&thread), 5).await.expect("claim")
            })
        });
        let mut claimed = Vec::new();
        for claimer in claimers.collect::<Vec<_>>() {
            claimed.extend(claimer.await.expect("task"));
        }
        assert_eq!(claimed.len(), 1, "one run of a thread is active");
        let end = NewStatus { status: RunStatus::Finished, error: None };
        let commit = Commit { status: Some(end), ..step(claimed[0].head, "end") };
        stores[1].commit(&claimed[0].fence(), commit).await.expect("commit");
        order.push(claimed[0].run.run);
    }
    assert!(order.is_sorted(), "first in, first out");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_may_start_at_once() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let starts: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresStore::open(&url).await })
        })
        .collect();
    for start in starts {
        let store = start.await.expect("task").expect("open");
        enqueue_run(&store, &local_thread(&postgres_server::fresh_schema_name())).await;
    }
}
