//! What a store gives back: entries, rows of threads and runs, and filters for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Millis, RunFailure, Seq};
use crate::id::{RunId, RunKey, ThreadId, ThreadKey};

/// One line of a thread's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
    /// The run was answered.
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
pub struct LoadedLog {
    /// Newest entry of the thread.
    pub head: Seq,
    /// The snapshot to start from, with the entry it belongs to.
    pub snapshot: Option<(Seq, Vec<u8>)>,
    /// The entries after it that lead to the requested one, oldest first.
    pub entries: Vec<LogEntry>,
}

impl LoadedLog {
    /// How many bytes have to be read.
    pub(crate) fn byte_len(&self) -> usize {
        let snapshot = self.snapshot.as_ref().map_or(0, |(_, body)| body.len());
        snapshot + self.entries.iter().map(|entry| entry.body.len()).sum::<usize>()
    }
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
    pub status: RunStatus,
    /// How often it was claimed.
    pub epoch: u64,
    /// Its cancel was requested.
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
    pub usage: RunUsage,
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

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPosition {
    /// Where it stands.
    pub status: RunStatus,
    /// How often it was claimed.
    pub epoch: u64,
    /// Its newest entry; 0 before it started.
    pub head: Seq,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum RunStatus {
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

impl RunStatus {
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RunUsage {
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

impl RunUsage {
    /// Nothing was spent.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn saturating_sub(self, less: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(less.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(less.output_tokens),
            cost_micros: self.cost_micros.saturating_sub(less.cost_micros),
        }
    }
}

impl std::ops::AddAssign for RunUsage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_micros = self.cost_micros.saturating_add(more.cost_micros);
    }
}

/// What runs of one graph used whose threads were deleted, summed for a quarter of an hour: days begin at such a time in
/// every time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedUsage {
    /// When the quarter began in which they were accepted, in milliseconds since 1970.
    pub at: Millis,
    /// Name of the graph.
    pub graph: String,
    /// How many runs.
    pub runs: u64,
    /// Spent by them together.
    pub usage: RunUsage,
    /// Whether each of them ended well or spent nothing. What others spent may be an estimate.
    pub is_exact: bool,
}

impl DeletedUsage {
    /// The length of a quarter of an hour.
    pub const QUARTER_HOUR_MILLIS: Millis = 15 * 60 * 1000;

    /// What one run used.
    pub fn of_run(run: &RunRow) -> Self {
        Self {
            at: run.created_at.div_euclid(Self::QUARTER_HOUR_MILLIS) * Self::QUARTER_HOUR_MILLIS,
            graph: run.graph.clone(),
            runs: 1,
            usage: run.usage,
            is_exact: run.status == RunStatus::Finished || run.usage.is_zero(),
        }
    }
}

/// Which runs to list. Everything given must fit.
#[derive(Clone, Debug)]
pub struct RunFilter {
    /// Of this thread.
    pub thread: Option<ThreadId>,
    /// In this status.
    pub status: Option<RunStatus>,
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
    /// Those that come after this place in the list, to page on. It costs the same however far it is.
    pub after: Option<ThreadListPosition>,
    /// Skip so many.
    pub offset: usize,
    /// At most this many.
    pub limit: usize,
}

impl Default for ThreadFilter {
    fn default() -> Self {
        Self { metadata: Map::new(), after: None, offset: 0, limit: 50 }
    }
}

/// Where a thread stands in the list of threads: the last changed first, those of one millisecond by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadListPosition {
    /// When it last changed.
    pub updated_at: Millis,
    /// Its id.
    pub thread: ThreadId,
}

impl From<&ThreadRow> for ThreadListPosition {
    fn from(row: &ThreadRow) -> Self {
        Self { updated_at: row.updated_at, thread: row.key.thread.clone() }
    }
}

/// What `gc` may clear. `None` keeps for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Threads that are free, have no run that waits and did not change for so long are removed whole.
    pub idle_threads: Option<Duration>,
    /// In threads that are free and have no run that waits: entries older than so long that lie before the newest
    /// snapshot of the newest branch are removed, with the snapshots nobody needs any more. The newest state stays,
    /// and so does what a younger entry is rebuilt from.
    pub old_entries: Option<Duration>,
    /// Idempotency keys of runs older than this are forgotten. Stored responses have a lifetime of their own.
    pub idempotency: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { idle_threads: None, old_entries: None, idempotency: Duration::from_secs(24 * 3600) }
    }
}

/// What `gc` cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Whole threads.
    pub threads: u64,
    /// Entries of kept threads.
    pub entries: u64,
    /// Idempotency keys: of runs, and with a stored response.
    pub keys: u64,
    /// Cache values past their lifetime.
    pub cached: u64,
    /// Items past their lifetime.
    pub items: u64,
}

/// Keeps of `entries` (oldest first, from the base of `at` on) those that lead to `at`.
///
/// Stores read a range and use this to drop branches that were left by a rewind.
pub fn entries_leading_to(entries: Vec<LogEntry>, at: Seq) -> Vec<LogEntry> {
    let mut wanted = at;
    let mut kept: Vec<LogEntry> = Vec::with_capacity(entries.len());
    for entry in entries.into_iter().rev() {
        if entry.seq == wanted {
            wanted = entry.parent;
            kept.push(entry);
        }
    }
    kept.reverse();
    kept
}
