//! Claims: who may write, for how long, and what the next one finds.

use std::time::Duration;

use super::fixture::*;
use crate::store::*;

/// A lease that has run out after [`wait_for_short_lease`].
fn short_lease() -> WorkerLease {
    WorkerLease { lease: Duration::from_millis(1), ..long_lease() }
}

async fn wait_for_short_lease() {
    sleep_millis(15).await;
}

pub(super) async fn a_claim_raises_the_epoch_and_fences_the_old_writer<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let old = b.start_and_lose(&thread).await;
    let new = b.claim(&thread).await.expect("a lost run");
    assert_eq!((new.run.run, new.run.epoch, new.head), (old.run.run, 2, 1));
    assert_eq!((new.run.status, new.run.started_at), (RunStatus::Running, old.run.started_at));
    assert_eq!(b.run_row(&new).await.epoch, 2);
    let before = b.dump_thread(&thread).await;
    let commit = Commit { head: 1, ..steps_commit(&["old"]) };
    refused!(b.store.commit(&old.fence(), commit).await, StoreError::Fenced);
    assert_eq!(b.dump_thread(&thread).await, before);
    b.write_steps(&new, &["new"]).await;
    assert_eq!(b.log_text(&thread).await, "in new");
}

pub(super) async fn a_lease_that_runs_out_frees_the_run<S: Store>(b: StoreFixture<S>) {
    let (thread, held) = (b.new_thread_key(), b.new_thread_key());
    b.start(&held).await;
    expect_started(b.store.submit(NewRun { claim: Some(short_lease()), ..b.new_run(&thread) }).await);
    wait_for_short_lease().await;
    assert!(b.claim(&held).await.is_none(), "the lease still holds");
    let taken = b.store.claim(&short_lease(), Some(&thread), 1).await.expect("claim");
    assert_eq!((taken.len(), taken[0].run.epoch), (1, 2));
    wait_for_short_lease().await;
    assert_eq!(b.claim(&thread).await.expect("lost again").run.epoch, 3);
    assert!(b.claim(&thread).await.is_none(), "the third lease holds");
}

pub(super) async fn an_expired_lease_alone_fences_nobody<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_lose(&thread).await;
    b.write_steps(&run, &["late"]).await;
    assert_eq!(b.store.renew(&long_lease(), &[run.fence()]).await.expect("renew"), [LeaseRenewal::Held]);
    assert!(b.claim(&thread).await.is_none(), "the renewed lease holds");
}

pub(super) async fn a_renewal_prolongs_the_lease<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run =
        expect_started(b.store.submit(NewRun { claim: Some(short_lease()), ..b.new_run(&thread) }).await);
    assert_eq!(b.store.renew(&long_lease(), &[run.fence()]).await.expect("renew"), [LeaseRenewal::Held]);
    wait_for_short_lease().await;
    assert!(b.claim(&thread).await.is_none(), "the lease was prolonged");
    assert_eq!(b.run_row(&run).await.epoch, 1);
}

pub(super) async fn a_renewal_tells_how_each_claim_stands<S: Store>(b: StoreFixture<S>) {
    let held = b.start(&b.new_thread_key()).await;
    let cancelled = b.start(&b.new_thread_key()).await;
    b.cancel(&cancelled.run).await;
    let ended = b.start(&b.new_thread_key()).await;
    b.finish(&ended).await;
    let paused = b.start_and_pause(&b.new_thread_key(), &["q"]).await;
    let deleted = b.start(&b.new_thread_key()).await;
    b.store.delete_thread(&deleted.run.thread).await.expect("delete");
    let taken = b.start_and_lose(&b.new_thread_key()).await;
    let taker = b.claim(&taken.run.thread).await.expect("a lost run");
    let fences = [&taken, &held, &cancelled, &ended, &paused, &deleted, &taker].map(ClaimedRun::fence);
    let renewals = b.store.renew(&long_lease(), &fences).await.expect("renew");
    use LeaseRenewal::{CancelAsked, Held, Lost};
    assert_eq!(renewals, [Lost, Held, CancelAsked, Lost, Lost, Lost, Held]);
    assert_eq!(b.store.renew(&long_lease(), &[]).await.expect("renew none"), []);
}

pub(super) async fn the_oldest_of_a_free_thread_is_claimed<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = b.submit_queued(&thread, IfBusy::Enqueue).await;
    b.submit_queued(&thread, IfBusy::Enqueue).await;
    assert_eq!(b.claim(&thread).await.expect("the first").run.run, first.run);
    assert!(b.claim(&thread).await.is_none(), "one active run a thread");
}

pub(super) async fn a_run_is_claimed_on_its_first_time_with_its_entry<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    let waits = b.submit_queued(&thread, IfBusy::Reject).await;
    assert_eq!(b.log_text(&thread).await, "in a");
    let run = b.claim(&thread).await.expect("the run");
    assert_eq!((run.run.run, run.run.epoch, run.head), (waits.run, 1, 3));
    assert_eq!(
        (run.run.first_seq, run.run.parent_seq, run.run.status),
        (Some(3), Some(2), RunStatus::Running)
    );
    assert!(run.run.started_at.is_some());
    assert_eq!(b.run_row(&run).await, run.run);
    assert_eq!(b.thread_row(&thread).await.active, Some(waits.run));
    assert_eq!(b.log_text(&thread).await, "in a in");
}

pub(super) async fn a_paused_run_is_not_claimed<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let claim = Some(short_lease());
    let run = expect_started(b.store.submit(NewRun { claim, ..b.new_run(&thread) }).await);
    b.commit(&run, status_commit(RunStatus::Paused)).await;
    b.submit_queued(&thread, IfBusy::Enqueue).await;
    wait_for_short_lease().await;
    assert!(b.claim(&thread).await.is_none());
    assert_eq!(b.thread_row(&thread).await.active, Some(run.run.run));
}

pub(super) async fn nothing_to_claim_is_no_error<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    assert!(b.claim(&thread).await.is_none());
    b.start_and_finish(&thread, vec![]).await;
    assert!(b.claim(&thread).await.is_none());
    b.submit_queued(&thread, IfBusy::Reject).await;
    assert!(b.store.claim(&long_lease(), Some(&thread), 0).await.expect("claim none").is_empty());
    assert!(b.claim(&thread).await.is_some());
}

pub(super) async fn a_run_of_an_unknown_graph_is_passed_over<S: Store>(b: StoreFixture<S>) {
    let (queued, lost, known) = (b.new_thread_key(), b.new_thread_key(), b.new_thread_key());
    b.submit_queued(&queued, IfBusy::Enqueue).await;
    let gone = b.start_and_lose(&lost).await;
    let run = NewRun { graph: "other".into(), claim: None, ..b.new_run(&known) };
    let wanted = expect_queued(b.store.submit(run).await).0;
    let worker = WorkerLease { graphs: Some(["other".to_owned()].into()), ..long_lease() };
    let before = (b.dump_thread(&queued).await, b.dump_thread(&lost).await);
    for thread in [&queued, &lost] {
        assert!(b.store.claim(&worker, Some(thread), 10).await.expect("claim").is_empty());
    }
    let claimed = b.store.claim(&worker, None, 1).await.expect("claim");
    assert_eq!(claimed.iter().map(|claimed| claimed.run.run).collect::<Vec<_>>(), [wanted.run]);
    assert!(b.store.claim(&worker, None, 1).await.expect("claim").is_empty());
    assert_eq!((b.dump_thread(&queued).await, b.dump_thread(&lost).await), before);
    b.cancel(&gone.run).await;
    let claimed = b.store.claim(&worker, Some(&lost), 1).await.expect("claim");
    assert_eq!(claimed.len(), 1, "any worker can end it");
    assert!(b.claim(&queued).await.is_some(), "others take it");
}

/// Queues behind busy and paused threads are not looked through; what waits is found as soon as its thread is free.
pub(super) async fn a_queue_is_found_when_its_thread_becomes_free<S: Store>(b: StoreFixture<S>) {
    let claim_any = async || {
        let claimed = b.store.claim(&long_lease(), None, 10).await.expect("claim");
        let ours = claimed.iter().filter(|claimed| claimed.run.thread.tenant == b.tenant);
        ours.map(|claimed| claimed.run.run).collect::<Vec<_>>()
    };
    claim_any().await;
    let threads = [(); 5].map(|()| b.new_thread_key());
    let [finished, cancelled, retried, left, interrupted] = &threads;
    let live = b.start(finished).await;
    let paused = b.start_and_pause(cancelled, &["q"]).await;
    let failed = b.start_and_fail(retried).await;
    let mut queued = Vec::new();
    for thread in [finished, cancelled] {
        queued.push(b.submit_queued(thread, IfBusy::Enqueue).await.run);
    }
    assert_eq!(claim_any().await, [], "their threads are not free");
    b.finish(&live).await;
    assert_eq!(claim_any().await, [queued[0]]);
    b.cancel(&paused.run).await;
    assert_eq!(claim_any().await, [queued[1]]);
    // A retry goes before what waits, and what waits after it.
    let waits = b.submit_queued(retried, IfBusy::Enqueue).await;
    b.store.signal(&failed.run.key(), retry_signal()).await.expect("retry");
    let again = b.claim(retried).await.expect("the retry");
    assert_eq!((again.run.run, claim_any().await), (failed.run.run, vec![]));
    b.finish(&again).await;
    assert_eq!(claim_any().await, [waits.run]);
    // The first in line leaves, the next takes its place.
    let first = b.submit_queued(left, IfBusy::Enqueue).await;
    let second = b.submit_queued(left, IfBusy::Enqueue).await;
    b.cancel(&first).await;
    assert_eq!(claim_any().await, [second.run]);
    // A run that interrupts goes first, and starts at once.
    let waits = b.submit_queued(interrupted, IfBusy::Enqueue).await;
    let first = NewRun { if_busy: IfBusy::Interrupt, ..b.new_run(interrupted) };
    let goes = b.store.submit(first).await.expect("submit");
    let goes = match goes {
        SubmitOutcome::Started(claimed) => claimed,
        SubmitOutcome::Queued { .. } | SubmitOutcome::Repeated(_) => {
            b.claim(interrupted).await.expect("the first")
        }
    };
    assert_eq!(claim_any().await, []);
    b.finish(&goes).await;
    assert_eq!(claim_any().await, [waits.run]);
}

pub(super) async fn claims_reach_over_all_threads<S: Store>(b: StoreFixture<S>) {
    let mut wanted = Vec::new();
    for _ in 0..3 {
        wanted.push(b.submit_queued(&b.new_thread_key(), IfBusy::Reject).await.run);
    }
    wanted.push(b.start_and_lose(&b.new_thread_key()).await.run.run);
    let mut found = Vec::new();
    loop {
        let claimed = b.store.claim(&long_lease(), None, 2).await.expect("claim");
        assert!(claimed.len() <= 2, "the limit is kept");
        if claimed.is_empty() {
            break;
        }
        found.extend(
            claimed.iter().filter(|claimed| claimed.run.thread.tenant == b.tenant).map(|c| c.run.run),
        );
    }
    found.sort();
    assert_eq!(found, wanted);
}
