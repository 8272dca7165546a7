//! Models and servers that say what a test wrote down.
//!
//! [`ScriptedModel`] stands in for a model. With the feature `scripted` there is also a server that stands in for a
//! vendor: real bytes on a real socket, in the shape of each dialect, with every fault that a network has.

mod model;
#[cfg(feature = "scripted")]
mod server;
#[cfg(feature = "scripted")]
mod vendor_responses;

pub use self::model::{ScriptedModel, ScriptedReply};
#[cfg(feature = "scripted")]
pub use self::server::{ReceivedHttpRequest, ScriptedBodyPiece, ScriptedHttpResponse, ScriptedServer};
#[cfg(feature = "scripted")]
pub use self::vendor_responses::{ScriptedDialect, ScriptedVendorAnswer};
