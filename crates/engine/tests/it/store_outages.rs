//! A store that is away for a while, full, or does not know what it wrote: what is held in memory is written when it
//! comes back, and nothing is done twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_engine::store::{
    Commit, CommitOutcome, Fence, HistoryStore, RamStore, RunStatus, RunStore, StoreError,
};
use doran_engine::{Cx, Graph, NodeError, Runtime, RuntimeOptions};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, StoreCallGate, local_thread,
    ms, node_running, node_saying, ram_store, run_trace, short_lease_options, single_node_graph,
    update_saying, wait_for_outcome_text,
};

/// Three steps; the second makes a call and fans out.
fn three_step_graph(calls: CallCounter) -> Graph<EngineTestState> {
    let once = node_running(move |_, cx: Cx| {
        let calls = calls.clone();
        async move {
            let nth: u32 = cx.effect("call", async move { Ok::<_, NodeError>(calls.increment()) }).await?;
            Ok(update_saying(format!("call{nth}")))
        }
    });
    Graph::named()
        .node("a", node_saying("a").then_all(["b", "c"]))
        .node("b", once.then("d"))
        .node("c", node_saying("c").then("d"))
        .node("d", node_saying("d").end())
        .start("a")
        .build()
        .expect("sound")
}

/// What a store may do instead of writing, with a name.
type NamedStoreRefusal = (&'static str, fn() -> StoreCallDecision);

fn store_refusals() -> [NamedStoreRefusal; 4] {
    [
        ("full", || StoreCallDecision::Refuse(StoreError::Full("no room".into()))),
        ("unavailable", || StoreCallDecision::Refuse(StoreError::Unavailable("gone".into()))),
        ("unknown, not written", || StoreCallDecision::Refuse(StoreError::Unknown("who knows".into()))),
        ("unknown, written", || StoreCallDecision::LoseAnswer),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_in_passing_is_tried_again_and_nothing_runs_twice() {
    for (name, verdict) in store_refusals() {
        for nth in 1..=4 {
            let calls = CallCounter::default();
            let gate = NthCallGate::new("commit", nth, verdict());
            let store = GatedStore { inner: ram_store(), gate: gate.clone() };
            let runtime = Runtime::with_options(Arc::new(store), short_lease_options("worker"));
            let bot = runtime.register_graph("g", &three_step_graph(calls.clone())).expect("registered");
            let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
            let case = format!("{name} at commit {nth}");
            assert_eq!(wait_for_outcome_text(&bot, &run).await, "a call1 c d", "{case}");
            assert!(gate.fired(), "{case}");
            assert_eq!(calls.count(), 1, "{case}");
            assert_eq!(run_trace(&runtime, &run.key()).await, "started | a | b+c | d | finished", "{case}");
            assert!(runtime.unknown_write_reason().borrow().is_none(), "{case}: it was found out");
        }
    }
}

/// While it is down every call is refused, and calls that are under way lose their answer.
struct OutageGate {
    from: Instant,
    until: Instant,
    /// Calls that came when it went down were written.
    writes_first: AtomicBool,
}

#[async_trait]
impl StoreCallGate for OutageGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        let now = Instant::now();
        if now < self.from || now >= self.until {
            return StoreCallDecision::Pass;
        }
        if call == "commit" && self.writes_first.fetch_xor(true, Ordering::SeqCst) {
            return StoreCallDecision::LoseAnswer;
        }
        let error = if call == "commit" { StoreError::Unknown } else { StoreError::Unavailable };
        StoreCallDecision::Refuse(error("the database restarts".into()))
    }
}

/// A model call, a payment that must not happen twice, and a model call again, each of 300 ms.
fn paying_graph(calls: &CallCounter, payments: &CallCounter) -> Graph<EngineTestState> {
    let node_calling = |counter: &CallCounter, once: bool| {
        let counter = counter.clone();
        node_running(move |_, cx: Cx| {
            let counter = counter.clone();
            async move {
                let call = async move {
                    counter.increment();
                    tokio::time::sleep(ms(300)).await;
                    Ok::<_, NodeError>(())
                };
                if once {
                    cx.effect_at_most_once("pay", |_| call).await?;
                } else {
                    cx.closing_effect("model", call).await?;
                }
                Ok(update_saying("done"))
            }
        })
    };
    Graph::named()
        .node("first", node_calling(calls, false).then("pay"))
        .node("pay", node_calling(payments, true).then("last"))
        .node("last", node_calling(calls, false).end())
        .start("first")
        .build()
        .expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_store_that_restarts_repeats_no_call_whose_result_is_held() {
    let (calls, payments) = (CallCounter::default(), CallCounter::default());
    let started = Instant::now();
    let gate = OutageGate {
        from: started + ms(250),
        until: started + ms(1250),
        writes_first: AtomicBool::default(),
    };
    let store = GatedStore { inner: ram_store(), gate: Arc::new(gate) };
    let runtime = Runtime::with_options(Arc::new(store), RuntimeOptions::default());
    let bot = runtime.register_graph("g", &paying_graph(&calls, &payments)).expect("registered");
    let runs = (0..20u64).map(|n| {
        let bot = bot.clone();
        async move {
            // They are at different points when it goes down.
            tokio::time::sleep(ms(10 * n)).await;
            let run = bot.start(&local_thread(&format!("t{n}")), EngineTestState::update()).await;
            wait_for_outcome_text(&bot, &run.expect("started")).await
        }
    });
    assert!(join_all(runs).await.iter().all(|end| end == "done done done"));
    assert_eq!((calls.count(), payments.count()), (40, 20));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_store_stays_away_is_let_go_and_finishes_later() {
    let started = Instant::now();
    let gate =
        OutageGate { from: started + ms(1), until: started + ms(2000), writes_first: AtomicBool::default() };
    let store = GatedStore { inner: ram_store(), gate: Arc::new(gate) };
    let runtime = Runtime::with_options(Arc::new(store.clone()), short_lease_options("worker"));
    let slow = node_running(|_, _| async {
        tokio::time::sleep(ms(5)).await;
        Ok(update_saying("a"))
    });
    let bot = runtime.register_graph("g", &single_node_graph("a", slow)).expect("registered");
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    while store.inner.run(&run.key()).await.expect("row").status != RunStatus::Finished {
        tokio::time::sleep(ms(50)).await;
    }
    assert!(run_trace(&runtime, &run.key()).await.starts_with("started | "));
}

/// A store to which one write arrives late: nobody knows whether it happened, then it has not, and before the next try it has.
struct LateWriteStore {
    inner: RamStore,
    /// How many writes with entries come before it.
    left: Mutex<u32>,
    late: Mutex<Option<(Fence, Commit)>>,
}

impl LateWriteStore {
    async fn plain_call<T>(
        &self,
        _name: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        made.await
    }

    async fn late_commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let late = self.late.lock().expect("no panic").take();
        if let Some((fence, commit)) = late {
            self.inner.commit(&fence, commit).await?;
        } else if !commit.entries.is_empty() {
            let mut left = self.left.lock().expect("no panic");
            *left = left.wrapping_sub(1);
            if *left == 0 {
                *self.late.lock().expect("no panic") = Some((fence.clone(), commit));
                return Err(StoreError::Unknown("it is under way".into()));
            }
        }
        self.inner.commit(fence, commit).await
    }
}

doran_engine::delegated_store!(LateWriteStore, call: plain_call, commit: late_commit, exclusive: false);

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_while_it_is_tried_again_is_found() {
    for nth in 1..=3 {
        let calls = CallCounter::default();
        let store = LateWriteStore { inner: ram_store(), left: Mutex::new(nth), late: Mutex::default() };
        let runtime = Runtime::new(Arc::new(store));
        let bot = runtime.register_graph("g", &three_step_graph(calls.clone())).expect("registered");
        let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        assert_eq!(wait_for_outcome_text(&bot, &run).await, "a call1 c d", "the write {nth}");
        assert_eq!(calls.count(), 1, "the write {nth}");
        let trace = run_trace(bot.runtime(), &run.key()).await;
        assert_eq!(trace, "started | a | b+c | d | finished", "the write {nth}");
    }
}
