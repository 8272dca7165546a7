//! LangGraph's API: its clients work with every served graph. A translation of the one event log; what it does not support is
//! rejected and named.

mod assistants;
mod checkpoints;
mod ids;
mod messages;
mod run_events;
mod run_request;
mod run_stream;
mod runs;
mod thread_state;
mod threads;

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use doran_engine::store::{Millis, RunRow, ThreadRow};
use doran_engine::{RunId, ThreadKey};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ApiRoute;
use super::json_response;
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::openapi::{Operation, OperationTag, text_schema};
use crate::request_body;

/// The pair of metadata that is this server's own.
const DORAN_METADATA: &str = "doran";
/// Pairs of metadata that clients of LangGraph neither see nor set.
const HIDDEN_METADATA: [&str; 3] = [DORAN_METADATA, "agent", agent_request::REQUEST_HASH_METADATA];
/// The most runs of a thread that are remembered as taken back.
const MAX_ROLLED_BACK: usize = 200;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| {
        Operation::new(OperationTag::LangGraph, id, summary)
            .errors(&[ApiErrorCode::Invalid, ApiErrorCode::BadPath])
    };
    let found = [ApiErrorCode::NotFound];
    let started = [
        ApiErrorCode::NotFound,
        ApiErrorCode::BudgetSpent,
        ApiErrorCode::Busy,
        ApiErrorCode::NotFinished,
        ApiErrorCode::DiskFull,
    ];
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
        ApiRoute::post(
            "/assistants/search",
            assistants::search_assistants,
            operation("langgraph_search_assistants", "Lists assistants.")
                .body::<assistants::SearchAssistantsBody>()
                .returns::<Vec<assistants::Assistant>>(200, "The assistants."),
        ),
        ApiRoute::post(
            "/assistants/count",
            assistants::count_assistants,
            operation("langgraph_count_assistants", "Counts assistants.")
                .body::<assistants::SearchAssistantsBody>()
                .returns::<usize>(200, "How many there are."),
        ),
        ApiRoute::get(
            "/assistants/{assistant}",
            assistants::get_assistant,
            operation("langgraph_get_assistant", "Returns an assistant.")
                .returns::<assistants::Assistant>(200, "The assistant.")
                .errors(&found),
        ),
        ApiRoute::get(
            "/assistants/{assistant}/graph",
            assistants::assistant_graph,
            operation("langgraph_assistant_graph", "Returns the nodes and edges of an assistant.")
                .query::<assistants::AssistantGraphQuery>()
                .returns::<assistants::AssistantGraph>(200, "The graph.")
                .errors(&found),
        ),
        ApiRoute::get(
            "/assistants/{assistant}/schemas",
            assistants::assistant_schemas,
            operation("langgraph_assistant_schemas", "Returns the JSON Schemas of an assistant.")
                .returns::<assistants::AssistantSchemas>(200, "The schemas.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads",
            threads::create_thread,
            operation("langgraph_create_thread", "Creates a thread.")
                .body::<threads::CreateThreadBody>()
                .returns::<threads::LangGraphThread>(200, "The thread.")
                .errors(&[ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::post(
            "/threads/search",
            threads::search_threads,
            operation("langgraph_search_threads", "Lists threads, the last changed first.")
                .body::<threads::SearchThreadsBody>()
                .returns::<Vec<Map<String, Value>>>(200, "The threads."),
        ),
        ApiRoute::post(
            "/threads/count",
            threads::count_threads,
            operation("langgraph_count_threads", "Counts threads.")
                .body::<threads::SearchThreadsBody>()
                .returns::<usize>(200, "How many there are."),
        ),
        ApiRoute::get(
            "/threads/{thread}",
            threads::get_thread,
            operation("langgraph_get_thread", "Returns a thread.")
                .returns::<threads::LangGraphThread>(200, "The thread.")
                .errors(&found),
        ),
        ApiRoute::patch(
            "/threads/{thread}",
            threads::update_thread,
            operation("langgraph_update_thread", "Changes the metadata of a thread.")
                .body::<threads::ThreadMetadataBody>()
                .returns::<threads::LangGraphThread>(200, "The thread.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::delete(
            "/threads/{thread}",
            threads::delete_thread,
            operation("langgraph_delete_thread", "Deletes a thread.")
                .returns_nothing("It is deleted.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads/{thread}/copy",
            threads::copy_thread,
            operation("langgraph_copy_thread", "Copies a thread.")
                .ignored_body()
                .returns::<threads::LangGraphThread>(200, "The copy.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/threads/{thread}/state",
            thread_state::get_state,
            operation("langgraph_get_state", "Returns the state of a thread.")
                .query::<thread_state::StateQuery>()
                .returns::<checkpoints::LangGraphState>(200, "The state.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads/{thread}/state",
            thread_state::update_state,
            operation("langgraph_update_state", "Changes the state of a thread.")
                .body::<thread_state::UpdateStateBody>()
                .returns::<thread_state::StateUpdated>(200, "The new checkpoint.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Busy, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/threads/{thread}/state/{checkpoint}",
            thread_state::get_state_at,
            operation("langgraph_get_state_at", "Returns the state of a thread at a checkpoint.")
                .returns::<checkpoints::LangGraphState>(200, "The state.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads/{thread}/state/checkpoint",
            thread_state::post_state_at,
            operation("langgraph_post_state_at", "Returns the state of a thread at a checkpoint.")
                .body::<thread_state::StateAtBody>()
                .returns::<checkpoints::LangGraphState>(200, "The state.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads/{thread}/history",
            thread_state::post_history,
            operation("langgraph_post_history", "Lists the states of a thread, newest first.")
                .body::<thread_state::HistoryBody>()
                .returns::<Vec<checkpoints::LangGraphState>>(200, "The states.")
                .errors(&found),
        ),
        ApiRoute::get(
            "/threads/{thread}/history",
            thread_state::get_history,
            operation("langgraph_get_history", "Lists the states of a thread, newest first.")
                .query::<thread_state::HistoryQuery>()
                .returns::<Vec<checkpoints::LangGraphState>>(200, "The states.")
                .errors(&found),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs",
            runs::list_runs,
            operation("langgraph_list_runs", "Lists the runs of a thread, newest first.")
                .query::<runs::RunsQuery>()
                .returns::<Vec<runs::LangGraphRun>>(200, "The runs.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs",
            runs::create_run,
            operation("langgraph_create_run", "Starts a run in the background.")
                .body::<run_request::RunGraphBody>()
                .returns::<runs::LangGraphRun>(200, "The run.")
                .errors(&started),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs/wait",
            runs::wait_run,
            operation("langgraph_wait_run", "Starts a run and returns the state that it ends with.")
                .body::<run_request::RunGraphBody>()
                .returns::<Map<String, Value>>(200, "The state, with `__interrupt__` or `__error__`.")
                .errors(&started),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs/stream",
            runs::stream_new_run,
            operation("langgraph_stream_run", "Starts a run and streams its events.")
                .body::<run_request::RunGraphBody>()
                .streams_events("The events of the run.")
                .errors(&started),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs/{run}",
            runs::get_run,
            operation("langgraph_get_run", "Returns a run.")
                .returns::<runs::LangGraphRun>(200, "The run.")
                .errors(&found),
        ),
        ApiRoute::delete(
            "/threads/{thread}/runs/{run}",
            runs::delete_run,
            operation("langgraph_delete_run", "Removes a run that is over from the list.")
                .returns_nothing("It is not listed any more.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict]),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs/{run}/join",
            runs::join_run,
            operation("langgraph_join_run", "Waits for a run and returns the state that it ends with.")
                .query::<runs::JoinQuery>()
                .returns::<Map<String, Value>>(200, "The state, with `__interrupt__` or `__error__`.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::NotFinished]),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs/{run}/stream",
            runs::join_stream,
            operation("langgraph_join_stream", "Streams the events of a run, from the first or after one.")
                .query::<runs::JoinStreamQuery>()
                .header(
                    "Last-Event-ID",
                    "The id of the last event that the client has; `-1` for none.",
                    text_schema,
                )
                .streams_events("The events of the run.")
                .errors(&found),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs/{run}/cancel",
            runs::cancel_run,
            operation("langgraph_cancel_run", "Cancels a run.")
                .query::<runs::CancelQuery>()
                .returns::<Map<String, Value>>(200, "The run ended.")
                .accepted("The run is to end.")
                .errors(&[
                    ApiErrorCode::NotFound,
                    ApiErrorCode::Busy,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::NotFinished,
                ]),
        ),
        ApiRoute::post(
            "/runs",
            runs::create_stateless_run,
            operation("langgraph_create_stateless_run", "Starts a run without a thread, in the background.")
                .body::<run_request::RunGraphBody>()
                .returns::<runs::LangGraphRun>(200, "The run.")
                .errors(&started),
        ),
        ApiRoute::post(
            "/runs/wait",
            runs::wait_stateless_run,
            operation(
                "langgraph_wait_stateless_run",
                "Starts a run without a thread and returns the state that it ends with.",
            )
            .body::<run_request::RunGraphBody>()
            .returns::<Map<String, Value>>(200, "The state, with `__interrupt__` or `__error__`.")
            .errors(&started),
        ),
        ApiRoute::post(
            "/runs/stream",
            runs::stream_stateless_run,
            operation(
                "langgraph_stream_stateless_run",
                "Starts a run without a thread and streams its events.",
            )
            .body::<run_request::RunGraphBody>()
            .streams_events("The events of the run.")
            .errors(&started),
        ),
        ApiRoute::post(
            "/runs/batch",
            runs::create_batch,
            operation("langgraph_create_batch", "Starts runs without threads, in the background.")
                .body::<Vec<run_request::RunGraphBody>>()
                .returns::<Vec<runs::LangGraphRun>>(200, "The runs.")
                .errors(&started),
        ),
        ApiRoute::post(
            "/runs/cancel",
            runs::cancel_runs,
            operation("langgraph_cancel_runs", "Cancels runs of a thread.")
                .query::<runs::CancelRunsQuery>()
                .body::<runs::CancelRunsBody>()
                .returns_nothing("The runs are to end.")
                .errors(&[
                    ApiErrorCode::NotFound,
                    ApiErrorCode::Busy,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::NotFinished,
                ]),
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
    let flags = [("assistants", true), ("crons", false), ("langsmith", false)];
    let flags = flags.map(|(name, is_supported)| (name.to_owned(), Value::Bool(is_supported)));
    json_response(ServerInfo { version: env!("CARGO_PKG_VERSION"), flags: Map::from_iter(flags) })
}

/// Where LangGraph's API has routes.
const LANGGRAPH_PATHS: [&str; 5] = ["/assistants", "/threads", "/runs", "/store", "/a2a"];

/// Nothing is served at this path. A client of LangGraph's is told that it is not the path that is wrong.
pub(super) fn no_route(path: &str) -> ApiError {
    let is_under =
        |start: &str| path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match LANGGRAPH_PATHS.into_iter().find(|start| is_under(start)) {
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
    // Without the field that does not fit, the rest does.
    let is_wrong = |name: &&String| {
        let rest = fields.iter().filter(|(other, _)| other != name);
        let rest: Map<String, Value> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
        serde_json::from_value::<T>(rest.into()).is_ok()
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

/// The thread with this id, of the caller's.
async fn load_thread(app: &ServerApp, caller: &ApiCaller, id: &str) -> Result<ThreadRow, ApiError> {
    let key = agent_request::thread_key(caller, id)?;
    Ok(app.runtime.thread_row(&key).await?)
}

/// Metadata as clients see it.
fn hidden_metadata(metadata: &Map<String, Value>) -> Map<String, Value> {
    let shown = metadata.iter().filter(|(name, _)| !HIDDEN_METADATA.contains(&name.as_str()));
    shown.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses pairs that are the server's own.
fn check_metadata(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    if let Some(name) = HIDDEN_METADATA.iter().find(|name| metadata.contains_key(**name)) {
        return Err(invalid(
            &format!("`metadata.{name}` belongs to the server"),
            &format!("`metadata.{name}`은(는) 서버가 쓰는 이름입니다"),
        ));
    }
    doran_engine::store::check_metadata(metadata).map_err(|error| {
        let why = error.to_string();
        invalid(&format!("`metadata`: {why}"), &format!("`metadata`: 저장할 수 없는 값이 있습니다 ({why})"))
    })
}

/// Whether all of these pairs are there.
fn has_pairs(all: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, value)| all.get(name) == Some(value))
}

/// Whether a run was taken back, or removed from the list.
fn is_rolled_back(thread: &ThreadRow, run: RunId) -> bool {
    let marked = thread.metadata.get(DORAN_METADATA).and_then(|doran| doran["rolled_back"].as_array());
    let run = run.to_string();
    marked.is_some_and(|marked| marked.iter().any(|one| *one == run.as_str()))
}

/// Remembers that a run was taken back.
async fn mark_rolled_back(app: &ServerApp, thread: &ThreadKey, run: RunId) -> Result<(), ApiError> {
    let row = app.runtime.thread_row(thread).await?;
    let mut doran = row.metadata.get(DORAN_METADATA).cloned().unwrap_or_else(|| json!({}));
    let mut marked = doran["rolled_back"].as_array().cloned().unwrap_or_default();
    marked.push(run.to_string().into());
    let surplus = marked.len().saturating_sub(MAX_ROLLED_BACK);
    marked.drain(..surplus);
    doran["rolled_back"] = marked.into();
    let metadata = Map::from_iter([(DORAN_METADATA.to_owned(), doran)]);
    app.runtime.put_thread(thread, &metadata).await?;
    Ok(())
}

/// The assistant of a run: the one that it was started with, else the one of its graph.
fn run_assistant_id(row: &RunRow) -> String {
    let named = row.metadata.get("assistant_id").and_then(Value::as_str);
    named.map_or_else(|| ids::graph_assistant_id(&row.graph), str::to_owned)
}

/// A time as clients read it.
fn time_text(at: Millis) -> String {
    let (seconds, millis) = (at.div_euclid(1000), at.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}000+00:00")
}

/// Year, month and day of a day since 1970, by the rules of the Gregorian calendar.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Counted from the first of March of the year 0, so that a leap day ends a year; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// When this process began to serve.
fn server_start_text() -> String {
    static START: LazyLock<Millis> = LazyLock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or_default()
    });
    time_text(*START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_the_calendar() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(time_text(951_782_400_123), "2000-02-29T00:00:00.123000+00:00");
        assert_eq!(time_text(1_794_911_388_954), "2026-11-17T10:29:48.954000+00:00");
        assert_eq!(time_text(-1), "1969-12-31T23:59:59.999000+00:00");
    }
}
