//! What a worker does whose run was taken over while it was not looking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::{
    Commit, EntryKind, Fence, HistoryStore, NewEntry, NewStatus, RamStore, RunFilter, RunStatus, RunStore,
    WorkerLease,
};
use doran_engine::{TenantId, ThreadKey};

use crate::support::{
    CallCounter, GatedStore, StoreCallDecision, StoreCallGate, graph_handle_on, local_thread, node_running,
    ram_store, single_node_graph, update_saying,
};

/// While somebody reads a state for the first time, another worker takes the run over and ends it.
struct TakeoverDuringLoadGate {
    store: RamStore,
    armed: AtomicBool,
}

impl TakeoverDuringLoadGate {
    async fn take_over(&self, on: &ThreadKey) {
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let row = self.store.runs(&TenantId::local(), &filter).await.expect("runs").remove(0);
        let fence = Fence { thread: on.clone(), run: row.run, epoch: row.epoch };
        let over = WorkerLease { worker: "anybody".into(), lease: Duration::ZERO };
        self.store.renew(&over, &[fence]).await.expect("a lease that is over");
        let other = WorkerLease { worker: "other".into(), lease: Duration::from_secs(60) };
        let claimed = self.store.claim(&other, Some(on), 1).await.expect("claim").remove(0);
        let end = NewEntry {
            kind: EntryKind::Cancelled,
            body: b"{}".to_vec(),
            parent: None,
            base: 0,
            snapshot: None,
        };
        let commit = Commit {
            head: claimed.head,
            entries: vec![end],
            status: Some(NewStatus { status: RunStatus::Cancelled, error: None }),
            ..Commit::default()
        };
        self.store.commit(&claimed.fence(), commit).await.expect("the other worker holds it");
    }
}

#[async_trait]
impl StoreCallGate for TakeoverDuringLoadGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "load" && self.armed.swap(false, Ordering::SeqCst) {
            self.take_over(&local_thread("t")).await;
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_lost_before_the_state_was_read_runs_no_node() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = single_node_graph(
        "act",
        node_running(move |_, _| {
            let calls = counted.clone();
            async move { Ok(update_saying(format!("{}", calls.increment()))) }
        }),
    );
    let store = ram_store();
    let first = graph_handle_on(Arc::new(store.clone()), &graph);
    first.run(&local_thread("t"), update_saying("one")).await.expect("finished");
    assert_eq!(calls.count(), 1);

    let gate = Arc::new(TakeoverDuringLoadGate { store: store.clone(), armed: AtomicBool::new(true) });
    let second = graph_handle_on(Arc::new(GatedStore { inner: store, gate: gate.clone() }), &graph);
    let run = second.start(&local_thread("t"), update_saying("two")).await.expect("accepted");
    let row = run.wait().await.expect("rests");
    assert!(!gate.armed.load(Ordering::SeqCst), "the state was read");
    assert_eq!(row.status, RunStatus::Cancelled);
    assert_eq!(calls.count(), 1, "the node of a run that was lost must not run");
}
