//! Models and servers that say what a test wrote down.
//!
//! [`ScriptedModel`] stands in for a model. With the feature `scripted` there is also a server that stands in for a
//! vendor: real bytes on a real socket, in the shape of each dialect, with every fault that a network has.

mod model;
#[cfg(feature = "scripted")]
mod server;
#[cfg(feature = "scripted")]
mod wire;

pub use self::model::{Script, ScriptedModel};
#[cfg(feature = "scripted")]
pub use self::server::{Heard, Piece, ScriptedServer, Turn};
#[cfg(feature = "scripted")]
pub use self::wire::{Said, Wire};
