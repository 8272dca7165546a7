//! Watching a run: every entry once and in order for any number of watchers, pieces of text between, and no watcher
//! costs the run anything.

use std::sync::Arc;

use doran_engine::runtime::Piece;
use doran_engine::store::EntryKind;
use doran_engine::{
    Bot, Cx, Event, Graph, NodeError, Retry, RunHandle, RunKey, Runtime, Until, Watch, node, subgraph,
};
use serde_json::Value;

use crate::support::{
    Calls, Notes, bot, crash_and_take_over, does, hasty, ms, only, printed, ram, rest, say, says, thread,
    told,
};

/// Everything a watcher sees from here on, as text: `n:entry`, `"text"`, `again`.
async fn all(mut watch: Watch) -> String {
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await.expect("an event") {
        seen.push(shown(&event));
    }
    seen.join(" | ")
}

fn shown(event: &Event) -> String {
    match event {
        Event::Entry(n, entry) => format!("{n}:{}", printed(entry)),
        Event::Delta(delta) => match &delta.piece {
            Piece::Data(Value::String(text)) => format!("{}.{} {text}", delta.attempt, delta.index),
            Piece::Data(data) => data.to_string(),
            Piece::Restarted(why) => format!("again, {why}"),
        },
    }
}

/// The entries only.
fn entries(seen: &str) -> Vec<&str> {
    seen.split(" | ").filter(|event| event.contains(':')).collect()
}

async fn watch(runtime: &Runtime, run: &RunKey, after: u64, until: Until) -> Watch {
    runtime.watch(run, after, until).await.expect("a watch")
}

/// Says four words, piece by piece, in two steps.
fn talker() -> Graph<Notes> {
    let talk = |words: [&'static str; 2]| {
        does(move |_, cx: Cx| async move {
            for word in words {
                cx.token(word);
                tokio::time::sleep(ms(10)).await;
            }
            Ok(say(words.concat()))
        })
    };
    Graph::named()
        .node("a", talk(["one", "two"]).then("b"))
        .node("b", talk(["three", "four"]).end())
        .start("a")
        .build()
        .expect("sound")
}

const TALK: &str = "1:started | 1.0 one | 1.1 two | 2:a | 1.0 three | 1.1 four | 3:b | 4:finished";

async fn started(bot: &Bot<Notes>) -> RunHandle {
    bot.start(&thread("t"), Notes::update()).await.expect("started")
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_entries_without_a_gap_and_pieces_between() {
    let bot = bot(&talker());
    let run = started(&bot).await;
    assert_eq!(all(run.watch().await.expect("a watch")).await, TALK);
}

#[tokio::test(start_paused = true)]
async fn a_late_watcher_gets_every_entry_and_the_pieces_of_the_step_in_progress() {
    let bot = bot(&talker());
    let run = started(&bot).await;
    tokio::time::sleep(ms(35)).await;
    let late = all(run.watch().await.expect("a watch")).await;
    assert_eq!(late, "1:started | 2:a | 1.0 three | 1.1 four | 3:b | 4:finished");
    let after = all(watch(bot.runtime(), &run.key(), 0, Until::End).await).await;
    assert_eq!(after, "1:started | 2:a | 3:b | 4:finished", "pieces are no record");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reconnects_goes_on_where_it_was() {
    let bot = bot(&talker());
    let run = started(&bot).await;
    rest(&bot, &run).await;
    let whole = all(watch(bot.runtime(), &run.key(), 0, Until::End).await).await;
    let whole = entries(&whole);
    for after in 0..=4 {
        let seen = all(watch(bot.runtime(), &run.key(), after, Until::End).await).await;
        assert_eq!(entries(&seen), whole[after as usize..], "after {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_watchers_that_come_and_go_see_the_same_entries() {
    let graph = Graph::named()
        .node(
            "a",
            does(|_, cx: Cx| async move {
                cx.token("piece");
                tokio::task::yield_now().await;
                Ok(say("a"))
            })
            .branch_or_end(["a"], |state: &Notes| match state.said.len() {
                300 => doran_engine::To::End,
                _ => doran_engine::To::Node("a".to_owned()),
            }),
        )
        .start("a")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let run = started(&bot).await;
    let mut watchers = Vec::new();
    for pace in 1..=10u64 {
        let (runtime, key) = (bot.runtime().clone(), run.key());
        watchers.push(tokio::spawn(async move {
            let mut numbers = Vec::new();
            // Each reconnects after its own number of events.
            loop {
                let after = numbers.last().copied().unwrap_or(0);
                let mut watch = watch(&runtime, &key, after, Until::End).await;
                let mut left = pace * 7;
                while let Some(event) = watch.next().await.expect("an event") {
                    if let Event::Entry(n, entry) = event {
                        numbers.push(n);
                        if entry.kind.is_end() {
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
    let flood = does(|_, cx: Cx| async move {
        for _ in 0..20_000 {
            cx.token("some text that nobody reads");
        }
        tokio::time::sleep(ms(10)).await;
        Ok(say("done"))
    });
    let bot = bot(&only("a", flood));
    let begun = tokio::time::Instant::now();
    let run = started(&bot).await;
    let mut asleep = Vec::new();
    for _ in 0..100 {
        let mut watch = run.watch().await.expect("a watch");
        // It read once and never again.
        watch.next().await.expect("an event");
        asleep.push(watch);
    }
    assert_eq!(rest(&bot, &run).await, "done");
    assert!(begun.elapsed() <= ms(11), "{:?}", begun.elapsed());
    // When it wakes up it still gets every entry.
    let seen = all(asleep.pop().expect("one")).await;
    assert_eq!(entries(&seen), ["2:a", "3:finished"]);
}

#[tokio::test(start_paused = true)]
async fn another_try_is_announced_and_counts_its_pieces_anew() {
    let calls = Calls::default();
    let counted = calls.clone();
    let graph = only(
        "a",
        does(move |_, cx: Cx| {
            let nth = counted.hit();
            async move {
                cx.token("wrong");
                cx.token("er");
                tokio::time::sleep(ms(1)).await;
                if nth == 1 {
                    return Err(NodeError::transient("reset"));
                }
                cx.token("right");
                tokio::time::sleep(ms(1)).await;
                Ok(say("a"))
            }
        })
        .retry(Retry::times(2)),
    );
    let bot = bot(&graph);
    let seen = all(started(&bot).await.watch().await.expect("a watch")).await;
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
            does(|_, _| async {
                tokio::time::sleep(ms(25)).await;
                Ok(say("one"))
            })
            .then("two"),
        )
        .node(
            "two",
            does(|_, _| async {
                tokio::time::sleep(ms(25)).await;
                Ok(say("two"))
            })
            .end(),
        )
        .start("one")
        .build()
        .expect("sound");
    let graph = Graph::named()
        .node(
            "talk",
            does(|_, cx: Cx| async move {
                for word in ["a", "b", "c", "d", "e", "f"] {
                    cx.token(word);
                    tokio::time::sleep(ms(10)).await;
                }
                Ok(say("abcdef"))
            })
            .end(),
        )
        .node("sub", node(subgraph(inner, |_: &Notes| Notes::update(), |_: &Notes| say("sub"))).end())
        .start("talk")
        .start("sub")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let run = started(&bot).await;
    let (runtime, key) = (bot.runtime().clone(), run.key());
    let from_the_start = tokio::spawn(async move { all(watch(&runtime, &key, 0, Until::End).await).await });
    tokio::time::sleep(ms(37)).await;
    let late = all(run.watch().await.expect("a watch")).await;
    let text = |seen: &str| {
        let pieces = seen.split(" | ").filter(|event| event.starts_with("1."));
        pieces.map(|piece| piece.rsplit(' ').next().unwrap_or_default()).collect::<String>()
    };
    assert_eq!(text(&from_the_start.await.expect("no panic")), "abcdef", "once each");
    assert_eq!(text(&late), "abcdef", "a late watcher sees all of the text in progress: {late}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_through_a_pause_or_rests_with_it() {
    let graph = only("a", does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) }));
    let bot = bot(&graph);
    let run = started(&bot).await;
    assert_eq!(all(run.watch().await.expect("a watch")).await, "1:started | 2:paused by a");
    let (runtime, key) = (bot.runtime().clone(), run.key());
    let through = tokio::spawn(async move { all(watch(&runtime, &key, 0, Until::End).await).await });
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(told(bot.resume(&thread("t"), "yes").await), "yes");
    assert_eq!(through.await.expect("no panic"), "1:started | 2:paused by a | 3:resumed | 4:a | 5:finished");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_failed_run_goes_on_when_it_is_tried_again() {
    let calls = Calls::default();
    let counted = calls.clone();
    let graph = only(
        "a",
        does(move |_, _| {
            let nth = counted.hit();
            async move { if nth == 1 { Err(NodeError::permanent("no")) } else { Ok(say("a")) } }
        }),
    );
    let bot = bot(&graph);
    let run = started(&bot).await;
    assert_eq!(all(run.watch().await.expect("a watch")).await, "1:started | 2:failed node_failed");
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    rest(&bot, &again).await;
    assert_eq!(
        all(watch(bot.runtime(), &run.key(), 0, Until::End).await).await,
        "1:started | 2:failed node_failed | 3:restarted | 4:a | 5:finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_runtime_can_be_watched_and_waited_for() {
    let store = Arc::new(ram());
    let here = Runtime::with(store.clone(), hasty("here")).graph("g", &talker()).expect("registered");
    let there = Runtime::with(store, hasty("there")).graph("g", &talker()).expect("registered");
    let run = started(&here).await;
    let away = there.runtime().run(&run.key()).await.expect("the run");
    let seen = all(away.watch().await.expect("a watch")).await;
    assert_eq!(entries(&seen), ["1:started", "2:a", "3:b", "4:finished"]);
    assert_eq!(rest(&there, &away).await, "onetwo threefour");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_when_another_process_takes_over() {
    let calls = Calls::default();
    let counted = calls.clone();
    let graph = Graph::named()
        .node("a", says("a").then("b"))
        .node(
            "b",
            does(move |_, _| {
                let nth = counted.hit();
                async move {
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok(say("b"))
                }
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let (_, run) = crash_and_take_over(&ram(), &graph, Notes::update(), || calls.count() == 1).await;
    let seen = all(run.watch().await.expect("a watch")).await;
    assert_eq!(entries(&seen), ["1:started", "2:a", "3:restarted", "4:b", "5:finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_queued_run_begins_when_the_run_does() {
    let bot = bot(&talker());
    let first = started(&bot).await;
    let options = doran_engine::StartOptions {
        if_busy: doran_engine::store::IfBusy::Enqueue,
        ..doran_engine::StartOptions::default()
    };
    let queued = bot.start_with(&thread("t"), Some(Notes::update()), options).await.expect("queued");
    let seen = all(queued.watch().await.expect("a watch")).await;
    assert_eq!(entries(&seen), ["1:started", "2:a", "3:b", "4:finished"], "numbers are the run's own");
    assert_eq!(rest(&bot, &first).await, "onetwo threefour");
    let row = queued.wait().await.expect("row");
    assert_eq!((row.first_seq, row.last_seq), (Some(5), Some(8)));
    let log = bot.runtime().store().entries(&thread("t"), 0, 100).await.expect("entries");
    assert_eq!(log.iter().filter(|entry| entry.kind == EntryKind::Finished).count(), 2);
}
