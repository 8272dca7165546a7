//! Messages as the stream modes have them: their words as they come, and no word twice.

use std::collections::{BTreeSet, HashSet};

use doran_engine::runtime::NodeDelta;
use serde_json::{Value, json};

use super::messages::{message_chunk, partial_message};
use super::run_events::{LangGraphEvent, StreamMode};
use super::sent_messages::{MessageEnd, NewWords, SentMessages};

/// Tells of the messages of a run.
pub(super) struct MessageEvents {
    wants_whole: bool,
    wants_pieces: bool,
    /// Messages that clients have, or had before.
    pub(super) known: HashSet<String>,
    pub(super) sent: SentMessages,
}

/// Where a message comes from.
pub(super) struct MessageSource {
    /// The id of the task. It stands for the id of a message whose node did not say of which message its words are.
    pub(super) task: String,
    pub(super) metadata: Value,
}

impl MessageEvents {
    pub(super) fn new(modes: &BTreeSet<StreamMode>) -> Self {
        Self {
            wants_whole: modes.contains(&StreamMode::Messages),
            wants_pieces: modes.contains(&StreamMode::MessagesTuple),
            known: HashSet::new(),
            sent: SentMessages::default(),
        }
    }

    /// A piece of a message.
    pub(super) fn push(
        &mut self,
        source: &MessageSource,
        delta: &NodeDelta,
        text: &str,
        events: &mut Vec<LangGraphEvent>,
    ) {
        let id = delta.item.as_deref().unwrap_or(&source.task);
        let before = self.sent.to_text();
        let Some(new) = self.sent.push(id, &delta.path, text) else { return };
        let so_far = partial_message(&new.id, self.sent.text(id));
        let chunk = message_chunk(&new.id, &new.words, false);
        self.push_events(source, &new, ("messages/partial", so_far), &chunk, before, events);
    }

    /// A message is on record: what was not sent of it is sent now.
    pub(super) fn finish(
        &mut self,
        source: &MessageSource,
        mut message: Value,
        events: &mut Vec<LangGraphEvent>,
    ) {
        let Some(id) = message["id"].as_str().map(str::to_owned) else { return };
        if message["type"] == "remove" || !self.known.insert(id.clone()) {
            return;
        }
        let text = message["content"].as_str().unwrap_or_default().to_owned();
        let before = self.sent.to_text();
        if let Some(new) = self.sent.finish_under(&source.task, &id, &text) {
            if !new.words.is_empty() {
                let chunk = message_chunk(&new.id, &new.words, false);
                let whole = partial_message(&new.id, &text);
                self.push_events(source, &new, ("messages/partial", whole), &chunk, before, events);
            }
            return;
        }
        match self.sent.finish(&id, &text) {
            MessageEnd::Nothing => {}
            MessageEnd::Rest(new) => {
                let mut last = message_chunk(&new.id, &new.words, true);
                last["tool_calls"] = message["tool_calls"].clone();
                last["tool_call_chunks"] = tool_call_chunks(&message);
                message["id"] = new.id.as_str().into();
                self.push_events(source, &new, ("messages/partial", message), &last, before, events);
            }
            MessageEnd::Whole(id) => {
                message["id"] = id.as_str().into();
                let new = NewWords { id, words: text, is_first: true };
                self.push_events(
                    source,
                    &new,
                    ("messages/complete", message.clone()),
                    &message,
                    before,
                    events,
                );
            }
        }
    }

    /// The events of one change. Only with the last of them the client has it all.
    fn push_events(
        &self,
        source: &MessageSource,
        new: &NewWords,
        (name, whole): (&str, Value),
        piece: &Value,
        before: String,
        events: &mut Vec<LangGraphEvent>,
    ) {
        let begin = events.len();
        if self.wants_whole {
            if new.is_first {
                let metadata = json!({ &new.id: { "metadata": source.metadata } });
                events.push(LangGraphEvent::of_message("messages/metadata", metadata, before.clone()));
            }
            events.push(LangGraphEvent::of_message(name, json!([whole]), before.clone()));
        }
        if self.wants_pieces {
            let data = json!([piece, source.metadata]);
            events.push(LangGraphEvent::of_message("messages", data, before));
        }
        if let Some(last) = events[begin..].last_mut() {
            last.sent = Some(self.sent.to_text());
        }
    }
}

fn tool_call_chunks(message: &Value) -> Value {
    let calls = message["tool_calls"].as_array().into_iter().flatten().enumerate();
    let chunk = |(index, call): (usize, &Value)| {
        json!({
            "name": call["name"], "args": call["args"].to_string(), "id": call["id"], "index": index,
            "type": "tool_call_chunk",
        })
    };
    calls.map(chunk).collect()
}
