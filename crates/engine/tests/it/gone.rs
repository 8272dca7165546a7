//! What is gone: logs that were cut, states that do not fit, graphs that nobody has any more. A thread outlives all of
//! it, and every run can be ended.

use std::sync::Arc;

use doran_engine::log;
use doran_engine::store::{EntryKind, History, IfBusy, NewEntry, RamStore, Retention, Status, Upkeep};
use doran_engine::{
    Bot, Cx, EngineError, Graph, NodeError, RunKey, Runtime, Snap, StartOptions, State, node,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, Notes, bot_on, crash_and_take_over, does, hasty, mortal, ms, only, ram, say, says, thread,
};

/// A state whose text is overwritten, so that the log outgrows it.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    text: String,
    n: u64,
}

/// A state that cannot read it.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Number {
    text: u64,
    n: u64,
}

/// A state that reads it and then breaks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Brittle {}

impl State for Brittle {
    type Update = serde_json::Value;

    fn apply(&mut self, _: serde_json::Value) {
        panic!("brittle");
    }
}

fn over<S: State>(update: impl Fn() -> S::Update + Copy + Send + Sync + 'static) -> Graph<S> {
    Graph::named()
        .node("a", node(move |_: Snap<S>| async move { Ok::<_, NodeError>(update()) }).end())
        .start("a")
        .build()
        .expect("sound")
}

fn on<S: State>(store: &RamStore, graph: &Graph<S>) -> Bot<S> {
    Runtime::new(Arc::new(store.clone())).graph("g", graph).expect("registered")
}

fn pages(store: &RamStore) -> Bot<Page> {
    on(store, &over::<Page>(|| Page::update().text("x".repeat(1000))))
}

/// A thread whose log was cut off before its last snapshot.
async fn cut() -> RamStore {
    let store = ram();
    let bot = pages(&store);
    for n in 0..100 {
        bot.run(&thread("t"), Page::update().n(n)).await.expect("runs");
    }
    let retention = Retention { old_entries: Some(ms(0)), ..Retention::default() };
    assert!(store.gc(&retention).await.expect("cleared").entries > 0, "there was a snapshot to start from");
    store
}

#[tokio::test]
async fn a_thread_goes_on_after_a_state_that_did_not_fit_its_shortened_log() {
    let store = cut().await;
    let wrong = on(&store, &over::<Number>(Number::update));
    let failed = wrong.run(&thread("t"), Number::update()).await;
    assert!(matches!(failed, Err(EngineError::Failed(failure)) if failure.code == "state_mismatch"));
    let brittle = on(&store, &over::<Brittle>(|| serde_json::json!({})));
    let failed = brittle.run(&thread("t"), serde_json::json!({})).await;
    assert!(matches!(failed, Err(EngineError::Failed(failure)) if failure.code == "panic"));
    let right = pages(&store);
    assert_eq!(right.state(&thread("t")).await.expect("nothing is lost").n, 99);
    let outcome = right.run(&thread("t"), Page::update().n(7)).await.expect("goes on");
    assert_eq!(outcome.finished().expect("finished").n, 7);
}

#[tokio::test]
async fn a_run_on_a_log_that_is_gone_fails_with_a_word_for_it_and_frees_the_thread() {
    let store = cut().await;
    let head = store.thread(&thread("t")).await.expect("thread").head;
    let body = serde_json::to_vec(&log::Edited { state: None, update: None, at: None }).expect("json");
    // An entry that says it is read from the beginning, which is not there any more.
    let astray = NewEntry { kind: EntryKind::Edited, body, parent: None, base: 0, snapshot: None };
    store.append(&thread("t"), head, astray).await.expect("appended");
    let bot = pages(&store);
    for _ in 0..2 {
        let failed = bot.run(&thread("t"), Page::update()).await;
        let Err(EngineError::Failed(failure)) = failed else { panic!("{failed:?}") };
        assert_eq!(failure.code, "log_missing");
        assert!(failure.message.contains("does not exist"), "{}", failure.message);
    }
    let from = StartOptions { from: Some(head), ..StartOptions::default() };
    let run = bot.start_with(&thread("t"), Some(Page::update().n(8)), from).await.expect("started");
    let outcome = bot.outcome(&run).await.expect("goes on from where the log is whole");
    assert_eq!(outcome.finished().expect("finished").n, 8);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_also_where_its_log_cannot_be_read() {
    let begun = Calls::default();
    let counted = begun.clone();
    let hangs = only(
        "a",
        does(move |_, _| {
            counted.hit();
            std::future::pending()
        }),
    );
    let store = ram();
    let (first, life) = mortal(&store, "first", &hangs);
    let key = first.start(&thread("t"), Notes::update().text("words")).await.expect("started").key();
    while begun.count() == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    life.end();
    let runtime = Runtime::with(Arc::new(store.clone()), hasty("second"));
    runtime.graph("g", &over::<Number>(Number::update)).expect("registered");
    runtime.cancel(&key).await.expect("noted");
    runtime.work().await.expect("works");
    assert_eq!(settled(&store, &key).await, Status::Cancelled);
}

/// Waits until the run ended, and tells how.
async fn settled(store: &RamStore, run: &RunKey) -> Status {
    for _ in 0..200 {
        let status = store.run(run).await.expect("row").status;
        if status.is_end() {
            return status;
        }
        tokio::time::sleep(ms(50)).await;
    }
    store.run(run).await.expect("row").status
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_graph_that_nobody_has_any_more_can_be_ended_and_its_thread_goes_on() {
    for interrupts in [false, true] {
        let begun = Calls::default();
        let counted = begun.clone();
        let hangs = only(
            "a",
            does(move |_, _| {
                counted.hit();
                std::future::pending()
            }),
        );
        let store = ram();
        let (first, life) = mortal(&store, "first", &hangs);
        let key = first.start(&thread("t"), Notes::update()).await.expect("started").key();
        while begun.count() == 0 {
            tokio::time::sleep(ms(1)).await;
        }
        life.end();
        let runtime = Runtime::with(Arc::new(store.clone()), hasty("second"));
        let bot = runtime.graph("another", &only("a", says("b"))).expect("registered");
        runtime.work().await.expect("works");
        tokio::time::sleep(ms(1000)).await;
        assert_eq!(store.run(&key).await.expect("row").status, Status::Running, "it is not failed for that");
        let next = if interrupts {
            let options = StartOptions { if_busy: IfBusy::Interrupt, ..StartOptions::default() };
            bot.start_with(&thread("t"), Some(Notes::update()), options).await.expect("accepted")
        } else {
            runtime.cancel(&key).await.expect("noted");
            assert_eq!(settled(&store, &key).await, Status::Cancelled);
            bot.start(&thread("t"), Notes::update()).await.expect("the thread is free")
        };
        assert_eq!(settled(&store, &next.key()).await, Status::Finished);
        assert_eq!(store.run(&key).await.expect("row").status, Status::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_the_process_with_it_is_given_up_after_a_while() {
    let lives = Calls::default();
    let store = ram();
    let deadly = |lives: Calls| {
        only(
            "a",
            does(move |_, _| {
                lives.hit();
                std::future::pending()
            }),
        )
    };
    let (mut bot, run) =
        crash_and_take_over(&store, &deadly(lives.clone()), Notes::update(), || lives.count() == 1).await;
    let key = run.key();
    drop((bot, run));
    for nth in 0..200 {
        if store.run(&key).await.expect("row").status.is_end() {
            break;
        }
        let seen = lives.count();
        let (next, life) = mortal(&store, &format!("life {nth}"), &deadly(lives.clone()));
        bot = next;
        bot.runtime().work().await.expect("works");
        for _ in 0..100 {
            if lives.count() > seen || store.run(&key).await.expect("row").status.is_end() {
                break;
            }
            tokio::time::sleep(ms(10)).await;
        }
        life.end();
    }
    let row = store.run(&key).await.expect("row");
    assert_eq!(row.error.map(|error| error.code).as_deref(), Some("crash_loop"));
    assert!((51..60).contains(&lives.count()), "{} lives", lives.count());
    let next = bot_on(Arc::new(store), &only("a", does(|_, _: Cx| async { Ok(say("well")) })));
    assert_eq!(crate::support::run(&next, Notes::update()).await, "well", "the thread goes on");
}
