//! The whole conversation of a thread. Agents work with the newest messages and with summaries of the rest; nothing
//! that was said is lost, because the log keeps every update, and here they are read again.

use std::collections::HashMap;

use doran_engine::state::{ItemChange, ItemChanges};
use doran_engine::store::{Seq, StoreError};
use doran_engine::{EngineError, EntryBody, Runtime, ThreadEntry, ThreadKey, stored_json};
use doran_llm::{Message, MessageId, MessagePart};
use serde::{Deserialize, Serialize};

use crate::agents::Agent;
use crate::citation_numbering::CitationNumbering;
use crate::source::AnswerSource;

/// Entries read in one go.
const ENTRIES_PER_PAGE: usize = 256;

/// A message as it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    /// The message.
    pub message: Message,
    /// What it rests on.
    pub sources: Vec<AnswerSource>,
    /// The run it belongs to.
    pub run: Option<String>,
    /// The entry of the log that holds it.
    pub seq: Seq,
    /// When that was written, in milliseconds since 1970.
    pub at: i64,
}

impl HistoryMessage {
    /// The message with its sources counted as people count them: from 1, as its words name them.
    #[must_use]
    pub fn with_renumbered_sources(mut self) -> Self {
        let mut cited = CitationNumbering::default();
        cited.add_source_numbers(self.sources.iter().map(|source| source.number));
        for part in &mut self.message.parts {
            if let MessagePart::Text { text, .. } = part {
                let counted = cited.push_text(text);
                *text = counted + &cited.finish_text();
            }
        }
        self.sources = cited.renumber_sources(&self.sources);
        self
    }
}

/// What an update of any agent says: the part that all of them share. `sources` is only read where the agent is not
/// there any more, or became another under the same name, and cannot say what its update means.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SharedAgentUpdate {
    messages: Option<ItemChanges<Message>>,
    sources: Vec<AnswerSource>,
}

/// The messages that the update of a node, or the input of a run, brings.
pub fn messages_in_update(update: &serde_json::Value) -> Result<Vec<Message>, serde_json::Error> {
    let changes = SharedAgentUpdate::deserialize(update)?.messages;
    let put = changes.into_iter().flat_map(|changes| changes.0).filter_map(|change| match change {
        ItemChange::Put(message) => Some(message),
        ItemChange::Remove(_) | ItemChange::Clear => None,
    });
    Ok(put.collect())
}

/// All that was said on a thread, along the branch that leads to its newest entry. The agents say what their answers
/// rest on.
pub async fn read_history(
    runtime: &Runtime,
    thread: &ThreadKey,
    agents: &[Agent],
) -> Result<Vec<HistoryMessage>, EngineError> {
    let mut entries = Vec::new();
    loop {
        let after = entries.last().map_or(0, |last: &ThreadEntry| last.seq);
        let page = runtime.entries(thread, after, ENTRIES_PER_PAGE).await?;
        if page.is_empty() {
            return Ok(messages_from_entries(&entries, agents)?);
        }
        entries.extend(page);
    }
}

/// What was said, by the entries of a thread from its first.
///
/// Nodes change the working messages: they shorten and remove. None of that unsays a word. Only a person who edits the
/// thread does.
pub fn messages_from_entries(
    entries: &[ThreadEntry],
    agents: &[Agent],
) -> Result<Vec<HistoryMessage>, StoreError> {
    let mut said = HistoryBuilder { agents, agent: None, messages: Vec::new(), index_by_id: HashMap::new() };
    for entry in newest_branch(entries) {
        said.apply_entry(entry)
            .map_err(|error| StoreError::Damaged(format!("entry {}: {error}", entry.seq)))?;
    }
    Ok(said.messages)
}

/// The entries that lead to the newest one.
fn newest_branch(entries: &[ThreadEntry]) -> Vec<&ThreadEntry> {
    let by_seq: HashMap<Seq, &ThreadEntry> = entries.iter().map(|entry| (entry.seq, entry)).collect();
    let mut branch = Vec::new();
    let mut next = entries.last();
    while let Some(entry) = next {
        branch.push(entry);
        next = by_seq.get(&entry.parent).copied().filter(|parent| parent.seq < entry.seq);
    }
    branch.reverse();
    branch
}

/// Who changes messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeAuthor {
    Node,
    Person,
}

struct HistoryBuilder<'a> {
    agents: &'a [Agent],
    /// Whose run the entries belong to.
    agent: Option<&'a Agent>,
    messages: Vec<HistoryMessage>,
    index_by_id: HashMap<MessageId, usize>,
}

impl HistoryBuilder<'_> {
    fn apply_entry(&mut self, entry: &ThreadEntry) -> Result<(), serde_json::Error> {
        match &entry.body {
            EntryBody::Started { graph, input, .. } => {
                self.agent = self.agents.iter().find(|agent| agent.name == *graph);
                if let Some(update) = input {
                    self.apply_update(entry, update.get(), ChangeAuthor::Node)?;
                }
            }
            EntryBody::Step(step) => {
                for task in &step.tasks {
                    self.apply_update(entry, task.update.get(), ChangeAuthor::Node)?;
                }
            }
            EntryBody::Edited { state, update } => {
                if let Some(update) = update {
                    self.apply_update(entry, update.get(), ChangeAuthor::Person)?;
                }
                if let Some(state) = state {
                    self.apply_state(entry, state.get())?;
                }
            }
            EntryBody::InnerStep(_)
            | EntryBody::Paused { .. }
            | EntryBody::Resumed { .. }
            | EntryBody::Restarted { .. }
            | EntryBody::Finished
            | EntryBody::Failed { .. }
            | EntryBody::Cancelled { .. } => {}
        }
        Ok(())
    }

    fn apply_update(
        &mut self,
        entry: &ThreadEntry,
        update: &str,
        by: ChangeAuthor,
    ) -> Result<(), serde_json::Error> {
        let SharedAgentUpdate { messages, sources } = stored_json::from_str(update)?;
        let mut newest = None;
        for change in messages.into_iter().flat_map(|changes| changes.0) {
            match change {
                ItemChange::Put(message) => newest = self.put(entry, message, by).or(newest),
                ItemChange::Remove(id) if by == ChangeAuthor::Person => self.remove(&MessageId::new(id)),
                ItemChange::Clear if by == ChangeAuthor::Person => {
                    self.messages.clear();
                    self.index_by_id.clear();
                }
                ItemChange::Remove(_) | ItemChange::Clear => {}
            }
        }
        if let Some(place) = newest {
            let sources = match self.agent.map(|agent| agent.read_update(update)) {
                Some(Ok(turn)) => turn.sources,
                Some(Err(error)) => {
                    tracing::warn!(%error, seq = entry.seq, "an update does not fit the agent of its name");
                    sources
                }
                None => sources,
            };
            if !sources.is_empty() {
                self.messages[place].sources = sources;
            }
        }
        Ok(())
    }

    /// The messages of a state that somebody wrote: new wordings count, and nothing that it lacks is unsaid, because
    /// a state never holds all of a long conversation.
    fn apply_state(&mut self, entry: &ThreadEntry, state: &str) -> Result<(), serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct StateMessages {
            messages: Vec<Message>,
        }
        for message in stored_json::from_str::<StateMessages>(state)?.messages {
            self.put(entry, message, ChangeAuthor::Person);
        }
        Ok(())
    }

    fn put(&mut self, entry: &ThreadEntry, message: Message, by: ChangeAuthor) -> Option<usize> {
        match self.index_by_id.get(&message.id).copied() {
            Some(place) => {
                if by == ChangeAuthor::Person {
                    self.messages[place].message = message;
                }
                None
            }
            None => {
                let place = self.messages.len();
                self.index_by_id.insert(message.id.clone(), place);
                let run = entry.run.map(|run| run.to_string());
                self.messages.push(HistoryMessage {
                    message,
                    sources: Vec::new(),
                    run,
                    seq: entry.seq,
                    at: entry.at,
                });
                Some(place)
            }
        }
    }

    fn remove(&mut self, id: &MessageId) {
        self.messages.retain(|said| said.message.id != *id);
        self.index_by_id =
            self.messages.iter().enumerate().map(|(at, said)| (said.message.id.clone(), at)).collect();
    }
}
