//! What belongs to somebody else is not there.

use super::fixture::*;
use crate::id::{RunKey, ThreadKey};
use crate::store::*;

/// The same thread and run under the name of somebody who does not own them.
fn keys_under_tenant<S: Store>(other: &StoreFixture<S>, row: &RunRow) -> (ThreadKey, RunKey) {
    let thread = ThreadKey { tenant: other.tenant.clone(), thread: row.thread.thread.clone() };
    (thread.clone(), thread.run(row.run))
}

pub(super) async fn nobody_reads_what_belongs_to_another<S: Store>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    let thread = b.new_thread_key();
    let row = b.start_and_finish(&thread, vec![step_with_snapshot("a", 0, "A")]).await;
    b.store.put_thread(&thread, &metadata_with_key("k")).await.expect("put");
    b.store.cache_value(&b.tenant, "k", b"v", None).await.expect("keep");
    let (thread, run) = keys_under_tenant(&other, &row);
    let store = &other.store;
    refused!(store.load(&thread, None).await, StoreError::NotFound { .. });
    refused!(store.load(&thread, Some(1)).await, StoreError::NotFound { .. });
    refused!(store.entries(&thread, 0, 10).await, StoreError::NotFound { .. });
    refused!(store.run(&run).await, StoreError::NotFound { .. });
    refused!(store.thread(&thread).await, StoreError::NotFound { .. });
    assert_eq!(store.runs(&other.tenant, &RunFilter::default()).await.expect("runs"), []);
    let of_thread = RunFilter { thread: Some(thread.thread.clone()), ..RunFilter::default() };
    assert_eq!(store.runs(&other.tenant, &of_thread).await.expect("runs"), []);
    for metadata in [serde_json::Map::new(), metadata_with_key("k")] {
        let filter = ThreadFilter { metadata, ..ThreadFilter::default() };
        assert_eq!(store.threads(&other.tenant, &filter).await.expect("threads"), []);
    }
    assert_eq!(store.cached_value(&other.tenant, "k").await.expect("cached"), None);
    refused!(
        store.copy_thread(&thread, &other.new_thread_key().thread, None).await,
        StoreError::NotFound { .. }
    );
}

pub(super) async fn nobody_changes_what_belongs_to_another<S: Store>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    let (live, paused, failed, lost, queued) =
        (b.new_thread_key(), b.new_thread_key(), b.new_thread_key(), b.new_thread_key(), b.new_thread_key());
    let runs = [
        b.start(&live).await.run,
        b.start_and_pause(&paused, &["q"]).await.run,
        b.start_and_fail(&failed).await.run,
        b.start_and_lose(&lost).await.run,
        b.submit_queued(&queued, IfBusy::Reject).await,
    ];
    b.store.cache_value(&b.tenant, "k", b"ours", None).await.expect("keep");
    for row in runs {
        let before = b.dump_thread(&row.thread).await;
        let (thread, run) = keys_under_tenant(&other, &row);
        for signal in [RunSignal::Cancel { body: vec![] }, answer_signal(&[("q", "a")]), retry_signal()] {
            refused!(other.store.signal(&run, signal).await, StoreError::NotFound { .. });
        }
        let fence = Fence { thread: thread.clone(), run: row.run, epoch: row.epoch };
        let head = b.head(&row.thread).await;
        refused!(
            other.store.commit(&fence, Commit { head, ..steps_commit(&["x"]) }).await,
            StoreError::Fenced
        );
        assert_eq!(other.store.renew(&long_lease(), &[fence]).await.expect("renew"), [LeaseRenewal::Lost]);
        assert!(other.claim(&thread).await.is_none());
        refused!(other.store.append_entry(&thread, head, step_entry("x")).await, StoreError::NotFound { .. });
        assert!(!other.store.delete_thread(&thread).await.expect("delete"));
        // Their thread of the same name is another thread.
        other.store.put_thread(&thread, &metadata_with_key("theirs")).await.expect("put");
        assert!(other.store.delete_thread(&thread).await.expect("delete"));
        assert_eq!(b.dump_thread(&row.thread).await, before);
    }
    other.store.cache_value(&other.tenant, "k", b"theirs", None).await.expect("keep");
    assert_eq!(b.store.cached_value(&b.tenant, "k").await.expect("cached"), Some(b"ours".to_vec()));
}

pub(super) async fn the_same_names_live_side_by_side<S: Store>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    let thread = b.new_thread_key();
    let ours = b.start(&thread).await;
    let (their_thread, _) = keys_under_tenant(&other, &ours.run);
    let new = NewRun { run: ours.run.run, ..other.new_run(&their_thread) };
    let their = expect_started(other.store.submit(new).await);
    b.write_steps(&ours, &["ours"]).await;
    other.write_steps(&their, &["theirs"]).await;
    assert_eq!(b.log_text(&thread).await, "in ours");
    assert_eq!(other.log_text(&their_thread).await, "in theirs");
    b.finish(&ours).await;
    assert_eq!(other.run_row(&their).await.status, RunStatus::Running);
    b.store.delete_thread(&thread).await.expect("delete");
    assert_eq!(other.finish(&their).await.head, 3);
}
