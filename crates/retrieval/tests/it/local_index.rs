//! Kills the index in a directory again and again during writes, and lets its embedder fail.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use doran_llm::{Embedder, EmbedderInfo, EmbeddingSide, ModelError};
use doran_retrieval::{
    BuiltInEncoder, Document, DocumentFilter, DocumentIndex, DocumentTenant, LocalIndex, RetrieveError,
    Retriever, SearchQuery, split_into_passages,
};

use crate::{EXTRACT_WORKER, fresh_directory};

const KILLS: usize = 25;

#[tokio::test]
async fn killed_again_and_again_it_keeps_what_it_acknowledged() {
    let root = fresh_directory("local-kills");
    let (mut acknowledged, mut removed) = (BTreeSet::new(), BTreeSet::new());
    for kill in 0..KILLS {
        let first = kill * 1000;
        let mut child = Command::new(EXTRACT_WORKER)
            .args(["__index".as_ref(), root.as_os_str(), first.to_string().as_ref()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an index");
        let mut lines = BufReader::new(child.stdout.take().expect("words")).lines();
        // The worker prints what it has acknowledged, and is killed at a different point each time.
        for _ in 0..1 + kill * 7 % 23 {
            let line = lines.next().expect("it ended by itself").expect("a line");
            note_acknowledgement(&line, &mut acknowledged, &mut removed);
        }
        child.kill().expect("killed");
        for line in lines.map_while(Result::ok) {
            note_acknowledgement(&line, &mut acknowledged, &mut removed);
        }
        child.wait().expect("gone");
    }
    let index = LocalIndex::open(&root, None).await.expect("an index");
    let tenant = DocumentTenant::new("t");
    let listed = index.list(&tenant, &DocumentFilter::default()).await.expect("list");
    let names: BTreeSet<String> = listed.iter().map(|listed| listed.id.as_str().to_owned()).collect();
    let lost: Vec<_> = acknowledged.difference(&names).filter(|name| !removed.contains(*name)).collect();
    // A removal that was running at the kill may be done without having been acknowledged.
    let was_going = |name: &str| name.parse::<usize>().is_ok_and(|at| at % 5 == 2);
    assert!(lost.len() <= KILLS && lost.iter().all(|name| was_going(name)), "{lost:?}");
    let back: Vec<_> = removed.intersection(&names).collect();
    assert!(back.is_empty(), "removed and there again: {back:?}");
    for listed in listed {
        let expected = split_into_passages(&document(listed.id.as_str()));
        let filter = DocumentFilter { documents: vec![listed.id.clone()], ..DocumentFilter::default() };
        let question = SearchQuery { filter, ..SearchQuery::new(tenant.clone(), "문서의 글", 50) };
        assert_eq!(index.retrieve(&question).await.expect("hits").len(), expected.len(), "{}", listed.id);
    }
}

/// Fails after embedding half of a long document, until the test lets it continue.
struct FailingEmbedder {
    embedded: AtomicUsize,
    recovered: AtomicBool,
}

#[async_trait]
impl Embedder for FailingEmbedder {
    fn info(&self) -> EmbedderInfo {
        EmbedderInfo { id: "test:failing".to_owned(), dimension: 2, multilingual: false }
    }

    async fn embed(&self, texts: &[String], _: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        if self.embedded.fetch_add(texts.len(), Ordering::SeqCst) >= 500
            && !self.recovered.load(Ordering::SeqCst)
        {
            return Err(ModelError::Broken { reason: "away".to_owned() });
        }
        Ok(vec![vec![0.6, 0.8]; texts.len()])
    }
}

#[tokio::test]
async fn an_encoder_that_fails_midway_loses_nothing_and_goes_on_later() {
    let failing =
        Arc::new(FailingEmbedder { embedded: AtomicUsize::new(0), recovered: AtomicBool::new(false) });
    let root = fresh_directory("c124");
    let index = LocalIndex::open(&root, Some(failing.clone())).await.expect("an index");
    let tenant = DocumentTenant::new("t");
    let document =
        Document::new("a", "t", (0..1000).map(|at| format!("{at}째 단락이다.\n\n")).collect::<String>());
    let passages = split_into_passages(&document);
    assert_eq!(passages.len(), 1000);
    index.put(&tenant, &document, &passages).await.expect("put");
    let refused = loop {
        match index.embed_some().await {
            Ok(left) => assert!(left > 400, "{left}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, RetrieveError::Unavailable { .. }), "{refused:?}");
    failing.recovered.store(true, Ordering::SeqCst);
    let before = failing.embedded.load(Ordering::SeqCst);
    while index.embed_some().await.expect("a step") > 0 {}
    assert!(failing.embedded.load(Ordering::SeqCst) - before <= 500, "the first half is not computed again");
    let hits = index.retrieve(&SearchQuery::new(tenant, "777째 단락", 3)).await.expect("hits");
    assert_eq!(hits[0].passage.text, "777째 단락이다.");
}

#[tokio::test]
async fn the_built_in_encoder_takes_any_text() {
    let root = fresh_directory("any-text");
    let encoder = BuiltInEncoder::open().expect("the encoder");
    let index = LocalIndex::open(&root, Some(Arc::new(encoder))).await.expect("an index");
    let tenant = DocumentTenant::new("t");
    let thai = "พนักงานมีสิทธิลาพักร้อนปีละสิบห้าวัน";
    for (id, text) in [
        ("leave", "직원은 1년에 15일의 유급휴가를 쓸 수 있다.".to_owned()),
        ("parking", "주차장은 평일 저녁 8시에 닫는다.".to_owned()),
        ("thai", thai.to_owned()),
        ("emoji", "🙂".repeat(1 << 13)),
        ("marks", "\u{200b}\u{feff} — … ※".to_owned()),
    ] {
        let document = Document::new(id, "t", text);
        index.put(&tenant, &document, &split_into_passages(&document)).await.expect("put");
    }
    while index.embed_some().await.expect("a step") > 0 {}
    let found = async |text: &str| {
        let hits = index.retrieve(&SearchQuery::new(tenant.clone(), text, 5)).await.expect("hits");
        hits.first().map(|hit| hit.passage.document.as_str().to_owned())
    };
    assert_eq!(found("paid leave of an employee").await.as_deref(), Some("leave"), "across languages");
    assert_eq!(found(thai).await.as_deref(), Some("thai"), "a language the encoder does not know");
    assert_eq!(found(&"🙂".repeat(1 << 18)).await, None, "there is no word to look for");
    assert!(found(&"유급휴가 🙂".repeat(1 << 16)).await.is_some(), "a question of more than a megabyte");
}

#[tokio::test]
async fn an_article_that_no_document_has_gets_no_high_score() {
    let root = fresh_directory("missing-article");
    let encoder = BuiltInEncoder::open().expect("the encoder");
    let index = LocalIndex::open(&root, Some(Arc::new(encoder))).await.expect("an index");
    let tenant = DocumentTenant::new("t");
    let rules = "취업규칙\n\n제1조(목적) 이 규칙은 직원의 근로 조건을 정한다.\n\n제2조(적용) 이 규칙은 모든 직원에게 적용한다.\n\n\
                 제9조(휴일) 일요일은 쉰다.\n\n제10조(연차휴가) 직원은 1년에 15일의 연차휴가를 쓴다.\n\n\
                 제11조(병가) 직원은 1년에 30일까지 병가를 쓴다.\n";
    let terms = "Terms of Service\n\nArticle 1 (Purpose) These terms govern the service.\n\n\
                 Article 8 (Fees) Fees are due within thirty days.\n\nArticle 9 (Term) The term is one year.\n";
    for (id, text) in [("rules", rules), ("terms", terms)] {
        let document = Document::new(id, id, text);
        index.put(&tenant, &document, &split_into_passages(&document)).await.expect("put");
    }
    while index.embed_some().await.expect("a step") > 0 {}
    let best = async |text: &str| {
        let hits = index.retrieve(&SearchQuery::new(tenant.clone(), text, 3)).await.expect("hits");
        hits.first().map_or(0.0, |hit| hit.score)
    };
    for question in ["제10조", "제10조 연차휴가", "Article 9", "제11조(병가)"] {
        let score = best(question).await;
        assert!(score > 0.5, "{question}: {score}");
    }
    for question in
        ["제10-2조", "제10조의2", "제10조의2(연차휴가)", "제99조", "Article 99", "Article 99 fees"]
    {
        let score = best(question).await;
        assert!(score <= 0.5, "{question}: {score}");
    }
}

fn note_acknowledgement(line: &str, acknowledged: &mut BTreeSet<String>, removed: &mut BTreeSet<String>) {
    match line.split_once(' ') {
        Some(("put", name)) => drop(acknowledged.insert(name.to_owned())),
        Some(("removed", name)) => drop(removed.insert(name.to_owned())),
        _ => panic!("{line}"),
    }
}

/// Returns a document like those of the worker.
fn document(name: &str) -> Document {
    Document::new(name, "t", format!("문서의 글 {name}.\n\n").repeat(3))
}
