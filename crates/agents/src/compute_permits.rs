//! Permits to compute. What takes a processor for long, the built-in model and a search in this process, is done by few at a
//! time, and tenants take turns: a tenant with many runs does not hold up the others. None of it is done on a thread that
//! serves requests.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use async_trait::async_trait;
use doran_llm::{ChatModel, ChatRequest, DeltaStream, ModelInfo, ModelRole, Usage};
use doran_retrieval::{DocumentIndex, DocumentTenant, Hit, IndexWrapper, RetrieveError, SearchQuery};
use futures_util::{StreamExt, stream};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::admission::{AdmissionPermit, AdmissionPolicy, AdmissionRefused, FairAdmission};
use crate::attachments::library_tenant;

/// The permits of this process. One tenant leaves one processor for requests, the store and streams, and for the next tenant:
/// that one never waits until the first has computed.
static PERMITS: LazyLock<FairAdmission> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    FairAdmission::new(processors.max(2), usize::MAX, AdmissionPolicy::LeaveOne)
});

type PermitFuture = Pin<Box<dyn Future<Output = Result<AdmissionPermit, AdmissionRefused>> + Send>>;

/// Polls a future only when its tenant has a permit. The permit is given back after each poll, so a future that waits for
/// something else blocks nobody.
async fn poll_with_permit<F: Future + Unpin>(
    permits: &FairAdmission,
    tenant: &str,
    mut future: F,
) -> F::Output {
    let mut waiting: Option<PermitFuture> = None;
    poll_fn(move |cx| {
        let mut permit_future = match waiting.take() {
            Some(waiting) => waiting,
            None => match permits.try_acquire(tenant, 1) {
                Ok(permit) => {
                    let polled = poll_beside_runtime(&mut future, cx);
                    drop(permit);
                    return polled;
                }
                Err(AdmissionRefused) => {
                    let (permits, tenant) = (permits.clone(), tenant.to_owned());
                    Box::pin(async move { permits.acquire(&tenant, 1).await })
                }
            },
        };
        match permit_future.as_mut().poll(cx) {
            // As many may wait as like, so nobody is refused.
            Poll::Ready(permit) => {
                let polled = poll_beside_runtime(&mut future, cx);
                drop(permit);
                polled
            }
            Poll::Pending => {
                waiting = Some(permit_future);
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

/// Does work on documents of a tenant when it has a permit, on a thread for such work.
pub(crate) async fn compute_with_permit<T: Send + 'static>(
    tenant: &DocumentTenant,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let _permit = acquire_permit(tenant).await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// A permit for the tenant that these documents belong to. As many may wait as like, so nobody is refused.
async fn acquire_permit(documents: &DocumentTenant) -> Result<AdmissionPermit, AdmissionRefused> {
    let library = library_tenant(documents);
    PERMITS.acquire(library.as_ref().unwrap_or(documents).as_str(), 1).await
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
impl IndexWrapper for FairIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &*self.0
    }

    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        let _permit = acquire_permit(&question.tenant).await;
        self.0.retrieve(question).await
    }
}

/// A model that computes its whole reply in this process, before the first piece of it. Tenants take turns to compute
/// ([`ChatRequest::tenant`]).
pub struct FairModel(Arc<dyn ChatModel>);

impl FairModel {
    /// Wraps a model that waits for no network.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self(model)
    }
}

impl ChatModel for FairModel {
    fn info(&self) -> ModelInfo {
        self.0.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.0.info_for_role(role)
    }

    fn cost_micros(&self, role: ModelRole, usage: &Usage) -> Option<u64> {
        self.0.cost_micros(role, usage)
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        stream_with_permit(&PERMITS, &*self.0, request)
    }
}

/// The reply of a model whose first piece is computed when the tenant of the request has a permit.
fn stream_with_permit(permits: &FairAdmission, model: &dyn ChatModel, request: ChatRequest) -> DeltaStream {
    // Requests that are sent for nobody take turns as those of one tenant do.
    let (permits, tenant) = (permits.clone(), request.tenant.clone().unwrap_or_default());
    let mut deltas = model.stream(request);
    let computed = async move {
        let first = poll_with_permit(&permits, &tenant, deltas.next()).await;
        stream::iter(first).chain(deltas)
    };
    stream::once(computed).flatten().boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use doran_llm::{Message, ScriptedModel, ScriptedReply, collect_reply};
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn tenants_are_polled_in_turn_and_one_that_waits_for_something_else_blocks_nobody() {
        let permits = FairAdmission::new(1, usize::MAX, AdmissionPolicy::UseAll);
        let (leave, never) = oneshot::channel::<()>();
        let mut idle = Box::pin(poll_with_permit(&permits, "a", never));
        assert!(idle.as_mut().now_or_never().is_none());
        assert_eq!(permits.free(), 1, "its permit is back");
        // Somebody computes, five of one tenant wait, and one of another comes last.
        let computing = permits.try_acquire("a", 1).expect("free");
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (tenant, name) in [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5), ("b", 6)] {
            let order = order.clone();
            let work = Box::pin(async move { order.lock().expect("no panic").push(name) });
            let mut future = Box::pin(poll_with_permit(&permits, tenant, work));
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

    #[tokio::test]
    async fn a_model_of_this_process_computes_when_its_tenant_has_a_permit() {
        let permits = FairAdmission::new(1, usize::MAX, AdmissionPolicy::UseAll);
        let model = ScriptedModel::new([ScriptedReply::text("one word more"), ScriptedReply::text("two")]);
        let ask = |tenant: &str| {
            let request = ChatRequest::new(vec![Message::user("m", "?")]);
            let request = ChatRequest { tenant: Some(tenant.into()), ..request };
            collect_reply(stream_with_permit(&permits, &model, request))
        };
        let computing = permits.try_acquire("a", 1).expect("free");
        let mut waiting = Box::pin(ask("a"));
        assert!(waiting.as_mut().now_or_never().is_none(), "somebody computes");
        drop(computing);
        assert_eq!(waiting.await.expect("an answer").text, "one word more");
        assert_eq!(ask("b").await.expect("an answer").text, "two");
        assert_eq!(permits.free(), 1);
    }
}
