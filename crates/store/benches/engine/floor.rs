//! What the database alone takes to put the bytes of a step on disk, measured in turns with a run that does it.

use std::time::{Duration, Instant};

use doran_engine::store::{EntryKind, Store};
use doran_engine::{Runtime, ThreadKey};
use rusqlite::Connection;
use tokio_postgres::{Client, Statement};

use crate::Fail;
use crate::cases::{Case, Subject};
use crate::homes::{Ground, Home, connect};
use crate::meter::{Runs, Side, Slice};

/// Commits in one turn of the floor: as many as one run has steps.
const COMMITS: usize = 100;

/// A loop of 100 steps, and as many commits of the same bytes without an engine.
pub(crate) struct Beside {
    pub doran: Slice,
    pub floor: Slice,
    /// In the entry of one step.
    pub bytes: usize,
}

/// Takes turns for `time`.
pub(crate) async fn beside(home: Home, ground: &Ground, time: Duration) -> Result<Option<Beside>, Fail> {
    let Some(opened) = ground.open(home).await? else { return Ok(None) };
    let runtime = Runtime::new(opened.store.clone());
    let subject = Subject::new(Case::Loop100, Some(&runtime))?;
    let first = subject.next_thread()?;
    subject.run().await?;
    let bytes = step_bytes(&*opened.store, &first).await?;
    let mut bare = Bare::open(home, ground, bytes).await?;
    bare.commits().await?;

    let (mut doran, mut floor) = (Side::default(), Side::default());
    let begun = Instant::now();
    while begun.elapsed() < time {
        doran.push(subject.measure_one().await?);
        let (mut runs, start) = (Runs::begin(COMMITS), Instant::now());
        bare.commits().await?;
        runs.push(start.elapsed());
        floor.push(runs.slice());
    }
    bare.clear().await?;
    drop(subject);
    runtime.shutdown(Duration::from_secs(5)).await;
    opened.clear().await?;
    Ok(doran.total().zip(floor.total()).map(|(doran, floor)| Beside { doran, floor, bytes }))
}

/// Mean size of the steps of a thread.
async fn step_bytes(store: &dyn Store, thread: &ThreadKey) -> Result<usize, Fail> {
    let entries = store.entries(thread, 0, 1000).await?;
    let steps: Vec<usize> =
        entries.iter().filter(|entry| entry.kind == EntryKind::Step).map(|entry| entry.body.len()).collect();
    Ok(steps.iter().sum::<usize>() / steps.len().max(1))
}

/// A table with one column, and nothing else.
enum Bare {
    Sqlite { conn: Connection, body: Vec<u8> },
    Postgres { client: Client, insert: Statement, table: String, body: Vec<u8> },
}

impl Bare {
    async fn open(home: Home, ground: &Ground, bytes: usize) -> Result<Self, Fail> {
        let body = vec![b'x'; bytes];
        if home == Home::Postgres {
            let client = connect(ground.server()?).await?;
            let table = format!("doran_floor_{}", std::process::id());
            client
                .batch_execute(&format!("CREATE TABLE {table} (id bigserial PRIMARY KEY, body bytea)"))
                .await?;
            let insert = client.prepare(&format!("INSERT INTO {table} (body) VALUES ($1)")).await?;
            return Ok(Self::Postgres { client, insert, table, body });
        }
        let conn = Connection::open(ground.file())?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute_batch("CREATE TABLE floor (id INTEGER PRIMARY KEY, body BLOB)")?;
        Ok(Self::Sqlite { conn, body })
    }

    async fn commits(&mut self) -> Result<(), Fail> {
        match self {
            Self::Sqlite { conn, body } => tokio::task::block_in_place(|| {
                let mut insert = conn.prepare_cached("INSERT INTO floor (body) VALUES (?1)")?;
                for _ in 0..COMMITS {
                    insert.execute([&*body])?;
                }
                Ok(())
            }),
            Self::Postgres { client, insert, body, .. } => {
                for _ in 0..COMMITS {
                    client.execute(insert, &[body]).await?;
                }
                Ok(())
            }
        }
    }

    async fn clear(self) -> Result<(), Fail> {
        if let Self::Postgres { client, table, .. } = self {
            client.batch_execute(&format!("DROP TABLE {table}")).await?;
        }
        Ok(())
    }
}

/// Durable steps a second with so many runs at once, one reading for each of `times`.
pub(crate) async fn steps_at_once(
    home: Home,
    ground: &Ground,
    runs: usize,
    times: usize,
) -> Result<Vec<f64>, Fail> {
    let Some(opened) = ground.open(home).await? else { return Ok(Vec::new()) };
    let runtime = Runtime::new(opened.store.clone());
    let subject = Subject::new(Case::Loop100, Some(&runtime))?;
    subject.run().await?;
    let mut rates = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..runs)
            .map(|_| {
                let subject = subject.clone();
                tokio::spawn(async move { subject.run().await })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        rates.push((runs * Case::Loop100.nodes()) as f64 / begun.elapsed().as_secs_f64());
    }
    drop(subject);
    runtime.shutdown(Duration::from_secs(5)).await;
    opened.clear().await?;
    Ok(rates)
}
