//! The program from outside: a process, its output and its exit status.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod ask;
mod chat;
mod config;
mod cost;
mod counted_kills;
mod demo;
mod encoder;
mod eval;
mod far_end;
mod ingest;
mod keys;
mod kills;
mod memory;
mod models;
mod program;
mod reindex;
mod serve;
mod stops;
