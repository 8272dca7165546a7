//! A run that was begun is begun once: a client that gets no answer learns that the run is there, and not to retry.

use std::sync::Arc;
use std::time::Duration;

use doran_llm::ModelErrorKind;
use doran_server::{ServerApp, ServerLimits};
use serde_json::{Value, json as object};
use tokio::sync::Notify;

use crate::model_failures::FailingModel;
use crate::{PausingModel, app_with, get, json, post, send, text, until};

/// Why a run that was begun gives no answer.
#[derive(Clone, Copy, Debug)]
pub enum UnansweredRunCase {
    /// Its model fails.
    Failed,
    /// Somebody cancels it.
    Cancelled,
    /// The server stops.
    Stopped,
    /// It takes longer than anybody waits for.
    Late,
}

impl UnansweredRunCase {
    pub const ALL: [Self; 4] = [Self::Failed, Self::Cancelled, Self::Stopped, Self::Late];

    /// A server that has it.
    pub fn app(self) -> ServerApp {
        let wait = match self {
            Self::Late => Duration::from_millis(200),
            Self::Failed | Self::Cancelled | Self::Stopped => ServerLimits::default().answer_timeout,
        };
        let limits = ServerLimits { answer_timeout: wait, ..ServerLimits::default() };
        match self {
            Self::Failed => app_with(Arc::new(FailingModel(ModelErrorKind::Unauthorized)), limits),
            Self::Cancelled | Self::Stopped | Self::Late => {
                app_with(Arc::new(PausingModel(Arc::new(Notify::new()))), limits)
            }
        }
    }

    /// Brings it about once a run is under way on the thread.
    pub async fn cause(self, app: &ServerApp, thread: &str) {
        let running =
            async || list_thread_runs(app, thread).await.iter().any(|run| run["status"] == "running");
        match self {
            Self::Failed | Self::Late => {}
            Self::Cancelled => {
                until(running).await;
                let run = list_thread_runs(app, thread).await[0]["id"].as_str().expect("an id").to_owned();
                json(app, post(&format!("/api/threads/{thread}/runs/{run}/cancel"), "{}")).await;
            }
            Self::Stopped => {
                until(running).await;
                app.draining().cancel();
            }
        }
    }

    /// Status and code of the error instead of an answer.
    pub fn expected_error(self) -> &'static str {
        match self {
            Self::Failed => "502 run_failed",
            Self::Cancelled => "409 conflict",
            Self::Stopped | Self::Late => "504 not_finished",
        }
    }
}

/// The runs of a thread, newest first; none where there is no thread.
pub async fn list_thread_runs(app: &ServerApp, thread: &str) -> Vec<Value> {
    let answer = send(app, get(&format!("/api/threads/{thread}/runs"))).await;
    let mut listed: Value = serde_json::from_str(&text(answer).await).expect("JSON");
    listed["runs"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_about_a_run_that_was_begun_says_not_to_ask_again() {
    let asked = object!({ "model": "assistant", "metadata": { "thread_id": "t" },
        "messages": [{ "role": "user", "content": "안녕?" }] });
    for trouble in UnansweredRunCase::ALL {
        let app = trouble.app();
        let asking = send(&app, post("/v1/chat/completions", &asked.to_string()));
        let (answer, ()) = tokio::join!(asking, trouble.cause(&app, "t"));
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let error: Value = serde_json::from_str(&text(answer).await).expect("JSON");
        let code = error["error"]["code"].as_str().unwrap_or_default();
        assert_eq!(format!("{status} {code}"), trouble.expected_error(), "{error}");
        assert_eq!(headers.get("x-should-retry").expect("a word about it"), "false", "{trouble:?}");
        assert_eq!(headers.get("x-thread-id").expect("the thread"), "t", "{trouble:?}");
        assert!(headers.get("retry-after").is_none(), "{trouble:?}");
        if code == "not_finished" {
            assert!(error["error"]["message"].as_str().is_some_and(|words| words.contains("`t`")), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_says_that_the_run_goes_on_by_every_way_to_ask() {
    for (path, body) in [
        ("/api/chat", object!({ "agent": "react", "message": "안녕?", "sessionId": "t" })),
        ("/api/threads/t/runs?wait=true", object!({ "agent": "react", "message": "안녕?" })),
    ] {
        let app = UnansweredRunCase::Stopped.app();
        let asking = send(&app, post(path, &body.to_string()));
        let (answer, ()) = tokio::join!(asking, UnansweredRunCase::Stopped.cause(&app, "t"));
        assert_eq!(answer.status(), 504, "{path}");
        assert!(answer.headers().get("retry-after").is_none(), "{path}");
        assert_eq!(answer.headers().get("x-should-retry").expect("a word about it"), "false", "{path}");
        assert_eq!(answer.headers().contains_key("location"), path.contains("wait"), "{path}");
        let response: Value = serde_json::from_str(&text(answer).await).expect("JSON");
        assert!(response["detail"].as_str().is_some_and(|words| words.contains("`t`")), "{response}");
        assert_eq!(
            (list_thread_runs(&app, "t").await.len(), &response["code"]),
            (1, &object!("not_finished"))
        );
    }
}

#[tokio::test]
async fn what_was_not_begun_may_be_requested_again() {
    let app = app_with(Arc::new(PausingModel(Arc::new(Notify::new()))), ServerLimits::default());
    let asked = object!({ "model": "nobody", "messages": [{ "role": "user", "content": "안녕?" }] });
    let answer = send(&app, post("/v1/chat/completions", &asked.to_string())).await;
    assert_eq!(answer.status(), 404);
    assert!(answer.headers().get("x-should-retry").is_none());
}
