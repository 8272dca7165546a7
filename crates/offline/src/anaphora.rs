//! Tells whether a question leans on what was said before: "그 조항은?", "방금 말한 것", "아까". Whole words in real
//! sentences: the syllable inside another word ("그래프", "아까운") is no reference.

use super::text::{contains_any_cue, question_features, without_particle, words};

/// Whether a question points back with one of its words.
pub(super) fn points_back(question: &str) -> bool {
    let words = words(question);
    let korean = words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).copied().unwrap_or("");
        is_pointing_word(word, next, at)
    });
    korean || points_back_in_english(question)
}

/// Whether a question is too short to stand alone: "왜?", "언제까지?", "더 자세히 알려줘".
pub(super) fn is_elliptic(question: &str) -> bool {
    let follow = "더 자세히|자세히|계속|다시|왜|어째서|예를 들|more detail|go on|continue|why";
    let lower = question.to_lowercase();
    let short = words(question).len() <= 3;
    (short && contains_any_cue(&lower, follow)) || question_features(question).is_empty()
}

fn is_pointing_word(word: &str, next: &str, at: usize) -> bool {
    // "그 외", "그 밖의" lead on, they do not point back.
    if word == "그" {
        return !next.is_empty() && !next.starts_with("외") && !next.starts_with("밖");
    }
    let bare = without_particle(word);
    const POINTERS: [&str; 31] = [
        "그거",
        "그것",
        "그것들",
        "그게",
        "그건",
        "그걸",
        "그럼",
        "그러면",
        "그렇다면",
        "그중",
        "그때",
        "그분",
        "그쪽",
        "그런",
        "그렇게",
        "그곳",
        "거기",
        "거기서",
        "거긴",
        "방금",
        "방금전",
        "아까",
        "앞서",
        "저번",
        "지난번",
        "위에서",
        "앞에서",
        "그걸로",
        "그거랑",
        "그것도",
        "그래서",
    ];
    if POINTERS.contains(&word) || POINTERS.contains(&bare) {
        // "그래서" joins sentences; it points back only where it opens one.
        return word != "그래서" || at == 0;
    }
    let pointed = ["이전", "앞", "직전", "위", "해당"].contains(&bare) || word == "이전에";
    let things = ["답변", "대답", "내용", "질문", "말", "설명", "조항", "대화", "항목", "조문"];
    pointed && things.iter().any(|thing| next.starts_with(thing))
}

fn points_back_in_english(question: &str) -> bool {
    let lower = question.to_lowercase();
    let words = words(&lower);
    let phrases = "you just said|you said|as mentioned|mentioned above|the previous|your last answer|your answer|\
        earlier|what about|how about";
    let leads = words.first().is_some_and(|word| matches!(*word, "then" | "so" | "and" | "also"));
    let pairs = words.windows(2).any(|pair| {
        matches!(pair[0], "that" | "those" | "this" | "these")
            && matches!(
                pair[1],
                "one" | "ones" | "clause" | "article" | "answer" | "case" | "section" | "part" | "document"
            )
    });
    let last = words.last().is_some_and(|word| matches!(*word, "that" | "it" | "those" | "them"));
    let mentioned = contains_any_cue(&lower, phrases);
    let starts = lower.starts_with("is that") || lower.starts_with("does it") || lower.starts_with("is it");
    mentioned || leads || pairs || last || starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_point_back() {
        for question in [
            "그 참조항목들 내용 정리해서 보여줘봐",
            "그럼 해지는 어떻게 해?",
            "방금 말한 조항은 몇 조야?",
            "아까 말한 마감일이 언제라고 했지?",
            "그것은 누가 부담하나요?",
            "그건 왜 그래?",
            "그러면 위약금은?",
            "이전 답변을 짧게 정리해줘",
            "거기에 예외도 있어?",
            "그래서 얼마야?",
            "What about that clause?",
            "Then who pays?",
            "Can you explain that?",
        ] {
            assert!(points_back(question), "{question}");
        }
    }

    #[test]
    fn syllables_of_other_words_do_not() {
        for question in [
            "그래프 보여줘",
            "그룹 보험은 가입되나요?",
            "그린카드 규정은?",
            "아까운 연차는 어떻게 하나요?",
            "그 밖의 비용은 누가 내나요?",
            "그 외 수당은 무엇이 있나요?",
            "방금속 거래 계약은?",
            "계약 기간은 얼마인가요?",
            "위약금은 얼마인가요?",
            "그림 저작권은 누구에게 있나요?",
            "Is the contract that we signed still valid?",
            "Who pays for the delivery?",
        ] {
            assert!(!points_back(question), "{question}");
        }
    }

    #[test]
    fn short_follow_ups_lean_on_what_was_said() {
        assert!(is_elliptic("왜?") && is_elliptic("더 자세히 알려줘") && is_elliptic("언제까지?"));
        assert!(!is_elliptic("계약 기간은 얼마인가요?"));
    }
}
