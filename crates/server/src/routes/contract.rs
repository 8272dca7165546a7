//! `POST /api/contract/chat`: the events of the `contract` agent as its design names them: `thinking`, `token`,
//! `sources`, then `done` or `error`.

use axum::extract::{Request, State};
use axum::response::Response;
use doran_agents::AskOptions;
use doran_engine::store::IfBusy;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::App;
use crate::api::{Advice, advice};
use crate::ask::{self, Ask};
use crate::body;
use crate::error::{ApiError, Code};
use crate::fold::{End, Told};
use crate::identity::Caller;
use crate::once;
use crate::sse::{self, Frame};
use crate::tell::Tale;

/// Who answers.
const AGENT: &str = "contract";

/// A question about contracts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Chat {
    message: String,
    thread_id: Option<String>,
    session_id: Option<String>,
    contract_id: Option<String>,
    collection: Option<String>,
}

/// `POST /api/contract/chat`
pub(super) async fn chat(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = once::key(request.headers())?;
    let (chat, bytes) = body::json::<Chat>(request, &app.limits).await?;
    if chat.message.trim().is_empty() {
        return Err(ApiError::because(Code::BadInput, "`message` is empty", "`message`가 비어 있습니다"));
    }
    let thread = match chat.thread_id.as_deref().or(chat.session_id.as_deref()) {
        Some(name) => ask::thread(&caller, name)?,
        None => ask::new_thread(&caller, key.as_deref()),
    };
    let name = thread.thread.to_string();
    let ask = Ask {
        agent: AGENT,
        thread,
        message: &chat.message,
        options: AskOptions {
            contract_id: chat.contract_id.clone(),
            collection: chat.collection.clone(),
            ..AskOptions::default()
        },
        if_busy: IfBusy::Enqueue,
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = ask::start(&app, ask).await?;
    let mut tale = Tale::of(&app, AGENT, run.key(), &name).await?;
    let about = json!({ "threadId": name, "runId": run.id().to_string() });
    let first = Frame::new("start", &about);
    sse::frames(&app, caller, move |frames| async move {
        let mut listens = frames.send(first).await;
        while listens && let Some(told) = tale.next().await {
            listens = frames.send_all(frame(told, &about)).await;
        }
    })
}

fn frame(told: Told, about: &Value) -> Vec<Frame> {
    let one = match told {
        Told::Words(words) => Frame::new("token", &json!({ "content": words })),
        Told::Void => Frame::new("restart", &json!({})),
        Told::News(news) => {
            let name = match news["type"].as_str() {
                Some("thinking") => "thinking",
                Some("sources") => "sources",
                Some("tool_call") => "tool_call",
                Some("tool_result") => "tool_result",
                Some(_) | None => return Vec::new(),
            };
            Frame::new(name, &news)
        }
        Told::Asks(questions) => Frame::new("interrupt", &json!({ "questions": questions })),
        Told::Over(End::Finished) => Frame::new("done", about),
        Told::Over(End::Failed { code, message } | End::Unanswered { code, words: message }) => {
            let Advice { en, ko } = advice(&code);
            Frame::new("error", &json!({ "errorCode": code, "message": message, "en": en, "ko": ko }))
        }
        Told::Over(End::Cancelled) => Frame::new("error", &json!({ "errorCode": "run_cancelled" })),
        Told::Over(End::Left) => Frame::new("error", &json!({ "errorCode": "stopping" })),
    };
    vec![one]
}
