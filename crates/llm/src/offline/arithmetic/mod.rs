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
const MOST: usize = 1000;

/// The formula of a question, if it holds one: numbers without separators, the signs `+ - * / ^ ( )`, functions by
/// name.
pub(super) fn formula(question: &str) -> Option<String> {
    let tokens = tokens(question)?;
    signs(&tokens, question).or_else(|| verbs(&tokens)).filter(|formula| formula.len() <= MOST)
}

/// Whether a sentence asks to compute something, formula or not.
pub(super) fn asks_to_compute(question: &str) -> bool {
    let lower = question.to_lowercase();
    ["계산해", "계산 좀", "계산하", "계산을", "calculate", "compute "].iter().any(|cue| lower.contains(cue))
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(String),
    /// A sign between two numbers, and whether it could also be a hyphen or slash inside a name or date.
    Sign(char, Surety),
    Percent,
    Open,
    Close,
    Function(&'static str),
    /// `제곱`, `제곱근` and the like after a number.
    After(After),
    /// "더하면": joins the two numbers before it.
    Verb(char),
    /// The word "의" or "of" between a number and a share of it.
    Of,
    /// Ends in words that tell an operand apart from a label: `조`, `항`, `월`.
    Label,
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Surety {
    Sure,
    Tight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Square,
    Root,
    Power,
    Half,
    Times,
}
