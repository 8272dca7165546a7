//! Markdown as a terminal shows it: headings, emphasis, code, lists, quotes and tables. Words come in pieces; a line is shown
//! as soon as it is known what it is.

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const ITALIC: &str = "\u{1b}[3m";
const CYAN: &str = "\u{1b}[36m";
const RESET: &str = "\u{1b}[0m";

/// How this module styles. The output contains no other escape sequences.
pub(crate) const MARKDOWN_SEQUENCES: [&str; 5] = [BOLD, DIM, ITALIC, CYAN, RESET];

/// The most bytes between the two marks of an emphasis or of code.
const MAX_SPAN_BYTES: usize = 2000;

/// Shows Markdown while it arrives.
#[derive(Debug, Default)]
pub(crate) struct TerminalMarkdown {
    /// What arrived of the line and is not shown.
    pending: String,
    /// Whether the line has begun on the screen, so that the rest of it is text.
    is_in_text: bool,
    /// The marks that opened a block of code.
    fence: Option<String>,
}

impl TerminalMarkdown {
    /// Takes words in and returns what can be shown by now.
    pub(crate) fn push(&mut self, words: &str) -> String {
        let mut shown = String::new();
        for piece in words.split_inclusive('\n') {
            // Only this module styles: without its escape character, a sequence is plain text.
            self.pending.extend(piece.chars().filter(|char| !matches!(char, '\u{1b}' | '\r')));
            if self.pending.ends_with('\n') {
                self.pending.pop();
                if self.show_line(&mut shown) {
                    shown.push('\n');
                }
            } else {
                self.show_beginning(&mut shown);
            }
        }
        shown
    }

    /// Returns what is left of a text that ended, and starts anew.
    pub(crate) fn finish(&mut self) -> String {
        let mut shown = String::new();
        if !self.pending.is_empty() {
            self.show_line(&mut shown);
        }
        *self = Self::default();
        shown
    }

    /// Shows the rest of a line that is complete. The marks of a block of code are no line on the screen.
    fn show_line(&mut self, shown: &mut String) -> bool {
        let line = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.is_in_text) {
            show_inline(&line, true, "", shown);
            return true;
        }
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if let Some(fence) = &self.fence {
            let rest = text.trim_end().strip_prefix(fence.as_str());
            if rest.is_some_and(|rest| rest.chars().all(|char| fence.starts_with(char))) {
                self.fence = None;
                return false;
            }
            if !text.is_empty() {
                shown.push_str(&format!("  {DIM}{line}{RESET}"));
            }
            return true;
        }
        self.fence = opening_fence(text).map(str::to_owned);
        if self.fence.is_some() {
            return false;
        }
        if is_rule(text) {
            shown.push_str(&format!("{DIM}{}{RESET}", "─".repeat(40)));
        } else if is_table_rule(text) {
            shown.push_str(&format!("{DIM}{indent}{}{RESET}", text.trim_end().replace(['-', ':', ' '], "─")));
        } else if let Some(title) = heading(text) {
            shown.push_str(BOLD);
            show_inline(title, true, BOLD, shown);
            shown.push_str(RESET);
        } else {
            let (length, mark) = match text {
                ">" => (1, "│"),
                _ => text_start(text).unwrap_or((0, "")),
            };
            shown.push_str(&format!("{indent}{mark}"));
            show_inline(&text[length..], true, "", shown);
        }
        true
    }

    /// Shows what is certain of a line that goes on.
    fn show_beginning(&mut self, shown: &mut String) {
        if self.fence.is_some() {
            return;
        }
        if !self.is_in_text {
            let text = self.pending.trim_start();
            let indent = self.pending.len() - text.len();
            let Some((length, mark)) = text_start(text) else { return };
            shown.push_str(&self.pending[..indent]);
            shown.push_str(mark);
            self.pending.drain(..indent + length);
            self.is_in_text = true;
        }
        let length = show_inline(&self.pending, false, "", shown);
        self.pending.drain(..length);
    }
}

/// How many bytes of marks stand before the text of a line, and what is shown for them. `None` where more of the line is
/// needed.
fn text_start(line: &str) -> Option<(usize, &'static str)> {
    let mut chars = line.chars();
    match (chars.next()?, chars.next()) {
        ('-' | '*' | '+', Some(' ')) => Some((2, "• ")),
        ('>', Some(' ')) => Some((2, "│ ")),
        ('>', Some(_)) => Some((1, "│ ")),
        ('*', Some('*')) => chars.next().filter(|char| *char != '*').map(|_| (0, "")),
        ('*', Some(_)) => Some((0, "")),
        ('`', Some(char)) if char != '`' => Some((0, "")),
        ('#' | '-' | '+' | '>' | '*' | '_' | '`' | '~' | '|', _) => None,
        _ => Some((0, "")),
    }
}

/// The marks that open a block of code: three or more, and for backticks none after them.
fn opening_fence(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let marks = &text[..text.len() - rest.len()];
    (marks.len() >= 3 && (mark == '~' || !rest.contains('`'))).then_some(marks)
}

fn is_rule(text: &str) -> bool {
    let text = text.trim_end();
    text.len() >= 3 && ['-', '*', '_'].iter().any(|mark| text.chars().all(|char| char == *mark))
}

fn is_table_rule(text: &str) -> bool {
    text.starts_with('|')
        && text.contains('-')
        && text.trim_end().chars().all(|char| matches!(char, '|' | '-' | ':' | ' '))
}

fn heading(text: &str) -> Option<&str> {
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    (1..=6).contains(&level).then(|| title.strip_prefix(' ').map(str::trim)).flatten()
}

/// Shows text with emphasis and code, styled like `style` around them, and returns how many bytes are done. All are where
/// the line is complete; otherwise a span whose end may still come waits.
fn show_inline(text: &str, is_complete: bool, style: &str, shown: &mut String) -> usize {
    let mut at = 0;
    while let Some(offset) = text[at..].find(['*', '`', '\\']) {
        shown.push_str(&text[at..at + offset]);
        at += offset;
        let rest = &text[at..];
        let mark = rest.chars().next().unwrap_or_default();
        let inner = if mark == '\\' { &rest[1..] } else { rest.trim_start_matches(mark) };
        let run = rest.len() - inner.len();
        let may_go_on = !is_complete && rest.len() < MAX_SPAN_BYTES;
        if inner.is_empty() && may_go_on {
            return at;
        }
        if mark == '\\' {
            let escaped = inner.chars().next().filter(|char| matches!(char, '*' | '`' | '_'));
            shown.push(escaped.unwrap_or(mark));
            at += 1 + escaped.map_or(0, char::len_utf8);
            continue;
        }
        let can_open = mark == '`' || (run <= 3 && !inner.starts_with(char::is_whitespace));
        let end = if can_open { find_span_end(inner, mark, run) } else { None };
        match end {
            // The closing marks at the end of what arrived may become more.
            Some(end) if !may_go_on || end + run < inner.len() => {
                show_span(&inner[..end], mark, run, style, shown);
                at += run + end + run;
            }
            _ if can_open && may_go_on => return at,
            _ => {
                shown.push_str(&rest[..run]);
                at += run;
            }
        }
    }
    shown.push_str(&text[at..]);
    text.len()
}

fn show_span(span: &str, mark: char, run: usize, style: &str, shown: &mut String) {
    if mark == '`' {
        shown.push_str(&format!("{CYAN}{span}{RESET}{style}"));
        return;
    }
    let bold = if run >= 2 { BOLD } else { "" };
    let italic = if run != 2 { ITALIC } else { "" };
    let inner_style = format!("{style}{bold}{italic}");
    shown.push_str(&inner_style);
    show_inline(span, true, &inner_style, shown);
    shown.push_str(&format!("{RESET}{style}"));
}

/// Where a span ends that was opened by so many marks.
fn find_span_end(text: &str, mark: char, opened: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(offset) = text[at..].find(mark).filter(|offset| at + offset <= MAX_SPAN_BYTES) {
        let start = at + offset;
        let run = text[start..].len() - text[start..].trim_start_matches(mark).len();
        let follows_text = text[..start].chars().next_back().is_some_and(|char| !char.is_whitespace());
        let closes = match (mark, opened) {
            ('`', _) | (_, 3) => run == opened,
            (_, 2) => run >= 2,
            _ => run % 2 == 1,
        };
        if closes && (mark == '`' || follows_text) {
            return Some(start + run - opened);
        }
        at = start + run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_pieces<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
        let mut markdown = TerminalMarkdown::default();
        let shown: String = pieces.map(|piece| markdown.push(piece)).collect();
        shown + &markdown.finish()
    }

    /// The text as it is shown at once. In whatever pieces it arrives, the same is shown.
    fn render(text: &str) -> String {
        let whole = render_pieces(std::iter::once(text));
        assert_eq!(render_pieces(text.split_inclusive(|_: char| true)), whole, "{text:?} letter by letter");
        assert_eq!(render_pieces(text.split_inclusive([' ', '*'])), whole, "{text:?} word by word");
        // The styles have names here.
        let names = [(BOLD, "<b>"), (DIM, "<dim>"), (ITALIC, "<i>"), (CYAN, "<code>"), (RESET, "</>")];
        names.iter().fold(whole, |shown, (sequence, name)| shown.replace(*sequence, name))
    }

    #[test]
    fn blocks_are_shown_and_blank_lines_stay() {
        for (text, expected) in [
            ("## 요약\n\n글\n", "<b>요약</>\n\n글\n"),
            ("# **굵은** 제목 `x`\n", "<b><b><b>굵은</><b> 제목 <code>x</><b></>\n"),
            ("#태그\n", "#태그\n"),
            ("- 하나\n  * 둘\n+ 셋\n1. 넷\n", "• 하나\n  • 둘\n• 셋\n1. 넷\n"),
            ("> 인용\n>\n", "│ 인용\n│\n"),
            ("```rust\nlet x = 1;\n\n# 주석\n```\n\n끝", "  <dim>let x = 1;</>\n\n  <dim># 주석</>\n\n끝"),
            ("~~~~\n```\n~~~\n~~~~\n글", "  <dim>```</>\n  <dim>~~~</>\n글"),
            ("| 가 | 나 |\n|---|:-:|\n| **1** | 2 |\n", "| 가 | 나 |\n<dim>|───|───|</>\n| <b>1</> | 2 |\n"),
            ("위\n-5도\n\n", "위\n-5도\n\n"),
        ] {
            assert_eq!(render(text), expected, "{text:?}");
        }
        assert!(render("---\n").contains("────"));
    }

    #[test]
    fn emphasis_and_code_are_shown_within_a_line() {
        for (text, expected) in [
            ("**연차휴가**는 *15일*입니다", "<b>연차휴가</>는 <i>15일</>입니다"),
            ("***둘 다*** 그리고 **가 *나* 다**", "<b><i>둘 다</> 그리고 <b>가 <b><i>나</><b> 다</>"),
            ("`a*b*c`와 ``a`b``", "<code>a*b*c</>와 <code>a`b</>"),
            ("3 * 4 * 5 = 60, snake_case_name", "3 * 4 * 5 = 60, snake_case_name"),
            (r"\*별\* C:\새 폴더", r"*별* C:\새 폴더"),
        ] {
            assert_eq!(render(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_closed_is_shown_as_it_is() {
        for text in ["**굵게", "*", "**", "글 `코드", "a ** b", "2 * 3*4", "끝\\", "**가 ** 나"] {
            assert_eq!(render(text), text);
        }
        assert_eq!(render("*가 **나*\n다*"), "<i>가 **나</>\n다*");
        assert_eq!(render("```\n가"), "  <dim>가</>");
    }

    #[test]
    fn words_of_a_stranger_style_nothing_and_long_lines_end() {
        assert_eq!(render("\u{1b}[31m빨강 \u{1b}]52;c;aGk=\u{7}"), "[31m빨강 ]52;c;aGk=\u{7}");
        assert_eq!(render("# \u{1b}[2J제목\r\n"), "<b>[2J제목</>\n");
        let stars = "*a ".repeat(5_000);
        let mut markdown = TerminalMarkdown::default();
        let shown = markdown.push(&stars);
        assert!(shown.len() > stars.len() - 2 * MAX_SPAN_BYTES, "only {} bytes are shown", shown.len());
        assert_eq!(shown + &markdown.finish(), stars);
    }

    #[test]
    fn text_is_shown_before_its_line_ends() {
        let mut markdown = TerminalMarkdown::default();
        assert_eq!(markdown.push("연차휴가는 "), "연차휴가는 ");
        assert_eq!(markdown.push("**15"), "");
        assert_eq!(markdown.push("일** "), "\u{1b}[1m15일\u{1b}[0m ");
        assert_eq!(markdown.push("입니다"), "입니다");
        assert_eq!(markdown.push("\n## 제"), "\n");
        assert_eq!(markdown.finish(), "\u{1b}[1m제\u{1b}[0m");
    }
}
