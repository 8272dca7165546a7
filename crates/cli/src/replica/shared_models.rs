//! The models that were entered on the page, in the database that replicas share. The file of the data directory is a copy of
//! them, from which models are opened.

use std::path::PathBuf;
use std::time::Duration;

use doran_engine::store::{KeyValueWrite, StoreError};
use tokio_util::sync::CancellationToken;

use super::{SETTING_BUCKET, SharedValues};
use crate::config::{Config, SHARED_KEY_VARIABLE};
use crate::output::{BilingualMessage, bilingual};
use crate::stored_models::StoredModels;

/// The models, among the settings.
const MODELS_KEY: &str = "models";

/// How often the models are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The models in a database.
#[derive(Clone)]
pub(crate) struct SharedModels {
    values: SharedValues,
    data_dir: PathBuf,
    has_shared_key: bool,
}

impl SharedModels {
    /// Brings the file of the data directory to what the database has. What the file had before there was anything in
    /// the database is moved there.
    pub(crate) async fn open(config: &Config, values: &SharedValues) -> Result<Self, BilingualMessage> {
        let shared = Self {
            values: values.clone(),
            data_dir: config.data_dir.clone(),
            has_shared_key: config.secrets.get(SHARED_KEY_VARIABLE).is_some(),
        };
        let own = StoredModels::read(&shared.data_dir)?;
        if own != StoredModels::default() && shared.read().await?.is_none() {
            // Of two replicas that do this at once one is first.
            shared.write(None, &shared.for_database(own)).await?;
        }
        shared.copy_to_file().await?;
        Ok(shared)
    }

    /// The models in the database, with their revision.
    async fn read(&self) -> Result<Option<(StoredModels, u64)>, BilingualMessage> {
        let found = self.values.key_value(SETTING_BUCKET, MODELS_KEY).await.map_err(database_error)?;
        let Some(found) = found else { return Ok(None) };
        Ok(Some((StoredModels::from_bytes(&found.value)?, found.revision)))
    }

    async fn write(&self, expected: Option<u64>, models: &StoredModels) -> Result<bool, BilingualMessage> {
        let bytes = models.to_bytes()?;
        let write = KeyValueWrite::put(SETTING_BUCKET, MODELS_KEY, expected, &bytes);
        Ok(self.values.write_key_value(write).await.map_err(database_error)?.is_some())
    }

    /// Without a shared key the keys of providers are encrypted with the key of this data directory, which is of no use
    /// to others.
    fn for_database(&self, models: StoredModels) -> StoredModels {
        if self.has_shared_key { models } else { models.without_keys() }
    }

    /// Copies the models into the file. Returns whether that changed it.
    async fn copy_to_file(&self) -> Result<bool, BilingualMessage> {
        let mut models = self.read().await?.map(|(models, _)| models).unwrap_or_default();
        StoredModels::update(&self.data_dir, |stored| {
            if !self.has_shared_key {
                models = models.clone().with_keys_of(stored);
            }
            let is_changed = *stored != models;
            stored.clone_from(&models);
            Ok(is_changed)
        })
    }

    /// Changes the models of all replicas.
    pub(crate) async fn update<T>(
        &self,
        change: impl Fn(&mut StoredModels) -> Result<T, BilingualMessage>,
    ) -> Result<T, BilingualMessage> {
        loop {
            let (mut models, expected) = self.read().await?.unzip();
            let models = models.get_or_insert_default();
            let changed = change(models)?;
            if self.write(expected, models).await? {
                self.copy_to_file().await?;
                return Ok(changed);
            }
        }
    }

    /// A key of a provider that only this machine could decrypt is not accepted.
    pub(crate) fn check_shared_key(&self) -> Result<(), BilingualMessage> {
        if self.has_shared_key {
            return Ok(());
        }
        Err(bilingual!(
            "서버 여러 대가 PostgreSQL을 함께 쓸 수 있으므로 키는 모든 서버가 풀 수 있어야 합니다. 모든 서버에 같은 `{SHARED_KEY_VARIABLE}`를 주고 다시 시작하거나, 키를 환경 변수로 주세요",
            "several servers can share PostgreSQL, so all of them must be able to decrypt the key; give all of them the same `{SHARED_KEY_VARIABLE}` and start again, or give the key in an environment variable"
        ))
    }

    /// Calls `changed` whenever another replica has changed the models, until `stop`.
    pub(crate) async fn follow(self, changed: impl Fn() + Send, stop: CancellationToken) {
        let mut seen = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            let revision = match self.values.bucket_revisions().await {
                Ok(revisions) => revisions.get(SETTING_BUCKET).copied(),
                Err(error) => {
                    tracing::debug!(%error, "the models of the other servers are not known");
                    continue;
                }
            };
            if revision == seen {
                continue;
            }
            match self.copy_to_file().await {
                Ok(is_changed) => {
                    seen = revision;
                    if is_changed {
                        changed();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the models of the database cannot be read; trying again");
                }
            }
        }
    }
}

fn database_error(error: StoreError) -> BilingualMessage {
    bilingual!(
        "데이터베이스의 모델을 읽거나 쓸 수 없습니다",
        "the models in the database cannot be read or written"
    )
    .with_cause(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use doran_engine::store::RamStore;

    use super::*;
    use crate::secret::SecretText;
    use crate::test_directory::TestDirectory;

    fn shared(values: &SharedValues, scratch: &TestDirectory, has_shared_key: bool) -> SharedModels {
        SharedModels { values: values.clone(), data_dir: scratch.path().to_owned(), has_shared_key }
    }

    #[tokio::test]
    async fn models_and_keys_that_one_replica_stores_are_there_on_the_other() {
        let values: SharedValues = Arc::new(RamStore::new());
        let (one, two) = (TestDirectory::new(), TestDirectory::new());
        let (here, there) = (shared(&values, &one, true), shared(&values, &two, true));
        let encryption_key = [7; 32];
        let secret = SecretText::new("sk-hunter2");
        here.update(|models| {
            models.models.push("openai:gpt".into());
            models.set_key("openai", &secret, &encryption_key)
        })
        .await
        .expect("stored");
        assert!(there.copy_to_file().await.expect("copied"));
        assert!(!there.copy_to_file().await.expect("copied"), "nothing new");
        let stored = StoredModels::read(two.path()).expect("read");
        assert_eq!(stored.models, ["openai:gpt"]);
        assert_eq!(stored.key("openai", &encryption_key).expect("a key").expect("decrypted"), secret);
        let bytes = values.key_value(SETTING_BUCKET, MODELS_KEY).await.expect("read").expect("there").value;
        assert!(!String::from_utf8(bytes).expect("text").contains("hunter2"));
        assert!(there.update(|models| Ok(models.remove_key("openai"))).await.expect("removed"));
        assert!(here.copy_to_file().await.expect("copied"));
        assert!(!StoredModels::read(one.path()).expect("read").has_key("openai"));
    }

    #[tokio::test]
    async fn without_a_shared_key_a_key_stays_where_it_is_and_none_is_accepted() {
        let values: SharedValues = Arc::new(RamStore::new());
        let (one, two) = (TestDirectory::new(), TestDirectory::new());
        StoredModels::update(one.path(), |models| {
            models.models.push("openai:gpt".into());
            models.set_key("openai", &SecretText::new("sk-x"), &[7; 32])
        })
        .expect("stored");
        let here = shared(&values, &one, false);
        let own = StoredModels::read(one.path()).expect("read");
        assert!(here.write(None, &here.for_database(own)).await.expect("written"));
        here.copy_to_file().await.expect("copied");
        assert!(StoredModels::read(one.path()).expect("read").has_key("openai"));
        let there = shared(&values, &two, false);
        there.copy_to_file().await.expect("copied");
        let stored = StoredModels::read(two.path()).expect("read");
        assert!(stored.models == ["openai:gpt"] && !stored.has_key("openai"));
        let refused = there.check_shared_key().expect_err("refused");
        assert!(refused.en.contains("DORAN_SHARED_KEY") && refused.ko.contains("DORAN_SHARED_KEY"));
    }
}
