//! The stores, each against the suite of the engine and against what only it can suffer.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(feature = "postgres")]
mod pg;
#[cfg(feature = "postgres")]
mod postgres;
