//! Splits a document into passages: by its structure first, and by size only where a part is still too long.
//!
//! Headings go into the titles of the passages below them. An article is a passage; a long one is split between its
//! clauses. A table stays whole unless it is huge; then it is split between rows, and its head goes into the title of
//! every piece. Otherwise a paragraph is a passage, split between sentences if it is long. The text of a passage is
//! exactly that of the document at its range.

mod articles;
mod long_blocks;
mod markdown_blocks;

use std::ops::Range;
use std::rc::Rc;

use crate::ingest;
use crate::passage::{ArticleNumber, Document, Passage, PassageId};
use markdown_blocks::{MarkdownBlock, parse_markdown_blocks};

/// The version of the split rules. Any change that gives other passages must raise it, and documents split by older
/// rules are split again.
pub(crate) const SPLIT_RULES_VERSION: u32 = 3;

/// The maximum size of a passage, about 400 Korean syllables: a few sentences, so that a citation is specific.
const MAX_PASSAGE_BYTES: usize = 1200;

/// The maximum size of a table that stays whole. Rows without the rest of their table say little.
const MAX_WHOLE_TABLE_BYTES: usize = 4 * MAX_PASSAGE_BYTES;

/// The maximum length of a heading in a title, in characters: that of a document title.
const MAX_HEADING_CHARS: usize = ingest::MAX_TITLE_CHARS;

/// The maximum size of a title. The document title, the nearest heading and the head of a table always fit.
const MAX_PASSAGE_TITLE_BYTES: usize = 2 << 10;

/// Separates the headings in a title.
pub const HEADING_SEPARATOR: &str = " › ";

/// The approximate maximum size of all passages of one file. A text of 32 MiB in lines of twenty syllables stays below
/// it.
const MAX_DOCUMENT_PASSAGES_BYTES: usize = 256 << 20;

/// The maximum number of lines of an untrusted text. Each may be a heading, a clause or a row, which take more memory than
/// their text.
const MAX_DOCUMENT_LINES: usize = 1_000_000;

/// Returns the passages of a document, in order. Headings become titles and are not passages themselves, except the
/// heading of an appendix and a heading that is too long for a title.
pub fn split_into_passages(document: &Document) -> Vec<Passage> {
    split_within_bytes(document, usize::MAX).unwrap_or_default()
}

/// Like [`split_into_passages`] for untrusted documents. Returns `None` if the passages, or the structure they are cut by,
/// would take more memory than one file may.
pub(crate) fn split_within_memory_limit(document: &Document) -> Option<Vec<Passage>> {
    if document.text.lines().nth(MAX_DOCUMENT_LINES).is_some() {
        return None;
    }
    split_within_bytes(document, MAX_DOCUMENT_PASSAGES_BYTES)
}

fn split_within_bytes(document: &Document, limit: usize) -> Option<Vec<Passage>> {
    let mut cutting = PassageSplitter { document, page: 0, bytes_left: Some(limit), passages: Vec::new() };
    match articles::article_sections(document) {
        Some(parts) => {
            for part in parts {
                cutting.push_section(part);
            }
        }
        None => cutting.push_blocks(0..document.text.len(), &[], None),
    }
    cutting.bytes_left.map(|_| cutting.passages)
}

/// Truncates a heading for a title. Every passage below it has a copy of the title.
fn truncate_heading(heading: &str) -> &str {
    heading.char_indices().nth(MAX_HEADING_CHARS).map_or(heading, |(end, _)| &heading[..end])
}

/// Joins the document title and the headings. If they are too long together, the nearest headings are kept.
fn passage_title(document: &str, headings: &[&str]) -> String {
    let name = truncate_heading(document);
    // Many documents repeat their title as the first heading.
    let headings: Vec<&str> = headings.iter().copied().filter(|heading| *heading != name).collect();
    let mut bytes =
        name.len() + headings.iter().map(|heading| HEADING_SEPARATOR.len() + heading.len()).sum::<usize>();
    let is_left_out = |heading: &&&str| {
        let over = bytes > MAX_PASSAGE_TITLE_BYTES;
        bytes -= if over { HEADING_SEPARATOR.len() + heading.len() } else { 0 };
        over
    };
    let left_out = headings.iter().take_while(is_left_out).count();
    [&[name][..], &headings[left_out..]].concat().join(HEADING_SEPARATOR)
}

/// A part of the document under its own headings.
struct DocumentSection {
    range: Range<usize>,
    /// The range that becomes passages. A heading without text is already in the titles.
    body: Range<usize>,
    headings: Vec<Rc<str>>,
    article: Option<ArticleNumber>,
    /// The positions where it may be split if it is too long, in order.
    cut_points: Vec<usize>,
}

struct PassageSplitter<'a> {
    document: &'a Document,
    /// The number of pages that began before the current position.
    page: usize,
    /// The memory left for further passages; `None` once they took too much.
    bytes_left: Option<usize>,
    passages: Vec<Passage>,
}

impl PassageSplitter<'_> {
    fn push_section(&mut self, part: DocumentSection) {
        let DocumentSection { body: range, headings, article, cut_points: seams, .. } = part;
        let text = &self.document.text;
        let headings: Vec<&str> = headings.iter().map(|heading| &**heading).collect();
        if article.is_none() {
            self.push_blocks(range, &headings, None);
        } else if range.len() <= MAX_PASSAGE_BYTES {
            self.push_passage(&headings, article, range);
        } else if has_table(&text[range.clone()]) {
            self.push_blocks(range, &headings, article);
        } else {
            for piece in long_blocks::cut_at_points(text, range, &seams) {
                self.push_passage(&headings, article, piece);
            }
        }
    }

    fn push_blocks(&mut self, within: Range<usize>, above: &[&str], article: Option<ArticleNumber>) {
        let document = self.document;
        let text = &document.text;
        let mut headings: Vec<(usize, &str)> = Vec::new();
        for block in parse_markdown_blocks(text, within) {
            let titles: Vec<&str> =
                above.iter().copied().chain(headings.iter().map(|(_, heading)| *heading)).collect();
            match block {
                MarkdownBlock::Heading { level, words } => {
                    headings.retain(|(above, _)| *above < level);
                    headings.push((level, &text[words]));
                }
                MarkdownBlock::Paragraph(range) => {
                    for piece in long_blocks::cut_between_sentences(text, range) {
                        self.push_passage(&titles, article, piece);
                    }
                }
                MarkdownBlock::Table(range) if range.len() <= MAX_WHOLE_TABLE_BYTES => {
                    self.push_passage(&titles, article, range);
                }
                MarkdownBlock::Table(range) => {
                    let (head, rows) = long_blocks::cut_between_rows(text, range);
                    let titles: Vec<&str> = titles.into_iter().chain(head.as_deref()).collect();
                    for piece in rows {
                        self.push_passage(&titles, article, piece);
                    }
                }
                MarkdownBlock::Code(range) => {
                    for piece in long_blocks::cut_between_lines(text, range) {
                        self.push_passage(&titles, article, piece);
                    }
                }
            }
        }
    }

    fn push_passage(&mut self, headings: &[&str], article: Option<ArticleNumber>, range: Range<usize>) {
        let document = self.document;
        while document.pages.get(self.page).is_some_and(|start| *start <= range.start) {
            self.page += 1;
        }
        let title = passage_title(&document.title, headings);
        let bytes = size_of::<Passage>() + title.len() + range.len();
        self.bytes_left = self.bytes_left.and_then(|left| left.checked_sub(bytes));
        if self.bytes_left.is_none() {
            return;
        }
        self.passages.push(Passage {
            id: PassageId::from_start(&document.id, range.start),
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
