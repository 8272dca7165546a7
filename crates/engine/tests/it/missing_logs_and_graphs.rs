//! What is gone: logs that were cut, states that do not fit, graphs that nobody has any more. A thread outlives all of
//! it, and every run can be ended.

use std::sync::Arc;

use doran_engine::log;
use doran_engine::store::{
    EntryKind, HistoryStore, IfBusy, NewEntry, RamStore, Retention, RunStatus, ThreadMaintenance,
};
use doran_engine::{
    Cx, EngineError, Event, Graph, GraphHandle, NodeError, RunError, RunKey, Runtime, RuntimeOptions, Snap,
    StartOptions, State, WatchUntil, node,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    CallCounter, EngineTestState, GatedStore, StoreCallCounts, crash_and_take_over, graph_handle_on,
    killable_runtime, local_thread, ms, node_running, node_saying, ram_store, short_lease_options,
    single_node_graph, update_saying,
};

/// A state whose text is overwritten, so that the log outgrows it.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct OverwrittenPageState {
    text: String,
    n: u64,
}

/// A state that cannot read it.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct NumericPageState {
    text: u64,
    n: u64,
}

/// A state that reads it and then breaks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct PanickingState {
    text: String,
    n: u64,
}

impl State for PanickingState {
    type Update = serde_json::Value;

    fn apply(&mut self, _: serde_json::Value) {
        panic!("brittle");
    }
}

fn single_update_graph<S: State>(update: impl Fn() -> S::Update + Copy + Send + Sync + 'static) -> Graph<S> {
    Graph::named()
        .node("a", node(move |_: Snap<S>| async move { Ok::<_, NodeError>(update()) }).end())
        .start("a")
        .build()
        .expect("sound")
}

fn graph_handle_over<S: State>(store: &RamStore, graph: &Graph<S>) -> GraphHandle<S> {
    Runtime::new(Arc::new(store.clone())).register_graph("g", graph).expect("registered")
}

fn page_graph_handle(store: &RamStore) -> GraphHandle<OverwrittenPageState> {
    graph_handle_over(
        store,
        &single_update_graph::<OverwrittenPageState>(|| {
            OverwrittenPageState::update().text("x".repeat(1000))
        }),
    )
}

/// A thread whose log was cut off before its last snapshot.
async fn store_with_cut_log() -> RamStore {
    let store = ram_store();
    let bot = page_graph_handle(&store);
    for n in 0..100 {
        bot.run(&local_thread("t"), OverwrittenPageState::update().n(n)).await.expect("runs");
    }
    let retention = Retention { old_entries: Some(ms(0)), ..Retention::default() };
    assert!(store.gc(&retention).await.expect("cleared").entries > 0, "there was a snapshot to start from");
    store
}

#[tokio::test]
async fn a_thread_goes_on_after_a_state_that_did_not_fit_its_shortened_log() {
    let store = store_with_cut_log().await;
    let wrong = graph_handle_over(&store, &single_update_graph::<NumericPageState>(NumericPageState::update));
    let failed = wrong.run(&local_thread("t"), NumericPageState::update()).await;
    assert!(
        matches!(failed, Err(EngineError::Run(RunError::Failed(failure))) if failure.code == "state_mismatch")
    );
    let brittle = graph_handle_over(&store, &single_update_graph::<PanickingState>(|| serde_json::json!({})));
    let failed = brittle.run(&local_thread("t"), serde_json::json!({})).await;
    assert!(matches!(failed, Err(EngineError::Run(RunError::Failed(failure))) if failure.code == "panic"));
    let right = page_graph_handle(&store);
    assert_eq!(right.state(&local_thread("t")).await.expect("nothing is lost").n, 99);
    let outcome = right.run(&local_thread("t"), OverwrittenPageState::update().n(7)).await.expect("goes on");
    assert_eq!(outcome.finished().expect("finished").n, 7);
}

#[tokio::test]
async fn a_run_on_a_log_that_is_gone_fails_with_a_word_for_it_and_frees_the_thread() {
    let store = store_with_cut_log().await;
    let head = store.thread(&local_thread("t")).await.expect("thread").head;
    let body = serde_json::to_vec(&log::StateEditedEntry::default()).expect("json");
    // An entry that says it is read from the beginning, which is not there any more.
    let unknown_node_entry =
        NewEntry { kind: EntryKind::Edited, body, parent: None, base: 0, snapshot: None };
    store.append_entry(&local_thread("t"), head, unknown_node_entry).await.expect("appended");
    let bot = page_graph_handle(&store);
    for _ in 0..2 {
        let failed = bot.run(&local_thread("t"), OverwrittenPageState::update()).await;
        let Err(EngineError::Run(RunError::Failed(failure))) = failed else { panic!("{failed:?}") };
        assert_eq!(failure.code, "log_missing");
        assert!(failure.message.contains("does not exist"), "{}", failure.message);
    }
    let from = StartOptions { from: Some(head), ..StartOptions::default() };
    let run = bot
        .start_with(&local_thread("t"), Some(OverwrittenPageState::update().n(8)), from)
        .await
        .expect("started");
    let outcome = bot.wait_for_outcome(&run).await.expect("goes on from where the log is whole");
    assert_eq!(outcome.finished().expect("finished").n, 8);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_also_where_its_log_cannot_be_read() {
    let begun = CallCounter::default();
    let counted = begun.clone();
    let hangs = single_node_graph(
        "a",
        node_running(move |_, _| {
            counted.increment();
            std::future::pending()
        }),
    );
    let store = ram_store();
    let (first, kill_switch) = killable_runtime(&store, "first", &hangs);
    let key = first
        .start(&local_thread("t"), EngineTestState::update().text("words"))
        .await
        .expect("started")
        .key();
    while begun.count() == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    kill_switch.kill();
    let runtime = Runtime::with_options(Arc::new(store.clone()), short_lease_options("second"));
    runtime
        .register_graph("g", &single_update_graph::<NumericPageState>(NumericPageState::update))
        .expect("registered");
    runtime.cancel(&key).await.expect("noted");
    runtime.start_worker().await.expect("works");
    assert_eq!(wait_for_end(&store, &key).await, RunStatus::Cancelled);
}

/// Waits until the run ended, and tells how.
async fn wait_for_end(store: &RamStore, run: &RunKey) -> RunStatus {
    for _ in 0..200 {
        let status = store.run(run).await.expect("row").status;
        if status.is_end() {
            return status;
        }
        tokio::time::sleep(ms(50)).await;
    }
    store.run(run).await.expect("row").status
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_graph_that_nobody_has_any_more_can_be_ended_and_its_thread_goes_on() {
    for interrupts in [false, true] {
        let begun = CallCounter::default();
        let counted = begun.clone();
        let hangs = single_node_graph(
            "a",
            node_running(move |_, _| {
                counted.increment();
                std::future::pending()
            }),
        );
        let store = ram_store();
        let (first, kill_switch) = killable_runtime(&store, "first", &hangs);
        let key = first.start(&local_thread("t"), EngineTestState::update()).await.expect("started").key();
        while begun.count() == 0 {
            tokio::time::sleep(ms(1)).await;
        }
        kill_switch.kill();
        let runtime = Runtime::with_options(Arc::new(store.clone()), short_lease_options("second"));
        let bot =
            runtime.register_graph("another", &single_node_graph("a", node_saying("b"))).expect("registered");
        runtime.start_worker().await.expect("works");
        tokio::time::sleep(ms(1000)).await;
        assert_eq!(
            store.run(&key).await.expect("row").status,
            RunStatus::Running,
            "it is not failed for that"
        );
        let next = if interrupts {
            let options = StartOptions { if_busy: IfBusy::Interrupt, ..StartOptions::default() };
            bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options)
                .await
                .expect("accepted")
        } else {
            runtime.cancel(&key).await.expect("noted");
            assert_eq!(wait_for_end(&store, &key).await, RunStatus::Cancelled);
            bot.start(&local_thread("t"), EngineTestState::update()).await.expect("the thread is free")
        };
        assert_eq!(wait_for_end(&store, &next.key()).await, RunStatus::Finished);
        assert_eq!(store.run(&key).await.expect("row").status, RunStatus::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_the_process_with_it_is_given_up_after_a_while() {
    let attempts = CallCounter::default();
    let store = ram_store();
    let deadly = |attempts: CallCounter| {
        single_node_graph(
            "a",
            node_running(move |_, _| {
                attempts.increment();
                std::future::pending()
            }),
        )
    };
    let (mut bot, run) =
        crash_and_take_over(&store, &deadly(attempts.clone()), EngineTestState::update(), || {
            attempts.count() == 1
        })
        .await;
    let key = run.key();
    drop((bot, run));
    for nth in 0..200 {
        if store.run(&key).await.expect("row").status.is_end() {
            break;
        }
        let seen = attempts.count();
        let (next, kill_switch) =
            killable_runtime(&store, &format!("attempt {nth}"), &deadly(attempts.clone()));
        bot = next;
        bot.runtime().start_worker().await.expect("works");
        for _ in 0..100 {
            if attempts.count() > seen || store.run(&key).await.expect("row").status.is_end() {
                break;
            }
            tokio::time::sleep(ms(10)).await;
        }
        kill_switch.kill();
    }
    let row = store.run(&key).await.expect("row");
    assert_eq!(row.error.map(|error| error.code).as_deref(), Some("crash_loop"));
    assert!((51..60).contains(&attempts.count()), "{} attempts", attempts.count());
    let next = graph_handle_on(
        Arc::new(store),
        &single_node_graph("a", node_running(|_, _: Cx| async { Ok(update_saying("well")) })),
    );
    assert_eq!(
        crate::support::run_to_text(&next, EngineTestState::update()).await,
        "well",
        "the thread goes on"
    );
}

#[tokio::test]
async fn a_watcher_gets_an_event_for_events_that_were_removed() {
    let store = store_with_cut_log().await;
    let bot = page_graph_handle(&store);
    let filter = doran_engine::store::RunFilter { limit: 1000, ..Default::default() };
    let runs = store.runs(&local_thread("t").tenant, &filter).await.expect("runs");
    let oldest = runs.last().expect("a run").key();
    let mut watch = bot.runtime().watch(&oldest, 1, WatchUntil::RunEnded).await.expect("a watch");
    let gap = watch.try_next().await.expect("an event").expect("not over");
    assert!(matches!(gap, Event::Removed { after: 1, next: 3 }), "{gap:?}");
    let end = watch.try_next().await.expect("an event").expect("not over");
    assert!(matches!(&end, Event::Entry(3, entry) if entry.kind() == EntryKind::Finished), "{end:?}");
    assert!(watch.try_next().await.expect("over").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_run_of_an_unknown_graph_is_left_alone_until_somebody_knows_it() {
    let store = ram_store();
    let counts = Arc::new(StoreCallCounts::default());
    let graph = single_node_graph("a", node_saying("a"));
    let none = RuntimeOptions { max_runs: 0, ..short_lease_options("submits") };
    let submits = Runtime::with_options(Arc::new(store.clone()), none);
    let handle = submits.register_graph("g", &graph).expect("registered");
    let run = handle.start(&local_thread("t"), EngineTestState::update()).await.expect("accepted");
    let gated = GatedStore { inner: store.clone(), gate: counts.clone() };
    let ignorant = Runtime::with_options(Arc::new(gated), short_lease_options("ignorant"));
    ignorant.start_worker().await.expect("works");
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(counts.take().keys().copied().collect::<Vec<_>>(), ["claim", "due_timers"]);
    assert_eq!(store.run(&run.key()).await.expect("row").epoch, 0, "nobody wrote to it");
    let (knows, _) = killable_runtime(&store, "knows", &graph);
    knows.runtime().start_worker().await.expect("works");
    assert_eq!(wait_for_end(&store, &run.key()).await, RunStatus::Finished);
}
