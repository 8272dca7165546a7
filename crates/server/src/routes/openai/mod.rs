//! The dialect of OpenAI's chat completions: `model` is the name of an agent.
//!
//! A client of that dialect keeps the conversation itself and sends all of it each time. The last message of the user
//! is the question. The thread is the one the client names (`metadata.thread_id`, or the `x-thread-id` header); without
//! a name every request is a thread of its own, which begins with what was said before. What the client says as the
//! system holds for the conversation, with the rank of its words: the agent keeps its own instructions.
//!
//! What the agent does on the way is told as reasoning: a client that knows the word shows it apart, others pass it over.
//! Its tools are its own, so none of them is ever a tool call of this dialect.

mod annotations;
mod chat_messages;
mod error_format;
mod open_webui_events;
mod reasoning;
mod sent_text;

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use doran_agents::{AnswerSource, UserLanguage};
use doran_engine::store::{IfBusy, RunRow, RunStatus, RunUsage};
use doran_engine::{RunHandle, RunKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::chat_messages::{OpenAiMessage, is_korean, question_from_messages, waiting_text};
pub(super) use self::error_format::rewrite_errors_for_openai;
use self::open_webui_events::OpenWebUiEnd;
use self::sent_text::SentText;
use super::{ApiRoute, json_response, path_value};
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest, RunStart, WaitingRun};
use crate::api::{
    ModelErrorAdvice, OpenAiAnswerMessage, OpenAiChoice, OpenAiCompletion, OpenAiError, OpenAiErrorBody,
    OpenAiModel, OpenAiModelList, OpenAiUsage, QuestionInfo, advice,
};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::idempotency;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag, thread_name_schema};
use crate::request_body;
use crate::sse::{self, SseFrame};
use crate::transcript_stream::{self, TranscriptEnd, TranscriptEvent, TranscriptStream};

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::OpenAi, id, summary);
    vec![
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
                    "The sources of the answer are in `annotations` of the message, or of the last chunk of a stream: one `url_citation` for each source. With `504` the run was started and continues in its thread; sending the messages again would start another run.",
                )
                .idempotent(IdempotencyEffect::SameRun)
                .header("x-thread-id", "The thread to continue.", thread_name_schema)
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
                    ApiErrorCode::Conflict,
                    ApiErrorCode::RunFailed,
                    ApiErrorCode::NotFinished,
                    ApiErrorCode::DiskFull,
                ]),
        )
        .openai(),
    ]
}

/// A request for a chat completion. Other fields of OpenAI's API are accepted and ignored.
#[derive(Debug, Deserialize, JsonSchema)]
struct ChatCompletionBody {
    /// The name of the agent.
    model: String,
    /// The conversation. The last message of the user is the question.
    #[schemars(length(min = 1))]
    messages: Vec<OpenAiMessage>,
    /// Whether the answer is streamed.
    stream: Option<bool>,
    /// Options of a stream.
    stream_options: Option<CompletionStreamOptions>,
    /// The number of answers. Only 1 is possible.
    #[schemars(range(min = 1, max = 1))]
    n: Option<u32>,
    /// `thread_id` is the thread to continue.
    metadata: Option<Value>,
}

/// Options of a stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct CompletionStreamOptions {
    /// Whether the last chunk has the usage.
    #[serde(default)]
    include_usage: bool,
}

/// `GET /v1/models`
async fn openai_models(State(app): State<ServerApp>, _: ApiCaller) -> Response {
    let data = app.agents.iter().map(|agent| model_of_agent(&agent.name)).collect();
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

/// `POST /v1/chat/completions`
async fn openai_chat(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency::idempotency_key(request.headers())?;
    let header = request.headers().get("x-thread-id").map(|value| value.to_str().map(str::to_owned));
    let header = header.transpose().map_err(|_| ApiErrorCode::BadHeader)?;
    let with_events = open_webui_events::wants_events(request.headers())?;
    let (asked, bytes) = request_body::read_json::<ChatCompletionBody>(request, &app.limits).await?;
    if asked.n.is_some_and(|n| n != 1) {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`n` can only be 1",
            "`n`은 1이어야 합니다",
        ));
    }
    let named = asked.metadata.as_ref().and_then(|metadata| metadata["thread_id"].as_str());
    let named = header.as_deref().or(named);
    let (message, options) =
        question_from_messages(&asked.messages, named.is_some(), app.limits.max_message_bytes)?;
    let thread = match named {
        Some(name) => agent_request::thread_key_from_field(&caller, "thread_id", name)?,
        None => agent_request::new_thread_key(&caller, key.as_deref()),
    };
    let (if_busy, idempotency) = (IfBusy::Enqueue, key.map(|key| (key, &bytes[..])));
    let name = thread.thread.to_string();
    let is_stream = asked.stream == Some(true);
    let ask = AgentRequest { agent: &asked.model, thread, message: &message, options, if_busy, idempotency };
    let begun = agent_request::start_unless_waiting(&app, ask).await?;
    let run = match &begun {
        RunStart::Started(run) => run.id(),
        RunStart::ThreadWaiting(waits) => waits.run.run,
    };
    let language = if is_korean(&message) { UserLanguage::Ko } else { UserLanguage::En };
    let head = CompletionHead {
        id: format!("chatcmpl-{run}"),
        created: unix_seconds(),
        model: asked.model,
        language,
    };
    let usage = asked.stream_options.unwrap_or_default().include_usage;
    let with = StreamExtras { usage, events: with_events };
    let told = match begun {
        RunStart::Started(run) => {
            let told = match is_stream {
                true => completion_stream(&app, caller, head, &run, with).await,
                false => completion_response(&app, &head, &run).await,
            };
            told.map_err(|error| error.for_started_run(&name))
        }
        RunStart::ThreadWaiting(waits) => {
            thread_waiting_response(&app, caller, &head, &waits, &name, is_stream.then_some(with))
        }
    };
    let mut response = told.unwrap_or_else(ApiError::into_response);
    if let Ok(thread) = HeaderValue::from_str(&name) {
        response.headers_mut().insert("x-thread-id", thread);
    }
    Ok(response)
}

/// What every piece of an answer repeats.
struct CompletionHead {
    id: String,
    created: u64,
    model: String,
    /// The language of the question.
    language: UserLanguage,
}

impl CompletionHead {
    fn to_json(&self, object: &str) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model })
    }

    fn completion(
        &self,
        message: OpenAiAnswerMessage,
        usage: &RunUsage,
        sources: Vec<AnswerSource>,
    ) -> OpenAiCompletion {
        OpenAiCompletion {
            id: self.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: self.model.clone(),
            choices: vec![OpenAiChoice { index: 0, message, logprobs: None, finish_reason: "stop" }],
            usage: OpenAiUsage::from_run(usage),
            sources,
        }
    }

    /// The piece that says what was spent.
    fn usage_chunk(&self, spent: &RunUsage) -> SseFrame {
        let mut chunk = self.to_json("chat.completion.chunk");
        chunk["choices"] = json!([]);
        chunk["usage"] = json!(OpenAiUsage::from_run(spent));
        SseFrame::unnamed(&chunk)
    }

    fn delta_chunk(&self, delta: &Value, finish: Option<&str>) -> SseFrame {
        let mut chunk = self.to_json("chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        SseFrame::unnamed(&chunk)
    }
}

async fn completion_response(
    app: &ServerApp,
    head: &CompletionHead,
    run: &RunHandle,
) -> Result<Response, ApiError> {
    let came = agent_request::wait_for_run(app, &head.model, run).await?;
    let thread = came.row.thread.thread.as_str();
    let (words, sources) = match (came.turn, &came.blocked_by) {
        (Some(turn), _) if turn.error => {
            let code = turn.error_code.unwrap_or_default();
            return Err(ApiError::with_detail(
                ApiErrorCode::RunFailed,
                failure_detail(&code, &turn.response),
            ));
        }
        (Some(turn), _) => (turn.response, turn.sources),
        (None, Some(held_up)) => (waiting_text(&held_up.questions, thread, head.language), Vec::new()),
        (None, None) if came.row.status == RunStatus::Paused => {
            let asked = app.runtime.open_questions(&came.row.thread).await?;
            (waiting_text(&QuestionInfo::from_log_all(&asked), thread, head.language), Vec::new())
        }
        (None, None) => return Err(unfinished_run_error(&came.row)),
    };
    // A run that stands in line has done nothing yet.
    let news = match came.blocked_by {
        Some(_) => Vec::new(),
        None => transcript_stream::load_activities(app, &head.model, &run.key(), thread).await?,
    };
    let reasoning: String = news.iter().filter_map(reasoning::reasoning_line).collect();
    let reasoning = Some(reasoning).filter(|text| !text.is_empty());
    let message = OpenAiAnswerMessage {
        role: "assistant",
        refusal: None,
        annotations: annotations::url_citations(&words, &sources),
        reasoning_content: reasoning.clone(),
        reasoning,
        content: words,
    };
    Ok(json_response(head.completion(message, &came.row.usage, sources)))
}

/// What is told instead of an answer when the thread waits for a person: nothing was asked of it.
fn thread_waiting_response(
    app: &ServerApp,
    caller: ApiCaller,
    head: &CompletionHead,
    waits: &WaitingRun,
    thread: &str,
    stream: Option<StreamExtras>,
) -> Result<Response, ApiError> {
    let first = match head.language {
        UserLanguage::Ko => {
            "이 대화에서 먼저 시작한 실행이 승인을 기다리고 있어, 이 메시지는 보내지 않았습니다."
        }
        UserLanguage::En => {
            "An earlier run of this thread waits for an approval, so this message was not sent."
        }
    };
    let words =
        format!("{first}\n\n{}", chat_messages::waiting_text(&waits.questions, thread, head.language));
    let Some(with) = stream else {
        let message = OpenAiAnswerMessage {
            role: "assistant",
            content: words,
            refusal: None,
            annotations: Vec::new(),
            reasoning_content: None,
            reasoning: None,
        };
        return Ok(json_response(head.completion(message, &RunUsage::default(), Vec::new())));
    };
    let mut told = vec![head.delta_chunk(&json!({ "role": "assistant", "content": words }), None)];
    if with.events {
        told.extend(open_webui_events::end_events(&[], OpenWebUiEnd::WaitsForApproval, head.language));
    }
    told.push(head.delta_chunk(&json!({}), Some("stop")));
    if with.usage {
        told.push(head.usage_chunk(&RunUsage::default()));
    }
    told.push(SseFrame::openai_done());
    sse::stream_frames(app, caller, move |frames| async move {
        frames.send_all(told).await;
    })
}

fn unfinished_run_error(row: &RunRow) -> ApiError {
    match row.status {
        RunStatus::Cancelled => {
            ApiError::with_message(ApiErrorCode::Conflict, "the run was cancelled", "실행이 취소되었습니다")
        }
        RunStatus::Failed => ApiError::with_detail(
            ApiErrorCode::RunFailed,
            row.error.as_ref().map(|error| failure_detail(&error.code, &error.message)),
        ),
        RunStatus::Queued | RunStatus::Running | RunStatus::Paused | RunStatus::Finished => {
            ApiError::not_finished(row.thread.thread.as_str())
        }
    }
}

/// Why a run failed, for people: what to do, and what was said by whoever failed.
fn failure_detail(code: &str, message: &str) -> ErrorDetail {
    let ModelErrorAdvice { en, ko } = advice(code);
    ErrorDetail::new(format!("{en} ({message})"), format!("{ko} ({message})"))
}

/// What a client wants beside the words.
#[derive(Clone, Copy)]
struct StreamExtras {
    usage: bool,
    events: bool,
}

async fn completion_stream(
    app: &ServerApp,
    caller: ApiCaller,
    head: CompletionHead,
    run: &RunHandle,
    with: StreamExtras,
) -> Result<Response, ApiError> {
    let key = run.key();
    let thread = run.thread().thread.to_string();
    let mut tale = TranscriptStream::open(app, &head.model, run).await?;
    let app = app.clone();
    let mut sent = SentText::default();
    sse::stream_frames(&app.clone(), caller, move |frames| async move {
        let mut listens =
            frames.send(head.delta_chunk(&json!({ "role": "assistant", "content": "" }), None)).await;
        while listens && let Some(told) = tale.next().await {
            let mut goes_on = false;
            let pieces = match told {
                TranscriptEvent::Activity(news) => match reasoning::reasoning_line(&news) {
                    Some(line) => {
                        goes_on = true;
                        let told = if with.events {
                            open_webui_events::status_event(&line, false)
                        } else {
                            head.delta_chunk(&reasoning::reasoning_fields(&line), None)
                        };
                        vec![told]
                    }
                    None => continue,
                },
                TranscriptEvent::Reset => {
                    sent.restart();
                    continue;
                }
                TranscriptEvent::Text(words) => match sent.append(&words) {
                    Some("") => continue,
                    Some(more) => {
                        goes_on = true;
                        vec![head.delta_chunk(&json!({ "content": more }), None)]
                    }
                    None => restarted_error(),
                },
                TranscriptEvent::End(TranscriptEnd::Finished) if sent.is_behind() => restarted_error(),
                TranscriptEvent::End(TranscriptEnd::Finished) => {
                    let rests_on = AnswerWithSources { text: &sent.text, sources: tale.cited_sources() };
                    final_frames(&app, &head, &key, with, Some(rests_on)).await
                }
                TranscriptEvent::Questions(questions) => {
                    let gap = if sent.text.is_empty() { "" } else { "\n\n" };
                    let words = format!("{gap}{}", waiting_text(&questions, &thread, head.language));
                    let mut pieces = vec![head.delta_chunk(&json!({ "content": words }), None)];
                    pieces.extend(final_frames(&app, &head, &key, with, None).await);
                    pieces
                }
                TranscriptEvent::End(
                    TranscriptEnd::Failed { code, message }
                    | TranscriptEnd::Unanswered { code, text: message },
                ) => error_frames(&code, &failure_detail(&code, &message)),
                TranscriptEvent::End(TranscriptEnd::Cancelled) => error_frames(
                    "cancelled",
                    &ErrorDetail::new("the run was cancelled", "실행이 취소되었습니다"),
                ),
                TranscriptEvent::End(TranscriptEnd::Disconnected) => error_frames(
                    "stopping",
                    &ErrorDetail::new(
                        "the server stops; the run goes on in its thread",
                        "서버가 멈춥니다. 실행은 그 대화에서 이어집니다",
                    ),
                ),
            };
            listens = frames.send_all(pieces).await && goes_on;
        }
    })
}

fn restarted_error() -> Vec<SseFrame> {
    error_frames(
        "restarted",
        &ErrorDetail::new(
            "the answer begins anew; ask again",
            "답이 처음부터 다시 시작됩니다. 다시 물으세요",
        ),
    )
}

/// An answer that was sent, and what it rests on.
struct AnswerWithSources<'a> {
    text: &'a str,
    sources: &'a [AnswerSource],
}

/// The end of a stream: of an answer, or of a run that waits.
async fn final_frames(
    app: &ServerApp,
    head: &CompletionHead,
    run: &RunKey,
    with: StreamExtras,
    answer: Option<AnswerWithSources<'_>>,
) -> Vec<SseFrame> {
    let mut last = Vec::new();
    let (annotations, sources, ended) = match answer {
        Some(AnswerWithSources { text: words, sources }) => {
            (annotations::url_citations(words, sources), sources, OpenWebUiEnd::Answered)
        }
        None => (Vec::new(), &[][..], OpenWebUiEnd::WaitsForApproval),
    };
    if with.events {
        last.extend(open_webui_events::end_events(sources, ended, head.language));
    }
    let delta = if annotations.is_empty() { json!({}) } else { json!({ "annotations": annotations }) };
    last.push(head.delta_chunk(&delta, Some("stop")));
    if with.usage {
        match app.runtime.run_row(run).await {
            Ok(row) => last.push(head.usage_chunk(&row.usage)),
            Err(error) => tracing::error!(%error, "what a run spent cannot be read, and is left out"),
        }
    }
    last.push(SseFrame::openai_done());
    last
}

fn error_frames(code: &str, why: &ErrorDetail) -> Vec<SseFrame> {
    let error = OpenAiErrorBody {
        message: why.en.clone(),
        message_ko: why.ko.clone(),
        kind: "server_error",
        param: None,
        code: code.to_owned(),
    };
    vec![SseFrame::unnamed(&json!(OpenAiError { error }))]
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
