//! Kills the library again and again while it ingests files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use doran_retrieval::ingest::ReadLimits;
use doran_retrieval::{
    DocumentFilter, DocumentIndex, DocumentTenant, IngestState, Library, LibraryOptions, LocalIndex,
    RamKeywordIndex,
};

use crate::{EXTRACT_WORKER, fresh_directory, jailed_reader};

const KILLS: u64 = 50;
const FILES: usize = 6;

async fn open_library_with_workers(root: &Path, index: &Arc<LocalIndex>, workers: usize) -> Library {
    let reader = jailed_reader(ReadLimits::default());
    let options = LibraryOptions { reader, workers, ..LibraryOptions::default() };
    let taken = Library::lock_directory(root).await.expect("nobody has it");
    Library::open_synced(taken, index.clone(), options, |_| false).await.expect("a library")
}

/// Returns the documents in the index with their numbers of passages.
async fn indexed_documents(index: &LocalIndex) -> Vec<(String, usize)> {
    let listed = index.list(&DocumentTenant::new("t"), &DocumentFilter::default()).await.expect("a list");
    let mut all: Vec<_> = listed.iter().map(|one| (one.id.as_str().to_owned(), one.passages)).collect();
    all.sort();
    all
}

/// Returns the same from the library.
fn ready_documents(library: &Library) -> Vec<(String, usize)> {
    let listed = library
        .list(&DocumentTenant::new("t"))
        .into_iter()
        .filter(|status| status.state == IngestState::Ready);
    let mut all: Vec<_> = listed.map(|one| (one.id.as_str().to_owned(), one.passages)).collect();
    all.sort();
    all
}

#[tokio::test]
async fn killed_fifty_times_every_document_is_there_once() {
    if crate::read_in_jail(&jailed_reader(ReadLimits::default()), "a.txt", b"x").await.is_none() {
        return;
    }
    let (root, search, files) =
        (fresh_directory("kills"), fresh_directory("kills-search"), fresh_directory("kills-files"));
    for at in 0..FILES {
        let words = format!("문서 {at}번의 글이다.\n\n").repeat(200 * (at + 1));
        std::fs::write(files.join(format!("{at}.txt")), words).expect("a file");
    }
    for kill in 0..KILLS {
        let mut child = Command::new(EXTRACT_WORKER)
            .args(["__library".as_ref(), root.as_os_str(), search.as_os_str(), files.as_os_str()])
            .stdin(Stdio::null())
            .spawn()
            .expect("a library");
        // At varying times, so that the kill hits different points of a start.
        std::thread::sleep(Duration::from_millis(5 + kill * 37 % 120));
        assert!(child.try_wait().expect("asked").is_none(), "it ended by itself after kill {kill}");
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    let index = Arc::new(LocalIndex::open(&search, None).await.expect("an index"));
    let tenant = DocumentTenant::new("t");
    let idle = open_library_with_workers(&root, &index, 0).await;
    for status in idle.list(&tenant).into_iter().filter(|status| status.state.is_pending()) {
        idle.cancel(&tenant, &status.id).await.expect("given up");
    }
    assert_eq!(
        indexed_documents(&index).await,
        ready_documents(&idle),
        "nothing is found of what was not ready when it was given up"
    );
    idle.close().await;

    let library = open_library_with_workers(&root, &index, 2).await;
    library.wait_until_idle().await;
    for status in library.list(&tenant).into_iter().filter(|status| status.state != IngestState::Ready) {
        // Cancelled above, or considered the cause of the crashes because each kill hit while it was read.
        library.retry(&tenant, &status.id).await.expect("tried");
    }
    library.wait_until_idle().await;
    assert_eq!(
        indexed_documents(&index).await,
        ready_documents(&library),
        "each document is found, whole and once"
    );
    let fresh_index = RamKeywordIndex::default();
    let rebuilt = library.rebuild_index(&fresh_index).await.expect("rebuilt");
    let listed = library.list(&tenant);
    assert!(listed.iter().all(|status| status.state == IngestState::Ready), "{listed:?}");
    let mut names: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), rebuilt), (listed.len(), listed.len()), "each once");
    assert!(!listed.is_empty(), "nothing was ever acknowledged: the kills came too early to show anything");
    let directories = listed.len();
    let left = std::fs::read_dir(root.join("_t").join("_")).expect("a directory");
    let mut documents = 0;
    for document in left {
        let inside: Vec<_> =
            std::fs::read_dir(document.expect("an entry").path()).expect("a directory").collect();
        assert_eq!(inside.len(), 3, "record, original and text, nothing else: {inside:?}");
        documents += 1;
    }
    assert_eq!(documents, directories, "nothing is left of what was not acknowledged");
}
