//! Contracts beside their standards: the article that answers to another, what is missing, what was added.

use doran_retrieval::contract::{Contract, Reference};
use serde::Deserialize;

use super::alike::{Answering, Forms};
use super::desk::Shelf;
use super::findings::Findings;
use crate::language::Language;

/// Most contracts that are laid beside the standards at once.
const MOST_CONTRACTS: usize = 20;

/// Most contracts whose standards are chosen for a plain look-up in a standard.
const MOST_LOOKED_FOR: usize = 5;

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
    let forms = Forms::of(standards);
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
        let title = &own.title;
        let Some(Answering { document: form, standard, found }) = forms.answering(own, &contract) else {
            findings.notes.push(language.pick(
                format!("「{title}」과(와) 견줄 같은 종류의 표준계약서가 없습니다."),
                format!("There is no standard contract of the same kind as “{title}”."),
            ));
            if let Some(at) = asked {
                let ours = &contract.articles[at];
                findings.add(own, &contract, ours, ours.range.clone(), None);
            }
            continue;
        };
        let lacks = |title: &str| {
            Some(language.pick(format!("「{title}」에 없는 조항"), format!("not in “{title}”")))
        };
        match (wanted, asked) {
            (Beside::Missing, _) => {
                if found.missing.is_empty() {
                    findings.notes.push(language.pick(
                        format!("「{title}」에 빠진 조항이 없습니다 (「{}」과(와) 견줌).", form.title),
                        format!("“{title}” lacks no article (beside “{}”).", form.title),
                    ));
                }
                for article in found.missing.iter().filter_map(|number| standard.article(*number)) {
                    findings.add(form, standard, article, article.range.clone(), lacks(title));
                }
            }
            (Beside::Extra, _) => {
                if found.extra.is_empty() {
                    findings.notes.push(language.pick(
                        format!("「{title}」에 더 있는 조항이 없습니다 (「{}」과(와) 견줌).", form.title),
                        format!("“{title}” has no article beyond “{}”.", form.title),
                    ));
                }
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
                    let number = ours.number;
                    let remark = language.pick(
                        format!("「{title}」 {number}에 해당"),
                        format!("answers to {number} of “{title}”"),
                    );
                    findings.add(form, standard, theirs, theirs.range.clone(), Some(remark));
                }
            }
        }
    }
    findings.unread += contracts.left_out + standards.left_out;
    findings
}

/// The standards that answer to the contracts, where there are several kinds to choose from.
pub(super) fn standards_of(contracts: &Shelf, standards: &Shelf) -> Shelf {
    let mut near = Shelf::default();
    if standards.kinds() < 2 {
        return near;
    }
    let forms = Forms::of(standards);
    for own in contracts.documents.iter().take(MOST_LOOKED_FOR) {
        let Some(answering) = forms.answering(own, &Contract::parse(own)) else { continue };
        if near.documents.iter().all(|known| known.id != answering.document.id) {
            near.documents.push(answering.document.clone());
        }
    }
    near
}

/// The article that a number or a title names.
fn article(contract: &Contract, query: &str) -> Option<usize> {
    let by_number = Reference::parse(query).and_then(|reference| contract.article(reference.article));
    let by_title = || contract.titled(query).into_iter().next().map(|(article, _)| article);
    let named = by_number.or_else(by_title)?;
    contract.articles.iter().position(|article| std::ptr::eq(article, named))
}
