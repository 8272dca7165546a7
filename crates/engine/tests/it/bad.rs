//! What must not work, and how it says so: unknown names, graphs and states that changed, and a store that refuses,
//! cannot be reached, or does not know.

use std::sync::Arc;

use doran_engine::log;
use doran_engine::store::{EntryKind, History, NewEntry, RamStore, Status, StoreError, Upkeep};
use doran_engine::{
    Bot, Cx, EngineError, Graph, NodeError, Runtime, RuntimeOptions, Snap, StartOptions, State, node,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{
    AtCall, Calls, GatedStore, Notes, Verdict, bot, bot_on, does, hasty, ms, only, ram, rest, run, say, says,
    thread, told, trace,
};

#[tokio::test]
async fn unknown_names_are_told() {
    let bot = bot(&only("a", says("a")));
    let runtime = bot.runtime();
    let told = |error: Option<EngineError>| error.expect("an error").to_string();
    let start = runtime.start("ghost", &thread("t"), None, StartOptions::default()).await;
    assert_eq!(told(start.err()), "there is no graph called `ghost`");
    assert_eq!(told(runtime.view("g", &thread("ghost"), None).await.err()), "thread `ghost` does not exist");
    assert_eq!(told(bot.state(&thread("ghost")).await.err()), "thread `ghost` does not exist");
    let again = runtime.graph("g", &only("a", says("a")));
    assert_eq!(told(again.err()), "a graph called `g` is registered already");
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    rest(&bot, &run).await;
    assert_eq!(told(runtime.view("g", &thread("t"), Some(99)).await.err()), "entry `99` does not exist");
    let finished = runtime.retry(&run.key()).await.err();
    assert!(told(finished).ends_with("did not fail"));
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_refused_and_nothing_is_written() {
    let bot = bot(&only("a", says("a")));
    let input = json!({ "n": "many" });
    let start = bot.runtime().start("g", &thread("t"), Some(&input), StartOptions::default()).await;
    let error = start.expect_err("refused").to_string();
    assert!(
        error.starts_with("the input does not fit the state of `g`: invalid type: string \"many\""),
        "{error}"
    );
    assert!(bot.runtime().store().thread(&thread("t")).await.is_err(), "the thread was not even made");
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_graph_that_this_process_does_not_know_waits_for_one_that_does() {
    let store = ram();
    let graph = only("a", does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) }));
    let first =
        Runtime::with(Arc::new(store.clone()), hasty("first")).graph("g", &graph).expect("registered");
    run(&first, Notes::update()).await;
    let stranger = Runtime::with(Arc::new(store.clone()), hasty("stranger"));
    stranger.work().await.expect("works");
    let questions = stranger.questions(&thread("t")).await.expect("questions");
    let answers = [(questions[0].1.id.clone(), json!("yes"))].into();
    let handle = stranger.answer(&questions[0].0, &answers).await.expect("taken");
    tokio::time::sleep(ms(1000)).await;
    let row = store.run(&handle.key()).await.expect("row");
    assert_eq!(row.status, Status::Running, "it is not failed for that");
    stranger.shutdown(ms(10)).await;
    let second = Runtime::with(Arc::new(store), hasty("second")).graph("g", &graph).expect("registered");
    second.runtime().work().await.expect("works");
    let handle = second.runtime().run(&handle.key()).await.expect("the run");
    assert_eq!(rest(&second, &handle).await, "yes");
}

#[tokio::test(start_paused = true)]
async fn many_runs_of_unknown_graphs_hold_up_nobody() {
    let store = ram();
    let full = RuntimeOptions { max_runs: 0, ..hasty("full") };
    let full = Runtime::with(Arc::new(store.clone()), full);
    let known = full.graph("g", &only("a", says("a"))).expect("registered");
    let gone = full.graph("gone", &only("a", says("a"))).expect("registered");
    for number in 0..200 {
        gone.start(&thread(&format!("gone{number}")), Notes::update()).await.expect("queued");
    }
    let waits = known.start(&thread("t"), Notes::update()).await.expect("queued").key();
    full.shutdown(ms(10)).await;
    let second = Runtime::with(Arc::new(store.clone()), hasty("second"));
    let second = second.graph("g", &only("a", says("a"))).expect("registered");
    second.runtime().work().await.expect("works");
    let handle = second.runtime().run(&waits).await.expect("the run");
    assert_eq!(rest(&second, &handle).await, "a");
    let filter = doran_engine::store::RunFilter { status: Some(Status::Finished), ..Default::default() };
    let finished = store.runs(&thread("t").tenant, &filter).await.expect("runs");
    assert_eq!(finished.len(), 1, "and the others are still there for whoever knows them");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_taken_is_no_error_when_nobody_can_go_on_with_it_at_once() {
    let gate = AtCall::new("claim", 1, Verdict::Refuse(StoreError::Unavailable("away".into())));
    let store = GatedStore { inner: ram(), gate: gate.clone() };
    let graph = only("a", does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) }));
    let bot = Runtime::with(Arc::new(store), hasty("w")).graph("g", &graph).expect("registered");
    run(&bot, Notes::update()).await;
    let questions = bot.runtime().questions(&thread("t")).await.expect("questions");
    let answers = [(questions[0].1.id.clone(), json!("yes"))].into();
    let handle = bot.runtime().answer(&questions[0].0, &answers).await.expect("taken");
    assert!(gate.fired(), "the claim was refused");
    assert_eq!(rest(&bot, &handle).await, "yes", "and made by the next look");
}

/// `a → ask → last`, where the last node has this name.
fn asks_then(ask: &str, last: &'static str) -> Graph<Notes> {
    Graph::named()
        .node("a", says("a").then(ask))
        .node(ask, does(|_, cx: Cx| async move { Ok(say(cx.ask::<String, _>("?").await?)) }).then(last))
        .node(last, says(last).end())
        .start("a")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn a_run_of_a_graph_that_changed_stops_until_somebody_accepts_it() {
    let store = Arc::new(ram());
    let old = bot_on(store.clone(), &asks_then("ask", "old"));
    run(&old, Notes::update()).await;
    let new = bot_on(store, &asks_then("ask", "new"));
    let end = told(new.resume(&thread("t"), "yes").await);
    assert_eq!(end, "graph_changed: graph `g` changed since this run was started");
    let runs = new.runtime().store().runs(&thread("t").tenant, &Default::default()).await.expect("runs");
    let again = new.runtime().retry(&runs[0].key()).await.expect("accepted");
    assert_eq!(rest(&new, &again).await, "a yes new", "the answer was not lost");
    assert_eq!(
        trace(new.runtime(), &runs[0].key()).await,
        "started | a | paused by ask | resumed | failed graph_changed | restarted | ask | new | finished"
    );
}

#[tokio::test]
async fn a_run_that_stands_at_a_node_that_is_gone_is_told_so_and_the_thread_goes_on() {
    let store = Arc::new(ram());
    let old = bot_on(store.clone(), &asks_then("ask", "last"));
    run(&old, Notes::update()).await;
    let new = bot_on(store, &asks_then("question", "last"));
    assert!(told(new.resume(&thread("t"), "yes").await).starts_with("graph_changed"));
    let runs = new.runtime().store().runs(&thread("t").tenant, &Default::default()).await.expect("runs");
    let again = new.runtime().retry(&runs[0].key()).await.expect("accepted");
    assert_eq!(
        rest(&new, &again).await,
        "graph_changed: the thread stands at node `ask` since entry 2, and the graph has no such node"
    );
    assert_eq!(new.state(&thread("t")).await.expect("the state can be read").line(), "a");
    let next = new.start(&thread("t"), Notes::update()).await.expect("started");
    assert!(rest(&new, &next).await.contains("asks"), "a new run begins at the beginning");
    assert_eq!(told(new.resume(&thread("t"), "yes").await), "a a yes last");
}

#[tokio::test]
async fn a_thread_outlives_the_renaming_of_nodes_it_went_through() {
    let graph = |middle: &'static str| {
        Graph::named()
            .node("a", says("a").then(middle))
            .node(middle, says(middle).end())
            .start("a")
            .build()
            .expect("sound")
    };
    let store = Arc::new(ram());
    assert_eq!(run(&bot_on(store.clone(), &graph("old")), Notes::update()).await, "a old");
    let new = bot_on(store, &graph("new"));
    assert_eq!(run(&new, Notes::update()).await, "a old a new");
    assert_eq!(new.state_at(&thread("t"), Some(2)).await.expect("old entries can be read").line(), "a");
}

/// The same graph over another state.
fn over<S: State>(update: fn() -> S::Update) -> Graph<S> {
    Graph::named()
        .node("a", node(move |_: Snap<S>| async move { Ok::<_, NodeError>(update()) }).end())
        .start("a")
        .build()
        .expect("sound")
}

fn typed<S: State>(store: &RamStore, graph: &Graph<S>) -> Bot<S> {
    Runtime::new(Arc::new(store.clone())).graph("g", graph).expect("registered")
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Before {
    text: String,
    n: u32,
}

#[derive(State, Clone, Debug, Serialize, Deserialize)]
struct After {
    text: String,
    n: u32,
    added: String,
}

impl Default for After {
    fn default() -> Self {
        Self { text: String::new(), n: 0, added: "as it begins".into() }
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Other {
    text: String,
    n: Vec<String>,
}

#[tokio::test]
async fn a_field_that_was_added_has_its_default_in_old_threads() {
    let store = ram();
    let before = typed(&store, &over::<Before>(|| Before::update().n(1)));
    // Enough that is overwritten for a snapshot of the whole state to be kept.
    for _ in 0..60 {
        before.run(&thread("t"), Before::update().text("x".repeat(4000))).await.expect("runs");
    }
    let head = store.thread(&thread("t")).await.expect("thread").head;
    let loaded = store.load(&thread("t"), None).await.expect("loaded");
    assert!(loaded.snapshot.is_some(), "there is a snapshot to read");
    let after = typed(&store, &over::<After>(|| After::update().n(2)));
    for at in [2, head] {
        let state = after.state_at(&thread("t"), Some(at)).await.expect("readable");
        assert_eq!(
            (state.n, state.text.len(), state.added.as_str()),
            (u32::from(at > 1), 4000, "as it begins")
        );
    }
    let outcome = after.run(&thread("t"), After::update()).await.expect("goes on");
    assert_eq!(outcome.finished().expect("finished").n, 2);
}

#[tokio::test]
async fn a_stored_update_that_does_not_fit_is_an_error_that_names_its_entry_and_loses_nothing() {
    let store = ram();
    let before = typed(&store, &over::<Before>(|| Before::update().n(1)));
    before.run(&thread("t"), Before::update().text("hello")).await.expect("runs");
    let other = typed(&store, &over::<Other>(Other::update));
    let error = other.state(&thread("t")).await.expect_err("does not fit").to_string();
    assert!(
        error.starts_with("entry 2 does not fit the graph and its state: invalid type: integer `1`"),
        "{error}"
    );
    let error = other.run(&thread("t"), Other::update()).await.expect_err("does not fit").to_string();
    assert!(error.starts_with("run failed (state_mismatch): entry 2 does not fit"), "{error}");
    let state = before.state(&thread("t")).await.expect("still there");
    assert_eq!((state.text.as_str(), state.n), ("hello", 1));
    before.run(&thread("t"), Before::update()).await.expect("and goes on");
}

#[tokio::test]
async fn a_log_of_a_newer_program_is_refused_and_kept() {
    let store = ram();
    let bot = typed(&store, &over::<Before>(Before::update));
    bot.run(&thread("t"), Before::update().n(7)).await.expect("runs");
    let body = serde_json::to_vec(&json!({ "v": log::FORMAT + 1, "graph": "g" })).expect("json");
    let entry = NewEntry { kind: EntryKind::Started, body, parent: None, base: 0, snapshot: None };
    let head = store.thread(&thread("t")).await.expect("thread").head;
    store.append(&thread("t"), head, entry).await.expect("appended");
    let error = bot.state(&thread("t")).await.expect_err("newer").to_string();
    assert_eq!(
        error,
        "entry 4 does not fit the graph and its state: it has format 2, this program knows up to 1"
    );
    assert_eq!(bot.state_at(&thread("t"), Some(head)).await.expect("older entries are readable").n, 7);
}

/// Three steps; the second makes a call and fans out.
fn work(calls: Calls) -> Graph<Notes> {
    let once = does(move |_, cx: Cx| {
        let calls = calls.clone();
        async move {
            let nth: u32 = cx.effect("call", async move { Ok::<_, NodeError>(calls.hit()) }).await?;
            Ok(say(format!("call{nth}")))
        }
    });
    Graph::named()
        .node("a", says("a").then_all(["b", "c"]))
        .node("b", once.then("d"))
        .node("c", says("c").then("d"))
        .node("d", says("d").end())
        .start("a")
        .build()
        .expect("sound")
}

/// What a store may do instead of writing, with a name.
type Refusal = (&'static str, fn() -> Verdict);

fn refusals() -> [Refusal; 4] {
    [
        ("full", || Verdict::Refuse(StoreError::Full("no room".into()))),
        ("unavailable", || Verdict::Refuse(StoreError::Unavailable("gone".into()))),
        ("unknown, not written", || Verdict::Refuse(StoreError::Unknown("who knows".into()))),
        ("unknown, written", || Verdict::Lose),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_store_fails_is_let_go_and_finishes_once_later() {
    for (name, verdict) in refusals() {
        for nth in 1..=6 {
            let calls = Calls::default();
            let gate = AtCall::new("commit", nth, verdict());
            let store = GatedStore { inner: ram(), gate: gate.clone() };
            let runtime = Runtime::with(Arc::new(store.clone()), hasty("worker"));
            let bot = runtime.graph("g", &work(calls.clone())).expect("registered");
            runtime.work().await.expect("works");
            let handle = bot.start(&thread("t"), Notes::update()).await.expect("started");
            let first = rest(&bot, &handle).await;
            let case = format!("{name} at commit {nth}");
            if !gate.fired() {
                assert!(nth > 4, "{case}: there are at least four commits");
                continue;
            }
            let key = handle.key();
            for _ in 0..100 {
                if store.inner.run(&key).await.expect("row").status.is_end() {
                    break;
                }
                tokio::time::sleep(ms(50)).await;
            }
            let again = runtime.run(&key).await.expect("the run");
            let call = if calls.count() == 1 { "call1" } else { "call2" };
            assert_eq!(rest(&bot, &again).await, format!("a {call} c d"), "{case}, after {first}");
            assert!(calls.count() <= 2, "{case}");
            let entries = store.inner.entries(&thread("t"), 0, 100).await.expect("entries");
            let ends = entries.iter().filter(|entry| entry.kind.is_end()).count();
            assert_eq!(ends, 1, "{case}");
            let trouble = runtime.trouble().borrow().is_some();
            assert_eq!(trouble, name.starts_with("unknown"), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_outcome_is_unknown_raises_the_alarm_and_its_run_is_not_lost() {
    for lost in [false, true] {
        let verdict =
            if lost { Verdict::Lose } else { Verdict::Refuse(StoreError::Unknown("who knows".into())) };
        let gate = AtCall::new("submit", 1, verdict);
        let store = GatedStore { inner: ram(), gate };
        let runtime = Runtime::with(Arc::new(store.clone()), hasty("worker"));
        let bot = runtime.graph("g", &only("a", says("a"))).expect("registered");
        runtime.work().await.expect("works");
        let start = bot.start(&thread("t"), Notes::update()).await;
        assert!(matches!(start, Err(EngineError::Store(StoreError::Unknown(_)))));
        assert!(runtime.trouble().borrow().is_some(), "written: {lost}");
        let next = Runtime::with(Arc::new(store.inner.clone()), hasty("next"));
        let next = next.graph("g", &only("a", says("a"))).expect("registered");
        next.runtime().work().await.expect("works");
        tokio::time::sleep(ms(2000)).await;
        let runs = store.inner.runs(&thread("t").tenant, &Default::default()).await.expect("runs");
        assert_eq!(runs.len(), usize::from(lost));
        assert!(runs.iter().all(|run| run.status == Status::Finished), "{runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_told_also_when_the_answer_to_its_last_write_is_lost() {
    let gate = AtCall::new("commit", 1, Verdict::Lose);
    let store = GatedStore { inner: ram(), gate };
    let bot = bot_on(Arc::new(store), &only("a", says("a")));
    assert_eq!(run(&bot, Notes::update()).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_hands_runs_over_at_a_step_and_the_next_goes_on_at_once() {
    let slow = || {
        let step = |word: &'static str| {
            does(move |_, _| async move {
                tokio::time::sleep(ms(100)).await;
                Ok(say(word))
            })
        };
        Graph::named()
            .node("a", step("a").then("b"))
            .node("b", step("b").then("c"))
            .node("c", step("c").end())
            .start("a")
            .build()
            .expect("sound")
    };
    let store = ram();
    let first = bot_on(Arc::new(store.clone()), &slow());
    let handle = first.start(&thread("t"), Notes::update()).await.expect("started");
    tokio::time::sleep(ms(150)).await;
    first.runtime().shutdown(ms(1000)).await;
    assert_eq!(rest(&first, &handle).await, "the run left this process: the process is shutting down");
    let refused = first.start(&thread("u"), Notes::update()).await.expect_err("stopped").to_string();
    assert_eq!(refused, "the runtime stopped: it is shutting down");
    let begun = tokio::time::Instant::now();
    let second = bot_on(Arc::new(store), &slow());
    second.runtime().work().await.expect("works");
    let handle = second.runtime().run(&handle.key()).await.expect("the run");
    assert_eq!(rest(&second, &handle).await, "a b c");
    assert!(begun.elapsed() < ms(500), "the lease was handed over: {:?}", begun.elapsed());
    assert_eq!(trace(second.runtime(), &handle.key()).await, "started | a | b | restarted | c | finished");
}

/// A field that is not written while it is empty, and then missed.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Shy {
    #[serde(skip_serializing_if = "String::is_empty")]
    aside: String,
    text: String,
    n: u32,
}

#[tokio::test]
async fn a_state_that_cannot_be_read_back_has_no_snapshot_and_its_thread_goes_on() {
    let grows = node(|state: Snap<Shy>| async move {
        Ok::<_, NodeError>(Shy::update().text("x".repeat(20_000)).n(state.n + 1))
    });
    let graph = Graph::named()
        .node("a", grows.when(|state: &Shy| !state.n.is_multiple_of(20), "a", "b"))
        .node("b", node(|_: Snap<Shy>| async { Ok::<_, NodeError>(Shy::update()) }).end())
        .start("a")
        .build()
        .expect("sound");
    let store = ram();
    for turn in 1..3 {
        // Nothing is remembered from one turn to the next but what the store has.
        let bot = Runtime::new(Arc::new(store.clone())).graph("g", &graph).expect("registered");
        bot.run(&thread("t"), Shy::update()).await.expect("a run");
        let loaded = store.load(&thread("t"), None).await.expect("loaded");
        assert!(loaded.snapshot.is_none());
        let state = bot.state(&thread("t")).await.expect("a state");
        assert_eq!(state.n, 20 * turn);
    }
}
