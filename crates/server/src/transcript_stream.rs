//! Follows a run and yields its text and activities, for all dialects.

use std::collections::VecDeque;

use doran_agents::llm::FinishReason;
use doran_agents::protocol::{AgentActivity, InterruptQuestion, ModelCallNote, StepNotes};
use doran_agents::transcript::{TranscriptChange, TranscriptReducer};
use doran_agents::{AgentTurn, AnswerSource, CitationNumbering, RequestPurpose};
use doran_engine::store::RunUsage;
use doran_engine::{EngineError, RunHandle, RunKey, RunWatch, ThreadKey, WatchUntil};

use crate::ServerApp;
use crate::agent_request;
use crate::api::{QuestionInfo, RunEvent, RunEventBody, StepTask};
use crate::error::{ApiError, ApiErrorCode};

/// The next change to send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TranscriptEvent {
    /// The next words of the answer.
    Text(String),
    /// What was emitted of the answer is void; it begins anew.
    Reset,
    /// Something beside the words: a thought, a tool call, a result, sources.
    Activity(AgentActivity),
    /// The run waits for answers.
    Questions(Vec<QuestionInfo>),
    /// The run is over.
    End(TranscriptEnd),
}

/// How a run ended, or why nothing more comes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TranscriptEnd {
    Finished,
    /// It finished, and its answer only says that there is none.
    Unanswered {
        code: String,
        text: String,
    },
    Failed {
        code: String,
        message: String,
    },
    Cancelled,
    /// The server stops, or the log cannot be read on. The run itself goes on.
    Disconnected,
}

/// A run that rests, or the part of it after an event, read at once.
#[derive(Debug, Default)]
pub(crate) struct RunReplay {
    /// The words.
    pub(crate) text: String,
    /// Thoughts, tool calls and results, sources, in order.
    pub(crate) activities: Vec<AgentActivity>,
    /// What it took.
    pub(crate) usage: RunUsage,
    /// What it waits for, or waited for until somebody ran a tool for it: the part ends there.
    pub(crate) questions: Vec<QuestionInfo>,
    /// Whether a limit on tokens cut the answer.
    pub(crate) is_cut_off: bool,
}

/// Reads a run that rests, after the event with this number. A part ends where the run waits for tools of its client.
pub(crate) async fn replay_run(
    app: &ServerApp,
    agent: &str,
    run: &RunKey,
    thread: &str,
    after: u64,
) -> Result<RunReplay, ApiError> {
    let mut watch = app.runtime.watch(run, after, WatchUntil::RunEndedOrPaused).await?;
    let (mut reducer, mut replay) = (TranscriptReducer::default(), RunReplay::default());
    while let Some(event) = watch.try_next().await? {
        let event = RunEvent::from_engine(thread, app.find_agent(agent).as_ref(), &event)
            .map_err(EngineError::from)?;
        let changes = event.transcript(&mut reducer).map_err(|error| {
            tracing::error!(%error, "cannot read a step; the agent may have changed since the run");
            ApiError::from(ApiErrorCode::Internal)
        })?;
        for change in changes {
            match change {
                TranscriptChange::Activity(activity) => replay.activities.push(activity),
                TranscriptChange::Text(words) => replay.text.push_str(&words),
                TranscriptChange::Reset { kept } => replay.text = kept,
            }
        }
        add_step_usage(&mut replay.usage, &event.body);
        replay.is_cut_off = answer_cut_off(&event.body).unwrap_or(replay.is_cut_off);
        replay.questions.clear();
        if let RunEventBody::Paused { questions } = event.body {
            replay.questions = questions;
            if replay.questions.iter().any(is_client_tool) {
                break;
            }
        }
    }
    Ok(replay)
}

/// Whether a question is for the client to run a tool.
pub(crate) fn is_client_tool(waiting: &QuestionInfo) -> bool {
    matches!(waiting.interrupt(), InterruptQuestion::ClientTool { .. })
}

/// Whether a limit on tokens cut the last reply for the person in a step; none if there was none.
fn answer_cut_off(body: &RunEventBody) -> Option<bool> {
    let RunEventBody::Step { tasks, .. } = body else { return None };
    let is_for_person = |task: &&StepTask| {
        let progress = task.turn.as_ref().and_then(|turn| turn.progress.as_ref());
        progress.is_none_or(|progress| !progress.is_subagent)
    };
    let mut replies = tasks.iter().filter(is_for_person).filter_map(|task| {
        let notes = StepNotes::from_notes(&task.notes).inspect_err(
            |error| tracing::warn!(node = task.node, %error, "the notes of a task cannot be read"),
        );
        let models = notes.ok()?.models;
        models.into_iter().rev().find_map(|note| match note {
            ModelCallNote::Asked(note) if note.purpose == RequestPurpose::Answer => Some(note.finish),
            _ => None,
        })
    });
    replies.next_back().map(|finish| finish == FinishReason::Length)
}

fn add_step_usage(usage: &mut RunUsage, body: &RunEventBody) {
    if let RunEventBody::Step { tasks, path, .. } = body
        && path.is_empty()
    {
        usage.input_tokens += tasks.iter().map(|task| task.input_tokens).sum::<u64>();
        usage.output_tokens += tasks.iter().map(|task| task.output_tokens).sum::<u64>();
    }
}

/// A run as a transcript. The last thing is [`TranscriptEvent::End`] or [`TranscriptEvent::Questions`]. Sources are counted
/// as people count them, and emitted once all words were.
pub(crate) struct TranscriptStream {
    app: ServerApp,
    agent: String,
    run: RunKey,
    thread: ThreadKey,
    watch: RunWatch,
    reducer: TranscriptReducer,
    citations: CitationNumbering,
    /// Whether the agent tells what the answer rests on; that waits until its words were emitted.
    has_pending_sources: bool,
    /// What the turn rests on, once it is over.
    cited_sources: Vec<AnswerSource>,
    queue: VecDeque<TranscriptEvent>,
    /// Whether the run began.
    has_started: bool,
    usage: RunUsage,
    is_cut_off: bool,
    is_over: bool,
}

impl TranscriptStream {
    /// The run from its beginning.
    pub(crate) async fn open(app: &ServerApp, agent: &str, run: &RunHandle) -> Result<Self, ApiError> {
        Self::open_after(app, agent, run, 0).await
    }

    /// The run after the event with this number.
    pub(crate) async fn open_after(
        app: &ServerApp,
        agent: &str,
        run: &RunHandle,
        after: u64,
    ) -> Result<Self, ApiError> {
        let watch = run.watch_after(after, WatchUntil::RunEndedOrPaused).await?;
        let (place, run) = (run.thread().clone(), run.key());
        Ok(Self {
            app: app.clone(),
            agent: agent.to_owned(),
            run,
            thread: place,
            watch,
            reducer: TranscriptReducer::default(),
            citations: CitationNumbering::default(),
            has_pending_sources: false,
            cited_sources: Vec::new(),
            queue: VecDeque::new(),
            has_started: after > 0,
            usage: RunUsage::default(),
            is_cut_off: false,
            is_over: false,
        })
    }

    /// What was emitted so far took so much.
    pub(crate) fn usage(&self) -> RunUsage {
        self.usage
    }

    /// Whether a limit on tokens cut the answer.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// What the answer rests on, once it was emitted.
    pub(crate) fn cited_sources(&self) -> &[AnswerSource] {
        &self.cited_sources
    }

    /// The next thing, once it happens.
    pub(crate) async fn next(&mut self) -> Option<TranscriptEvent> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            self.read_event().await;
        }
    }

    async fn read_event(&mut self) {
        let event = tokio::select! {
            biased;
            () = self.app.draining.cancelled() => return self.push_end(TranscriptEnd::Disconnected),
            event = self.watch.try_next() => event,
            waits = agent_request::wait_until_blocked(&self.app, &self.run, &self.thread), if !self.has_started => {
                self.is_over = true;
                self.queue.push_back(TranscriptEvent::Questions(waits.questions));
                return;
            }
        };
        self.has_started = true;
        let event = match event {
            Ok(Some(event)) => {
                let (thread, agent) = (self.thread.thread.as_str(), self.app.find_agent(&self.agent));
                RunEvent::from_engine(thread, agent.as_ref(), &event).map_err(EngineError::from)
            }
            Ok(None) => {
                self.is_over = true;
                return;
            }
            Err(error) => Err(error),
        };
        match event {
            Ok(event) => self.apply_event(event).await,
            Err(error) => {
                tracing::error!(%error, "cannot continue to watch a run");
                self.push_end(TranscriptEnd::Disconnected);
            }
        }
    }

    async fn apply_event(&mut self, event: RunEvent) {
        if let RunEventBody::Step { tasks, .. } = &event.body {
            let turns = tasks.iter().filter_map(|task| task.turn.as_ref());
            turns.for_each(|turn| self.citations.add_source_numbers(turn.found.iter().copied()));
        }
        let changes = match event.transcript(&mut self.reducer) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::error!(%error, "cannot read a step; the agent may have changed since the run");
                return self.push_end(TranscriptEnd::Disconnected);
            }
        };
        add_step_usage(&mut self.usage, &event.body);
        self.is_cut_off = answer_cut_off(&event.body).unwrap_or(self.is_cut_off);
        // Between steps nothing of a number can be on its way.
        let is_piece = matches!(event.body, RunEventBody::Delta { .. });
        for change in changes {
            if !is_piece && !matches!(change, TranscriptChange::Text(_)) {
                self.flush_text();
            }
            self.queue_change(change);
        }
        if !is_piece {
            self.flush_text();
        }
        match event.body {
            RunEventBody::Paused { questions } => {
                self.is_over = questions.iter().any(is_client_tool);
                self.queue.push_back(TranscriptEvent::Questions(questions));
            }
            RunEventBody::Finished => {
                let end = self.finish_answer().await;
                self.push_end(end);
            }
            RunEventBody::Failed { code, message, .. } => {
                self.push_end(TranscriptEnd::Failed { code, message });
            }
            RunEventBody::Cancelled { .. } => self.push_end(TranscriptEnd::Cancelled),
            RunEventBody::Draining | RunEventBody::Error { .. } => self.push_end(TranscriptEnd::Disconnected),
            RunEventBody::Started { .. }
            | RunEventBody::Resumed { .. }
            | RunEventBody::Restarted { .. }
            | RunEventBody::Step { .. }
            | RunEventBody::Gone { .. }
            | RunEventBody::Delta { .. } => {}
        }
    }

    /// Tells a change, its sources counted. A listener knows only how to begin anew, so what stands is emitted again.
    fn queue_change(&mut self, change: TranscriptChange) {
        match change {
            TranscriptChange::Text(words) => self.queue_text(&words),
            TranscriptChange::Reset { kept } => {
                self.citations.reset();
                self.queue.push_back(TranscriptEvent::Reset);
                self.queue_text(&kept);
            }
            TranscriptChange::Activity(AgentActivity::Sources { .. }) => self.has_pending_sources = true,
            TranscriptChange::Activity(activity) => {
                self.queue.push_back(TranscriptEvent::Activity(activity));
            }
        }
    }

    fn queue_text(&mut self, words: &str) {
        let words = self.citations.push_text(words);
        if !words.is_empty() {
            self.queue.push_back(TranscriptEvent::Text(words));
        }
    }

    /// Tells what was held back because a number might have followed.
    fn flush_text(&mut self) {
        let rest = self.citations.finish_text();
        if !rest.is_empty() {
            self.queue.push_back(TranscriptEvent::Text(rest));
        }
    }

    /// Emits what the turn holds and was not emitted yet, and how it ended.
    async fn finish_answer(&mut self) -> TranscriptEnd {
        let turn = match self.load_turn().await {
            Ok(turn) => turn,
            Err(error) => {
                tracing::error!(
                    ?error,
                    "cannot read the answer of a finished run; the agent may have changed since the run"
                );
                return TranscriptEnd::Disconnected;
            }
        };
        if turn.error {
            return TranscriptEnd::Unanswered {
                code: turn.error_code.unwrap_or_default(),
                text: turn.response,
            };
        }
        self.citations.add_source_numbers(turn.sources.iter().map(|source| source.number));
        for change in self.reducer.finish(&turn.response) {
            self.queue_change(change);
        }
        self.flush_text();
        self.cited_sources = self.citations.renumber_sources(&turn.sources);
        if std::mem::take(&mut self.has_pending_sources) {
            let sources = self.cited_sources.clone();
            self.queue.push_back(TranscriptEvent::Activity(AgentActivity::Sources { sources }));
        }
        TranscriptEnd::Finished
    }

    async fn load_turn(&mut self) -> Result<AgentTurn, ApiError> {
        let row = self.app.runtime.run_row(&self.run).await?;
        agent_request::load_turn(&self.app, &self.agent, &row).await
    }

    fn push_end(&mut self, end: TranscriptEnd) {
        self.is_over = true;
        self.queue.push_back(TranscriptEvent::End(end));
    }
}
