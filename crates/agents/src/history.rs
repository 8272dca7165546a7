//! The whole conversation of a thread. Agents work with the newest messages and with summaries of the rest; nothing
//! that was said is lost, because the log keeps every update, and here they are read again.

use std::collections::HashMap;

use doran_engine::ThreadKey;
use doran_engine::log::{Body, TaskDone};
use doran_engine::state::{Change, Changes};
use doran_engine::store::{Entry, Seq, Store, StoreError};
use doran_llm::{Message, MessageId, Part, Role};
use serde::{Deserialize, Serialize};

use crate::cited::Cited;
use crate::source::Source;

/// Entries read in one go.
const PAGE: usize = 256;

/// A message as it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The message.
    pub message: Message,
    /// What it rests on.
    pub sources: Vec<Source>,
    /// The run it belongs to.
    pub run: Option<String>,
    /// The entry of the log that holds it.
    pub seq: Seq,
    /// When that was written, in milliseconds since 1970.
    pub at: i64,
}

impl Said {
    /// The message with its sources counted as people count them: from 1, as its words name them.
    #[must_use]
    pub fn counted(mut self) -> Self {
        let mut cited = Cited::default();
        cited.learn(self.sources.iter().map(|source| source.number));
        for part in &mut self.message.parts {
            if let Part::Text { text, .. } = part {
                let counted = cited.pass(text);
                *text = counted + &cited.rest();
            }
        }
        self.sources = cited.counted(&self.sources);
        self
    }
}

/// What an update of any agent says: the part that all of them share.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Update {
    messages: Option<Changes<Message>>,
    sources: Vec<Source>,
}

/// The messages and sources that the update of a node, or the input of a run, brings.
pub fn said_in(update: &serde_json::Value) -> Result<Vec<(Message, Vec<Source>)>, serde_json::Error> {
    let Update { messages, sources } = Update::deserialize(update)?;
    let put = messages.into_iter().flat_map(|changes| changes.0).filter_map(|change| match change {
        Change::Put(message) => Some(message),
        Change::Remove(_) | Change::Clear => None,
    });
    let mut said: Vec<(Message, Vec<Source>)> = put.map(|message| (message, Vec::new())).collect();
    if let Some((_, last)) = said.last_mut() {
        *last = sources;
    }
    Ok(said)
}

/// The words that the agent says in the update of a node, one reply after the other.
pub fn replies_in(update: &serde_json::Value) -> Result<String, serde_json::Error> {
    let said = said_in(update)?;
    let replies = said.iter().map(|(message, _)| message).filter(|message| message.role == Role::Assistant);
    Ok(replies.map(Message::text).collect())
}

/// All that was said on a thread, along the branch that leads to its newest entry.
pub async fn read(store: &dyn Store, thread: &ThreadKey) -> Result<Vec<Said>, StoreError> {
    let mut entries = Vec::new();
    loop {
        let after = entries.last().map_or(0, |last: &Entry| last.seq);
        let page = store.entries(thread, after, PAGE).await?;
        if page.is_empty() {
            return messages(&entries);
        }
        entries.extend(page);
    }
}

/// What was said, by the entries of a thread from its first.
///
/// Nodes change the working messages: they shorten and remove. None of that unsays a word. Only a person who edits the
/// thread does.
pub fn messages(entries: &[Entry]) -> Result<Vec<Said>, StoreError> {
    let mut said = Conversation::default();
    for entry in branch(entries) {
        said.take(entry).map_err(|error| StoreError::Damaged(format!("entry {}: {error}", entry.seq)))?;
    }
    Ok(said.messages)
}

/// The entries that lead to the newest one.
fn branch(entries: &[Entry]) -> Vec<&Entry> {
    let by_seq: HashMap<Seq, &Entry> = entries.iter().map(|entry| (entry.seq, entry)).collect();
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
enum By {
    Node,
    Person,
}

#[derive(Default)]
struct Conversation {
    messages: Vec<Said>,
    places: HashMap<MessageId, usize>,
}

impl Conversation {
    fn take(&mut self, entry: &Entry) -> Result<(), serde_json::Error> {
        match entry.read()? {
            Body::Started(started) => {
                if let Some(update) = &started.update {
                    self.fold(entry, update.get(), By::Node)?;
                }
            }
            Body::Step(step) => {
                for TaskDone { update, .. } in &step.tasks {
                    self.fold(entry, update.get(), By::Node)?;
                }
            }
            Body::Edited(edited) => {
                if let Some(update) = &edited.update {
                    self.fold(entry, update.get(), By::Person)?;
                }
                if let Some(state) = &edited.state {
                    self.set(entry, state.get())?;
                }
            }
            Body::Inner(_)
            | Body::Paused(_)
            | Body::Resumed(_)
            | Body::Restarted(_)
            | Body::Finished
            | Body::Failed(_)
            | Body::Cancelled(_) => {}
        }
        Ok(())
    }

    fn fold(&mut self, entry: &Entry, update: &str, by: By) -> Result<(), serde_json::Error> {
        let Update { messages, sources } = serde_json::from_str(update)?;
        let mut newest = None;
        for change in messages.into_iter().flat_map(|changes| changes.0) {
            match change {
                Change::Put(message) => newest = self.put(entry, message, by).or(newest),
                Change::Remove(id) if by == By::Person => self.remove(&MessageId::new(id)),
                Change::Clear if by == By::Person => *self = Self::default(),
                Change::Remove(_) | Change::Clear => {}
            }
        }
        if let Some(place) = newest
            && !sources.is_empty()
        {
            self.messages[place].sources = sources;
        }
        Ok(())
    }

    /// The messages of a state that somebody wrote: new wordings count, and nothing that it lacks is unsaid, because
    /// a state never holds all of a long conversation.
    fn set(&mut self, entry: &Entry, state: &str) -> Result<(), serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Held {
            messages: Vec<Message>,
        }
        for message in serde_json::from_str::<Held>(state)?.messages {
            self.put(entry, message, By::Person);
        }
        Ok(())
    }

    fn put(&mut self, entry: &Entry, message: Message, by: By) -> Option<usize> {
        match self.places.get(&message.id).copied() {
            Some(place) => {
                if by == By::Person {
                    self.messages[place].message = message;
                }
                None
            }
            None => {
                let place = self.messages.len();
                self.places.insert(message.id.clone(), place);
                let run = entry.run.map(|run| run.to_string());
                self.messages.push(Said { message, sources: Vec::new(), run, seq: entry.seq, at: entry.at });
                Some(place)
            }
        }
    }

    fn remove(&mut self, id: &MessageId) {
        self.messages.retain(|said| said.message.id != *id);
        self.places =
            self.messages.iter().enumerate().map(|(at, said)| (said.message.id.clone(), at)).collect();
    }
}
