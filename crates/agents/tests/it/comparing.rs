//! Contracts beside their standards, and many contracts at once, asked through the built-in model.

use std::sync::Arc;

use doran_agents::tools::Toolbox;
use doran_agents::{Parts, Settings, SourceKind, samples};
use doran_engine::store::RamStore;
use doran_llm::OfflineModel;
use doran_retrieval::{Document, DocumentKind, RamKeyword, Tenant};

use crate::stage::{Stage, stage};

fn desk(documents: &[Document]) -> Stage {
    let index = RamKeyword::of(&Tenant::new("local"), documents);
    let parts = Parts { tools: Toolbox::new(), ..Parts::new(Arc::new(OfflineModel), Arc::new(index)) };
    stage("contract", &Settings::default(), &parts, Arc::new(RamStore::new()))
}

fn korean() -> Vec<Document> {
    let korean = |document: &Document| document.id.as_str().contains("용역계약서");
    samples::contracts().into_iter().filter(korean).collect()
}

async fn asked(stage: &Stage, question: &str) -> (String, Vec<String>) {
    let trace = stage.ask(question).await;
    let turn = stage.turn().await;
    let told = |kind: SourceKind| if kind == SourceKind::Standard { "표준 " } else { "" };
    let sources = turn
        .sources
        .iter()
        .map(|source| format!("{}{}", told(source.kind), source.article.clone().unwrap_or_default()))
        .collect();
    (format!("{trace}\n{}", turn.response), sources)
}

#[tokio::test]
async fn an_article_is_laid_beside_the_one_of_the_standard_that_answers_to_it() {
    let (told, sources) = asked(&desk(&korean()), "우리 계약서 제12조가 표준과 어떻게 달라?").await;
    assert!(sources.contains(&"제12조".to_owned()), "{told}");
    let standard: Vec<&String> = sources.iter().filter(|source| source.starts_with("표준")).collect();
    assert_eq!(standard, ["표준 제15조"], "{told}");
    assert!(told.contains(r#""compare":"same""#), "{told}");
}

#[tokio::test]
async fn what_the_standard_has_and_the_contract_lacks_is_named_with_sources() {
    for question in ["표준계약서에 있는데 우리 계약서에 없는 조항은?", "표준과 비교해서 빠진 조항 알려줘"]
    {
        let (told, sources) = asked(&desk(&korean()), question).await;
        assert_eq!(sources, ["표준 제3조", "표준 제8조", "표준 제13조"], "{told}");
    }
    let english = |document: &Document| document.id.as_str().contains("service-agreement");
    let english: Vec<Document> = samples::contracts().into_iter().filter(english).collect();
    let (told, sources) =
        asked(&desk(&english), "Which clauses does the standard contract have that ours lacks?").await;
    assert_eq!(sources, ["표준 제6조", "표준 제8조"], "{told}");
    let (told, sources) =
        asked(&desk(&english), "Which clauses of our contract are not in the standard?").await;
    assert_eq!(sources, ["제7조"], "{told}");
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
    let stage = desk(&documents);
    for number in [1, 7, 19, 25, 30] {
        let (told, _) = asked(&stage, &format!("특약사항 qwx{number}은 얼마야? 계약 내용 알려줘")).await;
        assert!(told.contains(&format!("qwx{number}은 {number}만 원으로 한다")), "{told}");
    }
    let (told, _) = asked(&stage, "'특약1' 조항 보여줘").await;
    let answer = told.rsplit('\n').next().unwrap_or_default();
    assert!(answer.contains("qwx1은 1만 원") && !answer.contains("qwx13"), "{told}");
    asked(&stage, "제2조 내용이 뭐야?").await;
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
    let stage = desk(&[document]);
    stage.ask("계약의 지연이자는 얼마인가요?").await;
    let turn = stage.turn().await;
    assert_eq!(turn.sources.len(), 1, "{}", turn.response);
    assert_eq!((turn.sources[0].start, turn.sources[0].page), (second, Some(2)), "{}", turn.response);
}
