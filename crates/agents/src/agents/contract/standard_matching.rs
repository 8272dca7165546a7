//! Picks the standard contract that is most similar to a contract.

use std::collections::{BTreeMap, BTreeSet};

use doran_retrieval::Document;
use doran_retrieval::contract::{Contract, ContractComparison, compare_contracts};

use super::compared_subject::ComparedContracts;
use super::contract_documents::LoadedDocuments;

/// Most standards that a contract is laid beside, article by article: those that it is most like.
const MAX_COMPARED_STANDARDS: usize = 12;
/// Of the articles of a contract or its standard, whichever has fewer, this many must meet: one in this number. With
/// fewer the two are not of one kind.
const MATCHED_ARTICLES_DIVISOR: usize = 3;

/// The standards, read, with the letters they are written in.
pub(super) struct StandardContracts<'a> {
    standards: Vec<ParsedStandard<'a>>,
    /// How many of the forms have a pair of letters.
    document_frequency: BTreeMap<LetterPair, usize>,
}

struct ParsedStandard<'a> {
    document: &'a Document,
    contract: Contract,
    pairs: BTreeSet<LetterPair>,
}

/// Two letters that stand beside each other.
type LetterPair = (char, char);

/// A standard that answers to a contract, and how.
pub(super) struct MatchedStandard<'a> {
    pub(super) document: &'a Document,
    pub(super) standard: &'a Contract,
    pub(super) comparison: ContractComparison,
}

impl MatchedStandard<'_> {
    /// The contract beside it.
    pub(super) fn beside<'a>(&'a self, own: &'a Document, contract: &'a Contract) -> ComparedContracts<'a> {
        ComparedContracts {
            own: (contract, own),
            standard: (self.standard, self.document),
            comparison: &self.comparison,
        }
    }
}

impl<'a> StandardContracts<'a> {
    pub(super) fn parse(loaded: &'a LoadedDocuments) -> Self {
        let read = |document: &'a Document| ParsedStandard {
            document,
            contract: Contract::parse(document),
            pairs: letter_pairs(document),
        };
        let forms: Vec<ParsedStandard<'a>> = loaded.documents.iter().map(read).collect();
        let mut holders = BTreeMap::new();
        for pair in forms.iter().flat_map(|form| &form.pairs) {
            *holders.entry(*pair).or_default() += 1;
        }
        Self { standards: forms, document_frequency: holders }
    }

    /// The standard that a contract is most like, if it is of one kind with any.
    pub(super) fn best_match(&self, own: &Document, contract: &Contract) -> Option<MatchedStandard<'_>> {
        let mut best: Option<(f64, MatchedStandard<'_>)> = None;
        for form in self.most_similar(own) {
            let found = compare_contracts((&form.contract, form.document), (contract, own));
            let fewer = form.contract.articles.len().min(contract.articles.len());
            if found.matched.is_empty() || found.matched.len() * MATCHED_ARTICLES_DIVISOR < fewer {
                continue;
            }
            let score: f64 = found.matched.iter().map(|pair| pair.score).sum();
            if best.as_ref().is_none_or(|(best_score, _)| score > *best_score) {
                best = Some((
                    score,
                    MatchedStandard { document: form.document, standard: &form.contract, comparison: found },
                ));
            }
        }
        best.map(|(_, answering)| answering)
    }

    /// The forms that share most of their letters with a contract, best first; what few of them have counts the more.
    fn most_similar(&self, own: &Document) -> Vec<&ParsedStandard<'a>> {
        let written = letter_pairs(own);
        let weight = |pair: &LetterPair| {
            let holders = self.document_frequency.get(pair).copied().unwrap_or(1);
            (1.0 + self.standards.len() as f64 / holders as f64).ln()
        };
        let likeness = |form: &ParsedStandard<'_>| {
            let whole: f64 = form.pairs.iter().map(weight).sum();
            let shared: f64 = form.pairs.intersection(&written).map(weight).sum();
            if whole > 0.0 { shared / whole } else { 0.0 }
        };
        let others = self.standards.iter().filter(|form| form.document.id != own.id);
        let mut ranked: Vec<(f64, &ParsedStandard<'a>)> = others.map(|form| (likeness(form), form)).collect();
        // Equally similar ones keep the order of the index, so the same documents always rank alike.
        ranked.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        ranked.into_iter().take(MAX_COMPARED_STANDARDS).map(|(_, form)| form).collect()
    }
}

/// The pairs of letters of a document, its title among them.
fn letter_pairs(document: &Document) -> BTreeSet<LetterPair> {
    let letters: Vec<char> = [&document.title, &document.text]
        .into_iter()
        .flat_map(|text| text.chars())
        .filter(|char| char.is_alphabetic())
        .flat_map(char::to_lowercase)
        .collect();
    letters.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
