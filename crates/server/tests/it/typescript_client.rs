//! A TypeScript client of Doran's own routes in an OpenAPI document: for each operation a function that makes its request, with
//! the types of parameters, body and response. Other dialects have clients of their own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::typescript_types::type_of;

const HEADER: &str = "\
// Requests of the HTTP API, generated from the routes by `cargo xtask openapi`. Do not edit.
//
// Each function makes the request of one operation, with the type of its response. Sending it is up to the caller.

";

const SUPPORT: &str = r"
/** A request. */
export interface ApiCall {
  method: string
  path: string
  headers?: Record<string, string>
  /** The body, to be sent as JSON. */
  json?: unknown
}

declare const response: unique symbol
/** A request that is answered with JSON of this type. */
export type JsonCall<T> = ApiCall & { readonly [response]: { json: T } }
/** A request that is answered without a body. */
export type EmptyCall = ApiCall & { readonly [response]: { empty: true } }
/** A request whose answer is a stream, a file or a text. */
export type RawCall = ApiCall & { readonly [response]: { raw: true } }

type QueryValue = string | number | boolean | string[] | undefined

const encodePart = encodeURIComponent

function query(values: Record<string, QueryValue>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [value].flat().map((one) => [name, String(one)]))
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

function headers(values: Record<string, string | number | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]]))
}
";

/// A parameter of an operation.
struct ParameterView<'a> {
    place: &'a str,
    name: &'a str,
    /// As the functions call it.
    field: String,
    text: String,
    required: bool,
}

/// One function for each operation below `/api`.
pub(crate) fn typescript_client(document: &Value) -> String {
    let (mut names, mut functions) = (BTreeSet::new(), String::new());
    for (path, operations) in document["paths"].as_object().expect("paths") {
        if !path.starts_with("/api/") {
            continue;
        }
        for (method, operation) in operations.as_object().expect("operations") {
            functions.push('\n');
            functions.push_str(&function(path, method, operation, &mut names));
        }
    }
    let names: Vec<String> = names.into_iter().collect();
    let types = format!("import type {{\n  {},\n}} from './api-types'\n", names.join(", "));
    format!("{HEADER}{types}{SUPPORT}{functions}")
}

fn function(path: &str, method: &str, operation: &Value, names: &mut BTreeSet<String>) -> String {
    let mut typed = |schema: &Value| {
        collect_names(schema, names);
        type_of(schema, "  ")
    };
    let parameters: Vec<ParameterView<'_>> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|parameter| {
            let name = parameter["name"].as_str().expect("a name");
            ParameterView {
                place: parameter["in"].as_str().expect("a place"),
                name,
                field: camel_case(&name.to_ascii_lowercase().replace('-', "_")),
                text: typed(&parameter["schema"]),
                required: parameter["required"] == true,
            }
        })
        .collect();
    let of_place = |place: &'static str| parameters.iter().filter(move |parameter| parameter.place == place);
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let body = (!body.is_null()).then(|| typed(body));
    let response = response_type(&operation["responses"], &mut typed);

    let mut arguments = Vec::new();
    if !parameters.is_empty() {
        let fields: Vec<String> = parameters
            .iter()
            .map(|ParameterView { field, text, required, .. }| match required {
                true => format!("{field}: {text}"),
                false => format!("{field}?: {text} | undefined"),
            })
            .collect();
        let default = if parameters.iter().any(|parameter| parameter.required) || body.is_some() {
            ""
        } else {
            " = {}"
        };
        arguments.push(format!("at: {{ {} }}{default}", fields.join("; ")));
    }
    arguments.extend(body.as_ref().map(|body| format!("json: {body}")));

    let mut url = path.to_owned();
    for parameter in of_place("path") {
        url = url
            .replace(&format!("{{{}}}", parameter.name), &format!("${{encodePart(at.{})}}", parameter.field));
    }
    let pairs = |place: &'static str| -> Vec<String> {
        let pair = |parameter: &ParameterView<'_>| {
            let name = match parameter.name == parameter.field {
                true => parameter.name.to_owned(),
                false => format!("'{}'", parameter.name),
            };
            format!("{name}: at.{}", parameter.field)
        };
        of_place(place).map(pair).collect()
    };
    let query = pairs("query");
    if !query.is_empty() {
        url.push_str(&format!("${{query({{ {} }})}}", query.join(", ")));
    }
    let quote = if url.contains("${") { '`' } else { '\'' };
    let mut fields =
        vec![format!("method: '{}'", method.to_uppercase()), format!("path: {quote}{url}{quote}")];
    let headers = pairs("header");
    if !headers.is_empty() {
        fields.push(format!("headers: headers({{ {} }})", headers.join(", ")));
    }
    fields.extend(body.map(|_| "json".to_owned()));
    let summary = operation["summary"].as_str().expect("a summary");
    let name = camel_case(operation["operationId"].as_str().expect("an id"));
    format!(
        "/** {summary} */\nexport const {name}Call = ({}): {response} =>\n  ({{ {} }}) as {response}\n",
        arguments.join(", "),
        fields.join(", ")
    )
}

/// The type of a request by what it is answered with: JSON alone, nothing, or anything else.
fn response_type(responses: &Value, typed: &mut impl FnMut(&Value) -> String) -> String {
    let contents = responses.as_object().expect("responses").iter();
    let contents =
        contents.filter(|(status, _)| status.starts_with('2')).map(|(_, response)| &response["content"]);
    let mut kinds = BTreeSet::new();
    let mut schema = Value::Null;
    for content in contents {
        for (kind, described) in content.as_object().into_iter().flatten() {
            kinds.insert(kind.as_str());
            schema = described["schema"].clone();
        }
    }
    match kinds.into_iter().collect::<Vec<_>>()[..] {
        [] => "EmptyCall".to_owned(),
        ["application/json"] => format!("JsonCall<{}>", typed(&schema)),
        _ => "RawCall".to_owned(),
    }
}

/// The names of the schemas that a type is written with.
fn collect_names(schema: &Value, names: &mut BTreeSet<String>) {
    let shown = type_of(schema, "");
    let word =
        |part: &str| part.starts_with(|first: char| first.is_ascii_uppercase()) && !part.contains('\'');
    names.extend(
        shown
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '\'')
            .filter(|part| word(part))
            .map(str::to_owned),
    );
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut whole, part| {
        let mut letters = part.chars();
        whole.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        whole.push_str(letters.as_str());
        whole
    })
}

#[test]
fn an_operation_becomes_a_function_with_its_types() {
    let parameter = |place: &str, name: &str, required: bool| serde_json::json!({ "in": place, "name": name, "required": required, "schema": { "type": "string" } });
    let operation = serde_json::json!({
        "operationId": "start_run",
        "summary": "Starts a run.",
        "parameters": [parameter("path", "thread", true), parameter("query", "utc_offset", false), parameter("header", "Idempotency-Key", false)],
        "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/StartRun" } } } },
        "responses": { "200": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/RunDetail" } } } }, "404": {} },
    });
    let mut names = BTreeSet::new();
    assert_eq!(
        function("/api/threads/{thread}/runs", "post", &operation, &mut names),
        "/** Starts a run. */\n\
         export const startRunCall = (at: { thread: string; utcOffset?: string | undefined; idempotencyKey?: string | undefined }, json: StartRun): JsonCall<RunDetail> =>\n  \
         ({ method: 'POST', path: `/api/threads/${encodePart(at.thread)}/runs${query({ 'utc_offset': at.utcOffset })}`, headers: headers({ 'Idempotency-Key': at.idempotencyKey }), json }) as JsonCall<RunDetail>\n"
    );
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["RunDetail", "StartRun"]);
}
