//! Makes a request fit the context window of a model. A text that is too long keeps its beginning and its end, with a note where
//! the rest was.

use doran_llm::{ChatRequest, Message, MessagePart, Role, ToolSpec};
use doran_retrieval::Language;

/// Tokens a model is taken to read unless settings say otherwise.
pub(crate) const DEFAULT_CONTEXT_TOKENS: usize = 128_000;
/// Tokens of a conversation that a small decision is made by. Both ends of a message are enough to tell what it wants.
pub(crate) const MAX_DECISION_TOKENS: usize = 4_000;
/// Bytes of a message that are worth showing.
const MIN_MESSAGE_BYTES: usize = 200;
/// Bytes of UTF-8 that count as a token.
pub(crate) const BYTES_PER_TOKEN: usize = doran_llm::BYTES_PER_TOKEN as usize;
/// A request of so few tokens is not what a model calls too long: every model that can be talked to takes more.
const MIN_REQUEST_TOKENS: usize = 2_000;

/// The request in what a model of this context can take beside its reply: as it is while it fits. Else the conversation
/// is shortened, and what stands before it (prompt, summary, documents) where that alone leaves no room.
pub(crate) fn fit_request(
    mut request: ChatRequest,
    context_length: usize,
    language: Language,
) -> ChatRequest {
    if request_tokens(&request) <= context_length * 4 / 5 {
        return request;
    }
    let first = request.messages.iter().position(|message| message.role != Role::System);
    let talk = request.messages.split_off(first.unwrap_or(request.messages.len()));
    let max_tokens =
        (context_length * 7 / 10).saturating_sub(tool_spec_bytes(&request.tools).div_ceil(BYTES_PER_TOKEN));
    request.messages = shorten_system_messages(request.messages, max_tokens, language);
    let room = remaining_tokens(context_length, &request.messages, &request.tools);
    request.messages.extend(fit_messages(talk, room, language));
    request
}

/// A request of half the length, for a model that would not take it whole; nothing where there is little to leave out.
pub(crate) fn halve_request(request: &ChatRequest, language: Language) -> Option<ChatRequest> {
    let now = request_tokens(request);
    if now <= MIN_REQUEST_TOKENS {
        return None;
    }
    let next = fit_request(request.clone(), now / 2 * 5 / 4, language);
    (request_tokens(&next) < now).then_some(next)
}

/// The estimate of tokens of a request.
fn request_tokens(request: &ChatRequest) -> usize {
    let message_total: usize = request.messages.iter().map(message_bytes).sum();
    (message_total + tool_spec_bytes(&request.tools)).div_ceil(BYTES_PER_TOKEN)
}

fn tool_spec_bytes(tools: &[ToolSpec]) -> usize {
    tools.iter().map(|tool| tool.description.len() + tool.parameters.to_string().len()).sum()
}

/// What stands before a conversation in at most so many tokens: the longest parts are shortened.
fn shorten_system_messages(
    mut messages: Vec<Message>,
    most_tokens: usize,
    language: Language,
) -> Vec<Message> {
    let room = most_tokens * BYTES_PER_TOKEN;
    let lengths: Vec<usize> = messages.iter().flat_map(|message| &message.parts).map(part_bytes).collect();
    if lengths.iter().sum::<usize>() <= room {
        return messages;
    }
    let pointer = language.pick(" … [줄임] … ", " … [shortened] … ");
    let mut allowed = share_bytes(&lengths, room).into_iter();
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        let allowed_bytes = allowed.next().unwrap_or(0);
        match part {
            MessagePart::Text { text, .. } if text.len() > allowed_bytes => {
                *text = keep_both_ends(text, allowed_bytes, pointer);
            }
            MessagePart::Passage(passage) if passage.title.len() + passage.text.len() > allowed_bytes => {
                let allowed_bytes = allowed_bytes.saturating_sub(passage.title.len());
                passage.text = keep_both_ends(&passage.text, allowed_bytes, pointer);
            }
            _ => {}
        }
    }
    messages
}

/// Tokens that a conversation may have beside what a request holds anyway. A fifth of all is for the reply, and a tenth
/// the conversation always has.
pub(crate) fn remaining_tokens(context_length: usize, fixed: &[Message], tools: &[ToolSpec]) -> usize {
    let used =
        (fixed.iter().map(message_bytes).sum::<usize>() + tool_spec_bytes(tools)).div_ceil(BYTES_PER_TOKEN);
    (context_length * 4 / 5).saturating_sub(used).max(context_length / 10)
}

/// The messages in at most so many tokens: as they are while they fit, else the longest are shortened, and where not
/// even a little of each fits the oldest turns are left out. The newest question stays.
pub(crate) fn fit_messages(
    mut messages: Vec<Message>,
    most_tokens: usize,
    language: Language,
) -> Vec<Message> {
    messages.drain(..dropped_message_count(&messages, most_tokens * BYTES_PER_TOKEN));
    // Every message costs its end.
    let room = (most_tokens * BYTES_PER_TOKEN).saturating_sub(messages.len());
    let lengths: Vec<usize> = messages.iter().map(message_bytes).collect();
    if lengths.iter().sum::<usize>() <= room {
        return messages;
    }
    let allowed = share_bytes(&lengths, room);
    messages
        .into_iter()
        .zip(allowed)
        .map(|(message, limit)| shorten_message(message, limit, language))
        .collect()
}

/// How many of the oldest messages are left out: whole turns, until each of the others has some room.
fn dropped_message_count(messages: &[Message], room: usize) -> usize {
    let question_at = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    let mut used: usize = messages.iter().map(|message| message_bytes(message) + 1).sum();
    let mut from = 0;
    while from < question_at && used > room && room / (messages.len() - from) < MIN_MESSAGE_BYTES {
        let next = messages[from + 1..].iter().position(|message| message.role == Role::User);
        let next = next.map_or(question_at, |at| from + 1 + at);
        used -= messages[from..next].iter().map(|message| message_bytes(message) + 1).sum::<usize>();
        from = next;
    }
    from
}

fn message_bytes(message: &Message) -> usize {
    message.parts.iter().map(part_bytes).sum()
}

fn part_bytes(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text { text, .. } => text.len(),
        MessagePart::ToolResult(result) => result.text.len(),
        MessagePart::Passage(passage) => passage.title.len() + passage.text.len(),
        MessagePart::ToolCall(call) => call.name.len() + call.arguments.to_string().len(),
        MessagePart::Image(_) | MessagePart::Reasoning { .. } => 0,
    }
}

fn shorten_message(mut message: Message, max_bytes: usize, language: Language) -> Message {
    if message_bytes(&message) <= max_bytes {
        return message;
    }
    let words = |part: &MessagePart| matches!(part, MessagePart::Text { .. } | MessagePart::ToolResult(_));
    let fixed: usize = message.parts.iter().filter(|part| !words(part)).map(part_bytes).sum();
    let lengths: Vec<usize> = message.parts.iter().filter(|part| words(part)).map(part_bytes).collect();
    let mut allowed = share_bytes(&lengths, max_bytes.saturating_sub(fixed)).into_iter();
    let pointer = language.pick(
        format!(" … [줄임: 전체 글은 기록의 메시지 {}에 있습니다] … ", message.id),
        format!(" … [shortened: the whole text is message {} of the history] … ", message.id),
    );
    for part in &mut message.parts {
        let (MessagePart::Text { text, .. } | MessagePart::ToolResult(doran_llm::ToolResult { text, .. })) =
            part
        else {
            continue;
        };
        let max_bytes = allowed.next().unwrap_or(0);
        if text.len() > max_bytes {
            *text = keep_both_ends(text, max_bytes, &pointer);
        }
    }
    message
}

/// The beginning and the end of a text in at most so many bytes, but never nothing at all.
fn keep_both_ends(text: &str, max_bytes: usize, pointer: &str) -> String {
    let Some(half) = max_bytes.checked_sub(pointer.len()).map(|left| left / 2).filter(|half| *half > 0)
    else {
        let start = &text[..text.floor_char_boundary(max_bytes)];
        return if start.is_empty() { "…".to_owned() } else { start.to_owned() };
    };
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}{pointer}{}", &text[..head], &text[tail..])
}

/// The beginning of a text with at most so many bytes, cut after a sentence where one ends in its second half, else
/// after a word, else between two characters.
pub(crate) fn truncate_at_sentence(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let window = &text[..text.floor_char_boundary(max_bytes)];
    let ends = window.char_indices().filter(|(_, char)| matches!(char, '.' | '!' | '?' | '。' | '\n'));
    let sentence = ends.map(|(at, char)| at + char.len_utf8()).next_back();
    let word = window.rfind(char::is_whitespace);
    let at = sentence.filter(|at| *at * 2 > window.len()).or(word.filter(|at| *at * 2 > window.len()));
    window[..at.unwrap_or(window.len())].trim_end()
}

/// Divides bytes: a part that needs less than an equal share gets all it needs, and the others divide what is left.
pub(crate) fn share_bytes(lengths: &[usize], mut room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|at| lengths[*at]);
    let mut shares = vec![0; lengths.len()];
    for (done, at) in order.into_iter().enumerate() {
        let share = lengths[at].min(room / (lengths.len() - done));
        shares[at] = share;
        room -= share;
    }
    shares
}

#[cfg(test)]
mod tests {
    use doran_llm::{TextOrigin, ToolCall, ToolResult};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_stays_and_the_longest_is_shortened_at_its_middle() {
        let long = format!("처음 {} 끝?", "가운데 ".repeat(10_000));
        let messages = vec![Message::user("a", "짧은 말"), Message::user("b", long)];
        assert_eq!(fit_messages(messages.clone(), 1_000_000, Language::Korean), messages);
        let short = fit_messages(messages.clone(), 1000, Language::Korean);
        assert_eq!(short[0], messages[0]);
        let text = short[1].text();
        assert!(text.starts_with("처음 ") && text.ends_with(" 끝?"), "{text}");
        assert!(text.contains("전체 글은 기록의 메시지 b에 있습니다"), "{text}");
        assert!(short.iter().map(message_bytes).sum::<usize>() <= 3000);
        for limit in [0, 1, 7, 40] {
            assert!(
                fit_messages(messages.clone(), limit, Language::English)
                    .iter()
                    .all(|one| !one.text().is_empty())
            );
        }
    }

    #[test]
    fn of_too_many_messages_the_oldest_turns_are_left_out() {
        let turn =
            |nth: usize| [Message::user(format!("u{nth}"), "질문".repeat(20)), Message::assistant("a", "답")];
        let mut messages: Vec<Message> = (0..100).flat_map(turn).collect();
        messages.push(Message::user("newest", "마지막 질문"));
        let short = fit_messages(messages, 300, Language::Korean);
        assert!(short.len() > 1 && short.len() < 20, "{}", short.len());
        assert_eq!(
            (short[0].role, short.last().map(Message::text)),
            (Role::User, Some("마지막 질문".into()))
        );
        assert!(short.iter().map(message_bytes).sum::<usize>() <= 900);
    }

    #[test]
    fn calls_keep_their_results_and_only_words_are_cut() {
        let call = MessagePart::ToolCall(ToolCall {
            id: "c".into(),
            name: "read_file".into(),
            arguments: json!({}),
        });
        let mut calling = Message::assistant("a", "x".repeat(9000));
        calling.parts.push(call.clone());
        let result = ToolResult {
            call: "c".into(),
            name: "read_file".into(),
            text: "나".repeat(9000),
            failed: false,
            origin: TextOrigin::Tool,
        };
        let short = fit_messages(vec![calling, Message::tool_output("t", [result])], 500, Language::Korean);
        assert_eq!(short[0].parts[1], call);
        assert_eq!(short[1].tool_results().next().map(|result| result.call.as_str()), Some("c"));
        assert!(short.iter().map(message_bytes).sum::<usize>() <= 1500);
    }

    #[test]
    fn a_request_fits_whatever_stands_in_it() {
        let passage = |text: &str| {
            let (title, text) = ("계약서 › 제1조".to_owned(), text.to_owned());
            MessagePart::Passage(doran_llm::NumberedPassage { number: 1, title, text, ..Default::default() })
        };
        let (long, short) = ("긴 글입니다. ".repeat(30_000), "짧은 글");
        for context in [4_000, 8_000, 128_000] {
            for (prompt, document, asked) in [
                (short, short, short),
                (short, short, long.as_str()),
                (short, long.as_str(), short),
                (long.as_str(), short, short),
                (long.as_str(), long.as_str(), long.as_str()),
            ] {
                let mut material = Message::system("material", "[참고 문서]");
                material.parts.push(passage(document));
                let messages = vec![Message::system("s", prompt), material, Message::user("u", asked)];
                let whole = ChatRequest::new(messages);
                let fit = fit_request(whole.clone(), context, Language::Korean);
                assert!(request_tokens(&fit) <= context * 4 / 5 + 50, "{} > {context}", request_tokens(&fit));
                assert_eq!(fit.messages.len(), 3);
                if request_tokens(&whole) <= context * 4 / 5 {
                    assert_eq!(fit.messages, whole.messages);
                }
                for (fit, whole) in
                    [(0, prompt), (2, asked)].map(|(at, text)| (fit.messages[at].text(), text))
                {
                    assert!(fit == whole || fit.contains("[줄임"), "{context}: {}", fit.len());
                }
            }
        }
    }

    #[test]
    fn a_request_that_was_refused_is_halved_until_there_is_little_left() {
        let mut request = ChatRequest::new(vec![
            Message::system("s", "짧게 답하세요."),
            Message::user("u", "가나다라 ".repeat(30_000)),
        ]);
        let mut sizes = vec![request_tokens(&request)];
        while let Some(next) = halve_request(&request, Language::Korean) {
            sizes.push(request_tokens(&next));
            request = next;
        }
        assert!(sizes.windows(2).all(|pair| pair[1] <= pair[0] * 6 / 10), "{sizes:?}");
        assert!(sizes.last().is_some_and(|last| *last <= MIN_REQUEST_TOKENS), "{sizes:?}");
        assert_eq!(request.messages[0].text(), "짧게 답하세요.");
    }

    #[test]
    fn a_conversation_always_has_some_room() {
        let prompt = [Message::system("s", "가".repeat(1000))];
        assert_eq!(remaining_tokens(10_000, &prompt, &[]), 7000);
        assert_eq!(remaining_tokens(1000, &prompt, &[]), 100);
    }
}
