//! Room on disk.

use doran_store::sqlite::SqliteStore;

use super::{finish, start, step, thread};

/// New messages of a turn, as four entries share them: a question, two steps, an answer.
const TURN_ENTRY_BYTES: [usize; 4] = [250, 500, 500, 798];

#[tokio::test]
async fn a_long_thread_takes_at_most_twice_its_messages() {
    check_bytes_per_message(1, 1000).await;
}

#[tokio::test]
async fn threads_that_grow_side_by_side_take_at_most_twice_their_messages() {
    check_bytes_per_message(20, 50).await;
}

async fn check_bytes_per_message(threads: usize, turns: usize) {
    // What is measured does not depend on the disk, so memory serves when there is some.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    drop(store);
    let empty = path.metadata().expect("file").len();
    let store = SqliteStore::open(&path).expect("open");
    let keys: Vec<_> = (0..threads).map(|n| thread(&format!("{n:08}-5d1c-4c58-9d0a-6e0a8c4f7b21"))).collect();
    for turn in 0..turns {
        let head = turn as u64 * 4;
        for key in &keys {
            let run = start(&store, key, &vec![1; TURN_ENTRY_BYTES[0]]).await.expect("start");
            step(&store, &run, head + 1, &vec![2; TURN_ENTRY_BYTES[1]]).await.expect("step");
            step(&store, &run, head + 2, &vec![3; TURN_ENTRY_BYTES[2]]).await.expect("step");
            finish(&store, &run, head + 3, &vec![4; TURN_ENTRY_BYTES[3]]).await.expect("finish");
        }
    }
    drop(store);
    let raw = (threads * turns * TURN_ENTRY_BYTES.iter().sum::<usize>()) as u64;
    let used = path.metadata().expect("file").len() - empty;
    println!(
        "{threads} threads of {turns} turns: {used} bytes for {raw}, {:.2} times",
        used as f64 / raw as f64
    );
    assert!(used <= 2 * raw, "{used} bytes for {raw}");
}

#[tokio::test]
async fn a_step_writes_its_entry_and_nothing_else() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    let run = start(&store, &thread("t"), b"in").await.expect("start");
    let log = || folder.path().join("doran.db-wal").metadata().expect("log").len();
    step(&store, &run, 1, b"first").await.expect("step");
    let before = log();
    for head in 2..42 {
        step(&store, &run, head, b"a small step").await.expect("step");
    }
    // Each page has a head of 24 bytes in the log. A step changes one page; now and then that
    // is full.
    let pages = (log() - before) / (4096 + 24);
    println!("40 steps wrote {pages} pages");
    assert!((40..=46).contains(&pages), "{pages} pages for 40 steps");
}
