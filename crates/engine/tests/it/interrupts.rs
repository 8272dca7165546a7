//! Questions to people and breakpoints: asked, waited for without a task, answered once, and nothing before them is
//! done again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doran_engine::QuestionKind;
use doran_engine::store::{HistoryStore, RamStore, RunFilter, RunStatus, StoreError};
use doran_engine::{
    Cx, EngineError, Graph, GraphHandle, NodeError, Outcome, RunHandle, StartOptions, To, node, subgraph,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{
    CallCounter, EngineTestState, EngineTestStateUpdate, GatedStore, StoreCallDecision, StoreCallGate,
    graph_handle, graph_handle_on, local_thread, ms, node_running, node_saying, outcome_text, ram_store,
    run_to_text, run_trace, single_node_graph, update_saying, wait_for_outcome_text,
};

/// Answers questions by id.
async fn answer_to_text(bot: &GraphHandle<EngineTestState>, run: &RunHandle, answers: Value) -> String {
    let answers: BTreeMap<String, Value> = serde_json::from_value(answers).expect("a map");
    match bot.runtime().answer(&run.key(), &answers).await {
        Ok(run) => wait_for_outcome_text(bot, &run).await,
        Err(error) => format!("refused: {error}"),
    }
}

async fn start_run(bot: &GraphHandle<EngineTestState>) -> RunHandle {
    bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started")
}

async fn ask_for_word(cx: Cx, question: &str) -> Result<EngineTestStateUpdate, NodeError> {
    let word: String = cx.ask(question).await?;
    Ok(update_saying(word))
}

/// Three nodes side by side; `x` and `y` ask, `z` does not.
fn two_asking_nodes_graph(z: CallCounter) -> Graph<EngineTestState> {
    let z = node_running(move |_, _| {
        let nth = z.increment();
        async move { Ok(update_saying(format!("z{nth}"))) }
    });
    Graph::named()
        .node("split", node_saying("split").then_all(["x", "y", "z"]))
        .node("x", node_running(|_, cx| ask_for_word(cx, "x?")).then("join"))
        .node("y", node_running(|_, cx| ask_for_word(cx, "y?")).then("join"))
        .node("z", z.then("join"))
        .node("join", node_saying("join").end().after_all(["x", "y", "z"]))
        .start("split")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn several_questions_are_asked_at_once_and_answered_together() {
    let z = CallCounter::default();
    let bot = graph_handle(&two_asking_nodes_graph(z.clone()));
    let run = start_run(&bot).await;
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "1.0:ask#0 asks \"x?\"; 1.1:ask#0 asks \"y?\"");
    let end = answer_to_text(&bot, &run, json!({ "1.0:ask#0": "X", "1.1:ask#0": "Y" })).await;
    assert_eq!(end, "split X Y z1 join");
    assert_eq!(z.count(), 1, "a sibling that had finished is not run again");
}

#[tokio::test]
async fn a_partial_answer_leaves_the_other_question_open() {
    let z = CallCounter::default();
    let bot = graph_handle(&two_asking_nodes_graph(z.clone()));
    let run = start_run(&bot).await;
    wait_for_outcome_text(&bot, &run).await;
    assert_eq!(answer_to_text(&bot, &run, json!({ "1.1:ask#0": "Y" })).await, "1.0:ask#0 asks \"x?\"");
    assert_eq!(answer_to_text(&bot, &run, json!({ "1.0:ask#0": "X" })).await, "split X Y z1 join");
    assert_eq!(z.count(), 1);
    assert_eq!(
        run_trace(bot.runtime(), &run.key()).await,
        "started | split | paused by x+y | resumed | paused by x | resumed | x+y+z | join | finished"
    );
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let bot = graph_handle(&two_asking_nodes_graph(CallCounter::default()));
    let run = start_run(&bot).await;
    wait_for_outcome_text(&bot, &run).await;
    answer_to_text(&bot, &run, json!({ "1.0:ask#0": "X" })).await;
    let end = answer_to_text(&bot, &run, json!({ "1.0:ask#0": "other" })).await;
    assert_eq!(end, "refused: question `ask#0` of task `1.0` is not open");
    let end = answer_to_text(&bot, &run, json!({ "1.0:ask#0": "other", "1.1:ask#0": "Y" })).await;
    assert_eq!(end, "refused: question `ask#0` of task `1.0` is not open", "all or nothing");
    assert_eq!(
        answer_to_text(&bot, &run, json!({ "nonsense": 1 })).await,
        "refused: `nonsense` is not the id of a question"
    );
    assert_eq!(answer_to_text(&bot, &run, json!({ "1.1:ask#0": "Y" })).await, "split X Y z1 join");
    let end = answer_to_text(&bot, &run, json!({ "1.1:ask#0": "Y" })).await;
    assert!(end.starts_with("refused: run ") && end.ends_with("is not paused"), "{end}");
}

#[tokio::test]
async fn an_answer_of_the_wrong_type_is_asked_for_again_with_the_reason() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move {
            let number: u32 = cx.ask("how many?").await?;
            Ok(update_saying(number.to_string()))
        }),
    );
    let bot = graph_handle(&graph);
    run_to_text(&bot, EngineTestState::update()).await;
    let Ok(Outcome::Paused(asks)) = bot.resume(&local_thread("t"), "many").await else {
        panic!("not asked again")
    };
    assert_eq!(asks[0].question, "how many?");
    let problem = asks[0].problem.as_deref().expect("a reason");
    assert!(problem.contains("expected u32"), "{problem}");
    let Ok(Outcome::Paused(asks)) = bot.resume(&local_thread("t"), -1).await else {
        panic!("not asked again")
    };
    assert!(asks[0].problem.is_some());
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), 7).await), "7");
}

#[tokio::test]
async fn a_node_that_swallows_the_pause_pauses_all_the_same() {
    let swallow = node_running(|_, cx: Cx| async move {
        let word: String = cx.ask("sure?").await.unwrap_or_else(|_| "swallowed".to_owned());
        Ok(update_saying(word))
    });
    let bot = graph_handle(&single_node_graph("a", swallow));
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "0.0:ask#0 asks \"sure?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "yes");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_turns_the_pause_into_an_error_of_its_own_pauses_all_the_same() {
    for transient in [false, true] {
        let calls = CallCounter::default();
        let counted = calls.clone();
        let wrap = node_running(move |_, cx: Cx| {
            counted.increment();
            async move {
                let wrapped = |error: NodeError| match transient {
                    true => NodeError::transient(format!("wrapped: {error}")),
                    false => NodeError::permanent(format!("wrapped: {error}")),
                };
                let word: String = cx.ask("sure?").await.map_err(wrapped)?;
                Ok(update_saying(word))
            }
        });
        let bot = graph_handle(&single_node_graph("a", wrap));
        assert_eq!(
            run_to_text(&bot, EngineTestState::update()).await,
            "0.0:ask#0 asks \"sure?\"",
            "transient: {transient}"
        );
        assert_eq!(calls.count(), 1, "a question is not a reason to try again");
        assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "yes");
    }
}

#[tokio::test]
async fn a_node_may_ask_in_a_loop_and_each_answer_stays_with_its_question() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move {
            let mut words = Vec::new();
            for round in 0..3 {
                words.push(cx.ask::<String, _>(format!("word {round}?")).await?);
            }
            Ok(update_saying(words.join("-")))
        }),
    );
    let bot = graph_handle(&graph);
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "0.0:ask#0 asks \"word 0?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "a").await), "0.0:ask#1 asks \"word 1?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "b").await), "0.0:ask#2 asks \"word 2?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "c").await), "a-b-c");
}

#[tokio::test]
async fn a_graph_may_ask_in_a_loop_and_each_round_has_its_own_question() {
    let graph = Graph::named()
        .node(
            "a",
            node_running(|state, cx| async move {
                let update = ask_for_word(cx, "next?").await?;
                Ok(update.n(state.n + 1))
            })
            .branch_or_end(
                ["a"],
                |state: &EngineTestState| if state.n == 3 { To::End } else { To::Node("a".to_owned()) },
            ),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "0.0:ask#0 asks \"next?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "a").await), "1.0:ask#0 asks \"next?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "b").await), "2.0:ask#0 asks \"next?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "c").await), "a b c");
}

#[tokio::test(start_paused = true)]
async fn a_pause_survives_its_runtime_and_what_stood_before_it_is_not_done_again() {
    let calls = CallCounter::default();
    let graph = |calls: CallCounter| {
        single_node_graph(
            "a",
            node_running(move |_, cx: Cx| {
                let calls = calls.clone();
                async move {
                    let looked: u32 =
                        cx.effect("look", async move { Ok::<_, NodeError>(calls.increment()) }).await?;
                    let (time, id) = (cx.now()?, cx.new_id());
                    let answer: String = cx.ask(json!({ "time": format!("{time:?}"), "id": id })).await?;
                    Ok(update_saying(format!("{looked} {answer} {time:?} {id}")))
                }
            }),
        )
    };
    let store = ram_store();
    let first = graph_handle_on(Arc::new(store.clone()), &graph(calls.clone()));
    let asked = match first.run(&local_thread("t"), EngineTestState::update()).await {
        Ok(Outcome::Paused(asks)) => asks[0].question.clone(),
        other => panic!("{other:?}"),
    };
    drop(first);
    // Days pass. The clock of the machine moves too, so a time that was not kept would differ.
    tokio::time::advance(ms(3 * 24 * 3600 * 1000)).await;
    std::thread::sleep(ms(5));
    let second = graph_handle_on(Arc::new(store), &graph(calls.clone()));
    let end = outcome_text(second.resume(&local_thread("t"), "yes").await);
    let text = |name: &str| asked[name].as_str().expect("text").to_owned();
    assert_eq!(end, format!("1 yes {} {}", text("time"), text("id")));
    assert_eq!(calls.count(), 1);
}

#[tokio::test]
async fn a_pause_holds_no_task() {
    let bot = graph_handle(&two_asking_nodes_graph(CallCounter::default()));
    let run = start_run(&bot).await;
    wait_for_outcome_text(&bot, &run).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks <= 1, "only the keeper of leases may live, and not {tasks} tasks");
    let row = bot.runtime().store().run(&run.key()).await.expect("row");
    assert_eq!((row.status, row.ended_at), (RunStatus::Paused, None));
}

fn three_node_graph() -> Graph<EngineTestState> {
    Graph::named()
        .node("a", node_saying("a").then("b"))
        .node("b", node_saying("b").then("c"))
        .node("c", node_saying("c").end())
        .start("a")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn breakpoints_of_a_node_pause_before_and_after_it() {
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node("b", node_saying("b").pause_before().pause_after().then("c"))
        .node("c", node_saying("c").end())
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let before = run_to_text(&bot, EngineTestState::update()).await;
    assert_eq!(before, "1.0:break asks {\"due\":[\"b\"],\"pause\":\"before\"}");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a");
    let after = outcome_text(bot.resume(&local_thread("t"), true).await);
    assert_eq!(after, "2.0:break asks {\"due\":[\"c\"],\"pause\":\"after\"}");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a b");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), Value::Null).await), "a b c");
}

#[tokio::test]
async fn breakpoints_of_a_run_are_its_own() {
    let bot = graph_handle(&three_node_graph());
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let options =
        StartOptions { pause_before: set(&["c"]), pause_after: set(&["a"]), ..StartOptions::default() };
    let handle =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("started");
    let Ok(Outcome::Paused(asks)) = bot.wait_for_outcome(&handle).await else { panic!("not paused") };
    assert_eq!((asks[0].kind, asks[0].node.as_str()), (QuestionKind::Breakpoint, "a"));
    assert!(outcome_text(bot.resume(&local_thread("t"), true).await).contains("before"));
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), true).await), "a b c");
    assert_eq!(
        run_trace(bot.runtime(), &handle.key()).await,
        "started | a | paused by a | resumed | b | paused by c | resumed | c | finished"
    );
    let other = bot.run(&local_thread("other"), EngineTestState::update()).await;
    assert_eq!(outcome_text(other), "a b c", "another run has none");
}

#[tokio::test]
async fn a_breakpoint_in_a_loop_stops_every_round() {
    let graph = Graph::named()
        .node(
            "a",
            node_running(|state, _| async move { Ok(update_saying("a").n(state.n + 1)) })
                .pause_before()
                .branch_or_end(
                    ["a"],
                    |state: &EngineTestState| if state.n == 3 { To::End } else { To::Node("a".to_owned()) },
                ),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    assert!(run_to_text(&bot, EngineTestState::update()).await.starts_with("0.0:break"));
    assert!(outcome_text(bot.resume(&local_thread("t"), true).await).starts_with("1.0:break"));
    assert!(outcome_text(bot.resume(&local_thread("t"), true).await).starts_with("2.0:break"));
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), true).await), "a a a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_answers_at_once_one_is_taken() {
    for _ in 0..10 {
        let bot = graph_handle(&single_node_graph("a", node_running(|_, cx| ask_for_word(cx, "who?"))));
        let run = start_run(&bot).await;
        wait_for_outcome_text(&bot, &run).await;
        let mut racers = Vec::new();
        for n in 0..100 {
            let (runtime, key) = (bot.runtime().clone(), run.key());
            racers.push(tokio::spawn(async move {
                let answers = BTreeMap::from([("0.0:ask#0".to_owned(), json!(format!("racer {n}")))]);
                runtime.answer(&key, &answers).await.map(|_| n)
            }));
        }
        let mut won = Vec::new();
        for racer in racers {
            match racer.await.expect("no panic") {
                Ok(n) => won.push(n),
                Err(EngineError::Store(StoreError::Conflict(_))) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won.len(), 1);
        let again = bot.runtime().run_handle(&run.key()).await.expect("the run");
        assert_eq!(wait_for_outcome_text(&bot, &again).await, format!("racer {}", won[0]));
        assert_eq!(
            run_trace(bot.runtime(), &run.key()).await,
            "started | paused by a | resumed | a | finished"
        );
    }
}

#[tokio::test]
async fn a_graph_without_a_store_says_that_nobody_can_answer() {
    let graph = single_node_graph("a", node_running(|_, cx| ask_for_word(cx, "who?")));
    let error = graph.run(EngineTestState::update()).await.expect_err("nobody answers");
    assert_eq!(error.to_string(), "node `a` asks a question, and there is no store to wait in");
}

#[tokio::test]
async fn a_breakpoint_after_the_last_node_stops_before_the_end() {
    let bot = graph_handle(&single_node_graph("a", node_saying("a").pause_after()));
    let handle = start_run(&bot).await;
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "1.0:break asks {\"due\":[],\"pause\":\"after\"}");
    assert_eq!(bot.runtime().store().run(&handle.key()).await.expect("row").status, RunStatus::Paused);
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), true).await), "a");
    assert_eq!(
        run_trace(bot.runtime(), &handle.key()).await,
        "started | a | paused by a | resumed | finished"
    );
}

#[tokio::test]
async fn a_breakpoint_after_the_last_node_of_a_graph_inside_stops_before_the_outer_one_goes_on() {
    let sub = subgraph(
        single_node_graph("a", node_saying("a").pause_after()),
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
    );
    let graph = Graph::named()
        .node("sub", node(sub).then("b"))
        .node("b", node_saying("b").end())
        .start("sub")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let handle = start_run(&bot).await;
    assert_eq!(
        wait_for_outcome_text(&bot, &handle).await,
        "0.0/1.0:break asks {\"due\":[],\"pause\":\"after\"}"
    );
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), true).await), "a b");
    assert_eq!(
        run_trace(bot.runtime(), &handle.key()).await,
        "started | 0.0/a | paused by a | resumed | sub | b | finished"
    );
}

#[tokio::test]
async fn a_breakpoint_at_a_node_that_does_not_exist_is_refused() {
    let bot = graph_handle(&three_node_graph());
    for before in [true, false] {
        let set = BTreeSet::from(["nope".to_owned()]);
        let options = match before {
            true => StartOptions { pause_before: set, ..StartOptions::default() },
            false => StartOptions { pause_after: set, ..StartOptions::default() },
        };
        let refused = bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await;
        let error = refused.expect_err("refused").to_string();
        assert_eq!(error, "graph `g` has no node `nope`");
    }
    assert!(bot.runtime().store().thread(&local_thread("t")).await.is_err(), "no run exists");
}

/// Lets the node ask between two looks at its thread, once.
struct PauseDuringReadGate {
    store: RamStore,
    go: Arc<Notify>,
    armed: AtomicBool,
}

#[async_trait::async_trait]
impl StoreCallGate for PauseDuringReadGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "run" && self.armed.swap(false, Ordering::SeqCst) {
            self.go.notify_one();
            loop {
                let runs =
                    self.store.runs(&local_thread("t").tenant, &RunFilter::default()).await.expect("runs");
                if runs[0].status == RunStatus::Paused {
                    break;
                }
                tokio::time::sleep(ms(1)).await;
            }
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_asked_during_the_read_is_found() {
    let (store, go) = (ram_store(), Arc::new(Notify::new()));
    let gate =
        Arc::new(PauseDuringReadGate { store: store.clone(), go: go.clone(), armed: AtomicBool::new(false) });
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let go = go.clone();
            async move {
                go.notified().await;
                ask_for_word(cx, "?").await
            }
        }),
    );
    let bot = graph_handle_on(Arc::new(GatedStore { inner: store, gate: gate.clone() }), &graph);
    start_run(&bot).await;
    gate.armed.store(true, Ordering::SeqCst);
    let questions = bot.runtime().open_questions(&local_thread("t")).await.expect("no word of damage");
    assert_eq!(questions.len(), 1);
}

#[tokio::test]
async fn a_breakpoint_after_a_node_does_not_stop_the_next_run_where_it_begins() {
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node("b", node_saying("b").end())
        .start("a")
        .build()
        .expect("sound");
    let thread = local_thread("t");
    // With the state at hand, and with one that is read from the log.
    for is_at_hand in [true, false] {
        let store = ram_store();
        let first = graph_handle_on(Arc::new(store.clone()), &graph);
        first.run(&thread, EngineTestState::update()).await.expect("finished");
        let bot = if is_at_hand { first } else { graph_handle_on(Arc::new(store), &graph) };
        let pause_after = BTreeSet::from(["b".to_owned()]);
        let options = StartOptions { pause_after, ..StartOptions::default() };
        let run = bot.start_with(&thread, Some(EngineTestState::update()), options).await.expect("started");
        bot.wait_for_outcome(&run).await.expect("it rests");
        assert_eq!(run_trace(bot.runtime(), &run.key()).await, "started | a | b | paused by b");
        assert_eq!(outcome_text(bot.resume(&thread, ()).await), "a b a b");
    }
}
