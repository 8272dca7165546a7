//! Steps that do not end well: what the log says of the calls they made, what usage is counted, and what a call may count on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use doran_engine::store::{IfBusy, RamStore, RunStatus, RunUsage, StoreError};
use doran_engine::{
    CallState, Cx, EngineError, EntryBody, Graph, NodeCachePolicy, NodeError, RunError, RunLimits, Runtime,
    RuntimeOptions, StartOptions, UnfinishedCall, node, subgraph,
};
use futures_util::future::join;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::support::{
    CallCounter, EngineTestState, GatedStore, StoreCallDecision, StoreCallGate, graph_handle_on,
    local_thread, node_running, node_saying, ram_store, run_to_text, short_lease_options, single_node_graph,
    update_saying,
};

async fn pay(cx: &Cx, name: &str) -> Result<String, NodeError> {
    cx.effect_at_most_once(name, |_| async { Ok::<_, NodeError>("receipt 7".to_owned()) }).await
}

/// The calls in the last pause or cancel of the log.
async fn calls_in_log(runtime: &Runtime) -> Vec<UnfinishedCall> {
    let entries = runtime.entries(&local_thread("t"), 0, 100).await.expect("entries");
    let calls = entries.into_iter().rev().find_map(|entry| match entry.body {
        EntryBody::Cancelled { calls, .. } | EntryBody::Paused { calls, .. } if !calls.is_empty() => {
            Some(calls)
        }
        _ => None,
    });
    calls.unwrap_or_default()
}

fn call_states(calls: &[UnfinishedCall]) -> Vec<(&str, CallState, Option<&str>)> {
    let result = |call: &UnfinishedCall| call.result.as_ref().and_then(|result| result.as_str()).is_some();
    calls.iter().map(|call| (call.name.as_str(), call.state, result(call).then_some("receipt 7"))).collect()
}

#[tokio::test]
async fn a_cancel_keeps_in_the_log_which_calls_were_made() {
    let in_call = Arc::new(Notify::new());
    let begun = in_call.clone();
    let graph = single_node_graph(
        "work",
        node_running(move |_, cx| {
            let begun = begun.clone();
            async move {
                pay(&cx, "pay").await?;
                cx.now()?;
                cx.effect_at_most_once("mail", |_| async move {
                    begun.notify_one();
                    std::future::pending::<Result<String, NodeError>>().await
                })
                .await?;
                Ok(EngineTestState::update())
            }
        }),
    );
    let bot = graph_handle_on(Arc::new(RamStore::new()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    in_call.notified().await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert!(matches!(bot.wait_for_outcome(&run).await, Err(EngineError::Run(RunError::Cancelled))));
    let calls = calls_in_log(bot.runtime()).await;
    let expected = [("mail", CallState::Begun, None), ("pay", CallState::Done, Some("receipt 7"))];
    assert_eq!(call_states(&calls), expected);
    assert_eq!((calls[0].task.as_str(), calls[0].key.len()), ("0.0", 32));
}

#[tokio::test]
async fn a_cancel_lists_calls_in_flight_and_calls_whose_record_waits_for_the_step() {
    let in_call = Arc::new(Notify::new());
    let begun = in_call.clone();
    let graph = single_node_graph(
        "work",
        node_running(move |_, cx| {
            let begun = begun.clone();
            async move {
                let failed = cx.effect("fails", async { Err::<String, _>(NodeError::permanent("no")) }).await;
                assert!(failed.is_err());
                let done = async { Ok::<_, NodeError>("receipt 7".to_owned()) };
                cx.effect("reads", done).await?;
                let closing = async { Ok::<_, NodeError>("receipt 7".to_owned()) };
                cx.closing_effect("closes", closing).await?;
                let posts = cx.idempotent_effect("posts", |_| async move {
                    begun.notify_one();
                    std::future::pending::<Result<String, NodeError>>().await
                });
                posts.await?;
                Ok(EngineTestState::update())
            }
        }),
    );
    let bot = graph_handle_on(Arc::new(RamStore::new()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    in_call.notified().await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert!(matches!(bot.wait_for_outcome(&run).await, Err(EngineError::Run(RunError::Cancelled))));
    let calls = calls_in_log(bot.runtime()).await;
    let done = |name| (name, CallState::Done, Some("receipt 7"));
    assert_eq!(call_states(&calls), [done("closes"), ("posts", CallState::Begun, None), done("reads")]);
}

#[tokio::test]
async fn a_call_that_is_the_last_of_a_cancelled_step_is_in_the_log() {
    let after = Arc::new(Notify::new());
    let called = after.clone();
    let graph = single_node_graph(
        "work",
        node_running(move |_, cx| {
            let called = called.clone();
            async move {
                let closing = async { Ok::<_, NodeError>("receipt 7".to_owned()) };
                cx.closing_effect("closes", closing).await?;
                called.notify_one();
                std::future::pending().await
            }
        }),
    );
    let bot = graph_handle_on(Arc::new(RamStore::new()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    after.notified().await;
    bot.runtime().cancel(&run.key()).await.expect("cancelled");
    assert!(matches!(bot.wait_for_outcome(&run).await, Err(EngineError::Run(RunError::Cancelled))));
    let calls = calls_in_log(bot.runtime()).await;
    assert_eq!(call_states(&calls), [("closes", CallState::Done, Some("receipt 7"))]);
}

#[tokio::test]
async fn the_calls_of_a_paused_run_are_in_the_log_however_it_ends() {
    let graph = single_node_graph(
        "work",
        node_running(|_, cx| async move {
            pay(&cx, "pay").await?;
            let reply: String = cx.ask("go on?").await?;
            Ok(update_saying(reply))
        }),
    );
    for interrupted in [false, true] {
        let bot = graph_handle_on(Arc::new(RamStore::new()), &graph);
        let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        bot.wait_for_outcome(&run).await.expect("paused");
        if interrupted {
            let options = StartOptions { if_busy: IfBusy::Interrupt, ..StartOptions::default() };
            bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options)
                .await
                .expect("started");
        } else {
            bot.runtime().cancel(&run.key()).await.expect("cancelled");
        }
        let calls = calls_in_log(bot.runtime()).await;
        assert_eq!(call_states(&calls), [("pay", CallState::Done, Some("receipt 7"))]);
    }
}

/// Refuses every commit that the run could end its step with, as long as it is on.
struct RejectingGate {
    commits: CallCounter,
    rejects: AtomicBool,
}

#[async_trait]
impl StoreCallGate for RejectingGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" && self.commits.increment() == 1 && self.rejects.load(Ordering::SeqCst) {
            return StoreCallDecision::Refuse(StoreError::Rejected("a value of 2 GB".into()));
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test]
async fn a_write_that_can_never_succeed_ends_the_run_at_once_and_its_calls_are_booked() {
    for calls in ["", "recorded"] {
        let made = CallCounter::default();
        let counter = made.clone();
        let spent = RunUsage { input_tokens: 100, output_tokens: 20, cost_micros: 3 };
        let graph = single_node_graph(
            "work",
            node_running(move |_, cx| {
                counter.increment();
                async move {
                    cx.spend(spent)?;
                    if calls == "recorded" {
                        cx.effect("model", async { Ok::<_, NodeError>(1) }).await?;
                    }
                    Ok(update_saying("done"))
                }
            }),
        );
        let gate = RejectingGate { commits: CallCounter::default(), rejects: AtomicBool::new(true) };
        let store = GatedStore { inner: ram_store(), gate: Arc::new(gate) };
        let bot = graph_handle_on(Arc::new(store), &graph);
        let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        let ended = bot.wait_for_outcome(&run).await;
        let Err(EngineError::Run(RunError::Failed(failure))) = ended else { panic!("{ended:?}") };
        assert_eq!(failure.code, "store_rejected");
        assert!(failure.message.contains("a value of 2 GB"), "{}", failure.message);
        let row = bot.runtime().run_row(&run.key()).await.expect("a row");
        assert_eq!((row.status, row.usage, made.count()), (RunStatus::Failed, spent, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_with_a_key_sees_the_time_of_the_first() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let times = seen.clone();
    let graph = single_node_graph(
        "work",
        node_running(move |_, cx| {
            let times = times.clone();
            async move {
                let now = cx.now()?;
                cx.idempotent_effect("send", |key| async move {
                    let first = {
                        let mut times = times.lock().expect("not poisoned");
                        times.push((key, now));
                        times.len() == 1
                    };
                    if first {
                        // The clock of the machine goes on while nobody works on the run.
                        while SystemTime::now() < now + Duration::from_millis(5) {}
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>(1)
                })
                .await?;
                Ok(EngineTestState::update())
            }
        }),
    );
    let store = Arc::new(ram_store());
    let dying = Runtime::with_options(store.clone(), short_lease_options("dying"));
    let run = dying.register_graph("g", &graph).expect("registered");
    let run = run.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    while seen.lock().expect("not poisoned").is_empty() {
        tokio::task::yield_now().await;
    }
    dying.shutdown(Duration::ZERO).await;
    let next = Runtime::with_options(store, short_lease_options("next"));
    let bot = next.register_graph("g", &graph).expect("registered");
    next.start_worker().await.expect("works");
    let run = next.run_handle(&run.key()).await.expect("the run");
    bot.wait_for_outcome(&run).await.expect("finished");
    let seen = seen.lock().expect("not poisoned");
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
}

/// Holds commits back until the test lets them pass.
struct HoldingGate(Semaphore);

#[async_trait]
impl StoreCallGate for HoldingGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" {
            self.0.acquire().await.expect("open").forget();
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test]
async fn no_call_is_made_before_the_record_of_a_closing_call_is_written() {
    let (first, later) = (CallCounter::default(), CallCounter::default());
    let (closing, after) = (first.clone(), later.clone());
    let graph = single_node_graph(
        "work",
        node_running(move |_, cx| {
            let (closing, after) = (closing.clone(), after.clone());
            async move {
                let made = async { Ok::<_, NodeError>(closing.increment()) };
                cx.closing_effect("model", made).await?;
                let call = |name: &str| {
                    cx.effect(name, {
                        let after = after.clone();
                        async move { Ok::<_, NodeError>(after.increment()) }
                    })
                };
                let (left, right) = join(call("left"), call("right")).await;
                Ok(EngineTestState::update().sum(u64::from(left? + right?)))
            }
        }),
    );
    let gate = Arc::new(HoldingGate(Semaphore::new(0)));
    let store = GatedStore { inner: ram_store(), gate: gate.clone() };
    let bot = graph_handle_on(Arc::new(store), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!((first.count(), later.count()), (1, 0), "its record is not written yet");
    gate.0.add_permits(100);
    bot.wait_for_outcome(&run).await.expect("finished");
    assert_eq!(later.count(), 2);
}

fn cached_graph(word: &'static str) -> Graph<EngineTestState> {
    let cached = || node_saying(word).cache(NodeCachePolicy::by_key(|_: &EngineTestState| "same".to_owned()));
    let inner = Graph::named().node("say", cached().end()).start("say").build().expect("sound");
    let inner = subgraph(
        inner,
        |_: &EngineTestState| EngineTestState::update(),
        |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
    );
    Graph::named()
        .node("say", cached().then("inner"))
        .node("inner", node(inner).end())
        .start("say")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn two_graphs_of_one_shape_do_not_share_cached_results() {
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    for name in ["one", "other", "one"] {
        let word = if name == "one" { "1" } else { "2" };
        let bot = Runtime::new(runtime.store().clone())
            .register_graph(name, &cached_graph(word))
            .expect("registered");
        let thread = local_thread(&format!("{name}-{word}"));
        let ended = bot.run(&thread, EngineTestState::update().text("")).await.expect("runs");
        let said = ended.finished().expect("finished").said.clone();
        assert!(said.iter().all(|said| said == word), "{name}: {said:?}");
    }
}

#[tokio::test]
async fn a_run_that_shows_too_much_is_stopped() {
    for endless in [false, true] {
        let graph = single_node_graph(
            "work",
            node_running(move |_, cx| async move {
                let page = json!({ "lines": vec!["a line of the page"; 100] });
                for nth in 0.. {
                    cx.emit(page.clone());
                    if endless {
                        tokio::task::yield_now().await;
                    } else if nth > 100 {
                        break;
                    }
                }
                Ok(EngineTestState::update())
            }),
        );
        let limits = RunLimits { shown_bytes: 50_000, ..RunLimits::default() };
        let options = RuntimeOptions { limits, ..RuntimeOptions::default() };
        let runtime = Runtime::with_options(Arc::new(RamStore::new()), options);
        let bot = runtime.register_graph("g", &graph).expect("registered");
        let end = run_to_text(&bot, EngineTestState::update()).await;
        assert_eq!(end, "limit_exceeded: node `work`: the run may show watchers at most 50000 bytes");
    }
}
