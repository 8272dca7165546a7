//! Places that a question names: articles and clauses by number, and what is attached to a contract ("별지 1", "부칙",
//! "Exhibit A").

use std::fmt;
use std::sync::LazyLock;

use doran_agents::Language;
use doran_agents::agents::contract::{ENGLISH_APPENDIX_WORDS, KOREAN_APPENDIX_WORDS};
use doran_retrieval::ArticleNumber;
use doran_retrieval::contract::{ArticleReference, find_article_references};
use regex::Regex;

use super::intent::quoted;
use super::ranking::UnitIndex;
use super::text::without_particle;
use super::units::QuotableUnit;

#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static APPENDIX: LazyLock<Regex> = LazyLock::new(|| {
    let korean = KOREAN_APPENDIX_WORDS.map(str::trim).join("|");
    let english = ENGLISH_APPENDIX_WORDS.map(str::trim).join("|");
    let pattern = format!(
        r"(?:^|[^\w])((?:{korean})(?:\s*제?\s*(\d{{1,3}})(?:호|\b))?|(?:{english})\s+(\d{{1,3}}|[A-Z])\b)"
    );
    Regex::new(&pattern).expect("a pattern")
});
#[allow(clippy::expect_used, reason = "the patterns are fixed, and every test uses them")]
static CLAUSE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"제?\s*(\d{1,2})\s*항").expect("a pattern"));

/// A place by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedPlace {
    /// What is attached: `별지 1`.
    pub(super) appendix: Option<String>,
    /// The article, or the first one of a range.
    pub(super) article: Option<ArticleNumber>,
    /// The last article of a range.
    pub(super) last: Option<ArticleNumber>,
    /// The clause of the article.
    pub(super) clause: Option<u32>,
}

impl fmt::Display for NamedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article = self.article.map(|article| match self.last {
            None => article.to_string(),
            Some(last) => format!("{article}부터 {last}까지"),
        });
        let clause = self.clause.map(|clause| format!("제{clause}항"));
        let names: Vec<String> = [self.appendix.clone(), article, clause].into_iter().flatten().collect();
        f.write_str(&names.join(" "))
    }
}

impl NamedPlace {
    /// How the place is called in a language.
    pub(super) fn label(&self, language: Language) -> String {
        let name = |article: ArticleNumber| match article.branch {
            0 => format!("Article {}", article.number),
            branch => format!("Article {}-{branch}", article.number),
        };
        let article = self.article.map(|article| match self.last {
            None => name(article),
            Some(last) => format!("{} to {}", name(article), name(last)),
        });
        match language {
            Language::Korean => self.to_string(),
            Language::English => {
                let clause = self.clause.map(|clause| format!("clause {clause}"));
                [self.appendix.clone(), article, clause].into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Whether a unit stands at this place.
    pub(super) fn contains(&self, unit: &QuotableUnit<'_>, index: &UnitIndex<'_>) -> bool {
        let title = index.sources()[unit.source].title;
        let attached = |text: &str| APPENDIX.captures(text).map(|found| appendix_label(&found[1]));
        let within = match &self.appendix {
            Some(wanted) => [title, unit.heading].into_iter().any(|text| {
                attached(text)
                    .is_some_and(|label| label == *wanted || label.split(' ').next() == Some(wanted.as_str()))
            }),
            None => attached(title).is_none() && attached(unit.heading).is_none(),
        };
        within
            && self.article.is_none_or(|article| {
                unit.article
                    .is_some_and(|of_unit| (article..=self.last.unwrap_or(article)).contains(&of_unit))
            })
            && self.clause.is_none_or(|clause| unit.clause == Some(clause))
    }
}

/// The articles of the main part that a text names, and ranges of them, in order, each once, without clauses.
pub(super) fn named_articles(text: &str) -> Vec<ArticleReference> {
    let mut articles = Vec::new();
    for reference in find_article_references(text).into_iter().filter(|one| one.appendix.is_none()) {
        let article = ArticleReference { clause: None, item: None, law: None, range: 0..0, ..reference };
        if !articles.contains(&article) {
            articles.push(article);
        }
    }
    articles
}

/// Titles of articles that a question names: in quotation marks, or before "조항", "조의 내용" or "clause".
pub(super) fn article_titles(text: &str) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    let lower = text.to_lowercase();
    let about = ["조항", "조문", "계약", "조의", "조 내용", "제목", "clause", "article", "contract"];
    if about.iter().any(|word| lower.contains(word)) {
        let quoted =
            quoted(text).into_iter().filter(|title| named_articles(title).is_empty() && !title.contains('.'));
        titles.extend(quoted);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        let korean = pair[1].starts_with("조항") || pair[1].starts_with("조문");
        let english = pair[1].to_lowercase().trim_end_matches(['?', '.', ',', 's']) == "clause";
        let title = pair[0].trim_matches(|char: char| !char.is_alphanumeric());
        let title = if korean { title.strip_suffix('의').unwrap_or(title) } else { title };
        if (korean || english)
            && !is_pointing(title)
            && named_articles(title).is_empty()
            && !titles.iter().any(|t| t.contains(title))
        {
            titles.push(title.to_owned());
        }
    }
    titles.retain(|title| title.chars().count() >= 2);
    titles
}

/// Words before "조항" that point or ask instead of naming.
fn is_pointing(word: &str) -> bool {
    const POINTING: &str = " 그 이 저 해당 위 아래 다음 관련 어떤 무슨 모든 각 몇 다른 불리한 중요한 참조 있는 없는 계약 계약서 표준계약서 \
        the this that which any each a 한 된 하는 독소 주요 ";
    let names = |word: &str| POINTING.contains(&format!(" {} ", word.to_lowercase()));
    names(word) || names(without_particle(word)) || word.ends_with("관한") || word.ends_with("대한")
}

/// The name of an appendix as people write it: `별지 제1호` is `별지 1`.
fn appendix_label(name: &str) -> String {
    let bare = name.replace(['제', '호'], " ");
    let at = bare.find(|char: char| char.is_ascii_digit()).unwrap_or(bare.len());
    format!("{} {}", &bare[..at], &bare[at..]).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The places that a question names, in order, each once, and the question without them.
pub(super) fn named_places(question: &str) -> (Vec<NamedPlace>, String) {
    let mut found: Vec<NamedPlace> = Vec::new();
    let mut add = |place: NamedPlace| {
        if !found.contains(&place) {
            found.push(place);
        }
    };
    let mut rest = question.to_owned();
    let references = find_article_references(question);
    for reference in &references {
        let appendix = reference.appendix.clone();
        let ArticleReference { article, last, clause, .. } = *reference;
        add(NamedPlace { appendix, article: Some(article), last, clause });
    }
    for reference in references.iter().rev() {
        rest.replace_range(reference.range.clone(), " ");
    }
    if references.is_empty()
        && let Some(clause) = CLAUSE.captures(question).and_then(|found| found[1].parse().ok())
    {
        add(NamedPlace { clause: Some(clause), ..NamedPlace::default() });
    }
    for attached in APPENDIX.captures_iter(&rest) {
        let appendix = Some(appendix_label(&attached[1]));
        if !references.iter().any(|reference| reference.appendix == appendix) {
            add(NamedPlace { appendix, ..NamedPlace::default() });
        }
    }
    let rest = APPENDIX.replace_all(&rest, " ").into_owned();
    (found, rest)
}
