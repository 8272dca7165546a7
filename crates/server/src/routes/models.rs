//! Models: which answer, which chats can choose, and what an administrator adds.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiRoute, json_response, path_value};
use crate::ServerApp;
use crate::api;
use crate::authentication::{AdminCaller, ApiCaller};
use crate::error::{ApiError, ApiErrorCode};
use crate::model_registry::{ModelRegistry, ModelRegistryError, SubmittedModelKey};
use crate::openapi::{Operation, OperationTag};
use crate::request_body;

/// The most characters of a model id.
const MAX_MODEL_ID_CHARS: usize = 300;
/// The most bytes of the key of a provider.
const MAX_MODEL_KEY_BYTES: usize = 1000;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::Models, id, summary);
    let admin = |id, summary| {
        operation(id, summary).errors(&[
            ApiErrorCode::AdminOnly,
            ApiErrorCode::BadInput,
            ApiErrorCode::NotFound,
        ])
    };
    vec![
        ApiRoute::get(
            "/api/models",
            list_models,
            operation("list_models", "Lists the models in use and those that a chat can choose.")
                .returns::<api::ModelList>(200, "The models."),
        ),
        ApiRoute::put(
            "/api/models/{model}",
            add_model,
            admin("add_model", "Lets chats choose a model.").returns::<api::ModelList>(200, "The models."),
        ),
        ApiRoute::delete(
            "/api/models/{model}",
            remove_model,
            admin("remove_model", "Takes away a model that was added.")
                .returns_nothing("The model was removed."),
        ),
        ApiRoute::get(
            "/api/models/offers",
            list_offers,
            admin("list_model_offers", "Lists model servers on this machine and providers.")
                .returns::<api::ModelOffers>(200, "Where models can be had."),
        ),
        ApiRoute::get(
            "/api/models/providers/{provider}",
            list_provider_models,
            admin("list_provider_models", "Lists the models of a provider, with the key that is known.")
                .returns::<api::ProviderModelList>(200, "The models."),
        ),
        ApiRoute::put(
            "/api/models/test",
            test_model,
            admin("test_model", "Sends a short message to a model.")
                .body::<ModelBody>()
                .returns::<api::ModelTest>(200, "What came of it."),
        ),
        ApiRoute::put(
            "/api/models/default",
            choose_default,
            admin("choose_default_model", "Makes a model the default, now and after a restart.")
                .body::<ModelBody>()
                .returns::<api::ModelList>(200, "The models."),
        ),
        ApiRoute::put(
            "/api/models/keys/{provider}",
            store_key,
            admin("store_model_key", "Stores the key of a provider, encrypted. It is never returned.")
                .body::<ModelKeyBody>()
                .returns_nothing("The key was stored."),
        ),
        ApiRoute::delete(
            "/api/models/keys/{provider}",
            delete_key,
            admin("delete_model_key", "Deletes the stored key of a provider.")
                .returns_nothing("The key was deleted."),
        ),
    ]
}

/// A model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelBody {
    /// The id of the model, such as `ollama:qwen3:8b`.
    #[schemars(length(min = 1, max = MAX_MODEL_ID_CHARS))]
    model: String,
}

/// The key of a provider.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelKeyBody {
    /// The key.
    key: SubmittedModelKey,
}

/// `GET /api/models`
async fn list_models(State(app): State<ServerApp>, caller: ApiCaller) -> Response {
    json_response(model_list(&app, caller.is_admin))
}

fn model_list(app: &ServerApp, is_admin: bool) -> api::ModelList {
    let agents = app.agents.current();
    let active = agents
        .iter()
        .filter_map(|agent| Some(api::AgentModel { agent: agent.name.clone(), model: agent.model()? }))
        .collect();
    let options = app.models.as_ref().map(|models| models.options()).unwrap_or_default();
    api::ModelList { active, options, may_change: is_admin && app.models.is_some() }
}

/// `PUT /api/models/{model}`
async fn add_model(
    State(app): State<ServerApp>,
    _: AdminCaller,
    model: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let model = path_value(model)?;
    check_model_id(&model)?;
    registry(&app)?.add(&model)?;
    Ok(json_response(model_list(&app, true)))
}

/// `DELETE /api/models/{model}`
async fn remove_model(
    State(app): State<ServerApp>,
    _: AdminCaller,
    model: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    registry(&app)?.remove(&path_value(model)?)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /api/models/offers`
async fn list_offers(State(app): State<ServerApp>, _: AdminCaller) -> Result<Response, ApiError> {
    Ok(json_response(registry(&app)?.offers().await))
}

/// `GET /api/models/providers/{provider}`
async fn list_provider_models(
    State(app): State<ServerApp>,
    _: AdminCaller,
    provider: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let models = registry(&app)?.provider_models(&path_value(provider)?).await?;
    Ok(json_response(api::ProviderModelList { models }))
}

/// `PUT /api/models/test`
async fn test_model(
    State(app): State<ServerApp>,
    _: AdminCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let (ModelBody { model }, _) = request_body::read_json(request, &app.limits).await?;
    check_model_id(&model)?;
    Ok(json_response(registry(&app)?.test(&model).await?))
}

/// `PUT /api/models/default`
async fn choose_default(
    State(app): State<ServerApp>,
    _: AdminCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let (ModelBody { model }, _) = request_body::read_json(request, &app.limits).await?;
    check_model_id(&model)?;
    registry(&app)?.set_default(&model)?;
    tracing::info!(model, "the default model was changed");
    Ok(json_response(model_list(&app, true)))
}

/// `PUT /api/models/keys/{provider}`
async fn store_key(
    State(app): State<ServerApp>,
    _: AdminCaller,
    provider: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let provider = path_value(provider)?;
    let (ModelKeyBody { key }, _) = request_body::read_json(request, &app.limits).await?;
    let text = key.reveal().trim();
    // A key goes into a header.
    if text.is_empty()
        || text.len() > MAX_MODEL_KEY_BYTES
        || !text.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("`key` is not a key: it has 1 to {MAX_MODEL_KEY_BYTES} printable ASCII characters"),
            format!("`key`가 키가 아닙니다. 공백 없는 ASCII 문자 1~{MAX_MODEL_KEY_BYTES}자입니다"),
        ));
    }
    registry(&app)?.set_key(&provider, &key)?;
    tracing::info!(provider, "the key of a model provider was stored");
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `DELETE /api/models/keys/{provider}`
async fn delete_key(
    State(app): State<ServerApp>,
    _: AdminCaller,
    provider: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    registry(&app)?.remove_key(&path_value(provider)?)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn registry(app: &ServerApp) -> Result<&Arc<dyn ModelRegistry>, ApiError> {
    app.models.as_ref().ok_or_else(|| ApiErrorCode::NotFound.into())
}

fn check_model_id(model: &str) -> Result<(), ApiError> {
    if !model.is_empty()
        && model.chars().count() <= MAX_MODEL_ID_CHARS
        && !model.chars().any(char::is_control)
    {
        return Ok(());
    }
    Err(ApiError::with_message(
        ApiErrorCode::BadInput,
        format!("`model` has 1 to {MAX_MODEL_ID_CHARS} characters"),
        format!("`model`은 1~{MAX_MODEL_ID_CHARS}자입니다"),
    ))
}

impl From<ModelRegistryError> for ApiError {
    fn from(error: ModelRegistryError) -> Self {
        Self::with_message(ApiErrorCode::BadInput, error.en, error.ko)
    }
}
