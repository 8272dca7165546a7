//! Host names that a server is given: one that it takes is answered, and one that no request can have is none.

use axum::body::Body;
use axum::http::{Request, header};
use doran_server::is_valid_host;

use crate::{app, send};

/// A server with this entry answers requests for this host.
async fn check_answered(entry: &str, host: &str) {
    assert!(is_valid_host(entry), "{entry}");
    let app = app().allowed_hosts(vec![entry.to_owned()]);
    let request = Request::get("/api/threads").header(header::HOST, host).body(Body::empty());
    assert_eq!(send(&app, request.expect("a request")).await.status(), 200, "{entry}: {host}");
}

#[tokio::test]
async fn every_valid_host_is_answered() {
    for host in [
        "doran.example.com",
        "doran.example.com:8443",
        "doran",
        "my_doran",
        "xn--hq1b04d.example",
        "10.0.0.5",
        "10.0.0.5:7979",
        "[2001:db8::1]",
        "[2001:db8::1]:7979",
        "doran.example.com.",
        "0a.example",
    ] {
        check_answered(host, host).await;
    }
    check_answered("doran.example.com", "DORAN.example.com:7979").await;
    // As it stands in the address of a pod.
    check_answered("2001:db8::1", "[2001:db8::1]:7979").await;
}

#[test]
fn what_no_request_names_is_no_valid_host() {
    for host in [
        "",
        "*",
        "*.foo.com",
        "https://doran.example.com",
        "doran.example.com/",
        "doran.example.com/chat",
        "//doran.example.com",
        "me@doran.example.com",
        "doran example.com",
        "doran..example.com",
        ".example.com",
        "-doran.example.com",
        "doran-.example.com",
        "도란.example",
        "doran.example.com:",
        "doran.example.com:0",
        "doran.example.com:08443",
        "doran.example.com:65536",
        "doran.example.com:https",
        ":7979",
        "2001:db8::1:7979:x",
        "2001:db8::12345",
        "[2001:db8::1",
        "[2001:db8::1]x",
        "[10.0.0.5]",
        "[]",
        "10.0.0.0/8",
        "10.0.0.256",
        "10.0.0",
        &"a".repeat(64),
        &"a.".repeat(128),
    ] {
        assert!(!is_valid_host(host), "{host}");
    }
}
