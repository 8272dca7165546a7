//! Chat completions, whole and as a stream of chunks.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use doran_agents::failure::BUDGET_SPENT_CODE;
use doran_agents::protocol::AgentActivity;
use doran_agents::{AnswerSource, Language};
use doran_engine::store::{RunRow, RunStatus, RunUsage, StoreError};
use doran_engine::{Acknowledgement, EngineError, ThreadKey};
use serde_json::{Map, Value, json};

use super::ask::{AnsweringRun, AskOutcome, ClientAsk, start_or_continue};
use super::chat_request::{ChatCompletionBody, THREAD_ID, contradiction};
use super::client_calls::{ClientCall, client_calls};
use super::client_messages::{KnownMessages, find_question, read_chat_messages};
use super::open_webui_events::{self, OpenWebUiEnd};
use super::sent_text::SentText;
use super::waiting_text::waiting_text;
use super::{annotations, reasoning};
use crate::ServerApp;
use crate::agent_request::{self, WaitingRun};
use crate::api::{
    ModelErrorAdvice, OpenAiAnswerMessage, OpenAiChoice, OpenAiCompletion, OpenAiError, OpenAiErrorBody,
    OpenAiFunctionCall, OpenAiToolCall, OpenAiUsage, QuestionInfo, advice,
};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::idempotency;
use crate::request_body;
use crate::request_origin::request_origin;
use crate::routes::json_response;
use crate::sse::{self, SseFrame};
use crate::transcript_stream::{self, TranscriptEnd, TranscriptEvent, TranscriptStream};

/// `POST /v1/chat/completions`
pub(super) async fn openai_chat(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency::idempotency_key(request.headers())?;
    let header = request.headers().get("x-thread-id").map(|value| value.to_str().map(str::to_owned));
    let header = header.transpose().map_err(|_| {
        ApiError::for_parameter(
            "x-thread-id",
            "a header has ASCII characters only; name the thread in `metadata.thread_id`",
            "헤더에는 ASCII 문자만 쓸 수 있습니다. 대화 이름은 `metadata.thread_id`로 보내세요",
        )
        .under_code(ApiErrorCode::BadHeader)
    })?;
    let chat = open_webui_events::chat_id(request.headers());
    let with_events = open_webui_events::wants_events(request.headers())?;
    let origin = request_origin(request.headers());
    let (body, bytes) = request_body::read_json::<Map<String, Value>>(request, &app.limits).await?;
    let (body, request) = ChatCompletionBody::read(body)?;
    let named = body.thread_name()?;
    if named.is_some_and(|named| header.as_deref().is_some_and(|header| header != named)) {
        return Err(contradiction(THREAD_ID, "x-thread-id"));
    }
    let named = header.as_deref().or(named).or(chat.as_deref());
    let messages = read_chat_messages(body.messages.iter().cloned().map(Value::Object).collect())?;
    let thread = match named {
        Some(name) => Some(agent_request::thread_key_from_field(&caller, "thread_id", name)?),
        None => None,
    };
    let known = match &thread {
        Some(thread) if thread_exists(&app, thread).await? => KnownMessages::UntilLastAnswer,
        Some(_) | None => KnownMessages::None,
    };
    let question = find_question(messages, known, "messages", app.limits.max_message_bytes)?;
    let language = Language::detect(&question.text).unwrap_or(Language::English);
    let parameters =
        [("tools", !request.tools.is_empty()), ("response_format", request.response_schema.is_some())];
    let client_tools = request.tools.iter().map(|tool| tool.spec.name.clone()).collect();
    let is_stream = body.stream == Some(true);
    let ask = ClientAsk {
        agent: &body.model,
        question,
        request,
        parameters: &parameters,
        limit_parameter: body.limit_parameter(),
        parameter: "messages",
        thread,
        from: None,
        metadata: body.run_metadata(),
        idempotency: key.map(|key| (key, &bytes[..])),
        acknowledge: if is_stream { Acknowledgement::Input } else { Acknowledgement::Rest },
    };
    let (thread, begun) = start_or_continue(&app, &caller, ask).await?;
    let name = thread.thread.to_string();
    let head = CompletionHead {
        id: completion_id(&begun),
        created: unix_seconds(),
        model: body.model,
        language,
        origin,
        client_tools,
    };
    let usage = body.stream_options.unwrap_or_default().include_usage;
    let with = StreamExtras { usage, events: with_events };
    let responded = match begun {
        AskOutcome::Answering(answering) => {
            let answered = match is_stream {
                true => completion_stream(&app, caller, head, &answering, with).await,
                false => completion_response(&app, &head, &answering).await,
            };
            // From here on the client is told of the run, also with an error.
            answering.run.wait_until_accepted().await?;
            answered.map_err(|error| error.for_started_run(&name))
        }
        AskOutcome::ThreadWaiting(waits) => {
            thread_waiting_response(&app, caller, &head, &waits, &name, is_stream.then_some(with))
        }
    };
    let mut response = responded.unwrap_or_else(ApiError::into_response);
    if let Ok(thread) = HeaderValue::from_str(&name) {
        response.headers_mut().insert("x-thread-id", thread);
    }
    Ok(response)
}

async fn thread_exists(app: &ServerApp, thread: &ThreadKey) -> Result<bool, ApiError> {
    match app.runtime.thread_row(thread).await {
        Ok(_) => Ok(true),
        Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn completion_id(begun: &AskOutcome) -> String {
    match begun.part() {
        (run, 0) => format!("chatcmpl-{run}"),
        (run, after) => format!("chatcmpl-{run}-{after}"),
    }
}

/// What every piece of an answer repeats.
struct CompletionHead {
    id: String,
    created: u64,
    model: String,
    /// The language of the question.
    language: Language,
    /// The address of this server, for links.
    origin: String,
    /// Tools of the client. Their calls are sent as such, and not as reasoning.
    client_tools: BTreeSet<String>,
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
        let finish_reason = if message.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        OpenAiCompletion {
            id: self.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: self.model.clone(),
            choices: vec![OpenAiChoice { index: 0, message, logprobs: None, finish_reason }],
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

/// A line of reasoning, if the activity is one of the agent.
fn reasoning_line(head: &CompletionHead, activity: &AgentActivity) -> Option<String> {
    match activity {
        AgentActivity::ToolCall { name, .. } if head.client_tools.contains(name) => None,
        activity => reasoning::reasoning_line(activity),
    }
}

/// A message that is only words.
fn text_message(words: String) -> OpenAiAnswerMessage {
    OpenAiAnswerMessage {
        role: "assistant",
        content: Some(words),
        refusal: None,
        annotations: Vec::new(),
        tool_calls: Vec::new(),
        reasoning_content: None,
        reasoning: None,
    }
}

fn tool_call_json(call: ClientCall) -> OpenAiToolCall {
    let ClientCall { id, name, arguments } = call;
    OpenAiToolCall { id, kind: "function", function: OpenAiFunctionCall { name, arguments } }
}

async fn completion_response(
    app: &ServerApp,
    head: &CompletionHead,
    AnsweringRun { run, after }: &AnsweringRun,
) -> Result<Response, ApiError> {
    let outcome = agent_request::wait_for_run(app, &head.model, run).await?;
    let thread = outcome.row.thread.thread.as_str();
    // A run that stands in line has done nothing yet.
    if let Some(held_up) = &outcome.blocked_by {
        let words = waiting_text(&held_up.questions, &head.origin, thread, head.language);
        return Ok(json_response(head.completion(text_message(words), &RunUsage::default(), Vec::new())));
    }
    let replay = match outcome.row.status {
        RunStatus::Finished | RunStatus::Paused => {
            transcript_stream::replay_run(app, &head.model, &run.key(), thread, *after).await?
        }
        RunStatus::Queued | RunStatus::Running | RunStatus::Failed | RunStatus::Cancelled => {
            return Err(unfinished_run_error(&outcome.row));
        }
    };
    let calls = client_calls(&replay.questions);
    let is_cut_off = outcome.turn.is_some() && replay.is_cut_off;
    let (words, sources) = match outcome.turn {
        _ if !calls.is_empty() => (replay.text, Vec::new()),
        Some(turn) if turn.error => {
            let code = turn.error_code.unwrap_or_default();
            return Err(ApiError::with_detail(
                ApiErrorCode::RunFailed,
                failure_detail(&code, &turn.response),
            ));
        }
        Some(turn) => (turn.response, turn.sources),
        None => (waiting_text(&replay.questions, &head.origin, thread, head.language), Vec::new()),
    };
    let reasoning: String = replay.activities.iter().filter_map(|one| reasoning_line(head, one)).collect();
    let reasoning = Some(reasoning).filter(|text| !text.is_empty());
    let message = OpenAiAnswerMessage {
        annotations: annotations::url_citations(&words, &sources, &head.origin),
        content: Some(words).filter(|words| calls.is_empty() || !words.is_empty()),
        tool_calls: calls.into_iter().map(tool_call_json).collect(),
        reasoning_content: reasoning.clone(),
        reasoning,
        ..text_message(String::new())
    };
    let mut completion = head.completion(message, &replay.usage, sources);
    if is_cut_off {
        completion.choices.iter_mut().for_each(|choice| choice.finish_reason = "length");
    }
    Ok(json_response(completion))
}

/// The text instead of an answer when the thread waits for a person.
pub(super) fn thread_waiting_text(
    questions: &[QuestionInfo],
    origin: &str,
    thread: &str,
    language: Language,
) -> String {
    let first = language.pick(
        "이 대화에서 먼저 시작한 실행이 승인을 기다리고 있어, 이 메시지는 보내지 않았습니다.",
        "An earlier run of this thread waits for an approval, so this message was not sent.",
    );
    format!("{first}\n\n{}", waiting_text(questions, origin, thread, language))
}

/// The answer when the thread waits for a person: no run was started.
fn thread_waiting_response(
    app: &ServerApp,
    caller: ApiCaller,
    head: &CompletionHead,
    waits: &WaitingRun,
    thread: &str,
    stream: Option<StreamExtras>,
) -> Result<Response, ApiError> {
    let words = thread_waiting_text(&waits.questions, &head.origin, thread, head.language);
    let Some(with) = stream else {
        return Ok(json_response(head.completion(text_message(words), &RunUsage::default(), Vec::new())));
    };
    let mut chunks = vec![head.delta_chunk(&json!({ "role": "assistant", "content": words }), None)];
    if with.events {
        chunks.extend(open_webui_events::end_events(&[], OpenWebUiEnd::WaitsForApproval, head.language));
    }
    chunks.push(head.delta_chunk(&json!({}), Some("stop")));
    if with.usage {
        chunks.push(head.usage_chunk(&RunUsage::default()));
    }
    chunks.push(SseFrame::openai_done());
    sse::stream_frames(app, caller, move |frames| async move {
        frames.send_all(chunks).await;
    })
}

pub(super) fn unfinished_run_error(row: &RunRow) -> ApiError {
    match row.status {
        RunStatus::Cancelled => {
            ApiError::with_message(ApiErrorCode::Conflict, "the run was cancelled", "실행이 취소되었습니다")
        }
        RunStatus::Failed if row.error.as_ref().is_some_and(|error| error.code == BUDGET_SPENT_CODE) => {
            ApiErrorCode::BudgetSpent.into()
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

/// Why a run failed, for people: what to do, and the message of what failed.
pub(super) fn failure_detail(code: &str, message: &str) -> ErrorDetail {
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
    AnsweringRun { run, after }: &AnsweringRun,
    with: StreamExtras,
) -> Result<Response, ApiError> {
    let thread = run.thread().thread.to_string();
    let mut tale = TranscriptStream::open_after(app, &head.model, run, *after).await?;
    let app = app.clone();
    let mut sent = SentText::default();
    sse::stream_frames(&app.clone(), caller, move |frames| async move {
        let mut listens =
            frames.send(head.delta_chunk(&json!({ "role": "assistant", "content": "" }), None)).await;
        while listens && let Some(event) = tale.next().await {
            let mut goes_on = false;
            let pieces = match event {
                TranscriptEvent::Activity(news) => match reasoning_line(&head, &news) {
                    Some(line) => {
                        goes_on = true;
                        let chunk = if with.events {
                            open_webui_events::status_event(&line, false)
                        } else {
                            head.delta_chunk(&reasoning::reasoning_fields(&line), None)
                        };
                        vec![chunk]
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
                    let end = match tale.is_cut_off() {
                        true => CompletionEnd::CutOff(rests_on),
                        false => CompletionEnd::Answered(rests_on),
                    };
                    final_frames(&head, with, &tale.usage(), &end)
                }
                TranscriptEvent::Questions(questions) => {
                    question_frames(&head, &sent, &thread, &questions, with, &tale.usage())
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

/// How a stream ends well.
enum CompletionEnd<'a> {
    Answered(AnswerWithSources<'a>),
    /// A limit on tokens cut the answer.
    CutOff(AnswerWithSources<'a>),
    /// The client is to run tools.
    ToolCalls,
    /// A person has to answer.
    Waiting,
}

/// The end of a stream at questions: tools that the client is to run, or what is asked of a person.
fn question_frames(
    head: &CompletionHead,
    sent: &SentText,
    thread: &str,
    questions: &[QuestionInfo],
    with: StreamExtras,
    usage: &RunUsage,
) -> Vec<SseFrame> {
    let calls = client_calls(questions);
    if calls.is_empty() {
        let gap = if sent.text.is_empty() { "" } else { "\n\n" };
        let words = format!("{gap}{}", waiting_text(questions, &head.origin, thread, head.language));
        let mut frames = vec![head.delta_chunk(&json!({ "content": words }), None)];
        frames.extend(final_frames(head, with, usage, &CompletionEnd::Waiting));
        return frames;
    }
    let calls: Vec<Value> = calls
        .into_iter()
        .enumerate()
        .map(|(index, call)| {
            let mut call = json!(tool_call_json(call));
            call["index"] = index.into();
            call
        })
        .collect();
    let mut frames = vec![head.delta_chunk(&json!({ "tool_calls": calls }), None)];
    frames.extend(final_frames(head, with, usage, &CompletionEnd::ToolCalls));
    frames
}

/// The end of a stream.
fn final_frames(
    head: &CompletionHead,
    with: StreamExtras,
    usage: &RunUsage,
    end: &CompletionEnd<'_>,
) -> Vec<SseFrame> {
    let mut last = Vec::new();
    let (annotations, sources, ended, finish) = match end {
        CompletionEnd::Answered(AnswerWithSources { text, sources })
        | CompletionEnd::CutOff(AnswerWithSources { text, sources }) => {
            let citations = annotations::url_citations(text, sources, &head.origin);
            let finish = if matches!(end, CompletionEnd::CutOff(_)) { "length" } else { "stop" };
            (citations, *sources, OpenWebUiEnd::Answered, finish)
        }
        CompletionEnd::ToolCalls => (Vec::new(), &[][..], OpenWebUiEnd::Answered, "tool_calls"),
        CompletionEnd::Waiting => (Vec::new(), &[][..], OpenWebUiEnd::WaitsForApproval, "stop"),
    };
    if with.events {
        last.extend(open_webui_events::end_events(sources, ended, head.language));
    }
    let delta = if annotations.is_empty() { json!({}) } else { json!({ "annotations": annotations }) };
    last.push(head.delta_chunk(&delta, Some(finish)));
    if with.usage {
        last.push(head.usage_chunk(usage));
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

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
