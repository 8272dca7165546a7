//! What is found and counted, and that looking changes nothing.

use std::sync::Arc;

use doran_engine::store::{RamStore, ThreadMaintenance};

use crate::{get, json, post, send, two_tenant_app, with_key_of};

#[tokio::test]
async fn the_usage_of_a_thread_is_listed_by_model_and_adds_up() {
    let app = two_tenant_app("by-model").await;
    let ask = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;
    for _ in 0..2 {
        json(&app, with_key_of("a", post("/api/threads/t/runs?wait=true", ask))).await;
    }
    let response = json(&app, with_key_of("a", get("/api/usage?thread=t"))).await;
    let models = response["by_model"].as_array().expect("a list");
    assert_eq!(models.len(), 1, "{response}");
    assert_eq!(models[0]["name"], "offline-extractive-2");
    assert!(models[0]["calls"].as_u64() >= Some(2), "{response}");
    for what in ["input_tokens", "output_tokens"] {
        assert_eq!(models[0][what], response[what], "{response}");
    }
    assert!(json(&app, with_key_of("a", get("/api/usage"))).await.get("by_model").is_none());
}

#[tokio::test]
async fn a_message_names_the_model_that_wrote_it() {
    let app = two_tenant_app("model").await;
    let ask = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;
    json(&app, with_key_of("a", post("/api/threads/t/runs?wait=true", ask))).await;
    let messages = json(&app, with_key_of("a", get("/api/threads/t/messages"))).await;
    let models: Vec<&serde_json::Value> =
        messages["messages"].as_array().expect("a list").iter().map(|one| &one["model"]).collect();
    assert_eq!(models, [&serde_json::Value::Null, &"offline-extractive-2".into()], "{messages}");
}

#[tokio::test]
async fn a_prompt_that_is_built_again_is_known_for_the_one_that_was_sent() {
    let app = two_tenant_app("prompt").await;
    let ask = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;
    let run = json(&app, with_key_of("a", post("/api/threads/t/runs?wait=true", ask))).await;
    let events = format!("/api/threads/t/runs/{}/events", run["id"].as_str().expect("an id"));
    let events = crate::text(send(&app, with_key_of("a", get(&events))).await).await;
    for (before, node) in [(1, "router"), (4, "agent")] {
        let path = format!("/api/threads/t/state?at={before}&explain={node}");
        let built = json(&app, with_key_of("a", get(&path))).await;
        let digest = built["digests"][0].as_str().expect("a digest");
        let was_sent = events.contains(&format!(r#""request":"{digest}""#));
        assert!(was_sent, "{node}: {built}");
        let other = json(&app, with_key_of("a", get(&path.replace("at=4", "at=1")))).await;
        assert_eq!(other["digests"][0] == digest, node == "router", "another state, another prompt");
    }
}

#[tokio::test]
async fn a_search_says_which_words_it_found_and_where() {
    let app = two_tenant_app("why").await;
    let found =
        json(&app, with_key_of("a", get("/api/search?q=%EC%97%B0%EC%B0%A8%ED%9C%B4%EA%B0%80%EB%8A%94")))
            .await;
    let hit = &found["hits"][0];
    let (text, why) = (hit["text"].as_str().expect("a text"), &hit["why"][0]);
    let at = |name: &str| usize::try_from(why["ranges"][0][name].as_u64().expect("a place")).expect("small");
    let word = text.get(at("start")..at("end")).expect("a place in the text");
    assert!(word.contains("연차") && why["term"].as_str().is_some_and(|term| word.contains(term)), "{hit}");
}

#[tokio::test]
async fn a_thread_is_found_by_its_title_and_by_what_was_said() {
    let app = two_tenant_app("said").await;
    for (thread, message) in [("t1", "연차휴가는 며칠인가요?"), ("t2", "When must receipts be uploaded?")]
    {
        let ask = serde_json::json!({ "agent": "assistant", "message": message }).to_string();
        json(&app, with_key_of("a", post(&format!("/api/threads/{thread}/runs?wait=true"), &ask))).await;
    }
    let found = async |tenant: &str, words: &str| {
        let encoded: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let listed = json(&app, with_key_of(tenant, get(&format!("/api/threads?q={encoded}")))).await;
        let threads = listed["threads"].as_array().expect("a list").iter();
        threads.map(|thread| thread["id"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("a", "며칠").await, ["t1"], "in the title");
    assert_eq!(found("a", "15일").await, ["t1"], "in the answer alone");
    assert_eq!(found("a", "SEVEN DAYS").await, ["t2"], "however it is written");
    for words in ["연차휴가 며칠", "며칠 연차휴가", "연차 휴가", "연차휴가가 며칠이지", "15일 며칠"]
    {
        assert_eq!(found("a", words).await, ["t1"], "{words}");
    }
    assert_eq!(found("a", "RECEIPTS uploaded").await, ["t2"], "in any order and form");
    assert!(found("a", "연차휴가 receipts").await.is_empty(), "every word counts");
    assert!(found("a", "아무도 하지 않은 말").await.is_empty());
    assert!(found("a", "toolsUsed").await.is_empty(), "what only the log holds is no word of anybody");
    assert!(found("b", "15일").await.is_empty(), "of another tenant");
}

#[tokio::test]
async fn the_oldest_of_many_threads_is_found_by_what_was_said_on_it() {
    const THREADS: usize = 2300;
    let store = Arc::new(RamStore::new());
    let app = crate::app_with_store(store.clone());
    let ask = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;
    json(&app, post("/api/threads/oldest/runs?wait=true", ask)).await;
    let title = |words: String| serde_json::Map::from_iter([("title".to_owned(), words.into())]);
    for number in 0..THREADS {
        let thread = doran_engine::ThreadId::new(&format!("t{number}")).expect("a name");
        let key = doran_engine::ThreadKey { tenant: doran_engine::TenantId::local(), thread };
        store.put_thread(&key, &title(format!("대화 {number}"))).await.expect("put");
    }
    // What was said in the answer stands in no title.
    let search = async |words: &str, limit: usize| {
        let words: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (mut found, mut next, mut requests) = (Vec::new(), Some(String::new()), 0);
        while let Some(cursor) = next {
            let path = format!("/api/threads?q={words}&limit={limit}{cursor}");
            let page = json(&app, get(&path)).await;
            let threads = page["threads"].as_array().expect("a list");
            assert!(threads.len() <= limit, "{page}");
            found.extend(threads.iter().map(|one| one["id"].as_str().expect("a name").to_owned()));
            next = page["next"].as_str().map(|next| format!("&cursor={next}"));
            assert_ne!(next.as_ref(), Some(&cursor), "it goes on: {page}");
            requests += 1;
        }
        (found, requests)
    };
    let (found, requests) = search("15일", 40).await;
    assert_eq!(found, ["oldest"]);
    assert!((2..=4).contains(&requests), "one request looks through some, not through all: {requests}");
    let (mut found, _) = search("대화 22", 7).await;
    found.sort();
    found.dedup();
    let there = (0..THREADS).filter(|number| number.to_string().contains("22")).count();
    assert_eq!(found.len(), there, "each once, whatever the size of the page");
}

#[tokio::test]
async fn pages_of_threads_hold_each_once_while_threads_are_added() {
    let store = Arc::new(RamStore::new());
    let app = crate::app_with_store(store.clone());
    let put = async |name: &str| {
        let thread = doran_engine::ThreadId::new(name).expect("a name");
        let key = doran_engine::ThreadKey { tenant: doran_engine::TenantId::local(), thread };
        store.put_thread(&key, &serde_json::Map::new()).await.expect("put");
    };
    for number in 0..7 {
        put(&format!("t.{number}")).await;
    }
    let (mut found, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = json(&app, get(&format!("/api/threads?limit=2{cursor}"))).await;
        let threads = page["threads"].as_array().expect("a list").iter();
        found.extend(threads.map(|one| one["id"].as_str().expect("a name").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
        pages += 1;
        put(&format!("new{pages}")).await;
    }
    found.sort();
    assert_eq!(found, (0..7).map(|number| format!("t.{number}")).collect::<Vec<_>>());
    for wrong in ["2", "x.t", "1.", ".t"] {
        let refused = crate::problem(&app, get(&format!("/api/threads?cursor={wrong}"))).await;
        assert_eq!(refused, "400 bad_input", "{wrong}");
    }
}

#[tokio::test]
async fn looking_changes_nothing() {
    let app = two_tenant_app("looking").await;
    let mine = |request| with_key_of("a", request);
    let ask = r#"{"agent":"react","message":"안녕?"}"#;
    json(&app, mine(post("/api/threads/t/runs?wait=true", ask))).await;
    let seen = async || {
        let mut all = Vec::new();
        for path in
            ["/api/threads", "/api/threads/t", "/api/threads/t/history", "/api/usage", "/api/documents"]
        {
            all.push(json(&app, mine(get(path))).await);
        }
        all
    };
    let before = seen().await;
    for route in doran_server::routes().iter().filter(|route| route.method == "get") {
        let path =
            route.path.replace("{thread}", "t").replace("{agent}", "react").replace("{model}", "react");
        let path = path
            .replace("{assistant}", "react")
            .replace("{checkpoint}", "00000000-0000-8000-8000-000000000003");
        let path = path.replace("{document}", "d").replace("{run}", "00000000-0000-0000-0000-000000000000");
        let path = path.replace("{provider}", "openai").replace("{response}", "resp_0");
        let path = path.replace("{set}", "leave").replace("{namespace}", "inner");
        let path = path.replace("{cron}", "00000000-0000-0000-0000-000000000000");
        assert!(!path.contains('{'), "{path}");
        drop(send(&app, mine(get(&path))).await);
    }
    assert_eq!(seen().await, before);
}

#[tokio::test]
async fn pages_of_messages_have_every_message_once() {
    let app = two_tenant_app("message-pages").await;
    for number in 0..5 {
        let ask = serde_json::json!({ "agent": "assistant", "message": format!("안녕하세요 {number}") })
            .to_string();
        json(&app, with_key_of("a", post("/api/threads/t/runs?wait=true", &ask))).await;
    }
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let messages = page["messages"].as_array().expect("a list");
        messages.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
    };
    let whole = json(&app, with_key_of("a", get("/api/threads/t/messages"))).await;
    assert!(whole.get("earlier").is_none() && ids(&whole).len() >= 10, "{whole}");
    let (mut pages, mut path) = (Vec::new(), "/api/threads/t/messages?limit=3".to_owned());
    loop {
        let page = json(&app, with_key_of("a", get(&path))).await;
        assert!(ids(&page).len() >= 3 || page.get("earlier").is_none(), "{page}");
        pages.splice(0..0, ids(&page));
        let Some(earlier) = page["earlier"].as_u64() else { break };
        path = format!("/api/threads/t/messages?limit=3&before={earlier}");
    }
    assert_eq!(pages, ids(&whole));
}
