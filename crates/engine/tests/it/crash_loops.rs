//! A run that ends the process again and again, and the runs beside it.

use std::sync::{Arc, Mutex};

use doran_engine::Graph;
use doran_engine::store::{HistoryStore, RunStatus};

use crate::support::{
    CallCounter, EngineTestState, KillSwitch, killable_runtime, local_thread, ms, node_running, ram_store,
    update_saying,
};

/// Nodes of a process that ends when one of them says so.
fn deadly_graph(kill_switch: &Arc<Mutex<KillSwitch>>, model_calls: &CallCounter) -> Graph<EngineTestState> {
    let (kill_switch, calls) = (kill_switch.clone(), model_calls.clone());
    let node = node_running(move |state, _| {
        let (kill_switch, calls) = (kill_switch.lock().expect("no panic").clone(), calls.clone());
        async move {
            if state.text == "deadly" {
                tokio::time::sleep(ms(10)).await;
                kill_switch.kill();
            } else {
                calls.increment();
                tokio::time::sleep(ms(20)).await;
            }
            kill_switch.hang_if_killed().await;
            Ok(update_saying("done"))
        }
    });
    Graph::named().node("a", node.end()).start("a").build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_the_process_takes_no_other_run_with_it() {
    let (store, kill_switch, calls) = (ram_store(), Arc::default(), CallCounter::default());
    let graph = deadly_graph(&kill_switch, &calls);
    let mut keys = Vec::new();
    for nth in 0..60 {
        let (bot, alive) = killable_runtime(&store, &format!("process {nth}"), &graph);
        *kill_switch.lock().expect("no panic") = alive;
        if nth == 0 {
            for name in ["one", "deadly", "two", "three"] {
                let input = EngineTestState::update().text(name.to_owned());
                keys.push(bot.start(&local_thread(name), input).await.expect("started").key());
            }
        }
        bot.runtime().start_worker().await.expect("works");
        tokio::time::sleep(ms(1000)).await;
    }
    for key in &keys {
        let row = store.run(key).await.expect("row");
        if row.thread == local_thread("deadly") {
            assert_eq!(row.error.expect("it failed").code, "crash_loop");
        } else {
            assert_eq!(row.status, RunStatus::Finished, "{row:?}");
        }
    }
    assert!(calls.count() <= 9, "{} model calls for three runs", calls.count());
}
