//! What agents do for small models: a vendor behind HTTP that is served on this machine, asked through the real provider.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use doran_agents::tools::{Calculator, ToolPolicy, Toolbox};
use doran_agents::{AgentParts, Settings};
use doran_engine::store::RamStore;
use doran_llm::{
    ModelApiKey, ModelConfig, ReceivedHttpRequest, ScriptedDialect, ScriptedServer, ScriptedVendorAnswer,
    open_model,
};
use doran_retrieval::{Document, DocumentIndex, DocumentKind, DocumentTenant, RamKeywordIndex};
use serde_json::Value;

use crate::agent_fixture::{build_fixture, counting_tools, sample_index};

/// The settings that give an agent `calculator`.
const AGENTS: [(&str, &str); 4] = [
    ("assistant", ""),
    ("react", ""),
    ("docqa", "[agents.docqa]\ntools = [\"calculator\"]"),
    ("contract", "[agents.contract]\ntools = [\"calculator\"]"),
];

/// The decision that a request asks for; nothing where it asks for words.
fn decision(body: &Value) -> Option<&'static str> {
    let schema = body["response_format"]["json_schema"]["name"].as_str()?.to_lowercase();
    Some(match schema {
        name if name.contains("route") => r#"{"reason":"r","route":"agent"}"#,
        name if name.contains("classif") => r#"{"reason":"r","type":"chitchat"}"#,
        name if name.contains("scope") => r#"{"in_scope":true,"need_previous_context":false,"reason":"r"}"#,
        name if name.contains("previous") => r#"{"need_previous_context":false,"reasoning":"r"}"#,
        _ => r#"{"is_sufficient":true,"reasoning":"r","missing_info":null}"#,
    })
}

/// A model that decides as above, then says these replies one after another, and then the last of them again.
async fn local_server(replies: &'static [&'static str]) -> ScriptedServer {
    let said = std::sync::atomic::AtomicUsize::new(0);
    ScriptedServer::start_with_responder(move |request: &ReceivedHttpRequest| {
        let text = decision(&request.body).unwrap_or_else(|| {
            let next = said.fetch_add(1, Ordering::SeqCst);
            replies[next.min(replies.len() - 1)]
        });
        ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text(text))
    })
    .await
    .expect("a server")
}

fn real_calculator() -> Toolbox {
    let mut toolbox = Toolbox::new();
    toolbox.add(Arc::new(Calculator::new()), ToolPolicy::Allow).expect("a tool");
    toolbox
}

fn parts(server: &ScriptedServer, index: Arc<dyn DocumentIndex>, toolbox: Toolbox) -> AgentParts {
    let id = "llamacpp:m".parse().expect("an id");
    let config = ModelConfig { base_url: Some(server.url()), ..ModelConfig::new(id) };
    let model = open_model(&config, ModelApiKey::new("")).expect("a model");
    AgentParts { tools: toolbox, ..AgentParts::new(model, index) }
}

fn contract_index() -> Arc<dyn DocumentIndex> {
    let text = "제1조(목적) 이 계약은 용역을 정한다.";
    let contract =
        Document { kind: DocumentKind::Contract, ..Document::new("용역.md", "용역 계약서", text) };
    Arc::new(RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &[contract]))
}

#[tokio::test]
async fn a_call_written_as_text_runs_wherever_tools_are_offered() {
    const WRITTEN: [&[&str]; 6] = [
        &["calculator {\"expression\": \"1 + 1\"}", "2"],
        &["```json\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"1 + 1\"}}\n```", "2"],
        &[
            "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"1 + 1\"}}\n</tool_call>",
            "2",
        ],
        &["{\"name\": \"calculator\", \"arguments\": {\"expression\": \"1 + 1\"}}", "2"],
        &["{{\"name\": \"calculator\", \"arguments\": {{\"expression\": \"1 + 1\"}}}}", "2"],
        &["[\n  {\"name\": \"calculator\", \"arguments\": {\"expression\": \"1 + 1\"}}\n]", "2"],
    ];
    for (agent, settings) in AGENTS {
        for replies in WRITTEN {
            let (server, tools) = (local_server(replies).await, counting_tools());
            let settings: Settings = toml::from_str(settings).expect("settings");
            let parts = parts(&server, contract_index(), tools.toolbox);
            let stage = build_fixture(agent, &settings, &parts, Arc::new(RamStore::new()));
            stage.ask("계약서 1 + 1").await;
            assert_eq!(stage.turn().await.response, "2", "{agent}: {}", replies[0]);
            assert_eq!(tools.calculator.load(Ordering::SeqCst), 1, "{agent}: {}", replies[0]);
        }
    }
}

#[tokio::test]
async fn a_written_call_that_cannot_run_is_for_the_model_to_correct() {
    let replies: &[&str] = &[
        r#"{"name": "calculator", "arguments": {"expression": "1 + 1", "maxLength": 9}}"#,
        r#"{"name": "greet", "arguments": {"who": "Kim"}}"#,
        "2",
    ];
    let server = local_server(replies).await;
    let parts = parts(&server, sample_index(), real_calculator());
    let stage = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.ask("What is 1 + 1?").await;
    assert_eq!(stage.turn().await.response, "2");
    let results: Vec<String> = server
        .received_requests()
        .iter()
        .filter_map(|request| {
            request.body["messages"].as_array()?.last()?["content"].as_str().map(str::to_owned)
        })
        .collect();
    assert!(results[1].ends_with(". It takes: expression"), "{results:?}");
    assert!(results[2].contains("there is no tool `greet`; there are: calculator"), "{results:?}");
}

/// The texts of the first request to a server.
fn first_request(server: &ScriptedServer) -> String {
    server.received_requests().first().expect("a request").body["messages"].to_string()
}

#[tokio::test]
async fn who_decides_whether_to_search_knows_what_there_is() {
    for agent in ["assistant", "docqa"] {
        let server = local_server(&["네."]).await;
        let parts = parts(&server, sample_index(), counting_tools().toolbox);
        build_fixture(agent, &Settings::default(), &parts, Arc::new(RamStore::new())).ask("안녕").await;
        let sent = first_request(&server);
        assert!(sent.contains("[저장된 문서]") && sent.contains("- 휴가 규정"), "{agent}: {sent}");
        assert!(
            sent.find("\\\"reason\\\"") < sent.find("\\\"rag\\\"").max(sent.find("\\\"type\\\"")),
            "{sent}"
        );
    }
}

#[tokio::test]
async fn a_model_says_why_before_it_chooses() {
    let mut seen = BTreeSet::new();
    for agent in ["assistant", "docqa", "contract"] {
        let server = local_server(&["네."]).await;
        let parts = parts(&server, contract_index(), counting_tools().toolbox);
        let stage = build_fixture(agent, &Settings::default(), &parts, Arc::new(RamStore::new()));
        // Rules cannot tell whether the first is about contracts, nor whether the last needs the turn before.
        for question in ["언제까지 하면 되나요?", "제1조 내용이 뭐야?", "제1조 목적은?"]
        {
            stage.ask(question).await;
        }
        for request in server.received_requests() {
            let Some(name) = request.body["response_format"]["json_schema"]["name"].as_str() else {
                continue;
            };
            let schema = request.body_text.split_once("\"json_schema\"").expect("a schema").1;
            let (_, properties) = schema.split_once("\"properties\":{\"").expect("properties");
            assert!(properties.starts_with("reason"), "{agent}: {schema}");
            seen.insert(name.to_owned());
        }
    }
    let expected = ["InScope", "NeedsPrevious", "QueryClassification", "RouteDecision", "Sufficiency"];
    assert_eq!(seen, BTreeSet::from(expected.map(str::to_owned)));
}

#[tokio::test]
async fn of_a_large_library_a_few_titles_are_told() {
    let document = |nth: usize| {
        Document::new(
            format!("{nth:03}.md"),
            format!("제목{nth:03} {}", "가".repeat(500)),
            "연차휴가는 15일이다.",
        )
    };
    let documents: Vec<Document> = (0..100).map(document).collect();
    let index = Arc::new(RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &documents));
    for agent in ["assistant", "docqa"] {
        let server = local_server(&["네."]).await;
        let parts = parts(&server, index.clone(), counting_tools().toolbox);
        build_fixture(agent, &Settings::default(), &parts, Arc::new(RamStore::new())).ask("안녕").await;
        let sent = first_request(&server);
        assert_eq!(
            (sent.matches("- 제목").count(), sent.matches('가').count() < 20 * 30),
            (20, true),
            "{agent}"
        );
    }
}

#[tokio::test]
async fn what_never_changes_comes_first_and_limits_of_arguments_are_not_sent() {
    let server = ScriptedServer::start_with_responder(|request: &ReceivedHttpRequest| {
        let text = decision(&request.body).map_or("15일입니다 [1].", |_| r#"{"reason":"r","route":"rag"}"#);
        ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text(text))
    })
    .await
    .expect("a server");
    let parts = parts(&server, sample_index(), real_calculator());
    let stage = build_fixture("assistant", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.ask("연차휴가는 며칠인가요?").await;
    let sent = server.received_requests().pop().expect("a request").body;
    let (system, user) =
        (sent["messages"][0]["content"].to_string(), sent["messages"][1]["content"].to_string());
    assert!(
        !system.contains("<passage") && user.contains("<passage") && user.ends_with("며칠인가요?\""),
        "{sent}"
    );
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(2), "{sent}");
    let parameters = sent["tools"][0]["function"]["parameters"].to_string();
    assert!(
        !parameters.contains("maxLength") && !parameters.contains("additionalProperties"),
        "{parameters}"
    );
}

#[tokio::test]
async fn a_model_that_writes_the_same_call_over_and_over_is_stopped() {
    const CALL: &str = r#"{"name": "calculator", "arguments": {"expression": "1 + 1", "type": "string"}}"#;
    let server = ScriptedServer::start_with_responder(|request: &ReceivedHttpRequest| {
        let has_result = request.body["messages"].to_string().contains("tool_call_id");
        let text = if has_result { "2".to_owned() } else { [CALL; 50].join("\n") };
        ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text(&text))
    })
    .await
    .expect("a server");
    let parts = parts(&server, sample_index(), real_calculator());
    let stage = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.ask("What is 1 + 1?").await;
    assert_eq!((stage.turn().await.response.as_str(), server.received_requests().len()), ("2", 2));
}

#[tokio::test]
async fn with_nothing_said_before_a_summary_is_looked_for_in_documents() {
    let server = ScriptedServer::start_with_responder(|request: &ReceivedHttpRequest| {
        let text = decision(&request.body).map_or("네.", |_| r#"{"reason":"r","type":"summary"}"#);
        ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text(text))
    })
    .await
    .expect("a server");
    let parts = parts(&server, sample_index(), Toolbox::new());
    let stage = build_fixture("docqa", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.ask("휴가 규정을 요약해 줘").await;
    assert_eq!(stage.turn().await.route, "question");
    stage.ask("우리 이야기를 요약해 줘").await;
    assert_eq!(stage.turn().await.route, "summary");
}
