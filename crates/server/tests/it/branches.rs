//! Branches of a thread: a question asked again, or another in its place, and what is left behind.

use std::sync::Arc;

use doran_engine::store::{Commit, CommitOutcome, Fence, RamStore, RunStore, StoreError};
use serde_json::{Value, json};

use crate::{app, app_with_history, get, json, json_request, post, problem, send, text, with_header};

async fn ask(app: &doran_server::ServerApp, message: &str, from: Option<u64>) -> Value {
    let mut body = json!({ "agent": "assistant", "message": message });
    if let Some(from) = from {
        body["from"] = from.into();
    }
    let answer = json(app, post("/api/threads/t/runs?wait=true", &body.to_string())).await;
    assert_eq!(answer["status"], "finished", "{answer}");
    answer
}

fn questions(list: &Value) -> Vec<&str> {
    let messages = list["messages"].as_array().expect("a list").iter();
    messages.filter(|one| one["role"] == "user").filter_map(|one| one["text"].as_str()).collect()
}

#[tokio::test]
async fn a_question_in_the_place_of_another_leaves_it_on_its_own_branch() {
    let app = app();
    let first = ask(&app, "연차휴가는 며칠인가요?", None).await;
    let second = ask(&app, "그럼 병가는요?", None).await;
    assert_eq!((first["from"].as_u64(), second["from"].as_u64()), (Some(0), first["last"].as_u64()));
    let other = ask(&app, "출장비 정산 기한은?", Some(0)).await;
    assert_eq!(
        (other["from"].as_u64(), other["first"].as_u64()),
        (Some(0), second["last"].as_u64().map(|last| last + 1))
    );
    let newest = json(&app, get("/api/threads/t/messages")).await;
    assert_eq!(questions(&newest), ["출장비 정산 기한은?"]);
    let state = json(&app, get("/api/threads/t/state")).await["state"].to_string();
    assert!(!state.contains("연차휴가"), "the other branch is in the context: {state}");
    let left = json(&app, get(&format!("/api/threads/t/messages?at={}", second["last"]))).await;
    assert_eq!(questions(&left), ["연차휴가는 며칠인가요?", "그럼 병가는요?"]);
    // The branch that was left can be continued.
    ask(&app, "병가에는 진단서가 필요한가요?", second["last"].as_u64()).await;
    let newest = json(&app, get("/api/threads/t/messages")).await;
    assert_eq!(
        questions(&newest),
        ["연차휴가는 며칠인가요?", "그럼 병가는요?", "병가에는 진단서가 필요한가요?"]
    );
}

#[tokio::test]
async fn a_title_follows_the_first_question_until_somebody_renames_the_thread() {
    let app = app();
    let title = async || json(&app, get("/api/threads/t")).await["title"].clone();
    ask(&app, "연차휴가는 며칠인가요?", None).await;
    let second = ask(&app, "그럼 병가는요?", None).await;
    assert_eq!(title().await, "연차휴가는 며칠인가요?");
    ask(&app, "출장비 정산 기한은?", Some(0)).await;
    assert_eq!(title().await, "출장비 정산 기한은?");
    // Another question further on is not the first.
    ask(&app, "병가에는 진단서가 필요한가요?", second["first"].as_u64().map(|first| first - 1)).await;
    assert_eq!(title().await, "출장비 정산 기한은?");
    json(&app, json_request("patch", "/api/threads/t", r#"{"title":"내 대화"}"#)).await;
    ask(&app, "육아휴직은 얼마나 쓸 수 있나요?", Some(0)).await;
    assert_eq!(title().await, "내 대화");
}

#[tokio::test]
async fn a_request_that_is_repeated_changes_no_title() {
    let app = app();
    let ask_once = async |message: &str, key: &str| {
        let body = json!({ "agent": "assistant", "message": message, "from": 0 }).to_string();
        let request = with_header(post("/api/threads/t/runs?wait=true", &body), "idempotency-key", key);
        assert_eq!(json(&app, request).await["status"], "finished");
    };
    ask_once("연차휴가는 며칠인가요?", "first").await;
    ask_once("출장비 정산 기한은?", "second").await;
    ask_once("연차휴가는 며칠인가요?", "first").await;
    assert_eq!(json(&app, get("/api/threads/t")).await["title"], "출장비 정산 기한은?");
}

/// A store that changes no thread.
struct FixedThreadsStore {
    inner: RamStore,
}

impl FixedThreadsStore {
    async fn call<T>(
        &self,
        name: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match name {
            "put_thread" => Err(StoreError::Full("no room".into())),
            _ => made.await,
        }
    }

    async fn commit_as_is(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.inner.commit(fence, commit).await
    }
}

doran_engine::delegated_store!(FixedThreadsStore, call: call, commit: commit_as_is, exclusive: false);

#[tokio::test]
async fn a_run_is_acknowledged_also_if_its_title_cannot_be_stored() {
    let store = RamStore::new();
    let app = app_with_history(Arc::new(FixedThreadsStore { inner: store.clone() }), Arc::new(store));
    ask(&app, "연차휴가는 며칠인가요?", None).await;
    ask(&app, "출장비 정산 기한은?", Some(0)).await;
    assert_eq!(json(&app, get("/api/threads/t")).await["title"], "연차휴가는 며칠인가요?");
}

#[tokio::test]
async fn a_branch_begins_only_where_the_thread_has_an_entry() {
    let app = app();
    ask(&app, "연차휴가는 며칠인가요?", None).await;
    for from in [99_u64, 1 << 60] {
        let body = json!({ "agent": "assistant", "message": "?", "from": from }).to_string();
        assert_eq!(problem(&app, post("/api/threads/t/runs", &body)).await, "400 bad_input");
        assert!(problem(&app, get(&format!("/api/threads/t/messages?at={from}"))).await.starts_with('4'));
    }
    let body = json!({ "agent": "assistant", "message": "?", "pause_before": ["nobody"] }).to_string();
    assert_eq!(problem(&app, post("/api/threads/t/runs", &body)).await, "400 bad_input");
}

#[tokio::test]
async fn a_run_stops_before_and_after_the_requested_nodes() {
    let app = app();
    let body = json!({ "agent": "assistant", "message": "연차휴가는 며칠인가요?", "pause_before": ["rag"], "pause_after": ["agent"] });
    let answer = send(&app, post("/api/threads/t/runs", &body.to_string())).await;
    let run = crate::run_location(&answer).trim_end_matches("/events").to_owned();
    drop(text(answer).await);
    for (node, side) in [("rag", "before"), ("agent", "after")] {
        let paused = json(&app, get(&run)).await;
        let question = &paused["questions"][0];
        assert_eq!(
            (&question["node"], &question["question"]["pause"]),
            (&json!(node), &json!(side)),
            "{paused}"
        );
        let answers = json!({ "answers": { question["id"].as_str().expect("an id"): null } }).to_string();
        json(&app, post(&format!("{run}/resume"), &answers)).await;
        drop(text(send(&app, get(&format!("{run}/events"))).await).await);
    }
    assert_eq!(json(&app, get(&run)).await["status"], "finished");
}

#[tokio::test]
async fn a_paused_run_continues_with_the_state_that_it_was_given() {
    let app = app();
    let put = |body: &Value| json_request("PUT", "/api/threads/t/state", &body.to_string());
    let nothing = json!({ "state": {} });
    assert_eq!(problem(&app, put(&nothing)).await, "404 not_found");
    let body =
        json!({ "agent": "assistant", "message": "연차휴가는 며칠인가요?", "pause_before": ["router"] });
    let answer = send(&app, post("/api/threads/t/runs", &body.to_string())).await;
    let run = crate::run_location(&answer).trim_end_matches("/events").to_owned();
    drop(text(answer).await);
    let mut state = json(&app, get("/api/threads/t/state")).await["state"].clone();
    state["messages"][0]["parts"][0]["text"] = "육아휴직은 얼마나 쓸 수 있나요?".into();
    for (body, expected) in [
        (json!({}), "400 bad_json"),
        (json!({ "state": null }), "400 bad_input"),
        (json!({ "state": [] }), "400 bad_input"),
        (json!({ "state": { "messages": 3 } }), "400 bad_input"),
        (json!({ "state": { "nobody": 3 } }), "400 bad_input"),
        (json!({ "state": state, "agent": "react" }), "400 bad_input"),
        (json!({ "state": state, "agent": "assistant", "run": 1 }), "400 bad_json"),
    ] {
        assert_eq!(problem(&app, put(&body)).await, expected, "{body}");
    }
    let refused = text(send(&app, put(&json!({ "state": { "nobody": 3 } }))).await).await;
    let refused: Value = serde_json::from_str(&refused).expect("JSON");
    assert_eq!(refused["detail"], "`state` does not fit the agent: the state has no field `nobody`");
    assert_eq!(
        refused["detail_ko"],
        "`state`가 에이전트의 상태에 맞지 않습니다: 상태에 `nobody` 필드가 없습니다"
    );
    let changed = json(&app, put(&json!({ "state": state, "agent": "assistant" }))).await;
    assert_eq!((&changed["state"], &changed["next"]), (&state, &json!(["router"])));
    // It is the same run, and it still waits.
    let paused = json(&app, get(&run)).await;
    assert_eq!(paused["status"], "paused", "{paused}");
    let question = paused["questions"][0]["id"].as_str().expect("an id");
    let answers = json!({ "answers": { question: true } }).to_string();
    json(&app, post(&format!("{run}/resume"), &answers)).await;
    let events = text(send(&app, get(&format!("{run}/events"))).await).await;
    assert!(events.contains("event: finished") && events.contains("자녀 한 명당"), "{events}");
    assert!(!events.contains("연차휴가 15일"), "{events}");
    assert_eq!(json(&app, get("/api/runs")).await["runs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_state_that_a_person_writes_unsays_what_it_lacks_and_nothing_else() {
    let app = app();
    for (agent, question) in [("assistant", "연차휴가는 며칠인가요?"), ("docqa", "병가는 며칠인가요?")]
    {
        let body = json!({ "agent": agent, "message": question }).to_string();
        json(&app, post("/api/threads/t/runs?wait=true", &body)).await;
    }
    let said = async || {
        let listed = json(&app, get("/api/threads/t/messages")).await;
        listed["messages"].as_array().expect("messages").clone()
    };
    let put =
        |state: &Value| json_request("PUT", "/api/threads/t/state", &json!({ "state": state }).to_string());
    let before = said().await;
    assert_eq!(before.len(), 4, "{before:?}");
    let mut state = json(&app, get("/api/threads/t/state")).await["state"].clone();
    json(&app, put(&state)).await;
    assert_eq!(said().await, before, "the same state changes nothing");
    state["messages"].as_array_mut().expect("messages").pop();
    json(&app, put(&state)).await;
    assert_eq!(said().await, before[..3]);
    json(&app, put(&json!({}))).await;
    assert_eq!(said().await, Vec::<Value>::new());
    let body = json!({ "agent": "docqa", "message": "병가는 며칠인가요?" }).to_string();
    json(&app, post("/api/threads/t/runs?wait=true", &body)).await;
    assert_eq!(said().await.len(), 2);
}

#[tokio::test]
async fn the_runs_of_all_threads_are_listed_by_agent_and_status_page_by_page() {
    let app = app();
    for thread in ["a", "b", "c"] {
        let body = json!({ "agent": "assistant", "message": "연차휴가는 며칠인가요?" }).to_string();
        json(&app, post(&format!("/api/threads/{thread}/runs?wait=true"), &body)).await;
    }
    let body = json!({ "agent": "react", "message": "15 * 4는 얼마야?" }).to_string();
    json(&app, post("/api/threads/d/runs?wait=true", &body)).await;
    let threads = |page: &Value| {
        let runs = page["runs"].as_array().expect("a list").iter();
        runs.map(|run| run["thread"].as_str().expect("a name").to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(threads(&json(&app, get("/api/runs")).await), "d c b a");
    assert_eq!(threads(&json(&app, get("/api/runs?status=paused")).await), "d");
    assert_eq!(threads(&json(&app, get("/api/runs?agent=assistant")).await), "c b a");
    let page = json(&app, get("/api/runs?agent=assistant&limit=2")).await;
    assert_eq!(threads(&page), "c b");
    let rest = json(
        &app,
        get(&format!("/api/runs?agent=assistant&limit=2&before={}", page["next"].as_str().expect("more"))),
    )
    .await;
    assert_eq!((threads(&rest).as_str(), &rest["next"]), ("a", &Value::Null));
    assert_eq!(problem(&app, get("/api/runs?status=gone")).await, "400 bad_input");
}
