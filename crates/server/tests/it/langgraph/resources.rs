//! What tenants store beside threads: assistants, items and crons; and what assistants give to runs.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use doran_agents::Agent;
use doran_engine::runtime::ScheduleTiming;
use doran_engine::store::RamStore;
use doran_engine::{Cx, Graph, NodeError, Runtime, Snap, State, TenantId, node};
use doran_server::{MonthlyBudget, ServerApp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{four_graphs_app, four_graphs_app_and_runtime, hi, new_thread};
use crate::{get, json, json_request, post, problem, send, text, two_keys, until, with_key_of};

/// What the graph of these tests knows.
#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct ContextState {
    seen: Value,
    answer: Option<String>,
}

async fn look(_: Snap<ContextState>, cx: Cx) -> Result<ContextStateUpdate, NodeError> {
    Ok(ContextState::update().seen(cx.context::<Value>()?))
}

async fn ask(_: Snap<ContextState>, cx: Cx) -> Result<ContextStateUpdate, NodeError> {
    let answer: String = cx.ask(json!("go on?")).await?;
    Ok(ContextState::update().answer(answer).seen(cx.context::<Value>()?))
}

/// A graph that shows its context, asks something, and shows its context again.
fn context_app() -> ServerApp {
    let graph = Graph::named()
        .node("look", node(look).then("ask"))
        .node("ask", node(ask).end())
        .start("look")
        .build()
        .expect("a sound graph");
    let agent = Agent::from_graph("context", &graph);
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    agent.register(&runtime).expect("registered");
    ServerApp::new(runtime, store, vec![agent])
}

async fn wait(app: &ServerApp, thread: &str, body: &Value) -> Value {
    json(app, post(&format!("/threads/{thread}/runs/wait"), &body.to_string())).await
}

fn put(path: &str, body: &Value) -> Request<Body> {
    json_request("put", path, &body.to_string())
}

async fn reply(app: &ServerApp, request: Request<Body>) -> (u16, String) {
    let response = send(app, request).await;
    (response.status().as_u16(), text(response).await)
}

#[tokio::test]
async fn the_context_of_a_run_reaches_its_nodes_over_that_of_its_assistant() {
    let app = context_app();
    let body = json!({ "graph_id": "context", "context": { "tone": "kind", "size": 1 } });
    let assistant = json(&app, post("/assistants", &body.to_string())).await;
    let id = assistant["assistant_id"].clone();
    for (fields, seen) in [
        (json!({ "assistant_id": "context" }), json!(null)),
        (json!({ "assistant_id": "context", "context": { "tone": "dry" } }), json!({ "tone": "dry" })),
        (
            json!({ "assistant_id": "context", "config": { "configurable": { "tone": "dry" } } }),
            json!({ "tone": "dry" }),
        ),
        (json!({ "assistant_id": id }), json!({ "tone": "kind", "size": 1 })),
        (json!({ "assistant_id": id, "context": { "tone": "dry" } }), json!({ "tone": "dry", "size": 1 })),
    ] {
        let thread = new_thread(&app).await;
        let mut first = fields.clone();
        first["input"] = json!({});
        assert_eq!(wait(&app, &thread, &first).await["seen"], seen, "{fields}");
        // A client sends its settings with every request, and a run keeps those that it was started with.
        let mut resume = fields.clone();
        resume["command"] = json!({ "resume": "yes" });
        let mut other = resume.clone();
        other["context"] = json!({ "tone": "loud" });
        other["config"] = Value::Null;
        let path = format!("/threads/{thread}/runs/wait");
        let (status, words) = reply(&app, post(&path, &other.to_string())).await;
        assert!(status == 422 && words.contains("`context`"), "{status} {words}");
        let ended = wait(&app, &thread, &resume).await;
        assert_eq!((&ended["seen"], &ended["answer"]), (&seen, &json!("yes")), "{fields}");
    }
    let both = json!({
        "assistant_id": "context", "input": {}, "context": { "a": 1 }, "config": { "configurable": { "b": 1 } },
    });
    let thread = new_thread(&app).await;
    let (status, words) = reply(&app, post(&format!("/threads/{thread}/runs/wait"), &both.to_string())).await;
    assert!(status == 422 && words.contains("`context`"), "{status} {words}");
}

#[tokio::test]
async fn the_limit_of_steps_of_an_assistant_holds_for_its_runs() {
    let app = four_graphs_app();
    let body = json!({ "graph_id": "chat", "config": { "recursion_limit": 1 } }).to_string();
    let id = json(&app, post("/assistants", &body)).await["assistant_id"].clone();
    let thread = new_thread(&app).await;
    let run = json!({ "assistant_id": id, "input": hi() });
    assert!(wait(&app, &thread, &run).await.get("__error__").is_some(), "one step is not enough");
    let run = json!({ "assistant_id": id, "input": hi(), "config": { "recursion_limit": 50 } });
    assert_eq!(wait(&app, &new_thread(&app).await, &run).await["turn"], 1);
}

#[tokio::test]
async fn an_assistant_belongs_to_its_tenant_and_that_of_a_graph_to_nobody() {
    let app = four_graphs_app().keys(two_keys());
    let body = json!({ "graph_id": "chat", "name": "secret", "metadata": { "team": "x" } }).to_string();
    let made = json(&app, with_key_of("a", post("/assistants", &body))).await;
    let id = made["assistant_id"].as_str().expect("an id");
    let path = format!("/assistants/{id}");
    let requests = || {
        [
            get(&path),
            get(&format!("{path}/graph")),
            get(&format!("{path}/schemas")),
            get(&format!("{path}/subgraphs")),
            json_request("patch", &path, "{}"),
            json_request("delete", &path, ""),
            post(&format!("{path}/versions"), "{}"),
            post(&format!("{path}/latest"), r#"{"version":1}"#),
        ]
    };
    for request in requests() {
        assert_eq!(problem(&app, with_key_of("b", request)).await, "404 not_found");
    }
    for (list, body) in [("/assistants/search", json!({ "metadata": { "team": "x" } }))] {
        let found = json(&app, with_key_of("b", post(list, &body.to_string()))).await;
        assert_eq!(found, json!([]));
    }
    let run = json!({ "assistant_id": id, "input": hi() }).to_string();
    assert_eq!(problem(&app, with_key_of("b", post("/runs/wait", &run))).await, "404 not_found");
    // The same id is free for another tenant, and does not change the first one.
    let own = json!({ "graph_id": "hitl", "assistant_id": id }).to_string();
    assert_eq!(json(&app, with_key_of("b", post("/assistants", &own))).await["graph_id"], "hitl");
    assert_eq!(json(&app, with_key_of("a", get(&path))).await["graph_id"], "chat");
    let graphs = json(&app, with_key_of("a", post("/assistants/search", r#"{"graph_id":"slow"}"#))).await;
    let graph = graphs[0]["assistant_id"].as_str().expect("an id");
    for request in [
        json_request("patch", &format!("/assistants/{graph}"), "{}"),
        json_request("delete", &format!("/assistants/{graph}"), ""),
        post(&format!("/assistants/{graph}/latest"), r#"{"version":1}"#),
    ] {
        let (status, words) = reply(&app, with_key_of("a", request)).await;
        assert!(status == 422 && words.contains("of a graph"), "{status} {words}");
    }
}

#[tokio::test]
async fn items_of_the_server_are_not_items_of_its_clients() {
    let app = four_graphs_app().keys(two_keys());
    json(&app, with_key_of("a", post("/assistants", r#"{"graph_id":"chat"}"#))).await;
    let item = json!({ "namespace": ["users"], "key": "k", "value": { "n": 1 } });
    assert_eq!(send(&app, with_key_of("a", put("/store/items", &item))).await.status(), 204);
    let all = r#"{"namespace_prefix":[]}"#;
    let found = json(&app, with_key_of("a", post("/store/items/search", all))).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    let found = json(&app, with_key_of("a", post("/store/namespaces", "{}"))).await;
    assert_eq!(found, json!({ "namespaces": [["users"]] }));
    let reserved = "\u{10fffd}doran";
    let names = json!([reserved, "assistants"]);
    for request in [
        put("/store/items", &json!({ "namespace": names, "key": "k", "value": {} })),
        json_request("delete", "/store/items", &json!({ "namespace": names, "key": "k" }).to_string()),
        post("/store/items/search", &json!({ "namespace_prefix": names }).to_string()),
        post("/store/namespaces", &json!({ "prefix": names }).to_string()),
        get("/store/items?namespace=%F4%8F%BF%BDdoran.assistants&key=k"),
    ] {
        let (status, words) = reply(&app, with_key_of("a", request)).await;
        assert!(status == 422 && words.contains("belongs to the server"), "{status} {words}");
    }
    for (path, body) in [("/store/items/search", all), ("/store/namespaces", "{}")] {
        let found = json(&app, with_key_of("b", post(path, body))).await;
        let found = found.as_object().expect("an object").values().next().expect("a list").clone();
        assert_eq!(found, json!([]), "another tenant");
    }
    let found = json(&app, with_key_of("b", get("/store/items?namespace=users&key=k"))).await;
    assert_eq!(found, Value::Null);
}

#[tokio::test]
async fn what_an_item_cannot_be_is_named() {
    let app = four_graphs_app();
    let long = "x".repeat(2000);
    for (change, word) in [
        (json!({ "namespace": [] }), "namespace"),
        (json!({ "namespace": [""] }), "namespace"),
        (json!({ "namespace": [long] }), "namespace"),
        (json!({ "key": "" }), "key"),
        (json!({ "key": long }), "key"),
        (json!({ "value": 3 }), "value"),
        (json!({ "index": ["n"] }), "index"),
        (json!({ "index": true }), "index"),
        (json!({ "ttl": 0 }), "ttl"),
        (json!({ "ttl": 1e300 }), "ttl"),
        (json!({ "refresh": true }), "refresh"),
    ] {
        let mut item = json!({ "namespace": ["users"], "key": "k", "value": { "n": 1 } });
        for (name, value) in change.as_object().expect("an object") {
            item[name] = value.clone();
        }
        let (status, words) = reply(&app, put("/store/items", &item)).await;
        assert!(status == 422 && words.contains(&format!("`{word}")), "{change}: {status} {words}");
    }
    let large = json!({ "namespace": ["users"], "key": "k", "value": { "n": "x".repeat(1024 * 1024) } });
    assert!(matches!(reply(&app, put("/store/items", &large)).await.0, 413 | 422));
    for (body, word) in [
        (json!({ "namespace_prefix": ["users"], "query": "kimchi" }), "query"),
        (json!({ "namespace_prefix": ["users"], "filter": { "n": { "$in": [1] } } }), "filter.n.$in"),
        (json!({ "namespace_prefix": ["users"], "filter": { "$or": [1] } }), "filter.$or"),
    ] {
        let (status, words) = reply(&app, post("/store/items/search", &body.to_string())).await;
        assert!(status == 422 && words.contains(&format!("`{word}")), "{body}: {status} {words}");
    }
}

/// A cron of tenant `local`, by its id.
async fn new_cron(app: &ServerApp, assistant: &Value) -> String {
    let body = json!({
        "assistant_id": assistant, "schedule": "0 0 1 1 *", "input": hi(), "metadata": { "kind": "yearly" },
        "context": { "tone": "dry" },
    });
    let cron = json(app, post("/runs/crons", &body.to_string())).await;
    cron["cron_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_cron_starts_runs_of_its_assistant() {
    let (app, runtime) = four_graphs_app_and_runtime();
    let made = json(&app, post("/assistants", r#"{"graph_id":"chat","context":{"size":1}}"#)).await;
    let assistant = made["assistant_id"].clone();
    let cron = new_cron(&app, &assistant).await;
    let tenant = TenantId::local();
    let schedule = runtime.schedule(&tenant, &cron).await.expect("read").expect("a schedule");
    assert_eq!(schedule.definition.context, Some(json!({ "size": 1, "tone": "dry" })));
    // The next time of the cron has come.
    let mut due = schedule.definition;
    due.timing = ScheduleTiming::Once(0);
    runtime.start_worker().await.expect("it works");
    runtime.put_schedule(&tenant, &cron, &due, true).await.expect("stored");
    let mut runs = Vec::new();
    until(async || {
        runs = runtime.list_runs(&tenant, &Default::default()).await.expect("read");
        runs.first().is_some_and(|run| run.status.is_end())
    })
    .await;
    let thread = runs[0].thread.thread.as_str().to_owned();
    let listed = json(&app, get(&format!("/threads/{thread}/runs"))).await;
    assert_eq!(listed[0]["assistant_id"], assistant, "{listed}");
    assert_eq!(listed[0]["status"], "success", "{listed}");
    assert_eq!(listed[0]["metadata"], json!({ "kind": "yearly", "schedule": cron }), "{listed}");
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!((&state["values"]["turn"], &state["metadata"]["assistant_id"]), (&json!(1), &assistant));
}

#[tokio::test]
async fn a_cron_leaves_with_its_assistant() {
    let app = four_graphs_app();
    let made = json(&app, post("/assistants", r#"{"graph_id":"chat"}"#)).await;
    let own = new_cron(&app, &made["assistant_id"]).await;
    let of_graph = new_cron(&app, &json!("chat")).await;
    let path = format!("/assistants/{}", made["assistant_id"].as_str().expect("an id"));
    assert_eq!(send(&app, json_request("delete", &path, "")).await.status(), 204);
    assert_eq!(problem(&app, get(&format!("/runs/crons/{own}"))).await, "404 not_found");
    assert_eq!(json(&app, get(&format!("/runs/crons/{of_graph}"))).await["cron_id"], of_graph.as_str());
}

#[tokio::test]
async fn what_a_cron_cannot_do_is_named() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let cron = new_cron(&app, &json!("chat")).await;
    let fields = [
        (json!({ "webhook": "https://example.com" }), "webhook"),
        (json!({ "interrupt_before": ["model"] }), "interrupt_before"),
        (json!({ "on_run_completed": "delete" }), "on_run_completed"),
        (json!({ "end_time": "tomorrow" }), "end_time"),
        (json!({ "metadata": { "doran": 1 } }), "metadata.doran"),
        (json!({ "metadata": 3 }), "metadata"),
        (json!({ "input": "hi" }), "input"),
        (json!({ "input": { "ghost": 1 } }), "ghost"),
        (json!({ "timezone": "Mars/Olympus" }), "`timezone`: `Mars/Olympus`"),
        (json!({ "schedule": "61 * * * *" }), "`schedule`: "),
        (json!({ "context": { "long": "x".repeat(70_000) } }), "65536"),
    ];
    for (change, word) in fields {
        let mut body = json!({ "assistant_id": "chat", "schedule": "0 0 1 1 *", "input": hi() });
        for (name, value) in change.as_object().expect("an object") {
            body[name] = value.clone();
        }
        for request in [
            post("/runs/crons", &body.to_string()),
            post(&format!("/threads/{thread}/runs/crons"), &body.to_string()),
            json_request("patch", &format!("/runs/crons/{cron}"), &change.to_string()),
        ] {
            let path = request.uri().to_string();
            let (status, words) = reply(&app, request).await;
            assert!(status == 422 && words.contains(word), "{path} {change}: {status} {words}");
        }
    }
    let no_input = r#"{"assistant_id":"chat","schedule":"0 0 1 1 *"}"#;
    assert!(reply(&app, post("/runs/crons", no_input)).await.1.contains("`input`"));
    for body in ["{}", r#"{"assistant_id":"hitl"}"#] {
        assert_eq!(reply(&app, json_request("patch", &format!("/runs/crons/{cron}"), body)).await.0, 422);
    }
    assert_eq!(json(&app, post("/runs/crons/count", "{}")).await, 1, "none of them was stored");
}

/// Makes a cron due now, and waits until its time is over. Gives why no run was started, if none was.
async fn fire_cron(runtime: &Runtime, tenant: &TenantId, cron: &str) -> Option<String> {
    let mut due = runtime.schedule(tenant, cron).await.expect("read").expect("a schedule").definition;
    due.timing = ScheduleTiming::Once(0);
    runtime.put_schedule(tenant, cron, &due, true).await.expect("stored");
    let mut error = None;
    until(async || {
        let schedule = runtime.schedule(tenant, cron).await.expect("read");
        let last = schedule.as_ref().and_then(|schedule| schedule.last.as_ref());
        error = last.and_then(|last| last.error.clone());
        // What came to its one time is gone; one that failed stays and says why.
        schedule.is_none() || error.is_some()
    })
    .await;
    error
}

#[tokio::test]
async fn the_budget_of_the_month_holds_when_a_cron_is_due_and_its_key_is_known() {
    let (app, runtime) = four_graphs_app_and_runtime();
    let app = app.keys(two_keys());
    runtime.start_worker().await.expect("it works");
    let tenant = TenantId::new("a").expect("a name");
    let body = json!({ "assistant_id": "chat", "schedule": "0 0 1 1 *", "input": hi() }).to_string();
    let new_cron = async |app: &ServerApp| {
        let cron = json(app, with_key_of("a", post("/runs/crons", &body))).await;
        cron["cron_id"].as_str().expect("an id").to_owned()
    };
    let app = app.budget(MonthlyBudget::new(0));
    let spent = fire_cron(&runtime, &tenant, &new_cron(&app).await).await;
    assert!(spent.as_ref().is_some_and(|why| why.contains("budget")), "{spent:?}");
    assert!(runtime.list_runs(&tenant, &Default::default()).await.expect("read").is_empty());
    let app = app.budget(MonthlyBudget::new(1_000_000));
    assert_eq!(fire_cron(&runtime, &tenant, &new_cron(&app).await).await, None);
    let runs = runtime.list_runs(&tenant, &Default::default()).await.expect("read");
    assert_eq!(runs.len(), 1);
    let usage = json(&app, with_key_of("a", get("/api/usage?days=1"))).await;
    assert_eq!(usage["by_key"][0]["name"], "of a", "{usage}");
}

#[tokio::test]
async fn usage_names_the_key_of_a_run_whatever_its_metadata_say() {
    let app = four_graphs_app().keys(two_keys());
    let body = json!({ "assistant_id": "chat", "input": hi(), "metadata": { "key": "of somebody else" } });
    let ran = with_key_of(
        "a",
        post(
            "/runs/wait",
            &{
                let mut body = body.clone();
                body["on_completion"] = json!("keep");
                body
            }
            .to_string(),
        ),
    );
    json(&app, ran).await;
    let made = json(&app, with_key_of("a", post("/threads", "{}"))).await;
    let thread = made["thread_id"].as_str().expect("an id");
    let start = json!({ "id": 1, "method": "run.start", "params": body }).to_string();
    let reply = json(&app, with_key_of("a", post(&format!("/threads/{thread}/commands"), &start))).await;
    assert_eq!(reply["type"], "success", "{reply}");
    let usage = json(&app, with_key_of("a", get("/api/usage?days=1"))).await;
    let keys: Vec<(&Value, &Value)> =
        usage["by_key"].as_array().expect("a list").iter().map(|key| (&key["name"], &key["runs"])).collect();
    assert_eq!(keys, [(&json!("of a"), &json!(2))], "{usage}");
}

/// A graph whose node says what it was given.
fn sending_app() -> ServerApp {
    async fn tell(_: Snap<ContextState>, cx: Cx) -> Result<ContextStateUpdate, NodeError> {
        Ok(ContextState::update().seen(cx.input::<Value>().unwrap_or_default()))
    }
    let graph = Graph::named().node("tell", node(tell).end()).start("tell").build().expect("a sound graph");
    let agent = Agent::from_graph("sending", &graph);
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    agent.register(&runtime).expect("registered");
    ServerApp::new(runtime, store, vec![agent])
}

#[tokio::test]
async fn a_command_sends_a_node_its_own_input() {
    let app = sending_app();
    let thread = new_thread(&app).await;
    let first = json!({ "assistant_id": "sending", "input": {} });
    assert_eq!(wait(&app, &thread, &first).await["seen"], Value::Null);
    for goto in
        [json!({ "node": "tell", "input": { "n": 7 } }), json!([{ "node": "tell", "input": { "n": 7 } }])]
    {
        let body = json!({ "assistant_id": "sending", "command": { "goto": goto } });
        let ended = wait(&app, &thread, &body).await;
        assert_eq!(ended["seen"], json!({ "n": 7 }), "{ended}");
    }
    for (goto, word) in [
        (json!({ "node": "ghost", "input": {} }), "ghost"),
        (json!([{ "node": "tell", "input": {}, "timeout": 3 }]), "command"),
        (json!([3]), "command"),
    ] {
        let body = json!({ "assistant_id": "sending", "command": { "goto": goto } }).to_string();
        let (status, words) = reply(&app, post(&format!("/threads/{thread}/runs/wait"), &body)).await;
        assert!(status == 422 && words.contains(word), "{goto}: {status} {words}");
    }
}
