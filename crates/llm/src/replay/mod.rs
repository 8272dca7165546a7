//! The same question, the same answer: recorded to a file, and played back from it.

mod fingerprint;
mod recording;

pub use self::recording::{RecordingModel, ReplayingModel};
use crate::model::Delta;

/// A piece of an answer that was paid for when it was given the first time.
fn mark_as_already_paid(mut delta: Delta) -> Delta {
    if let Delta::Done { usage, .. } = &mut delta {
        usage.cost_micros = Some(0);
    }
    delta
}
