//! What people see when a run fails: the code of the failure, and its message in both languages, in every dialect
//! by which a run can be started.

use std::sync::Arc;

use doran_llm::{
    ChatModel, ChatRequest, DeltaStream, ModelError, ModelErrorAdvice, ModelErrorKind, ModelInfo,
};
use doran_offline::OfflineModel;
use doran_server::ServerLimits;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json as object};

use crate::{app_with, check_both_languages, get, json, post, send, text};

const AGENTS: [&str; 4] = ["assistant", "react", "docqa", "contract"];

/// A model that always fails in the same way.
pub struct FailingModel(pub ModelErrorKind);

impl ChatModel for FailingModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, _: ChatRequest) -> DeltaStream {
        let reason = "seen in a test".to_owned();
        let error = match self.0 {
            ModelErrorKind::Unavailable => {
                ModelError::Unavailable { reason, retry_after: None, source: None }
            }
            ModelErrorKind::Unreachable => ModelError::Unreachable { reason, source: None },
            ModelErrorKind::RateLimited => ModelError::RateLimited { reason, retry_after: None },
            ModelErrorKind::Broken => ModelError::Broken { reason },
            ModelErrorKind::Empty => ModelError::Empty { reason },
            ModelErrorKind::LimitExceeded => ModelError::LimitExceeded { reason },
            ModelErrorKind::Unauthorized => ModelError::Unauthorized { reason },
            ModelErrorKind::OutOfCredit => ModelError::OutOfCredit { reason },
            ModelErrorKind::TooLong => ModelError::TooLong { reason },
            ModelErrorKind::Filtered => ModelError::Filtered { reason },
            ModelErrorKind::Rejected => ModelError::Rejected { reason },
            ModelErrorKind::NotRecorded => ModelError::NotRecorded { reason },
        };
        stream::iter([Err(error)]).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn every_error_of_a_model_is_reported_in_both_languages_by_every_dialect() {
    for fault in ModelErrorKind::ALL {
        let app = app_with(Arc::new(FailingModel(*fault)), ServerLimits::default());
        let (code, ModelErrorAdvice { ko, en }) = (fault.failure_code(), fault.advice());

        let asked = object!({ "agent": "assistant", "message": "연차는 며칠인가요?" }).to_string();
        let events = text(send(&app, post("/api/threads/t/runs", &asked)).await).await;
        let last = events.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("an event");
        let last: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(
            (&last["type"], &last["code"], &last["en"], &last["ko"]),
            (&object!("failed"), &object!(code), &object!(en), &object!(ko)),
            "{events}"
        );
        assert!(last["message"].as_str().expect("a message").contains("seen in a test"), "{last}");

        let runs = json(&app, get("/api/threads/t/runs")).await;
        let run = &runs["runs"][0];
        assert_eq!(
            (&run["error_code"], &run["error_en"], &run["error_ko"]),
            (&object!(code), &object!(en), &object!(ko))
        );

        for (message, words) in [("연차는 며칠인가요?", ko), ("How long is the leave?", en)] {
            let asked = object!({ "agent": "assistant", "message": message }).to_string();
            let answer = json(&app, post("/api/chat", &asked)).await;
            assert_eq!(
                (&answer["errorCode"], &answer["response"]),
                (&object!(code), &object!(words)),
                "{answer}"
            );
        }

        let messages = object!([{ "role": "user", "content": "연차는 며칠인가요?" }]);
        for (agent, streams) in AGENTS.iter().flat_map(|agent| [(agent, false), (agent, true)]) {
            let asked = object!({ "model": agent, "messages": messages, "stream": streams });
            let response = send(&app, post("/v1/chat/completions", &asked.to_string())).await;
            let status = response.status();
            let answer = text(response).await;
            assert_eq!(status.as_u16(), if streams { 200 } else { 502 }, "{agent}: {answer}");
            let error = answer
                .lines()
                .map(|line| line.strip_prefix("data: ").unwrap_or(line))
                .find_map(|line| serde_json::from_str::<Value>(line).ok()?.get("error").cloned())
                .unwrap_or_else(|| panic!("no error in {answer}"));
            check_both_languages(&object!({ "error": error }));
            assert!(!answer.contains("\"finish_reason\":\"stop\"") && !answer.contains("[DONE]"), "{answer}");
            let field = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
            // The codes of `react` are those of its design, and fewer.
            if *agent != "react" {
                assert!(
                    field("message").contains(en) && field("message_ko").contains(ko),
                    "{agent}: {error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_empty_message_is_answered_with_a_sentence_by_every_agent() {
    let app = app_with(Arc::new(FailingModel(ModelErrorKind::Rejected)), ServerLimits::default());
    for agent in AGENTS {
        for message in ["", " \n"] {
            let asked = object!({ "agent": agent, "message": message }).to_string();
            let answer = json(&app, post("/api/chat", &asked)).await;
            assert_eq!(answer["errorCode"], "empty_input", "{agent}: {answer}");
            assert_eq!(answer["response"], "질문이 비어 있습니다. 무엇이 궁금한지 적어 주세요.", "{agent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_says_how_many_requests_were_sent() {
    let app = app_with(Arc::new(FailingModel(ModelErrorKind::Unavailable)), ServerLimits::default());
    for agent in AGENTS {
        let asked = object!({ "agent": agent, "message": "계약 해지는 며칠 전에 알리나요?" }).to_string();
        let answer = json(&app, post("/api/chat", &asked)).await;
        assert_eq!(
            (&answer["error"], &answer["modelCalls"]),
            (&object!(true), &object!(3)),
            "{agent}: {answer}"
        );
    }
}
