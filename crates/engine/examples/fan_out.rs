//! Fan-out and join. `split` starts one task of `count` for each line, side by side; `sum` runs once, after all of them.
//! Updates are folded in the order of the items, never in the order in which the tasks finish.
//!
//! `cargo run -p doran-engine --example fan_out -- "a b c" "d e"` prints the words of each argument and their sum.

use doran_engine::{Cx, Graph, NodeError, Snap, State, To, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct WordCounts {
    lines: Vec<String>,
    #[reduce(append)]
    counts: Vec<String>,
    /// Updates are added.
    #[reduce(add)]
    total: u64,
    report: String,
}

async fn split(_: Snap<WordCounts>) -> Result<WordCountsUpdate, NodeError> {
    Ok(WordCounts::update())
}

async fn count(_: Snap<WordCounts>, cx: Cx) -> Result<WordCountsUpdate, NodeError> {
    // The item that this task was handed.
    let line: String = cx.input()?;
    let words = line.split_whitespace().count() as u64;
    Ok(WordCounts::update().counts(vec![format!("{words} in {line:?}")]).total(words))
}

async fn sum(state: Snap<WordCounts>) -> Result<WordCountsUpdate, NodeError> {
    Ok(WordCounts::update().report(format!("{} words: {}", state.total, state.counts.join(", "))))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::named()
        .node(
            "split",
            node(split).branch(["count", "sum"], |state: &WordCounts| {
                // Without lines there is nothing to count: straight on to the sum.
                To::each("count".to_owned(), state.lines.clone(), To::Node("sum".to_owned()))
            }),
        )
        .node("count", node(count).then("sum"))
        .node("sum", node(sum).end())
        .start("split")
        .build()?;
    let lines: Vec<String> = std::env::args().skip(1).collect();
    let state = graph.run(WordCounts::update().lines(lines)).await?;
    println!("{}", state.report);
    Ok(())
}
