//! Looking at threads and changing them outside a run: state at any entry, edits, forks, open questions.

use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::entry::read_log_body;
use crate::error::{EngineError, MisuseError};
use crate::id::{RunKey, ThreadId, ThreadKey};
use crate::large_work::work_on_bytes;
use crate::log;
use crate::question::PendingQuestion;
use crate::runtime::{Runtime, StateView};
use crate::store::{EntryKind, LoadedLog, LogEntry, NewEntry, RunRow, RunSignal, RunStatus, Seq, StoreError};
use crate::stored_json;

/// A change of a thread's state by hand.
#[derive(Clone, Debug, Default)]
pub struct StateEdit {
    /// Replaces the whole state. Fields left out get their default.
    pub state: Option<Value>,
    /// Is folded in, like the update of a node.
    pub update: Option<Value>,
    /// Go on as if this node had just finished: [`START_NODE_ID`](crate::graph::START_NODE_ID) begins anew, and after
    /// [`END_NODE_ID`](crate::graph::END_NODE_ID) nothing is due. Without it the thread stands where the edited entry
    /// stood.
    pub as_node: Option<String>,
    /// Whether a run that waits for an answer is cancelled for a change after an older entry, from where the thread then goes
    /// on. Otherwise that is [`StoreError::Busy`].
    pub cancel_paused: bool,
}

/// A task that is due after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotoTarget {
    /// The node; [`END_NODE_ID`](crate::graph::END_NODE_ID) makes nothing due.
    pub node: String,
    /// What the task reads with [`Cx::input`](crate::Cx::input).
    pub input: Option<Value>,
}

/// Where a thread goes on after an edit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EditPlace<'a> {
    /// Where the edited entry stood.
    Stay,
    /// After this node.
    AfterNode(&'a str),
    /// At these tasks.
    AtTargets(&'a [GotoTarget]),
}

impl Runtime {
    /// The state of a thread after entry `at` (the newest when `None`), read by `graph`.
    pub async fn view(
        &self,
        graph: &str,
        thread: &ThreadKey,
        at: Option<Seq>,
    ) -> Result<StateView, EngineError> {
        let loaded = self.0.store.load(thread, at).await?;
        let registered = self.0.find_graph(graph)?;
        work_on_bytes(loaded.byte_len(), move || registered.view(at.unwrap_or(loaded.head), &loaded)).await
    }

    /// Changes the state after entry `at` (the newest when `None`). The log keeps what was there; the thread goes on
    /// from the change. Gives the number of the new entry.
    ///
    /// A run that waits for an answer goes on waiting: its node runs on the changed state when the answer comes, and finds
    /// the calls it had made. With [`StateEdit::as_node`] the thread goes on elsewhere, so that run is cancelled first. A
    /// thread with a run under way is [`StoreError::Busy`].
    pub async fn edit(
        &self,
        graph: &str,
        thread: &ThreadKey,
        at: Option<Seq>,
        edit: &StateEdit,
    ) -> Result<Seq, EngineError> {
        let place = edit.as_node.as_deref().map_or(EditPlace::Stay, EditPlace::AfterNode);
        self.edit_at(graph, thread, at, edit, place).await
    }

    /// As [`Runtime::edit`], after which these tasks are due and nothing else. [`StateEdit::as_node`] is not looked at. A run
    /// that waits for an answer is cancelled first.
    pub async fn edit_and_goto(
        &self,
        graph: &str,
        thread: &ThreadKey,
        at: Option<Seq>,
        edit: &StateEdit,
        targets: &[GotoTarget],
    ) -> Result<Seq, EngineError> {
        self.edit_at(graph, thread, at, edit, EditPlace::AtTargets(targets)).await
    }

    async fn edit_at(
        &self,
        graph: &str,
        thread: &ThreadKey,
        at: Option<Seq>,
        edit: &StateEdit,
        place: EditPlace<'_>,
    ) -> Result<Seq, EngineError> {
        let loaded = self.0.store.load(thread, at).await?;
        let edited = self.checked_edit(graph, at, edit, place, &loaded)?;
        let at_head = at.is_none_or(|at| at == loaded.head);
        match self.paused_run(thread).await? {
            Some(run) if at_head && place == EditPlace::Stay => self.edit_paused(&run, &loaded, edited).await,
            Some(run) if at_head || edit.cancel_paused => {
                self.cancel(&run.key()).await?;
                let older = at.filter(|_| !at_head);
                let loaded = self.0.store.load(thread, older).await?;
                self.append_edit(thread, older.unwrap_or(loaded.head), &loaded, &edited).await
            }
            _ => self.append_edit(thread, at.unwrap_or(loaded.head), &loaded, &edited).await,
        }
    }

    /// The entry of an edit, if the state can be read with it.
    fn checked_edit(
        &self,
        graph: &str,
        at: Option<Seq>,
        edit: &StateEdit,
        place: EditPlace<'_>,
        loaded: &LoadedLog,
    ) -> Result<log::StateEditedEntry, EngineError> {
        let registered = self.0.find_graph(graph)?;
        let bad = |source| MisuseError::BadInput { graph: graph.to_owned(), source };
        let update = edit.update.as_ref().map(to_raw_value).transpose().map_err(bad)?;
        if let Some(update) = &update {
            registered.check_update(update).map_err(bad)?;
        }
        let state = edit.state.as_ref().map(to_raw_value).transpose().map_err(bad)?;
        if let Some(state) = &state {
            stored_json::check_text_depth(state).map_err(bad)?;
        }
        let mut edited = log::StateEditedEntry { graph: Some(graph.to_owned()), state, update, at: None };
        let parent = at.unwrap_or(loaded.head);
        let try_out = LogEntry {
            seq: loaded.head + 1,
            parent,
            base: replay_base(loaded),
            run: None,
            at: 0,
            kind: EntryKind::Edited,
            body: log::to_json_bytes(&edited),
        };
        if let EditPlace::AfterNode(node) = place {
            edited.at = Some(registered.position_after_node(node, loaded, &try_out)?);
            return Ok(edited);
        }
        // Read it once as it will be read for ever, so that a wrong state is refused here.
        let mut with_edit = loaded.clone();
        with_edit.entries.push(try_out);
        registered.view(parent, &with_edit)?;
        if let EditPlace::AtTargets(targets) = place {
            edited.at = Some(registered.position_at_targets(targets)?);
        }
        Ok(edited)
    }

    async fn append_edit(
        &self,
        thread: &ThreadKey,
        parent: Seq,
        loaded: &LoadedLog,
        edited: &log::StateEditedEntry,
    ) -> Result<Seq, EngineError> {
        let entry = NewEntry {
            kind: EntryKind::Edited,
            body: log::to_json_bytes(edited),
            parent: Some(parent),
            base: replay_base(loaded),
            snapshot: None,
        };
        Ok(self.0.store.append_entry(thread, loaded.head, entry).await?)
    }

    /// The run of a thread that waits for an answer.
    async fn paused_run(&self, thread: &ThreadKey) -> Result<Option<RunRow>, EngineError> {
        let Some(run) = self.0.store.thread(thread).await?.active else { return Ok(None) };
        let run = self.0.store.run(&thread.run(run)).await?;
        Ok((run.status == RunStatus::Paused).then_some(run))
    }

    async fn edit_paused(
        &self,
        run: &RunRow,
        loaded: &LoadedLog,
        edited: log::StateEditedEntry,
    ) -> Result<Seq, EngineError> {
        let conflict = || StoreError::Conflict(format!("run `{}` went on", run.run));
        let newest =
            loaded.entries.last().filter(|entry| entry.kind == EntryKind::Paused).ok_or_else(conflict)?;
        let paused_before: log::RunPausedEntry = read_log_body(newest)?;
        let paused = log::RunPausedEntry { edit: Some(edited), ..paused_before };
        let signal = RunSignal::Edit { head: loaded.head, body: log::to_json_bytes(&paused) };
        self.0.report_unknown_write(self.0.store.signal(&run.key(), signal).await)?;
        Ok(loaded.head + 1)
    }

    /// Copies a thread to a new one that goes on from entry `at` (the newest when `None`). The source stays as it is.
    pub async fn fork(
        &self,
        from: &ThreadKey,
        at: Option<Seq>,
        to: &ThreadId,
    ) -> Result<ThreadKey, EngineError> {
        let store = &self.0.store;
        let loaded = store.load(from, at).await?;
        let stands = at.map(|at| NewEntry {
            kind: EntryKind::Edited,
            body: log::to_json_bytes(&log::StateEditedEntry::default()),
            parent: Some(at),
            base: replay_base(&loaded),
            snapshot: None,
        });
        Ok(store.copy_thread(from, to, stands).await?.key)
    }

    /// The open questions of a thread, with the run that asks.
    pub async fn open_questions(
        &self,
        thread: &ThreadKey,
    ) -> Result<Vec<(RunKey, PendingQuestion)>, EngineError> {
        let store = &self.0.store;
        loop {
            let row = store.thread(thread).await?;
            let Some(run) = row.active else { return Ok(Vec::new()) };
            let run = store.run(&thread.run(run)).await?;
            if run.status != RunStatus::Paused {
                return Ok(Vec::new());
            }
            let newest = store.entries(thread, row.head.saturating_sub(1), 2).await?;
            return match newest.as_slice() {
                [entry] if entry.kind == EntryKind::Paused => questions_in_entry(&run.key(), entry),
                // The thread went on between two looks at it.
                [_, _, ..] => continue,
                _ => {
                    let message = format!("run `{}` is paused without a question", run.run);
                    Err(StoreError::Damaged(message).into())
                }
            };
        }
    }
}

fn questions_in_entry(run: &RunKey, entry: &LogEntry) -> Result<Vec<(RunKey, PendingQuestion)>, EngineError> {
    let paused: log::RunPausedEntry = read_log_body(entry)?;
    Ok(paused.asks.into_iter().map(|ask| (run.clone(), ask)).collect())
}

/// What an entry after the loaded one starts its replay from.
fn replay_base(loaded: &LoadedLog) -> Seq {
    loaded.snapshot.as_ref().map_or(0, |(seq, _)| *seq)
}
