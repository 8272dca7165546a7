//! Contracts beside their standards, and many contracts at once, asked through the built-in model.

use std::sync::Arc;

use doran_agents::tools::Toolbox;
use doran_agents::{AgentParts, AnswerSourceKind, Settings, samples};
use doran_engine::store::RamStore;
use doran_offline::OfflineModel;
use doran_retrieval::{Document, DocumentKind, DocumentTenant, RamKeywordIndex};

use crate::agent_fixture::{AgentFixture, build_fixture};

fn contract_fixture(documents: &[Document]) -> AgentFixture {
    let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), documents);
    let parts =
        AgentParts { tools: Toolbox::new(), ..AgentParts::new(Arc::new(OfflineModel), Arc::new(index)) };
    build_fixture("contract", &Settings::default(), &parts, Arc::new(RamStore::new()))
}

fn korean_contracts() -> Vec<Document> {
    let korean = |document: &Document| document.id.as_str().contains("용역계약서");
    samples::contracts().into_iter().filter(korean).collect()
}

async fn ask_with_sources(stage: &AgentFixture, question: &str) -> (String, Vec<String>) {
    let trace = stage.ask(question).await;
    let turn = stage.turn().await;
    let kind_label = |kind: AnswerSourceKind| if kind == AnswerSourceKind::Standard { "표준 " } else { "" };
    let sources = turn
        .sources
        .iter()
        .map(|source| format!("{}{}", kind_label(source.kind), source.article.clone().unwrap_or_default()))
        .collect();
    (format!("{trace}\n{}", turn.response), sources)
}

#[tokio::test]
async fn an_article_is_laid_beside_the_one_of_the_standard_that_answers_to_it() {
    let (text, sources) =
        ask_with_sources(&contract_fixture(&korean_contracts()), "우리 계약서 제12조가 표준과 어떻게 달라?")
            .await;
    assert!(sources.contains(&"제12조".to_owned()), "{text}");
    let standard: Vec<&String> = sources.iter().filter(|source| source.starts_with("표준")).collect();
    assert_eq!(standard, ["표준 제15조"], "{text}");
    assert!(text.contains(r#""compare":"same""#), "{text}");
}

#[tokio::test]
async fn what_the_standard_has_and_the_contract_lacks_is_named_with_sources() {
    for question in [
        "표준계약서에 있는데 우리 계약서에 없는 조항은?",
        "표준계약서에 있는데 우리 계약서에 없는 조는?",
        "표준계약서에만 있는 조가 있나요?",
        "표준계약서에는 있고 우리 계약서에는 없는 규정이 뭐야?",
        "표준계약서에 있는데 우리 계약서에 없는 내용은?",
        "우리 계약서에서 빠진 조를 알려줘",
        "표준과 비교해서 빠진 조항 알려줘",
    ] {
        let (text, sources) = ask_with_sources(&contract_fixture(&korean_contracts()), question).await;
        assert_eq!(sources, ["표준 제3조", "표준 제8조", "표준 제13조"], "{text}");
    }
    let english = |document: &Document| document.id.as_str().contains("service-agreement");
    let english: Vec<Document> = samples::contracts().into_iter().filter(english).collect();
    for question in [
        "Which clauses does the standard contract have that ours lacks?",
        "Which articles of the standard are missing from ours?",
    ] {
        let (text, sources) = ask_with_sources(&contract_fixture(&english), question).await;
        assert_eq!(sources, ["표준 Article 6", "표준 Article 8"], "{text}");
    }
    let (text, sources) = ask_with_sources(
        &contract_fixture(&english),
        "Which clauses of our contract are not in the standard?",
    )
    .await;
    assert_eq!(sources, ["Article 7"], "{text}");
}

#[tokio::test]
async fn missing_articles_are_named_as_missing_beside_the_standard_of_the_same_language() {
    let stage = contract_fixture(&samples::contracts());
    for question in [
        "빠진 조항이 있나요?",
        "누락된 조항을 찾아 줘",
        "계약서에 빠뜨린 조항은 없어?",
        "표준계약서와 비교하면 빠진 조항은 무엇인가요?",
    ] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        assert_eq!(sources, ["표준 제3조", "표준 제8조", "표준 제13조"], "{text}");
        let said = "표준계약서에는 있지만 「소프트웨어 개발 용역계약서」에는 없는 조항:\n- 제3조(신의성실): \"갑과 을은";
        assert!(text.contains(said), "{text}");
    }
    for question in ["Are any clauses missing?", "Which articles does our contract lack?"] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        assert_eq!(sources, ["표준 Article 6", "표준 Article 8"], "{text}");
        let said = "In the standard contract, but not in “Consulting Services Agreement”:\n- 6. Limitation of \
                    Liability: \"Neither party's liability";
        assert!(text.contains(said), "{text}");
    }
}

#[tokio::test]
async fn a_whole_contract_is_laid_beside_its_standard() {
    let stage = contract_fixture(&samples::contracts());
    for (question, said) in [
        (
            "용역계약서와 표준계약서를 비교해 줘",
            [
                "「소프트웨어 개발 용역계약서」에는 없는 조항:",
                "계약서와 「표준 용역계약서」의 내용이 다른 조항:",
            ],
        ),
        (
            "소프트웨어 개발 용역계약서는 표준과 어떤 점이 달라?",
            [
                "「소프트웨어 개발 용역계약서」에는 없는 조항:",
                "계약서와 「표준 용역계약서」의 내용이 다른 조항:",
            ],
        ),
        (
            "Compare the consulting services agreement with the standard",
            [
                "but not in “Consulting Services Agreement”:",
                "In the contract, but not in “Standard Services Agreement”:\n- 7. Non-Solicitation: ",
            ],
        ),
    ] {
        let (text, _) = ask_with_sources(&stage, question).await;
        assert!(said.iter().all(|said| text.contains(said)), "{text}");
    }
    // A subject of the contract is compared by itself.
    let (text, _) = ask_with_sources(&stage, "지체상금은 표준계약서와 비교하면 어떻게 달라?").await;
    assert!(!text.contains("없는 조항:"), "{text}");
}

fn contract_document(id: &str, title: &str, kind: &str, articles: &[(&str, &str)]) -> Document {
    let articles =
        articles.iter().zip(1..).map(|((title, text), number)| format!("제{number}조({title}) {text}"));
    let text = format!("{title}\n\n{}", articles.collect::<Vec<_>>().join("\n\n"));
    let kind = if kind.is_empty() { DocumentKind::Contract } else { DocumentKind::Standard(kind.into()) };
    Document { kind, ..Document::new(id, title, text) }
}

/// A contract whose articles have other numbers than those of its standard.
fn renumbered_contracts() -> [Document; 2] {
    let own = [
        ("목적", "이 계약은 예약 웹서비스의 개발에 필요한 사항을 정한다."),
        (
            "계약금액",
            "① 계약금액은 금 88,000,000원으로 한다. ② 선금은 계약금액의 30%로 한다. ③ 잔금은 최종검수 합격 후 30일 이내에 지급한다.",
        ),
        ("투입인력", "① 을은 개발자 3명을 투입한다. ② 투입인력을 교체하려면 갑의 서면 동의를 받는다."),
        ("검수", "갑은 납품받은 날부터 10영업일 이내에 검수한다."),
        (
            "지체상금",
            "을은 지체일수 1일마다 계약금액의 1,000분의 1.25를 지급한다. 지체상금의 총액은 계약금액의 10%를 넘지 못한다.",
        ),
        ("하자보수", "을은 최종검수 합격일부터 6개월 동안 하자를 무상으로 보수한다."),
        ("지식재산권", "결과물의 저작권은 대금을 모두 지급한 때에 갑에게 귀속한다."),
        ("비밀유지", "당사자는 비밀을 계약 종료 후 3년 동안 누설하지 않는다."),
        (
            "계약의 해지",
            "당사자 일방이 계약을 위반하고 14일 이내에 시정하지 아니하면 상대방은 계약을 해지할 수 있다.",
        ),
    ];
    let standard = [
        ("목적", "이 계약은 소프트웨어 용역에 관한 권리와 의무를 정한다."),
        (
            "계약금액",
            "① 계약금액은 당사자가 정한다. ② 선금은 계약금액의 50%로 한다. ③ 잔금은 검수 합격 후 15일 이내에 지급한다.",
        ),
        ("검수", "갑은 납품받은 날부터 14일 이내에 검수한다."),
        ("지체상금", "을은 지체일수 1일마다 계약금액의 1,000분의 0.5를 지급한다."),
        ("하자보수", "을은 검수 합격일부터 12개월 동안 하자를 무상으로 보수한다."),
        ("지식재산권", "결과물의 지식재산권은 갑과 을이 공동으로 소유한다."),
        ("비밀유지", "당사자는 비밀을 계약 종료 후 3년 동안 누설하지 않는다."),
        (
            "계약의 해지",
            "당사자 일방이 계약을 위반하고 30일 이내에 시정하지 아니하면 상대방은 계약을 해지할 수 있다.",
        ),
        ("안전관리", "갑은 을의 인력에게 안전한 작업환경을 제공한다."),
    ];
    [
        contract_document("우리.md", "웹서비스 개발 용역계약서", "", &own),
        contract_document("표준.md", "소프트웨어 용역 표준계약서", "용역", &standard),
    ]
}

#[tokio::test]
async fn a_subject_is_told_from_the_contract_and_from_the_standard() {
    let stage = contract_fixture(&renumbered_contracts());
    for (question, own, standard) in [
        ("지체상금 조항을 표준계약서와 비교해 주세요", "제5조", "제4조"),
        ("지체상금 상한이 표준계약서와 어떻게 다른가요?", "제5조", "제4조"),
        ("선금 비율이 표준계약서와 다른가요?", "제2조", "제2조"),
        ("잔금 지급 기한 표준계약서랑 달라?", "제2조", "제2조"),
        ("계약 해지 조항이 표준계약서와 어떻게 다른가요?", "제9조", "제8조"),
        ("해지 조항을 표준계약서와 비교해 주세요", "제9조", "제8조"),
        ("검수 기간 표준이랑 비교", "제4조", "제3조"),
        ("하자보수 기간이 표준계약서와 다른가요?", "제6조", "제5조"),
        ("저작권은 표준과 어떻게 달라?", "제7조", "제6조"),
        ("제7조가 표준계약서와 어떻게 다른가요?", "제7조", "제6조"),
        ("표준계약서 제6조를 우리 계약서와 비교해 줘", "제7조", "제6조"),
        ("비밀유지 기간이 표준계약서와 같은가요?", "제8조", "제7조"),
    ] {
        let (text, mut sources) = ask_with_sources(&stage, question).await;
        sources.sort();
        assert_eq!(sources, [own.to_owned(), format!("표준 {standard}")], "{question}: {text}");
        let turn = stage.turn().await;
        let (ours, theirs) = (format!("사용자 계약서 {own}("), format!("표준계약서 {standard}("));
        assert!(turn.response.contains(&ours) && turn.response.contains(&theirs), "{question}: {text}");
    }
    // A short article is told whole, and that two have the same words is said.
    let (text, _) = ask_with_sources(&stage, "지체상금을 표준계약서와 비교해줘").await;
    assert!(text.contains("1.25를 지급한다") && text.contains("10%를 넘지 못한다"), "{text}");
    let (text, _) = ask_with_sources(&stage, "비밀유지를 표준계약서와 비교해줘").await;
    assert!(text.ends_with("두 조항의 내용이 같습니다."), "{text}");
    let stage = contract_fixture(&samples::contracts());
    for (question, expected) in [
        ("하자보수 기간이 표준계약서와 다른가요?", ["제11조", "표준 제14조"]),
        ("해지 조항을 표준계약서와 비교해 주세요", ["제12조", "표준 제15조"]),
        ("잔금 지급 기한 표준계약서랑 달라?", ["제6조", "표준 제7조"]),
        ("Compare the late penalty with the standard contract", ["Article 2", "표준 Article 3"]),
        ("Compare the termination clause with the standard contract", ["Article 6", "표준 Article 7"]),
    ] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        assert_eq!(sources, expected, "{question}: {text}");
    }
}

#[tokio::test]
async fn the_side_that_lacks_a_subject_is_named() {
    let stage = contract_fixture(&renumbered_contracts());
    let (own, standard) = (
        "계약서에는 있지만 「소프트웨어 용역 표준계약서」에는 없는 조항:\n- 제3조(투입인력): \"① 을은",
        "표준계약서에는 있지만 「웹서비스 개발 용역계약서」에는 없는 조항:\n- 제9조(안전관리): \"갑은",
    );
    for (question, said) in [
        ("투입인력 조항을 표준계약서와 비교해 주세요", own),
        ("제3조가 표준계약서와 어떻게 다른가요?", own),
        ("투입인력은 표준계약서에도 있나요?", own),
        ("안전관리 조항을 표준계약서와 비교해줘", standard),
        ("표준계약서 제9조를 우리 계약서와 비교해 줘", standard),
    ] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        assert!(text.contains(said) && sources.len() == 1, "{question}: {text}");
    }
    let (text, _) = ask_with_sources(&stage, "투입인력 조항을 표준계약서와 비교해 주세요").await;
    assert!(text.contains("② 투입인력을 교체하려면"), "a short article is told whole: {text}");
}

#[tokio::test]
async fn a_full_comparison_lists_every_article_with_both_wordings() {
    let articles = |side: u32, count: u32| -> Vec<(String, String)> {
        let subjects = ["검수", "대금", "해지", "보증", "배상", "통지", "양도", "보험", "감독", "교육"];
        let article = |number: u32| {
            let subject = subjects[number as usize % subjects.len()];
            let title = format!("{subject} 사항 {number}");
            let text = format!("{subject}에 관한 {number}번째 일은 {}일 안에 마친다.", 1000 * side + number);
            (title, text)
        };
        (1..=count).map(article).collect()
    };
    let document = |id: &str, title: &str, kind: &str, articles: &[(String, String)]| {
        let articles: Vec<(&str, &str)> = articles.iter().map(|(title, text)| (&**title, &**text)).collect();
        contract_document(id, title, kind, &articles)
    };
    let documents = |count: u32| {
        [
            document("우리.md", "운영계약서", "", &articles(1, count)),
            document("표준.md", "표준 운영계약서", "운영", &articles(2, count)),
        ]
    };
    for question in ["표준계약서와 비교해줘", "표준계약서와 다른 조항은?"] {
        let (text, sources) = ask_with_sources(&contract_fixture(&documents(40)), question).await;
        assert_eq!(sources.len(), 80, "{text}");
        for number in 1..=40 {
            let (own, standard) = (1000 + number, 2000 + number);
            let said = format!("일은 {own}일 안에 마친다.\" [{}]\n  표준계약서 제{number}조", 2 * number - 1);
            assert!(text.contains(&said), "{number}: {text}");
            assert!(text.contains(&format!("일은 {standard}일 안에")), "{number}: {text}");
        }
    }
    // What does not fit is not left out in silence.
    let (text, _) = ask_with_sources(&contract_fixture(&documents(130)), "표준계약서와 비교해줘").await;
    assert!(text.contains("비교 결과가 길어 조항 10개를 뺐습니다"), "{text}");
}

#[tokio::test]
async fn articles_that_only_one_contract_has_are_listed_without_naming_the_standard() {
    let stage = contract_fixture(&renumbered_contracts());
    for (question, expected) in [
        ("이 계약서에만 있는 조항은?", "제3조"),
        ("우리 계약서에만 있는 조항 알려줘", "제3조"),
        ("Which clauses are only in our contract?", "제3조"),
        ("표준계약서에만 있는 조항은?", "표준 제9조"),
    ] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        assert_eq!(sources, [expected], "{question}: {text}");
    }
}

const CONFIDENTIALITY_ARTICLES: [(&str, &str); 4] = [
    ("목적", "이 계약은 두 회사가 주고받는 비밀정보를 지키는 데 필요한 것을 정한다."),
    ("비밀유지 의무", "비밀정보를 받은 쪽은 그것을 제3자에게 누설하지 않는다."),
    ("손해배상", "비밀정보를 누설한 쪽은 그로 생긴 손해를 배상한다."),
    ("분쟁 해결", "비밀정보에 관한 다툼은 서울중앙지방법원에서 다룬다."),
];

/// Standards of other kinds, which come before the right one in the index.
fn unrelated_standards(count: usize) -> Vec<Document> {
    let other = |number: usize| {
        let thing = format!("물건{number}");
        let (lend, fee) =
            (format!("{thing}을 빌려주고 돌려받는다."), format!("{thing}의 요금은 달마다 낸다."));
        let (title, kind) = (format!("표준 {thing} 임대계약서"), format!("임대{number}"));
        contract_document(
            &format!("가-{number:03}"),
            &title,
            &kind,
            &[("임대", &lend), ("요금", &fee), ("반환", &lend)],
        )
    };
    (0..count).map(other).collect()
}

#[tokio::test]
async fn the_standard_of_its_kind_is_found_among_many() {
    for count in [3, 40] {
        let mut documents = unrelated_standards(count);
        documents.push(contract_document(
            "하-표준.md",
            "표준 비밀유지계약서",
            "비밀유지",
            &CONFIDENTIALITY_ARTICLES,
        ));
        documents.push(contract_document("우리.md", "비밀유지계약서", "", &CONFIDENTIALITY_ARTICLES[..2]));
        let stage = contract_fixture(&documents);
        let (text, sources) = ask_with_sources(&stage, "표준계약서와 비교해서 빠진 조항이 뭐야?").await;
        assert_eq!(sources, ["표준 제3조", "표준 제4조"], "{count}: {text}");
        let (text, sources) = ask_with_sources(&stage, "제2조를 표준계약서와 비교해줘").await;
        assert_eq!(sources, ["제2조", "표준 제2조"], "{count}: {text}");
        assert!(!text.contains("임대계약서"), "{count}: {text}");
        // An article that only the standard has is not looked up by its number in those of other kinds.
        let (text, _) = ask_with_sources(&stage, "표준계약서 제3조는 뭐야?").await;
        assert!(text.contains("손해를 배상한다") && !text.contains("돌려받는다"), "{count}: {text}");
    }
}

#[tokio::test]
async fn nothing_missing_and_nothing_to_compare_with_are_distinguished() {
    let own = contract_document("우리.md", "비밀유지계약서", "", &CONFIDENTIALITY_ARTICLES);
    let standard =
        contract_document("하-표준.md", "표준 비밀유지계약서", "비밀유지", &CONFIDENTIALITY_ARTICLES);
    let question = "표준계약서와 비교해서 빠진 조항이 뭐야?";
    let (whole, _) = ask_with_sources(&contract_fixture(&[own.clone(), standard]), question).await;
    assert!(whole.contains("「비밀유지계약서」에 빠진 조항이 없습니다 (「표준 비밀유지계약서」"), "{whole}");
    let mut documents = unrelated_standards(3);
    documents.push(own);
    let (alone, _) = ask_with_sources(&contract_fixture(&documents), question).await;
    assert!(alone.contains("「비밀유지계약서」와 비교할 같은 종류의 표준계약서가 없습니다"), "{alone}");
    assert!(!alone.contains("빠진 조항이 없습니다"), "{alone}");
}

#[tokio::test]
async fn a_missing_article_is_reported_as_missing_and_an_appendix_is_read() {
    let text = "용역 계약서\n\n제1조(목적) 이 계약은 용역을 정한다.\n\n제2조(대금) 대금은 천만 원으로 한다.\n\n\
        부칙\n\n제1조(시행일) 이 계약은 2026년 1월 1일부터 시행한다.\n\n별지 1 과업 내용\n\n을은 검색 화면을 만든다.";
    let document =
        Document { kind: DocumentKind::Contract, ..Document::new("용역.md", "용역 계약서", text) };
    let stage = contract_fixture(&[document]);
    for (question, asked_for) in [
        ("제99조 내용은?", "제99조"),
        ("제2조의2 알려줘", "제2조의2"),
        ("별지 2 보여줘", "별지 2"),
        ("부칙 제3조 알려줘", "부칙 제3조"),
    ] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        let turn = stage.turn().await;
        assert_eq!(
            turn.response,
            format!("찾아본 결과: 「용역 계약서」에 없는 조항이라 찾지 못했습니다: {asked_for}"),
            "{text}"
        );
        assert!(sources.is_empty() && turn.model_calls <= 4, "{} calls: {text}", turn.model_calls);
    }
    for (question, words, source) in [
        ("별지 1 보여줘", "을은 검색 화면을 만든다.", "별지 1"),
        ("별지 보여줘", "을은 검색 화면을 만든다.", "별지 1"),
        ("부칙 제1조 알려줘", "2026년 1월 1일부터 시행한다.", "부칙 제1조"),
        ("부칙 내용은?", "2026년 1월 1일부터 시행한다.", "부칙"),
        ("제1조 알려줘", "이 계약은 용역을 정한다.", "제1조"),
    ] {
        let (text, sources) = ask_with_sources(&stage, question).await;
        assert!(text.contains(words), "{text}");
        assert_eq!(sources, [source], "{text}");
    }
}

#[tokio::test]
async fn every_contract_is_looked_at_however_many_there_are() {
    let contract = |number: usize| Document {
        kind: DocumentKind::Contract,
        ..Document::new(
            format!("계약-{number}"),
            format!("계약서 {number}"),
            format!(
                "제1조(목적) 이 계약은 용역을 정한다.\n\n제2조(특약{number}) 특약사항 qwx{number}은 {number}만 원으로 한다."
            ),
        )
    };
    let documents: Vec<Document> = (1..=30).map(contract).collect();
    let stage = contract_fixture(&documents);
    for number in [1, 7, 19, 25, 30] {
        let (text, _) =
            ask_with_sources(&stage, &format!("특약사항 qwx{number}은 얼마야? 계약 내용 알려줘")).await;
        assert!(text.contains(&format!("qwx{number}은 {number}만 원으로 한다")), "{text}");
    }
    let (text, _) = ask_with_sources(&stage, "'특약1' 조항 보여줘").await;
    let answer = text.rsplit('\n').next().unwrap_or_default();
    assert!(answer.contains("qwx1은 1만 원") && !answer.contains("qwx13"), "{text}");
    ask_with_sources(&stage, "제2조 내용이 뭐야?").await;
    let history = stage.state().await["tool_history"].to_string();
    assert!(history.contains("조항 18개를 더 찾았지만"), "what was left out is said: {history}");
}

#[tokio::test]
async fn a_source_is_on_the_page_where_its_quote_starts() {
    let text = "용역 계약서\n\n제2조(대금) ① 대금은 천만 원으로 한다.\n② 지연이자는 연 5퍼센트로 한다.";
    let second = text.find('②').expect("there");
    let document = Document {
        kind: DocumentKind::Contract,
        pages: vec![0, second],
        ..Document::new("용역.docx", "용역 계약서", text)
    };
    let stage = contract_fixture(&[document]);
    stage.ask("계약의 지연이자는 얼마인가요?").await;
    let turn = stage.turn().await;
    assert_eq!(turn.sources.len(), 1, "{}", turn.response);
    assert_eq!((turn.sources[0].start, turn.sources[0].page), (second, Some(2)), "{}", turn.response);
}

#[tokio::test]
async fn what_one_contract_has_as_a_clause_and_the_other_as_an_article_is_laid_beside_it() {
    let contract = |id: &str, kind: DocumentKind, articles: &[&str]| {
        let text = format!("{id}\n\n{}", articles.join("\n\n"));
        Document { kind, ..Document::new(id, id, text) }
    };
    let own = [
        "제1조(목적) 이 계약은 쇼핑몰 개발에 관하여 정한다.",
        "제2조(계약기간) 계약기간은 8월 31일까지로 한다.",
        "제3조(검수) 갑은 납품을 받은 날부터 7일 이내에 검수한다.",
        "제4조(계약의 해지) ① 상대방이 계약을 위반하면 해지할 수 있다.\n② 정당한 사유 없이 해지한 당사자는 대금의 20퍼센트를 위약금으로 낸다.",
    ];
    let standard = [
        "제1조(목적) 이 계약은 소프트웨어 개발에 관하여 정한다.",
        "제2조(계약기간) 계약기간은 표지에 적는다.",
        "제3조(검수) 발주자는 납품을 받은 날부터 14일 이내에 검수한다.",
        "제4조(계약의 해지) 상대방이 계약을 위반하면 해지할 수 있다.",
        "제5조(위약금) 정당한 사유 없이 해지한 당사자는 대금의 5퍼센트를 위약금으로 지급한다.",
    ];
    let documents = [
        contract("쇼핑몰 개발 용역계약서", DocumentKind::Contract, &own),
        contract("소프트웨어 개발 용역 표준계약서", DocumentKind::Standard("용역".into()), &standard),
    ];
    let question = "우리 계약서와 표준계약서의 위약금 조항을 비교해줘";
    let (text, sources) = ask_with_sources(&contract_fixture(&documents), question).await;
    assert_eq!(sources, ["제4조", "표준 제5조"], "{text}");
    assert!(text.contains("20퍼센트") && text.contains("5퍼센트를 위약금으로 지급한다"), "{text}");
}

#[tokio::test]
async fn a_range_is_read_whole_and_says_where_the_contract_ends() {
    let article = |number: &str| format!("{number}(일) {number}의 일을 한다.\n\n");
    let mut text: String = (1..=14).map(|number| article(&format!("제{number}조"))).collect();
    text.push_str(&article("제14조의2"));
    text.push_str(&article("제15조"));
    let document =
        Document { kind: DocumentKind::Contract, ..Document::new("계약", "긴 계약서", text) };
    let (text, sources) =
        ask_with_sources(&contract_fixture(&[document]), "제3조부터 제20조까지 보여줘").await;
    let expected: Vec<String> =
        (3..=14).map(|number| format!("제{number}조")).chain(["제14조의2".into(), "제15조".into()]).collect();
    assert_eq!(sources, expected, "{text}");
    assert!(text.contains("「긴 계약서」의 마지막 조항은 제15조입니다."), "{text}");
    assert!(!text.contains("찾지 못했습니다"), "{text}");
}
