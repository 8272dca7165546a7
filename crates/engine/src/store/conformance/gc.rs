//! Clearing old things. `gc` reaches over all tenants, so counts are checked from below only.

use std::time::{Duration, Instant};

use serde_json::Map;

use super::fixture::*;
use crate::id::ThreadKey;
use crate::store::*;

/// What is older is cleared, where nothing young has to stay.
const RETENTION_AGE: Duration = Duration::from_millis(20);

fn idle_threads_retention() -> Retention {
    Retention { idle_threads: Some(RETENTION_AGE), ..Retention::default() }
}

fn old_entries_retention() -> Retention {
    Retention { old_entries: Some(RETENTION_AGE), ..Retention::default() }
}

async fn wait_for_retention_age() {
    wait_for_age(RETENTION_AGE).await;
}

async fn wait_for_age(age: Duration) {
    tokio::time::sleep(age + Duration::from_millis(30)).await;
}

/// Ages to try a case with where something young has to stay. Each try tells whether it was quick enough for that: what
/// was young had not become old when it was cleared.
const RETENTION_AGES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

const TOO_SLOW: &str = "the store is too slow to tell young things from old ones";

pub(super) async fn idle_threads_go<S: Store>(b: StoreFixture<S>) {
    for age in RETENTION_AGES {
        if idle_threads_of_age_go(&b, age).await {
            return;
        }
    }
    panic!("{TOO_SLOW}");
}

async fn idle_threads_of_age_go<S: Store>(b: &StoreFixture<S>, age: Duration) -> bool {
    let (old, young) = (b.new_thread_key(), b.new_thread_key());
    let run = b.start_and_finish(&old, vec![step_with_snapshot("a", 0, "A")]).await;
    wait_for_age(age).await;
    let made = Instant::now();
    b.start_and_finish(&young, vec![]).await;
    let retention = Retention { idle_threads: Some(age), ..Retention::default() };
    let cleared = b.store.gc(&retention).await.expect("gc");
    if made.elapsed() >= age {
        return false;
    }
    assert!(cleared.threads >= 1);
    refused!(b.store.thread(&old).await, StoreError::NotFound { .. });
    refused!(b.store.run(&run.key()).await, StoreError::NotFound { .. });
    assert_eq!(b.log_text(&young).await, "in");
    true
}

/// More than any store clears at a time.
pub(super) async fn a_crowd_goes_whole<S: Store>(b: StoreFixture<S>) {
    let crowd: Vec<ThreadKey> = (0..300).map(|_| b.new_thread_key()).collect();
    for thread in &crowd {
        b.store.put_thread(thread, &Map::new()).await.expect("put");
    }
    let old = [thread_with_two_snapshots(&b).await, thread_with_two_snapshots(&b).await];
    wait_for_retention_age().await;
    b.store.gc(&old_entries_retention()).await.expect("gc");
    for thread in &old {
        assert_eq!(b.log_text(thread).await, "c d");
    }
    let cleared = b.store.gc(&idle_threads_retention()).await.expect("gc");
    assert!(cleared.threads >= 302);
    for thread in crowd.iter().chain(&old) {
        refused!(b.store.thread(thread).await, StoreError::NotFound { .. });
    }
}

pub(super) async fn busy_threads_are_spared<S: Store>(b: StoreFixture<S>) {
    let entries = || vec![step_with_snapshot("a", 0, "A"), step_with_snapshot("b", 2, "B")];
    let (running, paused, queued) = (b.new_thread_key(), b.new_thread_key(), b.new_thread_key());
    for thread in [&running, &paused, &queued] {
        b.start_and_finish(thread, entries()).await;
    }
    let live = b.start(&running).await;
    b.start_and_pause(&paused, &["q"]).await;
    b.submit_queued(&queued, IfBusy::Enqueue).await;
    let mut before = Vec::new();
    for thread in [&running, &paused, &queued] {
        before.push(b.dump_thread(thread).await);
    }
    wait_for_retention_age().await;
    let all = Retention { old_entries: Some(RETENTION_AGE), ..idle_threads_retention() };
    b.store.gc(&all).await.expect("gc");
    for (thread, before) in [&running, &paused, &queued].into_iter().zip(before) {
        assert_eq!(b.dump_thread(thread).await, before);
    }
    b.write_steps(&live, &["c"]).await;
    let newest = RunFilter { thread: Some(paused.thread.clone()), limit: 1, ..RunFilter::default() };
    let run = b.store.runs(&b.tenant, &newest).await.expect("runs").remove(0);
    b.store.signal(&run.key(), answer_signal(&[("q", "a")])).await.expect("the question is still open");
    assert!(b.claim(&queued).await.is_some());
}

/// 1 in, 2 a with snapshot A, 3 b, 4 c with snapshot C, 5 d.
async fn thread_with_two_snapshots<S: Store>(b: &StoreFixture<S>) -> ThreadKey {
    let thread = b.new_thread_key();
    let later = |body, base| new_entry(EntryKind::Step, body, base);
    b.start_and_finish(
        &thread,
        vec![step_with_snapshot("a", 0, "A"), later("b", 2), step_with_snapshot("c", 2, "C"), later("d", 4)],
    )
    .await;
    thread
}

pub(super) async fn old_entries_go_and_the_newest_state_stays<S: Store>(b: StoreFixture<S>) {
    let (thread, other) = (thread_with_two_snapshots(&b).await, thread_with_two_snapshots(&b).await);
    wait_for_retention_age().await;
    let row = b.thread_row(&thread).await;
    let cleared = b.store.gc(&old_entries_retention()).await.expect("gc");
    assert!(cleared.entries >= 6);
    assert_eq!(cleared.threads, 0);
    for thread in [&thread, &other] {
        assert_eq!(b.log_text(thread).await, "c d");
        assert_eq!(b.loaded_text(thread, None).await, "4=C | d");
        assert_eq!(b.loaded_text(thread, Some(4)).await, "4=C | ");
        for gone in 1..=3 {
            refused!(b.store.load(thread, Some(gone)).await, StoreError::NotFound { .. });
        }
    }
    assert_eq!(b.thread_row(&thread).await, row, "clearing is no change of the thread");
    let parent = NewRunEntry { parent: Some(2), ..b.new_run(&thread).first };
    refused!(
        b.store.submit(NewRun { first: parent, ..b.new_run(&thread) }).await,
        StoreError::NotFound { .. }
    );
    let run = b.start(&thread).await;
    assert_eq!((run.head, run.run.parent_seq), (6, Some(5)));
    assert_eq!(b.loaded_text(&thread, None).await, "4=C | d in");
    let again = b.store.gc(&old_entries_retention()).await.expect("gc");
    assert_eq!(b.log_text(&thread).await, "c d in", "{again:?}");
}

pub(super) async fn a_branch_left_goes_with_old_entries<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    // The newest branch starts from the first snapshot, so the second one is not what it needs.
    b.append_edits(&thread, vec![step_on_branch("x", 3, 2)]).await;
    wait_for_retention_age().await;
    b.store.gc(&old_entries_retention()).await.expect("gc");
    assert_eq!(b.log_text(&thread).await, "a b c d x");
    assert_eq!(b.loaded_text(&thread, None).await, "2=A | b x");
    // It gets a snapshot of its own, and now nothing before that is needed.
    b.append_edits(&thread, vec![step_with_snapshot("y", 2, "Y")]).await;
    wait_for_retention_age().await;
    b.store.gc(&old_entries_retention()).await.expect("gc");
    assert_eq!(b.log_text(&thread).await, "y");
    assert_eq!(b.loaded_text(&thread, None).await, "7=Y | ");
    b.append_edits(&thread, vec![new_entry(EntryKind::Step, "z", 7)]).await;
    assert_eq!(b.loaded_text(&thread, None).await, "7=Y | z");
}

pub(super) async fn a_young_entry_keeps_what_it_is_rebuilt_from<S: Store>(b: StoreFixture<S>) {
    for age in RETENTION_AGES {
        if an_entry_younger_than_age_keeps_its_base(&b, age).await {
            return;
        }
    }
    panic!("{TOO_SLOW}");
}

async fn an_entry_younger_than_age_keeps_its_base<S: Store>(b: &StoreFixture<S>, age: Duration) -> bool {
    let thread = thread_with_two_snapshots(b).await;
    wait_for_age(age).await;
    let made = Instant::now();
    // 6 e follows the snapshot C and is young when the snapshot F of 7 makes it old news.
    b.append_edits(&thread, vec![new_entry(EntryKind::Step, "e", 4), step_with_snapshot("f", 4, "F")]).await;
    b.store.gc(&Retention { old_entries: Some(age), ..Retention::default() }).await.expect("gc");
    if made.elapsed() >= age {
        return false;
    }
    assert_eq!(b.log_text(&thread).await, "c d e f");
    assert_eq!(b.loaded_text(&thread, Some(6)).await, "4=C | d e");
    assert_eq!(b.loaded_text(&thread, None).await, "7=F | ");
    wait_for_retention_age().await;
    b.store.gc(&old_entries_retention()).await.expect("gc");
    assert_eq!(b.log_text(&thread).await, "f");
    true
}

pub(super) async fn nothing_follows_an_entry_that_cannot_be_rebuilt<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    // 6 x and 7 y are a branch from the first snapshot, 8 z one from the beginning; 9 w goes on after 5 d.
    let after =
        |parent, base, body| NewEntry { parent: Some(parent), ..new_entry(EntryKind::Step, body, base) };
    b.append_edits(&thread, vec![after(3, 2, "x"), new_entry(EntryKind::Step, "y", 2), after(0, 0, "z")])
        .await;
    b.append_edits(&thread, vec![after(5, 4, "w")]).await;
    wait_for_retention_age().await;
    b.store.gc(&old_entries_retention()).await.expect("gc");
    assert_eq!(b.log_text(&thread).await, "c d x y z w");
    let before = b.dump_thread(&thread).await;
    for gone in [3, 6, 7] {
        refused!(b.store.load(&thread, Some(gone)).await, StoreError::NotFound { .. });
        let first = NewRunEntry { parent: Some(gone), ..b.new_run(&thread).first };
        let run = NewRun { first, ..b.new_run(&thread) };
        refused!(b.store.submit(run).await, StoreError::NotFound { .. });
        refused!(b.store.append_entry(&thread, 9, after(gone, 2, "v")).await, StoreError::NotFound { .. });
        let copy = b.new_thread_key();
        let stands = Some(after(gone, 2, "v"));
        refused!(b.store.copy_thread(&thread, &copy.thread, stands).await, StoreError::NotFound { .. });
        refused!(b.store.thread(&copy).await, StoreError::NotFound { .. });
    }
    assert_eq!(b.dump_thread(&thread).await, before);
    assert_eq!(b.loaded_text(&thread, None).await, "4=C | d w");
    // What can be rebuilt can be followed, also the beginning and a branch from there.
    for (parent, base) in [(8, 0), (0, 0), (5, 4), (4, 4)] {
        let head = b.thread_row(&thread).await.head;
        b.store.append_entry(&thread, head, after(parent, base, "v")).await.expect("appended");
        b.store.load(&thread, None).await.expect("rebuilt");
    }
}

pub(super) async fn without_a_snapshot_all_entries_stay<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a"), step_entry("b")]).await;
    wait_for_retention_age().await;
    b.store.gc(&old_entries_retention()).await.expect("gc");
    assert_eq!(b.log_text(&thread).await, "in a b");
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a b");
}

pub(super) async fn young_things_stay<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    b.store.cache_value(&b.tenant, "k", b"v", None).await.expect("keep");
    let before = b.dump_thread(&thread).await;
    let hour = Duration::from_secs(3600);
    let long = Retention { idle_threads: Some(hour), old_entries: Some(hour), idempotency: hour };
    b.store.gc(&long).await.expect("gc");
    b.store.gc(&Retention::default()).await.expect("gc");
    assert_eq!(b.dump_thread(&thread).await, before);
    assert!(b.store.cached_value(&b.tenant, "k").await.expect("cached").is_some());
}

pub(super) async fn old_keys_are_forgotten<S: Store>(b: StoreFixture<S>) {
    for age in RETENTION_AGES {
        if keys_older_than_age_are_forgotten(&b, age).await {
            return;
        }
    }
    panic!("{TOO_SLOW}");
}

async fn keys_older_than_age_are_forgotten<S: Store>(b: &StoreFixture<S>, age: Duration) -> bool {
    let keyed = |key: &str| {
        let idempotency = Some(RunIdempotencyKey { key: format!("{key} {age:?}"), hash: "h".into() });
        NewRun { idempotency, ..b.new_run(&b.new_thread_key()) }
    };
    let old = expect_started(b.store.submit(keyed("old")).await);
    wait_for_age(age).await;
    let made = Instant::now();
    let young = expect_started(b.store.submit(keyed("young")).await);
    let cleared = b.store.gc(&Retention { idempotency: age, ..Retention::default() }).await.expect("gc");
    if made.elapsed() >= age {
        return false;
    }
    assert!(cleared.keys >= 1);
    assert_eq!(expect_repeated(b.store.submit(keyed("young")).await).run, young.run.run);
    let again = expect_started(b.store.submit(keyed("old")).await);
    assert_ne!(again.run.run, old.run.run);
    assert_eq!(b.run_row(&old).await.status, RunStatus::Running, "the run itself stays");
    // The key names the second run now, and the end of the first does not take it away.
    b.store.delete_thread(&old.run.thread).await.expect("delete");
    assert_eq!(expect_repeated(b.store.submit(keyed("old")).await).run, again.run.run);
    true
}

pub(super) async fn dead_cache_values_go<S: Store>(b: StoreFixture<S>) {
    b.store.cache_value(&b.tenant, "dead", b"v", Some(Duration::from_millis(1))).await.expect("keep");
    b.store.cache_value(&b.tenant, "live", b"v", Some(Duration::from_secs(60))).await.expect("keep");
    sleep_millis(15).await;
    let cleared = b.store.gc(&Retention::default()).await.expect("gc");
    assert!(cleared.cached >= 1);
    assert!(b.store.cached_value(&b.tenant, "live").await.expect("cached").is_some());
    assert!(b.store.cached_value(&b.tenant, "dead").await.expect("cached").is_none());
}
