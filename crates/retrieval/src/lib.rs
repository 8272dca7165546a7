//! Documents in, passages out.
//!
//! A [`Document`] is split into [`Passage`]s small enough to quote; a [`Retriever`] finds those that bear on a
//! question. The [`Library`] takes files in ([`ingest`] reads them, [`contract`] knows their articles) and keeps an
//! [`Index`] in step. [`RamKeyword`] finds by shared words, in the process, with nothing to install;
//! [`LocalIndex`] keeps a directory and finds by meaning too;
//! [`OpenSearchIndex`] does so in a cluster. This crate does not know
//! agents or models: what becomes of a passage is decided elsewhere.

pub mod cite;
pub mod conformance;
pub mod contract;
mod embedding;
pub mod eval;
mod failure;
pub mod fuse;
pub mod ingest;
mod keyword;
mod library;
mod local;
mod opensearch;
mod passage;
mod refine;
mod retriever;
mod reword;
mod split;
mod text;
pub mod tidy;
pub mod vector;

pub use cite::{Citation, Unfounded};
pub use keyword::{
    Highlight, RamKeyword, Ranking, Segment, SegmentDocument, articles_named, highlights, holds, reasons,
};
pub use library::{Library, LibraryError, LibraryOptions, NewDocument, State, Status, TakenLibrary};
pub use local::LocalIndex;
pub use opensearch::OpenSearchIndex;
pub use passage::{
    ArticleNumber, Document, DocumentId, DocumentKind, Passage, PassageId, Tenant, is_collection_name,
};
pub use refine::{Refined, Reranker};
pub use retriever::{Filter, Hit, Index, Listed, Question, RetrieveError, Retriever};
pub use reword::{MOST_WORDINGS, in_other_words};
pub use split::split;
