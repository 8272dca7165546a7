//! The process that is killed: opens the store, runs the graph, does what the driver says.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::{
    EntryKind, IfBusy, RunFilter, RunIdempotencyKey, RunRow, RunStatus, Store, StoreError,
};
use doran_engine::{
    Acknowledgement, EngineError, EntryBody, Event, GraphHandle, MisuseError, NodeError, Outcome, RunHandle,
    RunId, RunKey, Runtime, RuntimeOptions, StartOptions, TenantId, ThreadEntry, ThreadKey, WatchUntil,
};
use doran_store::{FileStoreMaintenance, OpenedStore};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::torture_graph::{TortureState, build_torture_graph};
use crate::victim_protocol::{
    ExternalCall, FromVictim, ObservedEntry, ObservedOutcome, PlannedAction, ThreadDump, ThreadDumpEntry,
    ThreadDumpRun, ToVictim, VictimRefusal, VictimRequest, VictimStartRequest, fnv1a_hex, links_in_step_body,
};

/// How long a client waits for the rest of its run.
const MAX_CLIENT_WAIT: Duration = Duration::from_millis(50);

/// The orders of a victim.
pub struct VictimOptions {
    pub url: String,
    pub lease: Duration,
    /// End without closing anything when a write failed for good.
    pub abort_on_failure: bool,
}

/// Everything outside the process, as a node sees it: the driver.
#[derive(Clone)]
pub struct DriverConnection(Arc<DriverConnectionInner>);

struct DriverConnectionInner {
    out: Mutex<std::io::Stdout>,
    calls: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    next: AtomicU64,
}

impl DriverConnection {
    fn new() -> Self {
        let (out, next) = (Mutex::new(std::io::stdout()), AtomicU64::new(1));
        Self(Arc::new(DriverConnectionInner { out, calls: Mutex::default(), next }))
    }

    /// Makes a call and waits for its answer.
    pub async fn call(&self, mut external_call: ExternalCall) -> Result<String, NodeError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (tell, reply) = oneshot::channel();
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(id, tell);
        external_call.call = Some(id);
        self.send_line(&FromVictim::Call(external_call));
        reply.await?;
        Ok("done".to_owned())
    }

    /// Tells the driver something. When this returns, killing the process cannot take it back.
    pub fn report_call(&self, external_call: ExternalCall) {
        self.send_line(&FromVictim::Call(external_call));
    }

    fn complete_call(&self, id: u64) {
        let call = self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        // A call whose node was dropped meanwhile has nobody to tell.
        call.map(|call| call.send(()).ok());
    }

    fn send_line(&self, line: &FromVictim) {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        let mut out = self.0.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            // Without a driver there is nothing to do.
            std::process::exit(3);
        }
    }
}

/// Runs the victim until it gets the order to leave, is killed, or fails.
pub fn victim_main(orders: &VictimOptions) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("victim: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run_victim(orders));
    runtime.shutdown_timeout(Duration::from_secs(2));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("victim: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The store and the graph of a victim.
pub struct VictimSession {
    runtime: Runtime,
    graph_handle: GraphHandle<TortureState>,
    store: Arc<dyn Store>,
    file_maintenance: Option<Arc<dyn FileStoreMaintenance>>,
    world: DriverConnection,
}

async fn run_victim(orders: &VictimOptions) -> Result<(), String> {
    let session = Arc::new(VictimSession::open(orders).await?);
    let (world, runtime) = (session.world.clone(), session.runtime.clone());
    let mut lines = read_driver_lines();
    runtime.start_worker().await.map_err(|error| error_with_sources(&error))?;
    world.send_line(&FromVictim::Ready);
    let mut trouble = runtime.unknown_write_reason();
    loop {
        let why = tokio::select! {
            line = lines.recv() => match line {
                Some(ToVictim::Called { id }) => {
                    world.complete_call(id);
                    continue;
                }
                Some(ToVictim::Do { what: VictimRequest::Leave, .. }) | None => break,
                Some(ToVictim::Do { id, what }) => {
                    let session = session.clone();
                    tokio::spawn(async move {
                        let answer = session.handle_request(what).await.map_err(|error| refusal_from_error(&error));
                        session.world.send_line(&FromVictim::Answer { id, answer });
                    });
                    continue;
                }
            },
            why = wait_for_runtime_trouble(&mut trouble) => why,
            why = wait_for_store_failure(session.file_maintenance.as_ref()) => why,
        };
        // Replies to callers from before the failure have been written by now.
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.send_line(&FromVictim::Trouble { why });
        if orders.abort_on_failure {
            std::process::abort();
        }
        return Ok(());
    }
    runtime.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn wait_for_runtime_trouble(trouble: &mut tokio::sync::watch::Receiver<Option<String>>) -> String {
    match trouble.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or_default(),
        Err(_) => std::future::pending().await,
    }
}

async fn wait_for_store_failure(keeper: Option<&Arc<dyn FileStoreMaintenance>>) -> String {
    match keeper {
        Some(keeper) => keeper.wait_for_fatal_error().await.to_string(),
        None => std::future::pending().await,
    }
}

/// Reads what the driver says in a thread of its own; the end of the input is the end of the channel.
fn read_driver_lines() -> mpsc::UnboundedReceiver<ToVictim> {
    let (send, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(line) => {
                    if send.send(line).is_err() {
                        return;
                    }
                }
                Err(error) => eprintln!("victim: {error}: {line}"),
            }
        }
    });
    lines
}

impl VictimSession {
    /// Opens the store. Without a worker nothing in it moves.
    pub async fn open(orders: &VictimOptions) -> Result<Self, String> {
        let world = DriverConnection::new();
        let OpenedStore { store, file_maintenance, .. } =
            doran_store::open(&orders.url).await.map_err(|error| error_with_sources(&error))?;
        let graph = build_torture_graph(&world).map_err(|error| error.to_string())?;
        let options = RuntimeOptions {
            lease: orders.lease,
            scan: (orders.lease / 5).min(Duration::from_millis(200)),
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::with_options(store.clone(), options);
        let graph_handle = runtime.register_graph("torture", &graph).map_err(|error| error.to_string())?;
        Ok(Self { runtime, graph_handle, store, file_maintenance, world })
    }

    /// A thread with all it holds.
    pub async fn dump_thread_if_there(&self, thread: &str) -> Result<Option<ThreadDump>, EngineError> {
        match self.dump_thread(thread).await {
            Ok(dump) => Ok(Some(dump)),
            Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn handle_request(&self, what: VictimRequest) -> Result<Value, EngineError> {
        match what {
            VictimRequest::Start(start) => self.start(start).await,
            VictimRequest::Answer { run, answers } => {
                let handle = self.runtime.answer(&run_key(&run)?, &answers).await?;
                let id = handle.id().to_string();
                self.report_outcome(handle);
                Ok(json!(id))
            }
            VictimRequest::Cancel { run } => {
                let row = self.runtime.cancel(&run_key(&run)?).await?;
                Ok(json!(status_name(row.status)))
            }
            VictimRequest::Watch { run, after } => self.watch(&run, after).await,
            VictimRequest::Questions { thread } => {
                let questions = self.runtime.open_questions(&ThreadKey::local(&thread)?).await?;
                Ok(json!(questions.iter().map(|(run, ask)| (run.run.to_string(), ask)).collect::<Vec<_>>()))
            }
            VictimRequest::Rest { threads, ms } => {
                self.wait_until_idle(&threads, Duration::from_millis(ms)).await
            }
            VictimRequest::Dump { thread } => Ok(json!(self.dump_thread(&thread).await?)),
            VictimRequest::Delete { thread } => {
                Ok(json!(self.store.delete_thread(&ThreadKey::local(&thread)?).await?))
            }
            VictimRequest::Whole => {
                if let Some(keeper) = &self.file_maintenance {
                    keeper.integrity_check().await?;
                }
                Ok(Value::Null)
            }
            VictimRequest::Leave => Ok(Value::Null),
        }
    }

    async fn start(&self, start: VictimStartRequest) -> Result<Value, EngineError> {
        let thread = ThreadKey::local(&start.thread)?;
        let input = TortureState::update().token(start.token.clone()).plan(start.plan.clone()).place(0);
        let input = if start.load > 0 { input.text("y".repeat(start.load)) } else { input };
        let options = StartOptions {
            if_busy: match start.if_busy {
                0 => IfBusy::Reject,
                1 => IfBusy::Enqueue,
                2 => IfBusy::Interrupt,
                _ => IfBusy::Rollback,
            },
            idempotency: start.key.map(|key| RunIdempotencyKey { key, hash: start.token.clone() }),
            metadata: [("token".to_owned(), json!(start.token))].into_iter().collect(),
            acknowledge: if start.waits { Acknowledgement::Rest } else { Acknowledgement::Input },
            ..StartOptions::default()
        };
        let run = self.graph_handle.start_with(&thread, Some(input), options).await?;
        let id = run.id().to_string();
        if start.waits {
            let resting = self.graph_handle.wait_for_outcome(&run);
            let rested = tokio::time::timeout(MAX_CLIENT_WAIT, resting).await;
            // A client that waited for long enough is told of a run that goes on, and so is one whose run did not end well.
            run.wait_until_accepted().await?;
            if let Ok(Ok(outcome)) = rested {
                self.world.send_line(&FromVictim::Rested(observed_outcome(&run, &outcome)));
            }
            return Ok(json!(id));
        }
        // A run that waits for its turn is polled for, so not all of them are waited for.
        let asks = |action: &PlannedAction| matches!(action, PlannedAction::Ask | PlannedAction::FanAsk);
        if start.if_busy == 0 || start.plan.iter().any(asks) {
            self.report_outcome(run);
        }
        Ok(json!(id))
    }

    /// Waits for a run, as somebody who started it does, and reports the outcome to the driver.
    fn report_outcome(&self, run: RunHandle) {
        let (graph_handle, world) = (self.graph_handle.clone(), self.world.clone());
        tokio::spawn(async move {
            if let Ok(outcome) = graph_handle.wait_for_outcome(&run).await {
                world.send_line(&FromVictim::Rested(observed_outcome(&run, &outcome)));
            }
        });
    }

    async fn watch(&self, run: &str, after: u64) -> Result<Value, EngineError> {
        static WATCHES: AtomicU64 = AtomicU64::new(1);
        let id = WATCHES.fetch_add(1, Ordering::Relaxed);
        let mut watch = self.runtime.watch(&run_key(run)?, after, WatchUntil::RunEnded).await?;
        while let Some(event) = watch.try_next().await? {
            if let Event::Entry(number, entry) = event {
                let seen = ObservedEntry {
                    watch: id,
                    run: run.to_owned(),
                    number,
                    seq: entry.seq,
                    kind: entry_kind_name(entry.kind()),
                    digest: entry_digest(&entry),
                    links: links_in_step(&entry),
                };
                self.world.send_line(&FromVictim::Seen(seen));
            }
        }
        Ok(Value::Null)
    }

    async fn wait_until_idle(&self, threads: &[String], time_limit: Duration) -> Result<Value, EngineError> {
        let started = Instant::now();
        loop {
            let mut moving = Vec::new();
            for thread in threads {
                moving.extend(self.unsettled_runs(thread).await?);
            }
            if moving.is_empty() || started.elapsed() > time_limit {
                return Ok(json!(moving));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs of a thread that should be moving.
    async fn unsettled_runs(&self, thread: &str) -> Result<Vec<String>, EngineError> {
        let thread = ThreadKey::local(thread)?;
        let runs = match self.all_runs_of_thread(&thread).await {
            Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(Vec::new()),
            runs => runs?,
        };
        let paused = runs.iter().any(|run| run.status == RunStatus::Paused);
        Ok(runs
            .iter()
            .filter(|run| run.status == RunStatus::Running || run.status == RunStatus::Queued && !paused)
            .map(|run| format!("{} {} {}", thread.thread, run.run, status_name(run.status)))
            .collect())
    }

    async fn all_runs_of_thread(&self, thread: &ThreadKey) -> Result<Vec<RunRow>, EngineError> {
        let mut all = Vec::new();
        loop {
            let before = all.last().map(|run: &RunRow| run.run);
            let filter =
                RunFilter { thread: Some(thread.thread.clone()), before, limit: 500, ..RunFilter::default() };
            let page = self.store.runs(&thread.tenant, &filter).await?;
            let few = page.len() < 500;
            all.extend(page);
            if few {
                return Ok(all);
            }
        }
    }

    /// Reads until nothing was written meanwhile.
    async fn dump_thread(&self, thread: &str) -> Result<ThreadDump, EngineError> {
        let thread = ThreadKey::local(thread)?;
        let mut tries = 50;
        loop {
            tries -= 1;
            let before = self.store.thread(&thread).await?;
            let dump = self.dump_thread_once(&thread).await?;
            if tries == 0 || self.store.thread(&thread).await? == before {
                return Ok(dump);
            }
        }
    }

    async fn dump_thread_once(&self, thread: &ThreadKey) -> Result<ThreadDump, EngineError> {
        let row = self.store.thread(thread).await?;
        let mut entries: Vec<ThreadDumpEntry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |entry| entry.seq);
            let page = self.store.entries(thread, after, 500).await?;
            if page.is_empty() {
                break;
            }
            for entry in &page {
                entries.push(ThreadDumpEntry {
                    seq: entry.seq,
                    parent: entry.parent,
                    run: entry.run.map(|run| run.to_string()),
                    kind: entry_kind_name(entry.kind),
                    digest: entry_digest(&ThreadEntry::from_log(entry)?),
                    body: serde_json::from_slice(&entry.body).unwrap_or(Value::Null),
                });
            }
        }
        let runs = self.all_runs_of_thread(thread).await?.into_iter().map(|run| ThreadDumpRun {
            run: run.run.to_string(),
            token: run.metadata.get("token").and_then(Value::as_str).unwrap_or_default().to_owned(),
            status: status_name(run.status).to_owned(),
            cancel_asked: run.cancel_asked,
            first: run.first_seq,
            last: run.last_seq,
            error: run.error.map(|error| format!("{}: {}", error.code, error.message)),
        });
        let view = self.runtime.view("torture", thread, None).await?;
        let questions = self.runtime.open_questions(thread).await?;
        Ok(ThreadDump {
            head: row.head,
            entries,
            runs: runs.collect(),
            state: view.state,
            questions: questions.into_iter().map(|(run, ask)| (run.run.to_string(), json!(ask))).collect(),
        })
    }
}

/// What who waits for a run sees of its rest.
fn observed_outcome(run: &RunHandle, outcome: &Outcome<TortureState>) -> ObservedOutcome {
    let (kind, questions) = match outcome {
        Outcome::Finished(_) => (EntryKind::Finished, Vec::new()),
        Outcome::Paused(asks) => (EntryKind::Paused, asks.iter().map(|ask| ask.id.clone()).collect()),
    };
    let (thread, run) = (run.thread().thread.to_string(), run.id().to_string());
    ObservedOutcome { thread, run, kind: entry_kind_name(kind), questions }
}

fn run_key(run: &str) -> Result<RunKey, EngineError> {
    Ok(RunKey { tenant: TenantId::local(), run: run.parse::<RunId>()? })
}

/// What an entry says, as a watcher and as the log has it. Updates are in it letter by letter.
fn entry_digest(entry: &ThreadEntry) -> String {
    fnv1a_hex([format!("{:?}", entry.body).as_bytes()])
}

/// The links that the nodes of a step made.
fn links_in_step(entry: &ThreadEntry) -> Vec<String> {
    let (EntryBody::Step(step) | EntryBody::InnerStep(step)) = &entry.body else { return Vec::new() };
    let updates = step.tasks.iter().filter_map(|task| serde_json::from_str(task.update.get()).ok());
    links_in_step_body(&json!({
        "tasks": updates.map(|update: Value| json!({ "update": update })).collect::<Vec<_>>(),
    }))
}

fn entry_kind_name(kind: EntryKind) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}

fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "queued",
        RunStatus::Running => "running",
        RunStatus::Paused => "paused",
        RunStatus::Finished => "finished",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}

fn refusal_from_error(error: &EngineError) -> VictimRefusal {
    let code = match error {
        EngineError::Store(error) => match error {
            StoreError::Fenced => "fenced",
            StoreError::Busy { .. } => "busy",
            StoreError::Conflict(_) => "conflict",
            StoreError::KeyReused(_) => "key_reused",
            StoreError::NotFound { .. } => "not_found",
            StoreError::Full(_) => "full",
            StoreError::Unavailable(_) => "unavailable",
            StoreError::Unknown(_) => "unknown",
            StoreError::Newer { .. } => "newer",
            StoreError::Damaged(_) => "damaged",
            StoreError::Rejected(_) => "rejected",
            StoreError::Other(_) => "other",
        },
        EngineError::Stopped(_) => "stopped",
        EngineError::Misuse(
            MisuseError::NoOpenQuestion(_)
            | MisuseError::SeveralOpenQuestions { .. }
            | MisuseError::BadQuestionId(_),
        ) => "conflict",
        _ => "other",
    };
    VictimRefusal { code: code.into(), message: error_with_sources(error) }
}

/// An error and its sources in one line.
fn error_with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
