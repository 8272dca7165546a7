//! Tests of opening a library: with damaged files in its directory, and synchronised with its index before anything
//! else.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_retrieval::ingest::{IngestFailureKind, ReadLimits};
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentSummary, DocumentTenant, IndexWrapper,
    IngestState, Library, LibraryError, LibraryOptions, LocalIndex, NewDocument, Passage, RamKeywordIndex,
    RetrieveError, split_into_passages,
};
use tokio::sync::Semaphore;

use crate::hostile_files::docx_with_body;
use crate::library::{
    all_files, has_jail, list_when_idle, new_document, open_library, options, search_texts,
};
use crate::{fresh_directory, jailed_reader, read_in_jail};

/// Returns a name of more than a megabyte that does not compress well.
fn endless_name() -> String {
    let mut name = String::from("x");
    for at in 0..250_000 {
        write!(name, "{at:x}").expect("written");
    }
    name
}

fn nothing_aside(_: &DocumentId) -> bool {
    false
}

async fn open_synced_library(root: &Path, index: Arc<dyn DocumentIndex>, options: LibraryOptions) -> Library {
    let taken = Library::lock_directory(root).await.expect("nobody has it");
    Library::open_synced(taken, index, options, nothing_aside).await.expect("a library")
}

#[tokio::test]
async fn a_title_and_a_reason_are_short_whatever_the_file_says() {
    let reader = jailed_reader(ReadLimits::default());
    let page = format!("# {}\n\n글.", endless_name());
    let Some(page) = read_in_jail(&reader, "a.md", page.as_bytes()).await else { return };
    assert_eq!(page.expect("text").title.expect("a title").chars().count(), 200);
    let broken = docx_with_body(&format!("<w:p><w:{}></w:p>", endless_name()));
    let failure = read_in_jail(&reader, "a.docx", &broken).await.expect("a jail").expect_err("a broken file");
    assert_eq!(failure.kind, IngestFailureKind::Corrupt);
    assert!((200..=1024).contains(&failure.detail.len()), "{}", failure.detail.len());
}

#[tokio::test]
async fn no_file_keeps_the_library_from_opening_again() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("endless");
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &index).await;
    library
        .add(new_document("t", "a.md", &format!("# {}\n\n사과 하나.", endless_name())))
        .await
        .expect("added");
    let broken = docx_with_body(&format!("<w:p><w:{}></w:p>", endless_name()));
    library.add(NewDocument { bytes: broken, ..new_document("t", "b.docx", "") }).await.expect("added");
    // Many paragraphs below headings of the maximum length.
    let [apples, pears] = ["\u{1F34E}", "\u{1F350}"].map(|one| one.repeat(200));
    let heavy = format!("# {apples}\n\n## {pears}\n\n{}", "a\n\n".repeat(200_000));
    library.add(new_document("t", "c.md", &heavy)).await.expect("added");
    let before = list_when_idle(&library, "t").await;
    library.close().await;
    let library = open_library(&root, &index).await;
    assert_eq!(list_when_idle(&library, "t").await.len(), before.len());
    let mut kinds: Vec<_> = before.iter().map(|one| one.failure.as_ref().map(|why| why.kind)).collect();
    kinds.sort_by_key(|kind| kind.map(IngestFailureKind::as_str));
    assert_eq!(kinds, [None, Some(IngestFailureKind::Corrupt), Some(IngestFailureKind::TooLarge)]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_left_alone_and_the_rest_is_there() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("unreadable");
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &index).await;
    library.add_from(new_document("t", "a.txt", "사과 하나."), Some("/a.txt")).await.expect("added");
    library.add_from(new_document("u", "b.txt", "배 하나."), Some("/b.txt")).await.expect("added");
    library.wait_until_idle().await;
    library.close().await;
    let record = |name: &str| {
        let holds = |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| text.contains(name));
        all_files(&root)
            .into_iter()
            .find(|path| path.ends_with("record.json") && holds(path))
            .expect("a record")
    };
    let (torn, kept) = (record("a.txt"), record("b.txt"));
    let text = std::fs::read_to_string(&torn).expect("read");
    std::fs::write(&torn, &text[..text.len() / 2]).expect("torn");
    assert_eq!(Library::origins(&root).expect("read").into_values().collect::<Vec<_>>(), ["/b.txt"]);
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_synced_library(&root, index.clone(), options()).await;
    assert_eq!(
        (list_when_idle(&library, "t").await.len(), list_when_idle(&library, "u").await.len()),
        (0, 1)
    );
    assert_eq!(search_texts(&*index, "u", "배").await, ["배 하나."]);
    assert_eq!(all_files(torn.parent().expect("a directory")).len(), 3, "it is left as it was");
    // Adding the file again repairs it.
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    assert_eq!(list_when_idle(&library, "t").await[0].state, IngestState::Ready);
    library.close().await;
    let newer = std::fs::read_to_string(&kept).expect("read").replace("\"layout\":1", "\"layout\":99");
    std::fs::write(&kept, newer).expect("written");
    let refused = Library::open(&root, index, options()).await.err();
    assert!(
        matches!(refused, Some(LibraryError::Disk { .. })),
        "what a newer program wrote is not passed over"
    );
}

#[tokio::test]
async fn who_has_taken_a_library_keeps_others_out() {
    let root = fresh_directory("taken");
    let taken = Library::lock_directory(&root).await.expect("nobody has it");
    let index = Arc::new(RamKeywordIndex::default());
    let refused = Library::open(&root, index.clone(), options()).await.err();
    assert!(matches!(refused, Some(LibraryError::Disk { .. })), "{refused:?}");
    drop(taken);
    open_library(&root, &index).await;
}

/// Makes a library in which one version is ready and another is queued.
async fn make_replaced_version(root: &Path) {
    let library = open_library(root, &Arc::new(RamKeywordIndex::default())).await;
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    library.wait_until_idle().await;
    library.close().await;
    let idle = LibraryOptions { workers: 0, ..options() };
    let index = Arc::new(RamKeywordIndex::default());
    let library = Library::open(root, index, idle).await.expect("a library");
    library.add(new_document("t", "a.txt", "배 하나.")).await.expect("added");
    library.close().await;
}

#[tokio::test]
async fn an_index_is_in_step_before_anything_is_read() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("in-step");
    make_replaced_version(&root).await;
    let index = Arc::new(PutRecordingIndex::new(Semaphore::MAX_PERMITS));
    let library = open_synced_library(&root, index.clone(), options()).await;
    library.wait_until_idle().await;
    assert_eq!(*index.puts.lock().expect("sound"), ["사과 하나.", "배 하나."]);
}

#[tokio::test]
async fn an_old_version_never_takes_the_place_of_one_that_was_read_meanwhile() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("meanwhile");
    make_replaced_version(&root).await;
    let index = Arc::new(PutRecordingIndex::new(0));
    let library = Library::open(&root, index.clone(), options()).await.expect("a library");
    let (done, ()) = tokio::join!(library.sync_index(&*index, nothing_aside), async {
        library.wait_until_idle().await;
        // Only now does the library learn what the index contained before.
        index.lists.add_permits(1);
    });
    done.expect("in step");
    assert_eq!(search_texts(&*index, "t", "하나").await, ["배 하나."]);
}

#[tokio::test]
async fn what_a_killed_process_put_and_nobody_has_ready_is_not_found() {
    let (root, place) = (fresh_directory("stray"), fresh_directory("stray-search"));
    let index = Arc::new(LocalIndex::open(&place, None).await.expect("an index"));
    let idle = LibraryOptions { workers: 0, ..options() };
    let library = Library::open(&root, index.clone(), idle).await.expect("a library");
    let tenant = DocumentTenant::new("t");
    for name in ["a.txt", "b.txt"] {
        let status = library.add(new_document("t", name, "사과 하나.")).await.expect("added");
        let document = Document::new(status.id.as_str(), name, "사과 하나.");
        index.put(&tenant, &document, &split_into_passages(&document)).await.expect("put");
    }
    let given_up = library.list(&tenant).remove(0);
    library.cancel(&tenant, &given_up.id).await.expect("cancelled");
    assert_eq!(library.sync_index(&*index, nothing_aside).await.expect("in step"), 2);
    assert_eq!(search_texts(&*index, "t", "사과").await, Vec::<String>::new());
}

/// An index that records what is stored in it, and lists its content only when permitted.
struct PutRecordingIndex {
    inner: RamKeywordIndex,
    puts: Mutex<Vec<String>>,
    lists: Semaphore,
}

impl PutRecordingIndex {
    fn new(lists: usize) -> Self {
        Self { inner: RamKeywordIndex::default(), puts: Mutex::default(), lists: Semaphore::new(lists) }
    }
}

#[async_trait]
impl IndexWrapper for PutRecordingIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &self.inner
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.puts.lock().expect("sound").push(document.text.clone());
        self.inner.put(tenant, document, passages).await
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        self.puts.lock().expect("sound").extend(documents.iter().map(|(document, _)| document.text.clone()));
        self.inner.put_all(tenant, documents).await
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        let listed = self.inner.list(tenant, filter).await;
        self.lists.acquire().await.expect("open").forget();
        listed
    }
}
