//! Calls of a node to the outside world: made once, recorded, and replayed after a crash.

use std::future::Future;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{Cx, hex_string, serialize_result, storable_object};
use crate::error::{NodeError, NodeErrorKind};
use crate::failpoint;
use crate::log;
use crate::question::QuestionKind;
use crate::store::{Record, RecordStage};
use crate::stored_json;
use crate::task_path::CallKey;
/// What must be written before a call is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordsBefore {
    /// The records of earlier calls, so that a crash repeats this call alone.
    Calls,
    /// Every record. The call is known to the world by its key, so a repeated one must see what the first one saw.
    All,
}

/// When the record of a call is written.
pub(super) enum RecordTiming {
    /// Before the node goes on.
    Immediately,
    /// With the step, when nothing else happens before it.
    WithStep,
}

/// A call that is being made.
pub(super) struct CallInFlight(Cx);

impl CallInFlight {
    /// Whether its task makes no other.
    fn is_only_call(&self) -> bool {
        self.0.scratch().calls_in_flight == 1
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.0.scratch().calls_in_flight -= 1;
    }
}

/// A call that must not be repeated has no known outcome; a person reported what happened.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnknownEffectAnswer {
    #[serde(default)]
    retry: bool,
    /// What the call gave, which may well be `null`.
    #[serde(default, deserialize_with = "deserialize_present")]
    result: Option<Value>,
}

fn deserialize_present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Cx {
    /// Makes a call that only reads, or may be repeated freely, and records its result. After a crash the recorded
    /// result is used and `call` is not made again.
    pub fn effect<T, E, F>(
        &self,
        name: &str,
        call: F,
    ) -> impl Future<Output = Result<T, NodeError>> + use<T, E, F>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        let key = self.next_call_key(name);
        self.clone().make_recorded_call(key, RecordsBefore::Calls, RecordTiming::Immediately, move |_| call)
    }

    /// As [`Cx::effect`], for the last call of a node that only computes afterwards: the record goes out with the step
    /// and costs no write of its own. Should the node make another call, fail or ask somebody, the record goes out
    /// first. A crash between this call and the end of the node repeats the call.
    pub fn closing_effect<T, E, F>(
        &self,
        name: &str,
        call: F,
    ) -> impl Future<Output = Result<T, NodeError>> + use<T, E, F>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        let key = self.next_call_key(name);
        self.clone().make_recorded_call(key, RecordsBefore::Calls, RecordTiming::WithStep, move |_| call)
    }

    /// As [`Cx::effect`], for a call to something that knows requests by a key: every attempt, also one after a
    /// crash, gets the same key.
    pub fn idempotent_effect<T, E, F>(
        &self,
        name: &str,
        call: impl FnOnce(String) -> F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        let key = self.next_call_key(name);
        self.clone().make_recorded_call(key, RecordsBefore::All, RecordTiming::Immediately, call)
    }

    /// Makes a call that may be made again, or gives what was recorded of it.
    pub(super) async fn make_recorded_call<T, E, F>(
        self,
        key: CallKey,
        before: RecordsBefore,
        when: RecordTiming,
        call: impl FnOnce(String) -> F,
    ) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        if let Some(known) = self.replay_result(&key)? {
            return Ok(known);
        }
        let under_way = self.begin_call(before).await?;
        let begun = self.record(&key, RecordStage::Begun, Vec::new());
        self.0.run.remember_calls(std::slice::from_ref(&begun));
        let value = call(self.idempotency_key(&key)).await.map_err(|error| {
            self.0.run.forget_call(&begun);
            error.into()
        })?;
        let body = serialize_result(&value)?;
        match when {
            // Another call may go on for long, and this one is not to be made again then.
            RecordTiming::WithStep if under_way.is_only_call() => self.buffer_call_record(key, body),
            _ => self.write_record(&key, RecordStage::Done, body).await?,
        }
        Ok(value)
    }

    /// Makes a call that must never happen twice. That it is about to be made is on disk before it is made; when a
    /// crash, a timeout or an error leaves open whether it happened, the run pauses and asks
    /// ([`QuestionKind::EffectUnknown`]) instead of repeating it. Only [`NodeError::not_done`] says that it did not happen:
    /// the node then fails with it, and a later try may make the call.
    ///
    /// A person may have to say what the call gave, so let `T` be something a person can write. An answer that is not
    /// a `T` is asked for once more, with the reason.
    pub fn effect_at_most_once<T, E, F>(
        &self,
        name: &str,
        call: impl FnOnce(String) -> F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        self.effect_at_most_once_with_details(name, Map::new(), call)
    }

    /// [`Cx::effect_at_most_once`], with what a person has to know to say whether it happened: these fields stand in the question,
    /// beside `call` and `key`.
    pub fn effect_at_most_once_with_details<T, E, F>(
        &self,
        name: &str,
        about: Map<String, Value>,
        call: impl FnOnce(String) -> F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        let (cx, mut key) = (self.clone(), self.next_call_key(name));
        async move {
            let about = storable_object("the question about the call", about)?;
            loop {
                if let Some(known) = cx.replay_result(&key)? {
                    return Ok(known);
                }
                if !cx.has_record(&key) || failpoint::mutant("repeat_at_most_once_effect") {
                    break;
                }
                if cx.was_not_done(&key) {
                    key.repeats += 1;
                    continue;
                }
                match cx.unknown_effect_answer(&key) {
                    Some(UnknownEffectAnswer { result: Some(result), .. }) => {
                        // What is recorded stays, so it is looked at before.
                        if let Err(error) = serde_json::from_value::<T>(result.clone()) {
                            return Err(cx.ask_unknown_effect_outcome(&key, about, Some(&error)));
                        }
                        cx.write_record(&key, RecordStage::Done, log::to_json_bytes(&result)).await?;
                    }
                    Some(UnknownEffectAnswer { retry: true, .. }) => key.repeats += 1,
                    _ => return Err(cx.ask_unknown_effect_outcome(&key, about, None)),
                }
            }
            failpoint::hit("effect.before_intent");
            cx.write_record(&key, RecordStage::Begun, Vec::new()).await?;
            failpoint::hit("effect.after_intent");
            let under_way = cx.begin_call(RecordsBefore::All).await?;
            cx.ensure_run_held().await?;
            let outcome = call(cx.idempotency_key(&key)).await.map_err(Into::into);
            drop(under_way);
            failpoint::hit("effect.after_call");
            match outcome {
                Ok(value) => {
                    failpoint::hit("effect.before_result");
                    cx.write_record(&key, RecordStage::Done, serialize_result(&value)?).await?;
                    Ok(value)
                }
                Err(error) => match error.kind {
                    NodeErrorKind::NotDone => {
                        cx.write_record(&key, RecordStage::Failed, log::to_json_bytes(&error.to_string()))
                            .await?;
                        Err(error)
                    }
                    NodeErrorKind::Permanent | NodeErrorKind::Transient => {
                        Err(cx.ask_unknown_effect_outcome(&key, about, None))
                    }
                    NodeErrorKind::Paused
                    | NodeErrorKind::Cancelled
                    | NodeErrorKind::Limit
                    | NodeErrorKind::Store => Err(error),
                },
            }
        }
    }

    pub(super) fn has_record(&self, key: &CallKey) -> bool {
        self.scratch().recorded.contains_key(key)
    }

    pub(super) fn replay_result<T: DeserializeOwned>(&self, key: &CallKey) -> Result<Option<T>, NodeError> {
        match self.scratch().recorded.get(key) {
            Some((RecordStage::Done, body)) => Ok(Some(stored_json::from_slice(body)?)),
            _ => Ok(None),
        }
    }

    pub(super) fn was_not_done(&self, key: &CallKey) -> bool {
        matches!(self.scratch().recorded.get(key), Some((RecordStage::Failed, _)))
    }

    pub(super) fn unknown_effect_answer(&self, key: &CallKey) -> Option<UnknownEffectAnswer> {
        match self.scratch().recorded.get(&key.outcome_question()) {
            Some((RecordStage::Done, body)) => stored_json::from_slice(body).ok(),
            _ => None,
        }
    }

    pub(super) fn ask_unknown_effect_outcome(
        &self,
        key: &CallKey,
        mut question: Map<String, Value>,
        misfit: Option<&serde_json::Error>,
    ) -> NodeError {
        question.insert("call".into(), key.name.as_str().into());
        question.insert("key".into(), self.idempotency_key(key).into());
        let problem = match misfit {
            Some(error) => Some(format!("the result does not fit: {error}")),
            None => self.has_record(&key.outcome_question()).then(|| {
                "answer {\"result\": …} when the call happened, {\"retry\": true} when it did not".to_owned()
            }),
        };
        self.scratch().recorded.remove(&key.outcome_question());
        self.pause_with_question(
            &key.outcome_question(),
            QuestionKind::EffectUnknown,
            Value::Object(question),
            problem,
        )
    }

    pub(super) async fn write_record(
        &self,
        key: &CallKey,
        stage: RecordStage,
        body: Vec<u8>,
    ) -> Result<(), NodeError> {
        let record = self.record(key, stage, body.clone());
        {
            let mut scratch = self.scratch();
            scratch.recorded.insert(key.clone(), (stage, body));
            scratch.last_heartbeat = Some(Instant::now());
        }
        self.0.run.heartbeat_outer_tasks(&self.0.path);
        self.write_with_buffered(Some(record)).await
    }

    /// Writes the buffered records, and this one with them. They stay buffered until they are written, so that a call
    /// side by side does not take them for written, and a node that drops this call does not lose them.
    pub(super) async fn write_with_buffered(&self, record: Option<Record>) -> Result<(), NodeError> {
        let store_error = |error| NodeError::with_kind(NodeErrorKind::Store, error);
        if self.scratch().buffered.is_empty() {
            return self.0.run.write_records(record.into_iter().collect()).await.map_err(store_error);
        }
        let _turn = self.0.flush_lock.lock().await;
        let mut records = self.scratch().buffered.clone();
        let buffered = records.len();
        records.extend(record);
        self.0.run.write_records(records).await.map_err(store_error)?;
        self.scratch().drop_written_records(buffered);
        Ok(())
    }

    /// Keeps the record of a call for the write that ends the node.
    pub(super) fn buffer_call_record(&self, key: CallKey, body: Vec<u8>) {
        let record = self.record(&key, RecordStage::Done, body.clone());
        self.0.run.remember_calls(std::slice::from_ref(&record));
        let mut scratch = self.scratch();
        scratch.recorded.insert(key, (RecordStage::Done, body));
        scratch.last_heartbeat = Some(Instant::now());
        scratch.call_record_buffered = true;
        scratch.buffered.push(record);
        drop(scratch);
        self.0.run.heartbeat_outer_tasks(&self.0.path);
    }

    /// What comes before every call: records that must be written before it. A call that is known to the world by its key
    /// is made when everything the run has written is on disk, so that a power failure cannot change what led to it.
    pub(super) async fn begin_call(&self, before: RecordsBefore) -> Result<CallInFlight, NodeError> {
        let owes = {
            let mut scratch = self.scratch();
            scratch.calls_in_flight += 1;
            scratch.call_record_buffered || before == RecordsBefore::All
        };
        let under_way = CallInFlight(self.clone());
        if owes {
            self.write_with_buffered(None).await?;
        }
        if before == RecordsBefore::All && !failpoint::mutant("call_before_sync") {
            let waited = self.0.run.wait_until_durable().await;
            waited.map_err(|error| NodeError::with_kind(NodeErrorKind::Store, error))?;
        }
        Ok(under_way)
    }

    /// Makes sure that no other worker has the run. This process may have been frozen since it last wrote, and fences
    /// stop writes, not deeds.
    pub(super) async fn ensure_run_held(&self) -> Result<(), NodeError> {
        let Some(journal) = &self.0.run.journal else { return Ok(()) };
        let held = journal.lease.ensure_held(&*journal.store, &journal.fence).await;
        held.map_err(|error| NodeError::with_kind(NodeErrorKind::Store, error))
    }

    /// What the outside knows this call by, in every attempt.
    pub(super) fn idempotency_key(&self, key: &CallKey) -> String {
        hex_string(&self.call_digest(key)[..16])
    }

    pub(super) fn call_digest(&self, key: &CallKey) -> [u8; 32] {
        self.0.run.call_digest(self.0.path.as_str(), key)
    }
}
