//! Reads documents, splits them into passages and searches the passages.
//!
//! A [`Document`] is split into [`Passage`]s small enough to quote. A [`Retriever`] returns the passages that are
//! relevant to a query. The [`Library`] accepts files ([`ingest`] reads them, [`contract`] parses their articles) and
//! keeps a [`DocumentIndex`] up to date. [`RamKeywordIndex`] searches by keywords in memory. [`LocalIndex`] stores its
//! data in a directory and searches by keywords and by vectors. [`OpenSearchIndex`] does the same in a cluster. This
//! crate does not depend on agents or chat models; callers decide what to do with a passage.

mod article_labels;
mod built_in_encoder;
pub mod conformance;
pub mod contract;
mod distinct_hits;
mod embedding;
mod error_code;
pub mod eval;
pub mod hit_postprocessing;
mod index_wrapper;
pub mod ingest;
mod keyword;
mod language;
mod library;
#[cfg(test)]
mod linear_cost;
mod local;
mod message_question;
mod opensearch;
mod passage;
mod query_rewording;
mod retriever;
mod score_fusion;
mod split;
mod text_analysis;
pub mod vector;

pub use article_labels::{localize_article_numbers, localize_place_label};
pub use built_in_encoder::BuiltInEncoder;
pub use distinct_hits::DistinctHitsIndex;
pub use index_wrapper::IndexWrapper;
pub use keyword::{
    Highlight, MAX_WORD_QUERY_CHARS, RamKeywordIndex, WordSearch, find_article_numbers, highlights,
    is_one_typo_apart, match_reasons, stem_synonyms,
};
pub use language::{Language, ends_in_consonant, is_hangul, is_hangul_syllable, with_particle};
pub use library::{
    DocumentStatus, IngestState, Library, LibraryDatabase, LibraryError, LibraryOptions, LockedLibrary,
    NewDocument, RecordChange, RecordChanges, RecordWrite,
};
pub use local::LocalIndex;
pub use message_question::{
    MessageQuestion, asks_or_requests, is_courtesy, search_wordings, without_courtesies,
};
pub use opensearch::OpenSearchIndex;
pub use passage::{
    ArticleNumber, Document, DocumentId, DocumentKind, DocumentTenant, Passage, PassageId, is_collection_name,
};
pub use query_rewording::{MAX_REWORDINGS, retrieve_with_rewordings};
pub use retriever::{
    DocumentFilter, DocumentIndex, DocumentPage, DocumentSummary, Hit, RetrieveError, Retriever, SearchQuery,
};
pub use split::{HEADING_SEPARATOR, split_into_passages};
pub use text_analysis::question_words::is_question_word;
pub use text_analysis::sentences::{is_circled_number, split_sentences};
pub use text_analysis::text_stems;
