//! A supervisor: one node decides who works next, each worker reports back, until the supervisor is content.
//!
//! `cargo run -p doran-engine --example supervisor` prints who worked, and the result.

use doran_engine::{Cx, Graph, NodeError, Nodes, Snap, State, To, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct WrittenReport {
    topic: String,
    #[reduce(append)]
    facts: Vec<String>,
    text: String,
    #[reduce(append)]
    worked: Vec<String>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Supervise,
    Research,
    Write,
}

/// A model would decide here. These rules do: facts first, then a text, then the end.
async fn supervise(report: Snap<WrittenReport>, cx: Cx) -> Result<WrittenReportUpdate, NodeError> {
    cx.goto(match (report.facts.len(), report.text.is_empty()) {
        (0..2, _) => To::Node(Step::Research),
        (_, true) => To::Node(Step::Write),
        _ => To::End,
    })?;
    Ok(WrittenReport::update())
}

async fn research(report: Snap<WrittenReport>) -> Result<WrittenReportUpdate, NodeError> {
    let fact = format!("fact {} about {}", report.facts.len() + 1, report.topic);
    Ok(WrittenReport::update().facts(vec![fact]).worked(vec!["research".into()]))
}

async fn write(report: Snap<WrittenReport>) -> Result<WrittenReportUpdate, NodeError> {
    Ok(WrittenReport::update().text(report.facts.join(", ")).worked(vec!["write".into()]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::define(|step| match step {
        Step::Supervise => node(supervise).goto_or_end([Step::Research, Step::Write]),
        Step::Research => node(research).then(Step::Supervise),
        Step::Write => node(write).then(Step::Supervise),
    })
    .start(Step::Supervise)
    .build()?;
    let report = graph.run(WrittenReport::update().topic("rust")).await?;
    println!("{}", report.worked.join(" → "));
    println!("{}", report.text);
    Ok(())
}
