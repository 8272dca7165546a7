//! One writer per thread, and what people do with threads: rewind, edit, fork, look back.

use std::sync::Arc;

use doran_engine::runtime::StateEdit;
use doran_engine::store::{
    EntryKind, IfBusy, RamStore, RunFilter, RunIdempotencyKey, RunStatus, RunUsage, StoreError,
};
use doran_engine::{
    Cx, EngineError, EntryBody, Graph, GraphHandle, NodeError, RunHandle, Runtime, Snap, StartOptions,
    StepResult, TenantId, ThreadId, To,
};
use serde_json::json;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, StoreCallDecision, StoreCallGate, graph_handle,
    graph_handle_on, killable_runtime, local_thread, ms, node_running, node_saying, outcome_text, ram_store,
    run_to_text, run_trace, short_lease_options, single_node_graph, update_saying, wait_for_outcome_text,
};

/// Takes a while, then says what it was given.
fn slow_graph() -> Graph<EngineTestState> {
    Graph::named()
        .node("a", node_saying("a").then("slow"))
        .node(
            "slow",
            node_running(|state, _| async move {
                tokio::time::sleep(ms(1000)).await;
                Ok(update_saying(format!("slow {}", state.text)))
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound")
}

async fn start_with_text(
    bot: &GraphHandle<EngineTestState>,
    text: &str,
    if_busy: IfBusy,
) -> Result<RunHandle, EngineError> {
    let options = StartOptions { if_busy, ..StartOptions::default() };
    bot.start_with(&local_thread("t"), Some(EngineTestState::update().text(text)), options).await
}

async fn status(bot: &GraphHandle<EngineTestState>, run: &RunHandle) -> RunStatus {
    bot.runtime().store().run(&run.key()).await.expect("row").status
}

#[tokio::test(start_paused = true)]
async fn a_busy_thread_rejects_and_names_the_run() {
    let bot = graph_handle(&slow_graph());
    let first = start_with_text(&bot, "1", IfBusy::Reject).await.expect("started");
    match start_with_text(&bot, "2", IfBusy::Reject).await {
        Err(EngineError::Store(StoreError::Busy { run, .. })) => assert_eq!(run, first.id()),
        other => panic!("{other:?}"),
    }
    assert_eq!(wait_for_outcome_text(&bot, &first).await, "a slow 1");
    let next = start_with_text(&bot, "2", IfBusy::Reject).await.expect("free again");
    assert_eq!(wait_for_outcome_text(&bot, &next).await, "a slow 1 a slow 2");
}

#[tokio::test(start_paused = true)]
async fn enqueued_runs_go_one_after_another_in_order() {
    let bot = graph_handle(&slow_graph());
    let mut runs = Vec::new();
    for n in 1..=4 {
        runs.push(start_with_text(&bot, &n.to_string(), IfBusy::Enqueue).await.expect("accepted"));
    }
    assert_eq!(status(&bot, &runs[3]).await, RunStatus::Queued);
    assert_eq!(wait_for_outcome_text(&bot, &runs[3]).await, "a slow 1 a slow 2 a slow 3 a slow 4");
    let entries = bot.runtime().store().entries(&local_thread("t"), 0, 100).await.expect("entries");
    let order: Vec<_> = entries.iter().filter_map(|entry| entry.run).collect();
    let expected: Vec<_> = runs.iter().flat_map(|run| [run.id(); 4]).collect();
    assert_eq!(order, expected, "whole runs, one after another");
}

#[tokio::test(start_paused = true)]
async fn an_interrupting_run_ends_the_active_one_and_keeps_what_it_did() {
    let bot = graph_handle(&slow_graph());
    let first = start_with_text(&bot, "1", IfBusy::Reject).await.expect("started");
    tokio::time::sleep(ms(100)).await;
    let waiting = start_with_text(&bot, "waiting", IfBusy::Enqueue).await.expect("queued");
    let second = start_with_text(&bot, "2", IfBusy::Interrupt).await.expect("accepted");
    assert_eq!(wait_for_outcome_text(&bot, &second).await, "a a slow 2");
    assert_eq!(status(&bot, &first).await, RunStatus::Cancelled);
    assert_eq!(
        wait_for_outcome_text(&bot, &waiting).await,
        "a a slow 2 a slow waiting",
        "it went before the one that waited"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollback_ends_the_active_run_and_starts_from_where_that_had_started() {
    let bot = graph_handle(&slow_graph());
    let zero = start_with_text(&bot, "0", IfBusy::Reject).await.expect("started");
    wait_for_outcome_text(&bot, &zero).await;
    let first = start_with_text(&bot, "1", IfBusy::Reject).await.expect("started");
    tokio::time::sleep(ms(100)).await;
    let second = start_with_text(&bot, "2", IfBusy::Rollback).await.expect("accepted");
    assert_eq!(wait_for_outcome_text(&bot, &second).await, "a slow 0 a slow 2");
    assert_eq!(
        run_trace(bot.runtime(), &first.key()).await,
        "started | a | cancelled",
        "the log still tells of it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_is_replaced_at_once() {
    let graph = single_node_graph(
        "a",
        node_running(|state, cx: Cx| async move {
            match state.text.as_str() {
                "ask" => Ok(update_saying(cx.ask::<String, _>("?").await?)),
                text => Ok(update_saying(text)),
            }
        }),
    );
    for (if_busy, expected) in [(IfBusy::Interrupt, "in next"), (IfBusy::Rollback, "next")] {
        let bot = graph_handle(&graph);
        let input = update_saying("in").text("ask");
        let first = bot.start(&local_thread("t"), input).await.expect("started");
        wait_for_outcome_text(&bot, &first).await;
        let next = start_with_text(&bot, "next", if_busy).await.expect("started");
        assert_eq!(wait_for_outcome_text(&bot, &next).await, expected);
        assert_eq!(status(&bot, &first).await, RunStatus::Cancelled);
    }
}

#[tokio::test]
async fn the_same_request_starts_one_run() {
    let bot = graph_handle(&single_node_graph("a", node_saying("a")));
    let with = |hash: &str| StartOptions {
        idempotency: Some(RunIdempotencyKey { key: "k".into(), hash: hash.into() }),
        ..StartOptions::default()
    };
    let first = bot
        .start_with(&local_thread("t"), Some(EngineTestState::update()), with("h"))
        .await
        .expect("started");
    let again = bot
        .start_with(&local_thread("t"), Some(EngineTestState::update()), with("h"))
        .await
        .expect("the same");
    assert_eq!(first.id(), again.id());
    assert_eq!(
        (wait_for_outcome_text(&bot, &first).await, wait_for_outcome_text(&bot, &again).await),
        ("a".to_owned(), "a".to_owned())
    );
    let other = bot.start_with(&local_thread("t"), Some(EngineTestState::update()), with("other")).await;
    assert!(matches!(other, Err(EngineError::Store(StoreError::KeyReused(_)))));
}

/// `a → b → c`, each with the number of its call.
fn counting_graph(calls: CallCounter) -> Graph<EngineTestState> {
    let says = |name: &'static str| {
        let calls = calls.clone();
        node_running(move |state, _| {
            calls.increment();
            async move { Ok(update_saying(format!("{name}{}", state.text))) }
        })
    };
    Graph::named()
        .node("a", says("a").then("b"))
        .node("b", says("b").then("c"))
        .node("c", says("c").end())
        .start("a")
        .build()
        .expect("sound")
}

fn options_from(seq: u64) -> StartOptions {
    StartOptions { from: Some(seq), ..StartOptions::default() }
}

#[tokio::test]
async fn a_rewind_without_input_goes_on_from_there_and_gives_the_same_result() {
    let calls = CallCounter::default();
    let bot = graph_handle(&counting_graph(calls.clone()));
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "a b c");
    // 1 started, 2 a, 3 b, 4 c, 5 finished.
    for (seq, ran) in [(1, 3), (2, 2), (3, 1), (4, 0), (5, 0)] {
        let before = calls.count();
        let again = bot.start_with(&local_thread("t"), None, options_from(seq)).await.expect("started");
        assert_eq!(wait_for_outcome_text(&bot, &again).await, "a b c", "from {seq}");
        assert_eq!(calls.count() - before, ran, "from {seq}");
    }
    assert_eq!(
        bot.state_at(&local_thread("t"), Some(3)).await.expect("state").said_text(),
        "a b",
        "the old branch stays"
    );
}

#[tokio::test]
async fn a_rewind_with_input_begins_anew_on_the_old_state() {
    let bot = graph_handle(&counting_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let again = bot
        .start_with(&local_thread("t"), Some(EngineTestState::update().text("'")), options_from(2))
        .await
        .expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "a a' b' c'");
    let more = bot.start(&local_thread("t"), EngineTestState::update().text("\"")).await.expect("started");
    assert_eq!(
        wait_for_outcome_text(&bot, &more).await,
        "a a' b' c' a\" b\" c\"",
        "the thread goes on from the new branch"
    );
    let zero = bot
        .start_with(&local_thread("t"), Some(EngineTestState::update().text("0")), options_from(0))
        .await
        .expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &zero).await, "a0 b0 c0", "entry 0 is the empty thread");
    let none = bot.start_with(&local_thread("t"), None, options_from(999)).await;
    assert!(matches!(none, Err(EngineError::Store(StoreError::NotFound { what: "entry", .. }))));
}

#[tokio::test]
async fn a_rewind_into_a_pause_asks_again() {
    let graph = Graph::named()
        .node("a", node_saying("a").then("ask"))
        .node(
            "ask",
            node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) }).end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    run_to_text(&bot, EngineTestState::update()).await;
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "one").await), "a one");
    // 1 started, 2 a, 3 paused, 4 resumed, 5 ask, 6 finished.
    let again = bot.start_with(&local_thread("t"), None, options_from(3)).await.expect("started");
    assert!(wait_for_outcome_text(&bot, &again).await.contains("asks"));
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "two").await), "a two");
}

async fn edit(
    bot: &GraphHandle<EngineTestState>,
    at: Option<u64>,
    edit: StateEdit,
) -> Result<u64, EngineError> {
    bot.runtime().edit("g", &local_thread("t"), at, &edit).await
}

async fn state_text(bot: &GraphHandle<EngineTestState>) -> String {
    bot.state(&local_thread("t")).await.expect("state").said_text()
}

#[tokio::test]
async fn an_edit_changes_the_state_and_the_log_keeps_what_was_there() {
    let bot = graph_handle(&counting_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let seq =
        edit(&bot, None, StateEdit { update: Some(json!({ "said": ["by hand"] })), ..StateEdit::default() })
            .await;
    assert_eq!(seq.expect("edited"), 6);
    assert_eq!(state_text(&bot).await, "a b c by hand");
    edit(&bot, None, StateEdit { state: Some(json!({ "said": ["new"] })), ..StateEdit::default() })
        .await
        .expect("edited");
    assert_eq!(state_text(&bot).await, "new", "fields left out have their default");
    assert_eq!(bot.state_at(&local_thread("t"), Some(6)).await.expect("state").said_text(), "a b c by hand");
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "new a b c");
}

#[tokio::test]
async fn an_edit_in_the_past_as_a_node_goes_on_after_that_node() {
    let bot = graph_handle(&counting_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let change = StateEdit {
        update: Some(json!({ "said": ["instead of b"] })),
        as_node: Some("b".into()),
        ..StateEdit::default()
    };
    edit(&bot, Some(2), change).await.expect("edited");
    assert_eq!(state_text(&bot).await, "a instead of b");
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert_eq!(view.next, ["c"]);
    let on = bot.start_with(&local_thread("t"), None, StartOptions::default()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &on).await, "a instead of b c");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_edit_is_refused_and_changes_nothing() {
    let bot = graph_handle(&slow_graph());
    let handle = start_with_text(&bot, "1", IfBusy::Reject).await.expect("started");
    let change = || StateEdit { update: Some(json!({ "n": 1 })), ..StateEdit::default() };
    assert!(matches!(edit(&bot, None, change()).await, Err(EngineError::Store(StoreError::Busy { .. }))));
    wait_for_outcome_text(&bot, &handle).await;
    let wrong = |edit: StateEdit| edit;
    let refused = [
        (
            wrong(StateEdit { update: Some(json!({ "n": "many" })), ..StateEdit::default() }),
            "does not fit the state of `g`",
        ),
        (wrong(StateEdit { state: Some(json!({ "said": 1 })), ..StateEdit::default() }), "does not fit"),
        (
            wrong(StateEdit { as_node: Some("ghost".into()), ..StateEdit::default() }),
            "graph `g` has no node `ghost`",
        ),
    ];
    for (wrong, expected) in refused {
        let error = edit(&bot, None, wrong).await.expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let head = bot.runtime().store().thread(&local_thread("t")).await.expect("thread").head;
    assert_eq!(head, 4, "started, a, slow, finished");
    assert!(edit(&bot, Some(99), change()).await.is_err());
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let bot = graph_handle(&counting_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let runtime = bot.runtime();
    let fork = |name: &str| ThreadId::new(name).expect("a name");
    let whole = runtime.fork(&local_thread("t"), None, &fork("whole")).await.expect("forked");
    let early = runtime.fork(&local_thread("t"), Some(2), &fork("early")).await.expect("forked");
    assert_eq!(bot.state(&whole).await.expect("state").said_text(), "a b c");
    assert_eq!(bot.state(&early).await.expect("state").said_text(), "a");
    let on = bot.start_with(&early, None, StartOptions::default()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &on).await, "a b c", "it goes on with what was due there");
    assert_eq!(outcome_text(bot.run(&whole, EngineTestState::update().text("2")).await), "a b c a2 b2 c2");
    assert_eq!(state_text(&bot).await, "a b c", "the source stays as it is");
    let taken = runtime.fork(&local_thread("t"), None, &fork("whole")).await;
    assert!(matches!(taken, Err(EngineError::Store(StoreError::Conflict(_)))));
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_thread_at_work_is_free() {
    let bot = graph_handle(&slow_graph());
    let first = start_with_text(&bot, "1", IfBusy::Reject).await.expect("started");
    tokio::time::sleep(ms(100)).await;
    let copy = bot
        .runtime()
        .fork(&local_thread("t"), None, &ThreadId::new("copy").expect("a name"))
        .await
        .expect("forked");
    let on = bot.start_with(&copy, None, StartOptions::default()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &on).await, "a slow 1");
    assert_eq!(wait_for_outcome_text(&bot, &first).await, "a slow 1");
}

#[tokio::test(start_paused = true)]
async fn the_history_tells_attempts_durations_usage_and_notes() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = Graph::named()
        .node(
            "a",
            node_running(move |_, cx: Cx| {
                let nth = counted.increment();
                async move {
                    tokio::time::sleep(ms(40)).await;
                    if nth == 1 {
                        return Err(NodeError::transient("busy"));
                    }
                    cx.spend(RunUsage { input_tokens: 10, output_tokens: 5, cost_micros: 7 })?;
                    cx.note("prompt", "the whole of it");
                    Ok(update_saying("a"))
                }
            })
            .branch_or_end(["a"], |state: &EngineTestState| {
                if state.said.len() < 2 { To::Node("a".to_owned()) } else { To::End }
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let metadata = json!({ "title": "부산" }).as_object().cloned().expect("a map");
    let options = StartOptions { metadata: metadata.clone(), ..StartOptions::default() };
    let handle =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("started");
    wait_for_outcome_text(&bot, &handle).await;
    let row = bot.runtime().store().run(&handle.key()).await.expect("row");
    assert_eq!((row.status, row.epoch, row.steps), (RunStatus::Finished, 1, 2));
    assert_eq!(row.usage, RunUsage { input_tokens: 20, output_tokens: 10, cost_micros: 14 });
    assert_eq!((row.parent_seq, row.first_seq, row.last_seq), (Some(0), Some(1), Some(4)));
    assert_eq!(row.metadata, metadata);
    let took = row.ended_at.expect("ended") - row.started_at.expect("started");
    assert!((330..1200).contains(&took), "{took} ms");
    let entries = bot.runtime().entries(&local_thread("t"), 0, 10).await.expect("entries");
    let steps: Vec<StepResult> = entries
        .into_iter()
        .filter_map(|entry| match entry.body {
            EntryBody::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    let first = &steps[0].tasks[0];
    assert_eq!((first.attempts, first.usage.input_tokens), (2, 10));
    assert!(first.ms >= 330, "the wait for the second try counts: {}", first.ms);
    assert_eq!(first.notes["prompt"], "the whole of it");
    assert_eq!((steps[1].tasks[0].attempts, steps[1].tasks[0].ms), (1, 40));
    assert!(steps[1].active_ms >= first.ms + 40);
    let listed =
        bot.runtime().store().runs(&local_thread("t").tenant, &RunFilter::default()).await.expect("runs");
    assert_eq!(listed, [row]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_on_one_thread_never_interleave() {
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node("b", node_saying("b").end())
        .start("a")
        .build()
        .expect("sound");
    let store = Arc::new(doran_engine::store::RamStore::new());
    let bots = [graph_handle_on(store.clone(), &graph), graph_handle_on(store.clone(), &graph)];
    for bot in &bots {
        bot.runtime().start_worker().await.expect("works");
    }
    let mut clients = Vec::new();
    for client in 0..8 {
        let bot = bots[client % 2].clone();
        clients.push(tokio::spawn(async move {
            for _ in 0..10 {
                let run = start_with_text(&bot, "", IfBusy::Enqueue).await.expect("accepted");
                drop(run.wait().await);
            }
        }));
    }
    for client in clients {
        client.await.expect("no panic");
    }
    let entries = doran_engine::store::HistoryStore::entries(&*store, &local_thread("t"), 0, 1000)
        .await
        .expect("entries");
    let shape: Vec<_> = entries.iter().map(|entry| entry.kind).collect();
    let whole = [EntryKind::Started, EntryKind::Step, EntryKind::Step, EntryKind::Finished];
    assert_eq!(shape.len(), 80 * 4);
    for (nth, run) in entries.chunks(4).enumerate() {
        assert_eq!(shape[nth * 4..][..4], whole, "run {nth}");
        assert!(run.iter().all(|entry| entry.run == run[0].run), "run {nth} is mixed");
    }
}

#[tokio::test(start_paused = true)]
async fn going_on_starts_waits_for_or_answers_whatever_the_thread_needs() {
    let graph = single_node_graph(
        "a",
        node_running(|state: Snap<EngineTestState>, cx: Cx| async move {
            let yes: String = cx.ask(format!("{}?", state.said.len())).await?;
            Ok(update_saying(yes))
        }),
    );
    let bot = graph_handle(&graph);
    let on = async |answer: Option<&str>| {
        outcome_text(bot.run_or_resume(&local_thread("t"), EngineTestState::update(), answer).await)
    };
    // Nobody waited for this answer when it was given.
    assert_eq!(on(Some("early")).await, "0.0:ask#0 asks \"0?\"");
    assert_eq!(on(None).await, "0.0:ask#0 asks \"0?\"");
    assert_eq!(on(Some("yes")).await, "yes");
    assert_eq!(on(Some("yes")).await, "0.0:ask#0 asks \"1?\"");
    assert_eq!(on(Some("again")).await, "yes again");
    let runs = bot.runtime().store().runs(&TenantId::local(), &RunFilter::default()).await.expect("runs");
    assert_eq!(runs.len(), 2);
}

/// A node that never ends at its first attempt, and says at which one it ended.
fn stuck_once_graph(attempts: &CallCounter) -> Graph<EngineTestState> {
    let attempts = attempts.clone();
    single_node_graph(
        "a",
        node_running(move |_, _| {
            let nth = attempts.increment();
            async move {
                if nth == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(update_saying(format!("attempt {nth}")))
            }
        }),
    )
}

/// A store with a run that a dead process left.
async fn store_with_left_run(graph: &Graph<EngineTestState>, attempts: &CallCounter) -> RamStore {
    let store = ram_store();
    let (first, kill_switch) = killable_runtime(&store, "first", graph);
    first.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    while attempts.count() == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    kill_switch.kill();
    store
}

#[tokio::test(start_paused = true)]
async fn going_on_takes_up_what_a_dead_process_left() {
    let attempts = CallCounter::default();
    let graph = stuck_once_graph(&attempts);
    let store = store_with_left_run(&graph, &attempts).await;
    let (second, _) = killable_runtime(&store, "second", &graph);
    let outcome = second.run_or_resume(&local_thread("t"), update_saying("a new run"), None::<bool>).await;
    assert_eq!(outcome_text(outcome), "attempt 2");
}

/// Every look at a thread takes two seconds.
struct SlowThreadReads;

#[async_trait::async_trait]
impl StoreCallGate for SlowThreadReads {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call.starts_with("thread") {
            tokio::time::sleep(ms(2_000)).await;
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn going_on_waits_for_what_was_left_also_if_it_ends_at_once() {
    let attempts = CallCounter::default();
    let graph = stuck_once_graph(&attempts);
    let store = store_with_left_run(&graph, &attempts).await;
    let slow = GatedStore { inner: store, gate: Arc::new(SlowThreadReads) };
    let second = Runtime::with_options(Arc::new(slow), short_lease_options("second"));
    let bot = second.register_graph("g", &graph).expect("registered");
    let outcome = bot.run_or_resume(&local_thread("t"), update_saying("a new run"), None::<bool>).await;
    assert_eq!(outcome_text(outcome), "attempt 2");
}

#[tokio::test(start_paused = true)]
async fn going_on_with_an_answer_waits_for_a_run_that_somebody_else_answered() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move {
            let which: String = cx.ask("which?").await?;
            Ok(update_saying(which))
        }),
    );
    let store = ram_store();
    let first = graph_handle_on(Arc::new(store.clone()), &graph);
    let thread = local_thread("t");
    run_to_text(&first, EngineTestState::update()).await;
    let slow = GatedStore { inner: store, gate: Arc::new(SlowThreadReads) };
    let second = Runtime::with_options(Arc::new(slow), short_lease_options("second"));
    let second = second.register_graph("g", &graph).expect("registered");
    // The second looks at the thread three times; the other answer comes before the last one.
    let answered = async {
        tokio::time::sleep(ms(5_000)).await;
        first.resume(&thread, "first").await
    };
    let (answered, outcome) =
        tokio::join!(answered, second.run_or_resume(&thread, update_saying("a new run"), Some("second")));
    assert_eq!(outcome_text(answered), "first");
    assert_eq!(outcome_text(outcome), "first");
}
