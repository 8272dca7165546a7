//! What a person wants kept, found or forgotten beyond this conversation, read by fixed patterns. A fact is kept in the
//! words it was said in.

use std::sync::LazyLock;

use doran_agents::memory::recalled_fact_id;
use doran_agents::tools::names;
use doran_llm::ToolResult;
use doran_retrieval::{asks_or_requests, is_hangul};
use regex::Regex;

use super::answer;
use super::cues::Cue;
use super::decisions;
use super::facts::{self, PersonalFactQuestion};
use super::intent::{self, QuestionIntent};
use super::quotes;
use super::text::{contains_any_cue, content_words, sentences, words};
use super::turn::OfflineTurn;

/// A question of more words is about more than one fact.
const MAX_WORDS_OF_LOOKUP: usize = 12;

/// A fact that shares more than this of the words of a question is about what it asks.
const ABOUT_QUESTION: f64 = 0.5;

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

/// Ways to ask for something to be kept: as a favour, or as an order, which a question without its mark looks like.
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static REMEMBER_CUES: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    let favour = r"(?:기억|암기)\s?(?:좀\s?)?(?:해|하고 있어)\s?(?:줘|주|둬|두|놔|놓아|놓으)|외워\s?(?:줘|주|둬|두)|(?:기억|암기)\s?(?:좀\s?)?부탁";
    let order = r"(?:기억|암기)\s?(?:해(?:라|요)?|하세요|하십시오)[\s.!~]*(?:$|:)|외워(?:라|요)?[\s.!~]*$";
    [favour, order].map(|pattern| Regex::new(pattern).expect("a pattern"))
});

/// What is to be kept, as it was said: before the wish, else after it, else the sentences that lead up to it.
pub(super) fn fact_to_remember(prose: &str) -> Option<&str> {
    for sentence in sentences(prose) {
        if sentence.ends_with(['?', '？']) {
            continue;
        }
        let start = prose.find(sentence).unwrap_or(0);
        let [favour, order] =
            REMEMBER_CUES.each_ref().map(|cue| cue.find(sentence).map(|found| found.start()));
        if let Some(at) = favour.or(order) {
            let colon = sentence[at..].split_once(':').map_or("", |(_, after)| after.trim());
            let before = without_reported_ending(&sentence[..at]);
            let facts = [before, colon, without_reported_ending(&prose[..start])];
            let fact = facts.into_iter().find(|fact| fact.chars().any(char::is_alphanumeric))?;
            // "내 이름 기억해" asks. An order says what it is.
            let is_ending_cut = before.len() < sentence[..at].trim_end().len();
            return (favour.is_some() || is_ending_cut || fact != before || names_value(fact))
                .then_some(fact);
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

/// Whether a text holds more than Korean words, such as a number, a code or a name in Latin letters.
fn names_value(text: &str) -> bool {
    text.chars().any(|char| char.is_alphanumeric() && !is_hangul(char))
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

/// What a question has to do with the memory.
enum MemoryQuestion {
    /// It asks for what was kept, or changes it.
    Wish,
    /// It asks about the person.
    Personal(PersonalFactQuestion),
    /// It asks for something that may have been kept.
    Any,
}

impl MemoryQuestion {
    fn of(question: &str) -> Self {
        let personal = || sentences(question).into_iter().find_map(facts::personal_fact_question);
        if memory_intent(question).is_some() {
            Self::Wish
        } else {
            personal().filter(|asked| !asked.subject.is_empty()).map_or(Self::Any, Self::Personal)
        }
    }
}

/// What to look up in the memory for a question that speaks of nothing to be remembered: what it asks about the person, and
/// what documents do not surely answer.
pub(super) fn words_to_recall(turn: &OfflineTurn<'_>) -> Option<String> {
    let question = turn.question.as_str();
    let found = quotes::find_quotes(turn.asked(question), &decisions::sources(turn));
    match MemoryQuestion::of(question) {
        MemoryQuestion::Wish => None,
        MemoryQuestion::Personal(asked) => {
            // Where the words find nothing, the person sees what there is.
            let nothing = turn.results.iter().any(|result| is_recall_of_nothing(result));
            let words = if nothing && found.picks.is_empty() { String::new() } else { asked.subject.clone() };
            (!answer::is_known(turn, &asked)).then_some(words)
        }
        MemoryQuestion::Any => {
            let is_own = words(question).iter().any(|word| Cue::IsOwn.is_in(word));
            let is_answered = !is_own && found.picks.iter().any(|pick| pick.is_sure);
            let asks = asks_or_requests(question) || Cue::AsksSomething.is_in(question);
            let is_plain = words(question).len() <= MAX_WORDS_OF_LOOKUP
                && turn.attached.is_empty()
                && !decisions::is_small_talk(question)
                && !decisions::asks_for_what_was_said(turn)
                && ![Cue::WantsWriter, Cue::WantsSummary, Cue::GivesOrders]
                    .iter()
                    .any(|cue| cue.is_in(question));
            let about = content_words(question);
            (asks && is_plain && !is_answered && !about.is_empty()).then(|| about.join(" "))
        }
    }
}

/// The lines of a result that tell the facts a question is about, as far as the memory was asked for some.
pub(super) fn facts_about<'a>(turn: &OfflineTurn<'_>, result: &'a ToolResult) -> Vec<&'a str> {
    let facts: Vec<&str> = result.text.lines().filter(|line| recalled_fact_id(line).is_some()).collect();
    let question = MemoryQuestion::of(&turn.question);
    if matches!(question, MemoryQuestion::Wish) {
        return facts;
    }
    let shares: Vec<f64> = facts.iter().map(|fact| quotes::shared_words(&turn.question, fact)).collect();
    let most = shares.iter().copied().fold(0.0, f64::max);
    if most > ABOUT_QUESTION {
        return facts
            .into_iter()
            .zip(shares)
            .filter(|(_, share)| *share >= most)
            .map(|(fact, _)| fact)
            .collect();
    }
    if matches!(question, MemoryQuestion::Any) { Vec::new() } else { facts }
}

/// Whether a memory was looked up beside the documents, and says nothing about the question.
pub(super) fn is_beside_question(turn: &OfflineTurn<'_>, result: &ToolResult) -> bool {
    is_recall(result)
        && intent::intents_of(&turn.question).is_empty()
        && matches!(MemoryQuestion::of(&turn.question), MemoryQuestion::Any)
        && facts_about(turn, result).is_empty()
}

/// How much of the words of the question a remembered fact shares that is about it.
pub(super) fn share_of_fact(turn: &OfflineTurn<'_>) -> Option<f64> {
    let facts =
        turn.results.iter().filter(|result| is_recall(result)).flat_map(|result| facts_about(turn, result));
    let shares = facts.map(|fact| quotes::shared_words(&turn.question, fact));
    shares.filter(|share| *share > ABOUT_QUESTION).max_by(f64::total_cmp)
}

fn is_recall(result: &ToolResult) -> bool {
    !result.failed && result.name.ends_with(names::RECALL)
}

/// Whether a memory was looked up and there was none.
pub(super) fn is_recall_of_nothing(result: &ToolResult) -> bool {
    is_recall(result) && !result.text.lines().any(|line| recalled_fact_id(line).is_some())
}

/// Whether the whole memory was looked up since nothing was found in the words of the question.
pub(super) fn is_recall_of_all(turn: &OfflineTurn<'_>, result: &ToolResult) -> bool {
    is_recall(result)
        && !matches!(MemoryQuestion::of(&turn.question), MemoryQuestion::Wish)
        && turn.results.iter().any(|other| is_recall_of_nothing(other))
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
        check("차량번호 12가3456 기억해", "keep 차량번호 12가3456");
        check("프린터 이름 laser-2 기억 좀 해 줘", "keep 프린터 이름 laser-2");
        check("내 사번은 12345니까 기억해!", "keep 내 사번은 12345니까");
        check("나는 채식을 한다고 기억하세요", "keep 나는 채식을 한다");
        check("회의는 월요일이야. 기억해 놔", "keep 회의는 월요일이야");
        check("기억해: 회의는 월요일이다", "keep 회의는 월요일이다");
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
            "내 이름 기억해",
            "어제 회의 기억해요",
            "기억해",
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
