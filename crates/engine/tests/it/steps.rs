//! What runs when: loops, fan-out and joins, deferred nodes, graphs inside graphs, graphs by names, and what a wrong
//! graph is told.

use std::sync::Arc;

use doran_engine::graph::Open;
use doran_engine::{
    BuildError, Cx, Graph, NodeError, Nodes, Retry, Snap, State, Timeout, To, node, subgraph,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    AtCall, Calls, GatedStore, Notes, NotesUpdate, Verdict, bot, bot_on, crash_and_take_over, does, ms, only,
    ram, rest, run, say, says, thread, trace, traced,
};

#[tokio::test]
async fn a_loop_runs_until_its_branch_lets_go() {
    let graph = Graph::named()
        .node("a", does(|state, _| async move { Ok(say(format!("a{}", state.n)).n(state.n + 1)) }).then("b"))
        .node(
            "b",
            says("b").branch_or_end(["a"], |state: &Notes| match state.n {
                3 => To::End,
                _ => To::Node("a".to_owned()),
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "a0 b a1 b a2 b");
    assert_eq!(trace, "started | a | b | a | b | a | b | finished");
}

/// `list` hands out `items`, `work` takes one each, `join` waits for all of them.
fn map_over(items: Vec<u32>) -> Graph<Notes> {
    Graph::named()
        .node(
            "list",
            does(|_, _| async { Ok(Notes::update()) }).branch(["work", "join"], move |_: &Notes| {
                To::each("work".to_owned(), items.clone(), To::Node("join".to_owned()))
            }),
        )
        .node(
            "work",
            does(|_, cx: Cx| async move {
                let item: u32 = cx.input()?;
                tokio::time::sleep(ms(u64::from(100 - item))).await;
                Ok(say(item.to_string()).sum(u64::from(item)))
            })
            .then("join"),
        )
        .node("join", does(|state, _| async move { Ok(say(format!("sum {}", state.sum))) }).end())
        .start("list")
        .build()
        .expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_fan_out_has_one_task_an_item_in_the_order_of_the_items() {
    let (end, trace) = traced(&map_over(vec![1, 2, 3, 50])).await;
    assert_eq!(end, "1 2 3 50 sum 56");
    assert_eq!(trace, "started | list | work+work+work+work | join | finished");
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_fan_out_over_nothing_goes_where_it_says() {
    let (end, trace) = traced(&map_over(Vec::new())).await;
    assert_eq!((end.as_str(), trace.as_str()), ("sum 0", "started | list | join | finished"));
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_fan_out_over_a_thousand_items_joins_once() {
    let graph = map_over((0..1000).map(|n| n % 100).collect());
    let (end, trace) = traced(&graph).await;
    assert!(end.ends_with("sum 49500"));
    assert!(trace.ends_with("work | join | finished"));
}

#[tokio::test]
async fn a_task_without_an_item_that_asks_for_one_is_told() {
    let graph = Graph::named()
        .node("a", does(|_, cx: Cx| async move { Ok(say(cx.input::<String>()?)) }).end())
        .start("a")
        .build()
        .expect("sound");
    assert_eq!(traced(&graph).await.0, "node_failed: node `a`: node `a` was led to without an item");
}

#[tokio::test]
async fn a_join_waits_for_branches_of_unequal_length() {
    let graph = |join_waits: bool| {
        let join = says("join").end();
        let join = if join_waits { join.after_all(["short", "long2"]) } else { join };
        Graph::named()
            .node("split", says("split").then_all(["short", "long"]))
            .node("short", says("short").then("join"))
            .node("long", says("long").then("long2"))
            .node("long2", says("long2").then("join"))
            .node("join", join)
            .start("split")
            .build()
            .expect("sound")
    };
    assert_eq!(traced(&graph(true)).await.0, "split short long long2 join");
    assert_eq!(
        traced(&graph(false)).await.0,
        "split short long long2 join join",
        "who does not wait runs twice"
    );
}

#[tokio::test]
async fn a_join_in_a_loop_waits_anew_each_round() {
    let graph = Graph::named()
        .node("split", does(|state, _| async move { Ok(say("split").n(state.n + 1)) }).then_all(["x", "y"]))
        .node("x", says("x").then("join"))
        .node("y", says("y").then("y2"))
        .node("y2", says("y2").then("join"))
        .node(
            "join",
            says("join")
                .branch_or_end(["split"], |state: &Notes| match state.n {
                    2 => To::End,
                    _ => To::Node("split".to_owned()),
                })
                .after_all(["x", "y2"]),
        )
        .start("split")
        .build()
        .expect("sound");
    assert_eq!(traced(&graph).await.0, "split x y y2 join split x y y2 join");
}

#[tokio::test]
async fn a_join_that_can_never_be_filled_fails_and_names_who_is_missing() {
    let graph = Graph::named()
        .node("split", says("split").then_all(["x", "y"]))
        .node("x", says("x").then("join"))
        .node("y", says("y").branch_or_end(["join"], |_: &Notes| To::End))
        .node("join", says("join").end().after_all(["x", "y"]))
        .start("split")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "stuck_join: join `join` still waits for `y`");
    assert_eq!(trace, "started | split | failed stuck_join");
}

#[tokio::test]
async fn a_deferred_node_runs_once_when_nothing_else_is_due() {
    let graph = Graph::named()
        .node("split", says("split").then_all(["last", "x", "y"]))
        .node("last", says("last").defer().end())
        .node("x", says("x").then("last"))
        .node("y", says("y").then("y2"))
        .node("y2", says("y2").then("y3"))
        .node("y3", says("y3").end())
        .start("split")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "split x y y2 y3 last");
    assert_eq!(trace, "started | split | x+y | y2 | y3 | last | finished");
}

#[tokio::test(start_paused = true)]
async fn held_nodes_and_half_filled_joins_survive_a_crash() {
    let graph = |gate: Calls| {
        Graph::named()
            .node("split", says("split").then_all(["last", "x", "y"]))
            .node("last", says("last").defer().end())
            .node("x", says("x").then("join"))
            .node("y", says("y").then("y2"))
            .node(
                "y2",
                does(move |_, _| {
                    let nth = gate.hit();
                    async move {
                        if nth == 1 {
                            std::future::pending::<()>().await;
                        }
                        Ok(say("y2"))
                    }
                })
                .then("join"),
            )
            .node("join", says("join").end().after_all(["x", "y2"]))
            .start("split")
            .build()
            .expect("sound")
    };
    let calls = Calls::default();
    let (bot, handle) =
        crash_and_take_over(&ram(), &graph(calls.clone()), Notes::update(), || calls.count() == 1).await;
    assert_eq!(rest(&bot, &handle).await, "split x y y2 join last");
}

/// The state of the graphs inside.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Inner {
    #[reduce(append)]
    words: Vec<String>,
    n: u32,
}

fn word(word: &'static str) -> Open<Inner> {
    node(
        move |_: Snap<Inner>| async move { Ok::<_, NodeError>(Inner::update().words(vec![word.to_owned()])) },
    )
}

/// Hands `n` in and the words out.
fn nest(graph: Graph<Inner>) -> Open<Notes> {
    node(subgraph(
        graph,
        |state: &Notes| Inner::update().n(state.n),
        |inner: &Inner| Notes::update().said(inner.words.clone()),
    ))
}

fn two_words() -> Graph<Inner> {
    Graph::named()
        .node("one", word("one").then("two"))
        .node("two", word("two").end())
        .start("one")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_subgraph_has_a_state_of_its_own_and_its_steps_are_in_the_log() {
    let graph = Graph::named()
        .node("before", says("before").then("sub"))
        .node("sub", nest(two_words()).then("after"))
        .node("after", says("after").end())
        .start("before")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "before one two after");
    assert_eq!(trace, "started | before | 1.0/one | 1.0/two | sub | after | finished");
    assert_eq!(graph.run(Notes::update()).await.expect("runs alone").line(), "before one two after");
}

#[tokio::test]
async fn two_subgraphs_side_by_side_do_not_mix() {
    let graph = Graph::named()
        .node("split", says("split").then_all(["x", "y"]))
        .node("x", nest(two_words()).then("join"))
        .node("y", nest(two_words()).then("join"))
        .node("join", says("join").end().after_all(["x", "y"]))
        .start("split")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "split one two one two join");
    assert_eq!(trace.matches("1.0/").count(), 2);
    assert_eq!(trace.matches("1.1/").count(), 2);
    assert!(trace.ends_with("x+y | join | finished"), "{trace}");
}

/// `outer → middle → inner`, where the innermost second node does what it is told.
fn two_deep(deepest: Open<Inner>) -> Graph<Notes> {
    let inner = Graph::named()
        .node("one", word("one").then("two"))
        .node("two", deepest.end())
        .start("one")
        .build()
        .expect("sound");
    let middle = Graph::named()
        .node("m", word("m").then("deep"))
        .node(
            "deep",
            node(subgraph(
                inner,
                |state: &Inner| Inner::update().n(state.n),
                |inner: &Inner| Inner::update().words(inner.words.clone()),
            ))
            .end(),
        )
        .start("m")
        .build()
        .expect("sound");
    Graph::named()
        .node("before", says("before").then("sub"))
        .node("sub", nest(middle).end())
        .start("before")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn subgraphs_nest() {
    let (end, trace) = traced(&two_deep(word("two"))).await;
    assert_eq!(end, "before m one two");
    assert_eq!(trace, "started | before | 1.0/m | 1.0/1.0/one | 1.0/1.0/two | 1.0/deep | sub | finished");
}

#[tokio::test]
async fn a_question_two_graphs_deep_pauses_the_whole_run_and_goes_on_there() {
    let asks = node(|_: Snap<Inner>, cx: Cx| async move {
        let answer: String = cx.ask("which?").await?;
        Ok::<_, NodeError>(Inner::update().words(vec![answer]))
    });
    let bot = bot(&two_deep(asks));
    let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &handle).await, "1.0/1.0/1.0:ask#0 asks \"which?\"");
    let end = crate::support::told(bot.resume(&thread("t"), "that").await);
    assert_eq!(end, "before m one that");
    assert_eq!(
        trace(bot.runtime(), &handle.key()).await,
        "started | before | 1.0/m | 1.0/1.0/one | paused by two | resumed | 1.0/1.0/two | 1.0/deep | sub | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_inside_a_subgraph_goes_on_at_the_inner_step() {
    let calls = Calls::default();
    let counted = calls.clone();
    let stops_once = node(move |_: Snap<Inner>| {
        let nth = counted.hit();
        async move {
            if nth == 1 {
                std::future::pending::<()>().await;
            }
            Ok::<_, NodeError>(Inner::update().words(vec!["two".to_owned()]))
        }
    });
    let graph = two_deep(stops_once);
    let (bot, handle) = crash_and_take_over(&ram(), &graph, Notes::update(), || calls.count() == 1).await;
    assert_eq!(rest(&bot, &handle).await, "before m one two");
    assert_eq!(
        trace(bot.runtime(), &handle.key()).await,
        "started | before | 1.0/m | 1.0/1.0/one | restarted | 1.0/1.0/two | 1.0/deep | sub | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn trying_the_outer_node_again_redoes_no_inner_step_and_no_recorded_call() {
    let (first, called, second) = (Calls::default(), Calls::default(), Calls::default());
    let (f, c, s) = (first.clone(), called.clone(), second.clone());
    let inner = Graph::named()
        .node(
            "one",
            node(move |_: Snap<Inner>| {
                f.hit();
                async { Ok::<_, NodeError>(Inner::update().words(vec!["one".to_owned()])) }
            })
            .then("two"),
        )
        .node(
            "two",
            node(move |_: Snap<Inner>, cx: Cx| {
                let (c, nth) = (c.clone(), s.hit());
                async move {
                    let made: u32 = cx.effect("call", async move { Ok::<_, NodeError>(c.hit()) }).await?;
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>(Inner::update().words(vec![format!("call{made}")]))
                }
            })
            .end(),
        )
        .start("one")
        .build()
        .expect("sound");
    let graph = Graph::named()
        .node("sub", nest(inner).timeout(Timeout::total(ms(100))).retry(Retry::times(2)).end())
        .start("sub")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "one call1");
    assert_eq!((first.count(), called.count(), second.count()), (1, 1, 2));
    assert_eq!(trace, "started | 0.0/one | 0.0/two | sub×2 | finished");
}

#[tokio::test(start_paused = true)]
async fn an_inner_step_whose_write_is_slow_is_waited_for_and_not_made_again() {
    let inner = |calls: &Calls| {
        let word = |calls: &Calls, word: &'static str| {
            let calls = calls.clone();
            node(move |_: Snap<Inner>| {
                calls.hit();
                async move { Ok::<_, NodeError>(Inner::update().words(vec![word.to_owned()])) }
            })
        };
        let graph = Graph::named().node("one", word(calls, "one").then("two")).start("one");
        graph.node("two", word(calls, "two").end()).build().expect("sound")
    };
    for nth in [1, 2] {
        let calls = Calls::default();
        let tries = Retry::times(20).first_wait(ms(1));
        let graph = Graph::named()
            .node("sub", nest(inner(&calls)).timeout(Timeout::total(ms(100))).retry(tries).end())
            .start("sub")
            .build()
            .expect("sound");
        let gate = AtCall::new("commit", nth, Verdict::Late(ms(1500)));
        let store = GatedStore { inner: ram(), gate: gate.clone() };
        let bot = bot_on(Arc::new(store), &graph);
        assert_eq!(run(&bot, Notes::update()).await, "one two", "commit {nth}");
        assert!(gate.fired());
        assert_eq!(calls.count(), 2, "commit {nth}");
    }
}

#[test]
fn a_start_is_named_once() {
    let twice = Graph::named().node("a", says("a").end()).start("a").start("a").build();
    assert_eq!(twice.err(), Some(BuildError::StartTwice("a".into())));
}

#[tokio::test]
async fn a_node_leads_one_way_when_something_holds_and_another_when_not() {
    let counts = || does(|state, _| async move { Ok(say(format!("a{}", state.n)).n(state.n + 1)) });
    let by_name = Graph::named()
        .node("a", counts().when(|state: &Notes| state.n < 3, "a", "b"))
        .node("b", says("b").end())
        .start("a")
        .build()
        .expect("sound");
    assert_eq!(traced(&by_name).await.0, "a0 a1 a2 b");
    let wrong = Graph::named().node("a", counts().when(|_: &Notes| true, "a", "c")).start("a").build();
    assert_eq!(wrong.err(), Some(BuildError::UnknownTarget { from: "a".into(), to: "c".into() }));

    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Step {
        A,
        B,
    }
    let by_enum = Graph::define(|step| match step {
        Step::A => counts().when(|state: &Notes| state.n < 3, Step::A, Step::B),
        Step::B => says("b").end(),
    })
    .start(Step::A)
    .build()
    .expect("sound");
    assert_eq!(traced(&by_enum).await.0, "a0 a1 a2 b");
    assert_eq!(by_enum.fingerprint(), by_name.fingerprint());
}

#[tokio::test]
async fn the_code_of_whoever_failed_is_the_code_of_the_run() {
    let refused = || NodeError::permanent("401").with_code("model_unauthorized");
    let graph = only("a", does(move |_, _| async move { Err::<NotesUpdate, _>(refused()) }));
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "model_unauthorized: node `a`: 401");
    assert_eq!(trace, "started | failed model_unauthorized");
    let deep = node(move |_: Snap<Inner>| async move { Err::<InnerUpdate, _>(refused()) });
    assert_eq!(
        traced(&two_deep(deep)).await.0,
        "model_unauthorized: node `sub`: node `deep`: node `two`: 401"
    );
    let panics = node(|_: Snap<Inner>| async move {
        if true {
            panic!("inside");
        }
        Ok::<InnerUpdate, NodeError>(Inner::update())
    });
    let end = traced(&two_deep(panics)).await.0;
    assert!(end.starts_with("panic: node `sub`: node `deep`: node `two`"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_inside_names_the_inner_node_and_a_retry_goes_on_there() {
    let calls = Calls::default();
    let counted = calls.clone();
    let fails_once = node(move |_: Snap<Inner>| {
        let nth = counted.hit();
        async move {
            match nth {
                1 => Err(NodeError::permanent("no")),
                _ => Ok(Inner::update().words(vec!["two".to_owned()])),
            }
        }
    });
    let bot = bot(&two_deep(fails_once));
    let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
    let end = rest(&bot, &handle).await;
    assert!(end.starts_with("node_failed: node `sub`: node `deep`: node `two`: no"), "{end}");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(rest(&bot, &again).await, "before m one two");
    let trace = trace(bot.runtime(), &handle.key()).await;
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
        Step::Ask => says("ask").then(Step::Answer),
        Step::Answer => says("answer").end(),
    })
    .start(Step::Ask)
    .build()
    .expect("sound");
    let by_names = Graph::named()
        .node("ask", says("ask").then("answer"))
        .node("answer", says("answer").end())
        .start("ask")
        .build()
        .expect("sound");
    assert_eq!(by_enum.drawing(), by_names.drawing());
    assert_eq!(by_enum.fingerprint(), by_names.fingerprint());
    assert_eq!(run(&bot(&by_enum), Notes::update()).await, run(&bot(&by_names), Notes::update()).await);
}

#[test]
fn a_wrong_graph_is_told_which_node_is_wrong() {
    type Build = Result<Graph<Notes>, BuildError>;
    let check = |graph: Build, expected: &str| {
        assert_eq!(graph.expect_err("refused").to_string(), expected);
    };
    let named = Graph::<Notes>::named;
    check(named().build(), "the graph has no nodes");
    check(named().node("a", says("a").end()).build(), "the graph has no start: name a node with `.start(…)`");
    check(
        named().node("a", says("a").end()).start("b").build(),
        "the graph starts at `b`, which is not a node of it",
    );
    check(
        named().node("a", says("a").then("b")).start("a").build(),
        "node `a` leads to `b`, which is not a node of this graph",
    );
    check(
        named()
            .node("a", says("a").branch(["a", "b"], |_: &Notes| To::Node("a".to_owned())))
            .start("a")
            .build(),
        "node `a` leads to `b`, which is not a node of this graph",
    );
    check(
        named().node("a", says("a").end()).node("a", says("a").end()).start("a").build(),
        "two nodes are called `a`",
    );
    check(
        named().node("a", says("a").end()).node("b", says("b").then("a")).start("a").build(),
        "nothing leads to node `b`",
    );
    check(
        named()
            .node("a", says("a").then_all(["b", "c"]))
            .node("b", says("b").then("join"))
            .node("c", says("c").end())
            .node("join", says("join").end().after_all(["b", "c"]))
            .start("a")
            .build(),
        "join `join` waits for `c`, which does not lead to it",
    );
    check(
        named()
            .node("a", says("a").then_all(["b", "c"]))
            .node("b", says("b").then("join"))
            .node("c", says("c").then("join"))
            .node("join", says("join").end().after_all(["b"]))
            .start("a")
            .build(),
        "node `c` leads to join `join`, which does not wait for it",
    );
    check(
        named().node("a", says("a").end().after_all(["ghost"])).start("a").build(),
        "join `a` waits for `ghost`, which does not lead to it",
    );
    let mut many = named();
    for ix in 0..=65_536u32 {
        many = many.node(format!("n{ix}"), says("n").end());
    }
    check(many.start("n0").build(), "a graph has at most 65535 nodes");
}

#[test]
fn words_of_an_update_are_kept_in_their_order() {
    let update: NotesUpdate = say("a").said(vec!["b".to_owned()]);
    let mut state = Notes::default();
    state.apply(update);
    assert_eq!(state.line(), "a b");
}

#[tokio::test]
async fn a_map_after_a_map_has_one_task_an_item() {
    let each =
        |to: &'static str| move |_: &Notes| To::Each(to.to_owned(), vec![1.into(), 2.into(), 3.into()]);
    let graph = Graph::named()
        .node("list", says("l").branch(["one"], each("one")))
        .node("one", says("1").branch(["two"], each("two")))
        .node("two", says("2").end())
        .start("list")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "l 1 1 1 2 2 2");
    assert_eq!(trace, "started | list | one+one+one | two+two+two | finished");
}

#[tokio::test]
async fn items_cannot_be_handed_to_a_join() {
    let graph = Graph::named()
        .node("split", says("s").then_all(["a", "b"]))
        .node("a", says("a").branch(["join"], |_: &Notes| To::Each("join".to_owned(), vec![1.into()])))
        .node("b", says("b").then("join"))
        .node("join", says("j").end().after_all(["a", "b"]))
        .start("split")
        .build()
        .expect("sound");
    let (end, _) = traced(&graph).await;
    assert_eq!(
        end,
        "undeclared_target: the branch of node `a` handed items to join `join`, which runs once: put a node between them"
    );
}
