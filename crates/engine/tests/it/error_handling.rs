//! What must not work, and how it says so: unknown names, graphs and states that changed, and a store that refuses,
//! cannot be reached, or does not know.

use std::sync::Arc;

use doran_engine::log;
use doran_engine::store::{
    EntryKind, HistoryStore, NewEntry, RamStore, RunStatus, StoreError, ThreadMaintenance,
};
use doran_engine::{
    Cx, EngineError, Graph, GraphHandle, NodeError, Runtime, RuntimeOptions, Snap, StartOptions, State, node,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{
    EngineTestState, GatedStore, NthCallGate, StoreCallDecision, graph_handle, graph_handle_on, local_thread,
    ms, node_running, node_saying, outcome_text, ram_store, run_to_text, run_trace, short_lease_options,
    single_node_graph, update_saying, wait_for_outcome_text,
};

#[tokio::test]
async fn unknown_names_are_errors() {
    let bot = graph_handle(&single_node_graph("a", node_saying("a")));
    let runtime = bot.runtime();
    let error_text = |error: Option<EngineError>| error.expect("an error").to_string();
    let start = runtime.start("ghost", &local_thread("t"), None, StartOptions::default()).await;
    assert_eq!(error_text(start.err()), "there is no graph called `ghost`");
    assert_eq!(
        error_text(runtime.view("g", &local_thread("ghost"), None).await.err()),
        "thread `ghost` does not exist"
    );
    assert_eq!(error_text(bot.state(&local_thread("ghost")).await.err()), "thread `ghost` does not exist");
    let again = runtime.register_graph("g", &single_node_graph("a", node_saying("a")));
    assert_eq!(error_text(again.err()), "a graph called `g` is registered already");
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_for_outcome_text(&bot, &run).await;
    assert_eq!(
        error_text(runtime.view("g", &local_thread("t"), Some(99)).await.err()),
        "entry `99` does not exist"
    );
    let finished = runtime.retry(&run.key()).await.err();
    assert!(error_text(finished).ends_with("did not fail"));
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_refused_and_nothing_is_written() {
    let bot = graph_handle(&single_node_graph("a", node_saying("a")));
    let input = json!({ "n": "many" });
    let start = bot.runtime().start("g", &local_thread("t"), Some(&input), StartOptions::default()).await;
    let error = start.expect_err("refused").to_string();
    assert!(
        error.starts_with("the input does not fit the state of `g`: invalid type: string \"many\""),
        "{error}"
    );
    assert!(bot.runtime().store().thread(&local_thread("t")).await.is_err(), "the thread was not even made");
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_graph_that_this_process_does_not_know_waits_for_one_that_does() {
    let store = ram_store();
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) }),
    );
    let first = Runtime::with_options(Arc::new(store.clone()), short_lease_options("first"))
        .register_graph("g", &graph)
        .expect("registered");
    run_to_text(&first, EngineTestState::update()).await;
    let stranger = Runtime::with_options(Arc::new(store.clone()), short_lease_options("stranger"));
    stranger.start_worker().await.expect("works");
    let questions = stranger.open_questions(&local_thread("t")).await.expect("questions");
    let answers = [(questions[0].1.id.clone(), json!("yes"))].into();
    let handle = stranger.answer(&questions[0].0, &answers).await.expect("taken");
    tokio::time::sleep(ms(1000)).await;
    let row = store.run(&handle.key()).await.expect("row");
    assert_eq!(row.status, RunStatus::Running, "it is not failed for that");
    stranger.shutdown(ms(10)).await;
    let second = Runtime::with_options(Arc::new(store), short_lease_options("second"))
        .register_graph("g", &graph)
        .expect("registered");
    second.runtime().start_worker().await.expect("works");
    let handle = second.runtime().run_handle(&handle.key()).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&second, &handle).await, "yes");
}

#[tokio::test(start_paused = true)]
async fn many_runs_of_unknown_graphs_hold_up_nobody() {
    let store = ram_store();
    let full = RuntimeOptions { max_runs: 0, ..short_lease_options("full") };
    let full = Runtime::with_options(Arc::new(store.clone()), full);
    let known = full.register_graph("g", &single_node_graph("a", node_saying("a"))).expect("registered");
    let gone = full.register_graph("gone", &single_node_graph("a", node_saying("a"))).expect("registered");
    for number in 0..200 {
        gone.start(&local_thread(&format!("gone{number}")), EngineTestState::update()).await.expect("queued");
    }
    let waits = known.start(&local_thread("t"), EngineTestState::update()).await.expect("queued").key();
    full.shutdown(ms(10)).await;
    let second = Runtime::with_options(Arc::new(store.clone()), short_lease_options("second"));
    let second = second.register_graph("g", &single_node_graph("a", node_saying("a"))).expect("registered");
    second.runtime().start_worker().await.expect("works");
    let handle = second.runtime().run_handle(&waits).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&second, &handle).await, "a");
    let filter = doran_engine::store::RunFilter { status: Some(RunStatus::Finished), ..Default::default() };
    let finished = store.runs(&local_thread("t").tenant, &filter).await.expect("runs");
    assert_eq!(finished.len(), 1, "and the others are still there for a runtime that knows their graph");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_taken_is_no_error_when_nobody_can_go_on_with_it_at_once() {
    let (store, leave) = (ram_store(), Arc::new(tokio::sync::Notify::new()));
    let left = leave.clone();
    let node = node_running(move |state, cx: Cx| {
        let left = left.clone();
        async move {
            if state.text == "holds" {
                left.notified().await;
                return Ok(update_saying("held"));
            }
            Ok(update_saying(cx.ask::<String, _>("?").await?))
        }
    });
    let options = RuntimeOptions { max_runs: 1, ..short_lease_options("w") };
    let bot = Runtime::with_options(Arc::new(store.clone()), options)
        .register_graph("g", &single_node_graph("a", node))
        .expect("registered");
    run_to_text(&bot, EngineTestState::update()).await;
    let questions = bot.runtime().open_questions(&local_thread("t")).await.expect("questions");
    let holds = EngineTestState::update().text("holds");
    let holder = bot.start(&local_thread("holds"), holds).await.expect("started");
    let answers = [(questions[0].1.id.clone(), json!("yes"))].into();
    let handle = bot.runtime().answer(&questions[0].0, &answers).await.expect("taken");
    let row = store.run(&handle.key()).await.expect("row");
    assert_eq!((row.status, row.epoch), (RunStatus::Running, 1), "there is no room for it");
    leave.notify_one();
    assert_eq!(wait_for_outcome_text(&bot, &holder).await, "held");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "yes", "claimed when there was room");
}

/// `a → ask → last`, where the last node has this name.
fn asking_graph(ask: &str, last: &'static str) -> Graph<EngineTestState> {
    Graph::named()
        .node("a", node_saying("a").then(ask))
        .node(
            ask,
            node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) })
                .then(last),
        )
        .node(last, node_saying(last).end())
        .start("a")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_run_of_a_graph_that_changed_stops_until_somebody_accepts_it() {
    let store = Arc::new(ram_store());
    let old = graph_handle_on(store.clone(), &asking_graph("ask", "old"));
    run_to_text(&old, EngineTestState::update()).await;
    let new = graph_handle_on(store, &asking_graph("ask", "new"));
    let end = outcome_text(new.resume(&local_thread("t"), "yes").await);
    assert_eq!(end, "graph_changed: graph `g` or its state changed since this run was accepted");
    let runs =
        new.runtime().store().runs(&local_thread("t").tenant, &Default::default()).await.expect("runs");
    let again = new.runtime().retry(&runs[0].key()).await.expect("accepted");
    assert_eq!(wait_for_outcome_text(&new, &again).await, "a yes new", "the answer was not lost");
    assert_eq!(
        run_trace(new.runtime(), &runs[0].key()).await,
        "started | a | paused by ask | resumed | failed graph_changed | restarted | ask | new | finished"
    );
}

#[tokio::test]
async fn a_run_at_a_node_that_is_gone_fails_and_the_thread_goes_on() {
    let store = Arc::new(ram_store());
    let old = graph_handle_on(store.clone(), &asking_graph("ask", "last"));
    run_to_text(&old, EngineTestState::update()).await;
    let new = graph_handle_on(store, &asking_graph("question", "last"));
    assert!(outcome_text(new.resume(&local_thread("t"), "yes").await).starts_with("graph_changed"));
    let runs =
        new.runtime().store().runs(&local_thread("t").tenant, &Default::default()).await.expect("runs");
    let again = new.runtime().retry(&runs[0].key()).await.expect("accepted");
    assert_eq!(
        wait_for_outcome_text(&new, &again).await,
        "graph_changed: the thread stands at node `ask` since entry 2, and the graph has no such node"
    );
    assert_eq!(new.state(&local_thread("t")).await.expect("the state can be read").said_text(), "a");
    let next = new.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert!(wait_for_outcome_text(&new, &next).await.contains("asks"), "a new run begins at the beginning");
    assert_eq!(outcome_text(new.resume(&local_thread("t"), "yes").await), "a a yes last");
}

#[tokio::test]
async fn a_thread_outlives_the_renaming_of_nodes_it_went_through() {
    let graph = |middle: &'static str| {
        Graph::named()
            .node("a", node_saying("a").then(middle))
            .node(middle, node_saying(middle).end())
            .start("a")
            .build()
            .expect("sound")
    };
    let store = Arc::new(ram_store());
    assert_eq!(
        run_to_text(&graph_handle_on(store.clone(), &graph("old")), EngineTestState::update()).await,
        "a old"
    );
    let new = graph_handle_on(store, &graph("new"));
    assert_eq!(run_to_text(&new, EngineTestState::update()).await, "a old a new");
    assert_eq!(
        new.state_at(&local_thread("t"), Some(2)).await.expect("old entries can be read").said_text(),
        "a"
    );
}

/// The same graph over another state.
fn single_update_graph<S: State>(update: fn() -> S::Update) -> Graph<S> {
    Graph::named()
        .node("a", node(move |_: Snap<S>| async move { Ok::<_, NodeError>(update()) }).end())
        .start("a")
        .build()
        .expect("sound")
}

fn graph_handle_over<S: State>(store: &RamStore, graph: &Graph<S>) -> GraphHandle<S> {
    Runtime::new(Arc::new(store.clone())).register_graph("g", graph).expect("registered")
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct StateBeforeChange {
    text: String,
    n: u32,
}

#[derive(State, Clone, Debug, Serialize, Deserialize)]
struct StateWithAddedField {
    text: String,
    n: u32,
    added: String,
}

impl Default for StateWithAddedField {
    fn default() -> Self {
        Self { text: String::new(), n: 0, added: "as it begins".into() }
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct StateWithChangedFieldType {
    text: String,
    n: Vec<String>,
}

#[tokio::test]
async fn a_field_that_was_added_has_its_default_in_old_threads() {
    let store = ram_store();
    let before = graph_handle_over(
        &store,
        &single_update_graph::<StateBeforeChange>(|| StateBeforeChange::update().n(1)),
    );
    // Enough that is overwritten for a snapshot of the whole state to be kept.
    for _ in 0..60 {
        before
            .run(&local_thread("t"), StateBeforeChange::update().text("x".repeat(4000)))
            .await
            .expect("runs");
    }
    let head = store.thread(&local_thread("t")).await.expect("thread").head;
    let loaded = store.load(&local_thread("t"), None).await.expect("loaded");
    assert!(loaded.snapshot.is_some(), "there is a snapshot to read");
    let after = graph_handle_over(
        &store,
        &single_update_graph::<StateWithAddedField>(|| StateWithAddedField::update().n(2)),
    );
    for at in [2, head] {
        let state = after.state_at(&local_thread("t"), Some(at)).await.expect("readable");
        assert_eq!(
            (state.n, state.text.len(), state.added.as_str()),
            (u32::from(at > 1), 4000, "as it begins")
        );
    }
    let outcome = after.run(&local_thread("t"), StateWithAddedField::update()).await.expect("goes on");
    assert_eq!(outcome.finished().expect("finished").n, 2);
}

#[tokio::test]
async fn a_stored_update_that_does_not_fit_is_an_error_that_names_its_entry_and_loses_nothing() {
    let store = ram_store();
    let before = graph_handle_over(
        &store,
        &single_update_graph::<StateBeforeChange>(|| StateBeforeChange::update().n(1)),
    );
    before.run(&local_thread("t"), StateBeforeChange::update().text("hello")).await.expect("runs");
    let other = graph_handle_over(
        &store,
        &single_update_graph::<StateWithChangedFieldType>(StateWithChangedFieldType::update),
    );
    let error = other.state(&local_thread("t")).await.expect_err("does not fit").to_string();
    assert!(
        error.starts_with("entry 2 does not fit the graph and its state: invalid type: integer `1`"),
        "{error}"
    );
    let error = other
        .run(&local_thread("t"), StateWithChangedFieldType::update())
        .await
        .expect_err("does not fit")
        .to_string();
    assert!(error.starts_with("run failed (state_mismatch): entry 2 does not fit"), "{error}");
    let state = before.state(&local_thread("t")).await.expect("still there");
    assert_eq!((state.text.as_str(), state.n), ("hello", 1));
    before.run(&local_thread("t"), StateBeforeChange::update()).await.expect("and goes on");
}

#[tokio::test]
async fn a_log_of_a_newer_program_is_refused_and_kept() {
    let store = ram_store();
    let bot = graph_handle_over(&store, &single_update_graph::<StateBeforeChange>(StateBeforeChange::update));
    bot.run(&local_thread("t"), StateBeforeChange::update().n(7)).await.expect("runs");
    let body = serde_json::to_vec(&json!({ "v": log::LOG_FORMAT_VERSION + 1, "graph": "g" })).expect("json");
    let entry = NewEntry { kind: EntryKind::Started, body, parent: None, base: 0, snapshot: None };
    let head = store.thread(&local_thread("t")).await.expect("thread").head;
    store.append_entry(&local_thread("t"), head, entry).await.expect("appended");
    let error = bot.state(&local_thread("t")).await.expect_err("newer").to_string();
    assert_eq!(
        error,
        "entry 4 does not fit the graph and its state: it has format 2, this program knows up to 1"
    );
    assert_eq!(bot.state_at(&local_thread("t"), Some(head)).await.expect("older entries are readable").n, 7);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_outcome_is_unknown_raises_the_alarm_and_its_run_is_not_lost() {
    for lost in [false, true] {
        let verdict = if lost {
            StoreCallDecision::LoseAnswer
        } else {
            StoreCallDecision::Refuse(StoreError::Unknown("who knows".into()))
        };
        let gate = NthCallGate::new("submit", 1, verdict);
        let store = GatedStore { inner: ram_store(), gate };
        let runtime = Runtime::with_options(Arc::new(store.clone()), short_lease_options("worker"));
        let bot = runtime.register_graph("g", &single_node_graph("a", node_saying("a"))).expect("registered");
        runtime.start_worker().await.expect("works");
        let start = bot.start(&local_thread("t"), EngineTestState::update()).await;
        assert!(matches!(start, Err(EngineError::Store(StoreError::Unknown(_)))));
        assert!(runtime.unknown_write_reason().borrow().is_some(), "written: {lost}");
        let next = Runtime::with_options(Arc::new(store.inner.clone()), short_lease_options("next"));
        let next = next.register_graph("g", &single_node_graph("a", node_saying("a"))).expect("registered");
        next.runtime().start_worker().await.expect("works");
        tokio::time::sleep(ms(2000)).await;
        let runs = store.inner.runs(&local_thread("t").tenant, &Default::default()).await.expect("runs");
        assert_eq!(runs.len(), usize::from(lost));
        assert!(runs.iter().all(|run| run.status == RunStatus::Finished), "{runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_known_also_when_the_answer_to_its_last_write_is_lost() {
    let gate = NthCallGate::new("commit", 1, StoreCallDecision::LoseAnswer);
    let store = GatedStore { inner: ram_store(), gate };
    let bot = graph_handle_on(Arc::new(store), &single_node_graph("a", node_saying("a")));
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_hands_runs_over_at_a_step_and_the_next_goes_on_at_once() {
    let slow = || {
        let step = |word: &'static str| {
            node_running(move |_, _| async move {
                tokio::time::sleep(ms(100)).await;
                Ok(update_saying(word))
            })
        };
        Graph::named()
            .node("a", step("a").then("b"))
            .node("b", step("b").then("c"))
            .node("c", step("c").end())
            .start("a")
            .build()
            .expect("sound")
    };
    let store = ram_store();
    let first = graph_handle_on(Arc::new(store.clone()), &slow());
    let handle = first.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    tokio::time::sleep(ms(150)).await;
    first.runtime().shutdown(ms(1000)).await;
    assert_eq!(
        wait_for_outcome_text(&first, &handle).await,
        "the run left this process: the process is shutting down"
    );
    let refused =
        first.start(&local_thread("u"), EngineTestState::update()).await.expect_err("stopped").to_string();
    assert_eq!(refused, "the runtime stopped: it is shutting down");
    let started = tokio::time::Instant::now();
    let second = graph_handle_on(Arc::new(store), &slow());
    second.runtime().start_worker().await.expect("works");
    let handle = second.runtime().run_handle(&handle.key()).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&second, &handle).await, "a b c");
    assert!(started.elapsed() < ms(500), "the lease was handed over: {:?}", started.elapsed());
    assert_eq!(
        run_trace(second.runtime(), &handle.key()).await,
        "started | a | b | restarted | c | finished"
    );
}

/// A field that is not written while it is empty, and then missed.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct OmittedFieldState {
    #[serde(skip_serializing_if = "String::is_empty")]
    aside: String,
    text: String,
    n: u32,
}

#[tokio::test]
async fn a_state_that_cannot_be_read_back_has_no_snapshot_and_its_thread_goes_on() {
    let grows = node(|state: Snap<OmittedFieldState>| async move {
        Ok::<_, NodeError>(OmittedFieldState::update().text("x".repeat(20_000)).n(state.n + 1))
    });
    let graph = Graph::named()
        .node("a", grows.when(|state: &OmittedFieldState| !state.n.is_multiple_of(20), "a", "b"))
        .node(
            "b",
            node(|_: Snap<OmittedFieldState>| async { Ok::<_, NodeError>(OmittedFieldState::update()) })
                .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let store = ram_store();
    for round in 1..3 {
        // Nothing is remembered from one round to the next but what the store has.
        let bot = Runtime::new(Arc::new(store.clone())).register_graph("g", &graph).expect("registered");
        bot.run(&local_thread("t"), OmittedFieldState::update()).await.expect("a run");
        let loaded = store.load(&local_thread("t"), None).await.expect("loaded");
        assert!(loaded.snapshot.is_none());
        let state = bot.state(&local_thread("t")).await.expect("a state");
        assert_eq!(state.n, 20 * round);
    }
}
