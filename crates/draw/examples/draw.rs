//! Prints a graph: `cargo run -p doran-draw --example draw -- mermaid`, or `svg`, or `json`.

use doran_engine::{Graph, NodeError, Nodes, Snap, State, To, node, subgraph};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct ResearchPaper {
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
enum ResearchStep {
    Search,
    Read,
}

async fn idle(_: Snap<ResearchPaper>) -> Result<ResearchPaperUpdate, NodeError> {
    Ok(ResearchPaper::update())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let research = Graph::define(|look| match look {
        ResearchStep::Search => node(idle).branch_or_end([ResearchStep::Read], |paper: &ResearchPaper| {
            if paper.done { To::End } else { To::Node(ResearchStep::Read) }
        }),
        ResearchStep::Read => node(idle).then(ResearchStep::Search),
    })
    .start(ResearchStep::Search)
    .build()?;
    let graph =
        Graph::define(|step| match step {
            Step::Plan => node(idle).then(Step::Research),
            Step::Research => node(subgraph(
                research.clone(),
                |_: &ResearchPaper| ResearchPaper::update(),
                |_: &ResearchPaper| ResearchPaper::update(),
            ))
            .then(Step::Write),
            Step::Write => node(idle).branch_or_end([Step::Plan], |paper: &ResearchPaper| {
                if paper.done { To::End } else { To::Node(Step::Plan) }
            }),
        })
        .start(Step::Plan)
        .build()?;

    let topology = graph.topology();
    match std::env::args().nth(1).as_deref() {
        Some("svg") => print!("{}", doran_draw::draw_svg(&topology)),
        Some("json") => println!("{:#}", serde_json::json!(doran_draw::draw_json(&topology))),
        Some("mermaid") | None => print!("{}", doran_draw::draw_mermaid(&topology)),
        Some(other) => return Err(format!("`{other}` is none of mermaid, svg, json").into()),
    }
    Ok(())
}
