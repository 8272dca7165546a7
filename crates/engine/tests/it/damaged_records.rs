//! What cannot be read ends its run with a reason. Nothing is taken for its default.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use doran_engine::log;
use doran_engine::store::{
    ClaimedRun, Commit, EntryKind, IfBusy, InputDurability, NewEntry, NewRun, NewRunEntry, NewStatus,
    RamStore, Record, RecordStage, RunStatus, RunStore, SubmitOutcome, WorkerLease,
};
use doran_engine::{
    BuildError, Cx, EngineError, Graph, GraphHandle, RetryPolicy, RunError, RunId, Runtime, To,
};
use serde_json::Map;

use crate::support::{
    EngineTestState, graph_handle, local_thread, node_running, node_saying, outcome_text, ram_store,
    run_to_text, short_lease_options, single_node_graph, update_saying,
};

/// A run of graph `g` at its first node, claimed by a worker that died. Its lease is over at once.
async fn abandoned_run(store: &RamStore, options: &[u8]) -> ClaimedRun {
    let position = log::StoredPosition {
        due: vec![log::DueTask::Node("a".to_owned())],
        ..log::StoredPosition::default()
    };
    let started = log::RunStartedEntry {
        v: log::LOG_FORMAT_VERSION,
        graph: "g".to_owned(),
        update: None,
        at: Some(position),
    };
    let new = NewRun {
        thread: local_thread("t"),
        run: RunId::random(),
        graph: "g".to_owned(),
        fingerprint: asking_graph().fingerprint().to_owned(),
        first: NewRunEntry {
            kind: EntryKind::Started,
            body: serde_json::to_vec(&started).expect("json"),
            parent: None,
        },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: Map::new(),
        thread_metadata: Map::new(),
        options: options.to_vec(),
        stop_body: b"{}".to_vec(),
        claim: Some(WorkerLease { worker: Arc::from("dead"), lease: Duration::ZERO, graphs: None }),
        durability: InputDurability::Now,
    };
    match store.submit(new).await.expect("submitted") {
        SubmitOutcome::Started(claimed) => claimed,
        other => panic!("{other:?}"),
    }
}

/// One node that counts, looks at the clock and says a word.
fn asking_graph() -> Graph<EngineTestState> {
    let work = |_, cx: Cx| async move {
        cx.now()?;
        Ok(update_saying("word"))
    };
    single_node_graph("a", node_running(work))
}

async fn take_over(store: &RamStore, claimed: &ClaimedRun) -> String {
    let runtime = Runtime::with_options(Arc::new(store.clone()), short_lease_options("second"));
    let handle: GraphHandle<EngineTestState> =
        runtime.register_graph("g", &asking_graph()).expect("registered");
    runtime.start_worker().await.expect("works");
    let run = runtime.run_handle(&claimed.run.key()).await.expect("the run");
    outcome_text(handle.wait_for_outcome(&run).await)
}

async fn take_over_with_record(key: &str, body: &[u8]) -> String {
    let store = ram_store();
    let claimed = abandoned_run(&store, b"{}").await;
    let record =
        Record { path: "0.0".into(), key: key.into(), stage: RecordStage::Done, body: body.to_vec() };
    let commit = Commit { records: vec![record], ..Commit::default() };
    store.commit(&claimed.fence(), commit).await.expect("written");
    take_over(&store, &claimed).await
}

async fn take_over_with_entry(kind: EntryKind, body: &[u8], status: Option<RunStatus>) -> String {
    let store = ram_store();
    let claimed = abandoned_run(&store, b"{}").await;
    let entry = NewEntry { kind, body: body.to_vec(), parent: None, base: 0, snapshot: None };
    let status = status.map(|status| NewStatus { status, error: None });
    let commit = Commit { head: claimed.head, entries: vec![entry], status, ..Commit::default() };
    store.commit(&claimed.fence(), commit).await.expect("written");
    take_over(&store, &claimed).await
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_options_cannot_be_read_fails_and_does_not_go_on_without_limits() {
    let store = ram_store();
    let claimed = abandoned_run(&store, b"{\"limits\": 7}").await;
    let end = take_over(&store, &claimed).await;
    assert!(end.starts_with("state_mismatch: the options of the run cannot be read"), "{end}");
    let sound = ram_store();
    let claimed = abandoned_run(&sound, b"{}").await;
    assert_eq!(take_over(&sound, &claimed).await, "word");
}

#[tokio::test(start_paused = true)]
async fn recorded_usage_that_cannot_be_read_fails_the_run_and_is_not_zero() {
    let end = take_over_with_record("spent", b"{}").await;
    assert!(end.starts_with("state_mismatch: the recorded usage of node `a` cannot be read"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_recorded_time_that_cannot_be_read_fails_the_run_and_is_not_another_time() {
    let end = take_over_with_record("now#0", b"\"noon\"").await;
    assert!(end.contains("state_mismatch") && end.contains("recorded time `now#0`"), "{end}");
    assert_eq!(take_over_with_record("now#0", b"1700000000000").await, "word");
}

#[tokio::test(start_paused = true)]
async fn a_pause_a_failure_or_a_restart_that_cannot_be_read_is_damage() {
    let paused = take_over_with_entry(EntryKind::Paused, b"{}", Some(RunStatus::Paused)).await;
    assert!(paused.contains("damaged") && paused.contains("entry 2"), "{paused}");
    let failed = take_over_with_entry(EntryKind::Failed, b"{}", Some(RunStatus::Failed)).await;
    assert!(failed.contains("damaged") && failed.contains("does not say why"), "{failed}");
    let restarted = take_over_with_entry(EntryKind::Restarted, b"{}", None).await;
    assert!(restarted.starts_with("log_missing") && restarted.contains("entry 2"), "{restarted}");
}

#[tokio::test]
async fn an_item_that_is_not_json_fails_the_run_and_is_not_null() {
    let unfit = || To::each("work".to_owned(), [BTreeMap::from([((1, 2), 3)])], To::End);
    assert!(matches!(unfit(), To::Invalid(_)));
    let graph = Graph::named()
        .node("a", node_saying("a").branch_or_end(["work"], move |_: &EngineTestState| unfit()))
        .node("work", node_saying("work").end())
        .start("a")
        .build()
        .expect("sound");
    let end = run_to_text(&graph_handle(&graph), EngineTestState::update()).await;
    assert!(end.starts_with("not_storable: node `a` could not choose where to go"), "{end}");
}

#[tokio::test]
async fn a_note_that_is_not_json_fails_its_node_and_is_not_null() {
    let noting = |unfit: bool| {
        node_running(move |_, cx: Cx| async move {
            cx.note("fine", BTreeSet::from([1]));
            if unfit {
                cx.note("pairs", BTreeMap::from([((1, 2), 3)]));
            }
            Ok(update_saying("noted"))
        })
    };
    let run = |unfit| async move {
        let graph = single_node_graph("a", noting(unfit));
        run_to_text(&graph_handle(&graph), EngineTestState::update()).await
    };
    assert_eq!(run(false).await, "noted");
    let end = run(true).await;
    assert!(end.starts_with("not_storable: node `a`: its note `pairs` cannot be stored"), "{end}");
    let alone = single_node_graph("a", noting(true)).run(EngineTestState::update()).await;
    assert!(
        matches!(alone, Err(EngineError::Run(RunError::Failed(failure))) if failure.code == "not_storable")
    );
}

#[test]
fn a_retry_factor_that_no_wait_can_be_worked_out_with_is_refused_at_build() {
    for factor in [-1.0, f64::NAN, f64::INFINITY] {
        let retry = RetryPolicy { factor, ..RetryPolicy::times(3) };
        let built = Graph::named().node("a", node_saying("a").retry(retry).end()).start("a").build();
        let expected = BuildError::BadRetryFactor { node: "a".into(), factor: factor.to_string() };
        assert_eq!(built.err(), Some(expected));
    }
}

#[tokio::test]
async fn a_panic_without_text_says_that_it_has_none() {
    let panics = node_running(|_, _| async { std::panic::panic_any(7) });
    let end = run_to_text(&graph_handle(&single_node_graph("a", panics)), EngineTestState::update()).await;
    assert_eq!(end, "panic: node `a`: panicked: no message");
}
