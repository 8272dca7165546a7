//! Test doubles: models and servers that return scripted answers.
//!
//! [`ScriptedModel`] replaces a model. With the feature `scripted` there is also a server that replaces a vendor: it
//! sends bytes over a real socket in each dialect, rejects what the vendor rejects, and can simulate network faults.

mod model;
#[cfg(feature = "scripted")]
mod random_texts;
#[cfg(feature = "scripted")]
mod server;
#[cfg(feature = "scripted")]
mod vendor_responses;
#[cfg(feature = "scripted")]
mod vendor_rules;

pub use self::model::{ScriptedModel, ScriptedReply};
#[cfg(feature = "scripted")]
pub use self::random_texts::RandomTexts;
#[cfg(feature = "scripted")]
pub use self::server::{ReceivedHttpRequest, ScriptedBodyPiece, ScriptedHttpResponse, ScriptedServer};
#[cfg(feature = "scripted")]
pub use self::vendor_responses::{ScriptedDialect, ScriptedVendorAnswer};
