//! OpenAI's API. `model` is the name of an agent.
//!
//! An OpenAI client keeps the conversation and sends all of it with each request. The last user message is the question. The
//! client names the thread by `metadata.thread_id` or the `x-thread-id` header. Without a name, every request starts a new thread
//! that contains the earlier messages. System messages of the client apply to the conversation, but with the rank of user text: they
//! cannot override the instructions of the agent.
//!
//! Tools of the client are offered to the model beside those of the agent. A call of one ends the answer; the run waits for the
//! result, and goes on when the client sends it (`client_calls`). Tools of the agent never appear as tool calls of this API: what
//! the agent does before it answers is sent as reasoning. Clients that know the field show it, others ignore it.
//!
//! Every documented field of a request is used or rejected by its name (`request_fields`).

mod annotations;
mod ask;
mod chat_completions;
mod chat_request;
mod client_calls;
mod client_messages;
mod embeddings;
mod error_format;
mod open_webui_events;
mod reasoning;
mod request_fields;
mod responses;
mod sent_text;
mod turn_request;
mod waiting_text;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::json;

use self::chat_completions::openai_chat;
use self::chat_request::ChatCompletionBody;
use self::embeddings::{EmbeddingBody, openai_embeddings};
pub(super) use self::error_format::rewrite_errors_for_openai;
pub use self::request_fields::{
    CHAT_COMPLETION_FIELDS, EMBEDDING_FIELDS, OpenAiFieldSupport, OpenAiRequestField, RESPONSE_FIELDS,
};
use super::{ApiRoute, json_response, path_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api::{OpenAiCompletion, OpenAiEmbeddingList, OpenAiModel, OpenAiModelList};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{IdempotencyEffect, Operation, OperationTag, thread_name_schema};

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::OpenAi, id, summary);
    let mut routes = vec![
        ApiRoute::get(
            "/v1/models",
            openai_models,
            operation("openai_models", "Lists the agents as models.")
                .returns::<OpenAiModelList>(200, "The models."),
        )
        .openai(),
        ApiRoute::get(
            "/v1/models/{model}",
            openai_model,
            operation("openai_model", "Returns an agent as a model.")
                .returns::<OpenAiModel>(200, "The model.")
                .errors(&[ApiErrorCode::UnknownAgent]),
        )
        .openai(),
        ApiRoute::post(
            "/v1/chat/completions",
            openai_chat,
            operation("openai_chat", "Creates a chat completion. `model` is the name of an agent.")
                .description(
                    "The sources of the answer are in `annotations` of the message, or of the last chunk of a stream: one `url_citation` for each source. With `tools`, a call of one ends the answer with the finish reason `tool_calls`; the run waits until the next request brings the results. With `504` the run was started and continues in its thread; sending the messages again would start another run.",
                )
                .idempotent(IdempotencyEffect::SameRun)
                .header("x-thread-id", "The thread to continue.", thread_name_schema)
                .header(
                    open_webui_events::CHAT_ID_HEADER,
                    "The chat of Open WebUI. It names the thread if nothing else does.",
                    || json!({ "type": "string" }),
                )
                .header(
                    open_webui_events::EVENTS_HEADER,
                    "`open-webui` adds events for Open WebUI to a stream: the current activity (`status`) and the sources of the answer (`source`).",
                    || json!({ "type": "string", "enum": [open_webui_events::OPEN_WEBUI] }),
                )
                .body::<ChatCompletionBody>()
                .returns::<OpenAiCompletion>(200, "The answer, complete or as a stream of chunks.")
                .streams_events("The answer as a stream of chunks.")
                .errors(&[
                    ApiErrorCode::UnknownAgent,
                    ApiErrorCode::BudgetSpent,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::RunFailed,
                    ApiErrorCode::NotFinished,
                    ApiErrorCode::DiskFull,
                ]),
        )
        .openai(),
        ApiRoute::post(
            "/v1/embeddings",
            openai_embeddings,
            operation("openai_embeddings", "Returns texts as vectors. `model` is the encoder of the search.")
                .body::<EmbeddingBody>()
                .returns::<OpenAiEmbeddingList>(200, "The vectors.")
                .errors(&[ApiErrorCode::UnknownAgent, ApiErrorCode::IndexUnavailable]),
        )
        .openai(),
    ];
    routes.extend(responses::routes());
    routes
}

/// `GET /v1/models`
async fn openai_models(State(app): State<ServerApp>, _: ApiCaller) -> Response {
    let agents = app.agents.current();
    // Clients make a menu of this.
    let offered = agents.iter().filter(|agent| agent.is_chat() && !agent.is_hidden);
    let data = offered.map(|agent| model_of_agent(&agent.name)).collect();
    json_response(OpenAiModelList { object: "list", data })
}

/// `GET /v1/models/{model}`
async fn openai_model(
    State(app): State<ServerApp>,
    _: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(model_of_agent(&agent_request::find_agent(&app, &path_value(name)?)?.name)))
}

fn model_of_agent(name: &str) -> OpenAiModel {
    OpenAiModel { id: name.to_owned(), object: "model", created: 1_767_225_600, owned_by: "doran" }
}
