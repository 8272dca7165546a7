//! Described agents that ask other described agents: with a question of their own, behind the agent that asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_agents::described::{AgentDescription, build_described_agent};
use doran_agents::transcript::{TaskTranscript, TranscriptReducer};
use doran_engine::graph::MAX_NESTED_GRAPHS;
use doran_engine::runtime::NodeDeltaContent;
use doran_engine::store::{RamStore, RunStatus};
use doran_engine::{EntryBody, Event, Runtime, WatchUntil};
use doran_llm::{ChatModel, ScriptedModel, ScriptedReply};
use doran_offline::OfflineModel;
use serde_json::{Value, json};

use crate::agent_fixture::{AgentFixture, agent_parts, counting_tools, test_thread};

/// Asks `translator` to translate a draft, and shows what came of it.
const OUTER: &str = r#"
name = "outer"
start = "draft"

[[node]]
name = "draft"
use = "http"
http = { url = "DRAFT", method = "GET", private = true }
then = "translation"

[[node]]
name = "translation"
use = "subgraph"
graph = "translator"
input = { question = "Translate: {{ values.draft.text }}", values = { tones = "{{ values.draft.tones }}", language = "{{ values.draft.language }}" } }
result = { text = "{{ answer }}", tones = "{{ values.tones }}", checked = "{{ values.check }}" }
into = "english"
branch = { on = "english", to = {}, else = "say" }

[[node]]
name = "say"
use = "respond"
text = "{{ values.english | tojson }}"
then = "end"
"#;

const TRANSLATOR: &str = r#"
name = "translator"
start = "check"

[[node]]
name = "check"
use = "classify"
prompt = "Is it {{ values.language }}?"
choices = ["yes", "no"]
then = "translate"

[[node]]
name = "translate"
use = "call_model"
prompt = "Translate in the tone {{ values.tones[1] }}."
tools = ["calculator"]
branch = { to = { tools = "run", answer = "end" } }

[[node]]
name = "run"
use = "call_tools"
then = "translate"
"#;

fn descriptions(texts: &[&str]) -> Vec<AgentDescription> {
    texts.iter().map(|text| AgentDescription::from_toml(text).expect("a description")).collect()
}

fn fixture(outer: &str, others: &[&str], model: &(impl ChatModel + Clone)) -> AgentFixture {
    let outer = AgentDescription::from_toml(outer).expect("a description");
    let parts = agent_parts(Arc::new(model.clone()), counting_tools().toolbox);
    let agent = build_described_agent(&outer, &descriptions(others), &parts).expect("sound");
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    agent.register(&runtime).expect("registered");
    AgentFixture { agent, runtime }
}

/// All words that a person is told of a run, and the nodes of its inner steps.
async fn ask_and_list_replies(fixture: &AgentFixture, question: &str) -> (String, Vec<String>) {
    let run = fixture.start(question).await;
    let mut watch = fixture.runtime.watch(&run.key(), 0, WatchUntil::RunEndedOrPaused).await.expect("watch");
    let (mut reducer, mut words, mut inner) = (TranscriptReducer::default(), String::new(), Vec::new());
    let mut tell = |changes: Vec<doran_agents::transcript::TranscriptChange>| {
        for change in changes {
            words.push_str(&format!("{change:?}\n"));
        }
    };
    while let Some(event) = watch.try_next().await.expect("an event") {
        match event {
            Event::Delta(delta) => {
                if let NodeDeltaContent::Data(Value::String(text)) = &delta.piece {
                    tell(reducer.add_text(&delta.node, text));
                }
            }
            Event::Entry(_, entry) => {
                let is_inner = matches!(entry.body, EntryBody::InnerStep(_));
                if let EntryBody::Step(step) | EntryBody::InnerStep(step) = &entry.body {
                    let tasks = step.tasks.iter().map(|task| {
                        if is_inner {
                            inner.push(task.node.clone());
                        }
                        let update: Value = serde_json::from_str(task.update.get()).expect("JSON");
                        let turn = fixture.agent.read_update(task.update.get()).expect("an update");
                        TaskTranscript::new(&task.node, &update, &task.notes, &turn).expect("a task")
                    });
                    let tasks = tasks.collect();
                    tell(reducer.add_step(tasks, is_inner));
                }
            }
            Event::Removed { .. } => panic!("nothing is removed"),
        }
    }
    (words, inner)
}

fn draft_server() -> crate::http_test_server::HttpTestServer {
    crate::http_test_server::HttpTestServer::start(|_| {
        crate::http_test_server::http_json_reply(
            &json!({ "text": "안녕", "tones": ["dry", "kind"], "language": "Korean" }),
        )
    })
}

#[tokio::test]
async fn an_agent_asks_another_one_its_own_question_and_keeps_what_it_wants_of_the_answer() {
    let server = draft_server();
    let model = ScriptedModel::new([
        ScriptedReply::json(&json!({ "choice": "yes" })),
        ScriptedReply::call("calculator", json!({ "expression": "1 + 1" })),
        ScriptedReply::text("Hello"),
    ]);
    let fixture = fixture(&OUTER.replace("DRAFT", &server.url("/")), &[TRANSLATOR], &model);
    let (words, inner) = ask_and_list_replies(&fixture, "비밀 질문").await;
    let answer = r#"{"checked": "yes", "text": "Hello", "tones": ["dry", "kind"]}"#;
    assert_eq!(fixture.turn().await.response, answer);
    assert_eq!(inner, ["check", "translate", "run", "translate"]);
    // The agent inside sees its question and its values, and nothing of the conversation.
    for request in model.requests() {
        assert!(!serde_json::to_string(&request).expect("JSON").contains("비밀 질문"));
    }
    let asked = &model.requests()[1].messages;
    assert_eq!(asked[0].text(), "Translate in the tone kind.");
    assert_eq!(asked[1].text(), "Translate: 안녕");
    assert_eq!(model.requests()[0].messages[0].text(), "Is it Korean?");
    // The person is told the answer and nothing that was said behind it.
    assert!(words.contains("checked") && !words.contains("Text(\"Hello"), "{words}");
    let turn = fixture.turn().await;
    assert_eq!(turn.path, ["draft", "check", "translate", "run", "translate", "say"]);
    assert_eq!((turn.model_calls, turn.tools_used), (3, vec!["calculator".to_owned()]));
    let state = fixture.state().await;
    assert_eq!(state["messages"].as_array().map(Vec::len), Some(2), "{state}");
    assert_eq!(state["values"].as_object().map(|values| values.len()), Some(2), "draft and english: {state}");
    assert_eq!(state["taint"]["untrusted"], true, "what it read stays read: {state}");
    assert!(state["progress"].get("is_subagent").is_none(), "{state}");
    let topology = fixture.agent.topology();
    let node = topology.nodes.iter().find(|node| node.id == "translation").expect("the node");
    assert!(node.inner.as_ref().is_some_and(|inner| inner.nodes.len() == 3), "the inner graph is shown");
}

#[tokio::test]
async fn a_question_of_the_agent_inside_waits_for_a_person() {
    let outer = r#"
name = "outer"
start = "ask"

[[node]]
name = "ask"
use = "subgraph"
graph = "boss"
input = { question = "{{ question }}" }
then = "say"

[[node]]
name = "say"
use = "respond"
text = "{{ values.ask }}!"
then = "end"
"#;
    let boss = r#"
name = "boss"
start = "person"

[[node]]
name = "person"
use = "interrupt"
ask = { ko = "될까요?", en = "May it?" }
then = "say"

[[node]]
name = "say"
use = "respond"
text = "{{ question }} {{ values.person }}"
then = "end"
"#;
    let fixture = fixture(outer, &[boss], &ScriptedModel::new([]));
    let run = fixture.start("휴가").await;
    assert_eq!(run.wait().await.expect("a rest").status, RunStatus::Paused);
    let questions = fixture.runtime.open_questions(&test_thread()).await.expect("questions");
    assert_eq!(questions[0].1.question["en"], "May it?");
    let answers = BTreeMap::from([(questions[0].1.id.clone(), json!("네"))]);
    let run = fixture.runtime.answer(&questions[0].0, &answers).await.expect("answered");
    run.wait().await.expect("a rest");
    assert_eq!(fixture.turn().await.response, "휴가 네!");
}

#[tokio::test]
async fn an_input_that_cannot_be_made_is_reported_with_its_field() {
    let outer = |question: &str, result: &str| {
        format!(
            r#"
name = "outer"
start = "in"

[[node]]
name = "in"
use = "subgraph"
graph = "inner"
input = {{ question = "{question}" }}
result = "{result}"
then = "end"
"#
        )
    };
    let inner = "name = \"inner\"\nstart = \"say\"\n\n[[node]]\nname = \"say\"\nuse = \"respond\"\ntext = \"ok\"\nthen = \"end\"\n";
    for (question, result, expected) in [
        ("{{ values.nothing }}", "{{ answer }}", "`input`: its `question` is empty"),
        ("{{ question | batch }}", "{{ answer }}", "`input`: "),
        ("{{ question }}", "{{ answer | batch }}", "`result`: "),
    ] {
        let fixture = fixture(&outer(question, result), &[inner], &ScriptedModel::new([]));
        let row = fixture.start("?").await.wait().await.expect("a rest");
        let error = row.error.expect("failed").message;
        assert!(error.contains(expected), "{question}: {error}");
    }
}

#[test]
fn a_wrong_subgraph_is_refused_by_the_node_that_is_wrong() {
    let node = |fields: &str| {
        format!(
            "name = \"a\"\nstart = \"in\"\n\n[[node]]\nname = \"in\"\nuse = \"subgraph\"\ngraph = \"b\"\n{fields}\nthen = \"end\"\n"
        )
    };
    let inner = |graph: &str| {
        format!(
            "name = \"b\"\nstart = \"c\"\n\n[[node]]\nname = \"c\"\nuse = \"subgraph\"\ngraph = \"{graph}\"\nthen = \"end\"\n"
        )
    };
    let parts = agent_parts(Arc::new(ScriptedModel::new([])), counting_tools().toolbox);
    let check = |fields: &str, inner: &str, expected: &str| {
        let outer = AgentDescription::from_toml(&node(fields)).expect("a description");
        let others = [descriptions(&[inner]), vec![outer.clone()]].concat();
        let error = build_described_agent(&outer, &others, &parts).expect_err("wrong").to_string();
        assert!(error.contains(expected), "{fields}: {error}");
    };
    let ring = inner("a");
    check("", &ring, "agent `a`: it runs itself as a subgraph: a → b → a");
    check("", &inner("nobody"), "agent `b`, node `c`: there is no described agent `nobody` to run");
    check("result = \"{{ answer }}\"", &ring, "agent `a`, node `in`: `result` needs an `input`");
    check("into = \"x\"", &ring, "`into` needs an `input`");
    check("input = { }", &ring, "`input` needs a `question`");
    check("input = { question = \"{{ answer }}\" }", &ring, "`question` uses `answer`; it may use: question");
    check(
        "input = { question = \"?\", values = { a = [\"{{ item }}\"] } }",
        &ring,
        "`values.a` uses `item`; it may use: question",
    );
    check(
        "input = { question = \"?\" }\nresult = { a = \"{{ question }}\" }",
        &ring,
        "`result` uses `question`; it may use: answer, values",
    );
    let exported = "name = \"b\"\nagent = \"assistant\"\nstart = \"router\"\n";
    check("", exported, "agent `a`, node `in`: `b` is the ready-made agent `assistant`");
    let too_large = |agents: usize, times: usize| {
        let texts = agents_inside_each_other(agents, times);
        let all = descriptions(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        build_described_agent(&all[0], &all, &parts).map(|_| ()).map_err(|error| error.to_string())
    };
    let error = too_large(5, 8).expect_err("too many nodes");
    assert!(error.contains("more than 1000 nodes"), "{error}");
    let error = too_large(MAX_NESTED_GRAPHS + 1, 1).expect_err("too deep");
    let expected = format!("more than {MAX_NESTED_GRAPHS} agents are inside each other: n0 → n1 → n2 → ");
    assert!(error.contains(&expected), "{error}");
}

/// So many agents, of which each runs the next so many times; the last one answers.
fn agents_inside_each_other(agents: usize, times: usize) -> Vec<String> {
    let chain = (1..agents).map(|n| {
        let nodes = (0..times).map(|x| {
            let then = if x + 1 == times { "end".to_owned() } else { format!("x{}", x + 1) };
            format!("\n[[node]]\nname = \"x{x}\"\nuse = \"subgraph\"\ngraph = \"n{n}\"\nthen = \"{then}\"\n")
        });
        format!("name = \"n{}\"\nstart = \"x0\"\n{}", n - 1, nodes.collect::<String>())
    });
    let last = format!(
        "name = \"n{}\"\nstart = \"s\"\n\n[[node]]\nname = \"s\"\nuse = \"respond\"\ntext = \"ok\"\nthen = \"end\"\n",
        agents - 1
    );
    chain.chain([last]).collect()
}

#[tokio::test]
async fn as_many_agents_as_there_may_be_answer_inside_each_other() {
    let texts = agents_inside_each_other(MAX_NESTED_GRAPHS, 1);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let fixture = fixture(texts[0], &texts[1..], &ScriptedModel::new([]));
    fixture.ask("Are you there?").await;
    assert_eq!(fixture.turn().await.response, "ok");
}

#[test]
fn values_of_an_agent_that_shares_the_conversation_can_be_branched_on() {
    let outer = r#"
name = "outer"
start = "in"

[[node]]
name = "in"
use = "subgraph"
graph = "translator"
branch = { on = "check", to = { yes = "end" }, else = "say" }

[[node]]
name = "say"
use = "respond"
text = "no"
then = "end"
"#;
    let parts = agent_parts(Arc::new(ScriptedModel::new([])), counting_tools().toolbox);
    let sound = AgentDescription::from_toml(outer).expect("a description");
    build_described_agent(&sound, &descriptions(&[TRANSLATOR]), &parts).expect("sound");
    let open = AgentDescription::from_toml(&outer.replace(", else = \"say\"", "")).expect("a description");
    let error =
        build_described_agent(&open, &descriptions(&[TRANSLATOR]), &parts).expect_err("open").to_string();
    assert!(error.contains("`check` may be anything: the branch needs an `else`"), "{error}");
}

#[tokio::test]
async fn the_example_runs() {
    let support = include_str!("../../../../examples/subgraph/support.toml");
    let checker = include_str!("../../../../examples/subgraph/checker.toml");
    let parts = agent_parts(Arc::new(ScriptedModel::new([])), counting_tools().toolbox);
    let [helper, asker] = [checker, support].map(|file| {
        let description = AgentDescription::from_toml(file).expect("a description");
        let agent = build_described_agent(&description, &descriptions(&[checker]), &parts).expect("sound");
        assert_eq!(doran_agents::described::describe(&agent), description, "it is written as it was read");
        agent
    });
    assert!(helper.is_hidden && !asker.is_hidden, "only the helper is in no menu");
    for (question, answer) in [
        ("Where is my order 1024?", "We look up this order: Where is my order 1024?"),
        ("When do you open?", "Ask me about an order."),
    ] {
        let fixture = fixture(support, &[checker], &OfflineModel);
        fixture.ask(question).await;
        assert_eq!(fixture.turn().await.response, answer);
    }
}
