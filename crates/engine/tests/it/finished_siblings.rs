//! What a task finished before a crash, while the tasks beside it were still at work.

use doran_engine::graph::NodeBuilder;
use doran_engine::store::RunUsage;
use doran_engine::{Cx, Graph, RunLimits, StartOptions};

use crate::support::{
    CallCounter, EngineTestState, crash_and_take_over, killable_runtime, local_thread, ms, node_running,
    ram_store, update_saying, wait_for_outcome_text,
};

/// A node that says its word and counts how often it ran. It spends ten tokens.
fn counted_node(word: &'static str, ran: &CallCounter) -> NodeBuilder<EngineTestState> {
    let ran = ran.clone();
    node_running(move |_, cx: Cx| {
        ran.increment();
        async move {
            cx.spend(RunUsage { input_tokens: 10, ..RunUsage::default() })?;
            Ok(update_saying(word))
        }
    })
}

/// The same, but the first time it never ends.
fn hanging_once_node(word: &'static str, ran: &CallCounter) -> NodeBuilder<EngineTestState> {
    let ran = ran.clone();
    node_running(move |_, cx: Cx| {
        let nth = ran.increment();
        async move {
            if nth == 1 {
                std::future::pending::<()>().await;
            }
            cx.spend(RunUsage { input_tokens: 10, ..RunUsage::default() })?;
            Ok(update_saying(word))
        }
    })
}

fn parallel_graph(quick: &CallCounter, slow: &CallCounter) -> Graph<EngineTestState> {
    Graph::named()
        .node("quick", counted_node("quick", quick).end())
        .node("slow", hanging_once_node("slow", slow).end())
        .start("quick")
        .start("slow")
        .build()
        .expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_task_that_finished_before_a_crash_is_not_run_again() {
    let (quick, slow) = (CallCounter::default(), CallCounter::default());
    let (store, graph) = (ram_store(), parallel_graph(&quick, &slow));
    let both_ran = || quick.count() > 0 && slow.count() > 0;
    let (second, run) = crash_and_take_over(&store, &graph, EngineTestState::update(), both_ran).await;
    assert_eq!(wait_for_outcome_text(&second, &run).await, "quick slow");
    assert_eq!((quick.count(), slow.count()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn what_such_a_task_spent_counts_towards_the_limit() {
    let (quick, slow) = (CallCounter::default(), CallCounter::default());
    let (store, graph) = (ram_store(), parallel_graph(&quick, &slow));
    let (first, kill_switch) = killable_runtime(&store, "first", &graph);
    let limits = RunLimits { tokens: Some(15), ..RunLimits::default() };
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let input = Some(EngineTestState::update());
    let run = first.start_with(&local_thread("t"), input, options).await.expect("started");
    while quick.count() == 0 || slow.count() == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    tokio::time::sleep(ms(1)).await;
    kill_switch.kill();
    let (second, _) = killable_runtime(&store, "second", &graph);
    second.runtime().start_worker().await.expect("works");
    let run = second.runtime().run_handle(&run.key()).await.expect("the run");
    let outcome = wait_for_outcome_text(&second, &run).await;
    assert_eq!(outcome, "limit_exceeded: node `slow`: the run may use at most 15 tokens");
    assert_eq!(quick.count(), 1);
}
