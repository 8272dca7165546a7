//! Names of appendices: `별지 1`, `별표`, `부칙 제1조`, `Exhibit A`.

use std::fmt;
use std::ops::Range;

use doran_retrieval::ArticleNumber;
use doran_retrieval::contract::{Appendix, ArticleReference, ContractArticle, find_article_references};

/// What appendices are called in Korean.
pub const KOREAN_APPENDIX_WORDS: [&str; 6] = ["별지", "별표", "별첨", "붙임", "부속서", "부칙"];

/// What appendices are called in English. A number or letter has to follow.
pub const ENGLISH_APPENDIX_WORDS: [&str; 4] = ["Exhibit ", "Appendix ", "Schedule ", "Annex "];

/// The name of an appendix, with an article of it where one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppendixName {
    label: String,
    article: Option<ArticleNumber>,
}

impl fmt::Display for AppendixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        self.article.map_or(Ok(()), |article| write!(f, " {article}"))
    }
}

impl AppendixName {
    /// The first appendix that a text names, and where it stands.
    pub(super) fn find(text: &str) -> Option<(Self, Range<usize>)> {
        Self::find_all(text).next()
    }

    /// All appendices that a text names, in order, and where they stand.
    pub(super) fn find_all(text: &str) -> impl Iterator<Item = (Self, Range<usize>)> {
        let words = KOREAN_APPENDIX_WORDS.iter().chain(&ENGLISH_APPENDIX_WORDS);
        let mut starts: Vec<(usize, &str)> = words.flat_map(|word| text.match_indices(*word)).collect();
        starts.sort_unstable();
        let mut end = 0;
        starts.into_iter().filter_map(move |(start, word)| {
            if start < end || text[end..start].ends_with(char::is_alphanumeric) {
                return None;
            }
            let found = parse_appendix_name(text, start, word, ENGLISH_APPENDIX_WORDS.contains(&word))?;
            end = found.1.end;
            Some(found)
        })
    }

    /// Whether this is the name of an appendix, however that is spaced: `[별지 제1호]` is `별지 1`.
    pub(super) fn matches(&self, appendix: &Appendix) -> bool {
        let bare = |text: &str| -> String {
            let letters = text.chars().filter(|char| char.is_alphanumeric() && !matches!(char, '제' | '호'));
            letters.flat_map(char::to_lowercase).collect()
        };
        let (label, wanted) = (bare(&appendix.label), bare(&self.label));
        let numbered = wanted.ends_with(|char: char| char.is_ascii_digit()) || wanted.is_ascii();
        label == wanted || (!numbered && label.starts_with(&wanted))
    }

    /// The article of the appendix that is meant; none where the whole of it is.
    pub(super) fn find_article<'a>(&self, appendix: &'a Appendix) -> Option<Option<&'a ContractArticle>> {
        match self.article {
            None => Some(None),
            Some(number) => appendix.articles.iter().find(|article| article.number == number).map(Some),
        }
    }
}

fn parse_appendix_name(
    text: &str,
    start: usize,
    word: &str,
    english: bool,
) -> Option<(AppendixName, Range<usize>)> {
    let after = &text[start + word.len()..];
    let tail = after.trim_start_matches(' ');
    let tail = tail.strip_prefix('제').unwrap_or(tail).trim_start_matches(' ');
    let digits = tail.len() - tail.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let letter = english
        && tail.starts_with(|char: char| char.is_ascii_uppercase())
        && !tail[1..].starts_with(char::is_alphanumeric);
    // 부칙 제1조 is an article of it, and no number of its own.
    let numbered = (1..=3).contains(&digits) && !tail[digits..].trim_start().starts_with('조');
    let length = if numbered { digits } else { usize::from(letter) };
    if english && length == 0 {
        return None;
    }
    let label = format!("{} {}", word.trim_end(), &tail[..length]).trim().to_owned();
    let end = if length > 0 { text.len() - tail.len() + length } else { start + word.len() };
    let end = end + if numbered && text[end..].starts_with('호') { '호'.len_utf8() } else { 0 };
    let rest = &text[end..];
    let blank = rest.len() - rest.trim_start().len();
    let inner = reference_at(&rest[blank..]);
    let end = if inner.is_some() { end + blank } else { end };
    let range = start..inner.as_ref().map_or(end, |inner| end + inner.range.end);
    Some((AppendixName { label, article: inner.map(|inner| inner.article) }, range))
}

/// The reference that a text begins with. What names an article is short, so no more than that is read.
fn reference_at(text: &str) -> Option<ArticleReference> {
    const MAX_REFERENCE_CHARS: usize = 64;
    let near = text.char_indices().nth(MAX_REFERENCE_CHARS).map_or(text, |(end, _)| &text[..end]);
    find_article_references(near).into_iter().next().filter(|first| first.range.start == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_appendix_is_read_however_it_is_written() {
        for (text, name, rest) in [
            ("별지 1 보여줘", "별지 1", " 보여줘"),
            ("별지 제1호 보여줘", "별지 1", " 보여줘"),
            ("계약의 별표를 보여줘", "별표", "계약의 를 보여줘"),
            ("부칙 내용은?", "부칙", " 내용은?"),
            ("부칙 제1조 알려줘", "부칙 제1조", " 알려줘"),
            ("What is in Exhibit A?", "Exhibit A", "What is in ?"),
        ] {
            let (found, range) = AppendixName::find(text).expect(text);
            let mut left = text.to_owned();
            left.replace_range(range, "");
            assert_eq!((found.to_string().as_str(), left.as_str()), (name, rest));
        }
        for text in ["개별지표는?", "Schedule a meeting", "제5조는?"] {
            assert_eq!(AppendixName::find(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_that_of_its_appendix_and_of_no_other() {
        let names = |name: &str, label: &str| {
            let (label, title, range, articles) = (label.to_owned(), String::new(), 0..0, Vec::new());
            AppendixName::find(name).expect(name).0.matches(&Appendix { label, title, range, articles })
        };
        assert!(names("별지 1", "별지 제1호") && names("별지", "별지 1") && names("Exhibit A", "Exhibit A"));
        assert!(!names("별지 1", "별지 12") && !names("Exhibit A", "Exhibit B") && !names("별지", "별표 1"));
    }
}
