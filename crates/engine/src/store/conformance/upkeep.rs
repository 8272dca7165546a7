//! Threads made, edited, copied and deleted, and the cache of nodes.

use std::time::Duration;

use serde_json::json;

use super::bench::*;
use crate::id::{ThreadId, ThreadKey};
use crate::store::*;

pub(super) async fn metadata_is_merged_key_by_key<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let made = b
        .store
        .put_thread(&thread, &pairs(json!({ "a": 1, "b": { "x": 1, "y": null }, "gone": null })))
        .await;
    let made = made.expect("put");
    assert_eq!((made.head, made.active, &made.key), (0, None, &thread));
    assert_eq!(made.metadata, pairs(json!({ "a": 1, "b": { "x": 1, "y": null } })));
    let merged = b
        .store
        .put_thread(&thread, &pairs(json!({ "a": null, "b": { "z": 2 }, "c": "새" })))
        .await
        .expect("put");
    assert_eq!(merged.metadata, pairs(json!({ "b": { "z": 2 }, "c": "새" })));
    assert_eq!(merged.created_at, made.created_at);
    assert_eq!(b.thread(&thread).await, merged);
    let kept = b.store.put_thread(&thread, &pairs(json!({}))).await.expect("put nothing");
    assert_eq!(kept.metadata, merged.metadata);
}

pub(super) async fn metadata_is_data<S: Store>(b: Bench<S>) {
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
        let thread = b.key();
        let value = json!({ name: { "v": name } });
        b.store.put_thread(&thread, &pairs(value.clone())).await.expect("put");
        assert_eq!(b.thread(&thread).await.metadata, pairs(value.clone()), "{name:?}");
        let filter = ThreadFilter { metadata: pairs(value), ..ThreadFilter::default() };
        let found = b.store.threads(&b.tenant, &filter).await.expect("threads");
        assert!(found.len() == 1 && found[0].key == thread, "{name:?}: {found:?}");
        let emptied = b.store.put_thread(&thread, &pairs(json!({ name: null }))).await.expect("remove");
        assert!(emptied.metadata.is_empty(), "{name:?}");
        let run = started(
            b.store.submit(NewRun { metadata: one(name), graph: name.into(), ..b.new_run(&thread) }).await,
        );
        assert_eq!((b.row(&run).await.metadata, b.row(&run).await.graph.as_str()), (one(name), name));
        b.store.keep(&b.tenant, name, name.as_bytes(), None).await.expect("keep");
    }
    for name in odd {
        assert_eq!(
            b.store.cached(&b.tenant, name).await.expect("cached"),
            Some(name.as_bytes().to_vec()),
            "{name:?}"
        );
    }
    for name in odd.iter().filter_map(|name| ThreadId::new(name).ok()) {
        let thread = ThreadKey { tenant: b.tenant.clone(), thread: name };
        b.finished(&thread, vec![]).await;
        assert_eq!(b.thread(&thread).await.key, thread);
    }
}

pub(super) async fn metadata_with_nul_is_refused<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.store.put_thread(&thread, &one("k")).await.expect("put");
    let before = b.all(&thread).await;
    for bad in [
        json!({ "a\0": 1 }),
        json!({ "a": "\0" }),
        json!({ "a": [{ "b": "x\0y" }] }),
        json!({ "a": { "\0": 1 } }),
    ] {
        let metadata = pairs(bad);
        refused!(b.store.put_thread(&thread, &metadata).await, StoreError::Conflict(_));
        refused!(b.store.put_thread(&b.key(), &metadata).await, StoreError::Conflict(_));
        let filter = ThreadFilter { metadata: metadata.clone(), ..ThreadFilter::default() };
        refused!(b.store.threads(&b.tenant, &filter).await, StoreError::Conflict(_));
        refused!(b.store.submit(NewRun { metadata, ..b.new_run(&thread) }).await, StoreError::Conflict(_));
    }
    assert_eq!(b.all(&thread).await, before);
    assert_eq!(b.store.threads(&b.tenant, &ThreadFilter::default()).await.expect("threads").len(), 1);
}

pub(super) async fn an_edit_is_appended<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![snap("a", 0, "A")]).await;
    let edit = NewEntry { snapshot: Some(b"E".to_vec()), ..entry(EntryKind::Edited, "e", 2) };
    assert_eq!(b.store.append(&thread, 2, edit).await.expect("append"), 3);
    let log = b.log(&thread).await;
    assert_eq!((log[2].kind, log[2].run, log[2].parent, log[2].base), (EntryKind::Edited, None, 2, 2));
    assert_eq!(b.loaded(&thread, None).await, "3=E | ");
    assert_eq!(b.thread(&thread).await.active, None);
    let empty = b.key();
    refused!(b.store.append(&empty, 0, step("x")).await, StoreError::NotFound { .. });
    b.store.put_thread(&empty, &one("k")).await.expect("put");
    assert_eq!(b.store.append(&empty, 0, step("x")).await.expect("append"), 1);
    assert_eq!(b.log(&empty).await[0].parent, 0);
}

pub(super) async fn an_edit_may_start_a_branch<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a"), step("b")]).await;
    b.store.append(&thread, 3, branch("e", 2, 0)).await.expect("append");
    assert_eq!(b.loaded(&thread, None).await, "- | in a e");
    b.finished(&thread, vec![]).await;
    assert_eq!(b.loaded(&thread, None).await, "- | in a e in");
}

pub(super) async fn an_edit_needs_a_free_thread<S: Store>(b: Bench<S>) {
    let (running, paused) = (b.key(), b.key());
    let runs = [b.start(&running).await, b.paused(&paused, &["q"]).await];
    for run in runs {
        let thread = &run.run.thread;
        let before = b.all(thread).await;
        match b.store.append(thread, b.head(thread).await, step("x")).await {
            Err(StoreError::Busy { thread: named, run: active }) => {
                assert_eq!((named, active), (thread.thread.clone(), run.run.run));
            }
            other => panic!("should be busy, not {other:?}"),
        }
        assert_eq!(b.all(thread).await, before);
    }
}

pub(super) async fn an_edit_needs_the_newest_entry<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.finished(&thread, vec![step("a")]).await;
    let before = b.all(&thread).await;
    for expect in [0, 1, 3] {
        refused!(b.store.append(&thread, expect, step("x")).await, StoreError::Conflict(_));
    }
    assert_eq!(b.all(&thread).await, before);
}

/// A thread with a snapshot, a branch and a live run, and a copy of it.
async fn copied<S: Store>(b: &Bench<S>) -> (ThreadKey, Claimed, ThreadKey) {
    let (thread, copy) = (b.key(), b.key());
    b.finished(&thread, vec![snap("a", 0, "A"), entry(EntryKind::Step, "b", 2)]).await;
    b.edit(&thread, vec![branch("e", 2, 2)]).await;
    b.store.put_thread(&thread, &one("k")).await.expect("put");
    let live = b.start(&thread).await;
    let row = b.store.copy_thread(&thread, &copy.thread, None).await.expect("copy");
    assert_eq!(row, b.thread(&copy).await);
    (thread, live, copy)
}

pub(super) async fn a_copy_has_the_whole_log<S: Store>(b: Bench<S>) {
    let (thread, _, copy) = copied(&b).await;
    assert_eq!(b.log(&copy).await, b.log(&thread).await);
    for at in 1..=5 {
        assert_eq!(b.loaded(&copy, Some(at)).await, b.loaded(&thread, Some(at)).await, "at {at}");
    }
    let row = b.thread(&copy).await;
    assert_eq!((row.head, row.active), (5, None));
    let filter = RunFilter { thread: Some(copy.thread.clone()), ..RunFilter::default() };
    assert_eq!(b.store.runs(&b.tenant, &filter).await.expect("runs"), [], "runs stay with the source");
}

pub(super) async fn a_copy_has_the_metadata<S: Store>(b: Bench<S>) {
    let (_, _, copy) = copied(&b).await;
    assert_eq!(b.thread(&copy).await.metadata, one("k"));
}

pub(super) async fn a_copy_goes_its_own_way<S: Store>(b: Bench<S>) {
    let (thread, live, copy) = copied(&b).await;
    let before = b.all(&thread).await;
    b.finished(&copy, vec![entry(EntryKind::Step, "copy", 2)]).await;
    b.store.put_thread(&copy, &one("copy")).await.expect("put");
    assert_eq!(b.all(&thread).await, before);
    let of_copy = b.all(&copy).await;
    b.write(&live, &["source"]).await;
    b.store.delete_thread(&thread).await.expect("delete");
    assert_eq!(b.all(&copy).await, of_copy);
    assert_eq!(b.loaded(&copy, None).await, "2=A | e in in copy");
}

pub(super) async fn a_copy_may_stand_at_an_earlier_entry<S: Store>(b: Bench<S>) {
    let (thread, _, _) = copied(&b).await;
    let (early, newest) = (b.key(), b.key());
    let row = b.store.copy_thread(&thread, &early.thread, Some(branch("here", 2, 2))).await.expect("copy");
    assert_eq!((row.head, row.active), (6, None));
    assert_eq!(row, b.thread(&early).await);
    assert_eq!(b.loaded(&early, None).await, "2=A | here");
    b.finished(&early, vec![entry(EntryKind::Step, "on", 2)]).await;
    assert_eq!(b.loaded(&early, None).await, "2=A | here in on");
    let row = b.store.copy_thread(&thread, &newest.thread, Some(branch("here", 5, 2))).await.expect("copy");
    assert_eq!(row.head, 5, "it stands there as it is");
}

pub(super) async fn copying_needs_a_source_and_a_free_name<S: Store>(b: Bench<S>) {
    let (thread, taken, none) = (b.key(), b.key(), b.key());
    b.finished(&thread, vec![]).await;
    b.finished(&taken, vec![step("a")]).await;
    let before = b.all(&taken).await;
    refused!(b.store.copy_thread(&none, &b.key().thread, None).await, StoreError::NotFound { .. });
    refused!(b.store.copy_thread(&thread, &taken.thread, None).await, StoreError::Conflict(_));
    refused!(b.store.copy_thread(&thread, &thread.thread, None).await, StoreError::Conflict(_));
    assert_eq!(b.all(&taken).await, before);
    assert_eq!(b.bodies(&thread).await, "in");
}

pub(super) async fn a_deleted_thread_leaves_nothing<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let idempotency = Some(Idempotency { key: "k".into(), hash: "h".into() });
    let run =
        started(b.store.submit(NewRun { idempotency: idempotency.clone(), ..b.new_run(&thread) }).await);
    let records = vec![record("0.0", "a", Stage::Done, "1")];
    b.commit(&run, Commit { entries: vec![snap("a", 0, "A")], records, ..Commit::default() }).await;
    let waits = b.queue(&thread, IfBusy::Enqueue).await;
    b.store.put_thread(&thread, &one("k")).await.expect("put");
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
    refused!(b.store.load(&thread, None).await, StoreError::NotFound { .. });
    refused!(b.store.entries(&thread, 0, 10).await, StoreError::NotFound { .. });
    for row in [&run.run, &waits] {
        refused!(b.store.run(&row.key()).await, StoreError::NotFound { .. });
    }
    assert_eq!(b.store.runs(&b.tenant, &RunFilter::default()).await.expect("runs"), []);
    assert!(b.claim(&thread).await.is_none());
    // The name and the key may be used again, and nothing old shows up.
    let hash = "other".into();
    let idempotency = idempotency.map(|old| Idempotency { hash, ..old });
    let again = started(b.store.submit(NewRun { idempotency, ..b.new_run(&thread) }).await);
    assert_eq!((again.head, again.run.epoch, again.records.len()), (1, 1, 0));
    assert!(b.thread(&thread).await.metadata.is_empty());
    assert_eq!(b.loaded(&thread, None).await, "- | in");
    b.write(&again, &["b"]).await;
    assert_eq!(b.loaded(&thread, Some(2)).await, "- | in b", "the old snapshot is gone");
}

pub(super) async fn deleting_fences_a_live_run<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start(&thread).await;
    b.store.delete_thread(&thread).await.expect("delete");
    let write = async || b.store.commit(&run.fence(), Commit { head: 1, ..steps(&["ghost"]) }).await;
    refused!(write().await, StoreError::Fenced);
    refused!(b.store.thread(&thread).await, StoreError::NotFound { .. });
    assert_eq!(b.store.renew(&worker(), &[run.fence()]).await.expect("renew"), [Renewed::Lost]);
    // Nor does it write into the next thread of that name.
    b.start(&thread).await;
    refused!(write().await, StoreError::Fenced);
    assert_eq!(b.bodies(&thread).await, "in");
}

pub(super) async fn an_old_lease_does_not_follow_a_name<S: Store>(b: Bench<S>) {
    let thread = b.key();
    b.start_and_lose(&thread).await;
    b.store.delete_thread(&thread).await.expect("delete");
    let run = b.start(&thread).await;
    loop {
        let claimed = b.store.claim(&worker(), None, 100).await.expect("claim");
        assert!(claimed.iter().all(|claimed| claimed.run.thread != thread), "the new run has a worker");
        if claimed.is_empty() {
            break;
        }
    }
    b.write(&run, &["a"]).await;
}

pub(super) async fn deleting_spares_other_threads<S: Store>(b: Bench<S>) {
    let (thread, other) = (b.key(), b.key());
    b.finished(&thread, vec![snap("a", 0, "A")]).await;
    b.finished(&other, vec![snap("b", 0, "B")]).await;
    let before = b.all(&other).await;
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    assert_eq!(b.all(&other).await, before);
}

pub(super) async fn deleting_nothing_is_no_error<S: Store>(b: Bench<S>) {
    let thread = b.key();
    assert!(!b.store.delete_thread(&thread).await.expect("delete"));
    b.finished(&thread, vec![]).await;
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    assert!(!b.store.delete_thread(&thread).await.expect("delete"));
}

pub(super) async fn a_cached_value_comes_back<S: Store>(b: Bench<S>) {
    assert_eq!(b.store.cached(&b.tenant, "k").await.expect("cached"), None);
    for value in [&b"one"[..], b"two"] {
        b.store.keep(&b.tenant, "k", value, None).await.expect("keep");
        assert_eq!(b.store.cached(&b.tenant, "k").await.expect("cached").as_deref(), Some(value));
    }
    assert_eq!(b.store.cached(&b.tenant, "K").await.expect("cached"), None);
}

pub(super) async fn a_cached_value_has_its_lifetime<S: Store>(b: Bench<S>) {
    let keep = async |key: &str, millis| {
        b.store.keep(&b.tenant, key, b"v", Some(Duration::from_millis(millis))).await.expect("keep");
    };
    keep("short", 200).await;
    assert!(b.store.cached(&b.tenant, "short").await.expect("cached").is_some());
    keep("long", 60_000).await;
    keep("renewed", 1).await;
    keep("renewed", 60_000).await;
    keep("shortened", 60_000).await;
    keep("shortened", 1).await;
    pause(230).await;
    let mut alive = Vec::new();
    for key in ["short", "long", "renewed", "shortened"] {
        if b.store.cached(&b.tenant, key).await.expect("cached").is_some() {
            alive.push(key);
        }
    }
    assert_eq!(alive, ["long", "renewed"]);
    b.store.keep(&b.tenant, "shortened", b"w", None).await.expect("keep");
    assert_eq!(b.store.cached(&b.tenant, "shortened").await.expect("cached"), Some(b"w".to_vec()));
}
