//! Requests that were made to hurt, over a real socket, as tables.

use std::sync::Arc;
use std::time::Duration;

use doran_offline::OfflineModel;
use doran_server::ServerLimits;
use expect_test::expect;
use serde_json::json as object;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::socket::{send_raw, start_server_with};
use crate::{PATIENCE, app, app_with, get, json, json_request, post, problem, send, text, with_header};

const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The first line of every answer in what came back, and whether the connection was closed (it always is: `told`
/// reads to the end).
fn statuses(responses: &str) -> String {
    let lines: Vec<&str> = responses.split("HTTP/1.1 ").skip(1).map(|one| &one[..3]).collect();
    if lines.is_empty() { "closed".to_owned() } else { lines.join(" then ") }
}

#[tokio::test]
async fn what_is_not_sound_http_is_refused_and_hides_nothing() {
    let limits = ServerLimits {
        header_timeout: SHORT_TIMEOUT,
        body_timeout: SHORT_TIMEOUT,
        ..ServerLimits::default()
    };
    let (address, _stop, _serving) = start_server_with(app_with(Arc::new(OfflineModel), limits)).await;
    let hidden = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let ask = "POST /api/threads/t/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut table = String::new();
    for (name, bytes) in [
        ("half a head", "GET / HTTP/1.1\r\nHost: localh".to_owned()),
        ("half a body", format!("{ask}Content-Length: 100\r\n\r\n{{")),
        ("300 headers", format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(300))),
        ("a header of 64 kB", format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(65536))),
        ("an address of 60 kB", format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(60_000))),
        ("3 MB declared", format!("{ask}Content-Length: 3000000\r\n\r\n{{")),
        ("a chunk of 1 GB", format!("{ask}Transfer-Encoding: chunked\r\n\r\n40000000\r\n{}", "x".repeat(1 << 21))),
        ("a length and chunks", format!("{ask}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("chunks and a length", format!("{ask}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{hidden}")),
        ("two lengths", format!("{ask}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef{hidden}")),
        ("chunks that are not last", format!("{ask}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n{hidden}")),
        ("no host", "GET /healthz HTTP/1.1\r\n\r\n".into()),
        ("two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n".into()),
        ("somebody else's host", "GET /api/agents HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n".into()),
        ("an address of another place", "GET http://attacker.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".into()),
        ("TRACE", "TRACE /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".into()),
        ("CONNECT", "CONNECT attacker.example:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".into()),
        ("a method of its own", "BREW /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".into()),
        ("the beginning of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into()),
        ("TLS", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\r\n\r\n".into()),
        ("a NUL in a header", "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n".into()),
        ("a line that ends with LF alone", "GET /healthz HTTP/1.1\r\nHost: localhost\nConnection: close\r\n\r\n".into()),
        ("a first line that ends with LF alone", "GET /healthz HTTP/1.1\nHost: localhost\r\nConnection: close\r\n\r\n".into()),
        ("a head that ends with LF alone", format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n{hidden}")),
        ("LF alone in the request after a body", format!("{ask}Content-Length: 2\r\n\r\n{{}}{}", hidden.replace("\r\n", "\n"))),
        ("a line that ends with CR alone", "GET /healthz HTTP/1.1\r\nX: a\rHost: localhost\r\n\r\n".into()),
        ("a header gone on with on the next line", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n".into()),
        ("a space before the colon", format!("{ask}Content-Length : 2\r\n\r\n{{}}{hidden}")),
        ("a wish for h2c", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n".into()),
    ] {
        table.push_str(&format!("{} ← {name}\n", statuses(&send_raw(address, &bytes).await)));
    }
    expect![[r#"
        closed ← half a head
        408 ← half a body
        431 ← 300 headers
        431 ← a header of 64 kB
        431 ← an address of 60 kB
        413 ← 3 MB declared
        413 ← a chunk of 1 GB
        400 ← a length and chunks
        400 ← chunks and a length
        400 ← two lengths
        400 ← chunks that are not last
        400 ← no host
        400 ← two hosts
        403 ← somebody else's host
        400 ← an address of another place
        405 ← TRACE
        405 ← CONNECT
        405 ← a method of its own
        closed ← the beginning of HTTP/2
        400 ← TLS
        400 ← a NUL in a header
        400 ← a line that ends with LF alone
        400 ← a first line that ends with LF alone
        400 ← a head that ends with LF alone
        400 then 400 ← LF alone in the request after a body
        400 ← a line that ends with CR alone
        400 ← a header gone on with on the next line
        400 ← a space before the colon
        200 ← a wish for h2c
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn many_half_requests_do_not_keep_others_out() {
    let limits = ServerLimits { header_timeout: SHORT_TIMEOUT, ..ServerLimits::default() };
    let (address, _stop, _serving) = start_server_with(app_with(Arc::new(OfflineModel), limits)).await;
    let mut held = Vec::new();
    for _ in 0..500 {
        let mut socket = TcpStream::connect(address).await.expect("connected");
        socket.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("sent");
        held.push(socket);
    }
    let well =
        send_raw(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(well.starts_with("HTTP/1.1 200 "), "{well}");
    for mut socket in held {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        drop(closed.expect("every one is closed in time"));
    }
}

#[tokio::test]
async fn json_that_was_made_to_hurt_is_refused() {
    let app = app();
    let deep = format!(r#"{{"agent":"react","message":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let keys: String = (0..60_000).map(|n| format!(r#""k{n}":1,"#)).collect();
    let many = format!(r#"{{{keys}"agent":"react","message":"hi"}}"#);
    let mut table = String::new();
    for (name, body) in [
        ("very deep", deep.as_bytes().to_vec()),
        ("very many keys", many.into_bytes()),
        ("a key twice", br#"{"agent":"react","message":"hi","agent":"docqa"}"#.to_vec()),
        ("half a character", b"{\"agent\":\"react\",\"message\":\"\xed\x95\"}".to_vec()),
        ("half a surrogate", br#"{"agent":"react","message":"\ud800"}"#.to_vec()),
        ("a NUL", br#"{"agent":"react","message":"a\u0000b"}"#.to_vec()),
        ("a number without end", br#"{"agent":"react","message":"hi","if_busy":1e999}"#.to_vec()),
        ("NaN", br#"{"agent":"react","message":NaN}"#.to_vec()),
        ("a number for a text", br#"{"agent":"react","message":9223372036854775808}"#.to_vec()),
        ("two values", br#"{"agent":"react","message":"hi"}{}"#.to_vec()),
        ("a byte order mark", b"\xef\xbb\xbf{\"agent\":\"react\",\"message\":\"hi\"}".to_vec()),
    ] {
        let mut request = post("/api/threads/t/runs", "");
        *request.body_mut() = axum::body::Body::from(body);
        table.push_str(&format!("{} ← {name}\n", problem(&app, request).await));
    }
    for title in ["a\u{0}b", "a\nb", "", "   ", &"가".repeat(201)] {
        let text = problem(&app, post("/api/threads", &object!({ "title": title }).to_string())).await;
        let shown: String = title.chars().take(5).collect();
        table.push_str(&format!("{text} ← the title {shown:?}\n"));
    }
    expect![[r#"
        400 bad_json ← very deep
        400 bad_json ← very many keys
        400 bad_json ← a key twice
        400 bad_json ← half a character
        400 bad_json ← half a surrogate
        400 bad_input ← a NUL
        400 bad_json ← a number without end
        400 bad_json ← NaN
        400 bad_json ← a number for a text
        400 bad_json ← two values
        400 bad_json ← a byte order mark
        400 bad_input ← the title "a\0b"
        400 bad_input ← the title "a\nb"
        400 bad_input ← the title ""
        400 bad_input ← the title "   "
        400 bad_input ← the title "가가가가가"
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn pages_of_other_sites_can_do_nothing() {
    let app = app();
    let asked = r#"{"agent":"react","message":"안녕?"}"#;
    let typed = |kind: &str| {
        let mut request = post("/api/threads/t/runs", asked);
        request.headers_mut().insert("content-type", kind.parse().expect("a header"));
        request
    };
    let mut table = String::new();
    for (name, request) in [
        ("a form that says text", typed("text/plain")),
        ("a form", typed("application/x-www-form-urlencoded")),
        ("a form with files", typed("multipart/form-data; boundary=x")),
        ("packed JSON", with_header(post("/api/threads/t/runs", asked), "content-encoding", "gzip")),
        (
            "a page elsewhere",
            with_header(post("/api/threads/t/runs", asked), "origin", "https://evil.example"),
        ),
        ("a page in a sandbox", with_header(get("/api/threads"), "origin", "null")),
        (
            "another method in a header",
            with_header(post("/api/threads/t", "{}"), "x-http-method-override", "DELETE"),
        ),
        ("a question before a request", json_request("options", "/api/threads", "")),
        ("a path that climbs", get("/api/../healthz")),
        ("a path that climbs, encoded", get("/api/%2e%2e/healthz")),
        ("a doubled slash", get("//api/threads")),
        ("an id that climbs", get("/api/documents/..%2f..%2fetc%2fpasswd")),
    ] {
        table.push_str(&format!("{} ← {name}\n", problem(&app, request).await));
    }
    expect![[r#"
        415 not_json ← a form that says text
        415 not_json ← a form
        415 not_json ← a form with files
        415 not_json ← packed JSON
        403 origin_not_allowed ← a page elsewhere
        403 origin_not_allowed ← a page in a sandbox
        405 method_not_allowed ← another method in a header
        405 method_not_allowed ← a question before a request
        404 not_found ← a path that climbs
        404 not_found ← a path that climbs, encoded
        404 not_found ← a doubled slash
        404 not_found ← an id that climbs
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn every_answer_says_what_it_is_and_not_who_made_it() {
    let app = app();
    for path in
        ["/", "/healthz", "/nowhere", "/api/threads", "/docs", "/v1/models", "/app.js", "/openapi.json"]
    {
        let response = send(&app, get(path)).await;
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
        assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{path}");
        assert_eq!(header("referrer-policy").as_deref(), Some("no-referrer"), "{path}");
        let policy = header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}"
        );
        assert!(header("server").is_none() && header("x-powered-by").is_none(), "{path}");
        assert!(header("access-control-allow-origin").is_none(), "{path}");
        assert!(header("x-request-id").is_some(), "{path}");
        text(response).await;
    }
}

#[tokio::test]
async fn a_document_is_taken_as_the_file_itself_or_not_at_all() {
    let app = crate::two_tenant_app("files").await;
    let mut table = String::new();
    for (query, header) in [
        ("name=a.md", ("content-type", "multipart/form-data; boundary=x")),
        ("name=a.md", ("content-encoding", "gzip")),
        ("name=a.md", ("content-length", "99999999999")),
        ("name=", ("x", "y")),
        ("collection=c", ("x", "y")),
        ("name=a.md&kind=poem", ("x", "y")),
        ("name=a.md&kind=standard:", ("x", "y")),
        ("name=a.md&tenant=b", ("x", "y")),
    ] {
        let mut request = crate::with_key_of("a", post(&format!("/api/documents?{query}"), "글"));
        request.headers_mut().insert(header.0, header.1.parse().expect("a header"));
        table.push_str(&format!("{} ← {query} {header:?}\n", problem(&app, request).await));
    }
    expect![[r#"
        415 not_a_file ← name=a.md ("content-type", "multipart/form-data; boundary=x")
        415 not_a_file ← name=a.md ("content-encoding", "gzip")
        413 too_large ← name=a.md ("content-length", "99999999999")
        400 bad_input ← name= ("x", "y")
        400 bad_input ← collection=c ("x", "y")
        400 bad_input ← name=a.md&kind=poem ("x", "y")
        400 bad_input ← name=a.md&kind=standard: ("x", "y")
        400 bad_input ← name=a.md&tenant=b ("x", "y")
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn http2_is_refused_however_it_is_requested() {
    let (address, _stop, _serving) = start_server_with(app()).await;
    // The beginning of HTTP/2, its settings, and streams that are opened and reset at once, over and over.
    let mut attack = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1_u32..20_001).step_by(2) {
        attack.extend_from_slice(b"\0\0\x01\x01\x05");
        attack.extend_from_slice(&stream.to_be_bytes());
        attack.push(0x82);
        attack.extend_from_slice(b"\0\0\x04\x03\0");
        attack.extend_from_slice(&stream.to_be_bytes());
        attack.extend_from_slice(&8_u32.to_be_bytes());
    }
    let attacks = (0..20).map(|_| async {
        let mut socket = TcpStream::connect(address).await.expect("connected");
        // The other side hangs up while it is still being talked at.
        socket.write_all(&attack).await.ok();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        drop(closed.expect("closed in time"));
        assert!(!rest.starts_with(b"\0"), "it spoke HTTP/2");
    });
    futures_util::future::join_all(attacks).await;
    let well =
        send_raw(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(well.starts_with("HTTP/1.1 200 "), "{well}");
}

#[tokio::test]
async fn sockets_that_do_nothing_are_waited_out_and_then_others_are_served() {
    let limits =
        ServerLimits { max_connections: 50, header_timeout: SHORT_TIMEOUT, ..ServerLimits::default() };
    let (address, _stop, _serving) = start_server_with(app_with(Arc::new(OfflineModel), limits)).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(address).await.expect("connected"));
    }
    // It stands behind them all, and its turn comes.
    let well =
        send_raw(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(well.starts_with("HTTP/1.1 200 "), "{well}");
    drop(idle);
}

#[tokio::test]
async fn a_method_is_what_it_says_and_a_path_is_taken_as_it_stands() {
    let app = app();
    let asked = r#"{"title":"t"}"#;
    json(&app, post("/api/threads", asked)).await;
    let before = json(&app, get("/api/threads")).await;
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        for path in ["/api/threads", "/api/threads/t"] {
            drop(send(&app, with_header(get(path), name, "DELETE")).await);
        }
    }
    assert_eq!(json(&app, get("/api/threads")).await, before);
    for path in
        ["//api/threads", "/api/%2e%2e/api/threads", "/api/../api/threads", "/API/threads", "/api/threads/"]
    {
        assert_eq!(problem(&app, get(path)).await, "404 not_found", "{path}");
    }
}

/// The tests that a page of the book names, as `file::test`.
fn tests_named_in_page(page: &str) -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/src").join(page)).expect("a page");
    let rows = text.lines().filter(|line| line.starts_with("| C"));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let names = names.filter_map(|name| name.split_once("::").filter(|(file, _)| !file.contains(' ')));
    names.map(|(file, test)| (file.to_owned(), test.to_owned())).collect()
}

#[test]
fn the_book_leaves_out_no_case() {
    for page in ["en/reliability.md", "ko/reliability.md"] {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("docs/src").join(page)).expect("a page");
        let mut lines = Vec::new();
        let number = |name: &str| name.trim().trim_start_matches('C').parse::<u32>().expect("a number");
        for row in text.lines().filter(|line| line.starts_with("| C")) {
            let cases = row.split('|').nth(1).expect("a cell");
            for case in cases.split(',') {
                let (first, last) = case.split_once('–').unwrap_or((case, case));
                lines.extend(number(first)..=number(last));
            }
        }
        for case in (73..=99).chain(103..=124).chain(149..=159) {
            assert!(lines.contains(&case), "{page} says nothing of C{case:03}");
        }
    }
}

#[test]
fn every_test_that_the_book_names_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = tests_named_in_page("en/reliability.md");
    assert!(found.len() >= 30, "{found:?}");
    assert_eq!(found, tests_named_in_page("ko/reliability.md"));
    for (file, test) in found {
        let places = ["server/tests/it", "cli/tests/it", "server/src", "retrieval/tests/it", "retrieval/src"];
        let names = [".rs", "/tests.rs", "/index.rs"].map(|end| format!("{file}{end}"));
        let files = places.iter().flat_map(|place| names.iter().map(move |name| format!("{place}/{name}")));
        let files = files.map(|path| std::fs::read_to_string(root.join(path)));
        let test = test.trim_start_matches("tests::");
        let wanted = if test == "tests" { "mod tests {".to_owned() } else { format!("fn {test}(") };
        let is_there = files.flatten().any(|text| text.contains(&wanted));
        assert!(is_there, "{file}::{test} is not there");
    }
}
