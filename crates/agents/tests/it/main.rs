//! Agents from outside: what they answer, what their runs look like, and what a crash costs.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod assistant;
mod dying;
mod egress;
mod far_end;
mod injection;
mod memory;
mod outbound;
mod read_file;
mod samples;
mod tls;
