//! Serves four small graphs: `cargo run -p doran-server --example four_graphs -- --port 7979`.

use std::{sync::Arc, time::Duration};

use doran_agents::{Agent, ByMessageId, llm::Message};
use doran_engine::{BuildError, Cx, Graph, NodeError, Snap, State, node, store::RamStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Chat {
    #[reduce(rule = ByMessageId)]
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
}

async fn prepare(state: Snap<Chat>) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().turn(state.turn.unwrap_or(0) + 1))
}

async fn model(_: Snap<Chat>, cx: Cx) -> Result<ChatUpdate, NodeError> {
    let (id, tokens) = (cx.new_id(), (0..20).map(|i| format!("token{i} ")));
    tokens.clone().for_each(|token| cx.emit_text_of(&id, token));
    Ok(Chat::update().messages(Message::assistant(id, tokens.collect::<String>())))
}

#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Approval {
    #[reduce(rule = ByMessageId)]
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

async fn ask(_: Snap<Approval>, cx: Cx) -> Result<ApprovalUpdate, NodeError> {
    Ok(Approval::update().answer(cx.ask::<String, _>(json!({ "question": "approve?" })).await?))
}

async fn reply(state: Snap<Approval>, cx: Cx) -> Result<ApprovalUpdate, NodeError> {
    let words = format!("you said {}", state.answer.as_deref().unwrap_or_default());
    Ok(Approval::update().messages(Message::assistant(cx.new_id(), words)))
}

#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

async fn tick(_: Snap<Answer>, cx: Cx) -> Result<AnswerUpdate, NodeError> {
    for i in 0..50 {
        cx.emit(json!({ "tick": i }));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(Answer::update().answer("done".to_owned()))
}

pub(crate) fn graphs() -> Result<Vec<Agent>, BuildError> {
    let finish = async |_: Snap<Chat>| Ok::<_, NodeError>(Chat::update());
    let fail = async |_: Snap<Answer>| Err(NodeError::permanent("boom").with_code("ValueError"));
    let chat = Graph::named().node("prepare", node(prepare).then("model"));
    let chat = chat.node("model", node(model).then("finish")).node("finish", node(finish).end());
    let hitl = Graph::named().node("ask", node(ask).then("reply")).node("reply", node(reply).end());
    Ok(vec![
        Agent::from_graph("chat", &chat.start("prepare").build()?),
        Agent::from_graph("hitl", &hitl.start("ask").build()?),
        Agent::from_graph("slow", &Graph::named().node("tick", node(tick).end()).start("tick").build()?),
        Agent::from_graph("failing", &Graph::named().node("fail", node(fail).end()).start("fail").build()?),
    ])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().skip_while(|word| word != "--port").nth(1).unwrap_or("7979".into());
    let address = ([127, 0, 0, 1], port.parse()?).into();
    Ok(doran_server::serve_graphs(Arc::new(RamStore::new()), graphs()?, address).await?)
}
