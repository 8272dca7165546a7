//! Tests of the index in a directory.

use std::sync::atomic::{AtomicU64, Ordering};

use doran_llm::{EmbeddingSide, ModelError};

use super::*;
use crate::conformance;
use crate::split::split_into_passages;

/// Knows a few words in two languages. Texts with the same meaning get the same vector.
#[derive(Debug)]
struct DictionaryEmbedder(&'static str, usize);

const WORDS_BY_MEANING: &[&[&str]] =
    &[&["휴가", "leave"], &["식비", "meal"], &["노트북", "laptop"], &["영수증", "receipt"]];

#[async_trait]
impl Embedder for DictionaryEmbedder {
    fn info(&self) -> EmbedderInfo {
        EmbedderInfo { id: self.0.to_owned(), dimension: self.1, multilingual: true }
    }

    async fn embed(&self, texts: &[String], _: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let vector = |text: &String| {
            let mut vector = vec![0.1_f32; self.1];
            for (at, words) in WORDS_BY_MEANING.iter().enumerate() {
                vector[at] +=
                    words.iter().map(|word| text.to_lowercase().matches(word).count() as f32).sum::<f32>();
            }
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            vector.into_iter().map(|number| number / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

fn dictionary_embedder() -> Option<Arc<dyn Embedder>> {
    Some(Arc::new(DictionaryEmbedder("test:dictionary", 8)))
}

/// A temporary directory that is removed after the test.
fn temporary_directory() -> tempfile::TempDir {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("doran-local-{}-", NUMBER.fetch_add(1, Ordering::Relaxed));
    tempfile::Builder::new().prefix(&prefix).tempdir().expect("a directory")
}

async fn open(root: &Path, embedder: Option<Arc<dyn Embedder>>) -> LocalIndex {
    LocalIndex::open(root, embedder).await.expect("an index")
}

async fn fill(index: &LocalIndex, documents: &[Document]) {
    for document in documents {
        index.put(&conformance::tenant(), document, &split_into_passages(document)).await.expect("put");
    }
    embed_all(index).await;
}

async fn embed_all(index: &LocalIndex) {
    while index.embed_some().await.expect("vectors") > 0 {}
    assert_eq!(index.passages_without_vectors(), 0);
}

async fn found(index: &LocalIndex, text: &str) -> Vec<String> {
    let hits = index.retrieve(&SearchQuery::new(conformance::tenant(), text, 5)).await.expect("hits");
    hits.into_iter().map(|hit| hit.passage.text).collect()
}

async fn check_contract(embedder: fn() -> Option<Arc<dyn Embedder>>) {
    let roots = Mutex::new(Vec::new());
    let make = async || {
        let root = temporary_directory();
        let index = open(root.path(), embedder()).await;
        roots.lock().expect("roots").push(root);
        index
    };
    conformance::check_retriever(async |documents: Vec<Document>| {
        let index = make().await;
        fill(&index, &documents).await;
        index
    })
    .await;
    conformance::check_index(make).await;
    let root = temporary_directory();
    conformance::check_durable_index(open(root.path(), embedder()).await, async |index| {
        drop(index);
        open(root.path(), embedder()).await
    })
    .await;
}

#[tokio::test]
async fn words_on_disk_keep_the_contract() {
    check_contract(|| None).await;
}

#[tokio::test]
async fn words_and_vectors_on_disk_keep_the_contract() {
    check_contract(dictionary_embedder).await;
}

#[tokio::test]
async fn words_on_disk_are_ranked_as_in_memory() {
    let documents: Vec<Document> = (0..60)
        .map(|n| {
            Document::new(
                format!("d{n}"),
                format!("규정 {n}"),
                format!("휴가는 {}일이다.\n\n출장비 {n}만 원.", n % 7),
            )
        })
        .collect();
    let root = temporary_directory();
    let local = open(root.path(), None).await;
    fill(&local, &documents).await;
    let memory = crate::RamKeywordIndex::from_documents(&conformance::tenant(), &documents);
    for text in ["휴가는 며칠인가", "출장비 12만 원", "규정 3"] {
        let question = SearchQuery::new(conformance::tenant(), text, 20);
        let (left, right) =
            (local.retrieve(&question).await.expect("hits"), memory.retrieve(&question).await.expect("hits"));
        assert_eq!(left, right, "{text}");
    }
}

#[tokio::test]
async fn a_question_in_one_language_finds_the_other() {
    let root = temporary_directory();
    let index = open(root.path(), dictionary_embedder()).await;
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다.\n\n식비는 4만 원이다.\n\n노트북을 지킨다.")])
        .await;
    assert_eq!(found(&index, "how long is my leave").await[0], "휴가는 15일이다.");
    assert_eq!(found(&index, "meal").await[0], "식비는 4만 원이다.");
}

#[tokio::test]
async fn with_another_embedder_words_are_found_at_once_and_vectors_are_computed_again() {
    let root = temporary_directory();
    let documents = [
        Document::new("a", "t", "휴가는 15일이다.\n\n식비는 4만 원이다."),
        Document::new("b", "t", "영수증."),
    ];
    let index = open(root.path(), None).await;
    fill(&index, &documents).await;
    index.remove(&conformance::tenant(), &DocumentId::new("b")).await.expect("removed");
    drop(index);
    let other = || Some(Arc::new(DictionaryEmbedder("test:other", 8)) as Arc<dyn Embedder>);
    for embedder in [dictionary_embedder(), other(), dictionary_embedder()] {
        let index = open(root.path(), embedder.clone()).await;
        assert_eq!(index.passages_without_vectors(), 2);
        assert_eq!(found(&index, "휴가").await, ["휴가는 15일이다."]);
        assert_eq!(found(&index, "leave").await, Vec::<String>::new());
        embed_all(&index).await;
        assert_eq!(found(&index, "leave").await[0], "휴가는 15일이다.");
        drop(index);
        let index = open(root.path(), embedder).await;
        assert_eq!(index.passages_without_vectors(), 0, "they are kept");
        assert_eq!(found(&index, "leave").await[0], "휴가는 15일이다.");
    }
    let index = open(root.path(), None).await;
    assert_eq!(index.passages_without_vectors(), 0, "none are wanted");
    assert_eq!(found(&index, "휴가").await, ["휴가는 15일이다."]);
    drop(index);
    let index = open(root.path(), dictionary_embedder()).await;
    assert_eq!(found(&index, "leave").await[0], "휴가는 15일이다.", "they outlive a start without");
}

#[tokio::test]
async fn a_rebuild_replaces_the_index() {
    let root = temporary_directory();
    let index = open(root.path(), None).await;
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다."), Document::new("b", "t", "영수증.")]).await;
    index.remove(&conformance::tenant(), &DocumentId::new("b")).await.expect("removed");
    drop(index);
    let index = LocalIndex::rebuild(root.path(), dictionary_embedder()).await.expect("rebuilt");
    embed_all(&index).await;
    assert_eq!(found(&index, "leave").await[0], "휴가는 15일이다.");
    assert_eq!(index.list(&conformance::tenant(), &DocumentFilter::default()).await.expect("list").len(), 1);
    let names: Vec<String> = fs::read_dir(root.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('g'))
        .collect();
    assert_eq!(names, ["g2"], "the old index is gone");
}

/// Counts the texts that it embeds.
struct CountingEmbedder(Arc<AtomicU64>);

#[async_trait]
impl Embedder for CountingEmbedder {
    fn info(&self) -> EmbedderInfo {
        DictionaryEmbedder("test:dictionary", 8).info()
    }

    async fn embed(&self, texts: &[String], side: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        self.0.fetch_add(texts.len() as u64, Ordering::Relaxed);
        DictionaryEmbedder("test:dictionary", 8).embed(texts, side).await
    }
}

#[tokio::test]
async fn vectors_that_are_computed_outlive_an_interruption() {
    let root = temporary_directory();
    let count = Arc::new(AtomicU64::new(0));
    let embedder = || Some(Arc::new(CountingEmbedder(Arc::clone(&count))) as Arc<dyn Embedder>);
    let text: String = (0..300).map(|n| format!("{n}번 휴가 규정이다.\n\n")).collect();
    let document = Document::new("long", "t", text);
    let index = open(root.path(), embedder()).await;
    index.put(&conformance::tenant(), &document, &split_into_passages(&document)).await.expect("put");
    assert_eq!(index.passages_without_vectors(), 300);
    let left = index.embed_some().await.expect("a step");
    assert!(left > 0 && left < 300, "{left}");
    assert_eq!(found(&index, "77번").await[0], "77번 휴가 규정이다.", "words are found meanwhile");
    drop(index);
    let index = open(root.path(), embedder()).await;
    let before = count.load(Ordering::Relaxed);
    embed_all(&index).await;
    // The question above was embedded, too.
    assert_eq!((before, count.load(Ordering::Relaxed)), (300 - left as u64 + 1, 301));
    assert!(found(&index, "leave").await[0].contains("휴가"));
}

#[tokio::test]
async fn a_document_that_goes_while_its_vectors_are_computed_stays_gone() {
    let root = temporary_directory();
    let index = open(root.path(), dictionary_embedder()).await;
    let tenant = conformance::tenant();
    let long = |id: &str, word: &str| {
        let text: String = (0..100).map(|n| format!("{n}번 {word} 규정이다.\n\n")).collect();
        let document = Document::new(id, "t", text);
        (document.clone(), split_into_passages(&document))
    };
    index.put_all(&tenant, &[long("a", "휴가"), long("b", "식비")]).await.expect("put");
    assert!(index.embed_some().await.expect("a step") > 0);
    index.remove(&tenant, &DocumentId::new("a")).await.expect("removed");
    let (newer, passages) = long("b", "노트북");
    index.put(&tenant, &newer, &passages).await.expect("put");
    embed_all(&index).await;
    for (text, expected) in [("leave", "노트북"), ("meal", "노트북"), ("laptop", "노트북")] {
        let hits = found(&index, text).await;
        assert!(hits.iter().all(|hit| hit.contains(expected)), "{text}: {hits:?}");
    }
    assert_eq!(index.list(&tenant, &DocumentFilter::default()).await.expect("list").len(), 1);
}

#[tokio::test]
async fn a_damaged_index_can_be_begun_anew() {
    let root = temporary_directory();
    let index = open(root.path(), None).await;
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다.")]).await;
    drop(index);
    fs::write(root.path().join("g1").join("00000001.part"), b"x").expect("written");
    assert!(matches!(LocalIndex::rebuild(root.path(), None).await, Err(RetrieveError::Stale { .. })));
    let index = LocalIndex::reset(root.path(), None).await.expect("anew");
    assert_eq!(found(&index, "휴가").await, Vec::<String>::new());
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다.")]).await;
    drop(index);
    assert_eq!(found(&open(root.path(), None).await, "휴가").await, ["휴가는 15일이다."]);
}

#[tokio::test]
async fn a_missing_file_of_an_index_is_as_bad_as_a_damaged_one_and_no_worse() {
    let root = temporary_directory();
    let index = open(root.path(), None).await;
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다.")]).await;
    drop(index);
    fs::remove_file(root.path().join("g1").join("00000001.part")).expect("removed");
    assert!(matches!(LocalIndex::open(root.path(), None).await, Err(RetrieveError::Stale { .. })));
    assert!(matches!(LocalIndex::rebuild(root.path(), None).await, Err(RetrieveError::Stale { .. })));
    let index = LocalIndex::reset(root.path(), None).await.expect("anew");
    assert_eq!(found(&index, "휴가").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_empty_index_takes_any_embedder() {
    let root = temporary_directory();
    drop(open(root.path(), None).await);
    drop(open(root.path(), dictionary_embedder()).await);
    drop(open(root.path(), None).await);
}

#[tokio::test]
async fn what_a_crash_leaves_half_made_is_not_seen() {
    let root = temporary_directory();
    let index = open(root.path(), None).await;
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다.")]).await;
    drop(index);
    let inside = root.path().join("g1");
    fs::copy(inside.join("00000001.part"), inside.join("00000002.part")).expect("a file nobody named");
    fs::write(inside.join("00000003.7.new"), b"half a fi").expect("a draft");
    fs::write(inside.join("manifest.3.new"), b"{").expect("a draft");
    fs::create_dir(root.path().join("g2")).expect("half a rebuild");
    fs::write(root.path().join("g2").join("00000001.part"), b"x").expect("half a rebuild");
    let index = open(root.path(), None).await;
    assert_eq!(found(&index, "휴가").await, ["휴가는 15일이다."]);
    drop(index);
    let mut left: Vec<_> = fs::read_dir(&inside)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["00000001.part", "manifest"]);
    assert!(!root.path().join("g2").exists());
}

#[tokio::test]
async fn every_damaged_byte_is_noticed() {
    let root = temporary_directory();
    let index = open(root.path(), dictionary_embedder()).await;
    fill(&index, &[Document::new("a", "t", "휴가는 15일이다.")]).await;
    drop(index);
    // The first file had no vectors.
    for name in ["00000002.part", "manifest"] {
        let path = root.path().join("g1").join(name);
        let whole = fs::read(&path).expect("a file");
        for at in (0..whole.len()).step_by(13) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            fs::write(&path, &bytes).expect("written");
            let refused = LocalIndex::open(root.path(), dictionary_embedder()).await.err();
            assert!(matches!(refused, Some(RetrieveError::Stale { .. })), "{name}, byte {at}: {refused:?}");
        }
        fs::write(&path, &whole[..whole.len() / 2]).expect("written");
        assert!(LocalIndex::open(root.path(), dictionary_embedder()).await.is_err(), "{name}, cut");
        fs::write(&path, &whole).expect("written");
    }
    open(root.path(), dictionary_embedder()).await;
}

#[tokio::test]
async fn two_processes_do_not_share_a_directory() {
    let root = temporary_directory();
    let _first = open(root.path(), None).await;
    let refused = LocalIndex::open(root.path(), None).await.err();
    assert!(matches!(refused, Some(RetrieveError::Unavailable { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_embedder_that_errs_never_reaches_the_index() {
    struct InvalidVectorEmbedder(fn(usize) -> Vec<Vec<f32>>);

    #[async_trait]
    impl Embedder for InvalidVectorEmbedder {
        fn info(&self) -> EmbedderInfo {
            EmbedderInfo { id: "test:odd".to_owned(), dimension: 2, multilingual: false }
        }

        async fn embed(&self, texts: &[String], _: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
            Ok((self.0)(texts.len()))
        }
    }

    for odd in [
        (|count| vec![vec![1.0; 3]; count]) as fn(usize) -> Vec<Vec<f32>>,
        |count| vec![vec![1.0, f32::NAN]; count],
        |_| Vec::new(),
        |count| vec![Vec::new(); count],
    ] {
        let root = temporary_directory();
        let index = open(root.path(), Some(Arc::new(InvalidVectorEmbedder(odd)))).await;
        let document = Document::new("a", "t", "휴가는 15일이다.");
        index.put(&conformance::tenant(), &document, &split_into_passages(&document)).await.expect("put");
        let refused = index.embed_some().await;
        assert!(matches!(refused, Err(RetrieveError::Unavailable { .. })), "{refused:?}");
        assert_eq!(index.passages_without_vectors(), 1);
        assert!(index.retrieve(&SearchQuery::new(conformance::tenant(), "휴가", 5)).await.is_err());
    }
}

#[tokio::test]
async fn many_vectors_get_a_graph_that_is_kept_and_made_again_when_damaged() {
    const GRAPH_FROM_ROWS: usize = 40;
    let root = temporary_directory();
    let make = async || {
        LocalIndex::open_with(root.path().to_owned(), dictionary_embedder(), GRAPH_FROM_ROWS)
            .await
            .expect("an index")
    };
    let grown = async |index: &LocalIndex| {
        let tenant_index = index.inner.tenant_index(&conformance::tenant()).expect("a tenant index");
        for _ in 0..2000 {
            let graphs = tenant_index.read().expect("a tenant index").graphs_ready();
            if graphs.iter().any(|there| *there) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("no graph was made");
    };
    let all: Vec<(Document, Vec<Passage>)> = (0..GRAPH_FROM_ROWS)
        .map(|n| Document::new(format!("{n}"), "t", format!("{n}번 휴가 규정이다.\n\n{n}번 식비 규정이다.")))
        .map(|document| (document.clone(), split_into_passages(&document)))
        .collect();
    let index = make().await;
    index.put_all(&conformance::tenant(), &all).await.expect("put");
    embed_all(&index).await;
    grown(&index).await;
    let first = found(&index, "leave").await;
    assert!(first[0].contains("휴가"), "{first:?}");
    drop(index);
    let place = root.path().join("g1").join("00000002.graph");
    let whole = fs::read(&place).expect("a graph is kept");
    let index = make().await;
    grown(&index).await;
    assert_eq!(found(&index, "leave").await, first, "a graph that was kept finds the same");
    drop(index);
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    fs::write(&place, &damaged).expect("written");
    let index = make().await;
    grown(&index).await;
    assert_eq!(found(&index, "leave").await, first, "a damaged graph is made again");
    drop(index);
    assert_ne!(fs::read(&place).expect("a graph"), damaged);
    let index = make().await;
    for n in 0..GRAPH_FROM_ROWS {
        index.remove(&conformance::tenant(), &DocumentId::new(n.to_string())).await.expect("removed");
    }
    assert!(!place.exists(), "a graph goes with its file");
}

#[tokio::test]
async fn what_goes_while_files_are_joined_stays_gone() {
    let root = temporary_directory();
    let tenant = conformance::tenant();
    let index = open(root.path(), None).await;
    let (tenant_of, index_of) = (&tenant, &index);
    // Each writer uses its own identifiers: stores all documents, replaces every third, removes every fourth.
    let writer = |own: usize| async move {
        for n in 0..32 {
            let name = format!("{own}-{n}");
            let put = async |words: &str| {
                let document = Document::new(&name, "글", format!("{words} {own}번째 {n}쪽"));
                index_of.put(tenant_of, &document, &split_into_passages(&document)).await.expect("put");
            };
            put("휴가").await;
            if n % 3 == 0 {
                put("영수증").await;
            }
            if n % 4 == 0 {
                assert!(index_of.remove(tenant_of, &DocumentId::new(&name)).await.expect("removed"));
            }
        }
    };
    tokio::join!(writer(0), writer(1), writer(2));
    let mut expected: Vec<(String, &str)> = (0..3)
        .flat_map(|own| (0..32).filter(|n| n % 4 != 0).map(move |n| (own, n)))
        .map(|(own, n)| (format!("{own}-{n}"), if n % 3 == 0 { "영수증" } else { "휴가" }))
        .collect();
    expected.sort();
    let check = async |index: &LocalIndex| {
        let mut lines = Vec::new();
        for listed in index.list(&tenant, &DocumentFilter::default()).await.expect("a list") {
            let document = index.document(&tenant, &listed.id).await.expect("read").expect("is there");
            let word = if document.text.starts_with("휴가") { "휴가" } else { "영수증" };
            lines.push((listed.id.to_string(), word));
        }
        lines.sort();
        assert_eq!(lines, expected);
        for word in ["휴가", "영수증"] {
            let hits = index.retrieve(&SearchQuery::new(tenant.clone(), word, 200)).await.expect("hits");
            let mut names: Vec<&str> = hits.iter().map(|hit| hit.passage.document.as_str()).collect();
            names.sort_unstable();
            let with: Vec<&str> =
                expected.iter().filter(|(_, of)| *of == word).map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, with, "{word}");
        }
    };
    check(&index).await;
    let files = |root: &Path| fs::read_dir(root.join("g1")).expect("files").count();
    assert!(files(root.path()) < 40, "many were joined");
    drop(index);
    check(&open(root.path(), None).await).await;
}

#[tokio::test]
async fn what_is_removed_leaves_no_words_on_the_disk() {
    let root = temporary_directory();
    let index = open(root.path(), None).await;
    let tenant = conformance::tenant();
    // Documents stored in one call share a file, of which one document is a small part.
    let documents: Vec<(Document, Vec<Passage>)> = (0..20)
        .map(|n| Document::new(n.to_string(), "글", format!("영수증 qzx{n}w 한 장")))
        .map(|document| {
            let passages = split_into_passages(&document);
            (document, passages)
        })
        .collect();
    index.put_all(&tenant, &documents).await.expect("put");
    let on_disk = |word: &str| {
        let files =
            fs::read_dir(root.path().join("g1")).expect("files").map(|file| file.expect("a file").path());
        let mut bytes = files.filter(|path| path.is_file()).map(|path| fs::read(path).expect("bytes"));
        bytes.any(|bytes| bytes.windows(word.len()).any(|window| window == word.as_bytes()))
    };
    assert!(on_disk("qzx7w"));
    assert!(index.remove(&tenant, &DocumentId::new("7")).await.expect("removed"));
    assert!(!on_disk("qzx7w"), "the words of a removed document are still there");
    assert!(on_disk("qzx8w") && found(&index, "qzx8w").await.len() == 1);
    drop(index);
    assert_eq!(found(&open(root.path(), None).await, "qzx19w").await.len(), 1);
}
