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
mod events;
mod question;
mod reasoning;
mod refusal;
mod sent;

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use doran_agents::{Language, Source};
use doran_engine::store::{IfBusy, RunRow, Status, Usage};
use doran_engine::{RunHandle, RunKey};
use serde::Deserialize;
use serde_json::{Value, json};

use self::events::Ended;
use self::question::{Said, is_korean, question, waits};
pub(super) use self::refusal::in_their_words;
use self::sent::Sent;
use super::{json, path};
use crate::App;
use crate::api::{Advice, Question, advice};
use crate::ask::{self, Ask, Begun, Waits};
use crate::body;
use crate::error::{ApiError, Code};
use crate::fold::{End, Told};
use crate::identity::Caller;
use crate::once;
use crate::sse::{self, Frame};
use crate::tell::{self, Tale};
use crate::why::Why;

/// `POST /v1/chat/completions`. What is not listed is accepted and not used, as clients send much that an agent
/// decides for itself.
#[derive(Debug, Deserialize)]
pub(super) struct Completion {
    model: String,
    messages: Vec<Said>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// `GET /v1/models`
pub(super) async fn models(State(app): State<App>, _: Caller) -> Response {
    let models: Vec<Value> = app.agents.iter().map(|agent| shown(&agent.name)).collect();
    json(json!({ "object": "list", "data": models }))
}

/// `GET /v1/models/{model}`
pub(super) async fn model(
    State(app): State<App>,
    _: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json(shown(&ask::agent(&app, &path(name)?)?.name)))
}

fn shown(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 1_767_225_600, "owned_by": "doran" })
}

/// `POST /v1/chat/completions`
pub(super) async fn completions(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = once::key(request.headers())?;
    let header = request.headers().get("x-thread-id").map(|value| value.to_str().map(str::to_owned));
    let header = header.transpose().map_err(|_| Code::BadHeader)?;
    let with_events = events::wanted(request.headers())?;
    let (asked, bytes) = body::json::<Completion>(request, &app.limits).await?;
    if asked.n.is_some_and(|n| n != 1) {
        return Err(ApiError::because(Code::BadInput, "`n` can only be 1", "`n`은 1이어야 합니다"));
    }
    let named = asked.metadata.as_ref().and_then(|metadata| metadata["thread_id"].as_str());
    let named = header.as_deref().or(named);
    let (message, options) = question(&asked.messages, named.is_some(), app.limits.message_bytes)?;
    let thread = match named {
        Some(name) => ask::named(&caller, "thread_id", name)?,
        None => ask::new_thread(&caller, key.as_deref()),
    };
    let (if_busy, idempotency) = (IfBusy::Enqueue, key.map(|key| (key, &bytes[..])));
    let name = thread.thread.to_string();
    let is_stream = asked.stream == Some(true);
    let ask = Ask { agent: &asked.model, thread, message: &message, options, if_busy, idempotency };
    let begun = ask::begin(&app, ask).await?;
    let run = match &begun {
        Begun::Run(run) => run.id(),
        Begun::Waits(waits) => waits.run.run,
    };
    let language = if is_korean(&message) { Language::Ko } else { Language::En };
    let head = Head { id: format!("chatcmpl-{run}"), created: now(), model: asked.model, language };
    let usage = asked.stream_options.unwrap_or_default().include_usage;
    let with = With { usage, events: with_events };
    let told = match begun {
        Begun::Run(run) => {
            let told = match is_stream {
                true => streamed(&app, caller, head, &run, with).await,
                false => whole(&app, &head, &run).await,
            };
            told.map_err(|error| error.of_run(&name))
        }
        Begun::Waits(waits) => untaken(&app, caller, &head, &waits, &name, is_stream.then_some(with)),
    };
    let mut response = told.unwrap_or_else(ApiError::into_response);
    if let Ok(thread) = HeaderValue::from_str(&name) {
        response.headers_mut().insert("x-thread-id", thread);
    }
    Ok(response)
}

/// What every piece of an answer repeats.
struct Head {
    id: String,
    created: u64,
    model: String,
    /// The language of the question.
    language: Language,
}

impl Head {
    fn json(&self, object: &str) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model })
    }

    fn whole(&self, message: &Value) -> Value {
        let mut answer = self.json("chat.completion");
        answer["choices"] =
            json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" }]);
        answer
    }

    /// The piece that says what was spent.
    fn used(&self, spent: &Usage) -> Frame {
        let mut chunk = self.json("chat.completion.chunk");
        chunk["choices"] = json!([]);
        chunk["usage"] = usage(spent);
        Frame::plain(&chunk)
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Frame {
        let mut chunk = self.json("chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        Frame::plain(&chunk)
    }
}

async fn whole(app: &App, head: &Head, run: &RunHandle) -> Result<Response, ApiError> {
    let came = ask::wait(app, &head.model, run).await?;
    let thread = came.row.thread.thread.as_str();
    let (words, sources) = match (came.turn, &came.waits) {
        (Some(turn), _) if turn.error => {
            let code = turn.error_code.unwrap_or_default();
            return Err(ApiError::why(Code::RunFailed, why(&code, &turn.response)));
        }
        (Some(turn), _) => (turn.response, turn.sources),
        (None, Some(held_up)) => (waits(&held_up.questions, thread, head.language), Vec::new()),
        (None, None) if came.row.status == Status::Paused => {
            let asked = app.runtime.questions(&came.row.thread).await?;
            (waits(&Question::all(&asked), thread, head.language), Vec::new())
        }
        (None, None) => return Err(not_finished(&came.row)),
    };
    // A run that stands in line has done nothing yet.
    let news = match came.waits {
        Some(_) => Vec::new(),
        None => tell::news(app, &run.key(), thread).await?,
    };
    let reasoning: String = news.iter().filter_map(reasoning::line).collect();
    let mut message = json!({ "role": "assistant", "content": words, "refusal": null });
    message["annotations"] = json!(annotations::of(&words, &sources));
    if let (Value::Object(more), Some(message)) = (reasoning::fields(&reasoning), message.as_object_mut()) {
        message.extend(more);
    }
    let mut answer = head.whole(&message);
    answer["usage"] = usage(&came.row.usage);
    answer["sources"] = json!(sources);
    Ok(json(answer))
}

/// What is told instead of an answer when the thread waits for a person: nothing was asked of it.
fn untaken(
    app: &App,
    caller: Caller,
    head: &Head,
    waits: &Waits,
    thread: &str,
    stream: Option<With>,
) -> Result<Response, ApiError> {
    let first = match head.language {
        Language::Ko => "이 대화에서 먼저 시작한 실행이 승인을 기다리고 있어, 이 메시지는 보내지 않았습니다.",
        Language::En => "An earlier run of this thread waits for an approval, so this message was not sent.",
    };
    let words = format!("{first}\n\n{}", question::waits(&waits.questions, thread, head.language));
    let Some(with) = stream else {
        let mut answer = head.whole(&json!({ "role": "assistant", "content": words, "refusal": null }));
        answer["usage"] = usage(&Usage::default());
        answer["sources"] = json!([]);
        return Ok(json(answer));
    };
    let mut told = vec![head.chunk(&json!({ "role": "assistant", "content": words }), None)];
    if with.events {
        told.extend(events::end(&[], Ended::Waits, head.language));
    }
    told.push(head.chunk(&json!({}), Some("stop")));
    if with.usage {
        told.push(head.used(&Usage::default()));
    }
    told.push(Frame::done());
    sse::frames(app, caller, move |frames| async move {
        frames.send_all(told).await;
    })
}

fn not_finished(row: &RunRow) -> ApiError {
    match row.status {
        Status::Cancelled => {
            ApiError::because(Code::Conflict, "the run was cancelled", "실행이 취소되었습니다")
        }
        Status::Failed => {
            ApiError::why(Code::RunFailed, row.error.as_ref().map(|error| why(&error.code, &error.message)))
        }
        Status::Queued | Status::Running | Status::Paused | Status::Finished => {
            ApiError::not_finished(row.thread.thread.as_str())
        }
    }
}

/// Why a run failed, for people: what to do, and what was said by whoever failed.
fn why(code: &str, message: &str) -> Why {
    let Advice { en, ko } = advice(code);
    Why::new(format!("{en} ({message})"), format!("{ko} ({message})"))
}

/// What a client wants beside the words.
#[derive(Clone, Copy)]
struct With {
    usage: bool,
    events: bool,
}

async fn streamed(
    app: &App,
    caller: Caller,
    head: Head,
    run: &RunHandle,
    with: With,
) -> Result<Response, ApiError> {
    let key = run.key();
    let thread = run.thread().thread.to_string();
    let mut tale = Tale::of(app, &head.model, run).await?;
    let app = app.clone();
    let mut sent = Sent::default();
    sse::frames(&app.clone(), caller, move |frames| async move {
        let mut listens = frames.send(head.chunk(&json!({ "role": "assistant", "content": "" }), None)).await;
        while listens && let Some(told) = tale.next().await {
            let mut goes_on = false;
            let pieces = match told {
                Told::News(news) => match reasoning::line(&news) {
                    Some(line) => {
                        goes_on = true;
                        let told = if with.events {
                            events::status(&line, false)
                        } else {
                            head.chunk(&reasoning::fields(&line), None)
                        };
                        vec![told]
                    }
                    None => continue,
                },
                Told::Void => {
                    sent.void();
                    continue;
                }
                Told::Words(words) => match sent.next(&words) {
                    Some("") => continue,
                    Some(more) => {
                        goes_on = true;
                        vec![head.chunk(&json!({ "content": more }), None)]
                    }
                    None => unsaid(),
                },
                Told::Over(End::Finished) if sent.is_behind() => unsaid(),
                Told::Over(End::Finished) => {
                    let rests_on = RestsOn { words: &sent.words, sources: tale.rests_on() };
                    last(&app, &head, &key, with, Some(rests_on)).await
                }
                Told::Asks(questions) => {
                    let gap = if sent.words.is_empty() { "" } else { "\n\n" };
                    let words = format!("{gap}{}", waits(&questions, &thread, head.language));
                    let mut pieces = vec![head.chunk(&json!({ "content": words }), None)];
                    pieces.extend(last(&app, &head, &key, with, None).await);
                    pieces
                }
                Told::Over(End::Failed { code, message } | End::Unanswered { code, words: message }) => {
                    problem(&code, &why(&code, &message))
                }
                Told::Over(End::Cancelled) => {
                    problem("cancelled", &Why::new("the run was cancelled", "실행이 취소되었습니다"))
                }
                Told::Over(End::Left) => problem(
                    "stopping",
                    &Why::new(
                        "the server stops; the run goes on in its thread",
                        "서버가 멈춥니다. 실행은 그 대화에서 이어집니다",
                    ),
                ),
            };
            listens = frames.send_all(pieces).await && goes_on;
        }
    })
}

fn unsaid() -> Vec<Frame> {
    problem(
        "restarted",
        &Why::new("the answer begins anew; ask again", "답이 처음부터 다시 시작됩니다. 다시 물으세요"),
    )
}

/// An answer that was sent, and what it rests on.
struct RestsOn<'a> {
    words: &'a str,
    sources: &'a [Source],
}

/// The end of a stream: of an answer, or of a run that waits.
async fn last(app: &App, head: &Head, run: &RunKey, with: With, answer: Option<RestsOn<'_>>) -> Vec<Frame> {
    let mut last = Vec::new();
    let (annotations, sources, ended) = match answer {
        Some(RestsOn { words, sources }) => (annotations::of(words, sources), sources, Ended::Answered),
        None => (Vec::new(), &[][..], Ended::Waits),
    };
    if with.events {
        last.extend(events::end(sources, ended, head.language));
    }
    let delta = if annotations.is_empty() { json!({}) } else { json!({ "annotations": annotations }) };
    last.push(head.chunk(&delta, Some("stop")));
    if with.usage
        && let Ok(row) = app.runtime.store().run(run).await
    {
        last.push(head.used(&row.usage));
    }
    last.push(Frame::done());
    last
}

fn problem(code: &str, why: &Why) -> Vec<Frame> {
    vec![Frame::plain(&json!({ "error": {
        "message": why.en,
        "message_ko": why.ko,
        "type": "server_error",
        "code": code,
        "param": null,
    } }))]
}

fn usage(usage: &Usage) -> Value {
    let Usage { input_tokens, output_tokens, .. } = *usage;
    json!({
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens.saturating_add(output_tokens),
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
