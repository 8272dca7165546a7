//! The gate is called before each run begins, when it goes on, and after it spent something; and what runs
//! spent stays counted when their threads are deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::runtime::{RunAdmission, RunGate};
use doran_engine::store::{IfBusy, RunFailure, RunFilter, RunStatus, RunUsage};
use doran_engine::{
    Cx, EngineError, Graph, GraphHandle, NodeError, RunHandle, Runtime, StartOptions, TenantId,
};
use tokio::sync::Notify;

use crate::support::{
    CallCounter, EngineTestState, EngineTestStateUpdate, graph_handle, local_thread, node_running,
    node_saying, outcome_text, run_to_text, run_trace, single_node_graph, update_saying,
    wait_for_outcome_text,
};

/// How long a run may take that has nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives every run what is in it, and refuses runs when it is empty.
#[derive(Debug)]
struct Purse(AtomicU64);

impl Purse {
    fn with(micros: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(micros)))
    }

    fn set(&self, micros: u64) {
        self.0.store(micros, Ordering::SeqCst);
    }
}

#[async_trait]
impl RunGate for Purse {
    async fn admit(&self, _runtime: &Runtime, _tenant: &TenantId) -> Result<RunAdmission, EngineError> {
        Ok(match self.0.load(Ordering::SeqCst) {
            0 => {
                RunAdmission::Refused(RunFailure { code: "spent".into(), message: "nothing is left".into() })
            }
            left => RunAdmission::Admitted { cost_left: Some(left) },
        })
    }
}

fn cost(cost_micros: u64) -> RunUsage {
    RunUsage { cost_micros, ..RunUsage::default() }
}

fn gated(graph: &Graph<EngineTestState>, purse: &Arc<Purse>) -> GraphHandle<EngineTestState> {
    let bot = graph_handle(graph);
    bot.runtime().set_run_gate(purse.clone());
    bot
}

async fn enqueue(bot: &GraphHandle<EngineTestState>) -> RunHandle {
    let options = StartOptions { if_busy: IfBusy::Enqueue, ..StartOptions::default() };
    bot.start_with(&local_thread("t"), Some(EngineTestState::update()), options).await.expect("accepted")
}

/// Calls `work` once it is let go, and counts the calls.
fn held_graph(begun: CallCounter, go: Arc<Notify>) -> Graph<EngineTestState> {
    let node = node_running(move |_, _| {
        let (nth, go) = (begun.increment(), go.clone());
        async move {
            go.notified().await;
            Ok(update_saying(format!("run {nth}")))
        }
    });
    single_node_graph("a", node)
}

#[tokio::test(start_paused = true)]
async fn a_run_that_may_not_begin_is_refused_and_leaves_nothing() {
    let bot = gated(&single_node_graph("a", node_saying("a")), &Purse::with(0));
    assert_eq!(
        run_to_text(&bot, EngineTestState::update()).await,
        "refused: the run must not begin: nothing is left"
    );
    assert!(bot.runtime().find_thread_row(&local_thread("t")).await.expect("read").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_gate_decides_about_a_queued_run_when_it_begins() {
    let (begun, go, purse) = (CallCounter::default(), Arc::new(Notify::new()), Purse::with(9));
    let bot = gated(&held_graph(begun.clone(), go.clone()), &purse);
    let first = enqueue(&bot).await;
    let (second, third) = (enqueue(&bot).await, enqueue(&bot).await);
    purse.set(0);
    go.notify_one();
    assert_eq!(wait_for_outcome_text(&bot, &first).await, "run 1", "what costs nothing may finish");
    for run in [&second, &third] {
        let ended = tokio::time::timeout(PATIENCE, wait_for_outcome_text(&bot, run)).await;
        assert_eq!(ended.expect("it ends"), "spent: nothing is left");
        assert_eq!(run_trace(bot.runtime(), &run.key()).await, "started | failed spent");
    }
    assert_eq!(begun.count(), 1, "no node of theirs ran");
    // What was refused can be tried again when there is something left.
    purse.set(9);
    go.notify_one();
    let again = bot.runtime().retry(&third.key()).await.expect("retried");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "run 1 run 2");
}

/// Spends so much and says so.
fn spending(
    micros: u64,
) -> impl Fn(Cx) -> Result<EngineTestStateUpdate, NodeError> + Clone + Send + Sync + 'static {
    move |cx: Cx| {
        cx.check_may_spend()?;
        cx.spend(cost(micros))?;
        Ok(update_saying(format!("spent {micros}")))
    }
}

/// Spends ten, waits to be let go, does something for nothing, and spends eight.
fn spending_graph(at_work: Arc<Notify>, go: Arc<Notify>) -> Graph<EngineTestState> {
    let (first, last) = (spending(10), spending(8));
    let wait = node_running(move |_, _| {
        let (at_work, go) = (at_work.clone(), go.clone());
        async move {
            at_work.notify_one();
            go.notified().await;
            Ok(update_saying("waited"))
        }
    });
    Graph::named()
        .node("wait", wait.then("a"))
        .node("a", node_running(move |_, cx| std::future::ready(first(cx))).then("free"))
        .node("free", node_saying("free").then("b"))
        .node("b", node_running(move |_, cx| std::future::ready(last(cx))).end())
        .start("wait")
        .build()
        .expect("a sound graph")
}

/// Runs it with so much in the purse at first, and so much after it began.
async fn run_spending_graph(at_first: u64, then: u64) -> (String, String, u64) {
    let (at_work, go, purse) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Purse::with(at_first));
    let bot = gated(&spending_graph(at_work.clone(), go.clone()), &purse);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    at_work.notified().await;
    purse.set(then);
    go.notify_one();
    let end = wait_for_outcome_text(&bot, &run).await;
    let row = bot.runtime().run_row(&run.key()).await.expect("the run");
    (end, run_trace(bot.runtime(), &run.key()).await, row.usage.cost_micros)
}

#[tokio::test(start_paused = true)]
async fn a_run_under_way_gets_what_is_left_by_then() {
    let (end, _, spent) = run_spending_graph(100, 100).await;
    assert_eq!((end.as_str(), spent), ("waited spent 10 free spent 8", 18));
    // Others have spent all but eight, then all but seven, meanwhile.
    assert_eq!(run_spending_graph(100, 8).await.2, 18);
    let (end, trace, spent) = run_spending_graph(100, 7).await;
    assert!(end.starts_with("limit_exceeded"), "{end}");
    assert_eq!((trace.as_str(), spent), ("started | wait | a | free | failed limit_exceeded", 18));
    // The first call is more than there was from the beginning.
    assert!(run_spending_graph(9, 9).await.0.starts_with("limit_exceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_run_under_way_may_finish_what_costs_nothing() {
    let (end, trace, spent) = run_spending_graph(100, 0).await;
    assert_eq!(end, "spent: node `b`: nothing is left");
    assert_eq!((trace.as_str(), spent), ("started | wait | a | free | failed spent", 10));
}

#[tokio::test(start_paused = true)]
async fn the_gate_decides_again_about_an_answered_run() {
    let asks = node_running(|_, cx: Cx| async move {
        let word: String = cx.ask("which?").await?;
        Ok(update_saying(word))
    });
    let purse = Purse::with(9);
    let bot = gated(&single_node_graph("a", asks), &purse);
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    wait_for_outcome_text(&bot, &run).await;
    purse.set(0);
    let ended = outcome_text(bot.resume(&local_thread("t"), "this").await);
    assert_eq!(ended, "spent: nothing is left");
    purse.set(9);
    let again = bot.runtime().retry(&run.key()).await.expect("retried");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "this", "the answer is kept");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_under_way_spent_is_counted_when_its_thread_is_deleted() {
    let spent = Arc::new(Notify::new());
    let tells = spent.clone();
    let hangs = node_running(move |_, cx: Cx| {
        let tells = tells.clone();
        async move {
            cx.spend(cost(7))?;
            tells.notify_one();
            std::future::pending::<Result<EngineTestStateUpdate, NodeError>>().await
        }
    });
    let bot = graph_handle(&single_node_graph("a", hangs));
    let (first, _waits) = (enqueue(&bot).await, enqueue(&bot).await);
    spent.notified().await;
    let runtime = bot.runtime();
    assert_eq!(runtime.run_row(&first.key()).await.expect("the run").usage, RunUsage::default());
    assert!(runtime.delete_thread(&local_thread("t")).await.expect("deleted"));
    let tenant = TenantId::local();
    let deleted = runtime.deleted_usage(&tenant, 0).await.expect("read");
    let [row] = deleted.as_slice() else { panic!("one row: {deleted:?}") };
    assert_eq!((row.runs, row.usage.cost_micros, row.is_exact), (2, 7, false));
    assert_eq!(row.graph, "g");
    let left = runtime.list_runs(&tenant, &RunFilter::default()).await.expect("read");
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(runtime.active_runs(), 0, "nobody began the one that waited");
    assert!(!runtime.delete_thread(&local_thread("t")).await.expect("nothing there"));
    assert_eq!(runtime.deleted_usage(&tenant, 0).await.expect("read"), deleted);
    // A run that finished is exact.
    let bot = graph_handle(&single_node_graph("a", node_saying("a")));
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "a");
    assert_eq!(
        bot.runtime().list_runs(&tenant, &RunFilter::default()).await.expect("read")[0].status,
        RunStatus::Finished
    );
    bot.runtime().delete_thread(&local_thread("t")).await.expect("deleted");
    assert!(bot.runtime().deleted_usage(&tenant, 0).await.expect("read")[0].is_exact);
}
