//! Agents from outside: what they answer, what their runs look like, and what a crash costs.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod approvals;
mod assistant;
mod assistant_kills;
mod comparing;
mod contract;
mod described;
mod docqa;
mod dying;
mod egress;
mod evals;
mod far_end;
mod finding;
mod injection;
mod long;
mod mcp;
mod memory;
mod offline;
mod outbound;
mod poisoned;
#[cfg(feature = "python")]
mod python;
mod quality;
mod react;
mod read_file;
mod reopened;
mod samples;
mod settings;
mod stage;
mod thousand;
mod tls;
