//! Stems of questions that say nothing about what is asked for, such as those of "how" and "얼마".

use std::collections::HashSet;
use std::sync::LazyLock;

static QUESTION_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("question_words.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
});

/// Whether a stem of a question says nothing about what is asked for.
pub fn is_question_word(stem: &str) -> bool {
    QUESTION_WORDS.contains(stem)
}
