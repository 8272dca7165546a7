//! Agents from outside: what they answer, what their runs look like, and what a crash costs.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod assistant;
mod dying;
mod mcp;
#[cfg(feature = "python")]
mod python;
mod samples;
