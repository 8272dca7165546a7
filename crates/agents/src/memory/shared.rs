//! Memories in a database that several replicas share.

use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::store::{KeyValue, KeyValueStore, KeyValueWrite, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    FileMemoryStore, MAX_FACTS_PER_OWNER, MemoryError, MemoryFact, MemoryOwner, MemoryStore, check_length,
    rank_facts,
};

/// Where the facts are in the database.
const FACT_BUCKET: &str = "memory";

/// The most bytes of the id of a fact.
const MAX_FACT_ID_BYTES: usize = 64;

/// Facts that all replicas see. Two replicas that keep a fact at the same moment may together exceed
/// [`MAX_FACTS_PER_OWNER`] by a few.
#[derive(Clone)]
pub struct SharedMemoryStore {
    values: Arc<dyn KeyValueStore>,
}

/// A fact as the database has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnedFact {
    owner: MemoryOwner,
    fact: MemoryFact,
}

impl SharedMemoryStore {
    /// The facts in this database.
    pub fn new(values: Arc<dyn KeyValueStore>) -> Self {
        Self { values }
    }

    /// Keeps everything that a file has. Returns the number of facts.
    pub async fn import(&self, file: &FileMemoryStore) -> Result<usize, MemoryError> {
        let facts = file.all_facts().await?;
        let count = facts.len();
        for (owner, fact) in facts {
            self.put(&owner, fact).await?;
        }
        Ok(count)
    }

    /// Writes a fact unless its id is taken; gives what is kept under it.
    async fn put(&self, owner: &MemoryOwner, fact: MemoryFact) -> Result<MemoryFact, MemoryError> {
        let key = fact_key(owner, &fact.id).ok_or(MemoryError::BadLength)?;
        let owned = OwnedFact { owner: owner.clone(), fact };
        let bytes = serde_json::to_vec(&owned).map_err(std::io::Error::other)?;
        loop {
            let write = KeyValueWrite::put(FACT_BUCKET, &key, None, &bytes);
            let written = match self.values.write_key_value(write).await {
                // The write may have been made: what is read tells.
                Err(StoreError::Unknown(_)) => None,
                written => written.map_err(store_error)?,
            };
            if written.is_some() {
                return Ok(owned.fact);
            }
            if let Some(known) = self.values.key_value(FACT_BUCKET, &key).await.map_err(store_error)? {
                return read_fact(&known);
            }
            // It was forgotten meanwhile.
        }
    }
}

#[async_trait]
impl MemoryStore for SharedMemoryStore {
    async fn keep(&self, owner: &MemoryOwner, fact: MemoryFact) -> Result<MemoryFact, MemoryError> {
        check_length(&fact.text)?;
        let known = self.list(owner).await?;
        if let Some(known) = known.iter().find(|known| known.id == fact.id) {
            return Ok(known.clone());
        }
        if known.len() >= MAX_FACTS_PER_OWNER {
            return Err(MemoryError::Full);
        }
        self.put(owner, fact).await
    }

    async fn find(
        &self,
        owner: &MemoryOwner,
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryFact>, MemoryError> {
        Ok(rank_facts(self.list(owner).await?.iter(), query, limit))
    }

    async fn list(&self, owner: &MemoryOwner) -> Result<Vec<MemoryFact>, MemoryError> {
        let found = self.values.key_values(FACT_BUCKET, &owner_prefix(owner)).await.map_err(store_error)?;
        let mut facts = found.iter().map(read_fact).collect::<Result<Vec<_>, MemoryError>>()?;
        facts.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then(a.id.cmp(&b.id)));
        Ok(facts)
    }

    async fn forget(&self, owner: &MemoryOwner, id: &str) -> Result<bool, MemoryError> {
        let Some(key) = fact_key(owner, id) else { return Ok(false) };
        loop {
            let Some(known) = self.values.key_value(FACT_BUCKET, &key).await.map_err(store_error)? else {
                return Ok(false);
            };
            let write = KeyValueWrite::remove(FACT_BUCKET, &key, known.revision);
            if self.values.write_key_value(write).await.map_err(store_error)?.is_some() {
                return Ok(true);
            }
        }
    }
}

/// How the keys of an owner's facts begin: no name of a tenant or a space can pass for another one's.
fn owner_prefix(owner: &MemoryOwner) -> String {
    let mut hash = Sha256::new();
    for part in [&owner.tenant, &owner.space] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    format!("{}/", hex::encode(hash.finalize()))
}

/// The key of a fact; none if no fact can have this id.
fn fact_key(owner: &MemoryOwner, id: &str) -> Option<String> {
    let fits = !id.is_empty() && id.len() <= MAX_FACT_ID_BYTES && !id.chars().any(char::is_control);
    fits.then(|| format!("{}{id}", owner_prefix(owner)))
}

fn read_fact(stored: &KeyValue) -> Result<MemoryFact, MemoryError> {
    let owned: OwnedFact = serde_json::from_slice(&stored.value).map_err(std::io::Error::other)?;
    Ok(owned.fact)
}

fn store_error(error: StoreError) -> MemoryError {
    MemoryError::Io(std::io::Error::other(error))
}
