//! Several graphs on one thread: each state is that of its own graph.

use serde_json::json;

use super::{four_graphs_app, hi, new_thread};
use crate::{get, json, json_request, post, send, text};

#[tokio::test]
async fn a_thread_is_read_and_changed_through_the_graph_of_its_newest_run() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let wait = async |body: serde_json::Value| {
        json(&app, post(&format!("/threads/{thread}/runs/wait"), &body.to_string())).await
    };
    wait(json!({ "assistant_id": "chat", "input": hi() })).await;
    let asked = wait(json!({ "assistant_id": "hitl", "input": hi() })).await;
    assert_eq!(asked["__interrupt__"][0]["value"]["question"], "approve?", "{asked}");
    let shown = json(&app, get(&format!("/threads/{thread}"))).await;
    assert_eq!((&shown["metadata"]["graph_id"], &shown["status"]), (&json!("hitl"), &json!("interrupted")));
    assert_eq!(shown["interrupts"].as_object().map(serde_json::Map::len), Some(1), "{shown}");
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!((&state["next"], &state["tasks"][0]["name"]), (&json!(["ask"]), &json!("ask")), "{state}");
    let change = async |values: serde_json::Value| {
        let body = json!({ "values": values }).to_string();
        let response = send(&app, post(&format!("/threads/{thread}/state"), &body)).await;
        (response.status().as_u16(), text(response).await)
    };
    // `turn` is a field of the first graph only.
    let (status, reply) = change(json!({ "turn": 7 })).await;
    assert!(status == 422 && reply.contains("turn"), "{status} {reply}");
    let (status, reply) = change(json!({ "answer": "maybe" })).await;
    assert_eq!(status, 200, "{reply}");
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!((&state["values"]["answer"], &state["next"]), (&json!("maybe"), &json!(["ask"])), "{state}");
    let done = wait(json!({ "assistant_id": "hitl", "command": { "resume": "yes" } })).await;
    assert_eq!(done["answer"], "yes", "{done}");
    let history = json(&app, post(&format!("/threads/{thread}/history"), r#"{"limit":100}"#)).await;
    let history = history.as_array().expect("a list");
    for state in history {
        let is_first = state["metadata"]["graph_id"] == "chat";
        assert!(!is_first || state["values"].get("answer").is_none(), "{state}");
    }
    let turn = history.iter().find(|state| state["next"] == json!(["model"])).expect("a step of the first");
    assert_eq!(turn["values"]["turn"], 1, "{turn}");
    // And back again.
    wait(json!({ "assistant_id": "chat", "input": hi() })).await;
    let shown = json(&app, get(&format!("/threads/{thread}"))).await;
    assert_eq!(shown["metadata"]["graph_id"], "chat");
}

/// The rest of the API reads and replaces the state through the graph of the newest run too.
#[tokio::test]
async fn a_state_is_replaced_through_the_graph_of_the_newest_run() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    for graph in ["chat", "slow"] {
        let body = json!({ "assistant_id": graph, "input": if graph == "chat" { hi() } else { json!({}) } });
        if graph == "chat" {
            json(&app, post(&format!("/threads/{thread}/runs/wait"), &body.to_string())).await;
        } else {
            let run = json(&app, post(&format!("/threads/{thread}/runs"), &body.to_string())).await;
            let cancel =
                format!("/threads/{thread}/runs/{}/cancel?wait=1", run["run_id"].as_str().expect("an id"));
            json(&app, post(&cancel, "")).await;
        }
    }
    let path = format!("/api/threads/{thread}/state");
    let read = json(&app, get(&path)).await;
    assert_eq!(read["state"], json!({}), "the state of `slow`: {read}");
    let put = |state: serde_json::Value, agent: Option<&str>| {
        json_request("put", &path, &json!({ "state": state, "agent": agent }).to_string())
    };
    // `turn` is a field of the first graph only, `answer` one of the newest.
    let refused = send(&app, put(json!({ "turn": 7 }), None)).await;
    let (status, reply) = (refused.status().as_u16(), text(refused).await);
    assert!(status == 400 && reply.contains("turn"), "{status} {reply}");
    let changed = json(&app, put(json!({ "answer": "by hand" }), None)).await;
    assert_eq!(changed["state"], json!({ "answer": "by hand" }));
    assert_eq!(json(&app, get(&path)).await["state"], json!({ "answer": "by hand" }));
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!(state["values"], json!({ "answer": "by hand" }));
    // Another one is named.
    let changed = json(&app, put(json!({ "turn": 7, "messages": [] }), Some("chat"))).await;
    assert_eq!(changed["state"]["turn"], 7);
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!(
        (&state["values"]["turn"], &state["metadata"]["graph_id"]),
        (&json!(7), &json!("chat")),
        "{state}"
    );
}

#[tokio::test]
async fn assistants_are_found_by_a_part_of_their_names_and_lose_their_descriptions() {
    let app = four_graphs_app();
    let body = json!({ "graph_id": "chat", "name": "My Helper", "description": "helps" }).to_string();
    let made = json(&app, post("/assistants", &body)).await;
    for (name, count) in [("helper", 1), ("MY H", 1), ("Y HELPERS", 0)] {
        let body = json!({ "name": name }).to_string();
        let found = json(&app, post("/assistants/search", &body)).await;
        assert_eq!(found.as_array().map(Vec::len), Some(count), "{name}: {found}");
        assert_eq!(json(&app, post("/assistants/count", &body)).await, json!(count), "{name}");
    }
    let path = format!("/assistants/{}", made["assistant_id"].as_str().expect("an id"));
    let renamed = json(&app, json_request("PATCH", &path, r#"{"name":"Other"}"#)).await;
    assert_eq!(renamed["description"], "helps");
    let plain = json(&app, json_request("PATCH", &path, r#"{"description":null}"#)).await;
    assert_eq!((&plain["description"], &plain["name"]), (&json!(null), &json!("Other")));
    let response = send(&app, post("/threads/search", r#"{"limit":0}"#)).await;
    let (status, reply) = (response.status().as_u16(), text(response).await);
    assert!(status == 422 && reply.contains("`limit`"), "{status} {reply}");
}
