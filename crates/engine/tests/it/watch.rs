//! Watching a run: every entry once and in order for any number of watchers, pieces of text between, and no watcher
//! costs the run anything.

use std::sync::Arc;

use doran_engine::runtime::NodeDeltaContent;
use doran_engine::store::EntryKind;
use doran_engine::{
    Cx, Event, Graph, GraphHandle, NodeError, RetryPolicy, RunHandle, RunKey, RunWatch, Runtime, WatchUntil,
    node, subgraph,
};
use serde_json::Value;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, StoreCallCounts, crash_and_take_over, entry_text, graph_handle,
    local_thread, ms, node_running, node_saying, outcome_text, ram_store, short_lease_options,
    single_node_graph, update_saying, wait_for_outcome_text,
};

/// Everything a watcher sees from here on, as text: `n:entry`, `"text"`, `again`.
async fn watch_to_text(mut watch: RunWatch) -> String {
    let mut seen = Vec::new();
    while let Some(event) = watch.try_next().await.expect("an event") {
        seen.push(event_text(&event));
    }
    seen.join(" | ")
}

fn event_text(event: &Event) -> String {
    match event {
        Event::Entry(n, entry) => format!("{n}:{}", entry_text(entry)),
        Event::Removed { after, next } => format!("removed after {after} up to {next}"),
        Event::Delta(delta) => match &delta.piece {
            NodeDeltaContent::Data(Value::String(text)) => {
                format!("{}.{} {text}", delta.attempt, delta.index)
            }
            NodeDeltaContent::Data(data) => data.to_string(),
            NodeDeltaContent::Restarted(why) => format!("again, {why}"),
        },
    }
}

/// The entries only.
fn entry_texts(seen: &str) -> Vec<&str> {
    seen.split(" | ").filter(|event| event.contains(':')).collect()
}

async fn watch_run(runtime: &Runtime, run: &RunKey, after: u64, until: WatchUntil) -> RunWatch {
    runtime.watch(run, after, until).await.expect("a watch")
}

/// Says four words, piece by piece, in two steps.
fn talking_graph() -> Graph<EngineTestState> {
    let talk = |words: [&'static str; 2]| {
        node_running(move |_, cx: Cx| async move {
            for word in words {
                cx.emit_text(word);
                tokio::time::sleep(ms(10)).await;
            }
            Ok(update_saying(words.concat()))
        })
    };
    Graph::named()
        .node("a", talk(["one", "two"]).then("b"))
        .node("b", talk(["three", "four"]).end())
        .start("a")
        .build()
        .expect("sound")
}

const TALKING_GRAPH_TRACE: &str =
    "1:started | 1.0 one | 1.1 two | 2:a | 1.0 three | 1.1 four | 3:b | 4:finished";

async fn start_run(bot: &GraphHandle<EngineTestState>) -> RunHandle {
    bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started")
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_entries_without_a_gap_and_pieces_between() {
    let bot = graph_handle(&talking_graph());
    let run = start_run(&bot).await;
    assert_eq!(watch_to_text(run.watch().await.expect("a watch")).await, TALKING_GRAPH_TRACE);
}

#[tokio::test(start_paused = true)]
async fn a_late_watcher_gets_every_entry_and_the_pieces_that_are_still_kept() {
    let bot = graph_handle(&talking_graph());
    let run = start_run(&bot).await;
    tokio::time::sleep(ms(35)).await;
    let late = watch_to_text(run.watch().await.expect("a watch")).await;
    assert_eq!(late, TALKING_GRAPH_TRACE);
    let after = watch_to_text(watch_run(bot.runtime(), &run.key(), 0, WatchUntil::RunEnded).await).await;
    assert_eq!(after, "1:started | 2:a | 3:b | 4:finished", "pieces are no record");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reconnects_goes_on_where_it_was() {
    let bot = graph_handle(&talking_graph());
    let run = start_run(&bot).await;
    wait_for_outcome_text(&bot, &run).await;
    let whole = watch_to_text(watch_run(bot.runtime(), &run.key(), 0, WatchUntil::RunEnded).await).await;
    let whole = entry_texts(&whole);
    for after in 0..=4 {
        let seen =
            watch_to_text(watch_run(bot.runtime(), &run.key(), after, WatchUntil::RunEnded).await).await;
        assert_eq!(entry_texts(&seen), whole[after as usize..], "after {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_watchers_that_come_and_go_see_the_same_entries() {
    let graph = Graph::named()
        .node(
            "a",
            node_running(|_, cx: Cx| async move {
                cx.emit_text("piece");
                tokio::task::yield_now().await;
                Ok(update_saying("a"))
            })
            .branch_or_end(["a"], |state: &EngineTestState| match state.said.len() {
                300 => doran_engine::To::End,
                _ => doran_engine::To::Node("a".to_owned()),
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let run = start_run(&bot).await;
    let mut watchers = Vec::new();
    for pace in 1..=10u64 {
        let (runtime, key) = (bot.runtime().clone(), run.key());
        watchers.push(tokio::spawn(async move {
            let mut numbers = Vec::new();
            // Each reconnects after its own number of events.
            loop {
                let after = numbers.last().copied().unwrap_or(0);
                let mut watch = watch_run(&runtime, &key, after, WatchUntil::RunEnded).await;
                let mut left = pace * 7;
                while let Some(event) = watch.try_next().await.expect("an event") {
                    if let Event::Entry(n, entry) = event {
                        numbers.push(n);
                        if entry.kind().is_end() {
                            return numbers;
                        }
                    }
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
            }
        }));
    }
    let expected: Vec<u64> = (1..=302).collect();
    for watcher in watchers {
        assert_eq!(watcher.await.expect("no panic"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_never_reads_delays_nobody() {
    let flood = node_running(|_, cx: Cx| async move {
        for _ in 0..20_000 {
            cx.emit_text("some text that nobody reads");
        }
        tokio::time::sleep(ms(10)).await;
        Ok(update_saying("done"))
    });
    let bot = graph_handle(&single_node_graph("a", flood));
    let started = tokio::time::Instant::now();
    let run = start_run(&bot).await;
    let mut asleep = Vec::new();
    for _ in 0..100 {
        let mut watch = run.watch().await.expect("a watch");
        // It read once and never again.
        watch.try_next().await.expect("an event");
        asleep.push(watch);
    }
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "done");
    assert!(started.elapsed() <= ms(11), "{:?}", started.elapsed());
    // When it wakes up it still gets every entry.
    let seen = watch_to_text(asleep.pop().expect("one")).await;
    assert_eq!(entry_texts(&seen), ["2:a", "3:finished"]);
}

#[tokio::test(start_paused = true)]
async fn another_try_is_announced_and_counts_its_pieces_anew() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let nth = counted.increment();
            async move {
                cx.emit_text("wrong");
                cx.emit_text("er");
                tokio::time::sleep(ms(1)).await;
                if nth == 1 {
                    return Err(NodeError::transient("reset"));
                }
                cx.emit_text("right");
                tokio::time::sleep(ms(1)).await;
                Ok(update_saying("a"))
            }
        })
        .retry(RetryPolicy::times(2)),
    );
    let bot = graph_handle(&graph);
    let seen = watch_to_text(start_run(&bot).await.watch().await.expect("a watch")).await;
    assert_eq!(
        seen,
        "1:started | 1.0 wrong | 1.1 er | again, reset | 2.0 wrong | 2.1 er | 2.2 right | 2:a×2 | 3:finished"
    );
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_branch_survive_an_inner_step_of_its_sibling() {
    let inner = Graph::named()
        .node(
            "one",
            node_running(|_, _| async {
                tokio::time::sleep(ms(25)).await;
                Ok(update_saying("one"))
            })
            .then("two"),
        )
        .node(
            "two",
            node_running(|_, _| async {
                tokio::time::sleep(ms(25)).await;
                Ok(update_saying("two"))
            })
            .end(),
        )
        .start("one")
        .build()
        .expect("sound");
    let graph = Graph::named()
        .node(
            "talk",
            node_running(|_, cx: Cx| async move {
                for word in ["a", "b", "c", "d", "e", "f"] {
                    cx.emit_text(word);
                    tokio::time::sleep(ms(10)).await;
                }
                Ok(update_saying("abcdef"))
            })
            .end(),
        )
        .node(
            "sub",
            node(subgraph(
                inner,
                |_: &EngineTestState| EngineTestState::update(),
                |_: &EngineTestState| update_saying("sub"),
            ))
            .end(),
        )
        .start("talk")
        .start("sub")
        .build()
        .expect("sound");
    let bot = graph_handle(&graph);
    let run = start_run(&bot).await;
    let (runtime, key) = (bot.runtime().clone(), run.key());
    let from_the_start =
        tokio::spawn(
            async move { watch_to_text(watch_run(&runtime, &key, 0, WatchUntil::RunEnded).await).await },
        );
    tokio::time::sleep(ms(37)).await;
    let late = watch_to_text(run.watch().await.expect("a watch")).await;
    let text = |seen: &str| {
        let pieces = seen.split(" | ").filter(|event| event.starts_with("1."));
        pieces.map(|piece| piece.rsplit(' ').next().unwrap_or_default()).collect::<String>()
    };
    assert_eq!(text(&from_the_start.await.expect("no panic")), "abcdef", "once each");
    assert_eq!(text(&late), "abcdef", "a late watcher sees all of the text in progress: {late}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_through_a_pause_or_rests_with_it() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move { Ok(update_saying(cx.ask::<String, _>("?").await?)) }),
    );
    let bot = graph_handle(&graph);
    let run = start_run(&bot).await;
    assert_eq!(watch_to_text(run.watch().await.expect("a watch")).await, "1:started | 2:paused by a");
    let (runtime, key) = (bot.runtime().clone(), run.key());
    let through =
        tokio::spawn(
            async move { watch_to_text(watch_run(&runtime, &key, 0, WatchUntil::RunEnded).await).await },
        );
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "yes");
    assert_eq!(through.await.expect("no panic"), "1:started | 2:paused by a | 3:resumed | 4:a | 5:finished");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_failed_run_goes_on_when_it_is_tried_again() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, _| {
            let nth = counted.increment();
            async move { if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(update_saying("a")) } }
        }),
    );
    let bot = graph_handle(&graph);
    let run = start_run(&bot).await;
    assert_eq!(watch_to_text(run.watch().await.expect("a watch")).await, "1:started | 2:failed node_failed");
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    wait_for_outcome_text(&bot, &again).await;
    assert_eq!(
        watch_to_text(watch_run(bot.runtime(), &run.key(), 0, WatchUntil::RunEnded).await).await,
        "1:started | 2:failed node_failed | 3:restarted | 4:a | 5:finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_runtime_can_be_watched_and_waited_for() {
    let store = Arc::new(ram_store());
    let here = Runtime::with_options(store.clone(), short_lease_options("here"))
        .register_graph("g", &talking_graph())
        .expect("registered");
    let there = Runtime::with_options(store, short_lease_options("there"))
        .register_graph("g", &talking_graph())
        .expect("registered");
    let run = start_run(&here).await;
    let away = there.runtime().run_handle(&run.key()).await.expect("the run");
    let seen = watch_to_text(away.watch().await.expect("a watch")).await;
    assert_eq!(entry_texts(&seen), ["1:started", "2:a", "3:b", "4:finished"]);
    assert_eq!(wait_for_outcome_text(&there, &away).await, "onetwo threefour");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_when_another_process_takes_over() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = Graph::named()
        .node("a", node_saying("a").then("b"))
        .node(
            "b",
            node_running(move |_, _| {
                let nth = counted.increment();
                async move {
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok(update_saying("b"))
                }
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let (_, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || calls.count() == 1).await;
    let seen = watch_to_text(run.watch().await.expect("a watch")).await;
    assert_eq!(entry_texts(&seen), ["1:started", "2:a", "3:restarted", "4:b", "5:finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_queued_run_begins_when_the_run_does() {
    let bot = graph_handle(&talking_graph());
    let first = start_run(&bot).await;
    let options = doran_engine::StartOptions {
        if_busy: doran_engine::store::IfBusy::Enqueue,
        ..doran_engine::StartOptions::default()
    };
    let queued =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("queued");
    let seen = watch_to_text(queued.watch().await.expect("a watch")).await;
    assert_eq!(entry_texts(&seen), ["1:started", "2:a", "3:b", "4:finished"], "numbers are the run's own");
    assert_eq!(wait_for_outcome_text(&bot, &first).await, "onetwo threefour");
    let row = queued.wait().await.expect("row");
    assert_eq!((row.first_seq, row.last_seq), (Some(5), Some(8)));
    let log = bot.runtime().store().entries(&local_thread("t"), 0, 100).await.expect("entries");
    assert_eq!(log.iter().filter(|entry| entry.kind == EntryKind::Finished).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_that_is_cancelled_has_a_last_event() {
    let bot = graph_handle(&talking_graph());
    let first = start_run(&bot).await;
    let options = doran_engine::StartOptions {
        if_busy: doran_engine::store::IfBusy::Enqueue,
        ..doran_engine::StartOptions::default()
    };
    let queued =
        bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("queued");
    let early = tokio::spawn(watch_to_text(queued.watch().await.expect("a watch")));
    tokio::time::sleep(ms(1)).await;
    bot.runtime().cancel(&queued.key()).await.expect("cancelled");
    assert_eq!(early.await.expect("no panic"), "1:cancelled");
    assert_eq!(watch_to_text(queued.watch().await.expect("a watch")).await, "1:cancelled");
    let seen = watch_run(bot.runtime(), &queued.key(), 1, WatchUntil::RunEnded).await;
    assert_eq!(watch_to_text(seen).await, "", "who has the end gets nothing");
    assert_eq!(wait_for_outcome_text(&bot, &first).await, "onetwo threefour");
}

/// Watchers of runs that another process drives cost the store nothing each while nothing happens.
#[tokio::test(start_paused = true)]
async fn idle_watchers_of_another_runtimes_runs_share_one_poll() {
    let store = ram_store();
    let graph = single_node_graph(
        "a",
        node_running(|_, _: Cx| async {
            tokio::time::sleep(ms(60_000)).await;
            Ok(update_saying("a"))
        }),
    );
    let (here, _) = crate::support::killable_runtime(&store, "here", &graph);
    let counts = Arc::new(StoreCallCounts::default());
    let there = Runtime::new(Arc::new(GatedStore { inner: store, gate: counts.clone() }));
    let mut watches = Vec::new();
    for n in 0..50 {
        let run =
            here.start(&local_thread(&n.to_string()), EngineTestState::update()).await.expect("started");
        for _ in 0..2 {
            let watch = there.watch(&run.key(), 0, WatchUntil::RunEnded).await.expect("a watch");
            watches.push(tokio::spawn(watch_to_text(watch)));
        }
    }
    tokio::time::sleep(ms(2_000)).await;
    counts.take();
    tokio::time::sleep(ms(10_000)).await;
    let calls = counts.take();
    assert_eq!(calls.keys().copied().collect::<Vec<_>>(), ["run_positions"], "{calls:?}");
    assert!((45..=55).contains(&calls["run_positions"]), "{calls:?}");
    for watch in watches {
        assert_eq!(watch.await.expect("no panic"), "1:started | 2:a | 3:finished");
    }
    tokio::time::sleep(ms(1_000)).await;
    counts.take();
    tokio::time::sleep(ms(1_000)).await;
    assert!(counts.take().is_empty(), "nobody watches any more");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_another_runtimes_run_ends_when_the_thread_is_deleted() {
    let store = ram_store();
    let hangs = single_node_graph("a", node_running(|_, _: Cx| std::future::pending()));
    let (here, _) = crate::support::killable_runtime(&store, "here", &hangs);
    let there = Runtime::new(Arc::new(store));
    let run = start_run(&here).await;
    let mut watch = there.watch(&run.key(), 0, WatchUntil::RunEnded).await.expect("a watch");
    assert!(watch.try_next().await.expect("started").is_some());
    let (end, _) = tokio::join!(watch.try_next(), async {
        tokio::time::sleep(ms(1_000)).await;
        there.store().delete_thread(&local_thread("t")).await.expect("deleted")
    });
    assert!(end.is_err(), "{end:?}");
}
