//! Remarks on articles beside another document: how a comparison writes them at the end of a title, and how they are read back.

use doran_retrieval::{ArticleNumber, HEADING_SEPARATOR, Language, with_particle};

/// What the last heading of an article says about it beside another document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonRemark<'a> {
    /// The document with this title does not have the article.
    NotIn(&'a str),
    /// The article of the document with this title that answers to it has other words.
    DiffersFrom {
        /// The title of the other document.
        title: &'a str,
        /// The number of the other article.
        article: &'a str,
    },
    /// The article of the document with this title that answers to it has the same words.
    SameAs {
        /// The title of the other document.
        title: &'a str,
        /// The number of the other article.
        article: &'a str,
    },
    /// It is the article of a standard that answers to one of the document with this title.
    AnswersTo {
        /// The title of the other document.
        title: &'a str,
        /// The number of the other article.
        article: &'a str,
    },
}

impl<'a> ComparisonRemark<'a> {
    /// The remark at the end of a title, in either language.
    pub fn of_title(title: &'a str) -> Option<Self> {
        Self::parse(title.rsplit(HEADING_SEPARATOR).next()?)
    }

    /// A title without the remark at its end.
    pub fn without_remark(title: &'a str) -> &'a str {
        match title.rsplit_once(HEADING_SEPARATOR) {
            Some((place, remark)) if Self::parse(remark).is_some() => place,
            _ => title,
        }
    }

    fn parse(remark: &'a str) -> Option<Self> {
        if let Some((title, rest)) = remark.strip_prefix('「').and_then(|rest| rest.split_once('」')) {
            if rest == "에 없는 조항" {
                return Some(Self::NotIn(title));
            }
            let article = |ends: &[&str]| {
                ends.iter().find_map(|end| rest.strip_prefix(' ')?.strip_suffix(end)).map(str::trim_end)
            };
            let differs = article(&["와 다른 조항", "과 다른 조항"]);
            let same = || article(&["와 같은 조항", "과 같은 조항"]);
            let answers = || article(&["에 해당하는 조항"]);
            return differs
                .map(|article| Self::DiffersFrom { title, article })
                .or_else(|| same().map(|article| Self::SameAs { title, article }))
                .or_else(|| answers().map(|article| Self::AnswersTo { title, article }));
        }
        let (rest, title) = remark.strip_suffix('”')?.split_once('“')?;
        if rest == "not in " {
            return Some(Self::NotIn(title));
        }
        let rest = rest.strip_suffix(" of ")?;
        let article = |start: &str| rest.strip_prefix(start);
        article("differs from ")
            .map(|article| Self::DiffersFrom { title, article })
            .or_else(|| article("same as ").map(|article| Self::SameAs { title, article }))
            .or_else(|| article("answers to ").map(|article| Self::AnswersTo { title, article }))
    }
}

/// The remark on an article that the document with this title does not have.
pub(super) fn missing_article_remark(title: &str, language: Language) -> String {
    language.pick(format!("「{title}」에 없는 조항"), format!("not in “{title}”"))
}

/// The remark on an article that has other words than this one.
pub(super) fn changed_article_remark(title: &str, number: ArticleNumber, language: Language) -> String {
    let with = with_particle(&number.to_string());
    language
        .pick(format!("「{title}」 {number}{with} 다른 조항"), format!("differs from {number} of “{title}”"))
}

/// The remark on an article that has the same words as this one.
pub(super) fn same_article_remark(title: &str, number: ArticleNumber, language: Language) -> String {
    let with = with_particle(&number.to_string());
    language.pick(format!("「{title}」 {number}{with} 같은 조항"), format!("same as {number} of “{title}”"))
}

/// The remark on an article of a standard that answers to this one.
pub(super) fn answering_article_remark(title: &str, number: ArticleNumber, language: Language) -> String {
    language
        .pick(format!("「{title}」 {number}에 해당하는 조항"), format!("answers to {number} of “{title}”"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_read_as_they_are_written() {
        let (title, number) = ("용역계약 (안)", ArticleNumber { number: 10, branch: 3 });
        for language in Language::ALL {
            let text = number.to_string();
            let article = text.as_str();
            for (written, expected) in [
                (missing_article_remark(title, language), ComparisonRemark::NotIn(title)),
                (
                    changed_article_remark(title, number, language),
                    ComparisonRemark::DiffersFrom { title, article },
                ),
                (same_article_remark(title, number, language), ComparisonRemark::SameAs { title, article }),
                (
                    answering_article_remark(title, number, language),
                    ComparisonRemark::AnswersTo { title, article },
                ),
            ] {
                let whole = format!("표준계약서{HEADING_SEPARATOR}제1조(목적){HEADING_SEPARATOR}{written}");
                assert_eq!(ComparisonRemark::of_title(&whole), Some(expected), "{whole}");
                let place = format!("표준계약서{HEADING_SEPARATOR}제1조(목적)");
                assert_eq!(ComparisonRemark::without_remark(&whole), place);
                assert_eq!(ComparisonRemark::without_remark(&place), place);
            }
        }
    }
}
