//! What calls of a store cost with many threads, beside what they cost with a thousand.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunId, TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    Commit, EntryKind, IfBusy, InputDurability, LoadedLog, NewEntry, NewRun, NewRunEntry, NewStatus,
    Retention, RunStatus, Store, SubmitOutcome, ThreadFilter, ThreadListPosition, WorkerLease,
};
use rusqlite::Connection;
use serde_json::json;

use crate::EngineBenchError;
use crate::bench_stores::{
    EngineBenchDatabases, EngineBenchStore, EngineBenchStoreKind, EngineBenchStoreLocation, connect_plain,
};
use crate::times::median;

/// The number of threads that many are compared with.
pub(crate) const FEW_THREADS: u64 = 1_000;

const ENTRIES_PER_THREAD: u64 = 10;
/// Threads that have a pair of metadata that is rare. All have another one.
const PINNED_THREADS: u64 = 20;
const REPETITIONS: u64 = 41;
/// When the newest thread changed: an hour ago, so that the threads that are written to are newer.
const NEWEST_BEFORE_NOW_MS: i64 = 3_600_000;

/// A call and its median in microseconds.
pub(crate) type CallCost = (&'static str, f64);

/// What the calls cost with a thousand threads and with `many`, in the same order. `None` without the store.
pub(crate) async fn compare_thread_counts(
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
    many: u64,
) -> Result<Option<[Vec<CallCost>; 2]>, EngineBenchError> {
    let mut found = [Vec::new(), Vec::new()];
    for (threads, costs) in [FEW_THREADS, many].into_iter().zip(&mut found) {
        let Some(opened) = ground.open(kind).await? else { return Ok(None) };
        let EngineBenchStore { store, sqlite, location } = opened;
        drop((store, sqlite));
        fill(&location, threads).await?;
        *costs = measure_calls(&*location.reopen().await?, threads).await?;
        location.clear().await?;
    }
    Ok(Some(found))
}

/// Writes threads with their entries past the store, which would take hours.
async fn fill(location: &EngineBenchStoreLocation, threads: u64) -> Result<(), EngineBenchError> {
    match location {
        EngineBenchStoreLocation::Ram => Err("a store in memory is not filled".into()),
        EngineBenchStoreLocation::File(path) => {
            let conn = Connection::open(path)?;
            conn.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
            let newest = now_ms()? - NEWEST_BEFORE_NOW_MS;
            let sql = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
                       INSERT INTO threads (number, tenant, thread, created_at, updated_at, metadata)
                       SELECT n, 'local', 't' || n, ?2 - (?1 - n) * 1000, ?2 - (?1 - n) * 1000,
                           iif(n % ?3, '{\"kind\":\"chat\"}', '{\"kind\":\"chat\",\"pinned\":true}') FROM n";
            conn.execute(sql, rusqlite::params![threads, newest, threads / PINNED_THREADS])?;
            let sql = "INSERT INTO entries (place, parent, base, run, at, kind, body)
                       SELECT (t.number << 28) + s.s, s.s - 1, 0, NULL, t.updated_at, 2, zeroblob(200)
                       FROM threads t, (WITH RECURSIVE s (s) AS
                           (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < ?1) SELECT s FROM s) s";
            conn.execute(sql, [ENTRIES_PER_THREAD])?;
            Ok(conn.execute_batch("COMMIT")?)
        }
        EngineBenchStoreLocation::Schema { url, schema } => {
            let unpinned = threads / PINNED_THREADS;
            let changed = format!("now() - interval '1 hour' - ({threads} - n) * interval '1 second'");
            let sql = format!(
                "set search_path = {schema}; set synchronous_commit = off;
                 insert into threads (tenant, thread, head, created_at, updated_at, meta_keys, meta_vals)
                 select 'local', 't' || n, {ENTRIES_PER_THREAD}, {changed}, {changed},
                     case when n % {unpinned} > 0 then '{{kind}}'::bytea[] else '{{kind,pinned}}' end,
                     case when n % {unpinned} > 0 then array['\"chat\"'::bytea] else array['\"chat\"'::bytea, 'true'] end
                 from generate_series(1, {threads}) n;
                 insert into thread_pairs (tenant, pair, thread)
                 select t.tenant, pair_digest(m.k, m.v), t.thread
                 from threads t, unnest(t.meta_keys, t.meta_vals) as m (k, v);
                 insert into entries (at, number, seq, base, kind, body)
                 select t.updated_at, t.number, s, 0, 2, '\\x0102030405060708'::bytea
                 from threads t, generate_series(1, {ENTRIES_PER_THREAD}) s;
                 analyze"
            );
            Ok(connect_plain(url).await?.batch_execute(&sql).await?)
        }
    }
}

async fn measure_calls(store: &dyn Store, threads: u64) -> Result<Vec<CallCost>, EngineBenchError> {
    let tenant = TenantId::local();
    let mut costs = Vec::new();
    let first = ThreadFilter::default();
    costs.push(("list", median_micros(async |_| store.threads(&tenant, &first).await).await?));
    let row = store.thread(&thread(threads / 2)?).await?;
    let after = Some(ThreadListPosition { updated_at: row.updated_at, thread: ThreadId::new("t")? });
    let middle = ThreadFilter { after, ..ThreadFilter::default() };
    costs.push(("page", median_micros(async |_| store.threads(&tenant, &middle).await).await?));
    for (name, pair) in [("find", json!({ "pinned": true })), ("filter", json!({ "kind": "chat" }))] {
        let metadata = pair.as_object().cloned().unwrap_or_default();
        let filter = ThreadFilter { metadata, ..ThreadFilter::default() };
        costs.push((name, median_micros(async |_| store.threads(&tenant, &filter).await).await?));
    }
    let load = async |n| -> Result<LoadedLog, EngineBenchError> {
        Ok(store.load(&thread(1 + n * 7_919 % threads)?, None).await?)
    };
    costs.push(("load", median_micros(load).await?));
    costs.push(("turn", median_micros(async |n| run_turn(store, 1 + n * 104_729 % threads).await).await?));
    costs.push(("claim", median_micros(async |_| store.claim(&worker(), None, 64).await).await?));
    let retention = Retention { old_entries: Some(Duration::from_secs(60)), ..Retention::default() };
    // The first looks at everything.
    store.gc(&retention).await?;
    costs.push(("gc", median_micros(async |_| store.gc(&retention).await).await?));
    Ok(costs)
}

/// A run that starts and ends.
async fn run_turn(store: &dyn Store, number: u64) -> Result<(), EngineBenchError> {
    let first = NewRunEntry { kind: EntryKind::Started, body: b"in".to_vec(), parent: None };
    let new = NewRun {
        thread: thread(number)?,
        run: RunId::random(),
        graph: "chat".into(),
        fingerprint: "f".into(),
        first,
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: serde_json::Map::new(),
        thread_metadata: serde_json::Map::new(),
        options: Vec::new(),
        stop_body: Vec::new(),
        claim: Some(worker()),
        durability: InputDurability::Now,
    };
    let SubmitOutcome::Started(run) = store.submit(new).await? else {
        return Err("it does not start".into());
    };
    let end =
        NewEntry { kind: EntryKind::Finished, body: b"out".to_vec(), parent: None, base: 0, snapshot: None };
    let status = Some(NewStatus { status: RunStatus::Finished, error: None });
    let commit = Commit { head: run.head, entries: vec![end], status, ..Commit::default() };
    store.commit(&run.fence(), commit).await?;
    Ok(())
}

async fn median_micros<T, E: Into<EngineBenchError>>(
    call: impl AsyncFn(u64) -> Result<T, E>,
) -> Result<f64, EngineBenchError> {
    let mut times = Vec::new();
    for n in 0..REPETITIONS {
        let begun = Instant::now();
        call(n).await.map_err(Into::into)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times).unwrap_or_default())
}

fn thread(number: u64) -> Result<ThreadKey, EngineBenchError> {
    Ok(ThreadKey::local(&format!("t{number}"))?)
}

fn worker() -> WorkerLease {
    WorkerLease { worker: Arc::from("w"), lease: Duration::from_secs(600), graphs: None }
}

fn now_ms() -> Result<i64, EngineBenchError> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}
