//! One conversation that grows: what it takes on disk, and whether its turns stay as fast as they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doran_engine::store::Store;
use doran_engine::{Bot, Cx, Graph, Keyed, NodeError, Nodes, Outcome, Runtime, Snap, State, ThreadKey, node};
use serde::{Deserialize, Serialize};

use crate::Fail;
use crate::homes::{Ground, Home};
use crate::times::median;

/// Characters of one message.
const MESSAGE: usize = 1024;
/// Bytes that people and models wrote in one turn.
pub(crate) const TURN: u64 = 2 * MESSAGE as u64;
/// Turns whose median is shown.
const LAST: usize = 10;
/// Turns of the long thread that are measured in turns with those of short ones.
const COMPARED: usize = 30;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reduce(by_id)]
    messages: Vec<Message>,
    prepared: usize,
    finished: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Message {
    id: String,
    role: Role,
    text: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

impl Keyed for Message {
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
struct Texts(Arc<AtomicU64>);

impl Texts {
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

fn graph(texts: &Texts) -> Result<Graph<Chat>, Fail> {
    let graph = Graph::define(|step| match step {
        Step::Prepare => node(|chat: Snap<Chat>| async move {
            Ok::<_, NodeError>(Chat::update().prepared(chat.messages.len()))
        })
        .then(Step::Answer),
        Step::Answer => {
            let texts = texts.clone();
            node(move |_: Snap<Chat>, cx: Cx| {
                let answer = Message { id: cx.new_id(), role: Role::Assistant, text: texts.next(MESSAGE) };
                async move { Ok::<_, NodeError>(Chat::update().messages(vec![answer])) }
            })
            .then(Step::Finish)
        }
        Step::Finish => node(|chat: Snap<Chat>| async move {
            Ok::<_, NodeError>(Chat::update().finished(chat.messages.len()))
        })
        .end(),
    });
    Ok(graph.start(Step::Prepare).build()?)
}

/// A conversation after so many turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub turns: usize,
    pub bytes: u64,
    /// Median of the last turns.
    pub ms: f64,
}

/// What was found about one store.
pub(crate) struct Grown {
    pub marks: Vec<Mark>,
    /// Milliseconds a turn at the end of the long thread, and on short threads measured in turns with it.
    pub late: f64,
    pub early: f64,
    /// Milliseconds of the first turn on the long thread by a runtime that knows nothing of it.
    pub cold: f64,
}

/// Lets a thread grow to the last of `marks`. Short threads lie in a store of their own, so that the bytes of the
/// long one are its own.
pub(crate) async fn grow(home: Home, ground: &Ground, marks: &[usize]) -> Result<Option<Grown>, Fail> {
    let (Some(opened), Some(other)) = (ground.open(home).await?, ground.open(home).await?) else {
        return Ok(None);
    };
    let texts = Texts::new();
    let other_chats = Chats::open(other.store.clone(), &texts)?;
    let mut short = other_chats.talk("warm")?;
    for _ in 0..LAST {
        other_chats.turn(&mut short).await?;
    }

    let chats = Chats::open(opened.store.clone(), &texts)?;
    let mut long = chats.talk("long")?;
    let most = marks.last().copied().unwrap_or_default();
    let (mut walls, mut early, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    while long.turns < most {
        walls.push(chats.turn(&mut long).await?);
        if most - long.turns < COMPARED {
            if early.len() % LAST == 0 {
                short = other_chats.talk(&format!("short{}", early.len()))?;
            }
            early.push(other_chats.turn(&mut short).await?);
        }
        if marks.contains(&long.turns) {
            let (bytes, ms) = (opened.place.bytes().await?, last(&walls, LAST));
            seen.push(Mark { turns: long.turns, bytes, ms });
        }
    }
    let late = last(&walls, COMPARED);
    chats.close().await;
    drop(opened.store);

    let chats = Chats::open(opened.place.reopen().await?, &texts)?;
    let cold = chats.turn(&mut long).await?;
    chats.close().await;
    opened.place.clear().await?;
    other_chats.close().await;
    other.clear().await?;
    Ok(Some(Grown { marks: seen, late, early: median(early).unwrap_or_default(), cold }))
}

fn last(walls: &[f64], count: usize) -> f64 {
    median(walls[walls.len().saturating_sub(count)..].to_vec()).unwrap_or_default()
}

/// The graph on a store.
struct Chats {
    runtime: Runtime,
    bot: Bot<Chat>,
    texts: Texts,
}

/// A thread and how far it is.
struct Talk {
    thread: ThreadKey,
    turns: usize,
}

impl Chats {
    fn open(store: Arc<dyn Store>, texts: &Texts) -> Result<Self, Fail> {
        let runtime = Runtime::new(store);
        let bot = runtime.graph("chat", &graph(texts)?)?;
        Ok(Self { runtime, bot, texts: texts.clone() })
    }

    fn talk(&self, name: &str) -> Result<Talk, Fail> {
        Ok(Talk { thread: ThreadKey::local(name)?, turns: 0 })
    }

    /// One question and its answer, in milliseconds.
    async fn turn(&self, talk: &mut Talk) -> Result<f64, Fail> {
        let question = Message { id: self.texts.next(32), role: Role::User, text: self.texts.next(MESSAGE) };
        let (bot, thread) = (self.bot.clone(), talk.thread.clone());
        let begun = Instant::now();
        let run = tokio::spawn(async move {
            match bot.run(&thread, Chat::update().messages(vec![question])).await {
                Ok(Outcome::Finished(chat)) => Ok(chat.messages.len()),
                Ok(Outcome::Paused(_)) => Err(Fail::from("the run waits for somebody")),
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
