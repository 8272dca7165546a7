//! A server whose words come slowly, for tests of what happens in the middle of an answer: `paced PORT`.
//!
//! Everything else is as in `doran serve` without settings, except that nothing is kept: threads are in memory.

use std::sync::Arc;
use std::time::Duration;

use doran_agents::{Parts, all, samples};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{About, ChatModel, ChatRequest, DeltaStream, OfflineModel, Purpose};
use doran_retrieval::RamKeyword;
use doran_server::{App, Keys, bind, serve};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

/// Time between two words.
const PACE: Duration = Duration::from_millis(250);

/// The built-in model, slowed down.
struct Paced;

impl ChatModel for Paced {
    fn about(&self) -> About {
        OfflineModel.about()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let is_spoken = request.purpose == Purpose::Answer;
        let words = OfflineModel.stream(request);
        if !is_spoken {
            return words;
        }
        words
            .then(|word| async move {
                tokio::time::sleep(PACE).await;
                word
            })
            .boxed()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("which port?")?.parse()?;
    let documents = [samples::all(), samples::contracts()].concat();
    let index = Arc::new(RamKeyword::of(&doran_retrieval::Tenant::new("local"), &documents));
    let agents = all(&Parts::new(Arc::new(Paced), index.clone()))?;
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    for agent in &agents {
        agent.register(&runtime)?;
    }
    let listener = bind(([127, 0, 0, 1], port).into(), &Keys::default()).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    serve(listener, App::new(runtime, agents).index(index), CancellationToken::new()).await;
    Ok(())
}
