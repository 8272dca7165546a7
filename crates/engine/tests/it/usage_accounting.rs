//! What was spent is in the row of its run, once, however the step went that spent it.

use std::sync::Arc;

use doran_engine::graph::NodeBuilder;
use doran_engine::store::{HistoryStore, RamStore, RunUsage};
use doran_engine::{
    Cx, EntryBody, Graph, NodeError, RunKey, RunLimits, StartOptions, ThreadEntry, To, node, subgraph,
};

use crate::support::{
    CallCounter, EngineTestState, graph_handle_on, killable_runtime, local_thread, ms, node_running,
    outcome_text, ram_store, single_node_graph, update_saying, wait_for_outcome_text,
};

fn input_usage(input_tokens: u64) -> RunUsage {
    RunUsage { input_tokens, ..RunUsage::default() }
}

/// A node that spends so much.
fn spending_node(amount: u64) -> NodeBuilder<EngineTestState> {
    node_running(move |_, cx: Cx| async move {
        cx.spend(input_usage(amount))?;
        Ok(update_saying("paid"))
    })
}

/// A node that spends so much and asks then.
fn spending_and_asking_node(amount: u64) -> NodeBuilder<EngineTestState> {
    node_running(move |_, cx: Cx| async move {
        cx.effect("call", async { Ok::<_, NodeError>(1) }).await?;
        cx.spend(input_usage(amount))?;
        Ok(update_saying(cx.ask::<String, _>("?").await?))
    })
}

/// These two side by side.
fn parallel_graph(
    one: NodeBuilder<EngineTestState>,
    two: NodeBuilder<EngineTestState>,
) -> Graph<EngineTestState> {
    Graph::named()
        .node("one", one.end())
        .node("two", two.end())
        .start("one")
        .start("two")
        .build()
        .expect("sound")
}

async fn usage_in_run_row(store: &RamStore, run: &RunKey) -> u64 {
    store.run(run).await.expect("row").usage.input_tokens
}

/// What the steps in the log say was spent.
async fn usage_in_log(store: &RamStore) -> u64 {
    let entries = store.entries(&local_thread("t"), 0, 100).await.expect("entries");
    let steps =
        entries.iter().filter_map(|entry| match ThreadEntry::from_log(entry).expect("readable").body {
            EntryBody::Step(step) | EntryBody::InnerStep(step) => Some(step),
            _ => None,
        });
    steps.flat_map(|step| step.tasks).map(|task| task.usage.input_tokens).sum()
}

#[tokio::test]
async fn what_a_finished_sibling_of_a_failed_node_spent_is_booked_once() {
    let calls = CallCounter::default();
    let fails = node_running(move |_, cx: Cx| {
        let nth = calls.increment();
        async move {
            cx.spend(input_usage(5))?;
            if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(update_saying("yes")) }
        }
    });
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &parallel_graph(spending_node(7), fails));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert!(wait_for_outcome_text(&bot, &run).await.starts_with("node_failed"));
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 12);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "paid yes");
    assert_eq!((usage_in_run_row(&store, &run.key()).await, usage_in_log(&store).await), (12, 12));
}

#[tokio::test]
async fn what_a_paused_step_spent_is_booked_with_the_pause_and_not_again_with_the_answer() {
    let store = ram_store();
    let bot = graph_handle_on(
        Arc::new(store.clone()),
        &parallel_graph(spending_node(7), spending_and_asking_node(5)),
    );
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert!(wait_for_outcome_text(&bot, &run).await.contains("asks"));
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 12);
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "paid yes");
    assert_eq!((usage_in_run_row(&store, &run.key()).await, usage_in_log(&store).await), (12, 12));

    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_for_outcome_text(&bot, &run).await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 12, "a cancel while it waits loses nothing");
}

#[tokio::test]
async fn what_a_graph_inside_spent_before_it_asked_is_counted_once() {
    let inner = parallel_graph(spending_node(7), spending_and_asking_node(5));
    let sub = node(subgraph(
        inner,
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
    ));
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &single_node_graph("sub", sub));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert!(wait_for_outcome_text(&bot, &run).await.contains("asks"));
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 12);
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "paid yes");
    assert_eq!((usage_in_run_row(&store, &run.key()).await, usage_in_log(&store).await), (12, 12));
}

#[tokio::test]
async fn what_a_step_spent_whose_branch_failed_is_booked_once() {
    let graph = Graph::named()
        .node("a", spending_node(7).branch_or_end(["b"], |_: &EngineTestState| To::Node("a".to_owned())))
        .node("b", spending_node(1).end())
        .start("a")
        .build()
        .expect("sound");
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert!(wait_for_outcome_text(&bot, &run).await.starts_with("undeclared_target"));
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 7);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert!(wait_for_outcome_text(&bot, &again).await.starts_with("undeclared_target"));
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 7);
}

/// Ends a run whose limit is fifteen tokens, ten of which are spent before `interrupted` and ten after it.
fn interrupted_graph(interrupted: NodeBuilder<EngineTestState>) -> Graph<EngineTestState> {
    Graph::named()
        .node("before", spending_node(10).then("interrupted"))
        .node("interrupted", interrupted.then("after"))
        .node("after", spending_node(10).end())
        .start("before")
        .build()
        .expect("sound")
}

fn fifteen_tokens() -> StartOptions {
    let limits = RunLimits { tokens: Some(15), ..RunLimits::default() };
    StartOptions { limits: Some(limits), ..StartOptions::default() }
}

const TOKENS_EXCEEDED: &str = "limit_exceeded: node `after`: the run may use at most 15 tokens";

#[tokio::test(start_paused = true)]
async fn what_was_spent_before_a_pause_counts_towards_the_limit() {
    let asks = node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) });
    let store = ram_store();
    let handle = graph_handle_on(Arc::new(store.clone()), &interrupted_graph(asks));
    let input = Some(EngineTestState::update());
    let run = handle.start_with(&local_thread("t"), input, fifteen_tokens()).await.expect("started");
    handle.wait_for_outcome(&run).await.expect("paused");
    assert_eq!(outcome_text(handle.resume(&local_thread("t"), "on").await), TOKENS_EXCEEDED);
    assert_eq!(usage_in_run_row(&store, &run.key()).await, 20, "what was spent is counted");
}

#[tokio::test(start_paused = true)]
async fn what_was_spent_before_a_crash_counts_towards_the_limit() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let hangs_once = node_running(move |_, _: Cx| {
        let nth = counted.increment();
        async move {
            if nth == 1 {
                std::future::pending::<()>().await;
            }
            Ok(update_saying("again"))
        }
    });
    let (store, graph) = (ram_store(), interrupted_graph(hangs_once));
    let (first, kill_switch) = killable_runtime(&store, "first", &graph);
    let input = Some(EngineTestState::update());
    let run = first.start_with(&local_thread("t"), input, fifteen_tokens()).await.expect("started");
    while calls.count() == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    kill_switch.kill();
    let (second, _) = killable_runtime(&store, "second", &graph);
    second.runtime().start_worker().await.expect("works");
    let run = second.runtime().run_handle(&run.key()).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&second, &run).await, TOKENS_EXCEEDED);
}
