//! What a list takes, and what no route takes: named, and not ignored.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::{four_graphs_app, hi, new_thread};
use crate::{get, json, json_request, post, send, text};

async fn refused(app: &doran_server::ServerApp, request: Request<Body>, named: &str) {
    let shown = format!("{} {}", request.method(), request.uri());
    let response = send(app, request).await;
    let (status, reply) = (response.status().as_u16(), text(response).await);
    assert!(status == 422 && reply.contains(named), "{shown}: {status} {reply}");
}

#[tokio::test]
async fn a_list_has_from_1_to_1000_things() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let lists = [
        "/assistants/search".to_owned(),
        "/assistants/chat/versions".to_owned(),
        "/threads/search".to_owned(),
        format!("/threads/{thread}/history"),
        "/runs/crons/search".to_owned(),
        "/store/items/search".to_owned(),
        "/store/namespaces".to_owned(),
    ];
    for limit in [0, 1001] {
        let body = json!({ "limit": limit }).to_string();
        for path in &lists {
            refused(&app, post(path, &body), "`limit`").await;
        }
        for path in ["runs", "history"] {
            refused(&app, get(&format!("/threads/{thread}/{path}?limit={limit}")), "`limit`").await;
        }
    }
    for path in &lists {
        assert_eq!(send(&app, post(path, r#"{"limit":1000}"#)).await.status(), 200, "{path}");
        refused(&app, post(path, r#"{"limit":"x"}"#), "`limit`").await;
        refused(&app, post(path, r#"{"offset":-1}"#), "`offset`").await;
    }
}

#[tokio::test]
async fn what_is_chosen_or_counted_by_a_field_that_there_is_not_is_named() {
    let app = four_graphs_app();
    for path in ["/assistants/search", "/threads/search", "/runs/crons/search"] {
        refused(&app, post(path, r#"{"select":["metadata","nobody"]}"#), "`nobody`").await;
    }
    for path in ["/assistants/count", "/threads/count", "/runs/crons/count"] {
        for field in ["limit", "offset", "sort_by", "select"] {
            refused(&app, post(path, &json!({ field: 1 }).to_string()), &format!("`{field}`")).await;
        }
    }
}

/// The fields of the SDK that are not supported, where LangGraph has them.
#[tokio::test]
async fn a_field_of_langgraphs_client_that_is_not_supported_is_named() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let run = |field: &str| {
        let mut body = json!({ "assistant_id": "chat", "input": hi() });
        body[field] = json!(true);
        body.to_string()
    };
    let wait = format!("/threads/{thread}/runs/wait");
    for field in ["strict_resume", "langsmith_tracer", "webhook", "after_seconds", "feedback_keys"] {
        refused(&app, post(&wait, &run(field)), &format!("`{field}`")).await;
    }
    let mut body: Value = serde_json::from_str(&run("stream_resumable")).expect("JSON");
    body["on_disconnect"] = json!("cancel");
    body["stream_resumable"] = json!(true);
    for path in [format!("/threads/{thread}/runs"), "/runs".to_owned()] {
        refused(&app, post(&path, &body.to_string()), "`on_disconnect`").await;
    }
    refused(&app, post("/runs/batch", &json!([body]).to_string()), "`on_disconnect`").await;
    for durability in ["sync", "async"] {
        let body = json!({ "assistant_id": "chat", "input": hi(), "durability": durability }).to_string();
        assert_eq!(json(&app, post("/runs/wait", &body)).await["turn"], 1);
    }
    let mut interrupt = json!({ "assistant_id": "chat", "input": hi() });
    interrupt["interrupt_before"] = json!(["model", "ghost"]);
    refused(&app, post(&wait, &interrupt.to_string()), "`interrupt_before`").await;
    for (path, field, value) in [
        ("/threads", "ttl", json!(5)),
        ("/threads", "supersteps", json!([])),
        ("/threads/search", "extract", json!({ "a": "values.a" })),
        ("/store/items/search", "query", json!("tea")),
        ("/store/items/search", "refresh_ttl", json!(true)),
    ] {
        refused(&app, post(path, &json!({ field: value }).to_string()), &format!("`{field}`")).await;
    }
    let cron = json!({ "assistant_id": "chat", "schedule": "0 0 1 1 *", "input": hi() });
    for (field, value) in [
        ("stream_subgraphs", json!(true)),
        ("stream_resumable", json!(true)),
        ("checkpoint_during", json!(true)),
    ] {
        let mut body = cron.clone();
        body[field] = value;
        refused(&app, post("/runs/crons", &body.to_string()), &format!("`{field}`")).await;
    }
    for body in [json!({ "select": ["values"] }), json!({ "nobody": 1 })] {
        let field = body.as_object().expect("an object").keys().next().expect("a field").clone();
        let path = format!("/threads/{thread}/history");
        refused(&app, post(&path, &body.to_string()), &format!("`{field}`")).await;
    }
}

#[tokio::test]
async fn a_parameter_that_a_route_does_not_have_is_named() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let wait = json!({ "assistant_id": "chat", "input": hi() }).to_string();
    json(&app, post(&format!("/threads/{thread}/runs/wait"), &wait)).await;
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    let checkpoint = state["checkpoint"]["checkpoint_id"].as_str().expect("an id");
    let run = state["metadata"]["run_id"].as_str().expect("an id");
    for path in [
        "/ok".to_owned(),
        "/info".to_owned(),
        "/assistants/chat".to_owned(),
        "/assistants/chat/graph".to_owned(),
        "/assistants/chat/schemas".to_owned(),
        "/assistants/chat/subgraphs".to_owned(),
        format!("/threads/{thread}"),
        format!("/threads/{thread}/state"),
        format!("/threads/{thread}/state/{checkpoint}"),
        format!("/threads/{thread}/history"),
        format!("/threads/{thread}/runs"),
        format!("/threads/{thread}/runs/{run}"),
        format!("/threads/{thread}/runs/{run}/join"),
        format!("/threads/{thread}/runs/{run}/stream"),
        "/store/items".to_owned(),
    ] {
        let wanted = if path == "/store/items" { "?namespace=a&key=b&nobody=1" } else { "?nobody=1" };
        refused(&app, get(&format!("{path}{wanted}")), "`nobody`").await;
    }
    for path in ["/threads", "/threads/search", "/assistants/search", "/runs/wait", "/runs/cancel"] {
        refused(&app, post(&format!("{path}?nobody=1"), "{}"), "`nobody`").await;
    }
    refused(&app, json_request("delete", &format!("/threads/{thread}?nobody=1"), ""), "`nobody`").await;
    refused(&app, get(&format!("/threads/{thread}?include=ttl")), "`include`").await;
    refused(&app, get(&format!("/threads/{thread}/state/{checkpoint}?subgraphs=true")), "`subgraphs`").await;
    assert_eq!(send(&app, get(&format!("/threads/{thread}"))).await.status(), 200, "it is still there");
}
