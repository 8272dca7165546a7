//! A step of ten thousand tasks that compute, beside other requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use doran_engine::store::RamStore;
use doran_engine::{Cx, Graph, NodeError, Runtime, Snap, State, ThreadKey, To, node};
use doran_server::ServerApp;
use serde::{Deserialize, Serialize};

use crate::slow_clients::connect_and_check;
use crate::socket::start_server_with;

const TASKS: usize = 10_000;
/// How long each of them takes a processor.
const TASK_TIME: Duration = Duration::from_micros(100);

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct WideFanOutState {
    #[reduce(add)]
    done: u64,
}

/// How many tasks have begun, and how many are over.
#[derive(Default)]
struct TaskCounts {
    begun: AtomicUsize,
    over: AtomicUsize,
}

impl TaskCounts {
    fn is_in_progress(&self) -> bool {
        self.begun.load(Ordering::SeqCst) > 0 && self.over.load(Ordering::SeqCst) < TASKS
    }
}

fn wide_graph(counts: &Arc<TaskCounts>) -> Graph<WideFanOutState> {
    let counts = counts.clone();
    let compute = move |_: Snap<WideFanOutState>, _: Cx| {
        let counts = counts.clone();
        async move {
            counts.begun.fetch_add(1, Ordering::SeqCst);
            let until = Instant::now() + TASK_TIME;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            counts.over.fetch_add(1, Ordering::SeqCst);
            Ok::<_, NodeError>(WideFanOutState::update().done(1))
        }
    };
    let nothing = async |_: Snap<WideFanOutState>, _: Cx| Ok::<_, NodeError>(WideFanOutState::update());
    Graph::named()
        .node(
            "split",
            node(nothing).branch(["compute"], |_: &WideFanOutState| {
                To::Each("compute".to_owned(), (0..TASKS).map(Into::into).collect())
            }),
        )
        .node("compute", node(compute).then("join"))
        .node("join", node(nothing).end())
        .start("split")
        .build()
        .expect("sound")
}

/// Whether the server is well, until something holds. Gives the longest wait, and how many answers came while the tasks computed.
async fn check_until(
    address: std::net::SocketAddr,
    counts: &TaskCounts,
    holds: impl Fn(usize) -> bool,
) -> (Duration, usize) {
    let (mut longest, mut asked, mut beside) = (Duration::ZERO, 0, 0);
    while !holds(asked) {
        let (begun, before) = (Instant::now(), counts.is_in_progress());
        drop(connect_and_check(address).await);
        longest = longest.max(begun.elapsed());
        asked += 1;
        beside += usize::from(before && counts.is_in_progress());
    }
    (longest, beside)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_that_it_is_well_while_ten_thousand_tasks_compute() {
    let counts = Arc::new(TaskCounts::default());
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    let wide = runtime.register_graph("wide", &wide_graph(&counts)).expect("registered");
    let (address, stop, serving) = start_server_with(ServerApp::new(runtime, store, Vec::new())).await;
    let (alone, _) = check_until(address, &counts, |asked| asked == 20).await;
    let thread = ThreadKey::local("t").expect("a name");
    let run = tokio::spawn(async move {
        let outcome = wide.run(&thread, WideFanOutState::update()).await.expect("it runs");
        outcome.finished().expect("to its end").done
    });
    let (longest, beside) = check_until(address, &counts, |_| run.is_finished()).await;
    assert_eq!(run.await.expect("no panic"), TASKS as u64);
    eprintln!("{beside} answers beside {TASKS} tasks, the slowest after {longest:?}; alone after {alone:?}");
    // Tasks that kept the threads of the server to themselves would be over before the first answer.
    assert!(beside >= 3, "{beside} answers beside {TASKS} tasks");
    stop.cancel();
    serving.await.expect("no panic");
}
