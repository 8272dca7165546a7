//! Reads the headings of a text: lines that are marked as such, and those that only look like the title of what stands below
//! them.

use std::sync::LazyLock;

use doran_retrieval::contract::find_article_references;
use doran_retrieval::{ArticleNumber, HEADING_SEPARATOR, split_sentences};
use regex::Regex;

use super::units::ITEM;

/// A title is not longer than this.
const MAX_TITLE_CHARS: usize = 60;

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

/// What makes a line look like a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TitleForm {
    /// `# Prices`, `[Prices]`, `제8조(지체상금)`: it is one wherever it stands.
    Marked,
    /// `**If the printer is silent**`: over other lines. A bold sentence, such as a warning, is one only right above them.
    Bold,
    /// `Q. How long does it take?`, `**How long?**`, `How long does it take?`: over its answer. One with a mark is one anyway.
    Question,
    /// `4. Price`: below a blank line and right above text, or over its sections `4.1 …`.
    Numbered,
    /// `Prices`: alone between blank lines.
    Plain,
}

/// Whether one of the lines of a text is a heading of those below it.
pub(super) fn is_heading(lines: &[&str], at: usize) -> bool {
    let (line, below) = (lines[at], &lines[at + 1..]);
    let is_blank_above = at.checked_sub(1).is_none_or(|above| is_blank(lines[above]));
    let first = below.iter().find(|line| !line.is_empty());
    title_form(line).is_some_and(|form| match form {
        TitleForm::Marked => true,
        TitleForm::Bold if bold(line).is_some_and(|words| words.ends_with(['.', '!'])) => {
            below.first().is_some_and(|next| !next.is_empty())
        }
        TitleForm::Bold => first.is_some(),
        TitleForm::Question => {
            QUESTION_MARK.is_match(line)
                || bold(line).is_some()
                || first.is_some_and(|answer| !is_question(answer) && !answer.starts_with('#'))
        }
        TitleForm::Numbered => {
            let number = |line: &str| line.split('.').next().and_then(|number| number.parse::<u32>().ok());
            let is_over_text = below.first().is_some_and(|next| !is_blank(next) && !is_listed(next));
            is_blank_above && is_over_text
                || first.is_some_and(|next| SECTION_NUMBER.is_match(next) && number(next) == number(line))
        }
        TitleForm::Plain => is_blank_above && below.first().is_some_and(|next| is_blank(next)),
    })
}

fn title_form(line: &str) -> Option<TitleForm> {
    let is_short = line.chars().count() <= MAX_TITLE_CHARS;
    let is_sentence = line.trim_end_matches('*').ends_with(['.', '!', '?', '。', ':', '：', ';']);
    let is_bracketed = line.starts_with('[') && line.ends_with(']');
    if line.starts_with('#') || is_bracketed || is_article_title(line) {
        Some(TitleForm::Marked)
    } else if is_question(line) {
        Some(TitleForm::Question)
    } else if bold(line).is_some() {
        is_short.then_some(TitleForm::Bold)
    } else if heading_number(line).is_some() {
        (is_short && !is_sentence).then_some(TitleForm::Numbered)
    } else {
        (is_short && !is_sentence && !is_listed(line)).then_some(TitleForm::Plain)
    }
}

/// The words of a heading without its marks.
pub(super) fn heading_words(line: &str) -> &str {
    let marks = QUESTION_MARK.find(line).map_or(0, |mark| mark.end());
    let words = line[marks..].trim_start_matches(['#', '[', '*']);
    words.trim_end_matches([']', '*']).trim()
}

/// Whether a line has no words.
pub(super) fn is_blank(line: &str) -> bool {
    !line.chars().any(char::is_alphanumeric) && !line.contains('|')
}

/// Whether a line is an item of a list or a row of a table.
fn is_listed(line: &str) -> bool {
    line.starts_with('|') || ITEM.is_match(line)
}

/// Whether a line is a question alone, and not a sentence among others.
fn is_question(line: &str) -> bool {
    let words = line.trim_end_matches('*');
    words.ends_with('?') && (QUESTION_MARK.is_match(line) || split_sentences(words).len() == 1)
}

/// The words of a line that is bold as a whole.
fn bold(line: &str) -> Option<&str> {
    let words = line.strip_prefix("**")?.strip_suffix("**")?;
    (!words.is_empty() && !words.contains("**")).then_some(words)
}

/// The answer to a frequent question without its mark: `A. Within 14 days.`
pub(super) fn without_answer_mark(line: &str) -> &str {
    &line[ANSWER_MARK.find(line).map_or(0, |mark| mark.end())..]
}

/// The bold number and title, or the bold question, that a paragraph begins with, without its marks, and the rest:
/// `**1. The driver.** The driver must …`. Other bold words are a part of their sentence.
pub(super) fn run_in_title(line: &str) -> (&str, &str) {
    let parts = line.strip_prefix("**").and_then(|line| line.split_once("**"));
    let is_title = |(title, rest): &(&str, &str)| {
        (heading_number(title).is_some() || title.ends_with('?') || article_of_heading(title).is_some())
            && rest.starts_with(' ')
    };
    parts.filter(is_title).unwrap_or(("", line))
}

/// Whether a line only names an article: `제8조(지체상금)`.
pub(super) fn is_article_title(line: &str) -> bool {
    article_of_heading(line).is_some() && line.ends_with(')') && line.matches('(').count() == 1
}

/// The article that a heading or the first words of a sentence name: `제5조(대금)`, `8. Customer duties` has none.
pub(super) fn article_of_heading(text: &str) -> Option<ArticleNumber> {
    let text = text.rsplit(HEADING_SEPARATOR).next().unwrap_or_default().trim_start_matches(['#', ' ']);
    let near = &text[..text.floor_char_boundary(48)];
    find_article_references(near)
        .into_iter()
        .next()
        .filter(|found| found.range.start == 0)
        .map(|one| one.article)
}

/// The number of a heading such as `8. Customer duties`, which people call section 8.
pub(super) fn heading_number(heading: &str) -> Option<ArticleNumber> {
    let (number, title) = heading.split_once(". ")?;
    let number = number.parse().ok().filter(|number| (1..1000).contains(number) && !title.is_empty())?;
    Some(ArticleNumber { number, branch: 0 })
}

/// The number of a section that is a paragraph, such as `4.2 The price …`: people call it article 4, clause 2.
pub(super) fn section_number(text: &str) -> Option<(ArticleNumber, u32)> {
    let found = SECTION_NUMBER.captures(text)?;
    let number = |at: usize| found[at].parse::<u32>().ok();
    Some((ArticleNumber { number: number(1)?, branch: 0 }, number(2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_is_marked_or_looks_like_the_title_of_what_stands_below_it() {
        for (text, expected) in [
            ("# Prices\n10 won.", "Prices"),
            ("[요금]\n10원이다.", "요금"),
            ("제8조(지체상금)\n하루에 1원을 낸다.", "제8조(지체상금)"),
            ("**If it is silent**\n\nTurn it on.", "If it is silent"),
            ("**Keep it dry.**\nWater harms it.", "Keep it dry."),
            ("Q. How long does it take?\nTwo days.", "How long does it take?"),
            ("얼마나 걸리나요?\n이틀 걸린다.", "얼마나 걸리나요?"),
            ("4. Price\n4.1 The price is 10 won.", "4. Price"),
            ("3. Party\nOn 12 May a party is held.", "3. Party"),
            ("요금\n\n10원이다.", "요금"),
            ("**Keep it dry.**\n\nIt is blue.", "-"),
            ("10원이다.\n어떤가요? 좋나요?\n그렇다.", "-"),
            ("1. 과태료\n2. 상품권", "-"),
            ("10원이다.\n\n끝", "-"),
            ("요금은 10원이다.\n\n20원이다.", "-"),
        ] {
            let lines: Vec<&str> = text.lines().collect();
            let found = (0..lines.len()).find(|at| is_heading(&lines, *at));
            assert_eq!(found.map_or("-", |at| heading_words(lines[at])), expected, "{text}");
        }
    }
}
