//! Requests that are sent again under the same key: every `POST` there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use axum::http::Request;
use doran_engine::Runtime;
use doran_engine::store::{RamStore, Retention, ThreadMaintenance};
use doran_llm::{ChatModel, ChatRequest, DeltaStream, ModelError, ModelInfo};
use doran_offline::OfflineModel;
use doran_server::{ApiRoute, ServerApp, ServerLimits, routes};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json as object};

use crate::{
    check_both_languages, get, json, post, run_location, send, text, two_tenant_app,
    two_tenant_app_with_model, until, with_header, with_key_of,
};

/// A word on which the model fails.
const FAILING_WORD: &str = "고장";

/// The offline model, until somebody says the word.
struct FailsOnWordModel;

impl ChatModel for FailsOnWordModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.messages.iter().any(|message| message.text().contains(FAILING_WORD)) {
            let reason = FAILING_WORD.to_owned();
            return stream::iter([Err(ModelError::Rejected { reason })]).boxed();
        }
        OfflineModel.stream(request)
    }
}

/// A run of tenant `a` that ended, waits or failed after this question, as the beginning of its path.
async fn run_path(app: &ServerApp, agent: &str, thread: &str, message: &str) -> String {
    let ask = object!({ "agent": agent, "message": message }).to_string();
    let answer = send(app, with_key_of("a", post(&format!("/api/threads/{thread}/runs"), &ask))).await;
    let place = run_location(&answer).trim_end_matches("/events").to_owned();
    drop(text(answer).await);
    place
}

/// A request that changes something, and one to the same place that asks for something else.
struct RepeatedRequest {
    path: String,
    body: String,
    other: String,
}

async fn repeated_request(app: &ServerApp, route: &ApiRoute) -> RepeatedRequest {
    let name = route.path.replace(['/', '{', '}'], "-");
    let bodies = |body: Value, other: Value| (body.to_string(), other.to_string());
    let words = |words: &str| object!([{ "role": "user", "content": words }]);
    let (path, (body, other)) = match route.path {
        "/api/threads" => {
            (route.path.into(), bodies(object!({ "title": "하나" }), object!({ "title": "둘" })))
        }
        "/api/threads/{thread}/fork" => {
            run_path(app, "react", &name, "안녕?").await;
            let path = format!("/api/threads/{name}/fork");
            (path, bodies(object!({ "title": "하나" }), object!({ "title": "둘" })))
        }
        "/api/threads/{thread}/runs" => {
            let ask = |message: &str| object!({ "agent": "react", "message": message });
            (format!("/api/threads/{name}/runs"), bodies(ask("안녕?"), ask("잘 가?")))
        }
        "/api/threads/{thread}/runs/{run}/resume" => {
            let run = run_path(app, "react", &name, "3450000 * 0.125는?").await;
            let paused = json(app, with_key_of("a", get(&run))).await;
            let id = paused["questions"][0]["id"].as_str().expect("a question").to_owned();
            let answer = |leave: bool| object!({ "answers": { id.clone(): { "approve": leave } } });
            (format!("{run}/resume"), bodies(answer(true), answer(false)))
        }
        "/api/threads/{thread}/runs/{run}/cancel" => {
            let run = run_path(app, "react", &name, "3450000 * 0.125는?").await;
            (format!("{run}/cancel"), bodies(object!({}), object!({ "why": "실수" })))
        }
        "/api/threads/{thread}/runs/{run}/retry" => {
            let run = run_path(app, "assistant", &name, FAILING_WORD).await;
            (format!("{run}/retry"), bodies(object!({}), object!({ "why": "다시" })))
        }
        "/api/documents" => ("/api/documents?name=once.md".into(), ("# 하나".into(), "# 둘".into())),
        "/api/documents/{document}/{change}" => {
            let added = json(
                app,
                with_key_of(
                    "a",
                    post("/api/documents?name=change.md", "# 규정\n\n제1조 수당은 매월 25일에 준다.\n"),
                ),
            )
            .await;
            let place = format!("/api/documents/{}", added["id"].as_str().expect("an id"));
            until(async || json(app, with_key_of("a", get(&place))).await["status"] == "ready").await;
            (format!("{place}/retry"), bodies(object!({}), object!({ "why": "다시" })))
        }
        "/api/chat" | "/api/contract/chat" => (
            route.path.into(),
            bodies(object!({ "message": "제5조는?" }), object!({ "message": "제6조는?" })),
        ),
        "/v1/chat/completions" => {
            let ask = |words_sent: &str| object!({ "model": "react", "messages": words(words_sent) });
            (route.path.into(), bodies(ask("안녕?"), ask("잘 가?")))
        }
        "/v1/responses" => {
            let ask = |words_sent: &str| object!({ "model": "react", "input": words_sent });
            (route.path.into(), bodies(ask("안녕?"), ask("잘 가?")))
        }
        "/v1/responses/{response}/cancel" => {
            let ask = object!({ "model": "react", "input": "안녕?" }).to_string();
            let made = json(app, with_key_of("a", post("/v1/responses", &ask))).await;
            let path = format!("/v1/responses/{}/cancel", made["id"].as_str().expect("an id"));
            (path, bodies(object!({}), object!({ "why": "그만" })))
        }
        other => panic!("{other}: a route that changes something needs a request here"),
    };
    RepeatedRequest { path, body, other }
}

/// A `POST` to any other route changes nothing, and can be sent again without a key.
fn changes_something(route: &&ApiRoute) -> bool {
    route.method == "post" && route.path != "/v1/embeddings"
}

/// Whether a route asks an agent: its key belongs to a run, and the answer tells where that run stands.
fn starts_run(route: &ApiRoute) -> bool {
    ["/runs", "/chat", "/chat/completions", "/responses"].iter().any(|end| route.path.ends_with(end))
}

fn keyed_request(path: &str, body: &str, key: &str) -> Request<Body> {
    with_header(with_key_of("a", post(path, body)), "idempotency-key", key)
}

async fn send_and_read(app: &ServerApp, request: Request<Body>) -> (u16, bool, String) {
    let response = send(app, request).await;
    let replayed = response.headers().contains_key("idempotent-replayed");
    (response.status().as_u16(), replayed, text(response).await)
}

async fn all_runs(app: &ServerApp) -> Value {
    json(app, with_key_of("a", get("/api/usage"))).await["runs"].clone()
}

fn is_langgraph(route: &ApiRoute) -> bool {
    ["/assistants", "/threads", "/runs", "/store"].iter().any(|start| route.path.starts_with(start))
}

/// Whether a request may be sent again under a key. LangGraph's clients have none, and its routes reject one. Messages of
/// the Model Context Protocol have ids of their own.
fn takes_key(route: &ApiRoute) -> bool {
    route.method == "post" && !is_langgraph(route) && route.path != "/mcp"
}

#[tokio::test]
async fn every_post_may_be_sent_again_under_its_key() {
    let app = two_tenant_app_with_model("once", Arc::new(FailsOnWordModel)).await;
    let mut checked = 0;
    let routes = routes();
    let taking = routes.iter().filter(changes_something).filter(|route| takes_key(route));
    for (number, route) in taking.enumerate() {
        let (RepeatedRequest { path, body, other }, key) =
            (repeated_request(&app, route).await, format!("key-{number}"));
        let first = send_and_read(&app, keyed_request(&path, &body, &key)).await;
        assert!((200..300).contains(&first.0) && !first.1, "{path}: {first:?}");
        let before = all_runs(&app).await;
        let again = send_and_read(&app, keyed_request(&path, &body, &key)).await;
        assert_eq!(again.0, first.0, "{path}");
        assert_eq!(all_runs(&app).await, before, "{path}");
        if !starts_run(route) {
            assert_eq!((again.1, &again.2), (true, &first.2), "{path}");
        }
        let reused = send_and_read(&app, keyed_request(&path, &other, &key)).await;
        assert_eq!(reused.0, 422, "{path}: {reused:?}");
        assert!(reused.2.contains("key_reused"), "{reused:?}");
        check_both_languages(&serde_json::from_str(&reused.2).expect("JSON"));
        // The same key of another tenant is another key.
        let theirs = with_header(with_key_of("b", post(&path, &body)), "idempotency-key", &key);
        let theirs = send_and_read(&app, theirs).await;
        assert!(!theirs.1 && theirs.0 != 422 && theirs.2 != first.2, "{path}: {theirs:?}");
        for wrong in ["", "a b", &"k".repeat(201)] {
            let refused = send_and_read(&app, keyed_request(&path, &body, wrong)).await;
            assert!(refused.0 == 400 && refused.2.contains("bad_header"), "{path}: {refused:?}");
        }
        checked += 1;
    }
    assert!(checked >= 11, "{checked}");
}

/// A key that nobody looks at would promise something.
#[tokio::test]
async fn a_post_that_takes_no_key_rejects_one() {
    let app = two_tenant_app("once-rejected").await;
    let made = json(&app, with_key_of("a", post("/threads", "{}"))).await;
    let thread = made["thread_id"].as_str().expect("an id");
    let mut checked = 0;
    for route in routes().iter().filter(|route| changes_something(route) && is_langgraph(route)) {
        let path = route.path.replace("{thread}", thread);
        let path = path.replace("{run}", "01a1e90e-4436-751f-9dd0-34d53ff0ce50");
        let path = path.replace("{assistant}", "react");
        let (status, _, body) = send_and_read(&app, keyed_request(&path, "{}", "k")).await;
        assert!(status == 422 && body.contains("`Idempotency-Key`"), "{path}: {status} {body}");
        checked += 1;
    }
    assert!(checked >= 28, "{checked}");
}

#[tokio::test]
async fn the_document_for_programs_says_of_every_post_that_it_may_be_sent_again() {
    let document = json(&crate::app(), get("/openapi.json")).await;
    for route in routes().iter().filter(changes_something).filter(|route| takes_key(route)) {
        let about = &document["paths"][route.path]["post"];
        let names = about["parameters"].as_array().into_iter().flatten().map(|one| &one["name"]);
        assert_eq!(names.filter(|name| **name == "Idempotency-Key").count(), 1, "{}", route.path);
        assert!(about["responses"].get("422").is_some(), "{}", route.path);
    }
}

#[tokio::test]
async fn a_key_stands_for_one_place_too() {
    let app = two_tenant_app("once-place").await;
    for (path, expected) in [
        ("/api/documents?name=one.md", 202),
        ("/api/documents?name=two.md", 422),
        ("/api/documents?name=one.md", 202),
    ] {
        assert_eq!(send_and_read(&app, keyed_request(path, "# 규정", "k")).await.0, expected, "{path}");
    }
    // A key of anything else is none of a question.
    assert_eq!(send_and_read(&app, keyed_request("/api/threads", r#"{"title":"하나"}"#, "t1")).await.0, 201);
    assert_eq!(
        send_and_read(&app, keyed_request("/api/chat", r#"{"message":"제5조는?"}"#, "t1")).await.0,
        422
    );
    // The same words to two agents are two questions.
    let body = r#"{"message":"제5조는?"}"#;
    assert_eq!(send_and_read(&app, keyed_request("/api/chat", body, "q")).await.0, 200);
    assert_eq!(send_and_read(&app, keyed_request("/api/contract/chat", body, "q")).await.0, 422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_answers_with_one_key_are_one_answer() {
    let app = two_tenant_app("once-fifty").await;
    let route = routes().into_iter().find(|route| route.path.ends_with("/resume")).expect("a route");
    let RepeatedRequest { path, body, .. } = repeated_request(&app, &route).await;
    let asking = (0..50).map(|_| {
        let (app, request) = (app.clone(), keyed_request(&path, &body, "k"));
        tokio::spawn(async move { send_and_read(&app, request).await })
    });
    let answers = join_all(asking).await.into_iter().map(|answer| answer.expect("no panic"));
    let answers: Vec<_> = answers.collect();
    assert!(answers.iter().all(|answer| answer.0 == 200 && answer.2 == answers[0].2), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.1).count(), 1);
    let events = path.replace("/resume", "/events");
    let events = text(send(&app, with_key_of("a", get(&events))).await).await;
    assert_eq!(events.matches("event: resumed").count(), 1, "{events}");
}

#[tokio::test]
async fn what_was_answered_outlives_the_process_and_a_refusal_is_not_kept() {
    let store = Arc::new(RamStore::new());
    let server = || ServerApp::new(Runtime::new(store.clone()), store.clone(), Vec::new());
    let keyed = |body: &str, key: &str| with_header(post("/api/threads", body), "idempotency-key", key);
    let refused = send_and_read(&server(), keyed(r#"{"agent":"nobody"}"#, "k")).await;
    assert_eq!(refused.0, 404, "{refused:?}");
    let first = send_and_read(&server(), keyed(r#"{"title":"하나"}"#, "k")).await;
    assert_eq!((first.0, first.1), (201, false), "{first:?}");
    let again = send_and_read(&server(), keyed(r#"{"title":"하나"}"#, "k")).await;
    assert_eq!(again, (201, true, first.2));
    assert_eq!(send_and_read(&server(), keyed(r#"{"title":"둘"}"#, "k")).await.0, 422);
}

#[tokio::test]
async fn of_many_answers_the_oldest_is_forgotten() {
    let app = two_tenant_app("once-many").await;
    let app = app.limits(ServerLimits { max_stored_responses: 3, ..ServerLimits::default() });
    let ask = async |tenant: &str, number: usize| {
        let path = format!("/api/documents?name=many-{number}.md");
        let request = with_header(
            with_key_of(tenant, post(&path, "# 규정")),
            "idempotency-key",
            &format!("key-{number}"),
        );
        send_and_read(&app, request).await.1
    };
    assert!(!ask("a", 0).await && ask("a", 0).await);
    // Another tenant can push out nothing of this one.
    for number in 0..5 {
        ask("b", number).await;
    }
    assert!(ask("a", 0).await);
    for number in 1..=3 {
        assert!(!ask("a", number).await);
    }
    for number in 1..=3 {
        assert!(ask("a", number).await);
    }
    assert!(!ask("a", 0).await, "three others came since");
}

#[tokio::test]
async fn a_question_whose_thread_was_deleted_is_not_asked_again() {
    let app = crate::app();
    let ask = || {
        let body = object!({ "agent": "react", "message": "안녕?" }).to_string();
        with_header(post("/api/threads/t/runs?wait=true", &body), "idempotency-key", "k")
    };
    json(&app, ask()).await;
    let delete = Request::delete("/api/threads/t").header("host", "localhost").body(Body::empty());
    assert_eq!(send(&app, delete.expect("a request")).await.status(), 204);
    let again = send(&app, ask()).await;
    assert_eq!(again.status(), 409);
    assert!(text(again).await.contains("deleted with its thread"));
    assert_eq!(send(&app, get("/api/threads/t")).await.status(), 404);
}

#[tokio::test]
async fn a_forgotten_key_stands_for_a_new_thread() {
    let age = Arc::new(AtomicI64::new(2 * 24 * 3600 * 1000));
    let (clock_age, now) =
        (age.clone(), || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH));
    let millis = move || i64::try_from(now().expect("after 1970").as_millis()).expect("a time");
    let store = Arc::new(RamStore::with_clock(Arc::new(move || millis() - clock_age.load(Ordering::SeqCst))));
    let app = crate::app_with_store(store.clone());
    let ask = async |message: &str| {
        let body = object!({ "agent": "docqa", "message": message }).to_string();
        let answer = json(&app, with_header(post("/api/chat", &body), "idempotency-key", "k")).await;
        answer["sessionId"].as_str().expect("a thread").to_owned()
    };
    let first = ask("연차휴가는 며칠인가요?").await;
    age.store(0, Ordering::SeqCst);
    store.gc(&Retention::default()).await.expect("cleared");
    let second = ask("병가는 며칠인가요?").await;
    assert_ne!(second, first, "another question does not go on with the old conversation");
    assert_eq!(ask("병가는 며칠인가요?").await, second);
}
