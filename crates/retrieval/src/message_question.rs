//! What a message asks: its text without courtesies, and the sentences that ask apart from those that tell.
//!
//! "안녕하세요, 문의드립니다. 이번에 새로 왔는데요. 연차는 며칠인가요? 감사합니다." asks for the days of leave. Searched as a whole, a
//! greeting in some document would count as much as the leave.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::text_analysis::question_words::is_question_word;
use crate::text_analysis::sentences::split_sentences;
use crate::text_analysis::text_stems;

/// A message of more bytes is a text and no question with a greeting.
const MAX_MESSAGE_BYTES: usize = 2000;

/// A question that names as much stands without what is told beside it.
const MIN_STEMS_ALONE: usize = 2;

/// Marks and letters that part a courtesy from the rest, in a character class.
const MARKS: &str = r",.!~…;:ㅋㅎㅠㅜ\^\p{Emoji_Presentation}";

/// The patterns of `message_question.tsv`.
struct MessagePatterns {
    courtesy_before: Regex,
    courtesy_after: Regex,
    /// The same after a space alone.
    courtesy_after_space: Regex,
    bare_request: Regex,
    /// How a Korean question ends that has no mark.
    ending: Regex,
    asks: Regex,
}

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static PATTERNS: LazyLock<MessagePatterns> = LazyLock::new(|| {
    let read = |name: &str| {
        let lines = include_str!("message_question.tsv").lines().filter_map(|line| line.split_once('\t'));
        let found: Vec<&str> =
            lines.filter(|(known, _)| *known == name).map(|(_, pattern)| pattern).collect();
        found.join("|")
    };
    let pattern = |text: String| Regex::new(&format!("(?i){text}")).expect("a pattern");
    let [courtesy, greeting, request, ending, asks] =
        ["courtesy", "greeting", "request", "ending", "asks"].map(read);
    MessagePatterns {
        courtesy_before: pattern(format!(
            r"^\W*(?:(?:{courtesy})(?:[\s{MARKS}]+|$)|(?:{greeting})(?:\s*[{MARKS}][\s{MARKS}]*|\s*$))"
        )),
        courtesy_after: pattern(format!(
            r"(?:^|\s*[?？{MARKS}][?？\s{MARKS}]*)(?:{courtesy}|{greeting})[\s{MARKS}]*$"
        )),
        courtesy_after_space: pattern(format!(r"\s(?:{courtesy})[\s{MARKS}]*$")),
        bare_request: pattern(format!(r"^\W*(?:{request})\W*$")),
        ending: pattern(ending),
        asks: pattern(asks),
    }
});

/// A message, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageQuestion<'m> {
    /// The sentences that ask or request something.
    pub asks: Vec<&'m str>,
    /// The others.
    pub tells: Vec<&'m str>,
}

impl<'m> MessageQuestion<'m> {
    /// Takes a message apart.
    pub fn new(message: &'m str) -> Self {
        let (asks, tells) = message_sentences(message).into_iter().partition(|sentence| asks(sentence));
        Self { asks, tells }
    }
}

/// Whether any sentence of a text asks or requests something.
pub fn asks_or_requests(text: &str) -> bool {
    message_sentences(text).into_iter().any(asks)
}

fn asks(sentence: &str) -> bool {
    PATTERNS.asks.is_match(sentence)
}

/// A message without greetings, thanks, apologies and requests for any answer, as long as something else is left. Its words
/// stay as they are.
pub fn without_courtesies(message: &str) -> Cow<'_, str> {
    if message.len() > MAX_MESSAGE_BYTES || message.contains("```") {
        return Cow::Borrowed(message);
    }
    let all = message_sentences(message);
    let kept: Vec<&str> =
        all.iter().map(|sentence| trim_courtesies(sentence)).filter(|kept| says_something(kept)).collect();
    if kept.is_empty() || kept == all {
        return Cow::Borrowed(message);
    }
    Cow::Owned(kept.join("\n"))
}

/// What a message is searched for, and another wording of it where it tells something beside its question: what is told may
/// say what the question is about, or have nothing to do with it.
pub fn search_wordings(message: &str) -> (String, Option<String>) {
    let whole = without_courtesies(message).into_owned();
    if whole.len() > MAX_MESSAGE_BYTES {
        return (whole, None);
    }
    let parts = MessageQuestion::new(&whole);
    if parts.asks.is_empty() || parts.tells.is_empty() {
        return (whole, None);
    }
    let asks = parts.asks.join("\n");
    let stands_alone =
        text_stems(&asks).iter().filter(|(stem, _)| !is_question_word(stem)).count() >= MIN_STEMS_ALONE;
    if stands_alone { (asks, Some(whole)) } else { (whole, Some(asks)) }
}

fn message_sentences(message: &str) -> Vec<&str> {
    message.split(|char: char| char.is_control() && char != '\t').flat_map(split_sentences).collect()
}

/// Whether a message is nothing but courtesies.
pub fn is_courtesy(message: &str) -> bool {
    let all = message_sentences(message);
    !all.is_empty()
        && all.into_iter().all(|sentence| !trim_courtesies(sentence).chars().any(char::is_alphanumeric))
}

/// A sentence without the courtesies before and after it.
fn trim_courtesies(sentence: &str) -> &str {
    let mut rest = sentence;
    while let Some(found) = PATTERNS.courtesy_before.find(rest) {
        rest = &rest[found.end()..];
    }
    loop {
        if let Some(found) = PATTERNS.courtesy_after.find(rest) {
            // The mark that ends what stands before belongs to that.
            let mark = rest[found.start()..].chars().next().filter(|char| matches!(char, '?' | '.' | '!'));
            rest = &rest[..found.start() + mark.map_or(0, char::len_utf8)];
        } else if let Some(found) = PATTERNS.courtesy_after_space.find(rest)
            && PATTERNS.ending.is_match(rest[..found.start()].trim_end())
        {
            rest = &rest[..found.start()];
        } else {
            return rest.trim();
        }
    }
}

fn says_something(sentence: &str) -> bool {
    sentence.chars().any(char::is_alphanumeric) && !PATTERNS.bare_request.is_match(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &str) {
        assert_eq!(without_courtesies(message), expected, "{message}");
    }

    #[test]
    fn courtesies_around_a_question_are_left_out() {
        let asked = "연차는 며칠인가요?";
        for message in [
            "안녕하세요. 연차는 며칠인가요?",
            "안녕하세요, 문의드립니다. 연차는 며칠인가요? 감사합니다.",
            "혹시 죄송한데, 연차는 며칠인가요?",
            "연차는 며칠인가요? 빨리 알려 주세요.",
            "연차는 며칠인가요? 확인 부탁드립니다~ 수고하세요!",
            "안녕하세요 연차는 며칠인가요? 미리 감사드립니다",
            "안녕하세요ㅎㅎ 연차는 며칠인가요? 감사합니다ㅠㅠ",
            "질문 하나 있습니다. 연차는 며칠인가요?",
        ] {
            check(message, asked);
        }
        let asked = "How many days of leave do I have?";
        for message in [
            "Hello, how are you? How many days of leave do I have?",
            "Hi there! How many days of leave do I have? Thanks in advance.",
            "Sorry to bother you. How many days of leave do I have? Please let me know.",
        ] {
            check(message, asked);
        }
    }

    #[test]
    fn what_says_something_stays_as_it_is() {
        for message in [
            "안녕하세요",
            "감사합니다!",
            "감사 보고서는 언제 내나요?",
            "문의는 어디로 하나요?",
            "질문이 있으면 누구에게 물어봐야 하나요?",
            "부탁받은 물건은 어디에 두나요?",
            "답변은 며칠 안에 오나요? 주말도 셉니까?",
            "Thanksgiving is a holiday?",
            "안녕 캠페인은 언제 하나요?",
            "고마워 쿠폰 금액은 얼마인가요?",
            "Hi card cost?",
            "thanks award amount",
            "Which policy is called Sorry",
            "My cat is Hi",
            "Remember that my sign-off is kind regards",
            "기억해줘: 우리 팀 인사말은 감사합니다",
            "Hi-Fi 장비는 어디에 있나요?",
            "알려 주세요",
            "1. 첫째\n2. 둘째",
        ] {
            check(message, message);
        }
    }

    #[test]
    fn sentences_that_ask_stand_apart_from_those_that_tell() {
        let parts = MessageQuestion::new("여름에 음식 싸 가도 되나요? 7월에 도시락통을 가져가려고 합니다.");
        assert_eq!(parts.asks, ["여름에 음식 싸 가도 되나요?"]);
        assert_eq!(parts.tells, ["7월에 도시락통을 가져가려고 합니다."]);
        assert!(asks_or_requests("연차 규정을 알려 주세요. 이번에 입사했습니다."));
        assert!(
            asks_or_requests("주차 등록 방법이 궁금합니다.") && asks_or_requests("I want to know the limit.")
        );
        assert!(!asks_or_requests("저는 개발팀입니다. 어제 입사했습니다."));
        assert!(asks_or_requests("와이파이 있어") && !asks_or_requests("우리 창고는 지하에 있어."));
    }

    #[test]
    fn a_message_may_be_nothing_but_courtesies() {
        for message in ["안녕하세요. 감사합니다.", "Hello. Thanks.", "죄송합니다", "질문 있습니다", "sorry"]
        {
            assert!(is_courtesy(message), "{message}");
        }
        for message in ["감사 위원은 누구인가요?", "Thanks award", "알려 주세요", "?"] {
            assert!(!is_courtesy(message), "{message}");
        }
    }

    #[test]
    fn what_is_asked_is_searched_first_if_it_stands_alone() {
        let check = |message: &str, searched: &str, also: Option<&str>| {
            assert_eq!(search_wordings(message), (searched.to_owned(), also.map(str::to_owned)), "{message}");
        };
        check("안녕하세요. 연차 휴가는 며칠인가요? 감사합니다.", "연차 휴가는 며칠인가요?", None);
        let told = "이번에 새로 왔습니다.\n연차 휴가는 며칠인가요?";
        check(told, "연차 휴가는 며칠인가요?", Some(told));
        let told = "프린터에 빨간 불이 들어왔습니다. 어떻게 하나요?";
        check(told, told, Some("어떻게 하나요?"));
        let text = "연차 휴가는 며칠인가요? 새로 왔습니다. ".repeat(40);
        check(&text, &text, None);
    }
}
