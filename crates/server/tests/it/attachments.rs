//! Documents that are attached to a thread: found in it, nowhere else, and gone with it.

use serde_json::Value;

use crate::{get, json, json_request, post, problem, send, two_tenant_app, until, with_key_of};

const FILE: &str = "# 메모\n\n제주 워크숍의 참가비는 한 사람당 73,500원이다.\n";
const QUESTION: &str = r#"{"agent":"docqa","message":"제주 워크숍 참가비는 한 사람당 얼마인가요?"}"#;

async fn answer(app: &doran_server::ServerApp, tenant: &str, thread: &str) -> String {
    let path = format!("/api/threads/{thread}/runs?wait=true");
    let answer = json(app, with_key_of(tenant, post(&path, QUESTION))).await;
    answer["response"].as_str().expect("an answer").to_owned()
}

#[tokio::test]
async fn an_attachment_is_found_in_its_thread_only_and_deleted_with_it() {
    let app = two_tenant_app("attachments").await;
    let make = with_key_of("a", post("/api/threads", "{}"));
    let thread = json(&app, make).await["id"].as_str().expect("an id").to_owned();
    let upload = |tenant: &str, thread: &str| {
        with_key_of(tenant, post(&format!("/api/documents?name=memo.md&thread={thread}"), FILE))
    };
    let document = json(&app, upload("a", &thread)).await;
    let id = document["id"].as_str().expect("an id").to_owned();
    let one = format!("/api/documents/{id}?thread={thread}");
    until(async || json(&app, with_key_of("a", get(&one))).await["status"] == "ready").await;
    let names = async |tenant: &str, query: &str| {
        let list = json(&app, with_key_of(tenant, get(&format!("/api/documents{query}")))).await;
        let documents = list["documents"].as_array().cloned().unwrap_or_default();
        documents
            .iter()
            .map(|one: &Value| one["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("a", &format!("?thread={thread}")).await, ["memo.md"]);
    for (tenant, query) in [("a", String::new()), ("b", format!("?thread={thread}")), ("b", String::new())] {
        assert!(names(tenant, &query).await.is_empty(), "{tenant} {query}");
    }
    assert!(answer(&app, "a", &thread).await.contains("73,500원"));
    assert!(!answer(&app, "a", "another").await.contains("73,500원"));
    assert!(!answer(&app, "b", &thread).await.contains("73,500원"));
    // The text of what is cited is opened by way of the thread, and so is that of the library.
    let text = |thread: &str| with_key_of("a", get(&format!("/api/documents/{id}/text?thread={thread}")));
    assert_eq!(json(&app, text(&thread)).await["text"], FILE.trim_end());
    assert_eq!(problem(&app, text("another")).await, "404 not_found");
    let delete = with_key_of("a", json_request("delete", &format!("/api/threads/{thread}"), ""));
    assert_eq!(send(&app, delete).await.status(), 204);
    assert_eq!(problem(&app, text(&thread)).await, "404 not_found");
    assert!(names("a", &format!("?thread={thread}")).await.is_empty());
    // A file that is refused makes no thread.
    let empty = with_key_of("a", post("/api/documents?name=memo.md&thread=new", ""));
    assert_eq!(problem(&app, empty).await, "400 bad_input");
    assert_eq!(problem(&app, with_key_of("a", get("/api/threads/new"))).await, "404 not_found");
    // One attaches a file in order to ask about it: a thread that nobody has begun is made.
    let document = json(&app, upload("a", "new")).await;
    let one = format!("/api/documents/{}?thread=new", document["id"].as_str().expect("an id"));
    until(async || json(&app, with_key_of("a", get(&one))).await["status"] == "ready").await;
    assert!(answer(&app, "a", "new").await.contains("73,500원"));
    let made = json(&app, with_key_of("a", get("/api/threads/new"))).await;
    assert!(
        made["agent"] == "docqa" && made["title"].as_str().is_some_and(|it| it.contains("제주")),
        "{made}"
    );
    assert_eq!(problem(&app, with_key_of("b", get("/api/threads/new"))).await, "404 not_found");
}
