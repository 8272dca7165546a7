//! `POST /api/chat`: one question, one answer, in the JSON that the specification of the `react` agent defines.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use doran_agents::Language;
use doran_agents::agents::react::ReactErrorCode;
use doran_engine::Acknowledgement;
use doran_engine::store::{IfBusy, RunFailure, RunStatus};

use super::spec_body::SpecChatBody;
use super::{ApiRoute, json_response};
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest, RunPlacement, RunStart, WaitingRun};
use crate::api::{ChatAnswer, ChatPause, ChatTurn, ModelErrorAdvice, QuestionInfo, advice};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;

/// The agent that answers when none is named.
const DEFAULT_AGENT: &str = "react";

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::post(
        "/api/chat",
        chat,
        Operation::new(OperationTag::Chat, "chat", "Sends a message and waits for the answer.")
            .description(
                "The agent is `react` unless the body names another. An empty message is answered with `empty_input`. With `504` the run was started and continues in its thread; sending the message again would start another run.",
            )
            .idempotent(IdempotencyEffect::SameRun)
            .body::<SpecChatBody>()
            .returns::<ChatAnswer>(200, "The answer.")
            .errors(&[
                ApiErrorCode::UnknownAgent,
                ApiErrorCode::BudgetSpent,
                ApiErrorCode::Busy,
                ApiErrorCode::NotFinished,
                ApiErrorCode::DiskFull,
            ]),
    )]
}

/// `POST /api/chat`
async fn chat(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let key = idempotency::idempotency_key(request.headers())?;
    let (body, bytes) = request_body::read_json::<SpecChatBody>(request, &app.limits).await?;
    let agent = body.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let thread = body.thread(&app, &caller, key.as_deref()).await?;
    let session = thread.thread.to_string();
    if body.message().trim().is_empty() && agent_request::find_agent(&app, agent)?.kind != DEFAULT_AGENT {
        return Ok(json_response(ChatAnswer {
            session_id: session,
            execution_time: started.elapsed().as_secs_f64(),
            response: Some(ReactErrorCode::EmptyInput.message(Language::Korean).to_owned()),
            model_calls: Some(0),
            error: true,
            error_code: Some(ReactErrorCode::EmptyInput.as_str().to_owned()),
            ..ChatAnswer::default()
        }));
    }
    let ask = AgentRequest {
        agent,
        options: body.ask_options(&app, &thread).await?,
        thread,
        // `react` says itself what is wrong with an empty message, in its error node.
        message: body.message(),
        if_busy: IfBusy::Enqueue,
        acknowledge: Acknowledgement::Rest,
        placement: RunPlacement::default(),
        idempotency: key.map(|key| (key, &bytes[..])),
        key: caller.key.clone(),
    };
    let run = match agent_request::start_unless_waiting(&app, ask).await? {
        RunStart::Started(run) => run,
        RunStart::ThreadWaiting(WaitingRun { run, questions }) => {
            return Ok(json_response(ChatAnswer {
                session_id: session,
                run_id: Some(run.run.to_string()),
                execution_time: started.elapsed().as_secs_f64(),
                paused: Some(ChatPause::new(false, questions)),
                ..ChatAnswer::default()
            }));
        }
    };
    let outcome = agent_request::wait_for_run(&app, agent, &run).await;
    // From here on the client is told of the run, also with an error.
    run.wait_until_accepted().await?;
    let outcome = outcome.map_err(|error| error.for_started_run(&session))?;
    let answer = ChatAnswer {
        session_id: session.clone(),
        run_id: Some(run.id().to_string()),
        execution_time: started.elapsed().as_secs_f64(),
        ..ChatAnswer::default()
    };
    if let Some(waits) = outcome.blocked_by {
        // The question stands in line, and is answered once the run before it was.
        let paused = Some(ChatPause::new(true, waits.questions));
        return Ok(json_response(ChatAnswer { paused, ..answer }));
    }
    Ok(json_response(match (outcome.turn, outcome.row.status) {
        (Some(turn), _) => ChatAnswer {
            response: Some(turn.response),
            turn: Some(ChatTurn { tools_used: turn.tools_used, sources: turn.sources, path: turn.path }),
            model_calls: Some(turn.model_calls),
            error: turn.error,
            error_code: turn.error_code.filter(|_| turn.error),
            ..answer
        },
        (None, RunStatus::Paused) => {
            let questions = app.runtime.open_questions(&outcome.row.thread).await;
            let questions = questions.map_err(|error| ApiError::from(error).for_started_run(&session))?;
            let paused = Some(ChatPause::new(true, QuestionInfo::from_log_all(&questions)));
            ChatAnswer { paused, ..answer }
        }
        (None, status) => {
            let ModelErrorAdvice { ko, en } = unanswered_advice(status, outcome.row.error.as_ref());
            let language = Language::detect(body.message()).unwrap_or(Language::English);
            let calls = agent_request::count_model_requests(&app, &outcome.row).await;
            let model_calls = Some(calls.map_err(|error| error.for_started_run(&session))?);
            let code = outcome
                .row
                .error
                .map_or_else(|| format!("run_{}", status_error_suffix(status)), |error| error.code);
            let response = Some(language.pick(ko, en).to_owned());
            ChatAnswer { response, model_calls, error: true, error_code: Some(code), ..answer }
        }
    }))
}

fn status_error_suffix(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Cancelled => "cancelled",
        RunStatus::Failed => "failed",
        RunStatus::Queued | RunStatus::Running | RunStatus::Paused | RunStatus::Finished => "not_finished",
    }
}

fn unanswered_advice(status: RunStatus, failure: Option<&RunFailure>) -> ModelErrorAdvice {
    match status {
        RunStatus::Cancelled => {
            ModelErrorAdvice { ko: "실행이 취소되었습니다.", en: "The run was cancelled." }
        }
        RunStatus::Failed => advice(failure.map_or("", |failure| &failure.code)),
        RunStatus::Queued | RunStatus::Running | RunStatus::Paused | RunStatus::Finished => {
            ModelErrorAdvice {
                ko: "아직 답이 나오지 않았습니다. 같은 대화에서 나중에 확인할 수 있습니다.",
                en: "There is no answer yet. It can be looked up later in the same thread.",
            }
        }
    }
}
