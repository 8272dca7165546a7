//! Durable graphs: typed state, supersteps, a log that survives `kill -9`.

pub mod id;
pub mod state;
pub mod store;
