//! Threads whose graph is not served any more, or became another one.

use doran_agents::Agent;
use serde_json::{Value, json};

use super::{four_graphs, four_graphs_app_and_runtime, hi, new_thread};
use crate::{get, json, post, send, text};

#[tokio::test]
async fn a_state_whose_graph_is_gone_is_a_clear_error_and_its_thread_is_still_listed() {
    let (app, runtime) = four_graphs_app_and_runtime();
    let thread = new_thread(&app).await;
    let mixed = new_thread(&app).await;
    for (thread, graph) in [(&thread, "chat"), (&mixed, "chat"), (&mixed, "hitl")] {
        let body = json!({ "assistant_id": graph, "input": hi() }).to_string();
        json(&app, post(&format!("/threads/{thread}/runs/wait"), &body)).await;
    }
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    let checkpoint = state["checkpoint"]["checkpoint_id"].as_str().expect("an id");
    let run = state["metadata"]["run_id"].as_str().expect("an id");
    let requests = || {
        [
            get(&format!("/threads/{thread}/state")),
            get(&format!("/threads/{thread}/state/{checkpoint}")),
            post(
                &format!("/threads/{thread}/state/checkpoint"),
                &json!({ "checkpoint": state["checkpoint"] }).to_string(),
            ),
            get(&format!("/threads/{thread}/history")),
            post(&format!("/threads/{thread}/history"), r#"{"limit":5}"#),
        ]
    };
    let graphs = || four_graphs::graphs().expect("sound graphs").into_iter();
    let without_chat: Vec<Agent> = graphs().filter(|graph| graph.name != "chat").collect();
    app.agent_list().replace(without_chat.clone());
    for request in requests() {
        let path = request.uri().to_string();
        let response = send(&app, request).await;
        let (status, reply) = (response.status().as_u16(), text(response).await);
        assert!(
            status == 404 && reply.contains("`chat`") && reply.contains("not served"),
            "{path}: {status} {reply}"
        );
    }
    for request in [
        get(&format!("/threads/{thread}/runs/{run}/join")),
        get(&format!("/threads/{thread}/runs/{run}/stream")),
    ] {
        assert_eq!(send(&app, request).await.status(), 404);
    }
    let change = post(&format!("/threads/{thread}/state"), r#"{"values":{"turn":3}}"#);
    assert_eq!(send(&app, change).await.status(), 422);
    let shown = json(&app, get(&format!("/threads/{thread}"))).await;
    assert_eq!((&shown["values"], &shown["status"]), (&Value::Null, &json!("idle")));
    let found = json(&app, post("/threads/search", "{}")).await;
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(json(&app, get(&format!("/threads/{thread}/runs/{run}"))).await["status"], "success");
    // What the other graph did can be read.
    let history = json(&app, post(&format!("/threads/{mixed}/history"), r#"{"limit":50}"#)).await;
    let history = history.as_array().expect("a list");
    assert!(!history.is_empty() && history.iter().all(|state| state["metadata"]["graph_id"] == "hitl"));

    // Another graph of that name does not read the state either.
    let mut other = graphs().find(|graph| graph.name == "slow").expect("a graph");
    other.name = "chat".to_owned();
    other.replace_in(&runtime);
    app.agent_list().replace([without_chat, vec![other]].concat());
    // A history also has the state before the first input, which any graph reads.
    for request in requests().into_iter().take(3) {
        let path = request.uri().to_string();
        let response = send(&app, request).await;
        let (status, reply) = (response.status().as_u16(), text(response).await);
        assert!(status == 409 && reply.contains("does not fit"), "{path}: {status} {reply}");
    }
    let found = json(&app, post("/threads/search", "{}")).await;
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
}
