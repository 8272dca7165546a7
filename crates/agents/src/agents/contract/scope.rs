//! Rules that decide whether a question is about contracts.

use doran_retrieval::contract::find_article_references;

use super::call_planning::question_ends;
use crate::anaphora::{is_word_with_particle, split_words};

/// Words of somebody who wants something kept, recalled or forgotten.
const MEMORY_WORDS: &[&str] =
    &["기억해", "기억하", "기억나", "기억한", "잊어", "외워", "remember", "recall", "forget"];

/// Whether a question is about what is remembered. It is in scope where there is a memory.
pub(super) fn is_about_memory(question: &str) -> bool {
    let lower = question.to_lowercase();
    MEMORY_WORDS.iter().any(|word| lower.contains(word))
}

/// What the rules say about the scope of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeVerdict {
    In,
    Out,
    /// The rules cannot tell.
    Undecided,
}

/// Words of contracts that are no part of any other word. A question that holds one is about contracts.
const CONTRACT_WORDS: &[&str] = &[
    "계약",
    "조항",
    "약관",
    "손해배상",
    "지체상금",
    "비밀유지",
    "지식재산",
    "저작권",
    "하자보수",
    "하자담보",
    "중도해지",
    "재위탁",
    "하도급",
    "위약금",
    "착수금",
];

/// Words of contracts at the start of a word: 해지 is one, 친해지다 is not.
const CONTRACT_WORD_STEMS: &[&str] = &[
    "특약",
    "부칙",
    "별지",
    "위약",
    "해지",
    "해제",
    "배상",
    "대금",
    "검수",
    "납품",
    "보증",
    "관할",
    "면책",
    "책임",
    "갱신",
    "양도",
    "잔금",
    "용역",
    "당사자",
];

const CONTRACT_WORDS_EN: &[&str] = &[
    "contract",
    "agreement",
    "clause",
    "article",
    "section",
    "termination",
    "terminate",
    "liability",
    "penalty",
    "confidential",
    "warranty",
    "indemn",
    "governing law",
    "payment",
    "deliver",
    "party",
    "parties",
    "breach",
];

/// Greetings and thanks are answered, not turned away.
const GREETING_WORDS: &[&str] = &[
    "안녕",
    "고마워",
    "고맙",
    "감사",
    "반가워",
    "반갑",
    "수고",
    "hello",
    "hi",
    "hey",
    "thanks",
    "thank you",
    "bye",
];

/// What is asked about elsewhere, as whole words. What contracts have as their subject (shares, films, sports, software)
/// is not among it: whether a question about that is one about a contract, rules cannot tell.
const OFF_TOPIC_WORDS: &[&str] =
    &["날씨", "맛집", "레시피", "로또", "농담", "weather", "recipe", "recipes", "lottery", "joke", "jokes"];

/// How somebody asks for work to be done, after its verb.
const REQUEST_ENDINGS: &[&str] = &["줘", "주세요", "주십시오", "줄래", "봐"];

/// Ends of words that make a case of something: 날씨가 나쁘면 is asked about a contract, too.
const CONDITION_ENDINGS: &[&str] =
    &["면", "때문에", "때문인", "인해", "경우", "경우에", "경우에는", "경우엔", "관계없이"];

const CONDITION_WORDS_EN: &[&str] = &["if", "because", "due", "case", "when", "unless"];

/// Whether a question is about contracts, as far as rules can tell.
pub(super) fn scope_by_rules(question: &str) -> ScopeVerdict {
    let lower = question.to_lowercase();
    let holds = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if holds(CONTRACT_WORDS)
        || split_words(&lower).any(|word| CONTRACT_WORD_STEMS.iter().any(|stem| word.starts_with(stem)))
        || has_word_starting_with(&lower, CONTRACT_WORDS_EN)
        || !find_article_references(&question_ends(question)).is_empty()
    {
        return ScopeVerdict::In;
    }
    if split_words(&lower).any(|word| GREETING_WORDS.iter().any(|talk| is_greeting(word, talk)))
        || lower.contains("thank you")
    {
        return ScopeVerdict::In;
    }
    let words: Vec<&str> = split_words(&lower).collect();
    let elsewhere = words.iter().any(|word| is_word_with_particle(word, OFF_TOPIC_WORDS))
        && !words.iter().any(|word| is_condition(word));
    if elsewhere || asks_for_unrelated_work(&words) { ScopeVerdict::Out } else { ScopeVerdict::Undecided }
}

fn is_condition(word: &str) -> bool {
    CONDITION_WORDS_EN.contains(&word) || CONDITION_ENDINGS.iter().any(|end| word.ends_with(end))
}

/// Whether somebody wants work done that no contract is needed for: a translation, a program.
fn asks_for_unrelated_work(words: &[&str]) -> bool {
    let code = words.iter().position(|word| word.starts_with("코드"));
    let korean = words.iter().enumerate().any(|(at, word)| {
        let wished = |verb: &str| {
            let rest = word.strip_prefix(verb)?;
            let rest = if rest.is_empty() { words.get(at + 1).copied()? } else { rest };
            REQUEST_ENDINGS.iter().any(|wish| rest.starts_with(wish)).then_some(())
        };
        wished("번역해").is_some() || (wished("짜").is_some() && code.is_some_and(|code| code < at))
    });
    korean || words.first() == Some(&"translate")
}

/// English words are matched from their start, so that `party` is not found in a name like `Zparty`.
fn has_word_starting_with(text: &str, stems: &[&str]) -> bool {
    stems.iter().any(|stem| {
        text.match_indices(stem)
            .any(|(at, _)| !text[..at].ends_with(|char: char| char.is_ascii_alphanumeric()))
    })
}

fn is_greeting(word: &str, talk: &str) -> bool {
    if talk.is_ascii() { word == talk } else { word.starts_with(talk) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_decide_what_is_about_contracts() {
        for question in [
            "제5조 내용이 뭐야?",
            "계약 기간은 언제까지야?",
            "지체상금률이 얼마야",
            "What does clause 5 say?",
            "5조 알려줘",
            "안녕하세요",
            "고마워요",
            "중도 해지하면 위약금은?",
            "Who are the parties?",
        ] {
            assert_eq!(scope_by_rules(question), ScopeVerdict::In, "{question}");
        }
        for question in [
            "오늘 서울 날씨 어때?",
            "김치찌개 레시피 알려줘",
            "Tell me a joke",
            "이 문장을 영어로 번역해줘",
            "이 문장을 번역해 주세요",
            "정렬하는 코드 좀 짜줘",
            "Translate this into English",
        ] {
            assert_eq!(scope_by_rules(question), ScopeVerdict::Out, "{question}");
        }
        for question in [
            "언제까지 내야 해?",
            "빨리 친해지려면?",
            "마을은 어디야?",
            "같이 밥 먹자",
            "이 회사 이름이 뭐야?",
            "Who wrote this?",
            "삼성전자 5조 원 투자",
        ] {
            assert_eq!(scope_by_rules(question), ScopeVerdict::Undecided, "{question}");
        }
    }

    #[test]
    fn a_syllable_inside_a_word_turns_nobody_away() {
        for question in [
            "발주가 취소되면 어떻게 되나요?",
            "사업주가 지켜야 할 의무는 뭐야?",
            "건물주가 수리해 주나요?",
            "건축주가 바뀌면?",
            "입주가 늦어지면 어떻게 돼?",
            "추가수당은 언제 지급해?",
            "단가수정은 누가 정해?",
            "평가수수료는 얼마야?",
            "선급금 반환율은 얼마야?",
            "건축구조 변경 비용은 누가 내?",
            "Who pays for the Songdo site?",
        ] {
            assert_eq!(scope_by_rules(question), ScopeVerdict::Undecided, "{question}");
        }
    }

    #[test]
    fn of_a_question_that_is_all_articles_only_the_ends_are_read() {
        let long = "법제1조".repeat(50_000);
        assert!(question_ends(&long).len() < 10 * 1024);
        assert_eq!(scope_by_rules(&long), ScopeVerdict::In);
    }

    #[test]
    fn what_contracts_have_as_their_subject_is_not_turned_away_by_rules() {
        for question in [
            "주식은 언제 넘겨야 해?",
            "환율이 오르면 누가 부담해?",
            "영화 개봉이 늦어지면?",
            "파이썬은 몇 버전을 써야 해?",
            "누가 영어로 번역해?",
            "을이 매뉴얼도 번역해야 하나요?",
            "날씨가 나쁘면 공사 기간이 늘어나?",
            "날씨 때문에 늦어지면?",
            "What if the weather delays the work?",
        ] {
            assert_eq!(scope_by_rules(question), ScopeVerdict::Undecided, "{question}");
        }
    }
}
