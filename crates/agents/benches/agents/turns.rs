//! Our side: turns with a model that answers at once, on a file that is durable at every step.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doran_agents::tools::{BuiltinToolsConfig, Toolbox, builtin_tools};
use doran_agents::{Agent, AgentParts, AskOptions, RequestPurpose, Settings, build_agents};
use doran_engine::store::{HistoryStore, RunStatus};
use doran_engine::{Acknowledgement, Runtime, StartOptions, ThreadKey};
use doran_llm::{ChatModel, ChatRequest, DeltaStream, Role, ScriptedModel, ScriptedReply};
use doran_retrieval::RamKeywordIndex;
use doran_store::sqlite::SqliteStore;
use serde_json::json;

use crate::AgentBenchError;
use crate::times::at;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnCase {
    /// A greeting: router, memory, agent; two models are asked.
    Greeting,
    /// A sum: router, memory, agent, tools, agent; three are.
    ToolCall,
}

impl TurnCase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Greeting => "talk",
            Self::ToolCall => "tool",
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::Greeting => "안녕하세요",
            Self::ToolCall => "123 * 456 계산해줘",
        }
    }

    fn nodes(self) -> usize {
        match self {
            Self::Greeting => 3,
            Self::ToolCall => 5,
        }
    }
}

/// Turns that were taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnMeasurements {
    pub(crate) turns: usize,
    pub(crate) seconds: f64,
    pub(crate) latencies_ms: Vec<f64>,
    /// Waits for the disk, where they were counted.
    pub(crate) syncs: u64,
}

impl TurnMeasurements {
    pub(crate) fn add(&mut self, more: Self) {
        self.turns += more.turns;
        self.seconds += more.seconds;
        self.latencies_ms.extend(more.latencies_ms);
        self.syncs += more.syncs;
    }

    pub(crate) fn syncs_per_turn(&self) -> f64 {
        self.syncs as f64 / self.turns.max(1) as f64
    }

    pub(crate) fn rate(&self) -> f64 {
        self.turns as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The time within which this share of turns ended.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        at(&self.latencies_ms, share)
    }
}

/// A model that answers at once.
struct InstantReplyModel;

impl ChatModel for InstantReplyModel {
    fn info(&self) -> doran_llm::ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let newest = request.messages.last();
        let sums = newest.is_some_and(|message| message.role == Role::User && message.text().contains('*'));
        let reply = match RequestPurpose::of(&request) {
            Some(RequestPurpose::Route) => {
                ScriptedReply::json(&json!({ "route": "agent", "reason": "일반 대화" }))
            }
            Some(RequestPurpose::Classify) => {
                ScriptedReply::json(&json!({ "reason": "x", "type": "chitchat" }))
            }
            Some(RequestPurpose::Summarize) => ScriptedReply::text("요약 문장입니다. ".repeat(10)),
            _ if sums => ScriptedReply::call("calculator", json!({ "expression": "123 * 456" })),
            _ => ScriptedReply::text("안녕하세요! 무엇을 도와드릴까요?"),
        };
        ScriptedModel::new([reply]).stream(request)
    }
}

struct BenchAgent {
    runtime: Runtime,
    agent: Agent,
    store: SqliteStore,
}

fn bench_agent(name: &str, settings: &str, file: &Path) -> Result<BenchAgent, AgentBenchError> {
    let tools =
        Toolbox::with_tools(builtin_tools(BuiltinToolsConfig::default())?)?.restricted_to(&["calculator"]);
    let parts = AgentParts {
        tools,
        ..AgentParts::new(Arc::new(InstantReplyModel), Arc::new(RamKeywordIndex::default()))
    };
    let settings: Settings = toml::from_str(settings)?;
    let agents = build_agents(&settings, &parts)?;
    let agent = agents.into_iter().find(|agent| agent.name == name).ok_or("no such agent")?;
    let store = SqliteStore::open(file)?;
    let runtime = Runtime::new(Arc::new(store.clone()));
    agent.register(&runtime)?;
    Ok(BenchAgent { runtime, agent, store })
}

impl BenchAgent {
    /// One turn, from the question to the answer that is on disk.
    async fn run_turn(&self, thread: &str, question: &str) -> Result<Duration, AgentBenchError> {
        let started = Instant::now();
        let key = ThreadKey::local(thread)?;
        let input = self.agent.input(question, &AskOptions::default());
        // The caller is told nothing before the turn is over, so the input needs no sync of its own.
        let options = StartOptions { acknowledge: Acknowledgement::Rest, ..StartOptions::default() };
        let run = self.runtime.start(&self.agent.name, &key, Some(&input), options).await?;
        let row = run.wait().await?;
        let took = started.elapsed();
        if row.status != RunStatus::Finished {
            return Err(format!("a turn ended {:?}: {:?}", row.status, row.error).into());
        }
        Ok(took)
    }
}

/// Takes turns for so long, each on a thread of its own, so many at once.
pub(crate) async fn measure_turns(
    talk: TurnCase,
    at_once: usize,
    time: Duration,
    file: &Path,
) -> Result<TurnMeasurements, AgentBenchError> {
    let bench = Arc::new(bench_agent("assistant", "", file)?);
    let threads = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let thread = format!("t{}", threads.fetch_add(1, Ordering::Relaxed));
        bench.run_turn(&thread, talk.question()).await?;
    }
    let key = ThreadKey::local("t0")?;
    let state = bench.runtime.view(&bench.agent.name, &key, None).await?.state;
    let path = bench.agent.read_turn(&state)?.path;
    if path.len() != talk.nodes() {
        return Err(format!("the turn went another way: {path:?}").into());
    }
    let (started, syncs_before) = (Instant::now(), bench.store.syncs());
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (bench, threads) = (bench.clone(), threads.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while latencies.len() < 3 || started.elapsed() < time {
                    let thread = format!("t{}", threads.fetch_add(1, Ordering::Relaxed));
                    latencies.push(bench.run_turn(&thread, talk.question()).await?.as_secs_f64() * 1e3);
                }
                Ok::<_, AgentBenchError>(latencies)
            })
        })
        .collect();
    let mut latencies_ms = Vec::new();
    for worker in workers {
        latencies_ms.extend(worker.await??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let syncs = bench.store.syncs() - syncs_before;
    Ok(TurnMeasurements { turns: latencies_ms.len(), seconds, latencies_ms, syncs })
}

/// A thread that grew.
pub(crate) struct ThreadGrowth {
    pub(crate) first_ms: f64,
    pub(crate) last_ms: f64,
    pub(crate) first_bytes: f64,
    pub(crate) last_bytes: f64,
}

/// Talks so many turns in one thread, and looks at its first and last hundred: median time, mean bytes.
pub(crate) async fn measure_thread_growth(
    agent: &str,
    turns: usize,
    file: &Path,
) -> Result<ThreadGrowth, AgentBenchError> {
    let bench = bench_agent(agent, "[agents.docqa]\ncontextLength = 2000", file)?;
    let key = ThreadKey::local("long")?;
    let (mut times, mut bytes, mut seen) = (Vec::new(), Vec::new(), 0);
    for turn in 0..turns {
        let question = format!("{turn:04} {}", "같은 길이의 질문입니다. ".repeat(5));
        times.push(bench.run_turn("long", &question).await?.as_secs_f64() * 1e3);
        let entries = bench.store.entries(&key, seen, 1000).await?;
        seen = entries.last().map_or(seen, |entry| entry.seq);
        bytes.push(entries.iter().map(|entry| entry.body.len() as f64).sum::<f64>());
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let part = turns.min(100);
    Ok(ThreadGrowth {
        first_ms: at(&times[..part], 0.5),
        last_ms: at(&times[turns - part..], 0.5),
        first_bytes: mean(&bytes[..part]),
        last_bytes: mean(&bytes[turns - part..]),
    })
}
