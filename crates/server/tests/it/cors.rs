//! Pages of other origins: none by default, and only the configured ones.

use axum::body::Body;
use axum::http::{Request, Response};
use doran_server::{AllowedOrigin, ServerApp};

use crate::{app, get, post, problem, send, two_keys, with_header, with_key_of};

const PAGE: &str = "https://app.example";

fn app_with_origins() -> ServerApp {
    let origins = [PAGE, "vscode-webview://*"].map(|origin| AllowedOrigin::parse(origin).expect("an origin"));
    app().allowed_origins(origins.to_vec())
}

fn preflight(origin: &str) -> Request<Body> {
    let request = Request::options("/v1/chat/completions").header("host", "localhost:7979");
    let request = request.header("origin", origin).header("access-control-request-method", "POST");
    let request =
        request.header("access-control-request-headers", "authorization, content-type, x-stainless-lang");
    request.body(Body::empty()).expect("a request")
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test]
async fn without_configured_origins_no_page_elsewhere_is_answered() {
    let app = app();
    assert_eq!(
        problem(&app, with_header(get("/api/agents"), "origin", PAGE)).await,
        "403 origin_not_allowed"
    );
    assert_eq!(send(&app, preflight(PAGE)).await.status(), 403);
    let own = send(&app, get("/api/agents")).await;
    assert!(own.headers().keys().all(|name| !name.as_str().starts_with("access-control-")));
}

#[tokio::test]
async fn a_page_of_a_configured_origin_asks_first_and_reads_the_answer() {
    let app = app_with_origins();
    for origin in [PAGE, "vscode-webview://0a1b2c"] {
        let asked = send(&app, preflight(origin)).await;
        assert_eq!(asked.status(), 204);
        assert_eq!(header(&asked, "access-control-allow-origin"), origin);
        assert!(header(&asked, "access-control-allow-methods").contains("POST"));
        assert_eq!(
            header(&asked, "access-control-allow-headers"),
            "authorization, content-type, x-stainless-lang"
        );
        assert_eq!(header(&asked, "access-control-allow-credentials"), "");
        let answer = send(&app, with_header(get("/api/agents"), "origin", origin)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(header(&answer, "access-control-allow-origin"), origin);
        assert!(header(&answer, "vary").contains("origin"));
        let exposed = header(&answer, "access-control-expose-headers");
        for name in ["content-location", "x-pagination-total", "x-pagination-next", "x-request-id"] {
            assert!(exposed.contains(name), "{name}: {exposed}");
        }
    }
}

#[tokio::test]
async fn a_configured_origin_does_not_open_the_server_to_others() {
    let app = app_with_origins();
    for origin in ["https://evil.example", "http://app.example", "https://app.example.evil.example", "null"] {
        assert_eq!(send(&app, preflight(origin)).await.status(), 403, "{origin}");
        let answer = send(&app, with_header(get("/api/agents"), "origin", origin)).await;
        assert_eq!(answer.status(), 403, "{origin}");
        assert_eq!(header(&answer, "access-control-allow-origin"), "", "{origin}");
    }
    let mut rebound = with_header(get("/api/agents"), "origin", PAGE);
    rebound.headers_mut().insert("host", "evil.example".parse().expect("a host"));
    assert_eq!(problem(&app, rebound).await, "403 host_not_allowed");
}

#[tokio::test]
async fn a_page_needs_a_key_like_everybody_and_can_read_why() {
    let app = app_with_origins().keys(two_keys());
    let without = send(&app, with_header(get("/api/agents"), "origin", PAGE)).await;
    assert_eq!((without.status().as_u16(), header(&without, "access-control-allow-origin")), (401, PAGE));
    let with = send(&app, with_key_of("a", with_header(get("/api/agents"), "origin", PAGE))).await;
    assert_eq!(with.status(), 200);
    // A plain form needs no preflight, and is not JSON.
    let mut form = with_key_of("a", with_header(post("/v1/chat/completions", "{}"), "origin", PAGE));
    form.headers_mut().insert("content-type", "text/plain".parse().expect("a type"));
    assert_eq!(send(&app, form).await.status(), 415);
}
