//! Tests of how the writer handles jobs that share a transaction.

use std::pin::Pin;
use std::sync::mpsc;
use std::time::Duration;

use doran_engine::id::{RunId, TenantId, ThreadKey};
use doran_engine::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, Durability, EntryKind, Fence, HistoryStore, IfBusy,
    InputDurability, NewEntry, NewRun, NewRunEntry, NewStatus, NodeCacheStore, RunStatus, RunStore,
    StoreError, SubmitOutcome, ThreadFilter, ThreadMaintenance, WorkerLease,
};
use rusqlite::Connection;
use serde_json::{Map, Value};

use super::error::SqliteResultExt;
use super::rows::THREAD_COLUMNS;
use super::writer::{
    MAX_QUICK_JOB_TIME, MIN_QUICK_JOBS, TransactionFailPoints, WriteJobKind, WriteTransaction,
};
use super::{SqliteStore, runs};
use crate::FileStoreMaintenance;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

type TestWriteJob = Box<dyn FnOnce(&mut WriteTransaction<'_>) -> Result<(), StoreError> + Send>;

fn insert_thread_job(name: &str) -> TestWriteJob {
    let key = ThreadKey::local(name).expect("name");
    Box::new(move |tx| runs::insert_thread(tx, &key, "{}"))
}

/// Queues all jobs behind a blocking one, so that they share the next transaction. Returns their results in order.
async fn write_in_one_transaction(
    store: &SqliteStore,
    jobs: Vec<TestWriteJob>,
) -> Vec<Result<(), StoreError>> {
    let (entered, started) = mpsc::channel();
    let (open, gate) = mpsc::channel();
    let holder = store.clone();
    let first = tokio::spawn(async move {
        let hold = move |_: &mut WriteTransaction<'_>| {
            entered.send(()).expect("the test waits");
            gate.recv().map_err(|error| StoreError::Other(error.into()))
        };
        holder.write(TransactionFailPoints::default(), hold).await
    });
    while started.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    let mut tasks = Vec::new();
    for (number, job) in (1..).zip(jobs) {
        let (store, waiting) = (store.clone(), store);
        tasks.push(tokio::spawn(async move { store.write(TransactionFailPoints::default(), job).await }));
        while waiting.inner.writer.queued_jobs() < number {
            tokio::task::yield_now().await;
        }
    }
    open.send(()).expect("the first waits");
    first.await.expect("task").expect("first");
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("task"));
    }
    answers
}

async fn thread_names(store: &SqliteStore) -> Vec<String> {
    let filter = ThreadFilter { limit: 1000, ..ThreadFilter::default() };
    let rows = store.threads(&TenantId::local(), &filter).await.expect("threads");
    let mut names: Vec<String> = rows.into_iter().map(|row| row.key.thread.to_string()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn jobs_that_wait_share_one_transaction() {
    let store = SqliteStore::in_memory().expect("open");
    let before = store.transactions();
    let jobs = (0..64).map(|number| insert_thread_job(&format!("{number:02}"))).collect();
    let answers = write_in_one_transaction(&store, jobs).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(store.transactions() - before, 2, "one for the job in front, one for all that waited");
    assert_eq!(thread_names(&store).await.len(), 64);
}

/// The name of the thread on which a job is run.
async fn writing_thread(store: &SqliteStore) -> String {
    let work =
        |_: &mut WriteTransaction<'_>| Ok(std::thread::current().name().unwrap_or_default().to_owned());
    let store = store.clone();
    tokio::spawn(async move { store.write(TransactionFailPoints::default(), work).await })
        .await
        .expect("task")
        .expect("write")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_writes_on_its_own_thread_until_there_is_a_second_run() {
    let store = SqliteStore::in_memory().expect("open");
    store.submit(claimed_run("first")).await.expect("submit");
    assert_ne!(writing_thread(&store).await, "sqlite-writer");
    store.submit(claimed_run("second")).await.expect("submit");
    assert_eq!(writing_thread(&store).await, "sqlite-writer");
}

#[tokio::test]
async fn the_only_thread_of_a_runtime_does_not_write() {
    let store = SqliteStore::in_memory().expect("open");
    assert_eq!(writing_thread(&store).await, "sqlite-writer");
}

/// Runs a job as a commit does, in a task.
async fn write_short(
    store: &SqliteStore,
    work: impl FnOnce() -> Result<(), StoreError> + Send + 'static,
) -> Result<(), StoreError> {
    let store = store.clone();
    let work = move |_: &mut WriteTransaction<'_>| work();
    let written = tokio::spawn(async move {
        let writer = &store.inner.writer;
        writer
            .run_in_transaction(
                WriteJobKind::Short,
                TransactionFailPoints::default(),
                Durability::Later,
                work,
            )
            .await
    });
    written.await.expect("task")
}

/// Fails if the one worker of the runtime does not go on while a short job blocks.
async fn check_that_a_blocking_job_holds_up_no_other_task(store: SqliteStore) {
    let (open, gate) = mpsc::channel();
    let writer = tokio::spawn(async move {
        let wait = move || {
            gate.recv_timeout(Duration::from_secs(30)).map_err(|error| StoreError::Other(error.into()))
        };
        write_short(&store, wait).await
    });
    // It runs only if the one worker of the runtime goes on while the write waits for it.
    tokio::spawn(async move { open.send(()) }).await.expect("task").expect("the write waits");
    writer.await.expect("task").expect("write");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_write_that_blocks_holds_up_no_other_task() {
    check_that_a_blocking_job_holds_up_no_other_task(SqliteStore::in_memory().expect("open")).await;
}

async fn store_after_quick_writes() -> SqliteStore {
    let store = SqliteStore::in_memory().expect("open");
    for _ in 0..2 * MIN_QUICK_JOBS {
        write_short(&store, || Ok(())).await.expect("write");
    }
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_first_slow_write_after_quick_ones_holds_up_no_other_task() {
    check_that_a_blocking_job_holds_up_no_other_task(store_after_quick_writes().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_two_workers_a_slow_write_after_quick_ones_holds_up_one_of_them() {
    check_that_a_blocking_job_holds_up_no_other_task(store_after_quick_writes().await).await;
}

/// Keeps one worker of the runtime busy until the sender is dropped.
async fn occupy_a_worker() -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (entered, occupied) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        entered.send(()).ok();
        held.recv_timeout(Duration::from_secs(60)).ok();
    });
    occupied.await.expect("the task runs");
    release
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_slow_write_no_write_holds_up_other_tasks() {
    let store = store_after_quick_writes().await;
    let slow = || {
        std::thread::sleep(2 * MAX_QUICK_JOB_TIME);
        Ok(())
    };
    write_short(&store, slow).await.expect("write");
    // The one worker that is left has to go on.
    let _release = occupy_a_worker().await;
    check_that_a_blocking_job_holds_up_no_other_task(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_writers_loses_nothing() {
    let store = SqliteStore::in_memory().expect("open");
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let (store, work) = (store.clone(), insert_thread_job(&format!("{number:03}")));
            tokio::spawn(async move { store.write(TransactionFailPoints::default(), work).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("task").expect("write");
    }
    assert_eq!(thread_names(&store).await.len(), 200);
}

#[tokio::test]
async fn a_refused_job_takes_back_nothing_but_itself() {
    let store = SqliteStore::in_memory().expect("open");
    let refused: TestWriteJob = Box::new(|tx| {
        insert_thread_job("gone")(tx)?;
        Err(StoreError::Fenced)
    });
    let broken: TestWriteJob = Box::new(|tx| {
        insert_thread_job("gone too")(tx)?;
        panic!("a bug");
    });
    let answers = write_in_one_transaction(
        &store,
        vec![
            insert_thread_job("a"),
            refused,
            insert_thread_job("b"),
            broken,
            insert_thread_job("a"),
            insert_thread_job("c"),
        ],
    )
    .await;
    let told: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map_err(|error| error.to_string())).collect();
    assert_eq!(told[1], Err("run was taken over, ended or deleted".to_owned()));
    assert_eq!(told.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, false, false, true]);
    assert_eq!(thread_names(&store).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_job_that_is_refused_alone_leaves_nothing() {
    let store = SqliteStore::in_memory().expect("open");
    let refused = store.write(TransactionFailPoints::default(), |tx| {
        insert_thread_job("gone")(tx)?;
        Err::<(), _>(StoreError::Fenced)
    });
    assert!(matches!(refused.await, Err(StoreError::Fenced)));
    store.write(TransactionFailPoints::default(), insert_thread_job("a")).await.expect("next");
    assert_eq!(thread_names(&store).await, ["a"]);
}

/// A statement that meets a failing disk, alone and between others.
#[tokio::test]
async fn a_disk_that_fails_during_a_statement_stops_the_store() {
    for neighbours in [0, 2] {
        let store = SqliteStore::in_memory().expect("open");
        let failing: TestWriteJob = Box::new(|tx| {
            insert_thread_job("gone")(tx)?;
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
            Err(rusqlite::Error::SqliteFailure(code, None)).or_store_error()
        });
        let mut jobs: Vec<TestWriteJob> =
            (0..neighbours).map(|n| insert_thread_job(&n.to_string())).collect();
        jobs.push(failing);
        jobs.extend((0..neighbours).map(|n| insert_thread_job(&format!("later{n}"))));
        let answers = write_in_one_transaction(&store, jobs).await;
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        store.wait_for_fatal_error().await;
        let later = store.write(TransactionFailPoints::default(), insert_thread_job("later")).await;
        assert!(matches!(later, Err(StoreError::Unavailable(_))), "{later:?}");
    }
}

async fn allow_pages(store: &SqliteStore, more: i64) {
    let limit = move |conn: &Connection| {
        let pages: i64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0)).or_store_error()?;
        conn.query_row(&format!("PRAGMA max_page_count = {}", pages + more), [], |_| Ok(())).or_store_error()
    };
    store.inner.writer.run_outside_transaction(limit).await.expect("limit");
}

fn large_metadata() -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), Value::String("x".repeat(100_000)))])
}

#[tokio::test]
async fn a_full_file_refuses_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let key = ThreadKey::local("a").expect("name");
    store.put_thread(&key, &Map::new()).await.expect("small");
    allow_pages(&store, 5).await;
    let error = store.put_thread(&key, &large_metadata()).await.expect_err("full");
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert!(store.thread(&key).await.expect("reading works").metadata.is_empty());
    store.integrity_check().await.expect("whole");
    allow_pages(&store, 1000).await;
    store.put_thread(&key, &large_metadata()).await.expect("room again");
}

#[tokio::test]
async fn a_job_that_finds_no_room_answers_full_and_its_neighbours_truly() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    store.write(TransactionFailPoints::default(), insert_thread_job("first")).await.expect("first");
    allow_pages(&store, 5).await;
    let key = ThreadKey::local("big").expect("name");
    let large: TestWriteJob =
        Box::new(move |tx| super::thread_maintenance::put_thread(tx, &key, &large_metadata()).map(drop));
    let answers =
        write_in_one_transaction(&store, vec![insert_thread_job("a"), large, insert_thread_job("b")]).await;
    assert!(matches!(answers[1], Err(StoreError::Full(_))), "{:?}", answers[1]);
    let there = thread_names(&store).await;
    for (answer, name) in [(&answers[0], "a"), (&answers[2], "b")] {
        assert_eq!(answer.is_ok(), there.iter().any(|there| there == name), "{name}: {answer:?}");
    }
    assert!(answers[2].is_ok(), "there was room for it");
}

#[tokio::test]
async fn a_reader_sees_nothing_of_an_open_transaction_and_does_not_wait_for_it() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let (entered, started) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let writer = store.clone();
    let slow = tokio::spawn(async move {
        let work = move |tx: &mut WriteTransaction<'_>| {
            insert_thread_job("late")(tx)?;
            entered.send(()).expect("the test waits");
            gate.recv().map_err(|error| StoreError::Other(error.into()))
        };
        writer.write(TransactionFailPoints::default(), work).await
    });
    while started.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    assert!(thread_names(&store).await.is_empty());
    open.send(()).expect("it waits");
    slow.await.expect("task").expect("write");
    assert_eq!(thread_names(&store).await, ["late"]);
}

#[tokio::test]
async fn the_log_is_moved_into_the_file_before_it_grows_long() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    let key = ThreadKey::local("a").expect("name");
    for _ in 0..120 {
        store.put_thread(&key, &large_metadata()).await.expect("write");
    }
    let log = super::database_file::path_with_suffix(&path, "-wal").metadata().expect("log").len();
    assert!(log < 8 << 20, "the log has {log} bytes after 12 MB were written");
}

#[test]
fn frequent_queries_use_an_index() {
    let conn = super::database_file::open_in_memory().expect("open");
    let check = |sql: &str, index: &str| {
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("sql");
        let count = statement.parameter_count();
        let values = rusqlite::params_from_iter(vec![Option::<i64>::None; count]);
        let lines = statement.query_map(values, |row| row.get::<_, String>(3)).expect("plan");
        let plan = lines.collect::<Result<Vec<_>, _>>().expect("plan").join("; ");
        let sorts = plan.contains("TEMP B-TREE") || plan.contains("SCAN");
        assert!(plan.contains(index) && !sorts, "{sql}\n{plan}");
    };
    check("SELECT 1 FROM threads WHERE ready IS NOT NULL ORDER BY ready LIMIT ?1", "threads_ready");
    check(
        &format!("SELECT {THREAD_COLUMNS} FROM threads WHERE tenant = ?1 ORDER BY updated_at DESC, thread"),
        "threads_by_change",
    );
    check(
        &format!("SELECT {THREAD_COLUMNS} FROM threads WHERE tenant = ?1 AND thread = ?2"),
        "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    );
    check("SELECT tenant FROM runs WHERE status = 2 AND status < 4 AND held = 1", "runs_open (status=?)");
    check(
        "SELECT * FROM runs WHERE tenant = ?1 AND ?2 IS NULL AND status = 3 AND status < 4 ORDER BY run DESC",
        "runs_open (status=? AND tenant=?)",
    );
    check("SELECT * FROM runs WHERE tenant = ?1 AND thread = ?2 ORDER BY run DESC", "runs_by_thread");
}

/// A run of this thread that is started at once.
fn claimed_run(name: &str) -> NewRun {
    NewRun {
        thread: ThreadKey::local(name).expect("name"),
        run: RunId::random(),
        graph: "g".into(),
        fingerprint: "f".into(),
        first: NewRunEntry { kind: EntryKind::Started, body: b"{}".to_vec(), parent: None },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: Map::new(),
        thread_metadata: Map::new(),
        options: b"{}".to_vec(),
        stop_body: b"{}".to_vec(),
        claim: Some(worker()),
        durability: InputDurability::Now,
    }
}

fn worker() -> WorkerLease {
    WorkerLease { worker: "w".into(), lease: Duration::from_secs(30), graphs: None }
}

fn entry(kind: EntryKind) -> NewEntry {
    NewEntry { kind, body: b"{}".to_vec(), parent: None, base: 0, snapshot: None }
}

#[tokio::test]
async fn a_claim_that_ended_leaves_no_lease_behind() {
    let store = SqliteStore::in_memory().expect("open");
    for (name, status) in [("a", RunStatus::Finished), ("b", RunStatus::Failed), ("c", RunStatus::Paused)] {
        let SubmitOutcome::Started(claimed) = store.submit(claimed_run(name)).await.expect("submit") else {
            panic!("queued")
        };
        let leases = async || {
            let count = |tx: &mut WriteTransaction<'_>| Ok(tx.state.leases.len());
            store.write(TransactionFailPoints::default(), count).await.expect("count")
        };
        assert_eq!(leases().await, 1, "{name}");
        let ended = Commit {
            head: claimed.head,
            entries: vec![entry(EntryKind::Finished)],
            status: Some(NewStatus { status, error: None }),
            ..Commit::default()
        };
        store.commit(&claimed.fence(), ended).await.expect("commit");
        assert_eq!(leases().await, 0, "{name}");
    }
}

#[tokio::test]
async fn a_write_that_takes_long_does_not_count_against_leases() {
    let store = SqliteStore::in_memory().expect("open");
    store.submit(claimed_run("a")).await.expect("submit");
    let lease_end = async || {
        let end = |tx: &mut WriteTransaction<'_>| Ok(tx.state.leases.values().map(|lease| lease.until).max());
        store.write(TransactionFailPoints::default(), end).await.expect("read").expect("a lease")
    };
    let before = lease_end().await;
    let busy = std::time::Duration::from_millis(150);
    let slow = move |_: &mut WriteTransaction<'_>| {
        std::thread::sleep(busy);
        Ok(())
    };
    store.write(TransactionFailPoints::default(), slow).await.expect("written");
    assert!(lease_end().await >= before + busy);
}

#[tokio::test]
async fn the_log_stays_short_under_readers_that_overlap() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    let begun = [(); 2].map(|()| std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Each ends its transaction only when the other has begun a newer one, so there is always one. The first waits for as
    // many as it has begun itself, the second for one more: they never wait for each other.
    let readers: Vec<_> = [(0, 1), (1, 0)]
        .map(|(own, other)| {
            use std::sync::atomic::Ordering::SeqCst;
            let more = u64::try_from(own).expect("small");
            let (own, other, over) = (begun[own].clone(), begun[other].clone(), over.clone());
            let conn = super::database_file::open_reader(&path).expect("reader");
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    let snapshot = conn.unchecked_transaction().expect("begin");
                    snapshot.query_row("SELECT count(*) FROM threads", [], |_| Ok(())).expect("read");
                    let wanted = own.fetch_add(1, SeqCst) + 1 + more;
                    while other.load(SeqCst) < wanted && !over.load(SeqCst) {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .into();
    let tenant = TenantId::local();
    for n in 0..256 {
        let key = format!("k{n}");
        store.cache_value(&tenant, &key, &[0; 1 << 18], None).await.expect("written");
    }
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    let log = std::fs::metadata(folder.path().join("doran.db-wal")).expect("a log").len();
    assert!(log < 40 << 20, "64 MiB were written and the log has {log} bytes");
}

/// A run with one step that need not be on disk.
async fn run_with_later_step(store: &SqliteStore, name: &str) -> (ClaimedRun, CommitOutcome) {
    let SubmitOutcome::Started(claimed) = store.submit(claimed_run(name)).await.expect("submit") else {
        panic!("queued")
    };
    let step = Commit {
        head: claimed.head,
        entries: vec![entry(EntryKind::Step)],
        durability: Durability::Later,
        ..Commit::default()
    };
    let committed = store.commit(&claimed.fence(), step).await.expect("commit");
    (claimed, committed)
}

#[tokio::test]
#[allow(
    clippy::await_holding_lock,
    reason = "the lock is what keeps the disk away, and no task of the test takes it"
)]
async fn only_a_commit_that_may_be_lost_returns_before_the_disk_has_it() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let (other, thread) = (ThreadKey::local("other").expect("name"), ThreadKey::local("t").expect("name"));
    store.put_thread(&other, &Map::new()).await.expect("put");
    let SubmitOutcome::Started(claimed) = store.submit(claimed_run("t")).await.expect("submit") else {
        panic!("queued")
    };
    let disk = store.inner.writer.wal_sync().lock_disk();
    let step = |head| Commit {
        head,
        entries: vec![entry(EntryKind::Step)],
        durability: Durability::Later,
        ..Commit::default()
    };
    let committed = store.commit(&claimed.fence(), step(1)).await.expect("commit");
    let before_write =
        tokio::time::timeout(Duration::from_secs(60), store.thread_before_write(&thread)).await;
    assert_eq!(before_write.expect("who writes next does not wait").expect("thread").head, 2);
    let mut waits: Vec<(&str, BoxFuture<'_, Result<(), StoreError>>)> = vec![
        ("a wait", Box::pin(store.wait_until_durable(committed.position))),
        ("a commit", {
            let commit = Commit { durability: Durability::Now, ..step(2) };
            let (store, fence) = (store.clone(), claimed.fence());
            Box::pin(async move { store.commit(&fence, commit).await.map(drop) })
        }),
        ("a read", Box::pin(async { store.thread(&thread).await.map(drop) })),
        ("a read of something else", Box::pin(async { store.entries(&other, 0, 9).await.map(drop) })),
        ("a write", Box::pin(async { store.put_thread(&other, &Map::new()).await.map(drop) })),
        ("a claim of nothing", Box::pin(async { store.claim(&worker(), Some(&other), 1).await.map(drop) })),
        ("a refused write", {
            let fence = Fence { epoch: 9, ..claimed.fence() };
            let store = store.clone();
            Box::pin(async move {
                let refused = store.commit(&fence, Commit::default()).await;
                assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
                Ok(())
            })
        }),
    ];
    for (name, wait) in &mut waits {
        let early = tokio::time::timeout(Duration::from_millis(30), wait).await;
        assert!(early.is_err(), "{name} returned before the disk had the step");
    }
    drop(disk);
    for (name, wait) in waits {
        wait.await.expect(name);
    }
}

#[tokio::test]
#[allow(
    clippy::await_holding_lock,
    reason = "the lock is what keeps the disk away, and no task of the test takes it"
)]
async fn many_commits_share_a_sync_and_the_last_one_needs_nobody_who_waits() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let (claimed, committed) = run_with_later_step(&store, "t").await;
    store.wait_until_durable(committed.position).await.expect("durable");
    // However long a commit takes: no sync is made between them.
    let disk = store.inner.writer.wal_sync().lock_disk();
    let before = store.syncs();
    for head in 2..42 {
        let commit = Commit {
            head,
            entries: vec![entry(EntryKind::Step)],
            durability: Durability::Later,
            ..Commit::default()
        };
        store.commit(&claimed.fence(), commit).await.expect("commit");
    }
    drop(disk);
    let wal_sync = store.inner.writer.wal_sync();
    while !wal_sync.is_all_durable() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(store.syncs() - before <= 2, "{} syncs for 40 commits", store.syncs() - before);
}

#[tokio::test]
async fn a_transaction_that_wrote_nothing_costs_no_sync() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let (claimed, committed) = run_with_later_step(&store, "t").await;
    store.wait_until_durable(committed.position).await.expect("durable");
    let before = store.syncs();
    for _ in 0..10 {
        store.renew(&worker(), &[claimed.fence()]).await.expect("renew");
        assert!(store.claim(&worker(), None, 1).await.expect("claim").is_empty());
    }
    assert_eq!(store.syncs(), before);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_failed_sync_stops_the_store_and_nothing_is_reported_as_on_disk() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    drop(SqliteStore::open(&path).expect("open"));
    let conn = super::database_file::open_writer(&path).expect("open");
    // What is no file cannot be synced.
    let log = std::fs::File::open("/dev/null").expect("a device");
    let readers = Some(super::ReaderPool::new(path));
    let store = SqliteStore::start_writer(conn, Some(log), readers, Vec::new()).expect("start");
    let submitted = store.submit(claimed_run("t")).await;
    assert!(matches!(submitted, Err(StoreError::Unknown(_))), "{submitted:?}");
    store.wait_for_fatal_error().await;
    let read = store.thread(&ThreadKey::local("t").expect("name")).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let waited = store.wait_until_durable(CommitPosition(1)).await;
    assert!(matches!(waited, Err(StoreError::Unavailable(_))), "{waited:?}");
    let written = store.submit(claimed_run("u")).await;
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
}

#[test]
fn a_backup_gets_its_name_where_there_are_no_links_and_takes_no_other_files_place() {
    let folder = tempfile::tempdir().expect("folder");
    let (part, to) = (folder.path().join("b.part"), folder.path().join("b"));
    std::fs::write(&part, "whole").expect("a part");
    super::publish_backup_without_links(&part, &to).expect("named");
    assert_eq!(std::fs::read_to_string(&to).expect("read"), "whole");
    std::fs::write(&part, "another").expect("a part");
    let taken = super::publish_backup_without_links(&part, &to).expect_err("taken");
    assert_eq!(taken.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&to).expect("read"), "whole");
}

#[tokio::test]
async fn threads_with_a_pair_are_found_however_many_have_it() {
    let store = SqliteStore::in_memory().expect("open");
    let fill = move |tx: &mut WriteTransaction<'_>| {
        let sql = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200)
                   INSERT INTO threads (tenant, thread, created_at, updated_at, metadata)
                   SELECT 'local', format('%04d', n), n, n,
                       json_object('kind', 'chat', 'half', iif(n % 2, 'odd', 'even'), 'n', n) FROM n";
        tx.conn.execute(sql, []).map(drop).or_store_error()
    };
    store.write(TransactionFailPoints::default(), fill).await.expect("threads");
    let find = async |pairs: Value, offset: usize, limit: usize| {
        let Value::Object(metadata) = pairs else { panic!("no pairs") };
        let filter = ThreadFilter { metadata, offset, limit, after: None };
        let rows = store.threads(&TenantId::local(), &filter).await.expect("threads");
        rows.iter().map(|row| row.key.thread.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(find(serde_json::json!({ "kind": "chat" }), 3, 2).await, ["1197", "1196"]);
    assert_eq!(find(serde_json::json!({ "half": "odd" }), 0, 2).await, ["1199", "1197"]);
    assert_eq!(find(serde_json::json!({ "kind": "chat", "half": "even" }), 1, 1).await, ["1198"]);
    assert_eq!(find(serde_json::json!({ "kind": "chat", "n": 7 }), 0, 9).await, ["0007"]);
    assert_eq!(find(serde_json::json!({ "kind": "talk" }), 0, 9).await, [""; 0]);
}
