//! The measured server: three nodes and a model that answers at once, on the store that was asked for.

use std::sync::Arc;

use doran_agents::AgentParts;
use doran_agents::described::{AgentDescription, build_described_agent};
use doran_engine::Runtime;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Usage};
use doran_offline::OfflineModel;
use doran_retrieval::RamKeywordIndex;
use doran_server::{ApiKeys, RateLimit, ServerApp, ServerLimits, bind, serve as serve_app};
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::ServerBenchError;

/// The same graph as in `bench/peer/server.py`: fixed words, the model, fixed words.
const GRAPH: &str = r#"
name = "three"
ko = "노드 세 개"
en = "three nodes"
start = "before"
[[node]]
name = "before"
use = "respond"
text = "before"
then = "model"
[[node]]
name = "model"
use = "respond"
prompt = "Answer."
then = "after"
[[node]]
name = "after"
use = "respond"
text = "after"
then = "end"
"#;

/// What the model says. The first word is looked for.
pub(crate) const MODEL_WORDS: [&str; 20] = [
    "zero ",
    "one ",
    "two ",
    "three ",
    "four ",
    "five ",
    "six ",
    "seven ",
    "eight ",
    "nine ",
    "ten ",
    "eleven ",
    "twelve ",
    "thirteen ",
    "fourteen ",
    "fifteen ",
    "sixteen ",
    "seventeen ",
    "eighteen ",
    "nineteen",
];
/// A question that is never answered.
pub(crate) const UNANSWERED_QUESTION: &str = "wait for ever";

/// Says its words without a moment's thought.
struct InstantModel;

impl ChatModel for InstantModel {
    fn info(&self) -> ModelInfo {
        ModelInfo { name: "instant".into(), ..OfflineModel.info() }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.question().as_deref() == Some(UNANSWERED_QUESTION) {
            return stream::pending().boxed();
        }
        let words = MODEL_WORDS.into_iter().map(|word| Ok(Delta::Text { text: word.into() }));
        stream::iter(words.chain([Ok(Delta::Done { usage: Usage::default(), finish: FinishReason::Stop })]))
            .boxed()
    }
}

/// Answers until it is killed. Says on stdout where.
pub(crate) async fn serve(store: &str) -> Result<(), ServerBenchError> {
    let opened = doran_store::open(store).await?;
    let runtime = Runtime::new(opened.store);
    let parts = AgentParts::new(Arc::new(InstantModel), Arc::new(RamKeywordIndex::default()));
    let three = build_described_agent(&AgentDescription::from_toml(GRAPH)?, &[], &parts)?;
    three.register(&runtime)?;
    runtime.start_worker().await?;
    // What one client may ask is no part of what is measured: the peer has no such limit.
    let limits =
        ServerLimits { rate_limit: RateLimit { per_minute: 1e9, burst: 1e9 }, ..ServerLimits::default() };
    let listener = bind(([127, 0, 0, 1], 0).into(), &ApiKeys::default()).await?;
    println!("{}", listener.local_addr()?);
    let app = ServerApp::new(runtime, opened.idempotency, vec![three]).limits(limits);
    serve_app(listener, app, CancellationToken::new()).await;
    Ok(())
}
