//! Whether every answer is one that the OpenAPI document describes: its status, its media type and its JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Response, header};
use doran_llm::SchemaValidator;
use doran_server::{openapi_document, routes};
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi_document(&routes()));

/// Checks the answer to a request and gives it back.
pub(crate) async fn check_response(method: &Method, path: &str, response: Response<Body>) -> Response<Body> {
    let Some(operation) = find_operation(method, path) else { return response };
    let status = response.status().as_u16();
    let about = format!("{method} {path}: {status}");
    let documented = resolve(&operation["responses"][status.to_string()]);
    assert!(documented.is_object(), "{about} is not documented");
    let media_type = response.headers().get(header::CONTENT_TYPE).map(|kind| {
        let kind = kind.to_str().expect("text");
        kind.split(';').next().unwrap_or_default().trim().to_owned()
    });
    let Some(media_type) = media_type else {
        assert!(documented.get("content").is_none(), "{about} has no content");
        return response;
    };
    let content = &documented["content"][&media_type];
    assert!(content.is_object(), "{about} {media_type} is not documented");
    if !media_type.ends_with("json") {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 24).await.expect("a body");
    if let Err(problem) = check_json(&content["schema"], &bytes) {
        panic!("{about} is not as documented: {problem}\n{}", String::from_utf8_lossy(&bytes));
    }
    Response::from_parts(parts, bytes.into())
}

/// Checks JSON by a schema of the document.
fn check_json(schema: &Value, bytes: &[u8]) -> Result<(), String> {
    let value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut schema = schema.clone();
    schema["components"] = json!({ "schemas": DOCUMENT["components"]["schemas"] });
    let validator = SchemaValidator::new(&schema).map_err(|error| error.to_string())?;
    let violations = validator.violations(&value, 3);
    if violations.is_empty() { Ok(()) } else { Err(format!("{violations:?}")) }
}

fn find_operation(method: &Method, path: &str) -> Option<&'static Value> {
    let method = method.as_str().to_lowercase();
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    // `/api/documents/{document}/text` before `/api/documents/{document}/{change}`.
    let fits: BTreeMap<usize, &Value> = paths
        .iter()
        .filter(|(template, methods)| is_path_of(template, path) && methods.get(&method).is_some())
        .map(|(template, methods)| (template.matches('{').count(), &methods[&method]))
        .collect();
    fits.into_values().next()
}

fn is_path_of(template: &str, path: &str) -> bool {
    let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (wanted, parts) = (parts(template), parts(path));
    wanted.len() == parts.len()
        && wanted
            .iter()
            .zip(&parts)
            .all(|(want, part)| want.starts_with('{') && !part.is_empty() || want == part)
}

/// What a reference means.
fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str().and_then(|place| place.strip_prefix('#')) {
        Some(place) => DOCUMENT.pointer(place).unwrap_or(&Value::Null),
        None => value,
    }
}

#[test]
fn an_answer_that_is_not_documented_is_noticed() {
    let thread = &DOCUMENT["paths"]["/api/threads/{thread}"]["get"]["responses"];
    assert!(resolve(&thread["418"]).is_null() && resolve(&thread["404"]).is_object());
    let schema = &thread["200"]["content"]["application/json"]["schema"];
    let thread = |title: Value| {
        json!({
            "id": "t", "title": title, "agent": null, "active": null, "model": null, "temperature": null,
            "instructions": "", "pinned": false, "created": 1, "updated": 1,
        })
    };
    let (good, bad) = (thread(json!("")), thread(json!(3)));
    assert_eq!(check_json(schema, good.to_string().as_bytes()), Ok(()));
    assert!(check_json(schema, bad.to_string().as_bytes()).is_err());
    assert!(check_json(schema, b"{}").is_err());
}
