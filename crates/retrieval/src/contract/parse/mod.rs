//! Cuts the text of a contract at its headings, and the articles at their clauses and items.

use std::ops::Range;

use super::line::{Line, Style, read};
use super::marker::{Marker, marker};
use super::numeral::circled;
use super::{Appendix, Article, Chapter, Clause, Contract};
use crate::passage::ArticleNumber;

/// How deep clauses, items and their items go.
const DEPTH: usize = 3;

/// Reads the structure of a text.
pub(super) fn parse(text: &str) -> Contract {
    let Some(style) = style(text) else {
        return Contract { preamble: 0..text.len(), ..Contract::default() };
    };
    let mut reading = Reading {
        text,
        place: Place::Preamble,
        contract: Contract::default(),
        end: 0,
        level: None,
        heading: None,
        has_words: false,
    };
    reading.contract.named = style != Style::Numbered;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if !line.trim_start().starts_with('|') {
            reading.line(start, line.trim_end(), style);
        }
        start += line.len();
        if !line.trim().is_empty() {
            reading.end = start - (line.len() - line.trim_end().len());
        }
    }
    reading.finish()
}

/// The way this text counts articles, if it has at least two, or one in Korean.
fn style(text: &str) -> Option<Style> {
    let count = |style: Style, least: usize| {
        let mut next = 1;
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('|'));
        let articles = lines.filter_map(|line| match read(line, style) {
            Line::Article { number, .. } => Some(number.number),
            Line::Chapter { .. } | Line::Appendix { .. } | Line::Closing | Line::Other => None,
        });
        let in_order = articles.filter(|number| {
            let fits = style != Style::Numbered || *number == next;
            next += u32::from(fits);
            fits
        });
        in_order.take(least).count() >= least
    };
    let styles = [
        (Style::Korean, 2),
        (Style::Article, 2),
        (Style::Section, 2),
        (Style::Korean, 1),
        (Style::Numbered, 2),
    ];
    styles.into_iter().find(|(style, least)| count(*style, *least)).map(|(style, _)| style)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Preamble,
    /// Under the heading of a chapter, before its first article.
    Chapter,
    Article,
    Appendix,
    AppendixArticle,
    Closing,
    /// Under a heading that begins nothing of a contract.
    Between,
}

struct Reading<'a> {
    text: &'a str,
    place: Place,
    contract: Contract,
    /// Where the last words so far end.
    end: usize,
    /// The level of the Markdown heading that the open article is, or that it stands under.
    level: Option<usize>,
    /// The first Markdown heading inside the open article, if no article follows: where the words before it end.
    heading: Option<usize>,
    /// Whether an article that is closed has words under its heading.
    has_words: bool,
}

impl Reading<'_> {
    fn line(&mut self, start: usize, line: &str, style: Style) {
        let owned = |range: Range<usize>| line[range].trim().to_owned();
        let level = heading_level(line);
        let read = read(line, style);
        if level.is_some() && matches!(read, Line::Other) {
            self.heading(level);
        }
        match read {
            Line::Chapter { number, title } => {
                self.heading = None;
                self.close();
                self.close_chapter();
                let begin = start + super::line::indent(line);
                let chapter = Chapter { number, title: owned(title), range: begin..start + line.len() };
                self.contract.chapters.push(chapter);
                self.level = level.or(self.level);
                self.place = Place::Chapter;
            }
            Line::Article { number, title, body, sure } => {
                let Some(place) = self.admits(number, sure) else { return };
                // What stood under a heading before it was part of the article after all.
                self.heading = None;
                self.close();
                self.level = level.or(self.level);
                let begin = start + super::line::indent(line);
                let article = Article {
                    number,
                    title: title.map(owned).unwrap_or_default(),
                    range: begin..start + line.len(),
                    body: start + body..start + line.len(),
                    chapter: self.contract.chapters.len().checked_sub(1).filter(|_| place == Place::Article),
                    clauses: Vec::new(),
                };
                self.place = place;
                if let Some(articles) = self.articles() {
                    articles.push(article);
                }
            }
            Line::Appendix { label, title } => {
                self.close();
                self.close_chapter();
                let range = start + super::line::indent(line)..start + line.len();
                let appendix =
                    Appendix { label: owned(label), title: owned(title), range, articles: Vec::new() };
                self.contract.appendices.push(appendix);
                self.place = Place::Appendix;
            }
            Line::Closing if self.place == Place::Article => {
                self.close();
                self.close_chapter();
                self.contract.closing = Some(start..start + line.len());
                self.place = Place::Closing;
            }
            Line::Closing | Line::Other => {}
        }
    }

    /// Where an article of this number would go; none when it is more likely a mention of one.
    fn admits(&mut self, number: ArticleNumber, sure: bool) -> Option<Place> {
        let in_appendix = matches!(self.place, Place::Appendix | Place::AppendixArticle);
        let main = self.contract.articles.last().map(|article| article.number);
        let back = in_appendix && number.number > 1 && main.is_some_and(|last| follows(last, number));
        let place = if in_appendix && !back { Place::AppendixArticle } else { Place::Article };
        let last = match place {
            Place::Article => main,
            _ => self.contract.appendices.last()?.articles.last().map(|article| article.number),
        };
        let Some(last) = last else { return (sure || number.number == 1).then_some(place) };
        if place == Place::Article && number.number == 1 && number.branch == 0 && self.only_headings() {
            // All so far was a table of contents.
            self.contract.articles.clear();
            self.has_words = false;
            self.contract.chapters.truncate(1);
            return Some(place);
        }
        (follows(last, number) || sure && number > last).then_some(place)
    }

    /// A Markdown heading that begins nothing of a contract ends an article that stands under one as high. A lower one ends
    /// the last article only: within others it is a part of them.
    fn heading(&mut self, level: Option<usize>) {
        let inside = matches!(self.place, Place::Article | Place::AppendixArticle);
        if inside && self.level.is_some() && level <= self.level {
            self.heading = None;
            self.close();
            self.close_chapter();
            self.place = Place::Between;
        } else if inside && self.heading.is_none() {
            self.heading = Some(self.end);
        }
        if self.place != Place::Article && self.place != Place::AppendixArticle {
            self.level = level;
        }
    }

    /// Whether no article so far has words. Of the open one only the line of its heading counts, which ends in words if
    /// there are any.
    fn only_headings(&self) -> bool {
        let [_, .., last] = &self.contract.articles[..] else { return false };
        !self.has_words && self.text[last.body.clone()].trim_end().is_empty()
    }

    fn articles(&mut self) -> Option<&mut Vec<Article>> {
        match self.place {
            Place::Article => Some(&mut self.contract.articles),
            Place::Appendix | Place::AppendixArticle => {
                self.contract.appendices.last_mut().map(|appendix| &mut appendix.articles)
            }
            Place::Preamble | Place::Chapter | Place::Closing | Place::Between => None,
        }
    }

    /// Ends what is open where the words so far end.
    fn close(&mut self) {
        let end = self.heading.take().unwrap_or(self.end);
        let text = self.text;
        match self.place {
            Place::Preamble => self.contract.preamble = 0..end,
            Place::Chapter | Place::Between => {}
            Place::Article | Place::AppendixArticle => {
                if let Some(article) = self.articles().and_then(|articles| articles.last_mut()) {
                    end_article(article, text, end);
                    let has_words = !article.body.is_empty();
                    self.has_words |= has_words && self.place == Place::Article;
                }
                if self.place == Place::AppendixArticle {
                    self.end_appendix();
                }
            }
            Place::Appendix => self.end_appendix(),
            Place::Closing => {
                if let Some(closing) = &mut self.contract.closing {
                    closing.end = end.max(closing.start);
                }
            }
        }
    }

    fn end_appendix(&mut self) {
        let end = self.end;
        if let Some(appendix) = self.contract.appendices.last_mut() {
            appendix.range.end = end.max(appendix.range.start);
        }
    }

    fn close_chapter(&mut self) {
        let end = self.end;
        if let Some(chapter) = self.contract.chapters.last_mut()
            && self.contract.appendices.is_empty()
            && self.contract.closing.is_none()
        {
            chapter.range.end = end.max(chapter.range.start);
        }
    }

    fn finish(mut self) -> Contract {
        self.close();
        self.close_chapter();
        self.contract
    }
}

fn end_article(article: &mut Article, text: &str, end: usize) {
    article.range.end = end.max(article.range.start);
    let start = article.body.start.min(article.range.end);
    let blank = text[start..article.range.end].len() - text[start..article.range.end].trim_start().len();
    article.body = start + blank..article.range.end;
    article.clauses = clauses(text, article.body.clone());
}

/// The level of a line that is a Markdown heading.
fn heading_level(line: &str) -> Option<usize> {
    let words = line.trim_start().trim_start_matches('#');
    let level = line.trim_start().len() - words.len();
    ((1..=6).contains(&level) && words.starts_with(' ')).then_some(level)
}

/// Whether a number is the next one: 5 → 6, 5 → 5의2, 5의2 → 5의3, 5의3 → 6.
fn follows(last: ArticleNumber, next: ArticleNumber) -> bool {
    let branch = next.number == last.number && next.branch == last.branch.max(1) + 1;
    branch || next.number == last.number + 1 && next.branch == 0
}

/// The clauses of an article: at circled numbers wherever they stand, else at numbers that begin a line.
fn clauses(text: &str, body: Range<usize>) -> Vec<Clause> {
    let starts = circles(&text[body.clone()]);
    if starts.is_empty() {
        let kinds = [Marker::Decimal, Marker::Number, Marker::Bracketed, Marker::Letter];
        return items(text, body, &kinds, 1);
    }
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([body.len()]);
    let cut = starts.iter().zip(ends).zip(1..);
    cut.map(|(((at, length), end), number)| {
        let range = trimmed(text, body.start + at..body.start + end);
        let label = text[range.start..range.start + length].to_owned();
        let inner = range.start + length..range.end;
        let kinds = [Marker::Number, Marker::Bracketed, Marker::Syllable, Marker::Letter];
        Clause { number, label, items: items(text, inner, &kinds, 2), range }
    })
    .collect()
}

/// Where ①, ②, … stand in order, with their lengths. `제1항의 ①` in a sentence is out of order or has no blank before.
fn circles(body: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut before = '\n';
    for (at, char) in body.char_indices() {
        let parted = before.is_whitespace() || ".)）】]>*".contains(before);
        if parted && circled(char) == Some(found.len() as u32 + 1) {
            found.push((at, char.len_utf8()));
        }
        before = char;
    }
    found
}

/// The parts of a range that begin a line with marks of one kind: the kind of the first mark that counts from 1.
fn items(text: &str, range: Range<usize>, kinds: &[Marker], depth: usize) -> Vec<Clause> {
    let mut marks: Vec<(usize, usize)> = Vec::new();
    let mut kind: Option<Marker> = None;
    let mut start = range.start;
    for line in text[range.clone()].split_inclusive('\n') {
        if let Some((found, number, length)) = marker(line)
            && kind.map_or(kinds.contains(&found) && number == 1, |kind| kind == found)
            && number as usize == marks.len() + 1
        {
            kind = Some(found);
            marks.push((start + (line.len() - line.trim_start().len()), start + length));
        }
        start += line.len();
    }
    let ends: Vec<usize> = marks.iter().skip(1).map(|(at, _)| *at).chain([range.end]).collect();
    let rest: Vec<Marker> = [Marker::Number, Marker::Bracketed, Marker::Syllable, Marker::Letter]
        .into_iter()
        .filter(|other| Some(*other) != kind)
        .collect();
    let cut = marks.into_iter().zip(ends).zip(1..);
    cut.map(|(((at, inner), end), number)| {
        let range = trimmed(text, at..end);
        let label = text[at..inner].trim().to_owned();
        let items = if depth < DEPTH {
            items(text, inner.min(range.end)..range.end, &rest, depth + 1)
        } else {
            Vec::new()
        };
        Clause { number, label, range, items }
    })
    .collect()
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let words = &text[range.clone()];
    let start = range.start + (words.len() - words.trim_start().len());
    start..start + words.trim().len()
}

#[cfg(test)]
mod tests;
