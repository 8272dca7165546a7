//! Layout analysis: groups positioned characters into lines, and lines into headings, paragraphs and tables.

use std::collections::BTreeMap;

use super::word_breaks::{LineEnd, WordBreaks};

/// A character on a page. `y` grows upwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct PdfGlyph {
    pub(super) char: char,
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) width: f32,
    pub(super) size: f32,
}

/// A line: pieces of text separated by wide gaps.
#[derive(Clone, Debug)]
pub(super) struct PdfLine {
    y: f32,
    size: f32,
    pieces: Vec<String>,
    /// Where the line ends, and whether a blank follows.
    right_end: (f32, bool),
    /// The same for its first piece.
    first_piece_end: (f32, bool),
    /// Whether it reaches the margin of its column.
    reaches_margin: bool,
}

/// A block of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PdfBlock {
    Heading(usize, String),
    Paragraph(String),
    Table(Vec<Vec<String>>),
}

/// The amount of text of each font size, in tenths of a point.
#[derive(Debug, Default)]
pub(super) struct FontSizes(BTreeMap<u32, usize>);

impl FontSizes {
    pub(super) fn add_line(&mut self, line: &PdfLine) {
        *self.0.entry(size_in_tenths(line.size)).or_default() += line.len();
    }

    /// Returns the most frequent size.
    fn body_size(&self) -> u32 {
        self.0.iter().max_by_key(|(_, length)| **length).map_or(100, |(size, _)| *size)
    }

    /// Returns the heading level of a size, or `None` for the body size and sizes that are hardly larger.
    fn heading_level(&self, size: f32) -> Option<usize> {
        let least = self.body_size() * 112 / 100;
        let size = size_in_tenths(size);
        let larger = self.0.keys().filter(|other| **other > size).count();
        (size > least).then_some((larger + 1).min(4))
    }
}

fn size_in_tenths(size: f32) -> u32 {
    // Rounded to half points: programs that scale pages leave 9.98 and 10.02.
    ((size * 2.0).round() * 5.0).clamp(0.0, 10_000.0) as u32
}

impl PdfLine {
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(String::len).sum()
    }

    /// Returns the text of a line that is not a table row.
    pub(super) fn single_text(&self) -> Option<&str> {
        let [words] = self.pieces.as_slice() else { return None };
        Some(words)
    }
}

/// Returns the lines of a page from top to bottom. Two columns come one after the other.
pub(super) fn group_into_lines(mut glyphs: Vec<PdfGlyph>) -> Vec<PdfLine> {
    glyphs.sort_by(|left, right| right.y.total_cmp(&left.y));
    let mut rows: Vec<Vec<PdfGlyph>> = Vec::new();
    for glyph in glyphs {
        match rows.last_mut() {
            // Measured from the first character of the row, so that small steps do not add up to one row for the whole
            // page.
            Some(row)
                if row.first().is_some_and(|first| first.y - glyph.y < 0.4 * first.size.max(glyph.size)) =>
            {
                row.push(glyph);
            }
            Some(_) | None => rows.push(vec![glyph]),
        }
    }
    let lines: Vec<PdfLine> = rows.into_iter().filter_map(line_from_glyphs).collect();
    separate_columns(without_page_numbers(lines))
}

fn line_from_glyphs(mut row: Vec<PdfGlyph>) -> Option<PdfLine> {
    row.sort_by(|left, right| left.x.total_cmp(&right.x));
    let (mut pieces, mut words) = (Vec::new(), String::new());
    let mut end: Option<f32> = None;
    let mut blank = false;
    let (mut size, mut y) = (0.0f32, 0.0);
    let mut last: Option<PdfGlyph> = None;
    let mut first = None;
    for glyph in row {
        if glyph.char.is_whitespace() {
            blank = true;
            continue;
        }
        // The same character at the same position is bold type made by printing twice.
        if last.is_some_and(|last| {
            last.char == glyph.char
                && (last.x - glyph.x).abs() < 0.2 * glyph.size
                && (last.y - glyph.y).abs() < 0.2 * glyph.size
        }) {
            continue;
        }
        let gap = end.map_or(0.0, |end| glyph.x - end) / glyph.size;
        // Table cells are separated by empty gaps; justified text has a blank in every gap.
        if end.is_some() && gap > if blank { 1.6 } else { 0.9 } {
            first = first.or(end.map(|end| (end, blank)));
            pieces.push(std::mem::take(&mut words));
        } else if end.is_some() && (blank || gap > 0.22) {
            words.push(' ');
        }
        words.push(glyph.char);
        end = Some(glyph.x + glyph.width.max(0.0));
        blank = false;
        (size, y) = (size.max(glyph.size), glyph.y);
        last = Some(glyph);
    }
    pieces.push(words);
    pieces.retain(|piece| !piece.trim().is_empty());
    let right = (end.unwrap_or_default(), blank);
    (!pieces.is_empty()).then_some(PdfLine {
        y,
        size,
        pieces,
        right_end: right,
        first_piece_end: first.unwrap_or(right),
        reaches_margin: false,
    })
}

/// Removes a page number that stands alone above or below the text.
fn without_page_numbers(mut lines: Vec<PdfLine>) -> Vec<PdfLine> {
    let is_number = |line: &PdfLine| {
        let words = line.pieces.join(" ");
        let bare = words.trim_matches(|char: char| char.is_whitespace() || "-–—/|".contains(char));
        line.pieces.len() == 1
            && !bare.is_empty()
            && bare.len() <= 9
            && bare.chars().all(|char| char.is_ascii_digit() || " /".contains(char))
    };
    if lines.len() > 2 {
        if lines.last().is_some_and(is_number) {
            lines.pop();
        }
        if lines.first().is_some_and(is_number) {
            lines.remove(0);
        }
    }
    lines
}

/// Separates two columns, which look like a table of two long cells on almost every line.
fn separate_columns(mut lines: Vec<PdfLine>) -> Vec<PdfLine> {
    let pairs = lines.iter().filter(|line| line.pieces.len() == 2);
    let long = pairs.filter(|line| line.pieces.iter().all(|piece| piece.chars().count() >= 15)).count();
    if long < 8 || long * 10 < lines.len() * 6 {
        mark_full_lines(&mut lines);
        return lines;
    }
    let (mut left, mut right, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for mut line in lines {
        if line.pieces.len() == 2 {
            let second = line.pieces.pop();
            right.push(PdfLine { pieces: second.into_iter().collect(), ..line.clone() });
            left.push(PdfLine { right_end: line.first_piece_end, ..line });
        } else if left.is_empty() {
            rest.push(line);
        } else {
            left.push(line);
        }
    }
    [&mut rest, &mut left, &mut right].into_iter().for_each(|column| mark_full_lines(column));
    rest.into_iter().chain(left).chain(right).collect()
}

/// Marks the lines that reach the margin, which is the end of the longest line.
fn mark_full_lines(lines: &mut [PdfLine]) {
    let single = lines.iter().filter(|line| line.pieces.len() == 1);
    let margin = single.map(|line| line.right_end.0).fold(f32::MIN, f32::max);
    for line in lines {
        line.reaches_margin = line.right_end.0 > margin - 1.5 * line.size;
    }
}

/// Groups lines into headings by size, tables by gaps, and paragraphs by line spacing.
pub(super) fn group_into_blocks(
    lines: Vec<PdfLine>,
    sizes: &FontSizes,
    breaks: &WordBreaks,
) -> Vec<PdfBlock> {
    let pitch = line_pitch(&lines);
    let mut blocks: Vec<PdfBlock> = Vec::new();
    let mut above: Option<(f32, usize)> = None;
    let mut end = LineEnd { reaches_margin: false, has_trailing_blank: false };
    for line in lines {
        let PdfLine { y, size, pieces, right_end: (_, blank), reaches_margin: full, .. } = line;
        let near = above.is_some_and(|(above, _)| above - y < pitch * 1.35 && above > y);
        let ended = std::mem::replace(&mut end, LineEnd { reaches_margin: full, has_trailing_blank: blank });
        let width = pieces.len();
        let level = sizes.heading_level(size).filter(|_| width == 1 && pieces[0].chars().count() <= 80);
        match (blocks.last_mut(), level) {
            (Some(PdfBlock::Heading(before, words)), Some(level)) if *before == level && near => {
                if !breaks.word_continues(words, ended, &pieces[0]) {
                    words.push(' ');
                }
                words.push_str(&pieces[0]);
            }
            (_, Some(level)) => blocks.push(PdfBlock::Heading(level, pieces.concat())),
            (Some(PdfBlock::Table(rows)), None)
                if width > 1 && above.is_some_and(|(_, before)| before == width) =>
            {
                rows.push(pieces);
            }
            (_, None) if width > 1 => blocks.push(PdfBlock::Table(vec![pieces])),
            (Some(PdfBlock::Paragraph(words)), None) if near && !begins_numbered_block(&pieces[0]) => {
                if !breaks.word_continues(words, ended, &pieces[0]) {
                    words.push('\n');
                }
                words.push_str(&pieces[0]);
            }
            (_, None) => blocks.push(PdfBlock::Paragraph(pieces.concat())),
        }
        above = Some((y, width));
    }
    // One row is not a table.
    blocks
        .into_iter()
        .map(|block| match block {
            PdfBlock::Table(rows) if rows.len() == 1 => PdfBlock::Paragraph(rows.concat().join("  ")),
            block => block,
        })
        .collect()
}

/// Returns the usual distance between lines.
fn line_pitch(lines: &[PdfLine]) -> f32 {
    let mut gaps: Vec<f32> =
        lines.windows(2).map(|pair| pair[0].y - pair[1].y).filter(|gap| *gap > 1.0).collect();
    gaps.sort_by(f32::total_cmp);
    // The lower quartile, because headings and paragraph breaks only widen gaps.
    gaps.get(gaps.len() / 4).copied().unwrap_or(f32::MAX)
}

/// Returns whether a line begins an article, a clause or an item, whatever the space above it.
fn begins_numbered_block(words: &str) -> bool {
    let mut chars = words.chars();
    let first = chars.next().unwrap_or(' ');
    let article = first == '제'
        && chars.clone().take_while(|char| char.is_ascii_digit()).count() > 0
        && words.chars().take(8).any(|char| "조장절".contains(char));
    let circled = ('①'..='⑳').contains(&first);
    let bullet = "•·○●□■◦▪-–".contains(first) && chars.clone().next().is_some_and(char::is_whitespace);
    let digits = words.chars().take_while(char::is_ascii_digit).count();
    let numbered = (1..=2).contains(&digits)
        && words[digits..].starts_with(['.', ')'])
        && words[digits + 1..].starts_with(' ');
    article || circled || bullet || numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the glyphs of a text at a position, each as wide as it is high.
    fn glyphs_at(x: f32, y: f32, size: f32, words: &str) -> Vec<PdfGlyph> {
        words
            .chars()
            .enumerate()
            .map(|(nth, char)| PdfGlyph { char, x: x + nth as f32 * size, y, width: size, size })
            .collect()
    }

    fn check(glyphs: &[Vec<PdfGlyph>], expected: &[PdfBlock]) {
        let lines = group_into_lines(glyphs.concat());
        let (mut sizes, mut breaks) = (FontSizes::default(), WordBreaks::default());
        lines.iter().for_each(|line| sizes.add_line(line));
        lines.iter().filter_map(PdfLine::single_text).for_each(|words| breaks.learn_words(words));
        assert_eq!(group_into_blocks(lines, &sizes, &breaks), expected);
    }

    #[test]
    fn headings_paragraphs_and_tables_are_recognised_by_size_space_and_gaps() {
        check(
            &[
                glyphs_at(0.0, 700.0, 16.0, "제목"),
                glyphs_at(0.0, 670.0, 10.0, "첫 줄이 길게 이어지고"),
                glyphs_at(0.0, 655.0, 10.0, "둘째 줄에서 끝난다."),
                glyphs_at(0.0, 640.0, 10.0, "① 항은 따로 선다."),
                glyphs_at(0.0, 600.0, 10.0, "떨어진 문단."),
                glyphs_at(0.0, 585.0, 10.0, "기기"),
                glyphs_at(90.0, 585.0, 10.0, "주기"),
                glyphs_at(0.0, 570.0, 10.0, "의자"),
                glyphs_at(90.0, 570.0, 10.0, "8년"),
                glyphs_at(50.0, 20.0, 10.0, "- 3 -"),
            ],
            &[
                PdfBlock::Heading(1, "제목".into()),
                PdfBlock::Paragraph("첫 줄이 길게 이어지고\n둘째 줄에서 끝난다.".into()),
                PdfBlock::Paragraph("① 항은 따로 선다.".into()),
                PdfBlock::Paragraph("떨어진 문단.".into()),
                PdfBlock::Table(vec![vec!["기기".into(), "주기".into()], vec!["의자".into(), "8년".into()]]),
            ],
        );
    }

    #[test]
    fn a_word_that_goes_on_in_the_next_line_stays_one() {
        check(
            &[
                glyphs_at(0.0, 700.0, 10.0, "이번 분기에 쓴 비"),
                glyphs_at(0.0, 685.0, 10.0, "용은 지난해의 절반"),
                glyphs_at(0.0, 670.0, 10.0, "까지 간 비용을 곧"),
                glyphs_at(0.0, 655.0, 10.0, "더 줄인다."),
            ],
            &[PdfBlock::Paragraph("이번 분기에 쓴 비용은 지난해의 절반까지 간 비용을 곧\n더 줄인다.".into())],
        );
    }

    #[test]
    fn two_columns_are_read_one_after_the_other() {
        let page: Vec<Vec<PdfGlyph>> = (0..10)
            .flat_map(|row| {
                let y = 700.0 - 15.0 * row as f32;
                [
                    glyphs_at(0.0, y, 10.0, &format!("왼쪽 단의 {row}번째 줄은 이만큼 길다")),
                    glyphs_at(300.0, y, 10.0, &format!("오른쪽 단의 {row}번째 줄도 이만큼 길다")),
                ]
            })
            .collect();
        let lines = group_into_lines(page.concat());
        assert_eq!(lines.len(), 20);
        assert!(
            lines[9].pieces[0].starts_with("왼쪽 단의 9") && lines[10].pieces[0].starts_with("오른쪽 단의 0")
        );
    }
}
