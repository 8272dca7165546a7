//! Answers and timers that come at the wrong moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use doran_engine::Runtime;
use doran_engine::store::{HistoryStore, RunStatus};

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, StoreCallGate, local_thread,
    ms, node_running, ram_store, short_lease_options, single_node_graph, update_saying,
    wait_for_outcome_text,
};

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
            let told = wait_for_outcome_text(&bot, &handle).await;
            if told == "slept" {
                return;
            }
            tokio::time::sleep(ms(100)).await;
        }
    };
    tokio::time::timeout(ms(600_000), ended).await.expect("it wakes up");
}
