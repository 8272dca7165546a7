//! Splits the text of a contract at its headings, and the articles at their clauses and items.

use std::ops::Range;

use super::clause_marker::{ClauseMarker, parse_clause_marker};
use super::line_heading::{ArticleNumberingStyle, ContractLine, classify_line};
use super::numeral::parse_circled_number;
use super::signatures::find_signatures;
use super::{Appendix, Chapter, Clause, Contract, ContractArticle};
use crate::passage::ArticleNumber;

/// The maximum nesting depth of clauses and items.
const MAX_CLAUSE_DEPTH: usize = 3;

/// Parses the structure of a text.
pub(super) fn parse_contract(text: &str) -> Contract {
    // A contract may be a table whose rows are its articles. Beside articles outside of tables, rows only mention them.
    let found = [TableRows::Skipped, TableRows::Read]
        .into_iter()
        .find_map(|rows| detect_numbering_style(text, rows).map(|style| (rows, style)));
    let Some((rows, style)) = found else {
        return Contract { preamble: 0..text.len(), ..Contract::default() };
    };
    let mut reading = ContractParser {
        text,
        section: ContractSection::Preamble,
        contract: Contract::default(),
        last_text_end: 0,
        markdown_level: None,
        end_before_heading: None,
        has_words: false,
    };
    reading.contract.named = style != ArticleNumberingStyle::Numbered;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(words) = words_of_line(line, rows, style) {
            reading.read_line(start + (line.len() - words.len()), words.trim_end(), style);
        }
        start += line.len();
        let is_rule = rows == TableRows::Read && line.chars().all(|char| "|-: \r\n".contains(char));
        if !line.trim().is_empty() && !is_rule {
            reading.last_text_end = start - (line.len() - line.trim_end().len());
        }
    }
    reading.into_contract()
}

/// Whether the rows of tables are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableRows {
    Skipped,
    Read,
}

/// Returns the end of a line in which an article may begin: all of it, or what follows the first bar of a row that has the heading
/// of an article in one cell and its text in another. A row of more cells compares articles.
fn words_of_line(line: &str, rows: TableRows, style: ArticleNumberingStyle) -> Option<&str> {
    let Some(row) = line.trim_start().strip_prefix('|') else { return Some(line) };
    let (row, mut cells) = (row.trim_start(), row.trim().trim_end_matches('|').split('|'));
    let (heading, text) = (cells.next()?.trim(), cells.next()?);
    let is_heading = || match classify_line(heading, style) {
        ContractLine::Article { body, .. } => body == heading.len(),
        ContractLine::Chapter { .. }
        | ContractLine::Appendix { .. }
        | ContractLine::Closing
        | ContractLine::Other => false,
    };
    let is_article = rows == TableRows::Read && cells.next().is_none() && !text.trim().is_empty();
    (is_article && is_heading()).then_some(row)
}

/// Detects the numbering style of a text, if it has at least two articles, or one in Korean.
fn detect_numbering_style(text: &str, rows: TableRows) -> Option<ArticleNumberingStyle> {
    let count = |style: ArticleNumberingStyle, least: usize| {
        let mut next = 1;
        let lines = text.lines().filter_map(|line| words_of_line(line, rows, style));
        let articles = lines.filter_map(|line| match classify_line(line, style) {
            ContractLine::Article { number, .. } => Some(number.number),
            ContractLine::Chapter { .. }
            | ContractLine::Appendix { .. }
            | ContractLine::Closing
            | ContractLine::Other => None,
        });
        let in_order = articles.filter(|number| {
            let fits = style != ArticleNumberingStyle::Numbered || *number == next;
            next += u32::from(fits);
            fits
        });
        in_order.take(least).count() >= least
    };
    let styles = [
        (ArticleNumberingStyle::Korean, 2),
        (ArticleNumberingStyle::Article, 2),
        (ArticleNumberingStyle::Section, 2),
        (ArticleNumberingStyle::Korean, 1),
        (ArticleNumberingStyle::Numbered, 2),
    ];
    styles.into_iter().find(|(style, least)| count(*style, *least)).map(|(style, _)| style)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ContractSection {
    Preamble,
    /// Below the heading of a chapter, before its first article.
    Chapter,
    Article,
    Appendix,
    AppendixArticle,
    Closing,
    /// Below a heading that is not part of a contract.
    OutsideContract,
}

struct ContractParser<'a> {
    text: &'a str,
    section: ContractSection,
    contract: Contract,
    /// The end of the last text so far.
    last_text_end: usize,
    /// The level of the open article's Markdown heading, or of the Markdown heading above it.
    markdown_level: Option<usize>,
    /// The end of the text before the first Markdown heading inside the open article. It applies if no article follows.
    end_before_heading: Option<usize>,
    /// Whether any closed article has text below its heading.
    has_words: bool,
}

impl ContractParser<'_> {
    fn read_line(&mut self, start: usize, line: &str, style: ArticleNumberingStyle) {
        let owned = |range: Range<usize>| line[range].trim().to_owned();
        let level = heading_level(line);
        let read = classify_line(line, style);
        if level.is_some() && matches!(read, ContractLine::Other) {
            self.read_markdown_heading(level);
        }
        match read {
            ContractLine::Chapter { number, title } => {
                self.end_before_heading = None;
                self.close_section();
                self.close_chapter();
                let begin = start + super::line_heading::heading_text_start(line);
                let chapter = Chapter { number, title: owned(title), range: begin..start + line.len() };
                self.contract.chapters.push(chapter);
                self.markdown_level = level.or(self.markdown_level);
                self.section = ContractSection::Chapter;
            }
            ContractLine::Article { number, title, body, is_certain: sure } => {
                let Some(place) = self.section_for_article(number, sure) else { return };
                // The text below an earlier heading was part of the article after all.
                self.end_before_heading = None;
                self.close_section();
                self.markdown_level = level.or(self.markdown_level);
                let begin = start + super::line_heading::heading_text_start(line);
                let article = ContractArticle {
                    number,
                    title: title.map(owned).unwrap_or_default(),
                    range: begin..start + line.len(),
                    body: start + body..start + line.len(),
                    chapter: self
                        .contract
                        .chapters
                        .len()
                        .checked_sub(1)
                        .filter(|_| place == ContractSection::Article),
                    clauses: Vec::new(),
                };
                self.section = place;
                if let Some(articles) = self.current_articles() {
                    articles.push(article);
                }
            }
            ContractLine::Appendix { label, title } => {
                self.end_before_signatures();
                self.close_section();
                self.close_chapter();
                let range = start + super::line_heading::heading_text_start(line)..start + line.len();
                let appendix =
                    Appendix { label: owned(label), title: owned(title), range, articles: Vec::new() };
                self.contract.appendices.push(appendix);
                self.section = ContractSection::Appendix;
            }
            ContractLine::Closing if self.section == ContractSection::Article => {
                self.close_section();
                self.close_chapter();
                self.contract.closing = Some(start..start + line.len());
                self.section = ContractSection::Closing;
            }
            ContractLine::Closing | ContractLine::Other => {}
        }
    }

    /// Returns the section that an article with this number would start, or `None` if it is more likely a reference.
    fn section_for_article(&mut self, number: ArticleNumber, sure: bool) -> Option<ContractSection> {
        let in_appendix =
            matches!(self.section, ContractSection::Appendix | ContractSection::AppendixArticle);
        let main = self.contract.articles.last().map(|article| article.number);
        let back =
            in_appendix && number.number > 1 && main.is_some_and(|last| is_next_article_number(last, number));
        let place =
            if in_appendix && !back { ContractSection::AppendixArticle } else { ContractSection::Article };
        let last = match place {
            ContractSection::Article => main,
            _ => self.contract.appendices.last()?.articles.last().map(|article| article.number),
        };
        let Some(last) = last else { return (sure || number.number == 1).then_some(place) };
        if place == ContractSection::Article
            && number.number == 1
            && number.branch == 0
            && self.has_only_headings()
        {
            // Everything so far was a table of contents.
            self.contract.articles.clear();
            self.has_words = false;
            self.contract.chapters.truncate(1);
            return Some(place);
        }
        (is_next_article_number(last, number) || sure && number > last).then_some(place)
    }

    /// Handles a Markdown heading that is not part of a contract. It ends an article below a heading of the same level.
    /// A lower heading ends only the last article; inside others it is a part of them.
    fn read_markdown_heading(&mut self, level: Option<usize>) {
        let inside = matches!(self.section, ContractSection::Article | ContractSection::AppendixArticle);
        if inside && self.markdown_level.is_some() && level <= self.markdown_level {
            self.end_before_heading = None;
            self.close_section();
            self.close_chapter();
            self.section = ContractSection::OutsideContract;
        } else if inside && self.end_before_heading.is_none() {
            self.end_before_heading = Some(self.last_text_end);
        }
        if self.section != ContractSection::Article && self.section != ContractSection::AppendixArticle {
            self.markdown_level = level;
        }
    }

    /// Returns whether no article so far has text. Of the open article only the heading line counts, which ends in text
    /// if there is any.
    fn has_only_headings(&self) -> bool {
        let [_, .., last] = &self.contract.articles[..] else { return false };
        !self.has_words && self.text[last.body.clone()].trim_end().is_empty()
    }

    fn current_articles(&mut self) -> Option<&mut Vec<ContractArticle>> {
        match self.section {
            ContractSection::Article => Some(&mut self.contract.articles),
            ContractSection::Appendix | ContractSection::AppendixArticle => {
                self.contract.appendices.last_mut().map(|appendix| &mut appendix.articles)
            }
            ContractSection::Preamble
            | ContractSection::Chapter
            | ContractSection::Closing
            | ContractSection::OutsideContract => None,
        }
    }

    /// Closes the open section at the end of the text so far.
    fn close_section(&mut self) {
        let end = self.end_before_heading.take().unwrap_or(self.last_text_end);
        let text = self.text;
        match self.section {
            ContractSection::Preamble => self.contract.preamble = 0..end,
            ContractSection::Chapter | ContractSection::OutsideContract => {}
            ContractSection::Article | ContractSection::AppendixArticle => {
                if let Some(article) = self.current_articles().and_then(|articles| articles.last_mut()) {
                    end_article(article, text, end);
                    let has_words = !article.body.is_empty();
                    self.has_words |= has_words && self.section == ContractSection::Article;
                }
                if self.section == ContractSection::AppendixArticle {
                    self.end_appendix();
                }
            }
            ContractSection::Appendix => self.end_appendix(),
            ContractSection::Closing => {
                if let Some(closing) = &mut self.contract.closing {
                    closing.end = end.max(closing.start);
                }
            }
        }
    }

    fn end_appendix(&mut self) {
        let end = self.last_text_end;
        if let Some(appendix) = self.contract.appendices.last_mut() {
            appendix.range.end = end.max(appendix.range.start);
        }
    }

    fn close_chapter(&mut self) {
        let end = self.last_text_end;
        if let Some(chapter) = self.contract.chapters.last_mut()
            && self.contract.appendices.is_empty()
            && self.contract.closing.is_none()
        {
            chapter.range.end = end.max(chapter.range.start);
        }
    }

    /// Ends the last article before signatures that stand below it without a closing statement.
    fn end_before_signatures(&mut self) {
        let last = self.contract.articles.last().filter(|_| self.section == ContractSection::Article);
        let Some(body) = last.filter(|_| self.end_before_heading.is_none()).map(|last| last.body.start)
        else {
            return;
        };
        let end = self.last_text_end;
        let Some(at) = self.text.get(body..end).and_then(find_signatures) else { return };
        let start = body + at;
        self.last_text_end = body + self.text[body..start].trim_end().len();
        self.close_section();
        self.close_chapter();
        self.last_text_end = end;
        self.contract.closing = Some(start..end);
        self.section = ContractSection::Closing;
    }

    fn into_contract(mut self) -> Contract {
        self.end_before_signatures();
        self.close_section();
        self.close_chapter();
        self.contract
    }
}

fn end_article(article: &mut ContractArticle, text: &str, end: usize) {
    article.range.end = end.max(article.range.start);
    let start = article.body.start.min(article.range.end);
    let blank = text[start..article.range.end].len() - text[start..article.range.end].trim_start().len();
    article.body = start + blank..article.range.end;
    article.clauses = parse_clauses(text, article.body.clone());
}

/// Returns the level of a line that is a Markdown heading.
fn heading_level(line: &str) -> Option<usize> {
    let words = line.trim_start().trim_start_matches('#');
    let level = line.trim_start().len() - words.len();
    ((1..=6).contains(&level) && words.starts_with(' ')).then_some(level)
}

/// Returns whether a number is the next one: 5 → 6, 5 → 5의2, 5의2 → 5의3, 5의3 → 6.
fn is_next_article_number(last: ArticleNumber, next: ArticleNumber) -> bool {
    let branch = next.number == last.number && next.branch == last.branch.max(1) + 1;
    branch || next.number == last.number + 1 && next.branch == 0
}

/// Returns the clauses of an article: at circled numbers anywhere, or else at numbers that begin a line.
fn parse_clauses(text: &str, body: Range<usize>) -> Vec<Clause> {
    let starts = find_circled_markers(&text[body.clone()]);
    if starts.is_empty() {
        let kinds =
            [ClauseMarker::Decimal, ClauseMarker::Number, ClauseMarker::Bracketed, ClauseMarker::Letter];
        return parse_items(text, body, &kinds, 1);
    }
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([body.len()]);
    let cut = starts.iter().zip(ends).zip(1..);
    cut.map(|(((at, length), end), number)| {
        let range = trim_range(text, body.start + at..body.start + end);
        let label = text[range.start..range.start + length].to_owned();
        let inner = range.start + length..range.end;
        let kinds =
            [ClauseMarker::Number, ClauseMarker::Bracketed, ClauseMarker::Syllable, ClauseMarker::Letter];
        Clause { number, label, items: parse_items(text, inner, &kinds, 2), range }
    })
    .collect()
}

/// Returns the positions and lengths of ①, ②, … in order. In `제1항의 ①` the number is out of order or follows no space.
fn find_circled_markers(body: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut before = '\n';
    for (at, char) in body.char_indices() {
        let parted = before.is_whitespace() || ".)）】]>*".contains(before);
        if parted && parse_circled_number(char) == Some(found.len() as u32 + 1) {
            found.push((at, char.len_utf8()));
        }
        before = char;
    }
    found
}

/// Returns the parts of a range that begin a line with markers of one kind: the kind of the first marker numbered 1.
fn parse_items(text: &str, range: Range<usize>, kinds: &[ClauseMarker], depth: usize) -> Vec<Clause> {
    let mut marks: Vec<(usize, usize)> = Vec::new();
    let mut kind: Option<ClauseMarker> = None;
    let mut start = range.start;
    for line in text[range.clone()].split_inclusive('\n') {
        if let Some((found, number, length)) = parse_clause_marker(line)
            && kind.map_or(kinds.contains(&found) && number == 1, |kind| kind == found)
            && number as usize == marks.len() + 1
        {
            kind = Some(found);
            marks.push((start + (line.len() - line.trim_start().len()), start + length));
        }
        start += line.len();
    }
    let ends: Vec<usize> = marks.iter().skip(1).map(|(at, _)| *at).chain([range.end]).collect();
    let rest: Vec<ClauseMarker> =
        [ClauseMarker::Number, ClauseMarker::Bracketed, ClauseMarker::Syllable, ClauseMarker::Letter]
            .into_iter()
            .filter(|other| Some(*other) != kind)
            .collect();
    let cut = marks.into_iter().zip(ends).zip(1..);
    cut.map(|(((at, inner), end), number)| {
        let range = trim_range(text, at..end);
        let label = text[at..inner].trim().to_owned();
        let items = if depth < MAX_CLAUSE_DEPTH {
            parse_items(text, inner.min(range.end)..range.end, &rest, depth + 1)
        } else {
            Vec::new()
        };
        Clause { number, label, range, items }
    })
    .collect()
}

fn trim_range(text: &str, range: Range<usize>) -> Range<usize> {
    let words = &text[range.clone()];
    let start = range.start + (words.len() - words.trim_start().len());
    start..start + words.trim().len()
}

#[cfg(test)]
mod tests;
