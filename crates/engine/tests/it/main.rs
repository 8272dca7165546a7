//! Tests of the engine from outside.

mod basic;
mod derive;
mod example;
