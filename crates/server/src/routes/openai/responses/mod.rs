//! The Responses API. A response is a run, or the part of a run between tools that its client runs. Runs are stored
//! anyway, so a response can be read, continued, cancelled and deleted later.

mod item_references;
mod request;
mod response_id;
mod response_object;
mod response_stream;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use doran_agents::Language;
use doran_engine::store::{RunFilter, RunRow, RunUsage, StoreError};
use doran_engine::{Acknowledgement, EngineError, RunKey, ThreadKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::request::ResponseBody;
use self::response_id::ResponseId;
use self::response_object::{REQUEST_METADATA, ResponseHead, StoredResponseRequest, load_response};
use self::response_stream::{StreamPart, response_stream};
use super::ask::{AnsweringRun, AskOutcome, ClientAsk, start_or_continue};
use super::chat_completions::{thread_waiting_text, unix_seconds};
use super::chat_request::run_metadata;
use super::client_messages::{KnownMessages, find_question};
use crate::ServerApp;
use crate::agent_request;
use crate::api::{OpenAiDeletedResponse, OpenAiResponse, OpenAiResponseStatus};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency::{self, IdempotentRequest};
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;
use crate::request_origin::request_origin;
use crate::routes::threads::remove_thread;
use crate::routes::{ApiRoute, json_response, path_value, query_value};

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::OpenAi, id, summary);
    vec![
        ApiRoute::post(
            "/v1/responses",
            create_response,
            operation("openai_create_response", "Creates a response. `model` is the name of an agent.")
                .description(
                    "A call of one of `tools` ends the response; the run waits until the next request brings the output. With `504` the run was started and continues; `GET /v1/responses/{response}` has its answer later.",
                )
                .idempotent(IdempotencyEffect::SameRun)
                .body::<ResponseBody>()
                .returns::<OpenAiResponse>(200, "The response, complete or as a stream of events.")
                .streams_events("The response as a stream of events.")
                .errors(&[
                    ApiErrorCode::UnknownAgent,
                    ApiErrorCode::BudgetSpent,
                    ApiErrorCode::NotFound,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::RunFailed,
                    ApiErrorCode::NotFinished,
                    ApiErrorCode::DiskFull,
                ]),
        )
        .openai(),
        ApiRoute::get(
            "/v1/responses/{response}",
            get_response,
            operation("openai_get_response", "Returns a response.")
                .query::<GetResponseQuery>()
                .returns::<OpenAiResponse>(200, "The response, as far as it is.")
                .streams_events("The response as a stream of events.")
                .errors(&[ApiErrorCode::NotFound]),
        )
        .openai(),
        ApiRoute::post(
            "/v1/responses/{response}/cancel",
            cancel_response,
            operation("openai_cancel_response", "Cancels the run of a response.")
                .idempotent(IdempotencyEffect::SameResponse)
                .ignored_body()
                .returns::<OpenAiResponse>(200, "The response.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        )
        .openai(),
        ApiRoute::delete(
            "/v1/responses/{response}",
            delete_response,
            operation("openai_delete_response", "Deletes a response with its thread.")
                .description(
                    "The thread must have no other run. To delete a longer conversation, use `DELETE /api/threads/{thread}`.",
                )
                .returns::<OpenAiDeletedResponse>(200, "The response was deleted.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict]),
        )
        .openai(),
    ]
}

/// `POST /v1/responses`
async fn create_response(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency::idempotency_key(request.headers())?;
    let origin = request_origin(request.headers());
    let (body, bytes) = request_body::read_json::<Map<String, Value>>(request, &app.limits).await?;
    let (body, request) = ResponseBody::read(body)?;
    let place = find_place(&app, &caller, &body).await?;
    let known = if place.is_some() { KnownMessages::EarlierOnly } else { KnownMessages::None };
    let max_bytes = app.limits.max_message_bytes;
    let input = item_references::resolve(&app, &caller, body.input.clone()).await?;
    let question = find_question(body.messages(input)?, known, "input", max_bytes)?;
    let language = Language::detect(&question.text).unwrap_or(Language::English);
    let parameters =
        [("tools", !request.tools.is_empty()), ("text.format", request.response_schema.is_some())];
    let stored = StoredResponseRequest { request: body.echo(), language: Some(language) };
    let mut metadata = run_metadata(None, body.user.as_ref(), body.safety_identifier.as_ref());
    metadata.insert(REQUEST_METADATA.to_owned(), json!(stored));
    let (thread, from) = place.map(|place| (place.thread, place.from)).unzip();
    let ask = ClientAsk {
        agent: &body.model,
        question,
        request,
        parameters: &parameters,
        limit_parameter: "max_output_tokens",
        parameter: "input",
        thread,
        from: from.flatten(),
        metadata,
        idempotency: key.map(|key| (key, &bytes[..])),
        acknowledge: match (body.stream, body.background) {
            (Some(true), _) | (_, Some(true)) => Acknowledgement::Input,
            _ => Acknowledgement::Rest,
        },
    };
    let (thread, begun) = start_or_continue(&app, &caller, ask).await?;
    let (run, after) = begun.part();
    let head = ResponseHead {
        id: ResponseId { run, after },
        model: body.model.clone(),
        created_at: i64::try_from(unix_seconds()).unwrap_or(i64::MAX),
        request: stored.request,
        language,
        origin,
    };
    let name = thread.thread.to_string();
    let responded = match begun {
        AskOutcome::Answering(answering) => {
            let answered = match (body.stream, body.background) {
                (Some(true), _) => response_stream(&app, caller, head, &answering, StreamPart::New).await,
                (_, Some(true)) => {
                    let row = app.runtime.run_row(&answering.run.key()).await?;
                    Ok(json_response(load_response(&app, &head, &row).await?))
                }
                _ => whole_response(&app, &head, &answering).await,
            };
            // From here on the client is told of the run, also with an error.
            answering.run.wait_until_accepted().await?;
            answered.map_err(|error| error.for_started_run(&name))
        }
        AskOutcome::ThreadWaiting(waits) => {
            let words = thread_waiting_text(&waits.questions, &head.origin, &name, language);
            let output = vec![head.message_item(&words, &[])];
            Ok(json_response(head.completed(output, &RunUsage::default())))
        }
    };
    let mut response = responded.unwrap_or_else(ApiError::into_response);
    if let Ok(thread) = HeaderValue::from_str(&name) {
        response.headers_mut().insert("x-thread-id", thread);
    }
    Ok(response)
}

/// Where a question goes.
struct ResponsePlace {
    thread: ThreadKey,
    /// The log entry that it follows, if it is not the newest.
    from: Option<u64>,
}

/// The place that the client names: after another response, or at the end of a thread.
async fn find_place(
    app: &ServerApp,
    caller: &ApiCaller,
    body: &ResponseBody,
) -> Result<Option<ResponsePlace>, ApiError> {
    let parameter = "previous_response_id";
    let conversation = body.conversation_name()?;
    let Some(previous) = &body.previous_response_id else {
        return match conversation {
            Some(name) => {
                let thread = agent_request::thread_key_from_field(caller, "conversation", &name)?;
                Ok(Some(ResponsePlace { thread, from: None }))
            }
            None => Ok(None),
        };
    };
    if conversation.is_some() {
        return Err(ApiError::for_parameter(
            parameter,
            "it cannot be used together with `conversation`",
            "`conversation`과 함께 쓸 수 없습니다",
        ));
    }
    let unknown = || ApiError::for_parameter(parameter, "there is no such response", "그런 응답이 없습니다");
    let id = ResponseId::parse(previous).ok_or_else(unknown)?;
    let row = match find_run(app, caller, id).await? {
        Some(row) => row,
        None => return Err(unknown()),
    };
    let head = app.runtime.thread_row(&row.thread).await?.head;
    // What came after it on its thread stays there as another branch.
    let from = row.last_seq.filter(|last| *last != head);
    Ok(Some(ResponsePlace { thread: row.thread, from }))
}

async fn find_run(app: &ServerApp, caller: &ApiCaller, id: ResponseId) -> Result<Option<RunRow>, ApiError> {
    load_row(app, &RunKey { tenant: caller.tenant.clone(), run: id.run }).await
}

async fn load_row(app: &ServerApp, run: &RunKey) -> Result<Option<RunRow>, ApiError> {
    match app.runtime.run_row(run).await {
        Ok(row) => Ok(Some(row)),
        Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The run of a response of the caller's.
async fn load_run(app: &ServerApp, caller: &ApiCaller, name: &str) -> Result<(ResponseId, RunRow), ApiError> {
    let id = ResponseId::parse(name).ok_or(ApiErrorCode::NotFound)?;
    let row = find_run(app, caller, id).await?.ok_or(ApiErrorCode::NotFound)?;
    Ok((id, row))
}

/// Waits for the end of the run, or of this part of it.
async fn whole_response(
    app: &ServerApp,
    head: &ResponseHead,
    answering: &AnsweringRun,
) -> Result<Response, ApiError> {
    let outcome = agent_request::wait_for_run(app, &head.model, &answering.run).await?;
    if let Some(waits) = &outcome.blocked_by {
        let thread = outcome.row.thread.thread.as_str();
        let words = thread_waiting_text(&waits.questions, &head.origin, thread, head.language);
        return Ok(json_response(head.completed(vec![head.message_item(&words, &[])], &RunUsage::default())));
    }
    let response = load_response(app, head, &outcome.row).await?;
    match response.status {
        OpenAiResponseStatus::Completed | OpenAiResponseStatus::Incomplete => Ok(json_response(response)),
        OpenAiResponseStatus::Failed => {
            let error = response.error;
            let (en, ko) = error.map(|error| (error.message, error.message_ko)).unwrap_or_default();
            Err(ApiError::with_message(ApiErrorCode::RunFailed, en, ko))
        }
        OpenAiResponseStatus::Cancelled | OpenAiResponseStatus::Queued | OpenAiResponseStatus::InProgress => {
            Err(super::chat_completions::unfinished_run_error(&outcome.row))
        }
    }
}

/// What may follow the path of a response.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetResponseQuery {
    /// Whether the response is streamed.
    #[serde(default)]
    stream: bool,
    /// The `sequence_number` of the last event of the stream that the client has. The stream continues after it. Only with `stream=true`.
    starting_after: Option<u64>,
}

/// `GET /v1/responses/{response}`
async fn get_response(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<GetResponseQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let GetResponseQuery { stream, starting_after } = query_value(query)?;
    if starting_after.is_some() && !stream {
        return Err(ApiError::for_parameter(
            "starting_after",
            "it needs `stream=true`",
            "`stream=true`와 함께 써야 합니다",
        ));
    }
    let (id, row) = load_run(&app, &caller, &path_value(name)?).await?;
    let head = ResponseHead::load(&app, id, &row, request_origin(&headers)).await?;
    if stream {
        let run = app.runtime.run_handle(&row.key()).await?;
        let answering = AnsweringRun { run, after: id.after };
        let part = starting_after.map_or(StreamPart::Again, StreamPart::After);
        return response_stream(&app, caller, head, &answering, part).await;
    }
    Ok(json_response(load_response(&app, &head, &row).await?))
}

/// `POST /v1/responses/{response}/cancel`
async fn cancel_response(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let (name, origin) = (path_value(name)?, request_origin(request.headers()));
    let bytes = request_body::read_bytes(request, &app.limits).await?;
    once.with_body(&bytes)
        .respond_once(async move {
            let (id, row) = load_run(&app, &caller, &name).await?;
            let head = ResponseHead::load(&app, id, &row, origin).await?;
            let row = app.runtime.cancel(&row.key()).await?;
            let row = agent_request::wait_for_cancel(&app, row).await?;
            Ok((StatusCode::OK, json!(load_response(&app, &head, &row).await?)))
        })
        .await
}

/// `DELETE /v1/responses/{response}`
async fn delete_response(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let (id, row) = load_run(&app, &caller, &path_value(name)?).await?;
    let filter = RunFilter { thread: Some(row.thread.thread.clone()), limit: 2, ..RunFilter::default() };
    if app.runtime.list_runs(&caller.tenant, &filter).await?.len() > 1 {
        let thread = row.thread.thread.as_str();
        return Err(ApiError::with_message(
            ApiErrorCode::Conflict,
            format!("the thread `{thread}` has other responses; delete the whole thread instead"),
            format!("대화 `{thread}`에 다른 응답이 있습니다. 대화 전체를 삭제하세요"),
        ));
    }
    remove_thread(&app, &row.thread).await?;
    Ok(json_response(OpenAiDeletedResponse { id: id.to_string(), object: "response", deleted: true }))
}
