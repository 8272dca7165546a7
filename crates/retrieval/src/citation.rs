//! Citations: quotes with their position in a document, and the check that the document still contains them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::passage::{ArticleNumber, Document, DocumentId, Passage, PassageId};

/// A quote from a document with its position, shown beside an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// The passage that contains the quote.
    pub passage: PassageId,
    /// Its document.
    pub document: DocumentId,
    /// The version of the document.
    #[serde(default)]
    pub version: String,
    /// The page on which the quote starts, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The article that the quote belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub article: Option<ArticleNumber>,
    /// The byte range of the quote in the text of the document.
    pub range: Range<usize>,
    /// The quote, exactly as the document has it.
    pub quote: String,
}

/// Why a citation must not be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CitationError {
    /// The citation refers to another document.
    #[error("the quote is of another document")]
    OtherDocument,
    /// The document has changed since the citation was made.
    #[error("the document has changed since the quote was taken")]
    OtherVersion,
    /// The document has other text at that position.
    #[error("the words are not in that place of the document")]
    NotThere,
}

impl Citation {
    /// Makes a citation of `quote`. Returns `None` if the passage does not contain it. Differences in whitespace are
    /// ignored; the citation holds the text as the document has it.
    pub fn from_quote(document: &Document, passage: &Passage, quote: &str) -> Option<Self> {
        let within = find_quote(&passage.text, quote)?;
        let start = passage.range.start + within.start;
        Some(Self {
            passage: passage.id.clone(),
            document: passage.document.clone(),
            version: passage.version.clone(),
            page: document.page_at(start).or(passage.page),
            article: passage.article,
            quote: passage.text[within.clone()].to_owned(),
            range: start..passage.range.start + within.end,
        })
    }

    /// Checks the citation against the stored document: same document, same version, same text at the same position.
    pub fn verify(&self, document: &Document) -> Result<(), CitationError> {
        if self.document != document.id {
            return Err(CitationError::OtherDocument);
        }
        if self.version != document.version {
            return Err(CitationError::OtherVersion);
        }
        match document.text.get(self.range.clone()) {
            Some(words) if words == self.quote && !words.is_empty() => Ok(()),
            Some(_) | None => Err(CitationError::NotThere),
        }
    }
}

/// Returns the byte range of `quote` in `text`. An exact match is tried first, then a match that ignores whitespace.
///
/// The time is linear in the length of the text. An empty quote is never found.
pub fn find_quote(text: &str, quote: &str) -> Option<Range<usize>> {
    let quote = quote.trim();
    if quote.is_empty() {
        return None;
    }
    if let Some(start) = text.find(quote) {
        return Some(start..start + quote.len());
    }
    let bare: String = quote.chars().filter(|char| !char.is_whitespace()).collect();
    let mut letters = String::with_capacity(text.len());
    let mut places = Vec::new();
    for (at, char) in text.char_indices().filter(|(_, char)| !char.is_whitespace()) {
        places.push((letters.len(), at));
        letters.push(char);
    }
    let start = letters.find(&bare)?;
    let place = |offset: usize| places.partition_point(|(letter, _)| *letter <= offset) - 1;
    let (_, first) = places[place(start)];
    let (_, last) = places[place(start + bare.len() - 1)];
    let end = last + text[last..].chars().next().map_or(0, char::len_utf8);
    Some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, quote: &str, expected: Option<&str>) {
        assert_eq!(find_quote(text, quote).map(|range| &text[range]), expected, "{quote}");
    }

    #[test]
    fn a_quote_is_found_as_it_stands_or_with_other_spaces() {
        let text = "제5조 연차휴가는 1년에\n15일을 준다. 반차도 있다.";
        check(text, "15일을 준다", Some("15일을 준다"));
        check(text, " 1년에 15일을  준다. ", Some("1년에\n15일을 준다."));
        check(text, "연차 휴가는", Some("연차휴가는"));
        check(text, "16일을 준다", None);
        check(text, "", None);
        check(text, " \n", None);
        check("", "x", None);
    }

    #[test]
    fn a_citation_is_on_the_page_where_its_words_start() {
        let text = "앞 장의 말이다. 뒷장의 말이다.";
        let second = text.find('뒷').expect("there");
        let document = Document { pages: vec![0, second], ..Document::new("d", "규정", text) };
        let passage = crate::split_into_passages(&document).remove(0);
        let page = |quote: &str| Citation::from_quote(&document, &passage, quote).expect("found").page;
        assert_eq!((page("앞 장의 말"), page("뒷장의 말")), (Some(1), Some(2)));
    }

    #[test]
    fn a_citation_holds_only_for_the_words_and_the_version_it_was_taken_from() {
        let mut document = Document::new("d", "규정", "머리말.\n\n연차는  15일이다.");
        document.version = "v1".to_owned();
        let passage = crate::split_into_passages(&document).remove(1);
        let citation = Citation::from_quote(&document, &passage, "연차는 15일").expect("found");
        assert_eq!(citation.quote, "연차는  15일");
        assert_eq!(citation.verify(&document), Ok(()));
        assert_eq!(Citation::from_quote(&document, &passage, "연차는 16일"), None);
        let changed =
            Document { text: "머리말.\n\n연차는  20일이다.".to_owned(), ..document.clone() };
        assert_eq!(citation.verify(&changed), Err(CitationError::NotThere));
        let newer = Document { version: "v2".to_owned(), ..document.clone() };
        assert_eq!(citation.verify(&newer), Err(CitationError::OtherVersion));
        let other = Document { id: DocumentId::new("e"), ..document };
        assert_eq!(citation.verify(&other), Err(CitationError::OtherDocument));
        let beyond = Citation { range: 3..9999, ..citation };
        assert_eq!(beyond.verify(&changed), Err(CitationError::NotThere));
    }
}
