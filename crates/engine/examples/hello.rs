//! The smallest graph: two nodes over one state, run without a store.
//!
//! `cargo run -p doran-engine --example hello -- Mina` prints `Hello, Mina! (12 characters)`.

use doran_engine::{Graph, NodeError, Snap, State, node};
use serde::{Deserialize, Serialize};

/// What the graph carries. The derive also writes `GreetingUpdate`, the change that a node proposes.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Greeting {
    name: String,
    text: String,
    length: usize,
}

async fn greet(state: Snap<Greeting>) -> Result<GreetingUpdate, NodeError> {
    Ok(Greeting::update().text(format!("Hello, {}!", state.name)))
}

async fn measure(state: Snap<Greeting>) -> Result<GreetingUpdate, NodeError> {
    Ok(Greeting::update().length(state.text.chars().count()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::named()
        .node("greet", node(greet).then("measure"))
        .node("measure", node(measure).end())
        .start("greet")
        .build()?;
    let name = std::env::args().nth(1).unwrap_or_else(|| "world".to_owned());
    let state = graph.run(Greeting::update().name(name)).await?;
    println!("{} ({} characters)", state.text, state.length);
    Ok(())
}
