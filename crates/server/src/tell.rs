//! Tells a run to a listener that speaks some dialect, from its first event to its end.

use doran_engine::{RunHandle, Watch};

use crate::App;
use crate::api::Event;
use crate::ask;
use crate::fold::{End, Fold, Told};

/// Hands everything there is to tell to `hear`, in order, until the run rests or nobody listens: `hear` gives `false`.
/// The last thing told is [`Told::Over`] or [`Told::Asks`].
pub(crate) async fn tell(
    app: &App,
    agent: &str,
    run: &RunHandle,
    mut watch: Watch,
    hear: impl AsyncFn(Told) -> bool,
) {
    let mut fold = Fold::default();
    loop {
        let event = tokio::select! {
            biased;
            () = app.draining.cancelled() => {
                hear(Told::Over(End::Left)).await;
                return;
            }
            event = watch.next() => event,
        };
        let event = match event {
            Ok(Some(event)) => Event::of(run.thread().thread.as_str(), &event),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "a run cannot be watched on");
                hear(Told::Over(End::Left)).await;
                return;
            }
        };
        let Ok(event) = event else {
            hear(Told::Over(End::Left)).await;
            return;
        };
        for told in fold.take(event) {
            if told == Told::Over(End::Finished) && !last_words(app, agent, run, &mut fold, &hear).await {
                return;
            }
            if !hear(told).await {
                return;
            }
        }
    }
}

/// What the turn holds and nobody was told.
async fn last_words(
    app: &App,
    agent: &str,
    run: &RunHandle,
    fold: &mut Fold,
    hear: &impl AsyncFn(Told) -> bool,
) -> bool {
    let turn = match app.runtime.store().run(&run.key()).await {
        Ok(row) => ask::turn(app, agent, &row).await.ok(),
        Err(_) => None,
    };
    let Some(turn) = turn else { 
        hear(Told::Over(End::Left)).await;
        return false;
    };
    for told in fold.end(&turn.response) {
        if !hear(told).await {
            return false;
        }
    }
    true
}
