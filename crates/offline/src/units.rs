//! What can be quoted: the sentences, list items and table rows of a source, each with what it belongs to.

use std::sync::LazyLock;

use doran_agents::agents::contract::ComparisonRemark;
use doran_agents::request_format::without_side_heading;
use doran_agents::tools::names;
use doran_llm::PassageKind;
use doran_retrieval::{ArticleNumber, HEADING_SEPARATOR, is_circled_number, is_hangul, split_sentences};
use regex::Regex;

use super::cues::Cue;
use super::headings::{
    article_of_heading, heading_number, heading_words, is_article_title, is_blank, is_heading, run_in_title,
    section_number, without_answer_mark,
};

/// The longest quote in bytes; what is longer is cut at a character and is still word for word.
const MAX_UNIT_BYTES: usize = 1200;

/// A line at least this wide that ends without a full stop goes on in the next line. A Korean syllable is two wide.
const WRAPPED_LINE_WIDTH: usize = 60;

#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
pub(super) static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[-*•·▪○●◦]\s+|\(?\d{1,2}[.)]\s+|\(?[가-하a-z][.)]\s+)").expect("a pattern")
});
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static CELL_GAP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\s+\|\s+|\t+|\s{2,}").expect("a pattern"));
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
        let kept = cells
            .iter()
            .enumerate()
            .filter(|(at, cell)| !cell.is_empty() && (*at == 0 || !narrow || wanted[*at]));
        let cells = kept.map(|(at, cell)| match head(at) {
            "" => (*cell).to_owned(),
            head => format!("{head}: {cell}"),
        });
        cells.collect::<Vec<_>>().join(" · ")
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
                place.enter_heading(heading_words(line));
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
            LineKind::Item if place.heading.ends_with('?') && without_answer_mark(line) != line => {
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
                let mut sentences = split_sentences(line).into_iter().peekable();
                while let Some(sentence) = sentences.next() {
                    place.enter_article(sentence);
                    if is_article_title(sentence) && sentences.peek().is_some() {
                        place.heading = sentence;
                        continue;
                    }
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
    let aligned = |at: usize| lines.get(at).is_some_and(|line| is_aligned_row(line));
    let kind = |at: usize| match line_kind(lines[at]) {
        LineKind::Text if aligned(at) && (at > 0 && aligned(at - 1) || aligned(at + 1)) => LineKind::Row,
        LineKind::Text | LineKind::Item if is_heading(&lines, at) => LineKind::Heading,
        kind => kind,
    };
    (0..lines.len()).map(|at| (lines[at], kind(at))).collect()
}

fn line_kind(line: &str) -> LineKind {
    if is_blank(line) {
        return LineKind::Blank;
    }
    if line.starts_with('|') && line[1..].contains('|') {
        let rule = line.chars().all(|char| matches!(char, '|' | '-' | ':' | ' ' | '='));
        return if rule { LineKind::Rule } else { LineKind::Row };
    }
    if ITEM.is_match(line) { LineKind::Item } else { LineKind::Text }
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
