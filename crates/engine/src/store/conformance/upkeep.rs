//! Threads made, edited, copied and deleted, and the cache of nodes.

use std::time::Duration;

use serde_json::json;

use super::fixture::*;
use crate::id::{ThreadId, ThreadKey};
use crate::store::*;

pub(super) async fn metadata_is_merged_key_by_key<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let made = b
        .store
        .put_thread(&thread, &metadata_from_json(json!({ "a": 1, "b": { "x": 1, "y": null }, "gone": null })))
        .await;
    let made = made.expect("put");
    assert_eq!((made.head, made.active, &made.key), (0, None, &thread));
    assert_eq!(made.metadata, metadata_from_json(json!({ "a": 1, "b": { "x": 1, "y": null } })));
    let merged = b
        .store
        .put_thread(&thread, &metadata_from_json(json!({ "a": null, "b": { "z": 2 }, "c": "새" })))
        .await
        .expect("put");
    assert_eq!(merged.metadata, metadata_from_json(json!({ "b": { "z": 2 }, "c": "새" })));
    assert_eq!(merged.created_at, made.created_at);
    assert_eq!(b.thread_row(&thread).await, merged);
    let kept = b.store.put_thread(&thread, &metadata_from_json(json!({}))).await.expect("put nothing");
    assert_eq!(kept.metadata, merged.metadata);
}

pub(super) async fn metadata_is_data<S: Store>(b: StoreFixture<S>) {
    let odd = [
        "",
        " ",
        "a.b",
        "a[0]",
        "$",
        "$.a",
        "\"",
        "'",
        "a\"b",
        "'; DROP TABLE threads; --",
        "\\",
        "%",
        "_",
        "?",
        "$1",
        "a,b",
        "{a}",
        "키",
        "🦖",
        "\n",
        "__proto__",
    ];
    for name in odd {
        let thread = b.new_thread_key();
        let value = json!({ name: name, "inside": { name: name } });
        b.store.put_thread(&thread, &metadata_from_json(value.clone())).await.expect("put");
        assert_eq!(b.thread_row(&thread).await.metadata, metadata_from_json(value.clone()), "{name:?}");
        let filter = ThreadFilter { metadata: metadata_from_json(value), ..ThreadFilter::default() };
        let found = b.store.threads(&b.tenant, &filter).await.expect("threads");
        assert!(found.len() == 1 && found[0].key == thread, "{name:?}: {found:?}");
        let emptied = b
            .store
            .put_thread(&thread, &metadata_from_json(json!({ name: null, "inside": null })))
            .await
            .expect("remove");
        assert!(emptied.metadata.is_empty(), "{name:?}");
        let run = expect_started(
            b.store
                .submit(NewRun {
                    metadata: metadata_with_key(name),
                    graph: name.into(),
                    ..b.new_run(&thread)
                })
                .await,
        );
        assert_eq!(
            (b.run_row(&run).await.metadata, b.run_row(&run).await.graph.as_str()),
            (metadata_with_key(name), name)
        );
        b.store.cache_value(&b.tenant, name, name.as_bytes(), None).await.expect("keep");
    }
    for name in odd {
        assert_eq!(
            b.store.cached_value(&b.tenant, name).await.expect("cached"),
            Some(name.as_bytes().to_vec()),
            "{name:?}"
        );
    }
    for name in odd.iter().filter_map(|name| ThreadId::new(name).ok()) {
        let thread = ThreadKey { tenant: b.tenant.clone(), thread: name };
        b.start_and_finish(&thread, vec![]).await;
        assert_eq!(b.thread_row(&thread).await.key, thread);
    }
}

pub(super) async fn metadata_with_nul_is_refused<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.store.put_thread(&thread, &metadata_with_key("k")).await.expect("put");
    let before = b.dump_thread(&thread).await;
    for bad in [
        json!({ "a\0": 1 }),
        json!({ "a": "\0" }),
        json!({ "a": [{ "b": "x\0y" }] }),
        json!({ "a": { "\0": 1 } }),
    ] {
        let metadata = metadata_from_json(bad);
        refused!(b.store.put_thread(&thread, &metadata).await, StoreError::Conflict(_));
        refused!(b.store.put_thread(&b.new_thread_key(), &metadata).await, StoreError::Conflict(_));
        let filter = ThreadFilter { metadata: metadata.clone(), ..ThreadFilter::default() };
        refused!(b.store.threads(&b.tenant, &filter).await, StoreError::Conflict(_));
        refused!(b.store.submit(NewRun { metadata, ..b.new_run(&thread) }).await, StoreError::Conflict(_));
    }
    assert_eq!(b.dump_thread(&thread).await, before);
    assert_eq!(b.store.threads(&b.tenant, &ThreadFilter::default()).await.expect("threads").len(), 1);
}

pub(super) async fn an_edit_is_appended<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_with_snapshot("a", 0, "A")]).await;
    let edit = NewEntry { snapshot: Some(b"E".to_vec()), ..new_entry(EntryKind::Edited, "e", 2) };
    assert_eq!(b.store.append_entry(&thread, 2, edit).await.expect("append"), 3);
    let log = b.log_entries(&thread).await;
    assert_eq!((log[2].kind, log[2].run, log[2].parent, log[2].base), (EntryKind::Edited, None, 2, 2));
    assert_eq!(b.loaded_text(&thread, None).await, "3=E | ");
    assert_eq!(b.thread_row(&thread).await.active, None);
    let empty = b.new_thread_key();
    refused!(b.store.append_entry(&empty, 0, step_entry("x")).await, StoreError::NotFound { .. });
    b.store.put_thread(&empty, &metadata_with_key("k")).await.expect("put");
    assert_eq!(b.store.append_entry(&empty, 0, step_entry("x")).await.expect("append"), 1);
    assert_eq!(b.log_entries(&empty).await[0].parent, 0);
}

pub(super) async fn an_edit_may_start_a_branch<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a"), step_entry("b")]).await;
    b.store.append_entry(&thread, 3, step_on_branch("e", 2, 0)).await.expect("append");
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a e");
    b.start_and_finish(&thread, vec![]).await;
    assert_eq!(b.loaded_text(&thread, None).await, "- | in a e in");
}

pub(super) async fn an_edit_needs_a_free_thread<S: Store>(b: StoreFixture<S>) {
    let (running, paused) = (b.new_thread_key(), b.new_thread_key());
    let runs = [b.start(&running).await, b.start_and_pause(&paused, &["q"]).await];
    for run in runs {
        let thread = &run.run.thread;
        let before = b.dump_thread(thread).await;
        match b.store.append_entry(thread, b.head(thread).await, step_entry("x")).await {
            Err(StoreError::Busy { thread: named, run: active }) => {
                assert_eq!((named, active), (thread.thread.clone(), run.run.run));
            }
            other => panic!("should be busy, not {other:?}"),
        }
        assert_eq!(b.dump_thread(thread).await, before);
    }
}

pub(super) async fn an_edit_needs_the_newest_entry<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_finish(&thread, vec![step_entry("a")]).await;
    let before = b.dump_thread(&thread).await;
    for expect in [0, 1, 3] {
        refused!(b.store.append_entry(&thread, expect, step_entry("x")).await, StoreError::Conflict(_));
    }
    assert_eq!(b.dump_thread(&thread).await, before);
}

/// A thread with a snapshot, a branch and a live run, and a copy of it.
async fn thread_with_copy<S: Store>(b: &StoreFixture<S>) -> (ThreadKey, ClaimedRun, ThreadKey) {
    let (thread, copy) = (b.new_thread_key(), b.new_thread_key());
    b.start_and_finish(&thread, vec![step_with_snapshot("a", 0, "A"), new_entry(EntryKind::Step, "b", 2)])
        .await;
    b.append_edits(&thread, vec![step_on_branch("e", 2, 2)]).await;
    b.store.put_thread(&thread, &metadata_with_key("k")).await.expect("put");
    let live = b.start(&thread).await;
    let row = b.store.copy_thread(&thread, &copy.thread, None).await.expect("copy");
    assert_eq!(row, b.thread_row(&copy).await);
    (thread, live, copy)
}

pub(super) async fn a_copy_has_the_whole_log<S: Store>(b: StoreFixture<S>) {
    let (thread, _, copy) = thread_with_copy(&b).await;
    assert_eq!(b.log_entries(&copy).await, b.log_entries(&thread).await);
    for at in 1..=5 {
        assert_eq!(b.loaded_text(&copy, Some(at)).await, b.loaded_text(&thread, Some(at)).await, "at {at}");
    }
    let row = b.thread_row(&copy).await;
    assert_eq!((row.head, row.active), (5, None));
    let filter = RunFilter { thread: Some(copy.thread.clone()), ..RunFilter::default() };
    assert_eq!(b.store.runs(&b.tenant, &filter).await.expect("runs"), [], "runs stay with the source");
}

pub(super) async fn a_copy_has_the_metadata<S: Store>(b: StoreFixture<S>) {
    let (_, _, copy) = thread_with_copy(&b).await;
    assert_eq!(b.thread_row(&copy).await.metadata, metadata_with_key("k"));
}

/// A thread whose log no store copies or deletes in one piece, with a snapshot and a branch in it.
async fn thread_with_long_log<S: Store>(b: &StoreFixture<S>) -> ThreadKey {
    let thread = b.new_thread_key();
    let large = "x".repeat(1 << 19);
    let mut entries: Vec<NewEntry> = (0..24).map(|_| step_entry(&large)).collect();
    entries.push(step_with_snapshot("s", 0, "S"));
    entries.extend((0..7000).map(|number| new_entry(EntryKind::Step, &number.to_string(), 26)));
    entries.push(step_on_branch("b", 30, 26));
    b.start_and_finish(&thread, entries).await;
    thread
}

pub(super) async fn a_long_log_is_copied_whole<S: Store>(b: StoreFixture<S>) {
    let (thread, copy) = (thread_with_long_log(&b).await, b.new_thread_key());
    let live = b.start(&thread).await;
    let stands = step_on_branch("here", 1000, 26);
    let row = b.store.copy_thread(&thread, &copy.thread, Some(stands)).await.expect("copy");
    let source = b.log_entries(&thread).await;
    assert_eq!((row.head, source.len()), (7029, 7028));
    assert_eq!(b.log_entries(&copy).await[..7028], source);
    for at in [1, 25, 26, 30, 7026, 7027] {
        assert_eq!(b.loaded_text(&copy, Some(at)).await, b.loaded_text(&thread, Some(at)).await, "at {at}");
    }
    assert!(b.loaded_text(&copy, None).await.ends_with(" 973 here"));
    b.finish(&live).await;
    b.start_and_finish(&copy, vec![]).await;
}

pub(super) async fn a_long_log_is_deleted_whole<S: Store>(b: StoreFixture<S>) {
    let (thread, other) = (thread_with_long_log(&b).await, b.new_thread_key());
    b.start_and_finish(&other, vec![step_with_snapshot("a", 0, "A")]).await;
    let before = b.dump_thread(&other).await;
    let live = b.start(&thread).await;
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    refused!(b.store.commit(&live.fence(), steps_commit(&["x"])).await, StoreError::Fenced);
    refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
    refused!(b.store.run(&live.run.key()).await, StoreError::NotFound { .. });
    b.start_and_finish(&thread, vec![step_entry("new")]).await;
    assert_eq!(b.log_text(&thread).await, "in new");
    assert_eq!(b.loaded_text(&thread, None).await, "- | in new");
    assert_eq!(b.dump_thread(&other).await, before);
}

pub(super) async fn a_copy_goes_its_own_way<S: Store>(b: StoreFixture<S>) {
    let (thread, live, copy) = thread_with_copy(&b).await;
    let before = b.dump_thread(&thread).await;
    b.start_and_finish(&copy, vec![new_entry(EntryKind::Step, "copy", 2)]).await;
    b.store.put_thread(&copy, &metadata_with_key("copy")).await.expect("put");
    assert_eq!(b.dump_thread(&thread).await, before);
    let of_copy = b.dump_thread(&copy).await;
    b.write_steps(&live, &["source"]).await;
    b.store.delete_thread(&thread).await.expect("delete");
    assert_eq!(b.dump_thread(&copy).await, of_copy);
    assert_eq!(b.loaded_text(&copy, None).await, "2=A | e in in copy");
}

pub(super) async fn a_copy_may_stand_at_an_earlier_entry<S: Store>(b: StoreFixture<S>) {
    let (thread, _, _) = thread_with_copy(&b).await;
    let (early, newest) = (b.new_thread_key(), b.new_thread_key());
    let row =
        b.store.copy_thread(&thread, &early.thread, Some(step_on_branch("here", 2, 2))).await.expect("copy");
    assert_eq!((row.head, row.active), (6, None));
    assert_eq!(row, b.thread_row(&early).await);
    assert_eq!(b.loaded_text(&early, None).await, "2=A | here");
    b.start_and_finish(&early, vec![new_entry(EntryKind::Step, "on", 2)]).await;
    assert_eq!(b.loaded_text(&early, None).await, "2=A | here in on");
    let row =
        b.store.copy_thread(&thread, &newest.thread, Some(step_on_branch("here", 5, 2))).await.expect("copy");
    assert_eq!(row.head, 5, "it stands there as it is");
}

pub(super) async fn copying_needs_a_source_and_a_free_name<S: Store>(b: StoreFixture<S>) {
    let (thread, taken, none) = (b.new_thread_key(), b.new_thread_key(), b.new_thread_key());
    b.start_and_finish(&thread, vec![]).await;
    b.start_and_finish(&taken, vec![step_entry("a")]).await;
    let before = b.dump_thread(&taken).await;
    refused!(b.store.copy_thread(&none, &b.new_thread_key().thread, None).await, StoreError::NotFound { .. });
    refused!(b.store.copy_thread(&thread, &taken.thread, None).await, StoreError::Conflict(_));
    refused!(b.store.copy_thread(&thread, &thread.thread, None).await, StoreError::Conflict(_));
    assert_eq!(b.dump_thread(&taken).await, before);
    assert_eq!(b.log_text(&thread).await, "in");
}

pub(super) async fn a_deleted_thread_leaves_nothing<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let idempotency = Some(RunIdempotencyKey { key: "k".into(), hash: "h".into() });
    let run = expect_started(
        b.store.submit(NewRun { idempotency: idempotency.clone(), ..b.new_run(&thread) }).await,
    );
    let records = vec![record("0.0", "a", RecordStage::Done, "1")];
    b.commit(&run, Commit { entries: vec![step_with_snapshot("a", 0, "A")], records, ..Commit::default() })
        .await;
    let waits = b.submit_queued(&thread, IfBusy::Enqueue).await;
    b.store.put_thread(&thread, &metadata_with_key("k")).await.expect("put");
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
    refused!(b.store.load(&thread, None).await, StoreError::NotFound { .. });
    refused!(b.store.entries(&thread, 0, 10).await, StoreError::NotFound { .. });
    for row in [&run.run, &waits] {
        refused!(b.store.run(&row.key()).await, StoreError::NotFound { .. });
    }
    assert_eq!(b.store.runs(&b.tenant, &RunFilter::default()).await.expect("runs"), []);
    assert!(b.claim(&thread).await.is_none());
    // The name may be used again, and nothing old shows up.
    let idempotency = idempotency.map(|old| RunIdempotencyKey { key: "other".into(), ..old });
    let again = expect_started(b.store.submit(NewRun { idempotency, ..b.new_run(&thread) }).await);
    assert_eq!((again.head, again.run.epoch, again.records.len()), (1, 1, 0));
    assert!(b.thread_row(&thread).await.metadata.is_empty());
    assert_eq!(b.loaded_text(&thread, None).await, "- | in");
    b.write_steps(&again, &["b"]).await;
    assert_eq!(b.loaded_text(&thread, Some(2)).await, "- | in b", "the old snapshot is gone");
}

pub(super) async fn deleting_fences_a_live_run<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.store.delete_thread(&thread).await.expect("delete");
    let write = async || b.store.commit(&run.fence(), Commit { head: 1, ..steps_commit(&["ghost"]) }).await;
    refused!(write().await, StoreError::Fenced);
    refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
    assert_eq!(b.store.renew(&long_lease(), &[run.fence()]).await.expect("renew"), [LeaseRenewal::Lost]);
    // Nor does it write into the next thread of that name.
    b.start(&thread).await;
    refused!(write().await, StoreError::Fenced);
    assert_eq!(b.log_text(&thread).await, "in");
}

pub(super) async fn an_old_lease_does_not_follow_a_name<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    b.start_and_lose(&thread).await;
    b.store.delete_thread(&thread).await.expect("delete");
    let run = b.start(&thread).await;
    loop {
        let claimed = b.store.claim(&long_lease(), None, 100).await.expect("claim");
        assert!(claimed.iter().all(|claimed| claimed.run.thread != thread), "the new run has a worker");
        if claimed.is_empty() {
            break;
        }
    }
    b.write_steps(&run, &["a"]).await;
}

pub(super) async fn deleting_spares_other_threads<S: Store>(b: StoreFixture<S>) {
    let (thread, other) = (b.new_thread_key(), b.new_thread_key());
    b.start_and_finish(&thread, vec![step_with_snapshot("a", 0, "A")]).await;
    b.start_and_finish(&other, vec![step_with_snapshot("b", 0, "B")]).await;
    let before = b.dump_thread(&other).await;
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    assert_eq!(b.dump_thread(&other).await, before);
}

pub(super) async fn deleting_nothing_is_no_error<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    assert!(!b.store.delete_thread(&thread).await.expect("delete"));
    b.start_and_finish(&thread, vec![]).await;
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    assert!(!b.store.delete_thread(&thread).await.expect("delete"));
}

pub(super) async fn a_cached_value_comes_back<S: Store>(b: StoreFixture<S>) {
    assert_eq!(b.store.cached_value(&b.tenant, "k").await.expect("cached"), None);
    for value in [&b"one"[..], b"two"] {
        b.store.cache_value(&b.tenant, "k", value, None).await.expect("keep");
        assert_eq!(b.store.cached_value(&b.tenant, "k").await.expect("cached").as_deref(), Some(value));
    }
    assert_eq!(b.store.cached_value(&b.tenant, "K").await.expect("cached"), None);
}

pub(super) async fn a_cached_value_has_its_lifetime<S: Store>(b: StoreFixture<S>) {
    let keep = async |key: &str, millis| {
        b.store.cache_value(&b.tenant, key, b"v", Some(Duration::from_millis(millis))).await.expect("keep");
    };
    keep("short", 1).await;
    keep("long", 60_000).await;
    keep("renewed", 1).await;
    keep("renewed", 60_000).await;
    keep("shortened", 60_000).await;
    keep("shortened", 1).await;
    sleep_millis(15).await;
    let mut alive = Vec::new();
    for key in ["short", "long", "renewed", "shortened"] {
        if b.store.cached_value(&b.tenant, key).await.expect("cached").is_some() {
            alive.push(key);
        }
    }
    assert_eq!(alive, ["long", "renewed"]);
    b.store.cache_value(&b.tenant, "shortened", b"w", None).await.expect("keep");
    assert_eq!(b.store.cached_value(&b.tenant, "shortened").await.expect("cached"), Some(b"w".to_vec()));
}
