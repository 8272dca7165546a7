//! What is quoted for a question: sentences, list items, rows of tables, clauses; and what is not.

use crate::cues::Cue;
use crate::places::{article_titles, named_articles, named_places};
use crate::quotes::find_quotes;
use crate::ranking::{AskedQuestion, FEATURES, UnitIndex};
use crate::units::{QuotableSource, QuotableSourceKind, SourceCitation, split_units};

fn source<'a>(title: &'a str, text: &'a str, number: u32) -> QuotableSource<'a> {
    let kind = QuotableSourceKind::of_passage(super::passage(number, title, text).kind);
    QuotableSource { title, text, kind, cite: SourceCitation::Number(number) }
}

/// The quotes for a question, and after `?` what was not found.
fn quoted(question: &str, sources: &[QuotableSource<'_>]) -> String {
    quoted_after("", question, sources)
}

fn quoted_after(before: &str, question: &str, sources: &[QuotableSource<'_>]) -> String {
    let found = find_quotes(AskedQuestion { question, before }, sources);
    let picks = found.picks.iter().map(|pick| pick.words.clone());
    picks.chain(found.missing.iter().map(|part| format!("? {part}"))).collect::<Vec<_>>().join(" | ")
}

#[test]
fn text_is_split_into_sentences_items_and_rows_with_what_they_belong_to() {
    let text = "The limit per night includes breakfast and tax, and it is the same for all\nemployees of the company.\n\n\
        | City | Limit |\n|---|---|\n| Paris | 185 euros |\n\n다음 지출은 인정하지 않습니다.\n\n1. 과태료\n2. 상품권";
    let units = split_units(&source("Policy › 3. Hotels", text, 1), 0);
    let told: Vec<String> = units.iter().map(|unit| unit.quoted(|_, _| false)).collect();
    assert_eq!(
        told,
        [
            "The limit per night includes breakfast and tax, and it is the same for all employees of the company.",
            "City: Paris · Limit: 185 euros",
            "다음 지출은 인정하지 않습니다.",
            "1. 과태료",
            "2. 상품권",
        ]
    );
    assert_eq!(units[4].lead, "다음 지출은 인정하지 않습니다.");
    assert_eq!(units[0].heading, "3. Hotels");
}

#[test]
fn bold_lines_and_bold_first_sentences_are_headings() {
    let text = "**비밀번호를 잊었습니다.**\n'다시 만들기'를 누릅니다.\n\n**1. The driver.** The driver must be 21. \
        He has a licence.\n\n**Never** leave it on.\n\n**Keep it dry.** Water harms it.\n\n**손을 넣지 마십시오.**\n\n끝.";
    let units = split_units(&source("도움방", text, 1), 0);
    let told: Vec<(&str, &str)> = units.iter().map(|unit| (unit.heading, unit.text)).collect();
    assert_eq!(
        told,
        [
            ("비밀번호를 잊었습니다.", "'다시 만들기'를 누릅니다."),
            ("1. The driver.", "The driver must be 21."),
            ("1. The driver.", "He has a licence."),
            ("1. The driver.", "**Never** leave it on."),
            ("1. The driver.", "**Keep it dry.** Water harms it."),
            ("1. The driver.", "**손을 넣지 마십시오.**"),
            ("1. The driver.", "끝."),
        ]
    );
}

#[test]
fn a_line_of_a_control_character_ends_a_sentence() {
    let units = split_units(&source("글", "줄\u{b}바꿈\u{1b}[0m 끝", 1), 0);
    assert!(units.iter().all(|unit| !unit.text.contains(char::is_control)), "{units:?}");
}

const CONTRACT: &str = "① 대금은 5천만 원으로 한다.\n② 대금은 검수를 마친 날부터 30일 안에 지급한다.";

fn contracts() -> [QuotableSource<'static>; 4] {
    [
        source("용역계약서 › 제5조(대금)", CONTRACT, 1),
        source("표준계약서 › 제5조(대금)", "대금은 10일 안에 지급한다.", 2),
        source("용역계약서 › 제6조(검수)", "검수는 7일 안에 끝낸다.", 3),
        source("용역계약서 › 제9조(해지)", "갑은 30일 전에 알리고 해지할 수 있다.", 4),
    ]
}

#[test]
fn an_article_alone_is_quoted_of_every_document_that_has_it() {
    let sources = [
        source("용역 계약서 › 제5조(대금)", "제5조(대금) 갑은 을에게 대금을 지급한다.", 1),
        source("표준계약서 › 제5조(검수)", "제5조(검수) 갑은 10일 안에 검수한다.", 2),
        source("취업규칙 › 제5조(채용)", "제5조(채용) 회사는 공개 채용을 원칙으로 한다.", 3),
        source("여비 규정 › 5. 숙박", "숙박비는 실비로 준다.", 4),
    ];
    let all = ["대금을 지급한다", "10일 안에 검수", "공개 채용"];
    for question in ["제5조", "제5조 보여줘", "제5조가 뭐야?", "Article 5"] {
        let told = quoted(question, &sources);
        assert!(all.iter().all(|words| told.contains(words)), "{question}: {told}");
        assert!(!told.contains("숙박"), "{question}: {told}");
    }
    // A document that is named is meant alone.
    let told = quoted("취업규칙 제5조", &sources);
    assert!(told.contains("공개 채용") && !told.contains("대금"), "{told}");
}

#[test]
fn a_clause_is_quoted_alone_and_an_article_whole() {
    let own = "① 대금은 5천만 원으로 한다. | ② 대금은 검수를 마친 날부터 30일 안에 지급한다.";
    assert_eq!(quoted("제5조 내용이 뭐야?", &contracts()), format!("{own} | 대금은 10일 안에 지급한다."));
    assert_eq!(quoted("제5조 제2항 보여줘", &contracts()), "② 대금은 검수를 마친 날부터 30일 안에 지급한다.");
    assert_eq!(
        quoted_after("용역계약서 제5조 제1항은?", "제2항은요?", &contracts()),
        "② 대금은 검수를 마친 날부터 30일 안에 지급한다."
    );
}

#[test]
fn a_section_of_an_english_contract_is_a_clause_of_the_article_with_its_number() {
    let text = "4. Price\n\n4.3  Invoices are payable within thirty days.\n\n4.4  The Buyer receives a rebate of 3 per cent.\n\n\
        DELIVERY\n\n5.1  The Supplier delivers.\n\n6.0 kg is the weight.";
    let source = source("Supply agreement", text, 1);
    assert_eq!(quoted("Article 4.4", &[source]), "4.4 The Buyer receives a rebate of 3 per cent.");
    assert_eq!(
        quoted("What does article 4.3 say?", &[source]),
        "4.3 Invoices are payable within thirty days."
    );
    assert_eq!(quoted("Article 5.1", &[source]), "5.1 The Supplier delivers. | 6.0 kg is the weight.");
    assert!(quoted("Article 6", &[source]).starts_with('?'));
}

#[test]
fn a_table_may_have_bars_between_its_cells_alone() {
    let text = "승강기를 교체합니다.\n\n동 | 기간 | 시간\n302동 | 10월 20일 | 9시\n303동 | 11월 3일 | 10시\n";
    let units = split_units(&source("안내문", text, 1), 0);
    let told: Vec<String> = units.iter().map(|unit| unit.quoted(|_, _| true)).collect();
    assert_eq!(
        told,
        [
            "승강기를 교체합니다.",
            "동: 302동 · 기간: 10월 20일 · 시간: 9시",
            "동: 303동 · 기간: 11월 3일 · 시간: 10시"
        ]
    );
}

#[test]
fn articles_of_a_document_that_is_named_are_quoted_whole_and_of_that_one_alone() {
    let article = |number: u32, title: &str, first: &str| {
        format!(
            "제{number}조({title})\n\n① {first}.\n\n② 자세한 것은 따로 정한다.\n\n③ 늦으면 이자를 더한다."
        )
    };
    let texts = [
        article(3, "대금", "월 240만원을 지급한다"),
        article(5, "장애 대응", "4시간 이내에 복구한다"),
        article(3, "기간", "5월까지로 한다"),
    ];
    let sources = [
        source("서버 유지보수 계약서 › 제3조(대금)", &texts[0], 1),
        source("서버 유지보수 계약서 › 제5조(장애 대응)", &texts[1], 2),
        source("포장 디자인 용역계약서 › 제3조(기간)", &texts[2], 3),
    ];
    for question in ["서버 유지보수 계약서 제3조 알려줘", "서버 유지보수 계약서 제3조는 어떤 내용인가요?"]
    {
        let told = quoted(question, &sources);
        assert!(
            told.contains("① 월 240만원") && told.contains("③ 늦으면") && !told.contains("5월"),
            "{question}: {told}"
        );
    }
    let titles: Vec<String> =
        sources.iter().map(|source| format!("사용자 계약서 › {}", source.title)).collect();
    let of_contract_agent: Vec<_> =
        titles.iter().zip(sources).map(|(title, source)| QuotableSource { title, ..source }).collect();
    // A word of most titles, such as 계약서, names none of the documents.
    let three = [sources[0], sources[2], source("공급 합의서 › 제3조", "커피는 금요일에 배송한다.", 4)];
    let (named, rest) = UnitIndex::new(&three).split_off_titles("커피 계약서 내용");
    assert_eq!((named.len(), rest.as_str()), (0, "커피 내용"));
    for sources in [&sources[..], &of_contract_agent] {
        let told = quoted("서버 유지보수 계약서 제3조부터 제5조까지", sources);
        assert!(
            told.contains("① 월 240만원") && told.contains("③ 늦으면") && !told.contains("5월"),
            "{told}"
        );
    }
}

#[test]
fn the_answer_to_a_frequent_question_is_quoted_and_the_question_is_not() {
    let text = "## 제품\n\n**Q. 센서 배터리는 얼마나 가나요?**\nA. 10분 간격이면 약 3년입니다.\n\n**Q. 보증 기간은 얼마인가요?**\n\
        A. 센서는 2년, 배터리팩은 6개월입니다.\n\nQ. 반품할 수 있나요?\nA. 받은 날부터 14일 이내에 할 수 있습니다.";
    let faq = [source("고객 FAQ", text, 1)];
    assert_eq!(quoted("반품할 수 있나요?", &faq), "받은 날부터 14일 이내에 할 수 있습니다.");
    let cut = [source("FAQ", "Paid on Friday.\n\n**What does a tent cost?**", 1)];
    assert!(!quoted("What does a tent cost?", &cut).contains('?'), "the answer is in the next passage");
}

#[test]
fn an_item_of_a_list_is_quoted_below_the_sentence_that_leads_to_it() {
    let text = "② 다음 각 호의 직원은 재택근무를 할 수 없다.\n\n1. 수습직원\n2. 현장 설치 업무를 맡은 직원";
    let told = quoted("수습직원은 재택근무를 할 수 있나요?", &[source("취업규칙", text, 1)]);
    assert!(told.starts_with("② 다음 각 호의 직원은 재택근무를 할 수 없다."), "{told}");
    assert!(told.contains("1. 수습직원"), "{told}");
    let text =
        "제15조(징계) 다음 각 호의 경우 징계한다.\n\n1. 무단으로 결근한 경우\n2. 회사의 기밀을 누설한 경우";
    let told = quoted("회사의 기밀을 누설한 경우는?", &[source("취업규칙", text, 1)]);
    assert_eq!(told, "제15조(징계) 다음 각 호의 경우 징계한다. | 2. 회사의 기밀을 누설한 경우");
}

#[test]
fn a_number_counts_with_what_it_counts() {
    let table = "| 공간 | 월 사용료 |\n|---|---|\n| 6인실 | 190,000원 |\n| 3인실 | 110,000원 |";
    let sources = [source("요금", table, 1)];
    let question = "3인실 월 사용료 6개월이면 얼마?";
    let ranked = UnitIndex::new(&sources).rank(AskedQuestion { question, before: "" });
    assert_eq!(ranked[0].unit.text, "| 3인실 | 110,000원 |");
}

#[test]
fn a_range_is_complete_and_the_standard_is_told_when_it_is_asked_for() {
    let told = quoted("제5조부터 제6조까지 보여줘", &contracts());
    assert!(told.contains("① 대금은") && told.contains("검수는 7일"), "{told}");
    assert_eq!(quoted("표준계약서 제5조 보여줘", &contracts()), "대금은 10일 안에 지급한다.");
    let both = quoted("제5조를 표준계약서와 비교해줘", &contracts());
    assert!(both.contains("① 대금은") && both.contains("10일 안에"), "{both}");
}

#[test]
fn of_a_place_that_is_not_there_no_neighbour_is_told() {
    for question in ["제5조의2 알려줘", "제99조 내용은?", "별지 1 보여줘", "제5조 제7항은?"]
    {
        let told = quoted(question, &contracts());
        assert!(told.starts_with("? ") && !told.contains('|'), "{question}: {told}");
    }
}

#[test]
fn the_row_and_the_column_that_are_asked_for_are_quoted() {
    let wide = "| 모델 | 사용 면적 | 무게 | 소음 | 전력 |\n|---|---|---|---|---|\n| A-100 | 26 m² | 4.1 kg | 48 dB | 38 W |\n\
                | A-200 | 53 m² | 7.4 kg | 52 dB | 55 W |";
    let sources = [source("공기청정기 설명서 › 제품 규격", wide, 1)];
    assert_eq!(quoted("A-200 무게는 얼마인가요?", &sources), "모델: A-200 · 무게: 7.4 kg");
    let text =
        "| 모델 | 사용 면적 | 무게 |\n|---|---|---|\n| A-100 | 26 m² | 4.1 kg |\n| A-200 | 53 m² | 7.4 kg |";
    let sources = [source("공기청정기 설명서 › 제품 규격", text, 1)];
    assert_eq!(quoted("A-200 무게는 얼마인가요?", &sources), "모델: A-200 · 사용 면적: 53 m² · 무게: 7.4 kg");
    let told = quoted_after("A-100의 무게는?", "그럼 A-200은요?", &sources);
    assert!(told.contains("7.4 kg") && !told.contains("4.1 kg"), "{told}");
}

#[test]
fn the_answer_scorer_reads_the_best_units() {
    let doors: String = (1..30).map(|number| format!("{number}번 창고의 문은 밤에 닫는다. ")).collect();
    let text = format!("{doors}점심시간은 12시부터 13시까지이다.");
    let sources = [source("규정", &text, 1)];
    let ranked = UnitIndex::new(&sources).rank(AskedQuestion { question: "점심시간", before: "" });
    let scorer = FEATURES.iter().position(|name| *name == "scorer").expect("a feature");
    assert!(
        ranked[0].unit.text.starts_with("점심시간") && ranked[0].features[scorer] > 1.0,
        "{:?}",
        ranked[0]
    );
    let unread = ranked.last().expect("a unit");
    assert!(unread.features[scorer] < 0.0, "{unread:?}");
}

#[test]
fn a_row_is_quoted_whole_where_the_question_names_only_what_stands_in_it() {
    let text = "| City group | Limit per night | Cities |\n|---|---|---|\n| Group 1 | 240 euros | London, Zurich |\n\
        | Group 3 | 140 euros | Prague, Lisbon |";
    let sources = [source("Travel policy › 3. Hotels", text, 1)];
    let told = quoted_after("What about a hotel in Zurich?", "And in Prague?", &sources);
    assert!(told.contains("140 euros") && !told.contains("240 euros"), "{told}");
}

#[test]
fn both_things_that_are_compared_are_told() {
    let sources = [
        source(
            "가나상사 휴가 규정 › 경조휴가",
            "본인 결혼 휴가는 7일로 한다. 자녀 결혼 휴가는 1일로 한다.",
            1,
        ),
        source("다라물산 안내서 › 휴가", "본인 결혼 휴가는 5일입니다. 신청은 총무팀에 합니다.", 2),
    ];
    let told = quoted("가나상사와 다라물산의 본인 결혼 휴가는 각각 며칠인가요?", &sources);
    assert!(told.contains("7일로") && told.contains("5일입니다"), "{told}");
}

#[test]
fn an_article_that_only_the_standard_has_is_told_by_its_words() {
    let title = "표준계약서 › 제6조(안전관리) › 「용역계약서」에 없는 조항";
    let sources = [source(title, "제6조(안전관리)\n을은 안전관리 책임자를 둔다.", 1)];
    assert_eq!(quoted("표준계약서에만 있는 조항은?", &sources), "을은 안전관리 책임자를 둔다.");
}

#[test]
fn articles_that_are_compared_are_quoted_whole_and_without_signatures() {
    let own = "용역계약서 › 제7조(분쟁) › 「표준계약서」 제6조와 다른 조항";
    let standard = "표준계약서 › 제6조(분쟁) › 「용역계약서」 제7조에 해당하는 조항";
    let kind = QuotableSourceKind::Contract;
    let sources = [
        QuotableSource {
            kind, ..source(own, "제7조(분쟁) ① 분쟁은 협의한다. ② 관할은 부산으로 한다.", 1)
        },
        source(standard, "제6조(분쟁) 분쟁은 조정을 거친다.\n\n갑: (인)\n을: 홍길동 (서명)", 2),
    ];
    let expected = "① 분쟁은 협의한다. | ② 관할은 부산으로 한다. | 분쟁은 조정을 거친다.";
    for question in ["분쟁을 표준계약서와 비교해줘", "제7조가 표준과 다른가요?", "표준계약서와 비교해줘"]
    {
        assert_eq!(quoted(question, &sources), expected, "{question}");
    }
}

#[test]
fn a_list_is_quoted_with_the_sentence_that_leads_to_it() {
    let sources = [
        source("안내 › 필터", "필터를 가는 순서는 다음과 같습니다.", 1),
        source("안내 › 필터", "1. 플러그를 뽑습니다.\n2. 덮개를 엽니다.\n3. 새 필터를 넣습니다.", 2),
    ];
    let told = quoted("필터는 어떤 순서로 가나요?", &sources);
    assert!(told.contains("플러그를 뽑") && told.contains("새 필터를 넣"), "{told}");
}

#[test]
fn places_are_read_with_what_is_left() {
    let check = |question: &str, expected: &[&str], rest: &str| {
        let (found, left) = named_places(question);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{question}");
        assert_eq!(left.split_whitespace().collect::<Vec<_>>().join(" "), rest, "{question}");
    };
    check("제2조의2 알려줘", &["제2조의2"], "알려줘");
    check("제10조 제2항 알려줘", &["제10조 제2항"], "알려줘");
    check("별지 제1호 보여줘", &["별지 1"], "보여줘");
    check("제7조부터 제10조까지 보여줘", &["제7조부터 제10조까지"], "보여줘");
    check("What is in Exhibit A?", &["Exhibit A"], "What is in ?");
    check("개별지표는?", &[], "개별지표는?");
    assert_eq!(named_articles("부칙 제1조와 제4조").len(), 1);
    assert_eq!(article_titles("비밀유지 조항이 있어?"), ["비밀유지"]);
    assert_eq!(article_titles("그 조항 다시 보여줘"), [""; 0]);
}

#[test]
fn cues_are_whole_words() {
    for (cue, yes, no) in [
        (Cue::Greeting, "안녕하세요!|hello there|Good morning", "안녕, 연차는 며칠이야?|안녕히 계세요"),
        (
            Cue::Thanks,
            "정말 고마워!|Thank you so much|감사합니다",
            "감사 절차는 어떻게 되나요?|감사팀 연락처",
        ),
        (Cue::Bye, "안녕히 계세요|bye", "안녕하세요"),
        (Cue::Filler, "네 알겠습니다|ㅋㅋㅋ", "네 번째 조항"),
        (Cue::WantsSummary, "지금까지 대화 요약해줘|summarize this|문서 요약", "요약본 제출 기한은?"),
        (Cue::WantsWriter, "시를 써 줘|Translate this", "업무 개시를 미루면?|Show the history of changes"),
        (
            Cue::PointsBack,
            "그 참조항목들 내용 정리해줘|그럼 해지는 어떻게 해?|아까 말한 마감일|거기에 예외도 있어?|What about that clause?",
            "그래프 보여줘|그룹 보험은?|아까운 연차는?|그 밖의 비용은?|위약금은?|Is the contract that we signed still valid?",
        ),
    ] {
        yes.split('|').for_each(|text| assert!(cue.is_in(text), "{cue:?}: {text}"));
        no.split('|').for_each(|text| assert!(!cue.is_in(text), "{cue:?}: {text}"));
    }
}

#[test]
fn a_wide_row_is_quoted_with_the_column_whose_head_names_what_is_asked_for() {
    let table = "| 상품코드 | 상품명 | 월요금(원) | 사용자수 | 저장공간 | 지원 |\n|---|---|---|---|---|---|\n\
        | HS-100 | 예약 라이트 | 29000 | 5 | 10GB | 이메일 |\n| HS-900 | 예약 엔터프라이즈 | 별도 견적 | 무제한 | 무제한 | 전화(24시간) |";
    let prices = [source("가격표", table, 1)];
    for question in ["예약 엔터프라이즈는 얼마예요?", "예약 엔터프라이즈 가격"] {
        let quoted = quoted(question, &prices);
        assert!(
            quoted.contains("월요금(원): 별도 견적") && !quoted.contains("저장공간"),
            "{question}: {quoted}"
        );
    }
}

#[test]
fn each_of_several_questions_is_answered_from_the_own_contract_first() {
    let quoted = quoted("대금은 언제까지 지급하나요? 검수는 며칠 안에 끝내나요?", &contracts());
    assert!(quoted.contains("30일 안에 지급한다") && quoted.contains("7일 안에 끝낸다"), "{quoted}");
    assert!(!quoted.contains("10일 안에"), "that is the standard's: {quoted}");
}

#[test]
fn a_particle_that_was_read_as_a_part_of_its_word_is_left_out() {
    // 위약금은 is read as 위약 and 금은.
    let text = "제2조(위약금) 계약을 어긴 당사자는 위약금으로 3,000,000원을 지급한다.";
    assert_eq!(quoted("위약금은 얼마인가요?", &[source("계약서", text, 1)]), text);
    assert_eq!(quoted("휴가는 얼마인가요?", &[source("계약서", text, 1)]), "");
}

#[test]
fn of_a_given_text_a_sentence_with_all_words_of_the_question_is_near() {
    let text = "제9조(해지) 갑은 60일 전에 서면으로 통지하고 해지할 수 있다.\n\n제10조(관할 법원) 이 계약에 관한 분쟁은 대전지방법원을 제1심 관할 법원으로 한다.";
    let given = QuotableSource { cite: SourceCitation::Given, ..source("", text, 1) };
    assert!(quoted("관할 법원은 어디인가요?", &[given]).contains("대전지방법원"));
    assert_eq!(quoted("위약금은 얼마인가요?", &[given]), "");
}

#[test]
fn a_range_of_articles_is_quoted_in_its_order_with_those_that_have_branches() {
    let text = |number: u32| format!("{number}번을 정한다.");
    let articles = [16, 3, 14, 15].map(|number| (format!("용역계약서 › 제{number}조(일)"), text(number)));
    let branch = ("용역계약서 › 제14조의2(인력)".to_owned(), text(142));
    let all: Vec<_> = articles.into_iter().chain([branch]).collect();
    let sources: Vec<_> = all.iter().zip(1..).map(|((title, text), at)| source(title, text, at)).collect();
    assert_eq!(
        quoted("제3조부터 제40조까지 보여줘", &sources),
        "3번을 정한다. | 14번을 정한다. | 142번을 정한다. | 15번을 정한다. | 16번을 정한다."
    );
    assert_eq!(quoted("제20조부터 제40조까지 보여줘", &sources), "? 제20조부터 제40조까지");
}

#[test]
fn what_is_a_clause_of_one_contract_is_compared_with_the_article_of_the_other() {
    let sources = [
        source("표준계약서 › 제7조(위약금)", "해지한 당사자는 대금의 5퍼센트를 위약금으로 낸다.", 1),
        source("용역계약서 › 제5조(해지)", "정당한 사유 없이 해지하면 위약금은 대금의 20퍼센트로 한다.", 2),
    ];
    let answer = quoted("우리 계약서와 표준계약서의 위약금 조항을 비교해줘", &sources);
    assert!(answer.contains("20퍼센트") && answer.contains("5퍼센트를"), "{answer}");
}

#[test]
fn a_clause_alone_is_one_of_the_article_that_was_asked_for_before() {
    let asked = |before: &str| quoted_after(before, "제2항은요?", &contracts());
    assert_eq!(asked("제5조 알려줘"), "② 대금은 검수를 마친 날부터 30일 안에 지급한다.");
}
