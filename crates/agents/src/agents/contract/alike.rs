//! Which of many standards a contract is most like, before any is laid beside it article by article.

use std::collections::{BTreeMap, BTreeSet};

use doran_retrieval::Document;
use doran_retrieval::contract::{Comparison, Contract, compare};

use super::desk::Shelf;

/// Most standards that a contract is laid beside, article by article: those that it is most like.
const MOST_BESIDE: usize = 12;
/// Of the articles of a contract or its standard, whichever has fewer, this many must meet: one in this number. With
/// fewer the two are not of one kind.
const MEET: usize = 3;

/// The standards, read, with the letters they are written in.
pub(super) struct Forms<'a> {
    forms: Vec<Form<'a>>,
    /// How many of the forms have a pair of letters.
    holders: BTreeMap<Pair, usize>,
}

struct Form<'a> {
    document: &'a Document,
    contract: Contract,
    pairs: BTreeSet<Pair>,
}

/// Two letters that stand beside each other.
type Pair = (char, char);

/// A standard that answers to a contract, and how.
pub(super) struct Answering<'a> {
    pub(super) document: &'a Document,
    pub(super) standard: &'a Contract,
    pub(super) found: Comparison,
}

impl<'a> Forms<'a> {
    pub(super) fn of(shelf: &'a Shelf) -> Self {
        let read = |document: &'a Document| Form {
            document,
            contract: Contract::parse(document),
            pairs: pairs(document),
        };
        let forms: Vec<Form<'a>> = shelf.documents.iter().map(read).collect();
        let mut holders = BTreeMap::new();
        for pair in forms.iter().flat_map(|form| &form.pairs) {
            *holders.entry(*pair).or_default() += 1;
        }
        Self { forms, holders }
    }

    /// The standard that a contract is most like, if it is of one kind with any.
    pub(super) fn answering(&self, own: &Document, contract: &Contract) -> Option<Answering<'_>> {
        let mut best: Option<(f64, Answering<'_>)> = None;
        for form in self.nearest(own) {
            let found = compare((&form.contract, form.document), (contract, own));
            let fewer = form.contract.articles.len().min(contract.articles.len());
            if found.matched.is_empty() || found.matched.len() * MEET < fewer {
                continue;
            }
            let score: f64 = found.matched.iter().map(|pair| pair.score).sum();
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, Answering { document: form.document, standard: &form.contract, found }));
            }
        }
        best.map(|(_, answering)| answering)
    }

    /// The forms that share most of their letters with a contract, best first; what few of them have counts the more.
    fn nearest(&self, own: &Document) -> Vec<&Form<'a>> {
        let written = pairs(own);
        let weight = |pair: &Pair| {
            let holders = self.holders.get(pair).copied().unwrap_or(1);
            (1.0 + self.forms.len() as f64 / holders as f64).ln()
        };
        let likeness = |form: &Form<'_>| {
            let whole: f64 = form.pairs.iter().map(weight).sum();
            let shared: f64 = form.pairs.intersection(&written).map(weight).sum();
            if whole > 0.0 { shared / whole } else { 0.0 }
        };
        let others = self.forms.iter().filter(|form| form.document.id != own.id);
        let mut ranked: Vec<(f64, &Form<'a>)> = others.map(|form| (likeness(form), form)).collect();
        // Equally alike ones keep the order of the shelf, so the same documents always rank alike.
        ranked.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        ranked.into_iter().take(MOST_BESIDE).map(|(_, form)| form).collect()
    }
}

/// The pairs of letters of a document, its title among them.
fn pairs(document: &Document) -> BTreeSet<Pair> {
    let letters: Vec<char> = [&document.title, &document.text]
        .into_iter()
        .flat_map(|text| text.chars())
        .filter(|char| char.is_alphabetic())
        .flat_map(char::to_lowercase)
        .collect();
    letters.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
