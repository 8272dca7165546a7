//! What calls cost with few and with many threads. Measurements, for a quiet machine:
//! `cargo test -p doran-store --test it flat_costs -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doran_engine::id::{RunId, TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    Commit, Durability, EntryKind, IfBusy, NewEntry, NewRun, NewRunEntry, NewStatus, Retention, RunStatus,
    Store, SubmitOutcome, ThreadFilter, ThreadListPosition, WorkerLease,
};
use doran_store::postgres::PostgresStore;
use doran_store::sqlite::SqliteStore;
use tokio_postgres::NoTls;

use crate::postgres_server;

const ENTRIES_PER_THREAD: u64 = 10;
const REPETITIONS: usize = 41;
/// When the newest thread changed: an hour ago, for the threads of a test to be newer.
const NEWEST_BEFORE_NOW_MS: i64 = 3_600_000;

fn thread(n: u64) -> ThreadKey {
    ThreadKey::local(&format!("t{n}")).expect("a name")
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("in range")
}

fn new_run(thread: ThreadKey) -> NewRun {
    NewRun {
        thread,
        run: RunId::random(),
        graph: "chat".into(),
        fingerprint: "f".into(),
        first: NewRunEntry { kind: EntryKind::Started, body: b"in".to_vec(), parent: None },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: serde_json::Map::new(),
        thread_metadata: serde_json::Map::new(),
        options: Vec::new(),
        stop_body: Vec::new(),
        claim: Some(worker()),
        durability: Durability::Now,
    }
}

fn worker() -> WorkerLease {
    WorkerLease { worker: Arc::from("w"), lease: Duration::from_secs(600), graphs: None }
}

/// The median of some calls, in microseconds.
async fn median_micros<F: Future<Output = ()>>(mut call: impl FnMut(u64) -> F) -> f64 {
    let mut times = Vec::new();
    for n in 0..REPETITIONS as u64 {
        let begun = Instant::now();
        call(n).await;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[REPETITIONS / 2]
}

async fn measure<S: Store>(store: &S, threads: u64) -> Vec<(&'static str, f64)> {
    let local = TenantId::local();
    let mut costs = Vec::new();
    let page = |after: Option<ThreadListPosition>| {
        let filter = ThreadFilter { after, ..ThreadFilter::default() };
        let local = &local;
        async move { drop(store.threads(local, &filter).await.expect("threads")) }
    };
    costs.push(("list, first page", median_micros(|_| page(None)).await));
    let row = store.thread(&thread(threads / 2)).await.expect("a thread");
    let middle =
        ThreadListPosition { updated_at: row.updated_at, thread: ThreadId::new("t").expect("a name") };
    costs.push(("list, page in the middle", median_micros(|_| page(Some(middle.clone()))).await));
    let load = |n: u64| async move {
        drop(store.load(&thread(1 + n * 7919 % threads), None).await.expect("loaded"));
    };
    costs.push(("load", median_micros(load).await));
    let turn = |n: u64| async move {
        let started = store.submit(new_run(thread(1 + n * 104_729 % threads))).await.expect("submit");
        let SubmitOutcome::Started(run) = started else { panic!("not started") };
        let end = NewEntry {
            kind: EntryKind::Finished,
            body: b"out".to_vec(),
            parent: None,
            base: 0,
            snapshot: None,
        };
        let status = Some(NewStatus { status: RunStatus::Finished, error: None });
        let commit = Commit { head: run.head, entries: vec![end], status, ..Commit::default() };
        store.commit(&run.fence(), commit).await.expect("finish");
    };
    costs.push(("start and finish", median_micros(turn).await));
    let claim = |_| async { drop(store.claim(&worker(), None, 64).await.expect("claim")) };
    costs.push(("look for work", median_micros(claim).await));
    let retention = Retention { old_entries: Some(Duration::from_secs(60)), ..Retention::default() };
    // The first looks at everything.
    store.gc(&retention).await.expect("gc");
    let gc = |_| async {
        store.gc(&retention).await.expect("gc");
    };
    costs.push(("gc", median_micros(gc).await));
    costs
}

fn print_ratios(store: &str, few: (u64, Vec<(&'static str, f64)>), many: (u64, Vec<(&'static str, f64)>)) {
    println!("{store}: microseconds with {} and {} threads", few.0, many.0);
    for ((what, before), (_, after)) in few.1.into_iter().zip(many.1) {
        println!("{what:<26} {before:>10.0} {after:>10.0}   {:.2}x", after / before);
    }
}

fn fill_sqlite(path: &std::path::Path, threads: u64) {
    drop(SqliteStore::open(path).expect("open"));
    let conn = rusqlite::Connection::open(path).expect("open");
    conn.execute_batch("PRAGMA synchronous = OFF; BEGIN").expect("begin");
    let newest = now_ms() - NEWEST_BEFORE_NOW_MS;
    let sql = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
               INSERT INTO threads (number, tenant, thread, created_at, updated_at, metadata)
               SELECT n, 'local', 't' || n, ?2 - (?1 - n) * 1000, ?2 - (?1 - n) * 1000, '{}' FROM n";
    conn.execute(sql, rusqlite::params![threads, newest]).expect("threads");
    let sql = "INSERT INTO entries (place, parent, base, run, at, kind, body)
               SELECT (t.number << 28) + s.s, s.s - 1, 0, NULL, t.updated_at, 2, zeroblob(200) FROM threads t,
               (WITH RECURSIVE s (s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < ?1) SELECT s FROM s) s";
    conn.execute(sql, [ENTRIES_PER_THREAD]).expect("entries");
    conn.execute_batch("COMMIT").expect("commit");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and needs a quiet machine"]
async fn sqlite_costs_the_same_with_many_threads() {
    let folder = tempfile::tempdir().expect("folder");
    let mut found = Vec::new();
    for threads in [1_000, 100_000] {
        let path = folder.path().join(format!("{threads}.db"));
        fill_sqlite(&path, threads);
        found.push((threads, measure(&SqliteStore::open(&path).expect("open"), threads).await));
    }
    let many = found.pop().expect("two");
    print_ratios("SQLite", found.pop().expect("two"), many);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, needs a quiet machine and 4 GB"]
async fn postgres_costs_the_same_with_many_threads() {
    let mut found = Vec::new();
    for threads in [1_000_u64, 1_000_000] {
        let Some(url) = postgres_server::fresh_schema_url() else { return };
        let store = PostgresStore::open(&url).await.expect("open");
        let (server, schema) = url.split_once("?schema=").or(url.split_once("&schema=")).expect("a schema");
        let (admin, driver) = tokio_postgres::connect(server, NoTls).await.expect("connect");
        tokio::spawn(driver);
        let fill = format!(
            "set search_path = {schema}; set synchronous_commit = off;
             insert into threads (tenant, thread, head, created_at, updated_at)
             select 'local', 't' || n, {ENTRIES_PER_THREAD}, now() - interval '1 hour' - ({threads} - n) * interval '1 second',
                 now() - interval '1 hour' - ({threads} - n) * interval '1 second'
             from generate_series(1, {threads}) n;
             insert into entries (at, number, seq, base, kind, body)
             select t.updated_at, t.number, s, 0, 2, '\\x0102030405060708'::bytea
             from threads t, generate_series(1, {ENTRIES_PER_THREAD}) s;
             analyze"
        );
        admin.batch_execute(&fill).await.expect("filled");
        found.push((threads, measure(&store, threads).await));
    }
    let many = found.pop().expect("two");
    print_ratios("PostgreSQL", found.pop().expect("two"), many);
}
