//! What was ingested, and the pieces of it that can be quoted.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The name of a document, such as its path.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DocumentId(String);

/// The name of a passage: its document and where it starts there.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PassageId(String);

/// Whose documents these are. Nothing of one tenant is ever found by another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DocumentTenant(String);

/// The most letters of the name of a collection.
const MAX_COLLECTION_NAME_CHARS: usize = 100;

/// Whether a collection may be called this: letters and digits of any script, spaces, and `-`, `_`, `.`, `·`, `(` and `)`,
/// no more than a hundred. The common collection has the empty name.
pub fn is_collection_name(name: &str) -> bool {
    let fits = |char: char| char.is_alphanumeric() || " -_.·()".contains(char);
    name.chars().all(fits) && name.chars().nth(MAX_COLLECTION_NAME_CHARS).is_none()
}

/// A text to be asked about: plain or Markdown, with what its source knew beyond the words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its name; ingesting the same name again replaces it.
    pub id: DocumentId,
    /// What a person calls it.
    pub title: String,
    /// The group of documents it belongs to; empty is the common one.
    #[serde(default)]
    pub collection: String,
    /// What it is.
    #[serde(default)]
    pub kind: DocumentKind,
    /// Changes with every change of the words: a hash of them.
    #[serde(default)]
    pub version: String,
    /// All of it.
    pub text: String,
    /// Where each page starts in `text`, in bytes, for sources that have pages: the first entry is page 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<usize>,
}

/// What a document is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// Anything.
    #[default]
    General,
    /// A contract of the user.
    Contract,
    /// The standard form of a kind of contract, such as `용역`.
    Standard(String),
}

/// A piece of a document, word for word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Its name.
    pub id: PassageId,
    /// Whose piece it is.
    pub document: DocumentId,
    /// The version of the document it was cut from.
    #[serde(default)]
    pub version: String,
    /// What the document is.
    #[serde(default)]
    pub kind: DocumentKind,
    /// What a person calls the place: the title of the document and the headings above, joined by ` › `.
    pub title: String,
    /// The words, exactly those of the document at `range`.
    pub text: String,
    /// Where they stand in the text of the document, in bytes.
    pub range: Range<usize>,
    /// The page they start on, from 1, for sources that have pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The article they belong to, in a contract or a statute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub article: Option<ArticleNumber>,
}

/// The number of an article: 제5조 is `5`, 제10조의2 is `10` with branch `2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArticleNumber {
    /// The number.
    pub number: u32,
    /// What follows 의, or 0.
    #[serde(default)]
    pub branch: u32,
}

impl Document {
    /// A document from its parts.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: DocumentId(id.into()), title: title.into(), text: text.into(), ..Self::default() }
    }

    /// The page that this byte of the text is on, from 1, where the document has pages.
    pub fn page_at(&self, at: usize) -> Option<u32> {
        let page = self.pages.iter().take_while(|first| **first <= at).count();
        u32::try_from(page).ok().filter(|page| *page > 0)
    }
}

impl DocumentTenant {
    /// The tenant with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DocumentId {
    /// The document with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PassageId {
    /// The name of the passage of a document that starts at this byte.
    pub fn from_start(document: &DocumentId, start: usize) -> Self {
        Self(format!("{document}#{start}"))
    }

    /// Whether it is the name of the passage of a document that starts at this byte.
    pub(crate) fn is_for_start(&self, document: &DocumentId, start: usize) -> bool {
        let place = self.0.strip_prefix(&document.0).and_then(|rest| rest.strip_prefix('#'));
        // Only one way to write the number counts.
        place.is_some_and(|digits| {
            digits.parse() == Ok(start)
                && !digits.starts_with('+')
                && (digits == "0" || !digits.starts_with('0'))
        })
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

impl fmt::Display for ArticleNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.branch {
            0 => write!(f, "제{}조", self.number),
            branch => write!(f, "제{}조의{branch}", self.number),
        }
    }
}

shown_as_text!(DocumentTenant);
shown_as_text!(DocumentId);
shown_as_text!(PassageId);
