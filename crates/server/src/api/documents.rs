//! Documents, their texts, and the passages that a search finds.

use std::borrow::Cow;
use std::ops::Range;

use doran_agents::retrieval::ingest::IngestFailureKind;
use doran_agents::retrieval::{
    Document, DocumentId, DocumentStatus, HEADING_SEPARATOR, Highlight, Hit, IngestState, PassageId,
    highlights, localize_article_numbers, split_into_passages,
};
use doran_agents::samples;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The name of a collection of documents.
pub(crate) struct CollectionName;

impl JsonSchema for CollectionName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CollectionName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[\p{L}\p{N} ._·()-]{0,100}$" })
    }
}

/// A document.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DocumentInfo {
    /// The document.
    #[serde(flatten)]
    pub document: DocumentStatus,
    /// The ingestion state; the same as `state`.
    pub status: IngestState,
    /// Why the document could not be ingested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<IngestFailureKind>,
    /// The reason in Korean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ko: Option<String>,
    /// The reason in English.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub en: Option<String>,
}

impl DocumentInfo {
    pub(crate) fn from_status(status: DocumentStatus) -> Self {
        let reason = status.failure.as_ref().map(|failure| failure.kind);
        Self {
            status: status.state,
            reason,
            ko: reason.map(|kind| kind.message_ko().to_owned()),
            en: reason.map(|kind| kind.message_en().to_owned()),
            document: status,
        }
    }
}

/// A document that was just uploaded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddedDocument {
    /// The document.
    #[serde(flatten)]
    pub document: DocumentInfo,
    /// Whether it replaces another file with the same name.
    pub replaced: bool,
}

/// The documents of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DocumentList {
    /// The documents.
    pub documents: Vec<DocumentInfo>,
    /// The number of samples that are searched while there is no document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
}

/// The text of a document.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DocumentText {
    /// The id of the document.
    pub id: DocumentId,
    /// The title of the document.
    pub title: String,
    /// The version of the document.
    pub version: String,
    /// The byte offset in `text` at which each page starts; empty for files without pages.
    pub pages: Vec<usize>,
    /// The articles of a contract or the headings of a document.
    pub outline: Vec<OutlineEntry>,
    /// The text.
    pub text: String,
}

impl DocumentText {
    pub(crate) fn from_document(document: Document) -> Self {
        let outline = OutlineEntry::of_document(&document);
        let Document { id, title, version, pages, text, .. } = document;
        Self { id, title, version, pages, outline, text }
    }
}

/// A place in the outline of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutlineEntry {
    /// The heading, or the number and title of the article.
    pub title: String,
    /// The byte offset in the text at which it starts.
    pub start: usize,
}

/// The most entries of an outline.
const MAX_OUTLINE_ENTRIES: usize = 1000;
/// A longer document has no outline: it would take too long to split.
const MAX_OUTLINED_BYTES: usize = 4 * 1024 * 1024;

impl OutlineEntry {
    /// The headings that the passages of the document stand under, in order.
    fn of_document(document: &Document) -> Vec<Self> {
        let mut outline: Vec<Self> = Vec::new();
        if document.text.len() > MAX_OUTLINED_BYTES {
            return outline;
        }
        for passage in split_into_passages(document) {
            let Some((_, heading)) = passage.title.rsplit_once(HEADING_SEPARATOR) else { continue };
            let heading = localize_article_numbers(heading, &passage.title);
            if outline.last().is_none_or(|last| last.title != heading) {
                outline.push(Self { title: heading, start: passage.range.start });
            }
            if outline.len() == MAX_OUTLINE_ENTRIES {
                break;
            }
        }
        outline
    }
}

/// A passage that a search found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SearchHit {
    /// The id of the passage.
    pub passage: PassageId,
    /// The document of the passage.
    pub document: DocumentId,
    /// The title of the document and the headings above the passage.
    pub title: String,
    /// The text of the passage.
    pub text: String,
    /// The page on which the passage starts, from 1.
    pub page: Option<u32>,
    /// The article of the passage, in the language of the document: `제5조`, `Article 5`.
    pub article: Option<String>,
    /// The byte offset in the document at which the passage starts.
    pub start: usize,
    /// The byte offset in the document at which the passage ends.
    pub end: usize,
    /// The score; higher is better.
    pub score: f64,
    /// Whether the document is one of the samples that come with the program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sample: bool,
    /// The words of the query that the passage contains, with their byte ranges in `text`.
    pub why: Vec<HighlightInfo>,
}

impl SearchHit {
    pub(crate) fn from_hit(query: &str, hit: Hit) -> Self {
        let passage = hit.passage;
        Self {
            why: HighlightInfo::of_passage(query, &passage.text),
            sample: samples::is_sample(passage.document.as_str()),
            passage: passage.id,
            document: passage.document,
            article: passage
                .article
                .map(|article| localize_article_numbers(&article.to_string(), &passage.title)),
            title: localize_article_numbers(&passage.title, &passage.title),
            text: passage.text,
            page: passage.page,
            start: passage.range.start,
            end: passage.range.end,
            score: hit.score,
        }
    }
}

/// A word of a query that a passage contains.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HighlightInfo {
    /// The stem that was searched, or an English word as the passage has it.
    pub term: String,
    /// Where it stands in the text of the passage.
    pub ranges: Vec<ByteRange>,
}

impl HighlightInfo {
    fn of_passage(query: &str, text: &str) -> Vec<Self> {
        let range = |Range { start, end }| ByteRange { start, end };
        let found = highlights(query, text).into_iter();
        found
            .map(|Highlight { term, ranges }| Self { term, ranges: ranges.into_iter().map(range).collect() })
            .collect()
    }
}

/// A part of a text, in bytes of UTF-8.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ByteRange {
    /// Where it starts.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// The passages that a search found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SearchHitList {
    /// The passages, best first.
    pub hits: Vec<SearchHit>,
}
