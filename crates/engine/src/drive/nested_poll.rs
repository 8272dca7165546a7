//! Polls graphs inside graphs one after the other instead of one through the other, so that the stack of a step does not
//! grow with the graphs around it.
//!
//! The outermost nested graph of a task polls those inside it too. An inner one is polled before the node that waits for
//! it, and dropped with that node, as if the node polled it itself.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use crate::drive::RunContext;
use crate::drive::panic::catch_panic;

thread_local! {
    /// The graphs that this thread polls at the moment.
    static POLLED_NOW: RefCell<Option<Arc<NestedGraphs>>> = const { RefCell::new(None) };
}

/// Drives a graph inside a node of this run. `Err` is the message of its panic.
pub(crate) fn run_nested<T: Send + 'static>(
    run: &Arc<RunContext>,
    driving: impl Future<Output = T> + Send + 'static,
) -> NestedRun<T> {
    let output = Arc::new(Mutex::new(None));
    let written = output.clone();
    let future: GraphFuture = Box::pin(async move {
        let ended = catch_panic(pin!(driving)).await;
        *lock(&written) = Some(ended);
    });
    let graph = NestedGraph { future: Some(future), polled_by: Weak::new(), waiter: None };
    NestedRun { run: run.clone(), graph: Arc::new(Mutex::new(graph)), output, inside: None }
}

/// Waits for the end of a nested graph. Dropping it drops the graph.
pub(crate) struct NestedRun<T> {
    run: Arc<RunContext>,
    graph: SharedGraph,
    output: Arc<Mutex<Option<Result<T, String>>>>,
    /// This graph and those inside it, if no graph around it polls them.
    inside: Option<Arc<NestedGraphs>>,
}

type GraphFuture = Pin<Box<dyn Future<Output = ()> + Send>>;
type SharedGraph = Arc<Mutex<NestedGraph>>;

struct NestedGraph {
    /// None when it ended or nobody waits for it any more.
    future: Option<GraphFuture>,
    polled_by: Weak<NestedGraphs>,
    waiter: Option<Waker>,
}

/// Graphs of one run that are polled together.
struct NestedGraphs {
    run: Arc<RunContext>,
    order: Mutex<PollOrder>,
}

#[derive(Default)]
struct PollOrder {
    /// They are polled from the last to the first. One inside another stands behind that, before those which began earlier.
    graphs: Vec<SharedGraph>,
    polled_now: Option<SharedGraph>,
}

impl<T> Future for NestedRun<T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let around = POLLED_NOW.with_borrow(Clone::clone);
        match around.filter(|around| Arc::ptr_eq(&around.run, &this.run)) {
            Some(around) => around.add(&this.graph, context.waker()),
            None => {
                let inside = this.inside.get_or_insert_with(|| {
                    Arc::new(NestedGraphs { run: this.run.clone(), order: Mutex::default() })
                });
                inside.add(&this.graph, context.waker());
                inside.poll(context);
            }
        }
        match lock(&this.output).take() {
            Some(output) => Poll::Ready(output),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for NestedRun<T> {
    fn drop(&mut self) {
        let future = lock(&self.graph).future.take();
        drop(future);
    }
}

impl NestedGraphs {
    /// Adds a graph, unless it is one of them, and notes who waits for it.
    fn add(self: &Arc<Self>, graph: &SharedGraph, waiter: &Waker) {
        let mut nested = lock(graph);
        if !nested.waiter.as_ref().is_some_and(|known| known.will_wake(waiter)) {
            nested.waiter = Some(waiter.clone());
        }
        if nested.future.is_some() && !nested.is_polled_by(self) {
            nested.polled_by = Arc::downgrade(self);
            lock(&self.order).add(graph);
        }
    }

    /// Polls all of them, the innermost first, and those that are added meanwhile.
    fn poll(self: &Arc<Self>, context: &mut Context<'_>) {
        let _scope = PollScope::enter(self.clone());
        loop {
            let graphs = lock(&self.order).graphs.clone();
            graphs.iter().rev().for_each(|graph| self.poll_one(graph, context));
            let mut order = lock(&self.order);
            let has_new = order.graphs.len() > graphs.len();
            order.polled_now = None;
            order.graphs.retain(|graph| {
                let nested = lock(graph);
                nested.future.is_some() && nested.is_polled_by(self)
            });
            if !has_new {
                return;
            }
        }
    }

    fn poll_one(self: &Arc<Self>, graph: &SharedGraph, context: &mut Context<'_>) {
        lock(&self.order).polled_now = Some(graph.clone());
        let mut nested = lock(graph);
        // It may have been taken to another task since.
        if !nested.is_polled_by(self) {
            return;
        }
        let Some(future) = nested.future.as_mut() else { return };
        if future.as_mut().poll(context).is_pending() {
            return;
        }
        let (ended, waiter) = (nested.future.take(), nested.waiter.take());
        drop(nested);
        drop(ended);
        // The node around it is polled next. One with a waker of its own has to be woken.
        if let Some(waiter) = waiter.filter(|waiter| !waiter.will_wake(context.waker())) {
            waiter.wake();
        }
    }
}

impl PollOrder {
    /// Adds a graph that began inside the one that is polled now.
    fn add(&mut self, graph: &SharedGraph) {
        let around = self.polled_now.as_ref();
        let around =
            around.and_then(|around| self.graphs.iter().position(|known| Arc::ptr_eq(known, around)));
        self.graphs.insert(around.map_or(self.graphs.len(), |around| around + 1), graph.clone());
    }
}

impl NestedGraph {
    fn is_polled_by(&self, graphs: &Arc<NestedGraphs>) -> bool {
        std::ptr::eq(self.polled_by.as_ptr(), Arc::as_ptr(graphs))
    }
}

/// While it lives, nested graphs on this thread join these.
struct PollScope {
    around: Option<Arc<NestedGraphs>>,
}

impl PollScope {
    fn enter(graphs: Arc<NestedGraphs>) -> Self {
        Self { around: POLLED_NOW.replace(Some(graphs)) }
    }
}

impl Drop for PollScope {
    fn drop(&mut self) {
        POLLED_NOW.set(self.around.take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use std::future::{pending, poll_fn};
    use std::time::Duration;

    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;
    use tokio::task::yield_now;

    use super::*;
    use crate::drive::RunLimits;

    fn run_context() -> Arc<RunContext> {
        Arc::new(RunContext::new(RunLimits::default(), [7; 16]))
    }

    /// So many futures inside each other, of which the innermost runs `work`.
    fn nest(run: &Arc<RunContext>, levels: usize, work: GraphFuture) -> GraphFuture {
        (0..levels).fold(work, |inner, _| {
            let run = run.clone();
            Box::pin(async move {
                run_nested(&run, inner).await.expect("no panic");
            })
        })
    }

    #[test]
    fn a_thousand_levels_take_the_stack_of_two() {
        let on_small_stack = std::thread::Builder::new().stack_size(256 * 1024).spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                let ended = Arc::new(Mutex::new(false));
                let written = ended.clone();
                let work = Box::pin(async move {
                    yield_now().await;
                    *lock(&written) = true;
                });
                nest(&run_context(), 1000, work).await;
                assert!(*lock(&ended));
            });
        });
        on_small_stack.expect("a thread").join().expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_with_a_waker_of_its_own_is_woken() {
        let run = run_context();
        let outer = run.clone();
        let sum = run_nested(&run, async move {
            let mut inner: FuturesUnordered<_> = (0..40_u64)
                .map(|n| {
                    run_nested(&outer, async move {
                        (0..n % 5)
                            .fold(Box::pin(async {}) as GraphFuture, |before, _| {
                                Box::pin(async move {
                                    before.await;
                                    yield_now().await;
                                })
                            })
                            .await;
                        n
                    })
                })
                .collect();
            let mut sum = 0;
            while let Some(n) = inner.next().await {
                sum += n.expect("no panic");
            }
            sum
        });
        let sum = tokio::time::timeout(Duration::from_secs(60), sum).await;
        assert_eq!(sum.expect("in time"), Ok(780));
    }

    #[tokio::test]
    async fn one_that_moves_to_another_task_goes_on_there() {
        let run = run_context();
        let outer = run.clone();
        let moved = run_nested(&run, async move {
            let deep = outer.clone();
            let mut inner = run_nested(&outer, async move {
                let deepest = run_nested(&deep, async {
                    yield_now().await;
                    yield_now().await;
                    3
                });
                deepest.await
            });
            // Polled here once, it is one of those that the outer graph polls.
            poll_fn(|context| {
                assert!(Pin::new(&mut inner).poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            yield_now().await;
            tokio::spawn(inner).await.expect("ends")
        });
        assert_eq!(moved.await, Ok(Ok(Ok(3))));
    }

    #[tokio::test]
    async fn graphs_side_by_side_are_polled_in_the_order_in_which_they_began() {
        let run = run_context();
        let polled: Arc<Mutex<Vec<String>>> = Arc::default();
        let (outer, seen) = (run.clone(), polled.clone());
        let all = run_nested(&run, async move {
            let side = |name: &'static str| {
                let (inner, seen) = (outer.clone(), seen.clone());
                run_nested(&outer, async move {
                    lock(&seen).push(name.to_owned());
                    for turn in 0..2 {
                        let seen = seen.clone();
                        let deep = run_nested(&inner, async move {
                            lock(&seen).push(format!("{name}{turn}"));
                            yield_now().await;
                        });
                        deep.await.expect("no panic");
                    }
                })
            };
            let (a, b, c) = tokio::join!(side("a"), side("b"), side("c"));
            [a, b, c].into_iter().collect::<Result<Vec<()>, String>>().expect("no panic");
        });
        all.await.expect("no panic");
        assert_eq!(lock(&polled).join(" "), "a b c a0 b0 c0 a1 b1 c1");
    }

    #[tokio::test]
    async fn a_graph_is_dropped_with_the_node_that_waits_for_it() {
        let run = run_context();
        let held = Arc::new(());
        let outer = run.clone();
        let seen = run_nested(&run, async move {
            let inner_held = held.clone();
            let mut inner = run_nested(&outer, async move {
                pending::<()>().await;
                drop(inner_held);
            });
            // One turn to begin it, one to see it run.
            for _ in 0..2 {
                poll_fn(|context| {
                    assert!(Pin::new(&mut inner).poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
                yield_now().await;
            }
            let before = Arc::strong_count(&held);
            drop(inner);
            (before, Arc::strong_count(&held))
        });
        assert_eq!(seen.await, Ok((2, 1)));
    }

    #[tokio::test]
    async fn a_panic_is_that_of_the_graph_and_not_of_those_around_it() {
        let run = run_context();
        let outer = run.clone();
        let around = run_nested(&run, async move {
            run_nested(&outer, async {
                if true {
                    panic!("too hot")
                }
            })
            .await
        });
        assert_eq!(around.await, Ok(Err("too hot".to_owned())));
    }

    #[tokio::test]
    async fn graphs_of_another_run_are_polled_where_they_are() {
        let (run, other) = (run_context(), run_context());
        let around = run_nested(&run, async move {
            let mut inner = run_nested(&other, async { 5 });
            poll_fn(|context| match Pin::new(&mut inner).poll(context) {
                Poll::Ready(ended) => Poll::Ready(ended),
                Poll::Pending => panic!("it would have waited for the graphs of another run"),
            })
            .await
        });
        assert_eq!(around.await, Ok(Ok(5)));
    }
}
