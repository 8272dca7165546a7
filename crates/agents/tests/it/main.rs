//! The agents crate from outside.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod samples;
