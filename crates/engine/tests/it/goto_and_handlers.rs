//! Nodes that choose where to go, nodes that handle the errors of others, which errors are tried again, the context of a
//! run, and graphs that a node runs.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::graph::NodeBuilder;
use doran_engine::store::RunUsage;
use doran_engine::{
    BuildError, Cx, EngineError, Graph, NodeCachePolicy, NodeError, NodeFailure, Nodes, RetryPolicy,
    RunError, RunLimits, StartOptions, To, node, subgraph,
};
use serde_json::{Value, json};

use crate::support::{
    CallCounter, EngineTestState, graph_handle, graph_handle_on, local_thread, node_running, node_saying,
    outcome_text, outcomes_despite_kills, ram_store, run_to_text, run_trace, run_with_trace,
    single_node_graph, update_saying, wait_for_outcome_text,
};

/// Says its name and goes to `to`.
fn node_going(name: &'static str, to: To<&'static str>) -> NodeBuilder<EngineTestState> {
    node_running(move |_, cx| {
        let to = to.clone();
        async move {
            cx.goto(to)?;
            Ok(update_saying(name))
        }
    })
}

#[tokio::test]
async fn a_node_changes_the_state_and_chooses_where_to_go() {
    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Step {
        Route,
        Left,
        Right,
    }
    let graph = Graph::define(|step| match step {
        Step::Route => node_running(|state, cx| async move {
            cx.goto(To::Node(Step::Left))?;
            // A later choice replaces an earlier one.
            cx.goto(if state.n == 0 { To::Node(Step::Right) } else { To::End })?;
            Ok(update_saying("route").n(state.n + 1))
        })
        .goto_or_end([Step::Left, Step::Right]),
        Step::Left => node_saying("left").end(),
        Step::Right => node_saying("right").then(Step::Route),
    });
    let graph = graph.start(Step::Route).build().expect("a sound graph");
    let (end, trace) = run_with_trace(&graph).await;
    assert_eq!(end, "route right route");
    assert_eq!(trace, "started | route | right | route | finished");
    let edges: Vec<String> = graph
        .topology()
        .edges
        .iter()
        .map(|edge| format!("{}{}{}", edge.source, if edge.conditional { "?" } else { ">" }, edge.target))
        .collect();
    assert_eq!(
        edges.join(" "),
        "__start__>route route?left route?right route?__end__ left>__end__ right>route",
        "the drawing shows every way"
    );
}

#[tokio::test]
async fn a_choice_that_was_not_declared_fails_the_run() {
    let ends = [
        (
            node_going("a", To::Node("c")).goto(["b"]),
            "undeclared_target: node `a` led to `c`, which it had not declared",
        ),
        (
            node_going("a", To::End).goto(["b"]),
            "undeclared_target: node `a` led to `__end__`, which it had not declared",
        ),
        (
            node_saying("a").goto(["b"]),
            "undeclared_target: node `a` led to `__end__`, which it had not declared",
        ),
        (
            node_going("a", To::Node("b")).then("b"),
            "undeclared_target: node `a` led to `b`, which it had not declared",
        ),
        (
            node_going("a", To::Invalid("no way".into())).goto(["b"]),
            "not_storable: node `a`: node `a` could not choose where to go: no way",
        ),
    ];
    for (definition, expected) in ends {
        let graph = Graph::named()
            .node("a", definition)
            .node("b", node_saying("b").end())
            .start("a")
            .build()
            .expect("a sound graph");
        assert_eq!(run_to_text(&graph_handle(&graph), EngineTestState::update()).await, expected);
    }
    let unknown =
        Graph::<EngineTestState>::named().node("a", node_saying("a").goto(["ghost"])).start("a").build();
    assert!(matches!(unknown, Err(BuildError::UnknownTarget { .. })), "{unknown:?}");
    let cached = node_saying("a").cache(NodeCachePolicy::by_key(|_| String::new())).goto_or_end(["a"]);
    let cached = Graph::<EngineTestState>::named().node("a", cached).start("a").build();
    assert_eq!(
        cached.expect_err("refused").to_string(),
        "node `a` chooses where to go, so its result cannot be cached"
    );
}

/// `split` hands three items to `work` and one to `other`; each `work` chooses `sum`; both lead to `sum`.
fn sending_graph() -> Graph<EngineTestState> {
    let item = |name: &'static str| {
        node_running(move |_, cx| async move {
            let input: Value = cx.input()?;
            cx.goto(To::Node("sum"))?;
            Ok(update_saying(format!("{name}{input}")))
        })
    };
    let tasks = vec![("work", json!(1)), ("other", json!({ "x": 2 })), ("work", json!(3))];
    Graph::named()
        .node("split", node_going("split", To::Tasks(tasks)).goto(["work", "other"]))
        .node("work", item("w").goto(["sum"]))
        .node("other", item("o").goto(["sum"]))
        .node("sum", node_saying("sum").end())
        .start("split")
        .build()
        .expect("a sound graph")
}

#[tokio::test(start_paused = true)]
async fn tasks_of_several_nodes_have_items_of_their_own_also_after_kills() {
    let (end, trace) = run_with_trace(&sending_graph()).await;
    assert_eq!(end, r#"split w1 w3 o{"x":2} sum"#);
    assert_eq!(trace, "started | split | work+work+other | sum | finished");
    let (outcomes, killed) = outcomes_despite_kills(sending_graph, &StartOptions::default()).await;
    assert!(killed >= 6, "{killed}");
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [end]);
}

#[tokio::test]
async fn each_task_of_a_node_goes_where_it_chooses() {
    let chooser = node_running(|_, cx| async move {
        let to: String = cx.input()?;
        let said = update_saying(format!("to {to}"));
        cx.goto(To::Node(to))?;
        Ok(said)
    });
    let split = node_going("split", To::Each("choose", vec![json!("left"), json!("right")]));
    let graph = Graph::named()
        .node("split", split.goto(["choose"]))
        .node("choose", chooser.goto(["left", "right"]))
        .node("left", node_saying("left").end())
        .node("right", node_saying("right").end())
        .start("split")
        .build()
        .expect("a sound graph");
    assert_eq!(run_with_trace(&graph).await.0, "split to left to right left right");
}

#[tokio::test]
async fn a_choice_is_kept_while_a_sibling_waits_for_an_answer() {
    let asks = node_running(|_, cx| async move {
        let answer: String = cx.ask("?").await?;
        Ok(update_saying(answer))
    });
    let graph = Graph::named()
        .node("split", node_saying("split").then_all(["a", "b"]))
        .node("a", node_going("a", To::Node("chosen")).goto(["chosen"]))
        .node("b", asks.end())
        .node("chosen", node_saying("chosen").end())
        .start("split")
        .build()
        .expect("a sound graph");
    let bot = graph_handle(&graph);
    assert!(run_to_text(&bot, EngineTestState::update()).await.ends_with("asks \"?\""));
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "b").await), "split a b chosen");
}

#[tokio::test]
async fn a_task_that_failed_leads_to_its_handler_and_nowhere_else() {
    let fails = node_running(|_, _| async { Err(NodeError::permanent("broken")) });
    let graph = Graph::named()
        .node("fails", fails.then("after").on_error("handler"))
        .node("after", node_saying("after").end())
        .node("handler", node_saying("handled").end())
        .start("fails")
        .build()
        .expect("a sound graph");
    assert_eq!(run_with_trace(&graph).await.0, "handled");
}

/// An outer graph whose `team` holds a graph; a node of that one hands over to `boss` of the outer one.
fn handing_over_graph() -> Graph<EngineTestState> {
    let inner = Graph::named()
        .node("think", node_saying("think").then_all(["hand", "beside"]))
        .node(
            "hand",
            node_running(|_, cx| async move {
                cx.goto_parent(To::Tasks(vec![("boss", json!("please"))]))?;
                Ok(update_saying("hand"))
            })
            .then("never"),
        )
        .node("beside", node_saying("beside").end())
        .node("never", node_saying("never").end())
        .start("think")
        .build()
        .expect("a sound graph");
    let team = subgraph(
        inner,
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| update_saying(format!("[{}]", inner.said_text())),
    );
    let boss =
        node_running(|_, cx| async move { Ok(update_saying(format!("boss {}", cx.input::<String>()?))) });
    Graph::named()
        .node("team", node(team).goto(["boss"]))
        .node("boss", boss.end())
        .start("team")
        .build()
        .expect("a sound graph")
}

#[tokio::test(start_paused = true)]
async fn a_node_inside_chooses_where_the_outer_graph_goes_also_after_kills() {
    let (end, trace) = run_with_trace(&handing_over_graph()).await;
    assert_eq!(end, "[think hand beside] boss please");
    assert_eq!(trace, "started | 0.0/think | 0.0/hand+beside | team | boss | finished");
    let (outcomes, killed) = outcomes_despite_kills(handing_over_graph, &StartOptions::default()).await;
    assert!(killed >= 8, "{killed}");
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [end]);
    let outermost = single_node_graph(
        "a",
        node_running(|_, cx| async move {
            cx.goto_parent(To::Node("b"))?;
            Ok(update_saying("a"))
        }),
    );
    let alone = run_to_text(&graph_handle(&outermost), EngineTestState::update()).await;
    assert!(
        alone.starts_with("undeclared_target: a node chose where the graph around its own goes"),
        "{alone}"
    );
}

/// `risky` fails for odd numbers; `handler` tells of it; both lead to `end`.
fn handled_graph(calls: CallCounter) -> Graph<EngineTestState> {
    let risky = node_running(move |_, cx| {
        calls.increment();
        async move {
            let number: u64 = cx.input()?;
            if number % 2 == 1 {
                return Err(NodeError::permanent(format!("{number} is odd")).with_code("odd"));
            }
            Ok(update_saying(number.to_string()))
        }
    });
    let handler = node_running(|_, cx| async move {
        let NodeFailure { node, code, message, input } = cx.input()?;
        Ok(update_saying(format!("({node} {code} {message} {input:?})")))
    });
    Graph::named()
        .node(
            "start",
            node_going("start", To::Each("risky", vec![json!(1), json!(2), json!(3)])).goto(["risky"]),
        )
        .node("risky", risky.then("end").on_error("handler"))
        .node("handler", handler.then("end"))
        .node("end", node_saying("end").end())
        .start("start")
        .build()
        .expect("a sound graph")
}

#[tokio::test(start_paused = true)]
async fn an_error_goes_to_its_handler_and_the_run_goes_on_also_after_kills() {
    let calls = CallCounter::default();
    let graph = handled_graph(calls.clone());
    let (end, trace) = run_with_trace(&graph).await;
    let failed = |number: u64| format!("(risky odd node `risky`: {number} is odd Some(Number({number})))");
    // The task that did not fail leads on at once; `end` is reached once more by the handlers.
    assert_eq!(end, format!("start 2 {} {} end end", failed(1), failed(3)));
    assert_eq!(trace, "started | start | risky+risky+risky | handler+handler+end | end | finished");
    assert_eq!(calls.count(), 3, "an error that is handled is not tried again for that");
    let handler = graph.topology().edges.into_iter().find(|edge| edge.target == "handler").expect("drawn");
    assert!(handler.source == "risky" && handler.conditional);
    let (outcomes, killed) =
        outcomes_despite_kills(|| handled_graph(CallCounter::default()), &StartOptions::default()).await;
    assert!(killed >= 8, "{killed}");
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [end]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_comes_after_the_retries_and_sees_panics_and_timeouts() {
    let handled = |risky: NodeBuilder<EngineTestState>| {
        let handler = node_running(|_, cx| async move { Ok(update_saying(cx.input::<NodeFailure>()?.code)) });
        Graph::named()
            .node("risky", risky.end().on_error("handler"))
            .node("handler", handler.end())
            .start("risky")
            .build()
            .expect("a sound graph")
    };
    let calls = CallCounter::default();
    let counted = calls.clone();
    let transient = node_running(move |_, _| {
        counted.increment();
        async { Err(NodeError::transient("away")) }
    });
    let (end, trace) = run_with_trace(&handled(transient.retry(RetryPolicy::times(3)))).await;
    assert_eq!((end.as_str(), trace.as_str()), ("node_failed", "started | risky×3 | handler | finished"));
    assert_eq!(calls.count(), 3);
    let panics = node_running(|_, _| async { panic!("brittle") });
    assert_eq!(run_with_trace(&handled(panics)).await.0, "panic");
    let sleeps = node_running(|_, _| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(update_saying("slept"))
    });
    let sleeps =
        sleeps.timeout(doran_engine::NodeTimeout::total(Duration::from_secs(1))).retry(RetryPolicy::never());
    assert_eq!(run_with_trace(&handled(sleeps)).await.0, "timeout");
    // A question is no error, and a limit ends the run.
    let asks = node_running(|_, cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) });
    let bot = graph_handle(&handled(asks));
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "0.0:ask#0 asks \"?\"");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "yes");
    let spends = node_running(|_, cx| async move {
        cx.spend(doran_engine::store::RunUsage { input_tokens: 9, ..Default::default() })?;
        Ok(update_saying("spent"))
    });
    let bot = graph_handle(&handled(spends));
    let limits = doran_engine::RunLimits { tokens: Some(1), ..Default::default() };
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let run =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("started");
    assert!(wait_for_outcome_text(&bot, &run).await.starts_with("limit_exceeded"));
}

#[test]
fn a_join_handles_no_errors() {
    let graph = Graph::<EngineTestState>::named()
        .node("a", node_saying("a").then("join").on_error("join"))
        .node("join", node_saying("join").end().after_all(["a"]))
        .start("a")
        .build();
    assert!(matches!(graph, Err(BuildError::JoinHandlesErrors { .. })), "{graph:?}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_which_errors_are_tried_again() {
    let tries = async |code: &'static str, transient: bool| {
        let calls = CallCounter::default();
        let counted = calls.clone();
        let fails = node_running(move |_, _| {
            counted.increment();
            async move {
                let error = if transient { NodeError::transient("x") } else { NodeError::permanent("x") };
                Err(error.with_code(code))
            }
        });
        let retry = RetryPolicy::times(4).retry_on(|error| error.code() == Some("busy"));
        let graph = single_node_graph("a", fails.retry(retry));
        graph.run(EngineTestState::update()).await.expect_err("fails");
        calls.count()
    };
    assert_eq!((tries("busy", false).await, tries("broken", false).await), (4, 1));
    assert_eq!(tries("broken", true).await, 1, "the policy decides, whatever the node says");
    let panics = RetryPolicy::times(4).retry_on(|_| panic!("the policy"));
    let fails = node_running(|_, _| async { Err(NodeError::transient("x")) }).retry(panics);
    let error = single_node_graph("a", fails).run(EngineTestState::update()).await.expect_err("fails");
    assert!(matches!(error, EngineError::Run(RunError::Failed(failure)) if failure.code == "panic"));
}

/// Says who the run is for, in the graph and in one inside it.
fn context_graph() -> Graph<EngineTestState> {
    let says = || {
        node_running(|_, cx| async move {
            let context: Value = cx.context()?;
            Ok(update_saying(format!("for {}", context["user"].as_str().unwrap_or("nobody"))))
        })
    };
    let inner = subgraph(
        single_node_graph("inner", says()),
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| update_saying(inner.said_text()),
    );
    Graph::named()
        .node("outer", says().then("sub"))
        .node("sub", node(inner).end())
        .start("outer")
        .build()
        .expect("a sound graph")
}

#[tokio::test(start_paused = true)]
async fn every_node_reads_the_context_of_its_run_also_after_kills() {
    let options = StartOptions { context: Some(json!({ "user": "kim" })), ..StartOptions::default() };
    let (outcomes, killed) = outcomes_despite_kills(context_graph, &options).await;
    assert!(killed >= 4, "{killed}");
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["for kim for kim"]);
    let bot = graph_handle(&context_graph());
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "for nobody for nobody");
    let wrong = single_node_graph(
        "a",
        node_running(|_, cx| async move { Ok(update_saying(cx.context::<String>()?)) }),
    );
    let end = run_to_text(&graph_handle(&wrong), EngineTestState::update()).await;
    assert!(end.contains("the context of the run does not fit"), "{end}");
    let large = json!("x".repeat(doran_engine::runtime::MAX_CONTEXT_BYTES));
    let options = StartOptions { context: Some(large), ..StartOptions::default() };
    let refused = bot.start_with(&local_thread("u"), Some(EngineTestState::update()), options).await;
    assert!(refused.expect_err("too large").to_string().starts_with("the context of the run: it has"));
}

/// A node that runs two graphs side by side and one after them, with effects and a question inside.
fn calling_graph(calls: CallCounter) -> Graph<EngineTestState> {
    let inner = move |name: &'static str| {
        let calls = calls.clone();
        let work = node_running(move |state, cx| {
            let calls = calls.clone();
            async move {
                let count =
                    cx.effect("count", async { Ok::<_, NodeError>(calls.increment().min(1)) }).await?;
                Ok(update_saying(format!("{name}{}{}", state.text, count)))
            }
        });
        Graph::named()
            .node("one", work.then("two"))
            .node("two", node_saying("two").end())
            .start("one")
            .build()
            .expect("a sound graph")
    };
    let (first, second) = (inner("x"), inner("y"));
    single_node_graph(
        "call",
        node_running(move |_, cx| {
            let (first, second) = (first.clone(), second.clone());
            async move {
                let x = cx.run_graph(&first, EngineTestState::update().text("1"));
                let y = cx.run_graph(&second, EngineTestState::update().text("2"));
                let (x, y) = tokio::try_join!(x, y)?;
                let z = cx.run_graph(&first, EngineTestState::update().text("3")).await?;
                Ok(update_saying(format!("{} / {} / {}", x.said_text(), y.said_text(), z.said_text())))
            }
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_node_runs_graphs_whose_steps_survive_kills() {
    let calls = CallCounter::default();
    let (end, trace) = run_with_trace(&calling_graph(calls.clone())).await;
    assert_eq!(end, "x11 two / y21 two / x31 two");
    assert_eq!(calls.count(), 3);
    for step in ["0.0/0.0/one", "0.0/0.1/two", "0.0/0.2/two"] {
        assert!(trace.contains(step), "{step}: {trace}");
    }
    let (outcomes, killed) =
        outcomes_despite_kills(|| calling_graph(CallCounter::default()), &StartOptions::default()).await;
    assert!(killed >= 12, "{killed}");
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [end]);
}

#[tokio::test]
async fn a_question_in_a_graph_that_a_node_runs_pauses_the_run_and_is_answered() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let asks = node_running(|_, cx| async move { Ok(update_saying(cx.ask::<String, _>("who?").await?)) });
    let inner = Graph::named()
        .node(
            "before",
            node_running(move |_, _| {
                counted.increment();
                async { Ok(update_saying("before")) }
            })
            .then("ask"),
        )
        .node("ask", asks.end())
        .start("before")
        .build()
        .expect("a sound graph");
    let graph = single_node_graph(
        "call",
        node_running(move |_, cx| {
            let inner = inner.clone();
            async move {
                let inner = cx.run_graph(&inner, EngineTestState::update()).await?;
                Ok(update_saying(inner.said_text()))
            }
        }),
    );
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "0.0/0.0/1.0:ask#0 asks \"who?\"");
    let other = graph_handle_on(Arc::new(store), &graph);
    assert_eq!(outcome_text(other.resume(&local_thread("t"), "kim").await), "before kim");
    assert_eq!(calls.count(), 1, "a step that was finished is not run again");
    let trace = run_trace(other.runtime(), &run.key()).await;
    assert_eq!(trace, "started | 0.0/0.0/before | paused by ask | resumed | 0.0/0.0/ask | call | finished");
}

#[tokio::test]
async fn a_limit_of_the_run_is_not_an_error_that_a_handler_takes() {
    let spends = node_running(|_, cx: Cx| async move {
        cx.spend(RunUsage { input_tokens: 20, ..RunUsage::default() })?;
        Ok(update_saying("spent"))
    });
    let graph = Graph::named()
        .node("spends", spends.end().on_error("handler"))
        .node("handler", node_saying("handled").end())
        .start("spends")
        .build()
        .expect("a sound graph");
    let limits = RunLimits { tokens: Some(15), ..RunLimits::default() };
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let (bot, input) = (graph_handle(&graph), Some(EngineTestState::update()));
    let run = bot.start_with(&local_thread("t"), input, options).await.expect("started");
    let outcome = wait_for_outcome_text(&bot, &run).await;
    assert_eq!(outcome, "limit_exceeded: node `spends`: the run may use at most 15 tokens");
}
