//! The marks by which an answer cites its sources: `[1]` is the passage numbered 1, in this turn and in no other, and
//! `[1, 3]` are two of them.
//!
//! A mark is a list of numbers between brackets. In code it is no mark, nor as the text of a link, nor directly behind a
//! letter or digit of ASCII or a closing bracket, where it is an index: `m[4][1]`.

use std::ops::Range;

/// The most passages that one mark names.
const MAX_PASSAGES_PER_MARK: usize = 10;

/// The longest mark in bytes: ten numbers of three digits.
const MAX_MARK_BYTES: usize = 2 + MAX_PASSAGES_PER_MARK * 5;

/// The longest inline code in bytes. A backtick without another one this near stands for itself.
const MAX_CODE_SPAN_BYTES: usize = 4096;

/// Numbers of passages between brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CitationMark {
    /// Where it stands, in bytes.
    pub range: Range<usize>,
    /// The passages it names.
    pub numbers: Vec<u32>,
}

/// The marks of a text, in order.
pub fn find_citation_marks(text: &str) -> Vec<CitationMark> {
    let mut found = Vec::new();
    CitationScanner::default().scan(text, TextEnd::Reached, |mark| found.push(mark));
    found
}

/// The text without its marks. One that is nothing else stays as it is.
pub fn strip_citation_marks(text: &str) -> String {
    let mut text_without_marks = String::with_capacity(text.len());
    let mut from = 0;
    for CitationMark { range, .. } in find_citation_marks(text) {
        text_without_marks.push_str(text[from..range.start].trim_end_matches(' '));
        from = range.end;
    }
    text_without_marks.push_str(&text[from..]);
    if text_without_marks.trim().is_empty() { text.to_owned() } else { text_without_marks }
}

/// Whether a text goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEnd {
    /// More may come.
    Open,
    /// That was all.
    Reached,
}

/// Finds marks in a text that comes in pieces. The pieces may be cut anywhere: the marks are those of the whole text.
#[derive(Clone, Debug, Default)]
pub struct CitationScanner {
    /// The fence of the code block that the text stands in.
    fence: Option<CodeFence>,
    /// What stands before the next byte.
    before: BeforeMark,
    in_line: bool,
}

#[derive(Clone, Copy, Debug)]
struct CodeFence {
    char: u8,
    length: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BeforeMark {
    /// A mark may follow.
    #[default]
    Free,
    /// A bracket here is an index.
    Indexed,
}

/// What stands at a place of the text.
enum Token {
    /// So many bytes without a mark in them.
    Plain(usize),
    /// A mark of so many bytes.
    Mark(usize, Vec<u32>),
    /// It is not known before more of the text has come.
    Undecided,
}

impl CitationScanner {
    /// Finds the marks in `text`, which follows what was scanned before, and gives how many of its bytes are decided. The
    /// rest is to be given again, with what comes after it. All of it is decided at the end of the text.
    pub fn scan(&mut self, text: &str, end: TextEnd, mut found: impl FnMut(CitationMark)) -> usize {
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let token = match self.fence {
                Some(fence) => self.scan_fenced_line(rest, fence, end),
                None => self.scan_token(rest, end),
            };
            match token {
                Token::Undecided => break,
                Token::Plain(length) => at += length,
                Token::Mark(length, numbers) => {
                    found(CitationMark { range: at..at + length, numbers });
                    at += length;
                }
            }
        }
        at
    }

    /// A line of a code block, or what there is of it.
    fn scan_fenced_line(&mut self, rest: &str, fence: CodeFence, end: TextEnd) -> Token {
        let (line, whole) = first_line(rest);
        if !self.in_line {
            let run = fence_run(line, fence.char);
            // Marks may stand behind a closing fence.
            let after = run.map_or(line, |(_, after)| after);
            let may_close = after.chars().all(|char| char.is_ascii_digit() || " \t\r\n,[]".contains(char));
            if may_close && !whole && end == TextEnd::Open {
                return Token::Undecided;
            }
            if may_close && run.is_some_and(|(length, _)| length >= fence.length) {
                (self.fence, self.in_line, self.before) = (None, true, BeforeMark::Free);
                return Token::Plain(line.len() - after.len());
            }
        }
        self.in_line = !whole;
        self.before = BeforeMark::Free;
        Token::Plain(line.len())
    }

    fn scan_token(&mut self, rest: &str, end: TextEnd) -> Token {
        if !self.in_line {
            let (line, whole) = first_line(rest);
            let could_open = |char| {
                let run = fence_run(line, char)?;
                // Backticks behind the fence make it inline code.
                (char == b'~' || !run.1.contains('`')).then_some(run)
            };
            let is_blank = line.trim_start_matches(' ').is_empty() && line.len() <= 3;
            let run = [b'`', b'~'].into_iter().find_map(|char| Some((char, could_open(char)?)));
            match run {
                Some((char, (length, _))) if length >= 3 => {
                    if !whole && end == TextEnd::Open {
                        return Token::Undecided;
                    }
                    self.fence = Some(CodeFence { char, length });
                    self.in_line = !whole;
                    return Token::Plain(line.len());
                }
                // A run of one or two may still grow.
                Some((_, (_, ""))) if end == TextEnd::Open => return Token::Undecided,
                None if is_blank && end == TextEnd::Open => return Token::Undecided,
                Some(_) | None => {}
            }
        }
        let special = rest.find(['[', '`', '\n']).unwrap_or(rest.len());
        match rest.as_bytes().get(special) {
            _ if special > 0 => {
                self.before = before_mark(&rest[..special]);
                self.in_line = true;
                Token::Plain(special)
            }
            Some(b'\n') => {
                (self.in_line, self.before) = (false, BeforeMark::Free);
                Token::Plain(1)
            }
            Some(b'`') => {
                let Some(length) = code_span(rest, end) else { return Token::Undecided };
                (self.in_line, self.before) = (true, BeforeMark::Free);
                Token::Plain(length)
            }
            Some(_) | None => self.scan_bracket(rest, end),
        }
    }

    fn scan_bracket(&mut self, rest: &str, end: TextEnd) -> Token {
        let mark = match parse_leading_mark(rest, end) {
            LeadingMark::Undecided => return Token::Undecided,
            LeadingMark::None => None,
            LeadingMark::Found(length, numbers) => Some((length, numbers)),
        };
        self.in_line = true;
        match mark.filter(|_| self.before == BeforeMark::Free) {
            Some((length, numbers)) => Token::Mark(length, numbers),
            None => {
                self.before = BeforeMark::Free;
                Token::Plain(1)
            }
        }
    }
}

/// The first line with its end, and whether its end has come.
fn first_line(text: &str) -> (&str, bool) {
    match text.find('\n') {
        Some(end) => (&text[..=end], true),
        None => (text, false),
    }
}

/// The run of fence characters that a line begins with, behind at most three spaces: its length and what follows it.
fn fence_run(line: &str, char: u8) -> Option<(usize, &str)> {
    let bare = line.trim_start_matches(' ');
    let after = bare.trim_start_matches(char::from(char));
    let length = bare.len() - after.len();
    (line.len() - bare.len() <= 3 && length > 0).then_some((length, after))
}

/// How long the inline code is that a text begins with; only its backticks, if it is none. `None` means that more of the
/// text has to come first.
fn code_span(text: &str, end: TextEnd) -> Option<usize> {
    let run = text.len() - text.trim_start_matches('`').len();
    if run == text.len() && end == TextEnd::Open {
        return None;
    }
    let limit = text.floor_char_boundary(MAX_CODE_SPAN_BYTES.max(run));
    let mut at = run;
    while at < limit {
        let Some(next) = text[at..limit].find(['`', '\n']) else { break };
        at += next;
        if text.as_bytes()[at] == b'\n' {
            // A code block may begin here, and a blank line ends a paragraph.
            let (line, whole) = first_line(&text[at + 1..]);
            let blank = line.trim().is_empty();
            let fence =
                [b'`', b'~'].iter().any(|char| fence_run(line, *char).is_some_and(|(run, _)| run >= 3));
            if (blank || fence) && (whole || end == TextEnd::Reached) {
                return Some(run);
            }
            if !whole && end == TextEnd::Open {
                return None;
            }
            at += 1;
            continue;
        }
        let length = text[at..].len() - text[at..].trim_start_matches('`').len();
        if at + length == text.len() && end == TextEnd::Open {
            return None;
        }
        at += length;
        if length == run {
            return Some(at);
        }
    }
    (end == TextEnd::Reached || text.len() >= MAX_CODE_SPAN_BYTES).then_some(run)
}

/// Whether a bracket behind this text is an index.
fn before_mark(text: &str) -> BeforeMark {
    match text.chars().next_back() {
        Some(last) if last.is_ascii_alphanumeric() || matches!(last, '_' | ')' | ']' | '}' | '\\') => {
            BeforeMark::Indexed
        }
        _ => BeforeMark::Free,
    }
}

enum LeadingMark {
    Found(usize, Vec<u32>),
    None,
    Undecided,
}

/// The mark that a text begins with: how long it is and what it names.
fn parse_leading_mark(text: &str, end: TextEnd) -> LeadingMark {
    let inner = &text[1..];
    let length = inner.find(|char: char| !(char.is_ascii_digit() || matches!(char, ',' | ' ')));
    let Some(length) = length.filter(|length| *length < MAX_MARK_BYTES) else {
        let undecided = length.is_none() && inner.len() < MAX_MARK_BYTES && end == TextEnd::Open;
        return if undecided { LeadingMark::Undecided } else { LeadingMark::None };
    };
    let Some(after) = inner[length..].strip_prefix(']') else { return LeadingMark::None };
    if after.is_empty() && end == TextEnd::Open {
        return LeadingMark::Undecided;
    }
    match parse_numbers(&inner[..length]) {
        Some(numbers) if !after.starts_with('(') => LeadingMark::Found(length + 2, numbers),
        Some(_) | None => LeadingMark::None,
    }
}

fn parse_numbers(list: &str) -> Option<Vec<u32>> {
    if list.trim() != list {
        return None;
    }
    let numbers: Vec<u32> =
        list.split(',').map(|one| parse_citation_number(one.trim())).collect::<Option<_>>()?;
    (numbers.len() <= MAX_PASSAGES_PER_MARK).then_some(numbers)
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
            ("m[4][1] = a[1]", "m[4][1] = a[1]"),
            ("f(x)[1] \\[1]", "f(x)[1] \\[1]"),
            ("~~~\n[1]\n~~~\n끝 [1]", "~~~\n[1]\n~~~\n끝"),
            ("```\n[1]\n``\n[1]\n````\n끝 [1]", "```\n[1]\n``\n[1]\n````\n끝"),
            ("``a ` [1]`` 끝 [1]", "``a ` [1]`` 끝"),
            ("`여러\n줄 [1]` 끝 [1]", "`여러\n줄 [1]` 끝"),
            ("` 끝\n\n둘째 [1] `", "` 끝\n\n둘째 `"),
        ] {
            assert_eq!(strip_citation_marks(text), bare, "{text}");
        }
    }

    /// The marks of a text that comes in two pieces.
    fn marks_in_pieces(text: &str, cut: usize) -> Vec<CitationMark> {
        let (mut scanner, mut found) = (CitationScanner::default(), Vec::new());
        let decided = scanner.scan(&text[..cut], TextEnd::Open, |mark| found.push(mark));
        let moved = |mark: CitationMark| CitationMark {
            range: mark.range.start + decided..mark.range.end + decided,
            ..mark
        };
        let rest = scanner.scan(&text[decided..], TextEnd::Reached, |mark| found.push(moved(mark)));
        assert_eq!(decided + rest, text.len());
        found
    }

    #[test]
    fn marks_are_the_same_wherever_a_text_is_cut() {
        let long = format!("`{}` [1] ` {} [2]", "x".repeat(200), "가".repeat(2000));
        for text in [
            "가 [7], `x[1]` 나[3, 12][4] m[4][1] [4](#) [1234]\n\n```py\na = [1]\n```\n끝 [2]",
            "  ```\n[1]\n   ```  \n[2]\n    ```\n[3]\n~~~ `\n[4]",
            "`` ` [1] `` [2] ` [3]\n\n[4] `\n``` [5]\n``` a`b\n[6]",
            long.as_str(),
        ] {
            let whole = find_citation_marks(text);
            for (cut, _) in text.char_indices() {
                assert_eq!(marks_in_pieces(text, cut), whole, "{cut} of {text}");
            }
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
