//! Tests of the engine from outside.

mod basic;
mod derive;
mod effects;
mod example;
mod limits;
mod pauses;
mod peers;
mod steps;
mod support;
