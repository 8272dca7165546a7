//! Tests of the engine from outside.

mod derive;
