//! Stores for the engine: SQLite and PostgreSQL. The only crate that contains SQL.
//!
//! [`open`] picks the store for a URL. Every store implements the contract of [`doran_engine::store`] and passes its
//! conformance suite. Stored bodies are opaque to this crate; the engine defines their format.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migrations;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store_per_graph;

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::store::{BoxError, IdempotencyStore, KeyValueStore, RamStore, Store, StoreError};

pub use self::store_per_graph::StorePerGraph;

/// A store, with the maintenance operations its backend supports.
#[derive(Clone)]
pub struct OpenedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The same database, for the responses of a server.
    pub idempotency: Arc<dyn IdempotencyStore>,
    /// The same database, for what replicas share. Set when several processes can use the store.
    pub key_values: Option<Arc<dyn KeyValueStore>>,
    /// Set when the store is a local file that this process has locked.
    pub file_maintenance: Option<Arc<dyn FileStoreMaintenance>>,
    /// Set when several processes can use the store, so that a newer one may migrate it while this one runs.
    pub shared_format: Option<Arc<dyn SharedFormat>>,
}

/// The format of a database that several processes use.
#[async_trait]
pub trait SharedFormat: Send + Sync + 'static {
    /// Waits until a newer program has migrated the database. Returns the error that every write gets from then on: the
    /// process can only end.
    async fn wait_for_newer_format(&self) -> StoreError;
}

/// The format of a database, as [`inspect`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectedFormat {
    /// What is there. `None` if nothing is there yet.
    pub found: Option<u32>,
    /// What this program writes. It migrates an older format when it opens the store.
    pub known: u32,
}

/// Why a database server let nobody in, where trying again does not help. The source of a [`StoreError::Other`].
#[derive(Debug)]
pub enum RefusedLogin {
    /// The user, the password or the address of this machine.
    Credentials(BoxError),
    /// There is no such database.
    NoDatabase(BoxError),
}

impl fmt::Display for RefusedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials(_) => "the database server does not accept the user or the password",
            Self::NoDatabase(_) => "the database server has no such database",
        })
    }
}

impl Error for RefusedLogin {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let (Self::Credentials(cause) | Self::NoDatabase(cause)) = self;
        Some(cause.as_ref())
    }
}

/// Maintenance of a store that is a local file. A database server has its own tools for this.
#[async_trait]
pub trait FileStoreMaintenance: Send + Sync + 'static {
    /// Writes a consistent copy to a new file while the store is in use. Never overwrites an existing file.
    async fn backup(&self, to: &Path) -> Result<(), StoreError>;

    /// Reads the whole file and checks it for corruption.
    async fn integrity_check(&self) -> Result<(), StoreError>;

    /// Waits for a write error that only a restart of the process can resolve, and returns its cause.
    async fn wait_for_fatal_error(&self) -> Arc<str>;
}

/// Opens the store for a URL:
///
/// | URL | store |
/// |---|---|
/// | `sqlite:PATH`, or a path without a scheme | a SQLite file, created if it does not exist |
/// | `postgres://USER:PASSWORD@HOST:PORT/DATABASE` | a PostgreSQL database, which several processes can share |
/// | `ram:` | in memory, lost when the process ends |
pub async fn open(url: &str) -> Result<OpenedStore, StoreError> {
    if url == "ram:" {
        let store = Arc::new(RamStore::new());
        let idempotency = store.clone();
        return Ok(OpenedStore {
            store,
            idempotency,
            key_values: None,
            file_maintenance: None,
            shared_format: None,
        });
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return open_postgres(url).await;
    }
    if let Some(path) = sqlite_path(url) {
        return open_sqlite(path).await;
    }
    Err(unknown_scheme_error(url))
}

/// Looks at the store for a URL without changing it: whether it can be opened, and which format it has. A local file is
/// read to its end and checked for corruption; no other process should have it open.
pub async fn inspect(url: &str) -> Result<InspectedFormat, StoreError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return inspect_postgres(url).await;
    }
    match sqlite_path(url) {
        Some(path) => inspect_sqlite(path).await,
        None => Err(unknown_scheme_error(url)),
    }
}

fn unknown_scheme_error(url: &str) -> StoreError {
    let scheme = url.split(':').next().unwrap_or_default();
    StoreError::Other(format!("`{scheme}:` is no store: use `sqlite:PATH`, `postgres://…` or `ram:`").into())
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str) -> Result<OpenedStore, StoreError> {
    let store = Arc::new(postgres::PostgresStore::open(url).await?);
    Ok(OpenedStore {
        store: store.clone(),
        idempotency: store.clone(),
        key_values: Some(store.clone()),
        file_maintenance: None,
        shared_format: Some(store),
    })
}

#[cfg(feature = "postgres")]
async fn inspect_postgres(url: &str) -> Result<InspectedFormat, StoreError> {
    postgres::inspect(url).await
}

#[cfg(not(feature = "postgres"))]
async fn inspect_postgres(_url: &str) -> Result<InspectedFormat, StoreError> {
    Err(StoreError::Other("this program was built without PostgreSQL".into()))
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_url: &str) -> Result<OpenedStore, StoreError> {
    Err(StoreError::Other("this program was built without PostgreSQL".into()))
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &str) -> Result<OpenedStore, StoreError> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || sqlite::SqliteStore::open(path)).await;
    let store = Arc::new(opened.map_err(|error| StoreError::Other(error.into()))??);
    let idempotency = store.clone();
    Ok(OpenedStore {
        store: store.clone(),
        idempotency,
        key_values: None,
        file_maintenance: Some(store),
        shared_format: None,
    })
}

#[cfg(feature = "sqlite")]
async fn inspect_sqlite(path: &str) -> Result<InspectedFormat, StoreError> {
    let path = std::path::PathBuf::from(path);
    let inspected = tokio::task::spawn_blocking(move || sqlite::inspect_file(&path)).await;
    inspected.map_err(|error| StoreError::Other(error.into()))?
}

#[cfg(not(feature = "sqlite"))]
async fn inspect_sqlite(_path: &str) -> Result<InspectedFormat, StoreError> {
    Err(StoreError::Other("this program was built without SQLite".into()))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_path: &str) -> Result<OpenedStore, StoreError> {
    Err(StoreError::Other("this program was built without SQLite".into()))
}

/// The path in a SQLite URL. A scheme has at least two letters, so `C:\data` is a path.
fn sqlite_path(url: &str) -> Option<&str> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        return Some(path.strip_prefix("//").unwrap_or(path));
    }
    let has_scheme = url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    (!has_scheme && !url.is_empty()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_a_path() {
        let check = |url, path| assert_eq!(sqlite_path(url), path, "{url}");
        check("sqlite:data/doran.db", Some("data/doran.db"));
        check("sqlite:///var/doran.db", Some("/var/doran.db"));
        check("./doran.db", Some("./doran.db"));
        check("C:\\doran.db", Some("C:\\doran.db"));
        check("postgres://host/db", None);
        check("ram:", None);
        check("", None);
    }
}
