//! Documents of the library over HTTP.

use serde_json::json;

use crate::{get, json, json_request, post, problem, send, text, two_tenant_app, until, with_key_of};

#[tokio::test]
async fn a_document_takes_no_other_ones_place_in_another_collection() {
    let app = two_tenant_app("documents-collections").await;
    let upload = async |collection: &str, words: &str| {
        let path = format!("/api/documents?name=%EC%97%AC%EB%B9%84.md{collection}");
        let added = json(&app, with_key_of("a", post(&path, words))).await;
        added["id"].as_str().expect("an id").to_owned()
    };
    let is_ready = async |id: &str| {
        let path = format!("/api/documents/{id}");
        json(&app, with_key_of("a", get(&path))).await["status"] == "ready"
    };
    let moved = |id: &str, to: &str| {
        let body = json!({ "collection": to }).to_string();
        with_key_of("a", json_request("patch", &format!("/api/documents/{id}"), &body))
    };
    let first = upload("", "# 여비\n\n여비는 20000원이다.\n").await;
    let second = upload("&collection=sales", "# 여비\n\n여비는 55555원이다.\n").await;
    until(async || is_ready(&first).await && is_ready(&second).await).await;
    assert_eq!(problem(&app, moved(&first, "sales")).await, "409 conflict");
    for (id, words) in [(&first, "20000원"), (&second, "55555원")] {
        let kept = with_key_of("a", get(&format!("/api/documents/{id}/text")));
        assert!(text(send(&app, kept).await).await.contains(words));
    }
    let there = json(&app, moved(&first, "travel")).await;
    assert_eq!(there["collection"], "travel", "{there}");
}
