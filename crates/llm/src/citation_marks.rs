//! The marks by which an answer cites its sources: `[1]` is the passage numbered 1, in this turn and in no other, and
//! `[1, 3]` are two of them.

use std::ops::Range;

/// The most passages that one mark names.
const MAX_PASSAGES_PER_MARK: usize = 10;

/// Numbers of passages between brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CitationMark {
    /// Where it stands, in bytes.
    pub range: Range<usize>,
    /// The passages it names.
    pub numbers: Vec<u32>,
}

/// The marks of a text, in order. In code they are no marks, and `[1](…)` is a link.
pub fn find_citation_marks(text: &str) -> Vec<CitationMark> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(next) = text[from..].find(['[', '`']) {
        let start = from + next;
        let here = &text[start..];
        if let Some((length, numbers)) = parse_leading_citation_mark(here) {
            from = start + length;
            found.push(CitationMark { range: start..from, numbers });
        } else {
            let code = here.strip_prefix('`').and_then(|after| after.find('`')).map(|end| end + 2);
            from = start + code.unwrap_or(1);
        }
    }
    found
}

/// The text without its marks. One that is nothing else stays as it is.
pub fn strip_citation_marks(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for CitationMark { range, .. } in find_citation_marks(text) {
        kept.push_str(text[from..range.start].trim_end_matches(' '));
        from = range.end;
    }
    kept.push_str(&text[from..]);
    if kept.trim().is_empty() { text.to_owned() } else { kept }
}

/// The mark that a text begins with: how long it is and what it names.
fn parse_leading_citation_mark(text: &str) -> Option<(usize, Vec<u32>)> {
    let (list, after) = text.strip_prefix('[')?.split_once(']')?;
    if after.starts_with('(') || list.trim() != list {
        return None;
    }
    let numbers: Vec<u32> =
        list.split(',').map(|one| parse_citation_number(one.trim())).collect::<Option<_>>()?;
    (numbers.len() <= MAX_PASSAGES_PER_MARK).then_some((list.len() + 2, numbers))
}

fn parse_citation_number(text: &str) -> Option<u32> {
    let is_number = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_off_and_code_and_links_are_not() {
        for (text, bare) in [
            ("15일입니다. [1]", "15일입니다."),
            ("연차는 15일이고 [1], 병가는[2] 60일입니다. [12]", "연차는 15일이고, 병가는 60일입니다."),
            ("`a[1]`은 둘째입니다. [1]", "`a[1]`은 둘째입니다."),
            ("```\nx[0] = 1\n``` [1]", "```\nx[0] = 1\n```"),
            ("see [1](https://doran.dev) and [note] [1234]", "see [1](https://doran.dev) and [note] [1234]"),
            ("an open ` does not hide [1]", "an open ` does not hide"),
            ("둘 다 그렇습니다. [1, 3][2,12] [1, x] [ 4 ]", "둘 다 그렇습니다. [1, x] [ 4 ]"),
            ("[1]", "[1]"),
            ("[", "["),
        ] {
            assert_eq!(strip_citation_marks(text), bare, "{text}");
        }
    }

    #[test]
    fn a_mark_may_name_several_passages() {
        let text = "가 [7], `x[1]` 나 [3, 12] [4](#) [1234]";
        let found: Vec<(&str, Vec<u32>)> =
            find_citation_marks(text).into_iter().map(|mark| (&text[mark.range], mark.numbers)).collect();
        assert_eq!(found, [("[7]", vec![7]), ("[3, 12]", vec![3, 12])]);
        assert_eq!(find_citation_marks(&format!("[{}1]", "1,".repeat(MAX_PASSAGES_PER_MARK))), []);
    }
}
