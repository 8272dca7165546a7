//! Records answers to a file and replays them for equal requests.

mod fingerprint;
mod recording;

pub use self::recording::{RecordingModel, ReplayingModel};
use crate::model::Delta;

/// Sets the cost of a reused answer to zero, because it was paid for when it was first given.
fn mark_as_already_paid(mut delta: Delta) -> Delta {
    if let Delta::Done { usage, .. } = &mut delta {
        usage.cost_micros = Some(0);
    }
    delta
}
