//! What the driver and a victim say to each other: one JSON object a line, on the victim's standard input and output.
//!
//! A line that was written is in the kernel and outlives the victim, so whatever the victim wrote before it was
//! killed is heard.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a run does at one place of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// A call that may be repeated.
    Read,
    /// A call that carries the same key on every attempt.
    Post,
    /// A call that must not happen twice.
    Pay,
    /// One of each, in this order.
    Mix,
    /// A call, and then a question.
    Ask,
    /// Three tasks side by side.
    Fan,
    /// Three tasks side by side, one of which asks.
    FanAsk,
    /// A graph of its own with two steps.
    Sub,
    /// Overwrites a long text, so that snapshots become worth writing.
    Bulk,
}

/// From the driver to a victim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToVictim {
    /// Do this and answer under `id`.
    Do { id: u64, what: VictimRequest },
    /// The call `id` is done.
    Called { id: u64 },
}

/// A request to a victim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimRequest {
    Start(VictimStartRequest),
    Answer {
        run: String,
        answers: BTreeMap<String, Value>,
    },
    Cancel {
        run: String,
    },
    Watch {
        run: String,
        after: u64,
    },
    Questions {
        thread: String,
    },
    /// Waits until every run of these threads rests, and names those that do not.
    Rest {
        threads: Vec<String>,
        ms: u64,
    },
    Dump {
        thread: String,
    },
    Delete {
        thread: String,
    },
    /// Reads the whole store and looks for damage.
    Whole,
    /// Ends in an orderly way.
    Leave,
}

/// A run to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VictimStartRequest {
    pub thread: String,
    /// Unique to the run; kept in its state and its metadata.
    pub token: String,
    pub plan: Vec<PlannedAction>,
    /// 0 reject, 1 enqueue, 2 interrupt, 3 rollback.
    pub if_busy: u8,
    pub key: Option<String>,
    /// Bytes of text to carry along.
    pub load: usize,
    /// Whether the client waits for the rest of the run, and is told of it then.
    pub waits: bool,
}

/// From a victim to the driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromVictim {
    /// The store is open and runs are taken up.
    Ready,
    Answer {
        id: u64,
        answer: Result<Value, VictimRefusal>,
    },
    /// A node did something to the world. `call` waits for [`ToVictim::Called`].
    Call(ExternalCall),
    /// A watcher was shown an entry.
    Seen(ObservedEntry),
    /// A waiter for a run saw how it rests.
    Rested(ObservedOutcome),
    /// A write has an unknown outcome: the process ends.
    Trouble {
        why: String,
    },
}

/// Something a node did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExternalCall {
    pub call: Option<u64>,
    pub thread: String,
    pub token: String,
    /// The task: place in the plan and item.
    pub task: String,
    pub class: ExternalCallKind,
    /// Order of the call within its task.
    pub nth: u32,
    /// The key the outside knows the call by.
    pub key: String,
    /// The state the node saw: how many links, and their hash.
    pub links: usize,
    pub hash: String,
    /// A power failure may have taken the state it saw, and it may be done again.
    #[serde(skip)]
    pub may_be_lost: bool,
}

/// Kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalCallKind {
    Read,
    Post,
    Pay,
    /// The task came to its end.
    Done,
}

/// An entry that a watcher was shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObservedEntry {
    /// Names the watcher, within one process of the victim.
    pub watch: u64,
    pub run: String,
    pub number: u64,
    pub seq: u64,
    pub kind: String,
    pub digest: String,
    /// The links that the entry added to the state.
    pub links: Vec<String>,
}

/// How a run rests, as a waiter saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedOutcome {
    pub thread: String,
    pub run: String,
    /// The kind of the entry that tells of it.
    pub kind: String,
    /// The questions of a run that waits.
    pub questions: Vec<String>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VictimRefusal {
    pub code: String,
    pub message: String,
}

/// A thread with all it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadDump {
    pub head: u64,
    pub entries: Vec<ThreadDumpEntry>,
    pub runs: Vec<ThreadDumpRun>,
    /// The newest state by the victim's own reading of the store.
    pub state: Value,
    pub questions: Vec<(String, Value)>,
}

impl ThreadDump {
    /// A thread that is not there.
    pub fn empty() -> Self {
        Self { head: 0, entries: Vec::new(), runs: Vec::new(), state: Value::Null, questions: Vec::new() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadDumpEntry {
    pub seq: u64,
    pub parent: u64,
    pub run: Option<String>,
    pub kind: String,
    pub digest: String,
    pub body: Value,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadDumpRun {
    pub run: String,
    pub token: String,
    pub status: String,
    /// The next worker will cancel it.
    pub cancel_asked: bool,
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub error: Option<String>,
}

/// The links in the body of a step.
pub fn links_in_step_body(body: &Value) -> Vec<String> {
    let tasks = body["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let links = tasks.iter().filter_map(|task| task["update"]["links"].as_array()).flatten();
    links.filter_map(|link| link.as_str().map(str::to_owned)).collect()
}

/// FNV-1a over parts, as text. Only equality matters here.
pub fn fnv1a_hex<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// The hash of a chain of links.
pub fn hash_links(links: &[String]) -> String {
    fnv1a_hex(links.iter().map(|link| link.as_bytes()))
}
