//! Tests of the engine from outside.

mod bad;
mod basic;
mod derive;
mod effects;
mod limits;
mod pauses;
mod peers;
mod sim;
mod steps;
mod support;
mod threads;
mod watch;
