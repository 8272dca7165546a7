//! Retries and timeouts. A transient error is tried again, with growing waits; a node that gives no sign of life for too
//! long is stopped, which counts as transient; a permanent error ends the run and says which node failed.
//!
//! `cargo run -p doran-engine --example retry_and_timeout` prints what each try did.

use std::time::Duration;

use doran_engine::{
    Cx, EngineError, Graph, NodeError, NodeTimeout, RetryPolicy, RunError, Snap, State, node,
};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Download {
    broken: bool,
    page: String,
}

async fn fetch(state: Snap<Download>, cx: Cx) -> Result<DownloadUpdate, NodeError> {
    println!("try {}", cx.attempt());
    match cx.attempt() {
        _ if state.broken => Err(NodeError::permanent("404 not found").with_code("page_missing")),
        1 => Err(NodeError::transient("connection reset")),
        // Hangs. The timeout stops it.
        2 => std::future::pending().await,
        _ => Ok(Download::update().page("<h1>It works</h1>")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fetch = node(fetch)
        .retry(RetryPolicy::times(4).first_wait(Duration::from_millis(10)))
        .timeout(NodeTimeout::idle(Duration::from_millis(50)));
    let graph = Graph::named().node("fetch", fetch.end()).start("fetch").build()?;
    println!("got {}", graph.run(Download::update()).await?.page);
    match graph.run(Download::update().broken(true)).await {
        Err(EngineError::Run(RunError::Failed(failure))) => {
            println!("{}: {}", failure.code, failure.message);
        }
        other => println!("unexpected: {other:?}"),
    }
    Ok(())
}
