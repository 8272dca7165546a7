//! The program from outside: a process, its output and its exit status.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod agent_files;
mod agent_settings;
mod answer_bytes;
mod ask;
mod attachments;
mod backup;
mod backup_settings;
mod chat;
mod config;
mod cost;
mod data_dir_permissions;
mod demo;
mod deploy_files;
mod doctor;
mod encoder_install;
mod eval;
mod http_nodes;
mod ingest;
mod keys;
mod kill_at_every_step;
mod kill_during_stream;
mod load;
mod mcp;
mod memory;
mod mock_vendor;
mod models;
#[allow(dead_code, reason = "no test here restarts a node")]
#[path = "../../../retrieval/tests/it/opensearch_node.rs"]
mod opensearch_node;
mod program;
mod reindex;
mod replicas;
mod serve;
mod shared_database;
mod stop_signals;
mod systemd_notify;
mod telemetry;
