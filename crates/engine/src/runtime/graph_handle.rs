//! Typed handles: a graph with its state type, and one of its runs.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::watch;

use crate::drive;
use crate::entry::read_log_body;
use crate::error::{EngineError, MisuseError, RunError};
use crate::id::{RunId, RunKey, ThreadKey};
use crate::large_work::work_on_bytes;
use crate::log;
use crate::question::PendingQuestion;
use crate::runtime::live_feed::LiveFeed;
use crate::runtime::registered_graph::{AnyGraph, RegisteredGraph};
use crate::runtime::run_worker::ActiveRun;
use crate::runtime::watch::{WatchCursor, WatchedItem};
use crate::runtime::{Acknowledgement, RunWatch, Runtime, StartOptions, SubmittedRun, WatchUntil};
use crate::state::{Snap, State};
use crate::store::{CommitPosition, EntryKind, RunFailure, RunRow, RunStatus, Seq, StoreError};

/// How a run came to rest in this process.
#[derive(Clone)]
pub(crate) enum RunOutcome {
    Finished(Arc<dyn Any + Send + Sync>, Option<Arc<RunRow>>),
    Paused(Vec<PendingQuestion>),
    Failed(RunFailure),
    Cancelled,
    Left(String),
}

/// A registered graph with its state type.
pub struct GraphHandle<S: State> {
    runtime: Runtime,
    registered: Arc<RegisteredGraph<S>>,
}

impl<S: State> Clone for GraphHandle<S> {
    fn clone(&self) -> Self {
        Self { runtime: self.runtime.clone(), registered: self.registered.clone() }
    }
}

/// How a run came to rest.
#[derive(Debug)]
pub enum Outcome<S> {
    /// It ended, with this state.
    Finished(Snap<S>),
    /// It waits for answers.
    Paused(Vec<PendingQuestion>),
}

impl<S: State> GraphHandle<S> {
    pub(super) fn new(runtime: Runtime, registered: Arc<RegisteredGraph<S>>) -> Self {
        Self { runtime, registered }
    }

    /// The runtime it runs on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Starts a run. When this returns the input is on disk.
    pub async fn start(&self, thread: &ThreadKey, input: S::Update) -> Result<RunHandle, EngineError> {
        self.start_with(thread, Some(input), StartOptions::default()).await
    }

    /// Starts a run with options. Without input it goes on from where the thread (or `options.from`) stands. When this
    /// returns the input is on disk, unless [`StartOptions::acknowledge`] says otherwise.
    pub async fn start_with(
        &self,
        thread: &ThreadKey,
        input: Option<S::Update>,
        options: StartOptions,
    ) -> Result<RunHandle, EngineError> {
        Ok(self.submit(thread, input, options).await?.handle)
    }

    async fn submit(
        &self,
        thread: &ThreadKey,
        input: Option<S::Update>,
        options: StartOptions,
    ) -> Result<SubmittedRun, EngineError> {
        let name = &self.registered.name;
        let bad = |source| MisuseError::BadInput { graph: name.to_string(), source };
        let input = input.map(|input| to_raw_value(&input)).transpose().map_err(bad)?;
        // It is read from the log from now on, so it must read back: a number that is none (NaN) does not.
        if let Some(input) = &input {
            self.registered.check_update(input).map_err(bad)?;
        }
        let registered: Arc<dyn AnyGraph> = self.registered.clone();
        self.runtime.submit(name, &registered, thread, input, options).await
    }

    /// The run of a thread that is running or paused, if there is one.
    pub async fn active_run(&self, thread: &ThreadKey) -> Result<Option<RunHandle>, EngineError> {
        self.runtime.active_run(thread).await
    }

    /// Starts a run and waits until it rests. What it returns is on disk, and the input with it.
    ///
    /// The task that waits does the work. The run goes on without it: what is left when it stops waiting becomes a task.
    pub async fn run(&self, thread: &ThreadKey, input: S::Update) -> Result<Outcome<S>, EngineError> {
        let options = StartOptions { acknowledge: Acknowledgement::Rest, ..StartOptions::default() };
        let SubmittedRun { handle, driving } = self.submit(thread, Some(input), options).await?;
        if let Some(driving) = driving {
            driving.await;
        }
        self.wait_for_outcome(&handle).await
    }

    /// Goes on with a thread, whatever became of it, and waits until it rests. A run that waits for an answer gets this
    /// one, if there is one; a run under way is waited for, also one that a process left when it died; a thread
    /// without either gets a new run with `input`. An answer that nobody waited for when this was called is not used.
    ///
    /// It lets this process take up runs that nobody works on ([`Runtime::start_worker`]), so register all graphs before.
    pub async fn run_or_resume(
        &self,
        thread: &ThreadKey,
        input: S::Update,
        answer: Option<impl Serialize>,
    ) -> Result<Outcome<S>, EngineError> {
        let left = self.active_run(thread).await?;
        let waits = left.is_some() && !self.runtime.open_questions(thread).await?.is_empty();
        self.runtime.start_worker().await?;
        match (self.active_run(thread).await?, left, answer) {
            (Some(_), _, Some(answer)) if waits => self.resume(thread, answer).await,
            // A run that was left may have been taken up, or answered by somebody else, and have ended by now. Then its log
            // says how.
            (Some(run), ..) | (None, Some(run), _) => self.wait_for_outcome(&run).await,
            (None, None, _) => self.run(thread, input).await,
        }
    }

    /// Answers the only open question of a thread and waits until the run rests again.
    pub async fn resume(
        &self,
        thread: &ThreadKey,
        answer: impl Serialize,
    ) -> Result<Outcome<S>, EngineError> {
        let questions = self.runtime.open_questions(thread).await?;
        let [(run, question)] = questions.as_slice() else {
            let thread = thread.thread.clone();
            let misuse = match questions.len() {
                0 => MisuseError::NoOpenQuestion(thread),
                count => MisuseError::SeveralOpenQuestions { thread, count },
            };
            return Err(misuse.into());
        };
        let bad = |source| MisuseError::BadInput { graph: self.registered.name.to_string(), source };
        let answer = serde_json::to_value(answer).map_err(bad)?;
        let answers = BTreeMap::from([(question.id.clone(), answer)]);
        let run = self.runtime.answer(run, &answers).await?;
        self.wait_for_outcome(&run).await
    }

    /// Waits until a run rests: ended, paused, failed or cancelled.
    pub async fn wait_for_outcome(&self, run: &RunHandle) -> Result<Outcome<S>, EngineError> {
        match run.wait_for_run_outcome().await? {
            RunOutcome::Finished(state, _) => match state.downcast::<S>() {
                Ok(state) => Ok(Outcome::Finished(Snap(state))),
                Err(_) => {
                    // The thread may have gone on since: the state is the one at the run's last entry.
                    let row = self.runtime.0.store.run(&run.key()).await?;
                    Ok(Outcome::Finished(self.state_at(&run.thread, row.last_seq).await?))
                }
            },
            RunOutcome::Paused(asks) => Ok(Outcome::Paused(asks)),
            RunOutcome::Failed(failure) => Err(RunError::Failed(failure).into()),
            RunOutcome::Cancelled => Err(RunError::Cancelled.into()),
            RunOutcome::Left(reason) => Err(RunError::Left(reason).into()),
        }
    }

    /// The newest state of a thread.
    pub async fn state(&self, thread: &ThreadKey) -> Result<Snap<S>, EngineError> {
        self.state_at(thread, None).await
    }

    /// The state after entry `at`.
    pub async fn state_at(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<Snap<S>, EngineError> {
        let loaded = self.runtime.0.store.load(thread, at).await?;
        let bytes = loaded.byte_len();
        let (core, name) = (self.registered.core.clone(), self.registered.name.clone());
        let rebuild = move || drive::rebuild_thread_state(&core, &name, &loaded).map(|at| Snap(at.state));
        work_on_bytes(bytes, rebuild).await
    }
}

/// A run, wherever it is driven.
pub struct RunHandle {
    runtime: Runtime,
    thread: ThreadKey,
    run: RunId,
    outcome: Option<watch::Receiver<Option<RunOutcome>>>,
    /// What it shows, if it is driven here.
    live: Option<Arc<LiveFeed>>,
    /// Where its input is. The default is before everything: it was on disk when the handle was made.
    input: CommitPosition,
    is_repeated: bool,
}

impl RunHandle {
    pub(super) fn driven_here(runtime: Runtime, row: &RunRow, active: &ActiveRun) -> Self {
        Self {
            runtime,
            thread: row.thread.clone(),
            run: row.run,
            outcome: Some(active.outcome.subscribe()),
            live: Some(active.live.clone()),
            input: CommitPosition::default(),
            is_repeated: false,
        }
    }

    /// The handle of a run that was accepted just now, in this commit.
    pub(super) fn accepted_at(self, input: CommitPosition) -> Self {
        Self { input, ..self }
    }

    /// The handle of a run that an earlier call with the same idempotency key started.
    pub(super) fn of_earlier_call(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    pub(super) fn driven_elsewhere(runtime: Runtime, row: &RunRow) -> Self {
        Self {
            runtime,
            thread: row.thread.clone(),
            run: row.run,
            outcome: None,
            live: None,
            input: CommitPosition::default(),
            is_repeated: false,
        }
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

    /// Whether the start that gave this handle began no run, because an earlier one with its idempotency key had.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Waits until its input is on disk. Before that nobody may be told of a run that was started with
    /// [`Acknowledgement::Rest`], unless it rests.
    pub async fn wait_until_accepted(&self) -> Result<(), EngineError> {
        let rests = |rest: &RunOutcome| !matches!(rest, RunOutcome::Left(_));
        // The commit that says so is on disk, and with it everything before.
        if self.outcome.as_ref().is_some_and(|outcome| outcome.borrow().as_ref().is_some_and(rests)) {
            return Ok(());
        }
        Ok(self.runtime.wait_until_accepted(self.input).await?)
    }

    /// Watches it from the beginning until it rests.
    pub async fn watch(&self) -> Result<RunWatch, EngineError> {
        self.watch_after(0, WatchUntil::RunEndedOrPaused).await
    }

    /// Watches it after event number `after`. Also if it was quick, what it showed since this handle was made is seen, as
    /// far as it is still kept.
    pub async fn watch_after(&self, after: u64, until: WatchUntil) -> Result<RunWatch, EngineError> {
        let row = self.runtime.0.store.run(&self.key()).await?;
        Ok(RunWatch::with_live_feed(&self.runtime, &row, after, until, self.live.as_ref()))
    }

    /// Waits until it rests and tells where it stands.
    pub async fn wait(&self) -> Result<RunRow, EngineError> {
        match self.wait_for_run_outcome().await? {
            // Nothing more happens to it.
            RunOutcome::Finished(_, Some(row)) => Ok(Arc::unwrap_or_clone(row)),
            _ => Ok(self.runtime.0.store.run(&self.key()).await?),
        }
    }

    /// The state that the run ended with, read by `graph`, if it ended well and this process still has it at hand.
    /// Without it the log has it: [`Runtime::view`].
    pub fn final_state(&self, graph: &str) -> Option<Value> {
        let rest = self.outcome.as_ref()?.borrow();
        match rest.as_ref()? {
            RunOutcome::Finished(state, _) => self.runtime.0.find_graph(graph).ok()?.state_to_json(&**state),
            RunOutcome::Paused(_) | RunOutcome::Failed(_) | RunOutcome::Cancelled | RunOutcome::Left(_) => {
                None
            }
        }
    }

    pub(crate) async fn wait_for_run_outcome(&self) -> Result<RunOutcome, EngineError> {
        if let Some(rest) = &self.outcome {
            let mut rest = rest.clone();
            // An error means that the task ended without a word; the log says how then.
            let known = rest.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
            match known {
                // The worker may have lost the run just after it wrote its end.
                Some(RunOutcome::Left(reason)) => {
                    let row = self.runtime.0.store.run(&self.key()).await?;
                    let rests = row.status.is_end() || row.status == RunStatus::Paused;
                    return if rests { self.outcome_from_log().await } else { Ok(RunOutcome::Left(reason)) };
                }
                Some(known) => return Ok(known),
                None => {}
            }
        }
        self.outcome_from_log().await
    }

    /// How the run rests, by its log. For runs that other processes drove, or this one before it was restarted.
    async fn outcome_from_log(&self) -> Result<RunOutcome, EngineError> {
        let row = self.runtime.0.store.run(&self.key()).await?;
        let mut watch = WatchCursor::new(&self.runtime, &row, 0, WatchUntil::RunEndedOrPaused);
        let mut questions = Vec::new();
        while let Some(event) = watch.next().await? {
            if let WatchedItem::Entry(_, entry) = event
                && entry.kind == EntryKind::Paused
            {
                questions = read_log_body::<log::RunPausedEntry>(&entry)?.asks;
            }
        }
        let row = self.runtime.0.store.run(&self.key()).await?;
        Ok(match row.status {
            RunStatus::Finished => RunOutcome::Finished(Arc::new(()), Some(Arc::new(row))),
            RunStatus::Paused => RunOutcome::Paused(questions),
            RunStatus::Cancelled => RunOutcome::Cancelled,
            RunStatus::Failed => RunOutcome::Failed(row.error.ok_or_else(|| {
                StoreError::Damaged(format!("run `{}` failed and does not say why", row.run))
            })?),
            RunStatus::Queued | RunStatus::Running => RunOutcome::Left("it is still running".into()),
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

    /// The open questions, when the run waits.
    pub fn questions(&self) -> Vec<Value> {
        match self {
            Self::Finished(_) => Vec::new(),
            Self::Paused(asks) => asks.iter().map(|ask| ask.question.clone()).collect(),
        }
    }
}
