//! `POST /api/contract/chat`: the events of the `contract` agent as its specification names them: `thinking`, `token`, `sources`,
//! then `done` or `error`. The data of each repeats the name in `type` and has its payload in `content`.

use axum::extract::{Request, State};
use axum::response::Response;
use doran_agents::Language;
use doran_agents::protocol::AgentActivity;
use doran_engine::Acknowledgement;
use doran_engine::store::IfBusy;
use serde_json::{Value, json};

use super::ApiRoute;
use super::spec_body::SpecChatBody;
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest, RunPlacement, RunStart, WaitingRun};
use crate::api::{ModelErrorAdvice, QuestionInfo, advice};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;
use crate::sse::{self, SseFrame};
use crate::transcript_stream::{TranscriptEnd, TranscriptEvent, TranscriptStream};

/// Who answers.
const CONTRACT_AGENT: &str = "contract";

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::post(
        "/api/contract/chat",
        contract_chat,
        Operation::new(
            OperationTag::Chat,
            "contract_chat",
            "Asks about contracts and streams `thinking`, `token`, `sources` and `done`.",
        )
        .description(
            "The data of every event is JSON with `type`, which is also the name of the event, and `content`: for `token` the next words, for `thinking` the current activity (with its `step`), for `sources` the sources, for `interrupt` the open questions. `sources` comes once, after the text. If the thread waits for an approval, the message is not sent, and `interrupt` with `\"accepted\": false` comes at once.",
        )
        .idempotent(IdempotencyEffect::SameRun)
        .body::<SpecChatBody>()
        .streams_events("The events of the run.")
        .errors(&[
            ApiErrorCode::UnknownAgent,
            ApiErrorCode::BudgetSpent,
            ApiErrorCode::Busy,
            ApiErrorCode::NotFinished,
            ApiErrorCode::DiskFull,
        ]),
    )]
}

/// `POST /api/contract/chat`
async fn contract_chat(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency::idempotency_key(request.headers())?;
    let (body, bytes) = request_body::read_json::<SpecChatBody>(request, &app.limits).await?;
    if body.agent.as_deref().is_some_and(|agent| agent != CONTRACT_AGENT) {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "here `contract` is asked, and nobody else",
            "여기서는 `contract`에게만 묻습니다",
        ));
    }
    if body.message().trim().is_empty() {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`message` is empty",
            "`message`가 비어 있습니다",
        ));
    }
    let thread = body.thread(&app, &caller, key.as_deref()).await?;
    let name = thread.thread.to_string();
    let language = Language::detect(body.message()).unwrap_or_default();
    let ask = AgentRequest {
        agent: CONTRACT_AGENT,
        options: body.ask_options(&app, &thread).await?,
        thread,
        message: body.message(),
        if_busy: IfBusy::Enqueue,
        acknowledge: Acknowledgement::Input,
        placement: RunPlacement::default(),
        idempotency: key.map(|key| (key, &bytes[..])),
        key: caller.key.clone(),
    };
    let run = match agent_request::start_unless_waiting(&app, ask).await? {
        RunStart::Started(run) => run,
        RunStart::ThreadWaiting(WaitingRun { run, questions }) => {
            let about = json!({ "threadId": name, "runId": run.run.to_string() });
            let mut waits = interrupt_data(&questions, language);
            waits["accepted"] = false.into();
            let sent = vec![start_frame(&about), SseFrame::new("interrupt", &waits)];
            return sse::stream_frames(&app, caller, move |frames| async move {
                frames.send_all(sent).await;
            });
        }
    };
    let mut tale = TranscriptStream::open(&app, CONTRACT_AGENT, &run)
        .await
        .map_err(|error| error.for_started_run(&name))?;
    let about = json!({ "threadId": name, "runId": run.id().to_string() });
    let first = start_frame(&about);
    sse::stream_frames(&app, caller, move |frames| async move {
        let mut listens = frames.send(first).await;
        while listens && let Some(event) = tale.next().await {
            listens = frames.send_all(contract_frames(event, &about, language)).await;
        }
    })
    .map_err(|error| error.for_started_run(&name))
}

fn start_frame(about: &Value) -> SseFrame {
    SseFrame::new("start", &typed_data("start", "".into(), about.clone()))
}

fn interrupt_data(questions: &[QuestionInfo], language: Language) -> Value {
    let question = questions.iter().map(|question| question.interrupt().text(language));
    let content = question.collect::<Vec<_>>().join("\n");
    typed_data("interrupt", content.into(), json!({ "questions": questions }))
}

/// The data of a frame: every one has a `type` and a `content`, so that one loop reads them all.
fn typed_data(kind: &str, content: Value, mut data: Value) -> Value {
    data["type"] = kind.into();
    data["content"] = content;
    data
}

fn contract_frames(event: TranscriptEvent, about: &Value, language: Language) -> Vec<SseFrame> {
    let (name, data) = match event {
        TranscriptEvent::Text(words) => ("token", typed_data("token", words.into(), json!({}))),
        TranscriptEvent::Reset => ("restart", typed_data("restart", "".into(), json!({}))),
        TranscriptEvent::Activity(activity) => {
            let data = activity.to_json();
            match activity {
                AgentActivity::Thinking { .. } => ("thinking", data),
                AgentActivity::Sources { sources } => {
                    ("sources", typed_data("sources", json!(sources), data))
                }
                AgentActivity::ToolCall { name, .. } => {
                    ("tool_call", typed_data("tool_call", name.into(), data))
                }
                AgentActivity::ToolResult { text, .. } => {
                    ("tool_result", typed_data("tool_result", text.into(), data))
                }
                // This dialect has no name for it.
                AgentActivity::Unknown(_) => return Vec::new(),
            }
        }
        TranscriptEvent::Questions(questions) => ("interrupt", interrupt_data(&questions, language)),
        TranscriptEvent::End(TranscriptEnd::Finished) => {
            ("done", typed_data("done", "".into(), about.clone()))
        }
        TranscriptEvent::End(
            TranscriptEnd::Failed { code, message } | TranscriptEnd::Unanswered { code, text: message },
        ) => {
            let ModelErrorAdvice { en, ko } = advice(&code);
            let data = json!({ "errorCode": code, "message": message, "en": en, "ko": ko });
            ("error", typed_data("error", message.into(), data))
        }
        TranscriptEvent::End(TranscriptEnd::Cancelled) => {
            error_data("run_cancelled", language.pick("실행이 취소되었습니다", "the run was cancelled"))
        }
        TranscriptEvent::End(TranscriptEnd::Disconnected) => error_data(
            "stopping",
            language.pick(
                "서버가 멈춥니다. 실행은 그 대화에서 이어집니다",
                "the server stops; the run goes on in its thread",
            ),
        ),
    };
    vec![SseFrame::new(name, &data)]
}

fn error_data(code: &str, why: &str) -> (&'static str, Value) {
    ("error", typed_data("error", why.into(), json!({ "errorCode": code })))
}
