//! Copies made while the store is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doran_engine::id::TenantId;
use doran_engine::store::{HistoryStore, StoreError, ThreadFilter};
use doran_store::FileStoreMaintenance;
use doran_store::sqlite::SqliteStore;

use super::{finish, start, step, thread};

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_is_true_to_one_instant() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let key = thread(&format!("thread {number}"));
                let mut head = 0;
                while !stop.load(Ordering::Relaxed) {
                    let run = start(&store, &key, b"turn").await.expect("start");
                    step(&store, &run, head + 1, &[7; 2000]).await.expect("step");
                    head = finish(&store, &run, head + 2, b"end").await.expect("finish").head;
                }
                head
            })
        })
        .collect();
    while store.transactions() < 20 {
        tokio::task::yield_now().await;
    }
    let mut last = 0;
    for number in 0..3 {
        let to = folder.path().join(format!("backup {number}.db"));
        store.backup(&to).await.expect("backup");
        let entries = check_backup_and_count_entries(&to).await;
        assert!(entries > last, "backup {number} has {entries} entries, the one before it {last}");
        last = entries;
        while store.transactions() < 20 * (number + 2) {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut heads = 0;
    for writer in writers {
        heads += writer.await.expect("writer");
    }
    assert!(heads >= last);
}

/// Opens a backup, checks that every thread is whole and counts the entries.
async fn check_backup_and_count_entries(path: &std::path::Path) -> u64 {
    let copy = SqliteStore::open(path).expect("open backup");
    copy.integrity_check().await.expect("whole");
    let mut count = 0;
    for row in copy.threads(&TenantId::local(), &ThreadFilter::default()).await.expect("threads") {
        let loaded = copy.load(&row.key, None).await.expect("load");
        let numbers: Vec<u64> = loaded.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(numbers, (1..=row.head).collect::<Vec<_>>());
        // A thread is free exactly when its last run is whole: three entries each.
        assert_eq!(row.active.is_none(), row.head % 3 == 0, "{row:?}");
        count += row.head;
    }
    count
}

#[tokio::test]
async fn a_backup_replaces_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let to = folder.path().join("backup.db");
    std::fs::write(&to, "dear").expect("write");
    let error = store.backup(&to).await.expect_err("exists");
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    assert_eq!(std::fs::read_to_string(&to).expect("read"), "dear");
}
