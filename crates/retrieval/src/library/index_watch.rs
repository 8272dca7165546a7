//! Sees that the index was deleted or replaced while the library is open, and fills the new one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Library, LibraryError, LibraryInner, LibraryWorkers};

/// How often the index is looked for.
const INDEX_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Library {
    /// Follows the index from the one that is filled already. One that cannot go away is not followed.
    pub(super) fn watch_index(&self, filled: Option<String>) {
        if let Some(filled) = filled {
            self.workers.push(tokio::spawn(follow_index(self.inner.clone(), filled)));
        }
    }
}

async fn follow_index(inner: Arc<LibraryInner>, mut filled: String) {
    let mut is_reported = false;
    loop {
        tokio::time::sleep(INDEX_CHECK_INTERVAL).await;
        let checked = async {
            let Some(current) = inner.index.ensure_exists().await? else { return Ok(()) };
            if current != filled {
                tracing::warn!("the index is another one than before; it is compared with the library");
                fill_index(&inner).await?;
                filled = current;
                inner.notify_changed();
            }
            Ok::<(), LibraryError>(())
        };
        match checked.await {
            Ok(()) => is_reported = false,
            Err(error) if !is_reported => {
                is_reported = true;
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the index cannot be compared with the library; trying again");
            }
            Err(_) => {}
        }
    }
}

/// Adds what the index lacks.
async fn fill_index(inner: &Arc<LibraryInner>) -> Result<(), LibraryError> {
    match &inner.shared {
        Some(shared) => shared.sync_index(inner).await,
        None => {
            let library =
                Library { inner: inner.clone(), workers: Arc::new(LibraryWorkers(Mutex::default())) };
            library.sync_index(&*inner.index, |_| true).await.map(drop)
        }
    }
}
