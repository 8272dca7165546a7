//! Graphs inside graphs, as many as there may be, on the stack of an ordinary thread.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use doran_engine::graph::{MAX_NESTED_GRAPHS, NodeBuilder};
use doran_engine::{BuildError, Graph, NodeError, node, subgraph};

use crate::support::{
    CallCounter, EngineTestState, crash_and_take_over, graph_handle, graph_handle_on, local_thread, ms,
    node_running, outcome_text, ram_store, run_to_text, run_with_trace, single_node_graph, update_saying,
    wait_for_outcome_text,
};

/// Runs a test on a thread as tokio starts them, with time that waits for nobody.
fn on_small_stack<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().expect("a runtime").block_on(test());
    });
    thread.expect("a thread").join().expect("the test passes");
}

/// So many graphs inside each other. Each but the innermost first counts, then runs the next; `n` tells how deep it is.
fn nested_graph(
    levels: usize,
    counted: &CallCounter,
    deepest: NodeBuilder<EngineTestState>,
) -> Result<Graph<EngineTestState>, BuildError> {
    let mut graph = single_node_graph("leaf", deepest);
    for _ in 1..levels {
        let counted = counted.clone();
        let count = node_running(move |_, _| {
            counted.increment();
            async { Ok(EngineTestState::update()) }
        });
        let inner = subgraph(
            graph,
            |outer: &EngineTestState| EngineTestState::update().n(outer.n + 1),
            |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
        );
        graph = Graph::named()
            .node("count", count.then("inner"))
            .node("inner", node(inner).end())
            .start("count")
            .build()?;
    }
    Ok(graph)
}

/// Says how deep it is.
fn node_saying_depth() -> NodeBuilder<EngineTestState> {
    node_running(|state, _| async move { Ok(update_saying(format!("at {}", state.n))) })
}

#[test]
fn as_many_graphs_as_there_may_be_run_inside_each_other() {
    on_small_stack(|| async {
        let counter = CallCounter::default();
        let graph = nested_graph(MAX_NESTED_GRAPHS, &counter, node_saying_depth()).expect("not too deep");
        let (end, trace) = run_with_trace(&graph).await;
        let deepest = format!("at {}", MAX_NESTED_GRAPHS - 1);
        assert_eq!(end, deepest);
        assert_eq!(trace.matches("/leaf").count(), 1, "{trace}");
        assert_eq!(counter.count() as usize, MAX_NESTED_GRAPHS - 1);
        let alone = graph.run(EngineTestState::update()).await.expect("runs without a store");
        assert_eq!(alone.said_text(), deepest);
    });
}

#[test]
fn the_deepest_graph_asks_and_goes_on_with_the_answer() {
    on_small_stack(|| async {
        let counter = CallCounter::default();
        let asks = node_running(|_, cx| async move { Ok(update_saying(cx.ask::<String, _>("who?").await?)) });
        let graph = nested_graph(MAX_NESTED_GRAPHS, &counter, asks).expect("not too deep");
        let store = ram_store();
        let bot = graph_handle_on(Arc::new(store.clone()), &graph);
        let paused = run_to_text(&bot, EngineTestState::update()).await;
        let path = ["1.0"; MAX_NESTED_GRAPHS - 1].join("/");
        assert_eq!(paused, format!("{path}/0.0:ask#0 asks \"who?\""));
        let other = graph_handle_on(Arc::new(store), &graph);
        assert_eq!(outcome_text(other.resume(&local_thread("t"), "kim").await), "kim");
        assert_eq!(counter.count() as usize, MAX_NESTED_GRAPHS - 1, "no finished step ran again");
    });
}

#[test]
fn the_deepest_graph_goes_on_after_a_crash() {
    on_small_stack(|| async {
        let (counter, tries) = (CallCounter::default(), CallCounter::default());
        let tried = tries.clone();
        let dies_once = node_running(move |_, _| {
            let nth = tried.increment();
            async move {
                if nth == 1 {
                    pending::<()>().await;
                }
                Ok(update_saying("alive"))
            }
        });
        let graph = nested_graph(MAX_NESTED_GRAPHS, &counter, dies_once).expect("not too deep");
        let crashed = || tries.count() == 1;
        let (bot, run) = crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), crashed).await;
        assert_eq!(wait_for_outcome_text(&bot, &run).await, "alive");
        assert_eq!(tries.count(), 2);
        assert_eq!(counter.count() as usize, MAX_NESTED_GRAPHS - 1, "no finished step ran again");
    });
}

/// Says when it is dropped.
struct NestedDropFlag(Arc<AtomicBool>);

impl Drop for NestedDropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_cancel_ends_the_deepest_graph() {
    on_small_stack(|| async {
        let (counter, begun) = (CallCounter::default(), CallCounter::default());
        let dropped = Arc::new(AtomicBool::new(false));
        let (counted, flag) = (begun.clone(), dropped.clone());
        let waits = node_running(move |_, _| {
            let held = NestedDropFlag(flag.clone());
            counted.increment();
            async move {
                pending::<()>().await;
                drop(held);
                Ok(EngineTestState::update())
            }
        });
        let bot = graph_handle(&nested_graph(MAX_NESTED_GRAPHS, &counter, waits).expect("not too deep"));
        let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        while begun.count() == 0 {
            tokio::time::sleep(ms(1)).await;
        }
        bot.runtime().cancel(&run.key()).await.expect("cancelled");
        assert_eq!(wait_for_outcome_text(&bot, &run).await, "the run was cancelled");
        assert!(dropped.load(Ordering::SeqCst), "the deepest node is still at work");
    });
}

#[test]
fn one_graph_more_is_refused() {
    let counter = CallCounter::default();
    let refused = nested_graph(MAX_NESTED_GRAPHS + 1, &counter, node_saying_depth()).expect_err("too deep");
    assert_eq!(refused, BuildError::TooManyNested("inner".into()));
    assert_eq!(
        refused.to_string(),
        format!("with the graph in node `inner`, more than {MAX_NESTED_GRAPHS} graphs are inside each other")
    );
}

/// A graph whose node runs the graph itself, so many times.
fn recursive_graph(times: u32) -> Graph<EngineTestState> {
    let itself: Arc<OnceLock<Graph<EngineTestState>>> = Arc::default();
    let known = itself.clone();
    let graph = single_node_graph(
        "again",
        node_running(move |state, cx| {
            let graph = known.get().cloned();
            async move {
                if state.n == times {
                    return Ok(update_saying("end"));
                }
                let graph = graph.ok_or_else(|| NodeError::permanent("no graph"))?;
                let inner = cx.run_graph(&graph, EngineTestState::update().n(state.n + 1)).await?;
                Ok(update_saying(format!("{} {}", state.n, inner.said_text())))
            }
        }),
    );
    itself.set(graph.clone()).expect("set once");
    graph
}

#[test]
fn a_graph_runs_itself_as_often_as_graphs_may_be_inside_each_other() {
    on_small_stack(|| async {
        let limit = u32::try_from(MAX_NESTED_GRAPHS).expect("a small number") - 1;
        let bot = graph_handle(&recursive_graph(limit));
        let said = run_to_text(&bot, EngineTestState::update()).await;
        assert!(said.starts_with("0 1 2 3 ") && said.ends_with(" end"), "{said}");

        let bot = graph_handle(&recursive_graph(limit + 1));
        let said = run_to_text(&bot, EngineTestState::update()).await;
        let reason = format!("node `again`: at most {MAX_NESTED_GRAPHS} graphs may be inside each other");
        assert!(said.starts_with("limit_exceeded: node `again`: ") && said.ends_with(&reason), "{said}");
    });
}

/// Where the stack is at.
#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

#[test]
fn a_step_takes_no_more_stack_the_deeper_it_is() {
    on_small_stack(|| async {
        let mut addresses = Vec::new();
        for levels in [3, MAX_NESTED_GRAPHS] {
            let address = Arc::new(AtomicUsize::new(0));
            let seen = address.clone();
            let looks = node_running(move |_, _| {
                let seen = seen.clone();
                async move {
                    tokio::task::yield_now().await;
                    seen.store(stack_address(), Ordering::SeqCst);
                    Ok(EngineTestState::update())
                }
            });
            let graph = nested_graph(levels, &CallCounter::default(), looks).expect("not too deep");
            graph.run(EngineTestState::update()).await.expect("runs");
            addresses.push(address.load(Ordering::SeqCst));
        }
        let more = addresses[0].abs_diff(addresses[1]);
        assert!(more < 16 * 1024, "{more} bytes more");
    });
}
