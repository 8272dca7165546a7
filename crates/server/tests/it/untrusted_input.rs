//! What strangers hand in and look for: it is words and data, and comes back as nothing else.

use axum::body::Body;
use axum::http::{Request, header};
use expect_test::expect;

use crate::{get, json, problem, send, text, two_tenant_app, until, with_key_of};

/// Everything that is not a plain letter, as an address writes it.
fn percent_encoded(words: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    words
        .bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[tokio::test]
async fn a_search_takes_words_names_and_a_number_and_nothing_else() {
    let app = two_tenant_app("searches").await;
    let mut table = String::new();
    for query in [
        "q=a&from=1000000".to_owned(),
        "q=a&offset=1".to_owned(),
        format!("q=a&filter={}", percent_encoded(r#"{"script":{"source":"1"}}"#)),
        format!("q=a&{}=1", percent_encoded("filter[script]")),
        "q=a&script=1".to_owned(),
        "q=a&tenant=b".to_owned(),
        "q=a&vector=0.1,0.2".to_owned(),
        "q=a&vector=NaN".to_owned(),
        "q=a&limit=-1".to_owned(),
        "q=a&limit=99999999999999999999999".to_owned(),
        "q=a&limit=x".to_owned(),
        "q=a&q=b".to_owned(),
        "q=a&kind=x".to_owned(),
        "limit=3".to_owned(),
        format!("q={}", "a".repeat(8 * 1024 + 1)),
    ] {
        let text = problem(&app, with_key_of("a", get(&format!("/api/search?{query}")))).await;
        table.push_str(&format!("{text} ← {}\n", &query[..query.len().min(40)]));
    }
    expect![[r#"
        400 bad_input ← q=a&from=1000000
        400 bad_input ← q=a&offset=1
        400 bad_input ← q=a&filter=%7B%22script%22%3A%7B%22sourc
        400 bad_input ← q=a&filter%5Bscript%5D=1
        400 bad_input ← q=a&script=1
        400 bad_input ← q=a&tenant=b
        400 bad_input ← q=a&vector=0.1,0.2
        400 bad_input ← q=a&vector=NaN
        400 bad_input ← q=a&limit=-1
        400 bad_input ← q=a&limit=99999999999999999999999
        400 bad_input ← q=a&limit=x
        400 bad_input ← q=a&q=b
        400 bad_input ← q=a&kind=x
        400 bad_input ← limit=3
        400 bad_input ← q=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn whatever_is_typed_into_the_search_is_words() {
    let app = two_tenant_app("words").await;
    let long = "%_".repeat(500);
    for words in [
        "multi-agent",
        "don't",
        "\"",
        "*",
        "",
        "AND OR NOT",
        "ubuntu 20.04",
        "a OR",
        "*:*",
        "_exists_:x",
        "/.*.*.*a/",
        "*휴가",
        "'; DROP TABLE x; --",
        "\0",
        &long,
    ] {
        let found =
            json(&app, with_key_of("a", get(&format!("/api/search?q={}", percent_encoded(words))))).await;
        assert!(found["hits"].as_array().is_some_and(|hits| hits.len() <= 10), "{words}");
    }
    let found = json(
        &app,
        with_key_of("a", get(&format!("/api/search?q={}&limit=1000000", percent_encoded("휴가")))),
    )
    .await;
    assert!(found["hits"].as_array().is_some_and(|hits| !hits.is_empty() && hits.len() <= 50));
    // A name is met exactly or not at all.
    for name in ["a.b", "", "_all", "사내 규정 (2026)", &"x".repeat(100)] {
        let path = format!("/api/search?q={}&collection={}", percent_encoded("휴가"), percent_encoded(name));
        let found = json(&app, with_key_of("a", get(&path))).await;
        assert_eq!(found["hits"].as_array().map(Vec::is_empty), Some(!name.is_empty()), "{name}");
    }
}

#[tokio::test]
async fn a_name_that_no_collection_can_have_is_refused() {
    let app = two_tenant_app("collections").await;
    let asked = |path: &str, body: serde_json::Value| {
        Request::post(path)
            .header(header::HOST, "localhost:7979")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request")
    };
    for name in ["docs\"; --", "*", "../c", "a\nb", "\u{202e}x", &"x".repeat(101)] {
        let message = serde_json::json!({ "message": "휴가", "collection": name });
        let run = serde_json::json!({ "agent": "react", "message": "휴가", "collection": name });
        let escaped = percent_encoded(name);
        let file = Request::post(format!("/api/documents?name=x.txt&collection={escaped}"))
            .header(header::HOST, "localhost:7979")
            .body(Body::from("글"))
            .expect("a request");
        for request in [
            get(&format!("/api/search?q=x&collection={escaped}")),
            file,
            asked("/api/chat", message.clone()),
            asked("/api/contract/chat", message),
            asked("/api/threads/t/runs", run),
        ] {
            let path = request.uri().path().to_owned();
            let response = send(&app, with_key_of("a", request)).await;
            assert_eq!(response.status(), 400, "{path} {name}");
            let output = text(response).await;
            assert!(output.contains("bad_input") && output.contains("모음 이름"), "{path} {name}: {output}");
        }
    }
}

#[tokio::test]
async fn a_page_or_a_drawing_that_was_handed_in_never_comes_back_as_one() {
    let app = two_tenant_app("pages").await;
    let page =
        "<!doctype html><title>t</title><body><p>휴가 안내문</p><script>alert(document.cookie)</script>";
    let drawing = "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"><script>alert(2)</script><text>휴가 그림</text></svg>";
    for (name, kind, bytes) in [("x.html", "text/html", page), ("x.svg", "image/svg+xml", drawing)] {
        let request = Request::post(format!("/api/documents?name={name}"))
            .header(header::HOST, "localhost:7979")
            .header(header::CONTENT_TYPE, kind)
            .body(Body::from(bytes))
            .expect("a request");
        let taken = json(&app, with_key_of("a", request)).await;
        let id = taken["id"].as_str().expect("an id").to_owned();
        let place = format!("/api/documents/{id}");
        until(async || {
            let status = json(&app, with_key_of("a", get(&place))).await;
            matches!(status["status"].as_str(), Some("ready" | "failed"))
        })
        .await;
        for path in
            [place.clone(), format!("{place}/text"), format!("/api/search?q={}", percent_encoded("휴가"))]
        {
            let response = send(&app, with_key_of("a", get(&path))).await;
            let header = |name: &str| {
                response
                    .headers()
                    .get(name)
                    .map(|value| value.to_str().expect("text").to_owned())
                    .unwrap_or_default()
            };
            assert!(header("content-type").contains("json"), "{path}: {}", header("content-type"));
            assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
            let policy = header("content-security-policy");
            assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{path}: {policy}");
            if response.status().is_success() && path.ends_with("/text") {
                assert!(header("content-disposition").starts_with("attachment"), "{path}");
            }
            let body = text(response).await;
            assert!(!body.contains("<script>") && !body.contains("onload="), "{path}: {body}");
        }
        // The file itself can only be saved.
        let file = send(&app, with_key_of("a", get(&format!("{place}/file")))).await;
        if file.status().is_success() {
            let header = |name: &str| file.headers()[name].to_str().expect("text").to_owned();
            assert_eq!(header("content-type"), "application/octet-stream", "{place}");
            assert!(header("content-disposition").starts_with("attachment"), "{place}");
            assert_eq!(header("x-content-type-options"), "nosniff", "{place}");
            assert!(header("content-security-policy").contains("sandbox"), "{place}");
        }
        for path in [format!("{place}/original"), format!("/{name}"), format!("/api/{name}")] {
            let response = send(&app, with_key_of("a", get(&path))).await;
            assert!([404, 405].contains(&response.status().as_u16()), "{path}");
        }
    }
}

/// Hands in a file of this name.
fn upload_request(name: &str, words: &str) -> Request<Body> {
    let request = Request::post(format!("/api/documents?name={}", percent_encoded(name)))
        .header(header::HOST, "localhost")
        .body(Body::from(words.to_owned()));
    with_key_of("a", request.expect("a request"))
}

#[tokio::test]
async fn a_file_that_takes_the_place_of_another_says_so() {
    let app = two_tenant_app("replaced").await;
    for (name, words, expected) in [
        ("계약서.md", "# 갑\n\n위약금은 백만 원이다.", false),
        ("계약서.md", "# 갑\n\n위약금은 백만 원이다.", false),
        ("계약서.md", "# 을\n\n위약금은 이백만 원이다.", true),
        ("다른 계약서.md", "# 병\n\n위약금은 없다.", false),
    ] {
        assert_eq!(json(&app, upload_request(name, words)).await["replaced"], expected, "{name} {words}");
    }
}

#[tokio::test]
async fn a_name_that_would_do_something_on_a_terminal_is_refused() {
    let app = two_tenant_app("names").await;
    for name in ["\u{1b}[31m빨강.md", "a\u{7}.md", "a\nb.md", "\u{9b}1m.md", "\u{7f}.md"] {
        assert_eq!(problem(&app, upload_request(name, "# 규정")).await, "400 bad_input", "{name:?}");
    }
    assert_eq!(json(&app, with_key_of("a", get("/api/documents"))).await["documents"], serde_json::json!([]));
}

#[tokio::test]
async fn what_cites_a_sample_can_be_opened_after_the_samples_are_gone() {
    let app = two_tenant_app("gone").await;
    let place = format!("/api/documents/{}/text", percent_encoded("samples/ko/휴가.md"));
    let before = json(&app, with_key_of("a", get(&place))).await;
    // The index of this tenant never held them.
    let after = json(&app, with_key_of("b", get(&place))).await;
    assert_eq!(after["text"], before["text"]);
    let unknown = format!("/api/documents/{}/text", percent_encoded("samples/ko/없음.md"));
    assert_eq!(problem(&app, with_key_of("b", get(&unknown))).await, "404 not_found");
}
