//! Tells a run to a listener that speaks some dialect, from its first event to its end.

use std::collections::VecDeque;

use doran_agents::{Cited, Source};
use doran_engine::{EngineError, RunHandle, RunKey, ThreadKey, Until, Watch};
use serde_json::{Value, json};

use crate::App;
use crate::api::{Body, Event};
use crate::ask;
use crate::error::ApiError;
use crate::fold::{End, Fold, Told};

/// The news of a run that rests, in order: thoughts, tool calls and results, sources.
pub(crate) async fn news(app: &App, run: &RunKey, thread: &str) -> Result<Vec<Value>, ApiError> {
    let mut watch = app.runtime.watch(run, 0, Until::Rest).await?;
    let (mut fold, mut news) = (Fold::default(), Vec::new());
    while let Some(event) = watch.next().await? {
        let event = Event::of(thread, &event).map_err(EngineError::from)?;
        news.extend(fold.take(event).into_iter().filter_map(|told| match told {
            Told::News(one) => Some(one),
            Told::Words(_) | Told::Void | Told::Asks(_) | Told::Over(_) => None,
        }));
    }
    Ok(news)
}

/// A run as it is told. The last thing is [`Told::Over`] or [`Told::Asks`]. Sources are counted as people count them, and
/// told once all words were.
pub(crate) struct Tale {
    app: App,
    agent: String,
    run: RunKey,
    place: ThreadKey,
    watch: Watch,
    fold: Fold,
    cited: Cited,
    /// What the answer rests on, until its words were told.
    sources: Option<Value>,
    /// What the turn rests on, once it is over.
    rests_on: Vec<Source>,
    ready: VecDeque<Told>,
    /// Whether the run began.
    begun: bool,
    over: bool,
}

impl Tale {
    /// The run from its beginning.
    pub(crate) async fn of(app: &App, agent: &str, run: &RunHandle) -> Result<Self, ApiError> {
        let (place, run) = (run.thread().clone(), run.key());
        let watch = app.runtime.watch(&run, 0, Until::Rest).await?;
        Ok(Self {
            app: app.clone(),
            agent: agent.to_owned(),
            run,
            place,
            watch,
            fold: Fold::default(),
            cited: Cited::default(),
            sources: None,
            rests_on: Vec::new(),
            ready: VecDeque::new(),
            begun: false,
            over: false,
        })
    }

    /// What the answer rests on, once it was told.
    pub(crate) fn rests_on(&self) -> &[Source] {
        &self.rests_on
    }

    /// The next thing, once it happens.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            if self.over {
                return None;
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let event = tokio::select! {
            biased;
            () = self.app.draining.cancelled() => return self.end(End::Left),
            event = self.watch.next() => event,
            waits = ask::held_up(&self.app, &self.run, &self.place), if !self.begun => {
                self.over = true;
                self.ready.push_back(Told::Asks(waits.questions));
                return;
            }
        };
        self.begun = true;
        let event = match event {
            Ok(Some(event)) => Event::of(self.place.thread.as_str(), &event),
            Ok(None) => {
                self.over = true;
                return;
            }
            Err(error) => {
                tracing::error!(%error, "a run cannot be watched on");
                return self.end(End::Left);
            }
        };
        let Ok(event) = event else { return self.end(End::Left) };
        // Between steps nothing of a number can be on its way.
        let is_piece = matches!(event.body, Body::Delta { .. });
        if let Body::Step { tasks, .. } = &event.body {
            tasks.iter().for_each(|task| self.cited.learn_from(&task.update));
        }
        for told in self.fold.take(event) {
            if !is_piece && !matches!(told, Told::Words(_)) {
                self.flush();
            }
            match told {
                Told::Over(End::Finished) => {
                    let end = self.last_words().await;
                    self.end(end);
                }
                Told::Over(end) => self.end(end),
                other => self.tell(other),
            }
        }
        if !is_piece {
            self.flush();
        }
    }

    /// Tells a thing, its sources counted.
    fn tell(&mut self, told: Told) {
        let told = match told {
            Told::Words(words) => Told::Words(self.cited.pass(&words)),
            Told::Void => {
                self.cited.begin_anew();
                Told::Void
            }
            Told::News(news) if news["type"] == "sources" => {
                self.sources = Some(news);
                return;
            }
            other => other,
        };
        if !matches!(&told, Told::Words(words) if words.is_empty()) {
            self.ready.push_back(told);
        }
    }

    /// Tells what was held back because a number might have followed.
    fn flush(&mut self) {
        let rest = self.cited.rest();
        if !rest.is_empty() {
            self.ready.push_back(Told::Words(rest));
        }
    }

    /// Tells what the turn holds and nobody was told, and how it ended.
    async fn last_words(&mut self) -> End {
        let turn = match self.app.runtime.store().run(&self.run).await {
            Ok(row) => ask::turn(&self.app, &self.agent, &row).await.ok(),
            Err(_) => None,
        };
        let Some(turn) = turn else { return End::Finished };
        if turn.error {
            return End::Unanswered { code: turn.error_code.unwrap_or_default(), words: turn.response };
        }
        self.cited.learn(turn.sources.iter().map(|source| source.number));
        for told in self.fold.end(&turn.response) {
            self.tell(told);
        }
        self.flush();
        self.rests_on = self.cited.counted(&turn.sources);
        if let Some(mut news) = self.sources.take() {
            news["sources"] = json!(self.rests_on);
            self.ready.push_back(Told::News(news));
        }
        End::Finished
    }

    fn end(&mut self, end: End) {
        self.over = true;
        self.ready.push_back(Told::Over(end));
    }
}
