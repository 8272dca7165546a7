//! A store in PostgreSQL, for several replicas that share one database.
//!
//! Every write is one call of one SQL function, and so one round trip and one transaction; the functions are in
//! `migrations/postgres`. Leases and all times are the database's. Two replicas meet only at the row of a thread,
//! which every write locks first.
//!
//! | file | what |
//! |---|---|
//! | `url` | what a URL says |
//! | `pool` | connections, deadlines, what is tried again |
//! | `error` | what an error of the database means for the caller |
//! | `migrate` | bringing the schema up to date |
//! | `row` | rows into records |
//! | `lane`, `together` | writes of several runs in one statement |
//! | `runs`, `history`, `upkeep` | the traits |

mod batched_writes;
mod error;
mod history;
mod migrate;
mod pool;
mod row;
mod runs;
mod thread_maintenance;
mod tls;
mod url;
mod write_batcher;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use doran_engine::store::StoreError;

use self::batched_writes::{RunEndBatchWriter, RunStartBatchWriter, StepBatchWriter};
use self::pool::PostgresPool;
use self::url::PostgresTarget;
use self::write_batcher::WriteBatcher;

/// Keeps everything in a schema of a PostgreSQL database (13 or newer). Clones share their connections.
#[derive(Clone)]
pub struct PostgresStore {
    pool: PostgresPool,
    start_batcher: Arc<WriteBatcher<RunStartBatchWriter>>,
    step_batcher: Arc<WriteBatcher<StepBatchWriter>>,
    end_batcher: Arc<WriteBatcher<RunEndBatchWriter>>,
    format_check: Arc<migrate::FormatCheck>,
}

/// How to reach the database.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?schema=doran`. For a Unix socket the host is its folder, with
    /// slashes as `%2F`, or left out and given as `?host=/folder`.
    pub url: String,
    /// Most connections at a time.
    pub max_connections: usize,
    /// How long to wait for a connection before the database counts as unreachable.
    pub connect_timeout: Duration,
    /// How long the database may work on one call. Upkeep of whole threads has a longer time of its own.
    pub statement_timeout: Duration,
}

impl PostgresOptions {
    /// What fits most: 8 connections, 4 seconds to get one, 8 seconds for a call.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            max_connections: 8,
            connect_timeout: Duration::from_secs(4),
            statement_timeout: Duration::from_secs(8),
        }
    }
}

/// A URL may hold a password, so it is never shown.
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
    /// Opens the store behind a URL and brings its schema up to date.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(&PostgresOptions::new(url)).await
    }

    /// Opens the store and brings its schema up to date. Several programs may do so at the same time.
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
            pool,
            format_check: Arc::default(),
        })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresStore")
    }
}
