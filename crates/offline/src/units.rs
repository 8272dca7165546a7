//! What can be quoted: the sentences, list items and table rows of a source, each with what it belongs to.

use std::sync::LazyLock;

use doran_agents::agents::contract::ComparisonRemark;
use doran_agents::request_format::without_side_heading;
use doran_agents::tools::names;
use doran_llm::PassageKind;
use doran_retrieval::contract::find_article_references;
use doran_retrieval::{ArticleNumber, HEADING_SEPARATOR, is_circled_number, is_hangul, split_sentences};
use regex::Regex;

use super::cues::Cue;

/// The longest quote in bytes; what is longer is cut at a character and is still word for word.
const MAX_UNIT_BYTES: usize = 1200;

/// A line at least this wide that ends without a full stop goes on in the next line. A Korean syllable is two wide.
const WRAPPED_LINE_WIDTH: usize = 60;

/// A line without a full stop that is not longer than this and stands alone is a heading.
const MAX_HEADING_CHARS: usize = 60;

#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[-*•·▪○●◦]\s+|\(?\d{1,2}[.)]\s+|\(?[가-하a-z][.)]\s+)").expect("a pattern")
});
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static CELL_GAP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\s+\|\s+|\t+|\s{2,}").expect("a pattern"));
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static QUESTION_MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:[-*•]\s+)?\**\s*(?:Q\s?\d*|질문|문)\s*[.:)]\s*").expect("a pattern"));
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static ANSWER_MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[-*•]\s+)?\**\s*(?:A\s?\d*|답변|답)\s*[.:)]\**\s*").expect("a pattern")
});
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static SECTION_NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d{1,3})\.(\d{1,2})\.?\s+[\p{Lu}\p{Lo}\x22“(]").expect("a pattern"));

/// Something to quote from.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotableSource<'a> {
    /// The document and the headings of the place.
    pub(super) title: &'a str,
    /// Its words.
    pub(super) text: &'a str,
    /// Whose it is.
    pub(super) kind: QuotableSourceKind,
    /// By what it is cited.
    pub(super) cite: SourceCitation<'a>,
}

/// By what a source is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceCitation<'a> {
    /// The number of a passage.
    Number(u32),
    /// The name of a tool.
    Tool(&'a str),
    /// The text that came with the question.
    Given,
}

/// Whose a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotableSourceKind {
    /// Any document that is not a contract.
    Document,
    /// The person's own contract.
    Contract,
    /// A standard contract.
    Standard,
}

impl QuotableSourceKind {
    /// The kind of a passage.
    pub(super) fn of_passage(kind: PassageKind) -> Self {
        match kind {
            PassageKind::Document => Self::Document,
            PassageKind::Contract => Self::Contract,
            PassageKind::StandardContract => Self::Standard,
        }
    }

    /// The kind of what a tool brings.
    pub(super) fn of_tool(name: &str) -> Self {
        if name.ends_with(names::LOOKUP_STANDARD_CONTRACT) {
            Self::Standard
        } else if names::CONTRACT_TOOLS.iter().any(|tool| name.ends_with(tool)) {
            Self::Contract
        } else {
            Self::Document
        }
    }
}

impl<'a> QuotableSource<'a> {
    /// Whether it is a standard contract.
    pub(super) fn is_standard(&self) -> bool {
        self.kind == QuotableSourceKind::Standard
    }

    /// The document, without headings.
    pub(super) fn document(&self) -> &'a str {
        without_side_heading(self.title).split(HEADING_SEPARATOR).next().unwrap_or_default()
    }
}

/// How a unit stands in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    /// A sentence of a paragraph.
    Sentence,
    /// An item of a list.
    Item,
    /// A row of a table.
    Row,
}

/// A sentence, a list item or a table row.
#[derive(Clone, Debug)]
pub(super) struct QuotableUnit<'a> {
    /// The words as they stand.
    pub(super) text: &'a str,
    /// What it is.
    pub(super) kind: UnitKind,
    /// The head of its table.
    pub(super) header: Option<&'a str>,
    /// The nearest heading above it.
    pub(super) heading: &'a str,
    /// The sentence before it in the same paragraph, or the line that leads to its list or table.
    pub(super) lead: &'a str,
    /// The number of its source, counted from 0.
    pub(super) source: usize,
    /// The number of its paragraph, list or table in the source.
    pub(super) block: usize,
    /// The article it belongs to.
    pub(super) article: Option<ArticleNumber>,
    /// The clause of the article.
    pub(super) clause: Option<u32>,
}

impl QuotableUnit<'_> {
    /// Whether it only leads to the list or table below it.
    pub(super) fn leads_to_list(&self) -> bool {
        self.kind == UnitKind::Sentence
            && (self.text.ends_with([':', '：']) || Cue::LeadsToList.is_in(self.text))
    }

    /// The question that it stands below, as in a list of frequent questions; empty below any other heading.
    pub(super) fn question_above(&self) -> &str {
        if self.heading.ends_with('?') { self.heading } else { "" }
    }

    /// What leads to it: the sentence before it or its list, else the question that it answers.
    pub(super) fn lead_or_question(&self) -> &str {
        if self.lead.is_empty() { self.question_above() } else { self.lead }
    }

    /// The words on one line. A row is told as `head: cell`; of the columns only those that `keep` wants, and the first.
    pub(super) fn quoted(&self, keep: impl Fn(&str, &str) -> bool) -> String {
        if self.kind != UnitKind::Row {
            // An article may be a row of a table.
            let words = self.text.split_whitespace().filter(|word| *word != "|");
            return words.collect::<Vec<_>>().join(" ");
        }
        let cells = row_cells(self.text);
        let heads = self.header.map(row_cells).unwrap_or_default();
        let head = |at: usize| heads.get(at).copied().unwrap_or_default();
        let wanted: Vec<bool> = cells.iter().enumerate().map(|(at, cell)| keep(head(at), cell)).collect();
        let narrow = wanted.iter().skip(1).any(|kept| *kept);
        let told = cells
            .iter()
            .enumerate()
            .filter(|(at, cell)| !cell.is_empty() && (*at == 0 || !narrow || wanted[*at]));
        let told = told.map(|(at, cell)| match head(at) {
            "" => (*cell).to_owned(),
            head => format!("{head}: {cell}"),
        });
        told.collect::<Vec<_>>().join(" · ")
    }
}

/// The cells of a row: between bars, tabs or wide gaps. A row with bars may begin without one.
pub(super) fn row_cells(row: &str) -> Vec<&str> {
    let row = row.trim();
    match row.strip_prefix('|') {
        Some(inner) => inner.strip_suffix('|').unwrap_or(inner).split('|').map(str::trim).collect(),
        None => CELL_GAP.split(row).map(str::trim).collect(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Blank,
    Heading,
    Row,
    /// The line of dashes under the head of a table.
    Rule,
    Item,
    Text,
}

/// The units of a source, in order.
pub(super) fn split_units<'a>(source: &QuotableSource<'a>, number: usize) -> Vec<QuotableUnit<'a>> {
    let lines = logical_lines(source.text);
    let title = ComparisonRemark::without_remark(source.title);
    let titled = title.rsplit(HEADING_SEPARATOR).next().unwrap_or_default();
    let mut place = UnitPlace {
        source: number,
        heading: if title.contains(HEADING_SEPARATOR) { titled } else { "" },
        article: article_of_heading(titled).or_else(|| heading_number(titled)),
        is_in_named_article: article_of_heading(titled).is_some(),
        ..UnitPlace::default()
    };
    let mut units = Vec::new();
    let mut before = LineKind::Blank;
    let mut last_text = "";
    for (at, (line, kind)) in lines.iter().copied().enumerate() {
        let starts_block = kind != before && !(kind == LineKind::Row && before == LineKind::Rule);
        if starts_block && kind != LineKind::Blank {
            place.block += 1;
        }
        match kind {
            LineKind::Blank => {}
            // The title of a text is no sentence of it.
            LineKind::Text if line == source.document() => {}
            LineKind::Heading => {
                let marks = QUESTION_MARK.find(line).map_or(0, |mark| mark.end());
                let heading = line[marks..].trim_start_matches(['#', '[', '*']);
                place.enter_heading(heading.trim_end_matches([']', '*']).trim());
                last_text = "";
            }
            LineKind::Rule => {}
            LineKind::Row if before != LineKind::Row && before != LineKind::Rule => {
                place.header = Some(line)
                    .filter(|_| matches!(lines.get(at + 1), Some((_, LineKind::Rule | LineKind::Row))));
                place.lead = last_text;
                if place.header.is_none() {
                    units.push(place.unit(line, UnitKind::Row));
                }
            }
            LineKind::Row => units.push(place.unit(line, UnitKind::Row)),
            LineKind::Item if place.heading.ends_with('?') && ANSWER_MARK.is_match(line) => {
                for sentence in split_sentences(without_answer_mark(line)) {
                    units.push(place.unit(sentence, UnitKind::Sentence));
                }
            }
            LineKind::Item => {
                if before != LineKind::Item {
                    place.lead = last_text;
                }
                place.header = None;
                let mut unit = place.unit(line, UnitKind::Item);
                if place.article.is_some() && place.clause.is_none() {
                    // Without ① the numbers of the items are those of the clauses.
                    unit.clause = line.split(['.', ')']).next().and_then(|number| number.parse().ok());
                }
                units.push(unit);
            }
            LineKind::Text => {
                place.header = None;
                place.lead = if before == LineKind::Text { last_text } else { "" };
                let (title, line) = run_in_title(line);
                place.enter_heading(title);
                let line = if place.heading.ends_with('?') { without_answer_mark(line) } else { line };
                for sentence in split_sentences(line) {
                    place.enter_article(sentence);
                    units.push(place.unit(sentence, UnitKind::Sentence));
                    place.lead = sentence;
                    last_text = sentence;
                }
            }
        }
        if kind != LineKind::Blank {
            before = kind;
        } else if before == LineKind::Text {
            before = LineKind::Blank;
        }
    }
    units
}

#[derive(Clone, Debug, Default)]
struct UnitPlace<'a> {
    source: usize,
    block: usize,
    header: Option<&'a str>,
    heading: &'a str,
    lead: &'a str,
    article: Option<ArticleNumber>,
    /// The article is called so, as in 제5조, and not the number of a section.
    is_in_named_article: bool,
    clause: Option<u32>,
}

impl<'a> UnitPlace<'a> {
    fn unit(&self, text: &'a str, kind: UnitKind) -> QuotableUnit<'a> {
        QuotableUnit {
            text: text[..text.floor_char_boundary(MAX_UNIT_BYTES)].trim(),
            kind,
            header: self.header,
            heading: self.heading,
            lead: self.lead,
            source: self.source,
            block: self.block,
            article: self.article,
            clause: self.clause,
        }
    }

    /// Notes a heading, and the article that it names.
    fn enter_heading(&mut self, heading: &'a str) {
        if heading.is_empty() {
            return;
        }
        self.heading = heading;
        let named = article_of_heading(heading);
        if let Some(article) = named.or_else(|| heading_number(heading)) {
            (self.article, self.clause) = (Some(article), None);
            self.is_in_named_article = named.is_some();
        }
    }

    /// Notes the article and the clause that a sentence opens: `제5조(대금) ① …`, `② …`, `4.2 The price …`.
    fn enter_article(&mut self, sentence: &str) {
        if let Some((article, clause)) = section_number(sentence)
            && (self.article == Some(article) || !self.is_in_named_article)
        {
            (self.article, self.clause) = (Some(article), Some(clause));
        }
        if let Some(article) = article_of_heading(sentence) {
            (self.article, self.clause) = (Some(article), None);
            self.is_in_named_article = true;
        }
        let marked = sentence.chars().find(|char| is_circled_number(*char));
        let opens = |mark: char| sentence.starts_with(mark) || article_of_heading(sentence).is_some();
        if let Some(mark) = marked.filter(|mark| opens(*mark)) {
            self.clause = Some(mark as u32 - '①' as u32 + 1);
        }
    }
}

/// The article that a heading or the first words of a sentence name: `제5조(대금)`, `8. Customer duties` has none.
fn article_of_heading(text: &str) -> Option<ArticleNumber> {
    let text = text.rsplit(HEADING_SEPARATOR).next().unwrap_or_default().trim_start_matches(['#', ' ']);
    let near = &text[..text.floor_char_boundary(48)];
    find_article_references(near)
        .into_iter()
        .next()
        .filter(|found| found.range.start == 0)
        .map(|one| one.article)
}

/// The number of a heading such as `8. Customer duties`, which people call section 8.
fn heading_number(heading: &str) -> Option<ArticleNumber> {
    let (number, title) = heading.split_once(". ")?;
    let number = number.parse().ok().filter(|number| (1..1000).contains(number) && !title.is_empty())?;
    Some(ArticleNumber { number, branch: 0 })
}

/// The number of a section that is a paragraph, such as `4.2 The price …`: people call it article 4, clause 2.
fn section_number(text: &str) -> Option<(ArticleNumber, u32)> {
    let found = SECTION_NUMBER.captures(text)?;
    let number = |at: usize| found[at].parse::<u32>().ok();
    Some((ArticleNumber { number: number(1)?, branch: 0 }, number(2)?))
}

/// The lines with their kinds; lines that were broken for width only are one.
fn logical_lines(text: &str) -> Vec<(&str, LineKind)> {
    let mut joined: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive(|char: char| char.is_control() && char != '\t') {
        let end = start + line.len();
        let begins_new = |line: &str| {
            line.trim().is_empty()
                || line.trim_start().starts_with(['|', '#'])
                || ITEM.is_match(line.trim_start())
                || line.trim_start().starts_with(is_circled_number)
                || is_aligned_row(line)
        };
        match joined.last_mut() {
            Some(last) if goes_on(&text[last.0..last.1]) && !begins_new(line) => last.1 = end,
            _ => joined.push((start, end)),
        }
        start = end;
    }
    let trimmed = |(start, end): &(usize, usize)| {
        text[*start..*end].trim_matches(|char: char| char.is_whitespace() || char.is_control())
    };
    let lines: Vec<&str> = joined.iter().map(trimmed).collect();
    let kinds: Vec<LineKind> = lines.iter().map(|line| line_kind(line)).collect();
    let aligned = |at: usize| lines.get(at).is_some_and(|line| is_aligned_row(line));
    let told = |at: usize| {
        let blank =
            |at: Option<usize>| at.is_none_or(|at| kinds.get(at).is_none_or(|kind| *kind == LineKind::Blank));
        let alone = blank(at.checked_sub(1)) && blank(Some(at + 1)) && at + 1 < lines.len();
        let stops = lines[at].trim_end_matches('*').ends_with(['.', '!', '?', '。', ':', '：', ';']);
        let short = lines[at].chars().count() <= MAX_HEADING_CHARS;
        match kinds[at] {
            LineKind::Text if aligned(at) && (at > 0 && aligned(at - 1) || aligned(at + 1)) => LineKind::Row,
            LineKind::Text if alone && short && !stops => LineKind::Heading,
            LineKind::Text if is_article_title(lines[at]) => LineKind::Heading,
            LineKind::Item if is_section_title(&lines[at..]) => LineKind::Heading,
            LineKind::Text | LineKind::Item if is_answered_question(&lines[at..]) => LineKind::Heading,
            LineKind::Item
                if blank(at.checked_sub(1)) && short && !stops && is_numbered_title(&lines[at..]) =>
            {
                LineKind::Heading
            }
            LineKind::Text if is_bold_title(&lines[at..]) && short => LineKind::Heading,
            kind => kind,
        }
    };
    (0..lines.len()).map(|at| (lines[at], told(at))).collect()
}

fn line_kind(line: &str) -> LineKind {
    if !line.chars().any(char::is_alphanumeric) && !line.contains('|') {
        return LineKind::Blank;
    }
    if line.starts_with('#') || (line.starts_with('[') && line.ends_with(']')) {
        return LineKind::Heading;
    }
    if line.starts_with('|') && line[1..].contains('|') {
        let rule = line.chars().all(|char| matches!(char, '|' | '-' | ':' | ' ' | '='));
        return if rule { LineKind::Rule } else { LineKind::Row };
    }
    if ITEM.is_match(line) { LineKind::Item } else { LineKind::Text }
}

/// Whether a line only names an article: `제8조(지체상금)`.
fn is_article_title(line: &str) -> bool {
    article_of_heading(line).is_some() && line.ends_with(')') && line.matches('(').count() == 1
}

/// Whether the first of these lines is a frequent question and not a sentence that asks: it is marked (`Q. …`), bold as a whole, or followed
/// by its answer.
fn is_answered_question(lines: &[&str]) -> bool {
    let [line, below @ ..] = lines else { return false };
    let is_question = |line: &str| {
        let plain = line.trim_end_matches('*');
        plain.ends_with('?') && (QUESTION_MARK.is_match(line) || split_sentences(plain).len() == 1)
    };
    let is_marked = QUESTION_MARK.is_match(line) || line.starts_with("**") && line.ends_with("**");
    let answer = below.iter().find(|line| !line.is_empty());
    let is_answered = answer.is_some_and(|answer| !is_question(answer) && !answer.starts_with('#'));
    is_question(line) && (is_marked || is_answered)
}

/// The answer to a frequent question without its mark: `A. Within 14 days.`
fn without_answer_mark(line: &str) -> &str {
    &line[ANSWER_MARK.find(line).map_or(0, |mark| mark.end())..]
}

/// Whether the first of these lines is a number with a title, and the next one the text below it: `3. Party` above `On 12 May …`.
fn is_numbered_title(lines: &[&str]) -> bool {
    let [title, text, ..] = lines else { return false };
    heading_number(title).is_some() && line_kind(text) == LineKind::Text
}

/// Whether the first of these lines is the numbered title of the sections below it: `4. Price` above `4.1 …`.
fn is_section_title(lines: &[&str]) -> bool {
    let [title, below @ ..] = lines else { return false };
    let first = below.iter().find(|line| !line.is_empty());
    let number = |line: &str| line.split('.').next().and_then(|number| number.parse::<u32>().ok());
    number(title).is_some()
        && first.is_some_and(|line| SECTION_NUMBER.is_match(line) && number(line) == number(title))
}

/// Whether the first of these lines is bold as a whole and stands over others: `**If the printer is silent**`. A bold
/// sentence that stands alone, such as a warning, is a sentence.
fn is_bold_title(lines: &[&str]) -> bool {
    let [line, below @ ..] = lines else { return false };
    let Some(bold) = line.strip_prefix("**").and_then(|line| line.strip_suffix("**")) else { return false };
    let below = if bold.ends_with(['.', '!']) { &below[..below.len().min(1)] } else { below };
    !bold.is_empty() && !bold.contains("**") && below.iter().any(|line| !line.is_empty())
}

/// The bold number and title, or the bold question, that a paragraph begins with, without its marks, and the rest:
/// `**1. The driver.** The driver must …`. Other bold words are a part of their sentence.
fn run_in_title(line: &str) -> (&str, &str) {
    let parts = line.strip_prefix("**").and_then(|line| line.split_once("**"));
    let is_title = |(title, rest): &(&str, &str)| {
        (heading_number(title).is_some() || title.ends_with('?') || article_of_heading(title).is_some())
            && rest.starts_with(' ')
    };
    parts.filter(is_title).unwrap_or(("", line))
}

/// Whether a line has three or more cells with bars or wide gaps between them.
fn is_aligned_row(line: &str) -> bool {
    let line = line.trim();
    !line.starts_with('|') && CELL_GAP.find_iter(line).count() >= 2
}

/// Whether a line was broken because it is wide, and not because its sentence ended.
fn goes_on(line: &str) -> bool {
    let line = line.trim_end().rsplit('\n').next().unwrap_or_default().trim_end_matches('*');
    let wide: usize = line.chars().map(|char| 1 + usize::from(is_hangul(char))).sum();
    wide >= WRAPPED_LINE_WIDTH
        && !line.ends_with(['.', '!', '?', '。', ':', '|', '"', ')', '”'])
        && !line.starts_with(['|', '#'])
        && !is_aligned_row(line)
}
