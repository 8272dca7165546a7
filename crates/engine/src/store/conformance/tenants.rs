//! What belongs to somebody else is not there.

use super::bench::*;
use crate::id::{RunKey, ThreadKey};
use crate::store::*;

/// The same thread and run under the name of somebody who does not own them.
fn theirs<S: Store>(other: &Bench<S>, row: &RunRow) -> (ThreadKey, RunKey) {
    let thread = ThreadKey { tenant: other.tenant.clone(), thread: row.thread.thread.clone() };
    (thread.clone(), thread.run(row.run))
}

pub(super) async fn nobody_reads_what_belongs_to_another<S: Store>(b: Bench<S>) {
    let other = b.neighbour();
    let thread = b.key();
    let row = b.finished(&thread, vec![snap("a", 0, "A")]).await;
    b.store.put_thread(&thread, &one("k")).await.expect("put");
    b.store.keep(&b.tenant, "k", b"v", None).await.expect("keep");
    let (thread, run) = theirs(&other, &row);
    let store = &other.store;
    refused!(store.load(&thread, None).await, StoreError::NotFound { .. });
    refused!(store.load(&thread, Some(1)).await, StoreError::NotFound { .. });
    refused!(store.entries(&thread, 0, 10).await, StoreError::NotFound { .. });
    refused!(store.run(&run).await, StoreError::NotFound { .. });
    refused!(store.thread(&thread).await, StoreError::NotFound { .. });
    assert_eq!(store.runs(&other.tenant, &RunFilter::default()).await.expect("runs"), []);
    let of_thread = RunFilter { thread: Some(thread.thread.clone()), ..RunFilter::default() };
    assert_eq!(store.runs(&other.tenant, &of_thread).await.expect("runs"), []);
    for metadata in [serde_json::Map::new(), one("k")] {
        let filter = ThreadFilter { metadata, ..ThreadFilter::default() };
        assert_eq!(store.threads(&other.tenant, &filter).await.expect("threads"), []);
    }
    assert_eq!(store.cached(&other.tenant, "k").await.expect("cached"), None);
    refused!(store.copy_thread(&thread, &other.key().thread, None).await, StoreError::NotFound { .. });
}

pub(super) async fn nobody_changes_what_belongs_to_another<S: Store>(b: Bench<S>) {
    let other = b.neighbour();
    let (live, paused, failed, lost, queued) = (b.key(), b.key(), b.key(), b.key(), b.key());
    let runs = [
        b.start(&live).await.run,
        b.paused(&paused, &["q"]).await.run,
        b.failed(&failed).await.run,
        b.start_and_lose(&lost).await.run,
        b.queue(&queued, IfBusy::Reject).await,
    ];
    b.store.keep(&b.tenant, "k", b"ours", None).await.expect("keep");
    for row in runs {
        let before = b.all(&row.thread).await;
        let (thread, run) = theirs(&other, &row);
        for signal in [Signal::Cancel { body: vec![] }, answer(&[("q", "a")]), retry()] {
            refused!(other.store.signal(&run, signal).await, StoreError::NotFound { .. });
        }
        let fence = Fence { thread: thread.clone(), run: row.run, epoch: row.epoch };
        let head = b.head(&row.thread).await;
        refused!(other.store.commit(&fence, Commit { head, ..steps(&["x"]) }).await, StoreError::Fenced);
        assert_eq!(other.store.renew(&worker(), &[fence]).await.expect("renew"), [Renewed::Lost]);
        assert!(other.claim(&thread).await.is_none());
        refused!(other.store.append(&thread, head, step("x")).await, StoreError::NotFound { .. });
        assert!(!other.store.delete_thread(&thread).await.expect("delete"));
        // Their thread of the same name is another thread.
        other.store.put_thread(&thread, &one("theirs")).await.expect("put");
        assert!(other.store.delete_thread(&thread).await.expect("delete"));
        assert_eq!(b.all(&row.thread).await, before);
    }
    other.store.keep(&other.tenant, "k", b"theirs", None).await.expect("keep");
    assert_eq!(b.store.cached(&b.tenant, "k").await.expect("cached"), Some(b"ours".to_vec()));
}

pub(super) async fn the_same_names_live_side_by_side<S: Store>(b: Bench<S>) {
    let other = b.neighbour();
    let thread = b.key();
    let ours = b.start(&thread).await;
    let (their_thread, _) = theirs(&other, &ours.run);
    let new = NewRun { run: ours.run.run, ..other.new_run(&their_thread) };
    let their = started(other.store.submit(new).await);
    b.write(&ours, &["ours"]).await;
    other.write(&their, &["theirs"]).await;
    assert_eq!(b.bodies(&thread).await, "in ours");
    assert_eq!(other.bodies(&their_thread).await, "in theirs");
    b.finish(&ours).await;
    assert_eq!(other.row(&their).await.status, Status::Running);
    b.store.delete_thread(&thread).await.expect("delete");
    assert_eq!(other.finish(&their).await.head, 3);
}
