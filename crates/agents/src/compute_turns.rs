//! Turns to compute. What takes a processor for long, the built-in model and a search in this process, is done by few at a
//! time, and tenants take turns: a tenant with many runs does not hold up the others. None of it is done on a thread that
//! serves requests.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use async_trait::async_trait;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentSummary, DocumentTenant, Hit, Passage,
    RetrieveError, Retriever, SearchQuery,
};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::admission::{AdmissionPermit, AdmissionPolicy, AdmissionRefused, FairAdmission};
use crate::attachments::library_tenant;

/// The turns of this process. One tenant leaves one processor for requests, the store and streams, and for the next tenant:
/// that one never waits until the first has computed.
static TURNS: LazyLock<FairAdmission> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    FairAdmission::new(processors.max(2), usize::MAX, AdmissionPolicy::LeaveOne)
});

type WaitForTurn = Pin<Box<dyn Future<Output = Result<AdmissionPermit, AdmissionRefused>> + Send>>;

/// Polls a future only when its tenant has a turn. The turn ends with each poll, so a future that waits for something else holds
/// up nobody.
pub(crate) async fn poll_in_turn<F: Future + Unpin>(tenant: &str, future: F) -> F::Output {
    poll_in_turn_of(&TURNS, tenant, future).await
}

async fn poll_in_turn_of<F: Future + Unpin>(turns: &FairAdmission, tenant: &str, mut future: F) -> F::Output {
    let mut waiting: Option<WaitForTurn> = None;
    poll_fn(move |cx| {
        let mut turn = match waiting.take() {
            Some(waiting) => waiting,
            None => match turns.try_acquire(tenant, 1) {
                Ok(permit) => {
                    let polled = poll_beside_runtime(&mut future, cx);
                    drop(permit);
                    return polled;
                }
                Err(AdmissionRefused) => {
                    let (turns, tenant) = (turns.clone(), tenant.to_owned());
                    Box::pin(async move { turns.acquire(&tenant, 1).await })
                }
            },
        };
        match turn.as_mut().poll(cx) {
            // As many may wait as like, so nobody is refused.
            Poll::Ready(permit) => {
                let polled = poll_beside_runtime(&mut future, cx);
                drop(permit);
                polled
            }
            Poll::Pending => {
                waiting = Some(turn);
                Poll::Pending
            }
        }
    })
    .await
}

/// Polls a future that computes. Where the runtime has several threads, another one takes over what this one was there for.
fn poll_beside_runtime<F: Future + Unpin>(future: &mut F, cx: &mut Context<'_>) -> Poll<F::Output> {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| Pin::new(future).poll(cx)),
        _ => Pin::new(future).poll(cx),
    }
}

/// Does work on documents of a tenant in its turn, on a thread for such work.
pub(crate) async fn compute_in_turn<T: Send + 'static>(
    tenant: &DocumentTenant,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let _turn = turn_of(tenant).await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// A turn of whom these documents belong to. As many may wait as like, so nobody is refused.
async fn turn_of(documents: &DocumentTenant) -> Result<AdmissionPermit, AdmissionRefused> {
    let library = library_tenant(documents);
    TURNS.acquire(library.as_ref().unwrap_or(documents).as_str(), 1).await
}

/// An index that computes in this process, in which tenants take turns to search.
pub struct FairIndex(Arc<dyn DocumentIndex>);

impl FairIndex {
    /// Wraps an index that waits for no network.
    pub fn new(index: Arc<dyn DocumentIndex>) -> Self {
        Self(index)
    }
}

#[async_trait]
impl Retriever for FairIndex {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        let _turn = turn_of(&question.tenant).await;
        self.0.retrieve(question).await
    }
}

#[async_trait]
impl DocumentIndex for FairIndex {
    async fn check_health(&self) -> Result<(), RetrieveError> {
        self.0.check_health().await
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.0.put(tenant, document, passages).await
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        self.0.put_all(tenant, documents).await
    }

    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        self.0.remove(tenant, document).await
    }

    async fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        self.0.expunge_deleted().await
    }

    async fn embed_some(&self) -> Result<usize, RetrieveError> {
        self.0.embed_some().await
    }

    fn passages_without_vectors(&self) -> usize {
        self.0.passages_without_vectors()
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        self.0.tenants().await
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        self.0.list(tenant, filter).await
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        self.0.document(tenant, id).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn tenants_are_polled_in_turn_and_who_waits_for_something_else_holds_up_nobody() {
        let turns = FairAdmission::new(1, usize::MAX, AdmissionPolicy::UseAll);
        let (leave, never) = oneshot::channel::<()>();
        let mut idle = Box::pin(poll_in_turn_of(&turns, "a", never));
        assert!(idle.as_mut().now_or_never().is_none());
        assert_eq!(turns.free(), 1, "its turn is over");
        // Somebody computes, five of one tenant wait, and one of another comes last.
        let computing = turns.try_acquire("a", 1).expect("free");
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (tenant, name) in [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5), ("b", 6)] {
            let order = order.clone();
            let work = Box::pin(async move { order.lock().expect("no panic").push(name) });
            let mut future = Box::pin(poll_in_turn_of(&turns, tenant, work));
            assert!(future.as_mut().now_or_never().is_none());
            waiting.push(future);
        }
        drop(computing);
        futures_util::future::join_all(waiting).await;
        let order = order.lock().expect("no panic").clone();
        assert!(order.iter().position(|name| *name == 6).is_some_and(|place| place <= 1), "{order:?}");
        leave.send(()).expect("it waits");
        assert!(idle.await.is_ok());
    }
}
