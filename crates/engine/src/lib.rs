//! Durable graphs: typed state, supersteps, a log that survives `kill -9`.

// The derives write `::doran_engine`, in this crate as in any other; outside of tests nothing here may derive.
#[allow(unused_extern_crates)]
extern crate self as doran_engine;

pub mod graph;
pub mod id;
pub mod state;
pub mod store;

pub use doran_macros::{Nodes, State};

/// What the derives write against. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use serde;

    /// Reads a field that is there as one that was set, so that `null` is a change to `None` and not no change.
    pub fn set<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: serde::Deserialize<'de>,
        D: serde::Deserializer<'de>,
    {
        T::deserialize(deserializer).map(Some)
    }
}
