//! Reading back: states, logs, lists.

use serde_json::json;

use super::fixture::*;
use crate::id::{RunId, ThreadId, ThreadKey};
use crate::store::*;

pub(super) async fn what_is_not_there_is_not_found<S: Store>(b: StoreFixture<S>) {
    let (thread, none) = (b.new_thread_key(), b.new_thread_key());
    b.start_and_finish(&thread, vec![]).await;
    refused!(b.store.load(&none, None).await, StoreError::NotFound { .. });
    refused!(b.store.load(&none, Some(0)).await, StoreError::NotFound { .. });
    refused!(b.store.load(&thread, Some(2)).await, StoreError::NotFound { .. });
    refused!(b.store.load(&thread, Some(i64::MAX as u64)).await, StoreError::NotFound { .. });
    refused!(b.store.entries(&none, 0, 10).await, StoreError::NotFound { .. });
    refused!(b.store.thread(&none).await, StoreError::NotFound { .. });
    refused!(b.store.run(&thread.run(RunId::random())).await, StoreError::NotFound { .. });
}

pub(super) async fn an_empty_thread_loads_empty<S: Store>(b: StoreFixture<S>) {
    let (empty, thread) = (b.new_thread_key(), b.new_thread_key());
    b.store.put_thread(&empty, &metadata_from_json(json!({}))).await.expect("put");
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    assert_eq!(b.log_entries(&empty).await, []);
    for (key, at, head) in [(&empty, None, 0), (&empty, Some(0), 0), (&thread, Some(0), 2)] {
        let loaded = b.store.load(key, at).await.expect("load");
        assert_eq!((loaded.head, loaded.snapshot, loaded.entries), (head, None, vec![]));
    }
}

pub(super) async fn the_newest_state_is_loaded<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.write_steps(&run, &["a", "b"]).await;
    let loaded = b.store.load(&thread, None).await.expect("load");
    assert_eq!((loaded.head, loaded.snapshot, loaded.entries), (3, None, b.log_entries(&thread).await));
}

pub(super) async fn an_older_state_is_loaded<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a"), step_entry("b")]).await;
    assert_eq!(b.loaded_text(&thread, Some(2)).await, "- | in a");
    assert_eq!(b.store.load(&thread, Some(2)).await.expect("load").head, 3, "the head is the thread's");
    assert_eq!(b.loaded_text(&thread, Some(1)).await, "- | in");
}

/// 1 in, 2 a with snapshot A, 3 b, 4 c, 5 d with snapshot D, 6 e.
async fn thread_with_two_snapshots<S: Store>(b: &StoreFixture<S>) -> ThreadKey {
    let thread = b.new_thread_key();
    let later = |body, base| new_entry(EntryKind::Step, body, base);
    let entries = vec![
        step_with_snapshot("a", 0, "A"),
        later("b", 2),
        later("c", 2),
        step_with_snapshot("d", 2, "D"),
        later("e", 5),
    ];
    b.start_and_finish(&thread, entries).await;
    thread
}

pub(super) async fn the_nearest_snapshot_is_the_seed<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    assert_eq!(b.loaded_text(&thread, None).await, "5=D | e");
    assert_eq!(b.loaded_text(&thread, Some(3)).await, "2=A | b");
    assert_eq!(b.loaded_text(&thread, Some(1)).await, "- | in");
}

pub(super) async fn entries_after_a_snapshot_come_oldest_first<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    assert_eq!(b.loaded_text(&thread, Some(4)).await, "2=A | b c");
}

pub(super) async fn a_snapshot_holds_its_own_entry<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    assert_eq!(b.loaded_text(&thread, Some(5)).await, "5=D | ");
    assert_eq!(b.loaded_text(&thread, Some(2)).await, "2=A | ");
}

pub(super) async fn without_a_snapshot_the_way_goes_to_the_root<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    b.append_edits(&thread, vec![new_entry(EntryKind::Edited, "e", 0)]).await;
    b.start_and_finish(&thread, vec![step_entry("b")]).await;
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a e in b");
}

pub(super) async fn a_branch_left_by_a_rewind_is_not_loaded<S: Store>(b: StoreFixture<S>) {
    let thread = thread_with_two_snapshots(&b).await;
    // 7 follows 3, from the first snapshot; 8 goes on; 9 returns to the old branch.
    b.append_edits(
        &thread,
        vec![step_on_branch("x", 3, 2), new_entry(EntryKind::Step, "y", 2), step_on_branch("z", 6, 5)],
    )
    .await;
    assert_eq!(b.loaded_text(&thread, Some(8)).await, "2=A | b x y");
    assert_eq!(b.loaded_text(&thread, None).await, "5=D | e z");
    assert_eq!(b.loaded_text(&thread, Some(4)).await, "2=A | b c");
    // A snapshot on the new branch is the seed of what follows it, and of nothing else.
    b.append_edits(&thread, vec![NewEntry { snapshot: Some(b"W".to_vec()), ..step_on_branch("w", 8, 2) }])
        .await;
    b.append_edits(&thread, vec![new_entry(EntryKind::Step, "v", 10)]).await;
    assert_eq!(b.loaded_text(&thread, None).await, "10=W | v");
    assert_eq!(b.loaded_text(&thread, Some(9)).await, "5=D | e z");
}

pub(super) async fn entries_come_oldest_first<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    b.start_and_finish(&thread, vec![step_entry("b"), step_entry("c")]).await;
    assert_eq!(b.log_text(&thread).await, "in a in b c");
    let log = b.log_entries(&thread).await;
    assert!(log.is_sorted_by_key(|entry| entry.seq) && log.is_sorted_by_key(|entry| entry.at));
}

pub(super) async fn entries_come_in_pages<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a"), step_entry("b"), step_entry("c")]).await;
    let page =
        async |after, limit| bodies_text(&b.store.entries(&thread, after, limit).await.expect("entries"));
    assert_eq!(page(0, 2).await, "in a");
    assert_eq!(page(2, 2).await, "b c");
    assert_eq!(page(1, 1).await, "a");
    assert_eq!(page(4, 2).await, "");
    assert_eq!(page(99, 2).await, "");
    assert_eq!(page(0, 0).await, "");
}

pub(super) async fn threads_do_not_mix<S: Store>(b: StoreFixture<S>) {
    let (one, two) = (b.new_thread_key(), b.new_thread_key());
    b.start_and_finish(&one, vec![step_with_snapshot("a", 0, "A")]).await;
    b.start_and_finish(&two, vec![step_entry("b"), step_entry("c")]).await;
    assert_eq!((b.log_text(&one).await, b.log_text(&two).await), ("in a".into(), "in b c".into()));
    assert_eq!(b.loaded_text(&two, None).await, "- | in b c");
    assert_eq!((b.head(&one).await, b.head(&two).await), (2, 3));
}

async fn listed_run_ids<S: Store>(b: &StoreFixture<S>, filter: RunFilter) -> Vec<RunId> {
    let rows = b.store.runs(&b.tenant, &filter).await.expect("runs");
    for row in &rows {
        assert_eq!(*row, b.store.run(&row.key()).await.expect("run"), "a list shows what one run shows");
    }
    rows.iter().map(|row| row.run).collect()
}

pub(super) async fn runs_are_listed_newest_first<S: Store>(b: StoreFixture<S>) {
    let (one, two) = (b.new_thread_key(), b.new_thread_key());
    let first = b.start_and_finish(&one, vec![]).await.run;
    let second = b.start_and_finish(&two, vec![]).await.run;
    let third = b.start_and_finish(&one, vec![]).await.run;
    assert_eq!(listed_run_ids(&b, RunFilter::default()).await, [third, second, first]);
}

pub(super) async fn runs_are_paged<S: Store>(b: StoreFixture<S>) {
    let mut made = Vec::new();
    for _ in 0..5 {
        made.insert(0, b.submit_queued(&b.new_thread_key(), IfBusy::Reject).await.run);
    }
    let page =
        async |before, limit| listed_run_ids(&b, RunFilter { before, limit, ..RunFilter::default() }).await;
    assert_eq!(page(None, 2).await, made[..2]);
    assert_eq!(page(Some(made[1]), 2).await, made[2..4]);
    assert_eq!(page(Some(made[3]), 2).await, made[4..]);
    assert_eq!(page(Some(made[4]), 2).await, []);
    assert_eq!(page(None, 0).await, []);
}

pub(super) async fn runs_are_filtered<S: Store>(b: StoreFixture<S>) {
    let (one, two) = (b.new_thread_key(), b.new_thread_key());
    let done = b.start_and_finish(&one, vec![]).await.run;
    let failed = b.start_and_fail(&one).await.run.run;
    let paused = b.start_and_pause(&two, &["q"]).await.run.run;
    let queued = b.submit_queued(&two, IfBusy::Enqueue).await.run;
    let find = async |thread: Option<&ThreadKey>, status| {
        let thread = thread.map(|key| key.thread.clone());
        listed_run_ids(&b, RunFilter { thread, status, ..RunFilter::default() }).await
    };
    assert_eq!(find(Some(&one), None).await, [failed, done]);
    assert_eq!(find(Some(&two), None).await, [queued, paused]);
    assert_eq!(find(None, Some(RunStatus::Queued)).await, [queued]);
    assert_eq!(find(None, Some(RunStatus::Running)).await, []);
    assert_eq!(find(Some(&one), Some(RunStatus::Failed)).await, [failed]);
    assert_eq!(find(Some(&one), Some(RunStatus::Paused)).await, []);
    assert_eq!(find(Some(&b.new_thread_key()), None).await, []);
    let last = RunFilter { thread: Some(one.thread.clone()), before: Some(failed), ..RunFilter::default() };
    assert_eq!(listed_run_ids(&b, last).await, [done]);
}

async fn listed_thread_ids<S: Store>(b: &StoreFixture<S>, filter: ThreadFilter) -> Vec<ThreadId> {
    let rows = b.store.threads(&b.tenant, &filter).await.expect("threads");
    for row in &rows {
        assert_eq!(*row, b.thread_row(&row.key).await, "a list shows what one thread shows");
    }
    rows.into_iter().map(|row| row.key.thread).collect()
}

pub(super) async fn threads_are_listed_last_changed_first<S: Store>(b: StoreFixture<S>) {
    let keys = [b.new_thread_key(), b.new_thread_key(), b.new_thread_key(), b.new_thread_key()];
    let [put, edited, ran, signalled] = keys.clone();
    let run = b.start_and_pause(&signalled, &["q"]).await;
    let live = b.start(&ran).await;
    for key in [&edited, &put] {
        b.store.put_thread(key, &metadata_with_key("made")).await.expect("put");
    }
    // Every kind of change brings its thread to the front.
    let first = async || {
        let all = listed_thread_ids(&b, ThreadFilter::default()).await;
        assert_eq!(all.len(), 4);
        all[0].clone()
    };
    sleep_millis(4).await;
    b.append_edits(&edited, vec![step_entry("e")]).await;
    assert_eq!(first().await, edited.thread);
    sleep_millis(4).await;
    b.commit(&live, status_commit(RunStatus::Paused)).await;
    assert_eq!(first().await, ran.thread);
    sleep_millis(4).await;
    b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await.expect("answer");
    assert_eq!(first().await, signalled.thread);
    sleep_millis(4).await;
    let row = b.store.put_thread(&put, &metadata_with_key("again")).await.expect("put");
    assert!(row.updated_at > row.created_at);
    let order: Vec<ThreadId> = [put, signalled, ran, edited].into_iter().map(|key| key.thread).collect();
    assert_eq!(listed_thread_ids(&b, ThreadFilter::default()).await, order);
}

pub(super) async fn threads_are_paged<S: Store>(b: StoreFixture<S>) {
    let mut made = Vec::new();
    for _ in 0..5 {
        let key = b.new_thread_key();
        b.store.put_thread(&key, &metadata_with_key("k")).await.expect("put");
        made.insert(0, key.thread);
        sleep_millis(3).await;
    }
    let page = async |offset, limit| {
        let all = listed_thread_ids(&b, ThreadFilter { offset, limit, ..ThreadFilter::default() }).await;
        let metadata = metadata_with_key("k");
        let found = listed_thread_ids(&b, ThreadFilter { offset, limit, metadata, after: None }).await;
        assert_eq!(all, found);
        all
    };
    assert_eq!(page(0, 2).await, made[..2]);
    assert_eq!(page(2, 2).await, made[2..4]);
    assert_eq!(page(4, 2).await, made[4..]);
    assert_eq!(page(5, 2).await, []);
    assert_eq!(page(0, 0).await, []);
}

/// Pages that begin after the last thread of the one before give each thread once, those of one millisecond too.
pub(super) async fn threads_are_paged_by_position<S: Store>(b: StoreFixture<S>) {
    let mut made = Vec::new();
    for n in 0..25 {
        let key = b.new_thread_key();
        b.store.put_thread(&key, &metadata_with_key("k")).await.expect("put");
        made.push(key.thread);
        if n % 10 == 0 {
            sleep_millis(3).await;
        }
    }
    made.sort();
    for metadata in [metadata_from_json(json!({})), metadata_with_key("k")] {
        let whole = ThreadFilter { metadata: metadata.clone(), limit: 100, ..ThreadFilter::default() };
        let whole = listed_thread_ids(&b, whole).await;
        let mut filter = ThreadFilter { metadata, limit: 4, ..ThreadFilter::default() };
        let mut paged = Vec::new();
        loop {
            let page = b.store.threads(&b.tenant, &filter).await.expect("threads");
            let Some(last) = page.last() else { break };
            filter.after = Some(ThreadListPosition::from(last));
            paged.extend(page.into_iter().map(|row| row.key.thread));
        }
        assert_eq!(paged, whole);
        paged.sort();
        assert_eq!(paged, made);
        filter.offset = 1;
        assert_eq!(listed_thread_ids(&b, filter).await, []);
    }
}

pub(super) async fn threads_are_found_by_metadata<S: Store>(b: StoreFixture<S>) {
    let rows = [
        json!({ "user": "둘리", "n": 1 }),
        json!({ "user": "둘리", "n": 2, "deep": { "a": [1, { "b": null }] } }),
        json!({ "user": "희동", "n": "1", "yes": true }),
        json!({ "long": "가".repeat(500) + "a", "yes": false }),
        json!({ "long": "가".repeat(500) + "b", "yes": "true" }),
    ];
    let mut keys = Vec::new();
    for metadata in rows {
        let key = b.new_thread_key();
        b.store.put_thread(&key, &metadata_from_json(metadata)).await.expect("put");
        keys.push(key.thread);
    }
    let check = async |metadata, expected: &[usize]| {
        let mut found = listed_thread_ids(
            &b,
            ThreadFilter { metadata: metadata_from_json(metadata), ..ThreadFilter::default() },
        )
        .await;
        let mut expected: Vec<ThreadId> = expected.iter().map(|place| keys[*place].clone()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    };
    check(json!({}), &[0, 1, 2, 3, 4]).await;
    check(json!({ "user": "둘리" }), &[0, 1]).await;
    check(json!({ "user": "둘리", "n": 2 }), &[1]).await;
    check(json!({ "n": 1 }), &[0]).await;
    check(json!({ "n": "1" }), &[2]).await;
    check(json!({ "yes": true }), &[2]).await;
    check(json!({ "yes": "true" }), &[4]).await;
    check(json!({ "long": "가".repeat(500) + "a" }), &[3]).await;
    check(json!({ "deep": { "a": [1, { "b": null }] } }), &[1]).await;
    // The whole value counts, not a part of it.
    check(json!({ "deep": {} }), &[]).await;
    check(json!({ "deep": { "a": [1] } }), &[]).await;
    check(json!({ "user": "둘" }), &[]).await;
    check(json!({ "user": "%" }), &[]).await;
    check(json!({ "none": null }), &[]).await;
    check(json!({ "user": "둘리", "none": 1 }), &[]).await;
    // What changes is found by what it is now.
    let key = ThreadKey { tenant: b.tenant.clone(), thread: keys[0].clone() };
    let change = json!({ "user": "희동", "n": null });
    b.store.put_thread(&key, &metadata_from_json(change)).await.expect("put");
    check(json!({ "user": "둘리" }), &[1]).await;
    check(json!({ "user": "희동" }), &[0, 2]).await;
    check(json!({ "n": 1 }), &[]).await;
    assert!(b.store.delete_thread(&key).await.expect("delete"));
    check(json!({ "user": "희동" }), &[2]).await;
}

pub(super) async fn a_list_may_be_empty<S: Store>(b: StoreFixture<S>) {
    assert_eq!(listed_run_ids(&b, RunFilter::default()).await, []);
    assert_eq!(listed_thread_ids(&b, ThreadFilter::default()).await, []);
}
