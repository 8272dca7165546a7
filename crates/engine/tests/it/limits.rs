//! What a run may not do: try for ever, take for ever, spend without end, take the process down, or go on after it was
//! cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use doran_engine::graph::Open;
use doran_engine::store::{EntryKind, History, IfBusy, Status, Usage};
use doran_engine::{
    Bot, Cache, Cx, Graph, Limits, NodeError, Retry, RunHandle, Snap, StartOptions, State, Tenant, ThreadId,
    ThreadKey, Timeout, To, node, subgraph,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::support::{
    Calls, Notes, NotesUpdate, bot, bot_on, crash_and_take_over, does, mortal, ms, only, ram, rest, run, say,
    says, thread, told, trace, traced,
};

/// A node that fails so often, then says how often it was tried.
fn fails(times: u32, error: fn() -> NodeError) -> (Open<Notes>, Calls) {
    let calls = Calls::default();
    let counted = calls.clone();
    let node = does(move |_, _| {
        let nth = counted.hit();
        async move { if nth <= times { Err(error()) } else { Ok(say(format!("try {nth}"))) } }
    });
    (node, calls)
}

fn busy() -> NodeError {
    NodeError::transient("busy")
}

#[tokio::test(start_paused = true)]
async fn waits_between_tries_grow() {
    let begun = tokio::time::Instant::now();
    let (node, _) = fails(3, busy);
    assert_eq!(traced(&only("a", node.retry(Retry::times(4)))).await.0, "try 4");
    // Half a second, one, two; each cut by up to half.
    let took = begun.elapsed();
    assert!((ms(1750)..=ms(3600)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn tries_end() {
    let (node, calls) = fails(u32::MAX, busy);
    assert_eq!(traced(&only("a", node.retry(Retry::times(3)))).await.0, "node_failed: node `a`: busy");
    assert_eq!(calls.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_not_tried_again() {
    let (node, calls) = fails(1, || NodeError::permanent("no"));
    assert_eq!(traced(&only("a", node.retry(Retry::times(5)))).await.0, "node_failed: node `a`: no");
    let (once, tried) = fails(1, busy);
    assert_eq!(traced(&only("a", once.retry(Retry::never()))).await.0, "node_failed: node `a`: busy");
    assert_eq!((calls.count(), tried.count()), (1, 1));
}

/// A node that works for `total`, giving a sign of life every `sign`.
fn works(total: u64, sign: Option<u64>) -> Open<Notes> {
    does(move |_, cx: Cx| async move {
        let step = sign.unwrap_or(total);
        for _ in 0..total / step {
            tokio::time::sleep(ms(step)).await;
            cx.heartbeat();
        }
        Ok(say("done"))
    })
}

#[tokio::test(start_paused = true)]
async fn a_total_timeout_ends_a_try_however_lively_it_is() {
    let node = || works(10_000, Some(10)).retry(Retry::never());
    let end = traced(&only("a", node().timeout(Timeout::total(ms(500))))).await.0;
    assert_eq!(end, "timeout: node `a`: took longer than 500ms");
    assert_eq!(traced(&only("a", node().timeout(Timeout::total(ms(20_000))))).await.0, "done");
}

#[tokio::test(start_paused = true)]
async fn an_idle_timeout_ends_only_a_try_without_a_sign_of_life() {
    let idle = Timeout::idle(ms(100));
    assert_eq!(traced(&only("a", works(10_000, Some(50)).timeout(idle))).await.0, "done");
    let end = traced(&only("a", works(10_000, None).retry(Retry::never()).timeout(idle))).await.0;
    assert_eq!(end, "timeout: node `a`: gave no sign of life for 100ms");
}

#[tokio::test(start_paused = true)]
async fn a_try_that_took_too_long_is_tried_again() {
    let calls = Calls::default();
    let counted = calls.clone();
    let node = does(move |_, _| {
        let nth = counted.hit();
        async move {
            tokio::time::sleep(ms(if nth < 3 { 1000 } else { 1 })).await;
            Ok(say(format!("try {nth}")))
        }
    });
    assert_eq!(traced(&only("a", node.timeout(Timeout::total(ms(100))))).await.0, "try 3");
}

/// A node whose result may be used again for the same `n`, for a minute.
fn remembered(calls: Calls) -> Open<Notes> {
    does(move |state, _| {
        let nth = calls.hit();
        async move { Ok(say(format!("{}:{nth}", state.n))) }
    })
    .cache(Cache::by(|state: &Notes| state.n.to_string()).lifetime(ms(60_000)))
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_lives_as_long_as_it_may_and_is_told_as_cached() {
    let calls = Calls::default();
    let bot = bot(&only("a", remembered(calls.clone())));
    let on = |name: &'static str, n: u32| {
        let bot = bot.clone();
        async move {
            let run = bot.start(&thread(name), Notes::update().n(n)).await.expect("started");
            (rest(&bot, &run).await, trace(bot.runtime(), &run.key()).await)
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
    let calls = Calls::default();
    let store = Arc::new(ram());
    let alone = bot_on(store.clone(), &only("a", remembered(calls.clone())));
    assert_eq!(run(&alone, Notes::update()).await, "0:1");
    let foreign = ThreadKey {
        tenant: Tenant::new("acme").expect("a name"),
        thread: ThreadId::new("t").expect("a name"),
    };
    assert_eq!(told(alone.run(&foreign, Notes::update()).await), "0:2", "another tenant");
    let longer = Graph::named()
        .node("a", remembered(calls.clone()).then("b"))
        .node("b", says("b").end())
        .start("a")
        .build()
        .expect("sound");
    let longer = alone.runtime().graph("longer", &longer).expect("registered");
    assert_eq!(told(longer.run(&thread("u"), Notes::update()).await), "0:3 b", "another graph");
}

#[tokio::test]
async fn tasks_of_a_dynamic_fan_out_do_not_share_a_cached_result() {
    let graph = Graph::named()
        .node(
            "list",
            says("list").branch(["work"], |_: &Notes| To::each("work".to_owned(), ["x", "y", "z"], To::End)),
        )
        .node(
            "work",
            does(|_, cx: Cx| async move { Ok(say(cx.input::<String>()?)) })
                .cache(Cache::by(|_: &Notes| String::new()))
                .end(),
        )
        .start("list")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    assert_eq!(told(bot.run(&thread("t1"), Notes::update()).await), "list x y z");
    let again = bot.start(&thread("t2"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &again).await, "list x y z");
    assert_eq!(trace(bot.runtime(), &again.key()).await, "started | list | work~+work~+work~ | finished");
}

async fn limited(graph: &Graph<Notes>, limits: Limits) -> (String, Bot<Notes>) {
    let bot = bot(graph);
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let run = bot.start_with(&thread("t"), Some(Notes::update()), options).await.expect("started");
    (rest(&bot, &run).await, bot)
}

/// Spends in every step, for ever.
fn spender(usage: Usage) -> Graph<Notes> {
    Graph::named()
        .node(
            "a",
            does(move |_, cx: Cx| async move {
                cx.spend(usage)?;
                tokio::time::sleep(ms(100)).await;
                Ok(say("a"))
            })
            .branch(["a"], |_: &Notes| To::Node("a".to_owned())),
        )
        .start("a")
        .build()
        .expect("sound")
}

#[tokio::test(start_paused = true)]
async fn each_limit_of_a_run_ends_it_and_keeps_what_was_done() {
    let graph = spender(Usage { input_tokens: 10, output_tokens: 5, cost_micros: 100 });
    let (end, bot) = limited(&graph, Limits { steps: 4, ..Limits::default() }).await;
    assert_eq!(end, "limit_exceeded: the run may take at most 4 steps");
    assert_eq!(bot.state(&thread("t")).await.expect("state").line(), "a a a a");

    let (end, bot) = limited(&graph, Limits { tokens: Some(40), ..Limits::default() }).await;
    assert_eq!(end, "limit_exceeded: node `a`: the run may use at most 40 tokens");
    assert_eq!(bot.state(&thread("t")).await.expect("state").line(), "a a");

    let (end, _) = limited(&graph, Limits { cost_micros: Some(250), ..Limits::default() }).await;
    assert_eq!(end, "limit_exceeded: node `a`: the run may cost at most 0.00025 US dollars");

    let (end, bot) = limited(&graph, Limits { active: Some(ms(350)), ..Limits::default() }).await;
    assert!(end.ends_with("the run may be worked on for at most 350ms"), "{end}");
    assert_eq!(bot.state(&thread("t")).await.expect("state").line(), "a a a");
}

/// A waiter gets the row of a finished run from the worker, not from the store.
#[tokio::test(start_paused = true)]
async fn what_a_waiter_is_told_is_what_the_store_holds() {
    let spends = |usage| {
        does(move |_, cx: Cx| async move {
            cx.spend(usage)?;
            Ok(say("a"))
        })
    };
    let graph = Graph::named()
        .node("free", does(|_, _| async move { Ok(say("f")) }).then("dear"))
        .node("dear", spends(Usage { input_tokens: 10, output_tokens: 5, cost_micros: 100 }).then("last"))
        .node("last", spends(Usage { input_tokens: 1, output_tokens: 2, cost_micros: 3 }).end())
        .start("free")
        .build()
        .expect("sound");
    let bot = bot_on(Arc::new(ram()), &graph);
    for turn in 1..=2 {
        let run = bot.start(&thread("t"), say("in")).await.expect("started");
        let told = run.wait().await.expect("rests");
        assert_eq!((told.steps, told.usage.input_tokens, told.last_seq), (3, 11, Some(turn * 5)));
        assert_eq!(told, bot.runtime().store().run(&run.key()).await.expect("run"));
    }
}

/// Goes round `rounds` times and ends, but hangs in the third step of its first life.
fn goes_round(rounds: u32, calls: &Calls) -> Graph<Notes> {
    let counted = calls.clone();
    let node = does(move |_, _| {
        let nth = counted.hit();
        async move {
            if nth == 3 {
                std::future::pending::<()>().await;
            }
            Ok(say("a"))
        }
    });
    let turn = move |notes: &Notes| {
        if notes.said.len() < rounds as usize { To::Node("a".to_owned()) } else { To::End }
    };
    Graph::named().node("a", node.branch_or_end(["a"], turn)).start("a").build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn steps_are_counted_once_each_across_a_crash() {
    let (calls, store) = (Calls::default(), ram());
    let graph = goes_round(5, &calls);
    let (bot, run) = crash_and_take_over(&store, &graph, Notes::update(), || calls.count() == 3).await;
    assert_eq!(rest(&bot, &run).await, "a a a a a");
    let row = store.run(&run.key()).await.expect("the run");
    assert_eq!((row.status, row.epoch, row.steps), (Status::Finished, 2, 5));

    // The next run of the thread counts from nothing.
    let again = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &again).await, "a a a a a a");
    assert_eq!(store.run(&again.key()).await.expect("the run").steps, 1);
}

#[tokio::test(start_paused = true)]
async fn the_steps_before_a_crash_count_towards_the_limit() {
    let (calls, store) = (Calls::default(), ram());
    let graph = goes_round(9, &calls);
    let (first, life) = mortal(&store, "first", &graph);
    let limits = Limits { steps: 4, ..Limits::default() };
    let options = StartOptions { limits: Some(limits), ..StartOptions::default() };
    let key = first.start_with(&thread("t"), Some(Notes::update()), options).await.expect("started").key();
    while calls.count() < 3 {
        tokio::time::sleep(ms(1)).await;
    }
    life.end();
    let (second, _) = mortal(&store, "second", &graph);
    second.runtime().work().await.expect("works");
    let run = second.runtime().run(&key).await.expect("the run");
    assert_eq!(rest(&second, &run).await, "limit_exceeded: the run may take at most 4 steps");
    let row = store.run(&key).await.expect("the run");
    assert_eq!((row.status, row.steps), (Status::Failed, 4));
    assert_eq!(calls.count(), 5, "two steps, one that was lost, two more");
}

const TEN: Usage = Usage { input_tokens: 7, output_tokens: 3, cost_micros: 100 };

#[tokio::test]
async fn what_a_cancelled_step_spent_is_booked() {
    let spent = Arc::new(Notify::new());
    let tells = spent.clone();
    let graph = Graph::named()
        .node(
            "a",
            does(|_, cx: Cx| async move {
                cx.spend(TEN)?;
                Ok(say("a"))
            })
            .then("b"),
        )
        .node(
            "b",
            does(move |_, cx: Cx| {
                let tells = tells.clone();
                async move {
                    cx.spend(TEN)?;
                    tells.notify_one();
                    std::future::pending::<Result<NotesUpdate, NodeError>>().await
                }
            })
            .end(),
        )
        .start("a")
        .build()
        .expect("sound");
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    spent.notified().await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(rest(&bot, &run).await, "the run was cancelled");
    let row = store.run(&run.key()).await.expect("the run");
    assert_eq!(row.usage, Usage { input_tokens: 14, output_tokens: 6, cost_micros: 200 });
}

#[tokio::test]
async fn a_retry_of_a_failed_run_does_not_count_twice_what_was_spent() {
    let tries = Arc::new(AtomicU32::new(0));
    let counts = tries.clone();
    let graph = only(
        "a",
        does(move |_, cx: Cx| {
            let nth = counts.fetch_add(1, Ordering::Relaxed);
            async move {
                cx.effect("call", async { Ok::<_, NodeError>(1) }).await?;
                cx.spend(TEN)?;
                if nth == 0 {
                    return Err(NodeError::permanent("the second call failed"));
                }
                cx.spend(TEN)?;
                Ok(say("a"))
            }
        }),
    );
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &run).await, "node_failed: node `a`: the second call failed");
    assert_eq!(store.run(&run.key()).await.expect("the run").usage, TEN);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert_eq!(rest(&bot, &again).await, "a");
    let row = store.run(&run.key()).await.expect("the run");
    assert_eq!(row.usage, Usage { input_tokens: 14, output_tokens: 6, cost_micros: 200 });
}

#[tokio::test]
async fn a_run_that_rests_tells_how_many_steps_it_took() {
    let asks = does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) });
    let spends = does(|_, cx: Cx| async move {
        cx.spend(Usage { input_tokens: 1, output_tokens: 0, cost_micros: 0 })?;
        Ok(say("b"))
    });
    let graph = Graph::named()
        .node("a", says("a").then("b"))
        .node("b", spends.then("c"))
        .node("c", says("c").then("d"))
        .node("d", asks.then("e"))
        .node("e", says("e").end())
        .start("a")
        .build()
        .expect("sound");
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &run).await, "3.0:ask#0 asks \"?\"");
    assert_eq!(store.run(&run.key()).await.expect("the run").steps, 3);
    assert_eq!(told(bot.resume(&thread("t"), "d").await), "a b c d e");
    assert_eq!(store.run(&run.key()).await.expect("the run").steps, 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_does_not_outlive_the_time_of_its_run() {
    let graph = only("a", does(|_, _| std::future::pending::<Result<NotesUpdate, NodeError>>()));
    let begun = tokio::time::Instant::now();
    let (end, _) = limited(&graph, Limits { active: Some(ms(5_000)), ..Limits::default() }).await;
    assert_eq!(end, "limit_exceeded: node `a`: the run may be worked on for at most 5s");
    assert!(begun.elapsed() < ms(6_000), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn time_spent_waiting_for_a_person_does_not_count() {
    let graph = only("a", does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) }));
    let (_, bot) = limited(&graph, Limits { active: Some(ms(1_000)), ..Limits::default() }).await;
    tokio::time::advance(ms(3_600_000)).await;
    assert_eq!(told(bot.resume(&thread("t"), "late").await), "late");
}

#[tokio::test]
async fn a_panic_ends_its_run_and_nothing_else() {
    type Broken = (&'static str, Graph<Notes>);
    let sync = does(|_, _| -> std::future::Ready<Result<NotesUpdate, NodeError>> { panic!("at once") });
    let later = does(|_, _| async {
        tokio::task::yield_now().await;
        panic!("later")
    });
    let key = says("a").cache(Cache::by(|_: &Notes| -> String { panic!("in the key") }));
    let branch = Graph::named()
        .node("a", says("a").branch_or_end(["a"], |_: &Notes| -> To<String> { panic!("in the branch") }))
        .start("a")
        .build()
        .expect("sound");
    let broken: [Broken; 4] = [
        ("panic: node `a`: panicked: at once", only("a", sync)),
        ("panic: node `a`: panicked: later", only("a", later)),
        ("panic: node `a`: panicked: in the key", only("a", key)),
        ("panic: a reducer or branch after `a` panicked: in the branch", branch),
    ];
    let good = bot(&only("good", works(1, None)));
    for (expected, graph) in &broken {
        let broken = good.runtime().graph(expected, graph).expect("registered");
        let run =
            broken.start(&thread(&format!("t{}", expected.len())), Notes::update()).await.expect("started");
        assert_eq!(rest(&broken, &run).await, *expected);
        assert_eq!(trace(good.runtime(), &run.key()).await, "started | failed panic", "{expected}");
    }
    assert_eq!(run(&good, Notes::update()).await, "done", "the runtime goes on");
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Touchy(u32);

impl State for Touchy {
    type Update = u32;

    fn apply(&mut self, update: u32) {
        assert!(update < 10, "too much");
        self.0 += update;
    }
}

#[tokio::test]
async fn a_reducer_that_panics_ends_its_run_also_when_it_panics_on_the_input() {
    let graph = Graph::named()
        .node("a", node(|state: Snap<Touchy>| async move { Ok::<_, NodeError>(state.0 * 5) }).end())
        .start("a")
        .build()
        .expect("sound");
    let runtime = doran_engine::Runtime::new(Arc::new(ram()));
    let bot = runtime.graph("touchy", &graph).expect("registered");
    for (input, expected) in
        [(1, "Touchy(6)"), (2, "after `a` panicked: too much"), (99, "the log was read: too much")]
    {
        let end = match bot.run(&thread(&format!("t{input}")), input).await {
            Ok(outcome) => format!("{:?}", outcome.finished().expect("finished")),
            Err(error) => error.to_string(),
        };
        assert!(end.contains(expected), "{input}: {end}");
    }
}

#[tokio::test]
async fn a_panic_side_by_side_keeps_what_its_siblings_did() {
    let (calls, tries) = (Calls::default(), Calls::default());
    let (counted, tried) = (calls.clone(), tries.clone());
    let graph = Graph::named()
        .node(
            "good",
            does(move |_, _| {
                let n = counted.hit();
                async move { Ok(say(format!("good{n}"))) }
            })
            .end(),
        )
        .node(
            "bad",
            does(move |_, _| {
                let nth = tried.hit();
                async move {
                    assert!(nth > 1, "the first time");
                    Ok(say("bad"))
                }
            })
            .end(),
        )
        .start("good")
        .start("bad")
        .build()
        .expect("sound");
    let bot = bot(&graph);
    let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
    assert_eq!(rest(&bot, &handle).await, "panic: node `bad`: panicked: the first time");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(rest(&bot, &again).await, "good1 bad");
}

/// Says when it is dropped.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A call that never ends, two graphs deep and side by side with another.
fn hangs_deep(begun: Calls, dropped: Arc<AtomicBool>) -> Graph<Notes> {
    let through = |graph: Graph<Notes>| {
        node(subgraph(
            graph,
            |_: &Notes| Notes::update(),
            |inner: &Notes| Notes::update().said(inner.said.clone()),
        ))
    };
    let deepest = does(move |_, cx: Cx| {
        let guard = Guard(dropped.clone());
        begun.hit();
        async move {
            cx.token("half a wor");
            cx.effect("call", async move {
                let _guard = guard;
                std::future::pending::<Result<(), NodeError>>().await
            })
            .await?;
            Ok(say("never"))
        }
    });
    let middle = Graph::named()
        .node("deep", through(only("deepest", deepest)).end())
        .node("other", says("other").end())
        .start("deep")
        .start("other")
        .build()
        .expect("sound");
    Graph::named()
        .node("a", says("a").then("sub"))
        .node("sub", through(middle).end())
        .start("a")
        .build()
        .expect("sound")
}

async fn until(what: impl Fn() -> bool) {
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
    let (begun, dropped) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    let bot = bot(&hangs_deep(begun.clone(), dropped.clone()));
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    until(|| begun.count() == 1).await;
    tokio::time::sleep(ms(10)).await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(rest(&bot, &run).await, "the run was cancelled");
    until(|| dropped.load(Ordering::SeqCst)).await;
    assert_eq!(trace(bot.runtime(), &run.key()).await, "started | a | cancelled");
    assert_eq!(bot.state(&thread("t")).await.expect("state").line(), "a", "what was done stays");
    let entries = bot.runtime().store().entries(&thread("t"), 0, 10).await.expect("entries");
    let end = entries.last().expect("an end");
    assert_eq!(end.kind, EntryKind::Cancelled);
    assert!(String::from_utf8_lossy(&end.body).contains("half a wor"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_the_wait_for_another_try_starts_no_other_try() {
    let (node, calls) = fails(u32::MAX, busy);
    let bot = bot(&only("a", node.retry(Retry::times(9).first_wait(ms(60_000)))));
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    until(|| calls.count() == 1).await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert_eq!(rest(&bot, &run).await, "the run was cancelled");
    assert_eq!(calls.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_durable_when_the_process_dies_next() {
    let (begun, dropped) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    let store = ram();
    let graph = hangs_deep(begun.clone(), dropped);
    let (first, life) = crate::support::mortal(&store, "first", &graph);
    let key = first.start(&thread("t"), Notes::update()).await.expect("started").key();
    until(|| begun.count() == 1).await;
    // Another process is told, and the one at work dies before it hears of it.
    let (other, _) = crate::support::mortal(&store, "other", &graph);
    life.end();
    other.runtime().cancel(&key).await.expect("noted");
    other.runtime().work().await.expect("works");
    let run = other.runtime().run(&key).await.expect("the run");
    assert_eq!(rest(&other, &run).await, "the run was cancelled");
    assert_eq!(begun.count(), 1, "nothing was begun again");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_told_to_another_process_reaches_the_one_at_work() {
    let (begun, dropped) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    let store = ram();
    let graph = hangs_deep(begun.clone(), dropped.clone());
    let (first, _) = crate::support::mortal(&store, "first", &graph);
    let run = first.start(&thread("t"), Notes::update()).await.expect("started");
    until(|| begun.count() == 1).await;
    let (other, _) = crate::support::mortal(&store, "other", &graph);
    other.runtime().cancel(&run.key()).await.expect("noted");
    assert_eq!(rest(&first, &run).await, "the run was cancelled");
    until(|| dropped.load(Ordering::SeqCst)).await;
}

#[tokio::test(start_paused = true)]
async fn queued_and_paused_runs_can_be_cancelled() {
    let graph = only("a", does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) }));
    let bot = bot(&graph);
    let paused = bot.start(&thread("t"), Notes::update()).await.expect("started");
    rest(&bot, &paused).await;
    let wait = StartOptions { if_busy: IfBusy::Enqueue, ..StartOptions::default() };
    let queued = bot.start_with(&thread("t"), Some(Notes::update()), wait).await.expect("queued");
    let row = bot.runtime().cancel(&queued.key()).await.expect("cancelled");
    assert_eq!(row.status, Status::Cancelled);
    assert_eq!(rest(&bot, &queued).await, "the run was cancelled");
    bot.runtime().cancel(&paused.key()).await.expect("cancelled");
    assert_eq!(trace(bot.runtime(), &paused.key()).await, "started | paused by a | cancelled");
    let again = bot.runtime().cancel(&paused.key()).await.expect("nothing to do");
    assert_eq!(again.status, Status::Cancelled);
    assert!(told(bot.resume(&thread("t"), "x").await).contains("waits for no answer"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_and_a_finish_that_race_end_the_run_once() {
    let mut finished = 0;
    for round in 0..200u64 {
        let work = does(move |_, _| async move {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            Ok(say("a"))
        });
        let bot = bot(&only("a", work));
        let run: RunHandle = bot.start(&thread("t"), Notes::update()).await.expect("started");
        for _ in 0..round % 11 {
            tokio::task::yield_now().await;
        }
        bot.runtime().cancel(&run.key()).await.expect("told");
        let end = rest(&bot, &run).await;
        let row = bot.runtime().store().run(&run.key()).await.expect("row");
        let entries = bot.runtime().store().entries(&thread("t"), 0, 10).await.expect("entries");
        let ends: Vec<EntryKind> =
            entries.iter().map(|entry| entry.kind).filter(|kind| kind.is_end()).collect();
        match row.status {
            Status::Finished => {
                finished += 1;
                assert_eq!(
                    (end.as_str(), ends.as_slice()),
                    ("a", &[EntryKind::Finished][..]),
                    "round {round}"
                );
            }
            Status::Cancelled => {
                assert_eq!(ends, [EntryKind::Cancelled], "round {round}");
                assert_eq!(end, "the run was cancelled", "round {round}");
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
    assert!(finished < 200, "no cancel ever won, so this shows nothing");
}

#[tokio::test]
async fn what_a_failing_subgraph_spent_is_booked_once() {
    let calls = Calls::default();
    let counted = calls.clone();
    let spends = does(move |_, cx: Cx| {
        let first = counted.hit() == 1;
        async move {
            cx.effect("call", async { Ok::<_, NodeError>(1) }).await?;
            cx.spend(TEN)?;
            if first { Err(NodeError::permanent("the second call failed")) } else { Ok(say("inner")) }
        }
    });
    let sub = subgraph(
        only("inner", spends),
        |_: &Notes| Notes::update(),
        |inner: &Notes| Notes::update().said(inner.said.clone()),
    );
    let store = ram();
    let bot = bot_on(Arc::new(store.clone()), &only("sub", node(sub)));
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    let rested = rest(&bot, &run).await;
    assert!(rested.ends_with("the second call failed"), "{rested}");
    assert_eq!(store.run(&run.key()).await.expect("the run").usage, TEN);
    let again = bot.runtime().retry(&run.key()).await.expect("tried again");
    assert_eq!(rest(&bot, &again).await, "inner");
    assert_eq!(store.run(&run.key()).await.expect("the run").usage, TEN);
}

#[tokio::test]
async fn a_time_that_never_comes_is_no_limit() {
    let forever = Timeout { total: Some(std::time::Duration::MAX), idle: Some(std::time::Duration::MAX) };
    assert_eq!(traced(&only("a", says("a").timeout(forever))).await.0, "a");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_another_try_does_not_outlive_the_time_of_its_run() {
    let (node, calls) = fails(9, busy);
    let graph = only("a", node.retry(Retry::times(5).first_wait(ms(60_000))));
    let begun = tokio::time::Instant::now();
    let (end, _) = limited(&graph, Limits { active: Some(ms(1000)), ..Limits::default() }).await;
    assert!(end.starts_with("limit_exceeded"), "{end}");
    assert_eq!(calls.count(), 1);
    assert!(begun.elapsed() < ms(10_000), "{:?}", begun.elapsed());
}
