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
use crate::runtime::live_feed::{LiveFeed, NodeDelta};
use crate::runtime::{Runtime, RuntimeInner};
use crate::store::{EntryKind, LogEntry, RunRow, RunStatus, Seq};

/// Entries read in one go. An entry can be large, and a slow watcher holds all it has read.
const ENTRIES_PER_READ: usize = 8;

/// Pieces of a step in progress taken in one go.
const DELTAS_PER_READ: usize = 32;

/// How often a run that another process drives is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What a watcher sees.
#[derive(Clone, Debug)]
pub enum Event {
    /// An entry of the log, with its number within the run, from 1 and without a gap.
    Entry(u64, Arc<ThreadEntry>),
    /// A piece of the step in progress.
    Delta(Arc<NodeDelta>),
}

/// The events of one run, as a stream. It ends after the first error.
pub struct RunWatch(Pin<Box<dyn Stream<Item = Result<Event, EngineError>> + Send>>);

impl RunWatch {
    pub(super) fn new(runtime: &Runtime, row: &RunRow, after: u64, until: WatchUntil) -> Self {
        let cursor = WatchCursor::new(runtime, row, after, until);
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
            if let Some((_, bell)) = &mut self.live {
                bell.mark_unchanged();
            }
            if (self.may_have_grown() && self.read_log().await?) || self.read_deltas() {
                continue;
            }
            if self.run_has_ended().await? {
                // The end may have been written between reading the log and asking for the status.
                if !self.read_log().await? {
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
        let same = match (&self.live, &current) {
            (Some((old, _)), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.live = current.map(|live| {
                let bell = live.subscribe();
                (live, bell)
            });
            self.next_delta = 0;
            self.must_read_log = true;
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
        // The store is not asked first: it would answer behind the commit.
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
            self.last_event_number = entry.seq - first + 1;
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

    /// A few entries after this one: from the live side when it still has them, else from the store.
    async fn entries_after(&self, cursor: Seq) -> Result<Vec<Arc<LogEntry>>, EngineError> {
        let fresh = self
            .live
            .as_ref()
            .map(|(live, _)| live.recent_entries_after(cursor, ENTRIES_PER_READ))
            .unwrap_or_default();
        if !fresh.is_empty() {
            return Ok(fresh);
        }
        let entries = self.runtime.store.entries(&self.thread, cursor, ENTRIES_PER_READ).await?;
        Ok(entries.into_iter().map(Arc::new).collect())
    }

    async fn run_continues(&self, first: Seq) -> Result<bool, EngineError> {
        let next = self.runtime.store.entries(&self.thread, first + self.last_event_number - 1, 1).await?;
        Ok(next.first().is_some_and(|entry| entry.run == Some(self.run.run)))
    }

    fn read_deltas(&mut self) -> bool {
        let (Some((live, _)), Some(first)) = (&self.live, self.first) else { return false };
        let Some((pieces, end)) =
            live.deltas_after(first + self.last_event_number - 1, self.next_delta, DELTAS_PER_READ)
        else {
            return false;
        };
        self.next_delta = end;
        self.buffer.extend(pieces.into_iter().map(WatchedItem::Delta));
        !self.buffer.is_empty()
    }

    /// Whether nothing more will come, by the run's status.
    async fn run_has_ended(&mut self) -> Result<bool, EngineError> {
        if self.live.is_some() {
            return Ok(false);
        }
        // Whoever asks reads the log once more: what is not there then was cleared away, and will not come.
        let row = self.runtime.store.run(&self.run).await?;
        Ok(row.status.is_end()
            || (row.status == RunStatus::Paused && self.until == WatchUntil::RunEndedOrPaused))
    }

    async fn wait_for_change(&mut self) {
        match &mut self.live {
            // The bell can ring between the read above and here: `changed` then returns at once. The time limit only
            // matters when the run ends in this process without an entry (it was lost to another worker): the next
            // turn looks at the log, and in the end finds that the run has no live side any more.
            Some((_, bell)) => self.must_read_log = timeout(POLL_INTERVAL * 5, bell.changed()).await.is_err(),
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
