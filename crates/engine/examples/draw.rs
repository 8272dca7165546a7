//! Prints a graph: `cargo run -p doran-engine --example draw -- mermaid`, or `svg`, or `json`.

use doran_engine::{Graph, NodeError, Nodes, Snap, State, To, node, subgraph};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Paper {
    text: String,
    done: bool,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Plan,
    Research,
    Write,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Look {
    Search,
    Read,
}

async fn idle(_: Snap<Paper>) -> Result<PaperUpdate, NodeError> {
    Ok(Paper::update())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let research =
        Graph::define(|look| match look {
            Look::Search => node(idle).branch_or_end([Look::Read], |paper: &Paper| {
                if paper.done { To::End } else { To::Node(Look::Read) }
            }),
            Look::Read => node(idle).then(Look::Search),
        })
        .start(Look::Search)
        .build()?;
    let graph =
        Graph::define(|step| match step {
            Step::Plan => node(idle).then(Step::Research),
            Step::Research => {
                node(subgraph(research.clone(), |_: &Paper| Paper::update(), |_: &Paper| Paper::update()))
                    .then(Step::Write)
            }
            Step::Write => node(idle).branch_or_end([Step::Plan], |paper: &Paper| {
                if paper.done { To::End } else { To::Node(Step::Plan) }
            }),
        })
        .start(Step::Plan)
        .build()?;

    let drawing = graph.drawing();
    match std::env::args().nth(1).as_deref() {
        Some("svg") => print!("{}", drawing.svg()),
        Some("json") => println!("{:#}", drawing.json()),
        Some("mermaid") | None => print!("{}", drawing.mermaid()),
        Some(other) => return Err(format!("`{other}` is none of mermaid, svg, json").into()),
    }
    Ok(())
}
