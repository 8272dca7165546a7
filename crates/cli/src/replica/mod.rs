//! What the replicas of one PostgreSQL database share besides threads and runs. Each kind of thing is a bucket of the
//! database ([`KeyValueStore`]); with SQLite it is a file of the data directory.

mod library_database;
pub(crate) mod registration;
pub(crate) mod shared_mcp_pins;
pub(crate) mod shared_models;

use std::sync::Arc;

use doran_engine::store::KeyValueStore;

use crate::assemble;
use crate::config::{Config, Database, SearchStore};

pub(crate) use library_database::SharedLibraryDatabase;

/// Where settings are that hold for all replicas.
const SETTING_BUCKET: &str = "settings";

/// The database of the things that replicas share.
pub(crate) type SharedValues = Arc<dyn KeyValueStore>;

/// Opens the database of the settings, if replicas can share it.
pub(crate) async fn open_shared_values(config: &Config) -> anyhow::Result<Option<SharedValues>> {
    match &config.database {
        Database::Sqlite(_) => Ok(None),
        Database::Postgres(_) => Ok(assemble::open_database(&config.database).await?.key_values),
    }
}

/// Whether replicas share the documents: their list is in the database and their passages in a cluster.
pub(crate) fn shares_documents(config: &Config) -> bool {
    matches!(config.database, Database::Postgres(_))
        && matches!(config.search.store, SearchStore::OpenSearch(_))
}
