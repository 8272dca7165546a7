//! Watching the whole state of a run: after its input, after each step, and after each change by hand.

use std::sync::Arc;

use crate::entry::ThreadEntry;
use crate::error::EngineError;
use crate::id::RunKey;
use crate::large_work::work_on_bytes;
use crate::runtime::registered_graph::{AnyGraph, AnyStateReplay};
use crate::runtime::watch::{WatchCursor, WatchedItem};
use crate::runtime::{Event, Runtime, StateView, WatchUntil};
use crate::store::{EntryKind, LogEntry, RunRow, Seq};

/// The events of one run, each entry that may have changed the state with the state after it.
pub struct StateWatch {
    runtime: Runtime,
    graph: Arc<dyn AnyGraph>,
    cursor: WatchCursor,
    thread: crate::id::ThreadKey,
    /// The state after this entry.
    replay: Option<(Seq, Box<dyn AnyStateReplay>)>,
}

impl Runtime {
    /// Watches a run from its first event on, or after event number `after`, with the whole state after each step. A state
    /// is rebuilt once and then follows the log, so an event costs what it takes to write the state as JSON.
    pub async fn watch_states(
        &self,
        run: &RunKey,
        after: u64,
        until: WatchUntil,
    ) -> Result<StateWatch, EngineError> {
        let row = self.0.store.run(run).await?;
        StateWatch::new(self, &row, after, until)
    }
}

impl StateWatch {
    fn new(runtime: &Runtime, row: &RunRow, after: u64, until: WatchUntil) -> Result<Self, EngineError> {
        Ok(Self {
            runtime: runtime.clone(),
            graph: runtime.0.find_graph(&row.graph)?,
            cursor: WatchCursor::new(runtime, row, after, until),
            thread: row.thread.clone(),
            replay: None,
        })
    }

    /// The next event; `None` when there will be no more. The state is there after an input, a step of the graph itself, and
    /// a change by hand. It is not when `gc` cleared what leads to it.
    pub async fn try_next(&mut self) -> Result<Option<(Event, Option<StateView>)>, EngineError> {
        Ok(match self.cursor.next().await? {
            Some(WatchedItem::Entry(number, entry)) => {
                let state = self.state_after(&entry).await?;
                Some((Event::Entry(number, Arc::new(ThreadEntry::from_log(&entry)?)), state))
            }
            Some(WatchedItem::Delta(delta)) => Some((Event::Delta(delta), None)),
            Some(WatchedItem::Removed { after, next }) => Some((Event::Removed { after, next }, None)),
            None => None,
        })
    }

    async fn state_after(&mut self, entry: &LogEntry) -> Result<Option<StateView>, EngineError> {
        // The end of a run that never began is in no log.
        if entry.seq == 0 {
            return Ok(None);
        }
        match &mut self.replay {
            Some((at, replay)) if *at == entry.parent => {
                replay.apply(entry)?;
                *at = entry.seq;
            }
            _ => {
                let loaded = match self.runtime.0.store.load(&self.thread, Some(entry.seq)).await {
                    Ok(loaded) => loaded,
                    Err(crate::store::StoreError::NotFound { .. }) => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
                let graph = self.graph.clone();
                let replay = work_on_bytes(loaded.byte_len(), move || graph.replay(&loaded)).await?;
                self.replay = Some((entry.seq, replay));
            }
        }
        let changes = matches!(entry.kind, EntryKind::Started | EntryKind::Step | EntryKind::Paused);
        match &self.replay {
            Some((seq, replay)) if changes => replay.view(*seq).map(Some),
            _ => Ok(None),
        }
    }
}

impl std::fmt::Debug for StateWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StateWatch")
    }
}
