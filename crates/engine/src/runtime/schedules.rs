//! Schedules: runs that are started at a time, once or again and again. They are stored, so any process on the store starts
//! them, and each occurrence starts one run, also if a process dies in between.
//!
//! An occurrence is known by the schedule and its time. The id of its run is made of these, so a second start of the same
//! occurrence finds the run that the first one made. Only then is the schedule moved on, which compares the time it had.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::cron::Cron;
use crate::drive::RunLimits;
use crate::error::{EngineError, MisuseError};
use crate::id::{RunId, TenantId, ThreadId, ThreadKey};
use crate::log;
use crate::runtime::{NewRunId, Runtime, StartOptions};
use crate::store::{IfBusy, InputDurability, Millis, NewTimer, StoreError, TimerKind, TimerRow, TimerTime};
use crate::stored_json;

/// The most bytes of a schedule as JSON.
pub const MAX_SCHEDULE_BYTES: usize = 1024 * 1024;

/// When a schedule starts runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleTiming {
    /// Once, in milliseconds since 1970. The schedule is removed afterwards.
    Once(Millis),
    /// So long after it is stored, once.
    After(Duration),
    /// Again and again.
    Cron {
        /// Five fields: minute, hour, day of month, month, day of week.
        expression: String,
        /// The name of a time zone, such as `Asia/Seoul`.
        time_zone: String,
    },
}

/// What becomes of times at which no process was there to start a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedTimes {
    /// The earliest of them is made up for, the others are skipped.
    #[default]
    StartOne,
    /// Each is made up for.
    StartAll,
}

/// What a schedule starts, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleDefinition {
    /// When.
    pub timing: ScheduleTiming,
    /// The graph.
    pub graph: String,
    /// On this thread. Without it each run has a thread of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The input, as an update of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// When the thread has a run already.
    #[serde(default)]
    pub if_busy: IfBusy,
    /// What becomes of times at which no process was there.
    #[serde(default)]
    pub missed: MissedTimes,
    /// No run is started after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// Free pairs, of the schedule and of each of its runs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Limits of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<RunLimits>,
    /// The context of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
}

/// A stored schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// What it is called.
    pub id: String,
    /// What it starts, and when.
    pub definition: ScheduleDefinition,
    /// When it starts the next run; `None` when it is over or disabled.
    pub next_at: Option<Millis>,
    /// The last run it started.
    pub last: Option<ScheduledRun>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last changed, or started a run.
    pub updated_at: Millis,
}

/// What became of one time of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    /// The time.
    pub at: Millis,
    /// The thread of the run.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The stored form of a schedule.
#[derive(Serialize, Deserialize)]
struct StoredSchedule {
    definition: ScheduleDefinition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<ScheduledRun>,
}

impl Runtime {
    /// Makes a schedule, or replaces the one of this id. Disabled, it starts nothing until it is replaced again. The process
    /// that starts its runs is any that works on this store ([`Runtime::start_worker`]).
    pub async fn put_schedule(
        &self,
        tenant: &TenantId,
        id: &str,
        definition: &ScheduleDefinition,
        enabled: bool,
    ) -> Result<Schedule, EngineError> {
        let graph = self.0.find_graph(&definition.graph)?;
        if let Some(input) = &definition.input {
            let bad = |source| MisuseError::BadInput { graph: definition.graph.clone(), source };
            graph.check_update(&to_raw_value(input).map_err(bad)?).map_err(bad)?;
        }
        if let Some(context) = &definition.context {
            super::check_context(context)?;
        }
        crate::store::check_metadata(&definition.metadata)?;
        let now = self.0.store.store_time().await?;
        let next = next_time(definition, now)?;
        let time = if enabled { next } else { TimerTime::Never };
        let body = log::to_json_bytes(&StoredSchedule { definition: definition.clone(), last: None });
        if body.len() > MAX_SCHEDULE_BYTES {
            let message =
                format!("it has {} bytes, and at most {MAX_SCHEDULE_BYTES} are allowed", body.len());
            return Err(MisuseError::BadSchedule(message).into());
        }
        let timer = NewTimer { id: id.to_owned(), kind: TimerKind::Schedule, time, body, replace: true };
        let row = self.0.store.put_timer(tenant, &timer).await?;
        self.0.start_timer_loop();
        self.0.timer_alarm.expect(&row);
        read_schedule(&row)
    }

    /// A schedule.
    pub async fn schedule(&self, tenant: &TenantId, id: &str) -> Result<Option<Schedule>, EngineError> {
        let row = self.0.store.timer(tenant, id).await?;
        row.filter(|row| row.kind == TimerKind::Schedule).as_ref().map(read_schedule).transpose()
    }

    /// Schedules of a tenant in the order of their ids, those after `after`, at most `limit`.
    pub async fn list_schedules(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Schedule>, EngineError> {
        let rows = self.0.store.timers(tenant, TimerKind::Schedule, after, limit).await?;
        rows.iter().map(read_schedule).collect()
    }

    /// Removes a schedule. Runs that it started stay. `false` when there was none.
    pub async fn delete_schedule(&self, tenant: &TenantId, id: &str) -> Result<bool, EngineError> {
        match self.schedule(tenant, id).await? {
            Some(_) => Ok(self.0.store.delete_timer(tenant, id).await?),
            None => Ok(false),
        }
    }

    /// Starts the run of a schedule that is due, and moves the schedule on.
    pub(super) async fn fire_schedule(&self, timer: &TimerRow) -> Result<(), EngineError> {
        let Some(at) = timer.at else { return Ok(()) };
        let StoredSchedule { definition, .. } =
            stored_json::from_slice(&timer.body).map_err(|error| unreadable(timer, &error))?;
        // Another process may know the graph.
        let graph = self.0.find_graph(&definition.graph)?;
        let (run, own_thread) = occurrence_ids(timer, at);
        let thread = definition.thread.clone().unwrap_or(own_thread);
        let started = self.start_occurrence(&graph, &definition, timer, &thread, run).await;
        let error = match started {
            Ok(()) => None,
            Err(error) if is_transient(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(schedule = timer.id, %error, "could not start the run of a schedule");
                Some(error.to_string())
            }
        };
        let now = self.0.store.store_time().await?;
        let from = match definition.missed {
            MissedTimes::StartAll => at,
            MissedTimes::StartOne => at.max(now),
        };
        let next = match &definition.timing {
            ScheduleTiming::Cron { .. } => next_time(&definition, from)?,
            ScheduleTiming::Once(_) | ScheduleTiming::After(_) => TimerTime::Never,
        };
        if matches!(definition.timing, ScheduleTiming::Once(_) | ScheduleTiming::After(_)) && error.is_none()
        {
            self.0.store.delete_timer(&timer.tenant, &timer.id).await?;
            return Ok(());
        }
        let last = Some(ScheduledRun { at, thread, run, error });
        let body = log::to_json_bytes(&StoredSchedule { definition, last });
        self.0.store.move_timer(&timer.tenant, &timer.id, at, next, Some(&body)).await?;
        if let TimerTime::At(next) = next {
            let moved = TimerRow { at: Some(next), updated_at: now, ..timer.clone() };
            self.0.timer_alarm.expect(&moved);
        }
        Ok(())
    }

    async fn start_occurrence(
        &self,
        graph: &Arc<dyn super::AnyGraph>,
        definition: &ScheduleDefinition,
        timer: &TimerRow,
        thread: &ThreadId,
        run: RunId,
    ) -> Result<(), EngineError> {
        let key = ThreadKey { tenant: timer.tenant.clone(), thread: thread.clone() };
        let bad = |source| MisuseError::BadInput { graph: definition.graph.clone(), source };
        let input = definition.input.as_ref().map(to_raw_value).transpose().map_err(bad)?;
        if let Some(input) = &input {
            graph.check_update(input).map_err(bad)?;
        }
        let mut metadata = definition.metadata.clone();
        metadata.insert("schedule".into(), timer.id.clone().into());
        let options = StartOptions {
            if_busy: definition.if_busy,
            metadata,
            limits: definition.limits.clone(),
            context: definition.context.clone(),
            ..StartOptions::default()
        };
        // Another process may start the same run, so this one must not be lost once its work has begun.
        let new = NewRunId { run, durability: InputDurability::Now };
        match self.submit_as(new, &definition.graph, graph, &key, input, options).await {
            Ok(_) => Ok(()),
            // Somebody may have started it before, and died before the schedule was moved on.
            Err(
                refused @ (EngineError::Store(StoreError::Conflict(_))
                | EngineError::Misuse(MisuseError::NotAdmitted(_))),
            ) => match self.0.store.run(&key.run(run)).await {
                Ok(_) => Ok(()),
                Err(StoreError::NotFound { .. }) => Err(refused),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error),
        }
    }
}

/// Whether the same start may succeed a little later, or in another process.
fn is_transient(error: &EngineError) -> bool {
    match error {
        EngineError::Store(error) => matches!(
            error,
            StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Unknown(_) | StoreError::Other(_)
        ),
        EngineError::Stopped(_) | EngineError::Misuse(MisuseError::UnknownGraph(_)) => true,
        EngineError::Misuse(_) | EngineError::Run(_) | EngineError::StateMismatch { .. } => false,
    }
}

/// When a schedule starts a run next, after this time.
fn next_time(definition: &ScheduleDefinition, after: Millis) -> Result<TimerTime, EngineError> {
    let bad = |error: &dyn std::fmt::Display| MisuseError::BadSchedule(error.to_string());
    let next = match &definition.timing {
        ScheduleTiming::Once(at) => TimerTime::At(*at),
        ScheduleTiming::After(wait) => TimerTime::After(*wait),
        ScheduleTiming::Cron { expression, time_zone } => {
            if TimeZone::get(time_zone).is_err() {
                return Err(MisuseError::BadTimeZone(time_zone.clone()).into());
            }
            let cron = Cron::parse(expression, time_zone).map_err(|error| bad(&error))?;
            let after = Timestamp::from_millisecond(after).map_err(|error| bad(&error))?;
            cron.next_after(after).map_or(TimerTime::Never, |next| TimerTime::At(next.as_millisecond()))
        }
    };
    Ok(match (next, definition.until) {
        (TimerTime::At(at), Some(until)) if at > until => TimerTime::Never,
        (next, _) => next,
    })
}

/// The run of an occurrence, and its thread unless the schedule names one: always the same, and nobody else's.
fn occurrence_ids(timer: &TimerRow, at: Millis) -> (RunId, ThreadId) {
    let mut hash = Sha256::new();
    for part in [timer.tenant.as_str(), &timer.id, &timer.created_at.to_string()] {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(at.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let (mut random, mut thread) = ([0; 10], [0; 16]);
    random.copy_from_slice(&digest[..10]);
    thread.copy_from_slice(&digest[16..]);
    // Runs are listed by their ids, which begin with the time.
    let run = uuid::Builder::from_unix_timestamp_millis(u64::try_from(at).unwrap_or_default(), &random);
    let thread = uuid::Builder::from_custom_bytes(thread).into_uuid().to_string();
    let thread = ThreadId::new(&thread).unwrap_or_else(|_| ThreadId::random());
    (RunId::from_uuid(run.into_uuid()), thread)
}

fn read_schedule(row: &TimerRow) -> Result<Schedule, EngineError> {
    let StoredSchedule { definition, last } =
        stored_json::from_slice(&row.body).map_err(|error| unreadable(row, &error))?;
    Ok(Schedule {
        id: row.id.clone(),
        definition,
        next_at: row.at,
        last,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

fn unreadable(row: &TimerRow, error: &serde_json::Error) -> EngineError {
    StoreError::Damaged(format!("schedule `{}`: {error}", row.id)).into()
}
