//! Agents from outside: what they answer, what their runs look like, and what a crash costs.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod agent_evals;
mod agent_fixture;
mod agent_prompt_injection;
mod approvals;
mod assistant;
mod assistant_kills;
mod context_limits;
mod contract;
mod contract_comparison;
mod described;
mod described_http;
mod described_subgraphs;
mod docqa;
mod document_lookup;
mod dying_store;
mod egress;
mod http_test_server;
mod internet_tools;
mod kill_and_reopen;
mod mcp;
mod memory;
mod model_requests;
mod offline_model;
mod prompt_inspection;
#[cfg(feature = "python")]
mod python;
mod react;
mod read_file;
mod reranking;
mod samples;
mod search_quality;
mod settings;
mod small_models;
mod stored_conversations;
mod thousand_turns;
mod tls;
mod tool_images;
mod tool_prompt_injection;
