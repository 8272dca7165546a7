//! How well a retriever finds what should be found: questions with known passages, and the usual measures.

mod measure;
mod set;

pub use measure::{Measures, measure};
pub use set::{Query, Report, Set, SetError};

#[cfg(test)]
mod tests;
