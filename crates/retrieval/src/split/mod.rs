//! Cuts a document into passages: by its structure first, by size only where the structure is too coarse.
//!
//! Headings name the passages below them. An article is a passage; one too long is cut between its clauses. A table
//! stays whole unless it is huge; then it is cut between rows, and its head goes into the title of every piece. Of the
//! rest a paragraph is a passage, cut between sentences when it is long. Every passage is exactly the words of the
//! document at its range.

mod articles;
mod blocks;
mod pieces;

use std::ops::Range;

use crate::passage::{ArticleNumber, Document, Passage, PassageId};
use blocks::{Block, blocks};

/// The number of the rules by which documents are cut. Whoever changes them so that passages come out otherwise raises it,
/// and what was cut before is cut again.
pub(crate) const CUT: u32 = 1;

/// The most bytes of a passage, about 400 Korean syllables: a few sentences, so that a citation points somewhere.
const MOST: usize = 1200;

/// The most bytes of a table that stays whole: a table torn apart says little.
const WHOLE_TABLE: usize = 4 * MOST;

/// The passages of a document, in order. Headings name the passages below them and are not passages themselves.
pub fn split(document: &Document) -> Vec<Passage> {
    let mut cutting = Cutting { document, page: 0, passages: Vec::new() };
    match articles::parts(document) {
        Some(parts) => {
            for part in parts {
                cutting.part(part);
            }
        }
        None => cutting.blocks(0..document.text.len(), &[], None),
    }
    cutting.passages
}

/// A stretch of the document under headings of its own.
struct Part {
    range: Range<usize>,
    /// What of it is passages: a heading that stands alone is in the titles already.
    words: Range<usize>,
    headings: Vec<String>,
    article: Option<ArticleNumber>,
    /// Where it may be cut when it is too long, in order.
    seams: Vec<usize>,
}

struct Cutting<'a> {
    document: &'a Document,
    /// How many pages began before the place we are at.
    page: usize,
    passages: Vec<Passage>,
}

impl Cutting<'_> {
    fn part(&mut self, part: Part) {
        let Part { words: range, headings, article, seams, .. } = part;
        let text = &self.document.text;
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        if article.is_none() {
            self.blocks(range, &headings, None);
        } else if range.len() <= MOST {
            self.push(&headings, article, range);
        } else if has_table(&text[range.clone()]) {
            self.blocks(range, &headings, article);
        } else {
            for piece in pieces::at_seams(text, range, &seams) {
                self.push(&headings, article, piece);
            }
        }
    }

    fn blocks(&mut self, within: Range<usize>, above: &[&str], article: Option<ArticleNumber>) {
        let document = self.document;
        let text = &document.text;
        let mut headings: Vec<(usize, &str)> = Vec::new();
        for block in blocks(text, within) {
            let titles: Vec<&str> =
                above.iter().copied().chain(headings.iter().map(|(_, heading)| *heading)).collect();
            match block {
                Block::Heading { level, words } => {
                    headings.retain(|(above, _)| *above < level);
                    headings.push((level, &text[words]));
                }
                Block::Paragraph(range) => {
                    for piece in pieces::sentences(text, range) {
                        self.push(&titles, article, piece);
                    }
                }
                Block::Table(range) if range.len() <= WHOLE_TABLE => self.push(&titles, article, range),
                Block::Table(range) => {
                    let (head, rows) = pieces::rows(text, range);
                    let titles: Vec<&str> = titles.into_iter().chain(head.as_deref()).collect();
                    for piece in rows {
                        self.push(&titles, article, piece);
                    }
                }
                Block::Code(range) => {
                    for piece in pieces::lines(text, range) {
                        self.push(&titles, article, piece);
                    }
                }
            }
        }
    }

    fn push(&mut self, headings: &[&str], article: Option<ArticleNumber>, range: Range<usize>) {
        let document = self.document;
        while document.pages.get(self.page).is_some_and(|start| *start <= range.start) {
            self.page += 1;
        }
        let mut title = vec![document.title.as_str()];
        // Many documents repeat their title as their first heading.
        title.extend(headings.iter().filter(|heading| **heading != document.title));
        self.passages.push(Passage {
            id: PassageId::at(&document.id, range.start),
            document: document.id.clone(),
            version: document.version.clone(),
            kind: document.kind.clone(),
            title: title.join(" › "),
            text: document.text[range.clone()].to_owned(),
            range,
            page: u32::try_from(self.page).ok().filter(|page| *page > 0),
            article,
        });
    }
}

fn has_table(text: &str) -> bool {
    text.contains("\n|")
}

#[cfg(test)]
mod tests;
