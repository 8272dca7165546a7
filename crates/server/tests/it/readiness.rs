//! Whether a server is ready: not while its search index cannot be searched, though the process lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use doran_retrieval::{DocumentIndex, IndexWrapper, RamKeywordIndex, RetrieveError};

use crate::{app, check_both_languages, get, json, problem, send, text};

/// An empty index in a cluster that may be away.
#[derive(Default)]
struct RemoteIndex {
    inner: RamKeywordIndex,
    is_away: AtomicBool,
    is_deleted: AtomicBool,
}

#[async_trait]
impl IndexWrapper for RemoteIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &self.inner
    }

    async fn check_health(&self) -> Result<(), RetrieveError> {
        if self.is_deleted.load(Ordering::SeqCst) {
            return Err(RetrieveError::Missing { index: "team".into() });
        }
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(RetrieveError::Unavailable { reason: "the cluster is away".into(), source: None }),
            false => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_server_is_ready_only_while_its_index_answers() {
    let index = Arc::new(RemoteIndex::default());
    let app = app().index(index.clone());
    assert_eq!(json(&app, get("/readyz")).await["status"], "ready");
    index.is_away.store(true, Ordering::SeqCst);
    assert_eq!(problem(&app, get("/readyz")).await, "503 index_unavailable");
    assert_eq!(json(&app, get("/healthz")).await["status"], "ok", "restarting it would not help");
    index.is_away.store(false, Ordering::SeqCst);
    assert_eq!(json(&app, get("/readyz")).await["status"], "ready");
}

#[tokio::test]
async fn a_server_whose_index_was_deleted_is_not_ready_and_says_so() {
    let index = Arc::new(RemoteIndex::default());
    let app = app().index(index.clone());
    index.is_deleted.store(true, Ordering::SeqCst);
    let answer = send(&app, get("/readyz")).await;
    assert_eq!(answer.status(), 503);
    let answer: serde_json::Value = serde_json::from_str(&text(answer).await).expect("JSON");
    check_both_languages(&answer);
    assert_eq!(answer["code"], "index_unavailable");
    assert!(answer.to_string().contains("no index `team`"), "{answer}");
}
