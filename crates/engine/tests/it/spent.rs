//! What was spent is in the row of its run, once, however the step went that spent it.

use std::sync::Arc;

use doran_engine::graph::Open;
use doran_engine::store::{History, RamStore, Usage};
use doran_engine::{Cx, Graph, NodeError, RunKey, To, node, subgraph};

use crate::support::{Calls, Notes, bot_on, does, only, ram, rest, say, thread, told};

fn tokens(input_tokens: u64) -> Usage {
    Usage { input_tokens, ..Usage::default() }
}

/// A node that spends so much.
fn pays(amount: u64) -> Open<Notes> {
    does(move |_, cx: Cx| async move {
        cx.spend(tokens(amount))?;
        Ok(say("paid"))
    })
}

/// A node that spends so much and asks then.
fn pays_and_asks(amount: u64) -> Open<Notes> {
    does(move |_, cx: Cx| async move {
        cx.effect("call", async { Ok::<_, NodeError>(1) }).await?;
        cx.spend(tokens(amount))?;
        Ok(say(cx.ask::<String, _>("?").await?))
    })
}

/// These two side by side.
fn beside(one: Open<Notes>, two: Open<Notes>) -> Graph<Notes> {
    Graph::named()
        .node("one", one.end())
        .node("two", two.end())
        .start("one")
        .start("two")
        .build()
        .expect("sound")
}

async fn booked(store: &RamStore, run: &RunKey) -> u64 {
    store.run(run).await.expect("row").usage.input_tokens
}

/// What the steps in the log say was spent.
async fn logged(store: &RamStore) -> u64 {
    let entries = store.entries(&thread("t"), 0, 100).await.expect("entries");
    let steps = entries.iter().filter_map(|entry| match entry.read() {
        Ok(doran_engine::log::Body::Step(step) | doran_engine::log::Body::Inner(step)) => Some(step),
        _ => None,
    });
    steps.flat_map(|step| step.tasks).map(|task| task.usage.input_tokens).sum()
}

#[tokio::test]
async fn what_a_finished_sibling_of_a_failed_node_spent_is_booked_once() {
    let calls = Calls::default();
    let fails = does(move |_, cx: Cx| {
        let nth = calls.hit();
        async move {
            cx.spend(tokens(5))?;
            if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(say("yes")) }
        }
    });
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &beside(pays(7), fails));
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert!(rest(&bot, &run).await.starts_with("node_failed"));
    assert_eq!(booked(&store, &run.key()).await, 12);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert_eq!(rest(&bot, &again).await, "paid yes");
    assert_eq!((booked(&store, &run.key()).await, logged(&store).await), (12, 12));
}

#[tokio::test]
async fn what_a_paused_step_spent_is_booked_with_the_pause_and_not_again_with_the_answer() {
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &beside(pays(7), pays_and_asks(5)));
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert!(rest(&bot, &run).await.contains("asks"));
    assert_eq!(booked(&store, &run.key()).await, 12);
    assert_eq!(told(bot.resume(&thread("t"), "yes").await), "paid yes");
    assert_eq!((booked(&store, &run.key()).await, logged(&store).await), (12, 12));

    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    rest(&bot, &run).await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(booked(&store, &run.key()).await, 12, "a cancel while it waits loses nothing");
}

#[tokio::test]
async fn what_a_graph_inside_spent_before_it_asked_is_booked_once() {
    let inner = beside(pays(7), pays_and_asks(5));
    let sub = node(subgraph(
        inner,
        |_: &Notes| Notes::update(),
        |inner: &Notes| Notes::update().said(inner.said.clone()),
    ));
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &only("sub", sub));
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert!(rest(&bot, &run).await.contains("asks"));
    assert_eq!(booked(&store, &run.key()).await, 12);
    assert_eq!(told(bot.resume(&thread("t"), "yes").await), "paid yes");
    assert_eq!((booked(&store, &run.key()).await, logged(&store).await), (12, 12));
}

#[tokio::test]
async fn what_a_step_spent_whose_branch_failed_is_booked_once() {
    let graph = Graph::named()
        .node("a", pays(7).branch_or_end(["b"], |_: &Notes| To::Node("a".to_owned())))
        .node("b", pays(1).end())
        .start("a")
        .build()
        .expect("sound");
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert!(rest(&bot, &run).await.starts_with("undeclared_target"));
    assert_eq!(booked(&store, &run.key()).await, 7);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert!(rest(&bot, &again).await.starts_with("undeclared_target"));
    assert_eq!(booked(&store, &run.key()).await, 7);
}
