//! What an inspector shows of a node: the requests that it would send in a state, or why it cannot make them.

use std::sync::Arc;

use doran_agents::described::{AgentDescription, build_described_agent};
use doran_agents::{AgentParts, Settings};
use doran_engine::ThreadKey;
use doran_engine::store::RamStore;
use doran_llm::{ChatRequest, ScriptedModel, ScriptedReply};
use doran_retrieval::{Document, DocumentKind, DocumentTenant, RamKeywordIndex};
use serde_json::json;

use crate::agent_fixture::{build_fixture, test_thread};

const AGENT: &str = r#"
name = "listed"
start = "answer"

[[node]]
name = "answer"
use = "respond"
prompt = "{% for row in values.rows %}{{ row.name.first }}{% endfor %}"
then = "end"
"#;

#[tokio::test]
async fn a_node_says_why_it_cannot_make_its_request() {
    let description = AgentDescription::from_toml(AGENT).expect("a description");
    let parts = AgentParts::new(Arc::new(ScriptedModel::new([])), Arc::new(RamKeywordIndex::default()));
    let agent = build_described_agent(&description, &[], &parts).expect("sound");
    let thread = ThreadKey::local("t").expect("a thread");
    let requests = async |state| agent.explain("answer", &state, &thread).await;

    let made =
        requests(json!({ "values": { "rows": [{ "name": { "first": "Kim" } }] } })).await.expect("a request");
    assert_eq!(made.len(), 1);
    assert!(made[0].messages[0].text().contains("Kim"));
    let error = requests(json!({ "values": { "rows": [{}] } })).await.expect_err("no name").to_string();
    assert!(error.contains("undefined"), "{error}");
    assert!(agent.explain("nobody", &json!({}), &thread).await.expect("no node").is_empty());
}

#[tokio::test]
async fn a_shown_request_names_the_documents_as_the_one_that_was_sent() {
    let document = |kind| Document {
        kind,
        ..Document::new("a.md", "용역 계약서", "제1조(목적) 용역을 정한다.")
    };
    for (agent, node, reply, kind) in [
        ("assistant", "router", json!({ "reason": "r", "route": "agent" }), DocumentKind::General),
        ("docqa", "classifyQuery", json!({ "reason": "r", "type": "chitchat" }), DocumentKind::General),
        ("contract", "planner", json!("no tools"), DocumentKind::Contract),
    ] {
        let model = ScriptedModel::new([
            ScriptedReply::json(&reply),
            ScriptedReply::json(&json!({ "reasoning": "r", "is_sufficient": true, "missing_info": null })),
            ScriptedReply::text("네."),
        ]);
        let tenant = DocumentTenant::new("local");
        let index = Arc::new(RamKeywordIndex::from_documents(&tenant, &[document(kind)]));
        let parts = AgentParts::new(Arc::new(model.clone()), index);
        let stage = build_fixture(agent, &Settings::default(), &parts, Arc::new(RamStore::new()));
        stage.ask("제1조 목적이 뭐야?").await;
        // The tenant is who asks, and no part of what is asked.
        let sent = ChatRequest { tenant: None, ..model.requests().swap_remove(0) };
        assert!(sent.messages.iter().any(|message| message.text().contains("- 용역 계약서")), "{sent:?}");
        let head = stage.runtime.thread_row(&test_thread()).await.expect("a thread").head;
        let mut shown = Vec::new();
        for at in 1..=head {
            let view = stage.runtime.view(agent, &test_thread(), Some(at)).await.expect("a state");
            shown.extend(stage.agent.explain(node, &view.state, &test_thread()).await.expect("requests"));
        }
        assert!(shown.contains(&sent), "{agent}: {sent:#?} is none of {shown:#?}");
    }
}
