//! Requests that are refused, and their errors.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, header};
use doran_server::ServerLimits;
use expect_test::expect;
use tokio::sync::Notify;

use crate::{PausingModel, app, app_with, get, post, problem, send, text, until};

const RUNS: &str = "/api/threads/t/runs";
const ASK_BODY: &str = r#"{"agent":"assistant","message":"안녕?"}"#;

#[tokio::test]
async fn the_front_door_says_what_is_here() {
    let app = app();
    let home: serde_json::Value =
        serde_json::from_str(&text(send(&app, get("/")).await).await).expect("JSON");
    let agent = &home["agents"][0];
    assert_eq!((&home["name"], &agent["id"]), (&"doran".into(), &"assistant".into()));
    assert_eq!(
        (&agent["model"]["name"], &agent["model"]["kind"]),
        (&"offline-extractive-2".into(), &"extractive".into())
    );
    assert_eq!(text(send(&app, get("/healthz")).await).await, r#"{"status":"ok"}"#);
    app.draining().cancel();
    assert_eq!(problem(&app, get("/healthz")).await, "503 stopping");
}

#[tokio::test]
async fn bodies_that_do_not_fit_are_refused() {
    let app = app();
    let mut table = String::new();
    let long = format!(r#"{{"agent":"assistant","message":"{}"}}"#, "가".repeat(200_000));
    let along = format!(r#"{{"agent":"assistant","message":"hi","document":"{}"}}"#, "가".repeat(200_000));
    for body in [
        "",
        "{}",
        "[1]",
        r#"{"agent":"assistant","message":"hi","modle":"gpt"}"#,
        r#"{"agent":"assistant","message":"hi","message":"ho"}"#,
        r#"{"agent":"assistant","message":"  "}"#,
        r#"{"agent":"assistant","message":"a\u0000b"}"#,
        r#"{"agent":"assistant","message":"\ud800"}"#,
        r#"{"agent":"nobody","message":"hi"}"#,
        &long,
        r#"{"agent":"assistant","message":"hi","document":"a\u0000b"}"#,
        &along,
    ] {
        let shown: String = body.chars().take(50).collect();
        table.push_str(&format!("{} ← {shown}\n", problem(&app, post(RUNS, body)).await));
    }
    expect![[r#"
        400 bad_json ← 
        400 bad_json ← {}
        400 bad_json ← [1]
        400 bad_json ← {"agent":"assistant","message":"hi","modle":"gpt"}
        400 bad_json ← {"agent":"assistant","message":"hi","message":"ho"
        400 bad_input ← {"agent":"assistant","message":"  "}
        400 bad_input ← {"agent":"assistant","message":"a\u0000b"}
        400 bad_json ← {"agent":"assistant","message":"\ud800"}
        404 unknown_agent ← {"agent":"nobody","message":"hi"}
        400 bad_input ← {"agent":"assistant","message":"가가가가가가가가가가가가가가가가가가
        400 bad_input ← {"agent":"assistant","message":"hi","document":"a\
        400 bad_input ← {"agent":"assistant","message":"hi","document":"가가
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn a_body_has_to_be_json_and_small_and_in_time() {
    let app = app_with(
        std::sync::Arc::new(doran_offline::OfflineModel),
        ServerLimits {
            max_body_bytes: 100,
            body_timeout: std::time::Duration::from_millis(30),
            ..ServerLimits::default()
        },
    );
    let mut form = post(RUNS, ASK_BODY);
    form.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().expect("a type"));
    assert_eq!(problem(&app, form).await, "415 not_json");
    let mut packed = post(RUNS, ASK_BODY);
    packed.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().expect("an encoding"));
    assert_eq!(problem(&app, packed).await, "415 not_json");
    assert_eq!(problem(&app, post(RUNS, &" ".repeat(101))).await, "413 too_large");
    let mut slow = post(RUNS, "");
    *slow.body_mut() = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    assert_eq!(problem(&app, slow).await, "408 too_slow");
}

#[tokio::test]
async fn only_this_machine_is_answered() {
    let app = app();
    let with = |name: header::HeaderName, value: &str| {
        let mut request = get("/api/agents");
        request.headers_mut().insert(name, value.parse().expect("a header"));
        request
    };
    assert_eq!(problem(&app, with(header::HOST, "evil.example")).await, "403 host_not_allowed");
    assert_eq!(problem(&app, with(header::ORIGIN, "https://evil.example")).await, "403 origin_not_allowed");
    assert_eq!(problem(&app, with(header::ORIGIN, "null")).await, "403 origin_not_allowed");
    let bare = Request::get("/api/agents").body(Body::empty()).expect("a request");
    assert_eq!(problem(&app, bare).await, "400 no_host");
    let own = with(header::ORIGIN, "http://localhost:7979");
    assert_eq!(send(&app, own).await.status(), 200);
    let other_port = with(header::ORIGIN, "http://localhost:3000");
    assert_eq!(problem(&app, other_port).await, "403 origin_not_allowed");
}

#[tokio::test]
async fn probes_ask_by_any_address_and_pages_do_not() {
    let app = app();
    for path in ["/healthz", "/readyz"] {
        let mut probe = get(path);
        probe.headers_mut().insert(header::HOST, "10.1.2.3:7979".parse().expect("a header"));
        assert_eq!(send(&app, probe).await.status(), 200, "{path}");
        let mut page = get(path);
        page.headers_mut().insert(header::ORIGIN, "https://evil.example".parse().expect("a header"));
        assert_eq!(problem(&app, page).await, "403 origin_not_allowed", "{path}");
    }
}

#[tokio::test]
async fn queries_are_as_long_as_documented_and_no_longer() {
    let app = app();
    for (path, most) in [("/api/threads", 200), ("/api/search", 2000)] {
        let q = |count| percent_encoded("\u{fdfa}").repeat(count);
        // The head of a request has room for a thousand of these.
        if most == 200 {
            assert_eq!(send(&app, get(&format!("{path}?q={}", q(most)))).await.status(), 200, "{path}");
        }
        assert_eq!(problem(&app, get(&format!("{path}?q={}", q(most + 1)))).await, "400 bad_input", "{path}");
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn paths_headers_and_methods_are_checked() {
    let app = app();
    assert_eq!(problem(&app, get("/nowhere")).await, "404 not_found");
    assert_eq!(problem(&app, get("/api/../admin")).await, "404 not_found");
    assert_eq!(problem(&app, get("/api/chat")).await, "405 method_not_allowed");
    assert_eq!(problem(&app, post("/api/threads/%00/runs", ASK_BODY)).await, "400 bad_path");
    assert_eq!(problem(&app, post("/api/threads/%ff/runs", ASK_BODY)).await, "400 bad_path");
    assert_eq!(problem(&app, get("/api/threads/t/runs/x/events")).await, "400 bad_path");
    let none = "/api/threads/t/runs/00000000-0000-0000-0000-000000000000/events";
    assert_eq!(problem(&app, get(none)).await, "404 not_found");
    for after in ["x", "-1", "99999999999999"] {
        assert_eq!(problem(&app, get(&format!("{none}?after={after}"))).await, "400 bad_input");
    }
    for id in ["abc", "-1", "1 "] {
        let mut request = get(none);
        request.headers_mut().insert("last-event-id", id.parse().expect("a header"));
        assert_eq!(problem(&app, request).await, "400 bad_header", "{id}");
    }
    for key in [String::new(), "k".repeat(201), "한글".into(), "a b".into()] {
        let mut request = post(RUNS, ASK_BODY);
        let value = header::HeaderValue::from_bytes(key.as_bytes()).expect("a header");
        request.headers_mut().insert("idempotency-key", value);
        assert_eq!(problem(&app, request).await, "400 bad_header", "{key}");
    }
}

#[tokio::test]
async fn who_comes_when_too_many_are_being_answered_is_turned_away_at_once() {
    let leave = Arc::new(Notify::new());
    let app = app_with(
        Arc::new(PausingModel(leave.clone())),
        ServerLimits { max_requests: 1, ..ServerLimits::default() },
    );
    let asked = r#"{"agent":"assistant","message":"안녕?"}"#;
    let waits = {
        let app = app.clone();
        tokio::spawn(async move { send(&app, post("/api/chat", asked)).await.status().as_u16() })
    };
    until(async || send(&app, get("/api/agents")).await.status() == 503).await;
    let response = send(&app, get("/api/agents")).await;
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(problem(&app, get("/api/agents")).await, "503 overloaded");
    assert_eq!(problem(&app, post("/api/chat", asked)).await, "503 overloaded");
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(send(&app, get(path)).await.status(), 200, "{path} is asked most then");
    }
    let counted = text(send(&app, get("/metrics")).await).await;
    assert!(
        counted.lines().any(|line| line.starts_with("doran_requests_shed_total") && !line.ends_with(" 0")),
        "{counted}"
    );
    leave.notify_one();
    assert_eq!(waits.await.expect("it ends"), 200);
    assert_eq!(send(&app, get("/api/agents")).await.status(), 200);
}

#[tokio::test]
async fn a_question_without_words_and_a_thread_without_a_name_are_distinguished() {
    let app = app();
    for body in [r#"{"agent":"react","message":null}"#, r#"{"agent":"react","message":""}"#, "{}"] {
        let output = text(send(&app, post("/api/chat", body)).await).await;
        assert!(output.contains("\"empty_input\""), "{body}: {output}");
    }
    for (path, body, expected) in [
        ("/api/chat", r#"{"message":"?","sessionId":""}"#, "400 bad_input"),
        ("/api/chat", r#"{"message":"?","threadId":""}"#, "400 bad_input"),
        ("/api/chat", r#"{"message":"?","threadId":"a","sessionId":"b"}"#, "400 bad_input"),
        ("/api/chat", r#"["2*3?",null,null,null,null,null,null]"#, "400 bad_json"),
        ("/api/chat", r#"{"message":"?","user_message":"!"}"#, "400 bad_json"),
        ("/api/chat", r#"{"message":"?","previous_turn":[{"role":"system","content":"!"}]}"#, "400 bad_json"),
        ("/api/contract/chat", r#"{"message":null}"#, "400 bad_input"),
        ("/api/contract/chat", r#"{"message":"?","agent":"react"}"#, "400 bad_input"),
    ] {
        assert_eq!(problem(&app, post(path, body)).await, expected, "{path} {body}");
    }
}

#[tokio::test]
async fn errors_below_v1_have_the_form_of_openai() {
    let app = app();
    let mut elsewhere = get("/v1/models");
    elsewhere.headers_mut().insert(header::HOST, "evil.example".parse().expect("a header"));
    let mut page = get("/v1/models");
    page.headers_mut().insert(header::ORIGIN, "https://evil.example".parse().expect("a header"));
    for (request, status, code) in [
        (get("/v1/nowhere"), 404, "not_found"),
        (post("/v1/models", "{}"), 405, "method_not_allowed"),
        (elsewhere, 403, "host_not_allowed"),
        (page, 403, "origin_not_allowed"),
    ] {
        let response = send(&app, request).await;
        assert_eq!(response.status(), status, "{code}");
        let error: serde_json::Value = serde_json::from_str(&text(response).await).expect("JSON");
        assert_eq!(error["error"]["code"], code, "{error}");
        crate::check_both_languages(&error);
    }
}

/// A number as people write it.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[test]
fn the_book_tells_the_limits_of_the_program() {
    let limits = ServerLimits::default();
    let (kib, mib) = (|bytes: usize| bytes / 1024, |bytes: usize| bytes / 1024 / 1024);
    let (head, body) = (kib(limits.max_header_bytes), mib(limits.max_body_bytes));
    let (head_time, body_time) = (limits.header_timeout.as_secs(), limits.body_timeout.as_secs());
    let message = kib(limits.max_message_bytes);
    let document = mib(limits.max_document_bytes);
    let (minutes, uploads) = (limits.upload_timeout.as_secs() / 60, limits.max_uploads);
    let (rate, burst) = (with_commas(limits.rate_limit.per_minute as usize), limits.rate_limit.burst);
    let [requests, streams, connections] =
        [limits.max_requests, limits.max_streams, limits.max_connections].map(with_commas);
    let (bulk, memory) = (limits.max_bulk_reads, mib(limits.max_body_memory_bytes));
    assert_eq!(limits.write_timeout.as_secs(), 60, "a minute");
    let check = |book: &str, rows: &[String]| {
        let path = format!("{}/../../docs/src/{book}/http.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("the book");
        for row in rows {
            assert!(text.contains(row), "{book}: {row}");
        }
    };
    check(
        "en",
        &[
            format!("| {head} KiB, {head_time} seconds |"),
            format!("| {body} MiB, {body_time} seconds |"),
            format!("| {message} KiB |"),
            format!("| {document} MiB, {minutes} minutes; {uploads} uploads at a time |"),
            format!("| {rate} per minute, {burst} at once |"),
            format!("| requests in progress | {requests} |"),
            format!("| {bulk} at a time; "),
            format!("| open streams | {streams} |"),
            format!("| {memory} MiB (`max_body_memory_mib`) |"),
            format!("| connections | {connections}, or "),
            "| disconnected after a minute; ".to_owned(),
        ],
    );
    check(
        "ko",
        &[
            format!("| {head} KiB, {head_time}초 |"),
            format!("| {body} MiB, {body_time}초 |"),
            format!("| {message} KiB |"),
            format!("| {document} MiB, {minutes}분. 동시에 업로드 {uploads}개 |"),
            format!("| 1분에 {rate}개, 한꺼번에 {burst}개 |"),
            format!("| 처리 중인 요청 | {requests}개 |"),
            format!("| 한 번에 {bulk}개. "),
            format!("| 열린 스트림 | {streams}개 |"),
            format!("| {memory} MiB(`max_body_memory_mib`) |"),
            format!("| 연결 | {connections}개, "),
            "| 1분 뒤 연결을 끊습니다. ".to_owned(),
        ],
    );
}

/// Status, code and parameter of an answer that says what is wrong.
async fn refusal(app: &doran_server::ServerApp, path: &str) -> String {
    let response = send(app, get(path)).await;
    let status = response.status().as_u16();
    let said: serde_json::Value = serde_json::from_str(&text(response).await).expect("JSON");
    let said = said.get("error").unwrap_or(&said);
    let parameter = said.get("parameter").or(said.get("param")).and_then(serde_json::Value::as_str);
    format!("{status} {} {}", said["code"].as_str().unwrap_or_default(), parameter.unwrap_or_default())
}

#[tokio::test]
async fn a_parameter_that_a_route_does_not_have_is_named() {
    let app = app();
    assert_eq!(send(&app, post(&format!("{RUNS}?wait=true"), ASK_BODY)).await.status(), 200);
    for route in doran_server::routes() {
        let is_own = route.path.starts_with("/api/") || route.path.starts_with("/v1/");
        if is_own && route.method == "get" {
            let path = route.path.replace(['{', '}'], "");
            assert_eq!(refusal(&app, &format!("{path}?colour=red")).await, "400 bad_input colour", "{path}");
        }
    }
    let posted = send(&app, post("/v1/chat/completions?colour=red", "{}")).await;
    assert!(text(posted).await.contains(r#""param":"colour""#));
    assert_eq!(send(&app, get("/v1/models?")).await.status(), 200);
}

#[tokio::test]
async fn a_list_of_nothing_is_refused_and_a_long_one_is_cut() {
    let app = app();
    assert_eq!(send(&app, post(&format!("{RUNS}?wait=true"), ASK_BODY)).await.status(), 200);
    for list in [
        "/api/threads?",
        "/api/runs?",
        "/api/threads/t/runs?",
        "/api/threads/t/history?",
        "/api/threads/t/messages?",
        "/api/search?q=a&",
    ] {
        for wrong in ["0", "-1", "x", ""] {
            assert_eq!(refusal(&app, &format!("{list}limit={wrong}")).await, "400 bad_input limit", "{list}");
        }
        for right in ["1", "1000000"] {
            assert_eq!(send(&app, get(&format!("{list}limit={right}"))).await.status(), 200, "{list}");
        }
    }
}

#[tokio::test]
async fn a_field_of_a_body_that_is_wrong_is_named() {
    let app = app();
    for (body, field) in [
        (r#"{"agent":"assistant","message":"hi","mesage":"ho"}"#, "mesage"),
        (r#"{"agent":"assistant","message":"hi","message":"ho"}"#, "message"),
    ] {
        let said = text(send(&app, post(RUNS, body)).await).await;
        assert!(said.contains(&format!(r#""parameter":"{field}""#)), "{body}: {said}");
    }
}
