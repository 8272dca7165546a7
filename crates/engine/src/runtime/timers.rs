//! Fires timers: wakes runs that sleep, and starts the runs of schedules. Every process that works on the store looks for
//! timers that are due; one that put a timer itself also looks when its time comes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::EngineError;
use crate::id::{RunId, RunKey, ThreadId, ThreadKey};
use crate::log;
use crate::runtime::{Runtime, RuntimeInner};
use crate::store::{NewTimer, RunStatus, StoreError, TimerKind, TimerRow, TimerTime};
use crate::stored_json;

/// How many timers are read at a time.
const TIMERS_PER_READ: usize = 64;

/// How long a timer waits whose run does not sleep yet.
const NOT_ASLEEP_WAIT: Duration = Duration::from_millis(500);

/// The most times that this process knows timers of.
const MAX_EXPECTED_TIMES: usize = 10_000;

/// How often a process that waits for no timer looks whether its runtime is gone.
const IDLE_WAIT: Duration = Duration::from_secs(60);

/// How often it is reported that the same timer could not be fired.
const REPORT_INTERVAL: Duration = Duration::from_secs(600);

/// When this process looks for timers.
#[derive(Default)]
pub(crate) struct TimerAlarm {
    state: Mutex<AlarmState>,
    changed: Notify,
}

#[derive(Default)]
struct AlarmState {
    started: bool,
    /// It looks again and again, for timers of any process.
    scans: bool,
    /// When timers are due that this process knows of.
    expected: BTreeSet<Instant>,
    /// Timers that could not be fired, and when that was last reported.
    reported: HashMap<String, Instant>,
}

impl AlarmState {
    /// Whether it is time to report that this timer could not be fired.
    fn is_news(&mut self, timer: &str) -> bool {
        let now = Instant::now();
        self.reported.retain(|_, at| now - *at < REPORT_INTERVAL);
        let is_news = !self.reported.contains_key(timer);
        if is_news {
            self.reported.insert(timer.to_owned(), now);
        }
        is_news
    }
}

impl TimerAlarm {
    fn lock(&self) -> MutexGuard<'_, AlarmState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for timers when this one is due.
    pub(crate) fn expect(&self, row: &TimerRow) {
        if let Some(at) = row.at {
            let wait = u64::try_from(at.saturating_sub(row.updated_at)).unwrap_or(0);
            self.ring_in(Duration::from_millis(wait));
        }
    }

    /// Looks for timers after this time.
    fn ring_in(&self, wait: Duration) {
        let Some(due) = Instant::now().checked_add(wait) else { return };
        {
            let mut state = self.lock();
            state.expected.insert(due);
            if state.expected.len() > MAX_EXPECTED_TIMES {
                // Later ones are found by the next scan of any process.
                state.expected.pop_last();
            }
        }
        self.changed.notify_one();
    }
}

/// A run to wake.
#[derive(Serialize, Deserialize)]
struct StoredWake {
    thread: ThreadId,
    run: RunId,
    question: String,
}

/// The timer that wakes a run by answering this question.
pub(crate) fn wake_timer(thread: &ThreadKey, run: RunId, question: &str, time: TimerTime) -> NewTimer {
    let digest = hex::encode(&Sha256::digest(question.as_bytes())[..8]);
    let wake = StoredWake { thread: thread.thread.clone(), run, question: question.to_owned() };
    NewTimer {
        id: format!("wake/{run}/{digest}"),
        kind: TimerKind::Wake,
        time,
        body: log::to_json_bytes(&wake),
        replace: false,
    }
}

impl RuntimeInner {
    /// From now on, looks for timers of any process.
    pub(super) fn scan_for_timers(self: &Arc<Self>) {
        self.timer_alarm.lock().scans = true;
        self.start_timer_loop();
        self.timer_alarm.changed.notify_one();
    }

    /// Starts to look for timers if a run that was driven here has put one.
    pub(super) fn start_expected_timers(self: &Arc<Self>) {
        if !self.timer_alarm.lock().expected.is_empty() {
            self.start_timer_loop();
        }
    }

    /// Starts to look for timers, once.
    pub(super) fn start_timer_loop(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.timer_alarm.lock().started, true) {
            tokio::spawn(fire_timers(Arc::downgrade(self), self.timer_alarm.clone(), self.options.scan));
        }
    }

    /// Fires what is due.
    async fn fire_due_timers(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut fired = HashSet::new();
        loop {
            // Those that could not be fired stay due, and are tried again with the next look.
            let due = self.store.due_timers(fired.len() + TIMERS_PER_READ).await?;
            let fresh: Vec<TimerRow> = due
                .into_iter()
                .filter(|timer| fired.insert((timer.tenant.clone(), timer.id.clone(), timer.at)))
                .collect();
            if fresh.is_empty() || self.stop.is_cancelled() {
                return Ok(());
            }
            let runtime = Runtime(self.clone());
            for timer in fresh {
                let done = match timer.kind {
                    TimerKind::Schedule => runtime.fire_schedule(&timer).await,
                    TimerKind::Wake => runtime.fire_wake(&timer).await,
                };
                if let Err(error) = done {
                    // A timer that stays due is met again with every look, and is reported once in a while.
                    if self.timer_alarm.lock().is_news(&timer.id) {
                        tracing::warn!(timer = timer.id, %error, "could not fire a timer; it is tried again");
                    }
                    self.timer_alarm.ring_in(self.options.scan);
                }
            }
        }
    }
}

impl Runtime {
    /// Wakes a run. The question that it sleeps on is answered once, also if two processes fire the timer.
    async fn fire_wake(&self, timer: &TimerRow) -> Result<(), EngineError> {
        let Some(at) = timer.at else { return Ok(()) };
        let wake: StoredWake = stored_json::from_slice(&timer.body)
            .map_err(|error| StoreError::Damaged(format!("timer `{}`: {error}", timer.id)))?;
        let run = RunKey { tenant: timer.tenant.clone(), run: wake.run };
        let answers = BTreeMap::from([(wake.question.clone(), Value::Null)]);
        let is_over = match self.answer(&run, &answers).await {
            Ok(_) | Err(EngineError::Store(StoreError::NotFound { .. })) => true,
            Err(EngineError::Store(StoreError::Conflict(_))) => self.is_awake(&run, &wake).await?,
            Err(error) => return Err(error),
        };
        if is_over {
            self.0.store.delete_timer(&timer.tenant, &timer.id).await?;
        } else {
            // Its worker has put the timer and not written the pause yet, or the run works on something else meanwhile.
            let later = TimerTime::After(NOT_ASLEEP_WAIT);
            self.0.store.move_timer(&timer.tenant, &timer.id, at, later, None).await?;
            self.0.timer_alarm.ring_in(NOT_ASLEEP_WAIT);
        }
        Ok(())
    }

    /// Whether the run will not come to sleep on this question any more.
    async fn is_awake(&self, run: &RunKey, wake: &StoredWake) -> Result<bool, EngineError> {
        let row = match self.0.store.run(run).await {
            Ok(row) => row,
            Err(StoreError::NotFound { .. }) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        match row.status {
            RunStatus::Queued | RunStatus::Running => Ok(false),
            RunStatus::Paused => {
                let thread = ThreadKey { tenant: run.tenant.clone(), thread: wake.thread.clone() };
                let open = self.open_questions(&thread).await?;
                Ok(!open.iter().any(|(asks, question)| asks == run && question.id == wake.question))
            }
            // A failed run that is tried again puts its timer again.
            RunStatus::Finished | RunStatus::Failed | RunStatus::Cancelled => Ok(true),
        }
    }
}

/// Looks for timers as long as the runtime lives: now and then, and when one is due that this process knows of.
async fn fire_timers(inner: Weak<RuntimeInner>, alarm: Arc<TimerAlarm>, scan: Duration) {
    let mut scanned_at: Option<Instant> = None;
    loop {
        let now = Instant::now();
        let is_due = {
            let mut state = alarm.lock();
            let mut rings = false;
            while state.expected.first().is_some_and(|due| *due <= now) {
                state.expected.pop_first();
                rings = true;
            }
            rings || state.scans && scanned_at.is_none_or(|last| now - last >= scan)
        };
        {
            let Some(inner) = inner.upgrade() else { return };
            if inner.stop.is_cancelled() {
                return;
            }
            if is_due {
                scanned_at = Some(now);
                if let Err(error) = inner.fire_due_timers().await {
                    tracing::warn!(%error, "could not look for timers");
                    alarm.ring_in(scan);
                }
            }
        }
        let wake_at = {
            let state = alarm.lock();
            let scan_at = state.scans.then(|| scanned_at.unwrap_or(now) + scan);
            [state.expected.first().copied(), scan_at].into_iter().flatten().min().unwrap_or(now + IDLE_WAIT)
        };
        // An error says that the time has come.
        drop(timeout_at(wake_at, alarm.changed.notified()).await);
    }
}
