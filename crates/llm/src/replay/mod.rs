//! Reuses answers to equal requests: from a cache in memory, or from a recording in a file.

mod fingerprint;
mod recording;
mod response_cache;

pub use self::recording::{RecordingModel, ReplayingModel};
pub use self::response_cache::{CachedModel, ModelResponseCache};
use crate::model::Delta;

/// Sets the cost of a reused answer to zero, because it was paid for when it was first given.
fn mark_as_already_paid(mut delta: Delta) -> Delta {
    if let Delta::Done { usage, .. } = &mut delta {
        usage.cost_micros = Some(0);
    }
    delta
}
