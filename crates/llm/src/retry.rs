//! Asks again when asking again may help, and never after a word was shown.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::error::ModelError;
use crate::model::{ChatModel, ChatRequest, Delta, DeltaStream, ModelInfo, ModelRole};

/// How often and how patiently a request is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRetryPolicy {
    /// How often a request is sent at most, the first time included.
    pub max_attempts: usize,
    /// The first wait; each further one is twice as long, and all are shaken a little.
    pub first_wait: Duration,
    /// The longest wait that is chosen here; a vendor may ask for more.
    pub max_wait: Duration,
    /// How long after the first try a further one may still begin. A vendor that asks to wait longer has failed.
    pub max_elapsed: Duration,
}

impl Default for ModelRetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            first_wait: Duration::from_millis(500),
            max_wait: Duration::from_secs(8),
            max_elapsed: Duration::from_secs(60),
        }
    }
}

impl ModelRetryPolicy {
    /// Never asks again.
    pub const NEVER: Self = Self {
        max_attempts: 1,
        first_wait: Duration::ZERO,
        max_wait: Duration::ZERO,
        max_elapsed: Duration::ZERO,
    };
}

/// A model that asks the one inside again after a failure that may pass.
///
/// Once the first delta was given the outcome is the outcome: what a person has seen is not taken back, and half an
/// answer is never joined to another. An empty answer is asked for once more only.
#[derive(Clone, Debug)]
pub struct RetryingModel<M> {
    inner: Arc<M>,
    retries: ModelRetryPolicy,
}

impl<M: ChatModel> RetryingModel<M> {
    /// Wraps a model.
    pub fn new(inner: M, retries: ModelRetryPolicy) -> Self {
        Self { inner: Arc::new(inner), retries }
    }
}

impl<M: ChatModel> ChatModel for RetryingModel<M> {
    fn info(&self) -> ModelInfo {
        self.inner.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.inner.info_for_role(role)
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let (inner, retries) = (self.inner.clone(), self.retries);
        stream::once(async move { stream_with_retries(inner.as_ref(), request, retries).await })
            .flatten()
            .boxed()
    }
}

/// Tries until a first delta comes or nothing helps, then goes on with that try.
async fn stream_with_retries<M: ChatModel>(
    model: &M,
    request: ChatRequest,
    retries: ModelRetryPolicy,
) -> DeltaStream {
    let began = Instant::now();
    let waits = ExponentialBuilder::default()
        .with_min_delay(retries.first_wait)
        .with_max_delay(retries.max_wait)
        .with_max_times(retries.max_attempts.saturating_sub(1))
        .with_jitter();
    let mut waits = waits.build();
    let mut was_empty = false;
    loop {
        let mut deltas = model.stream(request.clone());
        let error = match deltas.next().await {
            Some(Err(error)) => error,
            Some(first) => return stream::iter([first]).chain(deltas).boxed(),
            None => ModelError::Broken { reason: "it ended before it began".into() },
        };
        let wait = waits.next().map(|wait| error.retry_after().map_or(wait, |asked| asked.max(wait)));
        let again = error.is_transient() && !(was_empty && matches!(error, ModelError::Empty { .. }));
        match wait.filter(|wait| again && began.elapsed() + *wait <= retries.max_elapsed) {
            Some(wait) => {
                tracing::info!(
                    code = error.code(),
                    wait_ms = wait.as_millis() as u64,
                    "asking the model again"
                );
                was_empty = matches!(error, ModelError::Empty { .. });
                drop(deltas);
                tokio::time::sleep(wait).await;
            }
            None => return stream::iter([Err::<Delta, _>(error)]).boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect_reply;
    use crate::message::Message;
    use crate::scripted::{ScriptedModel, ScriptedReply};

    fn unavailable() -> ScriptedReply {
        ScriptedReply::failure(ModelError::Unavailable {
            reason: "busy".into(),
            retry_after: None,
            source: None,
        })
    }

    fn limited(seconds: u64) -> ScriptedReply {
        let retry_after = Some(Duration::from_secs(seconds));
        ScriptedReply::failure(ModelError::RateLimited { reason: "often".into(), retry_after })
    }

    fn empty() -> ScriptedReply {
        ScriptedReply::failure(ModelError::Empty { reason: "nothing".into() })
    }

    /// The outcome, how many requests it took, and how many seconds.
    async fn outcome(scripts: Vec<ScriptedReply>) -> (String, usize, u64) {
        let model = ScriptedModel::new(scripts);
        let began = Instant::now();
        let retrying = RetryingModel::new(model.clone(), ModelRetryPolicy::default());
        let request = ChatRequest { ..ChatRequest::new(vec![Message::user("m", "?")]) };
        let told = match collect_reply(retrying.stream(request)).await {
            Ok(reply) => reply.text,
            Err(error) => error.code().to_owned(),
        };
        (told, model.requests().len(), began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_may_pass_is_tried_three_times() {
        let (told, requests, _) =
            outcome(vec![unavailable(), unavailable(), ScriptedReply::text("왔다")]).await;
        assert_eq!((told.as_str(), requests), ("왔다", 3));
        let (told, requests, _) =
            outcome(vec![unavailable(), unavailable(), unavailable(), ScriptedReply::text("늦음")]).await;
        assert_eq!((told.as_str(), requests), ("unavailable", 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_vendor_is_left_alone_as_long_as_it_asks_within_patience() {
        let (told, requests, seconds) = outcome(vec![limited(20), ScriptedReply::text("왔다")]).await;
        assert_eq!((told.as_str(), requests, seconds), ("왔다", 2, 20));
        let (told, requests, seconds) = outcome(vec![limited(86_400), ScriptedReply::text("늦음")]).await;
        assert_eq!((told.as_str(), requests, seconds), ("rate_limited", 1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_asked_again_after_the_first_word() {
        let lost = ModelError::Broken { reason: "reset".into() };
        let (told, requests, _) =
            outcome(vec![ScriptedReply::text("반쯤 ").then_fails(lost), ScriptedReply::text("다시")]).await;
        assert_eq!((told.as_str(), requests), ("truncated", 1));
        let (told, requests, _) =
            outcome(vec![ScriptedReply::text("반").then_stops_short(), ScriptedReply::text("다시")]).await;
        assert_eq!((told.as_str(), requests), ("truncated", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_repeated() {
        let refused = ScriptedReply::failure(ModelError::Unauthorized { reason: "no".into() });
        assert_eq!(outcome(vec![refused, ScriptedReply::text("?")]).await.1, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_answer_is_asked_for_once_more() {
        assert_eq!(outcome(vec![empty(), ScriptedReply::text("왔다")]).await.0, "왔다");
        let (told, requests, _) = outcome(vec![empty(), empty(), ScriptedReply::text("늦음")]).await;
        assert_eq!((told.as_str(), requests), ("empty", 2));
    }
}
