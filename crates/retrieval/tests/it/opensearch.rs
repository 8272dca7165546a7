//! Tests of the index in a real OpenSearch node, which they start and kill.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use doran_llm::{Embedder, EmbedderInfo, EmbeddingSide, ModelError};
use doran_retrieval::conformance::{self, tenant};
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, OpenSearchIndex, Passage, RetrieveError, Retriever,
    SearchQuery, split_into_passages,
};

use crate::fresh_directory;
use crate::opensearch_node::{NODE_START_TIMEOUT, OpenSearchNode};

/// Opens an index of the node, once the node answers.
pub(crate) async fn open_index(
    node: &OpenSearchNode,
    name: &str,
    embedder: Option<Arc<dyn Embedder>>,
) -> OpenSearchIndex {
    let started = Instant::now();
    loop {
        match OpenSearchIndex::open(&node.address(), name, embedder.clone()).await {
            Ok(index) => return index,
            Err(error @ (RetrieveError::Stale { .. } | RetrieveError::OtherEmbedder { .. })) => {
                panic!("{error}")
            }
            Err(error) if started.elapsed() > NODE_START_TIMEOUT => panic!("{error:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}

/// A deterministic embedder whose vectors depend on the letters of a text.
struct LetterEmbedder;

#[async_trait]
impl Embedder for LetterEmbedder {
    fn info(&self) -> EmbedderInfo {
        EmbedderInfo { id: "test:letters".to_owned(), dimension: 16, multilingual: true }
    }

    async fn embed(&self, texts: &[String], _: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let vector = |text: &String| {
            let mut vector = vec![0.1_f32; 16];
            text.chars().for_each(|char| vector[char as usize % 16] += 1.0);
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            vector.into_iter().map(|number| number / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_keeps_the_contract_and_survives_its_death() {
    let directory = fresh_directory("opensearch");
    let Some(mut node) = OpenSearchNode::start(&directory) else { return };
    let letters = || Some(Arc::new(LetterEmbedder) as Arc<dyn Embedder>);
    let count = AtomicUsize::new(0);
    let make = async || {
        let name = format!("both-{}", count.fetch_add(1, Ordering::Relaxed));
        open_index(&node, &name, letters()).await
    };
    conformance::check_retriever(async |documents: Vec<Document>| {
        let index = make().await;
        let all: Vec<_> =
            documents.iter().map(|document| (document.clone(), split_into_passages(document))).collect();
        index.put_all(&tenant(), &all).await.expect("put");
        index
    })
    .await;
    conformance::check_index(make).await;
    for (name, embedder) in [("words", None), ("both", letters())] {
        let lasting = format!("{name}-lasting");
        let first = open_index(&node, &lasting, embedder.clone()).await;
        conformance::check_durable_index(first, async |_| {
            open_index(&node, &lasting, embedder.clone()).await
        })
        .await;
    }
    another_embedder_is_refused_and_a_rebuild_takes_it(&node, letters()).await;
    what_others_do_during_a_rebuild_is_followed(&node).await;
    an_index_that_is_there_is_not_made(&node).await;
    of_two_writers_of_a_document_one_wins_whole(&node).await;
    an_ingest_survives_the_death_of_the_node(&mut node).await;
    drop(node);
    fs::remove_dir_all(directory).ok();
}

async fn another_embedder_is_refused_and_a_rebuild_takes_it(
    node: &OpenSearchNode,
    embedder: Option<Arc<dyn Embedder>>,
) {
    let index = open_index(node, "changing", None).await;
    let document = Document::new("a", "t", "휴가는 15일이다.\n\n식비는 4만 원이다.");
    index.put(&tenant(), &document, &split_into_passages(&document)).await.expect("put");
    let without = open_index(node, "changing", embedder.clone()).await;
    assert_eq!(without.embedder(), None, "an index without vectors is searched by words");
    let hits = without.retrieve(&SearchQuery::new(tenant(), "휴가", 5)).await.expect("hits");
    assert_eq!(hits[0].passage.text, "휴가는 15일이다.");
    let rebuilt =
        OpenSearchIndex::rebuild(&node.address(), "changing", embedder.clone()).await.expect("rebuilt");
    for index in [rebuilt, open_index(node, "changing", embedder).await] {
        let hits = index.retrieve(&SearchQuery::new(tenant(), "휴가", 5)).await.expect("hits");
        assert_eq!(hits[0].passage.text, "휴가는 15일이다.");
        assert_eq!(index.document(&tenant(), &document.id).await.expect("read"), Some(document.clone()));
    }
    let refused = OpenSearchIndex::open(&node.address(), "changing", None).await.err();
    assert!(matches!(refused, Some(RetrieveError::OtherEmbedder { .. })), "{refused:?}");
}

/// Changes the index when the first passage is embedded, as another process may at any time.
struct MeddlingEmbedder {
    other: OpenSearchIndex,
    embed_calls: AtomicUsize,
}

fn split_version(id: &str, words: &str) -> (Document, Vec<Passage>) {
    let document = Document::new(id, "t", words);
    let passages = split_into_passages(&document);
    (document, passages)
}

#[async_trait]
impl Embedder for MeddlingEmbedder {
    fn info(&self) -> EmbedderInfo {
        LetterEmbedder.info()
    }

    async fn embed(&self, texts: &[String], side: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        if self.embed_calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let all = [split_version("a", "새 규칙이다."), split_version("b", "둘째 규칙이다.")];
            self.other.put_all(&tenant(), &all).await.expect("put");
            self.other.remove(&tenant(), &DocumentId::new("c")).await.expect("removed");
        }
        LetterEmbedder.embed(texts, side).await
    }
}

async fn what_others_do_during_a_rebuild_is_followed(node: &OpenSearchNode) {
    let other = open_index(node, "followed", None).await;
    let all = [
        split_version("a", "옛 규칙이다."),
        split_version("c", "셋째 규칙이다."),
        split_version("d", "넷째 규칙이다."),
    ];
    other.put_all(&tenant(), &all).await.expect("put");
    let meddler = Arc::new(MeddlingEmbedder { other, embed_calls: AtomicUsize::default() });
    let index = OpenSearchIndex::rebuild(&node.address(), "followed", Some(meddler)).await.expect("rebuilt");
    let listed = index.list(&tenant(), &DocumentFilter::default()).await.expect("a list");
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["a", "b", "d"]);
    let hits = index.retrieve(&SearchQuery::new(tenant(), "규칙", 9)).await.expect("hits");
    let mut words: Vec<&str> = hits.iter().map(|hit| hit.passage.text.as_str()).collect();
    words.sort_unstable();
    assert_eq!(words, ["넷째 규칙이다.", "둘째 규칙이다.", "새 규칙이다."]);
}

async fn an_index_that_is_there_is_not_made(node: &OpenSearchNode) {
    OpenSearchIndex::create_new(&node.address(), "made", None).await.expect("made");
    let refused = OpenSearchIndex::create_new(&node.address(), "made", None).await.err();
    assert!(matches!(refused, Some(RetrieveError::Unavailable { .. })), "{refused:?}");
}

async fn of_two_writers_of_a_document_one_wins_whole(node: &OpenSearchNode) {
    let (left, right) = (open_index(node, "shared", None).await, open_index(node, "shared", None).await);
    let version = |who: &str| {
        let document = Document::new("a", "t", format!("{who}의 규칙이다.\n\n").repeat(8));
        let passages = split_into_passages(&document);
        (document, passages)
    };
    let (one, other) = (version("왼쪽"), version("오른쪽"));
    let tenant = tenant();
    for _ in 0..3 {
        let (first, second) =
            tokio::join!(left.put(&tenant, &one.0, &one.1), right.put(&tenant, &other.0, &other.1));
        first.and(second).expect("put");
        let kept = left.document(&tenant, &one.0.id).await.expect("read").expect("one of them");
        let hits = left.retrieve(&SearchQuery::new(tenant.clone(), "규칙", 50)).await.expect("hits");
        assert_eq!(hits.len(), 8, "all of one version");
        assert!(hits.iter().all(|hit| kept.text.contains(&hit.passage.text)), "and nothing of the other");
    }
}

async fn an_ingest_survives_the_death_of_the_node(node: &mut OpenSearchNode) {
    /// Documents between two deaths.
    const DOCUMENTS: usize = 4;
    const PASSAGES: usize = 20;
    let index = Arc::new(open_index(node, "killed", None).await);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let (writing, count, ends) = (Arc::clone(&index), Arc::clone(&acknowledged), Arc::clone(&is_over));
    // Documents are added until the node has died twice, so each death interrupts one.
    let ingest = tokio::spawn(async move {
        while !ends.load(Ordering::SeqCst) {
            let at = count.load(Ordering::SeqCst);
            let document =
                Document::new(format!("{at}"), "t", format!("{at}번 문서의 단락이다.\n\n").repeat(PASSAGES));
            let started = Instant::now();
            while let Err(error) = writing.put(&tenant(), &document, &split_into_passages(&document)).await {
                assert!(started.elapsed() < NODE_START_TIMEOUT, "{error:?}");
            }
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    for death in 1..=2 {
        while acknowledged.load(Ordering::SeqCst) < death * DOCUMENTS {
            assert!(!ingest.is_finished(), "a document was refused");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        node.restart();
    }
    is_over.store(true, Ordering::SeqCst);
    ingest.await.expect("ingested");
    let listed = index.list(&tenant(), &DocumentFilter::default()).await.expect("list");
    let documents = acknowledged.load(Ordering::SeqCst);
    assert_eq!(listed.len(), documents, "every acknowledged document is there once");
    for listed in listed {
        assert_eq!(listed.passages, PASSAGES);
        let filter = DocumentFilter { documents: vec![listed.id], ..DocumentFilter::default() };
        let question = SearchQuery { filter, ..SearchQuery::new(tenant(), "문서의 단락", 100) };
        let hits = index.retrieve(&question).await.expect("hits");
        assert_eq!(hits.len(), PASSAGES, "every passage is there once");
    }
}
