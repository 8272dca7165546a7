//! What a person wants kept, found or forgotten beyond this conversation, read by fixed patterns. A fact is kept in the
//! words it was said in.

use std::sync::LazyLock;

use doran_agents::memory::recalled_fact_id;
use regex::Regex;

use super::intent::QuestionIntent;
use super::text::{contains_any_cue, content_words, sentences};

/// Ways to ask for something to be kept.
const REMEMBER_CUES: &str = "기억해줘|기억해 줘|기억해주|기억해 주|기억해둬|기억해 둬|기억해두|기억해 두|기억하고 있어줘|외워줘|외워 줘";

/// The wish that concerns memory, if there is one.
pub(super) fn memory_intent(prose: &str) -> Option<QuestionIntent> {
    let lower = prose.to_lowercase();
    if let Some(what) = fact_to_forget(prose, &lower) {
        return Some(QuestionIntent::Forget(what));
    }
    if let Some(fact) = fact_to_remember(prose) {
        return Some(QuestionIntent::Remember(fact.to_owned()));
    }
    let all = "뭘 기억하|무엇을 기억하|뭐를 기억하|뭐 기억하|기억하고 있는 것|기억하는 것|기억한 것|\
        what do you remember|what have you remembered";
    contains_any_cue(&lower, all).then(|| QuestionIntent::Recall(String::new()))
}

/// What is to be kept, as it was said: before the wish, else after it, else the sentences that lead up to it.
pub(super) fn fact_to_remember(prose: &str) -> Option<&str> {
    for sentence in sentences(prose) {
        if sentence.ends_with(['?', '？']) {
            continue;
        }
        if let Some(at) = REMEMBER_CUES.split('|').filter_map(|cue| sentence.find(cue)).min() {
            let start = prose.find(sentence).unwrap_or(0);
            let colon = sentence[at..].split_once(':').map_or("", |(_, after)| after.trim());
            let facts =
                [without_reported_ending(&sentence[..at]), colon, without_reported_ending(&prose[..start])];
            return facts.into_iter().find(|fact| fact.chars().any(char::is_alphanumeric));
        }
        let lower = sentence.to_lowercase();
        let english = ["remember that ", "remember: ", "please remember ", "don't forget that "];
        let asks = ["do you", "did ", "can you tell", "what "].iter().any(|start| lower.starts_with(start));
        let found = english.iter().find_map(|cue| lower.find(cue).map(|at| at + cue.len()));
        if let Some(fact) = found.filter(|_| !asks).and_then(|at| sentence.get(at..)) {
            return Some(fact.trim()).filter(|fact| fact.chars().any(char::is_alphanumeric));
        }
    }
    None
}

/// What hands a fact over: the quotative ending (-다고, -라는 것을), or the clause as a noun (-ㄴ 것을, -임을).
#[allow(clippy::expect_used, reason = "the pattern is fixed, and every test uses it")]
static REPORTED_ENDING: LazyLock<Regex> = LazyLock::new(|| {
    let thing = "(?:것|거|걸|사실|점)(?:을|를|은|이)?";
    Regex::new(&format!(
        r"(?:(?P<verb>다|자|냐|[하달말오가]라)|이?라)(?:고|는\s*{thing})$|인\s*{thing}$|임을$"
    ))
    .expect("a pattern")
});

/// A fact without the ending that hands it over: "5월 3일이라고" is "5월 3일", "12345라는 걸" is "12345". What ends in a verb keeps
/// its ending: "채식을 한다고" is "채식을 한다", "답해 달라고" is "답해 달라".
fn without_reported_ending(text: &str) -> &str {
    let text = text.trim_end_matches(|char: char| char.is_whitespace() || matches!(char, ',' | ':' | '.'));
    let text = ["꼭", "좀"].iter().find_map(|manner| text.strip_suffix(manner)).unwrap_or(text).trim_end();
    let Some(found) = REPORTED_ENDING.captures(text) else { return text };
    let whole = found.get(0).map_or(text.len(), |whole| whole.start());
    let end = found.name("verb").map_or(whole, |verb| verb.end());
    text[..end].trim()
}

/// What is to be forgotten: an id in brackets, or what it is about.
fn fact_to_forget(prose: &str, lower: &str) -> Option<String> {
    let cues = "잊어줘|잊어 줘|잊어주|잊어 주|기억에서 지워|기억 지워|기억을 지워|forget ";
    let keeps = "잊지 마|잊지마|don't forget|do not forget|never forget";
    if !contains_any_cue(lower, cues) || contains_any_cue(lower, keeps) {
        return None;
    }
    let id = prose.split_once('[').and_then(|(_, after)| after.split_once(']')).map(|(id, _)| id.trim());
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        return Some(format!("[{id}]"));
    }
    let manner = |word: &String| {
        ["잊", "기억", "지우", "지워", "forget", "please", "전부", "모두"]
            .iter()
            .any(|cue| word.starts_with(cue))
    };
    let about: Vec<String> = content_words(prose).into_iter().filter(|word| !manner(word)).collect();
    (!about.is_empty()).then(|| about.join(" "))
}

/// The id of the only fact that a memory gave.
pub(super) fn only_id(text: &str) -> Option<&str> {
    let mut ids = text.lines().map(recalled_fact_id);
    match (ids.next(), ids.next()) {
        (Some(Some(id)), None) => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, expected: &str) {
        let told = match memory_intent(question) {
            Some(QuestionIntent::Remember(fact)) => format!("keep {fact}"),
            Some(QuestionIntent::Recall(query)) => format!("find {query}"),
            Some(QuestionIntent::Forget(what)) => format!("forget {what}"),
            Some(other) => format!("{other:?}"),
            None => "-".into(),
        };
        assert_eq!(told, expected, "{question}");
    }

    #[test]
    fn facts_are_kept_in_the_words_they_were_said_in() {
        check("내 생일은 5월 3일이라고 기억해줘", "keep 내 생일은 5월 3일");
        check("내 생일은 5월 3일이야. 꼭 기억해 주세요", "keep 내 생일은 5월 3일이야");
        check("나는 채식을 한다고 기억해 둬", "keep 나는 채식을 한다");
        check("제 이름은 철수라고 기억해줘!", "keep 제 이름은 철수");
        check("늘 짧게 답해 달라고 기억해줘", "keep 늘 짧게 답해 달라");
        check("내 사번은 12345라는 걸 기억해 줘", "keep 내 사번은 12345");
        check("제 내선이 1190이라는 사실을 기억해 주세요", "keep 제 내선이 1190");
        check("우리 팀장은 김영희라는 것을 꼭 기억해줘", "keep 우리 팀장은 김영희");
        check("회의실은 3층인 것을 기억해 줘", "keep 회의실은 3층");
        check("나는 땅콩을 못 먹는다는 걸 기억해 둬", "keep 나는 땅콩을 못 먹는다");
        check("기억해줘: 회의는 월요일이다", "keep 회의는 월요일이다");
        check("Please remember that my birthday is May 3", "keep my birthday is May 3");
    }

    #[test]
    fn what_is_remembered_is_listed_and_forgotten() {
        check("지금 뭘 기억하고 있어?", "find ");
        check("What do you remember about me?", "find ");
        check("내 생일은 잊어줘", "forget 생일");
        check("[m-12] 잊어줘", "forget [m-12]");
        check("Forget my birthday", "forget birthday");
        assert_eq!(only_id("[a1] 내 생일은 5월 3일"), Some("a1"));
        assert_eq!(only_id("[a1] 하나\n[a2] 둘"), None);
        assert_eq!(only_id("기억한 것이 없습니다"), None);
    }

    #[test]
    fn questions_and_other_words_are_no_wishes() {
        for question in [
            "내 이름 기억해?",
            "아까 말한 거 기억나?",
            "기억해줘",
            "잊어줘",
            "잊지 마세요",
            "Do you remember that day?",
            "연차는 며칠이야?",
        ] {
            check(question, "-");
        }
    }
}
