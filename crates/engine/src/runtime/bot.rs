//! Typed handles: a graph with its state type, and one of its runs.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::watch;

use crate::drive;
use crate::error::EngineError;
use crate::id::{RunId, RunKey, ThreadKey};
use crate::log::{self, Question};
use crate::runtime::hosted::{AnyGraph, Hosted};
use crate::runtime::work::Active;
use crate::runtime::{Event, Runtime, StartOptions, Until, Watch};
use crate::state::{Snap, State};
use crate::store::{EntryKind, RunFailure, RunRow, Seq, Status};

/// How a run came to rest in this process.
#[derive(Clone)]
pub(crate) enum RunRest {
    Finished(Arc<dyn Any + Send + Sync>, Option<Arc<RunRow>>),
    Paused(Vec<Question>),
    Failed(RunFailure),
    Cancelled,
    Left(String),
}

/// A registered graph with its state type.
pub struct Bot<S: State> {
    runtime: Runtime,
    hosted: Arc<Hosted<S>>,
}

impl<S: State> Clone for Bot<S> {
    fn clone(&self) -> Self {
        Self { runtime: self.runtime.clone(), hosted: self.hosted.clone() }
    }
}

/// How a run came to rest.
#[derive(Debug)]
pub enum Outcome<S> {
    /// It ended, with this state.
    Finished(Snap<S>),
    /// It waits for answers.
    Paused(Vec<Question>),
}

impl<S: State> Bot<S> {
    pub(super) fn new(runtime: Runtime, hosted: Arc<Hosted<S>>) -> Self {
        Self { runtime, hosted }
    }

    /// The runtime it runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Starts a run. When this returns the input is on disk.
    pub async fn start(&self, thread: &ThreadKey, input: S::Update) -> Result<RunHandle, EngineError> {
        self.start_with(thread, Some(input), StartOptions::default()).await
    }

    /// Starts a run with options. Without input it goes on from where the thread (or `options.from`) stands.
    pub async fn start_with(
        &self,
        thread: &ThreadKey,
        input: Option<S::Update>,
        options: StartOptions,
    ) -> Result<RunHandle, EngineError> {
        let name = &self.hosted.name;
        let bad = |source| EngineError::BadInput { graph: name.clone(), source };
        let input = input.map(|input| to_raw_value(&input)).transpose().map_err(bad)?;
        // It is read from the log from now on, so it must read back: a number that is none (NaN) does not.
        if let Some(input) = &input {
            self.hosted.check_update(input).map_err(bad)?;
        }
        let hosted: Arc<dyn AnyGraph> = self.hosted.clone();
        self.runtime.submit(name, &hosted, thread, input, options).await
    }

    /// The run of a thread that is running or paused, if there is one.
    pub async fn active(&self, thread: &ThreadKey) -> Result<Option<RunHandle>, EngineError> {
        self.runtime.active(thread).await
    }

    /// Starts a run and waits until it rests.
    pub async fn run(&self, thread: &ThreadKey, input: S::Update) -> Result<Outcome<S>, EngineError> {
        let run = self.start(thread, input).await?;
        self.outcome(&run).await
    }

    /// Goes on with a thread, whatever became of it, and waits until it rests. A run that waits for an answer gets this
    /// one, if there is one; a run under way is waited for, also one that a process left when it died; a thread
    /// without either gets a new run with `input`. An answer that nobody waited for when this was called is not used.
    ///
    /// It lets this process take up runs that nobody works on ([`Runtime::work`]), so register all graphs before.
    pub async fn go_on(
        &self,
        thread: &ThreadKey,
        input: S::Update,
        answer: Option<impl Serialize>,
    ) -> Result<Outcome<S>, EngineError> {
        let waits = self.active(thread).await?.is_some() && !self.runtime.questions(thread).await?.is_empty();
        self.runtime.work().await?;
        match (self.active(thread).await?, answer) {
            (Some(_), Some(answer)) if waits => self.resume(thread, answer).await,
            (Some(run), _) => self.outcome(&run).await,
            (None, _) => self.run(thread, input).await,
        }
    }

    /// Answers the only open question of a thread and waits until the run rests again.
    pub async fn resume(
        &self,
        thread: &ThreadKey,
        answer: impl Serialize,
    ) -> Result<Outcome<S>, EngineError> {
        let questions = self.runtime.questions(thread).await?;
        let [(run, question)] = questions.as_slice() else {
            let message = match questions.len() {
                0 => format!("thread `{}` waits for no answer", thread.thread),
                n => format!("thread `{}` has {n} open questions: answer them by id", thread.thread),
            };
            return Err(EngineError::NotPaused(message));
        };
        let bad = |source| EngineError::BadInput { graph: self.hosted.name.clone(), source };
        let answer = serde_json::to_value(answer).map_err(bad)?;
        let answers = BTreeMap::from([(question.id.clone(), answer)]);
        let run = self.runtime.answer(run, &answers).await?;
        self.outcome(&run).await
    }

    /// Waits until a run rests: ended, paused, failed or cancelled.
    pub async fn outcome(&self, run: &RunHandle) -> Result<Outcome<S>, EngineError> {
        match run.rest().await? {
            RunRest::Finished(state, _) => match state.downcast::<S>() {
                Ok(state) => Ok(Outcome::Finished(Snap(state))),
                Err(_) => {
                    // The thread may have gone on since: the state is the one at the run's last entry.
                    let row = self.runtime.0.store.run(&run.key()).await?;
                    Ok(Outcome::Finished(self.state_at(&run.thread, row.last_seq).await?))
                }
            },
            RunRest::Paused(asks) => Ok(Outcome::Paused(asks)),
            RunRest::Failed(failure) => Err(EngineError::Failed(failure)),
            RunRest::Cancelled => Err(EngineError::Cancelled),
            RunRest::Left(reason) => Err(EngineError::Left(reason)),
        }
    }

    /// The newest state of a thread.
    pub async fn state(&self, thread: &ThreadKey) -> Result<Snap<S>, EngineError> {
        self.state_at(thread, None).await
    }

    /// The state after entry `at`.
    pub async fn state_at(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<Snap<S>, EngineError> {
        let loaded = self.runtime.0.store.load(thread, at).await?;
        Ok(Snap(drive::rebuild(&self.hosted.core, &loaded)?.state))
    }
}

/// A run, wherever it is driven.
pub struct RunHandle {
    runtime: Runtime,
    thread: ThreadKey,
    run: RunId,
    rest: Option<watch::Receiver<Option<RunRest>>>,
}

impl RunHandle {
    pub(super) fn local(runtime: Runtime, row: &RunRow, active: &Active) -> Self {
        Self { runtime, thread: row.thread.clone(), run: row.run, rest: Some(active.rest.subscribe()) }
    }

    pub(super) fn away(runtime: Runtime, row: &RunRow) -> Self {
        Self { runtime, thread: row.thread.clone(), run: row.run, rest: None }
    }

    /// Its id.
    pub fn id(&self) -> RunId {
        self.run
    }

    /// Its key.
    pub fn key(&self) -> RunKey {
        self.thread.run(self.run)
    }

    /// Its thread.
    pub fn thread(&self) -> &ThreadKey {
        &self.thread
    }

    /// Watches it from the beginning until it rests.
    pub async fn watch(&self) -> Result<Watch, EngineError> {
        self.runtime.watch(&self.key(), 0, Until::Rest).await
    }

    /// Waits until it rests and tells where it stands.
    pub async fn wait(&self) -> Result<RunRow, EngineError> {
        match self.rest().await? {
            // Nothing more happens to it.
            RunRest::Finished(_, Some(row)) => Ok(Arc::unwrap_or_clone(row)),
            _ => Ok(self.runtime.0.store.run(&self.key()).await?),
        }
    }

    /// The state that the run ended with, read by `graph`, if it ended well and this process still has it at hand.
    /// Without it the log has it: [`Runtime::view`].
    pub fn final_state(&self, graph: &str) -> Option<Value> {
        let rest = self.rest.as_ref()?.borrow();
        match rest.as_ref()? {
            RunRest::Finished(state, _) => self.runtime.0.graph(graph).ok()?.show(&**state),
            RunRest::Paused(_) | RunRest::Failed(_) | RunRest::Cancelled | RunRest::Left(_) => None,
        }
    }

    pub(crate) async fn rest(&self) -> Result<RunRest, EngineError> {
        if let Some(rest) = &self.rest {
            let mut rest = rest.clone();
            // An error means that the task ended without a word; the log says how then.
            let known = rest.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
            match known {
                // The worker may have lost the run just after it wrote its end.
                Some(RunRest::Left(reason)) => {
                    let row = self.runtime.0.store.run(&self.key()).await?;
                    let rests = row.status.is_end() || row.status == Status::Paused;
                    return if rests { self.rest_in_log().await } else { Ok(RunRest::Left(reason)) };
                }
                Some(known) => return Ok(known),
                None => {}
            }
        }
        self.rest_in_log().await
    }

    /// How the run rests, by its log. For runs of other processes and of earlier lives of this one.
    async fn rest_in_log(&self) -> Result<RunRest, EngineError> {
        let mut watch = self.watch().await?;
        let mut questions = Vec::new();
        while let Some(event) = watch.next().await? {
            if let Event::Entry(_, entry) = event
                && entry.kind == EntryKind::Paused
            {
                questions = serde_json::from_slice::<log::Paused>(&entry.body)
                    .map(|paused| paused.asks)
                    .unwrap_or_default();
            }
        }
        let row = self.runtime.0.store.run(&self.key()).await?;
        Ok(match row.status {
            Status::Finished => RunRest::Finished(Arc::new(()), Some(Arc::new(row))),
            Status::Paused => RunRest::Paused(questions),
            Status::Cancelled => RunRest::Cancelled,
            Status::Failed => RunRest::Failed(row.error.unwrap_or(RunFailure {
                code: crate::failure::NODE_FAILED.into(),
                message: "the run failed".into(),
            })),
            Status::Queued | Status::Running => RunRest::Left("it is still running".into()),
        })
    }
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunHandle({} on {})", self.run, self.thread)
    }
}

impl<S> Outcome<S> {
    /// The state, when the run ended.
    pub fn finished(self) -> Option<Snap<S>> {
        match self {
            Self::Finished(state) => Some(state),
            Self::Paused(_) => None,
        }
    }

    /// What is asked, when the run waits.
    pub fn questions(&self) -> Vec<Value> {
        match self {
            Self::Finished(_) => Vec::new(),
            Self::Paused(asks) => asks.iter().map(|ask| ask.question.clone()).collect(),
        }
    }
}
