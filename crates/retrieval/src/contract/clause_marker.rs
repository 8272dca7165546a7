//! Parses the markers that begin clauses and items: `①`, `1.`, `(1)`, `가.`, `(a)`, `5.2`.

use super::line_heading::heading_text_start;
use super::numeral::{parse_circled_number, parse_digits, parse_ganada_letter};

/// Parses a marker at the start of a line inside an article. Returns the marker, its number and its length in bytes.
pub(super) fn parse_clause_marker(line: &str) -> Option<(ClauseMarker, u32, usize)> {
    let start = heading_text_start(line);
    let words = line[start..].trim_start_matches("- ");
    let start = line.len() - words.len();
    let (open, inner) = match words.strip_prefix(['(', '（']) {
        Some(inner) => (true, inner),
        None => (false, words),
    };
    let first = inner.chars().next()?;
    let (kind, number, length) = if let Some(number) = parse_circled_number(first) {
        return Some((ClauseMarker::Circle, number, start + first.len_utf8()));
    } else if let Some((number, length)) = parse_digits(inner) {
        (ClauseMarker::Number, number, length)
    } else if let Some(number) = parse_ganada_letter(first) {
        (ClauseMarker::Syllable, number, first.len_utf8())
    } else if first.is_ascii_lowercase() {
        (ClauseMarker::Letter, first as u32 - 'a' as u32 + 1, 1)
    } else {
        return None;
    };
    let after = &inner[length..];
    let mut end = after.chars().next()?;
    if kind == ClauseMarker::Number
        && end == '.'
        && let Some((clause, more)) = parse_digits(&after[1..])
    {
        // `5.2 Renewal` is a clause of an English contract.
        let spaced =
            after[1 + more..].starts_with(char::is_whitespace) || after[1 + more..].starts_with(". ");
        return spaced.then_some((
            ClauseMarker::Decimal,
            clause,
            words.len() - after[1 + more..].len() + start,
        ));
    }
    if open {
        (end == ')' || end == '）').then_some(())?;
    } else if end != '.' && end != ')' {
        return None;
    }
    let tail = &after[end.len_utf8()..];
    end = tail.chars().next().unwrap_or(' ');
    let free = end.is_whitespace() || !end.is_ascii_digit() && kind != ClauseMarker::Letter;
    let kind = if open && kind == ClauseMarker::Number { ClauseMarker::Bracketed } else { kind };
    free.then(|| (kind, number, line.len() - tail.len()))
}

/// The kind of marker of a clause or an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClauseMarker {
    /// ①
    Circle,
    /// 1. or 1)
    Number,
    /// (1)
    Bracketed,
    /// 가. or 가)
    Syllable,
    /// (a) or a.
    Letter,
    /// 5.2
    Decimal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_distinguished_from_numbers() {
        for (line, expected) in [
            ("① 갑은", Some((ClauseMarker::Circle, 1))),
            ("  2. 을은", Some((ClauseMarker::Number, 2))),
            ("3) 병은", Some((ClauseMarker::Number, 3))),
            ("(4) 정은", Some((ClauseMarker::Bracketed, 4))),
            ("나. 자료", Some((ClauseMarker::Syllable, 2))),
            ("(b) data", Some((ClauseMarker::Letter, 2))),
            ("5.2 Renewal", Some((ClauseMarker::Decimal, 2))),
            ("1.5배로 한다", None),
            ("2026. 1. 1.부터", Some((ClauseMarker::Number, 2026))),
            ("가격은", None),
            ("e.g. this", None),
        ] {
            assert_eq!(parse_clause_marker(line).map(|(kind, number, _)| (kind, number)), expected, "{line}");
        }
    }
}
