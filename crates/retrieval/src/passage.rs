//! Documents, the passages they are split into, and their identifiers.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The identifier of a document, such as its path.
#[derive(
    Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct DocumentId(String);

/// The identifier of a passage, made of its document and its start offset.
#[derive(
    Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct PassageId(String);

/// The owner of documents. A search for one tenant never returns documents of another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DocumentTenant(String);

/// The maximum length of a collection name, in characters.
const MAX_COLLECTION_NAME_CHARS: usize = 100;

/// Returns whether `name` is a valid collection name: letters and digits of any script, spaces, and `-`, `_`, `.`, `·`,
/// `(` and `)`, at most a hundred characters. The default collection has the empty name.
pub fn is_collection_name(name: &str) -> bool {
    let fits = |char: char| char.is_alphanumeric() || " -_.·()".contains(char);
    name.chars().all(fits) && name.chars().nth(MAX_COLLECTION_NAME_CHARS).is_none()
}

/// A document: plain text or Markdown, with the metadata that its source had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its identifier. A document with the same identifier replaces this one.
    pub id: DocumentId,
    /// The title that is shown to people.
    pub title: String,
    /// The collection it belongs to. The empty name is the default collection.
    #[serde(default)]
    pub collection: String,
    /// The kind of document.
    #[serde(default)]
    pub kind: DocumentKind,
    /// A hash of the text, which changes whenever the text changes.
    #[serde(default)]
    pub version: String,
    /// The whole text.
    pub text: String,
    /// The byte offset in `text` at which each page starts, for sources that have pages. The first entry is page 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<usize>,
}

/// The kind of a document.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DocumentKind {
    /// Any document that is not a contract.
    #[default]
    General,
    /// A contract of the user.
    Contract,
    /// The standard contract of one type, such as `용역`.
    Standard(String),
}

/// A part of a document, word for word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Its identifier.
    pub id: PassageId,
    /// The document it belongs to.
    pub document: DocumentId,
    /// The version of the document it was split from.
    #[serde(default)]
    pub version: String,
    /// The kind of the document.
    #[serde(default)]
    pub kind: DocumentKind,
    /// The title of the document and the headings above the passage, joined by ` › `.
    pub title: String,
    /// The text of the document at `range`.
    pub text: String,
    /// The byte range of the passage in the text of the document.
    pub range: Range<usize>,
    /// The page on which the passage starts, from 1, for sources that have pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The article it belongs to, in a contract or a statute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub article: Option<ArticleNumber>,
}

/// The number of an article: 제5조 is `5`, 제10조의2 is `10` with branch `2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ArticleNumber {
    /// The number before 조.
    pub number: u32,
    /// The number after 의, or 0.
    #[serde(default)]
    pub branch: u32,
}

impl Document {
    /// Creates a general document in the default collection.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: DocumentId(id.into()), title: title.into(), text: text.into(), ..Self::default() }
    }

    /// Returns the page that contains this byte of the text, from 1, if the document has pages.
    pub fn page_at(&self, at: usize) -> Option<u32> {
        let page = self.pages.iter().take_while(|first| **first <= at).count();
        u32::try_from(page).ok().filter(|page| *page > 0)
    }
}

impl DocumentTenant {
    /// Creates the tenant with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DocumentId {
    /// Creates an identifier from a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PassageId {
    /// Returns the identifier of the passage of `document` that starts at byte `start`.
    pub fn from_start(document: &DocumentId, start: usize) -> Self {
        Self(format!("{document}#{start}"))
    }

    /// Returns whether this identifies the passage of `document` that starts at byte `start`.
    pub(crate) fn is_for_start(&self, document: &DocumentId, start: usize) -> bool {
        let place = self.0.strip_prefix(&document.0).and_then(|rest| rest.strip_prefix('#'));
        // Only the canonical form of the number is accepted: no leading zeros.
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
