//! PostgreSQL is restarted again and again under many runs that call a model. A process that holds the result of a call
//! writes it when the database is back: no call is made again, but those that were in flight, or just over, when the server
//! lost its memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use doran_engine::store::{RunStatus, Store};
use doran_engine::{
    Cx, Graph, GraphHandle, NodeError, RunKey, Runtime, RuntimeOptions, Snap, State, ThreadKey, node,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::TortureOptions;
use crate::ledger::Violation;
use crate::postgres_server::{self, TestPostgresServer};
use crate::report::TortureReport;
use crate::seeded_rng::SeededRng;
use crate::victim_process::lock_ignoring_poison;

/// What a server that is stopped hard may forget: the last steps before, and some time on a busy machine.
const FORGOTTEN_TIME: Duration = Duration::from_millis(500);

/// How often the runtime looks whether leases are to be renewed, and how much later than that they are, on a busy machine.
const SCAN: Duration = Duration::from_millis(500);
const RENEWAL_DELAY: Duration = Duration::from_millis(1500);

/// How long what has to happen is waited for.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct RestartedDatabaseState {
    run: usize,
    #[reduce(append)]
    answers: Vec<String>,
}

/// A call of the model that runs ask.
struct ModelCall {
    run: usize,
    nth: usize,
    began: Instant,
    ended: Option<Instant>,
}

/// What is done.
#[derive(Clone, Copy)]
struct RestartPlan {
    seed: u64,
    runs: usize,
    restarts: usize,
    /// How long a claim holds. It is renewed after a third of it and let go after two thirds, so an outage of less than a third
    /// takes no run away.
    lease: Duration,
}

/// A restart of the database.
struct DatabaseRestart {
    is_clean: bool,
    began: Instant,
    took: Duration,
}

impl DatabaseRestart {
    /// Whether no run can have been let go meanwhile.
    fn is_short(&self, lease: Duration) -> bool {
        self.took + RENEWAL_DELAY < lease / 3
    }
}

/// The model, which remembers who called it when.
struct ModelCallRecorder {
    seed: u64,
    calls: Mutex<Vec<ModelCall>>,
    /// How many restarts have begun, and how many are over.
    started: watch::Sender<usize>,
    over: watch::Sender<usize>,
}

impl ModelCallRecorder {
    /// Half of the runs are in their n-th call when the n-th restart begins. The others made it shortly before, and make the
    /// next one when it is over.
    async fn answer(self: Arc<Self>, run: usize, nth: usize) -> Result<String, NodeError> {
        let place = {
            let mut calls = lock_ignoring_poison(&self.calls);
            calls.push(ModelCall { run, nth, began: Instant::now(), ended: None });
            calls.len() - 1
        };
        let mut rng = SeededRng::for_part(self.seed, (run * 1000 + nth) as u64);
        tokio::time::sleep(Duration::from_millis(rng.below(150))).await;
        let (mut count, wanted) = match run % 2 {
            0 => (self.started.subscribe(), nth + 1),
            _ => (self.over.subscribe(), nth),
        };
        // The sender is as old as this model.
        drop(count.wait_for(|count| *count >= wanted).await);
        tokio::time::sleep(Duration::from_millis(rng.below(50))).await;
        lock_ignoring_poison(&self.calls)[place].ended = Some(Instant::now());
        Ok(format!("{run}-{nth}"))
    }

    /// How many runs are in their n-th call.
    fn in_flight(&self, nth: usize) -> usize {
        let calls = lock_ignoring_poison(&self.calls);
        calls.iter().filter(|call| call.nth == nth && call.ended.is_none()).count()
    }
}

/// Runs the torture. `--kills` says how many restarts.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    if options.mutant.is_some() {
        return run_in_child(options);
    }
    let (restarts, runs, lease) = if options.quick { (3, 40, 15) } else { (20, 200, 30) };
    let restarts = options.kills.map_or(restarts, |kills| usize::try_from(kills).unwrap_or(restarts));
    let plan = RestartPlan { seed: options.seed, runs, restarts, lease: Duration::from_secs(lease) };
    let server = match TestPostgresServer::start() {
        Ok(server) => server,
        Err(why) => {
            let why = format!("no PostgreSQL: {why}");
            return Ok(TortureReport::skipped("restarts", options.seed, why));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(restart_under_runs(&server, plan))
}

/// The same in a process of its own, in which a seeded bug can be switched on.
fn run_in_child(options: &TortureOptions) -> Result<TortureReport, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let child = std::process::Command::new(program)
        .args(["restarts", "--quick", "--seed", &options.seed.to_string()])
        .envs(options.mutant_env())
        .output()
        .map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&child.stderr);
    if output.contains("SKIPPED") {
        return Ok(TortureReport::skipped("restarts", options.seed, "no PostgreSQL".into()));
    }
    let mut figures = TortureReport::new("restarts", options.seed);
    if !child.status.success() {
        let first = output.lines().find(|line| line.contains("Doubled")).unwrap_or("it failed");
        figures.record_violation(Violation::Doubled, first.trim());
    }
    Ok(figures)
}

async fn restart_under_runs(server: &TestPostgresServer, plan: RestartPlan) -> Result<TortureReport, String> {
    let RestartPlan { seed, runs, restarts, lease } = plan;
    let started = Instant::now();
    let url = postgres_server::with_schema(&server.socket_url(), &postgres_server::fresh_schema_name());
    let store = doran_store::open(&url).await.map_err(|error| error.to_string())?.store;
    let model = Arc::new(ModelCallRecorder {
        seed,
        calls: Mutex::default(),
        started: watch::Sender::new(0),
        over: watch::Sender::new(0),
    });
    let runtime = Runtime::with_options(
        store.clone(),
        RuntimeOptions { lease, scan: SCAN, ..RuntimeOptions::default() },
    );
    let graph = asking_graph(&model, restarts)?;
    let handle = runtime.register_graph("asking", &graph).map_err(|error| error.to_string())?;
    runtime.start_worker().await.map_err(|error| error.to_string())?;
    let mut keys = Vec::new();
    for run in 0..runs {
        let input = RestartedDatabaseState::update().run(run);
        let started = handle.start(&thread_of(run)?, input).await.map_err(|error| error.to_string())?;
        keys.push(started.key());
    }
    let mut rng = SeededRng::for_part(seed, 77);
    let mut outages = Vec::new();
    for nth in 0..restarts {
        if nth > 0 {
            // Every lease is renewed before the next restart: two in a row would be one long outage.
            tokio::time::sleep(lease / 3 + RENEWAL_DELAY).await;
        }
        // A run whose last steps were forgotten goes on when its lease is over.
        wait_until("a quarter of the runs calls", || model.in_flight(nth) >= runs / 4).await?;
        tokio::time::sleep(Duration::from_millis(rng.below(100))).await;
        // In a short series only the last one is hard: the runs that it takes back wait for the end of their lease.
        let is_clean = if restarts < 4 { nth + 1 < restarts } else { nth % 2 == 0 };
        let began = Instant::now();
        model.started.send_replace(nth + 1);
        tokio::task::block_in_place(|| {
            server.stop(if is_clean { "fast" } else { "immediate" })?;
            std::thread::sleep(Duration::from_millis(300));
            server.start_process()
        })?;
        outages.push(DatabaseRestart { is_clean, began, took: began.elapsed() });
        model.over.send_replace(nth + 1);
    }
    let mut figures = TortureReport::new("restarts", seed);
    wait_for_ends(&*store, &keys, &mut figures).await;
    check_states(&handle, runs, restarts, &mut figures).await?;
    runtime.shutdown(Duration::from_secs(5)).await;
    let repeated = check_calls(&lock_ignoring_poison(&model.calls), &outages, lease, &mut figures);
    let calls = lock_ignoring_poison(&model.calls).len();
    if figures.has_no_violations() && calls != runs * restarts + repeated {
        let text = format!("{calls} calls of {runs} runs with {restarts} each, {repeated} repeated");
        figures.record_violation(Violation::Lost, text);
    }
    for (nth, outage) in outages.iter().enumerate() {
        let calls = lock_ignoring_poison(&model.calls);
        let repeated = repeated_calls(&calls).filter(|call| call.nth == nth).count();
        let kind = if outage.is_clean { "orderly" } else { "hard" };
        let took = outage.took.as_millis();
        figures.add_note(format!(
            "restart {nth}: {kind}, {took} ms; {repeated} calls of that time were made again"
        ));
    }
    let longest = outages.iter().map(|outage| outage.took).max().unwrap_or_default();
    let short = outages.iter().filter(|outage| outage.is_clean && outage.is_short(lease)).count();
    for (name, number) in [
        ("kills", restarts as u64),
        ("runs", runs as u64),
        ("calls", calls as u64),
        ("calls_in_flight_repeated", repeated as u64),
        ("restarts_without_excuse", short as u64),
        ("longest_outage_ms", u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)),
        ("seconds", started.elapsed().as_secs()),
    ] {
        figures.add_number(name, number);
    }
    Ok(figures)
}

fn asking_graph(
    model: &Arc<ModelCallRecorder>,
    calls: usize,
) -> Result<Graph<RestartedDatabaseState>, String> {
    let model = model.clone();
    let ask = move |state: Snap<RestartedDatabaseState>, cx: Cx| {
        let model = model.clone();
        async move {
            let call = model.answer(state.run, state.answers.len());
            let answer = cx.closing_effect("model", call).await?;
            Ok::<_, NodeError>(RestartedDatabaseState::update().answers(vec![answer]))
        }
    };
    let nothing =
        async |_: Snap<RestartedDatabaseState>, _: Cx| Ok::<_, NodeError>(RestartedDatabaseState::update());
    let asks_again = move |state: &RestartedDatabaseState| state.answers.len() < calls;
    let graph =
        Graph::named().node("ask", node(ask).when(asks_again, "ask", "end")).node("end", node(nothing).end());
    graph.start("ask").build().map_err(|error| error.to_string())
}

fn thread_of(run: usize) -> Result<ThreadKey, String> {
    ThreadKey::local(&format!("t{run}")).map_err(|error| error.to_string())
}

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > PATIENCE {
            return Err(format!("{what}: it did not come about"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Waits until every run is over, and tells of those that are not or that failed.
async fn wait_for_ends(store: &dyn Store, keys: &[RunKey], figures: &mut TortureReport) {
    let started = Instant::now();
    for key in keys {
        loop {
            match store.run(key).await {
                Ok(row) if row.status == RunStatus::Finished => break,
                Ok(row) if row.status.is_end() => {
                    figures.record_violation(Violation::Ends, format!("{}: {:?}", row.run, row.error));
                    break;
                }
                waiting if started.elapsed() > PATIENCE => {
                    let status = waiting.map(|row| row.status);
                    figures.record_violation(Violation::Stuck, format!("{}: {status:?}", key.run));
                    break;
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// Every run has every answer once, in order.
async fn check_states(
    handle: &GraphHandle<RestartedDatabaseState>,
    runs: usize,
    calls: usize,
    figures: &mut TortureReport,
) -> Result<(), String> {
    for run in 0..runs {
        let state = handle.state(&thread_of(run)?).await.map_err(|error| error.to_string())?;
        let expected: Vec<String> = (0..calls).map(|nth| format!("{run}-{nth}")).collect();
        if state.answers != expected {
            figures.record_violation(Violation::Torn, format!("run {run} has {:?}", state.answers));
        }
    }
    Ok(())
}

/// Counts the calls that were made again. One is excused by a restart in which the server lost its memory while the call was in
/// flight or just over, or that took so long that runs may have been taken over.
fn check_calls(
    calls: &[ModelCall],
    outages: &[DatabaseRestart],
    lease: Duration,
    figures: &mut TortureReport,
) -> usize {
    let mut repeated = 0;
    for call in repeated_calls(calls) {
        repeated += 1;
        let excused = outages.iter().any(|outage| {
            let may_repeat = !outage.is_clean || !outage.is_short(lease);
            may_repeat
                && call.began <= outage.began + outage.took
                && call.ended.is_none_or(|ended| ended + FORGOTTEN_TIME >= outage.began)
        });
        if !excused {
            let text = format!("call {} of run {} was made again", call.nth, call.run);
            figures.record_violation(Violation::Doubled, text);
        }
    }
    repeated
}

/// The calls that were in vain: all but the last of those for one place of a run.
fn repeated_calls(calls: &[ModelCall]) -> impl Iterator<Item = &ModelCall> {
    let mut by_place: BTreeMap<(usize, usize), Vec<&ModelCall>> = BTreeMap::new();
    for call in calls {
        by_place.entry((call.run, call.nth)).or_default().push(call);
    }
    by_place.into_values().flat_map(|made| {
        let last = made.len() - 1;
        made.into_iter().take(last)
    })
}
