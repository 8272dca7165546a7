//! Errors, sorted by who reads them: a node's author, a graph's author, the caller of a run.

use std::borrow::Cow;
use std::fmt;

use crate::id::{InvalidId, ThreadId};
use crate::store::{BoxError, RunFailure, StoreError};
use crate::stored_json::TooDeep;

/// What a node answers when it has no update. Any error turns into a permanent one by `?`.
///
/// Like `anyhow::Error` it does not implement [`std::error::Error`] itself, so that `?` works on everything that does.
pub struct NodeError {
    pub(crate) kind: NodeErrorKind,
    pub(crate) code: Option<Cow<'static, str>>,
    pub(crate) source: BoxError,
}

#[derive(Debug)]
pub(crate) enum NodeErrorKind {
    /// May go away: the node is tried again, if its policy allows.
    Transient,
    /// Will come again.
    Permanent,
    /// As permanent, and what was to be done was not done.
    NotDone,
    /// The task waits for an answer.
    Paused,
    /// The run is being cancelled.
    Cancelled,
    /// A limit of the run was reached.
    Limit,
    /// A recorded call could not be written.
    Store,
}

impl NodeError {
    /// An error that may go away when tried again.
    pub fn transient(source: impl Into<BoxError>) -> Self {
        Self::with_kind(NodeErrorKind::Transient, source)
    }

    /// An error that trying again will not cure.
    pub fn permanent(source: impl Into<BoxError>) -> Self {
        Self::with_kind(NodeErrorKind::Permanent, source)
    }

    /// A permanent error that also says: what was to be done **did not happen**. Only this lets
    /// [`Cx::effect_at_most_once`] believe
    /// that; any other error leaves it open.
    ///
    /// [`Cx::effect_at_most_once`]: crate::Cx::effect_at_most_once
    pub fn not_done(source: impl Into<BoxError>) -> Self {
        Self::with_kind(NodeErrorKind::NotDone, source)
    }

    /// The same with a code that stands for it wherever the run's failure is kept or shown. It outlives the sentence,
    /// so that nobody has to look for words in that. Without one the run fails with
    /// [`NODE_FAILED`](crate::failure::NODE_FAILED).
    #[must_use]
    pub fn with_code(self, code: impl Into<Cow<'static, str>>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// The code it was given.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, NodeErrorKind::Transient)
    }

    /// Whether the node waits for an answer. Pass such an error on; the engine handles it.
    pub fn is_paused(&self) -> bool {
        matches!(self.kind, NodeErrorKind::Paused)
    }

    /// What went wrong underneath.
    pub fn source(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }

    pub(crate) fn with_kind(kind: NodeErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, code: None, source: source.into() }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for NodeError {
    fn from(source: E) -> Self {
        Self::permanent(source)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(&*self.source))
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, error_chain(&*self.source))
    }
}

/// An error and its sources, in one line.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = source.source();
    }
    text
}

/// Why a graph could not be built. Each names the node it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// An edge points nowhere.
    #[error("node `{from}` leads to `{to}`, which is not a node of this graph")]
    UnknownTarget {
        /// Where the edge starts.
        from: String,
        /// What it names.
        to: String,
    },
    /// The graph starts nowhere.
    #[error("the graph starts at `{0}`, which is not a node of it")]
    UnknownStart(String),
    /// One node was named as the start twice.
    #[error("the graph starts at `{0}` twice")]
    StartTwice(String),
    /// A node that chooses where to go has a cache, which keeps no choice.
    #[error("node `{0}` chooses where to go, so its result cannot be cached")]
    CachedGoto(String),
    /// A join is to handle the errors of a node.
    #[error(
        "node `{node}` hands its errors to join `{join}`, which waits for several nodes: put a node between them"
    )]
    JoinHandlesErrors {
        /// The node.
        node: String,
        /// The join.
        join: String,
    },
    /// No node was named as the start.
    #[error("the graph has no start: name a node with `.start(…)`")]
    NoStart,
    /// No nodes at all.
    #[error("the graph has no nodes")]
    Empty,
    /// Two nodes with one name.
    #[error("two nodes are called `{0}`")]
    Duplicate(String),
    /// A node with the name of an end.
    #[error("a node cannot be called `{0}`: that is an end of every graph")]
    Reserved(String),
    /// A node that no edge leads to.
    #[error("nothing leads to node `{0}`")]
    Unreachable(String),
    /// A join waits for a node that never points to it.
    #[error("join `{join}` waits for `{missing}`, which does not lead to it")]
    JoinWithoutEdge {
        /// The join.
        join: String,
        /// The node it waits for.
        missing: String,
    },
    /// A node points to a join that does not wait for it.
    #[error("node `{from}` leads to join `{join}`, which does not wait for it")]
    JoinUnaware {
        /// The node.
        from: String,
        /// The join.
        join: String,
    },
    /// A retry policy whose factor is negative or not a finite number.
    #[error("node `{node}` has a retry policy with the factor {factor}")]
    BadRetryFactor {
        /// The node.
        node: String,
        /// The factor, as text.
        factor: String,
    },
    /// Too many graphs are inside each other.
    #[error(
        "with the graph in node `{0}`, more than {max} graphs are inside each other",
        max = crate::graph::MAX_NESTED_GRAPHS
    )]
    TooManyNested(String),
    /// More nodes than a graph can have.
    #[error("a graph has at most 65535 nodes")]
    TooMany,
}

/// Why a call to the engine failed: the store, the call itself, or the run it waited for.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The call was wrong. Trying it again will not help.
    #[error(transparent)]
    Misuse(#[from] MisuseError),
    /// The call was right, and the run did not end well.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What is stored does not fit the state type any more.
    #[error("entry {seq} does not fit the graph and its state: {reason}")]
    StateMismatch {
        /// The entry.
        seq: u64,
        /// Where and why.
        reason: StateMismatchReason,
    },
    /// The runtime takes no more runs: it is shutting down.
    #[error("the runtime stopped: {0}")]
    Stopped(String),
}

/// Why an entry does not fit the state type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateMismatchReason {
    /// The entry has a field that the state does not have (any more). A field that was renamed keeps its old name with
    /// `#[serde(alias = "…")]`. One that is not used any more has to stay in the state as long as threads hold it.
    #[error("the state has no field `{0}`")]
    UnknownField(String),
    /// The entry cannot be read, or what it holds does not fit.
    #[error("{0}")]
    Unreadable(String),
}

impl From<InvalidId> for EngineError {
    fn from(error: InvalidId) -> Self {
        MisuseError::BadId(error).into()
    }
}

/// What is wrong with a call.
#[derive(Debug, thiserror::Error)]
pub enum MisuseError {
    /// A schedule makes no sense, or cannot be stored.
    #[error("the schedule: {0}")]
    BadSchedule(String),
    /// A schedule in a time zone that there is not.
    #[error("`{0}` is not a time zone: use a name such as `Asia/Seoul`")]
    BadTimeZone(String),
    /// A run must not begin now, by the word of the [`RunGate`](crate::runtime::RunGate).
    #[error("the run must not begin: {}", .0.message)]
    NotAdmitted(RunFailure),
    /// The context of a run cannot be stored.
    #[error("the context of the run: {0}")]
    BadContext(String),
    /// A name breaks the rules.
    #[error(transparent)]
    BadId(#[from] InvalidId),
    /// No graph of that name was registered.
    #[error("there is no graph called `{0}`")]
    UnknownGraph(String),
    /// A run of a graph that was registered when it was accepted, and is not any more.
    #[error(
        "the run needs the graph `{0}`, which this program does not have; register it again, or cancel the run"
    )]
    GraphOfRunMissing(String),
    /// Two graphs of one name.
    #[error("a graph called `{0}` is registered already")]
    GraphExists(String),
    /// A node that is not in the graph.
    #[error("graph `{graph}` has no node `{node}`")]
    UnknownNode {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
    },
    /// A task with an input of its own for a node that waits for others and runs once.
    #[error("node `{node}` waits for other nodes and runs once: it takes no input of its own")]
    InputForJoin {
        /// The node.
        node: String,
    },
    /// The input does not fit the state.
    #[error("the input does not fit the state of `{graph}`: {source}")]
    BadInput {
        /// The graph.
        graph: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// An answer for a thread that asks nothing.
    #[error("thread `{0}` waits for no answer")]
    NoOpenQuestion(ThreadId),
    /// One answer for a thread that asks several things.
    #[error("thread `{thread}` has {count} open questions: answer them by id")]
    SeveralOpenQuestions {
        /// The thread.
        thread: ThreadId,
        /// How many.
        count: usize,
    },
    /// An answer that cannot be stored.
    #[error("the answer to `{question}` cannot be stored: {source}")]
    BadAnswer {
        /// The question.
        question: String,
        /// Why.
        source: TooDeep,
    },
    /// No question has such an id.
    #[error("`{0}` is not the id of a question")]
    BadQuestionId(String),
}

/// Why a run gave no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It failed.
    #[error("run failed ({}): {}", .0.code, .0.message)]
    Failed(RunFailure),
    /// It was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// It went to another worker, or this process is shutting down.
    #[error("the run left this process: {0}")]
    Left(String),
    /// A node asked a question in a run without a store.
    #[error("node `{node}` asks a question, and there is no store to wait in")]
    AskedWithoutStore {
        /// The node.
        node: String,
    },
}
