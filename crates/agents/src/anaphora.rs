//! Anaphora: whether a question refers back to the previous turn (coreference, follow-up questions).

/// Words that point back to the turn before, and stand alone or with a particle.
const BACK_REFERENCE_WORDS: &[&str] = &[
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
];

/// Words that point back only beside a word for something that was said: 이전 답변 does, 소유권 이전 and 직전 연도 do not.
const BEFORE_WORDS: &[&str] =
    &["이전", "이전의", "이전에", "직전", "직전의", "직전에", "previous", "earlier", "above"];

/// What was said, at the start of the word behind one of those.
const SAID_WORDS: &[&str] = &[
    "답",
    "대답",
    "질문",
    "대화",
    "설명",
    "말",
    "얘기",
    "이야기",
    "메시지",
    "메세지",
    "턴",
    "언급",
    "물어",
    "물었",
    "알려",
    "answer",
    "question",
    "message",
    "reply",
    "response",
    "turn",
    "explanation",
];

/// What was said, before one of those.
const SAID_BEFORE_WORDS: &[&str] =
    &["said", "mentioned", "told", "asked", "described", "listed", "explained"];

/// Words that point back only as they are.
const BACK_REFERENCE_WORDS_EXACT: &[&str] = &[
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
    "aforementioned",
];

/// What may follow such a word without a space.
const KOREAN_PARTICLES: &[&str] = &[
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

/// Whether a word of the question points back to the turn before: a whole word, not a syllable inside another.
pub(crate) fn refers_to_previous_turn(question: &str) -> bool {
    let lower = question.to_lowercase();
    let words: Vec<&str> = split_words(&lower).collect();
    words.iter().enumerate().any(|(at, word)| {
        BACK_REFERENCE_WORDS_EXACT.contains(word)
            || is_word_with_particle(word, BACK_REFERENCE_WORDS)
            || (BEFORE_WORDS.contains(word) && is_beside_what_was_said(&words, at))
    })
}

fn is_beside_what_was_said(words: &[&str], at: usize) -> bool {
    let is_said = |next: &&str| SAID_WORDS.iter().any(|word| next.starts_with(word));
    words.get(at + 1).is_some_and(is_said)
        || at.checked_sub(1).and_then(|at| words.get(at)).is_some_and(|word| SAID_BEFORE_WORDS.contains(word))
}

/// Whether a word is one of these, alone or with a particle.
pub(crate) fn is_word_with_particle(word: &str, stems: &[&str]) -> bool {
    stems.iter().any(|stem| word.strip_prefix(stem).is_some_and(|rest| KOREAN_PARTICLES.contains(&rest)))
}

/// The words of a text, without spaces and punctuation.
pub(crate) fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "직전 질문에 이어서 알려줘",
            "이전에 말한 위약금은?",
            "Summarise the previous answer",
            "the fee you mentioned earlier",
        ] {
            assert!(refers_to_previous_turn(question), "{question}");
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
            "소유권 이전은 언제 되나요?",
            "소유권이전등기 비용은 누가 내?",
            "권리의 이전에 동의가 필요한가요?",
            "이전 계약서와 다른 점은?",
            "직전 3개월 평균임금은?",
            "Payment is due at the earlier of the two dates",
            "amounts above 1,000",
            "the previous year's revenue",
        ] {
            assert!(!refers_to_previous_turn(question), "{question}");
        }
    }
}
