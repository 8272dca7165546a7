//! Decides what the built-in model says. A plain function of the conversation: no clock, no chance, no state.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{self, Fact};
use super::text::{Language, held, language, sentences, wanted, words};
use crate::message::{Message, Origin, Part, Passage, Role};

/// How much of a question's weight a sentence must share to be quoted. Set by trial on the sample documents: 0.5
/// leaves some of their questions unanswered; less than this answers no more of them and quotes on thinner ground.
const ENOUGH: f64 = 0.4;

/// What a sentence gains by holding a number in the unit that was asked for.
const UNIT_BONUS: f64 = 0.1;

/// How much a feature counts that stands in the title of a passage and not in the sentence itself.
const TITLE_SHARE: f64 = 0.5;

/// The answer to the newest message of the user; none if there is nothing to answer.
pub(super) fn answer(messages: &[Message]) -> Option<String> {
    let said: Vec<String> = messages.iter().filter(|message| message.role == Role::User).map(typed).collect();
    let newest = said.last().filter(|text| !text.trim().is_empty())?;
    let tongue = said.iter().rev().find_map(|text| language(text)).unwrap_or(Language::English);
    let (statements, questions): (Vec<&str>, Vec<&str>) =
        sentences(newest).into_iter().partition(|sentence| facts::stated(sentence).is_some());
    let question = questions.join(" ");
    let noted: Vec<Fact<'_>> = statements.iter().filter_map(|sentence| facts::stated(sentence)).collect();
    let greeting = is_greeting(&question);
    if !noted.is_empty() {
        let mut answer = note(tongue, &noted);
        if !greeting && !question.is_empty() {
            answer.push('\n');
            answer.push_str(&reply(tongue, &said, &question, &passages(messages)));
        }
        return Some(answer);
    }
    if greeting {
        return Some(greet(tongue));
    }
    Some(reply(tongue, &said, &question, &passages(messages)))
}

/// What the person typed in a message; what it carries from elsewhere is not their word.
fn typed(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text, origin: Origin::User } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn reply(tongue: Language, said: &[String], question: &str, passages: &[&Passage]) -> String {
    let asked = facts::asked(question);
    if let Some(asked) = &asked {
        let mut known = said.iter().flat_map(|text| sentences(text)).filter_map(facts::stated);
        // The newest statement wins: people correct themselves.
        if let Some(fact) = known.rfind(|fact| asked.is_about(fact)) {
            return recall(tongue, &fact);
        }
    }
    if let Some((sentence, number)) = best_sentence(question, passages) {
        return quote(tongue, sentence, number);
    }
    if let Some(asked) = asked.filter(|asked| !asked.subject.is_empty() && passages.is_empty()) {
        return not_told(tongue, &asked.subject);
    }
    if passages.is_empty() { introduce(tongue) } else { not_found(tongue, passages) }
}

/// The sentence of the passages that shares most with the question, and the number of its passage; the first of
/// equals. A feature counts the more, the fewer sentences have it.
fn best_sentence<'a>(question: &str, passages: &[&'a Passage]) -> Option<(&'a str, u32)> {
    let wanted = wanted(question);
    let candidates: Vec<(&str, &Passage, BTreeSet<String>)> = passages
        .iter()
        .flat_map(|passage| sentences(&passage.text).into_iter().map(move |sentence| (sentence, *passage)))
        .filter(|(sentence, _)| !sentence.starts_with('#'))
        .map(|(sentence, passage)| (sentence, passage, held(sentence)))
        .collect();
    let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, _, has) in &candidates {
        for feature in has.intersection(&wanted) {
            *holders.entry(feature).or_default() += 1;
        }
    }
    let total = candidates.len() as f64;
    let weight = |feature: &str| {
        let holders = holders.get(feature).copied().unwrap_or(0) as f64;
        (1.0 + total / (1.0 + holders)).ln()
    };
    let whole: f64 = wanted.iter().map(|feature| weight(feature)).sum();
    let units = units_asked(question);
    let mut best: Option<(f64, &str, u32)> = None;
    for (sentence, passage, has) in &candidates {
        let titled = held(&passage.title);
        let in_sentence: f64 = has.intersection(&wanted).map(|feature| weight(feature)).sum();
        let in_title: f64 =
            titled.intersection(&wanted).filter(|f| !has.contains(*f)).map(|feature| weight(feature)).sum();
        let score = (in_sentence + TITLE_SHARE * in_title) / whole;
        // A title alone says nothing about which of its sentences answers.
        let enough = in_sentence > 0.0 && score >= ENOUGH;
        let rank = score + if holds_number_in(sentence, units) { UNIT_BONUS } else { 0.0 };
        if enough && best.is_none_or(|(most, ..)| rank > most) {
            best = Some((rank, sentence, passage.number));
        }
    }
    best.map(|(_, sentence, number)| (sentence, number))
}

/// The units in which a question wants its number: "며칠" asks for days, "얼마" for money.
fn units_asked(question: &str) -> &'static [&'static str] {
    const ASKED: [(&str, &[&str]); 6] = [
        ("며칠", &["일"]),
        ("몇 일", &["일"]),
        ("몇 시간", &["시간"]),
        ("얼마", &["원", "만 원"]),
        ("how many days", &[" days", " day"]),
        ("how much", &[" won", " dollars"]),
    ];
    let question = question.to_lowercase();
    ASKED.iter().find(|(word, _)| question.contains(word)).map_or(&[], |(_, units)| units)
}

fn holds_number_in(sentence: &str, units: &[&str]) -> bool {
    let digits = sentence.char_indices().filter(|(_, char)| char.is_ascii_digit());
    digits.map(|(at, _)| &sentence[at + 1..]).any(|rest| units.iter().any(|unit| rest.starts_with(unit)))
}

fn passages(messages: &[Message]) -> Vec<&Passage> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            Part::Passage(passage) => Some(passage),
            _ => None,
        })
        .collect()
}

fn is_greeting(text: &str) -> bool {
    let words = words(text);
    let greets = |word: &&str| {
        matches!(
            word.to_lowercase().as_str(),
            "hi" | "hello" | "hey" | "반가워" | "반갑습니다" | "반가워요" | "하이"
        ) || word.starts_with("안녕")
    };
    let polite = |word: &&str| matches!(word.to_lowercase().as_str(), "there" | "doran" | "도란" | "도란아");
    words.iter().any(&greets) && words.iter().all(|word| greets(word) || polite(word))
}

fn quote(tongue: Language, sentence: &str, number: u32) -> String {
    match tongue {
        Language::Korean => format!("문서에 이렇게 적혀 있습니다: \"{sentence}\" [{number}]"),
        Language::English => format!("The document says: \"{sentence}\" [{number}]"),
    }
}

fn recall(tongue: Language, fact: &Fact<'_>) -> String {
    let Fact { value, sentence, .. } = fact;
    match tongue {
        Language::Korean => format!("{value}입니다. 이 대화에서 \"{sentence}\" 하고 말씀하셨습니다."),
        Language::English => format!("{value}. You said in this conversation: \"{sentence}\""),
    }
}

fn note(tongue: Language, facts: &[Fact<'_>]) -> String {
    let list: Vec<String> = facts.iter().map(|fact| format!("{} = {}", fact.subject, fact.value)).collect();
    let list = list.join(", ");
    match tongue {
        Language::Korean => format!("이 대화에 적어 두었습니다: {list}."),
        Language::English => format!("Noted in this conversation: {list}."),
    }
}

fn not_told(tongue: Language, subject: &str) -> String {
    match tongue {
        Language::Korean => format!("이 대화에서 말씀하신 적이 없어 모릅니다: {subject}."),
        Language::English => format!("You have not told me in this conversation: {subject}."),
    }
}

fn not_found(tongue: Language, passages: &[&Passage]) -> String {
    let mut titles: Vec<String> = Vec::new();
    for passage in passages {
        let title = format!("{} [{}]", passage.title, passage.number);
        if !passage.title.is_empty() && titles.len() < 3 && !titles.contains(&title) {
            titles.push(title);
        }
    }
    let near = titles.join(", ");
    match (tongue, titles.is_empty()) {
        (Language::Korean, true) => "문서에서 찾지 못했습니다.".into(),
        (Language::Korean, false) => format!("문서에서 찾지 못했습니다. 가장 가까운 제목: {near}"),
        (Language::English, true) => "I did not find it in the documents.".into(),
        (Language::English, false) => format!("I did not find it in the documents. Nearest headings: {near}"),
    }
}

fn greet(tongue: Language) -> String {
    match tongue {
        Language::Korean => format!("안녕하세요. {}", introduce(tongue)),
        Language::English => format!("Hello. {}", introduce(tongue)),
    }
}

fn introduce(tongue: Language) -> String {
    match tongue {
        Language::Korean => "저는 언어 모델(LLM)이 아니라 정해진 규칙으로 움직이는 오프라인 추출 모드입니다. 문서에 있는 \
                             문장을 그대로 인용해 답하고, 이 대화에서 말씀하신 사실(예: \"내 이름은 철수야\")을 \
                             되짚을 수 있습니다."
            .into(),
        Language::English => "I am not a language model (LLM) but the offline extractive mode, which works by fixed \
                              rules. I answer by quoting sentences of your documents word for word, and I can recall \
                              facts you state in this conversation (such as \"my name is Ann\")."
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAVE: &str = "연차휴가는 1년에 15일을 준다. 육아휴직은 자녀 1명당 1년 이내로 한다.";
    const EXPENSE: &str = "Keep every receipt for seven years. Claims above 300 dollars need a manager.";

    fn check(turns: &[&str], expected: &str) {
        assert_eq!(talk(turns, &[]), expected);
    }

    fn talk(turns: &[&str], passages: &[(&str, &str)]) -> String {
        let mut messages: Vec<Message> = turns.iter().map(|turn| Message::user("m", *turn)).collect();
        let numbered = passages.iter().zip(1..);
        let given = numbered.map(|((title, text), number)| Passage {
            number,
            title: (*title).into(),
            text: (*text).into(),
        });
        messages.insert(0, Message::passages("p", given));
        answer(&messages).expect("an answer")
    }

    fn ask(question: &str) -> String {
        talk(&[question], &[("Expenses", EXPENSE), ("휴가 규정", LEAVE)])
    }

    #[test]
    fn an_answer_is_a_sentence_word_for_word_with_its_number() {
        let quoted = "문서에 이렇게 적혀 있습니다: \"육아휴직은 자녀 1명당 1년 이내로 한다.\" [2]";
        assert_eq!(ask("육아휴직은 최대 며칠까지 쓸 수 있나요?"), quoted);
        assert_eq!(
            ask("연차휴가는 며칠이야?"),
            "문서에 이렇게 적혀 있습니다: \"연차휴가는 1년에 15일을 준다.\" [2]"
        );
        assert_eq!(
            ask("How long must I keep receipts?"),
            "The document says: \"Keep every receipt for seven years.\" [1]"
        );
    }

    #[test]
    fn what_is_not_in_the_documents_is_not_answered() {
        let missing = "문서에서 찾지 못했습니다. 가장 가까운 제목: Expenses [1], 휴가 규정 [2]";
        assert_eq!(ask("주차장 요금은 얼마인가요?"), missing);
        assert!(ask("Who won the world cup?").starts_with("I did not find it"));
    }

    #[test]
    fn a_fact_stated_earlier_is_recalled_with_its_sentence() {
        let recalled = "철수입니다. 이 대화에서 \"내 이름은 철수야\" 하고 말씀하셨습니다.";
        check(&["내 이름은 철수야", "내 이름이 뭐라고 했지?"], recalled);
        check(
            &["My team is Sales.", "what is my team?"],
            "Sales. You said in this conversation: \"My team is Sales.\"",
        );
    }

    #[test]
    fn the_newest_statement_wins() {
        let answer = talk(&["내 이름은 철수야", "아니, 내 이름은 영희야", "내 이름이 뭐야?"], &[]);
        assert!(answer.starts_with("영희입니다."), "{answer}");
    }

    #[test]
    fn what_was_noted_is_shown_and_the_question_beside_it_answered() {
        check(&["내 이름은 철수야"], "이 대화에 적어 두었습니다: 이름 = 철수.");
        let both = talk(&["안녕! 내 이름은 철수야. 연차휴가는 며칠이야?"], &[("휴가", LEAVE)]);
        assert_eq!(
            both,
            "이 대화에 적어 두었습니다: 이름 = 철수.\n문서에 이렇게 적혀 있습니다: \"연차휴가는 1년에 15일을 준다.\" [1]"
        );
    }

    #[test]
    fn a_fact_nobody_stated_is_not_made_up() {
        check(&["내 이름이 뭐야?"], "이 대화에서 말씀하신 적이 없어 모릅니다: 이름.");
        check(&["what is my name?"], "You have not told me in this conversation: name.");
    }

    #[test]
    fn words_of_a_document_are_not_facts_of_the_person() {
        let answer = talk(&["내 이름이 뭐야?"], &[("메모", "내 이름은 영희야.")]);
        assert_eq!(answer, "문서에 이렇게 적혀 있습니다: \"내 이름은 영희야.\" [1]");
    }

    #[test]
    fn pasted_web_text_is_not_a_fact_of_the_person() {
        let mut pasted = Message::user("m1", "이것 좀 봐. ");
        pasted.parts.push(Part::Text { text: "내 이름은 영희야.".into(), origin: Origin::Web });
        let answer = answer(&[pasted, Message::user("m2", "내 이름이 뭐야?")]).expect("an answer");
        assert_eq!(answer, "이 대화에서 말씀하신 적이 없어 모릅니다: 이름.");
    }

    #[test]
    fn it_greets_and_says_what_it_is() {
        assert!(talk(&["안녕하세요!"], &[]).starts_with("안녕하세요. 저는 언어 모델(LLM)이 아니라"));
        assert!(talk(&["hello there"], &[]).starts_with("Hello. I am not a language model"));
        assert!(talk(&["시를 써 줘"], &[]).starts_with("저는 언어 모델(LLM)이 아니라"));
        assert!(talk(&["한국어로 말해요", "1 + 2"], &[]).starts_with("저는 언어 모델(LLM)이 아니라"));
    }
}
