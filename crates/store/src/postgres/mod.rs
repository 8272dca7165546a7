//! The PostgreSQL store, for several replicas that share one database.
//!
//! Every write is one call of one SQL function: one round trip and one transaction. The functions are in
//! `migrations/postgres`. Leases and timestamps use the database's clock. Every write first locks the row of its
//! thread, which is the only point where replicas wait for each other.
//!
//! | module | content |
//! |---|---|
//! | `url` | connection URLs and session settings |
//! | `tls` | connections with and without TLS |
//! | `pool` | connections, timeouts, retries |
//! | `wal_flush` | which commits are on the server's disk |
//! | `error` | conversion of database errors |
//! | `migrate` | schema migrations |
//! | `format_check` | no writes after a newer program has migrated the schema |
//! | `row` | conversion of rows |
//! | `write_batcher`, `batched_writes` | writes of several runs in one statement |
//! | `runs`, `history`, `idempotency`, `items`, `key_values`, `timers`, `thread_maintenance` | the store traits |

mod batched_writes;
mod error;
mod format_check;
mod history;
mod idempotency;
mod items;
mod key_values;
mod migrate;
mod pool;
mod row;
mod runs;
mod thread_maintenance;
mod timers;
mod tls;
mod url;
mod wal_flush;
mod write_batcher;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::StoreError;

use self::batched_writes::{RunEndBatchWriter, RunStartBatchWriter, StepBatchWriter};
use self::format_check::CheckedPool;
use self::pool::PostgresPool;
use self::url::PostgresTarget;
use self::write_batcher::WriteBatcher;
use crate::{InspectedFormat, SharedFormat};

/// A store in one schema of a PostgreSQL database (version 13 or newer). Clones share their connections.
#[derive(Clone)]
pub struct PostgresStore {
    pool: CheckedPool,
    start_batcher: Arc<WriteBatcher<RunStartBatchWriter>>,
    step_batcher: Arc<WriteBatcher<StepBatchWriter>>,
    end_batcher: Arc<WriteBatcher<RunEndBatchWriter>>,
}

/// Connection options.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?schema=doran`. For a Unix socket, the host is its directory with
    /// `/` written as `%2F`, or it is left out and given as `?host=/directory`.
    pub url: String,
    /// The most open connections.
    pub max_connections: usize,
    /// How long to wait for a connection before the database counts as unreachable.
    pub connect_timeout: Duration,
    /// The timeout of one call. Deleting whole threads has a longer timeout of its own.
    pub statement_timeout: Duration,
}

impl PostgresOptions {
    /// The defaults: 8 connections, 4 seconds to connect, 8 seconds for a call.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            max_connections: 8,
            connect_timeout: Duration::from_secs(4),
            statement_timeout: Duration::from_secs(8),
        }
    }
}

/// The URL may contain a password, so it is not printed.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("connections", &self.max_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the store at a URL and migrates its schema.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(&PostgresOptions::new(url)).await
    }

    /// Opens the store and migrates its schema. Several processes may do so at the same time.
    pub async fn open_with(options: &PostgresOptions) -> Result<Self, StoreError> {
        let mut target = PostgresTarget::parse(options)?;
        let ready = tokio::time::timeout(migrate::MIGRATION_TIMEOUT, migrate::migrate(&target)).await;
        let seen = ready.map_err(|_| error::unavailable("the database did not become ready in time"))??;
        if seen.asynchronous_commit {
            target.set_session_option("synchronous_commit", "on");
        }
        let pool = PostgresPool::new(&target, options)?;
        Ok(Self {
            start_batcher: WriteBatcher::new(RunStartBatchWriter(pool.clone())),
            step_batcher: WriteBatcher::new(StepBatchWriter(pool.clone())),
            end_batcher: WriteBatcher::new(RunEndBatchWriter(pool.clone())),
            pool: CheckedPool::new(pool),
        })
    }
}

/// Reads the format of the database at a URL, and changes nothing.
pub(crate) async fn inspect(url: &str) -> Result<InspectedFormat, StoreError> {
    let target = PostgresTarget::parse(&PostgresOptions::new(url))?;
    migrate::inspect(&target).await
}

#[async_trait]
impl SharedFormat for PostgresStore {
    async fn wait_for_newer_format(&self) -> StoreError {
        self.pool.wait_for_newer_format().await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresStore")
    }
}
