//! Which words of its messages a stream has sent. Its event ids carry that, so that a client that comes back is sent the rest,
//! and a step that is made again repeats no word.

use std::collections::BTreeMap;

use doran_engine::TaskPath;

/// The most messages that one event id lists.
const MAX_IN_EVENT_ID: usize = 64;
/// What an event id says where there are more.
const MORE: &str = "+";
const EMPTY_HASH: u32 = 0x811c_9dc5;

/// The messages of a step, by the hashes of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SentMessages {
    messages: BTreeMap<u32, SentMessage>,
    /// The client had more than its event id lists.
    has_more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SentMessage {
    /// How often its words became others. Each time it is sent under another id.
    changes: u32,
    /// What was sent: its length, and its hash.
    bytes: usize,
    hash: u32,
    is_complete: bool,
    /// The words of this try.
    text: String,
    /// They begin with what was sent.
    is_caught_up: bool,
    path: Option<TaskPath>,
}

/// Words to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewWords {
    /// The id of the message for clients.
    pub(super) id: String,
    pub(super) words: String,
    /// No word of it was sent before.
    pub(super) is_first: bool,
}

/// What is to be sent of a message that is on record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageEnd {
    /// It was sent.
    Nothing,
    Rest(NewWords),
    /// All of it, under this id.
    Whole(String),
}

impl SentMessages {
    /// A piece of a message. Nothing is to be sent while the words are those that were sent before.
    pub(super) fn push(&mut self, id: &str, path: &TaskPath, text: &str) -> Option<NewWords> {
        let changes = u32::from(self.has_more);
        let message = self.messages.entry(hash(id)).or_insert_with(|| SentMessage::new(changes));
        message.path = Some(path.clone());
        message.text.push_str(text);
        message.take_new_words(id)
    }

    /// The words of a message so far.
    pub(super) fn text(&self, id: &str) -> &str {
        self.messages.get(&hash(id)).map_or("", |message| message.text.as_str())
    }

    /// A message is on record with this text.
    pub(super) fn finish(&mut self, id: &str, text: &str) -> MessageEnd {
        let changes = u32::from(self.has_more);
        let Some(message) = self.messages.get_mut(&hash(id)) else {
            self.messages.insert(hash(id), SentMessage { is_complete: true, ..SentMessage::new(changes) });
            return MessageEnd::Whole(shown_id(id, changes));
        };
        if std::mem::replace(&mut message.is_complete, true) {
            return MessageEnd::Nothing;
        }
        if let Some(words) = message.rest_of(text) {
            let (words, is_first) = (words.to_owned(), message.bytes == 0);
            return MessageEnd::Rest(NewWords { id: shown_id(id, message.changes), words, is_first });
        }
        if message.is_caught_up {
            // The node keeps other words than it showed.
            let (words, is_first) = (String::new(), false);
            return MessageEnd::Rest(NewWords { id: shown_id(id, message.changes), words, is_first });
        }
        message.changes += 1;
        MessageEnd::Whole(shown_id(id, message.changes))
    }

    /// As [`SentMessages::finish`], where its words may have been streamed under another id: what of them is still to be sent
    /// under that.
    pub(super) fn finish_under(&mut self, stand_in: &str, id: &str, text: &str) -> Option<NewWords> {
        let message = self.messages.get_mut(&hash(stand_in)).filter(|message| !message.is_complete)?;
        let words = if message.is_caught_up {
            (message.text.trim() == text.trim()).then_some("")
        } else {
            message.rest_of(text)
        };
        let words = words.filter(|_| !text.is_empty() && message.bytes > 0)?.to_owned();
        message.is_complete = true;
        let words = NewWords { id: shown_id(stand_in, message.changes), words, is_first: false };
        self.messages.insert(hash(id), SentMessage { is_complete: true, ..SentMessage::new(0) });
        Some(words)
    }

    /// A task is made again, or the whole step.
    pub(super) fn begin_again(&mut self, task: Option<&TaskPath>) {
        let is_void = |message: &SentMessage| match (task, &message.path) {
            (Some(task), Some(path)) => {
                let inner = path.as_str().strip_prefix(task.as_str());
                inner.is_some_and(|inner| inner.is_empty() || inner.starts_with('/'))
            }
            (Some(_), None) => false,
            (None, _) => true,
        };
        for message in self.messages.values_mut().filter(|message| !message.is_complete && is_void(message)) {
            message.text.clear();
            message.is_caught_up = false;
        }
    }

    /// What of it an event id carries.
    pub(super) fn to_text(&self) -> String {
        let sent = self.messages.iter().filter(|(_, message)| message.is_complete || message.bytes > 0);
        let parts = sent.map(|(id, SentMessage { changes, bytes, hash, is_complete, .. })| {
            if *is_complete { format!("{id:x}") } else { format!("{id:x}.{changes:x}.{bytes:x}.{hash:x}") }
        });
        let mut parts: Vec<String> = parts.take(MAX_IN_EVENT_ID + 1).collect();
        if parts.len() > MAX_IN_EVENT_ID {
            MORE.clone_into(&mut parts[MAX_IN_EVENT_ID]);
        } else if self.has_more {
            parts.push(MORE.to_owned());
        }
        parts.join(",")
    }

    /// Reads what an event id carries.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut sent = Self::default();
        for (at, part) in text.split(',').filter(|part| !part.is_empty()).enumerate() {
            if part == MORE {
                sent.has_more = true;
                continue;
            }
            if at >= MAX_IN_EVENT_ID {
                return None;
            }
            let numbers: Option<Vec<u32>> =
                part.split('.').map(|number| u32::from_str_radix(number, 16).ok()).collect();
            let (id, message) = match *numbers?.as_slice() {
                [id] => (id, SentMessage { is_complete: true, ..SentMessage::new(0) }),
                [id, changes, bytes, hash] => {
                    let bytes = usize::try_from(bytes).ok()?;
                    let changes = changes.min(u32::MAX / 2);
                    (id, SentMessage { bytes, hash, ..SentMessage::new(changes) })
                }
                _ => return None,
            };
            sent.messages.insert(id, message);
        }
        Some(sent)
    }
}

impl SentMessage {
    fn new(changes: u32) -> Self {
        Self {
            changes,
            bytes: 0,
            hash: EMPTY_HASH,
            is_complete: false,
            text: String::new(),
            is_caught_up: false,
            path: None,
        }
    }

    /// What of a text was not sent; `None` where other words were sent.
    fn rest_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (sent, rest) = text.split_at_checked(self.bytes)?;
        (hash(sent) == self.hash).then_some(rest)
    }

    fn take_new_words(&mut self, id: &str) -> Option<NewWords> {
        if self.is_complete || self.text.len() <= self.bytes {
            return None;
        }
        if !self.is_caught_up {
            self.is_caught_up = true;
            if self.rest_of(&self.text).is_none() {
                *self = Self { bytes: 0, hash: EMPTY_HASH, changes: self.changes + 1, ..self.clone() };
            }
        }
        let words = self.text[self.bytes..].to_owned();
        let is_first = self.bytes == 0;
        self.hash = extend_hash(self.hash, &words);
        self.bytes = self.text.len();
        Some(NewWords { id: shown_id(id, self.changes), words, is_first })
    }
}

fn shown_id(id: &str, changes: u32) -> String {
    if changes == 0 { id.to_owned() } else { format!("{id}:{}", changes + 1) }
}

fn hash(text: &str) -> u32 {
    extend_hash(EMPTY_HASH, text)
}

/// FNV-1a: it is fed piece by piece.
fn extend_hash(hash: u32, text: &str) -> u32 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> TaskPath {
        "1.0".parse().expect("a path")
    }

    fn push(sent: &mut SentMessages, text: &str) -> Option<(String, String)> {
        sent.push("m", &task(), text).map(|new| (new.id, new.words))
    }

    fn words(id: &str, words: &str) -> Option<(String, String)> {
        Some((id.to_owned(), words.to_owned()))
    }

    /// What a client has that went away after these pieces.
    fn had(pieces: &[&str]) -> SentMessages {
        let mut sent = SentMessages::default();
        for piece in pieces {
            push(&mut sent, piece);
        }
        SentMessages::from_text(&sent.to_text()).expect("readable")
    }

    #[test]
    fn one_who_comes_back_is_sent_the_rest() {
        let mut sent = had(&["안녕", "하"]);
        assert_eq!(push(&mut sent, "안"), None);
        assert_eq!(push(&mut sent, "녕하세"), words("m", "세"));
        assert_eq!(push(&mut sent, "요"), words("m", "요"));
        let rest = |words: &str, is_first| {
            MessageEnd::Rest(NewWords { id: "m".into(), words: words.into(), is_first })
        };
        assert_eq!(sent.finish("m", "안녕하세요."), rest(".", false));
        assert_eq!(sent.finish("m", "안녕하세요."), MessageEnd::Nothing);
        assert_eq!(had(&["안녕"]).finish("m", "안녕하세요"), rest("하세요", false));
        let mut again = SentMessages::from_text(&sent.to_text()).expect("readable");
        assert_eq!(again.finish("m", "안녕하세요."), MessageEnd::Nothing);
        assert_eq!(again.finish("n", "둘"), MessageEnd::Whole("n".into()));
    }

    #[test]
    fn other_words_come_under_another_id() {
        let mut sent = had(&["안녕"]);
        assert_eq!(push(&mut sent, "반가워"), words("m:2", "반가워"));
        sent.begin_again(Some(&task()));
        assert_eq!(push(&mut sent, "반가워요"), words("m:2", "요"));
        sent.begin_again(None);
        assert_eq!(push(&mut sent, "어서 오세요"), words("m:3", "어서 오세요"));
        assert_eq!(had(&["안녕"]).finish("m", "다른 말"), MessageEnd::Whole("m:2".into()));
        // Not in the middle of a letter.
        assert_eq!(had(&["ab"]).finish("m", "안녕"), MessageEnd::Whole("m:2".into()));
    }

    #[test]
    fn words_without_an_id_have_the_one_they_began_with() {
        let mut sent = had(&["하나 "]);
        let rest = sent.finish_under("m", "stored", "하나 둘").expect("the rest");
        assert_eq!((rest.id.as_str(), rest.words.as_str()), ("m", "둘"));
        assert_eq!(sent.finish("stored", "하나 둘"), MessageEnd::Nothing);
        assert_eq!(had(&["하나"]).finish_under("m", "stored", "둘"), None);
    }

    #[test]
    fn an_event_id_has_an_end() {
        let mut sent = SentMessages::default();
        for id in 0..1000 {
            sent.finish(&id.to_string(), "");
        }
        let text = sent.to_text();
        assert!(text.len() < 1000, "{text}");
        let mut back = SentMessages::from_text(&text).expect("readable");
        let shown: Vec<MessageEnd> = (0..1000).map(|id| back.finish(&id.to_string(), "")).collect();
        let again = shown.iter().filter(|end| matches!(end, MessageEnd::Whole(id) if !id.ends_with(":2")));
        assert_eq!(again.count(), 0, "nothing again under the id it had");
        for wrong in ["x", "1.2", "1.2.3.4.5", "-1", "1.1.1.1ffffffff", "0,".repeat(100).as_str()] {
            assert_eq!(SentMessages::from_text(wrong), None, "{wrong}");
        }
    }
}
