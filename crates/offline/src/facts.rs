//! Facts a person stated about themselves in plain patterns ("내 이름은 철수야", "my team is Sales"), and questions
//! for them. Nothing is inferred: what fits no pattern is no fact.

use super::text::{ends_in_consonant, without_particle, words};

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
    if sentence.trim_end().ends_with('?') {
        return None;
    }
    korean(sentence).or_else(|| english(sentence))
}

/// What of the person's own a sentence asks about: the text after "my", squeezed for comparing.
pub(super) fn personal_fact_question(sentence: &str) -> Option<PersonalFactQuestion> {
    let words = words(sentence);
    let mine = words.iter().position(|word| is_mine(word))?;
    let asks = sentence.trim_end().ends_with('?') || words.iter().any(|word| is_question_word(word));
    let rest = squeeze(&words[mine + 1..].concat());
    (asks && !rest.is_empty())
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
        self.rest.starts_with(&squeeze(&fact.subject))
    }
}

/// Whether a sentence states something in a plain form ("마감일은 3월 15일이야", "the deadline is May 3"), of whatever
/// it is: worth keeping as it stands, though no fact is read from it.
pub(super) fn is_statement(sentence: &str) -> bool {
    if sentence.trim_end().ends_with('?') {
        return false;
    }
    let ends = sentence.trim_end_matches(|c: char| !c.is_alphanumeric());
    let korean = [
        "야",
        "이다",
        "입니다",
        "예요",
        "이에요",
        "했어",
        "했다",
        "했습니다",
        "됐어",
        "있어요",
        "있습니다",
        "정했어",
        "한다",
        "합니다",
    ];
    let english =
        sentence.split_whitespace().any(|word| matches!(word, "is" | "are" | "was" | "were" | "will"));
    let asks =
        sentence.split_whitespace().any(|w| is_question_word(w.trim_matches(|c: char| !c.is_alphanumeric())));
    !asks && (korean.iter().any(|end| ends.ends_with(end)) || english)
}

fn korean(sentence: &str) -> Option<StatedFact<'_>> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let mine = words.iter().position(|word| matches!(*word, "내" | "제" | "나의" | "저의"))?;
    let tail = &words[mine + 1..];
    let marked =
        |marks: [char; 2]| tail.iter().position(|word| word.chars().count() > 1 && word.ends_with(marks));
    // "내 아이 이름은": the topic particle is surer than the subject particle, which also ends many nouns.
    let mark = marked(['은', '는']).or_else(|| marked(['이', '가']))?;
    let subject = [&tail[..mark], &[without_particle(tail[mark])]].concat().join(" ");
    let value = without_copula(&tail[mark + 1..].join(" "))?;
    if words.iter().any(|word| is_question_word(word.trim_matches(|c: char| !c.is_alphanumeric()))) {
        return None;
    }
    Some(StatedFact { subject: subject.to_lowercase(), value, sentence })
}

/// The noun before "이다" in one of its usual forms; none if the text does not end so.
fn without_copula(text: &str) -> Option<String> {
    let text = text.trim_end_matches(|c: char| !c.is_alphanumeric());
    const AFTER_ANY: [&str; 10] = [
        "입니다",
        "이라고 합니다",
        "이라고 해요",
        "이라고 해",
        "이에요",
        "라고 합니다",
        "라고 해요",
        "라고 해",
        "예요",
        "이다",
    ];
    let noun = AFTER_ANY.iter().find_map(|end| text.strip_suffix(end)).or_else(|| {
        let before_ya = text.strip_suffix('야')?;
        let before_iya = before_ya.strip_suffix('이').filter(|noun| ends_in_consonant(noun));
        Some(before_iya.unwrap_or(before_ya))
    })?;
    let noun = noun.trim();
    (!noun.is_empty() && !noun.ends_with("아니")).then(|| noun.to_owned())
}

fn english(sentence: &str) -> Option<StatedFact<'_>> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let mine = words.iter().position(|word| word.eq_ignore_ascii_case("my"))?;
    let tail = &words[mine + 1..];
    let verb = tail.iter().position(|word| matches!(*word, "is" | "are" | "was") || word.ends_with("'s"))?;
    let mut subject = tail[..verb].to_vec();
    if let Some(noun) = tail[verb].strip_suffix("'s") {
        subject.push(noun);
    }
    let value = tail[verb + 1..].join(" ");
    let value = value.trim_end_matches(['.', '!', ',']);
    let asks = words.first().is_some_and(|word| is_question_word(word));
    if subject.is_empty() || value.is_empty() || asks {
        return None;
    }
    Some(StatedFact { subject: subject.join(" ").to_lowercase(), value: value.to_owned(), sentence })
}

fn subject_asked(tail: &[&str]) -> String {
    let mut subject: Vec<&str> = Vec::new();
    for word in tail {
        if is_question_word(word) || matches!(*word, "is" | "was" | "are") {
            break;
        }
        let bare = without_particle(word);
        subject.push(bare);
        if bare != *word {
            break;
        }
    }
    subject.join(" ")
}

fn is_mine(word: &str) -> bool {
    matches!(word, "내" | "제" | "나의" | "저의" | "my" | "My")
}

fn is_question_word(word: &str) -> bool {
    const STARTS: [&str; 12] =
        ["뭐", "뭔", "무엇", "누구", "어디", "언제", "며칠", "몇", "얼마", "기억", "알아", "말했"];
    let english = ["what", "what's", "who", "where", "when", "which", "how", "remember", "tell", "do", "did"];
    STARTS.iter().any(|start| word.starts_with(start)) || english.contains(&word.to_lowercase().as_str())
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
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
