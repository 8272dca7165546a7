//! What these tests share: a small state, nodes that say a word, a run printed as a trace, and a store whose every
//! call a test may refuse, lose or hold back.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::graph::NodeBuilder;
use doran_engine::store::{Commit, CommitOutcome, Fence, RamStore, RunFilter, RunStore, Store, StoreError};
use doran_engine::{
    Cx, EngineError, EntryBody, Graph, GraphHandle, NodeError, Outcome, RunError, RunHandle, RunKey, Runtime,
    RuntimeOptions, Snap, State, TaskResult, TenantId, ThreadEntry, ThreadKey, node,
};
use serde::{Deserialize, Serialize};

/// What the graphs of these tests carry.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EngineTestState {
    #[reduce(append)]
    pub said: Vec<String>,
    #[reduce(add)]
    pub sum: u64,
    pub n: u32,
    pub text: String,
}

impl EngineTestState {
    /// What was said, in one line.
    pub(crate) fn said_text(&self) -> String {
        self.said.join(" ")
    }
}

/// An update that says one word.
pub(crate) fn update_saying(word: impl Into<String>) -> EngineTestStateUpdate {
    EngineTestState::update().said(vec![word.into()])
}

/// A node that says one word.
pub(crate) fn node_saying(word: &'static str) -> NodeBuilder<EngineTestState> {
    node_running(move |_, _| async move { Ok(update_saying(word)) })
}

/// A node that does what `work` does.
pub(crate) fn node_running<F>(
    work: impl Fn(Snap<EngineTestState>, Cx) -> F + Send + Sync + 'static,
) -> NodeBuilder<EngineTestState>
where
    F: Future<Output = Result<EngineTestStateUpdate, NodeError>> + Send + 'static,
{
    node(work)
}

/// A graph of one node that ends.
pub(crate) fn single_node_graph(name: &str, node: NodeBuilder<EngineTestState>) -> Graph<EngineTestState> {
    Graph::named().node(name, node.end()).start(name).build().expect("a sound graph")
}

/// Counts calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallCounter(Arc<AtomicU32>);

impl CallCounter {
    /// Counts one more and gives its number, from 1.
    pub(crate) fn increment(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A thread of the local tenant.
pub(crate) fn local_thread(name: &str) -> ThreadKey {
    ThreadKey::local(name).expect("a name")
}

/// Milliseconds.
pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A store in memory that goes by the clock of tokio, so that paused time moves leases and lifetimes too.
pub(crate) fn ram_store() -> RamStore {
    let started = tokio::time::Instant::now();
    RamStore::with_clock(Arc::new(move || {
        1_700_000_000_000 + i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }))
}

/// Options with a short lease, so that another runtime takes over soon.
pub(crate) fn short_lease_options(worker: &str) -> RuntimeOptions {
    RuntimeOptions {
        worker: Some(worker.to_owned()),
        lease: ms(300),
        scan: ms(50),
        ..RuntimeOptions::default()
    }
}

/// A runtime on a new store, with one graph called `g`.
pub(crate) fn graph_handle(graph: &Graph<EngineTestState>) -> GraphHandle<EngineTestState> {
    graph_handle_on(Arc::new(ram_store()), graph)
}

/// A runtime on this store, with one graph called `g`.
pub(crate) fn graph_handle_on(
    store: Arc<dyn Store>,
    graph: &Graph<EngineTestState>,
) -> GraphHandle<EngineTestState> {
    Runtime::new(store).register_graph("g", graph).expect("registered")
}

/// Runs on thread `t` and tells how it ended: the words said, the questions asked, or the error.
pub(crate) async fn run_to_text(bot: &GraphHandle<EngineTestState>, input: EngineTestStateUpdate) -> String {
    match bot.start(&local_thread("t"), input).await {
        Ok(run) => wait_for_outcome_text(bot, &run).await,
        Err(error) => format!("refused: {error}"),
    }
}

/// How a run rests, as a line.
pub(crate) async fn wait_for_outcome_text(bot: &GraphHandle<EngineTestState>, run: &RunHandle) -> String {
    outcome_text(bot.wait_for_outcome(run).await)
}

/// An outcome as a line.
pub(crate) fn outcome_text(outcome: Result<Outcome<EngineTestState>, EngineError>) -> String {
    match outcome {
        Ok(Outcome::Finished(state)) => state.said_text(),
        Ok(Outcome::Paused(asks)) => {
            let asks: Vec<String> =
                asks.iter().map(|ask| format!("{} asks {}", ask.id, ask.question)).collect();
            asks.join("; ")
        }
        Err(EngineError::Run(RunError::Failed(failure))) => format!("{}: {}", failure.code, failure.message),
        Err(error) => error.to_string(),
    }
}

/// Runs a graph on a new store; gives how it ended and its trace.
pub(crate) async fn run_with_trace(graph: &Graph<EngineTestState>) -> (String, String) {
    let bot = graph_handle(graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    let end = wait_for_outcome_text(&bot, &run).await;
    (end, run_trace(bot.runtime(), &run.key()).await)
}

/// The log of a run, as text: one word for each entry, steps with their nodes.
pub(crate) async fn run_trace(runtime: &Runtime, run: &RunKey) -> String {
    let row = runtime.run_row(run).await.expect("the run");
    let entries = runtime.entries(&row.thread, 0, 10_000).await.expect("entries");
    for (entry, seq) in entries.iter().zip(1..) {
        assert_eq!(entry.seq, seq, "the log has a gap");
    }
    let own = entries.iter().filter(|entry| entry.run == Some(run.run));
    own.map(entry_text).collect::<Vec<_>>().join(" | ")
}

/// One entry as text.
pub(crate) fn entry_text(entry: &ThreadEntry) -> String {
    match &entry.body {
        EntryBody::Started { .. } => "started".into(),
        EntryBody::Step(step) | EntryBody::InnerStep(step) => {
            let tasks: Vec<String> = step.tasks.iter().map(task_text).collect();
            match &step.path {
                None => tasks.join("+"),
                Some(path) => format!("{path}/{}", tasks.join("+")),
            }
        }
        EntryBody::Paused { questions, .. } => {
            let nodes: Vec<&str> = questions.iter().map(|question| question.node.as_str()).collect();
            format!("paused by {}", nodes.join("+"))
        }
        EntryBody::Resumed { .. } => "resumed".into(),
        EntryBody::Restarted { .. } => "restarted".into(),
        EntryBody::Finished => "finished".into(),
        EntryBody::Failed { failure, .. } => format!("failed {}", failure.code),
        EntryBody::Cancelled { .. } => "cancelled".into(),
        EntryBody::Edited(_) => "edited".into(),
    }
}

fn task_text(done: &TaskResult) -> String {
    let cached = if done.cached { "~" } else { "" };
    match done.attempts {
        1 => format!("{}{cached}", done.node),
        n => format!("{}×{n}{cached}", done.node),
    }
}

/// What happens to one call of a [`GatedStore`].
pub(crate) enum StoreCallDecision {
    /// It is made.
    Pass,
    /// It is refused and changes nothing.
    Refuse(StoreError),
    /// It is made, and the answer is lost.
    LoseAnswer,
    /// It is made, and the answer comes so much later.
    DelayAnswer(Duration),
    /// The caller is gone before it is made.
    HangBefore,
    /// The caller is gone after it was made.
    #[allow(dead_code, reason = "the simulator of crates/torture, which includes this file, uses it")]
    HangAfter,
}

/// Decides about every call, by its name.
#[async_trait]
pub(crate) trait StoreCallGate: Send + Sync + 'static {
    async fn decide(&self, call: &'static str) -> StoreCallDecision;

    /// Hears of every commit that was made.
    fn on_commit(&self, _commit: &Commit) {}
}

/// A store in memory behind a gate.
#[derive(Clone)]
pub(crate) struct GatedStore {
    pub inner: RamStore,
    pub gate: Arc<dyn StoreCallGate>,
}

impl GatedStore {
    async fn gated_commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let made = async {
            let committed = self.inner.commit(fence, commit.clone()).await?;
            self.gate.on_commit(&commit);
            Ok(committed)
        };
        self.gated_call("commit", made).await
    }

    async fn gated_call<T>(
        &self,
        call: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.gate.decide(call).await {
            StoreCallDecision::Pass => made.await,
            StoreCallDecision::Refuse(error) => Err(error),
            StoreCallDecision::LoseAnswer => {
                made.await?;
                Err(StoreError::Unknown("the answer was lost".into()))
            }
            StoreCallDecision::DelayAnswer(wait) => {
                let answer = made.await;
                tokio::time::sleep(wait).await;
                answer
            }
            StoreCallDecision::HangBefore => std::future::pending().await,
            StoreCallDecision::HangAfter => {
                drop(made.await);
                std::future::pending().await
            }
        }
    }
}

doran_engine::delegated_store!(GatedStore, call: gated_call, commit: gated_commit, exclusive: false);

/// The database answers everything but renewals.
pub(crate) struct NoRenewalGate;

#[async_trait]
impl StoreCallGate for NoRenewalGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        match call {
            "renew" => StoreCallDecision::Refuse(StoreError::Unavailable("away".into())),
            _ => StoreCallDecision::Pass,
        }
    }
}

/// A gate that does something once, at the k-th call of a kind.
pub(crate) struct NthCallGate {
    call: &'static str,
    left: Mutex<u32>,
    verdict: Mutex<Option<StoreCallDecision>>,
}

impl NthCallGate {
    pub(crate) fn new(call: &'static str, nth: u32, verdict: StoreCallDecision) -> Arc<Self> {
        Arc::new(Self { call, left: Mutex::new(nth), verdict: Mutex::new(Some(verdict)) })
    }

    /// Whether the call it waits for was made.
    pub(crate) fn fired(&self) -> bool {
        self.verdict.lock().expect("no panic").is_none()
    }
}

#[async_trait]
impl StoreCallGate for NthCallGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call != self.call {
            return StoreCallDecision::Pass;
        }
        let mut left = self.left.lock().expect("no panic");
        *left = left.saturating_sub(1);
        if *left > 0 {
            return StoreCallDecision::Pass;
        }
        self.verdict.lock().expect("no panic").take().unwrap_or(StoreCallDecision::Pass)
    }
}

/// Counts the calls.
#[derive(Default)]
pub(crate) struct StoreCallCounts(Mutex<std::collections::BTreeMap<&'static str, u32>>);

impl StoreCallCounts {
    /// How often each call was made since the last call of this.
    #[allow(dead_code, reason = "the simulator of crates/torture, which includes this file, does not count")]
    pub(crate) fn take(&self) -> std::collections::BTreeMap<&'static str, u32> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

#[async_trait]
impl StoreCallGate for StoreCallCounts {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        *self.0.lock().expect("no panic").entry(call).or_default() += 1;
        StoreCallDecision::Pass
    }
}

/// A process that is killed: its store stops answering and so does the world it acts on.
///
/// Gives the runtime's graph handle and a switch; after [`KillSwitch`] nothing of it reaches the store any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct KillSwitch(Arc<std::sync::atomic::AtomicBool>);

impl KillSwitch {
    pub(crate) fn kill(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits for ever when the process is dead.
    #[allow(dead_code, reason = "the simulator of crates/torture, which includes this file, uses it")]
    pub(crate) async fn hang_if_killed(&self) {
        if self.is_killed() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl StoreCallGate for KillSwitch {
    async fn decide(&self, _call: &'static str) -> StoreCallDecision {
        if self.is_killed() { StoreCallDecision::HangBefore } else { StoreCallDecision::Pass }
    }
}

/// A runtime with a short lease that can be killed.
pub(crate) fn killable_runtime(
    store: &RamStore,
    worker: &str,
    graph: &Graph<EngineTestState>,
) -> (GraphHandle<EngineTestState>, KillSwitch) {
    let kill_switch = KillSwitch::default();
    let gated = GatedStore { inner: store.clone(), gate: Arc::new(kill_switch.clone()) };
    let runtime = Runtime::with_options(Arc::new(gated), short_lease_options(worker));
    (runtime.register_graph("g", graph).expect("registered"), kill_switch)
}

/// Starts a run, lets a crash happen once `crashed` says so, takes over in a new runtime, and gives that one with the
/// run's handle.
pub(crate) async fn crash_and_take_over(
    store: &RamStore,
    graph: &Graph<EngineTestState>,
    input: EngineTestStateUpdate,
    crashed: impl Fn() -> bool,
) -> (GraphHandle<EngineTestState>, RunHandle) {
    let (first, kill_switch) = killable_runtime(store, "first", graph);
    let key = first.start(&local_thread("t"), input).await.expect("started").key();
    while !crashed() {
        tokio::time::sleep(ms(1)).await;
    }
    kill_switch.kill();
    let (second, _) = killable_runtime(store, "second", graph);
    second.runtime().start_worker().await.expect("works");
    let handle = second.runtime().run_handle(&key).await.expect("the run");
    (second, handle)
}

/// A process that is killed at its k-th commit: from then on it hears nothing from its store.
#[allow(dead_code, reason = "the simulator of crates/torture, which includes this file, does not use it")]
pub(crate) struct KillGate {
    commits_left: Mutex<u32>,
    after_commit: bool,
    dead: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl StoreCallGate for KillGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if self.dead.load(Ordering::SeqCst) {
            return StoreCallDecision::HangBefore;
        }
        if call != "commit" {
            return StoreCallDecision::Pass;
        }
        let mut left = self.commits_left.lock().expect("no panic");
        *left = left.saturating_sub(1);
        if *left > 0 {
            return StoreCallDecision::Pass;
        }
        self.dead.store(true, Ordering::SeqCst);
        if self.after_commit { StoreCallDecision::HangAfter } else { StoreCallDecision::HangBefore }
    }
}

/// Runs the graph once for every commit of a run, with a process that is killed before that commit and one that is killed
/// after it. Another process goes on. Gives how each run ended, without repetitions, and how many were killed. Time must be
/// paused.
#[allow(dead_code, reason = "the simulator of crates/torture, which includes this file, does not use it")]
pub(crate) async fn outcomes_despite_kills(
    make_graph: impl Fn() -> Graph<EngineTestState>,
    options: &doran_engine::StartOptions,
) -> (std::collections::BTreeSet<String>, u32) {
    let (mut outcomes, mut killed) = (std::collections::BTreeSet::new(), 0);
    for commit in 1.. {
        for after_commit in [false, true] {
            let store = ram_store();
            let gate = Arc::new(KillGate {
                commits_left: Mutex::new(commit),
                after_commit,
                dead: std::sync::atomic::AtomicBool::new(false),
            });
            let dying = GatedStore { inner: store.clone(), gate: gate.clone() };
            let graph = make_graph();
            let first = Runtime::with_options(Arc::new(dying), short_lease_options("first"));
            let first = first.register_graph("g", &graph).expect("registered");
            let second = Runtime::with_options(Arc::new(store), short_lease_options("second"));
            let second = second.register_graph("g", &graph).expect("registered");
            second.runtime().start_worker().await.expect("at work");
            // The caller that starts the run may die before it learns that the run was accepted.
            let options = options.clone();
            let starting = tokio::spawn(async move {
                first.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await
            });
            let row = loop {
                let filter = RunFilter::default();
                let runs = second.runtime().list_runs(&TenantId::local(), &filter).await.expect("runs");
                match runs.into_iter().next() {
                    Some(row) => break row,
                    None => tokio::time::sleep(ms(1)).await,
                }
            };
            // A run that sleeps rests without having ended.
            let until = doran_engine::WatchUntil::RunEnded;
            let mut watch = second.runtime().watch(&row.key(), 0, until).await.expect("watch");
            while watch.try_next().await.expect("an event").is_some() {}
            let run = second.runtime().run_handle(&row.key()).await.expect("the run");
            outcomes.insert(wait_for_outcome_text(&second, &run).await);
            if !gate.dead.load(Ordering::SeqCst) {
                return (outcomes, killed);
            }
            starting.abort();
            killed += 1;
        }
    }
    unreachable!("a run has an end")
}
