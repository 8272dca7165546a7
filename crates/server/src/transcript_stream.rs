//! Tells a run to a listener that speaks some dialect, from its first event to its end.

use std::collections::VecDeque;

use doran_agents::{AnswerSource, CitationNumbering};
use doran_engine::{EngineError, RunHandle, RunKey, RunWatch, ThreadKey, WatchUntil};
use serde_json::{Value, json};

use crate::ServerApp;
use crate::agent_request;
use crate::api::{RunEvent, RunEventBody};
use crate::error::ApiError;
use crate::transcript::{TranscriptEnd, TranscriptEvent, TranscriptReducer};

/// The news of a run that rests, in order: thoughts, tool calls and results, sources.
pub(crate) async fn load_activity(
    app: &ServerApp,
    run: &RunKey,
    thread: &str,
) -> Result<Vec<Value>, ApiError> {
    let mut watch = app.runtime.watch(run, 0, WatchUntil::RunEndedOrPaused).await?;
    let (mut fold, mut news) = (TranscriptReducer::default(), Vec::new());
    while let Some(event) = watch.try_next().await? {
        let event = RunEvent::from_engine(thread, &event).map_err(EngineError::from)?;
        news.extend(fold.apply_event(event).into_iter().filter_map(|told| match told {
            TranscriptEvent::Activity(one) => Some(one),
            TranscriptEvent::Text(_)
            | TranscriptEvent::Reset
            | TranscriptEvent::Questions(_)
            | TranscriptEvent::End(_) => None,
        }));
    }
    Ok(news)
}

/// A run as it is told. The last thing is [`Told::Over`] or [`Told::Asks`]. Sources are counted as people count them, and
/// told once all words were.
pub(crate) struct TranscriptStream {
    app: ServerApp,
    agent: String,
    run: RunKey,
    thread: ThreadKey,
    watch: RunWatch,
    reducer: TranscriptReducer,
    citations: CitationNumbering,
    /// What the answer rests on, until its words were told.
    pending_sources: Option<Value>,
    /// What the turn rests on, once it is over.
    cited_sources: Vec<AnswerSource>,
    queue: VecDeque<TranscriptEvent>,
    /// Whether the run began.
    has_started: bool,
    is_over: bool,
}

impl TranscriptStream {
    /// The run from its beginning.
    pub(crate) async fn open(app: &ServerApp, agent: &str, run: &RunHandle) -> Result<Self, ApiError> {
        let (place, run) = (run.thread().clone(), run.key());
        let watch = app.runtime.watch(&run, 0, WatchUntil::RunEndedOrPaused).await?;
        Ok(Self {
            app: app.clone(),
            agent: agent.to_owned(),
            run,
            thread: place,
            watch,
            reducer: TranscriptReducer::default(),
            citations: CitationNumbering::default(),
            pending_sources: None,
            cited_sources: Vec::new(),
            queue: VecDeque::new(),
            has_started: false,
            is_over: false,
        })
    }

    /// What the answer rests on, once it was told.
    pub(crate) fn cited_sources(&self) -> &[AnswerSource] {
        &self.cited_sources
    }

    /// The next thing, once it happens.
    pub(crate) async fn next(&mut self) -> Option<TranscriptEvent> {
        loop {
            if let Some(told) = self.queue.pop_front() {
                return Some(told);
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
            Ok(Some(event)) => RunEvent::from_engine(self.thread.thread.as_str(), &event),
            Ok(None) => {
                self.is_over = true;
                return;
            }
            Err(error) => {
                tracing::error!(%error, "a run cannot be watched on");
                return self.push_end(TranscriptEnd::Disconnected);
            }
        };
        let Ok(event) = event else { return self.push_end(TranscriptEnd::Disconnected) };
        // Between steps nothing of a number can be on its way.
        let is_piece = matches!(event.body, RunEventBody::Delta { .. });
        if let RunEventBody::Step { tasks, .. } = &event.body {
            tasks.iter().for_each(|task| self.citations.add_sources_of_update(&task.update));
        }
        for told in self.reducer.apply_event(event) {
            if !is_piece && !matches!(told, TranscriptEvent::Text(_)) {
                self.flush_text();
            }
            match told {
                TranscriptEvent::End(TranscriptEnd::Finished) => {
                    let end = self.finish_answer().await;
                    self.push_end(end);
                }
                TranscriptEvent::End(end) => self.push_end(end),
                other => self.queue_event(other),
            }
        }
        if !is_piece {
            self.flush_text();
        }
    }

    /// Tells a thing, its sources counted.
    fn queue_event(&mut self, told: TranscriptEvent) {
        let told = match told {
            TranscriptEvent::Text(words) => TranscriptEvent::Text(self.citations.push_text(&words)),
            TranscriptEvent::Reset => {
                self.citations.reset();
                TranscriptEvent::Reset
            }
            TranscriptEvent::Activity(news) if news["type"] == "sources" => {
                self.pending_sources = Some(news);
                return;
            }
            other => other,
        };
        if !matches!(&told, TranscriptEvent::Text(words) if words.is_empty()) {
            self.queue.push_back(told);
        }
    }

    /// Tells what was held back because a number might have followed.
    fn flush_text(&mut self) {
        let rest = self.citations.take_pending();
        if !rest.is_empty() {
            self.queue.push_back(TranscriptEvent::Text(rest));
        }
    }

    /// Tells what the turn holds and nobody was told, and how it ended.
    async fn finish_answer(&mut self) -> TranscriptEnd {
        let turn = match self.app.runtime.run_row(&self.run).await {
            Ok(row) => agent_request::load_turn(&self.app, &self.agent, &row).await.ok(),
            Err(_) => None,
        };
        let Some(turn) = turn else { return TranscriptEnd::Finished };
        if turn.error {
            return TranscriptEnd::Unanswered {
                code: turn.error_code.unwrap_or_default(),
                text: turn.response,
            };
        }
        self.citations.add_source_numbers(turn.sources.iter().map(|source| source.number));
        for told in self.reducer.finish(&turn.response) {
            self.queue_event(told);
        }
        self.flush_text();
        self.cited_sources = self.citations.renumber_sources(&turn.sources);
        if let Some(mut news) = self.pending_sources.take() {
            news["sources"] = json!(self.cited_sources);
            self.queue.push_back(TranscriptEvent::Activity(news));
        }
        TranscriptEnd::Finished
    }

    fn push_end(&mut self, end: TranscriptEnd) {
        self.is_over = true;
        self.queue.push_back(TranscriptEvent::End(end));
    }
}
