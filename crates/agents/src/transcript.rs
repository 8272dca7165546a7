//! One run as a conversation: words and activities in order, each once, whether they were seen live or read from the log
//! afterwards. Everything that shows a run is built on this.
//!
//! Pieces of a step in progress are shown early and are no record; the step is, and at last the turn that the run ended
//! with. What those hold and the pieces did not show is emitted when they come, so that a late watcher ends with the same.

use std::collections::{BTreeMap, HashMap, HashSet};

use doran_llm::{MessageId, Role};
use serde_json::Value;

use crate::agents::TurnUpdate;
use crate::history;
use crate::protocol::{AgentActivity, StepNotes};

/// Between two replies of one turn.
const REPLY_SEPARATOR: &str = "\n\n";

/// The next thing to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptChange {
    /// The next words of the answer.
    Text(String),
    /// Words that were emitted are void. Of all words so far only these stand; they are not emitted again.
    Reset {
        /// What stands.
        kept: String,
    },
    /// Something beside the words: a thought, a tool call, a result, sources.
    Activity(AgentActivity),
}

/// What a node did in a step, as far as it is emitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTranscript {
    node: String,
    /// The messages of the agent that it put on record.
    replies: Vec<(MessageId, String)>,
    activities: Vec<AgentActivity>,
}

impl TaskTranscript {
    /// Reads a task of a step: its update, its notes, and what its agent says of the update.
    pub fn new(
        node: &str,
        update: &Value,
        notes: &BTreeMap<String, Value>,
        turn: &TurnUpdate,
    ) -> Result<Self, serde_json::Error> {
        let messages = if turn.rewrites_messages { Vec::new() } else { history::messages_in_update(update)? };
        let replies = messages.into_iter().filter(|message| message.role == Role::Assistant);
        Ok(Self {
            node: node.to_owned(),
            replies: replies.map(|message| (message.id.clone(), message.text())).collect(),
            activities: StepNotes::from_notes(notes)?.events,
        })
    }
}

/// Turns the events of a run into transcript events.
#[derive(Debug, Default)]
pub struct TranscriptReducer {
    /// Of the step in progress, by node.
    pending: HashMap<String, PendingNodeReply>,
    /// All words that were emitted and not taken back.
    text: String,
    /// So many bytes of them are replies on record: what an agent says before it calls a tool stands, whatever becomes of
    /// the reply after it.
    settled_bytes: usize,
    /// The messages on record. A node that puts one again, shortened for later turns, says nothing new.
    recorded: HashSet<MessageId>,
}

#[derive(Debug, Default)]
struct PendingNodeReply {
    /// The words of its reply so far. A tool call ends one reply, and another may follow in the same step.
    text: String,
    /// The replies that a tool call ended.
    ended: Vec<String>,
    activity_count: usize,
    /// What was settled before its first words: so much stands if its try is void.
    settled_before: Option<usize>,
}

impl TranscriptReducer {
    /// A node shows the next words.
    pub fn add_text(&mut self, node: &str, words: &str) -> Vec<TranscriptChange> {
        let mut changes = Vec::new();
        let settled = self.settled_bytes;
        let open = self.pending.entry(node.to_owned()).or_default();
        open.settled_before = open.settled_before.or(Some(settled));
        open.text.push_str(words);
        self.push_text(words, &mut changes);
        changes
    }

    /// A node shows something beside words.
    pub fn add_activity(&mut self, node: &str, activity: AgentActivity) -> Vec<TranscriptChange> {
        let open = self.pending.entry(node.to_owned()).or_default();
        open.activity_count += 1;
        if activity.is_tool_call() {
            if !open.text.is_empty() {
                open.ended.push(std::mem::take(&mut open.text));
            }
            self.settled_bytes = self.text.len();
        }
        vec![TranscriptChange::Activity(activity)]
    }

    /// A node is tried again: what its earlier try showed is void.
    pub fn restart_node(&mut self, node: &str) -> Vec<TranscriptChange> {
        let open = self.pending.remove(node);
        self.void_since(open.and_then(|open| open.settled_before))
    }

    /// The run goes on after a crash: what the step in progress had shown is void.
    pub fn restart_run(&mut self) -> Vec<TranscriptChange> {
        let before = self.pending.values().filter_map(|open| open.settled_before).min();
        self.pending.clear();
        self.void_since(before)
    }

    /// A step is on record. One inside a node is not yet the end of that node.
    pub fn add_step(&mut self, tasks: Vec<TaskTranscript>, is_inner: bool) -> Vec<TranscriptChange> {
        let mut changes = Vec::new();
        for task in tasks {
            self.add_task(task, &mut changes);
        }
        if !is_inner {
            self.pending.clear();
        }
        changes
    }

    /// What is left to tell of the answer that the run ended with.
    pub fn finish(&mut self, response: &str) -> Vec<TranscriptChange> {
        let mut changes = Vec::new();
        if self.text.trim_end().ends_with(response.trim_end()) {
            return changes;
        }
        if let Some(rest) = response.strip_prefix(&self.text[self.settled_bytes..]) {
            self.push_text(rest, &mut changes);
        } else {
            self.discard_unsettled(&mut changes);
            self.push_text(response, &mut changes);
        }
        changes
    }

    /// Tells words. Two replies do not run into one another.
    fn push_text(&mut self, words: &str, changes: &mut Vec<TranscriptChange>) {
        if words.is_empty() {
            return;
        }
        let runs_on = self.text.len() > self.settled_bytes || words.starts_with(char::is_whitespace);
        if !runs_on && self.text.ends_with(|last: char| !last.is_whitespace()) {
            self.text.push_str(REPLY_SEPARATOR);
            self.settled_bytes = self.text.len();
            changes.push(TranscriptChange::Text(REPLY_SEPARATOR.to_owned()));
        }
        self.text.push_str(words);
        changes.push(TranscriptChange::Text(words.to_owned()));
    }

    fn void_since(&mut self, settled_before: Option<usize>) -> Vec<TranscriptChange> {
        let mut changes = Vec::new();
        if let Some(before) = settled_before {
            self.settled_bytes = before;
            self.discard_unsettled(&mut changes);
        }
        changes
    }

    /// Takes back what is on no record.
    fn discard_unsettled(&mut self, changes: &mut Vec<TranscriptChange>) {
        self.settled_bytes = self.text.floor_char_boundary(self.settled_bytes);
        self.text.truncate(self.settled_bytes);
        changes.push(TranscriptChange::Reset { kept: self.text.clone() });
    }

    fn add_task(&mut self, task: TaskTranscript, changes: &mut Vec<TranscriptChange>) {
        let open = self.pending.remove(&task.node).unwrap_or_default();
        let unseen: Vec<AgentActivity> = task.activities.into_iter().skip(open.activity_count).collect();
        let mut replies: Vec<String> = Vec::new();
        for (id, text) in task.replies {
            let was_told = open.ended.iter().any(|ended| ended.trim() == text.trim());
            if self.recorded.insert(id) && !was_told && !text.is_empty() {
                replies.push(text);
            }
        }
        let is_cut_off = unseen.iter().any(AgentActivity::is_tool_call);
        let unseen = unseen.into_iter().map(TranscriptChange::Activity);
        if open.text.is_empty() {
            changes.extend(unseen);
            self.add_replies(&replies, changes);
        } else if self.settle_reply(&open.text, &replies.concat(), changes) || !is_cut_off {
            changes.extend(unseen);
        } else {
            // A reply that ended in a tool call, of which only the last one of the step is on record: it was cut off here.
            self.push_text("…", changes);
            changes.extend(unseen);
            self.add_replies(&replies, changes);
        }
    }

    /// Emits replies on record of which no word was streamed.
    fn add_replies(&mut self, replies: &[String], changes: &mut Vec<TranscriptChange>) {
        for reply in replies {
            self.settled_bytes = self.text.len();
            self.push_text(reply, changes);
            self.settled_bytes = self.text.len();
        }
    }

    /// The words of a node are on record: those that were not streamed in time are emitted now. Whether they are.
    fn settle_reply(&mut self, seen: &str, replies: &str, changes: &mut Vec<TranscriptChange>) -> bool {
        match replies.strip_prefix(seen) {
            Some(rest) => self.push_text(rest, changes),
            None if replies.trim() == seen.trim() => {}
            // Words that are on no record: how the turn ended decides about them.
            None => return false,
        }
        self.settled_bytes = self.text.len();
        true
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
