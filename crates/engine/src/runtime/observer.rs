//! Observers, called when runs come to rest, such as a part that measures and traces them. What happened is in the log.

use std::time::Duration;

use crate::id::RunKey;
use crate::runtime::{RuntimeInner, StoredRunOptions};
use crate::store::{RunRow, Seq};
use crate::stored_json;

/// Is called when runs come to rest. A method must return at once: a run waits for it.
pub trait RunObserver: std::fmt::Debug + Send + Sync + 'static {
    /// A text to store with a run that is about to be accepted, by which other systems know it. Nodes read it with
    /// [`Cx::correlation`](crate::Cx::correlation), others with [`RunRow::correlation`]. It is called in the task that starts the
    /// run.
    fn correlation_of_new_run(&self) -> Option<String>;

    /// A write of a run took this long.
    fn run_written(&self, took: Duration);

    /// A run that this process worked on has ended or waits for somebody. Its log is written up to `head`.
    fn run_rested(&self, run: &RunKey, head: Seq);
}

impl RunRow {
    /// The text by which other systems know the run.
    pub fn correlation(&self) -> Option<String> {
        stored_json::from_slice::<StoredRunOptions>(&self.options).ok()?.correlation
    }
}

impl RuntimeInner {
    pub(super) fn tell_observer(&self, run: &RunKey, head: Seq) {
        if let Some(observer) = &self.options.observer {
            observer.run_rested(run, head);
        }
    }
}
