//! Assistants that tenants store beside those of the graphs: make, change, delete, and their versions.
//!
//! An assistant is an item of the store, and so is each of its versions, in namespaces of the server's own. A change stores the
//! new version first: a process that dies in between leaves a version that is not in use.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_engine::TenantId;
use doran_engine::store::{ItemKey, ItemNamespace, ItemSearch, SharedItem, ThreadFilter};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::assistants::{Assistant, find_assistant, load_assistant};
use super::cancel::read_flag;
use super::crons::delete_assistant_crons;
use super::metadata::{check_metadata, has_pairs};
use super::run_request::{RunConfig, given_context};
use super::store_items::{item_error, reserved_namespace};
use super::threads::IfExists;
use super::times::time_text;
use super::{FOUND, invalid, operation, page_size, read_body};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::threads::remove_thread;
use crate::routes::{ApiRoute, json_response, path_value, query_value};
use crate::thread_settings::present;

/// The most assistants that a tenant stores, and the most versions of one. One search finds them all.
const MAX_STORED: usize = 1000;
/// The most characters of a name or a description.
const MAX_TEXT_CHARS: usize = 10_000;
/// The most threads that are read in one go.
const THREADS_PER_PAGE: usize = 200;

/// Changes of assistants come one after the other, as each reads what the one before it stored. Of changes in several
/// processes at once the last one stays.
static CHANGES: Mutex<()> = Mutex::const_new(());

pub(super) fn routes() -> Vec<ApiRoute> {
    let changed = [ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull];
    vec![
        ApiRoute::post(
            "/assistants",
            create_assistant,
            operation("langgraph_create_assistant", "Stores an assistant: a graph with settings.")
                .body::<CreateAssistantBody>()
                .returns::<Assistant>(200, "The assistant.")
                .errors(&changed),
        ),
        ApiRoute::patch(
            "/assistants/{assistant}",
            update_assistant,
            operation("langgraph_update_assistant", "Stores a new version of an assistant.")
                .body::<UpdateAssistantBody>()
                .returns::<Assistant>(200, "The assistant.")
                .errors(&changed),
        ),
        ApiRoute::delete(
            "/assistants/{assistant}",
            delete_assistant,
            operation("langgraph_delete_assistant", "Deletes an assistant, its versions and its crons.")
                .query::<DeleteAssistantQuery>()
                .returns_nothing("It is deleted.")
                .errors(&FOUND),
        ),
        ApiRoute::post(
            "/assistants/{assistant}/versions",
            list_versions,
            operation("langgraph_list_versions", "Lists the versions of an assistant, newest first.")
                .body::<VersionsBody>()
                .returns::<Vec<Map<String, Value>>>(200, "The versions.")
                .errors(&FOUND),
        ),
        ApiRoute::post(
            "/assistants/{assistant}/latest",
            set_latest,
            operation("langgraph_set_latest", "Makes a version of an assistant the one in use.")
                .body::<LatestBody>()
                .returns::<Assistant>(200, "The assistant.")
                .errors(&changed),
        ),
    ]
}

fn assistants_namespace() -> Result<ItemNamespace, ApiError> {
    reserved_namespace(&["assistants"])
}

fn versions_namespace(assistant: &str) -> Result<ItemNamespace, ApiError> {
    reserved_namespace(&["assistant_versions", assistant])
}

fn item_key(text: &str) -> Result<ItemKey, ApiError> {
    ItemKey::new(text).map_err(|_| ApiErrorCode::NotFound.into())
}

fn version_key(version: u32) -> Result<ItemKey, ApiError> {
    item_key(&format!("{version:010}"))
}

fn read_assistant(item: SharedItem) -> Result<Assistant, ApiError> {
    serde_json::from_value(item.value.into()).map_err(|error| {
        tracing::error!(%error, key = %item.key, "cannot read a stored assistant");
        ApiErrorCode::Internal.into()
    })
}

/// The stored assistant with this id.
pub(super) async fn load_stored(
    app: &ServerApp,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Assistant>, ApiError> {
    let Ok(key) = ItemKey::new(id) else { return Ok(None) };
    let found = app.runtime.item(tenant, &assistants_namespace()?, &key).await.map_err(item_error)?;
    found.map(read_assistant).transpose()
}

/// The stored assistants of a tenant.
pub(super) async fn list_stored(app: &ServerApp, tenant: &TenantId) -> Result<Vec<Assistant>, ApiError> {
    list_items(app, tenant, &assistants_namespace()?).await
}

async fn list_items(
    app: &ServerApp,
    tenant: &TenantId,
    namespace: &ItemNamespace,
) -> Result<Vec<Assistant>, ApiError> {
    let search = ItemSearch { prefix: namespace.into(), limit: MAX_STORED, ..ItemSearch::default() };
    let found = app.runtime.search_items(tenant, &search).await.map_err(item_error)?;
    found.into_iter().map(read_assistant).collect()
}

async fn put(
    app: &ServerApp,
    tenant: &TenantId,
    namespace: &ItemNamespace,
    key: &ItemKey,
    assistant: &Assistant,
) -> Result<(), ApiError> {
    let Value::Object(value) = json!(assistant) else { return Err(ApiErrorCode::Internal.into()) };
    app.runtime.put_item(tenant, namespace, key, &value, None).await.map(drop).map_err(item_error)
}

/// Stores a version of an assistant, and puts it to use.
async fn store_version(app: &ServerApp, tenant: &TenantId, assistant: &Assistant) -> Result<(), ApiError> {
    let versions = versions_namespace(&assistant.assistant_id)?;
    put(app, tenant, &versions, &version_key(assistant.version)?, assistant).await?;
    put_to_use(app, tenant, assistant).await
}

async fn put_to_use(app: &ServerApp, tenant: &TenantId, assistant: &Assistant) -> Result<(), ApiError> {
    put(app, tenant, &assistants_namespace()?, &item_key(&assistant.assistant_id)?, assistant).await
}

async fn now_text(app: &ServerApp) -> Result<String, ApiError> {
    Ok(time_text(app.runtime.store_time().await.map_err(item_error)?))
}

/// An assistant to store.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateAssistantBody {
    /// The name of its graph.
    graph_id: String,
    /// Its id, a UUID. The default is a new one.
    #[serde(default)]
    assistant_id: Option<String>,
    /// Settings of its runs.
    #[serde(default)]
    config: Option<RunConfig>,
    /// Values that its nodes read.
    #[serde(default)]
    context: Option<Map<String, Value>>,
    /// Free pairs.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    /// What happens when it exists. The default is `raise`.
    #[serde(default)]
    if_exists: Option<IfExists>,
    /// What people call it. The default is `Untitled`.
    #[serde(default)]
    name: Option<String>,
    /// What it does.
    #[serde(default)]
    description: Option<String>,
}

/// `POST /assistants`
pub(super) async fn create_assistant(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: CreateAssistantBody = read_body(request, &app).await?;
    let id = match &body.assistant_id {
        Some(id) => uuid::Uuid::parse_str(id)
            .map_err(|_| invalid("`assistant_id` is not a UUID", "`assistant_id`가 UUID가 아닙니다"))?,
        None => uuid::Uuid::new_v4(),
    };
    let id = id.to_string();
    check_graph(&app, &body.graph_id)?;
    let metadata = body.metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    check_texts(body.name.as_deref(), body.description.as_deref())?;
    let context = given_context(body.config.as_ref(), body.context.as_ref())?;
    let _turn = CHANGES.lock().await;
    let known = match find_assistant(&app, &caller.tenant, &id).await? {
        Some(known) => Some(known),
        // One whose graph is not served keeps its id.
        None => load_stored(&app, &caller.tenant, &id).await?,
    };
    if let Some(known) = known {
        return match body.if_exists.unwrap_or_default() {
            IfExists::DoNothing => Ok(json_response(known)),
            IfExists::Raise => Err(ApiError::with_message(
                ApiErrorCode::Conflict,
                format!("assistant `{id}` exists already"),
                format!("어시스턴트 `{id}`가 이미 있습니다"),
            )),
        };
    }
    if list_stored(&app, &caller.tenant).await?.len() >= MAX_STORED {
        return Err(invalid(
            &format!("there are {MAX_STORED} assistants already: delete some"),
            &format!("어시스턴트가 이미 {MAX_STORED}개 있습니다. 먼저 지우세요"),
        ));
    }
    let now = now_text(&app).await?;
    let assistant = Assistant {
        assistant_id: id,
        graph_id: body.graph_id,
        config: config_json(body.config.and_then(|config| config.recursion_limit), &context),
        context,
        metadata,
        name: body.name.unwrap_or_else(|| "Untitled".to_owned()),
        created_at: now.clone(),
        updated_at: now,
        version: 1,
        description: body.description,
    };
    store_version(&app, &caller.tenant, &assistant).await?;
    Ok(json_response(assistant))
}

/// Settings as clients read them: with the values for nodes, by the name that they had before.
fn config_json(recursion_limit: Option<u32>, context: &Map<String, Value>) -> Map<String, Value> {
    let mut config = Map::new();
    config.extend(recursion_limit.map(|steps| ("recursion_limit".to_owned(), steps.into())));
    if !context.is_empty() {
        config.insert("configurable".to_owned(), context.clone().into());
    }
    config
}

fn check_graph(app: &ServerApp, graph: &str) -> Result<(), ApiError> {
    if app.find_agent(graph).is_some() {
        return Ok(());
    }
    Err(ApiError::with_message(
        ApiErrorCode::NotFound,
        format!("`graph_id`: there is no graph `{graph}`"),
        format!("`graph_id`: 그래프 `{graph}`가 없습니다"),
    ))
}

fn check_texts(name: Option<&str>, description: Option<&str>) -> Result<(), ApiError> {
    for (field, text) in [("name", name), ("description", description)] {
        if text.is_some_and(|text| text.chars().count() > MAX_TEXT_CHARS) {
            return Err(invalid(
                &format!("`{field}` has more than {MAX_TEXT_CHARS} characters"),
                &format!("`{field}`이(가) {MAX_TEXT_CHARS}자를 넘습니다"),
            ));
        }
    }
    Ok(())
}

/// A stored assistant to change. That of a graph is as the graph was built.
async fn load_changeable(app: &ServerApp, caller: &ApiCaller, id: &str) -> Result<Assistant, ApiError> {
    let assistant = load_assistant(app, caller, id).await?;
    if assistant.is_of_graph() {
        return Err(invalid(
            "the assistant of a graph cannot be changed or deleted; store one of your own",
            "그래프의 어시스턴트는 바꾸거나 지울 수 없습니다. 새 어시스턴트를 만드세요",
        ));
    }
    Ok(assistant)
}

/// A change of an assistant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UpdateAssistantBody {
    /// The name of its graph.
    graph_id: Option<String>,
    /// Settings of its runs.
    config: Option<RunConfig>,
    /// Values that its nodes read.
    context: Option<Map<String, Value>>,
    /// Pairs to set.
    metadata: Option<Map<String, Value>>,
    /// What people call it.
    name: Option<String>,
    /// What it does. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>")]
    description: Option<Option<String>>,
}

/// `PATCH /assistants/{assistant}`
pub(super) async fn update_assistant(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = path_value(id)?;
    let body: UpdateAssistantBody = read_body(request, &app).await?;
    if let Some(graph) = &body.graph_id {
        check_graph(&app, graph)?;
    }
    check_texts(body.name.as_deref(), body.description.as_ref().and_then(Option::as_deref))?;
    let _turn = CHANGES.lock().await;
    let mut assistant = load_changeable(&app, &caller, &id).await?;
    assistant.metadata.extend(body.metadata.unwrap_or_default());
    check_metadata(&assistant.metadata)?;
    let given = given_context(body.config.as_ref(), body.context.as_ref())?;
    if body.context.is_some() || !given.is_empty() {
        assistant.context = given;
    }
    let limit = match &body.config {
        Some(config) => config.recursion_limit,
        None => assistant.recursion_limit(),
    };
    assistant.config = config_json(limit, &assistant.context);
    assistant.graph_id = body.graph_id.unwrap_or(assistant.graph_id);
    assistant.name = body.name.unwrap_or(assistant.name);
    assistant.description = body.description.unwrap_or(assistant.description);
    let versions = list_items(&app, &caller.tenant, &versions_namespace(&assistant.assistant_id)?).await?;
    if versions.len() >= MAX_STORED {
        return Err(invalid(
            &format!("the assistant has {MAX_STORED} versions already: store another one"),
            &format!("이 어시스턴트에는 이미 버전이 {MAX_STORED}개 있습니다. 새로 만드세요"),
        ));
    }
    let newest = versions.iter().map(|version| version.version).max();
    assistant.version = newest.unwrap_or(assistant.version) + 1;
    assistant.updated_at = now_text(&app).await?;
    store_version(&app, &caller.tenant, &assistant).await?;
    Ok(json_response(assistant))
}

/// What may follow the path of an assistant that is deleted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteAssistantQuery {
    /// Whether its threads are deleted too.
    #[serde(default)]
    delete_threads: Option<String>,
}

/// `DELETE /assistants/{assistant}`
pub(super) async fn delete_assistant(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<DeleteAssistantQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let query = query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let delete_threads = read_flag("delete_threads", query.delete_threads.as_deref())?;
    let _turn = CHANGES.lock().await;
    let assistant = load_changeable(&app, &caller, &path_value(id)?).await?;
    let (tenant, id) = (&caller.tenant, assistant.assistant_id.as_str());
    delete_assistant_crons(&app, tenant, id).await?;
    if delete_threads {
        delete_assistant_threads(&app, tenant, id).await?;
    }
    let versions = versions_namespace(id)?;
    for version in list_items(&app, tenant, &versions).await? {
        let key = version_key(version.version)?;
        app.runtime.delete_item(tenant, &versions, &key).await.map_err(item_error)?;
    }
    app.runtime.delete_item(tenant, &assistants_namespace()?, &item_key(id)?).await.map_err(item_error)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn delete_assistant_threads(app: &ServerApp, tenant: &TenantId, id: &str) -> Result<(), ApiError> {
    let metadata = Map::from_iter([("assistant_id".to_owned(), id.into())]);
    let filter = ThreadFilter { metadata, limit: THREADS_PER_PAGE, ..ThreadFilter::default() };
    loop {
        let page = app.runtime.list_threads(tenant, &filter).await?;
        for row in &page {
            remove_thread(app, &row.key).await?;
        }
        if page.len() < THREADS_PER_PAGE {
            return Ok(());
        }
    }
}

/// Which versions are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct VersionsBody {
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
}

/// `POST /assistants/{assistant}/versions`: newest first.
pub(super) async fn list_versions(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let body: VersionsBody = read_body(request, &app).await?;
    let limit = page_size(body.limit, 10)?;
    let assistant = load_assistant(&app, &caller, &path_value(id)?).await?;
    let mut versions = if assistant.is_of_graph() {
        vec![assistant]
    } else {
        list_items(&app, &caller.tenant, &versions_namespace(&assistant.assistant_id)?).await?
    };
    versions.reverse();
    let wanted = body.metadata.unwrap_or_default();
    let versions = versions.into_iter().filter(|version| has_pairs(&version.metadata, &wanted));
    let versions = versions.map(|mut version| {
        // A version is made once.
        version.created_at = version.updated_at.clone();
        let mut version = json!(version);
        version.as_object_mut().map(|fields| fields.remove("updated_at"));
        version
    });
    let page: Vec<Value> = versions.skip(body.offset.unwrap_or(0)).take(limit).collect();
    Ok(json_response(page))
}

/// The version to use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LatestBody {
    /// Its number.
    version: u32,
}

/// `POST /assistants/{assistant}/latest`
pub(super) async fn set_latest(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = path_value(id)?;
    let body: LatestBody = read_body(request, &app).await?;
    let _turn = CHANGES.lock().await;
    let assistant = load_changeable(&app, &caller, &id).await?;
    let versions = versions_namespace(&assistant.assistant_id)?;
    let found = app.runtime.item(&caller.tenant, &versions, &version_key(body.version)?).await;
    let Some(found) = found.map_err(item_error)? else {
        return Err(ApiError::with_message(
            ApiErrorCode::NotFound,
            format!("the assistant has no version {}", body.version),
            format!("이 어시스턴트에는 버전 {}이(가) 없습니다", body.version),
        ));
    };
    let used = Assistant { updated_at: now_text(&app).await?, ..read_assistant(found)? };
    put_to_use(&app, &caller.tenant, &used).await?;
    Ok(json_response(used))
}
