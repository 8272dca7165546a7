//! That the store keeps the contract, and that it keeps its own time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::*;
use crate::id::RunId;
use crate::store::{
    Durability, EntryKind, IfBusy, InputDurability, NewRunEntry, Record, RecordStage, RunUsage, conformance,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ram_keeps_the_contract() {
    conformance::check(async || RamStore::new()).await;
    conformance::check_idempotency(async || RamStore::new()).await;
    conformance::check_key_values(async || RamStore::new()).await;
}

fn new_run(thread: &ThreadKey, lease: Duration) -> NewRun {
    NewRun {
        thread: thread.clone(),
        run: RunId::random(),
        graph: "chat".into(),
        fingerprint: "f1".into(),
        first: NewRunEntry { kind: EntryKind::Started, body: Vec::new(), parent: None },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: Map::new(),
        thread_metadata: Map::new(),
        options: Vec::new(),
        stop_body: Vec::new(),
        claim: Some(WorkerLease { worker: "w".into(), lease, graphs: None }),
        durability: InputDurability::Now,
    }
}

#[tokio::test]
async fn a_lease_goes_by_the_clock_that_was_given() {
    let time = Arc::new(AtomicI64::new(1_000));
    let clock = Arc::clone(&time);
    let store = RamStore::with_clock(Arc::new(move || clock.load(Ordering::SeqCst)));
    let thread = ThreadKey::local("t").expect("a name");
    let lease = Duration::from_secs(10);
    let run = store.submit(new_run(&thread, lease)).await.expect("submit");
    assert!(matches!(run, SubmitOutcome::Started(ClaimedRun { run: RunRow { created_at: 1_000, .. }, .. })));
    let claim = WorkerLease { worker: "v".into(), lease, graphs: None };
    time.store(10_999, Ordering::SeqCst);
    assert_eq!(store.claim(&claim, None, 9).await.expect("claim").len(), 0);
    time.store(11_000, Ordering::SeqCst);
    assert_eq!(store.claim(&claim, None, 9).await.expect("claim").len(), 1);
    assert_eq!(store.claim(&claim, None, 9).await.expect("claim").len(), 0);
}

#[tokio::test]
async fn a_thread_that_ended_leaves_no_line_behind() {
    let store = RamStore::new();
    let thread = ThreadKey::local("t").expect("a name");
    for _ in 0..3 {
        let run = new_run(&thread, Duration::ZERO);
        store.submit(NewRun { claim: None, ..run }).await.expect("submit");
        let claimed = store
            .claim(&WorkerLease { worker: "w".into(), lease: Duration::ZERO, graphs: None }, None, 1)
            .await
            .expect("claim");
        let status = Some(crate::store::NewStatus { status: crate::store::RunStatus::Finished, error: None });
        let commit = Commit { head: claimed[0].head, status, ..Commit::default() };
        store.commit(&claimed[0].fence(), commit).await.expect("commit");
    }
    assert_eq!(store.lock_state().0.claim_queue_lengths(), (0, 0));
    store.delete_thread(&thread).await.expect("delete");
    assert!(store.runs(&thread.tenant, &RunFilter::default()).await.expect("runs").is_empty());
}

/// Prints what a commit costs; run with `--release -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement, not a law"]
async fn how_long_a_commit_takes() {
    for threads in [1, 100, 10_000] {
        let took = time_commits(threads, 300_000).await;
        println!("{} ns a commit on {threads} threads in turn", took.as_nanos());
    }
}

async fn time_commits(threads: usize, count: u32) -> Duration {
    let store = RamStore::new();
    let mut fences = Vec::new();
    for place in 0..threads {
        let thread = ThreadKey::local(&format!("thread-{place}")).expect("a name");
        let run = store.submit(new_run(&thread, Duration::from_secs(60))).await.expect("submit");
        if let SubmitOutcome::Started(claimed) = run {
            fences.push((claimed.fence(), claimed.head));
        }
    }
    let record =
        |body| Record { path: "0.0".into(), key: "effect call#1".into(), stage: RecordStage::Done, body };
    let mut spent = Duration::ZERO;
    for (_, place) in (0..count).zip((0..threads).cycle()) {
        let (fence, head) = &mut fences[place];
        let entry =
            NewEntry { kind: EntryKind::Step, body: vec![7; 200], parent: None, base: 0, snapshot: None };
        let commit = Commit {
            head: *head,
            entries: vec![entry],
            records: vec![record(vec![7; 100])],
            clear_records: true,
            usage: RunUsage { input_tokens: 1, ..RunUsage::default() },
            steps: 1,
            status: None,
            claim_next: None,
            durability: Durability::Now,
        };
        let begun = std::time::Instant::now();
        *head = store.commit(fence, commit).await.expect("commit").head;
        spent += begun.elapsed();
    }
    spent / count
}
