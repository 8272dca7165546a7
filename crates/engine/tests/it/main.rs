//! Tests of the engine from outside.

#![allow(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking, and reads better"
)]

mod bad;
mod basic;
mod derive;
mod effects;
mod example;
mod gone;
mod kept;
mod limits;
mod pauses;
mod peers;
mod sim;
mod spent;
mod steps;
mod support;
mod takeover;
mod threads;
mod watch;
