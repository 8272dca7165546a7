//! The stores that benchmarks run on: none, RAM, SQLite, PostgreSQL. Each is opened empty and removed afterwards.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doran_engine::store::{RamStore, Store};
use doran_store::postgres::PostgresStore;
use doran_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::EngineBenchError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineBenchStoreKind {
    None,
    Ram,
    Sqlite,
    Postgres,
}

impl EngineBenchStoreKind {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Ram, Self::Sqlite, Self::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ram => "ram",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    pub(crate) fn on_disk(self) -> bool {
        matches!(self, Self::Sqlite | Self::Postgres)
    }
}

/// Where the databases of this run lie.
pub(crate) struct EngineBenchDatabases {
    /// In the build folder, not in the folder for temporary files: that may be memory, and syncing memory is free.
    dir: TempDir,
    /// Address of the PostgreSQL server, when there is one.
    pub postgres: Option<String>,
    opened: Cell<u32>,
}

impl EngineBenchDatabases {
    pub(crate) fn new(postgres: Option<String>) -> Result<Self, EngineBenchError> {
        let dir = TempDir::with_prefix_in("bench-", env!("CARGO_TARGET_TMPDIR"))?;
        Ok(Self { dir, postgres, opened: Cell::new(0) })
    }

    /// A file that does not exist yet.
    pub(crate) fn new_file_path(&self) -> PathBuf {
        self.dir.path().join(format!("{}.db", self.next_number()))
    }

    /// The server's address, or why there is none.
    pub(crate) fn postgres_url(&self) -> Result<&str, EngineBenchError> {
        self.postgres.as_deref().ok_or_else(|| "there is no PostgreSQL".into())
    }

    /// An empty store. `None` for no store.
    pub(crate) async fn open(
        &self,
        kind: EngineBenchStoreKind,
    ) -> Result<Option<EngineBenchStore>, EngineBenchError> {
        Ok(match kind {
            EngineBenchStoreKind::None => None,
            EngineBenchStoreKind::Ram => Some(EngineBenchStore {
                store: Arc::new(RamStore::new()),
                sqlite: None,
                location: EngineBenchStoreLocation::Ram,
            }),
            EngineBenchStoreKind::Sqlite => {
                let path = self.new_file_path();
                let sqlite = SqliteStore::open(&path)?;
                Some(EngineBenchStore {
                    store: Arc::new(sqlite.clone()),
                    sqlite: Some(sqlite),
                    location: EngineBenchStoreLocation::File(path),
                })
            }
            EngineBenchStoreKind::Postgres => {
                let url = self.postgres_url()?.to_owned();
                let schema = format!("doran_bench_{}_{}", std::process::id(), self.next_number());
                let store = Arc::new(PostgresStore::open(&with_schema(&url, &schema)).await?);
                let location = EngineBenchStoreLocation::Schema { url, schema };
                Some(EngineBenchStore { store, sqlite: None, location })
            }
        })
    }

    fn next_number(&self) -> u32 {
        self.opened.set(self.opened.get() + 1);
        self.opened.get()
    }
}

/// A store and its place.
pub(crate) struct EngineBenchStore {
    pub store: Arc<dyn Store>,
    /// The same store, when it counts how often it waits for the disk.
    pub sqlite: Option<SqliteStore>,
    pub location: EngineBenchStoreLocation,
}

pub(crate) enum EngineBenchStoreLocation {
    Ram,
    File(PathBuf),
    Schema { url: String, schema: String },
}

impl EngineBenchStore {
    /// Closes the store and removes what it kept.
    pub(crate) async fn clear(self) -> Result<(), EngineBenchError> {
        drop((self.store, self.sqlite));
        self.location.clear().await
    }
}

impl EngineBenchStoreLocation {
    /// Opens the store there once more. The one that had it must be closed.
    pub(crate) async fn reopen(&self) -> Result<Arc<dyn Store>, EngineBenchError> {
        Ok(match self {
            Self::Ram => return Err("what was in memory is gone".into()),
            Self::File(path) => Arc::new(SqliteStore::open(path)?),
            Self::Schema { url, schema } => Arc::new(PostgresStore::open(&with_schema(url, schema)).await?),
        })
    }

    /// Everything that is on disk: for SQLite the file once its log was moved into it and what is left of the log,
    /// for PostgreSQL the tables with their indexes and TOAST.
    pub(crate) async fn bytes_on_disk(&self) -> Result<u64, EngineBenchError> {
        match self {
            Self::Ram => Ok(0),
            Self::File(path) => {
                let conn = Connection::open(path)?;
                conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
                Ok(std::fs::metadata(path)?.len() + file_size(&path_with_suffix(path, "-wal")))
            }
            Self::Schema { url, schema } => {
                let sql = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
                           WHERE relkind = 'r' AND relnamespace = $1::text::regnamespace";
                let bytes: i64 = connect_plain(url).await?.query_one(sql, &[schema]).await?.get(0);
                Ok(u64::try_from(bytes)?)
            }
        }
    }

    pub(crate) async fn clear(self) -> Result<(), EngineBenchError> {
        match self {
            Self::Ram => {}
            Self::File(path) => {
                for ending in ["", "-wal", "-shm", ".lock"] {
                    let file = path_with_suffix(&path, ending);
                    if file.exists() {
                        std::fs::remove_file(file)?;
                    }
                }
            }
            Self::Schema { url, schema } => {
                connect_plain(&url).await?.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
            }
        }
        Ok(())
    }
}

/// A plain connection, for what is no business of a store.
pub(crate) async fn connect_plain(url: &str) -> Result<Client, EngineBenchError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn with_schema(url: &str, schema: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}schema={schema}")
}

fn path_with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}
