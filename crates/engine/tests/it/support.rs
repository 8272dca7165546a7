//! What these tests share: a small state, nodes that say a word, a run printed as a trace, and a store whose every
//! call a test may refuse, lose or hold back.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::graph::Open;
use doran_engine::log;
use doran_engine::store::{
    Claim, Claimed, Cleared, Commit, Committed, Entry, EntryKind, Fence, History, Loaded, NewEntry, NewRun,
    NodeCache, RamStore, Renewed, Retention, RunFilter, RunRow, Runs, Seq, Signal, Store, StoreError,
    Submitted, ThreadFilter, ThreadRow, Upkeep,
};
use doran_engine::{
    Bot, Cx, EngineError, Graph, NodeError, Outcome, RunHandle, RunKey, Runtime, RuntimeOptions, Snap, State,
    Tenant, ThreadId, ThreadKey, node,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the graphs of these tests carry.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Notes {
    #[reduce(append)]
    pub said: Vec<String>,
    #[reduce(add)]
    pub sum: u64,
    pub n: u32,
    pub text: String,
}

impl Notes {
    /// What was said, in one line.
    pub(crate) fn line(&self) -> String {
        self.said.join(" ")
    }
}

/// An update that says one word.
pub(crate) fn say(word: impl Into<String>) -> NotesUpdate {
    Notes::update().said(vec![word.into()])
}

/// A node that says one word.
pub(crate) fn says(word: &'static str) -> Open<Notes> {
    does(move |_, _| async move { Ok(say(word)) })
}

/// A node that does what `work` does.
pub(crate) fn does<F>(work: impl Fn(Snap<Notes>, Cx) -> F + Send + Sync + 'static) -> Open<Notes>
where
    F: Future<Output = Result<NotesUpdate, NodeError>> + Send + 'static,
{
    node(work)
}

/// A graph of one node that ends.
pub(crate) fn only(name: &str, node: Open<Notes>) -> Graph<Notes> {
    Graph::named().node(name, node.end()).start(name).build().expect("a sound graph")
}

/// Counts calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<AtomicU32>);

impl Calls {
    /// Counts one more and gives its number, from 1.
    pub(crate) fn hit(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A thread of the local tenant.
pub(crate) fn thread(name: &str) -> ThreadKey {
    ThreadKey::local(name).expect("a name")
}

/// Milliseconds.
pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A store in memory that goes by the clock of tokio, so that paused time moves leases and lifetimes too.
pub(crate) fn ram() -> RamStore {
    let begun = tokio::time::Instant::now();
    RamStore::with_clock(Arc::new(move || {
        1_700_000_000_000 + i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }))
}

/// Options with a short lease, so that another runtime takes over soon.
pub(crate) fn hasty(worker: &str) -> RuntimeOptions {
    RuntimeOptions {
        worker: Some(worker.to_owned()),
        lease: ms(300),
        scan: ms(50),
        ..RuntimeOptions::default()
    }
}

/// A runtime on a new store, with one graph called `g`.
pub(crate) fn bot(graph: &Graph<Notes>) -> Bot<Notes> {
    bot_on(Arc::new(ram()), graph)
}

/// A runtime on this store, with one graph called `g`.
pub(crate) fn bot_on(store: Arc<dyn Store>, graph: &Graph<Notes>) -> Bot<Notes> {
    Runtime::new(store).graph("g", graph).expect("registered")
}

/// Runs on thread `t` and tells how it ended: the words said, the questions asked, or the error.
pub(crate) async fn run(bot: &Bot<Notes>, input: NotesUpdate) -> String {
    match bot.start(&thread("t"), input).await {
        Ok(run) => rest(bot, &run).await,
        Err(error) => format!("refused: {error}"),
    }
}

/// How a run rests, as a line.
pub(crate) async fn rest(bot: &Bot<Notes>, run: &RunHandle) -> String {
    told(bot.outcome(run).await)
}

/// An outcome as a line.
pub(crate) fn told(outcome: Result<Outcome<Notes>, EngineError>) -> String {
    match outcome {
        Ok(Outcome::Finished(state)) => state.line(),
        Ok(Outcome::Paused(asks)) => {
            let asks: Vec<String> =
                asks.iter().map(|ask| format!("{} asks {}", ask.id, ask.question)).collect();
            asks.join("; ")
        }
        Err(EngineError::Failed(failure)) => format!("{}: {}", failure.code, failure.message),
        Err(error) => error.to_string(),
    }
}

/// Runs a graph on a new store; gives how it ended and its trace.
pub(crate) async fn traced(graph: &Graph<Notes>) -> (String, String) {
    let bot = bot(graph);
    let run = bot.start(&thread("t"), Notes::update()).await.expect("started");
    let end = rest(&bot, &run).await;
    (end, trace(bot.runtime(), &run.key()).await)
}

/// The log of a run, as text: one word for each entry, steps with their nodes.
pub(crate) async fn trace(runtime: &Runtime, run: &RunKey) -> String {
    let row = runtime.store().run(run).await.expect("the run");
    let entries = runtime.store().entries(&row.thread, 0, 10_000).await.expect("entries");
    for (entry, seq) in entries.iter().zip(1..) {
        assert_eq!(entry.seq, seq, "the log has a gap");
    }
    let own = entries.iter().filter(|entry| entry.run == Some(run.run));
    own.map(printed).collect::<Vec<_>>().join(" | ")
}

/// One entry as text.
pub(crate) fn printed(entry: &Entry) -> String {
    let body = &entry.body;
    match entry.kind {
        EntryKind::Started => "started".into(),
        EntryKind::Step | EntryKind::Inner => {
            let step: log::Step = serde_json::from_slice(body).expect("a step");
            let tasks: Vec<String> = step.tasks.iter().map(task).collect();
            match step.path.as_str() {
                "" => tasks.join("+"),
                path => format!("{path}/{}", tasks.join("+")),
            }
        }
        EntryKind::Paused => {
            let paused: log::Paused = serde_json::from_slice(body).expect("a pause");
            let nodes: Vec<String> = paused.asks.into_iter().map(|ask| ask.node).collect();
            format!("paused by {}", nodes.join("+"))
        }
        EntryKind::Resumed => "resumed".into(),
        EntryKind::Restarted => "restarted".into(),
        EntryKind::Finished => "finished".into(),
        EntryKind::Failed => {
            let failed: log::Failed = serde_json::from_slice(body).expect("a failure");
            format!("failed {}", failed.failure.code)
        }
        EntryKind::Cancelled => "cancelled".into(),
        EntryKind::Edited => "edited".into(),
    }
}

fn task(done: &log::TaskDone) -> String {
    let cached = if done.cached { "~" } else { "" };
    match done.attempts {
        1 => format!("{}{cached}", done.node),
        n => format!("{}×{n}{cached}", done.node),
    }
}

/// What happens to one call of a [`GatedStore`].
pub(crate) enum Verdict {
    /// It is made.
    Pass,
    /// It is refused and changes nothing.
    Refuse(StoreError),
    /// It is made, and the answer is lost.
    Lose,
    /// It is made, and the answer comes so much later.
    Late(Duration),
    /// The caller is gone before it is made.
    HangBefore,
    /// The caller is gone after it was made.
    HangAfter,
}

/// Decides about every call, by its name.
#[async_trait]
pub(crate) trait Gate: Send + Sync + 'static {
    async fn enter(&self, call: &'static str) -> Verdict;

    /// Hears of every commit that was made.
    fn wrote(&self, _commit: &Commit) {}
}

/// A store in memory behind a gate.
#[derive(Clone)]
pub(crate) struct GatedStore {
    pub inner: RamStore,
    pub gate: Arc<dyn Gate>,
}

impl GatedStore {
    async fn through<T>(
        &self,
        call: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.gate.enter(call).await {
            Verdict::Pass => made.await,
            Verdict::Refuse(error) => Err(error),
            Verdict::Lose => {
                made.await?;
                Err(StoreError::Unknown("the answer was lost".into()))
            }
            Verdict::Late(wait) => {
                let answer = made.await;
                tokio::time::sleep(wait).await;
                answer
            }
            Verdict::HangBefore => std::future::pending().await,
            Verdict::HangAfter => {
                drop(made.await);
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Runs for GatedStore {
    async fn submit(&self, run: NewRun) -> Result<Submitted, StoreError> {
        self.through("submit", self.inner.submit(run)).await
    }

    async fn claim(
        &self,
        claim: &Claim,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        self.through("claim", self.inner.claim(claim, only, limit)).await
    }

    async fn renew(&self, claim: &Claim, fences: &[Fence]) -> Result<Vec<Renewed>, StoreError> {
        self.through("renew", self.inner.renew(claim, fences)).await
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<Committed, StoreError> {
        let made = async {
            let committed = self.inner.commit(fence, commit.clone()).await?;
            self.gate.wrote(&commit);
            Ok(committed)
        };
        self.through("commit", made).await
    }

    async fn signal(&self, run: &RunKey, signal: Signal) -> Result<RunRow, StoreError> {
        self.through("signal", self.inner.signal(run, signal)).await
    }
}

#[async_trait]
impl History for GatedStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<Loaded, StoreError> {
        self.through("load", self.inner.load(thread, at)).await
    }

    async fn entries(&self, thread: &ThreadKey, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.through("entries", self.inner.entries(thread, after, limit)).await
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        self.through("run", self.inner.run(run)).await
    }

    async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.through("runs", self.inner.runs(tenant, filter)).await
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        self.through("thread", self.inner.thread(thread)).await
    }

    async fn threads(&self, tenant: &Tenant, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        self.through("threads", self.inner.threads(tenant, filter)).await
    }
}

#[async_trait]
impl Upkeep for GatedStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        self.through("put_thread", self.inner.put_thread(thread, metadata)).await
    }

    async fn append(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry) -> Result<Seq, StoreError> {
        self.through("append", self.inner.append(thread, expect, entry)).await
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        self.through("copy_thread", self.inner.copy_thread(from, to, stands)).await
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        self.through("delete_thread", self.inner.delete_thread(thread)).await
    }

    async fn gc(&self, retention: &Retention) -> Result<Cleared, StoreError> {
        self.through("gc", self.inner.gc(retention)).await
    }
}

#[async_trait]
impl NodeCache for GatedStore {
    async fn cached(&self, tenant: &Tenant, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.through("cached", self.inner.cached(tenant, key)).await
    }

    async fn keep(
        &self,
        tenant: &Tenant,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        self.through("keep", self.inner.keep(tenant, key, value, lifetime)).await
    }
}

/// A gate that does something once, at the k-th call of a kind.
pub(crate) struct AtCall {
    call: &'static str,
    left: Mutex<u32>,
    verdict: Mutex<Option<Verdict>>,
}

impl AtCall {
    pub(crate) fn new(call: &'static str, nth: u32, verdict: Verdict) -> Arc<Self> {
        Arc::new(Self { call, left: Mutex::new(nth), verdict: Mutex::new(Some(verdict)) })
    }

    /// Whether the call it waits for came.
    pub(crate) fn fired(&self) -> bool {
        self.verdict.lock().expect("no panic").is_none()
    }
}

#[async_trait]
impl Gate for AtCall {
    async fn enter(&self, call: &'static str) -> Verdict {
        if call != self.call {
            return Verdict::Pass;
        }
        let mut left = self.left.lock().expect("no panic");
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Verdict::Pass;
        }
        self.verdict.lock().expect("no panic").take().unwrap_or(Verdict::Pass)
    }
}

/// A process that is killed: its store stops answering and so does the world it acts on.
///
/// Gives the runtime's graph handle and a switch; after [`Life::end`] nothing of it reaches the store any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life(Arc<std::sync::atomic::AtomicBool>);

impl Life {
    pub(crate) fn end(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits for ever when the process is dead.
    pub(crate) async fn pulse(&self) {
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Gate for Life {
    async fn enter(&self, _call: &'static str) -> Verdict {
        if self.is_over() { Verdict::HangBefore } else { Verdict::Pass }
    }
}

/// A runtime with a short lease that can be killed.
pub(crate) fn mortal(store: &RamStore, worker: &str, graph: &Graph<Notes>) -> (Bot<Notes>, Life) {
    let life = Life::default();
    let gated = GatedStore { inner: store.clone(), gate: Arc::new(life.clone()) };
    let runtime = Runtime::with(Arc::new(gated), hasty(worker));
    (runtime.graph("g", graph).expect("registered"), life)
}

/// Starts a run, lets a crash happen once `crashed` says so, takes over in a new runtime, and gives that one with the
/// run's handle.
pub(crate) async fn crash_and_take_over(
    store: &RamStore,
    graph: &Graph<Notes>,
    input: NotesUpdate,
    crashed: impl Fn() -> bool,
) -> (Bot<Notes>, RunHandle) {
    let (first, life) = mortal(store, "first", graph);
    let key = first.start(&thread("t"), input).await.expect("started").key();
    while !crashed() {
        tokio::time::sleep(ms(1)).await;
    }
    life.end();
    let (second, _) = mortal(store, "second", graph);
    second.runtime().work().await.expect("works");
    let handle = second.runtime().run(&key).await.expect("the run");
    (second, handle)
}
