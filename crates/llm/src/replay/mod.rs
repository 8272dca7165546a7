//! The same question, the same answer: kept for a while in memory, or in a file for good.

mod cached;
mod fingerprint;
mod recording;

pub use self::cached::{Cache, Cached};
pub use self::recording::{Recording, Replaying};
