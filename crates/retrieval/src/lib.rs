//! Documents in, passages out.
//!
//! A [`Document`] is split into [`Passage`]s small enough to quote; a [`Retriever`] finds those that bear on a
//! question. The [`Library`] takes files in ([`ingest`] reads them, [`contract`] knows their articles) and keeps an
//! [`Index`] in step. [`RamKeyword`] finds by shared words, in the process, with nothing to install;
//! [`LocalIndex`] keeps a directory and finds by meaning too;
//! [`OpenSearchIndex`] does so in a cluster. This crate does not know
//! agents or models: what becomes of a passage is decided elsewhere.

pub mod citation;
pub mod conformance;
pub mod contract;
mod embedding;
mod error_code;
pub mod eval;
pub mod hit_postprocessing;
pub mod ingest;
mod keyword;
mod library;
mod local;
mod opensearch;
mod passage;
mod query_rewording;
mod reranking;
mod retriever;
pub mod score_fusion;
mod split;
mod text_analysis;
pub mod vector;

pub use citation::{Citation, CitationError};
pub use keyword::{
    Highlight, RamKeywordIndex, RankingParameters, Segment, SegmentDocument, contains_all_words,
    find_article_numbers, highlights, match_reasons,
};
pub use library::{
    DocumentStatus, IngestState, Library, LibraryError, LibraryOptions, LockedLibrary, NewDocument,
};
pub use local::LocalIndex;
pub use opensearch::OpenSearchIndex;
pub use passage::{
    ArticleNumber, Document, DocumentId, DocumentKind, DocumentTenant, Passage, PassageId, is_collection_name,
};
pub use query_rewording::{MAX_REWORDINGS, retrieve_with_rewordings};
pub use reranking::{Reranker, RerankingIndex};
pub use retriever::{
    DocumentFilter, DocumentIndex, DocumentSummary, Hit, RetrieveError, Retriever, SearchQuery,
};
pub use split::split_into_passages;
