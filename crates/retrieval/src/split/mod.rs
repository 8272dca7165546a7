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
use std::rc::Rc;

use crate::ingest;
use crate::passage::{ArticleNumber, Document, Passage, PassageId};
use blocks::{Block, blocks};

/// The number of the rules by which documents are cut. Whoever changes them so that passages come out otherwise raises it,
/// and what was cut before is cut again.
pub(crate) const CUT: u32 = 1;

/// The most bytes of a passage, about 400 Korean syllables: a few sentences, so that a citation points somewhere.
const MOST: usize = 1200;

/// The most bytes of a table that stays whole: a table torn apart says little.
const WHOLE_TABLE: usize = 4 * MOST;

/// The most letters of a heading in a title, as many as the title of a file has.
const HEADING: usize = ingest::TITLE;

/// The most bytes of a title: that of the document, the nearest heading and the head of a table always fit.
const TITLE: usize = 2 << 10;

/// What parts the headings of a title.
const BELOW: &str = " › ";

/// About the most bytes that the passages of one file may take. A text of 32 MiB in lines of twenty syllables stays below it.
const HELD: usize = 256 << 20;

/// The passages of a document, in order. Headings name the passages below them and are not passages themselves, but for
/// the words of one that is too long for a title.
pub fn split(document: &Document) -> Vec<Passage> {
    cut(document, usize::MAX).unwrap_or_default()
}

/// The same for the document of a stranger; none where its passages would take more memory than one file may.
pub(crate) fn split_within_reason(document: &Document) -> Option<Vec<Passage>> {
    cut(document, HELD)
}

fn cut(document: &Document, most: usize) -> Option<Vec<Passage>> {
    let mut cutting = Cutting { document, page: 0, left: Some(most), passages: Vec::new() };
    match articles::parts(document) {
        Some(parts) => {
            for part in parts {
                cutting.part(part);
            }
        }
        None => cutting.blocks(0..document.text.len(), &[], None),
    }
    cutting.left.map(|_| cutting.passages)
}

/// The words of a heading, as far as they fit into a title. Every passage below has a copy of them.
fn short(heading: &str) -> &str {
    heading.char_indices().nth(HEADING).map_or(heading, |(end, _)| &heading[..end])
}

/// What a person calls a place. Where the headings are too long together, the nearest say most.
fn title(document: &str, headings: &[&str]) -> String {
    let name = short(document);
    // Many documents repeat their title as their first heading.
    let headings: Vec<&str> = headings.iter().copied().filter(|heading| *heading != name).collect();
    let mut bytes = name.len() + headings.iter().map(|heading| BELOW.len() + heading.len()).sum::<usize>();
    let is_left_out = |heading: &&&str| {
        let over = bytes > TITLE;
        bytes -= if over { BELOW.len() + heading.len() } else { 0 };
        over
    };
    let left_out = headings.iter().take_while(is_left_out).count();
    [&[name][..], &headings[left_out..]].concat().join(BELOW)
}

/// A stretch of the document under headings of its own.
struct Part {
    range: Range<usize>,
    /// What of it is passages: a heading that stands alone is in the titles already.
    words: Range<usize>,
    headings: Vec<Rc<str>>,
    article: Option<ArticleNumber>,
    /// Where it may be cut when it is too long, in order.
    seams: Vec<usize>,
}

struct Cutting<'a> {
    document: &'a Document,
    /// How many pages began before the place we are at.
    page: usize,
    /// How many bytes the next passages may take; none when they took too many.
    left: Option<usize>,
    passages: Vec<Passage>,
}

impl Cutting<'_> {
    fn part(&mut self, part: Part) {
        let Part { words: range, headings, article, seams, .. } = part;
        let text = &self.document.text;
        let headings: Vec<&str> = headings.iter().map(|heading| &**heading).collect();
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
        let title = title(&document.title, headings);
        let bytes = size_of::<Passage>() + title.len() + range.len();
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        if self.left.is_none() {
            return;
        }
        self.passages.push(Passage {
            id: PassageId::at(&document.id, range.start),
            document: document.id.clone(),
            version: document.version.clone(),
            kind: document.kind.clone(),
            title,
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
