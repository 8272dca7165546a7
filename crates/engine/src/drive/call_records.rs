//! Calls of the step in progress, as the log tells of them when the step is not finished.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::drive::run_context::RunContext;
use crate::store::{Record, RecordStage};
use crate::stored_json;
use crate::task_path::{CallKey, RecordKey};
use crate::unfinished_call::{CallState, UnfinishedCall};

/// Records of calls, by task and key.
pub(super) type CallRecords = BTreeMap<(String, String), (RecordStage, Vec<u8>)>;

impl RunContext {
    pub(super) fn lock_call_records(&self) -> MutexGuard<'_, CallRecords> {
        self.call_records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that are being made, or whose records are written or wait for the next write.
    pub(crate) fn remember_calls(&self, records: &[Record]) {
        self.lock_call_records().extend(call_records(records));
    }

    /// A call that may be made again has failed.
    pub(crate) fn forget_call(&self, record: &Record) {
        self.lock_call_records().remove(&(record.path.clone(), record.key.clone()));
    }

    /// The recorded calls of the step in progress.
    pub(crate) fn unfinished_calls(&self) -> Vec<UnfinishedCall> {
        let calls = self.lock_call_records();
        let unfinished = calls.iter().filter_map(|((path, key), (stage, body))| {
            let Ok(RecordKey::Call(call)) = key.parse() else { return None };
            let state = match stage {
                RecordStage::Open => return None,
                RecordStage::Begun => CallState::Begun,
                RecordStage::Done => CallState::Done,
                RecordStage::Failed => CallState::NotDone,
            };
            let key = hex::encode(&self.call_digest(path, &call)[..16]);
            let result = stored_json::from_slice(body).ok().filter(|_| state == CallState::Done);
            Some(UnfinishedCall { task: path.clone(), name: call.name, key, state, result })
        });
        unfinished.collect()
    }

    /// What random numbers and keys of a call grow from.
    pub(crate) fn call_digest(&self, path: &str, key: &CallKey) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(path.as_bytes());
        hash.update([0]);
        hash.update(key.to_string().as_bytes());
        hash.finalize().into()
    }
}

/// Most bytes of the result of a call that the log keeps of a step that was not finished.
const MAX_CALL_RESULT_BYTES: usize = 4096;

/// The records of calls among these. What a person answered, and the time, are no calls.
pub(super) fn call_records(
    records: &[Record],
) -> impl Iterator<Item = ((String, String), (RecordStage, Vec<u8>))> + use<> {
    let is_call = |record: &&Record| match record.key.parse() {
        Ok(RecordKey::Call(call)) => {
            !call.asks_outcome && call.name != CallKey::ASK && call.name != CallKey::NOW
        }
        _ => false,
    };
    let kept = |record: &Record| {
        let body = if record.body.len() <= MAX_CALL_RESULT_BYTES { record.body.clone() } else { Vec::new() };
        ((record.path.clone(), record.key.clone()), (record.stage, body))
    };
    records.iter().filter(is_call).map(kept).collect::<Vec<_>>().into_iter()
}
