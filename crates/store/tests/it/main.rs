//! The stores from outside: the contract they share, and what each does beyond it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_server;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod store_per_graph;
mod thread_histories;
