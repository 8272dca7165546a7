//! Small talk and manners: greetings, thanks, questions about the program itself, wishes that need a writer.

use super::text::{contains_any_cue, words};

/// Whether a text is nothing but a greeting.
pub(super) fn is_greeting(text: &str) -> bool {
    let greets = |word: &str| {
        matches!(
            word,
            "hi" | "hello" | "hey" | "반가워" | "반갑습니다" | "반가워요" | "하이" | "헬로" | "morning"
        ) || word.starts_with("안녕하")
            || word == "안녕"
    };
    consists_only_of(
        text,
        greets,
        &["there", "doran", "도란", "도란아", "good", "처음", "뵙겠습니다", "정말", "모두"],
    )
}

/// Whether a text is nothing but thanks.
pub(super) fn is_thanks(text: &str) -> bool {
    let thanks = |word: &str| {
        ["고마", "고맙", "감사", "수고", "땡큐", "thank", "thx"].iter().any(|start| word.starts_with(start))
    };
    let beside = [
        "you",
        "so",
        "much",
        "very",
        "a",
        "lot",
        "정말",
        "너무",
        "많이",
        "많으셨어요",
        "많았어",
        "했어",
        "했어요",
        "하셨습니다",
        "해",
        "네",
        "응",
        "아",
        "well",
        "ok",
        "okay",
        "그래",
        "합니다",
        "드립니다",
        "도란",
        "doran",
        "덕분에",
        "for",
        "your",
        "help",
        "도움",
        "도와줘서",
        "알려줘서",
    ];
    consists_only_of(text, thanks, &beside)
}

/// Whether a text is nothing but a good-bye.
pub(super) fn is_bye(text: &str) -> bool {
    let byes = |word: &str| {
        ["bye", "goodbye", "잘가", "잘있어", "바이"].contains(&word) || word.starts_with("안녕히")
    };
    consists_only_of(
        text,
        byes,
        &["good", "night", "see", "you", "later", "가세요", "계세요", "다음에", "봐", "그럼", "이만"],
    )
}

/// Whether a text says no more than that it was heard.
pub(super) fn is_filler(text: &str) -> bool {
    let fillers = [
        "네",
        "응",
        "어",
        "아",
        "음",
        "그래",
        "그래요",
        "알겠어",
        "알겠습니다",
        "좋아",
        "좋아요",
        "오케이",
        "ok",
        "okay",
        "yes",
        "no",
        "아니",
        "아니요",
        "ㅋㅋ",
        "ㅋㅋㅋ",
        "ㅎㅎ",
        "lol",
        "nice",
        "great",
        "cool",
        "굿",
    ];
    let words = words(text);
    !words.is_empty()
        && words.iter().all(|word| {
            fillers.contains(&word.to_lowercase().as_str())
                || word.chars().all(|c| matches!(c, 'ㅋ' | 'ㅎ' | 'ㅠ' | 'ㅜ'))
        })
}

/// Whether a text asks what the program is or can do.
pub(super) fn asks_what_it_is(text: &str) -> bool {
    let lower = text.to_lowercase();
    let cues = "뭘 할 수 있|무엇을 할 수 있|뭐 할 수 있|뭐할 수 있|할 수 있는 게 뭐|할 수 있는 일|너는 누구|넌 누구|\
        누구세요|당신은 누구|너 누구|네 이름|너의 이름|너는 뭐|넌 뭐야|자기소개|자기 소개|도움말|사용법|\
        어떻게 써|어떻게 사용|너 ai|너 gpt|언어 모델이야|llm이야|llm 이야|chatgpt|what can you do|\
        who are you|what are you|are you an llm|are you a language model|are you human|are you an ai|\
        your name|help me use|무슨 모델|어떤 모델|which model are you";
    contains_any_cue(&lower, cues) || matches!(lower.trim(), "help" | "help!" | "도움" | "?")
}

/// Whether a text wants something written, translated or thought up, or orders to be forgotten, which only a language
/// model can do.
pub(super) fn wants_a_writer(text: &str) -> bool {
    let lower = text.to_lowercase();
    let cues = "써 줘|써줘|써주|지어줘|지어 줘|작성해|번역해|번역 해|영어로 바꿔|한국어로 바꿔|코딩해|코드 짜|\
        코드를 짜|만들어 줘|만들어줘|추천해|아이디어|상상해|농담|재미있는 이야기|시 한 편|소설|조언해|\
        어떻게 생각|의견을 말|write a|write me|compose |translate|brainstorm|recommend|\
        your opinion|what do you think|advise me|give me advice|refactor|debug |\
        이전 지시를|앞의 지시를|ignore previous|ignore all previous";
    // 개시를 is no poem, and history no story.
    let whole = ["시를", "poem", "poems", "story", "stories", "joke", "jokes"];
    contains_any_cue(&lower, cues) || words(&lower).iter().any(|word| whole.contains(word))
}

/// Whether a text wants the conversation or a document summed up.
pub(super) fn wants_a_summary(text: &str) -> bool {
    let lower = text.to_lowercase();
    let cues = "요약해|요약 해|요약하|요약 좀|요약을 해|요약 부탁|정리해|정리 해|정리 좀|간추려|줄여서 말|세 줄로|\
        한 줄로|summarize|summarise|summary of|sum up|tl;dr|recap";
    let bare = lower.trim().trim_end_matches(['.', '!', '?']);
    contains_any_cue(&lower, cues) || bare.ends_with("요약") || bare == "summary"
}

/// Whether a text speaks of the conversation itself.
pub(super) fn is_about_talk(text: &str) -> bool {
    contains_any_cue(
        &text.to_lowercase(),
        "대화|지금까지|얘기|이야기|conversation|so far|we discussed|our chat",
    )
}

/// Whether a text names documents and not the conversation.
pub(super) fn is_about_documents(text: &str) -> bool {
    let cues = "문서|규정|계약서|자료|매뉴얼|지침|document|rules|policy|handbook|contract|manual";
    contains_any_cue(&text.to_lowercase(), cues) && !is_about_talk(text)
}

/// Whether a sentence asks or requests something.
pub(super) fn is_question_or_request(text: &str) -> bool {
    let trimmed = text.trim_end();
    if trimmed.ends_with(['?', '？']) {
        return true;
    }
    let last = words(trimmed).last().map(|word| word.to_lowercase()).unwrap_or_default();
    let endings = [
        "나요",
        "까요",
        "ㄹ까",
        "인가요",
        "니까",
        "는지",
        "은지",
        "알려줘",
        "알려줘요",
        "주세요",
        "줘",
        "줄래",
        "보여줘",
        "찾아줘",
        "뭐야",
        "뭔가요",
        "뭐지",
        "있어",
        "인가",
        "는가",
        "될까",
        "할까",
        "돼",
        "되나",
        "했지",
        "였지",
        "얼마야",
        "언제야",
        "누구야",
        "어디야",
        "봐",
        "말해",
        "궁금해",
        "해봐",
    ];
    let first = words(trimmed).first().map(|word| word.to_lowercase()).unwrap_or_default();
    let starts = [
        "what", "what's", "who", "where", "when", "which", "how", "why", "is", "are", "do", "does", "did",
        "can", "could", "may", "must", "should", "tell", "show", "find", "explain", "list", "give", "please",
    ];
    let inside = "무엇|뭐|언제|어디|누가|얼마|며칠|어떻게|왜 |몇 ";
    endings.iter().any(|end| last.ends_with(end))
        || starts.contains(&first.as_str())
        || contains_any_cue(text, inside)
}

fn consists_only_of(text: &str, is: impl Fn(&str) -> bool, beside: &[&str]) -> bool {
    let words: Vec<String> = words(text).into_iter().map(str::to_lowercase).collect();
    words.iter().any(|word| is(word)) && words.iter().all(|word| is(word) || beside.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manners_are_told_apart() {
        assert!(is_greeting("안녕하세요!") && is_greeting("hello there") && is_greeting("Good morning"));
        assert!(!is_greeting("안녕, 연차는 며칠이야?") && !is_greeting("안녕히 계세요"));
        assert!(is_thanks("정말 고마워!") && is_thanks("Thank you so much") && is_thanks("감사합니다"));
        assert!(!is_thanks("감사 절차는 어떻게 되나요?") && !is_thanks("감사팀 연락처"));
        assert!(is_bye("안녕히 계세요") && is_bye("bye"));
        assert!(is_filler("네 알겠습니다") && is_filler("ㅋㅋㅋ") && !is_filler("네 번째 조항"));
        assert!(asks_what_it_is("무엇을 할 수 있나요?") && asks_what_it_is("Are you an LLM?"));
    }

    #[test]
    fn summaries_and_writing_are_told_apart_from_questions() {
        assert!(
            wants_a_summary("지금까지 대화 요약해줘")
                && wants_a_summary("summarize this")
                && wants_a_summary("문서 요약")
        );
        assert!(!wants_a_summary("요약본 제출 기한은?"));
        assert!(wants_a_writer("시를 써 줘") && wants_a_writer("Translate this into English"));
        assert!(!wants_a_writer("업무 개시를 미루면?") && !wants_a_writer("Show the history of changes"));
        assert!(
            is_question_or_request("연차 규정 알려줘")
                && is_question_or_request("Who pays")
                && !is_question_or_request("내 이름은 철수야")
        );
    }
}
