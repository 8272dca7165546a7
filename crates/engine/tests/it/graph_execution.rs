//! What runs when: loops, fan-out and joins, deferred nodes, graphs inside graphs, graphs by names, and the errors of a wrong
//! graph.

use std::sync::Arc;

use doran_engine::graph::NodeBuilder;
use doran_engine::{
    BuildError, Cx, Graph, NodeError, NodeTimeout, Nodes, RetryPolicy, Snap, State, To, node, subgraph,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    CallCounter, EngineTestState, EngineTestStateUpdate, GatedStore, NthCallGate, StoreCallDecision,
    crash_and_take_over, graph_handle, graph_handle_on, local_thread, ms, node_running, node_saying,
    ram_store, run_to_text, run_trace, run_with_trace, single_node_graph, update_saying,
    wait_for_outcome_text,
};

#[tokio::test]
async fn a_loop_runs_until_its_branch_lets_go() {
    let graph = Graph::named()
        .node(
            "a",
            node_running(|state, _| async move { Ok(update_saying(format!("a{}", state.n)).n(state.n + 1)) })
                .then("b"),
        )
        .node(
            "b",
            node_saying("b").branch_or_end(["a"], |state: &EngineTestState| match state.n {
                3 => To::End,
                _ => To::Node("a".to_owned()),
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "a0 b a1 b a2 b");
    assert_eq!(trace, "started | a | b | a | b | a | b | finished");
}

/// `list` hands out `items`, `work` takes one each, `join` waits for all of them.
fn map_over(items: Vec<u32>) -> Graph<EngineTestState> {
    Graph::named()
        .node(
            "list",
            node_running(|_, _| async { Ok(EngineTestState::update()) }).branch(
                ["work", "join"],
                move |_: &EngineTestState| {
                    To::each("work".to_owned(), items.clone(), To::Node("join".to_owned()))
                },
            ),
        )
        .node(
            "work",
            node_running(|_, cx: Cx| async move {
                let item: u32 = cx.input()?;
                tokio::time::sleep(ms(u64::from(100 - item))).await;
                Ok(update_saying(item.to_string()).sum(u64::from(item)))
            })
            .then("join"),
        )
        .node(
            "join",
            node_running(|state, _| async move { Ok(update_saying(format!("sum {}", state.sum))) }).end(),
        )
        .start("list")
        .build()
        .expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_fan_out_has_one_task_an_item_in_the_order_of_the_items() {
    let (end, trace) = run_with_trace(&map_over(vec![1, 2, 3, 50])).await;
    assert_eq!(end, "1 2 3 50 sum 56");
    assert_eq!(trace, "started | list | work+work+work+work | join | finished");
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_fan_out_over_nothing_goes_where_it_says() {
    let (end, trace) = run_with_trace(&map_over(Vec::new())).await;
    assert_eq!((end.as_str(), trace.as_str()), ("sum 0", "started | list | join | finished"));
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_fan_out_over_a_thousand_items_joins_once() {
    let graph = map_over((0..1000).map(|n| n % 100).collect());
    let (end, trace) = run_with_trace(&graph).await;
    assert!(end.ends_with("sum 49500"));
    assert!(trace.ends_with("work | join | finished"));
}

#[tokio::test]
async fn a_task_without_an_item_that_needs_one_fails() {
    let graph = Graph::named()
        .node("a", node_running(|_, cx: Cx| async move { Ok(update_saying(cx.input::<String>()?)) }).end())
        .start("a")
        .build()
        .expect("sound");
    assert_eq!(run_with_trace(&graph).await.0, "node_failed: node `a`: node `a` was led to without an item");
}

#[tokio::test]
async fn a_join_waits_for_branches_of_unequal_length() {
    let graph = |join_waits: bool| {
        let join = node_saying("join").end();
        let join = if join_waits { join.after_all(["short", "long2"]) } else { join };
        Graph::named()
            .node("split", node_saying("split").then_all(["short", "long"]))
            .node("short", node_saying("short").then("join"))
            .node("long", node_saying("long").then("long2"))
            .node("long2", node_saying("long2").then("join"))
            .node("join", join)
            .start("split")
            .build()
            .expect("sound")
    };
    assert_eq!(run_with_trace(&graph(true)).await.0, "split short long long2 join");
    assert_eq!(
        run_with_trace(&graph(false)).await.0,
        "split short long long2 join join",
        "who does not wait runs twice"
    );
}

#[tokio::test]
async fn a_join_in_a_loop_waits_anew_each_round() {
    let graph = Graph::named()
        .node(
            "split",
            node_running(|state, _| async move { Ok(update_saying("split").n(state.n + 1)) })
                .then_all(["x", "y"]),
        )
        .node("x", node_saying("x").then("join"))
        .node("y", node_saying("y").then("y2"))
        .node("y2", node_saying("y2").then("join"))
        .node(
            "join",
            node_saying("join")
                .branch_or_end(["split"], |state: &EngineTestState| match state.n {
                    2 => To::End,
                    _ => To::Node("split".to_owned()),
                })
                .after_all(["x", "y2"]),
        )
        .start("split")
        .build()
        .expect("sound");
    assert_eq!(run_with_trace(&graph).await.0, "split x y y2 join split x y y2 join");
}

#[tokio::test]
async fn a_join_that_can_never_be_filled_fails_and_names_who_is_missing() {
    let graph = Graph::named()
        .node("split", node_saying("split").then_all(["x", "y"]))
        .node("x", node_saying("x").then("join"))
        .node("y", node_saying("y").branch_or_end(["join"], |_: &EngineTestState| To::End))
        .node("join", node_saying("join").end().after_all(["x", "y"]))
        .start("split")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "stuck_join: join `join` still waits for `y`");
    assert_eq!(trace, "started | split | failed stuck_join");
}

#[tokio::test]
async fn a_deferred_node_runs_once_when_nothing_else_is_due() {
    let graph = Graph::named()
        .node("split", node_saying("split").then_all(["last", "x", "y"]))
        .node("last", node_saying("last").defer().end())
        .node("x", node_saying("x").then("last"))
        .node("y", node_saying("y").then("y2"))
        .node("y2", node_saying("y2").then("y3"))
        .node("y3", node_saying("y3").end())
        .start("split")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "split x y y2 y3 last");
    assert_eq!(trace, "started | split | x+y | y2 | y3 | last | finished");
}

#[tokio::test(start_paused = true)]
async fn held_nodes_and_half_filled_joins_survive_a_crash() {
    let graph = |gate: CallCounter| {
        Graph::named()
            .node("split", node_saying("split").then_all(["last", "x", "y"]))
            .node("last", node_saying("last").defer().end())
            .node("x", node_saying("x").then("join"))
            .node("y", node_saying("y").then("y2"))
            .node(
                "y2",
                node_running(move |_, _| {
                    let nth = gate.increment();
                    async move {
                        if nth == 1 {
                            std::future::pending::<()>().await;
                        }
                        Ok(update_saying("y2"))
                    }
                })
                .then("join"),
            )
            .node("join", node_saying("join").end().after_all(["x", "y2"]))
            .start("split")
            .build()
            .expect("sound")
    };
    let calls = CallCounter::default();
    let (bot, handle) =
        crash_and_take_over(&ram_store(), &graph(calls.clone()), EngineTestState::update(), || {
            calls.count() == 1
        })
        .await;
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "split x y y2 join last");
}

/// The state of the graphs inside.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct SubgraphWordsState {
    #[reduce(append)]
    words: Vec<String>,
    n: u32,
}

fn subgraph_word_node(word: &'static str) -> NodeBuilder<SubgraphWordsState> {
    node(move |_: Snap<SubgraphWordsState>| async move {
        Ok::<_, NodeError>(SubgraphWordsState::update().words(vec![word.to_owned()]))
    })
}

/// Hands `n` in and the words out.
fn subgraph_node(graph: Graph<SubgraphWordsState>) -> NodeBuilder<EngineTestState> {
    node(subgraph(
        graph,
        |state: &EngineTestState| SubgraphWordsState::update().n(state.n),
        |inner: &SubgraphWordsState| EngineTestState::update().said(inner.words.clone()),
    ))
}

fn two_word_subgraph() -> Graph<SubgraphWordsState> {
    Graph::named()
        .node("one", subgraph_word_node("one").then("two"))
        .node("two", subgraph_word_node("two").end())
        .start("one")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_subgraph_has_a_state_of_its_own_and_its_steps_are_in_the_log() {
    let graph = Graph::named()
        .node("before", node_saying("before").then("sub"))
        .node("sub", subgraph_node(two_word_subgraph()).then("after"))
        .node("after", node_saying("after").end())
        .start("before")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "before one two after");
    assert_eq!(trace, "started | before | 1.0/one | 1.0/two | sub | after | finished");
    assert_eq!(
        graph.run(EngineTestState::update()).await.expect("runs alone").said_text(),
        "before one two after"
    );
}

#[tokio::test]
async fn two_subgraphs_side_by_side_do_not_mix() {
    let graph = Graph::named()
        .node("split", node_saying("split").then_all(["x", "y"]))
        .node("x", subgraph_node(two_word_subgraph()).then("join"))
        .node("y", subgraph_node(two_word_subgraph()).then("join"))
        .node("join", node_saying("join").end().after_all(["x", "y"]))
        .start("split")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "split one two one two join");
    assert_eq!(trace.matches("1.0/").count(), 2);
    assert_eq!(trace.matches("1.1/").count(), 2);
    assert!(trace.ends_with("x+y | join | finished"), "{trace}");
}

/// `outer → middle → inner`, where the innermost second node does what the parameter says.
fn doubly_nested_graph(deepest: NodeBuilder<SubgraphWordsState>) -> Graph<EngineTestState> {
    let inner = Graph::named()
        .node("one", subgraph_word_node("one").then("two"))
        .node("two", deepest.end())
        .start("one")
        .build()
        .expect("sound");
    let middle = Graph::named()
        .node("m", subgraph_word_node("m").then("deep"))
        .node(
            "deep",
            node(subgraph(
                inner,
                |state: &SubgraphWordsState| SubgraphWordsState::update().n(state.n),
                |inner: &SubgraphWordsState| SubgraphWordsState::update().words(inner.words.clone()),
            ))
            .end(),
        )
        .start("m")
        .build()
        .expect("sound");
    Graph::named()
        .node("before", node_saying("before").then("sub"))
        .node("sub", subgraph_node(middle).end())
        .start("before")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn subgraphs_nest() {
    let (end, trace) = run_with_trace(&doubly_nested_graph(subgraph_word_node("two"))).await;
    assert_eq!(end, "before m one two");
    assert_eq!(trace, "started | before | 1.0/m | 1.0/1.0/one | 1.0/1.0/two | 1.0/deep | sub | finished");
}

#[tokio::test]
async fn a_question_two_graphs_deep_pauses_the_whole_run_and_goes_on_there() {
    let asks = node(|_: Snap<SubgraphWordsState>, cx: Cx| async move {
        let answer: String = cx.ask("which?").await?;
        Ok::<_, NodeError>(SubgraphWordsState::update().words(vec![answer]))
    });
    let bot = graph_handle(&doubly_nested_graph(asks));
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "1.0/1.0/1.0:ask#0 asks \"which?\"");
    let end = crate::support::outcome_text(bot.resume(&local_thread("t"), "that").await);
    assert_eq!(end, "before m one that");
    assert_eq!(
        run_trace(bot.runtime(), &handle.key()).await,
        "started | before | 1.0/m | 1.0/1.0/one | paused by two | resumed | 1.0/1.0/two | 1.0/deep | sub | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_inside_a_subgraph_goes_on_at_the_inner_step() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let stops_once = node(move |_: Snap<SubgraphWordsState>| {
        let nth = counted.increment();
        async move {
            if nth == 1 {
                std::future::pending::<()>().await;
            }
            Ok::<_, NodeError>(SubgraphWordsState::update().words(vec!["two".to_owned()]))
        }
    });
    let graph = doubly_nested_graph(stops_once);
    let (bot, handle) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || calls.count() == 1).await;
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "before m one two");
    assert_eq!(
        run_trace(bot.runtime(), &handle.key()).await,
        "started | before | 1.0/m | 1.0/1.0/one | restarted | 1.0/1.0/two | 1.0/deep | sub | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn trying_the_outer_node_again_redoes_no_inner_step_and_no_recorded_call() {
    let (first, called, second) = (CallCounter::default(), CallCounter::default(), CallCounter::default());
    let (f, c, s) = (first.clone(), called.clone(), second.clone());
    let inner = Graph::named()
        .node(
            "one",
            node(move |_: Snap<SubgraphWordsState>| {
                f.increment();
                async { Ok::<_, NodeError>(SubgraphWordsState::update().words(vec!["one".to_owned()])) }
            })
            .then("two"),
        )
        .node(
            "two",
            node(move |_: Snap<SubgraphWordsState>, cx: Cx| {
                let (c, nth) = (c.clone(), s.increment());
                async move {
                    let made: u32 =
                        cx.effect("call", async move { Ok::<_, NodeError>(c.increment()) }).await?;
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>(SubgraphWordsState::update().words(vec![format!("call{made}")]))
                }
            })
            .end(),
        )
        .start("one")
        .build()
        .expect("sound");
    let graph = Graph::named()
        .node(
            "sub",
            subgraph_node(inner).timeout(NodeTimeout::total(ms(100))).retry(RetryPolicy::times(2)).end(),
        )
        .start("sub")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "one call1");
    assert_eq!((first.count(), called.count(), second.count()), (1, 1, 2));
    assert_eq!(trace, "started | 0.0/one | 0.0/two | sub×2 | finished");
}

#[tokio::test(start_paused = true)]
async fn an_inner_step_whose_write_is_slow_is_waited_for_and_not_made_again() {
    let inner = |calls: &CallCounter| {
        let word = |calls: &CallCounter, word: &'static str| {
            let calls = calls.clone();
            node(move |_: Snap<SubgraphWordsState>| {
                calls.increment();
                async move { Ok::<_, NodeError>(SubgraphWordsState::update().words(vec![word.to_owned()])) }
            })
        };
        let graph = Graph::named().node("one", word(calls, "one").then("two")).start("one");
        graph.node("two", word(calls, "two").end()).build().expect("sound")
    };
    for nth in [1, 2] {
        let calls = CallCounter::default();
        let tries = RetryPolicy::times(20).first_wait(ms(1));
        let graph = Graph::named()
            .node("sub", subgraph_node(inner(&calls)).timeout(NodeTimeout::total(ms(100))).retry(tries).end())
            .start("sub")
            .build()
            .expect("sound");
        let gate = NthCallGate::new("commit", nth, StoreCallDecision::DelayAnswer(ms(1500)));
        let store = GatedStore { inner: ram_store(), gate: gate.clone() };
        let bot = graph_handle_on(Arc::new(store), &graph);
        assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "one two", "commit {nth}");
        assert!(gate.fired());
        assert_eq!(calls.count(), 2, "commit {nth}");
    }
}

#[test]
fn a_start_is_named_once() {
    let twice = Graph::named().node("a", node_saying("a").end()).start("a").start("a").build();
    assert_eq!(twice.err(), Some(BuildError::StartTwice("a".into())));
}

#[tokio::test]
async fn a_node_leads_one_way_when_something_holds_and_another_when_not() {
    let counts =
        || node_running(|state, _| async move { Ok(update_saying(format!("a{}", state.n)).n(state.n + 1)) });
    let by_name = Graph::named()
        .node("a", counts().when(|state: &EngineTestState| state.n < 3, "a", "b"))
        .node("b", node_saying("b").end())
        .start("a")
        .build()
        .expect("sound");
    assert_eq!(run_with_trace(&by_name).await.0, "a0 a1 a2 b");
    let wrong =
        Graph::named().node("a", counts().when(|_: &EngineTestState| true, "a", "c")).start("a").build();
    assert_eq!(wrong.err(), Some(BuildError::UnknownTarget { from: "a".into(), to: "c".into() }));

    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Step {
        A,
        B,
    }
    let by_enum = Graph::define(|step| match step {
        Step::A => counts().when(|state: &EngineTestState| state.n < 3, Step::A, Step::B),
        Step::B => node_saying("b").end(),
    })
    .start(Step::A)
    .build()
    .expect("sound");
    assert_eq!(run_with_trace(&by_enum).await.0, "a0 a1 a2 b");
    assert_eq!(by_enum.fingerprint(), by_name.fingerprint());
}

#[tokio::test]
async fn the_code_of_the_failed_node_is_the_code_of_the_run() {
    let refused = || NodeError::permanent("401").with_code("model_unauthorized");
    let graph = single_node_graph(
        "a",
        node_running(move |_, _| async move { Err::<EngineTestStateUpdate, _>(refused()) }),
    );
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "model_unauthorized: node `a`: 401");
    assert_eq!(trace, "started | failed model_unauthorized");
    let deep =
        node(move |_: Snap<SubgraphWordsState>| async move { Err::<SubgraphWordsStateUpdate, _>(refused()) });
    assert_eq!(
        run_with_trace(&doubly_nested_graph(deep)).await.0,
        "model_unauthorized: node `sub`: node `deep`: node `two`: 401"
    );
    let panics = node(|_: Snap<SubgraphWordsState>| async move {
        if true {
            panic!("inside");
        }
        Ok::<SubgraphWordsStateUpdate, NodeError>(SubgraphWordsState::update())
    });
    let end = run_with_trace(&doubly_nested_graph(panics)).await.0;
    assert!(end.starts_with("panic: node `sub`: node `deep`: node `two`"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_inside_names_the_inner_node_and_a_retry_goes_on_there() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let fails_once = node(move |_: Snap<SubgraphWordsState>| {
        let nth = counted.increment();
        async move {
            match nth {
                1 => Err(NodeError::permanent("no")),
                _ => Ok(SubgraphWordsState::update().words(vec!["two".to_owned()])),
            }
        }
    });
    let bot = graph_handle(&doubly_nested_graph(fails_once));
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let end = wait_for_outcome_text(&bot, &handle).await;
    assert!(end.starts_with("node_failed: node `sub`: node `deep`: node `two`: no"), "{end}");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "before m one two");
    let trace = run_trace(bot.runtime(), &handle.key()).await;
    assert_eq!(trace.matches("one").count(), 1, "{trace}");
}

#[tokio::test]
async fn a_graph_by_names_is_the_graph_by_enum() {
    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Step {
        Ask,
        Answer,
    }
    let by_enum = Graph::define(|step| match step {
        Step::Ask => node_saying("ask").then(Step::Answer),
        Step::Answer => node_saying("answer").end(),
    })
    .start(Step::Ask)
    .build()
    .expect("sound");
    let by_names = Graph::named()
        .node("ask", node_saying("ask").then("answer"))
        .node("answer", node_saying("answer").end())
        .start("ask")
        .build()
        .expect("sound");
    assert_eq!(by_enum.topology(), by_names.topology());
    assert_eq!(by_enum.fingerprint(), by_names.fingerprint());
    assert_eq!(
        run_to_text(&graph_handle(&by_enum), EngineTestState::update()).await,
        run_to_text(&graph_handle(&by_names), EngineTestState::update()).await
    );
}

#[test]
fn the_error_of_a_wrong_graph_names_the_node() {
    type GraphBuildResult = Result<Graph<EngineTestState>, BuildError>;
    let check = |graph: GraphBuildResult, expected: &str| {
        assert_eq!(graph.expect_err("refused").to_string(), expected);
    };
    let named = Graph::<EngineTestState>::named;
    check(named().build(), "the graph has no nodes");
    check(
        named().node("a", node_saying("a").end()).build(),
        "the graph has no start: name a node with `.start(…)`",
    );
    check(
        named().node("a", node_saying("a").end()).start("b").build(),
        "the graph starts at `b`, which is not a node of it",
    );
    check(
        named().node("a", node_saying("a").then("b")).start("a").build(),
        "node `a` leads to `b`, which is not a node of this graph",
    );
    check(
        named()
            .node("a", node_saying("a").branch(["a", "b"], |_: &EngineTestState| To::Node("a".to_owned())))
            .start("a")
            .build(),
        "node `a` leads to `b`, which is not a node of this graph",
    );
    check(
        named().node("a", node_saying("a").end()).node("a", node_saying("a").end()).start("a").build(),
        "two nodes are called `a`",
    );
    check(
        named().node("a", node_saying("a").end()).node("b", node_saying("b").then("a")).start("a").build(),
        "nothing leads to node `b`",
    );
    check(
        named()
            .node("a", node_saying("a").then_all(["b", "c"]))
            .node("b", node_saying("b").then("join"))
            .node("c", node_saying("c").end())
            .node("join", node_saying("join").end().after_all(["b", "c"]))
            .start("a")
            .build(),
        "join `join` waits for `c`, which does not lead to it",
    );
    check(
        named()
            .node("a", node_saying("a").then_all(["b", "c"]))
            .node("b", node_saying("b").then("join"))
            .node("c", node_saying("c").then("join"))
            .node("join", node_saying("join").end().after_all(["b"]))
            .start("a")
            .build(),
        "node `c` leads to join `join`, which does not wait for it",
    );
    check(
        named().node("a", node_saying("a").end().after_all(["ghost"])).start("a").build(),
        "join `a` waits for `ghost`, which does not lead to it",
    );
    let mut many = named();
    for ix in 0..=65_536u32 {
        many = many.node(format!("n{ix}"), node_saying("n").end());
    }
    check(many.start("n0").build(), "a graph has at most 65535 nodes");
}

#[test]
fn words_of_an_update_are_kept_in_their_order() {
    let update: EngineTestStateUpdate = update_saying("a").said(vec!["b".to_owned()]);
    let mut state = EngineTestState::default();
    state.apply(update);
    assert_eq!(state.said_text(), "a b");
}

#[tokio::test]
async fn a_map_after_a_map_has_one_task_an_item() {
    let each = |to: &'static str| {
        move |_: &EngineTestState| To::Each(to.to_owned(), vec![1.into(), 2.into(), 3.into()])
    };
    let graph = Graph::named()
        .node("list", node_saying("l").branch(["one"], each("one")))
        .node("one", node_saying("1").branch(["two"], each("two")))
        .node("two", node_saying("2").end())
        .start("list")
        .build()
        .expect("sound");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "l 1 1 1 2 2 2");
    assert_eq!(trace, "started | list | one+one+one | two+two+two | finished");
}

#[tokio::test]
async fn items_cannot_be_handed_to_a_join() {
    let graph = Graph::named()
        .node("split", node_saying("s").then_all(["a", "b"]))
        .node(
            "a",
            node_saying("a")
                .branch(["join"], |_: &EngineTestState| To::Each("join".to_owned(), vec![1.into()])),
        )
        .node("b", node_saying("b").then("join"))
        .node("join", node_saying("j").end().after_all(["a", "b"]))
        .start("split")
        .build()
        .expect("sound");
    let (end, _) = run_with_trace(&graph).await;
    assert_eq!(
        end,
        "undeclared_target: node `a` handed items to join `join`, which runs once: put a node between them"
    );
}
