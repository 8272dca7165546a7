//! Compares a contract with a standard contract: matching, missing and added articles.

use std::collections::BTreeSet;

use doran_retrieval::contract::{ArticleReference, Contract, ContractArticle};
use doran_retrieval::{ArticleNumber, Document, HEADING_SEPARATOR, Language, text_stems};
use serde::Deserialize;

use super::contract_documents::LoadedDocuments;
use super::findings::ContractFindings;
use super::standard_matching::{MatchedStandard, StandardContracts};

/// Most contracts that are laid beside the standards at once.
const MAX_COMPARED_CONTRACTS: usize = 20;

/// Most contracts whose standards are chosen for a plain look-up in a standard.
const MAX_MATCHED_CONTRACTS: usize = 5;

/// Most contracts that are named as not compared.
const MAX_NAMED_CONTRACTS: usize = 5;

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
    /// What it lacks, what it has beyond the standard, and the articles whose words differ.
    All,
}

impl StandardComparison {
    pub(super) const ALL: [Self; 4] = [Self::Same, Self::Missing, Self::Extra, Self::All];

    /// Its name in the arguments of the tool.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::All => "all",
        }
    }
}

/// What the last heading of an article says about it beside another document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonRemark<'a> {
    /// The document with this title does not have the article.
    NotIn(&'a str),
    /// The article of the document with this title that answers to it has other words.
    DiffersFrom(&'a str),
}

impl<'a> ComparisonRemark<'a> {
    /// The remark at the end of a title, in either language.
    pub fn of_title(title: &'a str) -> Option<Self> {
        let remark = title.rsplit(HEADING_SEPARATOR).next()?;
        let title = |title: &'a str| title.strip_prefix('「')?.split_once('」');
        if let Some((title, rest)) = title(remark) {
            return match rest {
                "에 없는 조항" => Some(Self::NotIn(title)),
                _ => rest.ends_with("와 다른 조항").then_some(Self::DiffersFrom(title)),
            };
        }
        let quoted = |text: &'a str| text.strip_suffix('”')?.split_once('“').map(|(_, title)| title);
        match remark.split_once(' ')?.0 {
            "not" => quoted(remark).map(Self::NotIn),
            "differs" => quoted(remark).map(Self::DiffersFrom),
            _ => None,
        }
    }
}

/// The remark on an article that the document with this title does not have.
fn missing_article_remark(title: &str, language: Language) -> String {
    language.pick(format!("「{title}」에 없는 조항"), format!("not in “{title}”"))
}

/// The remark on an article that has other words than this one.
fn changed_article_remark(title: &str, number: ArticleNumber, language: Language) -> String {
    language.pick(format!("「{title}」 {number}와 다른 조항"), format!("differs from {number} of “{title}”"))
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
    let meant = match wanted {
        StandardComparison::Same => contracts.documents.iter().collect(),
        _ => contracts_meant(&contracts.documents, query, language, &mut findings),
    };
    for own in meant {
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
            (StandardComparison::Missing | StandardComparison::Extra | StandardComparison::All, _) => {
                let is_wanted = |one: StandardComparison| wanted == one || wanted == StandardComparison::All;
                if is_wanted(StandardComparison::Missing) {
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
                if is_wanted(StandardComparison::Extra) {
                    if found.extra.is_empty() {
                        findings.notes.push(language.pick(
                            format!("「{title}」에 더 있는 조항이 없습니다 (「{}」과(와) 견줌).", form.title),
                            format!("“{title}” has no article beyond “{}”.", form.title),
                        ));
                    }
                    for article in found.extra.iter().filter_map(|number| contract.article(*number)) {
                        findings.add_article(
                            own,
                            &contract,
                            article,
                            article.range.clone(),
                            lacks(&form.title),
                        );
                    }
                }
                let pairs = found.matched.iter().filter(|_| wanted == StandardComparison::All);
                for pair in pairs {
                    let (Some(ours), Some(theirs)) =
                        (contract.article(pair.own), standard.article(pair.standard))
                    else {
                        continue;
                    };
                    let words = |document: &Document, article: &ContractArticle| {
                        let text = document.text.get(article.body.clone()).unwrap_or_default();
                        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
                    };
                    if words(own, ours) != words(form, theirs) {
                        let remark = changed_article_remark(&form.title, theirs.number, language);
                        findings.add_article(own, &contract, ours, ours.range.clone(), Some(remark));
                    }
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

/// The contracts that a comparison is about: those whose titles share most words with what is asked for, else those in its
/// language, else all. The others are named in a note.
fn contracts_meant<'a>(
    contracts: &'a [Document],
    query: &str,
    language: Language,
    findings: &mut ContractFindings,
) -> Vec<&'a Document> {
    let stems = |text: &str| text_stems(text).into_iter().map(|(stem, _)| stem).collect::<BTreeSet<_>>();
    let asked = stems(query);
    let shared = |one: &Document| stems(&one.title).intersection(&asked).count();
    let most = contracts.iter().map(shared).max().unwrap_or(0);
    let is_named = |one: &&Document| shared(one) == most;
    let is_in_language = |one: &&Document| Language::detect(&one.title) == Some(language);
    let mut meant: Vec<&Document> = contracts.iter().filter(is_named).collect();
    if meant.iter().any(is_in_language) && meant.len() == contracts.len() {
        meant.retain(is_in_language);
    }
    let others = contracts.iter().filter(|one| meant.iter().all(|known| known.id != one.id));
    let others: Vec<String> = others
        .take(MAX_NAMED_CONTRACTS)
        .map(|one| language.pick(format!("「{}」", one.title), format!("“{}”", one.title)))
        .collect();
    if !others.is_empty() {
        let names = others.join(", ");
        let note = language.pick(format!("견주지 않은 계약서: {names}"), format!("Not compared: {names}"));
        findings.notes.push(note);
    }
    meant
}

/// The article that a number or a title names.
fn article_position(contract: &Contract, query: &str) -> Option<usize> {
    let by_number = ArticleReference::parse(query).and_then(|reference| contract.article(reference.article));
    let by_title = || contract.articles_by_title(query).into_iter().next().map(|(article, _)| article);
    let named = by_number.or_else(by_title)?;
    contract.articles.iter().position(|article| std::ptr::eq(article, named))
}
