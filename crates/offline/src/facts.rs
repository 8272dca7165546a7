//! Facts a person stated about themselves in plain patterns ("내 이름은 철수야", "my team is Sales"), and questions
//! for them. Nothing is inferred: what fits no pattern is no fact.

use std::sync::LazyLock;

use doran_retrieval::ends_in_consonant;
use regex::Regex;

use super::cues::Cue;
use super::text::{squeezed, without_particle, words};

/// `내 SUBJECT는 VALUE이다` in its usual forms, and `my SUBJECT is VALUE`. The topic particle is surer than the subject
/// particle, which also ends many nouns, so it is tried first.
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static STATEMENTS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    let korean = |particle: &str| {
        format!(
            r"(?:^|\s)(?:내|제|나의|저의)\s+(\S.*?)(?:{particle})\s+(.+?)(?:입니다|이?라고 (?:합니다|해요?)|이에요|예요|이다|야)[^\w]*$"
        )
    };
    [
        korean("은|는"),
        korean("이|가"),
        r"(?i)(?:^|\s)my\s+(\S.*?)(?:'s|\s(?:is|are|was))\s+(.+?)[.!,\s]*$".to_owned(),
    ]
    .map(|pattern| Regex::new(&pattern).expect("a pattern"))
});

/// Something the person said of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatedFact<'a> {
    /// What it is about, in lower case: `이름`, `name`.
    pub(super) subject: String,
    /// What was said of it.
    pub(super) value: String,
    /// The sentence it was said in.
    pub(super) sentence: &'a str,
}

/// The fact a sentence states, if it states one.
pub(super) fn stated_fact(sentence: &str) -> Option<StatedFact<'_>> {
    if sentence.trim_end().ends_with('?') || sentence.len() > 2000 || Cue::AsksSomething.is_in(sentence) {
        return None;
    }
    let found = STATEMENTS.iter().find_map(|pattern| pattern.captures(sentence))?;
    let value = found[2].trim();
    // "My Crema Duo is blinking" tells of a thing and how it is, and names nothing of the person.
    if Cue::NamesThing.is_in(&found[1]) || Cue::SaysHowItIs.is_in(value) {
        return None;
    }
    // "민준이야" is 민준, "철수야" is 철수.
    let called = value.strip_suffix('이').filter(|name| sentence.contains("이야") && ends_in_consonant(name));
    let value = called.unwrap_or(value);
    let stated = !value.is_empty() && !value.ends_with("아니");
    stated.then(|| StatedFact { subject: found[1].to_lowercase(), value: value.to_owned(), sentence })
}

/// The most words of a question about the person. A longer one that says "my" asks about something else.
const MAX_PERSONAL_WORDS: usize = 8;

/// What of the person's own a sentence asks about: the text after "my", squeezed for comparing.
pub(super) fn personal_fact_question(sentence: &str) -> Option<PersonalFactQuestion> {
    let words = words(sentence);
    let mine = words.iter().position(|word| matches!(*word, "내" | "제" | "나의" | "저의" | "my" | "My"))?;
    let asks = sentence.trim_end().ends_with('?') || Cue::AsksSomething.is_in(sentence);
    let personal =
        if words[mine].eq_ignore_ascii_case("my") { Cue::AsksAboutMe.is_in(sentence) } else { mine < 2 };
    let rest = squeezed(&words[mine + 1..].concat());
    (asks && personal && words.len() <= MAX_PERSONAL_WORDS && !rest.is_empty())
        .then_some(PersonalFactQuestion { rest, subject: subject_asked(&words[mine + 1..]) })
}

/// A question about something of the person's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PersonalFactQuestion {
    rest: String,
    /// What it asks about, for saying that it is not known.
    pub(super) subject: String,
}

impl PersonalFactQuestion {
    /// Whether this fact answers the question.
    pub(super) fn is_about(&self, fact: &StatedFact<'_>) -> bool {
        self.rest.starts_with(&squeezed(&fact.subject))
    }
}

/// Whether a sentence states something in a plain form ("마감일은 3월 15일이야", "the deadline is May 3"), of whatever
/// it is: worth keeping as it stands, though no fact is read from it.
pub(super) fn is_statement(sentence: &str) -> bool {
    !sentence.trim_end().ends_with('?') && !Cue::AsksSomething.is_in(sentence) && Cue::States.is_in(sentence)
}

fn subject_asked(tail: &[&str]) -> String {
    let mut subject: Vec<&str> = Vec::new();
    for word in tail
        .iter()
        .take_while(|word| !Cue::AsksSomething.is_in(word) && !matches!(**word, "is" | "was" | "are"))
    {
        let bare = without_particle(word);
        subject.push(bare);
        if bare != *word {
            break;
        }
    }
    subject.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sentence: &str, expected: &str) {
        let found = stated_fact(sentence).map(|fact| format!("{}={}", fact.subject, fact.value));
        assert_eq!(found.as_deref().unwrap_or("-"), expected, "{sentence}");
    }

    #[test]
    fn stated_facts_are_read_by_pattern() {
        check("내 이름은 철수야", "이름=철수");
        check("제 부서는 개발팀입니다.", "부서=개발팀");
        check("내 이름은 민준이야!", "이름=민준");
        check("제 이름은 김영희라고 해요", "이름=김영희");
        check("내 아이 이름은 민수예요", "아이 이름=민수");
        check("안녕, 내 나이는 30살이야", "나이=30살");
        check("My name is Ann Lee.", "name=Ann Lee");
        check("my team's Sales", "team=Sales");
    }

    #[test]
    fn what_fits_no_pattern_is_no_fact() {
        for sentence in [
            "내 노트북이 고장났어",
            "내 생각은 그게 아니야",
            "내 이름은 뭐야",
            "내 이름은 뭐라고 했지?",
            "What is my name",
            "연차는 15일이야",
            "My Crema Duo is blinking red.",
            "my printer is broken",
            "My LP-60 is a year old.",
            "내 A-200은 지난달에 산 거야",
            "내",
            "my",
            "my is",
        ] {
            check(sentence, "-");
        }
    }

    #[test]
    fn a_question_finds_its_fact() {
        let fact = stated_fact("내 이름은 철수야").expect("fact");
        for question in ["내 이름이 뭐라고 했지?", "내 이름 기억해?", "제 이름은 무엇인가요"]
        {
            let asked = personal_fact_question(question).expect(question);
            assert!(asked.is_about(&fact), "{question}");
            assert_eq!(asked.subject, "이름", "{question}");
        }
        assert!(!personal_fact_question("내 부서가 뭐였지?").expect("asked").is_about(&fact));
        assert_eq!(personal_fact_question("이름이 뭐야?"), None);
        let fact = stated_fact("my name is Ann").expect("fact");
        assert!(personal_fact_question("What did I say my name was?").expect("asked").is_about(&fact));
    }
}
