//! Evaluations: sets of questions with expected answers. A key reads those of its tenant; an administrator changes and
//! runs them, because that writes files and costs money.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::eval::{AgentEvalSetError, EvalSetText};

use super::{ApiRoute, json_response, path_value};
use crate::ServerApp;
use crate::api::{EvalCaseInfo, EvalRunInfo, EvalSetInfo, EvalSetList, EvalSetSummary, StartEvalRun};
use crate::authentication::{AdminCaller, ApiCaller};
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::eval_runs::RequestedEval;
use crate::eval_store::{EvalStore, EvalStoreError};
use crate::openapi::{Operation, OperationTag};
use crate::request_body;
use crate::thread_settings::{MAX_INSTRUCTIONS_CHARS, check_model_option};

/// The most characters of the name of a set or a case.
const MAX_SET_NAME_CHARS: usize = 40;
const MAX_CASE_ID_CHARS: usize = 100;
/// The most sets of a tenant, cases of a set and bytes of its file.
const MAX_SETS: usize = 50;
const MAX_CASES: usize = 200;
const MAX_SET_BYTES: usize = 1024 * 1024;
/// The most variants of a run.
const MAX_VARIANTS: usize = 8;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| {
        Operation::new(OperationTag::Evals, id, summary)
            .errors(&[ApiErrorCode::NotFound, ApiErrorCode::BadInput])
    };
    let admin =
        |id, summary| operation(id, summary).errors(&[ApiErrorCode::AdminOnly, ApiErrorCode::Conflict]);
    vec![
        ApiRoute::get(
            "/api/evals",
            list_sets,
            operation("list_evals", "Lists the evaluations.").returns::<EvalSetList>(200, "The evaluations."),
        ),
        ApiRoute::get(
            "/api/evals/{set}",
            get_set,
            operation("get_eval", "Returns the cases of an evaluation and its last reports.")
                .returns::<EvalSetInfo>(200, "The evaluation."),
        ),
        ApiRoute::delete(
            "/api/evals/{set}",
            delete_set,
            admin("delete_eval", "Deletes an evaluation with its reports.")
                .returns_nothing("The evaluation was deleted."),
        ),
        ApiRoute::put(
            "/api/evals/{set}/cases/{case}",
            put_case,
            admin(
                "put_eval_case",
                "Adds a case or replaces it. A new evaluation begins with its first case.",
            )
            .body::<EvalCaseInfo>()
            .returns_nothing("The case was stored."),
        ),
        ApiRoute::delete(
            "/api/evals/{set}/cases/{case}",
            delete_case,
            admin("delete_eval_case", "Deletes a case. The last one takes the evaluation with it.")
                .returns_nothing("The case was deleted."),
        ),
        ApiRoute::put(
            "/api/evals/{set}/run",
            start_run,
            admin(
                "start_eval_run",
                "Asks every question of an evaluation, once for each variant, in the background.",
            )
            .body::<StartEvalRun>()
            .returns::<EvalRunInfo>(202, "The run was started."),
        ),
        ApiRoute::delete(
            "/api/evals/{set}/run",
            stop_run,
            admin("stop_eval_run", "Stops the run of an evaluation.")
                .returns_nothing("The run was told to stop."),
        ),
    ]
}

/// `GET /api/evals`
async fn list_sets(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
) -> Result<Response, ApiError> {
    let Some(store) = &app.evals else {
        return Ok(json_response(EvalSetList { sets: Vec::new(), may_change: false }));
    };
    let mut sets = Vec::new();
    for name in store.names(&caller.tenant).await?.into_iter().take(MAX_SETS) {
        sets.push(summarize(store.as_ref(), &caller, name).await?);
    }
    Ok(json_response(EvalSetList { sets, may_change: caller.is_admin }))
}

async fn summarize(
    store: &dyn EvalStore,
    caller: &ApiCaller,
    name: String,
) -> Result<EvalSetSummary, ApiError> {
    let text = store.read(&caller.tenant, &name).await?.map(|stored| stored.text).unwrap_or_default();
    let (cases, problem) = match EvalSetText::read(&text) {
        Ok(read) => (read.set().cases.len(), None),
        Err(error) => (0, Some(error.to_string())),
    };
    let last = store.newest_report(&caller.tenant, &name).await?;
    let (passed, ended_at) = (last.as_ref().map(|one| one.passed_count()), last.map(|one| one.ended_at));
    Ok(EvalSetSummary { name, cases, passed, ended_at, problem })
}

/// `GET /api/evals/{set}`
async fn get_set(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let name = set_name(path_value(name)?)?;
    let store = eval_store(&app)?;
    let (set, _) = read_set(store.as_ref(), &caller, &name).await?.ok_or(ApiErrorCode::NotFound)?;
    let reports = store.reports(&caller.tenant, &name).await?;
    Ok(json_response(EvalSetInfo {
        documents: set.set().documents,
        cases: set.set().cases.iter().map(EvalCaseInfo::from_case).collect(),
        reports,
        run: app.eval_runs.of_set(store.as_ref(), &caller.tenant, &name).await?,
        may_change: caller.is_admin,
        name,
    }))
}

/// `DELETE /api/evals/{set}`
async fn delete_set(
    State(app): State<ServerApp>,
    _: AdminCaller,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let name = set_name(path_value(name)?)?;
    let store = eval_store(&app)?;
    if store.read(&caller.tenant, &name).await?.is_none() {
        return Err(ApiErrorCode::NotFound.into());
    }
    app.eval_runs.stop(&caller.tenant, &name).await?;
    store.remove(&caller.tenant, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `PUT /api/evals/{set}/cases/{case}`
async fn put_case(
    State(app): State<ServerApp>,
    _: AdminCaller,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let (name, id) = path_value(names)?;
    let name = set_name(name)?;
    let store = eval_store(&app)?;
    let (info, _): (EvalCaseInfo, _) = request_body::read_json(request, &app.limits).await?;
    check_case(&app, &info)?;
    loop {
        let stored = read_set(store.as_ref(), &caller, &name).await?;
        let changed = match &stored {
            Some((set, _)) => {
                let replaced = set.set().cases.iter().find(|case| case.id == id);
                if replaced.is_none() && set.set().cases.len() >= MAX_CASES {
                    return Err(bad_input(
                        format!("an evaluation has at most {MAX_CASES} cases"),
                        format!("평가 하나에는 사례가 {MAX_CASES}개까지입니다"),
                    ));
                }
                set.put_case(&id, &info.clone().into_case(replaced))
            }
            None if store.names(&caller.tenant).await?.len() >= MAX_SETS => {
                return Err(bad_input(
                    format!("there are at most {MAX_SETS} evaluations"),
                    format!("평가는 {MAX_SETS}개까지입니다"),
                ));
            }
            None => EvalSetText::with_case(&info.clone().into_case(None)),
        };
        let text = changed.map_err(|error| set_error(&error))?.text();
        if text.len() > MAX_SET_BYTES {
            return Err(ApiErrorCode::TooLarge.into());
        }
        // Somebody else may have changed it meanwhile.
        if store.write(&caller.tenant, &name, stored.map(|(_, revision)| revision), &text).await? {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
}

/// `DELETE /api/evals/{set}/cases/{case}`
async fn delete_case(
    State(app): State<ServerApp>,
    _: AdminCaller,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, ApiError> {
    let (name, id) = path_value(names)?;
    let name = set_name(name)?;
    let store = eval_store(&app)?;
    loop {
        let stored = read_set(store.as_ref(), &caller, &name).await?;
        let (set, revision) = stored.ok_or(ApiErrorCode::NotFound)?;
        if !set.set().cases.iter().any(|case| case.id == id) {
            return Err(ApiErrorCode::NotFound.into());
        }
        let is_done = match set.without_case(&id).map_err(|error| set_error(&error))? {
            Some(left) => store.write(&caller.tenant, &name, Some(revision), &left.text()).await?,
            None => {
                app.eval_runs.stop(&caller.tenant, &name).await?;
                store.remove(&caller.tenant, &name).await?;
                true
            }
        };
        if is_done {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
}

/// `PUT /api/evals/{set}/run`
async fn start_run(
    State(app): State<ServerApp>,
    _: AdminCaller,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let name = set_name(path_value(name)?)?;
    let store = eval_store(&app)?;
    let (StartEvalRun { variants }, _) = request_body::read_json(request, &app.limits).await?;
    let is_repeated = variants.iter().enumerate().any(|(at, one)| variants[..at].contains(one));
    if variants.is_empty() || variants.len() > MAX_VARIANTS || is_repeated {
        return Err(bad_input(
            format!("`variants` has 1 to {MAX_VARIANTS} different entries"),
            format!("`variants`에는 서로 다른 값이 1~{MAX_VARIANTS}개 있습니다"),
        ));
    }
    for variant in &variants {
        if let Some(model) = &variant.model {
            check_model_option(&app, model)?;
        }
        let instructions = variant.instructions.as_deref().unwrap_or("-");
        if instructions.trim().is_empty()
            || instructions.chars().count() > MAX_INSTRUCTIONS_CHARS
            || instructions.contains('\0')
        {
            return Err(bad_input(
                format!("`instructions` has 1 to {MAX_INSTRUCTIONS_CHARS} characters and no NUL"),
                format!("`instructions`는 NUL 없이 1~{MAX_INSTRUCTIONS_CHARS}자입니다"),
            ));
        }
    }
    let (set, _) = read_set(store.as_ref(), &caller, &name).await?.ok_or(ApiErrorCode::NotFound)?;
    let eval = RequestedEval {
        tenant: caller.tenant.clone(),
        key: caller.key.clone(),
        name,
        set: set.set().clone(),
        variants,
    };
    let started = app.eval_runs.start(&app, store.clone(), eval).await?;
    let info = started.ok_or_else(|| {
        ApiError::with_message(
            ApiErrorCode::Conflict,
            "another evaluation is under way; stop it or wait for its end",
            "다른 평가가 진행 중입니다. 중지하거나 끝날 때까지 기다리세요",
        )
    })?;
    Ok((StatusCode::ACCEPTED, json_response(info)).into_response())
}

/// `DELETE /api/evals/{set}/run`
async fn stop_run(
    State(app): State<ServerApp>,
    _: AdminCaller,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let name = set_name(path_value(name)?)?;
    eval_store(&app)?;
    match app.eval_runs.stop(&caller.tenant, &name).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(ApiErrorCode::NotFound.into()),
    }
}

fn eval_store(app: &ServerApp) -> Result<&Arc<dyn EvalStore>, ApiError> {
    app.evals.as_ref().ok_or_else(|| ApiErrorCode::NotFound.into())
}

/// A set with the revision of its text.
async fn read_set(
    store: &dyn EvalStore,
    caller: &ApiCaller,
    name: &str,
) -> Result<Option<(EvalSetText, u64)>, ApiError> {
    let Some(stored) = store.read(&caller.tenant, name).await? else { return Ok(None) };
    let set = EvalSetText::read(&stored.text).map_err(|error| set_error(&error))?;
    Ok(Some((set, stored.revision)))
}

/// A name becomes a file name: letters and digits of any language, `-` and `_`.
fn set_name(name: String) -> Result<String, ApiError> {
    let is_plain = |one: char| one.is_alphanumeric() || matches!(one, '-' | '_');
    if !name.is_empty()
        && name.chars().count() <= MAX_SET_NAME_CHARS
        && name.chars().all(is_plain)
        && !name.starts_with('-')
    {
        return Ok(name);
    }
    Err(bad_input(
        format!("the name of an evaluation has 1 to {MAX_SET_NAME_CHARS} letters, digits, `-` and `_`"),
        format!("평가의 이름은 글자, 숫자, `-`, `_` 1~{MAX_SET_NAME_CHARS}자입니다"),
    ))
}

fn check_case(app: &ServerApp, case: &EvalCaseInfo) -> Result<(), ApiError> {
    if case.id.trim().is_empty()
        || case.id.chars().count() > MAX_CASE_ID_CHARS
        || case.id.chars().any(char::is_control)
    {
        return Err(bad_input(
            format!("`id` has 1 to {MAX_CASE_ID_CHARS} characters"),
            format!("`id`는 1~{MAX_CASE_ID_CHARS}자입니다"),
        ));
    }
    let expect = &case.expect;
    let lists = [&expect.contains, &expect.lacks]
        .into_iter()
        .chain([expect.path.as_ref(), expect.tools.as_ref(), expect.sources.as_ref()].into_iter().flatten());
    let texts = lists.flatten().chain(&case.before).chain(&case.fails).chain([&case.ask]);
    if case.ask.trim().is_empty()
        || texts.into_iter().any(|text| text.len() > app.limits.max_message_bytes || text.contains('\0'))
    {
        return Err(bad_input(
            "`ask` is not empty, and no text of a case is longer than a message".into(),
            "`ask`는 비어 있지 않아야 하고, 사례의 글은 메시지보다 길 수 없습니다".into(),
        ));
    }
    if expect.most_cost.is_some_and(|cost| cost < 0.0) {
        return Err(bad_input(
            "`most_cost` is not less than 0".into(),
            "`most_cost`는 0보다 작을 수 없습니다".into(),
        ));
    }
    if app.find_agent(&case.agent).is_none() {
        return Err(ApiErrorCode::UnknownAgent.into());
    }
    Ok(())
}

fn bad_input(en: String, ko: String) -> ApiError {
    ApiError::with_message(ApiErrorCode::BadInput, en, ko)
}

fn set_error(error: &AgentEvalSetError) -> ApiError {
    let en = error.to_string();
    let ko = match error {
        AgentEvalSetError::Unreadable(reason) => format!("평가 파일을 읽을 수 없습니다: {reason}"),
        AgentEvalSetError::Empty => "평가 파일에 `[[case]]`가 없습니다".to_owned(),
        AgentEvalSetError::Case { id, reason } => format!("사례 `{id}`가 맞지 않습니다: {reason}"),
    };
    bad_input(en, ko)
}

impl From<EvalStoreError> for ApiError {
    fn from(error: EvalStoreError) -> Self {
        Self::with_message(ApiErrorCode::Unavailable, error.en, error.ko)
    }
}
