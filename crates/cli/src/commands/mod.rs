//! One module per command. A command reads its arguments, calls other modules, and prints the result.

pub(crate) mod agents;
pub(crate) mod ask;
pub(crate) mod backup;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod documents;
pub(crate) mod eval;
pub(crate) mod eval_agent;
pub(crate) mod eval_answers;
pub(crate) mod files_to_ingest;
pub(crate) mod gc;
pub(crate) mod graph;
pub(crate) mod ingest;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod reindex;
pub(crate) mod restore;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod threads;
