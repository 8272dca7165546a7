//! Requests to models, counted where they arrive: by a vendor behind HTTP, asked through the real provider.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doran_agents::protocol::{ModelCallNote, StepNotes, notes_of_entry};
use doran_agents::{AgentParts, Settings};
use doran_engine::store::{RamStore, RunRow, RunStatus};
use doran_llm::{
    ModelApiKey, ModelConfig, ModelRetryPolicy, ReceivedHttpRequest, ScriptedBodyPiece, ScriptedDialect,
    ScriptedHttpResponse, ScriptedServer, ScriptedVendorAnswer, ToolCall, open_model,
};
use serde_json::json;

use crate::agent_fixture::{AgentFixture, agent_parts, build_fixture, counting_tools, test_thread};

const AGENTS: [&str; 4] = ["assistant", "react", "docqa", "contract"];

/// A question that takes several requests of every agent.
const QUESTION: &str = "계약 제5조의 연차는 며칠인가요?";

/// What a vendor does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    ServerError,
    RateLimit,
    /// The connection ends before the answer.
    Reset,
    /// It ends after the first word.
    CutOff,
    Empty,
    BadKey,
}

const FAULTS: [Fault; 6] =
    [Fault::ServerError, Fault::RateLimit, Fault::Reset, Fault::CutOff, Fault::Empty, Fault::BadKey];

impl Fault {
    fn may_pass(self) -> bool {
        !matches!(self, Self::CutOff | Self::BadKey)
    }

    fn response(self, good: ScriptedHttpResponse) -> ScriptedHttpResponse {
        match self {
            Self::ServerError => ScriptedHttpResponse::json(500, "{}"),
            Self::RateLimit => ScriptedHttpResponse::json(429, "{}").header("retry-after", "0"),
            Self::Reset => ScriptedHttpResponse { pieces: vec![ScriptedBodyPiece::Reset], ..good },
            Self::CutOff => ScriptedDialect::Chat
                .streamed_response(&ScriptedVendorAnswer::text("하나 둘 셋"))
                .keep_first_pieces(3)
                .then_piece(ScriptedBodyPiece::Pause(Duration::from_millis(20)))
                .then_piece(ScriptedBodyPiece::Reset),
            Self::Empty => ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text("")),
            Self::BadKey => ScriptedHttpResponse::json(401, "{}"),
        }
    }
}

/// The answer of a sound vendor. Every agent takes its longest way: documents, one round of tools, a judgement.
fn sound_response(request: &ReceivedHttpRequest) -> ScriptedHttpResponse {
    let body = &request.body;
    let schema = body["response_format"]["json_schema"]["name"].as_str().unwrap_or_default();
    let answer = match schema.to_lowercase() {
        name if name.contains("route") => r#"{"route":"rag","reason":"문서"}"#,
        name if name.contains("classif") => r#"{"reason":"x","type":"question"}"#,
        name if name.contains("scope") => r#"{"in_scope":true,"need_previous_context":false,"reason":"r"}"#,
        name if name.contains("suffic") => r#"{"is_sufficient":true,"reasoning":"r","missing_info":null}"#,
        name if name.contains("previous") => r#"{"need_previous_context":false,"reasoning":"r"}"#,
        _ => "15일 입니다.",
    };
    let asked = body["messages"].as_array().into_iter().flatten();
    let has_results = asked.into_iter().any(|message| message["role"] == "tool");
    let tools = body["tools"].as_array().into_iter().flatten();
    let calculator = tools.into_iter().any(|tool| tool["function"]["name"] == "calculator");
    let answer = if schema.is_empty() && calculator && !has_results && body["tool_choice"] != "none" {
        let arguments = json!({ "expression": "1 + 1" });
        ScriptedVendorAnswer::calls([ToolCall { id: "c1".into(), name: "calculator".into(), arguments }])
    } else {
        ScriptedVendorAnswer::text(answer)
    };
    ScriptedDialect::Chat.streamed_response(&answer)
}

/// A vendor that does this to requests from this one on, so many times.
async fn vendor(fault: Fault, from: usize, times: usize) -> ScriptedServer {
    let count = AtomicUsize::new(0);
    ScriptedServer::start_with_responder(move |request| {
        let nth = count.fetch_add(1, Ordering::SeqCst);
        let good = sound_response(request);
        if (from..from.saturating_add(times)).contains(&nth) { fault.response(good) } else { good }
    })
    .await
    .expect("a server")
}

fn fixture(agent: &str, server: &ScriptedServer) -> AgentFixture {
    let id = "openai:m".parse().expect("an id");
    let config = ModelConfig { base_url: Some(server.url()), ..ModelConfig::new(id) };
    let model = open_model(&config, ModelApiKey::new("sk-test")).expect("a model");
    let wait = Duration::from_millis(1);
    let retries = ModelRetryPolicy { first_wait: wait, max_wait: wait, ..ModelRetryPolicy::default() };
    let parts = AgentParts { retries, ..agent_parts(model, counting_tools().toolbox) };
    build_fixture(agent, &Settings::default(), &parts, Arc::new(RamStore::new()))
}

/// Notes of all steps of the thread, unfinished ones included.
async fn all_notes(stage: &AgentFixture) -> Vec<StepNotes> {
    let entries = stage.runtime.entries(&test_thread(), 0, 1000).await.expect("entries");
    entries.iter().flat_map(|entry| notes_of_entry(&entry.body).expect("notes")).collect()
}

async fn ask(stage: &AgentFixture) -> RunRow {
    stage.start(QUESTION).await.wait().await.expect("an end")
}

#[tokio::test]
async fn every_request_that_arrives_is_counted_and_none_is_sent_more_than_three_times() {
    for agent in AGENTS {
        let sound = vendor(Fault::ServerError, 0, 0).await;
        let stage = fixture(agent, &sound);
        assert_eq!(ask(&stage).await.status, RunStatus::Finished, "{agent}");
        let usual = sound.received_requests().len();
        assert!(usual >= 2, "{agent}: {usual}");
        assert_eq!(stage.turn().await.model_calls as usize, usual, "{agent}");

        for fault in FAULTS {
            for (from, times) in (0..usual).flat_map(|from| [1, 2, 3, usize::MAX].map(|times| (from, times)))
            {
                let server = vendor(fault, from, times).await;
                let stage = fixture(agent, &server);
                let row = ask(&stage).await;
                let sent = server.received_requests().len();
                let what = format!("{agent} {fault:?} at {from}, {times} times");
                let expected = match (fault.may_pass(), times) {
                    (false, _) => from + 1,
                    (true, 1 | 2) => usual + times,
                    (true, _) => from + 3,
                };
                assert_eq!(sent, expected, "{what}");
                let counted: u32 = all_notes(&stage).await.iter().map(StepNotes::request_count).sum();
                assert_eq!(counted as usize, sent, "{what}");
                if row.status == RunStatus::Finished {
                    assert_eq!(stage.turn().await.model_calls as usize, sent, "{what}");
                }
                let answered = fault.may_pass() && times <= 2;
                match (answered, agent, fault) {
                    (true, _, _) => assert_eq!(row.status, RunStatus::Finished, "{what}"),
                    (false, "react", _) => assert!(stage.turn().await.error, "{what}"),
                    // An agent without tools says itself that there is no answer.
                    (false, _, Fault::Empty) => {}
                    (false, _, _) => assert_eq!(row.status, RunStatus::Failed, "{what}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn what_a_cut_off_answer_took_is_estimated_and_a_refused_request_took_nothing() {
    for (fault, took) in [(Fault::CutOff, true), (Fault::ServerError, false)] {
        let server = vendor(fault, 0, usize::MAX).await;
        let stage = fixture("assistant", &server);
        let row = ask(&stage).await;
        assert_eq!(row.status, RunStatus::Failed);
        assert_eq!(row.usage.input_tokens > 0, took, "{fault:?}: {:?}", row.usage);
        let notes = all_notes(&stage).await;
        let unfinished = notes.iter().flat_map(|notes| &notes.models).filter_map(|note| match note {
            ModelCallNote::Unfinished(request) => {
                Some((request.unfinished.as_str(), request.input_tokens > 0))
            }
            _ => None,
        });
        let unfinished: Vec<_> = unfinished.collect();
        let code = if took { "truncated" } else { "unavailable" };
        assert!(unfinished.iter().all(|one| *one == (code, took)), "{unfinished:?}");
        assert!(!unfinished.is_empty());
    }
}

#[tokio::test]
async fn a_request_that_is_stopped_is_counted_and_its_step_is_in_the_log() {
    let server = ScriptedServer::start_with_responder(|request| {
        let mut response = sound_response(request);
        if request.body["response_format"].is_null() {
            response = response.keep_first_pieces(3).then_piece(ScriptedBodyPiece::Stall);
        }
        response
    })
    .await
    .expect("a server");
    let stage = fixture("docqa", &server);
    let run = stage.start(QUESTION).await;
    let mut watch =
        stage.runtime.watch(&run.key(), 0, doran_engine::WatchUntil::RunEndedOrPaused).await.expect("watch");
    while let Some(event) = watch.try_next().await.expect("an event") {
        if matches!(&event, doran_engine::Event::Delta(delta)
            if matches!(&delta.piece, doran_engine::runtime::NodeDeltaContent::Data(data) if data.is_string()))
        {
            stage.runtime.cancel(&run.key()).await.expect("cancelled");
        }
    }
    let row = run.wait().await.expect("an end");
    assert_eq!(row.status, RunStatus::Cancelled);
    let entries = stage.runtime.entries(&test_thread(), 0, 1000).await.expect("entries");
    let Some(doran_engine::EntryBody::Cancelled { unfinished, .. }) = entries.last().map(|entry| &entry.body)
    else {
        panic!("no end: {entries:?}")
    };
    assert_eq!(unfinished.iter().map(|task| task.node.as_str()).collect::<Vec<_>>(), ["generateAnswer"]);
    let counted: u32 = all_notes(&stage).await.iter().map(StepNotes::request_count).sum();
    assert_eq!(counted as usize, server.received_requests().len());
    let notes = StepNotes::from_notes(&unfinished[0].notes).expect("notes");
    let [ModelCallNote::Unfinished(stopped)] = &notes.models[..] else { panic!("{notes:?}") };
    assert_eq!(stopped.unfinished, "stopped");
    assert!(stopped.input_tokens > 0 && stopped.output_tokens > 0, "{stopped:?}");
    assert!(row.usage.input_tokens >= 20 + stopped.input_tokens, "{:?}", row.usage);
}
