//! A shorter text made of sentences of the conversation, as they stand: facts, decisions, names and numbers first.
//! Never longer than the budget, and an older summary is carried on line by line.

use std::collections::BTreeSet;

use doran_agents::Language;
use doran_agents::request_format::{answer_line_prefix, user_line_prefix};
use doran_llm::{BYTES_PER_TOKEN, Message, MessagePart, Role, TextOrigin, strip_citation_marks};
use doran_retrieval::asks_or_requests;

use super::cues::Cue;
use super::decisions::is_small_talk;
use super::facts;
use super::phrasing::FixedPhrase;
use super::text::{language, sentences};
use super::turn::summary_lines;

/// The budget when none is given, in tokens.
const DEFAULT_SUMMARY_TOKENS: u64 = 500;

/// The languages that lines may be told in.
const LANGUAGES: [Language; 2] = [Language::Korean, Language::English];

/// The longest line in bytes.
const MAX_LINE_BYTES: usize = 400;

/// The summary of the messages within a budget of tokens.
pub(super) fn summarize(messages: &[Message], budget: Option<u64>) -> String {
    let bytes = budget.unwrap_or(DEFAULT_SUMMARY_TOKENS).saturating_mul(BYTES_PER_TOKEN);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let lines = lines(messages);
    let mut order: Vec<usize> = (0..lines.len()).collect();
    // The weightiest first; of equals the newest.
    order.sort_by(|left, right| (lines[*right].weight, *right).cmp(&(lines[*left].weight, *left)));
    let mut room = bytes;
    let mut kept = vec![false; lines.len()];
    for at in order {
        let cost = lines[at].text.len() + 1;
        if lines[at].weight > 0 && cost <= room + 1 {
            room = room.saturating_sub(cost);
            kept[at] = true;
        }
    }
    let chosen: Vec<&str> =
        lines.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(line, _)| line.text.as_str()).collect();
    if !chosen.is_empty() {
        return chosen.join("\n");
    }
    // Nothing fits whole or nothing matters: the beginning of the newest line is better than nothing.
    let last = lines.iter().max_by_key(|line| line.weight).map_or("", |line| line.text.as_str());
    last[..last.floor_char_boundary(bytes)].trim_end().to_owned()
}

/// The weightiest sentences of a conversation, for showing: whose they are, and the words.
pub(super) fn digest(messages: &[Message], most: usize) -> Vec<(FixedPhrase, String)> {
    let lines = lines(messages);
    let mut order: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].weight > 0).collect();
    order.sort_by(|left, right| (lines[*right].weight, *right).cmp(&(lines[*left].weight, *left)));
    order.truncate(most);
    order.sort_unstable();
    let shown = order.into_iter().map(|at| {
        let line = &lines[at].text;
        let (user, model) = (said_by_user(line), said_by_model(line));
        match (user, model) {
            (Some(said), _) => (FixedPhrase::DigestUser, said.to_owned()),
            (None, Some(said)) => (FixedPhrase::DigestAnswer, said.to_owned()),
            (None, None) => (FixedPhrase::PreviousLine, line.clone()),
        }
    });
    shown.collect()
}

struct SummaryCandidateLine {
    text: String,
    /// 0 is left out.
    weight: u32,
}

fn lines(messages: &[Message]) -> Vec<SummaryCandidateLine> {
    let mut lines: Vec<SummaryCandidateLine> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut add = |mark: &str, sentence: &str, weigh: &dyn Fn(&str) -> u32| {
        let sentence = clipped(sentence);
        let text = format!("{mark}{sentence}");
        if known.insert(text.clone()) {
            lines.push(SummaryCandidateLine { text, weight: weigh(&sentence) });
        }
    };
    for line in summary_lines(messages) {
        add("", &line, &|line| said_by_user(line).map_or(3, |said| weight_of_user(said).max(2)));
    }
    let tongue =
        messages.iter().rev().find_map(|message| language(&message.text())).unwrap_or(Language::English);
    for message in messages.iter().filter(|message| matches!(message.role, Role::User | Role::Assistant)) {
        for (text, by_user) in message.parts.iter().flat_map(spoken) {
            let text = if by_user { text.to_owned() } else { strip_citation_marks(text) };
            for sentence in sentences(&text) {
                match by_user {
                    true => add(
                        user_line_prefix(tongue),
                        said_by_user(sentence).unwrap_or(sentence),
                        &weight_of_user,
                    ),
                    false => add(
                        answer_line_prefix(tongue),
                        said_by_model(sentence).unwrap_or(sentence),
                        &weight_of_model,
                    ),
                }
            }
        }
    }
    lines
}

/// The texts of a part, and whether the person said them. A transcript keeps where each part came from; one that is
/// told in the words of the program names the speaker of each line.
fn spoken(part: &MessagePart) -> Vec<(&str, bool)> {
    match part {
        MessagePart::Text { text, origin: TextOrigin::User } => vec![(text, true)],
        MessagePart::Text { text, origin: TextOrigin::Model } => vec![(text, false)],
        MessagePart::Text { text, origin: TextOrigin::Program } => text.lines().filter_map(speaker).collect(),
        _ => Vec::new(),
    }
}

fn speaker(line: &str) -> Option<(&str, bool)> {
    let line = line.trim();
    let user = said_by_user(line).map(|said| (said, true));
    user.or_else(|| said_by_model(line).map(|said| (said, false)))
}

/// What the person said, where a line tells so.
pub(super) fn said_by_user(line: &str) -> Option<&str> {
    LANGUAGES.iter().find_map(|language| line.strip_prefix(user_line_prefix(*language)))
}

/// What was answered, where a line tells so.
pub(super) fn said_by_model(line: &str) -> Option<&str> {
    LANGUAGES.iter().find_map(|language| line.strip_prefix(answer_line_prefix(*language)))
}

fn weight_of_user(sentence: &str) -> u32 {
    if facts::stated_fact(sentence).is_some() {
        return 8;
    }
    if is_small_talk(sentence) {
        return 0;
    }
    let decided = Cue::Decides.is_in(sentence);
    let number = sentence.chars().any(|char| char.is_ascii_digit());
    let asks = asks_or_requests(sentence);
    match (decided, asks, number) {
        (true, false, _) => 7,
        (_, false, true) => 6,
        (_, false, false) => 5,
        (_, true, true) => 3,
        (_, true, false) => 2,
    }
}

fn weight_of_model(sentence: &str) -> u32 {
    // What the program says of itself is no news.
    if sentence.contains("(LLM)") || sentence.contains("doran models") || is_small_talk(sentence) {
        return 0;
    }
    match (
        sentence.contains('"') || sentence.contains('['),
        sentence.chars().any(|char| char.is_ascii_digit()),
    ) {
        (true, true) => 4,
        (true, false) | (false, true) => 3,
        (false, false) => u32::from(sentence.chars().count() > 20),
    }
}

/// A line within its limit, without line breaks or control characters.
fn clipped(line: &str) -> String {
    let clean: String = line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    clean[..clean.floor_char_boundary(MAX_LINE_BYTES)].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(turns: &[(&str, &str)]) -> Vec<Message> {
        let mut messages = Vec::new();
        for (at, (user, model)) in turns.iter().enumerate() {
            messages.push(Message::user(format!("u{at}"), *user));
            messages.push(Message::assistant(format!("a{at}"), *model));
        }
        messages
    }

    #[test]
    fn facts_and_numbers_outlive_small_talk() {
        let messages = talk(&[
            ("안녕하세요", "안녕하세요."),
            ("내 이름은 철수야. 프로젝트 마감일은 3월 15일이야.", "이 대화에 적어 두었습니다: 이름 = 철수."),
            ("예산은 1억원으로 하기로 했어", "네."),
            ("고마워", "천만에요."),
        ]);
        assert_eq!(
            summarize(&messages, Some(60)),
            "사용자: 내 이름은 철수야.\n사용자: 프로젝트 마감일은 3월 15일이야.\n사용자: 예산은 1억원으로 하기로 했어"
        );
    }

    #[test]
    fn a_budget_is_never_exceeded() {
        let messages =
            talk(&[("내 이름은 철수야", "네"), (&"가나다 12 ".repeat(500), &"라마바 [1] ".repeat(500))]);
        for budget in [0, 1, 2, 5, 17, 40, 200, 1000] {
            let summary = summarize(&messages, Some(budget));
            assert!(summary.len().div_ceil(3) as u64 <= budget, "{budget}: {summary}");
        }
    }

    #[test]
    fn an_older_summary_is_carried_on() {
        let older = summarize(&talk(&[("내 이름은 철수야", "네")]), None);
        let mut messages = vec![Message::system("summary", older)];
        messages.extend(talk(&[("내 부서는 개발팀이야", "네")]));
        assert_eq!(summarize(&messages, None), "사용자: 내 이름은 철수야\n사용자: 내 부서는 개발팀이야");
    }

    #[test]
    fn a_conversation_told_as_text_is_read_by_its_speakers() {
        let mut message = Message::user("u", "");
        let text = "Summarize the following conversation:\nUser: My name is Ann.\nAnswer: Noted.".into();
        message.parts = vec![MessagePart::Text { text, origin: TextOrigin::Program }];
        assert_eq!(summarize(&[message], Some(100)), "User: My name is Ann.");
        let mut message = Message::user("u", "사용자: 내 이름은 철수야.\n");
        message.parts.push(MessagePart::Text {
            text: "답변: \"연차는 15일이다.\" [1]\n".into(),
            origin: TextOrigin::Model,
        });
        message
            .parts
            .push(MessagePart::Text {
                text: "도구: 내 이름은 영희야.\n".into(), origin: TextOrigin::Tool
            });
        assert_eq!(summarize(&[message], Some(100)), "사용자: 내 이름은 철수야.\n답변: \"연차는 15일이다.\"");
    }

    #[test]
    fn nothing_said_gives_nothing() {
        assert_eq!(summarize(&[], None), "");
    }
}
