//! What an inspector shows of a node: the requests that it would send in a state, or why it cannot make them.

use std::sync::Arc;

use doran_agents::AgentParts;
use doran_agents::described::{AgentDescription, build_described_agent};
use doran_llm::ScriptedModel;
use doran_retrieval::RamKeywordIndex;
use serde_json::json;

const AGENT: &str = r#"
name = "listed"
start = "answer"

[[node]]
name = "answer"
use = "respond"
prompt = "{% for row in values.rows %}{{ row.name.first }}{% endfor %}"
then = "end"
"#;

#[test]
fn a_node_says_why_it_cannot_make_its_request() {
    let description = AgentDescription::from_toml(AGENT).expect("a description");
    let parts = AgentParts::new(Arc::new(ScriptedModel::new([])), Arc::new(RamKeywordIndex::default()));
    let agent = build_described_agent(&description, &[], &parts).expect("sound");
    let requests = |state| agent.explain("answer", &state);

    let made =
        requests(json!({ "values": { "rows": [{ "name": { "first": "Kim" } }] } })).expect("a request");
    assert_eq!(made.len(), 1);
    assert!(made[0].messages[0].text().contains("Kim"));
    let error = requests(json!({ "values": { "rows": [{}] } })).expect_err("no name").to_string();
    assert!(error.contains("undefined"), "{error}");
    assert!(agent.explain("nobody", &json!({})).expect("no node").is_empty());
}
