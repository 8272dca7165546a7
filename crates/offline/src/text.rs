//! Sentences and words of Korean and English text.

use doran_agents::Language;
use doran_retrieval::{is_hangul, is_question_word, split_sentences, text_stems};

/// The language of a text: Korean if any Hangul stands in it, English if any other letter, else unknown.
pub(super) fn language(text: &str) -> Option<Language> {
    if text.chars().any(is_hangul) {
        return Some(Language::Korean);
    }
    text.chars().any(char::is_alphabetic).then_some(Language::English)
}

/// The sentences of a text, each a slice of it, without surrounding spaces. A line break or any other control character
/// closes one, so that no sentence carries control characters on to a terminal.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    text.split(|char: char| char.is_control() && char != '\t').flat_map(split_sentences).collect()
}

/// Whether a text holds any of the cues, which are written `one|another`.
pub(super) fn contains_any_cue(text: &str, cues: &str) -> bool {
    cues.split('|').any(|cue| text.contains(cue))
}

/// The letters and digits of a text, in lower case.
pub(super) fn squeezed(text: &str) -> String {
    text.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words of a text: letters and digits; an apostrophe stays within a word.
pub(super) fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect()
}

/// The words of a question that say what it is about, without particles and endings, in order, each once.
pub(super) fn content_words(question: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in question.split_whitespace() {
        let stems: Vec<_> =
            text_stems(word).into_iter().filter(|(stem, _)| !is_question_word(stem)).collect();
        let Some((stem, range)) = stems.last() else { continue };
        // A verb whose stem is spelled otherwise stays whole.
        let end = if word[range.clone()].to_lowercase() == *stem { range.end } else { word.len() };
        let bare = word[..end].trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        if !bare.is_empty() && !found.contains(&bare) {
            found.push(bare);
        }
    }
    found
}

/// The word without the longest particle at its end, if at least one syllable stays.
pub(super) fn without_particle(word: &str) -> &str {
    const PARTICLES: &str = "으로부터 에게서 이라고 까지는 에서는 으로 에서 에게 까지 부터 이나 라고 처럼 마다 은 는 이 가 을 를 의 에 도 로";
    let bare = |particle| word.strip_suffix(particle).filter(|rest: &&str| !rest.is_empty());
    PARTICLES.split(' ').find_map(bare).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_slices_and_numbers_stay_whole() {
        let text = "연차는 15일이다. 할증은 1.5배다!\n1. 첫째 항목\n그는 \"예.\" 라고 했다. end";
        assert_eq!(
            sentences(text),
            ["연차는 15일이다.", "할증은 1.5배다!", "1. 첫째 항목", "그는 \"예.\"", "라고 했다.", "end"]
        );
        let text = "Enter between 9 a.m. and 6 p.m. with notice. Knock first.";
        assert_eq!(sentences(text), ["Enter between 9 a.m. and 6 p.m. with notice.", "Knock first."]);
        assert!(sentences(" \n -- \n").is_empty());
    }

    #[test]
    fn the_language_is_what_is_written() {
        assert_eq!(language("VPN은?"), Some(Language::Korean));
        assert_eq!(language("VPN?"), Some(Language::English));
        assert_eq!(language("1 + 2"), None);
    }
}
