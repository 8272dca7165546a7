//! What is kept, and what must not be: states at hand, results of steps that fail late, numbers that are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use doran_engine::store::{EntryKind, HistoryStore, RamStore, Retention, Store, ThreadMaintenance};
use doran_engine::{
    EngineError, Event, Graph, MisuseError, NodeError, Nodes, Outcome, RunError, Runtime, RuntimeOptions,
    Snap, State, ThreadKey, To, WatchUntil, node,
};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct ReplacedPageState {
    #[reduce(append)]
    lines: Vec<String>,
    share: f64,
    fail: bool,
    page: String,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Work,
    Never,
}

fn graph(runs: &Arc<AtomicU32>) -> Graph<ReplacedPageState> {
    let work = runs.clone();
    Graph::define(move |step| match step {
        Step::Work => {
            let work = work.clone();
            node(move |notes: Snap<ReplacedPageState>| {
                let nth = work.fetch_add(1, Ordering::SeqCst);
                async move {
                    if notes.lines.last().is_some_and(|line| line == "nan") {
                        return Ok(ReplacedPageState::update().share(f64::NAN));
                    }
                    Ok::<_, NodeError>(ReplacedPageState::update().lines(vec![format!("worked {nth}")]))
                }
            })
            .branch_or_end([Step::Never], |notes: &ReplacedPageState| {
                // A branch that leads somewhere it did not declare fails the run after its node finished.
                if notes.fail { To::Node(Step::Work) } else { To::End }
            })
        }
        Step::Never => {
            node(|_: Snap<ReplacedPageState>| async { Ok::<_, NodeError>(ReplacedPageState::update()) }).end()
        }
    })
    .start(Step::Work)
    .build()
    .expect("sound")
}

fn thread() -> ThreadKey {
    ThreadKey::local("t").expect("a name")
}

fn update_with_line(line: &str) -> ReplacedPageStateUpdate {
    ReplacedPageState::update().lines(vec![line.into()])
}

#[tokio::test]
async fn a_thread_made_again_after_its_deletion_knows_nothing_of_the_old_one() {
    let store = Arc::new(RamStore::new());
    let runs = Arc::new(AtomicU32::new(0));
    let here = Runtime::new(store.clone()).register_graph("notes", &graph(&runs)).expect("registered");
    let there = Runtime::new(store.clone()).register_graph("notes", &graph(&runs)).expect("registered");
    here.run(&thread(), update_with_line("secret")).await.expect("runs");
    assert!(store.delete_thread(&thread()).await.expect("deleted"));
    there.run(&thread(), update_with_line("new")).await.expect("runs");
    let head = store.thread(&thread()).await.expect("there").head;
    assert_eq!(head, 3, "the numbers are the same as before");
    let Outcome::Finished(state) = here.run(&thread(), update_with_line("more")).await.expect("runs") else {
        panic!()
    };
    assert_eq!(state.lines, ["new", "worked 1", "more", "worked 2"]);
}

#[tokio::test]
async fn a_node_that_finished_is_not_run_again_when_its_branch_failed() {
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let bot = runtime.register_graph("notes", &graph(&runs)).expect("registered");
    let run = bot.start(&thread(), ReplacedPageState::update().fail(true)).await.expect("started");
    let Err(EngineError::Run(RunError::Failed(failure))) = bot.wait_for_outcome(&run).await else {
        panic!("did not fail")
    };
    assert_eq!(failure.code, "undeclared_target");
    let again = runtime.retry(&run.key()).await.expect("tried again");
    assert!(bot.wait_for_outcome(&again).await.is_err());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_number_that_is_none_is_refused_before_it_is_written() {
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let bot = runtime.register_graph("notes", &graph(&runs)).expect("registered");
    let run = bot.start(&thread(), update_with_line("nan")).await.expect("started");
    let Err(EngineError::Run(RunError::Failed(failure))) = bot.wait_for_outcome(&run).await else {
        panic!("did not fail")
    };
    assert_eq!(failure.code, "not_storable");
    assert!(failure.message.contains("`work`") && failure.message.contains("NaN"), "{}", failure.message);
    assert_eq!(bot.state(&thread()).await.expect("the thread stays readable").lines, ["nan"]);
}

#[tokio::test]
async fn watching_a_run_whose_entries_were_cleared_away_ends() {
    let store: Arc<dyn Store> = Arc::new(RamStore::new());
    let runs = Arc::new(AtomicU32::new(0));
    let runtime = Runtime::with_options(store.clone(), RuntimeOptions::default());
    let bot = runtime.register_graph("notes", &graph(&runs)).expect("registered");
    // Each run replaces a long page, so that the log outgrows the state and a snapshot takes its place.
    let mut keys = Vec::new();
    for n in 0..5 {
        let run = bot
            .start(&thread(), ReplacedPageState::update().page(n.to_string().repeat(100_000)))
            .await
            .expect("started");
        bot.wait_for_outcome(&run).await.expect("finished");
        keys.push(run.key());
    }
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let old = std::time::Duration::ZERO;
    let cleared =
        store.gc(&Retention { old_entries: Some(old), ..Retention::default() }).await.expect("cleared");
    assert!(cleared.entries >= 3, "the first run is gone: {cleared:?}");
    let mut watch = runtime.watch(&keys[0], 0, WatchUntil::RunEnded).await.expect("watch");
    let seen = [watch.try_next().await.expect("no error"), watch.try_next().await.expect("no error")];
    let [Some(Event::Removed { after: 0, next: 3 }), Some(Event::Entry(3, end))] = &seen else {
        panic!("expected what is gone and the end, not {seen:?}")
    };
    assert_eq!(end.kind(), EntryKind::Finished);
    assert!(watch.try_next().await.expect("no error").is_none(), "nothing is left to see, and it ends");
}

#[tokio::test]
async fn an_input_that_does_not_read_back_is_refused_and_nothing_is_written() {
    let runs = Arc::new(AtomicU32::new(0));
    let store = Arc::new(RamStore::new());
    let bot = Runtime::new(store.clone()).register_graph("notes", &graph(&runs)).expect("registered");
    let refused = bot.start(&thread(), ReplacedPageState::update().share(f64::NAN)).await;
    assert!(matches!(refused, Err(EngineError::Misuse(MisuseError::BadInput { .. }))));
    assert!(store.thread(&thread()).await.is_err(), "the thread was not even made");
    bot.run(&thread(), ReplacedPageState::update().share(1.0)).await.expect("the thread lives");
}

#[tokio::test]
async fn a_result_that_cannot_be_kept_cuts_off_no_sibling() {
    let runs = Arc::new(AtomicU32::new(0));
    let slow = runs.clone();
    let none = node(|_: Snap<ReplacedPageState>| async {
        Ok::<_, NodeError>(ReplacedPageState::update().share(f64::NAN))
    });
    let late = node(move |_: Snap<ReplacedPageState>| {
        let slow = slow.clone();
        async move {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            slow.fetch_add(1, Ordering::SeqCst);
            Ok::<_, NodeError>(update_with_line("late"))
        }
    });
    let graph = Graph::named()
        .node("none", none.end())
        .node("late", late.end())
        .start("none")
        .start("late")
        .build()
        .expect("sound");
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let bot = runtime.register_graph("notes", &graph).expect("registered");
    let run = bot.start(&thread(), ReplacedPageState::update()).await.expect("started");
    for _ in 0..2 {
        let Err(EngineError::Run(RunError::Failed(failure))) = bot.wait_for_outcome(&run).await else {
            panic!("did not fail")
        };
        assert_eq!(failure.code, "not_storable");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "it ran to its end, and only once");
        let again = runtime.retry(&run.key()).await.expect("tried again");
        assert!(bot.wait_for_outcome(&again).await.is_err());
    }
}
