//! Compares a contract with a standard contract: matching, missing and added articles.

use std::collections::BTreeSet;

use doran_retrieval::contract::{Contract, ContractArticle};
use doran_retrieval::{Document, Language, text_stems, with_particle};
use serde::Deserialize;

use super::compared_subject::{ArticlePair, mentions_subject, named_article};
use super::comparison_remark::{
    answering_article_remark, changed_article_remark, missing_article_remark, same_article_remark,
};
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

/// Lays contracts beside the standards that they are most like.
pub(super) fn compare_with_standards(
    contracts: &LoadedDocuments,
    standards: &LoadedDocuments,
    query: &str,
    wanted: StandardComparison,
    language: Language,
) -> ContractFindings {
    let forms = StandardContracts::parse(standards);
    // Whoever names contracts and nothing in them wants them compared as a whole.
    let wanted = match wanted {
        StandardComparison::Same if names_documents_only(contracts, standards, query) => {
            StandardComparison::All
        }
        wanted => wanted,
    };
    let mut findings = match wanted {
        StandardComparison::Same => compare_subject(&contracts.documents, &forms, query, language),
        StandardComparison::Missing | StandardComparison::Extra | StandardComparison::All => {
            compare_wholes(&contracts.documents, &forms, query, wanted, language)
        }
    };
    if let more @ 1.. = std::mem::take(&mut findings.left_out) {
        findings.notes.push(language.pick(
            format!("비교 결과가 길어 조항 {more}개를 뺐습니다. 조항을 하나씩 물어보면 볼 수 있습니다."),
            format!("The comparison is long; {more} articles were left out. Ask about single articles to see them."),
        ));
    }
    if !findings.is_empty() {
        findings.unread += contracts.left_out + standards.left_out;
    }
    findings
}

/// Lays contracts beside their standards, article by article.
fn compare_wholes(
    contracts: &[Document],
    forms: &StandardContracts<'_>,
    query: &str,
    wanted: StandardComparison,
    language: Language,
) -> ContractFindings {
    let mut findings = ContractFindings::default();
    for (at, own) in contracts_meant(contracts, query, language, &mut findings).into_iter().enumerate() {
        if at >= MAX_COMPARED_CONTRACTS {
            findings.unread += 1;
            continue;
        }
        let (title, contract) = (&own.title, Contract::parse(own));
        let Some(matched) = forms.best_match(own, &contract) else {
            findings.notes.push(no_standard_note(title, language));
            continue;
        };
        let beside = matched.document.title.as_str();
        let with = with_particle(beside);
        let mut writer =
            ComparisonWriter { own: (own, &contract), matched: &matched, language, findings: &mut findings };
        let (mut missing, mut extra) = (0, 0);
        let is_wanted = |one: StandardComparison| wanted == one || wanted == StandardComparison::All;
        let pairs = matched.beside(own, &contract).pairs();
        for pair in pairs.iter().filter(|pair| pair.own.is_none() && is_wanted(StandardComparison::Missing)) {
            missing += 1;
            writer.add(*pair);
        }
        for pair in
            pairs.iter().filter(|pair| pair.standard.is_none() && is_wanted(StandardComparison::Extra))
        {
            extra += 1;
            writer.add(*pair);
        }
        if wanted == StandardComparison::All {
            for pair in pairs.iter().filter(|pair| writer.differs(**pair)).copied().collect::<Vec<_>>() {
                writer.add(pair);
            }
        }
        if missing == 0 && is_wanted(StandardComparison::Missing) {
            findings.notes.push(language.pick(
                format!("「{title}」에 빠진 조항이 없습니다 (「{beside}」{with} 비교)."),
                format!("“{title}” lacks no article (beside “{beside}”)."),
            ));
        }
        if extra == 0 && is_wanted(StandardComparison::Extra) {
            findings.notes.push(language.pick(
                format!("「{title}」에 더 있는 조항이 없습니다 (「{beside}」{with} 비교)."),
                format!("“{title}” has no article beyond “{beside}”."),
            ));
        }
    }
    findings
}

/// Lays the articles on one subject beside each other: those of the contracts and those of their standards, whichever of them
/// has it. Nothing where none has.
fn compare_subject(
    contracts: &[Document],
    forms: &StandardContracts<'_>,
    subject: &str,
    language: Language,
) -> ContractFindings {
    let mut findings = ContractFindings::default();
    let parsed: Vec<(&Document, Contract)> =
        contracts.iter().map(|own| (own, Contract::parse(own))).collect();
    let number = named_article(subject).filter(|(_, of_standard)| !of_standard);
    let is_named_in = |own: &Document, contract: &Contract| match &number {
        Some((reference, _)) => contract.article(reference.article).is_some(),
        None => mentions_subject(contract, own, subject),
    };
    let (mut found, mut without_standard, mut compared) = (Vec::new(), Vec::new(), 0);
    for (own, contract) in &parsed {
        if parsed.len() > MAX_COMPARED_CONTRACTS && !is_named_in(own, contract) {
            continue;
        }
        compared += 1;
        if compared > MAX_COMPARED_CONTRACTS {
            findings.unread += 1;
            continue;
        }
        match forms.best_match(own, contract) {
            Some(matched) => {
                let subject = matched.beside(own, contract).find_subject(subject);
                found.extend(subject.map(|(how, pairs)| (how, *own, contract, matched, pairs)));
            }
            None if is_named_in(own, contract) => without_standard.push((*own, contract)),
            None => {}
        }
    }
    // What only mentions a subject says less of it than an article that has its title.
    let surest = found.iter().map(|(how, ..)| *how).max();
    found.retain(|(how, ..)| Some(*how) == surest);
    let is_in_language = |own: &Document| Language::detect(&own.title) == Some(language);
    if found.iter().any(|(_, own, ..)| is_in_language(own)) {
        found.retain(|(_, own, ..)| is_in_language(own));
    }
    for (_, own, contract, matched, pairs) in &found {
        if let Some((reference, _)) =
            number.as_ref().filter(|(one, _)| contract.article(one.article).is_none())
        {
            findings.notes.push(language.pick(
                format!("「{}」에 없는 조항입니다: {reference}", own.title),
                format!("Not in “{}”: {reference}", own.title),
            ));
        }
        let mut writer =
            ComparisonWriter { own: (own, contract), matched, language, findings: &mut findings };
        pairs.iter().for_each(|pair| writer.add(*pair));
    }
    for (own, contract) in without_standard.into_iter().filter(|_| found.is_empty()) {
        findings.notes.push(no_standard_note(&own.title, language));
        if let Some(ours) = article_named(contract, subject) {
            findings.add_article(own, contract, ours, ours.range.clone(), None);
        }
    }
    findings
}

fn no_standard_note(title: &str, language: Language) -> String {
    let with = with_particle(title);
    language.pick(
        format!("「{title}」{with} 비교할 같은 종류의 표준계약서가 없습니다."),
        format!("There is no standard contract of the same kind as “{title}”."),
    )
}

/// Adds articles with what is to be said of them beside their standard.
struct ComparisonWriter<'a> {
    own: (&'a Document, &'a Contract),
    matched: &'a MatchedStandard<'a>,
    language: Language,
    findings: &'a mut ContractFindings,
}

impl ComparisonWriter<'_> {
    fn own_article(&self, pair: ArticlePair) -> Option<&ContractArticle> {
        pair.own.and_then(|number| self.own.1.article(number))
    }

    fn standard_article(&self, pair: ArticlePair) -> Option<&ContractArticle> {
        pair.standard.and_then(|number| self.matched.standard.article(number))
    }

    /// Whether both have an article, with other words.
    fn differs(&self, pair: ArticlePair) -> bool {
        let words = |document: &Document, article: &ContractArticle| {
            let text = document.text.get(article.body.clone()).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        match (self.own_article(pair), self.standard_article(pair)) {
            (Some(ours), Some(theirs)) => words(self.own.0, ours) != words(self.matched.document, theirs),
            _ => false,
        }
    }

    /// Adds both articles of a pair, or the one there is as missing in the other contract.
    fn add(&mut self, pair: ArticlePair) {
        let differs = self.differs(pair);
        let (language, (own, contract)) = (self.language, self.own);
        let (form, standard) = (self.matched.document, self.matched.standard);
        let ours = pair.own.and_then(|number| contract.article(number));
        let theirs = pair.standard.and_then(|number| standard.article(number));
        let (our_remark, their_remark) = match (ours, theirs) {
            (Some(ours), Some(theirs)) => (
                match differs {
                    true => changed_article_remark(&form.title, theirs.number, language),
                    false => same_article_remark(&form.title, theirs.number, language),
                },
                answering_article_remark(&own.title, ours.number, language),
            ),
            _ => {
                (missing_article_remark(&form.title, language), missing_article_remark(&own.title, language))
            }
        };
        let count = usize::from(ours.is_some()) + usize::from(theirs.is_some());
        if !self.findings.has_room(count) {
            self.findings.left_out += 1;
            return;
        }
        if let Some(ours) = ours {
            self.findings.add_compared_article(own, contract, ours, our_remark);
        }
        if let Some(theirs) = theirs {
            self.findings.add_compared_article(form, standard, theirs, their_remark);
        }
    }
}

/// Whether a query says nothing but what the documents are called, as 용역 of 용역 표준계약서 does, and no article has that title.
fn names_documents_only(contracts: &LoadedDocuments, standards: &LoadedDocuments, query: &str) -> bool {
    let letters = |text: &str| {
        text.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    };
    let documents = || contracts.documents.iter().chain(&standards.documents);
    let titles: Vec<String> = documents().map(|document| letters(&document.title)).collect();
    let words: Vec<String> = query.split_whitespace().map(letters).filter(|word| !word.is_empty()).collect();
    let is_named = !words.is_empty()
        && titles.iter().any(|title| words.iter().all(|word| title.contains(word.as_str())));
    is_named
        && !documents().any(|document| {
            let contract = Contract::parse(document);
            let found = contract.articles_by_title(query);
            found.first().is_some_and(|(_, likeness)| *likeness >= 1.0)
        })
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
        let note = language.pick(format!("비교하지 않은 계약서: {names}"), format!("Not compared: {names}"));
        findings.notes.push(note);
    }
    meant
}

/// The article that a number or a title names.
fn article_named<'a>(contract: &'a Contract, query: &str) -> Option<&'a ContractArticle> {
    let by_number = named_article(query).and_then(|(reference, _)| contract.article(reference.article));
    by_number.or_else(|| contract.articles_by_title(query).into_iter().next().map(|(article, _)| article))
}
