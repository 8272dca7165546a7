//! Whether a server is ready: not while its search index cannot be asked, though the process lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentSummary, DocumentTenant, Hit, Passage,
    RetrieveError, Retriever, SearchQuery,
};

use crate::{app, get, json, problem};

/// An empty index in a cluster that may be away.
#[derive(Default)]
struct RemoteIndex {
    is_away: AtomicBool,
}

impl RemoteIndex {
    fn ask<T>(&self, answer: T) -> Result<T, RetrieveError> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(RetrieveError::Unavailable { reason: "the cluster is away".into(), source: None }),
            false => Ok(answer),
        }
    }
}

#[async_trait]
impl Retriever for RemoteIndex {
    async fn retrieve(&self, _: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        self.ask(Vec::new())
    }
}

#[async_trait]
impl DocumentIndex for RemoteIndex {
    async fn check_health(&self) -> Result<(), RetrieveError> {
        self.ask(())
    }

    async fn put(&self, _: &DocumentTenant, _: &Document, _: &[Passage]) -> Result<(), RetrieveError> {
        self.ask(())
    }

    async fn remove(&self, _: &DocumentTenant, _: &DocumentId) -> Result<bool, RetrieveError> {
        self.ask(false)
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        self.ask(Vec::new())
    }

    async fn list(
        &self,
        _: &DocumentTenant,
        _: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        self.ask(Vec::new())
    }

    async fn document(&self, _: &DocumentTenant, _: &DocumentId) -> Result<Option<Document>, RetrieveError> {
        self.ask(None)
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
