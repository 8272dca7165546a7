//! Facts in the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Fact, MOST_FACTS, Memories, MemoryError, Owner, check_length, ranked};

/// Facts that last as long as the process.
#[derive(Debug, Default)]
pub struct RamMemories {
    facts: Mutex<Facts>,
}

/// Every fact of every owner.
#[derive(Debug, Default)]
pub(super) struct Facts(pub(super) BTreeMap<Owner, BTreeMap<String, Fact>>);

impl Facts {
    /// What is already kept under the id of `fact`; an error if it cannot be kept.
    pub(super) fn known(&self, owner: &Owner, fact: &Fact) -> Result<Option<Fact>, MemoryError> {
        check_length(&fact.text)?;
        let Some(facts) = self.0.get(owner) else { return Ok(None) };
        match facts.get(&fact.id) {
            Some(known) => Ok(Some(known.clone())),
            None if facts.len() >= MOST_FACTS => Err(MemoryError::Full),
            None => Ok(None),
        }
    }

    pub(super) fn put(&mut self, owner: &Owner, fact: Fact) {
        self.0.entry(owner.clone()).or_default().insert(fact.id.clone(), fact);
    }

    pub(super) fn remove(&mut self, owner: &Owner, id: &str) -> bool {
        let Some(facts) = self.0.get_mut(owner) else { return false };
        let was_there = facts.remove(id).is_some();
        if facts.is_empty() {
            self.0.remove(owner);
        }
        was_there
    }

    pub(super) fn find(&self, owner: &Owner, query: &str, limit: usize) -> Vec<Fact> {
        self.0.get(owner).map(|facts| ranked(facts.values(), query, limit)).unwrap_or_default()
    }

    pub(super) fn list(&self, owner: &Owner) -> Vec<Fact> {
        let mut facts: Vec<Fact> =
            self.0.get(owner).map(|facts| facts.values().cloned().collect()).unwrap_or_default();
        facts.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then(a.id.cmp(&b.id)));
        facts
    }
}

impl RamMemories {
    /// Empty ones.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Memories for RamMemories {
    async fn keep(&self, owner: &Owner, fact: Fact) -> Result<Fact, MemoryError> {
        let mut facts = self.lock();
        if let Some(known) = facts.known(owner, &fact)? {
            return Ok(known);
        }
        facts.put(owner, fact.clone());
        Ok(fact)
    }

    async fn find(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Fact>, MemoryError> {
        Ok(self.lock().find(owner, query, limit))
    }

    async fn list(&self, owner: &Owner) -> Result<Vec<Fact>, MemoryError> {
        Ok(self.lock().list(owner))
    }

    async fn forget(&self, owner: &Owner, id: &str) -> Result<bool, MemoryError> {
        Ok(self.lock().remove(owner, id))
    }
}
