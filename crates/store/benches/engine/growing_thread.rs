//! One conversation that grows: what it takes on disk, and whether its turns stay as fast as they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doran_engine::store::Store;
use doran_engine::{
    Cx, Graph, GraphHandle, Keyed, NodeError, Nodes, Outcome, Runtime, Snap, State, ThreadKey, node,
};
use serde::{Deserialize, Serialize};

use crate::EngineBenchError;
use crate::bench_stores::{EngineBenchDatabases, EngineBenchStoreKind};
use crate::measurement::process_cpu_time;
use crate::times::median;

/// Characters of one message.
const MESSAGE_CHARS: usize = 1024;
/// Bytes that people and models wrote in one turn.
pub(crate) const TURN_BYTES: u64 = 2 * MESSAGE_CHARS as u64;
/// Turns whose median is shown.
const MEDIAN_TURNS: usize = 10;
/// Turns of the long thread that are measured in turns with those of short ones.
const COMPARED_TURNS: usize = 30;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct EngineBenchChatState {
    #[reduce(by_id)]
    messages: Vec<EngineBenchMessage>,
    prepared: usize,
    finished: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct EngineBenchMessage {
    id: String,
    role: EngineBenchRole,
    text: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EngineBenchRole {
    User,
    Assistant,
}

impl Keyed for EngineBenchMessage {
    fn key(&self) -> &str {
        &self.id
    }
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Prepare,
    Answer,
    Finish,
}

/// Letters and digits in no order, so that nothing gains by compressing them; the same every time.
#[derive(Clone)]
struct EngineBenchTexts(Arc<AtomicU64>);

impl EngineBenchTexts {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0x9e37_79b9_7f4a_7c15)))
    }

    fn next(&self, length: usize) -> String {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut seed = self.0.load(Ordering::Relaxed);
        let text = (0..length)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                char::from(LETTERS[(seed >> 33) as usize % LETTERS.len()])
            })
            .collect();
        self.0.store(seed, Ordering::Relaxed);
        text
    }
}

fn graph(texts: &EngineBenchTexts) -> Result<Graph<EngineBenchChatState>, EngineBenchError> {
    let graph = Graph::define(|step| match step {
        Step::Prepare => node(|chat: Snap<EngineBenchChatState>| async move {
            Ok::<_, NodeError>(EngineBenchChatState::update().prepared(chat.messages.len()))
        })
        .then(Step::Answer),
        Step::Answer => {
            let texts = texts.clone();
            node(move |_: Snap<EngineBenchChatState>, cx: Cx| {
                let answer = EngineBenchMessage {
                    id: cx.new_id(),
                    role: EngineBenchRole::Assistant,
                    text: texts.next(MESSAGE_CHARS),
                };
                async move { Ok::<_, NodeError>(EngineBenchChatState::update().messages(vec![answer])) }
            })
            .then(Step::Finish)
        }
        Step::Finish => node(|chat: Snap<EngineBenchChatState>| async move {
            Ok::<_, NodeError>(EngineBenchChatState::update().finished(chat.messages.len()))
        })
        .end(),
    });
    Ok(graph.start(Step::Prepare).build()?)
}

/// A conversation after so many turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadSizeMark {
    pub turns: usize,
    pub bytes: u64,
    /// Median of the last turns.
    pub ms: f64,
}

/// What was found about one store.
pub(crate) struct GrownThreadResult {
    pub marks: Vec<ThreadSizeMark>,
    /// What the store takes before anything is in it.
    pub empty_bytes: u64,
    /// Milliseconds a turn at the end of the long thread, and on short threads measured in turns with it.
    pub late: f64,
    pub early: f64,
    /// Milliseconds of the first turn on the long thread by a runtime that knows nothing of it.
    pub cold: f64,
    /// Waits for the disk a turn, where they are counted.
    pub syncs: Option<f64>,
}

/// Lets a thread grow to the last of `marks`. Short threads lie in a store of their own, so that the bytes of the
/// long one are its own.
pub(crate) async fn grow_thread(
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
    marks: &[usize],
) -> Result<Option<GrownThreadResult>, EngineBenchError> {
    let (Some(opened), Some(other)) = (ground.open(kind).await?, ground.open(kind).await?) else {
        return Ok(None);
    };
    let texts = EngineBenchTexts::new();
    let other_chats = EngineBenchChats::open(other.store.clone(), &texts)?;
    let mut short = other_chats.new_conversation("warm")?;
    for _ in 0..MEDIAN_TURNS {
        other_chats.run_turn(&mut short).await?;
    }

    let chats = EngineBenchChats::open(opened.store.clone(), &texts)?;
    let empty_bytes = opened.location.bytes_on_disk().await?;
    let mut long = chats.new_conversation("long")?;
    let most = marks.last().copied().unwrap_or_default();
    let (mut walls, mut early, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    while long.turns < most {
        walls.push(chats.run_turn(&mut long).await?);
        if most - long.turns < COMPARED_TURNS {
            if early.len() % MEDIAN_TURNS == 0 {
                short = other_chats.new_conversation(&format!("short{}", early.len()))?;
            }
            early.push(other_chats.run_turn(&mut short).await?);
        }
        if marks.contains(&long.turns) {
            let (bytes, ms) = (opened.location.bytes_on_disk().await?, median_of_last(&walls, MEDIAN_TURNS));
            seen.push(ThreadSizeMark { turns: long.turns, bytes, ms });
        }
    }
    let late = median_of_last(&walls, COMPARED_TURNS);
    let syncs = opened.sqlite.as_ref().map(|store| store.syncs() as f64 / walls.len().max(1) as f64);
    chats.close().await;
    drop((opened.store, opened.sqlite));

    let chats = EngineBenchChats::open(opened.location.reopen().await?, &texts)?;
    let cold = chats.run_turn(&mut long).await?;
    chats.close().await;
    opened.location.clear().await?;
    other_chats.close().await;
    other.clear().await?;
    let early = median(early).unwrap_or_default();
    Ok(Some(GrownThreadResult { marks: seen, empty_bytes, late, early, cold, syncs }))
}

/// Messages of a conversation that is loaded cold.
pub(crate) const COLD_MESSAGES: usize = 32_000;
/// Characters of each. What is measured is how the cost grows with their number.
const COLD_MESSAGE_CHARS: usize = 20;
const COLD_MESSAGES_PER_RUN: usize = 500;
const COLD_LOADS: usize = 7;

/// Milliseconds of the clock and of the processor to read the state of a conversation of many messages, each time by a
/// runtime that knows nothing of it.
pub(crate) async fn load_cold_thread(
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
) -> Result<Option<(Vec<f64>, Vec<f64>)>, EngineBenchError> {
    let Some(opened) = ground.open(kind).await? else { return Ok(None) };
    let texts = EngineBenchTexts::new();
    let chats = EngineBenchChats::open(opened.store.clone(), &texts)?;
    let thread = ThreadKey::local("long")?;
    let mut written = 0;
    while written < COLD_MESSAGES {
        // The node adds an answer.
        let count = COLD_MESSAGES_PER_RUN.min(COLD_MESSAGES - written) - 1;
        let message = |_| EngineBenchMessage {
            id: texts.next(32),
            role: EngineBenchRole::User,
            text: texts.next(COLD_MESSAGE_CHARS),
        };
        let input = (0..count).map(message).collect::<Vec<_>>();
        match chats.bot.run(&thread, EngineBenchChatState::update().messages(input)).await? {
            Outcome::Finished(chat) => written = chat.messages.len(),
            Outcome::Paused(_) => return Err("the run waits for somebody".into()),
        }
    }
    chats.close().await;
    drop((opened.store, opened.sqlite));
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..COLD_LOADS {
        let chats = EngineBenchChats::open(opened.location.reopen().await?, &texts)?;
        let (bot, thread) = (chats.bot.clone(), thread.clone());
        let (begun, cpu_before) = (Instant::now(), process_cpu_time());
        let messages = tokio::spawn(async move { bot.state(&thread).await.map(|chat| chat.messages.len()) });
        let messages = messages.await??;
        walls.push(begun.elapsed().as_secs_f64() * 1e3);
        cpus.push((process_cpu_time() - cpu_before).as_secs_f64() * 1e3);
        if messages != COLD_MESSAGES {
            return Err(format!("{messages} messages were loaded").into());
        }
        chats.close().await;
    }
    opened.location.clear().await?;
    Ok(Some((walls, cpus)))
}

fn median_of_last(walls: &[f64], count: usize) -> f64 {
    median(walls[walls.len().saturating_sub(count)..].to_vec()).unwrap_or_default()
}

/// The graph on a store.
struct EngineBenchChats {
    runtime: Runtime,
    bot: GraphHandle<EngineBenchChatState>,
    texts: EngineBenchTexts,
}

/// A thread and how far it is.
struct EngineBenchConversation {
    thread: ThreadKey,
    turns: usize,
}

impl EngineBenchChats {
    fn open(store: Arc<dyn Store>, texts: &EngineBenchTexts) -> Result<Self, EngineBenchError> {
        let runtime = Runtime::new(store);
        let bot = runtime.register_graph("chat", &graph(texts)?)?;
        Ok(Self { runtime, bot, texts: texts.clone() })
    }

    fn new_conversation(&self, name: &str) -> Result<EngineBenchConversation, EngineBenchError> {
        Ok(EngineBenchConversation { thread: ThreadKey::local(name)?, turns: 0 })
    }

    /// One question and its answer, in milliseconds.
    async fn run_turn(&self, talk: &mut EngineBenchConversation) -> Result<f64, EngineBenchError> {
        let question = EngineBenchMessage {
            id: self.texts.next(32),
            role: EngineBenchRole::User,
            text: self.texts.next(MESSAGE_CHARS),
        };
        let (bot, thread) = (self.bot.clone(), talk.thread.clone());
        let begun = Instant::now();
        let run = tokio::spawn(async move {
            match bot.run(&thread, EngineBenchChatState::update().messages(vec![question])).await {
                Ok(Outcome::Finished(chat)) => Ok(chat.messages.len()),
                Ok(Outcome::Paused(_)) => Err(EngineBenchError::from("the run waits for somebody")),
                Err(error) => Err(error.into()),
            }
        });
        let messages = run.await??;
        let wall = begun.elapsed();
        talk.turns += 1;
        if messages != 2 * talk.turns {
            let turns = talk.turns;
            return Err(format!("the thread holds {messages} messages after {turns} turns").into());
        }
        Ok(wall.as_secs_f64() * 1e3)
    }

    async fn close(self) {
        self.runtime.shutdown(Duration::from_secs(5)).await;
    }
}
