//! The web page as a browser gets it.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};

use crate::{app, get, send, text};

const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

fn browse(path: &str) -> Request<Body> {
    let mut request = get(path);
    request.headers_mut().insert(header::ACCEPT, BROWSER.parse().expect("a header"));
    request
}

async fn header_of(request: Request<Body>, name: header::HeaderName) -> String {
    let response = send(&app(), request).await;
    response.headers().get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn every_address_of_the_page_gives_the_page_and_its_policy() {
    for path in ["/", "/t/어제의-대화", "/t/a%2Fb", "/documents"] {
        let path = path.replace("어제의-대화", "%EC%96%B4%EC%A0%9C");
        let response = send(&app(), browse(&path)).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(text(response).await.contains("<div id=\"app\">"), "{path}");
    }
}

#[tokio::test]
async fn a_program_that_asks_for_the_root_gets_data() {
    let response = send(&app(), get("/")).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    assert_eq!(
        response.headers()[header::CONTENT_SECURITY_POLICY],
        "default-src 'none'; frame-ancestors 'none'; sandbox"
    );
}

#[tokio::test]
async fn files_are_kept_for_good_only_under_the_name_of_their_content() {
    let html = text(send(&app(), browse("/")).await).await;
    let script = html.split('"').find(|part| part.starts_with("/app.js?v=")).expect("a script").to_owned();
    assert_eq!(header_of(get(&script), header::CACHE_CONTROL).await, "public, max-age=31536000, immutable");
    assert_eq!(header_of(get(&script), header::CONTENT_TYPE).await, "text/javascript; charset=utf-8");
    for other in ["/app.js", "/app.js?v=", "/app.js?v=000000000000", "/"] {
        assert_eq!(header_of(browse(other), header::CACHE_CONTROL).await, "no-cache", "{other}");
    }
}

#[tokio::test]
async fn a_browser_that_has_the_file_does_not_get_it_again() {
    let tag = header_of(get("/app.css"), header::ETAG).await;
    let mut again = get("/app.css");
    again
        .headers_mut()
        .insert(header::IF_NONE_MATCH, format!("\"other\", W/{tag}").parse().expect("a header"));
    let response = send(&app(), again).await;
    assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(text(response).await, "");
}

#[tokio::test]
async fn there_is_nothing_beside_the_files_of_the_page() {
    for path in ["/app.map", "/index.html", "/dist/app.js", "/t/", "/t/a/b", "/..%2fCargo.toml"] {
        assert_eq!(send(&app(), browse(path)).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
}
