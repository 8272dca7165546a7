//! What a worker does whose run was taken over while it was not looking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::{
    Claim, Commit, EntryKind, Fence, History, NewEntry, NewStatus, RamStore, RunFilter, Runs, Status,
};
use doran_engine::{Tenant, ThreadKey};

use crate::support::{Calls, Gate, GatedStore, Verdict, bot_on, does, only, ram, say, thread};

/// While somebody reads a state for the first time, another worker takes the run over and ends it.
struct TakenWhileReading {
    store: RamStore,
    armed: AtomicBool,
}

impl TakenWhileReading {
    async fn take_over(&self, on: &ThreadKey) {
        let filter = RunFilter { status: Some(Status::Running), ..RunFilter::default() };
        let row = self.store.runs(&Tenant::local(), &filter).await.expect("runs").remove(0);
        let fence = Fence { thread: on.clone(), run: row.run, epoch: row.epoch };
        let over = Claim { worker: "anybody".into(), lease: Duration::ZERO };
        self.store.renew(&over, &[fence]).await.expect("a lease that is over");
        let other = Claim { worker: "other".into(), lease: Duration::from_secs(60) };
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
            status: Some(NewStatus { status: Status::Cancelled, error: None }),
            ..Commit::default()
        };
        self.store.commit(&claimed.fence(), commit).await.expect("the other worker holds it");
    }
}

#[async_trait]
impl Gate for TakenWhileReading {
    async fn enter(&self, call: &'static str) -> Verdict {
        if call == "load" && self.armed.swap(false, Ordering::SeqCst) {
            self.take_over(&thread("t")).await;
        }
        Verdict::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_lost_before_the_state_was_read_runs_no_node() {
    let calls = Calls::default();
    let counted = calls.clone();
    let graph = only(
        "act",
        does(move |_, _| {
            let calls = counted.clone();
            async move { Ok(say(format!("{}", calls.hit()))) }
        }),
    );
    let store = ram();
    let first = bot_on(Arc::new(store.clone()), &graph);
    first.run(&thread("t"), say("one")).await.expect("finished");
    assert_eq!(calls.count(), 1);

    let gate = Arc::new(TakenWhileReading { store: store.clone(), armed: AtomicBool::new(true) });
    let second = bot_on(Arc::new(GatedStore { inner: store, gate: gate.clone() }), &graph);
    let run = second.start(&thread("t"), say("two")).await.expect("accepted");
    let row = run.wait().await.expect("rests");
    assert!(!gate.armed.load(Ordering::SeqCst), "the state was read");
    assert_eq!(row.status, Status::Cancelled);
    assert_eq!(calls.count(), 1, "the node of a run that was lost must not run");
}
