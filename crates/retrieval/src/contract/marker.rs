//! The marks that begin clauses and items: `①`, `1.`, `(1)`, `가.`, `(a)`, `5.2`.

use super::line::indent;
use super::numeral::{circled, digits, syllable};

/// A marker at the start of a line inside an article, its number and the bytes it takes.
pub(super) fn marker(line: &str) -> Option<(Marker, u32, usize)> {
    let start = indent(line);
    let words = line[start..].trim_start_matches("- ");
    let start = line.len() - words.len();
    let (open, inner) = match words.strip_prefix(['(', '（']) {
        Some(inner) => (true, inner),
        None => (false, words),
    };
    let first = inner.chars().next()?;
    let (kind, number, length) = if let Some(number) = circled(first) {
        return Some((Marker::Circle, number, start + first.len_utf8()));
    } else if let Some((number, length)) = digits(inner) {
        (Marker::Number, number, length)
    } else if let Some(number) = syllable(first) {
        (Marker::Syllable, number, first.len_utf8())
    } else if first.is_ascii_lowercase() {
        (Marker::Letter, first as u32 - 'a' as u32 + 1, 1)
    } else {
        return None;
    };
    let after = &inner[length..];
    let mut end = after.chars().next()?;
    if kind == Marker::Number
        && end == '.'
        && let Some((clause, more)) = digits(&after[1..])
    {
        // `5.2 Renewal`: the clause of an English contract.
        let spaced =
            after[1 + more..].starts_with(char::is_whitespace) || after[1 + more..].starts_with(". ");
        return spaced.then_some((Marker::Decimal, clause, words.len() - after[1 + more..].len() + start));
    }
    if open {
        (end == ')' || end == '）').then_some(())?;
    } else if end != '.' && end != ')' {
        return None;
    }
    let tail = &after[end.len_utf8()..];
    end = tail.chars().next().unwrap_or(' ');
    let free = end.is_whitespace() || !end.is_ascii_digit() && kind != Marker::Letter;
    let kind = if open && kind == Marker::Number { Marker::Bracketed } else { kind };
    free.then(|| (kind, number, line.len() - tail.len()))
}

/// How a clause or an item is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
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
    fn markers_are_told_apart_from_numbers() {
        for (line, expected) in [
            ("① 갑은", Some((Marker::Circle, 1))),
            ("  2. 을은", Some((Marker::Number, 2))),
            ("3) 병은", Some((Marker::Number, 3))),
            ("(4) 정은", Some((Marker::Bracketed, 4))),
            ("나. 자료", Some((Marker::Syllable, 2))),
            ("(b) data", Some((Marker::Letter, 2))),
            ("5.2 Renewal", Some((Marker::Decimal, 2))),
            ("1.5배로 한다", None),
            ("2026. 1. 1.부터", Some((Marker::Number, 2026))),
            ("가격은", None),
            ("e.g. this", None),
        ] {
            assert_eq!(marker(line).map(|(kind, number, _)| (kind, number)), expected, "{line}");
        }
    }
}
