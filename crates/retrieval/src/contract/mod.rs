//! The structure of contracts and rules: chapters, articles, clauses, items and appendices, each with its range in the
//! text.
//!
//! [`Contract::parse`] parses a document whose articles are headed `제5조(손해배상)`, `Article 5`, `Section 5` or
//! `5. Term`. Articles are looked up by number in any spelling ([`ArticleReference::parse`]) or by title, exact matches
//! before similar ones. [`compare_contracts`] compares a contract with its standard contract. This module does not
//! interpret what an article means.

mod clause_marker;
mod compare;
mod line_heading;
mod numeral;
mod parse;
mod recognition;
mod reference;
mod signatures;
mod similarity;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::passage::{ArticleNumber, Document};

pub use compare::{ArticleMatch, ContractComparison, compare_contracts};
pub(crate) use numeral::parse_circled_number;
pub(crate) use recognition::is_contract;
pub use reference::{ArticleReference, find_article_references};

/// Titles with a lower similarity are not returned.
const MIN_TITLE_SIMILARITY: f64 = 0.45;

/// A contract, as ranges in the text of its document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// The text before the first chapter or article.
    pub preamble: Range<usize>,
    /// Its chapters (장).
    pub chapters: Vec<Chapter>,
    /// Its articles (조), in order.
    pub articles: Vec<ContractArticle>,
    /// The closing statement and the signatures.
    pub closing: Option<Range<usize>>,
    /// The appendices: 부칙, 별지, Exhibit.
    pub appendices: Vec<Appendix>,
    /// Whether the articles are named (`제5조`, `Article 5`), and are not just numbered headings.
    pub named: bool,
}

/// A chapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chapter {
    /// Its number.
    pub number: u32,
    /// Its title, which may be empty.
    pub title: String,
    /// Its range, from its heading to the next chapter.
    pub range: Range<usize>,
}

/// An article.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractArticle {
    /// Its number.
    pub number: ArticleNumber,
    /// Its title, which may be empty.
    pub title: String,
    /// Its range, including the heading.
    pub range: Range<usize>,
    /// The range below the heading.
    pub body: Range<usize>,
    /// The index of its chapter.
    pub chapter: Option<usize>,
    /// Its clauses (항).
    pub clauses: Vec<Clause>,
}

/// A clause or, in an article without circled numbers, a numbered part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clause {
    /// Its number.
    pub number: u32,
    /// Its marker in the text: `①`, `1.`.
    pub label: String,
    /// Its range, including the marker.
    pub range: Range<usize>,
    /// Its items (호, 목).
    pub items: Vec<Clause>,
}

/// An appendix of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appendix {
    /// Its label: `별지 1`, `부칙`, `Exhibit A`.
    pub label: String,
    /// Its title, which may be empty.
    pub title: String,
    /// Its range, including the heading.
    pub range: Range<usize>,
    /// Its own articles, as in 부칙.
    pub articles: Vec<ContractArticle>,
}

impl Contract {
    /// Parses the structure of a document. A text without articles gives a contract without articles.
    pub fn parse(document: &Document) -> Self {
        parse::parse_contract(&document.text)
    }

    /// Returns the article with a number.
    pub fn article(&self, number: ArticleNumber) -> Option<&ContractArticle> {
        self.articles.iter().find(|article| article.number == number)
    }

    /// Returns the articles of the main part that a reference includes, in order.
    pub fn articles_included(&self, reference: &ArticleReference) -> impl Iterator<Item = &ContractArticle> {
        self.articles.iter().filter(|article| reference.includes(article.number))
    }

    /// Returns the article with a number in the appendix with a label.
    fn appendix_article(&self, label: &str, number: ArticleNumber) -> Option<&ContractArticle> {
        let called =
            |appendix: &&Appendix| appendix.label.split_whitespace().flat_map(str::chars).eq(label.chars());
        let articles = self.appendices.iter().filter(called).flat_map(|appendix| &appendix.articles);
        articles.into_iter().find(|article| article.number == number)
    }

    /// Returns the range that a reference names, as narrow as the contract has it: the item, else the clause, else the
    /// article.
    pub fn locate(&self, reference: &ArticleReference) -> Option<(&ContractArticle, Range<usize>)> {
        let article = match &reference.appendix {
            None => self.article(reference.article)?,
            Some(label) => self.appendix_article(label, reference.article)?,
        };
        let clause =
            reference.clause.and_then(|number| article.clauses.iter().find(|clause| clause.number == number));
        let parts = clause.map_or(&article.clauses, |clause| &clause.items);
        let item = reference.item.and_then(|number| parts.iter().find(|item| item.number == number));
        let range = item.or(clause).map_or(&article.range, |part| &part.range);
        Some((article, range.clone()))
    }

    /// Returns the articles with this title, best first, with the similarity of the titles (1 is equal). If any title
    /// is equal, only those are returned.
    pub fn articles_by_title(&self, title: &str) -> Vec<(&ContractArticle, f64)> {
        let wanted = similarity::NormalizedTitle::new(title);
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<(&ContractArticle, f64)> = self
            .articles
            .iter()
            .map(|article| (article, similarity::NormalizedTitle::new(&article.title).similarity(&wanted)))
            .filter(|(_, likeness)| *likeness >= MIN_TITLE_SIMILARITY)
            .collect();
        found.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        if found.first().is_some_and(|(_, likeness)| *likeness >= 1.0) {
            found.retain(|(_, likeness)| *likeness >= 1.0);
        }
        found
    }

    /// Returns the headings above an article, chapter first: `제2장 용역의 수행`, `제5조(손해배상)`.
    pub fn headings(&self, article: &ContractArticle) -> Vec<String> {
        let chapter = article.chapter.and_then(|at| self.chapters.get(at));
        let chapter =
            chapter.map(|chapter| format!("제{}장 {}", chapter.number, chapter.title).trim().to_owned());
        chapter.into_iter().chain([article.heading()]).collect()
    }
}

impl ContractArticle {
    /// Returns the heading as people write it: `제5조(손해배상)`.
    pub fn heading(&self) -> String {
        if self.title.is_empty() {
            return self.number.to_string();
        }
        format!("{}({})", self.number, self.title)
    }
}
