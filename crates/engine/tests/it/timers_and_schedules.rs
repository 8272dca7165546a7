//! Runs that sleep, and runs that a schedule starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use doran_engine::runtime::{
    MissedTimes, RunAdmission, RunGate, Schedule, ScheduleDefinition, ScheduleTiming,
};
use doran_engine::store::{
    HistoryStore, IfBusy, Millis, RamStore, RunFailure, RunFilter, RunRow, RunStatus, TimerKind, TimerStore,
};
use doran_engine::{
    EngineError, Graph, GraphHandle, QuestionKind, RunHandle, Runtime, RuntimeOptions, StartOptions,
    TenantId, ThreadId,
};
use serde_json::{Map, json};
use tokio::time::timeout;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, StoreCallDecision, StoreCallGate, graph_handle,
    graph_handle_on, local_thread, ms, node_running, node_saying, outcome_text, outcomes_despite_kills,
    ram_store, run_to_text, single_node_graph, update_saying, wait_for_outcome_text,
};

const DAY: Duration = Duration::from_secs(24 * 3600);
const ALMOST: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_secs(20);
const MINUTE: Millis = 60_000;

/// Sleeps twice for this time.
fn sleeping_graph(time: Duration, calls: CallCounter) -> Graph<EngineTestState> {
    let sleeps = node_running(move |_, cx| {
        let calls = calls.clone();
        async move {
            let before =
                cx.effect("before", async { Ok::<_, doran_engine::NodeError>(calls.increment()) }).await?;
            cx.sleep(time).await?;
            cx.sleep(time).await?;
            Ok(update_saying(format!("slept after {}", before.min(1))))
        }
    });
    single_node_graph("sleep", sleeps)
}

/// How the run rests after this time.
async fn outcome_after(bot: &GraphHandle<EngineTestState>, run: &RunHandle, time: Duration) -> String {
    tokio::time::sleep(time).await;
    let run = bot.runtime().run_handle(&run.key()).await.expect("the run");
    wait_for_outcome_text(bot, &run).await
}

#[tokio::test(start_paused = true)]
async fn a_run_sleeps_without_a_task_and_wakes_by_itself() {
    let calls = CallCounter::default();
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &sleeping_graph(DAY, calls.clone()));
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    run.wait().await.expect("asleep");
    assert_eq!(bot.runtime().active_runs(), 0, "a row in the store, and no task");
    let open = bot.runtime().open_questions(&local_thread("t")).await.expect("questions");
    assert_eq!(open[0].1.kind, QuestionKind::Timer);
    assert!(outcome_after(&bot, &run, DAY * 2 - ALMOST).await.starts_with("0.0:sleep#1 asks"));
    assert_eq!(outcome_after(&bot, &run, ALMOST * 2).await, "slept after 1");
    assert_eq!(calls.count(), 1);
    assert!(store.timers(&TenantId::local(), TimerKind::Wake, None, 9).await.expect("timers").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_run_survives_kills_and_sleeps_no_longer_for_them() {
    let started = tokio::time::Instant::now();
    let (outcomes, killed) =
        outcomes_despite_kills(|| sleeping_graph(NAP, CallCounter::default()), &StartOptions::default())
            .await;
    assert!(killed >= 8, "{killed}");
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["slept after 1"]);
    let each = started.elapsed() / (killed + 1);
    assert!(each >= NAP * 2 && each < NAP * 3, "{each:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_a_run_earlier_and_a_time_in_the_past_is_over() {
    let bot = graph_handle(&sleeping_graph(DAY, CallCounter::default()));
    let started = tokio::time::Instant::now();
    assert!(run_to_text(&bot, EngineTestState::update()).await.starts_with("0.0:sleep#0 asks"));
    bot.resume(&local_thread("t"), ()).await.expect("awake");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), ()).await), "slept after 1");
    assert!(started.elapsed() < DAY);

    let past = single_node_graph(
        "sleep",
        node_running(|_, cx| async move {
            cx.sleep_until(UNIX_EPOCH).await?;
            Ok(update_saying("at once"))
        }),
    );
    let bot = graph_handle(&past);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(outcome_after(&bot, &run, ALMOST).await, "at once");
    assert_eq!(past.run(EngineTestState::update()).await.expect("without a store").said, ["at once"]);
}

#[tokio::test(start_paused = true)]
async fn two_tasks_sleep_side_by_side_and_each_keeps_its_time() {
    let sleeper = |name: &'static str, time: Duration| {
        node_running(move |_, cx| async move {
            cx.sleep(time).await?;
            Ok(update_saying(name))
        })
    };
    let graph = Graph::named()
        .node("short", sleeper("short", DAY).end())
        .node("long", sleeper("long", DAY * 3).end())
        .start("short")
        .start("long")
        .build()
        .expect("a sound graph");
    let bot = graph_handle(&graph);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    // The short one wakes on the way, and the long one asks for its time again without getting more.
    assert!(outcome_after(&bot, &run, DAY * 3 - ALMOST).await.starts_with("0.1:sleep#0 asks"));
    assert_eq!(outcome_after(&bot, &run, ALMOST * 2).await, "short long");
}

fn every_minute(zone: &str) -> ScheduleTiming {
    ScheduleTiming::Cron { expression: "* * * * *".into(), time_zone: zone.into() }
}

fn schedule_of(timing: ScheduleTiming) -> ScheduleDefinition {
    ScheduleDefinition {
        timing,
        graph: "g".into(),
        thread: None,
        input: Some(json!({ "said": ["scheduled"] })),
        if_busy: IfBusy::Enqueue,
        missed: MissedTimes::StartAll,
        until: None,
        metadata: Map::new(),
        limits: None,
        context: None,
    }
}

async fn put(bot: &GraphHandle<EngineTestState>, id: &str, definition: &ScheduleDefinition) -> Schedule {
    bot.runtime().put_schedule(&TenantId::local(), id, definition, true).await.expect("put")
}

async fn all_runs(store: &RamStore) -> Vec<RunRow> {
    let filter = RunFilter { limit: usize::MAX, ..RunFilter::default() };
    store.runs(&TenantId::local(), &filter).await.expect("runs")
}

#[tokio::test(start_paused = true)]
async fn a_schedule_starts_runs_until_it_is_removed() {
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &single_node_graph("say", node_saying("ran")));
    bot.runtime().start_worker().await.expect("at work");
    let thread = ThreadId::new("daily").expect("a name");
    let definition = ScheduleDefinition {
        thread: Some(thread.clone()),
        metadata: json!({ "kind": "report" }).as_object().cloned().expect("an object"),
        context: Some(json!({ "by": "clock" })),
        ..schedule_of(every_minute("Asia/Seoul"))
    };
    let made = put(&bot, "minutely", &definition).await;
    assert_eq!(made.next_at.map(|at| at % MINUTE), Some(0), "on the minute");
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    let runs = all_runs(&store).await;
    assert_eq!(runs.len(), 5);
    assert!(runs.iter().all(|run| run.status == RunStatus::Finished && run.thread.thread == thread));
    assert_eq!(
        runs[0].metadata,
        *json!({ "kind": "report", "schedule": "minutely" }).as_object().expect("pairs")
    );
    let state = bot.state(&local_thread("daily")).await.expect("state");
    assert_eq!(state.said.len(), 10);
    let now = bot.runtime().schedule(&TenantId::local(), "minutely").await.expect("read").expect("there");
    let last = now.last.expect("a run");
    assert_eq!((last.run, last.error), (runs[0].run, None));
    assert_eq!(now.next_at, Some(last.at + MINUTE));

    bot.runtime().put_schedule(&TenantId::local(), "minutely", &definition, false).await.expect("disabled");
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(all_runs(&store).await.len(), 5, "a disabled schedule starts nothing");
    let listed = bot.runtime().list_schedules(&TenantId::local(), None, 9).await.expect("list");
    assert_eq!(listed.iter().map(|schedule| schedule.id.as_str()).collect::<Vec<_>>(), ["minutely"]);
    assert!(bot.runtime().delete_schedule(&TenantId::local(), "minutely").await.expect("deleted"));
    assert!(!bot.runtime().delete_schedule(&TenantId::local(), "minutely").await.expect("none"));
}

#[tokio::test(start_paused = true)]
async fn a_time_comes_once_and_a_missed_one_is_made_up_for() {
    let store = ram_store();
    let graph = single_node_graph("say", node_saying("ran"));
    let first = graph_handle_on(Arc::new(store.clone()), &graph);
    put(&first, "once", &schedule_of(ScheduleTiming::After(DAY))).await;
    let one = ScheduleDefinition { missed: MissedTimes::StartOne, ..schedule_of(every_minute("UTC")) };
    put(&first, "one", &one).await;
    // The process ends, and the next one comes two days later.
    first.runtime().shutdown(Duration::ZERO).await;
    drop(first);
    tokio::time::sleep(DAY * 2).await;
    assert!(all_runs(&store).await.is_empty());
    let second = graph_handle_on(Arc::new(store.clone()), &graph);
    second.runtime().start_worker().await.expect("at work");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let by: Vec<String> =
        all_runs(&store).await.iter().map(|run| run.metadata["schedule"].to_string()).collect();
    let count = |name: &str| by.iter().filter(|by| by.contains(name)).count();
    assert_eq!((count("once"), by.len()), (1, count("one\"") + 1));
    assert!((1..=2).contains(&count("one\"")), "{by:?}");
    let gone = second.runtime().schedule(&TenantId::local(), "once").await.expect("read");
    assert_eq!(gone, None, "what comes once is removed");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_makes_no_sense_is_refused() {
    let bot = graph_handle(&single_node_graph("say", node_saying("ran")));
    let refused = async |definition: ScheduleDefinition| {
        let put = bot.runtime().put_schedule(&TenantId::local(), "s", &definition, true).await;
        put.expect_err("refused").to_string()
    };
    let cron = |expression: &str, zone: &str| {
        schedule_of(ScheduleTiming::Cron { expression: expression.into(), time_zone: zone.into() })
    };
    assert!(refused(cron("61 * * * *", "UTC")).await.contains("`61` is not a minute"));
    assert!(refused(cron("* * * * *", "Nowhere")).await.contains("`Nowhere` is not a time zone"));
    let ghost = ScheduleDefinition { graph: "ghost".into(), ..cron("* * * * *", "UTC") };
    assert!(refused(ghost).await.contains("ghost"));
    let wrong = ScheduleDefinition { input: Some(json!({ "n": "many" })), ..cron("* * * * *", "UTC") };
    assert!(refused(wrong).await.contains("does not fit"));
}

/// Lets runs begin, or none.
#[derive(Debug)]
struct OpenGate(bool);

#[async_trait]
impl RunGate for OpenGate {
    async fn admit(&self, _runtime: &Runtime, _tenant: &TenantId) -> Result<RunAdmission, EngineError> {
        let refused = || RunFailure { code: "closed".into(), message: "not today".into() };
        Ok(if self.0 { RunAdmission::Admitted { cost_left: None } } else { RunAdmission::Refused(refused()) })
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_decides_about_runs_of_schedules_too() {
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &single_node_graph("say", node_saying("ran")));
    bot.runtime().start_worker().await.expect("at work");
    bot.runtime().set_run_gate(Arc::new(OpenGate(false)));
    put(&bot, "s", &schedule_of(every_minute("UTC"))).await;
    tokio::time::sleep(Duration::from_secs(3 * 60)).await;
    assert!(all_runs(&store).await.is_empty());
    let skipped = bot.runtime().schedule(&TenantId::local(), "s").await.expect("read").expect("there");
    let last = skipped.last.expect("a time");
    assert!(last.error.is_some_and(|why| why.contains("not today")));
    assert_eq!(skipped.next_at, Some(last.at + MINUTE), "the next time is another matter");
    bot.runtime().set_run_gate(Arc::new(OpenGate(true)));
    tokio::time::sleep(Duration::from_secs(2 * 60)).await;
    let runs = all_runs(&store).await;
    assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [RunStatus::Finished; 2]);
}

/// A process that is killed at some call of its store, before or after that is made.
struct DoomedProcess {
    calls_left: Mutex<u32>,
    dies_after: bool,
    dead: AtomicBool,
}

#[async_trait]
impl StoreCallGate for DoomedProcess {
    async fn decide(&self, _call: &'static str) -> StoreCallDecision {
        if self.dead.load(Ordering::SeqCst) {
            return StoreCallDecision::HangBefore;
        }
        let mut left = self.calls_left.lock().expect("no panic");
        *left = left.saturating_sub(1);
        if *left > 0 {
            return StoreCallDecision::Pass;
        }
        self.dead.store(true, Ordering::SeqCst);
        if self.dies_after { StoreCallDecision::HangAfter } else { StoreCallDecision::HangBefore }
    }
}

const SCHEDULES: usize = 10;
const OCCURRENCES: Millis = 1000;
const PROCESSES: usize = 3;

#[tokio::test(start_paused = true)]
async fn ten_thousand_firings_across_kills_lose_none_and_double_none() {
    let store = ram_store();
    let graph = single_node_graph("say", node_saying("ran"));
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next_random = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut start_process = |number: usize| {
        let gate = Arc::new(DoomedProcess {
            calls_left: Mutex::new(u32::try_from(200 + next_random(3000)).expect("small")),
            dies_after: next_random(2) == 0,
            dead: AtomicBool::new(false),
        });
        let options = RuntimeOptions {
            worker: Some(format!("process {number}")),
            lease: Duration::from_secs(45),
            scan: Duration::from_secs(15),
            ..RuntimeOptions::default()
        };
        let runtime =
            Runtime::with_options(Arc::new(GatedStore { inner: store.clone(), gate: gate.clone() }), options);
        let bot = runtime.register_graph("g", &graph).expect("registered");
        let worker = runtime.clone();
        tokio::spawn(async move { drop(worker.start_worker().await) });
        (gate, bot)
    };
    let maker = graph_handle_on(Arc::new(store.clone()), &graph);
    let begun = store.store_time().await.expect("time");
    let until = begun + OCCURRENCES * MINUTE;
    for number in 0..SCHEDULES {
        let zone = ["Asia/Seoul", "UTC", "Europe/Berlin"][number % 3];
        let definition = ScheduleDefinition { until: Some(until), ..schedule_of(every_minute(zone)) };
        put(&maker, &format!("s{number}"), &definition).await;
    }
    maker.runtime().shutdown(Duration::ZERO).await;
    drop(maker);

    let mut processes: Vec<_> = (0..PROCESSES).map(&mut start_process).collect();
    let mut kills = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(20)).await;
        for process in &mut processes {
            if process.0.dead.load(Ordering::SeqCst) {
                kills += 1;
                let dead = std::mem::replace(process, start_process(PROCESSES + kills));
                // What is left of it ends, and its last call to the store is not made.
                let end = async move { timeout(ms(1), dead.1.runtime().shutdown(Duration::ZERO)).await };
                tokio::spawn(end);
            }
        }
        let now = store.store_time().await.expect("time");
        if now < until + MINUTE {
            continue;
        }
        let waits = store.due_timers(1).await.expect("due").len();
        let open = all_runs(&store).await.iter().filter(|run| !run.status.is_end()).count();
        if waits == 0 && open == 0 {
            break;
        }
        assert!(now < until + 60 * MINUTE, "{waits} timers and {open} runs are left");
    }
    assert!(kills > 20, "{kills}");
    let mut times: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let runs = all_runs(&store).await;
    for run in &runs {
        assert_eq!(run.status, RunStatus::Finished);
        let at = run.run.as_uuid().get_timestamp().expect("a time").to_unix();
        let schedule = run.metadata["schedule"].as_str().expect("a schedule").to_owned();
        assert!(
            times.entry(schedule).or_default().insert(at.0 * 1000 + u64::from(at.1) / 1_000_000),
            "twice"
        );
        let loaded = store.thread(&run.thread).await.expect("a thread");
        assert!(loaded.active.is_none());
    }
    assert_eq!(runs.len(), SCHEDULES * usize::try_from(OCCURRENCES).expect("few"), "after {kills} kills");
    assert_eq!(times.len(), SCHEDULES);
    for times in times.values() {
        let steps: BTreeSet<u64> =
            times.iter().zip(times.iter().skip(1)).map(|(one, next)| next - one).collect();
        assert_eq!(steps, BTreeSet::from([60_000]), "every minute, none left out");
    }
    let threads: BTreeSet<String> = runs.iter().map(|run| run.thread.thread.to_string()).collect();
    assert_eq!(threads.len(), runs.len());
    // What the nodes did is there once.
    let reader = graph_handle_on(Arc::new(store.clone()), &graph);
    for run in runs.iter().step_by(97) {
        let said = reader.state(&run.thread).await.expect("state").said_text();
        assert_eq!(said, "scheduled ran");
    }
    tokio::time::sleep(ms(1)).await;
}
