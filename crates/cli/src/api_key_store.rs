//! Where the API keys are: in a file of the data directory, or in the database that replicas share. Only hashes are stored.

use std::path::{Path, PathBuf};

use doran_engine::store::{KeyValue, KeyValueWrite, StoreError};

use crate::api_key_file::{self, ApiKeyRecord};
use crate::config::Config;
use crate::output::{BilingualMessage, bilingual};
use crate::replica::{SharedValues, open_shared_values};

/// Where the keys are in the database, each under its name.
const API_KEY_BUCKET: &str = "api_keys";

/// The API keys of a server and of all its replicas.
#[derive(Clone)]
pub(crate) enum ApiKeyStore {
    /// In the file of this data directory.
    File(PathBuf),
    /// In the database.
    Database(SharedValues),
}

impl ApiKeyStore {
    /// The keys of these settings. Keys of a file are moved into the database when replicas share one.
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        match open_shared_values(config).await? {
            None => Ok(Self::File(config.data_dir.clone())),
            Some(values) => {
                import_key_file(&values, &config.data_dir).await?;
                Ok(Self::Database(values))
            }
        }
    }

    /// The number of keys. Those of a file that wait to be moved into the database are counted, and stay where they are.
    pub(crate) async fn count(config: &Config) -> anyhow::Result<usize> {
        let of_file = Self::File(config.data_dir.clone()).list().await?.len();
        Ok(match open_shared_values(config).await? {
            None => of_file,
            Some(values) => of_file + Self::Database(values).list().await?.len(),
        })
    }

    /// The database, if replicas share one.
    pub(crate) fn shared_values(&self) -> Option<&SharedValues> {
        match self {
            Self::File(_) => None,
            Self::Database(values) => Some(values),
        }
    }

    /// All keys, in the order in which they were made.
    pub(crate) async fn list(&self) -> Result<Vec<ApiKeyRecord>, BilingualMessage> {
        match self {
            Self::File(data_dir) => api_key_file::read_keys(&api_key_file::key_file_path(data_dir)),
            Self::Database(values) => {
                let found = values.key_values(API_KEY_BUCKET, "").await.map_err(database_error)?;
                let mut records: Vec<ApiKeyRecord> = found.iter().filter_map(read_key).collect();
                records.sort_by(|left, right| (left.made, &left.name).cmp(&(right.made, &right.name)));
                Ok(records)
            }
        }
    }

    /// Adds a key. `false` if its name is taken.
    pub(crate) async fn add(&self, record: ApiKeyRecord) -> Result<bool, BilingualMessage> {
        match self {
            Self::File(data_dir) => api_key_file::update_keys(data_dir, |records| {
                let is_free = records.iter().all(|known| known.name != record.name);
                if is_free {
                    records.push(record);
                }
                Ok(is_free)
            }),
            Self::Database(values) => put_key(values, &record).await.map_err(database_error),
        }
    }

    /// Removes a key. `false` if there is none of this name.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, BilingualMessage> {
        match self {
            Self::File(data_dir) => api_key_file::update_keys(data_dir, |records| {
                let before = records.len();
                records.retain(|record| record.name != name);
                Ok(records.len() < before)
            }),
            Self::Database(values) => loop {
                let known = values.key_value(API_KEY_BUCKET, name).await.map_err(database_error)?;
                let Some(known) = known else { return Ok(false) };
                let write = KeyValueWrite::remove(API_KEY_BUCKET, name, known.revision);
                if values.write_key_value(write).await.map_err(database_error)?.is_some() {
                    return Ok(true);
                }
            },
        }
    }

    /// A number that changes with every change of the keys; none if that is not known.
    pub(crate) async fn revision(&self) -> Result<Option<u64>, BilingualMessage> {
        match self {
            Self::File(_) => Ok(None),
            Self::Database(values) => {
                let revisions = values.bucket_revisions().await.map_err(database_error)?;
                Ok(Some(revisions.get(API_KEY_BUCKET).copied().unwrap_or(0)))
            }
        }
    }
}

async fn put_key(values: &SharedValues, record: &ApiKeyRecord) -> Result<bool, StoreError> {
    let bytes = serde_json::to_vec(record).map_err(|error| StoreError::Other(error.into()))?;
    let write = KeyValueWrite::put(API_KEY_BUCKET, &record.name, None, &bytes);
    Ok(values.write_key_value(write).await?.is_some())
}

/// A key that cannot be read opens nothing.
fn read_key(stored: &KeyValue) -> Option<ApiKeyRecord> {
    match serde_json::from_slice::<ApiKeyRecord>(&stored.value) {
        Ok(record) if record.to_server_key().is_some() && record.name == stored.key => Some(record),
        Ok(_) | Err(_) => {
            tracing::warn!(key = stored.key, "an API key in the database cannot be read and opens nothing");
            None
        }
    }
}

fn database_error(error: StoreError) -> BilingualMessage {
    bilingual!(
        "데이터베이스의 키를 읽거나 쓸 수 없습니다",
        "the keys in the database cannot be read or written"
    )
    .with_cause(error)
}

/// Moves the keys of the file into the database, once. A key whose name another one has there gets a number behind it.
async fn import_key_file(values: &SharedValues, data_dir: &Path) -> anyhow::Result<()> {
    let path = api_key_file::key_file_path(data_dir);
    let records = api_key_file::read_keys(&path)?;
    if !path.exists() {
        return Ok(());
    }
    for record in &records {
        let known = ApiKeyStore::Database(values.clone()).list().await?;
        if known.iter().any(|known| known.has_same_hash(record)) {
            continue;
        }
        let mut renamed = record.clone();
        let mut number = 1;
        while !put_key(values, &renamed).await? {
            number += 1;
            renamed.name = format!("{}-{number}", record.name);
        }
    }
    let aside = data_dir.join("keys.toml.imported");
    std::fs::rename(&path, &aside)?;
    let (count, aside) = (records.len(), aside.display());
    tracing::warn!(
        "{count} API keys were moved from the file into the database; the file is kept as `{aside}`"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use doran_engine::TenantId;
    use doran_engine::store::RamStore;

    use super::*;
    use crate::test_directory::TestDirectory;

    fn record(name: &str) -> ApiKeyRecord {
        api_key_file::generate_key(name, &TenantId::local(), false).1
    }

    async fn names(store: &ApiKeyStore) -> Vec<String> {
        let mut names: Vec<String> =
            store.list().await.expect("keys").into_iter().map(|record| record.name).collect();
        names.sort();
        names
    }

    async fn check(here: ApiKeyStore, there: ApiKeyStore) {
        assert_eq!(names(&here).await, [""; 0]);
        let (first, revision) = (record("a"), here.revision().await.expect("revision"));
        assert!(here.add(first.clone()).await.expect("added"));
        assert!(!there.add(record("a")).await.expect("read"), "the name is taken");
        assert!(there.add(record("b")).await.expect("added"));
        assert_eq!(names(&here).await, ["a", "b"]);
        assert!(there.list().await.expect("keys").contains(&first));
        if revision.is_some() {
            assert!(here.revision().await.expect("revision") > revision);
        }
        assert!(there.remove("a").await.expect("removed"));
        assert!(!here.remove("a").await.expect("read"));
        assert_eq!(names(&here).await, ["b"]);
        assert!(here.add(record("a")).await.expect("free again"));
    }

    #[tokio::test]
    async fn keys_are_the_same_in_a_file_and_in_a_database() {
        let scratch = TestDirectory::new();
        let file = ApiKeyStore::File(scratch.path().to_owned());
        check(file.clone(), file).await;
        let values: SharedValues = Arc::new(RamStore::new());
        check(ApiKeyStore::Database(values.clone()), ApiKeyStore::Database(values)).await;
    }

    #[tokio::test]
    async fn keys_of_files_are_imported_once_and_none_replaces_another() {
        let values: SharedValues = Arc::new(RamStore::new());
        let shared = ApiKeyStore::Database(values.clone());
        let (one, two) = (TestDirectory::new(), TestDirectory::new());
        for scratch in [&one, &two] {
            let file = ApiKeyStore::File(scratch.path().to_owned());
            assert!(file.add(record("laptop")).await.expect("added"));
            import_key_file(&values, scratch.path()).await.expect("imported");
            assert!(!api_key_file::key_file_path(scratch.path()).exists());
        }
        assert_eq!(names(&shared).await, ["laptop", "laptop-2"]);
        assert!(shared.remove("laptop").await.expect("removed"));
        import_key_file(&values, one.path()).await.expect("nothing to do");
        assert_eq!(names(&shared).await, ["laptop-2"], "a revoked key does not come back");
    }
}
