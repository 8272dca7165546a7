//! The three graphs whose nodes do nothing, and what a node of theirs costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doran_engine::{Graph, GraphHandle, NodeError, Outcome, Runtime, Snap, State, ThreadKey, To, node};
use serde::{Deserialize, Serialize};

use crate::EngineBenchError;
use crate::bench_stores::{EngineBenchDatabases, EngineBenchStoreKind};
use crate::measurement::{EngineBenchRuns, EngineBenchSlice};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeCountState {
    #[reduce(add)]
    done: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeBenchCase {
    Line10,
    Loop100,
    Fan100,
}

impl NodeBenchCase {
    pub(crate) const ALL: [Self; 3] = [Self::Line10, Self::Loop100, Self::Fan100];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Line10 => "line10",
            Self::Loop100 => "loop100",
            Self::Fan100 => "fan100",
        }
    }

    /// Node runs in one run of the graph.
    pub(crate) fn nodes(self) -> usize {
        match self {
            Self::Line10 => 10,
            Self::Loop100 => 100,
            Self::Fan100 => 101,
        }
    }

    fn graph(self) -> Result<Graph<NodeCountState>, EngineBenchError> {
        let graph = Graph::named();
        let graph = match self {
            Self::Line10 => {
                let line = (0..9).fold(graph, |graph, i| {
                    graph.node(format!("n{i}"), node(count_one).then(format!("n{}", i + 1)))
                });
                line.node("n9", node(count_one).end()).start("n0")
            }
            Self::Loop100 => {
                let again = |state: &NodeCountState| match state.done {
                    0..100 => To::Node("n".to_owned()),
                    _ => To::End,
                };
                graph.node("n", node(count_one).branch_or_end(["n"], again)).start("n")
            }
            Self::Fan100 => {
                let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
                let fan = names.iter().fold(graph, |graph, name| {
                    graph.node(name.clone(), node(count_one).then("join")).start(name.clone())
                });
                fan.node("join", node(count_one).end().after_all(names))
            }
        };
        Ok(graph.build()?)
    }
}

async fn count_one(_: Snap<NodeCountState>) -> Result<NodeCountStateUpdate, NodeError> {
    Ok(NodeCountState::update().done(1))
}

/// A graph that is ready to be run, each time on a thread of its own.
#[derive(Clone)]
pub(crate) struct NodeBenchSubject {
    case: NodeBenchCase,
    graph: Graph<NodeCountState>,
    bot: Option<GraphHandle<NodeCountState>>,
    threads: Arc<AtomicU64>,
}

impl NodeBenchSubject {
    pub(crate) fn new(case: NodeBenchCase, runtime: Option<&Runtime>) -> Result<Self, EngineBenchError> {
        let graph = case.graph()?;
        let bot = runtime.map(|runtime| runtime.register_graph(case.name(), &graph)).transpose()?;
        Ok(Self { case, graph, bot, threads: Arc::default() })
    }

    pub(crate) async fn run_once(&self) -> Result<(), EngineBenchError> {
        let done = match &self.bot {
            None => self.graph.run(NodeCountState::update()).await?.done,
            Some(bot) => match bot.run(&self.new_thread()?, NodeCountState::update()).await? {
                Outcome::Finished(state) => state.done,
                Outcome::Paused(_) => return Err("the run waits for somebody".into()),
            },
        };
        if done != self.case.nodes() as u64 {
            return Err(format!("{done} nodes ran instead of {}", self.case.nodes()).into());
        }
        Ok(())
    }

    fn new_thread(&self) -> Result<ThreadKey, EngineBenchError> {
        Self::thread(self.threads.fetch_add(1, Ordering::Relaxed))
    }

    /// The thread of the next run.
    pub(crate) fn next_thread(&self) -> Result<ThreadKey, EngineBenchError> {
        Self::thread(self.threads.load(Ordering::Relaxed))
    }

    /// Runs it for `time` as a program would: in a task, not on the thread that started the runtime.
    pub(crate) async fn measure(&self, time: Duration) -> Result<EngineBenchSlice, EngineBenchError> {
        let subject = self.clone();
        let measured = tokio::spawn(async move {
            let mut runs = EngineBenchRuns::begin(subject.case.nodes());
            while !runs.measured_long_enough(time) {
                let start = Instant::now();
                subject.run_once().await?;
                runs.push(start.elapsed());
            }
            Ok(runs.to_slice())
        });
        measured.await?
    }

    /// One run, as `measure` makes many.
    pub(crate) async fn measure_one(&self) -> Result<EngineBenchSlice, EngineBenchError> {
        let subject = self.clone();
        let measured = tokio::spawn(async move {
            let mut runs = EngineBenchRuns::begin(subject.case.nodes());
            let start = Instant::now();
            subject.run_once().await?;
            runs.push(start.elapsed());
            Ok(runs.to_slice())
        });
        measured.await?
    }

    fn thread(number: u64) -> Result<ThreadKey, EngineBenchError> {
        Ok(ThreadKey::local(&format!("t{number}"))?)
    }
}

/// One slice of a case on an empty store.
pub(crate) async fn measure_case(
    case: NodeBenchCase,
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
    time: Duration,
) -> Result<EngineBenchSlice, EngineBenchError> {
    let opened = ground.open(kind).await?;
    let runtime = opened.as_ref().map(|opened| Runtime::new(opened.store.clone()));
    let subject = NodeBenchSubject::new(case, runtime.as_ref())?;
    subject.measure(if kind.on_disk() { time } else { time / 5 }).await?;
    let slice = subject.measure(time).await?;
    drop(subject);
    if let Some(runtime) = runtime {
        runtime.shutdown(Duration::from_secs(5)).await;
    }
    if let Some(opened) = opened {
        opened.clear().await?;
    }
    Ok(slice)
}
