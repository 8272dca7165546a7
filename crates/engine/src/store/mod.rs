//! What the engine asks of a durable home: four small traits, their records, and the rules they keep.
//!
//! A thread is a **log of entries**, numbered from 1 without a gap. The log is the truth: state, position, history
//! and the events people watch are all read from it, and nothing in it is ever rewritten. An entry names its parent,
//! so a rewind appends a new branch and leaves the old one as it was.
//!
//! Rules every store keeps (checked by the conformance suite):
//!
//! 1. Each call is **one transaction**. `Ok` means it is on disk; any error but [`StoreError::Unknown`] means that
//!    nothing of it is.
//! 2. Every write of a running run carries a [`Fence`]. A run that was claimed again has a higher epoch, and writes
//!    with the old one get [`StoreError::Fenced`] and change nothing.
//! 3. A thread has at most one active run (running or paused). Its entries therefore lie side by side in the log, and
//!    the number of an event within its run is `seq - first_seq + 1`.
//! 4. Bodies are opaque bytes. A store never reads them.
//! 5. A tenant's key finds only that tenant's things; what belongs to somebody else is [`StoreError::NotFound`].
//! 6. Lease times are the store's own clock, never the caller's.
//!
//! 7. Metadata holds no NUL character, neither in a key nor in a text, because PostgreSQL cannot keep it: what has
//!    one is refused with [`StoreError::Conflict`], by every store alike. [`check_metadata`] looks for it.
//!
//! A thread is *free* when it has no active run.
//!
//! What the bodies mean is the engine's business, in its `log` module.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod ram;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::ram::RamStore;
use crate::id::{RunId, RunKey, Tenant, ThreadId, ThreadKey};

/// Number of an entry in its thread's log, from 1. 0 stands for the empty thread.
pub type Seq = u64;

/// Milliseconds since 1970 by the store's clock.
pub type Millis = i64;

/// Everything the engine needs of a store.
pub trait Store: Runs + History + Upkeep + NodeCache {}
impl<T: Runs + History + Upkeep + NodeCache> Store for T {}

/// Runs: accepted, claimed, written to, ended.
#[async_trait]
pub trait Runs: Send + Sync + 'static {
    /// Accepts a run. When the thread is free, nobody waits before this run and `claim` is given, the run starts at
    /// once in the same transaction; with `claim` as `None` it waits as [`Status::Queued`] for [`Runs::claim`].
    /// A thread that does not exist yet is made. A `parent` that does not exist is `NotFound`; 0 does, it is the
    /// empty state. A run id that was used before is [`StoreError::Conflict`].
    async fn submit(&self, run: NewRun) -> Result<Submitted, StoreError>;

    /// Takes up to `limit` runs that nobody works on: the oldest queued run of a free thread, a running run whose
    /// lease ran out, a run released by [`Signal::Answer`] or [`Signal::Retry`]. Each gets the next epoch and this
    /// worker's lease. `only` narrows it to one thread.
    async fn claim(
        &self,
        claim: &Claim,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<Claimed>, StoreError>;

    /// Prolongs leases. Returns one answer for each fence, in order.
    async fn renew(&self, claim: &Claim, fences: &[Fence]) -> Result<Vec<Renewed>, StoreError>;

    /// Writes what one step changed, all of it or nothing. A claim that no longer holds is [`StoreError::Fenced`];
    /// a `head` that
    /// is not the newest entry is [`StoreError::Conflict`], unless there are no entries to write: then it is not looked
    /// at, so that records can be written side by side. A run that somebody asked to cancel does not wait for answers:
    /// a commit that pauses it leaves it running and lets it be claimed, for a worker to end it.
    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<Committed, StoreError>;

    /// Tells a run something from outside. Durable when it returns.
    async fn signal(&self, run: &RunKey, signal: Signal) -> Result<RunRow, StoreError>;
}

/// Reading back. Never blocks a writer.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// What is needed to rebuild the state after entry `at` (the newest when `None`).
    /// An empty thread that exists gives an empty [`Loaded`], and so does entry 0 of any; an unknown thread or entry
    /// is `NotFound`, and so is an entry that cannot be rebuilt because `gc` cleared what leads to it.
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<Loaded, StoreError>;

    /// Entries after `after`, oldest first, at most `limit`. An unknown thread is `NotFound`.
    async fn entries(&self, thread: &ThreadKey, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// One run.
    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError>;

    /// Runs of a tenant, newest first, in the order of their ids.
    async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError>;

    /// One thread.
    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError>;

    /// Threads of a tenant, the last changed first.
    async fn threads(&self, tenant: &Tenant, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError>;
}

/// Making, changing and clearing threads outside a run.
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// Makes the thread or merges `metadata` into it, key by key; a key whose value is `null` is removed.
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError>;

    /// Appends an entry outside any run (an edit of the state). The thread must be free and its newest entry
    /// `expect`, else [`StoreError::Busy`] or [`StoreError::Conflict`]. An unknown thread is `NotFound`.
    async fn append(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry) -> Result<Seq, StoreError>;

    /// Copies a thread's whole log, snapshots and metadata to a new thread, which is free; entries keep the name of
    /// the run that wrote them. Runs stay with the source. A target that exists is [`StoreError::Conflict`].
    async fn copy_thread(&self, from: &ThreadKey, to: &ThreadId) -> Result<ThreadRow, StoreError>;

    /// Removes a thread with all it holds, runs and their idempotency keys included: the next write of a live run is
    /// fenced off.
    /// `false` when there was none.
    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError>;

    /// Clears old things of all tenants. See [`Retention`].
    async fn gc(&self, retention: &Retention) -> Result<Cleared, StoreError>;
}

/// Results of nodes that may be used again.
#[async_trait]
pub trait NodeCache: Send + Sync + 'static {
    /// The value kept under `key`, unless its lifetime is over.
    async fn cached(&self, tenant: &Tenant, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps `value` for `lifetime` (for ever when `None`), replacing an older one.
    async fn keep(
        &self,
        tenant: &Tenant,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError>;
}

/// Who works on runs, and for how long a claim holds without renewal.
#[derive(Clone, Debug)]
pub struct Claim {
    /// A name no other process uses.
    pub worker: Arc<str>,
    /// How long the claim holds.
    pub lease: Duration,
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
    pub idempotency: Option<Idempotency>,
    /// Free text pairs shown in lists.
    pub metadata: Map<String, Value>,
    /// Pairs the thread gets where it has none of that name yet, when the run is accepted. A `null` gives nothing.
    pub thread_metadata: Map<String, Value>,
    /// Options of the run, opaque to the store.
    pub options: Vec<u8>,
    /// Body of the entry that ends a paused run for this one ([`IfBusy::Interrupt`], [`IfBusy::Rollback`]).
    pub stop_body: Vec<u8>,
    /// Start at once on behalf of this worker.
    pub claim: Option<Claim>,
}

impl NewRun {
    /// The row of the run when it was accepted at `at` and waits.
    pub fn row(&self, at: Millis) -> RunRow {
        RunRow {
            thread: self.thread.clone(),
            run: self.run,
            graph: self.graph.clone(),
            fingerprint: self.fingerprint.clone(),
            status: Status::Queued,
            epoch: 0,
            cancel_asked: false,
            created_at: at,
            started_at: None,
            ended_at: None,
            first_seq: None,
            parent_seq: None,
            last_seq: None,
            steps: 0,
            usage: Usage::default(),
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
pub struct Idempotency {
    /// Chosen by the client, 1–200 bytes.
    pub key: String,
    /// Hash of what was asked; another hash under the same key is [`StoreError::KeyReused`].
    pub hash: String,
}

/// What a second run on a busy thread does. A thread is busy while it has an active run, or runs that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IfBusy {
    /// Refuses with [`StoreError::Busy`], which names the active run or the next one that waits.
    #[default]
    Reject,
    /// Waits its turn, first in first out.
    Enqueue,
    /// Cancels the active run, keeps what it did, and goes next, before runs that were enqueued and after earlier
    /// ones that interrupt. A paused run ends in the same transaction; a running one is asked to and this run waits
    /// for it.
    Interrupt,
    /// As `Interrupt`, but starts from where the cancelled run had started: its parent is that run's `parent_seq`.
    Rollback,
}

/// How [`Runs::submit`] ended.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// The run is this worker's now.
    Started(Claimed),
    /// The run waits. `stop` names an active run that was asked to end for it.
    Queued {
        /// The run that waits.
        run: RunRow,
        /// The run that was asked to end.
        stop: Option<RunId>,
    },
    /// The idempotency key was seen before: this is the run it started.
    Repeated(RunRow),
}

/// A run that this worker may write to.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The run, with its epoch.
    pub run: RunRow,
    /// Newest entry of the thread.
    pub head: Seq,
    /// Records of the step in progress.
    pub records: Vec<Record>,
}

impl Claimed {
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
pub enum Renewed {
    /// Still ours.
    Held,
    /// Still ours, and somebody asked to cancel it.
    CancelAsked,
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
    pub usage: Usage,
    /// Steps finished that the row of the run does not count yet. They come with a new status or usage: the log tells
    /// of them in between.
    pub steps: u32,
    /// The run's new status, when it changes.
    pub status: Option<NewStatus>,
}

impl Commit {
    /// The entry of a commit that adds one and does nothing else: an ordinary step.
    pub fn plain_step(&self) -> Option<&NewEntry> {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Newest entry of the thread.
    pub head: Seq,
    /// The store's time of the commit.
    pub at: Millis,
    /// Somebody asked to cancel the run.
    pub cancel_asked: bool,
    /// A run of the thread can be claimed now: a queued one, since the thread became free, or this one, to be cancelled.
    pub next_waits: bool,
}

/// A new status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStatus {
    /// The status.
    pub status: Status,
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

/// Something told to a run from outside.
#[derive(Clone, Debug)]
pub enum Signal {
    /// End the run. A running one is asked (its worker writes the end); one that waits ends here, with this entry
    /// when it had started. A run that ended before stays as it is.
    Cancel {
        /// The entry that tells of it.
        body: Vec<u8>,
    },
    /// Answer open questions of a paused run and let it be claimed. Each must be open and named once, else
    /// [`StoreError::Conflict`] and nothing is taken; so is it when the run is not paused. The record of an answered
    /// question becomes [`Stage::Done`] with the answer as its body.
    Answer {
        /// `(path, key, answer)`
        answers: Vec<(String, String, Vec<u8>)>,
        /// The entry that tells of it.
        body: Vec<u8>,
    },
    /// Let a failed run be claimed again where it stopped, with its records. The newest entry of the thread must
    /// still be its own, else [`StoreError::Conflict`]. Error, end and a wish to cancel are taken back.
    Retry {
        /// The entry that tells of it.
        body: Vec<u8>,
        /// Fingerprint the run goes on with.
        fingerprint: String,
    },
}

/// A note of a task in the step in progress: a recorded call, an open question, a finished sibling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The task, as a path of `step.index` pairs: `3.0`, in a subgraph `3.0/1.2`.
    pub path: String,
    /// What within the task: `effect name#n`.
    pub key: String,
    /// How far it is.
    pub stage: Stage,
    /// Its content.
    pub body: Vec<u8>,
}

/// How far a recorded call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A question that waits for an answer.
    Open,
    /// Begun; whether it happened is not known.
    Begun,
    /// Finished, with a result.
    Done,
    /// Finished, with an error that would come again.
    Failed,
}

/// One line of a thread's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub seq: Seq,
    /// The entry it follows; 0 for the first.
    pub parent: Seq,
    /// The entry whose snapshot a reader starts from; 0 when there is none.
    pub base: Seq,
    /// The run that wrote it; `None` for an edit.
    pub run: Option<RunId>,
    /// When, by the store's clock.
    pub at: Millis,
    /// What it is.
    pub kind: EntryKind,
    /// Its content.
    pub body: Vec<u8>,
}

/// What an entry is. The numbers are the stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EntryKind {
    /// A run began with this input.
    Started = 1,
    /// A superstep of the graph.
    Step = 2,
    /// A superstep of a subgraph inside the step in progress.
    Inner = 3,
    /// The run waits for answers.
    Paused = 4,
    /// Answers came.
    Resumed = 5,
    /// The run goes on after a crash, a takeover or a retry.
    Restarted = 6,
    /// The run ended well.
    Finished = 7,
    /// The run ended with an error.
    Failed = 8,
    /// The run was cancelled.
    Cancelled = 9,
    /// Somebody changed the state.
    Edited = 10,
}

impl EntryKind {
    /// The kind with this stored number.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Started,
            2 => Self::Step,
            3 => Self::Inner,
            4 => Self::Paused,
            5 => Self::Resumed,
            6 => Self::Restarted,
            7 => Self::Finished,
            8 => Self::Failed,
            9 => Self::Cancelled,
            10 => Self::Edited,
            _ => return None,
        })
    }

    /// The stored number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether it is the last entry of its run.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }
}

/// What is needed to rebuild a state.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Newest entry of the thread.
    pub head: Seq,
    /// The snapshot to start from, with the entry it belongs to.
    pub snapshot: Option<(Seq, Vec<u8>)>,
    /// The entries after it that lead to the asked one, oldest first.
    pub entries: Vec<Entry>,
}

/// A thread as listed.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    /// Its key.
    pub key: ThreadKey,
    /// Newest entry.
    pub head: Seq,
    /// The run that is running or paused.
    pub active: Option<RunId>,
    /// When it was made.
    pub created_at: Millis,
    /// When it last changed: a run was accepted, began, paused, went on or ended, or something was written outside a
    /// run. The steps of a run need not move it.
    pub updated_at: Millis,
    /// Free pairs.
    pub metadata: Map<String, Value>,
}

/// A run as listed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Its thread.
    pub thread: ThreadKey,
    /// Its id.
    pub run: RunId,
    /// Name of the graph.
    pub graph: String,
    /// Fingerprint of the graph it was started with.
    pub fingerprint: String,
    /// Where it stands.
    pub status: Status,
    /// How often it was claimed.
    pub epoch: u64,
    /// Somebody asked to cancel it.
    pub cancel_asked: bool,
    /// When it was accepted.
    pub created_at: Millis,
    /// When it was first claimed.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Its first entry, once it started.
    pub first_seq: Option<Seq>,
    /// The entry it started from; 0 for an empty thread.
    pub parent_seq: Option<Seq>,
    /// Its last entry, once it ended.
    pub last_seq: Option<Seq>,
    /// Steps finished. While the run is running its log may hold more: they are added when it rests or spends.
    pub steps: u32,
    /// Spent so far.
    pub usage: Usage,
    /// Why it failed.
    pub error: Option<RunFailure>,
    /// Free pairs.
    pub metadata: Map<String, Value>,
    /// Options given at the start, opaque to the store.
    pub options: Vec<u8>,
}

impl RunRow {
    /// The key of the run.
    pub fn key(&self) -> RunKey {
        self.thread.run(self.run)
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Status {
    /// Accepted, waits for its thread or a worker.
    Queued = 1,
    /// Being worked on, or to be claimed again.
    Running = 2,
    /// Waits for an answer.
    Paused = 3,
    /// Ended well.
    Finished = 4,
    /// Ended with an error.
    Failed = 5,
    /// Ended by request.
    Cancelled = 6,
}

impl Status {
    /// The status with this stored number.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Queued,
            2 => Self::Running,
            3 => Self::Paused,
            4 => Self::Finished,
            5 => Self::Failed,
            6 => Self::Cancelled,
            _ => return None,
        })
    }

    /// The stored number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether nothing more will happen.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read by models.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens written by models.
    #[serde(default)]
    pub output_tokens: u64,
    /// Millionths of a US dollar.
    #[serde(default)]
    pub cost_micros: u64,
}

impl Usage {
    /// Nothing was spent.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_micros = self.cost_micros.saturating_add(more.cost_micros);
    }
}

/// Which runs to list. Everything given must fit.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Of this thread.
    pub thread: Option<ThreadId>,
    /// In this status.
    pub status: Option<Status>,
    /// Created before this run (exclusive), to page on.
    pub before: Option<RunId>,
    /// At most this many.
    pub limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self { thread: None, status: None, before: None, limit: 50 }
    }
}

/// Which threads to list. Everything given must fit.
#[derive(Clone, Debug)]
pub struct ThreadFilter {
    /// Each key has exactly this value.
    pub metadata: Map<String, Value>,
    /// Skip so many.
    pub offset: usize,
    /// At most this many.
    pub limit: usize,
}

impl Default for ThreadFilter {
    fn default() -> Self {
        Self { metadata: Map::new(), offset: 0, limit: 50 }
    }
}

/// What `gc` may clear. `None` keeps for ever.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Threads that are free, have no run that waits and did not change for so long are removed whole.
    pub idle_threads: Option<Duration>,
    /// In threads that are free and have no run that waits: entries older than so long that lie before the newest
    /// snapshot of the newest branch are removed, with the snapshots nobody needs any more. The newest state stays,
    /// and so does what a younger entry is rebuilt from.
    pub old_entries: Option<Duration>,
    /// Idempotency keys older than this are forgotten.
    pub idempotency: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { idle_threads: None, old_entries: None, idempotency: Duration::from_secs(24 * 3600) }
    }
}

/// What `gc` cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Whole threads.
    pub threads: u64,
    /// Entries of kept threads.
    pub entries: u64,
    /// Idempotency keys.
    pub keys: u64,
    /// Cache values past their lifetime.
    pub cached: u64,
}

/// Why a store said no, sorted by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another worker has the run, or it ended or was deleted. Drop it.
    #[error("run was taken over, ended or deleted")]
    Fenced,
    /// The thread has an active run.
    #[error("thread `{thread}` is busy with run `{run}`")]
    Busy {
        /// The thread.
        thread: ThreadId,
        /// The active run.
        run: RunId,
    },
    /// The caller's view is out of date.
    #[error("{0}")]
    Conflict(String),
    /// The idempotency key was used for something else.
    #[error("idempotency key `{0}` was used for another request")]
    KeyReused(String),
    /// There is no such thing, or it belongs to another tenant.
    #[error("{what} `{id}` does not exist")]
    NotFound {
        /// Kind of thing.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// No room left. Nothing was written; reading still works.
    #[error("the disk is full")]
    Full(#[source] BoxError),
    /// The store cannot be reached or is overloaded. Nothing was written; try again.
    #[error("the store cannot be reached")]
    Unavailable(#[source] BoxError),
    /// The write failed in a way that leaves open whether it happened. Read again before going on.
    #[error("the store does not know whether the write happened")]
    Unknown(#[source] BoxError),
    /// Written by a newer program.
    #[error("the store has format {found}, this program knows up to {known}: use a newer doran")]
    Newer {
        /// Format found.
        found: u32,
        /// Newest format known.
        known: u32,
    },
    /// The content makes no sense.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Anything else.
    #[error("the store failed")]
    Other(#[source] BoxError),
}

/// Any error, kept as a source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl StoreError {
    /// A thread that is not there.
    pub fn no_thread(key: &ThreadKey) -> Self {
        Self::NotFound { what: "thread", id: key.thread.to_string() }
    }

    /// A run that is not there.
    pub fn no_run(key: &RunKey) -> Self {
        Self::NotFound { what: "run", id: key.run.to_string() }
    }

    /// An entry that is not there.
    pub fn no_entry(seq: Seq) -> Self {
        Self::NotFound { what: "entry", id: seq.to_string() }
    }
}

/// Refuses metadata that holds a NUL character.
pub fn check_metadata(metadata: &Map<String, Value>) -> Result<(), StoreError> {
    if metadata.iter().any(|(key, value)| key.contains('\0') || has_nul(value)) {
        return Err(StoreError::Conflict("metadata must not hold a NUL character".into()));
    }
    Ok(())
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(pairs) => pairs.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
    }
}

/// Keeps of `entries` (oldest first, from the base of `at` on) those that lead to `at`.
///
/// Stores read a range and use this to drop branches that were left by a rewind.
pub fn lineage(entries: Vec<Entry>, at: Seq) -> Vec<Entry> {
    let mut wanted = at;
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries.into_iter().rev() {
        if entry.seq == wanted {
            wanted = entry.parent;
            kept.push(entry);
        }
    }
    kept.reverse();
    kept
}
