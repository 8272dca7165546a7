//! Tells a run to a listener that speaks some dialect, from its first event to its end.

use std::collections::VecDeque;

use doran_engine::{EngineError, RunKey, Until, Watch};
use serde_json::Value;

use crate::App;
use crate::api::Event;
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

/// A run as it is told. The last thing is [`Told::Over`] or [`Told::Asks`].
pub(crate) struct Tale {
    app: App,
    agent: String,
    run: RunKey,
    thread: String,
    watch: Watch,
    fold: Fold,
    ready: VecDeque<Told>,
    over: bool,
}

impl Tale {
    /// The run from its beginning.
    pub(crate) async fn of(app: &App, agent: &str, run: RunKey, thread: &str) -> Result<Self, ApiError> {
        let watch = app.runtime.watch(&run, 0, Until::Rest).await?;
        Ok(Self {
            app: app.clone(),
            agent: agent.to_owned(),
            run,
            thread: thread.to_owned(),
            watch,
            fold: Fold::default(),
            ready: VecDeque::new(),
            over: false,
        })
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
        };
        let event = match event {
            Ok(Some(event)) => Event::of(&self.thread, &event),
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
        for told in self.fold.take(event) {
            let told = match told {
                Told::Over(End::Finished) => Told::Over(self.last_words().await),
                other => other,
            };
            if matches!(told, Told::Over(_)) {
                self.over = true;
            }
            self.ready.push_back(told);
        }
    }

    /// Tells what the turn holds and nobody was told, and how it ended.
    async fn last_words(&mut self) -> End {
        let turn = match self.app.runtime.store().run(&self.run).await {
            Ok(row) => ask::turn(&self.app, &self.agent, &row).await.ok(),
            Err(_) => None,
        };
        match turn {
            Some(turn) if turn.error => {
                End::Unanswered { code: turn.error_code.unwrap_or_default(), words: turn.response }
            }
            Some(turn) => {
                self.ready.extend(self.fold.end(&turn.response));
                End::Finished
            }
            None => End::Finished,
        }
    }

    fn end(&mut self, end: End) {
        self.over = true;
        self.ready.push_back(Told::Over(end));
    }
}
