//! A shorter text made of sentences of the conversation, as they stand: facts, decisions, names and numbers first.
//! Never longer than the budget, and an older summary is carried on line by line.

use std::collections::BTreeSet;

use super::decide::is_small_talk;
use super::facts;
use super::talk;
use super::text::{Language, holds, language, sentences};
use super::turn::{SAID_BY_MODEL, SAID_BY_USER, summary_lines};
use super::{BYTES_PER_TOKEN, say::Say};
use crate::marks::without_marks;
use crate::message::{Message, Origin, Part, Role};

/// The budget when none is given, in tokens.
const USUAL: u64 = 500;

/// The longest line in bytes.
const LONGEST_LINE: usize = 400;

/// The summary of the messages within a budget of tokens.
pub(super) fn summarize(messages: &[Message], budget: Option<u64>) -> String {
    let bytes = budget.unwrap_or(USUAL).saturating_mul(BYTES_PER_TOKEN);
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
pub(super) fn digest(messages: &[Message], most: usize) -> Vec<(Say, String)> {
    let lines = lines(messages);
    let mut order: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].weight > 0).collect();
    order.sort_by(|left, right| (lines[*right].weight, *right).cmp(&(lines[*left].weight, *left)));
    order.truncate(most);
    order.sort_unstable();
    let shown = order.into_iter().map(|at| {
        let line = &lines[at].text;
        let user = SAID_BY_USER.iter().find_map(|mark| line.strip_prefix(mark));
        let model = SAID_BY_MODEL.iter().find_map(|mark| line.strip_prefix(mark));
        match (user, model) {
            (Some(said), _) => (Say::DigestUser, said.to_owned()),
            (None, Some(said)) => (Say::DigestAnswer, said.to_owned()),
            (None, None) => (Say::PreviousLine, line.clone()),
        }
    });
    shown.collect()
}

struct Line {
    text: String,
    /// 0 is left out.
    weight: u32,
}

fn lines(messages: &[Message]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut add = |mark: &str, sentence: &str, weigh: &dyn Fn(&str) -> u32| {
        let sentence = clipped(sentence);
        let text = format!("{mark}{sentence}");
        if known.insert(text.clone()) {
            lines.push(Line { text, weight: weigh(&sentence) });
        }
    };
    for line in summary_lines(messages) {
        add("", &line, &|line| {
            let said = SAID_BY_USER.iter().find_map(|mark| line.strip_prefix(mark));
            said.map_or(3, |said| weight_of_user(said).max(2))
        });
    }
    let tongue =
        messages.iter().rev().find_map(|message| language(&message.text())).unwrap_or(Language::English);
    let mark = |marks: [&'static str; 2]| match tongue {
        Language::Korean => marks[0],
        Language::English => marks[1],
    };
    for message in messages.iter().filter(|message| matches!(message.role, Role::User | Role::Assistant)) {
        for (text, by_user) in message.parts.iter().flat_map(spoken) {
            let text = if by_user { text.to_owned() } else { without_marks(text) };
            for sentence in sentences(&text) {
                match by_user {
                    true => add(mark(SAID_BY_USER), unmarked(sentence, SAID_BY_USER), &weight_of_user),
                    false => add(mark(SAID_BY_MODEL), unmarked(sentence, SAID_BY_MODEL), &weight_of_model),
                }
            }
        }
    }
    lines
}

/// The texts of a part, and whether the person said them. A transcript keeps where each part came from; one that is
/// told in the words of the program names the speaker of each line.
fn spoken(part: &Part) -> Vec<(&str, bool)> {
    match part {
        Part::Text { text, origin: Origin::User } => vec![(text, true)],
        Part::Text { text, origin: Origin::Model } => vec![(text, false)],
        Part::Text { text, origin: Origin::Program } => text.lines().filter_map(speaker).collect(),
        _ => Vec::new(),
    }
}

fn speaker(line: &str) -> Option<(&str, bool)> {
    let line = line.trim();
    let of = |marks: &[&str]| marks.iter().find_map(|mark| line.strip_prefix(mark));
    let user = of(&["user: ", "human: ", "사용자: ", "User: ", "Human: "]).map(|said| (said, true));
    user.or_else(|| of(&["assistant: ", "ai: ", "답변: ", "Answer: ", "AI: "]).map(|said| (said, false)))
}

fn unmarked<'a>(sentence: &'a str, marks: [&str; 2]) -> &'a str {
    marks.iter().find_map(|mark| sentence.strip_prefix(mark)).unwrap_or(sentence)
}

fn weight_of_user(sentence: &str) -> u32 {
    if facts::stated(sentence).is_some() {
        return 8;
    }
    if is_small_talk(sentence) {
        return 0;
    }
    let decided = is_decision(sentence);
    let number = sentence.chars().any(|char| char.is_ascii_digit());
    let asks = talk::asks(sentence);
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

fn is_decision(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let cues = "하기로|정했|결정|확정|합의|승인|마감|예산|decided|agreed|deadline|budget|we will";
    holds(&lower, cues)
}

/// A line within its limit, without line breaks or control characters.
fn clipped(line: &str) -> String {
    let clean: String = line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    clean[..clean.floor_char_boundary(LONGEST_LINE)].trim_end().to_owned()
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
        let text = "Summarize the following conversation:\nuser: My name is Ann.\nai: Noted.".into();
        message.parts = vec![Part::Text { text, origin: Origin::Program }];
        assert_eq!(summarize(&[message], Some(100)), "User: My name is Ann.");
        let mut message = Message::user("u", "사용자: 내 이름은 철수야.\n");
        message
            .parts
            .push(Part::Text {
                text: "답변: \"연차는 15일이다.\" [1]\n".into(), origin: Origin::Model
            });
        message
            .parts
            .push(Part::Text { text: "도구: 내 이름은 영희야.\n".into(), origin: Origin::Tool });
        assert_eq!(summarize(&[message], Some(100)), "사용자: 내 이름은 철수야.\n답변: \"연차는 15일이다.\"");
    }

    #[test]
    fn nothing_said_gives_nothing() {
        assert_eq!(summarize(&[], None), "");
    }
}
