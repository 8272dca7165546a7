//! What the database alone takes to put the bytes of a step on disk, measured in turns with a run that does it.

use std::time::{Duration, Instant};

use doran_engine::store::{EntryKind, Store};
use doran_engine::{Runtime, ThreadKey};
use rusqlite::Connection;
use tokio_postgres::{Client, Statement};

use crate::EngineBenchError;
use crate::bench_stores::{EngineBenchDatabases, EngineBenchStoreKind, connect_plain};
use crate::measurement::{EngineBenchRuns, EngineBenchSlice, EngineBenchSlices};
use crate::node_cases::{NodeBenchCase, NodeBenchSubject};

/// Commits in one turn of the floor: as many as one run has steps.
const COMMITS_PER_TURN: usize = 100;

/// A loop of 100 steps, and as many commits of the same bytes without an engine.
pub(crate) struct FloorComparison {
    pub doran: EngineBenchSlice,
    pub floor: EngineBenchSlice,
    /// In the entry of one step.
    pub bytes: usize,
}

/// Takes turns for `time`.
pub(crate) async fn compare_with_floor(
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
    time: Duration,
) -> Result<Option<FloorComparison>, EngineBenchError> {
    let Some(opened) = ground.open(kind).await? else { return Ok(None) };
    let runtime = Runtime::new(opened.store.clone());
    let subject = NodeBenchSubject::new(NodeBenchCase::Loop100, Some(&runtime))?;
    let first = subject.next_thread()?;
    subject.run_once().await?;
    let bytes = step_bytes(&*opened.store, &first).await?;
    let mut bare = BareDatabase::open(kind, ground, bytes).await?;
    bare.insert_rows().await?;

    let (mut doran, mut floor) = (EngineBenchSlices::default(), EngineBenchSlices::default());
    let begun = Instant::now();
    while begun.elapsed() < time {
        doran.push(subject.measure_one().await?);
        let (mut runs, start) = (EngineBenchRuns::begin(COMMITS_PER_TURN), Instant::now());
        bare.insert_rows().await?;
        runs.push(start.elapsed());
        floor.push(runs.to_slice());
    }
    bare.clear().await?;
    drop(subject);
    runtime.shutdown(Duration::from_secs(5)).await;
    opened.clear().await?;
    Ok(doran.median_slice().zip(floor.median_slice()).map(|(doran, floor)| FloorComparison {
        doran,
        floor,
        bytes,
    }))
}

/// Mean size of the steps of a thread.
async fn step_bytes(store: &dyn Store, thread: &ThreadKey) -> Result<usize, EngineBenchError> {
    let entries = store.entries(thread, 0, 1000).await?;
    let steps: Vec<usize> =
        entries.iter().filter(|entry| entry.kind == EntryKind::Step).map(|entry| entry.body.len()).collect();
    Ok(steps.iter().sum::<usize>() / steps.len().max(1))
}

/// A table with one column, and nothing else.
enum BareDatabase {
    Sqlite { conn: Connection, body: Vec<u8> },
    Postgres { client: Client, insert: Statement, table: String, body: Vec<u8> },
}

impl BareDatabase {
    async fn open(
        kind: EngineBenchStoreKind,
        ground: &EngineBenchDatabases,
        bytes: usize,
    ) -> Result<Self, EngineBenchError> {
        let body = vec![b'x'; bytes];
        if kind == EngineBenchStoreKind::Postgres {
            let client = connect_plain(ground.postgres_url()?).await?;
            let table = format!("doran_floor_{}", std::process::id());
            client
                .batch_execute(&format!("CREATE TABLE {table} (id bigserial PRIMARY KEY, body bytea)"))
                .await?;
            let insert = client.prepare(&format!("INSERT INTO {table} (body) VALUES ($1)")).await?;
            return Ok(Self::Postgres { client, insert, table, body });
        }
        let conn = Connection::open(ground.new_file_path())?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute_batch("CREATE TABLE floor (id INTEGER PRIMARY KEY, body BLOB)")?;
        Ok(Self::Sqlite { conn, body })
    }

    async fn insert_rows(&mut self) -> Result<(), EngineBenchError> {
        match self {
            Self::Sqlite { conn, body } => tokio::task::block_in_place(|| {
                let mut insert = conn.prepare_cached("INSERT INTO floor (body) VALUES (?1)")?;
                for _ in 0..COMMITS_PER_TURN {
                    insert.execute([&*body])?;
                }
                Ok(())
            }),
            Self::Postgres { client, insert, body, .. } => {
                for _ in 0..COMMITS_PER_TURN {
                    client.execute(insert, &[body]).await?;
                }
                Ok(())
            }
        }
    }

    async fn clear(self) -> Result<(), EngineBenchError> {
        if let Self::Postgres { client, table, .. } = self {
            client.batch_execute(&format!("DROP TABLE {table}")).await?;
        }
        Ok(())
    }
}

/// Durable steps a second with so many runs at once, one reading for each of `times`.
pub(crate) async fn steps_at_once(
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
    runs: usize,
    times: usize,
) -> Result<Vec<f64>, EngineBenchError> {
    let Some(opened) = ground.open(kind).await? else { return Ok(Vec::new()) };
    let runtime = Runtime::new(opened.store.clone());
    let subject = NodeBenchSubject::new(NodeBenchCase::Loop100, Some(&runtime))?;
    subject.run_once().await?;
    let mut rates = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..runs)
            .map(|_| {
                let subject = subject.clone();
                tokio::spawn(async move { subject.run_once().await })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        rates.push((runs * NodeBenchCase::Loop100.nodes()) as f64 / begun.elapsed().as_secs_f64());
    }
    drop(subject);
    runtime.shutdown(Duration::from_secs(5)).await;
    opened.clear().await?;
    Ok(rates)
}
