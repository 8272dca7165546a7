//! Durable homes for what the engine keeps. The only crate that speaks SQL.

#[cfg(feature = "postgres")]
pub mod postgres;
