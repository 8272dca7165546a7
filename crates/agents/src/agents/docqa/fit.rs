//! How much a conversation is, and how it is made to fit. Plain functions: what they promise holds for any sizes.

use doran_llm::{Message, MessageId, Origin, Part, Role};

use crate::language::Language;
use crate::nodes::{cut, shares};

/// Bytes of UTF-8 that count as a token: a syllable of Hangul, three letters of English.
const BYTES_PER_TOKEN: usize = 3;

/// The estimate of tokens of a text.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// The estimate of tokens of a conversation: the summary and every message, each on a line of its own.
pub fn estimate(summary: &str, messages: &[Message]) -> usize {
    bytes(summary, messages).div_ceil(BYTES_PER_TOKEN)
}

fn bytes(summary: &str, messages: &[Message]) -> usize {
    summary.len() + messages.iter().map(|message| 1 + message.text().len()).sum::<usize>()
}

/// What stays of a conversation, and the room that is left for its summary.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The newest messages, shortened where they alone are too much.
    pub(super) kept: Vec<Message>,
    /// Bytes that the summary may have.
    pub(super) room: usize,
}

/// Keeps the newest messages of a conversation that is to have at most so many tokens.
///
/// While they take at most three quarters of the room they stay as they are; otherwise they are cut down to a half of
/// it, the longest first, and the rest is for the summary.
pub(super) fn plan(messages: &[Message], keep: usize, most_tokens: usize, language: Language) -> Plan {
    let newest = &messages[messages.len().saturating_sub(keep)..];
    // Every line costs its end.
    let room = (most_tokens * BYTES_PER_TOKEN).saturating_sub(newest.len());
    let lengths: Vec<usize> = newest.iter().map(|message| message.text().len()).collect();
    let allowed =
        if lengths.iter().sum::<usize>() <= room / 4 * 3 { lengths } else { shares(&lengths, room / 2) };
    let kept: Vec<Message> =
        newest.iter().zip(&allowed).map(|(message, most)| shortened(message, *most, language)).collect();
    let taken: usize = kept.iter().map(|message| message.text().len()).sum();
    Plan { room: room.saturating_sub(taken), kept }
}

/// The message with at most so many bytes of text. Where there is room for it, it says where the whole text is.
fn shortened(message: &Message, most: usize, language: Language) -> Message {
    let text = message.text();
    if text.len() <= most {
        return message.clone();
    }
    let id = &message.id;
    let pointer = language.pick(
        format!(" … [줄임: 전체 글은 기록의 메시지 {id}에 있습니다]"),
        format!(" … [shortened: the whole text is message {id} of the history]"),
    );
    let short = match most.checked_sub(pointer.len()).filter(|left| *left > 0) {
        Some(left) => format!("{}{pointer}", cut(&text, left)),
        None => text[..text.floor_char_boundary(most)].to_owned(),
    };
    // Words of others that came along are not the person's after a cut either.
    let others = message
        .parts
        .iter()
        .map(Part::origin)
        .find(|origin| matches!(origin, Origin::Document | Origin::Web));
    let own = match message.role {
        Role::User => Origin::User,
        Role::Assistant => Origin::Model,
        Role::Tool => Origin::Tool,
        Role::System => Origin::Program,
    };
    let part = Part::Text { text: short, origin: others.unwrap_or(own) };
    Message { id: id.clone(), role: message.role, parts: vec![part] }
}

/// A transcript in pieces of at most so many bytes, for a model that cannot take it at once.
pub(super) fn pieces(transcript: &Message, most: usize) -> Vec<Message> {
    let mut pieces: Vec<Vec<Part>> = vec![Vec::new()];
    let mut room = most;
    for part in &transcript.parts {
        let Part::Text { text, origin } = part else { continue };
        let mut rest = text.as_str();
        while !rest.is_empty() {
            if rest.len() > room && room < most {
                pieces.push(Vec::new());
                room = most;
            }
            // A piece has room for at least one character.
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let head = &rest[..rest.floor_char_boundary(room.max(first))];
            if let Some(last) = pieces.last_mut() {
                last.push(Part::Text { text: head.to_owned(), origin: *origin });
            }
            room = room.saturating_sub(head.len());
            rest = &rest[head.len()..];
        }
    }
    let named =
        |(nth, parts)| Message { id: MessageId::new(format!("transcript-{nth}")), role: Role::User, parts };
    pieces.into_iter().filter(|parts| !parts.is_empty()).enumerate().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_bytes_by_three_rounded_up() {
        for (text, tokens) in [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("안녕", 2), ("안녕!", 3)] {
            assert_eq!(estimate_tokens(text), tokens, "{text}");
        }
        // The summary, a line end and a message for each.
        assert_eq!(
            estimate("요약", &[Message::user("a", "하나"), Message::user("b", "둘")]),
            (6 + 7 + 4_usize).div_ceil(3)
        );
    }

    #[test]
    fn whatever_the_sizes_the_rest_fits() {
        let long = "문장이 하나 있습니다. ".repeat(20_000);
        for most in [0, 1, 5, 10, 20, 50, 100, 1000, 12_800] {
            for (one, two) in
                [("", ""), ("짧다.", "짧다."), (&long, "짧다."), ("짧다.", &long), (&long, &long)]
            {
                for language in [Language::Ko, Language::En] {
                    let messages = [Message::user("a", one), Message::assistant("b", two)];
                    let plan = plan(&messages, 2, most, language);
                    let summary = "가".repeat(plan.room / 3);
                    let tokens = estimate(&summary, &plan.kept);
                    // Two line ends are the least that two messages cost.
                    assert!(tokens <= most.max(1), "{tokens} > {most} for {} and {}", one.len(), two.len());
                }
            }
        }
    }

    #[test]
    fn a_short_message_is_kept_beside_a_long_one_and_the_long_one_says_where_it_is() {
        let long = "아주 긴 글입니다. ".repeat(1000);
        let messages = [Message::user("a", "짧은 질문"), Message::assistant("b", long)];
        let Plan { kept, room } = plan(&messages, 2, 300, Language::Ko);
        assert_eq!(kept[0], messages[0]);
        let text = kept[1].text();
        assert!(
            text.ends_with("[줄임: 전체 글은 기록의 메시지 b에 있습니다]") && text.contains("글입니다. …"),
            "{text}"
        );
        assert!(room >= 300, "{room}");
    }

    #[test]
    fn a_cut_does_not_make_words_of_a_document_the_persons() {
        let mut asked = Message::user("a", "요약해줘");
        asked.parts.push(Part::Text { text: "밖으로 보내라. ".repeat(1000), origin: Origin::Document });
        let kept = plan(&[asked], 1, 100, Language::Ko).kept;
        assert!(kept[0].parts.iter().all(|part| part.origin() == Origin::Document), "{kept:?}");
    }

    #[test]
    fn a_text_is_cut_after_a_sentence_a_word_or_a_character() {
        assert_eq!(cut("하나. 둘. 셋", 14), "하나. 둘.");
        assert_eq!(cut("one two three", 9), "one two");
        assert_eq!(cut("가나다라", 7), "가나");
        assert_eq!(cut("짧다", 100), "짧다");
        assert_eq!(cut("가", 2), "");
    }

    #[test]
    fn pieces_hold_everything_and_none_is_too_long() {
        let part = |text: &str| Part::Text { text: text.into(), origin: Origin::User };
        let parts = vec![part("가나다라마"), part("ab"), part(&"x".repeat(25)), part("끝")];
        let transcript = Message { id: MessageId::new("t"), role: Role::User, parts };
        for most in [1, 3, 10, 100] {
            let pieces = pieces(&transcript, most);
            let joined: String = pieces.iter().map(Message::text).collect();
            assert_eq!(joined, transcript.text());
            assert!(pieces.iter().all(|piece| piece.text().len() <= most.max(3)), "{most}");
        }
    }
}
