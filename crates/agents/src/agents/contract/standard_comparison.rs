//! Compares a contract with a standard contract: matching, missing and added articles.

use doran_retrieval::Language;
use doran_retrieval::contract::{ArticleReference, Contract};
use serde::Deserialize;

use super::contract_documents::LoadedDocuments;
use super::findings::ContractFindings;
use super::standard_matching::{MatchedStandard, StandardContracts};

/// Most contracts that are laid beside the standards at once.
const MAX_COMPARED_CONTRACTS: usize = 20;

/// Most contracts whose standards are chosen for a plain look-up in a standard.
const MAX_MATCHED_CONTRACTS: usize = 5;

/// What is wanted of a contract and its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandardComparison {
    /// The article of the contract that is asked for, with the one of the standard that answers to it.
    Same,
    /// The articles of the standard that the contract lacks.
    Missing,
    /// The articles of the contract that the standard does not have.
    Extra,
}

impl StandardComparison {
    pub(super) const ALL: [Self; 3] = [Self::Same, Self::Missing, Self::Extra];

    /// Its name in the arguments of the tool.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Missing => "missing",
            Self::Extra => "extra",
        }
    }
}

/// What stands in the remark on an article that the other side does not have, in Korean and in English.
const MISSING_ARTICLE_MARKS: [&str; 2] = ["」에 없는 조항", "not in “"];

/// Whether a text holds the remark that an article is on one side only.
pub fn has_missing_article_remark(text: &str) -> bool {
    MISSING_ARTICLE_MARKS.iter().any(|mark| text.contains(mark))
}

/// The remark on an article that the document with this title does not have.
fn missing_article_remark(title: &str, language: Language) -> String {
    let [ko, en] = MISSING_ARTICLE_MARKS;
    language.pick(format!("「{title}{ko}"), format!("{en}{title}”"))
}

/// Lays contracts beside the standards that they are most like.
pub(super) fn compare_with_standards(
    contracts: &LoadedDocuments,
    standards: &LoadedDocuments,
    query: &str,
    wanted: StandardComparison,
    language: Language,
) -> ContractFindings {
    let forms = StandardContracts::parse(standards);
    let mut findings = ContractFindings::default();
    let mut seen = 0;
    for own in &contracts.documents {
        let contract = Contract::parse(own);
        let asked =
            if wanted == StandardComparison::Same { article_position(&contract, query) } else { None };
        if wanted == StandardComparison::Same && asked.is_none() {
            continue;
        }
        seen += 1;
        if seen > MAX_COMPARED_CONTRACTS {
            findings.unread += 1;
            continue;
        }
        let title = &own.title;
        let Some(MatchedStandard { document: form, standard, comparison: found }) =
            forms.best_match(own, &contract)
        else {
            findings.notes.push(language.pick(
                format!("「{title}」과(와) 견줄 같은 종류의 표준계약서가 없습니다."),
                format!("There is no standard contract of the same kind as “{title}”."),
            ));
            if let Some(at) = asked {
                let ours = &contract.articles[at];
                findings.add_article(own, &contract, ours, ours.range.clone(), None);
            }
            continue;
        };
        let lacks = |title: &str| Some(missing_article_remark(title, language));
        match (wanted, asked) {
            (StandardComparison::Missing, _) => {
                if found.missing.is_empty() {
                    findings.notes.push(language.pick(
                        format!("「{title}」에 빠진 조항이 없습니다 (「{}」과(와) 견줌).", form.title),
                        format!("“{title}” lacks no article (beside “{}”).", form.title),
                    ));
                }
                for article in found.missing.iter().filter_map(|number| standard.article(*number)) {
                    findings.add_article(form, standard, article, article.range.clone(), lacks(title));
                }
            }
            (StandardComparison::Extra, _) => {
                if found.extra.is_empty() {
                    findings.notes.push(language.pick(
                        format!("「{title}」에 더 있는 조항이 없습니다 (「{}」과(와) 견줌).", form.title),
                        format!("“{title}” has no article beyond “{}”.", form.title),
                    ));
                }
                for article in found.extra.iter().filter_map(|number| contract.article(*number)) {
                    findings.add_article(own, &contract, article, article.range.clone(), lacks(&form.title));
                }
            }
            (StandardComparison::Same, None) => {}
            (StandardComparison::Same, Some(at)) => {
                let ours = &contract.articles[at];
                let pair = found.matched.iter().find(|pair| pair.own == ours.number);
                let theirs = pair.and_then(|pair| standard.article(pair.standard));
                let alone = if theirs.is_none() { lacks(&form.title) } else { None };
                findings.add_article(own, &contract, ours, ours.range.clone(), alone);
                if let Some(theirs) = theirs {
                    let number = ours.number;
                    let remark = language.pick(
                        format!("「{title}」 {number}에 해당"),
                        format!("answers to {number} of “{title}”"),
                    );
                    findings.add_article(form, standard, theirs, theirs.range.clone(), Some(remark));
                }
            }
        }
    }
    findings.unread += contracts.left_out + standards.left_out;
    findings
}

/// The standards that answer to the contracts, where there are several kinds to choose from.
pub(super) fn matching_standards(
    contracts: &LoadedDocuments,
    standards: &LoadedDocuments,
) -> LoadedDocuments {
    let mut near = LoadedDocuments::default();
    if standards.kind_count() < 2 {
        return near;
    }
    let forms = StandardContracts::parse(standards);
    for own in contracts.documents.iter().take(MAX_MATCHED_CONTRACTS) {
        let Some(answering) = forms.best_match(own, &Contract::parse(own)) else { continue };
        if near.documents.iter().all(|known| known.id != answering.document.id) {
            near.documents.push(answering.document.clone());
        }
    }
    near
}

/// The article that a number or a title names.
fn article_position(contract: &Contract, query: &str) -> Option<usize> {
    let by_number = ArticleReference::parse(query).and_then(|reference| contract.article(reference.article));
    let by_title = || contract.articles_by_title(query).into_iter().next().map(|(article, _)| article);
    let named = by_number.or_else(by_title)?;
    contract.articles.iter().position(|article| std::ptr::eq(article, named))
}
