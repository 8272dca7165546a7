//! Claims: who may write, for how long, and what the next one finds.

use std::time::Duration;

use super::bench::*;
use crate::store::*;

fn short() -> Claim {
    Claim { lease: Duration::from_millis(200), ..worker() }
}

pub(super) async fn a_claim_raises_the_epoch_and_fences_the_old_writer<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let old = b.start_and_lose(&thread).await;
    let new = b.claim(&thread).await.expect("a lost run");
    assert_eq!((new.run.run, new.run.epoch, new.head), (old.run.run, 2, 1));
    assert_eq!((new.run.status, new.run.started_at), (Status::Running, old.run.started_at));
    assert_eq!(b.row(&new).await.epoch, 2);
    let before = b.all(&thread).await;
    let commit = Commit { head: 1, ..steps(&["old"]) };
    refused!(b.store.commit(&old.fence(), commit).await, StoreError::Fenced);
    assert_eq!(b.all(&thread).await, before);
    b.write(&new, &["new"]).await;
    assert_eq!(b.bodies(&thread).await, "in new");
}

pub(super) async fn a_lease_that_runs_out_frees_the_run<S: Store>(b: Bench<S>) {
    let thread = b.key();
    started(b.store.submit(NewRun { claim: Some(short()), ..b.new_run(&thread) }).await);
    assert!(b.claim(&thread).await.is_none(), "the lease still holds");
    pause(230).await;
    let taken = b.store.claim(&short(), Some(&thread), 1).await.expect("claim");
    assert_eq!((taken.len(), taken[0].run.epoch), (1, 2));
    assert!(b.claim(&thread).await.is_none(), "the second lease holds");
    pause(230).await;
    assert_eq!(b.claim(&thread).await.expect("lost again").run.epoch, 3);
}

pub(super) async fn an_expired_lease_alone_fences_nobody<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start_and_lose(&thread).await;
    b.write(&run, &["late"]).await;
    assert_eq!(b.store.renew(&worker(), &[run.fence()]).await.expect("renew"), [Renewed::Held]);
    assert!(b.claim(&thread).await.is_none(), "the renewed lease holds");
}

pub(super) async fn a_renewal_prolongs_the_lease<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = started(b.store.submit(NewRun { claim: Some(short()), ..b.new_run(&thread) }).await);
    assert_eq!(b.store.renew(&worker(), &[run.fence()]).await.expect("renew"), [Renewed::Held]);
    pause(230).await;
    assert!(b.claim(&thread).await.is_none(), "the lease was prolonged");
    assert_eq!(b.row(&run).await.epoch, 1);
}

pub(super) async fn a_renewal_tells_how_each_claim_stands<S: Store>(b: Bench<S>) {
    let held = b.start(&b.key()).await;
    let asked = b.start(&b.key()).await;
    b.cancel(&asked.run).await;
    let ended = b.start(&b.key()).await;
    b.finish(&ended).await;
    let paused = b.paused(&b.key(), &["q"]).await;
    let deleted = b.start(&b.key()).await;
    b.store.delete_thread(&deleted.run.thread).await.expect("delete");
    let taken = b.start_and_lose(&b.key()).await;
    let taker = b.claim(&taken.run.thread).await.expect("a lost run");
    let fences = [&taken, &held, &asked, &ended, &paused, &deleted, &taker].map(Claimed::fence);
    let told = b.store.renew(&worker(), &fences).await.expect("renew");
    use Renewed::{CancelAsked, Held, Lost};
    assert_eq!(told, [Lost, Held, CancelAsked, Lost, Lost, Lost, Held]);
    assert_eq!(b.store.renew(&worker(), &[]).await.expect("renew none"), []);
}

pub(super) async fn the_oldest_of_a_free_thread_is_claimed<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let first = b.queue(&thread, IfBusy::Enqueue).await;
    b.queue(&thread, IfBusy::Enqueue).await;
    assert_eq!(b.claim(&thread).await.expect("the first").run.run, first.run);
    assert!(b.claim(&thread).await.is_none(), "one active run a thread");
}

pub(super) async fn a_run_is_claimed_on_its_first_time_with_its_entry<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a")]).await;
    let waits = b.queue(&thread, IfBusy::Reject).await;
    assert_eq!(b.bodies(&thread).await, "in a");
    let run = b.claim(&thread).await.expect("the run");
    assert_eq!((run.run.run, run.run.epoch, run.head), (waits.run, 1, 3));
    assert_eq!((run.run.first_seq, run.run.parent_seq, run.run.status), (Some(3), Some(2), Status::Running));
    assert!(run.run.started_at.is_some());
    assert_eq!(b.row(&run).await, run.run);
    assert_eq!(b.thread(&thread).await.active, Some(waits.run));
    assert_eq!(b.bodies(&thread).await, "in a in");
}

pub(super) async fn a_paused_run_is_not_claimed<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let claim = Claim { lease: Duration::from_millis(1), ..worker() };
    let run = started(b.store.submit(NewRun { claim: Some(claim), ..b.new_run(&thread) }).await);
    b.commit(&run, to(Status::Paused)).await;
    b.queue(&thread, IfBusy::Enqueue).await;
    pause(15).await;
    assert!(b.claim(&thread).await.is_none());
    assert_eq!(b.thread(&thread).await.active, Some(run.run.run));
}

pub(super) async fn nothing_to_claim_is_no_error<S: Store>(b: Bench<S>) {
    let thread = b.key();
    assert!(b.claim(&thread).await.is_none());
    b.finished(&thread, vec![]).await;
    assert!(b.claim(&thread).await.is_none());
    b.queue(&thread, IfBusy::Reject).await;
    assert!(b.store.claim(&worker(), Some(&thread), 0).await.expect("claim none").is_empty());
    assert!(b.claim(&thread).await.is_some());
}

pub(super) async fn claims_reach_over_all_threads<S: Store>(b: Bench<S>) {
    let mut wanted = Vec::new();
    for _ in 0..3 {
        wanted.push(b.queue(&b.key(), IfBusy::Reject).await.run);
    }
    wanted.push(b.start_and_lose(&b.key()).await.run.run);
    let mut found = Vec::new();
    loop {
        let claimed = b.store.claim(&worker(), None, 2).await.expect("claim");
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
