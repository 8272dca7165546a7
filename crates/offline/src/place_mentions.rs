//! Places that a question names: articles by number, and what is attached to a contract ("별지 1", "부칙", "Exhibit A").

use std::fmt;

use doran_agents::agents::contract::{ENGLISH_APPENDIX_WORDS, KOREAN_APPENDIX_WORDS};
use doran_retrieval::ArticleNumber;

use super::article::{articles, articles_with_supplements, cut_out};

/// A place by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlaceMention {
    /// An article of the main part.
    Article(ArticleNumber),
    /// What is attached, and an article of it where one is named.
    Appendix { label: String, article: Option<ArticleNumber> },
}

impl fmt::Display for PlaceMention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Article(article) => write!(f, "{article}"),
            Self::Appendix { label, article: None } => write!(f, "{label}"),
            Self::Appendix { label, article: Some(article) } => write!(f, "{label} {article}"),
        }
    }
}

impl PlaceMention {
    /// Whether a heading or text names this very place.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        match self {
            Self::Article(article) => articles(text).contains(article),
            Self::Appendix { label, article } => {
                let within = article.is_none_or(|article| articles_with_supplements(text).contains(&article));
                within && names_appendix(text, label)
            }
        }
    }
}

/// The places that a question names, in order, and the question without them.
pub(super) fn place_mentions(question: &str) -> (Vec<PlaceMention>, String) {
    let (articles, rest) = cut_out(question);
    let mut found: Vec<PlaceMention> = articles.into_iter().map(PlaceMention::Article).collect();
    let words = KOREAN_APPENDIX_WORDS.iter().chain(&ENGLISH_APPENDIX_WORDS);
    let mut starts: Vec<(usize, &str)> = words.flat_map(|word| rest.match_indices(*word)).collect();
    starts.sort_unstable();
    let (mut left, mut read) = (String::new(), 0);
    for (start, word) in starts {
        if start < read || rest[read..start].ends_with(char::is_alphanumeric) {
            continue;
        }
        let Some((place, end)) = appendix(&rest, start, word) else { continue };
        if !found.contains(&place) {
            found.push(place);
        }
        left.push_str(&rest[read..start]);
        left.push(' ');
        read = end;
    }
    left.push_str(&rest[read..]);
    (found, left)
}

/// The appendix whose word stands at a place of a text, with an article of it, and where its name ends.
fn appendix(text: &str, start: usize, word: &str) -> Option<(PlaceMention, usize)> {
    let tail = text[start + word.len()..].trim_start_matches(' ');
    let tail = tail.strip_prefix('제').unwrap_or(tail).trim_start_matches(' ');
    let digits = tail.len() - tail.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let letter = tail.starts_with(|char: char| char.is_ascii_uppercase())
        && !tail[1..].starts_with(char::is_alphanumeric);
    let numbered = (1..=3).contains(&digits) && !tail[digits..].trim_start().starts_with('조');
    let length = if numbered { digits } else { usize::from(letter) };
    if ENGLISH_APPENDIX_WORDS.contains(&word) && length == 0 {
        return None;
    }
    let label = format!("{} {}", word.trim_end(), &tail[..length]).trim().to_owned();
    let mut end = if length > 0 { text.len() - tail.len() + length } else { start + word.len() };
    end += if numbered && text[end..].starts_with('호') { '호'.len_utf8() } else { 0 };
    let article = article_at(text[end..].trim_start());
    if let Some(article) = article {
        end = text.len() - text[end..].trim_start().len() + article.to_string().len();
    }
    Some((PlaceMention::Appendix { label, article }, end))
}

/// The article that a text begins with. The name of one is short, so no more than that is read.
fn article_at(text: &str) -> Option<ArticleNumber> {
    const NAME: usize = 32;
    let near: String = text.chars().take(NAME).collect();
    let first = articles_with_supplements(&near).into_iter().next();
    first.filter(|article| near.starts_with(&article.to_string()))
}

/// Whether a text names an appendix, however it is spaced: `[별지 제1호]` is `별지 1`.
fn names_appendix(text: &str, label: &str) -> bool {
    let bare = |text: &str| -> String {
        text.chars().filter(|char| !char.is_whitespace() && !matches!(char, '제' | '호')).collect()
    };
    let (text, label) = (bare(text), bare(label));
    text.match_indices(&label).any(|(at, _)| {
        !text[at + label.len()..].starts_with(|char: char| {
            char.is_ascii_digit() && label.ends_with(|last: char| last.is_ascii_digit())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, expected: &[&str], rest: &str) {
        let (found, left) = place_mentions(question);
        let found: Vec<String> = found.iter().map(PlaceMention::to_string).collect();
        assert_eq!(found, expected, "{question}");
        assert_eq!(left.split_whitespace().collect::<Vec<_>>().join(" "), rest, "{question}");
    }

    #[test]
    fn articles_and_appendices_are_read_with_what_is_left() {
        check("제2조의2 알려줘", &["제2조의2"], "알려줘");
        check("제99조 손해배상은?", &["제99조"], "손해배상은?");
        check("별지 1 보여줘", &["별지 1"], "보여줘");
        check("별지 제1호 보여줘", &["별지 1"], "보여줘");
        check("별표 보여줘", &["별표"], "보여줘");
        check("부칙 내용은?", &["부칙"], "내용은?");
        check("부칙 제1조 알려줘", &["부칙 제1조"], "알려줘");
        check("What is in Exhibit A?", &["Exhibit A"], "What is in ?");
        check("개별지표는?", &[], "개별지표는?");
        check("Schedule a meeting", &[], "Schedule a meeting");
        check("별지와 부칙 제2조, 별지", &["별지", "부칙 제2조"], "와 ,");
    }

    #[test]
    fn a_name_inside_a_word_is_passed_over_however_often_it_stands_there() {
        for inside in ["0별지", "aAnnex ", "aSchedule a"] {
            let text = inside.repeat(16 * 1024 / inside.len());
            let (found, left) = place_mentions(&text);
            assert_eq!((found.len(), left.len()), (0, text.len()), "{inside}");
        }
        let many = "별지 ".repeat(2_000);
        assert_eq!(place_mentions(&many).0.len(), 1);
    }

    #[test]
    fn a_heading_names_its_place_and_no_other() {
        let named = |question: &str, heading: &str| place_mentions(question).0[0].is_named_in(heading);
        assert!(named("별지 1 보여줘", "계약서 › 별지 1 과업 내용"));
        assert!(named("별지 1 보여줘", "계약서 › 별지 제1호 과업 내용"));
        assert!(!named("별지 1 보여줘", "계약서 › 별지 12 과업 내용"));
        assert!(named("부칙 제1조", "계약서 › 부칙 › 제1조(시행일)"));
        assert!(!named("부칙 제1조", "계약서 › 제1조(목적)"));
        assert!(!named("제1조", "계약서 › 부칙 › 제1조(시행일)"));
        assert!(named("Exhibit A", "Agreement › Exhibit A Services"));
    }
}
