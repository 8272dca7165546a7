//! Runs that wait for a person: how they are answered, and what a thread that waits says to the next question.

use std::sync::Arc;

use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_server::{ServerApp, ServerLimits};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    PausingModel, app, app_that_asks_over, app_with, get, json as fetched, post, problem, run_location, send,
    text,
};

/// A run that waits for leave to calculate, and the id of its question.
async fn start_paused_run(app: &doran_server::ServerApp, thread: &str) -> (String, String) {
    let ask = json!({ "agent": "react", "message": "15 * 4는 얼마야?" }).to_string();
    let answer = send(app, post(&format!("/api/threads/{thread}/runs"), &ask)).await;
    let run = run_location(&answer).trim_end_matches("/events").to_owned();
    drop(text(answer).await);
    let question = &fetched(app, get(&run)).await["questions"][0];
    assert_eq!(question["question"]["answer"], json!({ "approve": true }), "it says how it is answered");
    (run, question["id"].as_str().expect("an id").to_owned())
}

#[tokio::test]
async fn only_a_clear_answer_is_taken_and_anything_else_leaves_the_question_open() {
    let app = app();
    for (number, (answer, runs)) in [
        (json!(true), true),
        (json!({ "approve": true }), true),
        (json!(false), false),
        (json!({ "approve": false }), false),
        (json!({ "approve": true, "note": "" }), true),
        (json!({ "approve": false, "note": "금액을 다시 보세요" }), false),
    ]
    .into_iter()
    .enumerate()
    {
        let (run, id) = start_paused_run(&app, &format!("t{number}")).await;
        for wrong in [
            json!("maybe"),
            json!("true"),
            json!(1),
            json!(null),
            json!({}),
            json!({ "approve": 1 }),
            json!({ "approve": "yes" }),
            json!({ "approve": true, "always": 1 }),
            json!({ "approve": false, "always": true }),
            json!({ "approve": true, "arguments": "2 + 3" }),
            json!({ "approve": false, "arguments": {} }),
            json!({ "approve": true, "note": 1 }),
            json!({ "note": "네" }),
            json!([true]),
        ] {
            let body = json!({ "answers": { id.clone(): wrong } }).to_string();
            assert_eq!(problem(&app, post(&format!("{run}/resume"), &body)).await, "400 bad_input", "{body}");
            let still = fetched(&app, get(&run)).await;
            assert_eq!((&still["status"], &still["questions"][0]["id"]), (&json!("paused"), &json!(id)));
        }
        let noted = answer["note"].as_str().unwrap_or_default().to_owned();
        let body = json!({ "answers": { id: answer } }).to_string();
        fetched(&app, post(&format!("{run}/resume"), &body)).await;
        let events = text(send(&app, get(&format!("{run}/events"))).await).await;
        assert!(events.contains("event: finished") && events.contains(&noted), "{events}");
        let messages = fetched(&app, get(&format!("/api/threads/t{number}/messages"))).await.to_string();
        assert_eq!(messages.contains("거절"), !runs, "{messages}");
    }
}

/// Answers the question of a run and waits for its end. Gives its events.
async fn answer(app: &doran_server::ServerApp, run: &str, id: &str, answer: &Value) -> String {
    let body = json!({ "answers": { id: answer } }).to_string();
    fetched(app, post(&format!("{run}/resume"), &body)).await;
    let events = text(send(app, get(&format!("{run}/events"))).await).await;
    assert!(events.contains("event: finished"), "{events}");
    events
}

#[tokio::test]
async fn a_run_whose_agent_the_server_does_not_have_says_so_takes_no_answer_and_can_be_cancelled() {
    let store = Arc::new(RamStore::new());
    let (run, id) = start_paused_run(&app_that_asks_over(store.clone()), "t").await;
    let without_agents = ServerApp::new(Runtime::new(store.clone()), store.clone(), Vec::new());
    let shown = fetched(&without_agents, get(&run)).await;
    assert_eq!(shown["question"], "15 * 4는 얼마야?", "{shown}");
    assert_eq!((&shown["status"], &shown["agent_missing"]), (&json!("paused"), &json!(true)), "{shown}");
    let listed = fetched(&without_agents, get("/api/threads/t/runs")).await;
    assert_eq!(listed["runs"][0]["agent_missing"], true, "{listed}");
    let body = json!({ "answers": { id.clone(): true } }).to_string();
    let refused = send(&without_agents, post(&format!("{run}/resume"), &body)).await;
    assert_eq!(refused.status(), 409);
    let reason = text(refused).await;
    assert!(reason.contains("the graph `react`") && reason.contains("에이전트 `react`"), "{reason}");
    let with_agents = app_that_asks_over(store.clone());
    let shown = fetched(&with_agents, get(&run)).await;
    assert_eq!(
        (&shown["questions"][0]["id"], &shown["agent_missing"]),
        (&json!(id), &Value::Null),
        "{shown}"
    );
    let ended = fetched(&without_agents, post(&format!("{run}/cancel"), "")).await;
    assert_eq!((&ended["status"], &ended["agent_missing"]), (&json!("cancelled"), &Value::Null), "{ended}");
}

#[tokio::test]
async fn a_call_that_a_person_changed_runs_with_the_new_arguments_and_the_model_sees_them() {
    let app = app();
    let (run, id) = start_paused_run(&app, "t").await;
    let events =
        answer(&app, &run, &id, &json!({ "approve": true, "arguments": { "expression": "2 + 3" } })).await;
    assert!(
        events.contains(r#""type":"tool_call""#) && events.contains(r#""expression":"2 + 3""#),
        "{events}"
    );
    let messages = fetched(&app, get("/api/threads/t/messages")).await;
    let result = messages["messages"].as_array().expect("a list").iter().find(|one| one["role"] == "tool");
    let result = result.expect("a result")["parts"][0]["text"].as_str().expect("a text");
    assert!(result.contains("사용자가 인자를 바꾸어 실행했습니다") && result.contains('5'), "{result}");
    assert!(!result.contains("60"), "the call of the model was made: {result}");
    let decision = &messages["decisions"][0];
    assert_eq!(decision["question"]["arguments"], json!({ "expression": "15 * 4" }), "{decision}");
    assert_eq!(decision["answer"]["arguments"], json!({ "expression": "2 + 3" }));
    assert!(
        decision["asked"].as_i64() <= decision["answered"].as_i64() && decision["asked"].as_i64() > Some(0)
    );
}

#[tokio::test]
async fn a_tool_that_is_allowed_for_a_thread_is_asked_about_once_there() {
    let app = app();
    let (run, id) = start_paused_run(&app, "t").await;
    answer(&app, &run, &id, &json!({ "approve": true, "always": true })).await;
    let ask = json!({ "agent": "react", "message": "20 * 4는 얼마야?" }).to_string();
    let again = fetched(&app, post("/api/threads/t/runs?wait=true", &ask)).await;
    assert_eq!(again["status"], "finished", "{again}");
    let messages = fetched(&app, get("/api/threads/t/messages")).await;
    assert_eq!(messages["decisions"].as_array().map(Vec::len), Some(1), "{messages}");
    let elsewhere = fetched(&app, post("/api/threads/other/runs?wait=true", &ask)).await;
    assert_eq!(elsewhere["status"], "paused", "another thread: {elsewhere}");
    let open = fetched(&app, get("/api/threads/other/messages")).await;
    assert_eq!((&open["decisions"][0]["answered"], open["decisions"][0].get("answer")), (&Value::Null, None));
}

#[tokio::test]
async fn a_thread_that_waits_says_so_at_once_and_asks_nothing() {
    let app = app();
    let (run, id) = start_paused_run(&app, "t").await;
    let count = async || fetched(&app, get("/api/threads/t/runs")).await["runs"].as_array().map(Vec::len);
    let chat =
        json!({ "agent": "assistant", "message": "연차휴가는 며칠인가요?", "sessionId": "t" }).to_string();
    let response = fetched(&app, post("/api/chat", &chat)).await;
    assert_eq!((&response["status"], &response["accepted"]), (&json!("paused"), &json!(false)), "{response}");
    assert_eq!(response["questions"][0]["id"], id.as_str());
    assert!(run.ends_with(response["runId"].as_str().expect("a run")), "{response}");

    let about = json!({ "message": "제5조는?", "sessionId": "t" }).to_string();
    let response = text(send(&app, post("/api/contract/chat", &about)).await).await;
    assert!(response.contains("event: interrupt\n") && response.contains("\"accepted\":false"), "{response}");
    assert!(response.contains(&id) && !response.contains("event: token"), "{response}");

    for stream in [false, true] {
        let asked = json!({ "model": "assistant", "stream": stream, "metadata": { "thread_id": "t" },
            "messages": [{ "role": "user", "content": "연차휴가는?" }] });
        let response = text(send(&app, post("/v1/chat/completions", &asked.to_string())).await).await;
        assert!(response.contains("보내지 않았습니다") && response.contains("/t/t"), "{response}");
        assert!(
            response.contains("\"finish_reason\":\"stop\"") && response.contains("calculator"),
            "{response}"
        );
        assert_eq!(response.ends_with("data: [DONE]\n\n"), stream);
    }
    assert_eq!(count().await, Some(1), "nothing waits in line");
    // Who is asked in vain is told what is wrong with the question first.
    let nobody = json!({ "agent": "nobody", "message": "?", "sessionId": "t" }).to_string();
    assert_eq!(problem(&app, post("/api/chat", &nobody)).await, "404 unknown_agent");

    let body = json!({ "answers": { id: true } }).to_string();
    fetched(&app, post(&format!("{run}/resume"), &body)).await;
    let response: Value = fetched(&app, post("/api/chat", &chat)).await;
    assert!(response["response"].as_str().is_some_and(|words| words.contains("15일")), "{response}");
    assert_eq!(count().await, Some(2));
}

#[tokio::test]
async fn a_question_that_waits_comes_back_to_itself_under_its_key() {
    let app = app();
    let body = json!({ "agent": "react", "message": "15 * 4는 얼마야?", "sessionId": "t" }).to_string();
    let ask = || crate::with_header(post("/api/chat", &body), "idempotency-key", "k");
    let first = fetched(&app, ask()).await;
    let again = fetched(&app, ask()).await;
    assert_eq!((&first["status"], &first["accepted"]), (&json!("paused"), &json!(true)), "{first}");
    assert_eq!((&again["runId"], &again["accepted"]), (&first["runId"], &json!(true)), "{again}");
}

#[tokio::test]
async fn the_end_of_a_cancelled_run_is_sent() {
    let halting = PausingModel(Arc::new(Notify::new()));
    let app = app_with(Arc::new(halting), ServerLimits::default());
    let ask = json!({ "agent": "assistant", "message": "안녕?" }).to_string();
    let answer = send(&app, post("/api/threads/t/runs", &ask)).await;
    let run = run_location(&answer).trim_end_matches("/events").to_owned();
    let response = fetched(&app, post(&format!("{run}/cancel"), "{}")).await;
    assert_eq!(response["status"], "cancelled", "{response}");
    assert!(response["ended"].is_i64() && response.get("cancel_requested").is_none(), "{response}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_question_behind_a_run_that_comes_to_wait_gets_its_questions() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let ask = json!({ "agent": "react", "message": "15 * 4는 얼마야?" }).to_string();
    let first = send(&app, post("/api/threads/t/runs", &ask)).await;
    let runs = async || fetched(&app, get("/api/threads/t/runs")).await["runs"].clone();
    let asked = json!({ "model": "react", "metadata": { "thread_id": "t" }, "stream": true,
        "messages": [{ "role": "user", "content": "안녕?" }] });
    let bodies = [
        ("/api/chat", json!({ "agent": "react", "message": "안녕?", "sessionId": "t" })),
        ("/api/contract/chat", json!({ "message": "제5조는?", "sessionId": "t" })),
        (
            "/api/threads/t/runs?wait=true",
            json!({ "agent": "react", "message": "안녕?", "if_busy": "enqueue" }),
        ),
        ("/v1/chat/completions", asked),
    ];
    let asking = bodies.map(|(path, body)| {
        let (app, request) = (app.clone(), post(path, &body.to_string()));
        tokio::spawn(async move { text(send(&app, request).await).await })
    });
    crate::until(async || runs().await.as_array().map(Vec::len) == Some(5)).await;
    leave.notify_one();
    let first_run = run_location(&first).trim_end_matches("/events").to_owned();
    let mut asks = Vec::new();
    for reply in asking {
        let reply = reply.await.expect("no panic");
        assert!(reply.contains("calculator") && !reply.contains("\"accepted\":false"), "{reply}");
        asks.extend(questions_in(&reply));
    }
    drop(text(first).await);
    let with = async |status: &str| {
        let runs = runs().await;
        runs.as_array().expect("a list").iter().filter(|run| run["status"] == status).count()
    };
    assert_eq!(with("queued").await, 4, "they are asked once the first was answered");
    // What was told is enough to answer, whichever way it was told.
    assert_eq!(asks.len(), 3, "{asks:?}");
    for (nth, asked) in asks.iter().enumerate() {
        let (run, id) = (asked["run"].as_str().expect("a run"), asked["id"].as_str().expect("an id"));
        assert!(first_run.ends_with(run), "{asked}");
        let body = json!({ "answers": { id: true } }).to_string();
        let answer = send(&app, post(&format!("/api/threads/t/runs/{run}/resume"), &body)).await;
        assert_eq!(answer.status().is_success(), nth == 0, "it is answered once: {asked}");
    }
    leave.notify_one();
    crate::until(async || {
        // Every run that is at it waits for leave to speak.
        leave.notify_one();
        with("finished").await == 5
    })
    .await;
}

/// The questions in an answer, whether it is one object or a stream.
fn questions_in(reply: &str) -> Vec<Value> {
    let data = reply.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let objects = data.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.flat_map(|object| object["questions"].as_array().cloned().unwrap_or_default()).collect()
}
