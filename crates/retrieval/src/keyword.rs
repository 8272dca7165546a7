//! Finds passages by shared terms, ranked by BM25, in the memory of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use async_trait::async_trait;

use crate::passage::{Document, DocumentId, Passage};
use crate::retriever::{Hit, RetrieveError, Retriever};
use crate::split::split;
use crate::text::terms;

/// How fast repeats of a term stop counting, and how much long passages are held back: the usual values of BM25.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// An index of shared terms, for a handful of documents. It finds words, not meanings, and forgets with the process.
#[derive(Debug, Default)]
pub struct RamKeyword {
    documents: RwLock<BTreeMap<DocumentId, Vec<Entry>>>,
}

#[derive(Debug)]
struct Entry {
    passage: Passage,
    counts: BTreeMap<String, u32>,
    length: f64,
}

impl RamKeyword {
    /// An index of these documents.
    pub fn of<'a>(documents: impl IntoIterator<Item = &'a Document>) -> Self {
        let index = Self::default();
        for document in documents {
            index.ingest(document);
        }
        index
    }

    /// Adds a document, in place of an older one of the same name. Gives the number of its passages.
    pub fn ingest(&self, document: &Document) -> usize {
        let entries: Vec<Entry> = split(document).into_iter().map(Entry::of).collect();
        let count = entries.len();
        let mut documents = self.documents.write().unwrap_or_else(PoisonError::into_inner);
        documents.insert(document.id.clone(), entries);
        count
    }

    fn search(&self, question: &str, limit: usize) -> Vec<Hit> {
        let wanted: BTreeSet<String> = terms(question).into_iter().collect();
        let documents = self.documents.read().unwrap_or_else(PoisonError::into_inner);
        let entries: Vec<&Entry> = documents.values().flatten().collect();
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
        hits.truncate(limit);
        hits.into_iter().map(|(score, passage)| Hit { passage: passage.clone(), score }).collect()
    }
}

#[async_trait]
impl Retriever for RamKeyword {
    async fn retrieve(&self, question: &str, limit: usize) -> Result<Vec<Hit>, RetrieveError> {
        Ok(self.search(question, limit))
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
        conformance::check(async |documents: Vec<Document>| RamKeyword::of(&documents)).await;
    }

    #[tokio::test]
    async fn a_document_of_the_same_name_replaces_the_older_one() {
        let index = RamKeyword::default();
        assert_eq!(index.ingest(&Document::new("d", "t", "사과 하나.\n\n사과 둘.")), 2);
        assert_eq!(index.ingest(&Document::new("d", "t", "배 하나.")), 1);
        assert!(index.search("사과", 5).is_empty());
    }
}
