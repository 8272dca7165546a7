//! What a conversation carries: its messages, the passages found for the newest question, and what answers quote.

use std::collections::BTreeMap;

use doran_engine::State;
use doran_engine::state::{Change, Changes, Reduce};
use doran_llm::{Message, Role};
use doran_retrieval::Hit;
use serde::{Deserialize, Serialize};

/// The state of a chat.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatState {
    /// The conversation, oldest first.
    #[reduce(rule = ByMessageId)]
    pub messages: Vec<Message>,
    /// What was found for the newest question, numbered from 1.
    pub passages: Vec<Citation>,
    /// What an answer quotes, by the id of its message.
    #[reduce(merge)]
    pub citations: BTreeMap<String, Vec<Citation>>,
}

/// A passage under the number by which an answer cites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// `[1]` in an answer means the citation numbered 1.
    pub number: u32,
    /// The document.
    pub document: String,
    /// The passage within it.
    pub passage: String,
    /// What a person calls the place: document and headings.
    pub title: String,
    /// The words, exactly those of the document.
    pub text: String,
}

impl ChatState {
    /// The newest message of the person.
    pub fn question(&self) -> Option<&Message> {
        self.messages.iter().rev().find(|message| message.role == Role::User)
    }
}

impl ChatStateUpdate {
    /// What a person typed, as the input of a run.
    pub fn asked(text: &str) -> Self {
        Self::default().messages(Message::user(uuid::Uuid::now_v7().to_string(), text))
    }
}

impl Citation {
    /// The hits of one search, numbered from 1.
    pub(crate) fn numbered(hits: Vec<Hit>) -> Vec<Self> {
        let number = |(hit, number): (Hit, u32)| Self {
            number,
            document: hit.passage.document.to_string(),
            passage: hit.passage.id.to_string(),
            title: hit.passage.title,
            text: hit.passage.text,
        };
        hits.into_iter().zip(1..).map(number).collect()
    }

    /// Those of `found` that `answer` names, in their order.
    pub(crate) fn named_in(answer: &str, found: &[Self]) -> Vec<Self> {
        found.iter().filter(|one| answer.contains(&format!("[{}]", one.number))).cloned().collect()
    }
}

/// Messages are known by their id: a new one is appended, a known one replaced in place, and any can be removed.
#[derive(Debug)]
pub struct ByMessageId;

impl Reduce<Vec<Message>> for ByMessageId {
    type Change = Changes<Message>;

    fn fold(field: &mut Vec<Message>, change: Changes<Message>) {
        for one in change.0 {
            match one {
                Change::Put(message) => match field.iter_mut().rev().find(|old| old.id == message.id) {
                    Some(old) => *old = message,
                    None => field.push(message),
                },
                Change::Remove(id) => field.retain(|old| old.id.as_str() != id),
                Change::Clear => field.clear(),
            }
        }
    }

    fn join(earlier: &mut Changes<Message>, later: Changes<Message>) {
        earlier.0.extend(later.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citation(number: u32) -> Citation {
        let text = String::new;
        Citation { number, document: text(), passage: text(), title: text(), text: text() }
    }

    #[test]
    fn messages_are_appended_replaced_in_place_and_removed_by_id() {
        let mut state = ChatState::default();
        state.apply(ChatState::update().messages(vec![Message::user("a", "1"), Message::user("b", "2")]));
        state.apply(ChatState::update().messages(Message::user("a", "3")));
        state.apply(ChatState::update().messages(Changes::remove(["b"])));
        state.apply(ChatState::update().messages(Message::assistant("c", "4")));
        assert_eq!(state.messages, [Message::user("a", "3"), Message::assistant("c", "4")]);
        assert_eq!(state.question(), Some(&Message::user("a", "3")));
    }

    #[test]
    fn only_what_an_answer_names_is_cited() {
        let found = [citation(1), citation(2), citation(12)];
        let numbers = |answer: &str| -> Vec<u32> {
            Citation::named_in(answer, &found).iter().map(|citation| citation.number).collect()
        };
        assert_eq!(numbers("그렇습니다. [2]"), [2]);
        assert_eq!(numbers("[12] and [1]"), [1, 12]);
        assert_eq!(numbers("1 2 [3]"), [0u32; 0]);
    }
}
