//! Finds passages by shared terms, ranked by BM25, in the memory of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use async_trait::async_trait;

use crate::passage::{Document, DocumentId, Passage, Tenant};
use crate::retriever::{Filter, Hit, Index, Listed, Question, RetrieveError, Retriever};
use crate::split::split;
use crate::text::terms;

/// How fast repeats of a term stop counting, and how much long passages are held back: the usual values of BM25.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// An index of shared terms, for a handful of documents. It finds words, not meanings, and forgets with the process.
#[derive(Debug, Default)]
pub struct RamKeyword {
    documents: RwLock<BTreeMap<(Tenant, DocumentId), Held>>,
}

#[derive(Debug)]
struct Held {
    document: Document,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    passage: Passage,
    counts: BTreeMap<String, u32>,
    length: f64,
}

impl RamKeyword {
    /// An index of these documents of one tenant.
    pub fn of<'a>(tenant: &Tenant, documents: impl IntoIterator<Item = &'a Document>) -> Self {
        let index = Self::default();
        for document in documents {
            index.insert(tenant, document, split(document));
        }
        index
    }

    fn insert(&self, tenant: &Tenant, document: &Document, passages: Vec<Passage>) {
        let entries = passages.into_iter().map(Entry::of).collect();
        let held = Held { document: document.clone(), entries };
        let mut documents = self.documents.write().unwrap_or_else(PoisonError::into_inner);
        documents.insert((tenant.clone(), document.id.clone()), held);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<(Tenant, DocumentId), Held>> {
        self.documents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn search(&self, question: &Question) -> Vec<Hit> {
        let wanted: BTreeSet<String> = terms(&question.text).into_iter().collect();
        let documents = self.read();
        let held = documents.iter().filter(|((tenant, _), held)| {
            *tenant == question.tenant && question.filter.admits(&held.document)
        });
        let entries: Vec<&Entry> = held.flat_map(|(_, held)| &held.entries).collect();
        let total = entries.len() as f64;
        let average = entries.iter().map(|entry| entry.length).sum::<f64>() / total.max(1.0);
        let weights: Vec<(&String, f64)> = wanted
            .iter()
            .map(|term| {
                let holders = entries.iter().filter(|entry| entry.counts.contains_key(term)).count() as f64;
                (term, (1.0 + (total - holders + 0.5) / (holders + 0.5)).ln())
            })
            .collect();
        let mut hits: Vec<(f64, &Passage)> = entries
            .iter()
            .map(|entry| {
                (weights.iter().map(|(term, w)| w * entry.strength(term, average)).sum(), &entry.passage)
            })
            .filter(|(score, _)| *score > 0.0)
            .collect();
        // Equal scores keep the order of documents, so the same question always gives the same hits.
        hits.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        hits.truncate(question.limit);
        hits.into_iter().map(|(score, passage)| Hit { passage: passage.clone(), score }).collect()
    }
}

#[async_trait]
impl Retriever for RamKeyword {
    async fn retrieve(&self, question: &Question) -> Result<Vec<Hit>, RetrieveError> {
        Ok(self.search(question))
    }
}

#[async_trait]
impl Index for RamKeyword {
    async fn put(
        &self,
        tenant: &Tenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.insert(tenant, document, passages.to_vec());
        Ok(())
    }

    async fn remove(&self, tenant: &Tenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        let mut documents = self.documents.write().unwrap_or_else(PoisonError::into_inner);
        Ok(documents.remove(&(tenant.clone(), document.clone())).is_some())
    }

    async fn list(&self, tenant: &Tenant, filter: &Filter) -> Result<Vec<Listed>, RetrieveError> {
        let documents = self.read();
        let held =
            documents.iter().filter(|((whose, _), held)| whose == tenant && filter.admits(&held.document));
        Ok(held.map(|(_, held)| Listed::of(&held.document, held.entries.len())).collect())
    }

    async fn document(&self, tenant: &Tenant, id: &DocumentId) -> Result<Option<Document>, RetrieveError> {
        Ok(self.read().get(&(tenant.clone(), id.clone())).map(|held| held.document.clone()))
    }
}

impl Entry {
    fn of(passage: Passage) -> Self {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        // A heading says what its passage is about, often in the very word a person asks with.
        for term in terms(&passage.title).into_iter().chain(terms(&passage.text)) {
            *counts.entry(term).or_default() += 1;
        }
        let length = f64::from(counts.values().sum::<u32>());
        Self { passage, counts, length }
    }

    fn strength(&self, term: &str, average: f64) -> f64 {
        let count = self.counts.get(term).copied().map_or(0.0, f64::from);
        count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * self.length / average))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[tokio::test]
    async fn ram_keyword_keeps_the_contract() {
        conformance::check(async |documents: Vec<Document>| {
            RamKeyword::of(&conformance::tenant(), &documents)
        })
        .await;
    }

    #[tokio::test]
    async fn a_document_of_the_same_name_replaces_the_older_one() {
        let tenant = Tenant::new("t");
        let older = Document::new("d", "t", "사과 하나.\n\n사과 둘.");
        let index = RamKeyword::of(&tenant, [&older, &Document::new("d", "t", "배 하나.")]);
        assert!(index.search(&Question::new(tenant, "사과", 5)).is_empty());
    }

    #[tokio::test]
    async fn a_tenant_finds_nothing_of_another() {
        let index = RamKeyword::of(&Tenant::new("a"), [&Document::new("d", "t", "사과 하나.")]);
        assert!(index.search(&Question::new(Tenant::new("b"), "사과", 5)).is_empty());
        assert_eq!(index.list(&Tenant::new("b"), &Filter::default()).await.expect("list"), []);
        assert_eq!(index.search(&Question::new(Tenant::new("a"), "사과", 5)).len(), 1);
    }
}
