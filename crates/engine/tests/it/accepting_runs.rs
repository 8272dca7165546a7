//! A run that was accepted is worked on, also if its caller left or the process was full.

use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::store::{HistoryStore, RunFilter, RunStatus, StoreError};
use doran_engine::{Cx, Graph, Runtime, RuntimeOptions, TenantId, To};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, StoreCallGate, local_thread,
    ms, node_running, node_saying, ram_store, run_to_text, single_node_graph, update_saying,
    wait_for_outcome_text,
};

/// The statuses of all runs, once nothing more happens on its own.
async fn settled_statuses(store: &GatedStore) -> Vec<RunStatus> {
    // Less than a lease: nobody takes over what was left.
    tokio::time::sleep(ms(1000)).await;
    let runs = store.inner.runs(&TenantId::local(), &RunFilter::default()).await.expect("runs");
    runs.iter().map(|run| run.status).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_its_run_is_accepted_leaves_it_to_this_process() {
    let gate = NthCallGate::new("submit", 1, StoreCallDecision::DelayAnswer(ms(20)));
    let store = GatedStore { inner: ram_store(), gate };
    let runtime = Runtime::new(Arc::new(store.clone()));
    let bot = runtime.register_graph("g", &single_node_graph("a", node_saying("a"))).expect("registered");
    let thread = local_thread("t");
    let start = bot.start(&thread, EngineTestState::update());
    assert!(timeout(ms(10), start).await.is_err(), "the client is gone");
    assert_eq!(settled_statuses(&store).await, [RunStatus::Finished]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_its_answer_is_taken_leaves_the_run_to_this_process() {
    let gate = NthCallGate::new("signal", 1, StoreCallDecision::DelayAnswer(ms(20)));
    let store = GatedStore { inner: ram_store(), gate };
    let runtime = Runtime::new(Arc::new(store.clone()));
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) }),
    );
    let bot = runtime.register_graph("g", &graph).expect("registered");
    run_to_text(&bot, EngineTestState::update()).await;
    let questions = runtime.open_questions(&local_thread("t")).await.expect("questions");
    let answers = [(questions[0].1.id.clone(), json!("yes"))].into();
    assert!(timeout(ms(10), runtime.answer(&questions[0].0, &answers)).await.is_err(), "the client is gone");
    assert_eq!(settled_statuses(&store).await, [RunStatus::Finished]);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_acceptance_is_unknown_is_worked_on_by_this_process() {
    let gate = NthCallGate::new("submit", 1, StoreCallDecision::LoseAnswer);
    let store = GatedStore { inner: ram_store(), gate };
    let options = RuntimeOptions { lease: ms(300), scan: ms(50), ..RuntimeOptions::default() };
    let runtime = Runtime::with_options(Arc::new(store.clone()), options);
    let bot = runtime.register_graph("g", &single_node_graph("a", node_saying("a"))).expect("registered");
    let start = bot.start(&local_thread("t"), EngineTestState::update()).await;
    assert!(matches!(start, Err(doran_engine::EngineError::Store(StoreError::Unknown(_)))));
    assert_eq!(settled_statuses(&store).await, [RunStatus::Finished]);
}

/// The second run is handed in while the first is at work, and written when the first has ended.
struct EndBetweenGate {
    submits: CallCounter,
    first_may_end: Arc<Semaphore>,
}

#[async_trait]
impl StoreCallGate for EndBetweenGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "submit" && self.submits.increment() == 2 {
            self.first_may_end.add_permits(1);
            tokio::time::sleep(ms(10)).await;
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_found_the_process_full_starts_when_there_is_room_by_the_time_it_is_accepted() {
    let may_end = Arc::new(Semaphore::new(0));
    let gate = EndBetweenGate { submits: CallCounter::default(), first_may_end: may_end.clone() };
    let store = GatedStore { inner: ram_store(), gate: Arc::new(gate) };
    let options = RuntimeOptions { max_runs: 1, ..RuntimeOptions::default() };
    let runtime = Runtime::with_options(Arc::new(store.clone()), options);
    let graph = single_node_graph(
        "a",
        node_running(move |state, _| {
            let may_end = may_end.clone();
            async move {
                if state.said == ["first"] {
                    drop(may_end.acquire().await);
                }
                Ok(update_saying("a"))
            }
        }),
    );
    let bot = runtime.register_graph("g", &graph).expect("registered");
    let first = bot.start(&local_thread("one"), update_saying("first")).await.expect("started");
    bot.start(&local_thread("two"), update_saying("second")).await.expect("accepted");
    wait_for_outcome_text(&bot, &first).await;
    assert_eq!(settled_statuses(&store).await, [RunStatus::Finished; 2]);
}

#[tokio::test(start_paused = true)]
async fn no_more_tasks_of_a_step_are_at_work_than_the_options_allow() {
    let (working, most) = (Arc::new(Semaphore::new(3)), CallCounter::default());
    let (permits, crowded) = (working.clone(), most.clone());
    let item = node_running(move |_, _| {
        let (permits, crowded) = (permits.clone(), crowded.clone());
        async move {
            match permits.try_acquire() {
                Ok(_permit) => tokio::time::sleep(ms(10)).await,
                Err(_) => drop(crowded.increment()),
            }
            Ok(EngineTestState::update().sum(1))
        }
    });
    let graph = Graph::named()
        .node(
            "split",
            node_saying("split").branch(["item"], |_: &EngineTestState| {
                To::Each("item".to_owned(), (0..20).map(Into::into).collect())
            }),
        )
        .node("item", item.end())
        .start("split")
        .build()
        .expect("sound");
    let options = RuntimeOptions { max_tasks_per_step: 3, ..RuntimeOptions::default() };
    let runtime = Runtime::with_options(Arc::new(ram_store()), options);
    let bot = runtime.register_graph("g", &graph).expect("registered");
    let end = bot.run(&local_thread("t"), EngineTestState::update()).await.expect("runs");
    assert_eq!(end.finished().expect("finished").sum, 20);
    assert_eq!(most.count(), 0, "never more than three at once");
}
