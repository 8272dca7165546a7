//! The questions of `evals/agents.toml`, asked on the built-in model and the sample documents, every one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_agents::eval::{self, AgentEvalSet, EvalDocuments, EvalExpectation};
use doran_agents::tools::{BuiltinToolsConfig, Toolbox, builtin_tools};
use doran_agents::{Agent, AgentParts, build_default_agents, samples};
use doran_offline::OfflineModel;
use doran_retrieval::{DocumentTenant, RamKeywordIndex};

fn agent_eval_set() -> AgentEvalSet {
    read_eval_set("agents.toml")
}

fn read_eval_set(name: &str) -> AgentEvalSet {
    let path = format!("{}/../../evals/{name}", env!("CARGO_MANIFEST_DIR"));
    AgentEvalSet::from_toml(&std::fs::read_to_string(path).expect("the questions")).expect("a set")
}

/// The agents as the program has them without settings and without keys.
fn default_agents() -> Vec<Agent> {
    let documents = [samples::rule_books(), samples::contracts()].concat();
    let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &documents);
    let own = builtin_tools(BuiltinToolsConfig::default()).expect("tools");
    #[cfg_attr(not(feature = "python"), allow(unused_mut, reason = "Python is added to them"))]
    let mut tools = Toolbox::with_tools(own).expect("a toolbox");
    #[cfg(feature = "python")]
    tools
        .add(Arc::new(crate::agent_fixture::python_tool()), doran_agents::tools::ToolPolicy::Allow)
        .expect("Python");
    build_default_agents(&AgentParts { tools, ..AgentParts::new(Arc::new(OfflineModel), Arc::new(index)) })
        .expect("agents")
}

#[tokio::test]
async fn the_four_agents_keep_what_the_questions_expect() {
    let mut set = agent_eval_set();
    assert_eq!(set.documents, EvalDocuments::Samples);
    let needs_python =
        |case: &eval::AgentEvalCase| case.expect.tools.iter().flatten().any(|tool| tool == "python_repl");
    if !crate::agent_fixture::has_python().await {
        let before = set.cases.len();
        set.cases.retain(|case| !needs_python(case));
        println!("SKIPPED: {} questions need Python / Python이 필요한 질문", before - set.cases.len());
    }
    let mut wrong = Vec::new();
    let report = eval::run_eval_set(&set, &default_agents(), async |run| {
        let Ok(outcome) = &run.outcome else { return };
        let eval::EvalCaseOutcome { id, failures, observed, .. } = outcome;
        println!(
            "{} {id}: {} · {:?} · {} sources · {} models",
            match (failures.is_empty(), &outcome.known) {
                (true, None) => "ok  ",
                (true, Some(_)) => "known",
                (false, _) => "FAIL",
            },
            observed.route,
            observed.tools,
            observed.sources.len(),
            observed.model_calls,
        );
        for eval::FailedExpectation { what, expected, was } in failures {
            wrong.push(format!("{id} {what}: expected {expected}, was {was}"));
        }
    })
    .await
    .expect("a report");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(report.passed_count() + report.known_failure_count(), report.cases.len());
    assert!(
        report.known_failure_count() <= 3,
        "{} questions are known to fail",
        report.known_failure_count()
    );
}

#[test]
fn there_are_sixty_questions_and_more_for_every_agent_in_both_languages() {
    let set = agent_eval_set();
    assert!(set.cases.len() >= 60, "{}", set.cases.len());
    let mut by_agent: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for case in &set.cases {
        let counts = by_agent.entry(case.agent.as_str()).or_default();
        match case.ask.chars().any(|char| ('가'..='힣').contains(&char)) {
            true => counts.0 += 1,
            false => counts.1 += 1,
        }
    }
    assert_eq!(by_agent.keys().copied().collect::<Vec<_>>(), ["assistant", "contract", "docqa", "react"]);
    for (agent, (korean, english)) in by_agent {
        assert!(korean >= 5 && english >= 3, "{agent}: {korean} Korean, {english} English");
    }
}

/// What is asked of any language model must at least be kept by the rules, but for words that only they would choose.
#[tokio::test]
async fn the_questions_for_a_real_model_can_be_kept() {
    let set = read_eval_set("real-model.toml");
    let report = eval::run_eval_set(&set, &default_agents(), async |_| {}).await.expect("a report");
    let wrong: Vec<_> =
        report.cases.iter().flat_map(|case| case.failures.iter().map(|why| (&case.id, why))).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let mut agents: Vec<&str> = set.cases.iter().map(|case| case.agent.as_str()).collect();
    agents.dedup();
    assert_eq!(agents, ["assistant", "contract", "react", "docqa"]);
}

#[tokio::test]
async fn a_question_that_expects_something_else_fails() {
    let mut set = agent_eval_set().with_id_prefix("assistant-ko-leave");
    set.cases[0].expect =
        EvalExpectation { contains: vec!["연차휴가 30일".into()], ..EvalExpectation::default() };
    let report = eval::run_eval_set(&set, &default_agents(), async |_| {}).await.expect("a report");
    assert_eq!((report.passed_count(), report.cases[0].failures.len()), (0, 1));
}

#[tokio::test]
async fn a_question_that_is_known_to_fail_is_no_failure_until_it_holds() {
    let mut set = agent_eval_set().with_id_prefix("assistant-ko-leave");
    set.cases[0].fails = Some("시험".into());
    let holds = eval::run_eval_set(&set, &default_agents(), async |_| {}).await.expect("a report");
    assert_eq!(
        (holds.passed_count(), holds.known_failure_count(), holds.cases[0].failures[0].what.as_str()),
        (0, 0, "fails")
    );
    set.cases[0].expect =
        EvalExpectation { contains: vec!["연차휴가 30일".into()], ..EvalExpectation::default() };
    let fails = eval::run_eval_set(&set, &default_agents(), async |_| {}).await.expect("a report");
    assert_eq!((fails.passed_count(), fails.known_failure_count(), fails.cases[0].failures.len()), (0, 1, 0));
}

#[tokio::test]
async fn without_a_person_nobody_is_asked() {
    let mut set = agent_eval_set().with_id_prefix("react-ko-greeting");
    set.cases[0].agent = "nobody".into();
    let error =
        eval::run_eval_set(&set, &default_agents(), async |_| {}).await.expect_err("refused").to_string();
    assert_eq!(
        error,
        "case `react-ko-greeting`: there is no agent `nobody`; there are: assistant, contract, react, docqa"
    );
}
