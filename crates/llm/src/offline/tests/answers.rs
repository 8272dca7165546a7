//! What is answered: quotes, recalls, notes, and honest words when there is nothing to say.

use super::said;
use crate::message::{Message, Origin, Part, Passage};
use crate::model::ChatRequest;

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
    let request = ChatRequest::new(messages);
    said(&request)
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
    let answer = said(&ChatRequest::new(vec![pasted, Message::user("m2", "내 이름이 뭐야?")]));
    assert_eq!(answer, "이 대화에서 말씀하신 적이 없어 모릅니다: 이름.");
}

#[test]
fn it_greets_and_says_what_it_is() {
    assert!(talk(&["안녕하세요!"], &[]).starts_with("안녕하세요.\n저는 언어 모델(LLM)이 아니라"));
    assert!(talk(&["hello there"], &[]).starts_with("Hello.\nI am not a language model"));
    assert!(talk(&["시를 써 줘"], &[]).starts_with("저는 언어 모델(LLM)이 아니라"));
    assert!(talk(&["한국어로 말해요", "1 + 2"], &[]).starts_with("저는 언어 모델(LLM)이 아니라"));
}

#[test]
fn an_answer_is_repeated_whole_and_without_its_marks() {
    let clauses: Vec<String> = (1..=9).map(|nth| format!("이어서: \"{nth}. 항목 {nth}이다.\" [1]")).collect();
    let before =
        format!("사용자 계약서에 이렇게 적혀 있습니다: \"③ 대금은 나눈다.\" [1]\n{}", clauses.join("\n"));
    let again = |before: &str| {
        said(&ChatRequest::new(vec![
            Message::user("1", "제7조 보여줘"),
            Message::assistant("2", before),
            Message::user("3", "방금 답변 다시 말해줘"),
        ]))
    };
    let told = again(&before);
    let expected: Vec<String> =
        before.lines().map(|line| format!("> {}", line.trim_end_matches(" [1]"))).collect();
    assert_eq!(told, format!("바로 앞의 답변을 그대로 옮깁니다.\n{}", expected.join("\n")));
    assert_eq!(again(&told), told, "an answer that repeats one is not nested");
}
