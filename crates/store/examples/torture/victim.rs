//! The process that is killed: opens the store, runs the graph, does what the driver says.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::{Entry, Idempotency, IfBusy, RunFilter, RunRow, Status, Store, StoreError};
use doran_engine::{
    Bot, EngineError, Event, NodeError, RunId, RunKey, Runtime, RuntimeOptions, StartOptions, Tenant,
    ThreadKey, Until,
};
use doran_store::{Keeper, Opened};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::graph::{Tale, torture};
use crate::wire::{
    Deed, Dump, DumpEntry, DumpRun, FromVictim, Refusal, Seen, Start, ToVictim, What, digest, links_in,
};

/// How a victim is told to live.
pub struct Orders {
    pub url: String,
    pub lease: Duration,
    /// End without closing anything when a write failed for good.
    pub hard: bool,
}

/// Everything outside the process, as a node sees it: the driver.
#[derive(Clone)]
pub struct World(Arc<Outside>);

struct Outside {
    out: Mutex<std::io::Stdout>,
    calls: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    next: AtomicU64,
}

impl World {
    fn new() -> Self {
        let (out, next) = (Mutex::new(std::io::stdout()), AtomicU64::new(1));
        Self(Arc::new(Outside { out, calls: Mutex::default(), next }))
    }

    /// Makes a call and waits for its answer.
    pub async fn call(&self, mut deed: Deed) -> Result<String, NodeError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(id, tell);
        deed.call = Some(id);
        self.say(&FromVictim::Deed(deed));
        told.await?;
        Ok("done".to_owned())
    }

    /// Tells the driver something. When this returns, killing the process cannot take it back.
    pub fn note(&self, deed: Deed) {
        self.say(&FromVictim::Deed(deed));
    }

    fn called(&self, id: u64) {
        let call = self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        // A call whose node was dropped meanwhile has nobody to tell.
        call.map(|call| call.send(()).ok());
    }

    fn say(&self, line: &FromVictim) {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        let mut out = self.0.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            // Without a driver there is nothing to do.
            std::process::exit(3);
        }
    }
}

/// Runs the victim until it is told to leave, killed, or in trouble.
pub fn main(orders: &Orders) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("victim: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(live(orders));
    runtime.shutdown_timeout(Duration::from_secs(2));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("victim: {why}");
            ExitCode::FAILURE
        }
    }
}

struct Life {
    runtime: Runtime,
    bot: Bot<Tale>,
    store: Arc<dyn Store>,
    keeper: Option<Arc<dyn Keeper>>,
    world: World,
}

async fn live(orders: &Orders) -> Result<(), String> {
    let world = World::new();
    let Opened { store, keeper } = doran_store::open(&orders.url).await.map_err(|error| told(&error))?;
    let graph = torture(&world).map_err(|error| error.to_string())?;
    let options = RuntimeOptions {
        lease: orders.lease,
        scan: (orders.lease / 5).min(Duration::from_millis(200)),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with(store.clone(), options);
    let bot = runtime.graph("torture", &graph).map_err(|error| error.to_string())?;
    let mut lines = listen();
    runtime.work().await.map_err(|error| told(&error))?;
    world.say(&FromVictim::Ready);
    let life = Arc::new(Life { runtime: runtime.clone(), bot, store, keeper, world: world.clone() });
    let mut trouble = runtime.trouble();
    loop {
        let why = tokio::select! {
            line = lines.recv() => match line {
                Some(ToVictim::Called { id }) => {
                    world.called(id);
                    continue;
                }
                Some(ToVictim::Do { what: What::Leave, .. }) | None => break,
                Some(ToVictim::Do { id, what }) => {
                    let life = life.clone();
                    tokio::spawn(async move {
                        let answer = life.answer(what).await.map_err(|error| refusal(&error));
                        life.world.say(&FromVictim::Answer { id, answer });
                    });
                    continue;
                }
            },
            why = in_trouble(&mut trouble) => why,
            why = failed(life.keeper.as_ref()) => why,
        };
        // What was told to callers before the failure is on its way out by now.
        tokio::time::sleep(Duration::from_millis(20)).await;
        world.say(&FromVictim::Trouble { why });
        if orders.hard {
            std::process::abort();
        }
        return Ok(());
    }
    runtime.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

async fn in_trouble(trouble: &mut tokio::sync::watch::Receiver<Option<String>>) -> String {
    match trouble.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or_default(),
        Err(_) => std::future::pending().await,
    }
}

async fn failed(keeper: Option<&Arc<dyn Keeper>>) -> String {
    match keeper {
        Some(keeper) => keeper.failed().await.to_string(),
        None => std::future::pending().await,
    }
}

/// Reads what the driver says in a thread of its own; the end of the input is the end of the channel.
fn listen() -> mpsc::UnboundedReceiver<ToVictim> {
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

impl Life {
    async fn answer(&self, what: What) -> Result<Value, EngineError> {
        match what {
            What::Start(start) => self.start(start).await,
            What::Answer { run, answers } => {
                let handle = self.runtime.answer(&key(&run)?, &answers).await?;
                Ok(json!(handle.id().to_string()))
            }
            What::Cancel { run } => {
                let row = self.runtime.cancel(&key(&run)?).await?;
                Ok(json!(status(row.status)))
            }
            What::Watch { run, after } => self.watch(&run, after).await,
            What::Questions { thread } => {
                let questions = self.runtime.questions(&ThreadKey::local(&thread)?).await?;
                Ok(json!(questions.iter().map(|(run, ask)| (run.run.to_string(), ask)).collect::<Vec<_>>()))
            }
            What::Rest { threads, ms } => self.rest(&threads, Duration::from_millis(ms)).await,
            What::Dump { thread } => self.dump(&thread).await,
            What::Delete { thread } => {
                Ok(json!(self.store.delete_thread(&ThreadKey::local(&thread)?).await?))
            }
            What::Whole => {
                if let Some(keeper) = &self.keeper {
                    keeper.integrity_check().await?;
                }
                Ok(Value::Null)
            }
            What::Leave => Ok(Value::Null),
        }
    }

    async fn start(&self, start: Start) -> Result<Value, EngineError> {
        let thread = ThreadKey::local(&start.thread)?;
        let input = Tale::update().token(start.token.clone()).plan(start.plan.clone()).place(0);
        let input = if start.load > 0 { input.text("y".repeat(start.load)) } else { input };
        let options = StartOptions {
            if_busy: match start.if_busy {
                0 => IfBusy::Reject,
                1 => IfBusy::Enqueue,
                2 => IfBusy::Interrupt,
                _ => IfBusy::Rollback,
            },
            idempotency: start.key.map(|key| Idempotency { key, hash: start.token.clone() }),
            metadata: [("token".to_owned(), json!(start.token))].into_iter().collect(),
            ..StartOptions::default()
        };
        let run = self.bot.start_with(&thread, Some(input), options).await?;
        Ok(json!(run.id().to_string()))
    }

    async fn watch(&self, run: &str, after: u64) -> Result<Value, EngineError> {
        static WATCHES: AtomicU64 = AtomicU64::new(1);
        let id = WATCHES.fetch_add(1, Ordering::Relaxed);
        let mut watch = self.runtime.watch(&key(run)?, after, Until::End).await?;
        while let Some(event) = watch.next().await? {
            if let Event::Entry(number, entry) = event {
                let seen = Seen {
                    watch: id,
                    run: run.to_owned(),
                    number,
                    seq: entry.seq,
                    kind: kind(&entry),
                    digest: digest([entry.body.as_slice()]),
                    links: serde_json::from_slice(&entry.body)
                        .map(|body| links_in(&body))
                        .unwrap_or_default(),
                };
                self.world.say(&FromVictim::Seen(seen));
            }
        }
        Ok(Value::Null)
    }

    async fn rest(&self, threads: &[String], patience: Duration) -> Result<Value, EngineError> {
        let begun = Instant::now();
        loop {
            let mut moving = Vec::new();
            for thread in threads {
                moving.extend(self.moving(thread).await?);
            }
            if moving.is_empty() || begun.elapsed() > patience {
                return Ok(json!(moving));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs of a thread that should be moving.
    async fn moving(&self, thread: &str) -> Result<Vec<String>, EngineError> {
        let thread = ThreadKey::local(thread)?;
        let runs = match self.runs(&thread).await {
            Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(Vec::new()),
            runs => runs?,
        };
        let paused = runs.iter().any(|run| run.status == Status::Paused);
        Ok(runs
            .iter()
            .filter(|run| run.status == Status::Running || run.status == Status::Queued && !paused)
            .map(|run| format!("{} {} {}", thread.thread, run.run, status(run.status)))
            .collect())
    }

    async fn runs(&self, thread: &ThreadKey) -> Result<Vec<RunRow>, EngineError> {
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
    async fn dump(&self, thread: &str) -> Result<Value, EngineError> {
        let thread = ThreadKey::local(thread)?;
        let mut tries = 50;
        loop {
            tries -= 1;
            let before = self.store.thread(&thread).await?;
            let dump = self.dump_once(&thread).await?;
            if tries == 0 || self.store.thread(&thread).await? == before {
                return Ok(json!(dump));
            }
        }
    }

    async fn dump_once(&self, thread: &ThreadKey) -> Result<Dump, EngineError> {
        let row = self.store.thread(thread).await?;
        let mut entries: Vec<DumpEntry> = Vec::new();
        loop {
            let after = entries.last().map_or(0, |entry| entry.seq);
            let page = self.store.entries(thread, after, 500).await?;
            if page.is_empty() {
                break;
            }
            entries.extend(page.iter().map(|entry| DumpEntry {
                seq: entry.seq,
                parent: entry.parent,
                run: entry.run.map(|run| run.to_string()),
                kind: kind(entry),
                digest: digest([entry.body.as_slice()]),
                body: serde_json::from_slice(&entry.body).unwrap_or(Value::Null),
            }));
        }
        let runs = self.runs(thread).await?.into_iter().map(|run| DumpRun {
            run: run.run.to_string(),
            token: run.metadata.get("token").and_then(Value::as_str).unwrap_or_default().to_owned(),
            status: status(run.status).to_owned(),
            first: run.first_seq,
            last: run.last_seq,
            error: run.error.map(|error| format!("{}: {}", error.code, error.message)),
        });
        let view = self.runtime.view("torture", thread, None).await?;
        let questions = self.runtime.questions(thread).await?;
        Ok(Dump {
            head: row.head,
            entries,
            runs: runs.collect(),
            state: view.state,
            questions: questions.into_iter().map(|(run, ask)| (run.run.to_string(), json!(ask))).collect(),
        })
    }
}

fn key(run: &str) -> Result<RunKey, EngineError> {
    Ok(RunKey { tenant: Tenant::local(), run: run.parse::<RunId>()? })
}

fn kind(entry: &Entry) -> String {
    serde_json::to_value(entry.kind)
        .ok()
        .and_then(|kind| kind.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Queued => "queued",
        Status::Running => "running",
        Status::Paused => "paused",
        Status::Finished => "finished",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

fn refusal(error: &EngineError) -> Refusal {
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
            StoreError::Other(_) => "other",
        },
        EngineError::Stopped(_) => "stopped",
        EngineError::NotPaused(_) => "conflict",
        _ => "other",
    };
    Refusal { code: code.into(), message: told(error) }
}

/// An error and its sources in one line.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
