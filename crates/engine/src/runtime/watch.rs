//! Watching a run: everything from the log, in order and once, and the pieces of the step in progress between.
//!
//! Watchers read the log at their own pace with a number; there is no queue of events for each of them, and each holds
//! little: a slow one must not cost more than a quick one.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{Stream, try_unfold};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::entry::ThreadEntry;
use crate::error::EngineError;
use crate::failpoint;
use crate::id::{RunKey, ThreadKey};
use crate::log;
use crate::runtime::live_feed::{LiveFeed, NodeDelta};
use crate::runtime::remote_runs::RemoteRun;
use crate::runtime::{Runtime, RuntimeInner};
use crate::store::{EntryKind, LogEntry, RunFailure, RunRow, RunStatus, Seq};

/// Entries read in one go. An entry can be large, and a slow watcher holds all it has read.
const ENTRIES_PER_READ: usize = 8;

/// Pieces of a step in progress taken in one go.
const DELTAS_PER_READ: usize = 32;

/// How long a run that this process drives may be silent before its log is looked at.
const LIVE_SILENCE: Duration = Duration::from_secs(1);

/// What a watcher sees.
#[derive(Clone, Debug)]
pub enum Event {
    /// An entry of the log, with its number within the run, from 1. The last one is the end of the run, also where the log
    /// does not have it any more, or never had: a run that is cancelled before it starts has this one event, with
    /// 0 as its place in the thread.
    Entry(u64, Arc<ThreadEntry>),
    /// A piece of the step in progress.
    Delta(Arc<NodeDelta>),
    /// Events were removed from the log: those after `after` and before `next`, which comes now.
    Removed {
        /// The last event before the gap; 0 if it is at the beginning.
        after: u64,
        /// The first event after it.
        next: u64,
    },
}

/// The events of one run, as a stream. It ends after the first error.
pub struct RunWatch(Pin<Box<dyn Stream<Item = Result<Event, EngineError>> + Send>>);

impl RunWatch {
    pub(super) fn new(runtime: &Runtime, row: &RunRow, after: u64, until: WatchUntil) -> Self {
        Self::from_cursor(WatchCursor::new(runtime, row, after, until))
    }

    /// Watches a run that began just now and may be over already: its live side has what it showed.
    pub(super) fn with_live_feed(
        runtime: &Runtime,
        row: &RunRow,
        after: u64,
        until: WatchUntil,
        live: Option<&Arc<LiveFeed>>,
    ) -> Self {
        let mut cursor = WatchCursor::new(runtime, row, after, until);
        cursor.live = live.map(|live| (live.clone(), live.subscribe()));
        Self::from_cursor(cursor)
    }

    fn from_cursor(cursor: WatchCursor) -> Self {
        Self(Box::pin(try_unfold(cursor, |mut cursor| async move {
            let event = cursor.next_event().await?;
            Ok::<_, EngineError>(event.map(|event| (event, cursor)))
        })))
    }

    /// The next event; `None` when there will be no more. Nothing is lost when the future is dropped. The same as
    /// `try_next` of `futures`, for who does not use that crate.
    pub async fn try_next(&mut self) -> Result<Option<Event>, EngineError> {
        poll_fn(|context| self.0.as_mut().poll_next(context)).await.transpose()
    }
}

impl Stream for RunWatch {
    type Item = Result<Event, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for RunWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunWatch")
    }
}

/// An event before it is read.
pub(super) enum WatchedItem {
    Entry(u64, Arc<LogEntry>),
    Delta(Arc<NodeDelta>),
    Removed { after: u64, next: u64 },
}

/// A cursor over the events of one run.
pub(super) struct WatchCursor {
    runtime: Arc<RuntimeInner>,
    run: RunKey,
    thread: ThreadKey,
    until: WatchUntil,
    first: Option<Seq>,
    /// Number of the last event given, within the run.
    last_event_number: u64,
    /// Number of the next piece to show.
    next_delta: u64,
    live: Option<(Arc<LiveFeed>, watch::Receiver<Seq>)>,
    /// News of a run that another process drives, once it was waited for.
    remote: Option<watch::Receiver<RemoteRun>>,
    buffer: VecDeque<WatchedItem>,
    /// The log has to be looked at, whatever the live side says.
    must_read_log: bool,
    is_over: bool,
}

/// When a [`RunWatch`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchUntil {
    /// With the run.
    RunEnded,
    /// With the run, or when it waits for an answer.
    RunEndedOrPaused,
}

impl WatchCursor {
    pub(super) fn new(runtime: &Runtime, row: &RunRow, after: u64, until: WatchUntil) -> Self {
        Self {
            runtime: runtime.0.clone(),
            run: row.key(),
            thread: row.thread.clone(),
            until,
            first: row.first_seq,
            // A number no run will ever reach, so that sums with it stay in range.
            last_event_number: after.min(u64::MAX / 4),
            next_delta: 0,
            live: None,
            remote: None,
            buffer: VecDeque::new(),
            must_read_log: true,
            is_over: false,
        }
    }

    /// The next event, read; `None` when there will be no more.
    async fn next_event(&mut self) -> Result<Option<Event>, EngineError> {
        Ok(match self.next().await? {
            Some(WatchedItem::Entry(number, entry)) => {
                Some(Event::Entry(number, Arc::new(ThreadEntry::from_log(&entry)?)))
            }
            Some(WatchedItem::Delta(delta)) => Some(Event::Delta(delta)),
            Some(WatchedItem::Removed { after, next }) => Some(Event::Removed { after, next }),
            None => None,
        })
    }

    /// The next event; `None` when there will be no more.
    pub(super) async fn next(&mut self) -> Result<Option<WatchedItem>, EngineError> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            self.attach_live_feed();
            if let Some((_, wakeup)) = &mut self.live {
                wakeup.mark_unchanged();
            }
            if let Some(remote) = &mut self.remote {
                remote.mark_unchanged();
            }
            if self.read_deltas() || (self.may_have_grown() && self.read_log().await?) {
                continue;
            }
            if let Some(row) = self.row_at_rest().await? {
                // The end may have been written between reading the log and asking for the status.
                if !self.read_log().await? && !self.push_missing_end(&row) {
                    return Ok(None);
                }
                continue;
            }
            self.wait_for_change().await;
        }
    }

    /// Finds the live side of the run, when this process drives it. A run that was resumed has a new one.
    fn attach_live_feed(&mut self) {
        let current = self.runtime.find_live_feed(&self.run);
        if current.is_none() && self.has_unread_entries() {
            return;
        }
        let same = match (&self.live, &current) {
            (Some((old, _)), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.live = current.map(|live| {
                let wakeup = live.subscribe();
                (live, wakeup)
            });
            self.next_delta = 0;
            self.must_read_log = true;
        }
        if self.live.is_some() {
            self.remote = None;
        }
    }

    /// Whether the live side of a run that is over here has entries that were not given yet.
    fn has_unread_entries(&self) -> bool {
        match (&self.live, self.first) {
            (Some((live, _)), Some(first)) => live.head() >= first + self.last_event_number,
            _ => false,
        }
    }

    /// Whether the log may hold more than was given. While this process drives the run it knows, and a piece of text
    /// costs its watchers no look at the store.
    fn may_have_grown(&mut self) -> bool {
        let looks = std::mem::take(&mut self.must_read_log);
        match (&self.live, self.first) {
            (Some((live, _)), Some(first)) => {
                looks
                    || live.head() != first + self.last_event_number - 1
                    || failpoint::mutant("event_before_commit")
            }
            (_, _) => true,
        }
    }

    async fn read_log(&mut self) -> Result<bool, EngineError> {
        let first = match self.first {
            Some(first) => first,
            None => match self.runtime.store.run(&self.run).await?.first_seq {
                Some(first) => *self.first.insert(first),
                None => return Ok(false),
            },
        };
        let cursor = first + self.last_event_number - 1;
        // The store is not read first: it would answer behind the commit.
        let mut entries: Vec<Arc<LogEntry>> =
            failpoint::unwritten_entries_after(self.run.run, cursor).into_iter().map(Arc::new).collect();
        if entries.is_empty() {
            entries = self.entries_after(cursor).await?;
        }
        let mut any = false;
        for entry in entries {
            if entry.run != Some(self.run.run) || self.is_over {
                break;
            }
            any = true;
            // What was shown between this entry and the one before it comes first.
            while self.read_deltas_at_cursor() {}
            self.go_to_event(entry.seq - first + 1);
            let rests = entry.kind == EntryKind::Paused && self.until == WatchUntil::RunEndedOrPaused;
            self.is_over = entry.kind.is_end() || rests;
            let number = if failpoint::mutant("event_number_from_clock") {
                u64::try_from(entry.at).unwrap_or_default()
            } else {
                self.last_event_number
            };
            self.buffer.push_back(WatchedItem::Entry(number, entry));
        }
        // A run that failed and was tried again, or was answered, goes on past what looked like its end.
        if self.is_over && any {
            self.is_over = !self.run_continues(first).await?;
        }
        Ok(any)
    }

    /// A few entries after this one: from the live side when it still has them, else from the store. Nobody is shown what
    /// a power failure could take back.
    async fn entries_after(&self, cursor: Seq) -> Result<Vec<Arc<LogEntry>>, EngineError> {
        if let Some((live, _)) = &self.live {
            let (fresh, position) = live.recent_entries_after(cursor, ENTRIES_PER_READ);
            // When nobody knows whether it is on disk, the store is read.
            if !fresh.is_empty()
                && (failpoint::mutant("show_before_sync")
                    || self.runtime.store.wait_until_durable(position).await.is_ok())
            {
                return Ok(fresh);
            }
        }
        let entries = self.runtime.store.entries(&self.thread, cursor, ENTRIES_PER_READ).await?;
        Ok(entries.into_iter().map(Arc::new).collect())
    }

    async fn run_continues(&self, first: Seq) -> Result<bool, EngineError> {
        let next = self.runtime.store.entries(&self.thread, first + self.last_event_number - 1, 1).await?;
        Ok(next.first().is_some_and(|entry| entry.run == Some(self.run.run)))
    }

    fn read_deltas(&mut self) -> bool {
        self.read_deltas_at_cursor();
        !self.buffer.is_empty()
    }

    /// Takes some pieces between the last entry that was given and the next one. Whether there were any.
    fn read_deltas_at_cursor(&mut self) -> bool {
        let (Some((live, _)), Some(first)) = (&self.live, self.first) else { return false };
        let Some((pieces, end)) =
            live.deltas_after(first + self.last_event_number - 1, self.next_delta, DELTAS_PER_READ)
        else {
            return false;
        };
        self.next_delta = end;
        let any = !pieces.is_empty();
        self.buffer.extend(pieces.into_iter().map(WatchedItem::Delta));
        any
    }

    /// The row of the run, if nothing more will come by its status.
    async fn row_at_rest(&mut self) -> Result<Option<RunRow>, EngineError> {
        if self.live.is_some() {
            return Ok(None);
        }
        // The caller reads the log once more: what is not there then was cleared away, and will not come.
        let row = self.runtime.store.run(&self.run).await?;
        let rests = row.status.is_end()
            || (row.status == RunStatus::Paused && self.until == WatchUntil::RunEndedOrPaused);
        Ok(rests.then_some(row))
    }

    /// Moves on to the event with this number, which comes next.
    fn go_to_event(&mut self, number: u64) {
        if number > self.last_event_number + 1 {
            self.buffer.push_back(WatchedItem::Removed { after: self.last_event_number, next: number });
        }
        self.last_event_number = number;
    }

    /// Gives the end of a run whose log does not have it, by what its row says. `false` if it was given before.
    fn push_missing_end(&mut self, row: &RunRow) -> bool {
        let (kind, body) = match row.status {
            RunStatus::Finished => (EntryKind::Finished, b"{}".to_vec()),
            RunStatus::Cancelled => {
                (EntryKind::Cancelled, log::to_json_bytes(&log::RunCancelledEntry::default()))
            }
            RunStatus::Failed => {
                let unknown = || RunFailure { code: String::new(), message: String::new() };
                let failure = row.error.clone().unwrap_or_else(unknown);
                let failed = log::RunFailedEntry { failure, node: None, unfinished: Vec::new() };
                (EntryKind::Failed, log::to_json_bytes(&failed))
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Paused => return false,
        };
        let seq = row.last_seq.unwrap_or(0);
        let number = row.first_seq.map_or(1, |first| (seq + 1).saturating_sub(first));
        if number <= self.last_event_number {
            return false;
        }
        self.go_to_event(number);
        let at = row.ended_at.unwrap_or(row.created_at);
        let (parent, run) = (seq.saturating_sub(1), Some(row.run));
        let entry = LogEntry { seq, parent, base: 0, run, at, kind, body };
        self.buffer.push_back(WatchedItem::Entry(number, Arc::new(entry)));
        self.is_over = true;
        true
    }

    async fn wait_for_change(&mut self) {
        match &mut self.live {
            // A wake-up can come between the read above and here: `changed` then returns at once. The time limit only
            // matters when the run ends in this process without an entry (it was lost to another worker): the next
            // iteration reads the log, and in the end finds that the run has no live feed any more.
            Some((_, wakeup)) => self.must_read_log = timeout(LIVE_SILENCE, wakeup.changed()).await.is_err(),
            None => {
                let (runtime, run) = (&self.runtime, &self.run);
                let remote = self.remote.get_or_insert_with(|| runtime.follow_remote_run(run));
                // Its sender lives as long as there is a receiver.
                drop(remote.changed().await);
            }
        }
    }
}
