//! The observer of a runtime is called once each time a run rests, and names runs for other systems.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use doran_engine::runtime::RunObserver;
use doran_engine::store::{RamStore, Seq};
use doran_engine::{Graph, GraphHandle, RunKey, Runtime, RuntimeOptions};

use crate::support::{EngineTestState, local_thread, node_running, outcome_text, update_saying};

/// What the observer was called with.
#[derive(Debug, Default)]
struct RunRecorder {
    rests: Mutex<Vec<(RunKey, Seq)>>,
    writes: Mutex<usize>,
}

impl RunObserver for RunRecorder {
    fn correlation_of_new_run(&self) -> Option<String> {
        Some("known elsewhere".to_owned())
    }

    fn run_written(&self, _took: Duration) {
        *self.writes.lock().expect("no panic") += 1;
    }

    fn run_rested(&self, run: &RunKey, head: Seq) {
        self.rests.lock().expect("no panic").push((run.clone(), head));
    }
}

impl RunRecorder {
    fn heads(&self) -> Vec<Seq> {
        self.rests.lock().expect("no panic").iter().map(|(_, head)| *head).collect()
    }
}

/// Says what other systems call the run, and asks.
fn asking_graph() -> Graph<EngineTestState> {
    let ask = node_running(|_, cx| async move {
        let answer: String = cx.ask("may I?").await?;
        Ok(update_saying(format!("{} {answer}", cx.correlation().unwrap_or("nothing"))))
    });
    Graph::named().node("ask", ask.end()).start("ask").build().expect("a sound graph")
}

fn observed() -> (GraphHandle<EngineTestState>, Arc<RunRecorder>) {
    let observer = Arc::new(RunRecorder::default());
    let options = RuntimeOptions { observer: Some(observer.clone()), ..RuntimeOptions::default() };
    let runtime = Runtime::with_options(Arc::new(RamStore::new()), options);
    (runtime.register_graph("g", &asking_graph()).expect("registered"), observer)
}

#[tokio::test]
async fn a_pause_and_an_end_are_observed_with_the_end_of_the_log() {
    let (bot, observer) = observed();
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    run.wait().await.expect("it rests");
    let run = bot.runtime().active_run(&local_thread("t")).await.expect("read").expect("it waits");
    let row = bot.runtime().store().run(&run.key()).await.expect("a row");
    assert_eq!(row.correlation().as_deref(), Some("known elsewhere"));
    assert_eq!(observer.heads(), [2], "started, paused");
    let end = outcome_text(bot.resume(&local_thread("t"), "yes").await);
    assert_eq!(end, "known elsewhere yes");
    assert_eq!(observer.heads(), [2, 5], "resumed, a step, finished");
    assert!(*observer.writes.lock().expect("no panic") >= 2);
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_it_waits_is_observed_once() {
    let (bot, observer) = observed();
    let run = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    run.wait().await.expect("it rests");
    let run = bot.runtime().active_run(&local_thread("t")).await.expect("read").expect("it waits");
    for _ in 0..2 {
        bot.runtime().cancel(&run.key()).await.expect("cancelled");
    }
    assert_eq!(observer.heads(), [2, 3], "paused, cancelled");
}
