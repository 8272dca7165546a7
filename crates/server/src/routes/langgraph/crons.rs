//! Crons: runs that are started again and again, by the engine's schedules.
//!
//! A cron is a schedule that has its request in the server's part of its metadata. Schedules without one are those of programs.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_engine::runtime::{MissedTimes, Schedule, ScheduleDefinition, ScheduleTiming};
use doran_engine::store::MAX_SCHEDULES_PER_TENANT;
use doran_engine::{EngineError, MisuseError, TenantId, ThreadId, ThreadKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::assistants::find_assistant;
use super::metadata::{DORAN_METADATA, check_metadata, has_pairs, hidden_metadata};
use super::run_events::StreamMode;
use super::run_request::{
    MultitaskStrategy, OnCompletion, OneOrMany, RunConfig, RunSettings, StepDurability,
};
use super::start_run::{graph_input, named_assistant, run_limits};
use super::store_items::item_error;
use super::times::{parse_time, time_text};
use super::{
    FOUND, SortOrder, check_select, invalid, list_response, load_thread, operation, page_size, read_body,
    read_fields, select_fields,
};
use crate::ServerApp;
use crate::agent_request::{self, KEY_METADATA};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{ApiRoute, json_response, path_value};
use crate::stored_json::read_stored;

/// The most bytes of the request of a cron. Each of its runs has it in its metadata.
const MAX_CRON_BYTES: usize = 64 * 1024;
/// The fields of a cron that can be chosen.
const CRON_FIELDS: [&str; 14] = [
    "cron_id",
    "assistant_id",
    "thread_id",
    "on_run_completed",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "user_id",
    "payload",
    "next_run_date",
    "metadata",
    "enabled",
];
/// Schedules that are read in one go.
const SCHEDULES_PER_PAGE: usize = 500;
/// The time zone of crons that name none.
const DEFAULT_TIME_ZONE: &str = "UTC";

pub(super) fn routes() -> Vec<ApiRoute> {
    let stored = [ApiErrorCode::NotFound, ApiErrorCode::DiskFull];
    vec![
        ApiRoute::post(
            "/runs/crons",
            create_cron,
            operation("langgraph_create_cron", "Starts a run on a new thread again and again.")
                .body::<CronBody>()
                .returns::<LangGraphCron>(200, "The cron.")
                .errors(&stored),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs/crons",
            create_thread_cron,
            operation("langgraph_create_thread_cron", "Starts a run on a thread again and again.")
                .body::<CronBody>()
                .returns::<LangGraphCron>(200, "The cron.")
                .errors(&stored),
        ),
        ApiRoute::post(
            "/runs/crons/search",
            search_crons,
            operation("langgraph_search_crons", "Lists crons.").body::<SearchCronsBody>().returns::<Vec<
                Map<String, Value>,
            >>(
                200, "The crons."
            ),
        ),
        ApiRoute::post(
            "/runs/crons/count",
            count_crons,
            operation("langgraph_count_crons", "Counts crons.")
                .body::<CountCronsBody>()
                .returns::<usize>(200, "How many there are."),
        ),
        ApiRoute::get(
            "/runs/crons/{cron}",
            get_cron,
            operation("langgraph_get_cron", "Returns a cron.")
                .returns::<LangGraphCron>(200, "The cron.")
                .errors(&FOUND),
        ),
        ApiRoute::patch(
            "/runs/crons/{cron}",
            update_cron,
            operation("langgraph_update_cron", "Changes a cron.")
                .body::<UpdateCronBody>()
                .returns::<LangGraphCron>(200, "The cron.")
                .errors(&stored),
        ),
        ApiRoute::delete(
            "/runs/crons/{cron}",
            delete_cron,
            operation("langgraph_delete_cron", "Deletes a cron. Runs that it started stay.")
                .returns_nothing("It is deleted.")
                .errors(&FOUND),
        ),
    ]
}

/// A cron as LangGraph's clients read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LangGraphCron {
    /// The id of the cron.
    cron_id: String,
    /// The assistant of its runs.
    assistant_id: String,
    /// The thread of its runs. Without it each has a thread of its own.
    thread_id: Option<String>,
    /// What happens to the threads of its runs. They are kept.
    on_run_completed: Option<&'static str>,
    /// The time after which it starts no run.
    end_time: Option<String>,
    /// Five fields: minute, hour, day of month, month, day of week.
    schedule: String,
    /// The time zone of these. The default is UTC.
    timezone: Option<String>,
    /// When it was made.
    created_at: String,
    /// When it was last changed, or started a run.
    updated_at: String,
    /// The request that made it.
    payload: Map<String, Value>,
    /// Always `null`: what belongs to a tenant belongs to all of its keys.
    user_id: Option<String>,
    /// When it starts the next run.
    next_run_date: Option<String>,
    /// Free pairs, of the cron and of its runs.
    metadata: Map<String, Value>,
    /// Whether it starts runs.
    enabled: bool,
    /// Why its request cannot be read. It starts runs all the same and can be deleted. Absent if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What the server notes with a schedule that is a cron.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CronNote {
    assistant_id: String,
    enabled: bool,
    payload: Map<String, Value>,
}

impl CronNote {
    /// The note of a schedule; none where it is not a cron.
    fn read(schedule: &Schedule) -> Result<Option<Self>, ApiError> {
        let note = schedule.definition.metadata.get(DORAN_METADATA).and_then(|doran| doran.get("cron"));
        read_stored(note, &format!("cron `{}`", schedule.id))
    }
}

impl LangGraphCron {
    /// The cron of a schedule; none where it is not one.
    fn read(schedule: &Schedule) -> Result<Option<Self>, ApiError> {
        Ok(CronNote::read(schedule)?.and_then(|note| Self::with_note(schedule, note)))
    }

    /// The same for a list. One that cannot be read is listed with the error, and takes no other one along.
    fn read_for_list(schedule: &Schedule) -> Option<Self> {
        Self::read(schedule).unwrap_or_else(|error| {
            let (assistant_id, payload) = (String::new(), Map::new());
            let note = CronNote { assistant_id, enabled: schedule.next_at.is_some(), payload };
            let error = error.to_json()["detail"].as_str().map(str::to_owned);
            Some(Self { error, ..Self::with_note(schedule, note)? })
        })
    }

    fn with_note(schedule: &Schedule, note: CronNote) -> Option<Self> {
        let CronNote { assistant_id, enabled, payload } = note;
        let ScheduleDefinition { timing, thread, until, metadata, .. } = &schedule.definition;
        let ScheduleTiming::Cron { expression, .. } = timing else { return None };
        Some(Self {
            cron_id: schedule.id.clone(),
            assistant_id,
            thread_id: thread.as_ref().map(|thread| thread.as_str().to_owned()),
            on_run_completed: thread.is_none().then_some("keep"),
            end_time: until.map(time_text),
            schedule: expression.clone(),
            timezone: payload.get("timezone").and_then(Value::as_str).map(str::to_owned),
            created_at: time_text(schedule.created_at),
            updated_at: time_text(schedule.updated_at),
            payload,
            user_id: None,
            next_run_date: schedule.next_at.map(time_text),
            metadata: hidden_metadata(metadata),
            enabled,
            error: None,
        })
    }
}

/// A cron to make.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CronBody {
    /// The id of an assistant, or the name of its graph.
    assistant_id: String,
    /// Five fields: minute, hour, day of month, month, day of week.
    schedule: String,
    /// The name of the time zone of these, such as `Asia/Seoul`. The default is `UTC`.
    #[serde(default)]
    timezone: Option<String>,
    /// The values that each run starts with.
    #[serde(default)]
    input: Option<Value>,
    /// Free pairs, of the cron and of its runs.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    /// Settings of its runs.
    #[serde(default)]
    config: Option<RunConfig>,
    /// Values that all nodes of its runs can read.
    #[serde(default)]
    context: Option<Map<String, Value>>,
    /// The time after which it starts no run, such as `2026-12-24T18:00:00+09:00`.
    #[serde(default)]
    end_time: Option<String>,
    /// Whether it starts runs. The default is `true`.
    #[serde(default)]
    enabled: Option<bool>,
    /// What happens to the threads of its runs: `keep`, the default.
    #[serde(default)]
    on_run_completed: Option<OnCompletion>,
    /// What happens when the thread has a run already.
    #[serde(default)]
    multitask_strategy: Option<MultitaskStrategy>,
    /// What is streamed to those who join its runs. The default is `values`.
    #[serde(default)]
    stream_mode: Option<OneOrMany<StreamMode>>,
    /// Whether `custom` events are stored: only `false`, the default. All other events always are.
    #[serde(default)]
    stream_resumable: Option<bool>,
    /// When a step is stored. Both values behave alike: Doran stores a step before it sends it.
    #[serde(default)]
    #[allow(dead_code, reason = "what is stored is no less durable than either")]
    durability: Option<StepDurability>,
}

/// `POST /runs/crons`
pub(super) async fn create_cron(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let payload: Map<String, Value> = read_body(request, &app).await?;
    create(&app, &caller, None, payload).await
}

/// `POST /threads/{thread}/runs/crons`
pub(super) async fn create_thread_cron(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let thread = load_thread(&app, &caller, &path_value(id)?).await?.key.thread;
    let payload: Map<String, Value> = read_body(request, &app).await?;
    create(&app, &caller, Some(thread), payload).await
}

async fn create(
    app: &ServerApp,
    caller: &ApiCaller,
    thread: Option<ThreadId>,
    payload: Map<String, Value>,
) -> Result<Response, ApiError> {
    let id = uuid::Uuid::now_v7().to_string();
    Ok(json_response(put_cron(app, caller, &id, thread, payload).await?))
}

/// Stores the schedule of a cron. Its runs are those of the caller's key.
async fn put_cron(
    app: &ServerApp,
    caller: &ApiCaller,
    id: &str,
    thread: Option<ThreadId>,
    mut payload: Map<String, Value>,
) -> Result<LangGraphCron, ApiError> {
    let body: CronBody = read_fields(&payload)?;
    check_cron(&body, thread.is_some())?;
    if json!(payload).to_string().len() > MAX_CRON_BYTES {
        return Err(invalid(
            &format!("the request of a cron has at most {MAX_CRON_BYTES} bytes"),
            &format!("크론 요청은 {MAX_CRON_BYTES}바이트를 넘을 수 없습니다"),
        ));
    }
    let anywhere = thread.clone().unwrap_or_else(ThreadId::random);
    let anywhere = ThreadKey { tenant: caller.tenant.clone(), thread: anywhere };
    let assistant = named_assistant(app, &anywhere, &body.assistant_id).await?;
    let agent = agent_request::find_agent(app, &assistant.graph_id)?;
    let settings = RunSettings::merge(&assistant, body.config.as_ref(), body.context.as_ref())?;
    let until = body.end_time.as_deref().map(|text| {
        parse_time(text).ok_or_else(|| {
            invalid(
                "`end_time` is not a time such as `2026-12-24T18:00:00+09:00`",
                "`end_time`은 `2026-12-24T18:00:00+09:00`과 같은 시각입니다",
            )
        })
    });
    let enabled = body.enabled.unwrap_or(true);
    payload.insert("assistant_id".to_owned(), assistant.assistant_id.as_str().into());
    let note = CronNote { assistant_id: assistant.assistant_id.clone(), enabled, payload };
    let strategy = body.multitask_strategy.unwrap_or_default();
    let modes = body.stream_mode.clone().map(OneOrMany::into_vec).unwrap_or_default();
    let mut metadata = body.metadata.clone().unwrap_or_default();
    let doran = json!({
        "cron": note, "multitask_strategy": strategy, "stream_mode": modes, "settings": settings.digest(),
        KEY_METADATA: caller.key.as_deref(),
    });
    metadata.insert(DORAN_METADATA.to_owned(), doran);
    let input = match body.input {
        Some(input) => Some(graph_input(app, &anywhere, &agent, input).await?),
        None => None,
    };
    let time_zone = body.timezone.unwrap_or_else(|| DEFAULT_TIME_ZONE.to_owned());
    let definition = ScheduleDefinition {
        timing: ScheduleTiming::Cron { expression: body.schedule, time_zone },
        graph: agent.name.clone(),
        thread,
        input,
        if_busy: strategy.if_busy(),
        missed: MissedTimes::StartOne,
        until: until.transpose()?,
        metadata,
        limits: run_limits(app, settings.recursion_limit),
        context: settings.context,
    };
    let stored =
        app.runtime.put_schedule(&caller.tenant, id, &definition, enabled).await.map_err(schedule_error)?;
    LangGraphCron::read(&stored)?.ok_or_else(|| ApiErrorCode::Internal.into())
}

/// Refuses what a cron cannot do.
fn check_cron(body: &CronBody, has_thread: bool) -> Result<(), ApiError> {
    if has_thread && body.on_run_completed.is_some() {
        return Err(invalid(
            "`on_run_completed` is for crons without a thread",
            "`on_run_completed`은 대화가 없는 크론에만 씁니다",
        ));
    }
    if body.on_run_completed == Some(OnCompletion::Delete) {
        return Err(invalid(
            "`on_run_completed`: only `keep` is supported, as the runs of a cron would leave no trace",
            "`on_run_completed`은 `keep`만 지원합니다. 지우면 크론의 실행이 흔적을 남기지 않습니다",
        ));
    }
    if body.stream_resumable == Some(true) {
        return Err(invalid(
            "`stream_resumable`: the `custom` events of the runs of a cron are not stored",
            "`stream_resumable`: 크론이 시작한 실행의 `custom` 이벤트는 저장하지 않습니다",
        ));
    }
    if !has_thread && body.input.is_none() {
        return Err(invalid(
            "`input` is missing, and nothing is due on a new thread",
            "`input`이 없습니다. 새 대화에는 할 일이 없습니다",
        ));
    }
    check_metadata(&body.metadata.clone().unwrap_or_default())
}

fn schedule_error(error: EngineError) -> ApiError {
    let error = match error {
        error @ EngineError::Store(_) => return item_error(error),
        EngineError::Misuse(MisuseError::BadSchedule(why)) => {
            return invalid(
                &format!("`schedule`: {why}"),
                &format!("`schedule`: 쓸 수 없는 일정입니다 ({why})"),
            );
        }
        EngineError::Misuse(MisuseError::BadTimeZone(name)) => {
            return invalid(
                &format!("`timezone`: `{name}` is not a time zone: use a name such as `Asia/Seoul`"),
                &format!("`timezone`: `{name}`이라는 시간대가 없습니다. 예: `Asia/Seoul`"),
            );
        }
        error => ApiError::from(error),
    };
    if error.code == ApiErrorCode::BadInput { error.under_code(ApiErrorCode::Invalid) } else { error }
}

/// The crons of a tenant, the last made first.
async fn list_crons(app: &ServerApp, tenant: &TenantId) -> Result<Vec<LangGraphCron>, ApiError> {
    let (mut found, mut after): (Vec<LangGraphCron>, Option<String>) = (Vec::new(), None);
    // No tenant has more.
    for _ in 0..=MAX_SCHEDULES_PER_TENANT / SCHEDULES_PER_PAGE as u64 {
        let page = app.runtime.list_schedules(tenant, after.as_deref(), SCHEDULES_PER_PAGE).await?;
        found.extend(page.iter().filter_map(LangGraphCron::read_for_list));
        after = page.last().map(|last| last.id.clone());
        if page.len() < SCHEDULES_PER_PAGE {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

/// Deletes the crons of an assistant.
pub(super) async fn delete_assistant_crons(
    app: &ServerApp,
    tenant: &TenantId,
    assistant: &str,
) -> Result<(), ApiError> {
    delete_crons(app, tenant, |cron| cron.assistant_id == assistant).await
}

/// Deletes the crons of a thread, which would make it anew.
pub(in crate::routes) async fn delete_thread_crons(
    app: &ServerApp,
    thread: &ThreadKey,
) -> Result<(), ApiError> {
    let id = thread.thread.as_str();
    delete_crons(app, &thread.tenant, |cron| cron.thread_id.as_deref() == Some(id)).await
}

async fn delete_crons(
    app: &ServerApp,
    tenant: &TenantId,
    is_meant: impl Fn(&LangGraphCron) -> bool,
) -> Result<(), ApiError> {
    for cron in list_crons(app, tenant).await?.iter().filter(|cron| is_meant(cron)) {
        app.runtime.delete_schedule(tenant, &cron.cron_id).await?;
    }
    Ok(())
}

async fn load_schedule(app: &ServerApp, tenant: &TenantId, id: &str) -> Result<Schedule, ApiError> {
    let id = uuid::Uuid::parse_str(id)
        .map_err(|_| invalid("the cron id is not a UUID", "크론의 id가 UUID가 아닙니다"))?;
    let schedule = app.runtime.schedule(tenant, &id.to_string()).await?;
    schedule.ok_or_else(|| ApiErrorCode::NotFound.into())
}

async fn load_cron(app: &ServerApp, tenant: &TenantId, id: &str) -> Result<LangGraphCron, ApiError> {
    let schedule = load_schedule(app, tenant, id).await?;
    LangGraphCron::read(&schedule)?.ok_or_else(|| ApiErrorCode::NotFound.into())
}

/// Which crons are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchCronsBody {
    /// Only those of this assistant.
    assistant_id: Option<String>,
    /// Only those of this thread.
    thread_id: Option<String>,
    /// Only those that start runs, or that do not.
    enabled: Option<bool>,
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
    /// By what they are sorted. The default is `created_at`.
    sort_by: Option<CronOrder>,
    /// Which of them comes first. The default is `desc`.
    sort_order: Option<SortOrder>,
    /// Fields to return. The default is all.
    select: Option<Vec<String>>,
}

/// By what crons are sorted.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CronOrder {
    /// Their ids.
    CronId,
    /// Their assistants.
    AssistantId,
    /// Their threads.
    ThreadId,
    /// When they start the next run.
    NextRunDate,
    /// When they end.
    EndTime,
    /// When they were made.
    CreatedAt,
    /// When they last changed.
    UpdatedAt,
}

impl SearchCronsBody {
    fn fits(&self, cron: &LangGraphCron) -> bool {
        self.assistant_id.as_ref().is_none_or(|id| *id == cron.assistant_id)
            && self.thread_id.as_ref().is_none_or(|id| cron.thread_id.as_ref() == Some(id))
            && self.enabled.is_none_or(|enabled| enabled == cron.enabled)
            && self.metadata.as_ref().is_none_or(|wanted| has_pairs(&cron.metadata, wanted))
    }
}

/// `POST /runs/crons/search`
pub(super) async fn search_crons(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: SearchCronsBody = read_body(request, &app).await?;
    check_select(body.select.as_deref(), &CRON_FIELDS)?;
    let (offset, limit) = (body.offset.unwrap_or(0), page_size(body.limit, 10)?);
    let mut found = list_crons(&app, &caller.tenant).await?;
    found.retain(|cron| body.fits(cron));
    let key = |cron: &LangGraphCron| match body.sort_by.unwrap_or(CronOrder::CreatedAt) {
        CronOrder::CronId => Some(cron.cron_id.clone()),
        CronOrder::AssistantId => Some(cron.assistant_id.clone()),
        CronOrder::ThreadId => cron.thread_id.clone(),
        CronOrder::NextRunDate => cron.next_run_date.clone(),
        CronOrder::EndTime => cron.end_time.clone(),
        CronOrder::CreatedAt => Some(cron.created_at.clone()),
        CronOrder::UpdatedAt => Some(cron.updated_at.clone()),
    };
    // The ids of crons that were made in the same moment are in the order in which they were made.
    found.sort_by_cached_key(|cron| (key(cron), cron.cron_id.clone()));
    if body.sort_order.unwrap_or_default() == SortOrder::Desc {
        found.reverse();
    }
    let total = found.len();
    let page: Vec<Value> = found
        .iter()
        .skip(offset)
        .take(limit)
        .map(|cron| select_fields(cron, body.select.as_deref()))
        .collect();
    let next = offset.saturating_add(page.len());
    Ok(list_response(&page, Some(total), (next < total).then_some(next)))
}

/// Which crons are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CountCronsBody {
    /// Only those of this assistant.
    assistant_id: Option<String>,
    /// Only those of this thread.
    thread_id: Option<String>,
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
}

/// `POST /runs/crons/count`
pub(super) async fn count_crons(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let CountCronsBody { assistant_id, thread_id, metadata } = read_body(request, &app).await?;
    let wanted = SearchCronsBody { assistant_id, thread_id, metadata, ..SearchCronsBody::default() };
    let found = list_crons(&app, &caller.tenant).await?;
    Ok(json_response(found.iter().filter(|cron| wanted.fits(cron)).count()))
}

/// `GET /runs/crons/{cron}`
pub(super) async fn get_cron(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(load_cron(&app, &caller.tenant, &path_value(id)?).await?))
}

/// A change of a cron: fields of the request that made it. `end_time` may be `null`, which removes it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct UpdateCronBody(Map<String, Value>);

/// `PATCH /runs/crons/{cron}`
pub(super) async fn update_cron(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let cron = load_cron(&app, &caller.tenant, &path_value(id)?).await?;
    let UpdateCronBody(mut changes) = read_body(request, &app).await?;
    if changes.is_empty() {
        return Err(invalid("nothing is to be changed", "바꿀 것이 없습니다"));
    }
    if changes.contains_key("assistant_id") {
        return Err(invalid(
            "`assistant_id` of a cron cannot be changed",
            "크론의 `assistant_id`는 바꿀 수 없습니다",
        ));
    }
    // Pairs are set beside those that are there.
    if let Some(Value::Object(pairs)) = changes.get_mut("metadata") {
        let mut metadata = cron.metadata.clone();
        metadata.append(pairs);
        *pairs = metadata;
    }
    let mut payload = cron.payload;
    payload.extend(changes);
    let thread = cron.thread_id.as_deref().map(ThreadId::new).transpose().map_err(EngineError::from)?;
    // Its assistant may be gone.
    if find_assistant(&app, &caller.tenant, &cron.assistant_id).await?.is_none() {
        return Err(ApiErrorCode::NotFound.into());
    }
    Ok(json_response(put_cron(&app, &caller, &cron.cron_id, thread, payload).await?))
}

/// `DELETE /runs/crons/{cron}`
pub(super) async fn delete_cron(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let schedule = load_schedule(&app, &caller.tenant, &path_value(id)?).await?;
    // One that cannot be read can be deleted.
    let Some(cron) = LangGraphCron::read_for_list(&schedule) else {
        return Err(ApiErrorCode::NotFound.into());
    };
    app.runtime.delete_schedule(&caller.tenant, &cron.cron_id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
