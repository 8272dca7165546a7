//! `POST /api/contract/chat`: the events of the `contract` agent as its design names them: `thinking`, `token`,
//! `sources`, then `done` or `error`. The data of each says its name again (`type`), with what it is about (`content`).

use axum::extract::{Request, State};
use axum::response::Response;
use doran_agents::Language;
use doran_engine::store::IfBusy;
use serde_json::{Value, json};

use super::asked::Asked;
use crate::App;
use crate::api::{Advice, Question, advice};
use crate::ask::{self, Ask, Begun, Waits};
use crate::body;
use crate::error::{ApiError, Code};
use crate::fold::{End, Told};
use crate::identity::Caller;
use crate::once;
use crate::sse::{self, Frame};
use crate::tell::Tale;

/// Who answers.
const AGENT: &str = "contract";

/// `POST /api/contract/chat`
pub(super) async fn chat(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = once::key(request.headers())?;
    let (asked, bytes) = body::json::<Asked>(request, &app.limits).await?;
    if asked.agent.as_deref().is_some_and(|agent| agent != AGENT) {
        return Err(ApiError::because(
            Code::BadInput,
            "here `contract` is asked, and nobody else",
            "여기서는 `contract`에게만 묻습니다",
        ));
    }
    if asked.message().trim().is_empty() {
        return Err(ApiError::because(Code::BadInput, "`message` is empty", "`message`가 비어 있습니다"));
    }
    let thread = asked.thread(&caller, key.as_deref())?;
    let name = thread.thread.to_string();
    let language = Language::of(asked.message()).unwrap_or_default();
    let ask = Ask {
        agent: AGENT,
        options: asked.options(&app, &thread).await?,
        thread,
        message: asked.message(),
        if_busy: IfBusy::Enqueue,
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = match ask::begin(&app, ask).await? {
        Begun::Run(run) => run,
        Begun::Waits(Waits { run, questions }) => {
            let about = json!({ "threadId": name, "runId": run.run.to_string() });
            let mut waits = interrupt(&questions, language);
            waits["accepted"] = false.into();
            let told = vec![start(&about), Frame::new("interrupt", &waits)];
            return sse::frames(&app, caller, move |frames| async move {
                frames.send_all(told).await;
            });
        }
    };
    let mut tale = Tale::of(&app, AGENT, &run).await.map_err(|error| error.of_run(&name))?;
    let about = json!({ "threadId": name, "runId": run.id().to_string() });
    let first = start(&about);
    sse::frames(&app, caller, move |frames| async move {
        let mut listens = frames.send(first).await;
        while listens && let Some(told) = tale.next().await {
            listens = frames.send_all(frame(told, &about, language)).await;
        }
    })
    .map_err(|error| error.of_run(&name))
}

fn start(about: &Value) -> Frame {
    Frame::new("start", &typed("start", "".into(), about.clone()))
}

fn interrupt(questions: &[Question], language: Language) -> Value {
    let spoken = language.pick("ko", "en");
    let asked = questions.iter().map(|asked| asked.question[spoken].as_str().unwrap_or_default());
    let content = asked.collect::<Vec<_>>().join("\n");
    typed("interrupt", content.into(), json!({ "questions": questions }))
}

/// The data of a frame: every one has a `type` and a `content`, so that one loop reads them all.
fn typed(kind: &str, content: Value, mut data: Value) -> Value {
    data["type"] = kind.into();
    data["content"] = content;
    data
}

fn frame(told: Told, about: &Value, language: Language) -> Vec<Frame> {
    let (name, data) = match told {
        Told::Words(words) => ("token", typed("token", words.into(), json!({}))),
        Told::Void => ("restart", typed("restart", "".into(), json!({}))),
        Told::News(news) => match news["type"].as_str() {
            Some("thinking") => ("thinking", news),
            Some("sources") => ("sources", typed("sources", news["sources"].clone(), news)),
            Some("tool_call") => ("tool_call", typed("tool_call", news["name"].clone(), news)),
            Some("tool_result") => ("tool_result", typed("tool_result", news["text"].clone(), news)),
            Some(_) | None => return Vec::new(),
        },
        Told::Asks(questions) => ("interrupt", interrupt(&questions, language)),
        Told::Over(End::Finished) => ("done", typed("done", "".into(), about.clone())),
        Told::Over(End::Failed { code, message } | End::Unanswered { code, words: message }) => {
            let Advice { en, ko } = advice(&code);
            let data = json!({ "errorCode": code, "message": message, "en": en, "ko": ko });
            ("error", typed("error", message.into(), data))
        }
        Told::Over(End::Cancelled) => {
            ended("run_cancelled", language.pick("실행이 취소되었습니다", "the run was cancelled"))
        }
        Told::Over(End::Left) => ended(
            "stopping",
            language.pick(
                "서버가 멈춥니다. 실행은 그 대화에서 이어집니다",
                "the server stops; the run goes on in its thread",
            ),
        ),
    };
    vec![Frame::new(name, &data)]
}

fn ended(code: &str, why: &str) -> (&'static str, Value) {
    ("error", typed("error", why.into(), json!({ "errorCode": code })))
}
