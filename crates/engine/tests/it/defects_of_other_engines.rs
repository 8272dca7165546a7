//! Defects seen in other engines of this kind, each as a law that must hold here: nothing fails silently, nothing is
//! lost, nothing runs twice, and no order depends on timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use doran_engine::store::{RunStatus, StoreError};
use doran_engine::{
    EngineError, Graph, NodeError, RetryPolicy, RunError, RunLimits, Runtime, Snap, StartOptions, State, To,
    node,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, graph_handle, graph_handle_on,
    local_thread, ms, node_running, node_saying, ram_store, run_to_text, run_trace, run_with_trace,
    single_node_graph, update_saying, wait_for_outcome_text,
};

#[tokio::test]
async fn a_branch_to_an_undeclared_node_fails_the_run_and_names_both() {
    let graph = Graph::named()
        .node("a", node_saying("a").branch(["b"], |_: &EngineTestState| To::Node("c".to_owned())))
        .node("b", node_saying("b").then("c"))
        .node("c", node_saying("c").end())
        .start("a")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "undeclared_target: node `a` led to `c`, which it had not declared");
    assert_eq!(trace, "started | failed undeclared_target");
}

#[tokio::test]
async fn a_branch_to_a_misspelt_node_fails_the_run() {
    let graph = Graph::named()
        .node("a", node_saying("a").branch(["b"], |_: &EngineTestState| To::Node("bb".to_owned())))
        .node("b", node_saying("b").end())
        .start("a")
        .build()
        .expect("sound");
    assert!(run_with_trace(&graph).await.0.contains("led to `bb`"));
}

#[tokio::test]
async fn a_branch_that_leads_nowhere_without_leave_fails_the_run() {
    for nowhere in [To::End, To::All(Vec::new()), To::Each("b".to_owned(), Vec::new())] {
        let shown = format!("{nowhere:?}");
        let graph = Graph::named()
            .node("a", node_saying("a").branch(["b"], move |_: &EngineTestState| nowhere.clone()))
            .node("b", node_saying("b").end())
            .start("a")
            .build()
            .expect("sound");
        let (end, _) = run_with_trace(&graph).await;
        assert!(end.starts_with("undeclared_target: node `a` led to `__end__`"), "{shown}: {end}");
    }
}

#[tokio::test]
async fn the_step_limit_is_an_error_and_what_was_done_is_kept() {
    let graph = Graph::named()
        .node("a", node_saying("a").branch(["a"], |_: &EngineTestState| To::Node("a".to_owned())))
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let options = StartOptions {
        limits: Some(RunLimits { steps: 3, ..RunLimits::default() }),
        ..StartOptions::default()
    };
    let run =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "limit_exceeded: the run may take at most 3 steps");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a a a");
    let alone = graph
        .run_with_limits(EngineTestState::update(), RunLimits { steps: 3, ..RunLimits::default() })
        .await;
    assert!(
        matches!(alone, Err(EngineError::Run(RunError::Failed(failure))) if failure.code == "limit_exceeded")
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_to_write_is_an_error_and_not_a_success() {
    for nth in 1..=3 {
        let refusal = StoreCallDecision::Refuse(StoreError::Damaged("torn".into()));
        let gate = NthCallGate::new("commit", nth, refusal);
        let store = GatedStore { inner: ram_store(), gate: gate.clone() };
        let graph = Graph::named()
            .node("a", node_saying("a").then("b"))
            .node("b", node_saying("b").then("c"))
            .node("c", node_saying("c").end())
            .start("a")
            .build()
            .expect("sound");
        let end = run_to_text(&graph_handle_on(Arc::new(store), &graph), EngineTestState::update()).await;
        assert!(gate.fired());
        assert!(end.starts_with("the run left this process: the store is damaged"), "commit {nth}: {end}");
    }
}

#[tokio::test]
async fn a_run_starts_at_every_start_and_a_conditional_start_is_taken() {
    let graph = Graph::named()
        .node(
            "route",
            node_running(|_, _| async { Ok(EngineTestState::update()) })
                .branch(["x", "y"], |state: &EngineTestState| {
                    To::Node(if state.n > 0 { "y" } else { "x" }.to_owned())
                }),
        )
        .node("x", node_saying("x").end())
        .node("y", node_saying("y").end())
        .node("z", node_saying("z").end())
        .start("route")
        .start("z")
        .build()
        .expect("sound");
    assert_eq!(run_to_text(&graph_handle(&graph), EngineTestState::update().n(1)).await, "z y");
    assert_eq!(run_to_text(&graph_handle(&graph), EngineTestState::update()).await, "z x");
}

#[tokio::test]
async fn every_step_is_in_the_log_by_default() {
    let graph = Graph::named()
        .node(
            "a",
            node_saying("a").branch_or_end(["a"], |state: &EngineTestState| match state.said.len() {
                200 => To::End,
                _ => To::Node("a".to_owned()),
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_for_outcome_text(&bot, &handle).await;
    let entries = bot.runtime().store().entries(&local_thread("t"), 0, 1000).await.expect("entries");
    assert_eq!(entries.len(), 202, "started, 200 steps, finished");
    let row = bot.runtime().store().run(&handle.key()).await.expect("row");
    assert_eq!((row.steps, row.status), (200, RunStatus::Finished));
    for (said, entry) in entries.iter().enumerate().take(201) {
        let state = bot.state_at(&local_thread("t"), Some(entry.seq)).await.expect("any entry can be read");
        assert_eq!(state.said.len(), said);
    }
}

fn fan_out_graph(
    count: usize,
    work: impl Fn(usize) -> doran_engine::graph::NodeBuilder<EngineTestState>,
) -> Graph<EngineTestState> {
    let names: Vec<String> = (0..count).map(|ix| format!("w{ix:02}")).collect();
    let mut graph = Graph::named()
        .node("split", node_running(|_, _| async { Ok(EngineTestState::update()) }).then_all(names.clone()));
    for (ix, name) in names.iter().enumerate() {
        graph = graph.node(name, work(ix).then("join"));
    }
    graph.node("join", node_saying("joined").end().after_all(names)).start("split").build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn ten_sleepers_sleep_side_by_side() {
    let graph = fan_out_graph(10, |_| {
        node_running(|_, _| async {
            tokio::time::sleep(ms(1000)).await;
            Ok(update_saying("w"))
        })
    });
    let started = tokio::time::Instant::now();
    assert_eq!(
        run_to_text(&graph_handle(&graph), EngineTestState::update()).await,
        "w w w w w w w w w w joined"
    );
    assert!(started.elapsed() < ms(1100), "took {:?}", started.elapsed());
    let started = tokio::time::Instant::now();
    assert_eq!(graph.run(EngineTestState::update()).await.expect("runs").said.len(), 11);
    assert!(started.elapsed() < ms(1100), "without a store: {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_that_compute_use_more_than_one_core() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
        return;
    }
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let graph = fan_out_graph(4, |_| {
        let (inside, most) = (inside.clone(), most.clone());
        node_running(move |_, _| {
            let (inside, most) = (inside.clone(), most.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Only one of two that compute at the same time ever sees the other.
                let until = std::time::Instant::now() + ms(10_000);
                while std::time::Instant::now() < until && most.load(Ordering::SeqCst) < 2 {
                    std::hint::spin_loop();
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(update_saying("w"))
            }
        })
    });
    run_to_text(&graph_handle(&graph), EngineTestState::update()).await;
    assert!(most.load(Ordering::SeqCst) >= 2, "branches ran one after another");
}

#[tokio::test]
async fn a_join_of_ten_branches_runs_once() {
    let graph = fan_out_graph(10, |_| node_saying("w"));
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "w w w w w w w w w w joined");
    assert_eq!(trace, "started | split | w00+w01+w02+w03+w04+w05+w06+w07+w08+w09 | join | finished");
    // The same without `after_all`, where all branches are equally long.
    let names: Vec<String> = (0..10).map(|ix| format!("w{ix}")).collect();
    let mut graph = Graph::named().node("split", node_saying("s").then_all(names.clone()));
    for name in &names {
        graph = graph.node(name, node_saying("w").then("join"));
    }
    let graph = graph.node("join", node_saying("joined").end()).start("split").build().expect("sound");
    assert_eq!(run_with_trace(&graph).await.0, "s w w w w w w w w w w joined");
}

#[tokio::test]
async fn the_end_of_one_branch_leaves_the_others_alone() {
    let graph = Graph::named()
        .node("split", node_saying("split").then_all(["short", "long"]))
        .node("short", node_saying("short").end())
        .node("long", node_saying("long").then("longer"))
        .node("longer", node_saying("longer").end())
        .start("split")
        .build()
        .expect("sound");
    assert_eq!(run_with_trace(&graph).await.0, "split short long longer");
}

#[tokio::test(start_paused = true)]
async fn updates_are_folded_in_the_order_of_definition_and_not_of_finishing() {
    let expected: Vec<String> = (0..20).map(|ix| format!("{ix}")).collect();
    for seed in 0..20u64 {
        let graph = fan_out_graph(20, |ix| {
            node_running(move |_, _| async move {
                let hash = (ix as u64 + 1)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ seed.wrapping_mul(0xD134_2543_DE82_EF95));
                tokio::time::sleep(ms((hash >> 32) % 97)).await;
                Ok(update_saying(ix.to_string()))
            })
        });
        let end = run_to_text(&graph_handle(&graph), EngineTestState::update()).await;
        assert_eq!(end, format!("{} joined", expected.join(" ")), "seed {seed}");
    }
}

#[tokio::test]
async fn a_document_does_not_multiply_in_a_fan_in() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct DocumentFanInState {
        document: String,
        #[reduce(add)]
        seen: u64,
    }
    let names: Vec<String> = (0..100).map(|ix| format!("w{ix:03}")).collect();
    let look = || {
        node(|state: Snap<DocumentFanInState>| async move {
            Ok::<_, NodeError>(DocumentFanInState::update().seen(state.document.len() as u64))
        })
    };
    let mut graph = Graph::named().node("split", look().then_all(names.clone()));
    for name in &names {
        graph = graph.node(name, look().then("join"));
    }
    let graph = graph.node("join", look().end().after_all(names)).start("split").build().expect("sound");
    let runtime = Runtime::new(Arc::new(ram_store()));
    let bot = runtime.register_graph("doc", &graph).expect("registered");
    let outcome = bot
        .run(&local_thread("t"), DocumentFanInState::update().document("x".repeat(10_000)))
        .await
        .expect("runs");
    assert_eq!(outcome.finished().expect("finished").seen, 102 * 10_000);
    let entries = runtime.store().entries(&local_thread("t"), 0, 100).await.expect("entries");
    let stored: usize = entries.iter().map(|entry| entry.body.len()).sum();
    assert!(stored < 20_000, "the document is stored once, and not {stored} bytes");
}

#[tokio::test]
async fn what_a_failed_node_proposed_is_never_seen() {
    let tries = CallCounter::default();
    let counted = tries.clone();
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node(
            "b",
            node_running(move |_, _| {
                let nth = counted.increment();
                async move {
                    let update = update_saying("half");
                    if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(update) }
                }
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "node_failed: node `b`: no");
    assert_eq!(bot.state(&local_thread("t")).await.expect("state").said_text(), "a");
}

#[tokio::test]
async fn siblings_that_finished_are_kept_and_not_run_again() {
    let (good, bad) = (CallCounter::default(), CallCounter::default());
    let (g, b) = (good.clone(), bad.clone());
    let graph = Graph::named()
        .node("split", node_saying("split").then_all(["good", "bad", "other"]))
        .node(
            "good",
            node_running(move |_, _| {
                let nth = g.increment();
                async move { Ok(update_saying(format!("good{nth}"))) }
            })
            .then("join"),
        )
        .node(
            "bad",
            node_running(move |_, _| {
                let nth = b.increment();
                async move {
                    if nth == 1 {
                        Err(NodeError::permanent("no"))
                    } else {
                        Ok(update_saying(format!("bad{nth}")))
                    }
                }
            })
            .then("join"),
        )
        .node("other", node_saying("other").then("join"))
        .node("join", node_saying("join").end().after_all(["good", "bad", "other"]))
        .start("split")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "node_failed: node `bad`: no");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "split good1 bad2 other join");
    assert_eq!((good.count(), bad.count()), (1, 2));
    assert_eq!(
        run_trace(bot.runtime(), &handle.key()).await,
        "started | split | failed node_failed | restarted | good+bad+other | join | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_policy_is_applied() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let work = node_running(move |_, _| {
        let nth = counted.increment();
        async move {
            if nth < 4 { Err(NodeError::transient("busy")) } else { Ok(update_saying(format!("{nth}"))) }
        }
    });
    let (end, trace) = run_with_trace(&single_node_graph("a", work.retry(RetryPolicy::times(5)))).await;
    assert_eq!((end.as_str(), trace.as_str()), ("4", "started | a×4 | finished"));
}

#[derive(Debug, thiserror::Error)]
#[error("the outer")]
struct OuterTestError(#[source] MiddleTestError);
#[derive(Debug, thiserror::Error)]
#[error("the middle")]
struct MiddleTestError(#[source] std::io::Error);

#[tokio::test]
async fn the_sources_of_an_error_are_shown_and_can_be_downcast() {
    let cause = || OuterTestError(MiddleTestError(std::io::Error::other("the root")));
    let error: NodeError = cause().into();
    let outer = error.source().downcast_ref::<OuterTestError>().expect("the type is kept");
    assert_eq!(outer.0.0.kind(), std::io::ErrorKind::Other);
    let (end, _) =
        run_with_trace(&single_node_graph("a", node_running(move |_, _| async move { Err(cause().into()) })))
            .await;
    assert_eq!(end, "node_failed: node `a`: the outer: the middle: the root");
}

#[tokio::test]
async fn a_sum_beyond_what_a_float_can_count_is_exact() {
    let large = (1u64 << 53) + 1;
    let graph = single_node_graph(
        "a",
        node_running(move |_, _| async move { Ok(EngineTestState::update().sum(large)) }),
    );
    assert_eq!(graph.run(EngineTestState::update().sum(1)).await.expect("runs").sum, large + 1);
    assert_ne!((large as f64 + 1.0) as u64, large + 1, "the number is large enough to tell");
}
