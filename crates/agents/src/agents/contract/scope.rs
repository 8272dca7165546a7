//! What rules can tell about a question: whether it is about contracts, and whether it leans on the turn before.

use doran_retrieval::contract::references;

use super::plan::ends_of;

/// Words of somebody who wants something kept, recalled or forgotten.
const MEMORY: &[&str] =
    &["기억해", "기억하", "기억나", "기억한", "잊어", "외워", "remember", "recall", "forget"];

/// Whether a question is about what is remembered. It is in scope where there is a memory.
pub(super) fn is_about_memory(question: &str) -> bool {
    let lower = question.to_lowercase();
    MEMORY.iter().any(|word| lower.contains(word))
}

/// What the rules say about the scope of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    In,
    Out,
    /// The rules cannot tell.
    Open,
}

/// Words of contracts that are no part of any other word. A question that holds one is about contracts.
const CONTRACT: &[&str] = &[
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
const CONTRACT_START: &[&str] = &[
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

const CONTRACT_EN: &[&str] = &[
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
const TALK: &[&str] = &[
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

/// What contracts never speak about in these words.
const ELSEWHERE: &[&str] = &[
    "날씨",
    "맛집",
    "레시피",
    "요리",
    "주식",
    "주가",
    "로또",
    "영화",
    "드라마",
    "노래",
    "가수",
    "축구",
    "야구",
    "여행지",
    "환율",
    "번역해",
    "코드 짜",
    "코드를 짜",
    "파이썬",
    "weather",
    "recipe",
    "stock price",
    "lottery",
    "movie",
    "song",
    "football",
    "translate",
    "python",
    "joke",
    "농담",
];

/// Words that point back to the turn before, and stand alone or with a particle.
const BACK: &[&str] = &[
    "그것",
    "그거",
    "그걸",
    "그건",
    "그게",
    "그중",
    "그때",
    "거기",
    "이것",
    "이거",
    "이건",
    "이걸",
    "이게",
    "저것",
    "저거",
    "방금",
    "아까",
    "앞서",
    "위에서",
    "이전",
    "직전",
];

/// Words that point back only as they are.
const BACK_ALONE: &[&str] = &[
    "그",
    "그럼",
    "그러면",
    "그렇다면",
    "그래서",
    "그런데도",
    "위의",
    "앞의",
    "방금전",
    "those",
    "above",
    "earlier",
    "previous",
    "aforementioned",
];

const PARTICLES: &[&str] = &[
    "",
    "은",
    "는",
    "이",
    "가",
    "을",
    "를",
    "도",
    "만",
    "의",
    "에",
    "에서",
    "에는",
    "에도",
    "과",
    "와",
    "로",
    "으로",
    "랑",
    "이랑",
    "보다",
    "까지",
    "부터",
    "들",
    "들은",
    "들이",
    "들을",
    "들의",
    "들도",
    "처럼",
    "대로",
    "말고",
    "요",
    "에게",
    "한테",
    "이나",
    "나",
    "인데",
    "이라면",
    "라면",
];

/// Whether a question is about contracts, as far as rules can tell.
pub(super) fn scope(question: &str) -> Scope {
    let lower = question.to_lowercase();
    let holds = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if holds(CONTRACT)
        || words(&lower).any(|word| CONTRACT_START.iter().any(|stem| word.starts_with(stem)))
        || has_word_start(&lower, CONTRACT_EN)
        || !references(&ends_of(question)).is_empty()
    {
        return Scope::In;
    }
    if words(&lower).any(|word| TALK.iter().any(|talk| is_talk(word, talk))) || lower.contains("thank you") {
        return Scope::In;
    }
    if holds(ELSEWHERE) { Scope::Out } else { Scope::Open }
}

/// Whether a word of the question points back to the turn before: a whole word, not a syllable inside another.
pub(super) fn points_back(question: &str) -> bool {
    let lower = question.to_lowercase();
    words(&lower).any(|word| {
        BACK_ALONE.contains(&word)
            || BACK.iter().any(|stem| word.strip_prefix(stem).is_some_and(|rest| PARTICLES.contains(&rest)))
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// English words are matched from their start, so that `party` is not found in a name like `Zparty`.
fn has_word_start(text: &str, stems: &[&str]) -> bool {
    stems.iter().any(|stem| {
        text.match_indices(stem)
            .any(|(at, _)| !text[..at].ends_with(|char: char| char.is_ascii_alphanumeric()))
    })
}

fn is_talk(word: &str, talk: &str) -> bool {
    if talk.is_ascii() { word == talk } else { word.starts_with(talk) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_tell_what_is_about_contracts() {
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
            assert_eq!(scope(question), Scope::In, "{question}");
        }
        for question in
            ["오늘 서울 날씨 어때?", "김치찌개 레시피 알려줘", "Tell me a joke", "파이썬으로 정렬해줘"]
        {
            assert_eq!(scope(question), Scope::Out, "{question}");
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
            assert_eq!(scope(question), Scope::Open, "{question}");
        }
    }

    #[test]
    fn a_word_points_back_and_a_syllable_does_not() {
        for question in [
            "그 참조항목들 내용 정리해서 보여줘봐",
            "그럼 위약금은?",
            "그것은 왜 그래?",
            "아까 말한 조항",
            "방금 그거 다시",
            "그건 뭐야",
            "이전 답변 요약해줘",
            "그럼, 을의 의무는?",
            "Tell me more about those",
            "앞서 말한 것들",
        ] {
            assert!(points_back(question), "{question}");
        }
        for question in [
            "그래프 조항이 있어?",
            "그림 저작권은 누구 것이야?",
            "그린카드 조항",
            "제5조 내용이 뭐야?",
            "로그 보관 기간은?",
            "프로그램 검수 기준은?",
            "이것저것 다 알려줘",
            "아까시나무",
            "What does that clause say",
            "거기서거기",
        ] {
            assert!(!points_back(question), "{question}");
        }
    }
}
