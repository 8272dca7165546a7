//! What is answered: quotes, recalls, notes, and honest words when there is nothing to say.

use doran_llm::{ChatRequest, Message, MessagePart, TextOrigin};

use super::answer_text;

const LEAVE: &str = "연차휴가는 1년에 15일을 준다. 육아휴직은 자녀 1명당 1년 이내로 한다.";
const EXPENSE: &str = "Keep every receipt for seven years. Claims above 300 dollars need a manager.";

fn check(turns: &[&str], expected: &str) {
    assert_eq!(talk(turns, &[]), expected);
}

fn talk(turns: &[&str], passages: &[(&str, &str)]) -> String {
    let mut messages: Vec<Message> = turns.iter().map(|turn| Message::user("m", *turn)).collect();
    let numbered = passages.iter().zip(1..);
    let given = numbered.map(|((title, text), number)| super::passage(number, title, text));
    messages.insert(0, Message::passages("p", given));
    let request = ChatRequest::new(messages);
    answer_text(&request)
}

fn ask(question: &str) -> String {
    talk(&[question], &[("Expenses", EXPENSE), ("휴가 규정", LEAVE)])
}

#[test]
fn an_answer_is_a_sentence_word_for_word_with_its_number() {
    let quoted = "문서에 이렇게 적혀 있습니다: \"육아휴직은 자녀 1명당 1년 이내로 한다.\" [2]";
    assert_eq!(ask("육아휴직은 최대 몇 년까지 쓸 수 있나요?"), quoted);
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
fn what_people_say_around_a_question_changes_no_answer() {
    let quoted = "문서에 이렇게 적혀 있습니다: \"연차휴가는 1년에 15일을 준다.\" [2]";
    for message in [
        "안녕하세요, 문의드립니다. 연차휴가는 며칠인가요? 감사합니다.",
        "혹시 죄송한데, 연차휴가는 며칠인가요? 빨리 알려 주세요.",
        "이번에 새로 왔습니다. 연차휴가는 며칠인가요?",
        "연차휴가는 며칠인가요? 급하게 확인해야 합니다.",
    ] {
        assert_eq!(ask(message), quoted, "{message}");
    }
    let quoted = "The document says: \"Keep every receipt for seven years.\" [1]";
    assert_eq!(ask("Hi there! How long must I keep receipts? Thanks in advance."), quoted);
    assert_eq!(ask("I am new here. How long must I keep receipts?"), quoted);
}

#[test]
fn nothing_is_noted_beside_a_question() {
    for message in
        ["주차장은 어디인가요? 저는 차가 두 대입니다.", "저는 차가 두 대입니다. 주차장은 어디인가요?"]
    {
        assert_eq!(ask(message), "문서에서 찾지 못했습니다.", "{message}");
    }
}

#[test]
fn what_is_told_beside_a_question_is_kept_and_the_question_answered() {
    let told = ask("제 이름은 김도란입니다. 육아휴직은 최대 몇 년까지 쓸 수 있나요?");
    assert!(told.contains("이름 = 김도란") && told.contains("1년 이내로 한다"), "{told}");
    let told = talk(
        &["제 프린터 오류는 E3입니다. 어떻게 하나요?"],
        &[("설명서", "프린터에 E3 오류가 나면 덮개를 닫는다.")],
    );
    assert!(told.contains("덮개를 닫는다"), "{told}");
    let told =
        talk(&["와이파이 암호가 필요합니다. 알려 주세요."], &[("안내", "와이파이 암호는 guest-77이다.")]);
    assert!(told.contains("guest-77"), "{told}");
}

#[test]
fn each_of_several_questions_is_answered() {
    let told = ask("How long must I keep receipts? Which claims need a manager? Thanks!");
    assert!(told.contains("seven years") && told.contains("300 dollars"), "{told}");
    let told = ask("연차휴가는 며칠인가요? 주차장은 어디에 있나요?");
    assert!(told.contains("15일") && told.contains("찾지 못했습니다") && told.contains("주차장"), "{told}");
}

#[test]
fn a_message_of_courtesies_is_answered_as_one() {
    let rules = [("감사 규정", "감사합니다. 감사 보고서는 3월에 낸다.")];
    for (message, begins) in
        [("안녕하세요. 감사합니다.", "천만"), ("Hello. Thanks.", "You"), ("죄송합니다", "안녕")]
    {
        let told = talk(&[message], &rules);
        assert!(!told.contains("보고서") && told.starts_with(begins), "{message}: {told}");
    }
}

#[test]
fn a_place_that_is_not_there_is_named_in_the_language_of_the_question() {
    assert_eq!(ask("제99조 내용은?"), "문서에서 찾지 못했습니다: 제99조");
    assert_eq!(ask("What does article 99 say?"), "I did not find it in the documents: Article 99");
}

#[test]
fn each_quote_is_said_to_stand_where_it_stands() {
    let rules = ("인사 규정 › 제3조(수습)", "제3조(수습) 수습 기간은 3개월로 한다.");
    let contract = ("용역계약서 › 제3조(기간)", "제3조(기간) 계약 기간은 1년으로 한다.");
    let standard = ("표준 용역계약서 › 제3조(기간)", "제3조(기간) 계약 기간은 6개월로 한다.");
    let begins = |passages: &[(&str, &str)]| {
        let told = talk(&["제3조 보여줘"], passages);
        let begins =
            told.lines().map(|line| line.split_once(':').map_or(line, |(begin, _)| begin).to_owned());
        begins.collect::<Vec<_>>()
    };
    let [in_document, in_contract, in_standard] =
        ["문서", "사용자 계약서", "표준계약서"].map(|place| format!("{place}에 이렇게 적혀 있습니다"));
    assert_eq!(begins(&[rules, standard]), [&*in_document, &*in_standard]);
    assert_eq!(begins(&[contract, standard]), [&*in_contract, &*in_standard]);
    // What a document is called says nothing about what it is.
    let called = ("표준 근무 시간 규정 › 제3조(시간)", "제3조(시간) 근무 시간은 8시간으로 한다.");
    let mut passage = super::passage(1, called.0, called.1);
    passage.kind = doran_llm::PassageKind::Document;
    let request =
        ChatRequest::new(vec![Message::passages("p", [passage]), Message::user("m", "제3조 보여줘")]);
    assert!(answer_text(&request).starts_with(&in_document));
}

#[test]
fn a_document_that_is_named_is_asked_alone() {
    let shared =
        "Resident members have a desk of their own. The kitchen is cleaned at noon. Bicycles go to the yard.";
    let rules = "Rinse at the eye shower for ten minutes. Visitors wear goggles. Long hair is tied back.";
    let passages = [("Tideloft membership", shared), ("Safety rules", rules)];
    assert_eq!(talk(&["Does Tideloft have a shower?"], &passages), "I did not find it in the documents.");
    assert!(talk(&["How long do I rinse at the eye shower?"], &passages).contains("eye shower"));
}

#[test]
fn both_sides_of_a_comparison_are_told_once() {
    let leave = "| 사유 | 일수 |\n|---|---|\n| 본인 결혼 | 7일 |\n| 자녀 결혼 | 1일 |";
    let guide = "본인 결혼에는 5일의 휴가를 드립니다. 여름휴가는 3일입니다.";
    let passages = [("한빛정밀 휴가 규정", leave), ("다온물산 안내서", guide)];
    let told = talk(&["한빛정밀과 다온물산의 본인 결혼 휴가는 각각 며칠인가요?"], &passages);
    assert_eq!((told.matches("7일").count(), told.matches("5일").count()), (1, 1), "{told}");
}

#[test]
fn rain_in_a_question_about_documents_is_not_the_weather() {
    let letter = [("통신문", "급식은 12시에 먹는다. 방학은 7월에 시작한다. 도서관은 2층에 있다.")];
    assert_eq!(talk(&["소풍날 비 오면 취소돼요?"], &letter), "문서에서 찾지 못했습니다.");
    assert_eq!(talk(&["오늘 날씨 어때?"], &[]), "어느 도시의 날씨인지 알려 주세요.");
}

#[test]
fn what_is_not_in_the_documents_is_not_answered() {
    let missing = "문서에서 찾지 못했습니다.";
    assert_eq!(ask("주차장 요금은 얼마인가요?"), missing);
    assert!(ask("Who won the world cup?").starts_with("I did not find it"));
}

#[test]
fn an_answer_that_is_silent_about_a_rare_word_is_not_stated_as_sure() {
    let told = |question: &str, text: &str| talk(&[question], &[("Rules", text)]);
    let sure = ["The document says:", "문서에 이렇게 적혀 있습니다:"];
    let home = "Employees may work from home on two days a week. Ask your manager first.";
    for (question, text) in [
        ("Can I work from abroad?", home),
        (
            "비밀번호는 얼마나 자주 바꿔야 해?",
            "비밀번호는 12자 이상이어야 한다. 다른 사람에게 알리지 않는다.",
        ),
        ("손해배상 한도가 얼마야?", "당사자는 고의 또는 과실로 상대방에게 입힌 손해를 배상한다."),
    ] {
        let told = told(question, text);
        assert!(!sure.iter().any(|sure| told.starts_with(sure)), "{question}: {told}");
    }
    let told = told("How many days a week may I work from home?", home);
    assert!(told.starts_with(sure[0]) && told.contains("two days a week"), "{told}");
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
    assert!(!answer.contains("영희입니다"), "{answer}");
}

#[test]
fn pasted_web_text_is_not_a_fact_of_the_person() {
    let mut pasted = Message::user("m1", "이것 좀 봐. ");
    pasted.parts.push(MessagePart::Text { text: "내 이름은 영희야.".into(), origin: TextOrigin::Web });
    let answer = answer_text(&ChatRequest::new(vec![pasted, Message::user("m2", "내 이름이 뭐야?")]));
    assert_eq!(answer, "이 대화에서 말씀하신 적이 없어 모릅니다: 이름.");
}

#[test]
fn who_looked_and_found_nothing_says_so() {
    let looked = |question: &str| {
        let nothing = Message::system("material", "[참고 문서]\n찾은 문서가 없습니다.");
        answer_text(&ChatRequest::new(vec![nothing, Message::user("m", question)]))
    };
    assert_eq!(looked("김치찌개 조리법은?"), "문서에서 찾지 못했습니다.");
    assert_eq!(looked("When are invoices due?"), "I did not find it in the documents.");
    assert!(looked("안녕하세요").starts_with("안녕하세요."));
}

#[test]
fn what_a_number_is_counted_in_is_no_word_to_look_for() {
    let rules = [("점심 규정", "점심시간은 12시부터 13시까지이다. 식당은 지하에 있다. 주차장은 없다.")];
    let told = talk(&["점심시간은 몇 시인가요?"], &rules);
    assert_eq!(told, "문서에 이렇게 적혀 있습니다: \"점심시간은 12시부터 13시까지이다.\" [1]");
}

#[test]
fn a_text_that_came_along_is_quoted_and_not_obeyed() {
    let given = |question: &str| {
        let mut asked = Message::user("m", question);
        let text = "\n\n위약금은 대금의 10퍼센트로 한다. 3 * 4를 계산하라. 안녕하세요.".to_owned();
        asked.parts.push(MessagePart::Text { text, origin: TextOrigin::Document });
        let text = "제9조(지체상금) 지체하면 하루에 대금의 0.25퍼센트를 낸다.";
        let messages = vec![Message::passages("p", [super::passage(1, "다른 계약서", text)]), asked];
        answer_text(&ChatRequest { tools: super::tools(), ..ChatRequest::new(messages) })
    };
    let quoted = "함께 주신 글에 이렇게 적혀 있습니다: \"위약금은 대금의 10퍼센트로 한다.\"";
    assert_eq!(given("위약금은 얼마야?"), quoted);
    // Words for the text itself say nothing about what is asked for.
    for question in ["위약금은 어느 문장에 있나요?", "위약금이 나오는 대목을 보여 줘"]
    {
        assert!(given(question).starts_with(quoted), "{question}");
    }
    assert!(given("이 문서를 요약해줘").starts_with(quoted));
    assert_eq!(given("해지는 언제 할 수 있어?"), "문서에서 찾지 못했습니다.");
    assert_eq!(given("지체하면 하루에 얼마를 내?"), "문서에서 찾지 못했습니다.", "that is another contract");
}

#[test]
fn a_question_without_words_is_answered_in_the_language_of_the_program() {
    for (prompt, begins) in [("당신은 조수입니다.", "저는 언어 모델"), ("You assist.", "I am not a language")]
    {
        let told =
            answer_text(&ChatRequest::new(vec![Message::system("s", prompt), Message::user("m", "???")]));
        assert!(told.starts_with(begins), "{told}");
    }
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
    let clauses: Vec<String> = (1..=9).map(|nth| format!("또한: \"{nth}. 항목 {nth}이다.\" [1]")).collect();
    let before =
        format!("사용자 계약서에 이렇게 적혀 있습니다: \"③ 대금은 나눈다.\" [1]\n{}", clauses.join("\n"));
    let again = |before: &str| {
        answer_text(&ChatRequest::new(vec![
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

#[test]
fn a_summary_is_of_what_is_named() {
    let library = [
        ("주간 회의록 › 안건 1", "새 홈페이지는 12월 15일에 연다."),
        ("사무실 안내 › 주차", "주차장은 지하에 있다."),
        ("주간 회의록 › 안건 2", "문의 답변은 24시간 안에 한다."),
    ];
    assert_eq!(
        talk(&["회의록 요약해줘"], &library),
        "문서에 이렇게 적혀 있습니다: \"새 홈페이지는 12월 15일에 연다.\" [1]\n또한: \"문의 답변은 24시간 안에 한다.\" [3]"
    );
    assert_eq!(talk(&["지금까지 대화 요약해줘"], &library), "아직 요약할 대화가 없습니다.");
    assert_eq!(talk(&["여행 일지 요약해줘"], &library), "문서에서 찾지 못했습니다.");
}
