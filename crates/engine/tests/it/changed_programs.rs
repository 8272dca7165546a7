//! Threads and runs of an older program under a newer one: what changed is reported, and nothing is lost silently.

use std::sync::Arc;

use doran_engine::store::{
    EntryKind, IfBusy, InputDurability, NewRun, NewRunEntry, RamStore, RunStatus, RunStore, SubmitOutcome,
};
use doran_engine::{
    EngineError, Graph, GraphHandle, NodeError, Outcome, RunError, RunId, Runtime, RuntimeOptions, Snap,
    StartOptions, State, StateEdit, StateMismatchReason, ThreadKey, node, subgraph,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::support::{EngineTestState, local_thread, node_running, node_saying, update_saying};

/// The state of the first program.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct OlderState {
    #[reduce(append)]
    said: Vec<String>,
    page: String,
}

/// `said` has another name, and nothing tells that it was called otherwise.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct RenamedState {
    #[reduce(append)]
    words: Vec<String>,
    page: String,
    added: u32,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct AliasedState {
    #[reduce(append)]
    #[serde(alias = "said")]
    words: Vec<String>,
    page: String,
    added: u32,
}

/// The last write wins where lines were appended before.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct ReplacingState {
    said: Vec<String>,
    page: String,
}

fn idle_graph<S: State>() -> Graph<S> {
    let idle = |_: Snap<S>| async { Ok::<_, NodeError>(S::Update::default()) };
    Graph::named().node("idle", node(idle).end()).start("idle").build().expect("sound")
}

fn bot_with<S: State>(store: &Arc<RamStore>, graph: &Graph<S>) -> GraphHandle<S> {
    Runtime::new(store.clone()).register_graph("g", graph).expect("registered")
}

async fn check_field_is_missed(store: &Arc<RamStore>, thread: &ThreadKey) {
    let bot = bot_with(store, &idle_graph::<RenamedState>());
    let error = bot.state(thread).await.expect_err("a field would be lost");
    let EngineError::StateMismatch { reason, .. } = error else { panic!("{error:?}") };
    assert_eq!(reason, StateMismatchReason::UnknownField("said".into()));
    let ended = bot.run(thread, RenamedState::update().added(1_u32)).await;
    let Err(EngineError::Run(RunError::Failed(failure))) = ended else { panic!("{ended:?}") };
    assert_eq!(failure.code, "state_mismatch");
}

#[tokio::test]
async fn a_field_that_was_renamed_is_missed_and_not_emptied() {
    let store = Arc::new(RamStore::new());
    let (short, long) = (local_thread("short"), local_thread("long"));
    let older = bot_with(&store, &idle_graph::<OlderState>());
    older.run(&short, OlderState::update().said(vec!["hello".into()])).await.expect("runs");
    older.run(&long, OlderState::update().said(vec!["hello".into()])).await.expect("runs");
    // The log of this one is replayed from a snapshot.
    for page in ["1", "2", "3"] {
        older.run(&long, OlderState::update().page(page.repeat(100_000))).await.expect("runs");
    }
    for thread in [&short, &long] {
        check_field_is_missed(&store, thread).await;
        let bot = bot_with(&store, &idle_graph::<AliasedState>());
        assert_eq!(bot.state(thread).await.expect("readable").words, ["hello"]);
        let ended = bot.run(thread, AliasedState::update().words(vec!["again".into()])).await.expect("runs");
        assert_eq!(ended.finished().expect("finished").words, ["hello", "again"]);
    }
}

#[tokio::test]
async fn an_input_with_a_field_that_the_state_does_not_have_is_refused() {
    let bot = bot_with(&Arc::new(RamStore::new()), &idle_graph::<OlderState>());
    let input = json!({ "said": ["hello"], "sayd": [] });
    let error = bot.runtime().start("g", &local_thread("t"), Some(&input), StartOptions::default()).await;
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("`sayd`"), "{error}");
}

#[tokio::test]
async fn another_graph_may_go_on_with_a_thread_whose_state_has_other_fields() {
    let store = Arc::new(RamStore::new());
    let thread = local_thread("t");
    let older = bot_with(&store, &idle_graph::<OlderState>());
    older.run(&thread, OlderState::update().said(vec!["hello".into()]).page("p")).await.expect("runs");
    let other =
        Runtime::new(store).register_graph("other", &idle_graph::<RenamedState>()).expect("registered");
    let ended = other.run(&thread, RenamedState::update().words(vec!["hi".into()])).await.expect("runs");
    let state = ended.finished().expect("finished");
    assert_eq!((state.words.join(" "), state.page.as_str()), ("hi".into(), "p"));
}

#[tokio::test]
async fn an_edit_through_one_graph_leaves_the_thread_readable_for_another() {
    let store = Arc::new(RamStore::new());
    let thread = local_thread("t");
    let older = bot_with(&store, &idle_graph::<OlderState>());
    older.run(&thread, OlderState::update().said(vec!["hello".into()]).page("p")).await.expect("runs");
    let other = Runtime::new(store.clone())
        .register_graph("other", &idle_graph::<RenamedState>())
        .expect("registered");
    let edit = |state| StateEdit { state: Some(state), ..StateEdit::default() };
    for unknown in ["", "said"] {
        let state = edit(json!({ "page": "q", unknown: [] }));
        let refused = other.runtime().edit("other", &thread, None, &state).await;
        assert!(matches!(refused, Err(EngineError::StateMismatch { .. })), "{unknown}: {refused:?}");
    }
    let state = edit(json!({ "words": ["hi"], "page": "q", "added": 3 }));
    other.runtime().edit("other", &thread, None, &state).await.expect("edited");
    assert_eq!(other.state(&thread).await.expect("readable").words, ["hi"]);
    let again = bot_with(&store, &idle_graph::<OlderState>());
    assert_eq!(again.state(&thread).await.expect("readable").page, "q");
    let ended = again.run(&thread, OlderState::update().said(vec!["still".into()])).await.expect("runs");
    assert_eq!(ended.finished().expect("finished").said, ["still"]);
}

#[test]
fn the_fingerprint_holds_the_fields_and_their_rules() {
    let older = idle_graph::<OlderState>();
    let changed = [
        idle_graph::<RenamedState>().fingerprint().to_owned(),
        idle_graph::<AliasedState>().fingerprint().to_owned(),
        idle_graph::<ReplacingState>().fingerprint().to_owned(),
    ];
    assert!(!changed.contains(&older.fingerprint().to_owned()));
    assert_eq!(older.fingerprint(), idle_graph::<OlderState>().fingerprint());
}

/// A graph inside another: two nodes lead to a third, which waits for both of them or runs after each.
fn with_inner_join(joins: bool) -> Graph<EngineTestState> {
    let last = node_saying("last").end();
    let last = if joins { last.after_all(["a", "b"]) } else { last };
    let inner = Graph::named()
        .node(
            "a",
            node_running(|_, cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) })
                .then("last"),
        )
        .node("b", node_saying("b").then("last"))
        .node("last", last)
        .start("a")
        .start("b")
        .build()
        .expect("sound");
    let inner = subgraph(
        inner,
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
    );
    Graph::named().node("inner", node(inner).end()).start("inner").build().expect("sound")
}

#[tokio::test]
async fn a_join_inside_a_subgraph_belongs_to_the_fingerprint() {
    let store = Arc::new(RamStore::new());
    let thread = local_thread("t");
    let older = bot_with(&store, &with_inner_join(true));
    assert!(matches!(older.run(&thread, EngineTestState::update()).await, Ok(Outcome::Paused(_))));
    let newer = bot_with(&store, &with_inner_join(false));
    let ended = newer.resume(&thread, "a").await;
    let Err(EngineError::Run(RunError::Failed(failure))) = ended else { panic!("{ended:?}") };
    assert_eq!(failure.code, "graph_changed");
}

#[tokio::test]
async fn a_run_that_an_older_program_accepted_does_not_pass_by_a_new_first_node() {
    let store = Arc::new(RamStore::new());
    let thread = local_thread("t");
    let older = Graph::named().node("work", node_saying("work").end()).start("work").build().expect("sound");
    let newer = Graph::named()
        .node("guard", node_saying("guard").then("work"))
        .node("work", node_saying("work").end())
        .start("guard")
        .build()
        .expect("sound");
    let full = RuntimeOptions { max_runs: 0, ..RuntimeOptions::default() };
    let accepts = Runtime::with_options(store.clone(), full).register_graph("g", &older).expect("registered");
    let run = accepts.start(&thread, EngineTestState::update()).await.expect("accepted");
    let bot = bot_with(&store, &newer);
    bot.runtime().start_worker().await.expect("works");
    let run = bot.runtime().run_handle(&run.key()).await.expect("the run");
    let ended = bot.wait_for_outcome(&run).await;
    let Err(EngineError::Run(RunError::Failed(failure))) = ended else { panic!("{ended:?}") };
    assert_eq!(failure.code, "graph_changed");
    // A retry runs the graph as it is now, from its start.
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    let state = bot.wait_for_outcome(&again).await.expect("finished").finished().expect("finished");
    assert_eq!(state.said, ["guard", "work"]);
}

#[tokio::test]
async fn a_run_of_a_program_that_knew_nodes_and_edges_only_goes_on() {
    let store = Arc::new(RamStore::new());
    let thread = local_thread("t");
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node("b", node_saying("b").end())
        .start("a")
        .build()
        .expect("sound");
    let body = json!({ "v": 1, "graph": "g", "update": {}, "at": { "due": ["a"] } });
    let new = NewRun {
        thread: thread.clone(),
        run: RunId::random(),
        graph: "g".into(),
        fingerprint: TOPOLOGY_FINGERPRINT.into(),
        first: NewRunEntry { kind: EntryKind::Started, body: body.to_string().into_bytes(), parent: None },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: Map::new(),
        thread_metadata: Map::new(),
        options: b"{}".to_vec(),
        stop_body: b"{}".to_vec(),
        claim: None,
        durability: InputDurability::Now,
    };
    let key = thread.run(new.run);
    assert!(matches!(store.submit(new).await, Ok(SubmitOutcome::Queued { .. })));
    let bot = bot_with(&store, &graph);
    bot.runtime().start_worker().await.expect("works");
    let row = bot.runtime().run_handle(&key).await.expect("the run").wait().await.expect("rests");
    assert_eq!((row.status, row.error), (RunStatus::Finished, None));
    assert_ne!(graph.fingerprint(), TOPOLOGY_FINGERPRINT);
}

/// What programs before fingerprints held the shape of the state wrote for the graph of the test above.
const TOPOLOGY_FINGERPRINT: &str = "7a443cb11a0099b079205601";
