//! The OpenAPI document, built from the table of routes and the types in `api`. A plain function: the same table gives the
//! same document.

mod operation;
mod parameters;
mod schemas;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub(crate) use self::operation::{
    IdempotencyEffect, Operation, OperationTag, count_schema, text_schema, thread_name_schema,
};
use self::operation::{OperationBody, OperationContent, OperationResponse};
use self::parameters::{idempotency_parameter, path_names, path_parameter, query_parameters};
pub(crate) use self::schemas::omit_instead_of_null;
use self::schemas::{DocumentSchemas, unlink_rust_names};
use crate::api::{OpenAiError, Problem};
use crate::error::ApiErrorCode;
use crate::routes::{ApiRoute, RouteAccess};

/// The OpenAPI document of these routes.
pub fn openapi_document(routes: &[ApiRoute]) -> Value {
    let mut schemas = DocumentSchemas::new();
    let mut paths = Map::new();
    let mut errors = BTreeSet::new();
    for route in routes {
        let Some(operation) = route.operation() else { continue };
        let mut shown = describe_operation(route, operation, &mut schemas);
        let mut responses = describe_responses(&operation.responses, &mut schemas);
        for status in error_statuses(route, operation) {
            let name = error_response_name(route.access, status);
            responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
            errors.insert((route.access == RouteAccess::OpenAi, status));
        }
        shown["responses"] = responses.into();
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = shown;
    }
    let responses: Map<String, Value> = errors
        .into_iter()
        .map(|(is_openai, status)| error_response(is_openai, status, &mut schemas))
        .collect();
    let tags: Vec<Value> = OperationTag::ALL.iter().map(|tag| json!({ "name": tag.name() })).collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Doran",
            "summary": "Durable chat agents.",
            "description": "Ask agents, watch their runs, and come back to them later. 에이전트에게 묻고, 실행을 지켜보고, 나중에 다시 확인합니다.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "key": [] }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "responses": responses,
            "schemas": schemas.into_definitions(),
        },
    });
    unlink_rust_names(&mut document);
    document
}

fn describe_operation(route: &ApiRoute, operation: &Operation, schemas: &mut DocumentSchemas) -> Value {
    let mut parameters: Vec<Value> = path_names(route.path).map(path_parameter).collect();
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(&query(&mut schemas.requests).to_value()));
    }
    parameters.extend(operation.repeated.map(idempotency_parameter));
    parameters.extend(operation.headers.iter().map(|header| {
        json!({
            "name": header.name,
            "in": "header",
            "required": false,
            "description": header.description,
            "schema": (header.schema)(),
        })
    }));
    let mut shown = json!({
        "operationId": operation.id,
        "tags": [operation.tag.name()],
        "summary": operation.summary,
        "parameters": parameters,
    });
    if let Some(description) = operation.description {
        shown["description"] = description.into();
    }
    if route.access == RouteAccess::Public {
        shown["security"] = json!([]);
    }
    let body = match operation.body {
        OperationBody::None | OperationBody::Ignored => None,
        OperationBody::File => Some(
            json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } }),
        ),
        OperationBody::Json(schema) => {
            Some(json!({ "application/json": { "schema": schema(&mut schemas.requests) } }))
        }
    };
    if let Some(content) = body {
        shown["requestBody"] = json!({ "required": true, "content": content });
    }
    shown
}

fn describe_responses(responses: &[OperationResponse], schemas: &mut DocumentSchemas) -> Map<String, Value> {
    let mut all = Map::new();
    for OperationResponse { status, description, content } in responses {
        let shown = all.entry(status.to_string()).or_insert_with(|| json!({ "description": description }));
        match content {
            OperationContent::None => {}
            OperationContent::Json(schema) => {
                shown["content"]["application/json"] = json!({ "schema": schema(&mut schemas.responses) });
            }
            OperationContent::Text(media_type) => {
                shown["content"][*media_type] = json!({ "schema": { "type": "string" } });
            }
            OperationContent::Events(event) => {
                let mut data = json!({ "type": "string" });
                if let Some(event) = event {
                    data["contentMediaType"] = "application/json".into();
                    data["contentSchema"] = event(&mut schemas.responses).to_value();
                }
                let fields =
                    json!({ "event": { "type": "string" }, "id": { "type": "string" }, "data": data });
                let stream = json!({ "schema": { "type": "object", "properties": fields } });
                shown["content"]["text/event-stream"] = stream;
            }
        }
    }
    all
}

/// The statuses of everything that can go wrong on a route.
fn error_statuses(route: &ApiRoute, operation: &Operation) -> BTreeSet<u16> {
    let mut codes = operation.errors.clone();
    codes.extend([ApiErrorCode::NoHost, ApiErrorCode::HostNotAllowed, ApiErrorCode::Internal]);
    if route.access != RouteAccess::Public {
        codes.extend([ApiErrorCode::NoKey, ApiErrorCode::TooMany, ApiErrorCode::Overloaded]);
    }
    if operation.repeated.is_some() {
        codes.push(ApiErrorCode::KeyReused);
    }
    match operation.body {
        OperationBody::None => {}
        OperationBody::Ignored => codes.extend([ApiErrorCode::TooSlow, ApiErrorCode::TooLarge]),
        OperationBody::File => {
            codes.extend([ApiErrorCode::TooSlow, ApiErrorCode::TooLarge, ApiErrorCode::NotAFile]);
        }
        OperationBody::Json(_) => {
            codes.extend([ApiErrorCode::TooSlow, ApiErrorCode::TooLarge, ApiErrorCode::NotJson]);
        }
    }
    codes.into_iter().map(|code| code.info().status).collect()
}

fn error_response_name(access: RouteAccess, status: u16) -> String {
    if access == RouteAccess::OpenAi { format!("OpenAiError{status}") } else { format!("Problem{status}") }
}

/// The response that all routes share for a status, with the codes that it stands for.
fn error_response(is_openai: bool, status: u16, schemas: &mut DocumentSchemas) -> (String, Value) {
    let codes = ApiErrorCode::ALL.iter().map(|code| code.info()).filter(|info| info.status == status);
    let codes: Vec<String> = codes.map(|info| format!("`{}`: {}", info.code, info.en)).collect();
    let (access, media_type, schema) = if is_openai {
        (RouteAccess::OpenAi, "application/json", schemas.responses.subschema_for::<OpenAiError>())
    } else {
        let schema = schemas.responses.subschema_for::<Problem>();
        (RouteAccess::KeyRequired, "application/problem+json", schema)
    };
    let shown = json!({ "description": codes.join("; "), "content": { media_type: { "schema": schema } } });
    (error_response_name(access, status), shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    #[test]
    fn a_type_of_requests_and_responses_has_one_schema() {
        let mut schemas = DocumentSchemas::new();
        for route in routes::routes() {
            if let Some(operation) = route.operation() {
                describe_operation(&route, operation, &mut schemas);
                describe_responses(&operation.responses, &mut schemas);
            }
        }
        let requests = schemas.requests.take_definitions(true);
        let responses = schemas.response_definitions();
        assert!(!requests.is_empty() && !responses.is_empty());
        for (name, mut schema) in requests {
            // A request may also send null for what it could leave out.
            schemas::omit_instead_of_null(&mut schema);
            assert!(responses.get(&name).is_none_or(|other| *other == schema), "{name}");
        }
    }

    #[test]
    fn every_parameter_and_field_says_what_it_is() {
        let document = openapi_document(&routes::routes());
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, about) in methods.as_object().expect("methods") {
                for parameter in about["parameters"].as_array().expect("parameters") {
                    let is_told = parameter["description"].as_str().is_some_and(|text| !text.is_empty());
                    assert!(is_told, "{method} {path} {}", parameter["name"]);
                }
                let good = about["responses"].as_object().expect("responses").keys();
                assert!(good.clone().any(|status| status.starts_with('2')), "{method} {path}");
                assert!(!good.clone().any(|status| status == "default"), "{method} {path}");
            }
        }
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        for (name, schema) in schemas {
            for (field, about) in schema["properties"].as_object().into_iter().flatten() {
                let is_tag = about.get("const").is_some();
                assert!(is_tag || about.get("description").is_some(), "{name}.{field}");
            }
        }
    }
}
