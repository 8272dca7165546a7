//! Memory: facts that a person asked to keep, across threads.
//!
//! [`MemoryStore`] is where they are; [`RamMemoryStore`] keeps them in the process, [`FileMemoryStore`] in a log on disk,
//! [`SharedMemoryStore`] in a database of several replicas. The tools `remember`, `recall` and `forget` ([`memory_tools`]) let a model use them. Nothing is kept that nobody asked to
//! keep, and everything that is kept can be seen and forgotten.

mod file;
mod ram;
mod shared;
mod tools;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::tools::Taint;

pub use file::FileMemoryStore;
pub use ram::RamMemoryStore;
pub use shared::SharedMemoryStore;
pub use tools::{Forget, Recall, Remember, memory_tools, recalled_fact_id};

/// Whose facts they are within a tenant, where nobody says otherwise.
pub const DEFAULT_SPACE: &str = "default";
/// The most bytes of one fact.
pub const MAX_FACT_BYTES: usize = 2000;
/// The most facts of one owner.
pub const MAX_FACTS_PER_OWNER: usize = 1000;

/// Whose facts they are. Nobody sees the facts of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemoryOwner {
    /// The tenant.
    pub tenant: String,
    /// A person or a purpose within it.
    pub space: String,
}

impl MemoryOwner {
    /// The owner `space` of `tenant`.
    pub fn new(tenant: impl Into<String>, space: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), space: space.into() }
    }
}

/// Something a person asked to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFact {
    /// Its name.
    pub id: String,
    /// The words.
    pub text: String,
    /// When it was kept, in milliseconds since 1970.
    pub at_ms: i64,
    /// What the thread had read that it was kept from. Who reads the fact has read that too.
    #[serde(default, skip_serializing_if = "is_untainted")]
    pub taint: Taint,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_untainted(taint: &Taint) -> bool {
    *taint == Taint::default()
}

/// Why facts could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Make it shorter.
    #[error("a fact may have at most {MAX_FACT_BYTES} bytes, and at least one")]
    BadLength,
    /// Forget some.
    #[error("there are already {MAX_FACTS_PER_OWNER} facts")]
    Full,
    /// Another process has the file open.
    #[error("the memories are in use by another process")]
    InUse,
    /// A newer version wrote it; use that one.
    #[error("line {0} of the memories was written by another version of Doran and cannot be read")]
    Newer(usize),
    /// The file is damaged in the middle; restore it from a backup.
    #[error("the memories are damaged at line {0}")]
    Damaged(usize),
    /// It could not be written or read.
    #[error("the memories could not be written or read")]
    Io(#[from] std::io::Error),
}

/// Where facts are kept.
///
/// What `keep` has acknowledged survives the process (in [`RamMemoryStore`] it survives the thread). Keeping the same `id`
/// again changes nothing, so a call may be repeated. One owner never sees the facts of another.
#[async_trait]
pub trait MemoryStore: Send + Sync + 'static {
    /// Keeps a fact under `id`; gives what is kept under it.
    async fn keep(&self, owner: &MemoryOwner, fact: MemoryFact) -> Result<MemoryFact, MemoryError>;

    /// The facts that share most with `query`, best first.
    async fn find(
        &self,
        owner: &MemoryOwner,
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryFact>, MemoryError>;

    /// Every fact, newest first.
    async fn list(&self, owner: &MemoryOwner) -> Result<Vec<MemoryFact>, MemoryError>;

    /// Forgets one; whether it was there.
    async fn forget(&self, owner: &MemoryOwner, id: &str) -> Result<bool, MemoryError>;
}

/// The name of a fact that is kept by the call with this key: the same for every attempt.
pub(crate) fn fact_id(owner: &MemoryOwner, key: &str) -> String {
    let mut hash = Sha256::new();
    for part in [owner.tenant.as_str(), &owner.space, key] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(&hash.finalize()[..6])
}

/// Those of `facts` that share something with `query`, best first, newer ones before older ones.
pub(crate) fn rank_facts<'a>(
    facts: impl Iterator<Item = &'a MemoryFact>,
    query: &str,
    limit: usize,
) -> Vec<MemoryFact> {
    let wanted = search_terms(query);
    let mut scored: Vec<(usize, &MemoryFact)> = facts
        .map(|fact| {
            let has = search_terms(&fact.text);
            (wanted.iter().filter(|piece| has.contains(*piece)).count(), fact)
        })
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by(|(left, a), (right, b)| right.cmp(left).then(b.at_ms.cmp(&a.at_ms)).then(a.id.cmp(&b.id)));
    scored.into_iter().take(limit).map(|(_, fact)| fact.clone()).collect()
}

/// What two texts can share: Latin words and numbers whole, other words in pairs of letters, since Korean words change
/// their ends.
fn search_terms(text: &str) -> std::collections::BTreeSet<String> {
    let lower = text.to_lowercase();
    let mut pieces = std::collections::BTreeSet::new();
    for word in lower.split(|one: char| !one.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let letters: Vec<char> = word.chars().collect();
        if word.is_ascii() || letters.len() < 2 {
            pieces.insert(word.to_owned());
        } else {
            pieces.extend(letters.windows(2).map(|pair| pair.iter().collect::<String>()));
        }
    }
    pieces
}

fn check_length(text: &str) -> Result<(), MemoryError> {
    if text.trim().is_empty() || text.len() > MAX_FACT_BYTES { Err(MemoryError::BadLength) } else { Ok(()) }
}
