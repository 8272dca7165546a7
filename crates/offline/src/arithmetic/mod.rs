//! Finds a formula in a sentence: written in signs ("12*7"), in words ("3만 5천 곱하기 4", "six" is not read), or in
//! the Korean order ("100에서 30을 빼면"). Finding is all: whoever computes is somewhere else.

mod join;
mod number;
mod read;
#[cfg(test)]
mod tests;

use self::join::{signs, verbs};
use self::read::tokens;

/// The longest formula that is read.
const MAX_FORMULA_CHARS: usize = 1000;

/// The formula of a question, if it holds one: numbers without separators, the signs `+ - * / ^ ( )`, functions by
/// name.
pub(super) fn formula(question: &str) -> Option<String> {
    let tokens = tokens(question)?;
    signs(&tokens, question).or_else(|| verbs(&tokens)).filter(|formula| formula.len() <= MAX_FORMULA_CHARS)
}

/// Whether a sentence asks to compute something, formula or not.
pub(super) fn asks_to_compute(question: &str) -> bool {
    let lower = question.to_lowercase();
    KOREAN_CUES.iter().chain(&ENGLISH_CUES).any(|cue| lower.contains(cue))
}

const KOREAN_CUES: [&str; 4] = ["계산해", "계산 좀", "계산하", "계산을"];
const ENGLISH_CUES: [&str; 2] = ["calculate", "compute "];

/// What a sentence wants computed though it is no formula, such as `2 +* 3` or `abc`, as it was written: whoever
/// computes says what is wrong with it. Several words are not taken for one.
pub(super) fn miswritten(question: &str) -> Option<String> {
    let sign = |char: char| matches!(char, '+' | '*' | '/' | '^' | '%' | '(' | ')' | '-');
    let fits = |char: char| char.is_ascii_graphic() || char == ' ';
    let before = KOREAN_CUES.iter().find_map(|cue| question.find(cue)).map(|end| {
        let text = question[..end].trim_end();
        let text = text.strip_suffix(['을', '를', '도']).unwrap_or(text);
        let start = text.char_indices().rev().take_while(|(_, char)| fits(*char)).last();
        start.map_or("", |(start, _)| &text[start..])
    });
    let after = || {
        let cue = ENGLISH_CUES.iter().find(|cue| question.contains(**cue))?;
        let (_, after) = question.split_once(cue)?;
        Some(after.trim_end_matches(['?', '.', '!'])).filter(|text| text.chars().all(fits))
    };
    let written = before.or_else(after)?.trim();
    let written = written.rsplit(['?', '!', ':']).next().unwrap_or(written).trim();
    let digit = written.chars().any(|char| char.is_ascii_digit());
    let points = ["it", "this", "that", "them", "these", "those", "everything", "all"];
    // What stands for a number is written small; capitals, as in VAT, are a word for something else.
    let name = written.starts_with(|char: char| char.is_ascii_lowercase())
        && written.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit())
        && !points.contains(&written);
    ((digit && written.contains(sign) || name) && written.len() <= MAX_FORMULA_CHARS)
        .then(|| written.to_owned())
}

/// A few words that call themselves a formula and are none, such as "잘못된 계산식": the calculator says what is wrong.
pub(super) fn called_a_formula(question: &str) -> Option<String> {
    let text = question.trim().trim_end_matches(['.', '!']);
    let lower = text.to_lowercase();
    let ends = ["계산식", "수식", "formula"].iter().any(|end| lower.ends_with(end));
    (ends && text.split_whitespace().count() <= 3).then(|| text.to_owned())
}

#[derive(Clone, Debug, PartialEq)]
enum FormulaToken {
    Number(String),
    /// A sign between two numbers, and whether it could also be a hyphen or slash inside a name or date.
    Sign(char, SignCertainty),
    Percent,
    Open,
    Close,
    Function(&'static str),
    /// `제곱`, `제곱근` and the like after a number.
    After(AfterNumberWord),
    /// "더하면": joins the two numbers before it.
    Verb(char),
    /// The word "의" or "of" between a number and a share of it.
    Of,
    /// Ends in words that tell an operand apart from a label: `조`, `항`, `월`.
    Label,
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SignCertainty {
    Sure,
    Tight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AfterNumberWord {
    Square,
    Root,
    Power,
    Half,
    Times,
}
