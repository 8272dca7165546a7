//! What a worker does whose run was taken over while it was not looking, or frozen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::{
    ClaimedRun, Commit, EntryKind, Fence, HistoryStore, NewEntry, NewStatus, RamStore, RunFilter, RunStatus,
    RunStore, Store, WorkerLease,
};
use doran_engine::{
    Cx, Graph, GraphHandle, NodeError, RunLimits, Runtime, StartOptions, TenantId, ThreadKey,
};
use serde_json::json;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NoRenewalGate, StoreCallDecision, StoreCallGate,
    graph_handle_on, killable_runtime, local_thread, ms, node_running, ram_store, run_trace,
    short_lease_options, single_node_graph, update_saying, wait_for_outcome_text,
};

/// Another worker gets the run that is at work on this thread, for a minute.
async fn claim_running_run(store: &RamStore, on: &ThreadKey) -> ClaimedRun {
    let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
    let row = store.runs(&TenantId::local(), &filter).await.expect("runs").remove(0);
    let fence = Fence { thread: on.clone(), run: row.run, epoch: row.epoch };
    let over = WorkerLease { worker: "anybody".into(), lease: Duration::ZERO, graphs: None };
    store.renew(&over, &[fence]).await.expect("a lease that is over");
    let other = WorkerLease { worker: "other".into(), lease: Duration::from_secs(60), graphs: None };
    store.claim(&other, Some(on), 1).await.expect("claim").remove(0)
}

/// While somebody reads a state for the first time, another worker takes the run over and ends it.
struct TakeoverDuringLoadGate {
    store: RamStore,
    armed: AtomicBool,
}

impl TakeoverDuringLoadGate {
    async fn take_over(&self, on: &ThreadKey) {
        let claimed = claim_running_run(&self.store, on).await;
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

/// Right before the first commit another worker takes the run over, and dies.
struct TakeoverBeforeCommitGate {
    store: RamStore,
    armed: AtomicBool,
}

#[async_trait]
impl StoreCallGate for TakeoverBeforeCommitGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" && self.armed.swap(false, Ordering::SeqCst) {
            claim_running_run(&self.store, &local_thread("t")).await;
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_lost_to_a_worker_that_died_is_looked_for_by_the_process_that_lost_it() {
    let store = ram_store();
    let gate = Arc::new(TakeoverBeforeCommitGate { store: store.clone(), armed: AtomicBool::new(true) });
    let works = node_running(|_, _| async { Ok(update_saying("worked")) });
    // It does not look for runs by itself.
    let bot =
        graph_handle_on(Arc::new(GatedStore { inner: store.clone(), gate }), &single_node_graph("a", works));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let ended = async {
        while !store.run(&run.key()).await.expect("row").status.is_end() {
            tokio::time::sleep(ms(100)).await;
        }
    };
    tokio::time::timeout(ms(600_000), ended).await.expect("it goes on");
    assert_eq!(run_trace(bot.runtime(), &run.key()).await, "started | restarted | a | finished");
}

/// Counts commits; the answer to the first comes a moment late, so that a test can stop the clock between the two.
#[derive(Default)]
struct LateFirstCommitGate(CallCounter);

#[async_trait]
impl StoreCallGate for LateFirstCommitGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" && self.0.count() == 0 {
            return StoreCallDecision::DelayAnswer(ms(1));
        }
        StoreCallDecision::Pass
    }

    fn on_commit(&self, _commit: &Commit) {
        self.0.increment();
    }
}

fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

#[test]
fn a_worker_that_was_frozen_before_a_call_that_must_not_happen_twice_does_not_make_it() {
    let clock = Arc::new(AtomicI64::new(0));
    let time = clock.clone();
    let store = RamStore::with_clock(Arc::new(move || time.load(Ordering::SeqCst)));
    let payments = CallCounter::default();
    let paid = payments.clone();
    let graph = single_node_graph(
        "pay",
        node_running(move |_, cx: Cx| {
            let paid = paid.clone();
            async move {
                cx.effect_at_most_once("pay", |_| async move { Ok::<_, NodeError>(paid.increment()) })
                    .await?;
                Ok(update_saying("paid"))
            }
        }),
    );
    let gate = Arc::new(LateFirstCommitGate::default());
    let handle_of = |worker: &str, store: Arc<dyn Store>| -> GraphHandle<EngineTestState> {
        let runtime = Runtime::with_options(store, short_lease_options(worker));
        runtime.register_graph("g", &graph).expect("registered")
    };

    let frozen_process = paused_runtime();
    let frozen = frozen_process.block_on(async {
        let gated = GatedStore { inner: store.clone(), gate: gate.clone() };
        let bot = handle_of("frozen", Arc::new(gated));
        let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        // As long as somebody is busy the clock of a paused runtime stands still.
        while gate.0.count() == 0 {
            tokio::task::yield_now().await;
        }
        run
    });

    clock.store(60_000, Ordering::SeqCst);
    paused_runtime().block_on(async {
        let bot = handle_of("second", Arc::new(store.clone()));
        bot.runtime().start_worker().await.expect("works");
        let run = bot.runtime().run_handle(&frozen.key()).await.expect("the run");
        let asked = wait_for_outcome_text(&bot, &run).await;
        assert!(asked.contains("\"call\":\"pay\""), "{asked}");
        let end = bot.resume(&local_thread("t"), json!({ "retry": true })).await;
        assert!(end.expect("finished").finished().is_some());
    });
    assert_eq!(payments.count(), 1);

    frozen_process.block_on(async {
        tokio::time::advance(ms(60_000)).await;
        drop(frozen.wait().await);
    });
    assert_eq!(payments.count(), 1, "the one who was frozen must not pay as well");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_renew_its_lease_stops_before_it_runs_out() {
    let (begun, signs) = (CallCounter::default(), CallCounter::default());
    let signs_of_life = signs.clone();
    let node = node_running(move |_, _| {
        let (nth, signs) = (begun.increment(), signs_of_life.clone());
        async move {
            if nth == 1 {
                loop {
                    signs.increment();
                    tokio::time::sleep(ms(10)).await;
                }
            }
            Ok(update_saying("again"))
        }
    });
    let gated = GatedStore { inner: ram_store(), gate: Arc::new(NoRenewalGate) };
    let options = short_lease_options("cut off");
    let lease = options.lease;
    let runtime = Runtime::with_options(Arc::new(gated), options);
    let bot = runtime.register_graph("g", &single_node_graph("a", node)).expect("registered");
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    tokio::time::sleep(lease).await;
    let until_the_end = signs.count();
    assert!(until_the_end > 0);
    tokio::time::sleep(lease * 10).await;
    assert_eq!(signs.count(), until_the_end, "somebody else may have the run by now");
    let run = runtime.run_handle(&run.key()).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "again", "nobody else had it");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_goes_on_with_another_worker() {
    let steps = CallCounter::default();
    let counted = steps.clone();
    let works = node_running(move |state, _| {
        let steps = counted.clone();
        async move {
            tokio::time::sleep(ms(4_000)).await;
            steps.increment();
            Ok(update_saying("worked").n(state.n + 1))
        }
    });
    let graph = Graph::named()
        .node("work", works.when(|state: &EngineTestState| state.n < 9, "work", "end"))
        .node("end", node_running(|_, _| async { Ok(EngineTestState::update()) }).end())
        .start("work")
        .build()
        .expect("sound");
    let store = ram_store();
    let (first, kill_switch) = killable_runtime(&store, "first", &graph);
    let limits = RunLimits { active: Some(ms(14_000)), ..RunLimits::default() };
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let run = first.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await;
    let key = run.expect("started").key();
    while steps.count() < 2 {
        tokio::time::sleep(ms(1)).await;
    }
    tokio::time::sleep(ms(10)).await;
    kill_switch.kill();
    let (second, _) = killable_runtime(&store, "second", &graph);
    second.runtime().start_worker().await.expect("works");
    let run = second.runtime().run_handle(&key).await.expect("the run");
    let end = wait_for_outcome_text(&second, &run).await;
    assert_eq!(end, "limit_exceeded: node `work`: the run may be worked on for at most 14s");
    assert_eq!(steps.count(), 3, "eight seconds with the first worker and four with the second");
}
