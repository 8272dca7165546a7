//! One file a node. A node is named by its verb and does one thing.

mod call_model;
mod retrieve;

pub(crate) use call_model::CallModel;
pub(crate) use retrieve::Retrieve;
