//! Defects seen in other engines of this kind, each as a law that must hold here: nothing fails silently, nothing is
//! lost, nothing runs twice, and no order depends on timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use doran_engine::store::{Status, StoreError};
use doran_engine::{
    EngineError, Graph, Limits, NodeError, Retry, Runtime, Snap, StartOptions, State, To, node,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    AtCall, Calls, GatedStore, Notes, Verdict, bot, bot_on, does, ms, only, ram, rest, run, say, says,
    thread, trace, traced,
};

#[tokio::test]
async fn a_branch_to_an_undeclared_node_fails_the_run_and_names_both() {
    let graph = Graph::named()
        .node("a", says("a").branch(["b"], |_: &Notes| To::Node("c".to_owned())))
        .node("b", says("b").then("c"))
        .node("c", says("c").end())
        .start("a")
        .build()
        .expect("sound");
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "undeclared_target: the branch of node `a` led to `c`, which it had not declared");
    assert_eq!(trace, "started | failed undeclared_target");
}

#[tokio::test]
async fn a_branch_to_a_misspelt_node_fails_the_run() {
    let graph = Graph::named()
        .node("a", says("a").branch(["b"], |_: &Notes| To::Node("bb".to_owned())))
        .node("b", says("b").end())
        .start("a")
        .build()
        .expect("sound");
    assert!(traced(&graph).await.0.contains("led to `bb`"));
}

#[tokio::test]
async fn a_branch_that_leads_nowhere_without_leave_fails_the_run() {
    for nowhere in [To::End, To::All(Vec::new()), To::Each("b".to_owned(), Vec::new())] {
        let shown = format!("{nowhere:?}");
        let graph = Graph::named()
            .node("a", says("a").branch(["b"], move |_: &Notes| nowhere.clone()))
            .node("b", says("b").end())
            .start("a")
            .build()
            .expect("sound");
        let (end, _) = traced(&graph).await;
        assert!(
            end.starts_with("undeclared_target: the branch of node `a` led to `__end__`"),
            "{shown}: {end}"
        );
    }
}

#[tokio::test]
async fn the_step_limit_is_an_error_and_what_was_done_is_kept() {
    let graph = Graph::named()
        .node("a", says("a").branch(["a"], |_: &Notes| To::Node("a".to_owned())))
        .start("a")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let options =
        StartOptions { limits: Some(Limits { steps: 3, ..Limits::default() }), ..StartOptions::default() };
    let run = bot.start_with(&thread("t"), Some(Notes::update()), options).await.expect("started");
    assert_eq!(rest(&bot, &run).await, "limit_exceeded: the run may take at most 3 steps");
    assert_eq!(bot.state(&thread("t")).await.expect("state").line(), "a a a");
    let alone = graph.run_within(Notes::update(), Limits { steps: 3, ..Limits::default() }).await;
    assert!(matches!(alone, Err(EngineError::Failed(failure)) if failure.code == "limit_exceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_to_write_is_an_error_and_not_a_success() {
    for nth in 1..=3 {
        let gate = AtCall::new("commit", nth, Verdict::Refuse(StoreError::Full("no room".into())));
        let store = GatedStore { inner: ram(), gate: gate.clone() };
        let graph = Graph::named()
            .node("a", says("a").then("b"))
            .node("b", says("b").then("c"))
            .node("c", says("c").end())
            .start("a")
            .build()
            .expect("sound");
        let end = run(&bot_on(Arc::new(store), &graph), Notes::update()).await;
        assert!(gate.fired());
        assert!(end.starts_with("the run left this process: the disk is full"), "commit {nth}: {end}");
    }
}

#[tokio::test]
async fn a_run_starts_at_every_start_and_a_conditional_start_is_taken() {
    let graph = Graph::named()
        .node(
            "route",
            does(|_, _| async { Ok(Notes::update()) })
                .branch(["x", "y"], |state: &Notes| To::Node(if state.n > 0 { "y" } else { "x" }.to_owned())),
        )
        .node("x", says("x").end())
        .node("y", says("y").end())
        .node("z", says("z").end())
        .start("route")
        .start("z")
        .build()
        .expect("sound");
    assert_eq!(run(&bot(&graph), Notes::update().n(1)).await, "z y");
    assert_eq!(run(&bot(&graph), Notes::update()).await, "z x");
}

#[tokio::test]
async fn every_step_is_in_the_log_without_being_asked_for() {
    let graph = Graph::named()
        .node(
            "a",
            says("a").branch_or_end(["a"], |state: &Notes| match state.said.len() {
                200 => To::End,
                _ => To::Node("a".to_owned()),
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
    rest(&bot, &handle).await;
    let entries = bot.runtime().store().entries(&thread("t"), 0, 1000).await.expect("entries");
    assert_eq!(entries.len(), 202, "started, 200 steps, finished");
    let row = bot.runtime().store().run(&handle.key()).await.expect("row");
    assert_eq!((row.steps, row.status), (200, Status::Finished));
    for (said, entry) in entries.iter().enumerate().take(201) {
        let state = bot.state_at(&thread("t"), Some(entry.seq)).await.expect("any entry can be read");
        assert_eq!(state.said.len(), said);
    }
}

fn fan(count: usize, work: impl Fn(usize) -> doran_engine::graph::Open<Notes>) -> Graph<Notes> {
    let names: Vec<String> = (0..count).map(|ix| format!("w{ix:02}")).collect();
    let mut graph =
        Graph::named().node("split", does(|_, _| async { Ok(Notes::update()) }).then_all(names.clone()));
    for (ix, name) in names.iter().enumerate() {
        graph = graph.node(name, work(ix).then("join"));
    }
    graph.node("join", says("joined").end().after_all(names)).start("split").build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn ten_sleepers_sleep_side_by_side() {
    let graph = fan(10, |_| {
        does(|_, _| async {
            tokio::time::sleep(ms(1000)).await;
            Ok(say("w"))
        })
    });
    let begun = tokio::time::Instant::now();
    assert_eq!(run(&bot(&graph), Notes::update()).await, "w w w w w w w w w w joined");
    assert!(begun.elapsed() < ms(1100), "took {:?}", begun.elapsed());
    let begun = tokio::time::Instant::now();
    assert_eq!(graph.run(Notes::update()).await.expect("runs").said.len(), 11);
    assert!(begun.elapsed() < ms(1100), "without a store: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_that_compute_use_more_than_one_core() {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
        return;
    }
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let graph = fan(4, |_| {
        let (inside, most) = (inside.clone(), most.clone());
        does(move |_, _| {
            let (inside, most) = (inside.clone(), most.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Only one of two that compute at the same time ever sees the other.
                let until = std::time::Instant::now() + ms(60);
                while std::time::Instant::now() < until && most.load(Ordering::SeqCst) < 2 {
                    std::hint::spin_loop();
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(say("w"))
            }
        })
    });
    run(&bot(&graph), Notes::update()).await;
    assert!(most.load(Ordering::SeqCst) >= 2, "branches ran one after another");
}

#[tokio::test]
async fn a_join_of_ten_branches_runs_once() {
    let graph = fan(10, |_| says("w"));
    let (end, trace) = traced(&graph).await;
    assert_eq!(end, "w w w w w w w w w w joined");
    assert_eq!(trace, "started | split | w00+w01+w02+w03+w04+w05+w06+w07+w08+w09 | join | finished");
    // The same without `after_all`, where all branches are equally long.
    let names: Vec<String> = (0..10).map(|ix| format!("w{ix}")).collect();
    let mut graph = Graph::named().node("split", says("s").then_all(names.clone()));
    for name in &names {
        graph = graph.node(name, says("w").then("join"));
    }
    let graph = graph.node("join", says("joined").end()).start("split").build().expect("sound");
    assert_eq!(traced(&graph).await.0, "s w w w w w w w w w w joined");
}

#[tokio::test]
async fn the_end_of_one_branch_leaves_the_others_alone() {
    let graph = Graph::named()
        .node("split", says("split").then_all(["short", "long"]))
        .node("short", says("short").end())
        .node("long", says("long").then("longer"))
        .node("longer", says("longer").end())
        .start("split")
        .build()
        .expect("sound");
    assert_eq!(traced(&graph).await.0, "split short long longer");
}

#[tokio::test(start_paused = true)]
async fn updates_are_folded_in_the_order_of_definition_whoever_finishes_first() {
    let expected: Vec<String> = (0..20).map(|ix| format!("{ix}")).collect();
    for seed in 0..20u64 {
        let graph = fan(20, |ix| {
            does(move |_, _| async move {
                let turn = (ix as u64 + 1)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ seed.wrapping_mul(0xD134_2543_DE82_EF95));
                tokio::time::sleep(ms((turn >> 32) % 97)).await;
                Ok(say(ix.to_string()))
            })
        });
        let end = run(&bot(&graph), Notes::update()).await;
        assert_eq!(end, format!("{} joined", expected.join(" ")), "seed {seed}");
    }
}

#[tokio::test]
async fn a_document_does_not_multiply_in_a_fan_in() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Doc {
        document: String,
        #[reduce(add)]
        seen: u64,
    }
    let names: Vec<String> = (0..100).map(|ix| format!("w{ix:03}")).collect();
    let look = || {
        node(
            |state: Snap<Doc>| async move { Ok::<_, NodeError>(Doc::update().seen(state.document.len() as u64)) },
        )
    };
    let mut graph = Graph::named().node("split", look().then_all(names.clone()));
    for name in &names {
        graph = graph.node(name, look().then("join"));
    }
    let graph = graph.node("join", look().end().after_all(names)).start("split").build().expect("sound");
    let runtime = Runtime::new(Arc::new(ram()));
    let bot = runtime.graph("doc", &graph).expect("registered");
    let outcome = bot.run(&thread("t"), Doc::update().document("x".repeat(10_000))).await.expect("runs");
    assert_eq!(outcome.finished().expect("finished").seen, 102 * 10_000);
    let entries = runtime.store().entries(&thread("t"), 0, 100).await.expect("entries");
    let stored: usize = entries.iter().map(|entry| entry.body.len()).sum();
    assert!(stored < 20_000, "the document is stored once, and not {stored} bytes");
}

#[tokio::test]
async fn what_a_failed_node_proposed_is_never_seen() {
    let tries = Calls::default();
    let counted = tries.clone();
    let graph = Graph::named()
        .node("a", says("a").then("b"))
        .node(
            "b",
            does(move |_, _| {
                let nth = counted.hit();
                async move {
                    let update = say("half");
                    if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(update) }
                }
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &handle).await, "node_failed: node `b`: no");
    assert_eq!(bot.state(&thread("t")).await.expect("state").line(), "a");
}

#[tokio::test]
async fn siblings_that_finished_are_kept_and_not_run_again() {
    let (good, bad) = (Calls::default(), Calls::default());
    let (g, b) = (good.clone(), bad.clone());
    let graph = Graph::named()
        .node("split", says("split").then_all(["good", "bad", "other"]))
        .node(
            "good",
            does(move |_, _| {
                let nth = g.hit();
                async move { Ok(say(format!("good{nth}"))) }
            })
            .then("join"),
        )
        .node(
            "bad",
            does(move |_, _| {
                let nth = b.hit();
                async move {
                    if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(say(format!("bad{nth}"))) }
                }
            })
            .then("join"),
        )
        .node("other", says("other").then("join"))
        .node("join", says("join").end().after_all(["good", "bad", "other"]))
        .start("split")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &handle).await, "node_failed: node `bad`: no");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(rest(&bot, &again).await, "split good1 bad2 other join");
    assert_eq!((good.count(), bad.count()), (1, 2));
    assert_eq!(
        trace(bot.runtime(), &handle.key()).await,
        "started | split | failed node_failed | restarted | good+bad+other | join | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_policy_is_applied() {
    let calls = Calls::default();
    let counted = calls.clone();
    let work = does(move |_, _| {
        let nth = counted.hit();
        async move { if nth < 4 { Err(NodeError::transient("busy")) } else { Ok(say(format!("{nth}"))) } }
    });
    let (end, trace) = traced(&only("a", work.retry(Retry::times(5)))).await;
    assert_eq!((end.as_str(), trace.as_str()), ("4", "started | a×4 | finished"));
}

#[derive(Debug, thiserror::Error)]
#[error("the outer")]
struct Outer(#[source] Middle);
#[derive(Debug, thiserror::Error)]
#[error("the middle")]
struct Middle(#[source] std::io::Error);

#[tokio::test]
async fn the_sources_of_an_error_are_told_and_can_be_had_as_types() {
    let cause = || Outer(Middle(std::io::Error::other("the root")));
    let error: NodeError = cause().into();
    let outer = error.source().downcast_ref::<Outer>().expect("the type is kept");
    assert_eq!(outer.0.0.kind(), std::io::ErrorKind::Other);
    let (end, _) = traced(&only("a", does(move |_, _| async move { Err(cause().into()) }))).await;
    assert_eq!(end, "node_failed: node `a`: the outer: the middle: the root");
}

#[tokio::test]
async fn a_sum_beyond_what_a_float_can_count_is_exact() {
    let large = (1u64 << 53) + 1;
    let graph = only("a", does(move |_, _| async move { Ok(Notes::update().sum(large)) }));
    assert_eq!(graph.run(Notes::update().sum(1)).await.expect("runs").sum, large + 1);
    assert_ne!((large as f64 + 1.0) as u64, large + 1, "the number is large enough to tell");
}
