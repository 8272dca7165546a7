//! `doran reindex` beside another process that has the library.

use std::fs::{self, File};

use crate::program::{fresh_directory, run_doran, utf8};

#[test]
fn nothing_is_made_anew_while_somebody_has_the_library() {
    let here = fresh_directory("reindex");
    let library = here.join("data/library");
    fs::create_dir_all(&library).expect("a directory");
    let lock = File::create(library.join("lock")).expect("a lock");
    lock.lock().expect("taken");
    let refused = run_doran(&here, &["reindex", "--data-dir", "data"], "");
    let text = utf8(&refused.stderr);
    assert!(!refused.status.success() && text.contains("another process has it open"), "{text}");
    assert!(!here.join("data/search").exists(), "the index was touched");
    drop(lock);
    let done = run_doran(&here, &["reindex", "--data-dir", "data"], "");
    assert!(done.status.success() && here.join("data/search").is_dir(), "{}", utf8(&done.stderr));
}
