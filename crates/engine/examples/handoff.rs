//! A hand-off: two agents, each a graph of its own. A node inside one of them ends it and hands the conversation to the
//! other, with [`Cx::goto_parent`].
//!
//! `cargo run -p doran-engine --example handoff` prints the conversation.

use doran_engine::{Cx, Graph, NodeError, Snap, State, To, node, subgraph};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct HandoffState {
    question: String,
    #[reduce(append)]
    said: Vec<String>,
}

async fn greet(_: Snap<HandoffState>) -> Result<HandoffStateUpdate, NodeError> {
    Ok(HandoffState::update().said(vec!["support: hello".into()]))
}

/// A model would decide here.
async fn help(chat: Snap<HandoffState>, cx: Cx) -> Result<HandoffStateUpdate, NodeError> {
    if chat.question.contains("invoice") {
        cx.goto_parent(To::Node("billing"))?;
        return Ok(HandoffState::update().said(vec!["support: my colleague will help you".into()]));
    }
    Ok(HandoffState::update().said(vec!["support: have you tried turning it off and on again?".into()]))
}

async fn bill(chat: Snap<HandoffState>) -> Result<HandoffStateUpdate, NodeError> {
    Ok(HandoffState::update().said(vec![format!("billing: about \"{}\"", chat.question)]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let support = Graph::named()
        .node("greet", node(greet).then("help"))
        .node("help", node(help).end())
        .start("greet")
        .build()?;
    let billing = Graph::named().node("bill", node(bill).end()).start("bill").build()?;
    let agent = |graph| {
        subgraph(
            graph,
            |outer: &HandoffState| HandoffState::update().question(outer.question.clone()),
            |inner: &HandoffState| HandoffState::update().said(inner.said.clone()),
        )
    };
    let graph = Graph::named()
        .node("support", node(agent(support)).goto_or_end(["billing"]))
        .node("billing", node(agent(billing)).goto_or_end(["support"]))
        .start("support")
        .build()?;
    for question in ["it does not start", "my invoice is wrong"] {
        let chat = graph.run(HandoffState::update().question(question)).await?;
        println!("{}", chat.said.join("\n"));
    }
    Ok(())
}
