//! Splits text that is too long for one passage, at the best position that fits.

use std::ops::Range;

use super::{MAX_PASSAGE_BYTES, MAX_WHOLE_TABLE_BYTES};

/// Returns a paragraph whole if it is short, otherwise splits it after the last sentence, space or character that fits.
pub(super) fn cut_between_sentences(text: &str, block: Range<usize>) -> Vec<Range<usize>> {
    const ENDS: [&str; 6] = [". ", "! ", "? ", ".\n", "다.", "。"];
    cut_to_passage_size(text, block, |window| {
        let sentence =
            ENDS.iter().filter_map(|end| window.rfind(end).map(|at| at + end.trim_end().len())).max();
        sentence.or_else(|| window.rfind(char::is_whitespace))
    })
}

/// Splits code between lines.
pub(super) fn cut_between_lines(text: &str, block: Range<usize>) -> Vec<Range<usize>> {
    cut_to_passage_size(text, block, |window| {
        window.rfind('\n').or_else(|| window.rfind(char::is_whitespace))
    })
}

/// Splits a table between rows, and returns the text of its head. The first piece contains the head itself.
pub(super) fn cut_between_rows(text: &str, table: Range<usize>) -> (Option<String>, Vec<Range<usize>>) {
    let mut lines = text[table.clone()].lines();
    let head = lines.next().filter(|_| lines.next().is_some_and(is_table_separator)).map(table_head_text);
    let limit = MAX_WHOLE_TABLE_BYTES / 2;
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut start = table.start;
    for line in text[table.clone()].split_inclusive('\n') {
        let end = start + line.trim_end().len();
        match found.last_mut() {
            Some(open) if end - open.start <= limit => open.end = end,
            Some(_) | None => found.push(start..end),
        }
        start += line.len();
    }
    // A single row has no length limit, so it may have to be split again.
    (
        head,
        found
            .into_iter()
            .flat_map(|row| if row.len() > limit { cut_between_sentences(text, row) } else { vec![row] })
            .collect(),
    )
}

/// Splits a range at the given positions, and between sentences where a piece is still too long.
pub(super) fn cut_at_points(text: &str, range: Range<usize>, seams: &[usize]) -> Vec<Range<usize>> {
    let edges = seams.iter().copied().filter(|at| range.start < *at && *at < range.end).chain([range.end]);
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut start = range.start;
    for edge in edges {
        match found.last_mut() {
            Some(open) if edge - open.start <= MAX_PASSAGE_BYTES => open.end = edge,
            Some(_) | None => found.push(start..edge),
        }
        start = edge;
    }
    found.into_iter().flat_map(|piece| cut_between_sentences(text, trim_range(text, piece))).collect()
}

fn cut_to_passage_size(
    text: &str,
    block: Range<usize>,
    seam: impl Fn(&str) -> Option<usize>,
) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = block.start;
    while block.end - start > MAX_PASSAGE_BYTES {
        let window = &text[start..text.floor_char_boundary(start + MAX_PASSAGE_BYTES)];
        let end = start + seam(window).filter(|at| *at > 0).unwrap_or(window.len());
        pieces.push(trim_range(text, start..end));
        let rest = &text[end..block.end];
        start = end + (rest.len() - rest.trim_start().len());
    }
    if start < block.end {
        pieces.push(start..block.end);
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn trim_range(text: &str, range: Range<usize>) -> Range<usize> {
    let words = &text[range.clone()];
    let start = range.start + (words.len() - words.trim_start().len());
    start..start + words.trim().len()
}

/// Returns whether a line is the separator between the head and the rows of a Markdown table.
fn is_table_separator(line: &str) -> bool {
    line.contains("---") && line.chars().all(|char| "|-: ".contains(char))
}

/// Returns the text of a row, short enough for a title.
fn table_head_text(row: &str) -> String {
    let words = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ");
    words[..words.floor_char_boundary(200)].to_owned()
}
