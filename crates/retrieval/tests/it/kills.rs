//! The library, killed again and again while it takes files in.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use doran_retrieval::ingest::ReadLimits;
use doran_retrieval::{Library, LibraryOptions, RamKeyword, State, Tenant};

use crate::{WORKER, fresh, reader};

const KILLS: u64 = 50;
const FILES: usize = 6;

#[tokio::test]
async fn c122_killed_fifty_times_every_document_is_there_once() {
    if crate::read(&reader(ReadLimits::default()), "a.txt", b"x").await.is_none() {
        return;
    }
    let (root, files) = (fresh("kills"), fresh("kills-files"));
    for at in 0..FILES {
        let words = format!("문서 {at}번의 글이다.\n\n").repeat(200 * (at + 1));
        std::fs::write(files.join(format!("{at}.txt")), words).expect("a file");
    }
    for kill in 0..KILLS {
        let mut child = Command::new(WORKER)
            .args(["__library".as_ref(), root.as_os_str(), files.as_os_str()])
            .stdin(Stdio::null())
            .spawn()
            .expect("a library");
        // Sooner and later, in no order that a start could adapt to.
        std::thread::sleep(Duration::from_millis(5 + kill * 37 % 120));
        assert!(child.try_wait().expect("asked").is_none(), "it ended by itself after kill {kill}");
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    let index = Arc::new(RamKeyword::default());
    let options =
        LibraryOptions { reader: reader(ReadLimits::default()), workers: 2, ..LibraryOptions::default() };
    let library = Library::open(&root, index.clone(), options).await.expect("a library");
    let tenant = Tenant::new("t");
    library.settled().await;
    for status in library.list(&tenant).into_iter().filter(|status| status.state == State::Failed) {
        // Killed each time it was read: held to be the cause until a person says otherwise.
        library.retry(&tenant, &status.id).await.expect("tried");
    }
    library.settled().await;
    let fresh_index = RamKeyword::default();
    let rebuilt = library.rebuild(&fresh_index).await.expect("rebuilt");
    let listed = library.list(&tenant);
    assert!(listed.iter().all(|status| status.state == State::Ready), "{listed:?}");
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
