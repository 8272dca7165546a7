//! `POST /api/chat`: one question, one answer, in the shape that the design of the `react` agent gives.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use doran_agents::UserLanguage;
use doran_agents::agents::react::ReactErrorCode;
use doran_engine::store::{IfBusy, RunFailure, RunStatus};
use serde_json::{Value, json};

use super::json_response;
use super::spec_body::SpecChatBody;
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest, RunStart, WaitingRun};
use crate::api::{ModelErrorAdvice, QuestionInfo, advice};
use crate::authentication::ApiCaller;
use crate::error::ApiError;
use crate::idempotency;
use crate::request_body;

/// Who answers when nobody is named.
const DEFAULT_AGENT: &str = "react";

/// `POST /api/chat`
pub(super) async fn chat(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let key = idempotency::idempotency_key(request.headers())?;
    let (asked, bytes) = request_body::read_json::<SpecChatBody>(request, &app.limits).await?;
    let agent = asked.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let thread = asked.thread(&caller, key.as_deref())?;
    let session = thread.thread.to_string();
    if asked.message().trim().is_empty() && agent_request::find_agent(&app, agent)?.kind != DEFAULT_AGENT {
        return Ok(json_response(json!({
            "sessionId": session,
            "executionTime": begun.elapsed().as_secs_f64(),
            "response": ReactErrorCode::EmptyInput.message(UserLanguage::Ko),
            "error": true,
            "errorCode": ReactErrorCode::EmptyInput.as_str(),
            "modelCalls": 0,
        })));
    }
    let ask = AgentRequest {
        agent,
        options: asked.ask_options(&app, &thread).await?,
        thread,
        // `react` says itself what is wrong with an empty message, in its error node.
        message: asked.message(),
        if_busy: IfBusy::Enqueue,
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = match agent_request::start_unless_waiting(&app, ask).await? {
        RunStart::Started(run) => run,
        RunStart::ThreadWaiting(WaitingRun { run, questions }) => {
            return Ok(json_response(json!({
                "sessionId": session,
                "runId": run.run.to_string(),
                "executionTime": begun.elapsed().as_secs_f64(),
                "response": null,
                "status": "paused",
                "accepted": false,
                "questions": questions,
            })));
        }
    };
    let came = agent_request::wait_for_run(&app, agent, &run)
        .await
        .map_err(|error| error.for_started_run(&session))?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut answer = json!({ "sessionId": session, "runId": run.id().to_string(), "executionTime": seconds });
    if let Some(waits) = came.blocked_by {
        // The question stands in line, and is answered once the run before it was.
        answer["response"] = Value::Null;
        answer["status"] = json!("paused");
        answer["accepted"] = json!(true);
        answer["questions"] = json!(waits.questions);
        return Ok(json_response(answer));
    }
    match (came.turn, came.row.status) {
        (Some(turn), _) => {
            answer["response"] = json!(turn.response);
            answer["toolsUsed"] = json!(turn.tools_used);
            answer["sources"] = json!(turn.sources);
            answer["modelCalls"] = json!(turn.model_calls);
            answer["path"] = json!(turn.path);
            if turn.error {
                answer["error"] = json!(true);
                answer["errorCode"] = json!(turn.error_code);
            }
        }
        (None, RunStatus::Paused) => {
            let asked = app.runtime.open_questions(&came.row.thread).await;
            let asked = asked.map_err(|error| ApiError::from(error).for_started_run(&session))?;
            answer["response"] = Value::Null;
            answer["status"] = json!("paused");
            answer["accepted"] = json!(true);
            answer["questions"] = json!(QuestionInfo::from_log_all(&asked));
        }
        (None, status) => {
            let ModelErrorAdvice { ko, en } = unanswered_advice(status, came.row.error.as_ref());
            let korean = asked.message().chars().any(|char| ('가'..='힣').contains(&char));
            answer["response"] = json!(if korean { ko } else { en });
            answer["error"] = json!(true);
            let calls = agent_request::count_model_requests(&app, &came.row).await;
            answer["modelCalls"] = json!(calls.map_err(|error| error.for_started_run(&session))?);
            let code = came
                .row
                .error
                .map_or_else(|| format!("run_{}", status_error_suffix(status)), |error| error.code);
            answer["errorCode"] = json!(code);
        }
    }
    Ok(json_response(answer))
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
