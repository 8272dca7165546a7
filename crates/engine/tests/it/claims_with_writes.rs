//! An answer and the end of a run claim what goes on with the thread in the same write: no second call to the store, and
//! nothing that a crash could get between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doran_engine::store::{HistoryStore, IfBusy, RunStatus};
use doran_engine::{Cx, GraphHandle, NodeError, Runtime, StartOptions};

use crate::support::{
    EngineTestState, GatedStore, StoreCallCounts, StoreCallDecision, StoreCallGate, graph_handle_on,
    local_thread, ms, node_running, outcome_text, ram_store, run_trace, short_lease_options,
    single_node_graph, update_saying, wait_for_outcome_text,
};

async fn enqueue(bot: &GraphHandle<EngineTestState>, text: &str) -> doran_engine::RunHandle {
    let options = StartOptions { if_busy: IfBusy::Enqueue, ..StartOptions::default() };
    let input = EngineTestState::update().text(text);
    bot.start_with(&local_thread("t"), Some(input), options).await.expect("accepted")
}

/// Says what it was given after a while. `fail` fails.
fn slow_graph() -> doran_engine::Graph<EngineTestState> {
    single_node_graph(
        "a",
        node_running(|state, _| async move {
            tokio::time::sleep(ms(100)).await;
            if state.text == "fail" {
                return Err(NodeError::permanent("as asked"));
            }
            Ok(update_saying(state.text.clone()))
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn an_answered_run_goes_on_with_one_call() {
    let counts = Arc::new(StoreCallCounts::default());
    let gated = GatedStore { inner: ram_store(), gate: counts.clone() };
    let asks = node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) });
    let bot = graph_handle_on(Arc::new(gated), &single_node_graph("a", asks));
    let asked = outcome_text(bot.run(&local_thread("t"), EngineTestState::update()).await);
    assert!(asked.contains("asks"), "{asked}");
    counts.take();
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "yes");
    let counts = counts.take();
    assert_eq!((counts.get("signal"), counts.get("claim")), (Some(&1), None), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_queue_are_claimed_by_the_end_of_the_one_before() {
    let counts = Arc::new(StoreCallCounts::default());
    let gated = GatedStore { inner: ram_store(), gate: counts.clone() };
    let bot = graph_handle_on(Arc::new(gated), &slow_graph());
    let first = enqueue(&bot, "1").await;
    let failed = enqueue(&bot, "fail").await;
    let cancelled = enqueue(&bot, "cancelled").await;
    let last = enqueue(&bot, "2").await;
    wait_for_outcome_text(&bot, &first).await;
    assert!(wait_for_outcome_text(&bot, &failed).await.ends_with("as asked"));
    tokio::time::sleep(ms(10)).await;
    bot.runtime().cancel(&cancelled.key()).await.expect("cancelled");
    assert_eq!(wait_for_outcome_text(&bot, &last).await, "1 2");
    let counts = counts.take();
    assert_eq!((counts.get("submit"), counts.get("claim")), (Some(&4), None), "{counts:?}");
}

/// The process is killed right after the commit that ends the first run, before it hears of it.
#[derive(Default)]
struct DiesAtFirstEnd(AtomicBool);

#[async_trait::async_trait]
impl StoreCallGate for DiesAtFirstEnd {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        match self.0.fetch_or(call == "commit", Ordering::SeqCst) {
            true => StoreCallDecision::HangBefore,
            false if call == "commit" => StoreCallDecision::HangAfter,
            false => StoreCallDecision::Pass,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_claimed_by_a_process_that_died_in_the_same_write_is_taken_over() {
    let store = ram_store();
    let gated = GatedStore { inner: store.clone(), gate: Arc::new(DiesAtFirstEnd::default()) };
    let dying = Runtime::with_options(Arc::new(gated), short_lease_options("dying"));
    let bot = dying.register_graph("g", &slow_graph()).expect("registered");
    let (first, next) = (enqueue(&bot, "1").await, enqueue(&bot, "2").await);
    while store.run(&first.key()).await.expect("row").status != RunStatus::Finished {
        tokio::time::sleep(ms(5)).await;
    }
    let row = store.run(&next.key()).await.expect("row");
    assert_eq!(
        (row.status, row.epoch),
        (RunStatus::Running, 1),
        "the write that ended one claimed the other"
    );
    // It lives only in the store from here on.
    let other = Runtime::with_options(Arc::new(store.clone()), short_lease_options("other"));
    other.register_graph("g", &slow_graph()).expect("registered");
    other.start_worker().await.expect("works");
    while store.run(&next.key()).await.expect("row").status != RunStatus::Finished {
        tokio::time::sleep(ms(50)).await;
    }
    assert_eq!(run_trace(&other, &next.key()).await, "started | restarted | a | finished");
}
