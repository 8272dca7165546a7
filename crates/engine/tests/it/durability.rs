//! What is on disk before something happens: a step need not be, what somebody outside could notice must be.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_engine::store::{Commit, Durability};
use doran_engine::{Acknowledgement, Cx, Event, Graph, NodeError, StartOptions, WatchUntil};
use tokio::sync::Semaphore;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NthCallGate, StoreCallDecision, StoreCallGate, entry_text,
    graph_handle_on, local_thread, node_running, node_saying, ram_store, run_to_text, single_node_graph,
    update_saying,
};

/// Writes down what is written, waited for and done, in order.
#[derive(Clone, Default)]
struct DiskTrace(Arc<Mutex<Vec<String>>>);

impl DiskTrace {
    fn push(&self, what: &str) {
        self.0.lock().expect("no panic").push(what.to_owned());
    }

    fn text(&self) -> String {
        self.0.lock().expect("no panic").join(" ")
    }

    async fn of_run(&self, graph: &Graph<EngineTestState>) -> String {
        let store = GatedStore { inner: ram_store(), gate: Arc::new(self.clone()) };
        run_to_text(&graph_handle_on(Arc::new(store), graph), EngineTestState::update()).await;
        // The run is accepted when its input is on disk.
        self.text().strip_prefix("wait ").expect("a wait for the input").to_owned()
    }
}

#[async_trait]
impl StoreCallGate for DiskTrace {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "wait_until_durable" {
            self.push("wait");
        }
        StoreCallDecision::Pass
    }

    fn on_commit(&self, commit: &Commit) {
        let what = if commit.entries.is_empty() { "record" } else { "step" };
        match commit.durability {
            Durability::Later => self.push(what),
            Durability::Now => self.push(&what.to_uppercase()),
        }
    }
}

fn line_graph(nodes: u32) -> Graph<EngineTestState> {
    let mut graph = Graph::named();
    for n in 0..nodes {
        let node = node_saying("word");
        let node = if n + 1 == nodes { node.end() } else { node.then(format!("n{}", n + 1)) };
        graph = graph.node(format!("n{n}"), node);
    }
    graph.start("n0").build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn steps_between_the_input_and_the_end_wait_for_no_disk() {
    assert_eq!(DiskTrace::default().of_run(&line_graph(3)).await, "step step STEP");
}

#[tokio::test(start_paused = true)]
async fn of_many_steps_in_a_row_every_ninth_waits() {
    let trace = DiskTrace::default().of_run(&line_graph(20)).await;
    let steps: Vec<&str> = trace.split(' ').collect();
    let waits: Vec<usize> = (1..=20).filter(|n| steps[n - 1] == "STEP").collect();
    assert_eq!(waits, [9, 18, 20]);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_key_waits_for_everything_before_it_and_a_plain_one_does_not() {
    let trace = DiskTrace::default();
    let world = trace.clone();
    let work = move |_, cx: Cx| {
        let world = world.clone();
        async move {
            let call = |name: &'static str| {
                let world = world.clone();
                async move {
                    world.push(name);
                    Ok::<_, NodeError>(1)
                }
            };
            cx.effect("plain", call("plain")).await?;
            cx.idempotent_effect("keyed", |_| call("keyed")).await?;
            cx.effect_at_most_once("once", |_| call("once")).await?;
            Ok(update_saying("done"))
        }
    };
    let calls = trace.of_run(&single_node_graph("n", node_running(work))).await;
    assert_eq!(calls, "plain record wait keyed record record wait once record STEP");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_on_disk_before_it_is_asked() {
    let ask = |_, cx: Cx| async move {
        cx.effect("plain", async { Ok::<_, NodeError>(1) }).await?;
        let _: String = cx.ask("sure?").await?;
        Ok(update_saying("asked"))
    };
    let graph = Graph::named()
        .node("say", node_saying("hello").then("ask"))
        .node("ask", node_running(ask).end())
        .start("say")
        .build()
        .expect("sound");
    assert_eq!(DiskTrace::default().of_run(&graph).await, "step record STEP");
}

/// Lets nobody learn that something is on disk until it is released.
struct SlowDisk(Arc<Semaphore>);

#[async_trait]
impl StoreCallGate for SlowDisk {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "wait_until_durable" {
            self.0.acquire().await.expect("open").forget();
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_is_shown_an_entry_when_it_is_on_disk_and_the_run_goes_on_meanwhile() {
    let (disk, next) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let gated = |word: &'static str| {
        let gate = next.clone();
        node_running(move |_, _| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.expect("open").forget();
                Ok(update_saying(word))
            }
        })
    };
    let graph = Graph::named()
        .node("a", gated("one").then("b"))
        .node("b", node_saying("more").then("c"))
        .node("c", gated("two").end())
        .start("a")
        .build()
        .expect("sound");
    // The first wait is for the input.
    disk.add_permits(1);
    let store = GatedStore { inner: ram_store(), gate: Arc::new(SlowDisk(disk.clone())) };
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let mut watch = bot.runtime().watch(&run.key(), 0, WatchUntil::RunEnded).await.expect("a watch");
    let mut next_entry = async || match watch.try_next().await.expect("an event") {
        Some(Event::Entry(_, entry)) => entry_text(&entry),
        other => panic!("{other:?}"),
    };
    assert_eq!(next_entry().await, "started");
    next.add_permits(1);
    let shown = tokio::time::timeout(std::time::Duration::from_secs(60), next_entry()).await;
    assert!(shown.is_err(), "{shown:?} before it was on disk");
    use doran_engine::store::HistoryStore;
    assert_eq!(store.inner.thread(&local_thread("t")).await.expect("thread").head, 3, "the run went on");
    disk.add_permits(100);
    next.add_permits(1);
    assert_eq!(next_entry().await, "a");
    assert_eq!(next_entry().await, "b");
}

#[tokio::test(start_paused = true)]
async fn a_run_begins_before_its_input_is_on_disk_and_is_accepted_after() {
    let disk = Arc::new(Semaphore::new(0));
    let began = CallCounter::default();
    let counts = began.clone();
    let graph = single_node_graph(
        "n",
        node_running(move |_, _| {
            counts.increment();
            async { Ok(update_saying("word")) }
        }),
    );
    let store = GatedStore { inner: ram_store(), gate: Arc::new(SlowDisk(disk.clone())) };
    let bot = graph_handle_on(Arc::new(store), &graph);
    let started = tokio::spawn(async move {
        let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        crate::support::wait_for_outcome_text(&bot, &run).await
    });
    while began.count() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!started.is_finished(), "accepted before its input was on disk");
    disk.add_permits(1);
    assert_eq!(started.await.expect("task"), "word");
}

#[tokio::test(start_paused = true)]
async fn when_nobody_knows_whether_a_step_is_on_disk_the_log_is_read() {
    let keyed = |_, cx: Cx| async move {
        cx.idempotent_effect("keyed", |_| async { Ok::<_, NodeError>(1) }).await?;
        Ok(update_saying("two"))
    };
    let graph = Graph::named()
        .node("a", node_saying("one").then("b"))
        .node("b", node_running(keyed).end())
        .start("a")
        .build()
        .expect("sound");
    let gate = NthCallGate::new("wait_until_durable", 2, StoreCallDecision::LoseAnswer);
    let store = GatedStore { inner: ram_store(), gate: gate.clone() };
    assert_eq!(
        run_to_text(&graph_handle_on(Arc::new(store), &graph), EngineTestState::update()).await,
        "one two"
    );
    assert!(gate.fired());
}

/// Writes down which commits write records and which clear them.
#[derive(Clone, Default)]
struct RecordTrace(Arc<Mutex<Vec<&'static str>>>);

#[async_trait]
impl StoreCallGate for RecordTrace {
    async fn decide(&self, _call: &'static str) -> StoreCallDecision {
        StoreCallDecision::Pass
    }

    fn on_commit(&self, commit: &Commit) {
        let what = match (commit.entries.is_empty(), commit.clear_records) {
            (true, _) => "record",
            (false, true) => "step that clears",
            (false, false) => "step",
        };
        self.0.lock().expect("no panic").push(what);
    }
}

#[tokio::test]
async fn a_step_clears_the_records_of_the_calls_it_was_made_from() {
    let pays = node_running(|_, cx: Cx| async move {
        cx.effect_at_most_once("pay", |_| async { Ok::<_, NodeError>(1) }).await?;
        Ok(update_saying("paid"))
    });
    let graph = Graph::named()
        .node("pay", pays.then("end"))
        .node("end", node_saying("end").end())
        .start("pay")
        .build()
        .expect("a sound graph");
    let trace = RecordTrace::default();
    let store = GatedStore { inner: ram_store(), gate: Arc::new(trace.clone()) };
    let said = run_to_text(&graph_handle_on(Arc::new(store), &graph), EngineTestState::update()).await;
    assert_eq!(said, "paid end");
    // That the call begins, and that it is done.
    assert_eq!(*trace.0.lock().expect("no panic"), ["record", "record", "step that clears", "step"]);
}

/// Holds back the commit with this number, and all waits for the disk.
struct HeldDisk {
    commits: CallCounter,
    held_commit: u32,
    disk: Arc<Semaphore>,
}

impl HeldDisk {
    fn new(held_commit: u32) -> Arc<Self> {
        Arc::new(Self { commits: CallCounter::default(), held_commit, disk: Arc::new(Semaphore::new(0)) })
    }

    /// Waits until this many commits were made or are held back.
    async fn wait_for_commits(&self, count: u32) {
        while self.commits.count() < count {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl StoreCallGate for HeldDisk {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" {
            self.commits.increment();
        }
        if call == "wait_until_durable" || call == "commit" && self.commits.count() == self.held_commit {
            self.disk.acquire().await.expect("open").forget();
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_rest_of_a_run_waits_for_its_last_commit_and_for_nothing_else() {
    let gate = HeldDisk::new(3);
    let store = GatedStore { inner: ram_store(), gate: gate.clone() };
    let bot = graph_handle_on(Arc::new(store), &line_graph(3));
    let caller = tokio::spawn({
        let bot = bot.clone();
        async move { bot.run(&local_thread("t"), EngineTestState::update()).await }
    });
    gate.wait_for_commits(3).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(!caller.is_finished(), "it was told before the end was on disk");
    // The end needs the disk once. Nothing else does.
    gate.disk.add_permits(1);
    let outcome = caller.await.expect("task").expect("a run").finished();
    assert!(outcome.is_some(), "it ended");
    assert_eq!(gate.disk.available_permits(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_also_covers_the_input_of_a_run() {
    let trace = DiskTrace::default();
    let ask = |_, cx: Cx| async move {
        let _: String = cx.ask("sure?").await?;
        Ok(update_saying("asked"))
    };
    let store = GatedStore { inner: ram_store(), gate: Arc::new(trace.clone()) };
    let bot = graph_handle_on(Arc::new(store), &single_node_graph("ask", node_running(ask)));
    let outcome = bot.run(&local_thread("t"), EngineTestState::update()).await.expect("a run");
    assert_eq!(outcome.questions().len(), 1);
    assert_eq!(trace.text(), "STEP");
}

fn told_at_rest() -> StartOptions {
    StartOptions { acknowledge: Acknowledgement::Rest, ..StartOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_told_of_at_rest_can_be_told_of_earlier_when_its_input_is_on_disk() {
    let hangs = node_running(|_, _| async { std::future::pending().await });
    let gate = HeldDisk::new(u32::MAX);
    let store = GatedStore { inner: ram_store(), gate: gate.clone() };
    let bot = graph_handle_on(Arc::new(store), &single_node_graph("n", hangs));
    let input = Some(EngineTestState::update());
    let run = bot.start_with(&local_thread("t"), input, told_at_rest()).await.expect("it begins at once");
    let mut accepted = Box::pin(run.wait_until_accepted());
    let told = tokio::time::timeout(std::time::Duration::from_secs(60), &mut accepted).await;
    assert!(told.is_err(), "told before its input was on disk");
    gate.disk.add_permits(1);
    accepted.await.expect("on disk");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_driven_elsewhere_is_on_disk_when_its_start_returns() {
    /// Answers a submit when its lease is over.
    struct LateSubmit(HeldDisk);

    #[async_trait]
    impl StoreCallGate for LateSubmit {
        async fn decide(&self, call: &'static str) -> StoreCallDecision {
            match call {
                "submit" => StoreCallDecision::DelayAnswer(std::time::Duration::from_secs(11)),
                call => self.0.decide(call).await,
            }
        }
    }

    let disk = HeldDisk {
        commits: CallCounter::default(),
        held_commit: u32::MAX,
        disk: Arc::new(Semaphore::new(0)),
    };
    let permits = disk.disk.clone();
    let store = GatedStore { inner: ram_store(), gate: Arc::new(LateSubmit(disk)) };
    let bot = graph_handle_on(Arc::new(store), &line_graph(1));
    let (thread, input) = (local_thread("t"), Some(EngineTestState::update()));
    let mut start = Box::pin(bot.start_with(&thread, input, told_at_rest()));
    let told = tokio::time::timeout(std::time::Duration::from_secs(60), &mut start).await;
    assert!(told.is_err(), "{told:?} before its input was on disk");
    permits.add_permits(1);
    start.await.expect("started");
}
