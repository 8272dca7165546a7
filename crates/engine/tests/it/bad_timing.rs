//! Claims, answers and timers that come at the wrong moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use async_trait::async_trait;
use doran_engine::store::{HistoryStore, RamStore, RunStatus};
use doran_engine::{Graph, GraphHandle, RunKey, Runtime, RuntimeOptions};

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, StoreCallGate, local_thread,
    ms, node_running, ram_store, short_lease_options, single_node_graph, update_saying,
    wait_for_outcome_text,
};

/// A node that counts how often it begins, and works for a second.
fn counting_graph(begun: &CallCounter) -> Graph<EngineTestState> {
    let begun = begun.clone();
    single_node_graph(
        "work",
        node_running(move |_, _| {
            begun.increment();
            async {
                tokio::time::sleep(ms(1_000)).await;
                Ok(update_saying("worked"))
            }
        }),
    )
}

/// A run that waits in the store for somebody with room.
async fn accepted_run(store: &RamStore, graph: &Graph<EngineTestState>) -> RunKey {
    let options = RuntimeOptions { max_runs: 0, ..short_lease_options("no room") };
    let runtime = Runtime::with_options(Arc::new(store.clone()), options);
    let bot = runtime.register_graph("g", graph).expect("registered");
    bot.start(&local_thread("t"), EngineTestState::update()).await.expect("accepted").key()
}

/// A process with a lease of 300 ms whose store decides about one call of a kind.
fn process_with_gate(
    store: &RamStore,
    graph: &Graph<EngineTestState>,
    options: RuntimeOptions,
    gate: Arc<NthCallGate>,
) -> GraphHandle<EngineTestState> {
    let gated = GatedStore { inner: store.clone(), gate };
    Runtime::with_options(Arc::new(gated), options).register_graph("g", graph).expect("registered")
}

/// Waits until a run has this claim.
async fn wait_for_claim(store: &RamStore, run: &RunKey, epoch: u64) {
    while store.run(run).await.expect("row").epoch < epoch {
        tokio::time::sleep(ms(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_comes_after_its_lease_is_not_worked_on() {
    let (store, begun) = (ram_store(), CallCounter::default());
    let graph = counting_graph(&begun);
    let run = accepted_run(&store, &graph).await;
    // It looks once, when it starts.
    let options = RuntimeOptions { scan: ms(600_000), ..short_lease_options("first") };
    // Not at a moment at which it renews its leases.
    let late = NthCallGate::new("claim", 1, StoreCallDecision::DelayAnswer(ms(450)));
    let first = process_with_gate(&store, &graph, options, late);
    let first_looks = tokio::spawn(async move {
        first.runtime().start_worker().await.expect("works");
        first
    });
    wait_for_claim(&store, &run, 1).await;
    tokio::time::sleep(ms(310)).await;
    // It has the run, and is so slow to read the log that nothing there tells of its claim yet.
    let slow = NthCallGate::new("load", 1, StoreCallDecision::DelayAnswer(ms(200)));
    let second = process_with_gate(&store, &graph, short_lease_options("second"), slow);
    second.runtime().start_worker().await.expect("works");
    wait_for_claim(&store, &run, 2).await;
    assert!(!first_looks.is_finished(), "the first one gets its reply later");
    let handle = second.runtime().run_handle(&run).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&second, &handle).await, "worked");
    drop(first_looks.await.expect("no panic"));
    assert_eq!(begun.count(), 1, "only one of them works on it");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_comes_after_a_newer_one_does_not_end_the_newer_one() {
    let (began, ahead, begun) =
        (tokio::time::Instant::now(), Arc::new(AtomicI64::new(0)), CallCounter::default());
    let jump = ahead.clone();
    let store = RamStore::with_clock(Arc::new(move || {
        i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX) + jump.load(Ordering::SeqCst)
    }));
    let graph = counting_graph(&begun);
    let run = accepted_run(&store, &graph).await;
    let late = NthCallGate::new("claim", 1, StoreCallDecision::DelayAnswer(ms(200)));
    let bot = process_with_gate(&store, &graph, short_lease_options("worker"), late);
    let runtime = bot.runtime().clone();
    let looks = tokio::spawn(async move { runtime.start_worker().await });
    wait_for_claim(&store, &run, 1).await;
    // The clock of the store jumps, so that the claim has run out before this process gets the reply.
    ahead.store(60_000, Ordering::SeqCst);
    wait_for_claim(&store, &run, 2).await;
    assert!(!looks.is_finished(), "the reply to the older claim comes after that to the newer one");
    looks.await.expect("no panic").expect("works");
    let handle = bot.runtime().run_handle(&run).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "worked");
    assert_eq!(begun.count(), 1, "the newer claim went on");
    assert_eq!(store.run(&run).await.expect("row").epoch, 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_answered_before_its_worker_knows_of_the_pause_keeps_its_new_claim() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let asks = node_running(move |_, cx| {
        let calls = counted.clone();
        async move {
            let answer: String = cx.ask("?").await?;
            calls.increment();
            // Longer than a lease that nobody renews.
            tokio::time::sleep(ms(3_000)).await;
            Ok(update_saying(answer))
        }
    });
    let store = ram_store();
    let late = NthCallGate::new("commit", 1, StoreCallDecision::DelayAnswer(ms(50)));
    let gated = GatedStore { inner: store.clone(), gate: late.clone() };
    let runtime = Runtime::with_options(Arc::new(gated), short_lease_options("worker"));
    let bot = runtime.register_graph("g", &single_node_graph("ask", asks)).expect("registered");
    runtime.start_worker().await.expect("works");
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    while store.run(&run.key()).await.expect("row").status != RunStatus::Paused {
        tokio::time::sleep(ms(1)).await;
    }
    assert!(late.fired(), "the worker does not know yet");
    let answers = [("0.0:ask#0".to_owned(), "yes".into())].into_iter().collect();
    let run = runtime.answer(&run.key(), &answers).await.expect("answered");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "yes");
    assert_eq!(calls.count(), 1, "its lease was renewed");
}

/// The pause of a run is written so late that its timer rings before.
#[derive(Default)]
struct LatePauseGate(AtomicBool);

#[async_trait]
impl StoreCallGate for LatePauseGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" && !self.0.swap(true, Ordering::SeqCst) {
            tokio::time::sleep(ms(5_000)).await;
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_rings_before_its_run_sleeps_rings_again() {
    let sleeps = node_running(|_, cx| async move {
        cx.sleep(ms(1_000)).await?;
        Ok(update_saying("slept"))
    });
    let gated = GatedStore { inner: ram_store(), gate: Arc::new(LatePauseGate::default()) };
    let runtime = Runtime::new(Arc::new(gated));
    let bot = runtime.register_graph("g", &single_node_graph("sleep", sleeps)).expect("registered");
    runtime.start_worker().await.expect("works");
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let ended = async {
        loop {
            let handle = runtime.run_handle(&run.key()).await.expect("the run");
            let outcome = wait_for_outcome_text(&bot, &handle).await;
            if outcome == "slept" {
                return;
            }
            tokio::time::sleep(ms(100)).await;
        }
    };
    tokio::time::timeout(ms(600_000), ended).await.expect("it wakes up");
}
