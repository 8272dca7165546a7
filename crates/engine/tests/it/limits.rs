//! What a run may not do: try for ever, take for ever, spend without end, take the process down, or go on after it was
//! cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use doran_engine::graph::NodeBuilder;
use doran_engine::store::{EntryKind, HistoryStore, IfBusy, RunSignal, RunStatus, RunStore, RunUsage};
use doran_engine::{
    Cx, Graph, GraphHandle, NodeCachePolicy, NodeError, NodeTimeout, RetryPolicy, RunHandle, RunLimits, Snap,
    StartOptions, State, TenantId, ThreadId, ThreadKey, To, node, subgraph,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::support::{
    CallCounter, EngineTestState, EngineTestStateUpdate, crash_and_take_over, graph_handle, graph_handle_on,
    killable_runtime, local_thread, ms, node_running, node_saying, outcome_text, ram_store, run_to_text,
    run_trace, run_with_trace, single_node_graph, update_saying, wait_for_outcome_text,
};

/// A node that fails so often, then says how often it was tried.
fn failing_node(times: u32, error: fn() -> NodeError) -> (NodeBuilder<EngineTestState>, CallCounter) {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let node = node_running(move |_, _| {
        let nth = counted.increment();
        async move { if nth <= times { Err(error()) } else { Ok(update_saying(format!("try {nth}"))) } }
    });
    (node, calls)
}

fn transient_error() -> NodeError {
    NodeError::transient("busy")
}

#[tokio::test(start_paused = true)]
async fn waits_between_tries_grow() {
    let started = tokio::time::Instant::now();
    let (node, _) = failing_node(3, transient_error);
    assert_eq!(run_with_trace(&single_node_graph("a", node.retry(RetryPolicy::times(4)))).await.0, "try 4");
    // Half a second, one, two; each cut by up to half.
    let took = started.elapsed();
    assert!((ms(1750)..=ms(3600)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn tries_end() {
    let (node, calls) = failing_node(u32::MAX, transient_error);
    assert_eq!(
        run_with_trace(&single_node_graph("a", node.retry(RetryPolicy::times(3)))).await.0,
        "node_failed: node `a`: busy"
    );
    assert_eq!(calls.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_not_tried_again() {
    let (node, calls) = failing_node(1, || NodeError::permanent("no"));
    assert_eq!(
        run_with_trace(&single_node_graph("a", node.retry(RetryPolicy::times(5)))).await.0,
        "node_failed: node `a`: no"
    );
    let (once, tried) = failing_node(1, transient_error);
    assert_eq!(
        run_with_trace(&single_node_graph("a", once.retry(RetryPolicy::never()))).await.0,
        "node_failed: node `a`: busy"
    );
    assert_eq!((calls.count(), tried.count()), (1, 1));
}

/// A node that works for `total`, giving a sign of life every `sign`.
fn working_node(total: u64, sign: Option<u64>) -> NodeBuilder<EngineTestState> {
    node_running(move |_, cx: Cx| async move {
        let step = sign.unwrap_or(total);
        for _ in 0..total / step {
            tokio::time::sleep(ms(step)).await;
            cx.heartbeat();
        }
        Ok(update_saying("done"))
    })
}

#[tokio::test(start_paused = true)]
async fn a_total_timeout_ends_a_try_however_lively_it_is() {
    let node = || working_node(10_000, Some(10)).retry(RetryPolicy::never());
    let end = run_with_trace(&single_node_graph("a", node().timeout(NodeTimeout::total(ms(500))))).await.0;
    assert_eq!(end, "timeout: node `a`: took longer than 500ms");
    assert_eq!(
        run_with_trace(&single_node_graph("a", node().timeout(NodeTimeout::total(ms(20_000))))).await.0,
        "done"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_ends_only_a_try_without_a_sign_of_life() {
    let idle = NodeTimeout::idle(ms(100));
    assert_eq!(
        run_with_trace(&single_node_graph("a", working_node(10_000, Some(50)).timeout(idle))).await.0,
        "done"
    );
    let end = run_with_trace(&single_node_graph(
        "a",
        working_node(10_000, None).retry(RetryPolicy::never()).timeout(idle),
    ))
    .await
    .0;
    assert_eq!(end, "timeout: node `a`: gave no sign of life for 100ms");
}

#[tokio::test(start_paused = true)]
async fn a_try_that_took_too_long_is_tried_again() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let node = node_running(move |_, _| {
        let nth = counted.increment();
        async move {
            tokio::time::sleep(ms(if nth < 3 { 1000 } else { 1 })).await;
            Ok(update_saying(format!("try {nth}")))
        }
    });
    assert_eq!(
        run_with_trace(&single_node_graph("a", node.timeout(NodeTimeout::total(ms(100))))).await.0,
        "try 3"
    );
}

/// A node whose result may be used again for the same `n`, for a minute.
fn cached_node(calls: CallCounter) -> NodeBuilder<EngineTestState> {
    node_running(move |state, _| {
        let nth = calls.increment();
        async move { Ok(update_saying(format!("{}:{nth}", state.n))) }
    })
    .cache(NodeCachePolicy::by_key(|state: &EngineTestState| state.n.to_string()).lifetime(ms(60_000)))
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_lasts_for_its_lifetime_and_is_marked_as_cached() {
    let calls = CallCounter::default();
    let bot = graph_handle(&single_node_graph("a", cached_node(calls.clone())));
    let on = |name: &'static str, n: u32| {
        let bot = bot.clone();
        async move {
            let run = bot.start(&local_thread(name), EngineTestState::update().n(n)).await.expect("started");
            (wait_for_outcome_text(&bot, &run).await, run_trace(bot.runtime(), &run.key()).await)
        }
    };
    assert_eq!(on("t1", 7).await, ("7:1".to_owned(), "started | a | finished".to_owned()));
    assert_eq!(on("t2", 7).await, ("7:1".to_owned(), "started | a~ | finished".to_owned()));
    assert_eq!(on("t3", 8).await.0, "8:2", "another key");
    tokio::time::advance(ms(61_000)).await;
    assert_eq!(on("t4", 7).await.0, "7:3", "its time is over");
}

#[tokio::test]
async fn a_cached_result_stays_with_its_tenant_and_its_graph() {
    let calls = CallCounter::default();
    let store = Arc::new(ram_store());
    let alone = graph_handle_on(store.clone(), &single_node_graph("a", cached_node(calls.clone())));
    assert_eq!(run_to_text(&alone, EngineTestState::update()).await, "0:1");
    let foreign = ThreadKey {
        tenant: TenantId::new("acme").expect("a name"),
        thread: ThreadId::new("t").expect("a name"),
    };
    assert_eq!(outcome_text(alone.run(&foreign, EngineTestState::update()).await), "0:2", "another tenant");
    let longer = Graph::named()
        .node("a", cached_node(calls.clone()).then("b"))
        .node("b", node_saying("b").end())
        .start("a")
        .build()
        .expect("sound");
    let longer = alone.runtime().register_graph("longer", &longer).expect("registered");
    assert_eq!(
        outcome_text(longer.run(&local_thread("u"), EngineTestState::update()).await),
        "0:3 b",
        "another graph"
    );
}

#[tokio::test]
async fn tasks_of_a_dynamic_fan_out_do_not_share_a_cached_result() {
    let graph = Graph::named()
        .node(
            "list",
            node_saying("list").branch(["work"], |_: &EngineTestState| {
                To::each("work".to_owned(), ["x", "y", "z"], To::End)
            }),
        )
        .node(
            "work",
            node_running(|_, cx: Cx| async move { Ok(update_saying(cx.input::<String>()?)) })
                .cache(NodeCachePolicy::by_key(|_: &EngineTestState| String::new()))
                .end(),
        )
        .start("list")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    assert_eq!(outcome_text(bot.run(&local_thread("t1"), EngineTestState::update()).await), "list x y z");
    let again = bot.start(&local_thread("t2"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "list x y z");
    assert_eq!(run_trace(bot.runtime(), &again.key()).await, "started | list | work~+work~+work~ | finished");
}

async fn run_with_limits(
    graph: &Graph<EngineTestState>,
    limits: RunLimits,
) -> (String, GraphHandle<EngineTestState>) {
    let bot = graph_handle(graph);
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let run =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("started");
    (wait_for_outcome_text(&bot, &run).await, bot)
}

/// Spends in every step, for ever.
fn spending_graph(usage: RunUsage) -> Graph<EngineTestState> {
    Graph::named()
        .node(
            "a",
            node_running(move |_, cx: Cx| async move {
                cx.spend(usage)?;
                tokio::time::sleep(ms(100)).await;
                Ok(update_saying("a"))
            })
            .branch(["a"], |_: &EngineTestState| To::Node("a".to_owned())),
        )
        .start("a")
        .build()
        .expect("sound")
}

#[tokio::test(start_paused = true)]
async fn each_limit_of_a_run_ends_it_and_keeps_what_was_done() {
    let graph = spending_graph(RunUsage { input_tokens: 10, output_tokens: 5, cost_micros: 100 });
    let (end, bot) = run_with_limits(&graph, RunLimits { steps: 4, ..RunLimits::default() }).await;
    assert_eq!(end, "limit_exceeded: the run may take at most 4 steps");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a a a a");

    let (end, bot) = run_with_limits(&graph, RunLimits { tokens: Some(40), ..RunLimits::default() }).await;
    assert_eq!(end, "limit_exceeded: node `a`: the run may use at most 40 tokens");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a a");

    let (end, _) =
        run_with_limits(&graph, RunLimits { cost_micros: Some(250), ..RunLimits::default() }).await;
    assert_eq!(end, "limit_exceeded: node `a`: the run may cost at most 0.00025 US dollars");

    let (end, bot) =
        run_with_limits(&graph, RunLimits { active: Some(ms(350)), ..RunLimits::default() }).await;
    assert!(end.ends_with("the run may be worked on for at most 350ms"), "{end}");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a a a");
}

/// A waiter gets the row of a finished run from the worker, not from the store.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_what_the_store_holds() {
    let spends = |usage| {
        node_running(move |_, cx: Cx| async move {
            cx.spend(usage)?;
            Ok(update_saying("a"))
        })
    };
    let graph = Graph::named()
        .node("free", node_running(|_, _| async move { Ok(update_saying("f")) }).then("dear"))
        .node("dear", spends(RunUsage { input_tokens: 10, output_tokens: 5, cost_micros: 100 }).then("last"))
        .node("last", spends(RunUsage { input_tokens: 1, output_tokens: 2, cost_micros: 3 }).end())
        .start("free")
        .build()
        .expect("sound");
    let bot = graph_handle_on(Arc::new(ram_store()), &graph);
    for round in 1..=2 {
        let run = bot.start(&local_thread("t"), update_saying("in")).await.expect("started");
        let row = run.wait().await.expect("rests");
        assert_eq!((row.steps, row.usage.input_tokens, row.last_seq), (3, 11, Some(round * 5)));
        assert_eq!(row, bot.runtime().store().run(&run.key()).await.expect("run"));
    }
}

/// Goes round `rounds` times and ends, but hangs in the third step before the crash.
fn looping_graph(rounds: u32, calls: &CallCounter) -> Graph<EngineTestState> {
    let counted = calls.clone();
    let node = node_running(move |_, _| {
        let nth = counted.increment();
        async move {
            if nth == 3 {
                std::future::pending::<()>().await;
            }
            Ok(update_saying("a"))
        }
    });
    let next_round = move |notes: &EngineTestState| {
        if notes.said.len() < rounds as usize { To::Node("a".to_owned()) } else { To::End }
    };
    Graph::named().node("a", node.branch_or_end(["a"], next_round)).start("a").build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn steps_are_counted_once_each_across_a_crash() {
    let (calls, store) = (CallCounter::default(), ram_store());
    let graph = looping_graph(5, &calls);
    let (bot, run) =
        crash_and_take_over(&store, &graph, EngineTestState::update(), || calls.count() == 3).await;
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "a a a a a");
    let row = store.run(&run.key()).await.expect("the run");
    assert_eq!((row.status, row.epoch, row.steps), (RunStatus::Finished, 2, 5));

    // The next run of the thread counts from nothing.
    let again = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "a a a a a a");
    assert_eq!(store.run(&again.key()).await.expect("the run").steps, 1);
}

#[tokio::test(start_paused = true)]
async fn the_steps_before_a_crash_count_towards_the_limit() {
    let (calls, store) = (CallCounter::default(), ram_store());
    let graph = looping_graph(9, &calls);
    let (first, kill_switch) = killable_runtime(&store, "first", &graph);
    let limits = RunLimits { steps: 4, ..RunLimits::default() };
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let key = first
        .start_with(&local_thread("t"), Some(EngineTestState::update()), options)
        .await
        .expect("started")
        .key();
    while calls.count() < 3 {
        tokio::time::sleep(ms(1)).await;
    }
    kill_switch.kill();
    let (second, _) = killable_runtime(&store, "second", &graph);
    second.runtime().start_worker().await.expect("works");
    let run = second.runtime().run_handle(&key).await.expect("the run");
    assert_eq!(
        wait_for_outcome_text(&second, &run).await,
        "limit_exceeded: the run may take at most 4 steps"
    );
    let row = store.run(&key).await.expect("the run");
    assert_eq!((row.status, row.steps), (RunStatus::Failed, 4));
    assert_eq!(calls.count(), 5, "two steps, one that was lost, two more");
}

const TEN_TOKENS: RunUsage = RunUsage { input_tokens: 7, output_tokens: 3, cost_micros: 100 };

#[tokio::test]
async fn what_a_cancelled_step_spent_is_booked() {
    let spent = Arc::new(Notify::new());
    let tells = spent.clone();
    let graph = Graph::named()
        .node(
            "a",
            node_running(|_, cx: Cx| async move {
                cx.spend(TEN_TOKENS)?;
                Ok(update_saying("a"))
            })
            .then("b"),
        )
        .node(
            "b",
            node_running(move |_, cx: Cx| {
                let tells = tells.clone();
                async move {
                    cx.spend(TEN_TOKENS)?;
                    tells.notify_one();
                    std::future::pending::<Result<EngineTestStateUpdate, NodeError>>().await
                }
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    spent.notified().await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "the run was cancelled");
    let row = store.run(&run.key()).await.expect("the run");
    assert_eq!(row.usage, RunUsage { input_tokens: 14, output_tokens: 6, cost_micros: 200 });
}

#[tokio::test]
async fn a_retry_of_a_failed_run_does_not_count_twice_what_was_spent() {
    let tries = Arc::new(AtomicU32::new(0));
    let counts = tries.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let nth = counts.fetch_add(1, Ordering::Relaxed);
            async move {
                cx.effect("call", async { Ok::<_, NodeError>(1) }).await?;
                cx.spend(TEN_TOKENS)?;
                if nth == 0 {
                    return Err(NodeError::permanent("the second call failed"));
                }
                cx.spend(TEN_TOKENS)?;
                Ok(update_saying("a"))
            }
        }),
    );
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "node_failed: node `a`: the second call failed");
    assert_eq!(store.run(&run.key()).await.expect("the run").usage, TEN_TOKENS);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "a");
    let row = store.run(&run.key()).await.expect("the run");
    assert_eq!(row.usage, RunUsage { input_tokens: 14, output_tokens: 6, cost_micros: 200 });
}

#[tokio::test]
async fn a_run_that_rests_tells_how_many_steps_it_took() {
    let asks = node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) });
    let spends = node_running(|_, cx: Cx| async move {
        cx.spend(RunUsage { input_tokens: 1, output_tokens: 0, cost_micros: 0 })?;
        Ok(update_saying("b"))
    });
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node("b", spends.then("c"))
        .node("c", node_saying("c").then("d"))
        .node("d", asks.then("e"))
        .node("e", node_saying("e").end())
        .start("a")
        .build()
        .expect("sound");
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "3.0:ask#0 asks \"?\"");
    assert_eq!(store.run(&run.key()).await.expect("the run").steps, 3);
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "d").await), "a b c d e");
    assert_eq!(store.run(&run.key()).await.expect("the run").steps, 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_does_not_outlive_the_time_of_its_run() {
    let graph = single_node_graph(
        "a",
        node_running(|_, _| std::future::pending::<Result<EngineTestStateUpdate, NodeError>>()),
    );
    let started = tokio::time::Instant::now();
    let (end, _) =
        run_with_limits(&graph, RunLimits { active: Some(ms(5_000)), ..RunLimits::default() }).await;
    assert_eq!(end, "limit_exceeded: node `a`: the run may be worked on for at most 5s");
    assert!(started.elapsed() < ms(6_000), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn time_spent_waiting_for_a_person_does_not_count() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) }),
    );
    let (_, bot) =
        run_with_limits(&graph, RunLimits { active: Some(ms(1_000)), ..RunLimits::default() }).await;
    tokio::time::advance(ms(3_600_000)).await;
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "late").await), "late");
}

#[tokio::test(start_paused = true)]
async fn time_worked_before_a_pause_counts() {
    let works = |name: &'static str| {
        node_running(move |_, _: Cx| async move {
            tokio::time::sleep(ms(700)).await;
            Ok(update_saying(name))
        })
    };
    let asks = node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) });
    let graph = Graph::named().node("a", works("a").then("b")).node("b", asks.then("c"));
    let graph = graph.node("c", works("c").end()).start("a").build().expect("sound");
    let (_, bot) =
        run_with_limits(&graph, RunLimits { active: Some(ms(1_000)), ..RunLimits::default() }).await;
    let ended = outcome_text(bot.resume(&local_thread("t"), "on").await);
    assert!(ended.starts_with("limit_exceeded"), "the second 700 ms are too many: {ended}");
}

#[tokio::test(start_paused = true)]
async fn time_worked_in_the_step_that_pauses_counts() {
    let works_and_asks = node_running(|_, cx: Cx| async move {
        tokio::time::sleep(ms(700)).await;
        Ok(update_saying(cx.ask::<String, _>("?").await?))
    });
    let graph = single_node_graph("a", works_and_asks);
    let (_, bot) =
        run_with_limits(&graph, RunLimits { active: Some(ms(1_000)), ..RunLimits::default() }).await;
    let ended = outcome_text(bot.resume(&local_thread("t"), "on").await);
    assert!(ended.starts_with("limit_exceeded"), "it worked for 700 ms twice: {ended}");
}

#[tokio::test]
async fn a_panic_ends_its_run_and_nothing_else() {
    type PanickingGraphCase = (&'static str, Graph<EngineTestState>);
    let sync = node_running(|_, _| -> std::future::Ready<Result<EngineTestStateUpdate, NodeError>> {
        panic!("at once")
    });
    let later = node_running(|_, _| async {
        tokio::task::yield_now().await;
        panic!("later")
    });
    let key = node_saying("a")
        .cache(NodeCachePolicy::by_key(|_: &EngineTestState| -> String { panic!("in the key") }));
    let branch = Graph::named()
        .node(
            "a",
            node_saying("a")
                .branch_or_end(["a"], |_: &EngineTestState| -> To<String> { panic!("in the branch") }),
        )
        .start("a")
        .build()
        .expect("sound");
    let broken: [PanickingGraphCase; 4] = [
        ("panic: node `a`: panicked: at once", single_node_graph("a", sync)),
        ("panic: node `a`: panicked: later", single_node_graph("a", later)),
        ("panic: node `a`: panicked: in the key", single_node_graph("a", key)),
        ("panic: a reducer or branch after `a` panicked: in the branch", branch),
    ];
    let good = graph_handle(&single_node_graph("good", working_node(1, None)));
    for (expected, graph) in &broken {
        let broken = good.runtime().register_graph(expected, graph).expect("registered");
        let run = broken
            .start(&local_thread(&format!("t{}", expected.len())), EngineTestState::update())
            .await
            .expect("started");
        assert_eq!(wait_for_outcome_text(&broken, &run).await, *expected);
        assert_eq!(run_trace(good.runtime(), &run.key()).await, "started | failed panic", "{expected}");
    }
    assert_eq!(run_to_text(&good, EngineTestState::update()).await, "done", "the runtime goes on");
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct PanickingReducerState(u32);

impl State for PanickingReducerState {
    type Update = u32;

    fn apply(&mut self, update: u32) {
        assert!(update < 10, "too much");
        self.0 += update;
    }
}

#[tokio::test]
async fn a_reducer_that_panics_ends_its_run_also_when_it_panics_on_the_input() {
    let graph = Graph::named()
        .node(
            "a",
            node(|state: Snap<PanickingReducerState>| async move { Ok::<_, NodeError>(state.0 * 5) }).end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let runtime = doran_engine::Runtime::new(Arc::new(ram_store()));
    let bot = runtime.register_graph("touchy", &graph).expect("registered");
    for (input, expected) in [
        (1, "PanickingReducerState(6)"),
        (2, "after `a` panicked: too much"),
        (99, "the log was read: too much"),
    ] {
        let end = match bot.run(&local_thread(&format!("t{input}")), input).await {
            Ok(outcome) => format!("{:?}", outcome.finished().expect("finished")),
            Err(error) => error.to_string(),
        };
        assert!(end.contains(expected), "{input}: {end}");
    }
}

#[tokio::test]
async fn a_panic_side_by_side_keeps_what_its_siblings_did() {
    let (calls, tries) = (CallCounter::default(), CallCounter::default());
    let (counted, tried) = (calls.clone(), tries.clone());
    let graph = Graph::named()
        .node(
            "good",
            node_running(move |_, _| {
                let n = counted.increment();
                async move { Ok(update_saying(format!("good{n}"))) }
            })
            .end(),
        )
        .node(
            "bad",
            node_running(move |_, _| {
                let nth = tried.increment();
                async move {
                    assert!(nth > 1, "the first time");
                    Ok(update_saying("bad"))
                }
            })
            .end(),
        )
        .start("good")
        .start("bad")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "panic: node `bad`: panicked: the first time");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "good1 bad");
}

/// Says when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A call that never ends, two graphs deep and side by side with another.
fn hanging_nested_graph(begun: CallCounter, dropped: Arc<AtomicBool>) -> Graph<EngineTestState> {
    let through = |graph: Graph<EngineTestState>| {
        node(subgraph(
            graph,
            |_: &EngineTestState| EngineTestState::update(),
            |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
        ))
    };
    let deepest = node_running(move |_, cx: Cx| {
        let guard = DropFlag(dropped.clone());
        begun.increment();
        async move {
            cx.emit_text("half a wor");
            cx.effect("call", async move {
                let _guard = guard;
                std::future::pending::<Result<(), NodeError>>().await
            })
            .await?;
            Ok(update_saying("never"))
        }
    });
    let middle = Graph::named()
        .node("deep", through(single_node_graph("deepest", deepest)).end())
        .node("other", node_saying("other").end())
        .start("deep")
        .start("other")
        .build()
        .expect("sound");
    Graph::named()
        .node("a", node_saying("a").then("sub"))
        .node("sub", through(middle).end())
        .start("a")
        .build()
        .expect("sound")
}

async fn wait_until(what: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if what() {
            return;
        }
        tokio::time::sleep(ms(1)).await;
    }
    panic!("it did not happen");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_deepest_call_and_keeps_what_was_shown() {
    let (begun, dropped) = (CallCounter::default(), Arc::new(AtomicBool::new(false)));
    let bot = graph_handle(&hanging_nested_graph(begun.clone(), dropped.clone()));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_until(|| begun.count() == 1).await;
    tokio::time::sleep(ms(10)).await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "the run was cancelled");
    wait_until(|| dropped.load(Ordering::SeqCst)).await;
    assert_eq!(run_trace(bot.runtime(), &run.key()).await, "started | a | cancelled");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a", "what was done stays");
    let entries = bot.runtime().store().entries(&local_thread("t"), 0, 10).await.expect("entries");
    let end = entries.last().expect("an end");
    assert_eq!(end.kind, EntryKind::Cancelled);
    assert!(String::from_utf8_lossy(&end.body).contains("half a wor"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_the_wait_for_another_try_starts_no_other_try() {
    let (node, calls) = failing_node(u32::MAX, transient_error);
    let bot = graph_handle(&single_node_graph("a", node.retry(RetryPolicy::times(9).first_wait(ms(60_000)))));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_until(|| calls.count() == 1).await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "the run was cancelled");
    assert_eq!(calls.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_durable_when_the_process_dies_next() {
    let (begun, dropped) = (CallCounter::default(), Arc::new(AtomicBool::new(false)));
    let store = ram_store();
    let graph = hanging_nested_graph(begun.clone(), dropped);
    let (first, kill_switch) = crate::support::killable_runtime(&store, "first", &graph);
    let key = first.start(&local_thread("t"), EngineTestState::update()).await.expect("started").key();
    wait_until(|| begun.count() == 1).await;
    // Another process accepts the cancel, and the one at work dies before it sees it.
    let (other, _) = crate::support::killable_runtime(&store, "other", &graph);
    kill_switch.kill();
    other.runtime().cancel(&key).await.expect("noted");
    other.runtime().start_worker().await.expect("works");
    let run = other.runtime().run_handle(&key).await.expect("the run");
    assert_eq!(wait_for_outcome_text(&other, &run).await, "the run was cancelled");
    assert_eq!(begun.count(), 1, "nothing was begun again");
}

/// A wish to cancel that the store alone knows is heard of with the next write: no further node begins.
#[tokio::test]
async fn a_cancel_that_a_commit_tells_of_begins_no_other_node() {
    let (store, begun) = (ram_store(), CallCounter::default());
    let (cancelled, counted) = (store.clone(), begun.clone());
    let cancels = node_running(move |_, _: Cx| {
        let store = cancelled.clone();
        async move {
            let row = store.thread(&local_thread("t")).await.expect("a thread");
            let run = local_thread("t").run(row.active.expect("a run"));
            store.signal(&run, RunSignal::Cancel { body: b"{}".to_vec() }).await.expect("noted");
            Ok(update_saying("a"))
        }
    });
    let counts = node_running(move |_, _: Cx| {
        counted.increment();
        async { Ok(update_saying("b")) }
    });
    let graph = Graph::named().node("a", cancels.then("b")).node("b", counts.end()).start("a");
    let handle = graph_handle_on(Arc::new(store.clone()), &graph.build().expect("sound"));
    let ended = outcome_text(handle.run(&local_thread("t"), EngineTestState::update()).await);
    assert_eq!((ended.as_str(), begun.count()), ("the run was cancelled", 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_another_process_reaches_the_one_at_work() {
    let (begun, dropped) = (CallCounter::default(), Arc::new(AtomicBool::new(false)));
    let store = ram_store();
    let graph = hanging_nested_graph(begun.clone(), dropped.clone());
    let (first, _) = crate::support::killable_runtime(&store, "first", &graph);
    let run = first.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_until(|| begun.count() == 1).await;
    let (other, _) = crate::support::killable_runtime(&store, "other", &graph);
    other.runtime().cancel(&run.key()).await.expect("noted");
    assert_eq!(wait_for_outcome_text(&first, &run).await, "the run was cancelled");
    wait_until(|| dropped.load(Ordering::SeqCst)).await;
}

#[tokio::test(start_paused = true)]
async fn queued_and_paused_runs_can_be_cancelled() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) }),
    );
    let bot = graph_handle(&graph);
    let paused = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_for_outcome_text(&bot, &paused).await;
    let wait = StartOptions { if_busy: IfBusy::Enqueue, ..StartOptions::default() };
    let queued =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), wait).await.expect("queued");
    let row = bot.runtime().cancel(&queued.key()).await.expect("cancelled");
    assert_eq!(row.status, RunStatus::Cancelled);
    assert_eq!(wait_for_outcome_text(&bot, &queued).await, "the run was cancelled");
    bot.runtime().cancel(&paused.key()).await.expect("cancelled");
    assert_eq!(run_trace(bot.runtime(), &paused.key()).await, "started | paused by a | cancelled");
    let again = bot.runtime().cancel(&paused.key()).await.expect("nothing to do");
    assert_eq!(again.status, RunStatus::Cancelled);
    assert!(outcome_text(bot.resume(&local_thread("t"), "x").await).contains("waits for no answer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_and_a_finish_that_race_end_the_run_once() {
    for round in 0..200u64 {
        let work = node_running(move |_, _| async move {
            // In some rounds the cancel wins for certain, in the others it is up to chance.
            if round % 7 == 6 {
                std::future::pending::<()>().await;
            }
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            Ok(update_saying("a"))
        });
        let bot = graph_handle(&single_node_graph("a", work));
        let run: RunHandle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        for _ in 0..round % 11 {
            tokio::task::yield_now().await;
        }
        bot.runtime().cancel(&run.key()).await.expect("cancelled");
        let end = wait_for_outcome_text(&bot, &run).await;
        let row = bot.runtime().store().run(&run.key()).await.expect("row");
        let entries = bot.runtime().store().entries(&local_thread("t"), 0, 10).await.expect("entries");
        let ends: Vec<EntryKind> =
            entries.iter().map(|entry| entry.kind).filter(|kind| kind.is_end()).collect();
        match row.status {
            RunStatus::Finished => {
                assert!(round % 7 < 6, "round {round}");
                let expected = ("a", &[EntryKind::Finished][..]);
                assert_eq!((end.as_str(), ends.as_slice()), expected, "round {round}");
            }
            RunStatus::Cancelled => {
                assert_eq!(ends, [EntryKind::Cancelled], "round {round}");
                assert_eq!(end, "the run was cancelled", "round {round}");
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_a_failing_subgraph_spent_is_booked_once() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let spends = node_running(move |_, cx: Cx| {
        let first = counted.increment() == 1;
        async move {
            cx.effect("call", async { Ok::<_, NodeError>(1) }).await?;
            cx.spend(TEN_TOKENS)?;
            if first {
                Err(NodeError::permanent("the second call failed"))
            } else {
                Ok(update_saying("inner"))
            }
        }
    });
    let sub = subgraph(
        single_node_graph("inner", spends),
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
    );
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &single_node_graph("sub", node(sub)));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let rested = wait_for_outcome_text(&bot, &run).await;
    assert!(rested.ends_with("the second call failed"), "{rested}");
    assert_eq!(store.run(&run.key()).await.expect("the run").usage, TEN_TOKENS);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "inner");
    assert_eq!(store.run(&run.key()).await.expect("the run").usage, TEN_TOKENS);
}

#[tokio::test]
async fn a_time_that_never_comes_is_no_limit() {
    let forever = NodeTimeout { total: Some(std::time::Duration::MAX), idle: Some(std::time::Duration::MAX) };
    assert_eq!(run_with_trace(&single_node_graph("a", node_saying("a").timeout(forever))).await.0, "a");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_another_try_does_not_outlive_the_time_of_its_run() {
    let (node, calls) = failing_node(9, transient_error);
    let graph = single_node_graph("a", node.retry(RetryPolicy::times(5).first_wait(ms(60_000))));
    let started = tokio::time::Instant::now();
    let (end, _) =
        run_with_limits(&graph, RunLimits { active: Some(ms(1000)), ..RunLimits::default() }).await;
    assert!(end.starts_with("limit_exceeded"), "{end}");
    assert_eq!(calls.count(), 1);
    assert!(started.elapsed() < ms(10_000), "{:?}", started.elapsed());
}
