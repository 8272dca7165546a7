//! Changing the state of a thread whose run waits for an answer, and watching whole states.

use std::sync::Arc;

use doran_engine::runtime::GotoTarget;
use doran_engine::store::{RunStatus, StoreError};
use doran_engine::{
    EngineError, Event, Graph, GraphHandle, MisuseError, StartOptions, StateEdit, StateWatch, WatchUntil,
};
use serde_json::json;

use crate::support::{
    CallCounter, EngineTestState, graph_handle, graph_handle_on, local_thread, node_running, node_saying,
    outcome_text, ram_store, run_to_text, run_trace, update_saying, wait_for_outcome_text,
};

/// `first`, then `ask`, which makes a call, asks, and says the text of the state with the answer, then `last`.
fn asking_graph(calls: CallCounter) -> Graph<EngineTestState> {
    let ask = node_running(move |state, cx| {
        let calls = calls.clone();
        async move {
            let call =
                cx.effect("call", async { Ok::<_, doran_engine::NodeError>(calls.increment()) }).await?;
            let answer: String = cx.ask("may I?").await?;
            Ok(update_saying(format!("{} {answer} call {call}", state.text)))
        }
    });
    Graph::named()
        .node("first", node_saying("first").then("ask"))
        .node("ask", ask.then("last"))
        .node("last", node_saying("last").end())
        .start("first")
        .build()
        .expect("a sound graph")
}

async fn edit(bot: &GraphHandle<EngineTestState>, edit: StateEdit) -> Result<u64, EngineError> {
    bot.runtime().edit("g", &local_thread("t"), None, &edit).await
}

fn text_edit(text: &str) -> StateEdit {
    StateEdit { update: Some(json!({ "text": text })), ..StateEdit::default() }
}

#[tokio::test]
async fn a_state_is_changed_before_the_answer_and_the_question_stays() {
    let calls = CallCounter::default();
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &asking_graph(calls.clone()));
    let asked = run_to_text(&bot, EngineTestState::update().text("draft")).await;
    assert_eq!(asked, "1.0:ask#0 asks \"may I?\"");
    assert_eq!(edit(&bot, text_edit("better")).await.expect("edited"), 4);
    assert_eq!(edit(&bot, text_edit("best")).await.expect("edited again"), 5);
    let questions = bot.runtime().open_questions(&local_thread("t")).await.expect("questions");
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].1.id, "1.0:ask#0");
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert_eq!((view.state["text"].as_str(), view.next), (Some("best"), vec!["ask".to_owned()]));

    // Another process answers: it has nothing but the log.
    let other = graph_handle_on(Arc::new(store), &asking_graph(calls.clone()));
    let end = outcome_text(other.resume(&local_thread("t"), "yes").await);
    assert_eq!(end, "first best yes call 1 last");
    assert_eq!(calls.count(), 1, "a call that was made is not made again");
    let runs = other.runtime().list_runs(&doran_engine::TenantId::local(), &Default::default()).await;
    let trace = run_trace(other.runtime(), &runs.expect("runs")[0].key()).await;
    assert_eq!(
        trace,
        "started | first | paused by ask | paused by ask | paused by ask | resumed | ask | last | finished"
    );
}

#[tokio::test]
async fn an_edit_as_a_node_gives_the_paused_run_up_and_goes_on_after_that_node() {
    let bot = graph_handle(&asking_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let said = |word: &str| Some(json!({ "said": [word] }));
    let instead = StateEdit { update: said("instead"), as_node: Some("ask".into()), ..StateEdit::default() };
    edit(&bot, instead).await.expect("edited");
    assert!(bot.runtime().active_run(&local_thread("t")).await.expect("read").is_none());
    let on = bot.start_with(&local_thread("t"), None, StartOptions::default()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &on).await, "first instead last");

    run_to_text(&bot, EngineTestState::update()).await;
    let over = StateEdit { as_node: Some("__end__".into()), ..StateEdit::default() };
    edit(&bot, over).await.expect("edited");
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert!(view.next.is_empty());
    let anew = StateEdit { as_node: Some("__start__".into()), ..StateEdit::default() };
    edit(&bot, anew).await.expect("edited");
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert_eq!(view.next, ["first"]);
}

#[tokio::test]
async fn an_edit_that_goes_to_nodes_makes_these_due_and_nothing_else() {
    let bot = graph_handle(&asking_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let goto = async |nodes: &[&str]| {
        let target = |node: &&str| GotoTarget { node: (*node).to_owned(), input: None };
        let nodes: Vec<GotoTarget> = nodes.iter().map(target).collect();
        let said = StateEdit { update: Some(json!({ "said": ["there"] })), ..StateEdit::default() };
        bot.runtime().edit_and_goto("g", &local_thread("t"), None, &said, &nodes).await
    };
    goto(&["ghost"]).await.expect_err("no such node");
    assert!(bot.runtime().active_run(&local_thread("t")).await.expect("read").is_some(), "it still waits");
    goto(&["last", "first", "last"]).await.expect("edited");
    assert!(bot.runtime().active_run(&local_thread("t")).await.expect("read").is_none());
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert_eq!(view.next, ["first", "last"]);
    goto(&["last"]).await.expect("edited");
    let on = bot.start_with(&local_thread("t"), None, StartOptions::default()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &on).await, "first there there last");
    goto(&["__end__"]).await.expect("edited");
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert!(view.next.is_empty());
}

#[tokio::test]
async fn an_edit_that_goes_to_tasks_gives_each_its_input() {
    let reads = || {
        node_running(|_, cx| async move {
            let input = cx.input::<serde_json::Value>().unwrap_or_default();
            Ok(update_saying(input.to_string()))
        })
    };
    let graph = Graph::named()
        .node("a", reads().then("joined"))
        .node("b", reads().then("joined"))
        .node("joined", node_saying("joined").end().after_all(["a", "b"]))
        .start("a")
        .start("b")
        .build()
        .expect("a sound graph");
    let bot = graph_handle(&graph);
    run_to_text(&bot, EngineTestState::update()).await;
    let goto = async |targets: &[(&str, Option<serde_json::Value>)]| {
        let target = |(node, input): &(&str, Option<serde_json::Value>)| GotoTarget {
            node: (*node).to_owned(),
            input: input.clone(),
        };
        let targets: Vec<GotoTarget> = targets.iter().map(target).collect();
        bot.runtime().edit_and_goto("g", &local_thread("t"), None, &StateEdit::default(), &targets).await
    };
    let refused = goto(&[("joined", Some(json!(1)))]).await.expect_err("a join");
    assert!(matches!(refused, EngineError::Misuse(MisuseError::InputForJoin { .. })), "{refused}");
    let before = bot.state(&local_thread("t")).await.expect("state").said.len();
    goto(&[("b", Some(json!({ "n": 2 }))), ("a", Some(json!(1))), ("a", Some(json!(1)))])
        .await
        .expect("edited");
    let on = bot.start_with(&local_thread("t"), None, StartOptions::default()).await.expect("started");
    wait_for_outcome_text(&bot, &on).await;
    let said = bot.state(&local_thread("t")).await.expect("state").said.clone();
    assert_eq!(said[before..], ["1", "1", "{\"n\":2}", "joined"]);
}

#[tokio::test]
async fn an_edit_of_an_older_entry_gives_the_paused_run_up_if_it_says_so() {
    let bot = graph_handle(&asking_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update().text("draft")).await;
    let older = StateEdit { cancel_paused: true, ..text_edit("older") };
    let edited = bot.runtime().edit("g", &local_thread("t"), Some(1), &older).await.expect("edited");
    assert!(bot.runtime().active_run(&local_thread("t")).await.expect("read").is_none());
    let view = bot.runtime().view("g", &local_thread("t"), None).await.expect("a view");
    assert_eq!(
        (view.seq, view.state["text"].as_str(), view.next),
        (edited, Some("older"), vec!["first".to_owned()])
    );
    let on = bot.start_with(&local_thread("t"), None, StartOptions::default()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &on).await, "1.0:ask#0 asks \"may I?\"");
}

#[tokio::test]
async fn a_wrong_edit_of_a_paused_run_changes_nothing() {
    let bot = graph_handle(&asking_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update()).await;
    let wrong = StateEdit { update: Some(json!({ "n": "many" })), ..StateEdit::default() };
    edit(&bot, wrong).await.expect_err("does not fit");
    let ghost = StateEdit { as_node: Some("ghost".into()), ..StateEdit::default() };
    edit(&bot, ghost).await.expect_err("no such node");
    let past = bot.runtime().edit("g", &local_thread("t"), Some(1), &text_edit("x")).await;
    assert!(matches!(past, Err(EngineError::Store(StoreError::Busy { .. }))), "{past:?}");
    let run = bot.runtime().active_run(&local_thread("t")).await.expect("read").expect("still there");
    assert_eq!(bot.runtime().run_row(&run.key()).await.expect("row").status, RunStatus::Paused);
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "first  yes call 1 last");
}

/// The states of a watch: what was said and what is due, after each entry that has one.
async fn states(watch: &mut StateWatch) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some((event, state)) = watch.try_next().await.expect("readable") {
        if let (Event::Entry(number, _), Some(view)) = (event, state) {
            let texts: Vec<&str> = view.state["said"]
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(|texts| texts.as_str())
                .collect();
            seen.push(format!("{number}: {} → {}", texts.join(" "), view.next.join(" ")));
        }
    }
    seen
}

#[tokio::test]
async fn a_watcher_sees_the_whole_state_after_each_step() {
    let bot = graph_handle(&asking_graph(CallCounter::default()));
    run_to_text(&bot, EngineTestState::update().said(vec!["in".into()])).await;
    let run = bot.runtime().active_run(&local_thread("t")).await.expect("read").expect("paused").key();
    let said = StateEdit { update: Some(json!({ "said": ["edit"] })), ..StateEdit::default() };
    edit(&bot, said).await.expect("edited");
    let mut paused = bot.runtime().watch_states(&run, 0, WatchUntil::RunEndedOrPaused).await.expect("watch");
    let so_far = ["1: in → first", "2: in first → ask", "3: in first → ask", "4: in first edit → ask"];
    assert_eq!(states(&mut paused).await, so_far);
    bot.resume(&local_thread("t"), "yes").await.expect("finished");
    let mut whole = bot.runtime().watch_states(&run, 0, WatchUntil::RunEnded).await.expect("watch");
    let rest = ["6: in first edit  yes call 1 → last", "7: in first edit  yes call 1 last → "];
    assert_eq!(states(&mut whole).await, [&so_far[..], &rest[..]].concat());
    let mut end = bot.runtime().watch_states(&run, 6, WatchUntil::RunEnded).await.expect("watch");
    assert_eq!(states(&mut end).await, rest[1..], "from the middle on");
}
