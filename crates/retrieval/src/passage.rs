//! What was ingested, and the pieces of it that can be quoted.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The name of a document, such as its path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DocumentId(String);

/// The name of a passage: its document and where it starts there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PassageId(String);

/// A text to be asked about: plain or Markdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its name; ingesting the same name again replaces it.
    pub id: DocumentId,
    /// What a person calls it.
    pub title: String,
    /// All of it.
    pub text: String,
}

/// A piece of a document, word for word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Its name.
    pub id: PassageId,
    /// Whose piece it is.
    pub document: DocumentId,
    /// What a person calls the place: the title of the document and the headings above, joined by ` › `.
    pub title: String,
    /// The words, exactly those of the document at `range`.
    pub text: String,
    /// Where they stand in the text of the document, in bytes.
    pub range: Range<usize>,
}

impl Document {
    /// A document from its parts.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: DocumentId(id.into()), title: title.into(), text: text.into() }
    }
}

impl DocumentId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PassageId {
    /// The name of the passage of a document that starts at this byte.
    pub fn at(document: &DocumentId, start: usize) -> Self {
        Self(format!("{document}#{start}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! shown_as_text {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

shown_as_text!(DocumentId);
shown_as_text!(PassageId);
