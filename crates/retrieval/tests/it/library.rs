//! Tests of the library: added documents are found, removed ones are not, and tenants are separate.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_llm::ModelError;
use doran_retrieval::ingest::{IngestFailureKind, ReadLimits};
use doran_retrieval::{
    Document, DocumentId, DocumentIndex, DocumentKind, DocumentStatus, DocumentTenant, IndexWrapper,
    IngestState, Library, LibraryError, LibraryOptions, LocalIndex, NewDocument, Passage, RamKeywordIndex,
    RetrieveError, SearchQuery,
};

use crate::{fresh_directory, jailed_reader};

pub(crate) fn options() -> LibraryOptions {
    LibraryOptions { reader: jailed_reader(ReadLimits::default()), workers: 2, ..LibraryOptions::default() }
}

pub(crate) fn new_document(tenant: &str, name: &str, words: &str) -> NewDocument {
    NewDocument {
        tenant: DocumentTenant::new(tenant),
        name: name.into(),
        collection: String::new(),
        kind: Some(DocumentKind::General),
        bytes: words.as_bytes().to_vec(),
    }
}

pub(crate) async fn open_library(root: &Path, index: &Arc<RamKeywordIndex>) -> Library {
    Library::open(root, index.clone(), options()).await.expect("a library")
}

pub(crate) async fn search_texts(index: &dyn DocumentIndex, tenant: &str, words: &str) -> Vec<String> {
    let hits = index.retrieve(&SearchQuery::new(DocumentTenant::new(tenant), words, 10)).await.expect("hits");
    hits.into_iter().map(|hit| hit.passage.text).collect()
}

/// Returns every file below a directory.
pub(crate) fn all_files(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.extend(all_files(&path)) } else { all.push(path) }
    }
    all
}

/// Returns whether the machine has a jail. Without one nothing can be read, and the tests print that they are skipped.
pub(crate) async fn has_jail() -> bool {
    crate::read_in_jail(&jailed_reader(ReadLimits::default()), "a.txt", b"x").await.is_some()
}

pub(crate) async fn list_when_idle(library: &Library, tenant: &str) -> Vec<DocumentStatus> {
    library.wait_until_idle().await;
    library.list(&DocumentTenant::new(tenant))
}

#[tokio::test]
async fn what_is_added_is_found_and_survives_a_restart() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("added");
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &index).await;
    let status = library
        .add(new_document("t", "규정/휴가.md", "# 휴가 규정\n\n연차는 15일이다."))
        .await
        .expect("added");
    assert_eq!((status.state, status.title.as_str()), (IngestState::Queued, "휴가"));
    let ready = list_when_idle(&library, "t").await.remove(0);
    assert_eq!((ready.state, ready.title.as_str(), ready.passages), (IngestState::Ready, "휴가 규정", 1));
    assert_eq!(search_texts(&*index, "t", "연차").await, ["연차는 15일이다."]);
    let document =
        library.document(&DocumentTenant::new("t"), &ready.id).await.expect("read").expect("there");
    assert_eq!(
        (document.version, document.text.as_str()),
        (ready.version, "# 휴가 규정\n\n연차는 15일이다.")
    );
    library.close().await;

    let empty = Arc::new(RamKeywordIndex::default());
    let again = open_library(&root, &empty).await;
    assert_eq!(again.rebuild_index(&*empty).await.expect("rebuilt"), 1);
    assert_eq!(search_texts(&*empty, "t", "연차").await, ["연차는 15일이다."]);
}

#[tokio::test]
async fn the_same_file_again_is_nothing_new_and_a_changed_one_takes_its_place() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("again");
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &index).await;
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    let first = list_when_idle(&library, "t").await.remove(0);
    let same = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    assert_eq!(same, first);
    let changed = library.add(new_document("t", "a.txt", "배 하나.")).await.expect("added");
    assert_eq!(
        (&changed.id, &changed.version),
        (&first.id, &first.version),
        "the old version stays until the new one is read"
    );
    let second = list_when_idle(&library, "t").await;
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].version, first.version);
    assert_eq!(
        (search_texts(&*index, "t", "사과").await.len(), search_texts(&*index, "t", "배").await.len()),
        (0, 1)
    );
    assert_eq!(
        all_files(&root).len(),
        4,
        "lock, record, original and text of one version: {:?}",
        all_files(&root)
    );
}

#[tokio::test]
async fn a_removed_document_is_gone_from_everywhere() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("removed");
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &index).await;
    let status = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    library.wait_until_idle().await;
    let tenant = DocumentTenant::new("t");
    library.remove(&tenant, &status.id).await.expect("removed");
    assert_eq!((library.list(&tenant), library.status(&tenant, &status.id)), (Vec::new(), None));
    assert!(search_texts(&*index, "t", "사과").await.is_empty());
    assert_eq!(all_files(&root), [root.join("lock")]);
    assert!(matches!(library.remove(&tenant, &status.id).await, Err(LibraryError::Unknown(_))));
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added again");
    assert_eq!(list_when_idle(&library, "t").await[0].state, IngestState::Ready);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_says_why_and_can_be_tried_again() {
    if !has_jail().await {
        return;
    }
    let library = open_library(&fresh_directory("failed"), &Arc::new(RamKeywordIndex::default())).await;
    let status = library.add(new_document("t", "a.docx", "PK\u{3}\u{4}broken")).await.expect("added");
    let failed = list_when_idle(&library, "t").await.remove(0);
    assert_eq!(
        (failed.state, failed.failure.map(|failure| failure.kind)),
        (IngestState::Failed, Some(IngestFailureKind::Corrupt))
    );
    let again = library.retry(&DocumentTenant::new("t"), &status.id).await.expect("tried");
    assert_eq!((again.state, again.failure), (IngestState::Queued, None));
    assert_eq!(list_when_idle(&library, "t").await[0].state, IngestState::Failed);
}

#[tokio::test]
async fn a_name_is_data_and_never_a_path() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("names");
    let library = open_library(&root, &Arc::new(RamKeywordIndex::default())).await;
    let long = "가".repeat(4000);
    let names = [
        "../../../static/x.js",
        "CON",
        long.as_str(),
        "a\r\nSet-Cookie: x",
        "\u{202e}gpj.exe",
        "/etc/passwd",
        "a\0b",
    ];
    for name in names {
        let document = NewDocument {
            collection: "사내 규정 (2026)".into(),
            ..new_document("../t", name, "내용 하나.")
        };
        let status = library.add(document).await.expect(name);
        assert_eq!(status.name, name, "kept as it is");
        assert!(status.id.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
    let ready = list_when_idle(&library, "../t").await;
    assert_eq!(ready.iter().filter(|status| status.state == IngestState::Ready).count(), names.len());
    for path in all_files(&root).into_iter().filter(|path| !path.ends_with("lock")) {
        let inside = path.strip_prefix(&root).expect("below the root");
        assert_eq!(inside.components().count(), 4, "{inside:?}");
        assert!(inside.to_str().expect("plain").bytes().all(|byte| byte.is_ascii_graphic()), "{inside:?}");
    }
}

#[tokio::test]
async fn tenants_share_nothing_not_even_the_knowledge_of_a_file() {
    if !has_jail().await {
        return;
    }
    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&fresh_directory("tenants"), &index).await;
    let one = library.add(new_document("a", "x.txt", "같은 글.")).await.expect("added");
    library.wait_until_idle().await;
    let other = library.add(new_document("b", "x.txt", "같은 글.")).await.expect("added");
    assert_eq!(other.state, IngestState::Queued, "another's file does not make mine ready at once");
    assert_ne!(one.id, other.id);
    library.wait_until_idle().await;
    let b = DocumentTenant::new("b");
    assert!(library.status(&b, &one.id).is_none());
    assert!(library.document(&b, &one.id).await.expect("looked").is_none());
    assert!(matches!(library.remove(&b, &one.id).await, Err(LibraryError::Unknown(_))));
    assert_eq!(library.list(&DocumentTenant::new("a")).len(), 1);
}

#[tokio::test]
async fn there_is_a_limit_on_what_waits_and_on_what_is_kept() {
    if !has_jail().await {
        return;
    }
    let options = LibraryOptions { max_pending_documents: 3, max_stored_bytes: 30, ..options() };
    let library = Library::open(&fresh_directory("limits"), Arc::new(BlockedIndex::default()), options)
        .await
        .expect("a library");
    let mut busy = 0;
    for name in 0..10 {
        match library.add(new_document("t", &name.to_string(), "글")).await {
            Ok(_) => {}
            Err(LibraryError::QueueFull(_)) => busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(busy, 7);
    assert!(matches!(
        library.add(new_document("u", "x", &"x".repeat(31))).await,
        Err(LibraryError::StorageFull(30))
    ));
    assert!(matches!(library.add(new_document("u", "x", "")).await, Err(LibraryError::Empty)));
    assert!(matches!(library.add(new_document("", "x", "x")).await, Err(LibraryError::BadName)));
    for collection in ["docs\"; --", "../../c", "a/b", "*", "줄\n바꿈", "\u{202e}x", &"x".repeat(101)] {
        let odd = NewDocument { collection: collection.into(), ..new_document("u", "x", "x") };
        assert!(matches!(library.add(odd).await, Err(LibraryError::BadCollection)), "{collection}");
    }
}

#[tokio::test]
async fn a_paused_document_waits_and_a_cancelled_one_is_left() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("paused");
    let stuck = Arc::new(BlockedIndex::default());
    let library = Library::open(&root, stuck.clone(), LibraryOptions { workers: 1, ..options() })
        .await
        .expect("a library");
    let tenant = DocumentTenant::new("t");
    let first = library.add(new_document("t", "1.txt", "하나")).await.expect("added");
    // The only worker is blocked by the index now, so the others stay queued.
    while library.status(&tenant, &first.id).is_none_or(|status| status.state != IngestState::Indexing) {
        tokio::task::yield_now().await;
    }
    let second = library.add(new_document("t", "2.txt", "둘")).await.expect("added");
    let third = library.add(new_document("t", "3.txt", "셋")).await.expect("added");
    assert_eq!(library.pause(&tenant, &second.id).await.expect("paused").state, IngestState::Paused);
    assert_eq!(library.cancel(&tenant, &third.id).await.expect("cancelled").state, IngestState::Cancelled);
    assert_eq!(
        library.pause(&tenant, &first.id).await.expect("asked").state,
        IngestState::Indexing,
        "too late to call back"
    );
    stuck.open.store(true, Ordering::SeqCst);
    stuck.wake.notify_waiters();
    library.wait_until_idle().await;
    let states = |library: &Library| {
        [&first, &second, &third].map(|document| library.status(&tenant, &document.id).expect("there").state)
    };
    assert_eq!(states(&library), [IngestState::Ready, IngestState::Paused, IngestState::Cancelled]);
    library.close().await;

    let index = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &index).await;
    library.wait_until_idle().await;
    assert_eq!(
        states(&library),
        [IngestState::Ready, IngestState::Paused, IngestState::Cancelled],
        "a restart changes nothing"
    );
    library.resume(&tenant, &second.id).await.expect("resumed");
    library.retry(&tenant, &third.id).await.expect("tried again");
    library.wait_until_idle().await;
    assert_eq!(states(&library), [IngestState::Ready; 3]);
    assert!(matches!(
        library.pause(&tenant, &DocumentId::new("nobody")).await,
        Err(LibraryError::Unknown(_))
    ));
}

/// Returns the number of attempts in the record of the only document.
fn recorded_attempts(root: &Path) -> u64 {
    let record =
        all_files(root).into_iter().find(|path| path.file_name().is_some_and(|name| name == "record.json"));
    let bytes = std::fs::read(record.expect("a record")).expect("read");
    let record: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    record["attempts"].as_u64().expect("a number")
}

#[tokio::test]
async fn who_only_looks_leaves_what_waits_as_it_was() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("looks");
    let none = LibraryOptions { workers: 0, ..options() };
    for _ in 0..7 {
        let index = Arc::new(RamKeywordIndex::default());
        let library = Library::open(&root, index, none.clone()).await.expect("a library");
        let status = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
        tokio::task::yield_now().await;
        assert_eq!(
            (status.state, library.pending_count(&DocumentTenant::new("t"))),
            (IngestState::Queued, 1)
        );
        library.close().await;
        assert_eq!(recorded_attempts(&root), 0);
    }
    let index = Arc::new(RamKeywordIndex::default());
    assert_eq!(list_when_idle(&open_library(&root, &index).await, "t").await[0].state, IngestState::Ready);
}

#[tokio::test]
async fn an_orderly_end_does_not_count_against_what_was_being_read() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("orderly");
    let tenant = DocumentTenant::new("t");
    for _ in 0..7 {
        let library =
            Library::open(&root, Arc::new(BlockedIndex::default()), options()).await.expect("a library");
        let status = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
        while library.status(&tenant, &status.id).is_none_or(|status| status.state != IngestState::Indexing) {
            tokio::task::yield_now().await;
        }
        assert_eq!(recorded_attempts(&root), 1, "until it ends the attempt counts");
        library.stop_workers().await;
        assert_eq!((recorded_attempts(&root), library.pending_count(&tenant)), (0, 1));
        library.close().await;
    }
    let index = Arc::new(RamKeywordIndex::default());
    assert_eq!(list_when_idle(&open_library(&root, &index).await, "t").await[0].state, IngestState::Ready);
}

#[tokio::test]
async fn a_caller_that_waits_for_room_is_never_refused() {
    if !has_jail().await {
        return;
    }
    let options = LibraryOptions { max_pending_documents: 1, ..options() };
    let index = Arc::new(RamKeywordIndex::default());
    let library = Library::open(&fresh_directory("room"), index, options).await.expect("a library");
    let tenant = DocumentTenant::new("t");
    for name in 0..4 {
        library.wait_for_room(&tenant).await;
        library.add(new_document("t", &name.to_string(), "글")).await.expect("there is room");
    }
    assert!(list_when_idle(&library, "t").await.iter().all(|status| status.state == IngestState::Ready));
}

#[tokio::test]
async fn a_file_is_remembered_with_its_place_and_a_stranger_never_sees_it() {
    let root = fresh_directory("origin");
    let none = LibraryOptions { workers: 0, ..options() };
    let index = Arc::new(RamKeywordIndex::default());
    let library = Library::open(&root, index.clone(), none.clone()).await.expect("a library");
    let file = || new_document("t", "a.txt", "사과 하나.");
    assert_eq!(library.add(file()).await.expect("added").origin, None);
    for place in ["/old/a.txt", "/new/a.txt"] {
        let status = library.add_from(file(), Some(place)).await.expect("added");
        assert_eq!(status.origin.as_deref(), Some(place));
        assert!(!serde_json::to_string(&status).expect("JSON").contains(place));
    }
    library.close().await;
    let library = Library::open(&root, index, none).await.expect("a library");
    let kept = library.list(&DocumentTenant::new("t")).remove(0);
    assert_eq!(kept.origin.as_deref(), Some("/new/a.txt"), "it is on disk");
}

#[tokio::test]
async fn an_index_that_fails_takes_all_or_nothing_and_is_tried_again() {
    if !has_jail().await {
        return;
    }
    let index = Arc::new(FailingIndex {
        inner: RamKeywordIndex::default(),
        failing_puts: AtomicUsize::new(4),
        failing_removals: AtomicUsize::default(),
        failing_health_checks: AtomicUsize::default(),
    });
    let library =
        Library::open(&fresh_directory("index"), index.clone(), options()).await.expect("a library");
    let words = (0..1000).map(|at| format!("문단 {at}번이다.")).collect::<Vec<_>>().join("\n\n");
    let status = library.add(new_document("t", "a.txt", &words)).await.expect("added");
    let failed = list_when_idle(&library, "t").await.remove(0);
    assert_eq!(
        (failed.state, failed.failure.map(|failure| failure.kind)),
        (IngestState::Failed, Some(IngestFailureKind::NotIndexed))
    );
    assert!(search_texts(&*index, "t", "문단").await.is_empty());
    library.retry(&DocumentTenant::new("t"), &status.id).await.expect("tried");
    assert_eq!(list_when_idle(&library, "t").await[0].passages, 1000);
}

#[tokio::test]
async fn a_document_waits_for_an_index_that_is_away() {
    if !has_jail().await {
        return;
    }
    let index = Arc::new(FailingIndex {
        inner: RamKeywordIndex::default(),
        failing_puts: AtomicUsize::new(5),
        failing_removals: AtomicUsize::default(),
        failing_health_checks: AtomicUsize::new(5),
    });
    let library =
        Library::open(&fresh_directory("index-away"), index.clone(), options()).await.expect("a library");
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    assert_eq!(list_when_idle(&library, "t").await[0].state, IngestState::Ready);
    assert_eq!(search_texts(&*index, "t", "사과").await.len(), 1);
}

#[tokio::test]
async fn a_document_waits_for_an_embedder_that_is_away() {
    if !has_jail().await {
        return;
    }
    let reason = || "seen".to_owned();
    let unreachable = || ModelError::Unreachable { reason: reason(), source: None };
    let limited = || ModelError::RateLimited { reason: reason(), retry_after: None };
    let failing = || ModelError::Unavailable { reason: reason(), retry_after: None, source: None };
    let states = [
        state_after_embedder_errors(&unreachable, false),
        state_after_embedder_errors(&limited, false),
        state_after_embedder_errors(&failing, true),
        // An embedder that answers other texts fails at this one.
        state_after_embedder_errors(&failing, false),
    ];
    use IngestState::{Failed, Ready};
    assert_eq!(futures_util::future::join_all(states).await, [Ready, Ready, Ready, Failed]);
}

/// The state of a document that an index takes only after its embedder has failed five times.
async fn state_after_embedder_errors(
    error: &(dyn Fn() -> ModelError + Sync),
    is_embedder_away: bool,
) -> IngestState {
    let errors = (0..5).map(|_| error()).collect();
    let index = RemoteEmbedderIndex {
        inner: RamKeywordIndex::default(),
        embedder_errors: Mutex::new(errors),
        is_embedder_away,
    };
    let root = fresh_directory(&format!("embedder-{}-{is_embedder_away}", error().code()));
    let library = Library::open(&root, Arc::new(index), options()).await.expect("a library");
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    list_when_idle(&library, "t").await[0].state
}

#[tokio::test]
async fn a_removal_that_failed_can_be_repeated_and_locks_no_name() {
    if !has_jail().await {
        return;
    }
    let removals = AtomicUsize::new(2);
    let index = Arc::new(FailingIndex {
        inner: RamKeywordIndex::default(),
        failing_puts: AtomicUsize::default(),
        failing_removals: removals,
        failing_health_checks: AtomicUsize::default(),
    });
    let library =
        Library::open(&fresh_directory("removal"), index.clone(), options()).await.expect("a library");
    let tenant = DocumentTenant::new("t");
    let status = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    library.wait_until_idle().await;
    assert!(matches!(library.remove(&tenant, &status.id).await, Err(LibraryError::Index(_))));
    // It is still searchable, so it is still listed, and no other document can use its name.
    assert_eq!(search_texts(&*index, "t", "사과").await.len(), 1);
    assert_eq!(library.list(&tenant)[0].state, IngestState::Removing);
    assert!(matches!(
        library.add(new_document("t", "a.txt", "배 둘.")).await,
        Err(LibraryError::BeingRemoved)
    ));
    // A second call returns either an error or success, if the background retry was faster.
    loop {
        match library.remove(&tenant, &status.id).await {
            Ok(()) | Err(LibraryError::Unknown(_)) => break,
            Err(error) => assert!(matches!(error, LibraryError::Index(_)), "{error}"),
        }
    }
    assert!(search_texts(&*index, "t", "사과").await.is_empty() && library.list(&tenant).is_empty());
    library.add(new_document("t", "a.txt", "배 둘.")).await.expect("the name is free");
    assert_eq!(list_when_idle(&library, "t").await[0].state, IngestState::Ready);
}

#[tokio::test]
async fn a_removal_that_failed_is_tried_again_by_itself() {
    if !has_jail().await {
        return;
    }
    let removals = AtomicUsize::new(1);
    let index = Arc::new(FailingIndex {
        inner: RamKeywordIndex::default(),
        failing_puts: AtomicUsize::default(),
        failing_removals: removals,
        failing_health_checks: AtomicUsize::default(),
    });
    let library =
        Library::open(&fresh_directory("again"), index.clone(), options()).await.expect("a library");
    let tenant = DocumentTenant::new("t");
    let status = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    library.wait_until_idle().await;
    let mut changes = library.watch();
    library.remove(&tenant, &status.id).await.expect_err("the index fails once");
    while !library.list(&tenant).is_empty() {
        changes.changed().await.expect("a change");
    }
    assert!(search_texts(&*index, "t", "사과").await.is_empty());
}

#[tokio::test]
async fn what_was_overtaken_or_replaced_does_not_stay_on_the_disk() {
    if !has_jail().await {
        return;
    }
    let (root, place) = (fresh_directory("overtaken"), fresh_directory("overtaken-search"));
    let index: Arc<LocalIndex> = Arc::new(LocalIndex::open(&place, None).await.expect("an index"));
    let library = Library::open(&root, index.clone(), options()).await.expect("a library");
    // Enough for the files to be merged.
    for at in 0..12 {
        library
            .add(new_document("t", &format!("{at}.txt"), &format!("비밀번호qq{at}qq 하나.")))
            .await
            .expect("added");
    }
    library.wait_until_idle().await;
    for version in 0..20 {
        library.add(new_document("t", "3.txt", &format!("가린 글 {version}판."))).await.expect("added");
    }
    library.wait_until_idle().await;
    let originals = |root: &Path| {
        all_files(root).iter().filter(|path| path.to_string_lossy().contains("original-")).count()
    };
    assert_eq!(originals(&root), 12, "one of each document");
    let holds = |path: &PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(5).any(|window| window == b"qq3qq"))
    };
    let left: Vec<PathBuf> = all_files(&root).into_iter().chain(all_files(&place)).filter(holds).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(search_texts(&*index, "t", "가린 글").await, ["가린 글 19판."]);
}

#[tokio::test]
async fn what_was_cut_by_other_rules_is_cut_again() {
    if !has_jail().await {
        return;
    }
    let (root, place) = (fresh_directory("cut"), fresh_directory("cut-search"));
    let index = Arc::new(LocalIndex::open(&place, None).await.expect("an index"));
    let library = Library::open(&root, index.clone(), options()).await.expect("a library");
    library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    library.wait_until_idle().await;
    let none = |_: &DocumentId| false;
    assert_eq!(library.sync_index(&*index, none).await.expect("in step"), 0);
    library.close().await;
    let record = all_files(&root).into_iter().find(|path| path.ends_with("record.json")).expect("a record");
    let older = std::fs::read_to_string(&record).expect("read").replace("\"cut\":", "\"was\":");
    std::fs::write(&record, older).expect("written");
    let library = Library::open(&root, index.clone(), options()).await.expect("a library");
    assert_eq!(library.sync_index(&*index, none).await.expect("in step"), 1);
    assert_eq!(library.sync_index(&*index, none).await.expect("in step"), 0, "that is remembered");
    assert_eq!(search_texts(&*index, "t", "사과").await, ["사과 하나."]);
}

#[tokio::test]
async fn what_was_removed_while_another_index_was_in_use_does_not_come_back() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("another-index");
    let place = fresh_directory("another-index-search");
    let disk: Arc<LocalIndex> = Arc::new(LocalIndex::open(&place, None).await.expect("an index"));
    let library = Library::open(&root, disk.clone(), options()).await.expect("a library");
    for (tenant, name, words) in [
        ("t", "휴가.md", "연차는 15일이다."),
        ("t", "출장.md", "여비는 하루 5만 원이다."),
        ("u", "비밀.md", "암호는 열두 자이다."),
    ] {
        library.add(new_document(tenant, name, words)).await.expect("added");
    }
    library.wait_until_idle().await;
    let sample = Document::new("samples/a.md", "보기", "보기 글이다.");
    disk.put(&DocumentTenant::new("t"), &sample, &doran_retrieval::split_into_passages(&sample))
        .await
        .expect("put");
    library.close().await;

    let memory = Arc::new(RamKeywordIndex::default());
    let library = open_library(&root, &memory).await;
    for (tenant, name) in [("t", "휴가.md"), ("u", "비밀.md")] {
        let tenant = DocumentTenant::new(tenant);
        let gone = library.list(&tenant).into_iter().find(|status| status.name == name).expect("listed");
        library.remove(&tenant, &gone.id).await.expect("removed");
    }
    library.close().await;

    let library = Library::open(&root, disk.clone(), options()).await.expect("a library");
    let changed =
        library.sync_index(&*disk, |id| id.as_str().starts_with("samples/")).await.expect("in step");
    assert_eq!(changed, 2);
    assert_eq!(search_texts(&*disk, "t", "연차").await, Vec::<String>::new());
    assert_eq!(search_texts(&*disk, "u", "암호").await, Vec::<String>::new());
    assert_eq!(search_texts(&*disk, "t", "여비").await, ["여비는 하루 5만 원이다."]);
    assert_eq!(search_texts(&*disk, "t", "보기").await, ["보기 글이다."], "what is set aside stays");
    assert_eq!(
        library.sync_index(&*disk, |id| id.as_str().starts_with("samples/")).await.expect("in step"),
        0
    );
}

/// An index that blocks writes until it is opened.
#[derive(Default)]
struct BlockedIndex {
    /// Stays empty.
    inner: RamKeywordIndex,
    open: AtomicBool,
    wake: tokio::sync::Notify,
}

/// An index that fails a number of puts and a number of removals.
struct FailingIndex {
    inner: RamKeywordIndex,
    failing_puts: AtomicUsize,
    failing_removals: AtomicUsize,
    failing_health_checks: AtomicUsize,
}

/// Counts down, and returns whether a failure was left.
fn take_failure(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl IndexWrapper for BlockedIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &self.inner
    }

    async fn put(&self, _: &DocumentTenant, _: &Document, _: &[Passage]) -> Result<(), RetrieveError> {
        let woken = self.wake.notified();
        if !self.open.load(Ordering::SeqCst) {
            woken.await;
        }
        Ok(())
    }
}

#[async_trait]
impl IndexWrapper for FailingIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &self.inner
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        if take_failure(&self.failing_puts) {
            return Err(RetrieveError::Unavailable { reason: "passage 500 of 1,000".into(), source: None });
        }
        self.inner.put(tenant, document, passages).await
    }

    async fn check_health(&self) -> Result<(), RetrieveError> {
        match take_failure(&self.failing_health_checks) {
            true => Err(RetrieveError::Unavailable { reason: "the node is away".into(), source: None }),
            false => Ok(()),
        }
    }

    async fn remove(&self, tenant: &DocumentTenant, id: &DocumentId) -> Result<bool, RetrieveError> {
        if take_failure(&self.failing_removals) {
            return Err(RetrieveError::Unavailable { reason: "the node restarts".into(), source: None });
        }
        self.inner.remove(tenant, id).await
    }
}

/// An index that asks an embedder when documents are stored.
struct RemoteEmbedderIndex {
    inner: RamKeywordIndex,
    /// What it says before it answers.
    embedder_errors: Mutex<Vec<ModelError>>,
    is_embedder_away: bool,
}

impl RemoteEmbedderIndex {
    fn embed(&self) -> Result<(), RetrieveError> {
        let error = self.embedder_errors.lock().expect("no panic").pop();
        error.map_or(Ok(()), |error| {
            let reason = "the embedder does not answer".to_owned();
            Err(RetrieveError::Unavailable { reason, source: Some(Box::new(error)) })
        })
    }
}

#[async_trait]
impl IndexWrapper for RemoteEmbedderIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &self.inner
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.embed()?;
        self.inner.put(tenant, document, passages).await
    }

    async fn check_embedder(&self) -> Result<(), RetrieveError> {
        if self.is_embedder_away { self.embed() } else { Ok(()) }
    }
}

/// An index that panics.
#[derive(Default)]
struct PanickingIndex(RamKeywordIndex);

#[async_trait]
impl IndexWrapper for PanickingIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &self.0
    }

    async fn put(&self, _: &DocumentTenant, _: &Document, _: &[Passage]) -> Result<(), RetrieveError> {
        panic!("an index that breaks down")
    }
}

#[tokio::test]
async fn a_worker_that_panics_fails_its_document_and_goes_on() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("panicking-index");
    let options = LibraryOptions { workers: 1, ..options() };
    let library =
        Library::open(&root, Arc::new(PanickingIndex::default()), options).await.expect("a library");
    for name in ["a.txt", "b.txt"] {
        library.add(new_document("t", name, "연차는 15일입니다.")).await.expect("added");
    }
    let idle = tokio::time::timeout(std::time::Duration::from_secs(60), list_when_idle(&library, "t")).await;
    let kinds: Vec<_> = idle
        .expect("nobody waits for ever")
        .into_iter()
        .map(|status| status.failure.map(|failure| failure.kind))
        .collect();
    assert_eq!(kinds, [Some(IngestFailureKind::Crashed), Some(IngestFailureKind::Crashed)]);
}

#[tokio::test]
async fn a_document_whose_record_cannot_be_written_was_not_added() {
    let root = fresh_directory("unwritable-record");
    let options = LibraryOptions { workers: 0, ..options() };
    let library =
        Library::open(&root, Arc::new(RamKeywordIndex::default()), options).await.expect("a library");
    let tenant = DocumentTenant::new("t");
    let status = library.add(new_document("t", "a.txt", "연차는 15일입니다.")).await.expect("added");
    library.remove(&tenant, &status.id).await.expect("removed");
    // The place of the record is taken by a directory.
    let original = all_files(&root);
    assert!(original.iter().all(|path| !path.ends_with("record.json")), "{original:?}");
    let probe = library.add(new_document("t", "a.txt", "x")).await.expect("added");
    let record = all_files(&root).into_iter().find(|path| path.ends_with("record.json")).expect("a record");
    library.remove(&tenant, &probe.id).await.expect("removed");
    std::fs::create_dir_all(record.join("in-the-way")).expect("a directory");
    let failed = library.add(new_document("t", "a.txt", "연차는 15일입니다.")).await;
    assert!(matches!(failed, Err(LibraryError::Disk { .. })), "{failed:?}");
    assert_eq!(library.list(&tenant), []);
    assert_eq!(library.pending_count(&tenant), 0);
    assert!(
        all_files(&root).iter().all(|path| !path.to_string_lossy().contains("original-")),
        "its file is gone"
    );
}
