//! Our side: turns with a model that answers at once, on a file that is durable at every step.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doran_agents::tools::{Builtin, Toolbox, builtin};
use doran_agents::{Agent, AskOptions, Parts, Settings, build};
use doran_engine::store::{Status, Store};
use doran_engine::{Runtime, StartOptions, ThreadKey};
use doran_llm::{ChatModel, ChatRequest, DeltaStream, Purpose, Role, Script, ScriptedModel};
use doran_retrieval::RamKeyword;
use doran_store::sqlite::SqliteStore;
use serde_json::json;

use crate::Fail;
use crate::times::at;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Talk {
    /// A greeting: router, memory, agent; two models are asked.
    Small,
    /// A sum: router, memory, agent, tools, agent; three are.
    Tool,
}

impl Talk {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "talk",
            Self::Tool => "tool",
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::Small => "안녕하세요",
            Self::Tool => "123 * 456 계산해줘",
        }
    }

    fn nodes(self) -> usize {
        match self {
            Self::Small => 3,
            Self::Tool => 5,
        }
    }
}

/// Turns that were taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) turns: usize,
    pub(crate) seconds: f64,
    pub(crate) latencies_ms: Vec<f64>,
}

impl Measured {
    pub(crate) fn add(&mut self, more: Self) {
        self.turns += more.turns;
        self.seconds += more.seconds;
        self.latencies_ms.extend(more.latencies_ms);
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
struct Instantly;

impl ChatModel for Instantly {
    fn about(&self) -> doran_llm::About {
        ScriptedModel::new([]).about()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let newest = request.messages.last();
        let sums = newest.is_some_and(|message| message.role == Role::User && message.text().contains('*'));
        let reply = match request.purpose {
            Purpose::Route => Script::json(&json!({ "route": "agent", "reason": "일반 대화" })),
            Purpose::Classify => Script::json(&json!({ "type": "chitchat" })),
            Purpose::Summarize => Script::text("요약 문장입니다. ".repeat(10)),
            _ if sums => Script::call("calculator", json!({ "expression": "123 * 456" })),
            _ => Script::text("안녕하세요! 무엇을 도와드릴까요?"),
        };
        ScriptedModel::new([reply]).stream(request)
    }
}

struct House {
    runtime: Runtime,
    agent: Agent,
    store: Arc<dyn Store>,
}

fn house(name: &str, settings: &str, file: &Path) -> Result<House, Fail> {
    let tools = Toolbox::of(builtin(Builtin::default())?)?.only(&["calculator"]);
    let parts = Parts { tools, ..Parts::new(Arc::new(Instantly), Arc::new(RamKeyword::default())) };
    let settings: Settings = toml::from_str(settings)?;
    let agents = build(&settings, &parts)?;
    let agent = agents.into_iter().find(|agent| agent.name == name).ok_or("no such agent")?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(file)?);
    let runtime = Runtime::new(store.clone());
    agent.register(&runtime)?;
    Ok(House { runtime, agent, store })
}

impl House {
    /// One turn, from the question to the answer that is on disk.
    async fn turn(&self, thread: &str, question: &str) -> Result<Duration, Fail> {
        let begun = Instant::now();
        let key = ThreadKey::local(thread)?;
        let input = self.agent.input(question, &AskOptions::default());
        let run = self.runtime.start(&self.agent.name, &key, Some(&input), StartOptions::default()).await?;
        let row = run.wait().await?;
        let took = begun.elapsed();
        if row.status != Status::Finished {
            return Err(format!("a turn ended {:?}: {:?}", row.status, row.error).into());
        }
        Ok(took)
    }
}

/// Takes turns for so long, each on a thread of its own, so many at once.
pub(crate) async fn measure(
    talk: Talk,
    at_once: usize,
    time: Duration,
    file: &Path,
) -> Result<Measured, Fail> {
    let house = Arc::new(house("assistant", "", file)?);
    let threads = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let thread = format!("t{}", threads.fetch_add(1, Ordering::Relaxed));
        house.turn(&thread, talk.question()).await?;
    }
    let key = ThreadKey::local("t0")?;
    let state = house.runtime.view(&house.agent.name, &key, None).await?.state;
    let path = house.agent.view(&state)?.path;
    if path.len() != talk.nodes() {
        return Err(format!("the turn went another way: {path:?}").into());
    }
    let begun = Instant::now();
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (house, threads) = (house.clone(), threads.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while latencies.len() < 3 || begun.elapsed() < time {
                    let thread = format!("t{}", threads.fetch_add(1, Ordering::Relaxed));
                    latencies.push(house.turn(&thread, talk.question()).await?.as_secs_f64() * 1e3);
                }
                Ok::<_, Fail>(latencies)
            })
        })
        .collect();
    let mut latencies_ms = Vec::new();
    for worker in workers {
        latencies_ms.extend(worker.await??);
    }
    Ok(Measured { turns: latencies_ms.len(), seconds: begun.elapsed().as_secs_f64(), latencies_ms })
}

/// A thread that grew.
pub(crate) struct Grown {
    pub(crate) first_ms: f64,
    pub(crate) last_ms: f64,
    pub(crate) first_bytes: f64,
    pub(crate) last_bytes: f64,
}

/// Talks so many turns in one thread, and looks at its first and last hundred: median time, mean bytes.
pub(crate) async fn thread(agent: &str, turns: usize, file: &Path) -> Result<Grown, Fail> {
    let house = house(agent, "[agents.docqa]\ncontextLength = 2000", file)?;
    let key = ThreadKey::local("long")?;
    let (mut times, mut bytes, mut seen) = (Vec::new(), Vec::new(), 0);
    for turn in 0..turns {
        let question = format!("{turn:04} {}", "같은 길이의 질문입니다. ".repeat(5));
        times.push(house.turn("long", &question).await?.as_secs_f64() * 1e3);
        let entries = house.store.entries(&key, seen, 1000).await?;
        seen = entries.last().map_or(seen, |entry| entry.seq);
        bytes.push(entries.iter().map(|entry| entry.body.len() as f64).sum::<f64>());
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let part = turns.min(100);
    Ok(Grown {
        first_ms: at(&times[..part], 0.5),
        last_ms: at(&times[turns - part..], 0.5),
        first_bytes: mean(&bytes[..part]),
        last_bytes: mean(&bytes[turns - part..]),
    })
}
