//! Runs whose caller waits for them, and does their work meanwhile.

use std::sync::{Arc, OnceLock};

use doran_engine::store::{HistoryStore, RunFilter, RunStatus};
use doran_engine::{EngineError, GraphHandle, RunError, Runtime, TenantId};
use tokio::time::timeout;

use crate::support::{
    CallCounter, EngineTestState, GatedStore, NoRenewalGate, graph_handle, graph_handle_on, local_thread, ms,
    node_running, ram_store, short_lease_options, single_node_graph, update_saying,
};

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_when_its_caller_stops_waiting_in_the_middle() {
    let store = ram_store();
    let slow = node_running(|_, _| async {
        tokio::time::sleep(ms(50)).await;
        Ok(update_saying("worked"))
    });
    let bot = graph_handle_on(Arc::new(store.clone()), &single_node_graph("a", slow));
    let thread = local_thread("t");
    let run = bot.run(&thread, EngineTestState::update());
    assert!(timeout(ms(10), run).await.is_err(), "the caller is gone");
    let runs = store.runs(&TenantId::local(), &RunFilter::default()).await.expect("runs");
    assert_eq!(runs[0].status, RunStatus::Running);
    tokio::time::sleep(ms(100)).await;
    let run = bot.runtime().run_handle(&runs[0].thread.run(runs[0].run)).await.expect("the run");
    assert_eq!(run.wait().await.expect("rests").status, RunStatus::Finished);
}

#[tokio::test(start_paused = true)]
async fn a_caller_stops_working_on_a_run_that_somebody_else_may_have_by_now() {
    let (begun, signs) = (CallCounter::default(), CallCounter::default());
    let signs_of_life = signs.clone();
    let endless_at_first = node_running(move |_, _| {
        let (nth, signs) = (begun.increment(), signs_of_life.clone());
        async move {
            if nth == 1 {
                loop {
                    signs.increment();
                    tokio::time::sleep(ms(10)).await;
                }
            }
            Ok(update_saying("again"))
        }
    });
    let options = short_lease_options("cut off");
    let lease = options.lease;
    let gated = GatedStore { inner: ram_store(), gate: Arc::new(NoRenewalGate) };
    let runtime = Runtime::with_options(Arc::new(gated), options);
    let bot = runtime.register_graph("g", &single_node_graph("a", endless_at_first)).expect("registered");
    let left = timeout(lease, bot.run(&local_thread("t"), EngineTestState::update())).await;
    let left = left.expect("before the lease runs out");
    assert!(matches!(left, Err(EngineError::Run(RunError::Left(_)))), "{left:?}");
    let until_the_end = signs.count();
    assert!(until_the_end > 0);
    tokio::time::sleep(lease * 10).await;
    assert_eq!(signs.count(), until_the_end, "and no task goes on with it");
}

#[tokio::test]
async fn runs_that_start_and_wait_for_runs_do_not_fill_the_stack() {
    const DEPTH: u32 = 400;
    let inner: Arc<OnceLock<GraphHandle<EngineTestState>>> = Arc::default();
    let handle = inner.clone();
    let starts_another = node_running(move |state, _| {
        let handle = handle.clone();
        async move {
            if state.n < DEPTH {
                let bot = handle.get().expect("registered");
                let next = EngineTestState::update().n(state.n + 1);
                let thread = local_thread(&format!("t{}", state.n + 1));
                bot.run(&thread, next).await.expect("the inner run ends");
            }
            Ok(update_saying("worked"))
        }
    });
    let bot = graph_handle(&single_node_graph("a", starts_another));
    assert!(inner.set(bot.clone()).is_ok());
    let end = bot.run(&local_thread("t0"), EngineTestState::update().n(0)).await.expect("ends");
    assert_eq!(end.finished().expect("finished").said_text(), "worked");
    let innermost = bot.state(&local_thread(&format!("t{DEPTH}"))).await.expect("a state");
    assert_eq!(innermost.said_text(), "worked");
}
