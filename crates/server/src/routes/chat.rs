//! `POST /api/chat`: one question, one answer, in the shape that the design of the `react` agent gives.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use doran_engine::store::{IfBusy, RunFailure, Status};
use serde_json::{Value, json};

use super::asked::Asked;
use super::json;
use crate::App;
use crate::api::{Advice, Question, advice};
use crate::ask::{self, Ask, Begun, Waits};
use crate::body;
use crate::error::ApiError;
use crate::identity::Caller;
use crate::once;

/// Who answers when nobody is named.
const AGENT: &str = "react";

/// `POST /api/chat`
pub(super) async fn chat(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let key = once::key(request.headers())?;
    let (asked, bytes) = body::json::<Asked>(request, &app.limits).await?;
    let agent = asked.agent.as_deref().unwrap_or(AGENT);
    let thread = asked.thread(&caller, key.as_deref())?;
    let session = thread.thread.to_string();
    let ask = Ask {
        agent,
        options: asked.options(&app, &thread).await?,
        thread,
        // An empty message is a question too: the agent says what is wrong with it.
        message: asked.message(),
        if_busy: IfBusy::Enqueue,
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = match ask::begin(&app, ask).await? {
        Begun::Run(run) => run,
        Begun::Waits(Waits { run, questions }) => {
            return Ok(json(json!({
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
    let came = ask::wait(&app, agent, &run).await.map_err(|error| error.of_run(&session))?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut answer = json!({ "sessionId": session, "runId": run.id().to_string(), "executionTime": seconds });
    if let Some(waits) = came.waits {
        // The question stands in line, and is answered once the run before it was.
        answer["response"] = Value::Null;
        answer["status"] = json!("paused");
        answer["accepted"] = json!(true);
        answer["questions"] = json!(waits.questions);
        return Ok(json(answer));
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
        (None, Status::Paused) => {
            let asked = app.runtime.questions(&came.row.thread).await;
            let asked = asked.map_err(|error| ApiError::from(error).of_run(&session))?;
            answer["response"] = Value::Null;
            answer["status"] = json!("paused");
            answer["accepted"] = json!(true);
            answer["questions"] = json!(Question::all(&asked));
        }
        (None, status) => {
            let Advice { ko, en } = sorry(status, came.row.error.as_ref());
            let korean = asked.message().chars().any(|char| ('가'..='힣').contains(&char));
            answer["response"] = json!(if korean { ko } else { en });
            answer["error"] = json!(true);
            let code = came.row.error.map_or_else(|| format!("run_{}", word(status)), |error| error.code);
            answer["errorCode"] = json!(code);
        }
    }
    Ok(json(answer))
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Cancelled => "cancelled",
        Status::Failed => "failed",
        Status::Queued | Status::Running | Status::Paused | Status::Finished => "not_finished",
    }
}

fn sorry(status: Status, failure: Option<&RunFailure>) -> Advice {
    match status {
        Status::Cancelled => Advice { ko: "실행이 취소되었습니다.", en: "The run was cancelled." },
        Status::Failed => advice(failure.map_or("", |failure| &failure.code)),
        Status::Queued | Status::Running | Status::Paused | Status::Finished => Advice {
            ko: "아직 답이 나오지 않았습니다. 같은 대화에서 나중에 확인할 수 있습니다.",
            en: "There is no answer yet. It can be looked up later in the same thread.",
        },
    }
}
