//! The state of a thread: read it, go through its history, change it.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use doran_agents::Agent;
use doran_engine::runtime::StateEdit;
use doran_engine::store::{Seq, ThreadRow};
use doran_engine::{EngineError, ThreadKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checkpoints::{Checkpoint, CheckpointRef, CheckpointTree, LangGraphState, load_checkpoints};
use super::ids::CheckpointId;
use super::messages::{state_to_json, update_from_json};
use super::metadata::is_rolled_back;
use super::run_request::{CheckpointBody, parse_checkpoint};
use super::start_run::{stands_at, state_error};
use super::threads::{checkpoint_agent, graph_gone, thread_agent, thread_state};
use super::{invalid, load_thread, operation, page_size, read_body};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{ApiRoute, json_response, path_value, query_value};

/// What a request for a state may be answered with.
const READ: [ApiErrorCode; 2] = [ApiErrorCode::NotFound, ApiErrorCode::Conflict];

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get(
            "/threads/{thread}/state",
            get_state,
            operation("langgraph_get_state", "Returns the state of a thread.")
                .query::<StateQuery>()
                .returns::<LangGraphState>(200, "The state.")
                .errors(&READ),
        ),
        ApiRoute::post(
            "/threads/{thread}/state",
            update_state,
            operation("langgraph_update_state", "Changes the state of a thread.")
                .body::<UpdateStateBody>()
                .returns::<StateUpdated>(200, "The new checkpoint.")
                .errors(&[
                    ApiErrorCode::NotFound,
                    ApiErrorCode::Busy,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::DiskFull,
                ]),
        ),
        ApiRoute::get(
            "/threads/{thread}/state/{checkpoint}",
            get_state_at,
            operation("langgraph_get_state_at", "Returns the state of a thread at a checkpoint.")
                .query::<StateQuery>()
                .returns::<LangGraphState>(200, "The state.")
                .errors(&READ),
        ),
        ApiRoute::post(
            "/threads/{thread}/state/checkpoint",
            post_state_at,
            operation("langgraph_post_state_at", "Returns the state of a thread at a checkpoint.")
                .body::<StateAtBody>()
                .returns::<LangGraphState>(200, "The state.")
                .errors(&READ),
        ),
        ApiRoute::post(
            "/threads/{thread}/history",
            post_history,
            operation("langgraph_post_history", "Lists the states of a thread, newest first.")
                .body::<HistoryBody>()
                .returns::<Vec<LangGraphState>>(200, "The states.")
                .errors(&READ),
        ),
        ApiRoute::get(
            "/threads/{thread}/history",
            get_history,
            operation("langgraph_get_history", "Lists the states of a thread, newest first.")
                .query::<HistoryQuery>()
                .returns::<Vec<LangGraphState>>(200, "The states.")
                .errors(&READ),
        ),
    ]
}

/// The state of a thread after an entry, the newest when none is named, with its messages as LangChain writes them; and the
/// nodes that are due then.
pub(super) async fn load_values(
    app: &ServerApp,
    agent: &Agent,
    thread: &ThreadKey,
    at: Option<Seq>,
) -> Result<(Value, Vec<String>), ApiError> {
    let view = app.runtime.view(&agent.name, thread, at).await.map_err(|error| match error {
        // The graph became another one under the same name.
        EngineError::StateMismatch { .. } => ApiError::from(error).under_code(ApiErrorCode::Conflict),
        other => other.into(),
    })?;
    Ok((state_to_json(agent, view.state), view.next))
}

/// What may follow the path of a state.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StateQuery {
    /// Whether the states of graphs inside nodes are wanted. They are not kept.
    #[serde(default)]
    subgraphs: Option<bool>,
}

/// `GET /threads/{thread}/state`
pub(super) async fn get_state(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<StateQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let StateQuery { subgraphs } =
        query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    reject_subgraphs(subgraphs)?;
    Ok(json_response(thread_state(&app, &row).await?.unwrap_or_else(LangGraphState::empty)))
}

/// `GET /threads/{thread}/state/{checkpoint}`
pub(super) async fn get_state_at(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    ids: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<StateQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (thread, checkpoint) = path_value(ids)?;
    let StateQuery { subgraphs } =
        query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    reject_subgraphs(subgraphs)?;
    let row = load_thread(&app, &caller, &thread).await?;
    Ok(json_response(state_at(&app, &row, parse_checkpoint(&checkpoint)?).await?))
}

/// A checkpoint whose state is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StateAtBody {
    /// The checkpoint.
    checkpoint: CheckpointBody,
    /// Whether the states of graphs inside nodes are wanted. They are not kept.
    #[serde(default)]
    subgraphs: Option<bool>,
}

/// `POST /threads/{thread}/state/checkpoint`
pub(super) async fn post_state_at(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let body: StateAtBody = read_body(request, &app).await?;
    reject_subgraphs(body.subgraphs)?;
    let shown = match body.checkpoint.read(row.key.thread.as_str())? {
        Some(checkpoint) => state_at(&app, &row, checkpoint).await?,
        None => thread_state(&app, &row).await?.unwrap_or_else(LangGraphState::empty),
    };
    Ok(json_response(shown))
}

fn reject_subgraphs(subgraphs: Option<bool>) -> Result<(), ApiError> {
    if subgraphs == Some(true) {
        return Err(invalid(
            "`subgraphs` is not supported: states of graphs inside nodes are not kept",
            "`subgraphs`는 지원하지 않습니다. 노드 안의 그래프의 상태는 저장하지 않습니다",
        ));
    }
    Ok(())
}

async fn state_at(
    app: &ServerApp,
    row: &ThreadRow,
    checkpoint: CheckpointId,
) -> Result<LangGraphState, ApiError> {
    let tree = load_checkpoints(app, &row.key, None).await?;
    let here = tree.find(checkpoint).ok_or(ApiErrorCode::NotFound)?;
    load_checkpoint_state(app, row, &tree, here).await
}

/// Which states of a thread are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HistoryBody {
    /// The maximum number, from 1 to 1000. The default is 1.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Only states before this checkpoint.
    before: Option<BeforeBody>,
    /// Only states whose metadata has these pairs.
    metadata: Option<Map<String, Value>>,
    /// Only the states that lead to this checkpoint.
    checkpoint: Option<CheckpointBody>,
}

/// A checkpoint, as clients name one to page on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum BeforeBody {
    /// Its id.
    Id(String),
    /// Its name.
    Checkpoint(CheckpointBody),
    /// Its name in a configuration.
    Config {
        /// The configuration.
        configurable: CheckpointBody,
    },
}

/// `POST /threads/{thread}/history`
pub(super) async fn post_history(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let body: HistoryBody = read_body(request, &app).await?;
    Ok(json_response(history(&app, &row, body).await?))
}

/// What may follow the path of a history.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default)]
    limit: Option<usize>,
    /// Only states before the checkpoint with this id.
    #[serde(default)]
    before: Option<String>,
}

/// `GET /threads/{thread}/history`
pub(super) async fn get_history(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let query = query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let body = HistoryBody {
        limit: Some(query.limit.unwrap_or(10)),
        before: query.before.map(BeforeBody::Id),
        ..HistoryBody::default()
    };
    Ok(json_response(history(&app, &row, body).await?))
}

/// The states of a thread, newest first.
async fn history(
    app: &ServerApp,
    row: &ThreadRow,
    body: HistoryBody,
) -> Result<Vec<LangGraphState>, ApiError> {
    let thread = row.key.thread.as_str();
    let until = body.checkpoint.map(|checkpoint| checkpoint.read(thread)).transpose()?.flatten();
    let before = match body.before {
        Some(BeforeBody::Id(id)) => Some(parse_checkpoint(&id)?),
        Some(BeforeBody::Checkpoint(checkpoint) | BeforeBody::Config { configurable: checkpoint }) => {
            checkpoint.read(thread)?
        }
        None => None,
    };
    let tree = load_checkpoints(app, &row.key, None).await?;
    let until = match until {
        Some(until) => Some(tree.find(until).ok_or(ApiErrorCode::NotFound)?),
        None => None,
    };
    let wanted = body.metadata.unwrap_or_default();
    let limit = page_size(body.limit, 1)?;
    let (mut states, mut unread) = (Vec::new(), None);
    for here in tree.newest_first() {
        if states.len() == limit {
            break;
        }
        let is_wanted = before.is_none_or(|before| here.id < before)
            && until.is_none_or(|until| tree.leads_to(here, until))
            && here.run.is_none_or(|run| !is_rolled_back(row, run));
        if !is_wanted {
            continue;
        }
        match load_checkpoint_state(app, row, &tree, here).await {
            Ok(state) => states.extend(Some(state).filter(|state| state.has_metadata(&wanted))),
            // The log was cleared.
            Err(error) if error.code == ApiErrorCode::NotFound => {}
            // Other graphs may have run on the thread too.
            Err(error) if [ApiErrorCode::UnknownAgent, ApiErrorCode::Conflict].contains(&error.code) => {
                unread.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match unread {
        Some(error) if states.is_empty() => Err(error),
        _ => Ok(states),
    }
}

async fn load_checkpoint_state(
    app: &ServerApp,
    row: &ThreadRow,
    tree: &CheckpointTree,
    here: &Checkpoint,
) -> Result<LangGraphState, ApiError> {
    let agent = checkpoint_agent(app, row, tree, here).await?;
    let agent = agent.ok_or_else(|| graph_gone(here.graph.as_deref()))?;
    LangGraphState::load(app, &agent, &row.key, tree, here).await
}

/// A change of a state.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateStateBody {
    /// The changes, as if a node had made them.
    #[serde(default)]
    values: Option<Map<String, Value>>,
    /// The node that is taken to have made them: the thread goes on after it.
    #[serde(default)]
    as_node: Option<String>,
    /// The checkpoint that is changed. The default is the newest.
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    /// The same by its id.
    #[serde(default)]
    checkpoint_id: Option<String>,
}

/// Where the change of a state is.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StateUpdated {
    /// The new checkpoint.
    checkpoint: CheckpointRef,
    /// The same, as a configuration.
    configurable: CheckpointRef,
    /// Its id.
    checkpoint_id: String,
}

/// `POST /threads/{thread}/state`
pub(super) async fn update_state(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let body: UpdateStateBody = read_body(request, &app).await?;
    let tree = load_checkpoints(&app, &row.key, None).await?;
    let named =
        body.checkpoint.map(|checkpoint| checkpoint.read(row.key.thread.as_str())).transpose()?.flatten();
    let named = match (named, body.checkpoint_id.as_deref()) {
        (None, Some(id)) => Some(parse_checkpoint(id)?),
        (named, _) => named,
    };
    let changed = match named {
        Some(named) => Some(tree.find(named).ok_or(ApiErrorCode::NotFound)?),
        None => tree.newest(),
    };
    let agent = match changed {
        Some(changed) => checkpoint_agent(&app, &row, &tree, changed).await?,
        None => thread_agent(&app, &row).await?,
    };
    let agent = agent.ok_or_else(|| {
        invalid(
            "nothing ran on the thread yet, or its graph is not served: it takes no `values`",
            "이 대화에서 아직 아무것도 실행하지 않았거나 그 그래프를 더는 쓸 수 없어 `values`를 받지 않습니다",
        )
    })?;
    let at = match named {
        // A run that waits there goes on waiting.
        Some(newest) if stands_at(&app, &row.key, newest).await? => None,
        Some(CheckpointId { seq, is_after: true }) => Some(seq),
        Some(CheckpointId { is_after: false, .. }) => {
            return Err(invalid(
                "`checkpoint` is one before an input; change the one before it",
                "`checkpoint`가 입력 앞의 체크포인트입니다. 그 앞의 것을 바꾸세요",
            ));
        }
        None => None,
    };
    let update = update_from_json(&agent, "values", body.values.unwrap_or_default().into())?;
    let edit = StateEdit {
        update: Some(update),
        as_node: body.as_node,
        cancel_paused: true,
        ..StateEdit::default()
    };
    let seq = app.runtime.edit(&agent.name, &row.key, at, &edit).await.map_err(state_error)?;
    let checkpoint = CheckpointRef::new(&row.key, CheckpointId { seq, is_after: true });
    let checkpoint_id = CheckpointId { seq, is_after: true }.to_text();
    Ok(json_response(StateUpdated { configurable: checkpoint.clone(), checkpoint, checkpoint_id }))
}
