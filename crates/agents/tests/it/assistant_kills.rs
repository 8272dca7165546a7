//! The `assistant` killed at every write of a turn and started again: the same answer, and nothing that finished is
//! done again.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use doran_agents::Settings;
use doran_engine::store::Store;
use doran_llm::{Purpose, Script, ScriptedModel};
use expect_test::expect;
use serde_json::json;

use crate::stage::{Tools, killed_everywhere, parts, stage, tools};

/// As many replies as a turn could use if everything were asked twice.
fn script() -> ScriptedModel {
    let route = || Script::json(&json!({ "route": "agent", "reason": "계산" }));
    let call = || Script::call("calculator", json!({ "expression": "123 * 456" }));
    let model = ScriptedModel::new([]).on(Purpose::Route, route()).on(Purpose::Route, route());
    for reply in [call(), Script::text("56088입니다."), Script::text("56088입니다.")] {
        model.push(reply);
    }
    model
}

#[tokio::test]
async fn a_kill_anywhere_repeats_at_most_the_call_in_flight() {
    let mut table = String::new();
    // Each death gets a script and tools of its own, shared by the two lives around it.
    let mut lives: Vec<(ScriptedModel, Tools)> = Vec::new();
    let mut life = 0;
    let turns = {
        let lives = &mut lives;
        let life = &mut life;
        killed_everywhere("123 * 456 계산해줘", 9, move |store: Arc<dyn Store>| {
            if *life % 2 == 0 {
                lives.push((script(), tools()));
            }
            *life += 1;
            let (model, tools) = lives.last().expect("a life");
            let parts = parts(Arc::new(model.clone()), tools.toolbox.clone());
            stage("assistant", &Settings::default(), &parts, store)
        })
        .await
    };
    for ((dies, turn), (model, tools)) in turns.iter().zip(&lives) {
        let turn = turn.as_ref().expect("nothing to ask");
        assert_eq!(turn.response, "56088입니다.", "{dies:?}");
        let (asked, ran) = (model.requests().len(), tools.calculator.load(Ordering::SeqCst));
        writeln!(table, "{dies:?}: models {asked} tools {ran}").expect("text");
    }
    expect![[r#""#]].assert_eq(&table);
}
