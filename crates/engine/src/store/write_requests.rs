//! What is handed to a store: runs, steps, signals, notes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{EntryKind, Millis, RunRow, RunStatus, RunUsage, Seq, StoreError};
use crate::id::{RunId, ThreadKey};

/// Who works on runs, and for how long a claim holds without renewal.
#[derive(Clone, Debug)]
pub struct WorkerLease {
    /// A name no other process uses.
    pub worker: Arc<str>,
    /// How long the claim holds.
    pub lease: Duration,
    /// The graphs it can drive. [`RunStore::claim`](super::RunStore::claim) passes over runs of others, unless they are
    /// to be cancelled. `None` takes all.
    pub graphs: Option<Arc<[String]>>,
}

impl WorkerLease {
    /// Whether [`RunStore::claim`](super::RunStore::claim) gives this worker a run of `graph`.
    pub fn takes(&self, graph: &str, cancel_asked: bool) -> bool {
        cancel_asked || self.graphs.as_ref().is_none_or(|graphs| graphs.iter().any(|known| known == graph))
    }
}

/// A run as handed in.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The thread it belongs to.
    pub thread: ThreadKey,
    /// Its id.
    pub run: RunId,
    /// Name of the graph that is run.
    pub graph: String,
    /// Fingerprint of that graph.
    pub fingerprint: String,
    /// The first entry of the run; the store gives it its number and parent when the run starts.
    pub first: NewRunEntry,
    /// What to do when the thread has an active run.
    pub if_busy: IfBusy,
    /// Makes the call repeatable: the same key and hash give the same run.
    pub idempotency: Option<RunIdempotencyKey>,
    /// Free text pairs shown in lists.
    pub metadata: Map<String, Value>,
    /// Pairs the thread gets where it has none of that name yet, when the run is accepted. A `null` gives nothing.
    pub thread_metadata: Map<String, Value>,
    /// Options of the run, opaque to the store.
    pub options: Vec<u8>,
    /// Body of the entry that ends a paused run for this one ([`IfBusy::Interrupt`], [`IfBusy::Rollback`]).
    pub stop_body: Vec<u8>,
    /// Start at once on behalf of this worker.
    pub claim: Option<WorkerLease>,
    /// When a run that starts at once is on disk. Any other outcome is on disk when the call returns.
    pub durability: InputDurability,
}

impl NewRun {
    /// The row of the run when it was accepted at `at` and waits.
    pub fn queued_row(&self, at: Millis) -> RunRow {
        RunRow {
            thread: self.thread.clone(),
            run: self.run,
            graph: self.graph.clone(),
            fingerprint: self.fingerprint.clone(),
            status: RunStatus::Queued,
            epoch: 0,
            cancel_asked: false,
            created_at: at,
            started_at: None,
            ended_at: None,
            first_seq: None,
            parent_seq: None,
            last_seq: None,
            steps: 0,
            usage: RunUsage::default(),
            error: None,
            metadata: self.metadata.clone(),
            options: self.options.clone(),
        }
    }

    /// The pairs that its thread is to have.
    pub fn thread_pairs(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.thread_metadata.iter().filter(|(_, value)| !value.is_null())
    }
}

/// When the input of a run that starts at once is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputDurability {
    /// When the call returns.
    #[default]
    Now,
    /// The worker begins at once, and waits for the position of the claim before it says that the run was accepted. A store
    /// for which that wait is a second write makes it one, as with `Now`.
    Awaited,
    /// As soon as something that the run writes later is, and after [`MAX_UNDURABLE_TIME`](super::MAX_UNDURABLE_TIME) at
    /// the latest. Nobody is told of the run before. Its id must be random: if the store loses the run, nobody may start
    /// one of the same id, whose claim would have the same fence.
    Later,
}

/// The entry that begins a run. Its base is its parent when that has a snapshot, else its parent's base.
#[derive(Clone, Debug)]
pub struct NewRunEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Its content.
    pub body: Vec<u8>,
    /// Where it hangs: the newest entry when `None`, else a rewind to this one.
    pub parent: Option<Seq>,
}

/// Names a request, so that sending it twice starts one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdempotencyKey {
    /// Chosen by the client, 1–200 bytes.
    pub key: String,
    /// Hash of the request; another hash under the same key is [`super::StoreError::KeyReused`].
    pub hash: String,
}

/// What a second run on a busy thread does. A thread is busy while it has an active run, or runs that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IfBusy {
    /// Refuses with [`super::StoreError::Busy`], which names the active run or the next one that waits.
    #[default]
    Reject,
    /// Waits in the queue, first in first out.
    Enqueue,
    /// Cancels the active run, keeps what it did, and goes next, before runs that were enqueued and after earlier
    /// ones that interrupt. A paused run ends in the same transaction; a running one is cancelled and this run waits
    /// for it.
    Interrupt,
    /// As `Interrupt`, but starts from where the cancelled run had started: its parent is that run's `parent_seq`,
    /// whatever parent was requested.
    Rollback,
}

/// How [`RunStore::submit`](super::RunStore::submit) ended.
#[derive(Clone, Debug)]
pub enum SubmitOutcome {
    /// The run is this worker's now.
    Started(ClaimedRun),
    /// The run waits. `stop` names an active run that is cancelled for it.
    Queued {
        /// The run that waits.
        run: RunRow,
        /// The run that is cancelled.
        stop: Option<RunId>,
    },
    /// The idempotency key was seen before: this is the run it started.
    Repeated(RunRow),
}

/// A run that this worker may write to.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedRun {
    /// The run, with its epoch.
    pub run: RunRow,
    /// Newest entry of the thread.
    pub head: Seq,
    /// Records of the step in progress.
    pub records: Vec<Record>,
    /// The run that wrote the entry this one starts from, when the store just learned it.
    pub parent_writer: Option<RunId>,
    /// Where the claim is on disk.
    pub position: CommitPosition,
}

impl ClaimedRun {
    /// What writes of this claim carry.
    pub fn fence(&self) -> Fence {
        Fence { thread: self.run.thread.clone(), run: self.run.run, epoch: self.run.epoch }
    }
}

/// Proof of a claim. Checked inside every write. It holds until the run is claimed again, pauses, ends or is
/// deleted; that the lease ran out alone does not end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The thread.
    pub thread: ThreadKey,
    /// The run.
    pub run: RunId,
    /// Rises by one with every claim.
    pub epoch: u64,
}

/// Answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// Still ours.
    Held,
    /// Still ours, and its cancel was requested.
    CancelAsked,
    /// Somebody writes to the run or its thread just now. It was neither prolonged nor lost: ask again.
    Busy,
    /// Claimed by another worker, paused, ended, or deleted.
    Lost,
}

/// What one step changed.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// The newest entry the writer knows of. The entries below are numbered from `head + 1`.
    pub head: Seq,
    /// New entries, in order.
    pub entries: Vec<NewEntry>,
    /// Effect and task records to insert or replace, by `(path, key)`.
    pub records: Vec<Record>,
    /// Drop all records of this run (before `records` are written).
    pub clear_records: bool,
    /// Tokens and money spent since the last commit.
    pub usage: RunUsage,
    /// Steps finished that the row of the run does not count yet. They come with a new status or usage: the log tells
    /// of them in between.
    pub steps: u32,
    /// The run's new status, when it changes.
    pub status: Option<NewStatus>,
    /// With a new status: takes the run of the thread that can be claimed after it, in the same transaction.
    pub claim_next: Option<WorkerLease>,
    /// Whether the writer waits until it is on disk.
    pub durability: Durability,
}

/// When a commit is on disk, so that a power failure cannot take it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the call returns, together with everything committed before it.
    #[default]
    Now,
    /// Soon after the call returned: within [`MAX_UNDURABLE_TIME`](super::MAX_UNDURABLE_TIME), or when somebody waits
    /// for it. A store may also sync at once.
    Later,
}

/// The place of a commit in the order of all commits of a store. It rises from one commit to the next; commits that share a
/// transaction share a position.
///
/// The default stands before every commit, so it is always on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitPosition(pub u64);

impl Commit {
    /// Refuses the commit when it does not follow `newest`, the newest entry of the thread.
    pub fn check_head(&self, newest: Seq) -> Result<(), StoreError> {
        let follows = if self.entries.is_empty() { self.head <= newest } else { self.head == newest };
        if follows {
            return Ok(());
        }
        Err(StoreError::Conflict(format!("the newest entry is {newest}, not {}", self.head)))
    }

    /// The entry of a commit that adds one and does nothing else: an ordinary step.
    pub fn as_plain_step(&self) -> Option<&NewEntry> {
        let [entry] = self.entries.as_slice() else { return None };
        let plain = entry.snapshot.is_none()
            && self.records.is_empty()
            && !self.clear_records
            && self.usage.is_zero()
            && self.steps == 0
            && self.status.is_none();
        plain.then_some(entry)
    }
}

/// An entry to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// What it is.
    pub kind: EntryKind,
    /// Its content.
    pub body: Vec<u8>,
    /// The entry it follows. `None` means the one before it in the log.
    pub parent: Option<Seq>,
    /// The entry whose snapshot a reader starts from; 0 when there is none.
    pub base: Seq,
    /// The whole state after this entry, when it is worth keeping. Later entries name it as their base.
    pub snapshot: Option<Vec<u8>>,
}

/// What a commit led to.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitOutcome {
    /// Newest entry of the thread.
    pub head: Seq,
    /// The store's time of the commit.
    pub at: Millis,
    /// A cancel of the run was requested.
    pub cancel_asked: bool,
    /// A run of the thread can be claimed now: a queued one, since the thread became free, or this one, to be cancelled.
    pub next_waits: bool,
    /// That run, when [`Commit::claim_next`] took it.
    pub next: Option<Box<ClaimedRun>>,
    /// What to wait for with [`RunStore::wait_until_durable`](super::RunStore::wait_until_durable).
    pub position: CommitPosition,
}

/// A new status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStatus {
    /// The status.
    pub status: RunStatus,
    /// Why, for a run that failed.
    pub error: Option<RunFailure>,
}

/// Why a run failed: a stable code and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    /// Stable, for programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// A message to a run from outside.
#[derive(Clone, Debug)]
pub enum RunSignal {
    /// End the run. A running one is marked (its worker writes the end); one that waits ends here, with this entry
    /// when it had started. A run that ended before stays as it is.
    Cancel {
        /// The entry that tells of it.
        body: Vec<u8>,
    },
    /// Answer open questions of a paused run and let it be claimed. Each must be open and named once, else
    /// [`super::StoreError::Conflict`] and nothing is taken; so is it when the run is not paused. The record of an answered
    /// question becomes [`RecordStage::Done`] with the answer as its body.
    Answer {
        /// `(path, key, answer)`
        answers: Vec<(String, String, Vec<u8>)>,
        /// The entry that tells of it.
        body: Vec<u8>,
    },
    /// Add another pause to a paused run, with a change of its state. The run goes on waiting for the same answers.
    /// [`super::StoreError::Conflict`] when it is not paused, or the newest entry of the thread is not `head`.
    Edit {
        /// The newest entry the writer knows of.
        head: Seq,
        /// The entry that tells of it.
        body: Vec<u8>,
    },
    /// Let a failed run be claimed again where it stopped, with its records. The newest entry of the thread must
    /// still be its own, else [`super::StoreError::Conflict`]. Error, end and a wish to cancel are taken back.
    Retry {
        /// The entry that tells of it.
        body: Vec<u8>,
        /// Fingerprint the run goes on with.
        fingerprint: String,
    },
}

/// How [`RunStore::signal_and_claim`](super::RunStore::signal_and_claim) ended.
#[derive(Clone, Debug)]
pub struct SignalOutcome {
    /// The run, as the signal left it.
    pub run: RunRow,
    /// The run of its thread that was claimed, mostly the same one.
    pub claimed: Option<ClaimedRun>,
}

/// A note of a task in the step in progress: a recorded call, an open question, a finished sibling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The task, as a path of `step.index` pairs: `3.0`, in a subgraph `3.0/1.2`.
    pub path: String,
    /// What within the task: a call (`name#n`, with `+` for each repetition and `?` for the question about it), or one
    /// of the engine's own: `=`, `spent`, `booked`, `break`.
    pub key: String,
    /// How far it is.
    pub stage: RecordStage,
    /// Its content.
    pub body: Vec<u8>,
}

/// How far a recorded call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordStage {
    /// A question that waits for an answer.
    Open,
    /// Begun; whether it happened is not known.
    Begun,
    /// Finished, with a result.
    Done,
    /// Finished, with an error that would come again.
    Failed,
}
