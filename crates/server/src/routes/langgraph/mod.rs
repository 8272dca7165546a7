//! LangGraph's API: its clients work with every served graph. A translation of the one event log; what it does not support is
//! rejected and named.

mod assistants;
mod cancel;
mod checkpoints;
mod crons;
mod event_commands;
mod event_stream;
mod ids;
mod message_events;
mod messages;
mod metadata;
mod new_runs;
mod run_events;
mod run_request;
mod run_stream;
mod runs;
mod sent_messages;
mod start_run;
mod store_items;
mod stored_assistants;
mod thread_state;
mod threads;
mod times;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use doran_engine::store::ThreadRow;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(super) use self::crons::delete_thread_crons;
use super::ApiRoute;
use super::json_response;
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::openapi::{Operation, OperationTag};
use crate::request_body;

/// What a request for one thing may be answered with.
const FOUND: [ApiErrorCode; 1] = [ApiErrorCode::NotFound];
/// What a request that starts a run may be answered with.
const STARTED: [ApiErrorCode; 5] = [
    ApiErrorCode::NotFound,
    ApiErrorCode::BudgetSpent,
    ApiErrorCode::Busy,
    ApiErrorCode::NotFinished,
    ApiErrorCode::DiskFull,
];

pub(super) fn routes() -> Vec<ApiRoute> {
    [
        server_routes(),
        assistants::routes(),
        stored_assistants::routes(),
        threads::routes(),
        thread_state::routes(),
        runs::routes(),
        new_runs::routes(),
        cancel::routes(),
        crons::routes(),
        store_items::routes(),
        event_commands::routes(),
        event_stream::routes(),
    ]
    .concat()
}

fn operation(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(OperationTag::LangGraph, id, summary)
        .errors(&[ApiErrorCode::Invalid, ApiErrorCode::BadPath])
}

fn server_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get(
            "/ok",
            ok,
            operation("langgraph_ok", "Returns that the server answers.")
                .returns::<ServerOk>(200, "It answers."),
        )
        .public(),
        ApiRoute::get(
            "/info",
            info,
            operation("langgraph_info", "Returns what the server supports.")
                .returns::<ServerInfo>(200, "What it supports."),
        ),
    ]
}

/// Whether the server answers.
#[derive(Debug, Serialize, JsonSchema)]
struct ServerOk {
    /// Always `true`.
    ok: bool,
}

/// `GET /ok`
async fn ok() -> Response {
    json_response(ServerOk { ok: true })
}

/// What the server is.
#[derive(Debug, Serialize, JsonSchema)]
struct ServerInfo {
    /// The version of Doran.
    version: &'static str,
    /// What it supports.
    flags: Map<String, Value>,
}

/// `GET /info`
async fn info(_: ApiCaller) -> Response {
    let flags = [("assistants", true), ("crons", true), ("langsmith", false)];
    let flags = flags.map(|(name, is_supported)| (name.to_owned(), Value::Bool(is_supported)));
    json_response(ServerInfo { version: env!("CARGO_PKG_VERSION"), flags: Map::from_iter(flags) })
}

/// Where LangGraph's API has routes.
const LANGGRAPH_PATHS: [&str; 5] = ["/assistants", "/threads", "/runs", "/store", "/a2a"];

/// Whether a path is one of LangGraph's API.
pub(super) fn is_langgraph_path(path: &str) -> bool {
    path == "/ok" || path == "/info" || path_start(path).is_some()
}

fn path_start(path: &str) -> Option<&'static str> {
    let is_under =
        |start: &str| path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    LANGGRAPH_PATHS.into_iter().find(|start| is_under(start))
}

/// Nothing is served at this path. A client of LangGraph's learns that its path is right.
pub(super) fn no_route(path: &str) -> ApiError {
    match path_start(path) {
        Some(start) => ApiError::with_message(
            ApiErrorCode::NotFound,
            format!(
                "this route below `{start}` is not supported; the documentation lists the supported routes of LangGraph's API"
            ),
            format!(
                "`{start}` 아래의 이 경로는 지원하지 않습니다. 지원하는 LangGraph API 경로는 문서에 있습니다"
            ),
        ),
        None => ApiErrorCode::NotFound.into(),
    }
}

/// A request that does not fit, in words.
fn invalid(en: &str, ko: &str) -> ApiError {
    ApiError::with_message(ApiErrorCode::Invalid, en, ko)
}

/// The JSON of a request. What it has and the route does not take is named.
async fn read_body<T: DeserializeOwned>(request: Request, app: &ServerApp) -> Result<T, ApiError> {
    reject_idempotency_key(request.headers())?;
    let (fields, _): (Map<String, Value>, _) =
        request_body::read_json(request, &app.limits).await.map_err(as_invalid)?;
    read_fields(&fields)
}

fn read_fields<T: DeserializeOwned>(fields: &Map<String, Value>) -> Result<T, ApiError> {
    let error = match serde_json::from_value(fields.clone().into()) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    // Without the field that does not fit, the rest does, or only that field is missing.
    let is_wrong = |name: &&String| {
        let rest = fields.iter().filter(|(other, _)| other != name);
        let rest: Map<String, Value> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
        let missing = format!("missing field `{name}`");
        serde_json::from_value::<T>(rest.into()).map_or_else(|error| error.to_string() == missing, |_| true)
    };
    let place = fields.keys().find(is_wrong).map(|name| format!("`{name}`: ")).unwrap_or_default();
    Err(invalid(&format!("{place}{error}"), &format!("{place}값이 이 경로의 것과 맞지 않습니다 ({error})")))
}

/// A list of requests.
async fn read_list<T: DeserializeOwned>(
    request: Request,
    app: &ServerApp,
    most: usize,
) -> Result<Vec<T>, ApiError> {
    reject_idempotency_key(request.headers())?;
    let bytes = request_body::read_json_bytes(request, &app.limits).await?;
    let list: Vec<Map<String, Value>> = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::with_detail(ApiErrorCode::Invalid, ErrorDetail::from_json_error(&error))
    })?;
    if list.len() > most {
        return Err(invalid(
            &format!("the list has more than {most} items"),
            &format!("목록에 {most}개가 넘게 있습니다"),
        ));
    }
    list.iter().map(read_fields).collect()
}

/// A key that would not be looked at must not look as if it were.
fn reject_idempotency_key(headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key("idempotency-key") {
        return Ok(());
    }
    Err(invalid(
        "`Idempotency-Key` is not supported by LangGraph's routes; use those below `/api`",
        "LangGraph 경로는 `Idempotency-Key`를 지원하지 않습니다. `/api` 아래의 경로를 쓰세요",
    ))
}

fn as_invalid(error: ApiError) -> ApiError {
    if error.code == ApiErrorCode::BadJson { error.under_code(ApiErrorCode::Invalid) } else { error }
}

/// A page of a list, with the headers about the rest.
fn list_response(page: &impl Serialize, total: Option<usize>, next: Option<usize>) -> Response {
    let mut response = json_response(page);
    let headers = response.headers_mut();
    for (name, number) in [("x-pagination-total", total), ("x-pagination-next", next)] {
        headers.extend(number.map(|number| (HeaderName::from_static(name), HeaderValue::from(number))));
    }
    response
}

/// The most things that one request lists.
const MAX_LISTED: usize = 1000;

/// How many things a list has.
fn page_size(limit: Option<usize>, otherwise: usize) -> Result<usize, ApiError> {
    match limit.unwrap_or(otherwise) {
        size @ 1..=MAX_LISTED => Ok(size),
        _ => Err(invalid(
            &format!("`limit` is a number from 1 to {MAX_LISTED}"),
            &format!("`limit`은 1부터 {MAX_LISTED}까지의 수입니다"),
        )),
    }
}

/// Refuses to choose fields that a thing does not have.
fn check_select(select: Option<&[String]>, known: &[&str]) -> Result<(), ApiError> {
    match select.unwrap_or_default().iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let (name, known): (String, _) = (name.chars().take(64).collect(), known.join("`, `"));
            Err(invalid(
                &format!("`select`: there is no field `{name}`; there are `{known}`"),
                &format!("`select`: 필드 `{name}`이(가) 없습니다. 있는 것: `{known}`"),
            ))
        }
        None => Ok(()),
    }
}

/// The fields of a thing that the request selects; all without a selection.
fn select_fields(thing: &impl Serialize, select: Option<&[String]>) -> Value {
    let mut thing = json!(thing);
    if let (Some(select), Some(fields)) = (select, thing.as_object_mut()) {
        fields.retain(|name, _| select.contains(name));
    }
    thing
}

/// The thread with this id, of the caller's.
async fn load_thread(app: &ServerApp, caller: &ApiCaller, id: &str) -> Result<ThreadRow, ApiError> {
    let key = agent_request::thread_key(caller, id)?;
    Ok(app.runtime.thread_row(&key).await?)
}

/// Which comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SortOrder {
    /// The smallest.
    Asc,
    /// The largest.
    #[default]
    Desc,
}
