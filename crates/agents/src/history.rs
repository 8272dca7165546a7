//! The whole conversation of a thread, read from the log. Agents work with the newest messages and with summaries of the rest;
//! the log has everything.

use std::collections::{HashMap, HashSet};

use doran_engine::state::{ItemChange, ItemChanges};
use doran_engine::store::{Seq, StoreError};
use doran_engine::{EngineError, EntryBody, Runtime, StateChange, ThreadEntry, ThreadKey, stored_json};
use doran_llm::{Message, MessageId, MessagePart, Role};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::agents::Agent;
use crate::citation_numbering::CitationNumbering;
use crate::protocol::StepNotes;
use crate::source::AnswerSource;
use crate::state::is_chat_instructions;

/// Entries read in one go.
const ENTRIES_PER_PAGE: usize = 256;

/// A message as it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    /// The message.
    pub message: Message,
    /// What it rests on.
    pub sources: Vec<AnswerSource>,
    /// The model that wrote it; none for words of people and of the program.
    pub model: Option<String>,
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
    #[serde(deserialize_with = "message_changes")]
    messages: Option<ItemChanges<Message>>,
    sources: Vec<AnswerSource>,
}

/// A graph of somebody's own may call anything `messages`. What does not look like changes to messages is none.
fn message_changes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ItemChanges<Message>>, D::Error> {
    let value = Value::deserialize(from)?;
    let is_message = |item: &Value| item.get("role").is_some() && item.get("parts").is_some();
    let is_change = |change: &Value| match change {
        Value::Object(_) => change.get("put").is_none_or(is_message),
        other => other == "clear",
    };
    match &value {
        Value::Array(changes) if changes.iter().all(is_change) => {
            serde_json::from_value(value).map(Some).map_err(D::Error::custom)
        }
        _ => Ok(None),
    }
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

/// All messages of a thread, along the branch that leads to its newest entry. The agents say what their answers
/// rest on.
pub async fn read_history(
    runtime: &Runtime,
    thread: &ThreadKey,
    agents: &[Agent],
) -> Result<Vec<HistoryMessage>, EngineError> {
    Ok(messages_from_entries(&read_entries(runtime, thread, None).await?, agents)?)
}

/// The entries of a thread from its first, up to the entry `until` where one is given.
pub async fn read_entries(
    runtime: &Runtime,
    thread: &ThreadKey,
    until: Option<Seq>,
) -> Result<Vec<ThreadEntry>, EngineError> {
    let mut entries = Vec::new();
    loop {
        let after = entries.last().map_or(0, |last: &ThreadEntry| last.seq);
        let page = runtime.entries(thread, after, ENTRIES_PER_PAGE).await?;
        let is_last = page.is_empty();
        entries.extend(page);
        if let Some(until) = until
            && entries.last().is_some_and(|last| last.seq >= until)
        {
            entries.retain(|entry| entry.seq <= until);
            return Ok(entries);
        }
        if is_last {
            return Ok(entries);
        }
    }
}

/// What was said, by the entries of a thread from its first.
///
/// Nodes change the messages of the state: they shorten and remove. None of that unsays a word. Only a person who edits the
/// thread does. A state that a person writes unsays the messages that the state had and lacks now. What nodes had removed
/// before stays.
pub fn messages_from_entries(
    entries: &[ThreadEntry],
    agents: &[Agent],
) -> Result<Vec<HistoryMessage>, StoreError> {
    let mut history = HistoryBuilder {
        agents,
        agent: None,
        messages: Vec::new(),
        index_by_id: HashMap::new(),
        in_state: HashSet::new(),
    };
    for entry in newest_branch(entries) {
        history
            .apply_entry(entry)
            .map_err(|error| StoreError::Damaged(format!("entry {}: {error}", entry.seq)))?;
    }
    Ok(history.messages)
}

/// The entries that lead to the newest one.
pub(crate) fn newest_branch(entries: &[ThreadEntry]) -> Vec<&ThreadEntry> {
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
enum ChangeAuthor<'a> {
    /// A node, with the model that wrote its words.
    Node(Option<&'a str>),
    Person,
}

struct HistoryBuilder<'a> {
    agents: &'a [Agent],
    /// Whose run the entries belong to.
    agent: Option<&'a Agent>,
    messages: Vec<HistoryMessage>,
    index_by_id: HashMap<MessageId, usize>,
    /// The messages that the state has.
    in_state: HashSet<MessageId>,
}

impl HistoryBuilder<'_> {
    fn apply_entry(&mut self, entry: &ThreadEntry) -> Result<(), serde_json::Error> {
        match &entry.body {
            EntryBody::Started { graph, input, .. } => {
                self.agent = self.agents.iter().find(|agent| agent.name == *graph);
                if let Some(update) = input {
                    self.apply_update(entry, update.get(), ChangeAuthor::Node(None))?;
                }
            }
            EntryBody::Step(step) => {
                for task in &step.tasks {
                    let notes = StepNotes::from_notes(&task.notes)?;
                    let author = ChangeAuthor::Node(notes.answering_model());
                    self.apply_update(entry, task.update.get(), author)?;
                }
            }
            EntryBody::Edited(StateChange { state, update, .. })
            | EntryBody::Paused { edit: Some(StateChange { state, update, .. }), .. } => {
                if let Some(update) = update {
                    self.apply_update(entry, update.get(), ChangeAuthor::Person)?;
                }
                if let Some(state) = state {
                    self.apply_state(entry, state.get())?;
                }
            }
            EntryBody::InnerStep(_)
            | EntryBody::Paused { edit: None, .. }
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
        by: ChangeAuthor<'_>,
    ) -> Result<(), serde_json::Error> {
        let SharedAgentUpdate { messages, sources } = stored_json::from_str(update)?;
        let mut newest = None;
        for change in messages.into_iter().flat_map(|changes| changes.0) {
            match change {
                ItemChange::Put(message) => {
                    self.in_state.insert(message.id.clone());
                    newest = self.put(entry, message, by).or(newest);
                }
                ItemChange::Remove(id) => {
                    let id = MessageId::new(id);
                    self.in_state.remove(&id);
                    if by == ChangeAuthor::Person {
                        self.remove(&id);
                    }
                }
                ItemChange::Clear => {
                    self.in_state.clear();
                    if by == ChangeAuthor::Person {
                        self.messages.clear();
                        self.index_by_id.clear();
                    }
                }
            }
        }
        if let Some(place) = newest {
            let sources = match self.agent.map(|agent| agent.read_update(update)) {
                Some(Ok(turn)) => turn.sources,
                Some(Err(error)) => {
                    tracing::warn!(%error, seq = entry.seq, "cannot read an update with the agent of this name; the agent may have changed since the run");
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

    /// The messages of a state that somebody wrote. What the state had and lacks now is unsaid. What nodes had removed from it
    /// before stays, because a state never holds all of a long conversation.
    fn apply_state(&mut self, entry: &ThreadEntry, state: &str) -> Result<(), serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct StateMessages {
            messages: Vec<Message>,
        }
        let messages = stored_json::from_str::<StateMessages>(state)?.messages;
        let kept: HashSet<MessageId> = messages.iter().map(|message| message.id.clone()).collect();
        for unsaid in std::mem::replace(&mut self.in_state, kept) {
            if !self.in_state.contains(&unsaid) {
                self.remove(&unsaid);
            }
        }
        for message in messages {
            self.put(entry, message, ChangeAuthor::Person);
        }
        Ok(())
    }

    fn put(&mut self, entry: &ThreadEntry, message: Message, by: ChangeAuthor<'_>) -> Option<usize> {
        // They are a setting of the chat that nobody said.
        if is_chat_instructions(&message) {
            return None;
        }
        match self.index_by_id.get(&message.id).copied() {
            Some(place) => {
                if by == ChangeAuthor::Person {
                    let model = self.messages[place].model.take();
                    self.messages[place].model = model.filter(|_| self.messages[place].message == message);
                    self.messages[place].message = message;
                }
                None
            }
            None => {
                let place = self.messages.len();
                self.index_by_id.insert(message.id.clone(), place);
                let run = entry.run.map(|run| run.to_string());
                let model = match by {
                    ChangeAuthor::Node(model) if message.role == Role::Assistant => model.map(str::to_owned),
                    ChangeAuthor::Node(_) | ChangeAuthor::Person => None,
                };
                self.messages.push(HistoryMessage {
                    message,
                    sources: Vec::new(),
                    model,
                    run,
                    seq: entry.seq,
                    at: entry.at,
                });
                Some(place)
            }
        }
    }

    fn remove(&mut self, id: &MessageId) {
        self.messages.retain(|entry| entry.message.id != *id);
        self.index_by_id =
            self.messages.iter().enumerate().map(|(at, entry)| (entry.message.id.clone(), at)).collect();
    }
}
