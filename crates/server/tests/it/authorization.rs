//! Who may do what: every route with every kind of caller, and everything of one tenant seen by another.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, header};
use doran_server::{ApiRoute, RouteAccess, ServerApp, router, routes};
use expect_test::expect;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::mcp;
use crate::{
    check_both_languages, get, json, json_request, post, problem, run_location, send, text, two_tenant_app,
    until, with_header, with_key_of,
};

/// Things of tenant `a`.
struct TenantFixtures {
    thread: String,
    run: String,
    document: String,
    fact: String,
    assistant: String,
    cron: String,
}

async fn make_fixtures(app: &ServerApp) -> TenantFixtures {
    let asked = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;
    let answer = send(app, with_key_of("a", post("/api/threads/secret-thread/runs", asked))).await;
    let run = run_location(&answer).split('/').nth(5).expect("a run").to_owned();
    assert!(text(answer).await.contains("event: finished"));
    let file = "# 비밀 규정\n\n제1조 비밀 수당은 매월 25일에 준다.\n";
    let document = json(app, with_key_of("a", post("/api/documents?name=secret.md", file))).await;
    let document = document["id"].as_str().expect("an id").to_owned();
    until(async || {
        json(app, with_key_of("a", get(&format!("/api/documents/{document}")))).await["status"] == "ready"
    })
    .await;
    let facts = json(app, with_key_of("a", get("/api/memory"))).await;
    let fact = facts["facts"][0]["id"].as_str().expect("an id").to_owned();
    let assistant = json(app, with_key_of("a", post("/assistants", r#"{"graph_id":"react"}"#))).await;
    let assistant = assistant["assistant_id"].as_str().expect("an id").to_owned();
    let cron = json(app, with_key_of("a", post("/runs/crons", &cron_body().to_string()))).await;
    let cron = cron["cron_id"].as_str().expect("an id").to_owned();
    TenantFixtures { thread: "secret-thread".into(), run, document, fact, assistant, cron }
}

/// A run of LangGraph's API.
fn run_body() -> Value {
    json!({ "assistant_id": "react", "input": { "messages": [{ "role": "user", "content": "안녕?" }] } })
}

fn cron_body() -> Value {
    let mut cron = run_body();
    cron["schedule"] = json!("0 0 1 1 *");
    cron
}

/// A request for a route that a caller with a right to everything would get an answer to.
fn route_request(route: &ApiRoute, things: &TenantFixtures) -> Request<Body> {
    let path = route
        .path
        .replace("{thread}", &things.thread)
        .replace("{run}", &things.run)
        .replace("{document}", &things.document)
        .replace("{fact}", &things.fact)
        .replace("{agent}", "react")
        .replace("{assistant}", &things.assistant)
        .replace("{namespace}", "inner")
        .replace("{cron}", &things.cron)
        .replace("{checkpoint}", "00000000-0000-8000-8000-000000000003")
        .replace("{model}", "react")
        .replace("{response}", &format!("resp_{}", things.run.replace('-', "")))
        .replace("{change}", "retry")
        .replace("{set}", "leave")
        .replace("{case}", "a");
    let query = match (route.method, route.path) {
        ("get", "/api/search") => "?q=%EC%97%B0%EC%B0%A8",
        ("post", "/api/documents") => "?name=other.md",
        ("get", "/store/items") => "?namespace=a&key=k",
        _ => "",
    };
    let body = match (route.method, route.path) {
        (
            "post",
            "/runs"
            | "/runs/wait"
            | "/runs/stream"
            | "/threads/{thread}/runs"
            | "/threads/{thread}/runs/wait"
            | "/threads/{thread}/runs/stream",
        ) => run_body(),
        ("post", "/runs/batch") => json!([run_body()]),
        ("post", "/runs/crons" | "/threads/{thread}/runs/crons") => cron_body(),
        ("patch", "/runs/crons/{cron}") => json!({ "enabled": false }),
        ("post", "/assistants") => json!({ "graph_id": "react" }),
        ("patch", "/assistants/{assistant}") => json!({ "name": "새 이름" }),
        ("post", "/assistants/{assistant}/latest") => json!({ "version": 1 }),
        ("put", "/store/items") => json!({ "namespace": ["a"], "key": "k", "value": {} }),
        ("delete", "/store/items") => json!({ "namespace": ["a"], "key": "k" }),
        ("post", "/store/items/search") => json!({ "namespace_prefix": ["a"] }),
        ("post", "/threads/{thread}/commands") => {
            json!({ "id": 1, "method": "run.start", "params": run_body() })
        }
        ("post", "/threads/{thread}/stream/events") => json!({ "channels": ["values"] }),
        ("post", "/runs/cancel") => json!({ "thread_id": things.thread, "run_ids": [things.run] }),
        ("post", "/threads/{thread}/state/checkpoint") => json!({ "checkpoint": {} }),
        ("patch", "/threads/{thread}") => json!({ "metadata": { "x": 1 } }),
        ("post", "/api/threads") => json!({ "title": "새 대화" }),
        ("patch", "/api/documents/{document}") => json!({ "kind": "general" }),
        ("patch", _) => json!({ "title": "새 이름" }),
        ("put", "/api/threads/{thread}/state") => json!({ "state": {} }),
        ("post", "/api/threads/{thread}/runs") => json!({ "agent": "react", "message": "안녕?" }),
        ("post", "/api/threads/{thread}/runs/{run}/resume") => json!({ "answers": { "q": true } }),
        ("post", "/api/chat" | "/api/contract/chat") => json!({ "message": "제5조는 무슨 뜻인가요?" }),
        ("post", "/v1/chat/completions") => {
            json!({ "model": "react", "messages": [{ "role": "user", "content": "안녕?" }] })
        }
        ("post", "/v1/embeddings") => json!({ "model": "built-in", "input": "안녕?" }),
        ("post", "/v1/responses") => json!({ "model": "react", "input": "안녕?" }),
        ("post", "/mcp") => return mcp::mcp_request(&mcp::initialize()),
        _ => json!({}),
    };
    json_request(route.method, &format!("{path}{query}"), &body.to_string())
}

async fn response_status(app: &ServerApp, request: Request<Body>) -> u16 {
    // The stream of a thread has no end.
    let is_endless = request.uri().path().ends_with("/stream/events");
    let response = send(app, request).await;
    let status = response.status().as_u16();
    if is_endless && status == 200 {
        return status;
    }
    // Reading to the end lets the run of a stream end before the next request.
    let body = text(response).await;
    if status >= 400 {
        check_both_languages(&serde_json::from_str(&body).expect("a problem"));
    }
    status
}

/// Whether a route makes the thread that it names.
fn makes_thread(route: &ApiRoute) -> bool {
    route.method == "post"
        && matches!(route.path, "/api/threads/{thread}/runs" | "/threads/{thread}/commands")
}

/// Routes in an order in which none takes away what a later one needs.
fn ordered_routes() -> Vec<ApiRoute> {
    let mut routes = routes();
    routes.sort_by_key(|route| (route.method == "delete", makes_thread(route)));
    routes
}

#[tokio::test]
async fn metrics_of_all_tenants_are_for_the_operator_only() {
    let app = two_tenant_app("metrics-key").await;
    assert_eq!(problem(&app, with_key_of("a", get("/metrics"))).await, "403 admin_only");
    let counted = text(send(&app, with_key_of("local", get("/metrics"))).await).await;
    assert!(counted.contains("doran_requests_open"), "{counted}");
}

#[tokio::test]
async fn every_route_lets_in_whom_it_should() {
    let app = two_tenant_app("matrix").await;
    let things = make_fixtures(&app).await;
    let mut lines = Vec::new();
    let routes = ordered_routes();
    // Guessing keys is slowed down after a hundred or so, and there are more routes: every fifty have a server of their own.
    let mut guessed = two_tenant_app("matrix-wrong-0").await;
    for (at, route) in routes.iter().enumerate() {
        if at % 50 == 49 {
            guessed = two_tenant_app(&format!("matrix-wrong-{at}")).await;
        }
        let line = format!("{:6} {}", route.method, route.path);
        let none = response_status(&app, route_request(route, &things)).await;
        let wrong = response_status(
            &guessed,
            with_header(route_request(route, &things), "authorization", "Bearer key-c"),
        )
        .await;
        let other = response_status(&app, with_key_of("b", route_request(route, &things))).await;
        lines.push((line, route, none, wrong, other));
    }
    let mut table = String::from("no key, wrong key, other tenant, right key\n");
    for (line, route, none, wrong, other) in lines {
        let right = response_status(&app, with_key_of("a", route_request(route, &things))).await;
        table.push_str(&format!("{none} {wrong} {other} {right}  {line}\n"));
        let expected = match route.access {
            RouteAccess::Public | RouteAccess::WebPage => (200, 200),
            RouteAccess::Monitoring | RouteAccess::KeyRequired | RouteAccess::OpenAi => (401, 401),
        };
        assert_eq!((none, wrong), expected, "{line}");
    }
    expect![[r#"
        no key, wrong key, other tenant, right key
        200 200 200 200  get    /healthz
        200 200 200 200  get    /readyz
        401 401 403 403  get    /metrics
        200 200 200 200  get    /
        200 200 200 200  get    /openapi.json
        200 200 200 200  get    /docs
        200 200 200 200  get    /docs/page.js
        200 200 200 200  get    /docs/page.css
        200 200 200 200  get    /t/{thread}
        200 200 200 200  get    /documents
        200 200 200 200  get    /inbox
        200 200 200 200  get    /runs
        200 200 200 200  get    /usage
        200 200 200 200  get    /evals
        200 200 200 200  get    /evals/{set}
        200 200 200 200  get    /app.js
        200 200 200 200  get    /app.css
        200 200 200 200  get    /highlight.js
        200 200 200 200  get    /temml.js
        200 200 200 200  get    /diagram.js
        200 200 200 200  get    /icon.svg
        401 401 200 200  get    /api/agents
        401 401 200 200  get    /api/agents/{agent}/graph
        401 401 200 200  get    /api/threads
        401 401 201 201  post   /api/threads
        401 401 404 200  get    /api/threads/{thread}
        401 401 404 200  patch  /api/threads/{thread}
        401 401 404 200  get    /api/threads/{thread}/messages
        401 401 404 200  get    /api/threads/{thread}/history
        401 401 404 200  get    /api/threads/{thread}/state
        401 401 404 200  put    /api/threads/{thread}/state
        401 401 404 201  post   /api/threads/{thread}/fork
        401 401 200 200  get    /api/runs
        401 401 404 200  get    /api/threads/{thread}/runs
        401 401 404 200  get    /api/threads/{thread}/runs/{run}
        401 401 404 200  get    /api/threads/{thread}/runs/{run}/events
        401 401 404 409  post   /api/threads/{thread}/runs/{run}/resume
        401 401 404 200  post   /api/threads/{thread}/runs/{run}/cancel
        401 401 404 409  post   /api/threads/{thread}/runs/{run}/retry
        401 401 200 200  get    /api/approvals
        401 401 404 204  put    /api/threads/{thread}/runs/{run}/feedback
        401 401 200 200  get    /api/documents
        401 401 202 202  post   /api/documents
        401 401 404 200  get    /api/documents/{document}
        401 401 404 200  get    /api/documents/{document}/text
        401 401 404 200  get    /api/documents/{document}/file
        401 401 404 200  patch  /api/documents/{document}
        401 401 404 200  post   /api/documents/{document}/{change}
        401 401 200 200  get    /api/search
        401 401 200 200  get    /api/usage
        401 401 200 200  get    /api/memory
        401 401 200 200  get    /api/evals
        401 401 404 404  get    /api/evals/{set}
        401 401 403 403  put    /api/evals/{set}/cases/{case}
        401 401 403 403  put    /api/evals/{set}/run
        401 401 200 200  get    /api/models
        401 401 403 403  put    /api/models/{model}
        401 401 403 403  get    /api/models/offers
        401 401 403 403  get    /api/models/providers/{provider}
        401 401 403 403  put    /api/models/test
        401 401 403 403  put    /api/models/default
        401 401 403 403  put    /api/models/keys/{provider}
        401 401 200 200  post   /api/chat
        401 401 200 200  post   /api/contract/chat
        401 401 200 200  get    /v1/models
        401 401 200 200  get    /v1/models/{model}
        401 401 200 200  post   /v1/chat/completions
        401 401 404 404  post   /v1/embeddings
        401 401 200 200  post   /v1/responses
        401 401 404 200  get    /v1/responses/{response}
        401 401 404 200  post   /v1/responses/{response}/cancel
        200 200 200 200  get    /ok
        401 401 200 200  get    /info
        401 401 200 200  post   /assistants/search
        401 401 200 200  post   /assistants/count
        401 401 404 200  get    /assistants/{assistant}
        401 401 404 200  get    /assistants/{assistant}/graph
        401 401 404 200  get    /assistants/{assistant}/schemas
        401 401 404 200  get    /assistants/{assistant}/subgraphs
        401 401 404 200  get    /assistants/{assistant}/subgraphs/{namespace}
        401 401 200 200  post   /assistants
        401 401 404 200  patch  /assistants/{assistant}
        401 401 404 200  post   /assistants/{assistant}/versions
        401 401 404 200  post   /assistants/{assistant}/latest
        401 401 200 200  post   /threads
        401 401 200 200  post   /threads/search
        401 401 200 200  post   /threads/count
        401 401 404 200  get    /threads/{thread}
        401 401 404 200  patch  /threads/{thread}
        401 401 404 200  post   /threads/{thread}/copy
        401 401 404 200  get    /threads/{thread}/state
        401 401 404 200  post   /threads/{thread}/state
        401 401 404 200  get    /threads/{thread}/state/{checkpoint}
        401 401 404 200  post   /threads/{thread}/state/checkpoint
        401 401 404 200  post   /threads/{thread}/history
        401 401 404 200  get    /threads/{thread}/history
        401 401 404 200  get    /threads/{thread}/runs
        401 401 404 200  get    /threads/{thread}/runs/{run}
        401 401 404 200  get    /threads/{thread}/runs/{run}/join
        401 401 404 200  get    /threads/{thread}/runs/{run}/stream
        401 401 404 200  post   /threads/{thread}/runs
        401 401 404 200  post   /threads/{thread}/runs/wait
        401 401 404 200  post   /threads/{thread}/runs/stream
        401 401 200 200  post   /runs
        401 401 200 200  post   /runs/wait
        401 401 200 200  post   /runs/stream
        401 401 200 200  post   /runs/batch
        401 401 404 404  post   /threads/{thread}/runs/{run}/cancel
        401 401 404 204  post   /runs/cancel
        401 401 200 200  post   /runs/crons
        401 401 404 200  post   /threads/{thread}/runs/crons
        401 401 200 200  post   /runs/crons/search
        401 401 200 200  post   /runs/crons/count
        401 401 404 200  get    /runs/crons/{cron}
        401 401 404 200  patch  /runs/crons/{cron}
        401 401 204 204  put    /store/items
        401 401 200 200  get    /store/items
        401 401 200 200  post   /store/items/search
        401 401 200 200  post   /store/namespaces
        401 401 404 200  post   /threads/{thread}/stream/events
        401 401 200 200  post   /mcp
        401 401 400 400  get    /mcp
        401 401 200 200  post   /api/threads/{thread}/runs
        401 401 200 200  post   /threads/{thread}/commands
        401 401 204 204  delete /api/threads/{thread}
        401 401 404 204  delete /api/documents/{document}
        401 401 404 204  delete /api/memory/{fact}
        401 401 403 403  delete /api/evals/{set}
        401 401 403 403  delete /api/evals/{set}/cases/{case}
        401 401 403 403  delete /api/evals/{set}/run
        401 401 403 403  delete /api/models/{model}
        401 401 403 403  delete /api/models/keys/{provider}
        401 401 404 404  delete /v1/responses/{response}
        401 401 404 204  delete /assistants/{assistant}
        401 401 404 404  delete /threads/{thread}
        401 401 404 404  delete /threads/{thread}/runs/{run}
        401 401 404 204  delete /runs/crons/{cron}
        401 401 204 204  delete /store/items
        401 401 400 400  delete /mcp
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn what_everybody_may_read_tells_nothing_about_the_agents() {
    let app = two_tenant_app("front").await;
    let agents = json(&app, with_key_of("a", get("/api/agents"))).await;
    let agents = agents["agents"].as_array().expect("a list");
    let names_of =
        |agent: &Value| [&agent["en"], &agent["ko"], &agent["model"]["name"]].map(Value::to_string);
    let words: Vec<String> = agents.iter().flat_map(names_of).collect();
    assert!(words.len() >= 12 && words.iter().all(|word| word.len() > 4), "{words:?}");
    for route in
        routes().iter().filter(|route| matches!(route.access, RouteAccess::Public | RouteAccess::WebPage))
    {
        let body = text(send(&app, get(&route.path.replace("{thread}", "t"))).await).await;
        for word in &words {
            assert!(!body.contains(word.as_str()), "{} tells {word}", route.path);
        }
    }
    let home = json(&app, get("/")).await;
    assert_eq!(home.as_object().expect("an object").keys().collect::<Vec<_>>(), ["name", "version"]);
}

#[tokio::test]
async fn what_belongs_to_another_looks_like_what_is_not_there() {
    let app = two_tenant_app("foreign").await;
    let theirs = make_fixtures(&app).await;
    let absent = TenantFixtures {
        thread: "absent-thread".into(),
        run: "00000000-0000-7000-8000-000000000000".into(),
        document: "0".repeat(32),
        fact: "000000000000".into(),
        assistant: "00000000-0000-4000-8000-000000000000".into(),
        cron: "00000000-0000-7000-8000-000000000001".into(),
    };
    let names = |text: String, things: &TenantFixtures| {
        text.replace(&things.thread, "THREAD")
            .replace(&things.run, "RUN")
            .replace(&things.document, "DOCUMENT")
            .replace(&things.fact, "FACT")
            .replace(&things.assistant, "ASSISTANT")
            .replace(&things.cron, "CRON")
    };
    let mut checked = 0;
    for route in
        routes().iter().filter(|route| route.access == RouteAccess::KeyRequired && route.path.contains('{'))
    {
        // Agents and models are everybody's, and a thread that is asked something is made.
        if route.path.contains("{agent}") || route.path.starts_with("/api/models/") || makes_thread(route) {
            continue;
        }
        // Who is no administrator is turned away before anything is looked for.
        if route.path.starts_with("/api/evals/") && route.method != "get" {
            continue;
        }
        let mut body = Vec::new();
        for things in [&theirs, &absent] {
            let response = send(&app, with_key_of("b", route_request(route, things))).await;
            let (status, headers) = (response.status().as_u16(), response.headers().len());
            body.push((status, headers, names(text(response).await, things)));
        }
        assert_eq!(body[0].0, 404, "{} {}", route.method, route.path);
        assert_eq!(body[0], body[1], "{} {}", route.method, route.path);
        checked += 1;
    }
    assert!(checked >= 15, "{checked}");
}

#[tokio::test]
async fn lists_searches_and_sums_hold_nothing_of_another() {
    let app = two_tenant_app("lists").await;
    let theirs = make_fixtures(&app).await;
    let pause = r#"{"agent":"react","message":"3450000 * 0.125는?"}"#;
    let paused = text(send(&app, with_key_of("a", post("/api/threads/waits/runs", pause))).await).await;
    assert!(paused.contains("event: paused"), "{paused}");
    let mine = json(&app, with_key_of("a", get("/api/approvals"))).await;
    assert_eq!(mine["questions"][0]["question"]["type"], "approve_tool", "{mine}");
    let mut nothing = String::new();
    for (path, key) in [
        ("/api/threads", "threads"),
        ("/api/threads?q=연차", "threads"),
        ("/api/documents", "documents"),
        ("/api/approvals", "questions"),
        ("/api/runs", "runs"),
        ("/api/search?q=비밀+수당", "hits"),
        (&format!("/api/search?q=비밀&document={}", theirs.document), "hits"),
        ("/api/memory", "facts"),
        ("/api/memory?q=비밀", "facts"),
        ("/api/usage", "runs"),
    ] {
        let path = path
            .replace("연차", "%EC%97%B0%EC%B0%A8")
            .replace("비밀", "%EB%B9%84%EB%B0%80")
            .replace("수당", "%EC%88%98%EB%8B%B9");
        let (a, b) =
            (json(&app, with_key_of("a", get(&path))).await, json(&app, with_key_of("b", get(&path))).await);
        assert!(a[key] != json!([]) && a[key] != 0, "{path}: {a}");
        nothing.push_str(&format!("{} ", b[key]));
    }
    assert_eq!(nothing, "[] [] [] [] [] [] [] [] [] 0 ");
    assert_eq!(
        problem(&app, with_key_of("b", get("/api/usage?thread=secret-thread"))).await,
        "404 not_found"
    );
    // The same name means another thread, and asking there tells nothing and changes nothing.
    let before = json(&app, with_key_of("a", get("/api/threads/secret-thread/messages"))).await;
    let asked = r#"{"agent":"assistant","message":"앞에서 무엇을 물었나요?"}"#;
    let answer =
        text(send(&app, with_key_of("b", post("/api/threads/secret-thread/runs", asked))).await).await;
    assert!(answer.contains("event: finished") && !answer.contains("15일"), "{answer}");
    assert_eq!(json(&app, with_key_of("a", get("/api/threads/secret-thread/messages"))).await, before);
}

#[tokio::test]
async fn the_document_for_programs_lists_the_routes_that_there_are() {
    let app = crate::app();
    let document = json(&app, get("/openapi.json")).await;
    let paths = document["paths"].as_object().expect("paths");
    let listed: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys().filter(|key| *key != "parameters");
            methods.map(|method| (path.clone(), method.clone())).collect::<Vec<_>>()
        })
        .collect();
    let routes: BTreeSet<(String, String)> = routes()
        .iter()
        .filter(|route| route.access != RouteAccess::WebPage)
        .map(|route| (route.path.to_owned(), route.method.to_owned()))
        .collect();
    assert_eq!(listed, routes);
    for (path, methods) in paths {
        for (method, about) in methods.as_object().expect("methods") {
            let ids: BTreeSet<&str> = about["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|one| one["in"] == "path")
                .filter_map(|one| one["name"].as_str())
                .collect();
            let named: BTreeSet<&str> =
                path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(ids, named, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_key_opens_the_same_by_either_header_and_by_no_other_way() {
    let app = two_tenant_app("headers").await;
    let path = "/api/threads";
    let mut table = String::new();
    for (headers, query) in [
        (vec![("authorization", "Bearer key-a")], ""),
        (vec![("x-api-key", "key-a")], ""),
        (vec![("x-api-key", "key-a"), ("authorization", "Bearer key-b")], ""),
        (vec![("authorization", "Bearer key-a"), ("authorization", "Bearer key-b")], ""),
        (vec![("authorization", "Basic key-a")], ""),
        (vec![("cookie", "key=key-a")], ""),
        (vec![], "?key=key-a"),
        (vec![], "?api_key=key-a"),
        (vec![("x-tenant-id", "a")], ""),
        (vec![("authorization", "Bearer key-b"), ("x-tenant-id", "a")], ""),
    ] {
        let mut request = get(&format!("{path}{query}"));
        for (name, value) in &headers {
            request = with_header(request, name, value);
        }
        table.push_str(&format!("{} {headers:?} {query}\n", send(&app, request).await.status().as_u16()));
    }
    expect![[r#"
        200 [("authorization", "Bearer key-a")] 
        200 [("x-api-key", "key-a")] 
        401 [("x-api-key", "key-a"), ("authorization", "Bearer key-b")] 
        401 [("authorization", "Bearer key-a"), ("authorization", "Bearer key-b")] 
        401 [("authorization", "Basic key-a")] 
        401 [("cookie", "key=key-a")] 
        401 [] ?key=key-a
        401 [] ?api_key=key-a
        401 [("x-tenant-id", "a")] 
        200 [("authorization", "Bearer key-b"), ("x-tenant-id", "a")] 
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn a_body_cannot_say_whose_it_is_or_who_it_is_from() {
    let app = two_tenant_app("fields").await;
    for (method, path, body) in [
        ("post", "/api/threads", json!({ "title": "t" })),
        ("post", "/api/threads/t/fork", json!({ "title": "t" })),
        ("patch", "/api/threads/t", json!({ "title": "t" })),
        ("post", "/api/threads/t/runs", json!({ "agent": "react", "message": "안녕?" })),
        ("post", "/api/chat", json!({ "message": "안녕?" })),
        ("post", "/api/contract/chat", json!({ "message": "안녕?" })),
    ] {
        json(
            &app,
            with_key_of("a", post("/api/threads/t/runs?wait=true", r#"{"agent":"react","message":"안녕?"}"#)),
        )
        .await;
        for field in ["tenant_id", "tenant", "role", "created_at", "owner", "id"] {
            let mut more: Value = body.clone();
            more[field] = json!("b");
            let text = problem(&app, with_key_of("a", json_request(method, path, &more.to_string()))).await;
            assert_eq!(text, "400 bad_json", "{method} {path} {field}");
        }
    }
}

#[tokio::test]
async fn guessing_keys_is_slowed_down_and_right_keys_are_not() {
    // Put together once: many guesses in a short time.
    let app = router(&two_tenant_app("guessing").await);
    let (mut let_through, mut slowed_down) = (0, 0);
    // On a slow machine the allowance grows between two guesses; so it may take more of them.
    for guess in 0..20_000 {
        let request = with_header(get("/api/threads"), "authorization", &format!("Bearer key-{guess}"));
        let response = send(&app, request).await;
        match response.status().as_u16() {
            401 => let_through += 1,
            429 => {
                assert!(let_through >= 100, "a few mistakes are allowed: {let_through}");
                assert!(response.headers().contains_key(header::RETRY_AFTER));
                slowed_down += 1;
            }
            other => panic!("{other}"),
        }
        if slowed_down == 50 {
            break;
        }
    }
    assert_eq!(slowed_down, 50, "after {let_through} guesses");
    assert_eq!(send(&app, with_key_of("a", get("/api/threads"))).await.status(), 200);
    assert_eq!(problem(&app, get("/api/threads")).await, "401 no_key");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_taken_away() {
    let leave = std::sync::Arc::new(tokio::sync::Notify::new());
    let (app, _) = crate::app_for_tenant(std::sync::Arc::new(crate::PausingModel(leave)), "a");
    let keys = crate::two_keys();
    let app = app.keys(keys.clone());
    let asked = r#"{"agent":"assistant","message":"안녕?"}"#;
    let run = send(&app, with_key_of("a", post("/api/threads/t/runs", asked))).await;
    let words =
        json!({ "model": "assistant", "stream": true, "messages": [{ "role": "user", "content": "안녕?" }] });
    let openai = send(&app, with_key_of("a", post("/v1/chat/completions", &words.to_string()))).await;
    let mut streams = [run.into_body().into_data_stream(), openai.into_body().into_data_stream()];
    for stream in &mut streams {
        stream.next().await.expect("a first frame").expect("bytes");
    }
    // A change that leaves the key alone leaves the streams alone.
    let [a, b] = ["a", "b"].map(|tenant| doran_server::ApiKey {
        name: tenant.into(),
        tenant: doran_engine::TenantId::new(tenant).expect("a name"),
        hash: doran_server::KeyHash::from_secret(&format!("key-{tenant}")),
        is_admin: false,
    });
    keys.replace(vec![a]);
    assert_eq!(problem(&app, with_key_of("b", get("/api/threads"))).await, "401 wrong_key");
    keys.replace(vec![b]);
    for mut stream in streams {
        let rest = async { while stream.next().await.is_some() {} };
        tokio::time::timeout(crate::PATIENCE, rest).await.expect("it ends in time");
    }
    assert_eq!(problem(&app, with_key_of("a", get("/api/threads"))).await, "401 wrong_key");
}

/// How far two samples lie apart: the largest distance between their distributions, as Kolmogorov and Smirnov have it.
fn kolmogorov_smirnov(left: &mut [u128], right: &mut [u128]) -> f64 {
    left.sort_unstable();
    right.sort_unstable();
    let share = |of: &[u128], at: u128| of.partition_point(|one| *one <= at) as f64 / of.len() as f64;
    left.iter().chain(right.iter()).map(|at| (share(left, *at) - share(right, *at)).abs()).fold(0.0, f64::max)
}

#[tokio::test]
async fn how_long_a_refusal_takes_does_not_tell_whether_the_thing_is_there() {
    const ROUNDS: usize = 1000;
    let app = two_tenant_app("timing").await;
    json(
        &app,
        with_key_of("a", post("/api/threads/t/runs?wait=true", r#"{"agent":"react","message":"안녕?"}"#)),
    )
    .await;
    // The threshold is that of p = 0.01, which a fair race misses once in a hundred times and five fair races never.
    let threshold = 1.628 * (2.0 / ROUNDS as f64).sqrt();
    let mut found = Vec::new();
    for _ in 0..5 {
        let (mut foreign, mut absent) = (Vec::new(), Vec::new());
        for round in 0..2 * ROUNDS {
            let (name, times) = if round % 2 == 0 { ("t", &mut foreign) } else { ("u", &mut absent) };
            let request = with_key_of("b", get(&format!("/api/threads/{name}")));
            let started = std::time::Instant::now();
            let status = send(&app, request).await.status();
            times.push(started.elapsed().as_nanos());
            assert_eq!(status, 404);
        }
        found.push(kolmogorov_smirnov(&mut foreign, &mut absent));
        if found.last().is_some_and(|distance| *distance < threshold) {
            return;
        }
    }
    panic!("refusals tell by their time what is there: {found:?}, at most {threshold}");
}

#[tokio::test]
async fn without_a_memory_the_error_says_how_to_switch_it_on() {
    let app = crate::app();
    for request in [get("/api/memory"), json_request("delete", "/api/memory/x", "")] {
        let answer = send(&app, request).await;
        assert_eq!(answer.status().as_u16(), 404);
        let response: Value = serde_json::from_str(&text(answer).await).expect("a problem");
        check_both_languages(&response);
        assert!(response["detail"].as_str().is_some_and(|en| en.contains("`memory = true`")), "{response}");
        assert!(response["detail_ko"].as_str().is_some_and(|ko| ko.contains("켜세요")), "{response}");
    }
}
