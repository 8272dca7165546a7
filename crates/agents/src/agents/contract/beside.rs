//! Contracts beside their standards: the article that answers to another, what is missing, what was added.

use doran_retrieval::Document;
use doran_retrieval::contract::{Comparison, Contract, Reference, compare};
use serde::Deserialize;

use super::desk::Shelf;
use super::findings::Findings;
use crate::language::Language;

/// Most contracts that are laid beside the standards at once.
const MOST_CONTRACTS: usize = 20;
/// Most standards that each of them is laid beside.
const MOST_STANDARDS: usize = 12;
/// Of the articles of a contract or its standard, whichever has fewer, this many must meet: one in this number. With
/// fewer the two are not of one kind.
const MEET: usize = 3;

/// What is wanted of a contract and its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Beside {
    /// The article of the contract that is asked for, with the one of the standard that answers to it.
    Same,
    /// The articles of the standard that the contract lacks.
    Missing,
    /// The articles of the contract that the standard does not have.
    Extra,
}

/// Lays contracts beside the standards that they are most like.
pub(super) fn beside(
    contracts: &Shelf,
    standards: &Shelf,
    query: &str,
    wanted: Beside,
    language: Language,
) -> Findings {
    let forms: Vec<(&Document, Contract)> =
        standards.documents.iter().map(|form| (form, Contract::parse(form))).take(MOST_STANDARDS).collect();
    let mut findings = Findings::default();
    let mut seen = 0;
    for own in &contracts.documents {
        let contract = Contract::parse(own);
        let asked = if wanted == Beside::Same { article(&contract, query) } else { None };
        if wanted == Beside::Same && asked.is_none() {
            continue;
        }
        seen += 1;
        if seen > MOST_CONTRACTS {
            findings.unread += 1;
            continue;
        }
        let Some((form, standard, found)) = most_alike(&forms, own, &contract) else { continue };
        let lacks = |title: &str| {
            Some(language.pick(format!("「{title}」에 없는 조항"), format!("not in “{title}”")))
        };
        match (wanted, asked) {
            (Beside::Missing, _) => {
                for article in found.missing.iter().filter_map(|number| standard.article(*number)) {
                    findings.add(form, standard, article, article.range.clone(), lacks(&own.title));
                }
            }
            (Beside::Extra, _) => {
                for article in found.extra.iter().filter_map(|number| contract.article(*number)) {
                    findings.add(own, &contract, article, article.range.clone(), lacks(&form.title));
                }
            }
            (Beside::Same, None) => {}
            (Beside::Same, Some(at)) => {
                let ours = &contract.articles[at];
                let pair = found.matched.iter().find(|pair| pair.own == ours.number);
                let theirs = pair.and_then(|pair| standard.article(pair.standard));
                let alone = if theirs.is_none() { lacks(&form.title) } else { None };
                findings.add(own, &contract, ours, ours.range.clone(), alone);
                if let Some(theirs) = theirs {
                    let (title, number) = (&own.title, ours.number);
                    let remark = language.pick(
                        format!("「{title}」 {number}에 해당"),
                        format!("answers to {number} of “{title}”"),
                    );
                    findings.add(form, standard, theirs, theirs.range.clone(), Some(remark));
                }
            }
        }
    }
    findings.unread += contracts.left_out;
    findings
}

/// The article that a number or a title names.
fn article(contract: &Contract, query: &str) -> Option<usize> {
    let by_number = Reference::parse(query).and_then(|reference| contract.article(reference.article));
    let by_title = || contract.titled(query).into_iter().next().map(|(article, _)| article);
    let named = by_number.or_else(by_title)?;
    contract.articles.iter().position(|article| std::ptr::eq(article, named))
}

type Form<'a> = (&'a Document, Contract);

/// The standard that a contract is most like, if it is of one kind with any.
fn most_alike<'a>(
    forms: &'a [Form<'a>],
    own: &Document,
    contract: &Contract,
) -> Option<(&'a Document, &'a Contract, Comparison)> {
    let mut best: Option<(f64, (&Document, &Contract, Comparison))> = None;
    for (form, standard) in forms.iter().filter(|(form, _)| form.id != own.id) {
        let found = compare((standard, form), (contract, own));
        let fewer = standard.articles.len().min(contract.articles.len());
        if found.matched.is_empty() || found.matched.len() * MEET < fewer {
            continue;
        }
        let score: f64 = found.matched.iter().map(|pair| pair.score).sum();
        if best.as_ref().is_none_or(|(most, _)| score > *most) {
            best = Some((score, (form, standard, found)));
        }
    }
    best.map(|(_, found)| found)
}
