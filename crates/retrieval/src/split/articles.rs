//! Splits a document that is written in articles into sections.

use std::ops::Range;
use std::rc::Rc;

use super::{DocumentSection, truncate_heading};
use crate::contract::{Contract, ContractArticle};
use crate::passage::{Document, DocumentKind};

/// Returns the articles of a document and the text between them, in order, or `None` if it is not written in articles.
pub(super) fn article_sections(document: &Document) -> Option<Vec<DocumentSection>> {
    let contract = Contract::parse(document);
    if contract.articles.is_empty()
        || document.kind == DocumentKind::General && !is_written_in_articles(&contract, document)
    {
        return None;
    }
    let text = &document.text;
    let mut parts: Vec<DocumentSection> =
        contract.articles.iter().map(|article| article_section(&contract, article, text)).collect();
    for appendix in &contract.appendices {
        let heading: Rc<str> = format!("{} {}", appendix.label, appendix.title).trim().into();
        let mut start = appendix.range.start;
        for article in &appendix.articles {
            parts.push(appendix_section(start..article.range.start, &heading));
            let mut inner = article_section(&contract, article, text);
            inner.headings.insert(0, heading.clone());
            parts.push(inner);
            start = article.range.end;
        }
        parts.push(appendix_section(start..appendix.range.end, &heading));
    }
    parts.sort_by_key(|part| part.range.start);
    Some(fill_gaps(parts, &contract, text))
}

/// Returns whether an ordinary document is written in articles and does not just quote one: they are numbered from the
/// first, or make up most of it. Numbered headings are articles only in a contract; elsewhere they may be any list.
fn is_written_in_articles(contract: &Contract, document: &Document) -> bool {
    let Document { text, .. } = document;
    let articles = &contract.articles;
    let second =
        articles.iter().map(|article| article.number).find(|number| number.branch == 0 && number.number != 1);
    let from_first = articles.first().is_some_and(|first| first.number.number == 1)
        && second.is_some_and(|second| second.number == 2);
    let held: usize = articles.iter().map(|article| article.range.len()).sum();
    let is_mostly_articles = held * 4 >= text.trim().len() * 3;
    let is_heading = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let opens = text[contract.preamble.clone()].lines().all(is_heading);
    contract.named && (from_first || is_mostly_articles && (opens || articles.len() > 1))
}

fn article_section(contract: &Contract, article: &ContractArticle, text: &str) -> DocumentSection {
    let seams = article.clauses.iter().flat_map(|clause| {
        let items = clause.items.iter().map(|item| item.range.start);
        [clause.range.start].into_iter().chain(items)
    });
    let alone = text[article.range.start..article.body.start].contains('\n') && !article.body.is_empty();
    DocumentSection {
        body: if alone { article.body.clone() } else { article.range.clone() },
        range: article.range.clone(),
        headings: contract.headings(article).into_iter().map(Rc::from).collect(),
        article: Some(article.number),
        cut_points: seams.collect(),
    }
}

fn appendix_section(range: Range<usize>, heading: &Rc<str>) -> DocumentSection {
    DocumentSection {
        body: range.clone(),
        range,
        headings: vec![heading.clone()],
        article: None,
        cut_points: Vec::new(),
    }
}

/// Adds sections for text that no other section covers, so that no word is lost: the preamble, chapter headings with
/// text, signatures.
fn fill_gaps(parts: Vec<DocumentSection>, contract: &Contract, text: &str) -> Vec<DocumentSection> {
    let mut all = Vec::new();
    let mut at = 0;
    let mut headings = MarkdownHeadingPath::default();
    // Chapters are in the order of the text, and so are the gaps.
    let mut chapters = contract.chapters.iter().peekable();
    let mut rest = |range: Range<usize>| {
        while chapters.next_if(|chapter| chapter.range.start < range.start).is_some() {}
        // The heading of a chapter is already in the titles of its articles.
        let chapter = chapters.peek().filter(|chapter| chapter.range.start < range.end);
        let line = chapter.map(|chapter| {
            text[chapter.range.start..].find('\n').map_or(text.len(), |end| chapter.range.start + end)
        });
        let cuts = match (chapter, line) {
            (Some(chapter), Some(line)) => {
                vec![range.start..chapter.range.start, line.min(range.end)..range.end]
            }
            _ => vec![range],
        };
        // Markdown marks before the next heading belong to that heading.
        let is_mark = |char: char| char.is_whitespace() || "#*_>".contains(char);
        cuts.into_iter()
            .map(|range| range.start..range.start + text[range.clone()].trim_end_matches(is_mark).len())
            .filter(|range| !text[range.clone()].trim_matches(is_mark).is_empty())
            .map(|range| DocumentSection {
                body: range.clone(),
                headings: headings.headings_above(text, range.start),
                range,
                article: None,
                cut_points: Vec::new(),
            })
            .collect::<Vec<_>>()
    };
    for part in parts {
        if part.range.start > at {
            all.extend(rest(at..part.range.start));
        }
        at = at.max(part.range.end);
        all.push(part);
    }
    if at < text.len() {
        all.extend(rest(at..text.len()));
    }
    all
}

/// Returns the Markdown headings above positions of a text. The positions must be requested in order.
#[derive(Default)]
struct MarkdownHeadingPath {
    bytes_read: usize,
    above: Vec<(usize, Rc<str>)>,
}

impl MarkdownHeadingPath {
    /// Returns the headings above the heading at a position, or none if there is no heading.
    fn headings_above(&mut self, text: &str, place: usize) -> Vec<Rc<str>> {
        let heading = |line: &str| {
            super::markdown_blocks::parse_heading_line(line.trim())
                .map(|(level, words)| (level, Rc::<str>::from(truncate_heading(words))))
        };
        for (level, words) in text[self.bytes_read.min(place)..place].lines().filter_map(heading) {
            self.above.retain(|(higher, _)| *higher < level);
            self.above.push((level, words));
        }
        self.bytes_read = self.bytes_read.max(place);
        let Some((level, _)) = text[place..].trim_start().lines().next().and_then(heading) else {
            return Vec::new();
        };
        let higher = self.above.iter().filter(|(higher, _)| *higher < level);
        higher.map(|(_, words)| words.clone()).collect()
    }
}
