//! The measured server: three nodes and a model that answers at once, on the store that was asked for.

use std::sync::Arc;

use doran_agents::Parts;
use doran_agents::described::{Description, agent};
use doran_engine::Runtime;
use doran_llm::{About, ChatModel, ChatRequest, Delta, DeltaStream, Finish, OfflineModel, Usage};
use doran_retrieval::RamKeyword;
use doran_server::{App, Keys, Limits, Rate, bind, serve as serve_app};
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::Fail;

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
pub(crate) const WORDS: [&str; 20] = [
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
pub(crate) const NEVER: &str = "wait for ever";

/// Says its words without a moment's thought.
struct Instant;

impl ChatModel for Instant {
    fn about(&self) -> About {
        About { name: "instant".into(), ..OfflineModel.about() }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.question().as_deref() == Some(NEVER) {
            return stream::pending().boxed();
        }
        let words = WORDS.into_iter().map(|word| Ok(Delta::Text { text: word.into() }));
        stream::iter(words.chain([Ok(Delta::Done { usage: Usage::default(), finish: Finish::Stop })])).boxed()
    }
}

/// Answers until it is killed. Says on stdout where.
pub(crate) async fn serve(store: &str) -> Result<(), Fail> {
    let opened = doran_store::open(store).await?;
    let runtime = Runtime::new(opened.store);
    let parts = Parts::new(Arc::new(Instant), Arc::new(RamKeyword::default()));
    let three = agent(&Description::from_toml(GRAPH)?, &[], &parts)?;
    three.register(&runtime)?;
    runtime.work().await?;
    // What one client may ask is no part of what is measured: the peer has no such limit.
    let limits = Limits { rate: Rate { per_minute: 1e9, burst: 1e9 }, ..Limits::default() };
    let listener = bind(([127, 0, 0, 1], 0).into(), &Keys::default()).await?;
    println!("{}", listener.local_addr()?);
    serve_app(listener, App::new(runtime, vec![three]).limits(limits), CancellationToken::new()).await;
    Ok(())
}
