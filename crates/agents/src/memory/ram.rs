//! Memories in RAM.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{
    MAX_FACTS_PER_OWNER, MemoryError, MemoryFact, MemoryOwner, MemoryStore, check_length, rank_facts,
};

/// Facts that last as long as the process.
#[derive(Debug, Default)]
pub struct RamMemoryStore {
    facts: Mutex<FactsByOwner>,
}

/// Every fact of every owner.
#[derive(Debug, Default)]
pub(super) struct FactsByOwner(pub(super) BTreeMap<MemoryOwner, BTreeMap<String, MemoryFact>>);

impl FactsByOwner {
    /// What is already kept under the id of `fact`; an error if it cannot be kept.
    pub(super) fn existing_fact(
        &self,
        owner: &MemoryOwner,
        fact: &MemoryFact,
    ) -> Result<Option<MemoryFact>, MemoryError> {
        check_length(&fact.text)?;
        let Some(facts) = self.0.get(owner) else { return Ok(None) };
        match facts.get(&fact.id) {
            Some(known) => Ok(Some(known.clone())),
            None if facts.len() >= MAX_FACTS_PER_OWNER => Err(MemoryError::Full),
            None => Ok(None),
        }
    }

    pub(super) fn put(&mut self, owner: &MemoryOwner, fact: MemoryFact) {
        self.0.entry(owner.clone()).or_default().insert(fact.id.clone(), fact);
    }

    pub(super) fn remove(&mut self, owner: &MemoryOwner, id: &str) -> bool {
        let Some(facts) = self.0.get_mut(owner) else { return false };
        let was_there = facts.remove(id).is_some();
        if facts.is_empty() {
            self.0.remove(owner);
        }
        was_there
    }

    pub(super) fn find(&self, owner: &MemoryOwner, query: &str, limit: usize) -> Vec<MemoryFact> {
        self.0.get(owner).map(|facts| rank_facts(facts.values(), query, limit)).unwrap_or_default()
    }

    pub(super) fn list(&self, owner: &MemoryOwner) -> Vec<MemoryFact> {
        let mut facts: Vec<MemoryFact> =
            self.0.get(owner).map(|facts| facts.values().cloned().collect()).unwrap_or_default();
        facts.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then(a.id.cmp(&b.id)));
        facts
    }
}

impl RamMemoryStore {
    /// Empty ones.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, FactsByOwner> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl MemoryStore for RamMemoryStore {
    async fn keep(&self, owner: &MemoryOwner, fact: MemoryFact) -> Result<MemoryFact, MemoryError> {
        let mut facts = self.lock();
        if let Some(known) = facts.existing_fact(owner, &fact)? {
            return Ok(known);
        }
        facts.put(owner, fact.clone());
        Ok(fact)
    }

    async fn find(
        &self,
        owner: &MemoryOwner,
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryFact>, MemoryError> {
        Ok(self.lock().find(owner, query, limit))
    }

    async fn list(&self, owner: &MemoryOwner) -> Result<Vec<MemoryFact>, MemoryError> {
        Ok(self.lock().list(owner))
    }

    async fn forget(&self, owner: &MemoryOwner, id: &str) -> Result<bool, MemoryError> {
        Ok(self.lock().remove(owner, id))
    }
}
