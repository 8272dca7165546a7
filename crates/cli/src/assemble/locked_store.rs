//! The store of the settings, with the lock on its data directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use doran_agents::{Settings, ThreadStorage};
use doran_engine::store::{IdempotencyStore, RamStore, Store};
use doran_store::{FileStoreMaintenance, OpenedStore, SharedFormat, StorePerGraph};

use super::agents::agents_error;
use crate::config::{Config, Database};
use crate::data_dir::{DataDirLock, ensure_private_dir, exposed_database_files, make_private};
use crate::output::BilingualMessage;
use crate::replica::SharedValues;
use crate::store_advice::store_open_error;

/// The opened store and the lock on its data directory, without a runtime or agents.
pub(crate) struct LockedStore {
    pub(crate) store: Arc<dyn Store>,
    pub(super) idempotency: Arc<dyn IdempotencyStore>,
    /// What replicas share, if they can.
    pub(super) shared: Option<SharedValues>,
    /// The stores that are local files.
    pub(super) file_maintenance: Vec<Arc<dyn FileStoreMaintenance>>,
    /// Tells when a newer program has migrated the store, if another one can.
    pub(super) shared_format: Option<Arc<dyn SharedFormat>>,
    /// Whether the store was created by this start.
    pub(super) is_new: bool,
    pub(super) data_dir_lock: Option<DataDirLock>,
}

/// Locks the data directory and opens its store.
pub(crate) async fn open_locked_store(config: &Config) -> anyhow::Result<LockedStore> {
    let (held, new) = match &config.database {
        Database::Sqlite(path) => (Some(DataDirLock::acquire(&config.data_dir)?), !path.exists()),
        // Replicas share a database server. What only reads it needs no lock on the data directory.
        Database::Postgres(_) => {
            ensure_private_dir(&config.data_dir)?;
            (None, false)
        }
    };
    let OpenedStore { store, mut idempotency, key_values: shared, file_maintenance, shared_format } =
        open_database(&config.database).await?;
    let mut file_maintenance: Vec<_> = file_maintenance.into_iter().collect();
    let storage = agents_by_storage(config, &config.tables.agent_settings())?;
    if storage.is_empty() {
        return Ok(LockedStore {
            store,
            idempotency,
            shared,
            file_maintenance,
            shared_format,
            is_new: new,
            data_dir_lock: held,
        });
    }
    let mut stores = StorePerGraph::new(store);
    for (file, agents) in storage {
        let Some(path) = file else {
            let store = Arc::new(RamStore::new());
            // The stored responses contain parts of threads.
            idempotency = store.clone();
            stores = stores.with_store(store, agents);
            continue;
        };
        let opened = open_database(&Database::Sqlite(path)).await?;
        file_maintenance.extend(opened.file_maintenance);
        stores = stores.with_store(opened.store, agents);
    }
    let store = Arc::new(stores);
    Ok(LockedStore {
        store,
        idempotency,
        shared,
        file_maintenance,
        shared_format,
        is_new: new,
        data_dir_lock: held,
    })
}

/// Locks the data directory if it is not held yet and the store does not lock it: one process at a time changes the
/// documents and the index in it.
pub(super) fn lock_shared_store_directory(
    config: &Config,
    held: Option<DataDirLock>,
) -> Result<Option<DataDirLock>, BilingualMessage> {
    match (held, &config.database) {
        (None, Database::Postgres(_)) => DataDirLock::acquire(&config.data_dir).map(Some),
        (held, _) => Ok(held),
    }
}

pub(crate) async fn open_database(database: &Database) -> anyhow::Result<OpenedStore> {
    make_private(&exposed_database_files(database));
    Ok(doran_store::open(&database.url()).await.map_err(|error| store_open_error(database, error))?)
}

/// The agents whose threads are not in `database`, by the file that has them, or by none if it is memory.
pub(crate) fn agents_by_storage(
    config: &Config,
    settings: &Settings,
) -> Result<BTreeMap<Option<PathBuf>, Vec<String>>, BilingualMessage> {
    let mut agents: BTreeMap<Option<PathBuf>, Vec<String>> = BTreeMap::new();
    for (name, settings) in settings.by_agent() {
        let file = match settings.thread_storage(name).map_err(agents_error)? {
            ThreadStorage::Shared => continue,
            ThreadStorage::Memory => None,
            ThreadStorage::File(path) => Some(config.resolve_settings_path(path)),
        };
        if file.as_ref().is_some_and(|path| config.database == Database::Sqlite(path.clone())) {
            continue;
        }
        agents.entry(file).or_default().push(name.to_owned());
    }
    Ok(agents)
}
