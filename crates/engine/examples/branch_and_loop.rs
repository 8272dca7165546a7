//! A branch and a loop: the Collatz sequence. The nodes are an enum, so a missing or misspelt node does not compile.
//!
//! ```text
//! start ─▶ look ─▶ halve ──┐        look chooses by the state:
//!           ▲  └─▶ triple ─┤        even, odd, or the end at 1
//!           └──────────────┘
//! ```
//!
//! `cargo run -p doran-engine --example branch_and_loop -- 6` prints `6 3 10 5 16 8 4 2 1`.

use doran_engine::{Graph, NodeError, Nodes, Snap, State, To, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Collatz {
    n: u64,
    /// Updates are appended, not replaced.
    #[reduce(append)]
    seen: Vec<u64>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CollatzStep {
    Look,
    Halve,
    Triple,
}

async fn look(state: Snap<Collatz>) -> Result<CollatzUpdate, NodeError> {
    Ok(Collatz::update().seen(vec![state.n]))
}

async fn halve(state: Snap<Collatz>) -> Result<CollatzUpdate, NodeError> {
    Ok(Collatz::update().n(state.n / 2))
}

async fn triple(state: Snap<Collatz>) -> Result<CollatzUpdate, NodeError> {
    Ok(Collatz::update().n(state.n * 3 + 1))
}

fn next(state: &Collatz) -> To<CollatzStep> {
    match state.n {
        0 | 1 => To::End,
        n if n % 2 == 0 => To::Node(CollatzStep::Halve),
        _ => To::Node(CollatzStep::Triple),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::define(|step| match step {
        CollatzStep::Look => node(look).branch_or_end([CollatzStep::Halve, CollatzStep::Triple], next),
        CollatzStep::Halve => node(halve).then(CollatzStep::Look),
        CollatzStep::Triple => node(triple).then(CollatzStep::Look),
    })
    .start(CollatzStep::Look)
    .build()?;
    let n = std::env::args().nth(1).map_or(Ok(6), |n| n.parse())?;
    let state = graph.run(Collatz::update().n(n)).await?;
    let seen: Vec<String> = state.seen.iter().map(u64::to_string).collect();
    println!("{}", seen.join(" "));
    Ok(())
}
