//! Claims, answers, timers and room that come at the wrong moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use doran_engine::store::{
    Commit, CommitOutcome, Fence, HistoryStore, RamStore, RunStatus, RunStore, StoreError,
};
use doran_engine::{Graph, Runtime};
use tokio::time::Instant;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, StoreCallGate,
    killable_runtime, local_thread, ms, node_running, ram_store, short_lease_options, single_node_graph,
    update_saying, wait_for_outcome_text,
};

/// A node that works for so long and counts how often it did.
fn working_graph(time: u64, calls: &CallCounter) -> Graph<EngineTestState> {
    let calls = calls.clone();
    single_node_graph(
        "work",
        node_running(move |_, _| {
            let calls = calls.clone();
            async move {
                tokio::time::sleep(ms(time)).await;
                calls.increment();
                Ok(update_saying("worked"))
            }
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_told_after_its_lease_is_not_worked_on() {
    let (store, calls) = (ram_store(), CallCounter::default());
    let graph = working_graph(100, &calls);
    let (first, life) = killable_runtime(&store, "first", &graph);
    let run = first.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    life.kill();
    let options = short_lease_options("second");
    tokio::time::sleep(options.lease * 2).await;
    // The keeper of leases does not wait that long, but who starts to work does.
    let late = NthCallGate::new("claim", 1, StoreCallDecision::DelayAnswer(options.lease * 2));
    let gated = GatedStore { inner: store.clone(), gate: late.clone() };
    let second = Runtime::with_options(Arc::new(gated), options);
    let bot = second.register_graph("g", &graph).expect("registered");
    second.start_worker().await.expect("works");
    let handle = second.run_handle(&run.key()).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "worked");
    assert!(late.fired(), "a claim was told late");
    assert_eq!(store.run(&run.key()).await.expect("row").epoch, 3, "it was claimed once more");
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

/// A store of one process that is full until some time.
struct FullStore {
    inner: RamStore,
    until: Instant,
}

impl FullStore {
    async fn plain_call<T>(
        &self,
        _name: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        made.await
    }

    async fn commit_with_room(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        match Instant::now() < self.until {
            true => Err(StoreError::Full("no room".into())),
            false => self.inner.commit(fence, commit).await,
        }
    }
}

doran_engine::delegated_store!(FullStore, call: plain_call, commit: commit_with_room, exclusive: true);

#[tokio::test(start_paused = true)]
async fn a_run_that_was_let_go_for_want_of_room_goes_on_though_nobody_looks_for_runs() {
    let (inner, calls) = (ram_store(), CallCounter::default());
    let store = FullStore { inner: inner.clone(), until: Instant::now() + ms(5_000) };
    let runtime = Runtime::with_options(Arc::new(store), short_lease_options("worker"));
    let bot = runtime.register_graph("g", &working_graph(10, &calls)).expect("registered");
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let ended = async {
        while !inner.run(&run.key()).await.expect("row").status.is_end() {
            tokio::time::sleep(ms(10)).await;
        }
    };
    tokio::time::timeout(ms(60_000), ended).await.expect("it goes on when there is room");
    assert_eq!(inner.run(&run.key()).await.expect("row").status, RunStatus::Finished);
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
