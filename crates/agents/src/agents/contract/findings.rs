//! Results of the contract tools: passages, and the articles that they refer to.

use std::ops::Range;

use doran_retrieval::contract::{ArticleReference, Contract, ContractArticle, find_article_references};
use doran_retrieval::{Document, HEADING_SEPARATOR, Language, Passage, localize_article_numbers};
use serde::{Deserialize, Serialize};

use super::appendix::AppendixName;
use crate::samples;
use crate::source::{AnswerSource, AnswerSourceKind};

/// Most articles found by a title in one contract.
const MAX_TITLE_MATCHES_PER_CONTRACT: usize = 3;
/// Most articles that one look-up gives; the rest is counted.
const MAX_ARTICLES_PER_LOOKUP: usize = 12;

/// Most articles of a range or a comparison, of both sides together, and most bytes of them.
const MAX_ARTICLES: usize = 240;
const MAX_ARTICLE_BYTES: usize = 128 * 1024;

/// What a tool found: places, and the articles they refer to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ContractFindings {
    pub(super) found: Vec<AnswerSource>,
    /// Articles of the same contract that the found ones refer to, as [`article_label`] calls them.
    #[serde(default)]
    pub(super) refers_to: Vec<String>,
    /// Articles that were found as well and are not among these.
    #[serde(default)]
    pub(super) left_out: usize,
    /// What has to be said though there is no place to show for it, such as that nothing is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    /// Contracts that were not looked at.
    #[serde(default)]
    pub(super) unread: usize,
}

/// What an article is called among the articles of both contracts.
pub(super) fn article_label(article: &str, kind: AnswerSourceKind) -> String {
    if kind == AnswerSourceKind::Standard { format!("표준 {article}") } else { article.to_owned() }
}

/// A place in a document, and what it is called.
struct ContractPlace {
    headings: Vec<String>,
    article: String,
    clause: Option<String>,
    range: Range<usize>,
}

/// The place that a reference names, in each of the documents that have it. Of a range all articles are meant, however many.
pub(super) fn find_by_reference(
    documents: &[Document],
    reference: &ArticleReference,
    language: Language,
) -> ContractFindings {
    let mut findings = ContractFindings::default();
    for document in documents {
        let contract = Contract::parse(document);
        if let Some(last) = reference.last {
            findings.add_range(document, &contract, reference);
            let end = contract.articles.iter().map(|article| article.number).max();
            if let Some(end) = end.filter(|end| reference.includes(*end) && *end < last) {
                findings.notes.push(language.pick(
                    format!("「{}」의 마지막 조항은 {end}입니다.", document.title),
                    format!("The last article of “{}” is {end}.", document.title),
                ));
            }
        } else if let Some((article, range)) = contract.locate(reference) {
            findings.add_article(document, &contract, article, range, None);
        }
    }
    findings
}

/// What is attached to the documents under this name.
pub(super) fn find_appendices(documents: &[Document], name: &AppendixName) -> ContractFindings {
    let mut findings = ContractFindings::default();
    for document in documents {
        let contract = Contract::parse(document);
        for appendix in contract.appendices.iter().filter(|appendix| name.matches(appendix)) {
            let Some(article) = name.find_article(appendix) else { continue };
            let heading = format!("{} {}", appendix.label, appendix.title).trim().to_owned();
            let number = article.map(|article| article.number.to_string());
            let headings = std::iter::once(heading).chain(article.map(ContractArticle::heading)).collect();
            let range = article.map_or(&appendix.range, |article| &article.range).clone();
            let called = std::iter::once(appendix.label.clone()).chain(number).collect::<Vec<_>>().join(" ");
            findings.add_place(
                document,
                &contract,
                ContractPlace { headings, article: called, clause: None, range },
            );
        }
    }
    findings
}

/// The articles of this title, those most like it first. One that has the very title shuts out the rest.
pub(super) fn find_by_title(documents: &[Document], title: &str) -> ContractFindings {
    let contracts: Vec<(&Document, Contract)> =
        documents.iter().map(|document| (document, Contract::parse(document))).collect();
    let mut found: Vec<(&Document, &Contract, &ContractArticle, f64)> = Vec::new();
    for (document, contract) in &contracts {
        let alike = contract.articles_by_title(title).into_iter().take(MAX_TITLE_MATCHES_PER_CONTRACT);
        found.extend(alike.map(|(article, likeness)| (*document, contract, article, likeness)));
    }
    found.sort_by(|left, right| right.3.total_cmp(&left.3));
    if found.first().is_some_and(|best| best.3 >= 1.0) {
        found.retain(|one| one.3 >= 1.0);
    }
    let mut findings = ContractFindings::default();
    for (document, contract, article, _) in found {
        findings.add_article(document, contract, article, article.range.clone(), None);
    }
    findings
}

impl ContractFindings {
    /// Adds a place in an article, with a remark on it where there is one.
    pub(super) fn add_article(
        &mut self,
        document: &Document,
        contract: &Contract,
        article: &ContractArticle,
        range: Range<usize>,
        remark: Option<String>,
    ) {
        let clause =
            article.clauses.iter().find(|clause| clause.range == range).map(|clause| clause.label.clone());
        let headings = contract.headings(article).into_iter().chain(remark).collect();
        let article = article.number.to_string();
        self.add_place(document, contract, ContractPlace { headings, article, clause, range });
    }

    /// Adds the articles of a range, as far as there is room for them.
    fn add_range(&mut self, document: &Document, contract: &Contract, reference: &ArticleReference) {
        for article in contract.articles_included(reference) {
            if !self.has_room(1) {
                self.left_out += 1;
                continue;
            }
            let (headings, range) = (contract.headings(article), article.range.clone());
            let article = article.number.to_string();
            self.push_place(document, contract, ContractPlace { headings, article, clause: None, range });
        }
    }

    /// Whether so many more articles may be added where all of them are meant. A part of a pair would look like an article
    /// that one side lacks.
    pub(super) fn has_room(&self, count: usize) -> bool {
        let bytes: usize = self.found.iter().map(|source| source.quote.len()).sum();
        self.found.len() + count <= MAX_ARTICLES && bytes <= MAX_ARTICLE_BYTES
    }

    /// Adds a whole article of a comparison, however many there are.
    pub(super) fn add_compared_article(
        &mut self,
        document: &Document,
        contract: &Contract,
        article: &ContractArticle,
        remark: String,
    ) {
        let headings = contract.headings(article).into_iter().chain([remark]).collect();
        let range = article.range.clone();
        let article = article.number.to_string();
        self.push_place(document, contract, ContractPlace { headings, article, clause: None, range });
    }

    /// Whether there is nothing to show and nothing to say.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.notes.is_empty()
    }

    fn add_place(&mut self, document: &Document, contract: &Contract, place: ContractPlace) {
        if self.found.len() >= MAX_ARTICLES_PER_LOOKUP {
            self.left_out += 1;
            return;
        }
        self.push_place(document, contract, place);
    }

    fn push_place(&mut self, document: &Document, contract: &Contract, place: ContractPlace) {
        let ContractPlace { headings, article, clause, range } = place;
        let Some(text) = document.text.get(range.clone()) else { return };
        let text = text.trim_end();
        let title = std::iter::once(document.title.clone()).chain(headings).collect::<Vec<_>>();
        let title = title.join(HEADING_SEPARATOR);
        self.found.push(AnswerSource {
            number: 0,
            sample: samples::is_sample(document.id.as_str()),
            document: document.id.to_string(),
            title: localize_article_numbers(&title, &title),
            kind: AnswerSourceKind::from_document_kind(&document.kind),
            article: Some(localize_article_numbers(&article, &document.title)),
            clause,
            page: document.page_at(range.start),
            passage: doran_retrieval::PassageId::from_start(&document.id, range.start).to_string(),
            version: document.version.clone(),
            quote: text.to_owned(),
            start: range.start,
            end: range.start + text.len(),
        });
        self.note_references(document, contract, text);
    }

    /// Adds a passage that a search found.
    pub(super) fn add_passage(&mut self, document: &Document, passage: Passage) {
        let contract = Contract::parse(document);
        let start = passage.range.start;
        let article = contract.articles.iter().find(|article| article.range.contains(&start));
        self.note_references(document, &contract, &passage.text);
        self.found.push(AnswerSource {
            number: 0,
            sample: samples::is_sample(document.id.as_str()),
            document: document.id.to_string(),
            title: localize_article_numbers(&passage.title, &passage.title),
            kind: AnswerSourceKind::from_document_kind(&document.kind),
            article: passage
                .article
                .or(article.map(|article| article.number))
                .map(|number| localize_article_numbers(&number.to_string(), &document.title)),
            clause: None,
            page: passage.page.or_else(|| document.page_at(start)),
            passage: passage.id.to_string(),
            version: passage.version,
            quote: passage.text,
            start,
            end: passage.range.end,
        });
    }

    /// Notes the articles of the same contract that a text names.
    fn note_references(&mut self, document: &Document, contract: &Contract, text: &str) {
        let kind = AnswerSourceKind::from_document_kind(&document.kind);
        for reference in find_article_references(text).iter().filter(|reference| reference.law.is_none()) {
            for article in contract.articles_included(reference) {
                let article = localize_article_numbers(&article.number.to_string(), &document.title);
                let name = article_label(&article, kind);
                if !self.refers_to.contains(&name) {
                    self.refers_to.push(name);
                }
            }
        }
    }
}
