//! Sleeping: the run pauses, and a timer in the store wakes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Cx;
use crate::error::{NodeError, NodeErrorKind};
use crate::question::QuestionKind;
use crate::runtime::wake_timer;
use crate::store::{Millis, TimerTime};
use crate::task_path::{CallKey, QuestionId, RecordKey};

impl Cx {
    /// Goes on after this time. The run pauses without a task or memory, for days if need be, and survives kills; any
    /// process that works on the store wakes it, about [`RuntimeOptions::scan`](crate::RuntimeOptions::scan) after its
    /// time at the latest. Then the node runs again and this returns. An answer to the question that it sleeps on wakes it earlier.
    pub fn sleep(&self, time: Duration) -> impl Future<Output = Result<(), NodeError>> + use<> {
        self.sleep_on_timer(TimerTime::After(time))
    }

    /// As [`Cx::sleep`], until this time by the store's clock.
    pub fn sleep_until(&self, until: SystemTime) -> impl Future<Output = Result<(), NodeError>> + use<> {
        let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.sleep_on_timer(TimerTime::At(Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)))
    }

    fn sleep_on_timer(&self, time: TimerTime) -> impl Future<Output = Result<(), NodeError>> + use<> {
        let (cx, key) = (self.clone(), self.next_call_key(CallKey::SLEEP));
        async move {
            if cx.replay_result::<Value>(&key)?.is_some() {
                return Ok(());
            }
            let Some(journal) = &cx.0.run.journal else {
                tokio::time::sleep(time_left(time)).await;
                return Ok(());
            };
            let question =
                QuestionId { path: cx.0.path.clone(), key: RecordKey::Call(key.clone()) }.to_string();
            // It stays as it is when the node runs again before its time.
            let timer = wake_timer(&journal.fence.thread, journal.fence.run, &question, time);
            let put = journal.retry(|| journal.store.put_timer(&journal.fence.thread.tenant, &timer)).await;
            let row = put.map_err(|error| NodeError::with_kind(NodeErrorKind::Store, error))?;
            if let Some(alarm) = &cx.0.run.timer_alarm {
                alarm.expect(&row);
            }
            Err(cx.pause_with_question(&key, QuestionKind::Timer, json!({ "until": row.at }), None))
        }
    }
}

/// How long it is until then by the clock of this process.
fn time_left(time: TimerTime) -> Duration {
    match time {
        TimerTime::After(wait) => wait,
        TimerTime::At(at) => {
            let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at).unwrap_or_default());
            at.duration_since(SystemTime::now()).unwrap_or_default()
        }
        TimerTime::Never => Duration::MAX,
    }
}
