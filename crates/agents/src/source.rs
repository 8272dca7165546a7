//! The sources of an answer: places in documents, with their text.

use std::collections::BTreeSet;

use doran_llm::{
    Message, MessagePart, NumberedPassage, PassageKind, Role, find_citation_marks, strip_citation_marks,
};
use doran_retrieval::{DocumentKind, Hit, localize_article_numbers};
use serde::{Deserialize, Serialize};

use crate::samples;

/// A place in a document under the number by which an answer cites it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AnswerSource {
    /// `[1]` in an answer means the source numbered 1.
    pub number: u32,
    /// The document.
    pub document: String,
    /// What a person calls the place: document and headings.
    pub title: String,
    /// Whose document it is.
    #[serde(default)]
    pub kind: AnswerSourceKind,
    /// The article, as people write it in the language of the document: `제5조`, `Article 5`.
    #[serde(default)]
    pub article: Option<String>,
    /// The clause within the article: ①.
    #[serde(default)]
    pub clause: Option<String>,
    /// The page it starts on, from 1.
    #[serde(default)]
    pub page: Option<u32>,
    /// The passage it was found in.
    #[serde(default)]
    pub passage: String,
    /// The version of the document.
    #[serde(default)]
    pub version: String,
    /// The words, exactly those of the document from `start` to `end`.
    pub quote: String,
    /// Where the quote starts in the text of the document, in bytes.
    #[serde(default)]
    pub start: usize,
    /// Where it ends.
    #[serde(default)]
    pub end: usize,
    /// Whether the document is one of the samples that come with the program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sample: bool,
}

/// Whose document a source is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSourceKind {
    /// Anything that is not a contract.
    #[default]
    General,
    /// A contract of the user.
    User,
    /// A standard contract.
    Standard,
}

impl AnswerSourceKind {
    pub(crate) fn from_document_kind(kind: &DocumentKind) -> Self {
        match kind {
            DocumentKind::General => Self::General,
            DocumentKind::Contract => Self::User,
            DocumentKind::Standard(_) => Self::Standard,
        }
    }
}

impl AnswerSource {
    /// The hits of one search, numbered from 1.
    pub(crate) fn from_hits(hits: Vec<Hit>) -> Vec<Self> {
        hits.into_iter().zip(1..).map(|(hit, number)| Self::from_hit(hit, number)).collect()
    }

    fn from_hit(hit: Hit, number: u32) -> Self {
        let doran_retrieval::Passage { id, document, version, kind, title, text, range, page, article } =
            hit.passage;
        Self {
            number,
            sample: samples::is_sample(document.as_str()),
            document: document.to_string(),
            kind: AnswerSourceKind::from_document_kind(&kind),
            article: article.map(|article| localize_article_numbers(&article.to_string(), &title)),
            title: localize_article_numbers(&title, &title),
            clause: None,
            page,
            passage: id.to_string(),
            version,
            quote: text,
            start: range.start,
            end: range.end,
        }
    }

    /// Those of `found` that `answer` names, in their order.
    pub(crate) fn cited_in(answer: &str, found: &[Self]) -> Vec<Self> {
        let known: BTreeSet<u32> = found.iter().map(|source| source.number).collect();
        let marks = find_citation_marks(answer).into_iter().map(|mark| mark.numbers);
        let named: BTreeSet<u32> =
            marks.filter(|numbers| numbers.iter().all(|number| known.contains(number))).flatten().collect();
        found.iter().filter(|one| named.contains(&one.number)).cloned().collect()
    }

    /// The source as material for a model.
    pub(crate) fn to_passage(&self) -> NumberedPassage {
        let kind = match self.kind {
            AnswerSourceKind::General => PassageKind::Document,
            AnswerSourceKind::User => PassageKind::Contract,
            AnswerSourceKind::Standard => PassageKind::StandardContract,
        };
        NumberedPassage { number: self.number, title: self.title.clone(), text: self.quote.clone(), kind }
    }

    /// Whether the quote stands where it says, in this text of its document.
    pub fn has_quote_at_its_place(&self, text: &str) -> bool {
        !self.quote.is_empty() && text.get(self.start..self.end) == Some(self.quote.as_str())
    }
}

/// The messages as a model is shown them: an answer of an earlier turn without the marks of its sources, since the same
/// numbers mean other places now.
pub(crate) fn strip_old_citation_marks(messages: &[Message]) -> Vec<Message> {
    let question_at = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    let shown = |(at, message): (usize, &Message)| {
        if at < question_at { without_citation_marks(message) } else { message.clone() }
    };
    messages.iter().enumerate().map(shown).collect()
}

/// The message without marks, if it is an answer.
pub(crate) fn without_citation_marks(message: &Message) -> Message {
    let mut message = message.clone();
    if message.role == Role::Assistant {
        for part in &mut message.parts {
            if let MessagePart::Text { text, .. } = part {
                *text = strip_citation_marks(text);
            }
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source_numbered(number: u32) -> AnswerSource {
        AnswerSource { number, ..AnswerSource::default() }
    }

    #[test]
    fn only_what_an_answer_names_is_cited() {
        let found = [source_numbered(1), source_numbered(2), source_numbered(12)];
        let numbers = |answer: &str| -> Vec<u32> {
            AnswerSource::cited_in(answer, &found).iter().map(|source| source.number).collect()
        };
        assert_eq!(numbers("그렇습니다. [2]"), [2]);
        assert_eq!(numbers("[12] and [1]"), [1, 12]);
        assert_eq!(numbers("둘 다 그렇습니다. [2, 12]"), [2, 12]);
        assert_eq!(numbers("1 2 [3] `a[1]`"), [0u32; 0]);
    }

    #[test]
    fn only_answers_of_earlier_turns_lose_their_marks() {
        let messages = [
            Message::user("1", "[1]은 뭐야?"),
            Message::assistant("2", "15일입니다. [1]"),
            Message::user("3", "그럼 [2]는?"),
            Message::assistant("4", "찾아보겠습니다. [2]"),
        ];
        let texts: Vec<String> = strip_old_citation_marks(&messages).iter().map(Message::text).collect();
        assert_eq!(texts, ["[1]은 뭐야?", "15일입니다.", "그럼 [2]는?", "찾아보겠습니다. [2]"]);
    }

    #[test]
    fn a_quote_stands_in_its_document_or_not() {
        let source = AnswerSource { quote: "15일".into(), start: 7, end: 12, ..AnswerSource::default() };
        assert!(source.has_quote_at_its_place("연차 15일이다"));
        assert!(!source.has_quote_at_its_place("연차 16일이다"));
        assert!(!source.has_quote_at_its_place("연"));
        assert!(
            !AnswerSource { start: 8, ..source }.has_quote_at_its_place("연차 15일이다"),
            "not at a character"
        );
    }
}
