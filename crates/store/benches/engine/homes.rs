//! Where runs are kept: the four stores, each opened empty and cleared away afterwards.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doran_engine::store::{RamStore, Store};
use doran_store::postgres::PostgresStore;
use doran_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::Fail;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    None,
    Ram,
    Sqlite,
    Postgres,
}

impl Home {
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
pub(crate) struct Ground {
    /// In the build folder, not in the folder for temporary files: that may be memory, and syncing memory is free.
    dir: TempDir,
    /// Address of the PostgreSQL server, when there is one.
    pub postgres: Option<String>,
    opened: Cell<u32>,
}

impl Ground {
    pub(crate) fn new(postgres: Option<String>) -> Result<Self, Fail> {
        let dir = TempDir::with_prefix_in("bench-", env!("CARGO_TARGET_TMPDIR"))?;
        Ok(Self { dir, postgres, opened: Cell::new(0) })
    }

    /// A file that does not exist yet.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join(format!("{}.db", self.number()))
    }

    /// The server's address, or why there is none.
    pub(crate) fn server(&self) -> Result<&str, Fail> {
        self.postgres.as_deref().ok_or_else(|| "there is no PostgreSQL".into())
    }

    /// An empty store. `None` for no store.
    pub(crate) async fn open(&self, home: Home) -> Result<Option<Opened>, Fail> {
        Ok(match home {
            Home::None => None,
            Home::Ram => Some(Opened { store: Arc::new(RamStore::new()), place: Place::Ram }),
            Home::Sqlite => {
                let path = self.file();
                Some(Opened { store: Arc::new(SqliteStore::open(&path)?), place: Place::File(path) })
            }
            Home::Postgres => {
                let url = self.server()?.to_owned();
                let schema = format!("doran_bench_{}_{}", std::process::id(), self.number());
                let store = Arc::new(PostgresStore::open(&with_schema(&url, &schema)).await?);
                Some(Opened { store, place: Place::Schema { url, schema } })
            }
        })
    }

    fn number(&self) -> u32 {
        self.opened.set(self.opened.get() + 1);
        self.opened.get()
    }
}

/// A store and its place.
pub(crate) struct Opened {
    pub store: Arc<dyn Store>,
    pub place: Place,
}

pub(crate) enum Place {
    Ram,
    File(PathBuf),
    Schema { url: String, schema: String },
}

impl Opened {
    /// Closes the store and removes what it kept.
    pub(crate) async fn clear(self) -> Result<(), Fail> {
        drop(self.store);
        self.place.clear().await
    }
}

impl Place {
    /// Opens the store there once more. The one that had it must be closed.
    pub(crate) async fn reopen(&self) -> Result<Arc<dyn Store>, Fail> {
        Ok(match self {
            Self::Ram => return Err("what was in memory is gone".into()),
            Self::File(path) => Arc::new(SqliteStore::open(path)?),
            Self::Schema { url, schema } => Arc::new(PostgresStore::open(&with_schema(url, schema)).await?),
        })
    }

    /// Everything that is on disk: for SQLite the file once its log was moved into it and what is left of the log,
    /// for PostgreSQL the tables with their indexes and TOAST.
    pub(crate) async fn bytes(&self) -> Result<u64, Fail> {
        match self {
            Self::Ram => Ok(0),
            Self::File(path) => {
                let conn = Connection::open(path)?;
                conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
                Ok(std::fs::metadata(path)?.len() + size(&beside(path, "-wal")))
            }
            Self::Schema { url, schema } => {
                let sql = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
                           WHERE relkind = 'r' AND relnamespace = $1::text::regnamespace";
                let bytes: i64 = connect(url).await?.query_one(sql, &[schema]).await?.get(0);
                Ok(u64::try_from(bytes)?)
            }
        }
    }

    pub(crate) async fn clear(self) -> Result<(), Fail> {
        match self {
            Self::Ram => {}
            Self::File(path) => {
                for ending in ["", "-wal", "-shm", ".lock"] {
                    let file = beside(&path, ending);
                    if file.exists() {
                        std::fs::remove_file(file)?;
                    }
                }
            }
            Self::Schema { url, schema } => {
                connect(&url).await?.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
            }
        }
        Ok(())
    }
}

/// A plain connection, for what is no business of a store.
pub(crate) async fn connect(url: &str) -> Result<Client, Fail> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn with_schema(url: &str, schema: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}schema={schema}")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}
