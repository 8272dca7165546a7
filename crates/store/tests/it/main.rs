//! The stores, each against the suite of the engine and against what only it can suffer.

#[cfg(feature = "postgres")]
mod pg;
#[cfg(feature = "postgres")]
mod postgres;
