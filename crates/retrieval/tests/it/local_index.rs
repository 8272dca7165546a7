//! Kills the index in a directory again and again during writes, and lets its embedder fail.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use doran_llm::{Embedder, EmbedderInfo, EmbeddingSide, ModelError};
use doran_retrieval::{
    Document, DocumentFilter, DocumentIndex, DocumentTenant, LocalIndex, RetrieveError, Retriever,
    SearchQuery, split_into_passages,
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

/// Fails after embedding half of a long document, until it is told to continue.
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
async fn c124_an_encoder_that_fails_midway_leaves_nothing_and_the_document_can_be_put_again() {
    let failing =
        Arc::new(FailingEmbedder { embedded: AtomicUsize::new(0), recovered: AtomicBool::new(false) });
    let root = fresh_directory("c124");
    let index = LocalIndex::open(&root, Some(failing.clone())).await.expect("an index");
    let tenant = DocumentTenant::new("t");
    let document =
        Document::new("a", "t", (0..1000).map(|at| format!("{at}째 단락이다.\n\n")).collect::<String>());
    let passages = split_into_passages(&document);
    assert_eq!(passages.len(), 1000);
    let refused = index.put(&tenant, &document, &passages).await;
    assert!(matches!(refused, Err(RetrieveError::Unavailable { .. })), "{refused:?}");
    assert_eq!(index.list(&tenant, &DocumentFilter::default()).await.expect("list"), [], "all or nothing");
    failing.recovered.store(true, Ordering::SeqCst);
    index.put(&tenant, &document, &passages).await.expect("put");
    let listed = index.list(&tenant, &DocumentFilter::default()).await.expect("list");
    assert_eq!(listed.iter().map(|listed| listed.passages).collect::<Vec<_>>(), [1000]);
    let hits = index.retrieve(&SearchQuery::new(tenant, "777째 단락", 3)).await.expect("hits");
    assert_eq!(hits[0].passage.text, "777째 단락이다.");
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
