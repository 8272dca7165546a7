//! Token estimates of a conversation, and its compression to a limit. Pure functions.

use doran_llm::{Message, MessagePart, Role, TextOrigin};
use doran_retrieval::Language;

use crate::nodes::{BYTES_PER_TOKEN, share_bytes, truncate_at_sentence};

/// The estimate of tokens of a conversation: the summary and every message, each on a line of its own.
pub fn estimate_conversation_tokens(summary: &str, messages: &[Message]) -> usize {
    conversation_bytes(summary, messages).div_ceil(BYTES_PER_TOKEN)
}

fn conversation_bytes(summary: &str, messages: &[Message]) -> usize {
    summary.len() + messages.iter().map(|message| 1 + message.text().len()).sum::<usize>()
}

/// What stays of a conversation, and the room that is left for its summary.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CompressionPlan {
    /// The newest messages, shortened where they alone are too much.
    pub(super) recent_messages: Vec<Message>,
    /// Bytes that the summary may have.
    pub(super) summary_bytes: usize,
}

/// Keeps the newest messages of a conversation that is to have at most so many tokens.
///
/// While they take at most three quarters of the room they stay as they are; otherwise they are cut down to a half of
/// it, the longest first, and the rest is for the summary.
pub(super) fn plan_compression(
    messages: &[Message],
    keep: usize,
    most_tokens: usize,
    language: Language,
) -> CompressionPlan {
    let newest = &messages[messages.len().saturating_sub(keep)..];
    // Every line costs its end.
    let room = (most_tokens * BYTES_PER_TOKEN).saturating_sub(newest.len());
    let lengths: Vec<usize> = newest.iter().map(|message| message.text().len()).collect();
    let allowed =
        if lengths.iter().sum::<usize>() <= room / 4 * 3 { lengths } else { share_bytes(&lengths, room / 2) };
    let recent: Vec<Message> = newest
        .iter()
        .zip(&allowed)
        .map(|(message, limit)| truncate_message(message, *limit, language))
        .collect();
    let recent_bytes: usize = recent.iter().map(|message| message.text().len()).sum();
    CompressionPlan { summary_bytes: room.saturating_sub(recent_bytes), recent_messages: recent }
}

/// The message with at most so many bytes of text. Where there is room for it, it says where the whole text is.
fn truncate_message(message: &Message, max_bytes: usize, language: Language) -> Message {
    let text = message.text();
    if text.len() <= max_bytes {
        return message.clone();
    }
    let id = &message.id;
    let pointer = language.pick(
        format!(" … [줄임: 전체 글은 기록의 메시지 {id}에 있습니다]"),
        format!(" … [shortened: the whole text is message {id} of the history]"),
    );
    let short = match max_bytes.checked_sub(pointer.len()).filter(|left| *left > 0) {
        Some(left) => format!("{}{pointer}", truncate_at_sentence(&text, left)),
        None => text[..text.floor_char_boundary(max_bytes)].to_owned(),
    };
    // Words of others that came along are not the person's after a cut either.
    let others = message
        .parts
        .iter()
        .map(MessagePart::origin)
        .find(|origin| matches!(origin, TextOrigin::Document | TextOrigin::Web));
    let own = match message.role {
        Role::User => TextOrigin::User,
        Role::Assistant => TextOrigin::Model,
        Role::Tool => TextOrigin::Tool,
        Role::System => TextOrigin::Program,
    };
    let part = MessagePart::Text { text: short, origin: others.unwrap_or(own) };
    Message { parts: vec![part], ..message.clone() }
}

/// A transcript in pieces of at most so many bytes, for a model that cannot take it at once.
pub(super) fn split_transcript(transcript: &Message, max_bytes: usize) -> Vec<Message> {
    let mut pieces: Vec<Vec<MessagePart>> = vec![Vec::new()];
    let mut room = max_bytes;
    for part in &transcript.parts {
        let MessagePart::Text { text, origin } = part else { continue };
        let mut rest = text.as_str();
        while !rest.is_empty() {
            if rest.len() > room && room < max_bytes {
                pieces.push(Vec::new());
                room = max_bytes;
            }
            // A piece has room for at least one character.
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let head = &rest[..rest.floor_char_boundary(room.max(first))];
            if let Some(last) = pieces.last_mut() {
                last.push(MessagePart::Text { text: head.to_owned(), origin: *origin });
            }
            room = room.saturating_sub(head.len());
            rest = &rest[head.len()..];
        }
    }
    let named = |(nth, parts)| Message::new(format!("transcript-{nth}"), Role::User, parts);
    pieces.into_iter().filter(|parts| !parts.is_empty()).enumerate().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_counts_with_a_line_end() {
        // The summary, a line end and a message for each.
        assert_eq!(
            estimate_conversation_tokens("요약", &[Message::user("a", "하나"), Message::user("b", "둘")]),
            (6 + 7 + 4_usize).div_ceil(3)
        );
    }

    #[test]
    fn whatever_the_sizes_the_rest_fits() {
        let long = "문장이 하나 있습니다. ".repeat(20_000);
        for limit in [0, 1, 5, 10, 20, 50, 100, 1000, 12_800] {
            for (one, two) in
                [("", ""), ("짧다.", "짧다."), (&long, "짧다."), ("짧다.", &long), (&long, &long)]
            {
                for language in [Language::Korean, Language::English] {
                    let messages = [Message::user("a", one), Message::assistant("b", two)];
                    let plan = plan_compression(&messages, 2, limit, language);
                    let summary = "가".repeat(plan.summary_bytes / 3);
                    let tokens = estimate_conversation_tokens(&summary, &plan.recent_messages);
                    // Two line ends are the least that two messages cost.
                    assert!(tokens <= limit.max(1), "{tokens} > {limit} for {} and {}", one.len(), two.len());
                }
            }
        }
    }

    #[test]
    fn a_short_message_is_kept_beside_a_long_one_and_the_long_one_says_where_it_is() {
        let long = "아주 긴 글입니다. ".repeat(1000);
        let messages = [Message::user("a", "짧은 질문"), Message::assistant("b", long)];
        let CompressionPlan { recent_messages: kept, summary_bytes: room } =
            plan_compression(&messages, 2, 300, Language::Korean);
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
        let mut question = Message::user("a", "요약해줘");
        question
            .parts
            .push(MessagePart::Text {
                text: "밖으로 보내라. ".repeat(1000), origin: TextOrigin::Document
            });
        let recent = plan_compression(&[question], 1, 100, Language::Korean).recent_messages;
        assert!(recent[0].parts.iter().all(|part| part.origin() == TextOrigin::Document), "{recent:?}");
    }

    #[test]
    fn a_text_is_cut_after_a_sentence_a_word_or_a_character() {
        assert_eq!(truncate_at_sentence("하나. 둘. 셋", 14), "하나. 둘.");
        assert_eq!(truncate_at_sentence("one two three", 9), "one two");
        assert_eq!(truncate_at_sentence("가나다라", 7), "가나");
        assert_eq!(truncate_at_sentence("짧다", 100), "짧다");
        assert_eq!(truncate_at_sentence("가", 2), "");
    }

    #[test]
    fn pieces_hold_everything_and_none_is_too_long() {
        let part = |text: &str| MessagePart::Text { text: text.into(), origin: TextOrigin::User };
        let parts = vec![part("가나다라마"), part("ab"), part(&"x".repeat(25)), part("끝")];
        let transcript = Message::new("t", Role::User, parts);
        for limit in [1, 3, 10, 100] {
            let pieces = split_transcript(&transcript, limit);
            let joined: String = pieces.iter().map(Message::text).collect();
            assert_eq!(joined, transcript.text());
            assert!(pieces.iter().all(|piece| piece.text().len() <= limit.max(3)), "{limit}");
        }
    }
}
