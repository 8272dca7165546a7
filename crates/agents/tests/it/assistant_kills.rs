//! The `assistant` killed at every write of a turn and started again: the same answer, and nothing that finished is
//! done again.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use doran_agents::RequestPurpose;
use doran_agents::Settings;
use doran_engine::store::Store;
use doran_llm::{ChatRequest, ScriptedReply};
use expect_test::expect;
use serde_json::json;

use crate::agent_fixture::{
    CountingTools, RequestDrivenModel, agent_parts, build_fixture, counting_tools, has_tool_results,
    kill_at_every_commit,
};

fn decide(request: &ChatRequest) -> ScriptedReply {
    match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Route => ScriptedReply::json(&json!({ "route": "agent", "reason": "계산" })),
        _ if has_tool_results(request) => ScriptedReply::text("56088입니다."),
        _ => ScriptedReply::call("calculator", json!({ "expression": "123 * 456" })),
    }
}

#[tokio::test]
async fn a_kill_anywhere_repeats_at_most_the_call_in_flight() {
    let mut table = String::new();
    // Each death gets a script and tools of its own, shared by the two processes around it.
    let mut attempts: Vec<(RequestDrivenModel, CountingTools)> = Vec::new();
    let mut process_count = 0;
    let turns = {
        let attempts = &mut attempts;
        let process_count = &mut process_count;
        kill_at_every_commit("123 * 456 계산해줘", 6, move |store: Arc<dyn Store>| {
            if *process_count % 2 == 0 {
                attempts.push((RequestDrivenModel::new(decide), counting_tools()));
            }
            *process_count += 1;
            let (model, tools) = attempts.last().expect("an attempt");
            let parts = agent_parts(Arc::new(model.clone()), tools.toolbox.clone());
            build_fixture("assistant", &Settings::default(), &parts, store)
        })
        .await
    };
    for ((dies, turn), (model, tools)) in turns.iter().zip(&attempts) {
        let turn = turn.as_ref().expect("nothing to ask");
        assert_eq!(turn.response, "56088입니다.", "{dies:?}");
        let (asked, ran) = (model.call_count.load(Ordering::SeqCst), tools.calculator.load(Ordering::SeqCst));
        writeln!(table, "{dies:?}: models {asked} tools {ran}").expect("text");
    }
    expect![[r#"
        Before(1): models 4 tools 1
        After(1): models 3 tools 1
        Before(2): models 3 tools 1
        After(2): models 3 tools 1
        Before(3): models 4 tools 1
        After(3): models 3 tools 1
        Before(4): models 3 tools 2
        After(4): models 3 tools 1
        Before(5): models 3 tools 1
        After(5): models 3 tools 1
        Before(6): models 4 tools 1
        After(6): models 3 tools 1
    "#]]
    .assert_eq(&table);
}
