//! A process that is frozen, as by SIGSTOP or a machine that sleeps, and goes on later as if nothing had been. Nothing of it
//! reaches the store or the world meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Until when a process is frozen.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessFreeze(Arc<Mutex<Option<Instant>>>);

impl ProcessFreeze {
    pub(super) fn freeze_for(&self, time: Duration) {
        *self.0.lock().expect("no panic") = Some(Instant::now() + time);
    }

    /// Waits until the process goes on.
    pub(super) async fn wait_while_frozen(&self) {
        loop {
            let until = *self.0.lock().expect("no panic");
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }
}
