//! Agents from files, as LangGraph's clients see them.

use std::sync::Arc;

use doran_agents::AgentParts;
use doran_agents::described::{AgentDescription, build_described_agent};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_offline::OfflineModel;
use doran_retrieval::RamKeywordIndex;
use doran_server::ServerApp;
use serde_json::{Value, json};

use super::new_thread;
use crate::{get, json, post, send, text};

const HELPDESK: &str = r#"
name = "helpdesk"
ko = "묻습니다"
en = "asks"
start = "person"

[[node]]
name = "sort"
use = "classify"
prompt = "Is it a question or a complaint?"
choices = ["question", "complaint"]
branch = { to = { question = "judge" }, else = "answer" }

[[node]]
name = "judge"
use = "evaluate"
prompt = "Is it enough?"
into = "enough"
then = "answer"

[[node]]
name = "person"
use = "interrupt"
ask = { ko = "뭐라고 할까요?", en = "What shall we say?" }
then = "sort"

[[node]]
name = "answer"
use = "respond"
text = "{{ values.person }}"
then = "end"
"#;

fn helpdesk_app() -> ServerApp {
    let description = AgentDescription::from_toml(HELPDESK).expect("readable");
    let parts = AgentParts::new(Arc::new(OfflineModel), Arc::new(RamKeywordIndex::default()));
    let agent = build_described_agent(&description, &[], &parts).expect("sound");
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    agent.register(&runtime).expect("registered");
    ServerApp::new(runtime, store, vec![agent])
}

#[tokio::test]
async fn the_schemas_of_a_described_agent_say_what_it_takes_and_stores() {
    let app = helpdesk_app();
    let schemas = json(&app, get("/assistants/helpdesk/schemas")).await;
    let names = |schema: &Value| {
        let mut names: Vec<String> =
            schema["properties"].as_object().expect("an object").keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(&schemas["input_schema"]), ["collection", "document", "messages"], "{schemas}");
    let state = &schemas["state_schema"]["properties"];
    assert_eq!(state["messages"]["items"], json!({ "type": "object", "title": "Message" }));
    assert_eq!(names(&state["values"]), ["enough", "enough_missing", "enough_rounds", "person", "sort"]);
    let stored = &state["values"]["properties"];
    assert_eq!(stored["sort"]["enum"], json!(["question", "complaint"]));
    assert_eq!(stored["enough"]["enum"], json!(["sufficient", "insufficient"]));
    // What the schema says is what a run takes and gives.
    let thread = new_thread(&app).await;
    let path = format!("/threads/{thread}/runs/wait");
    let asked = [("messages", json!([{ "role": "user", "content": "도와주세요", "id": "q" }]))];
    let input = json!({ "assistant_id": "helpdesk", "input": Value::from_iter(asked) }).to_string();
    let waits = json(&app, post(&path, &input)).await;
    assert!(waits.get("__interrupt__").is_some(), "{waits}");
    let resume = json!({ "assistant_id": "helpdesk", "command": { "resume": "알겠습니다" } }).to_string();
    let ended = json(&app, post(&path, &resume)).await;
    assert_eq!(ended["values"]["person"], "알겠습니다", "{ended}");
    assert_eq!(
        (&ended["messages"][0]["id"], &ended["messages"][1]["content"]),
        (&json!("q"), &json!("알겠습니다"))
    );
    let wrong = json!({ "assistant_id": "helpdesk", "input": { "values": {}, "messages": [] } }).to_string();
    let response = send(&app, post(&path, &wrong)).await;
    let (status, reply) = (response.status().as_u16(), text(response).await);
    assert!(status == 422 && reply.contains("`values`"), "{status} {reply}");
}
