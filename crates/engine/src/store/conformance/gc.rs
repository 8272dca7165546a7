//! Clearing old things. `gc` reaches over all tenants, so counts are checked from below only.

use std::time::Duration;

use serde_json::Map;

use super::bench::*;
use crate::id::ThreadKey;
use crate::store::*;

/// Long enough for a slow disk to make something young in.
const AGE: Duration = Duration::from_millis(250);

fn idle() -> Retention {
    Retention { idle_threads: Some(AGE), ..Retention::default() }
}

fn old_entries() -> Retention {
    Retention { old_entries: Some(AGE), ..Retention::default() }
}

async fn grow_old() {
    pause(280).await;
}

pub(super) async fn idle_threads_go<S: Store>(b: Bench<S>) {
    let (old, young) = (b.key(), b.key());
    let run = b.finished(&old, vec![snap("a", 0, "A")]).await;
    grow_old().await;
    b.finished(&young, vec![]).await;
    let cleared = b.store.gc(&idle()).await.expect("gc");
    assert!(cleared.threads >= 1);
    refused!(b.store.thread(&old).await, StoreError::NotFound { .. });
    refused!(b.store.run(&run.key()).await, StoreError::NotFound { .. });
    assert_eq!(b.bodies(&young).await, "in");
}

/// More than any store clears at a time.
pub(super) async fn a_crowd_goes_whole<S: Store>(b: Bench<S>) {
    let crowd: Vec<ThreadKey> = (0..300).map(|_| b.key()).collect();
    for thread in &crowd {
        b.store.put_thread(thread, &Map::new()).await.expect("put");
    }
    let old = [long_thread(&b).await, long_thread(&b).await];
    grow_old().await;
    b.store.gc(&old_entries()).await.expect("gc");
    for thread in &old {
        assert_eq!(b.bodies(thread).await, "c d");
    }
    let cleared = b.store.gc(&idle()).await.expect("gc");
    assert!(cleared.threads >= 302);
    for thread in crowd.iter().chain(&old) {
        refused!(b.store.thread(thread).await, StoreError::NotFound { .. });
    }
}

pub(super) async fn busy_threads_are_spared<S: Store>(b: Bench<S>) {
    let entries = || vec![snap("a", 0, "A"), snap("b", 2, "B")];
    let (running, paused, queued) = (b.key(), b.key(), b.key());
    for thread in [&running, &paused, &queued] {
        b.finished(thread, entries()).await;
    }
    let live = b.start(&running).await;
    b.paused(&paused, &["q"]).await;
    b.queue(&queued, IfBusy::Enqueue).await;
    let mut before = Vec::new();
    for thread in [&running, &paused, &queued] {
        before.push(b.all(thread).await);
    }
    grow_old().await;
    let all = Retention { old_entries: Some(AGE), ..idle() };
    b.store.gc(&all).await.expect("gc");
    for (thread, before) in [&running, &paused, &queued].into_iter().zip(before) {
        assert_eq!(b.all(thread).await, before);
    }
    b.write(&live, &["c"]).await;
    let newest = RunFilter { thread: Some(paused.thread.clone()), limit: 1, ..RunFilter::default() };
    let run = b.store.runs(&b.tenant, &newest).await.expect("runs").remove(0);
    b.store.signal(&run.key(), answer(&[("q", "a")])).await.expect("the question is still open");
    assert!(b.claim(&queued).await.is_some());
}

/// 1 in, 2 a with snapshot A, 3 b, 4 c with snapshot C, 5 d.
async fn long_thread<S: Store>(b: &Bench<S>) -> ThreadKey {
    let thread = b.key();
    let later = |body, base| entry(EntryKind::Step, body, base);
    b.finished(&thread, vec![snap("a", 0, "A"), later("b", 2), snap("c", 2, "C"), later("d", 4)]).await;
    thread
}

pub(super) async fn old_entries_go_and_the_newest_state_stays<S: Store>(b: Bench<S>) {
    let (thread, other) = (long_thread(&b).await, long_thread(&b).await);
    grow_old().await;
    let row = b.thread(&thread).await;
    let cleared = b.store.gc(&old_entries()).await.expect("gc");
    assert!(cleared.entries >= 6);
    assert_eq!(cleared.threads, 0);
    for thread in [&thread, &other] {
        assert_eq!(b.bodies(thread).await, "c d");
        assert_eq!(b.loaded(thread, None).await, "4=C | d");
        assert_eq!(b.loaded(thread, Some(4)).await, "4=C | ");
        for gone in 1..=3 {
            refused!(b.store.load(thread, Some(gone)).await, StoreError::NotFound { .. });
        }
    }
    assert_eq!(b.thread(&thread).await, row, "clearing is no change of the thread");
    let parent = NewRunEntry { parent: Some(2), ..b.new_run(&thread).first };
    refused!(
        b.store.submit(NewRun { first: parent, ..b.new_run(&thread) }).await,
        StoreError::NotFound { .. }
    );
    let run = b.start(&thread).await;
    assert_eq!((run.head, run.run.parent_seq), (6, Some(5)));
    assert_eq!(b.loaded(&thread, None).await, "4=C | d in");
    let again = b.store.gc(&old_entries()).await.expect("gc");
    assert_eq!(b.bodies(&thread).await, "c d in", "{again:?}");
}

pub(super) async fn a_branch_left_goes_with_old_entries<S: Store>(b: Bench<S>) {
    let thread = long_thread(&b).await;
    // The newest branch starts from the first snapshot, so the second one is not what it needs.
    b.edit(&thread, vec![branch("x", 3, 2)]).await;
    grow_old().await;
    b.store.gc(&old_entries()).await.expect("gc");
    assert_eq!(b.bodies(&thread).await, "a b c d x");
    assert_eq!(b.loaded(&thread, None).await, "2=A | b x");
    // It gets a snapshot of its own, and now nothing before that is needed.
    b.edit(&thread, vec![snap("y", 2, "Y")]).await;
    grow_old().await;
    b.store.gc(&old_entries()).await.expect("gc");
    assert_eq!(b.bodies(&thread).await, "y");
    assert_eq!(b.loaded(&thread, None).await, "7=Y | ");
    b.edit(&thread, vec![entry(EntryKind::Step, "z", 7)]).await;
    assert_eq!(b.loaded(&thread, None).await, "7=Y | z");
}

pub(super) async fn a_young_entry_keeps_what_it_is_rebuilt_from<S: Store>(b: Bench<S>) {
    let thread = long_thread(&b).await;
    grow_old().await;
    // 6 e follows the snapshot C and is young when the snapshot F of 7 makes it old news.
    b.edit(&thread, vec![entry(EntryKind::Step, "e", 4), snap("f", 4, "F")]).await;
    b.store.gc(&old_entries()).await.expect("gc");
    assert_eq!(b.bodies(&thread).await, "c d e f");
    assert_eq!(b.loaded(&thread, Some(6)).await, "4=C | d e");
    assert_eq!(b.loaded(&thread, None).await, "7=F | ");
    grow_old().await;
    b.store.gc(&old_entries()).await.expect("gc");
    assert_eq!(b.bodies(&thread).await, "f");
}

pub(super) async fn without_a_snapshot_all_entries_stay<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a"), step("b")]).await;
    grow_old().await;
    b.store.gc(&old_entries()).await.expect("gc");
    assert_eq!(b.bodies(&thread).await, "in a b");
    assert_eq!(b.loaded(&thread, None).await, "- | in a b");
}

pub(super) async fn young_things_stay<S: Store>(b: Bench<S>) {
    let thread = long_thread(&b).await;
    b.store.keep(&b.tenant, "k", b"v", None).await.expect("keep");
    let before = b.all(&thread).await;
    let hour = Duration::from_secs(3600);
    let long = Retention { idle_threads: Some(hour), old_entries: Some(hour), idempotency: hour };
    b.store.gc(&long).await.expect("gc");
    b.store.gc(&Retention::default()).await.expect("gc");
    assert_eq!(b.all(&thread).await, before);
    assert!(b.store.cached(&b.tenant, "k").await.expect("cached").is_some());
}

pub(super) async fn old_keys_are_forgotten<S: Store>(b: Bench<S>) {
    let keyed = |key: &str| {
        let idempotency = Some(Idempotency { key: key.into(), hash: "h".into() });
        NewRun { idempotency, ..b.new_run(&b.key()) }
    };
    let old = started(b.store.submit(keyed("old")).await);
    grow_old().await;
    let young = started(b.store.submit(keyed("young")).await);
    let cleared = b.store.gc(&Retention { idempotency: AGE, ..Retention::default() }).await.expect("gc");
    assert!(cleared.keys >= 1);
    assert_eq!(repeated(b.store.submit(keyed("young")).await).run, young.run.run);
    let again = started(b.store.submit(keyed("old")).await);
    assert_ne!(again.run.run, old.run.run);
    assert_eq!(b.row(&old).await.status, Status::Running, "the run itself stays");
    // The key names the second run now, and the end of the first does not take it away.
    b.store.delete_thread(&old.run.thread).await.expect("delete");
    assert_eq!(repeated(b.store.submit(keyed("old")).await).run, again.run.run);
}

pub(super) async fn dead_cache_values_go<S: Store>(b: Bench<S>) {
    b.store.keep(&b.tenant, "dead", b"v", Some(Duration::from_millis(1))).await.expect("keep");
    b.store.keep(&b.tenant, "live", b"v", Some(Duration::from_secs(60))).await.expect("keep");
    pause(15).await;
    let cleared = b.store.gc(&Retention::default()).await.expect("gc");
    assert!(cleared.cached >= 1);
    assert!(b.store.cached(&b.tenant, "live").await.expect("cached").is_some());
    assert!(b.store.cached(&b.tenant, "dead").await.expect("cached").is_none());
}
