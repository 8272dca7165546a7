//! Nodes and tools of described agents that programs serve over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use doran_agents::AgentParts;
use doran_agents::described::{AgentDescription, HttpCallParts, build_described_agent, template};
use doran_agents::tools::ToolSecret;
use doran_engine::store::{RamStore, RunStatus};
use doran_engine::{QuestionKind, Runtime};
use doran_llm::{ScriptedModel, ScriptedReply};
use doran_retrieval::Language;
use expect_test::expect_file;
use serde_json::{Value, json};

use crate::agent_fixture::{AgentFixture, agent_parts, counting_tools, test_thread};
use crate::http_test_server::{HttpTestServer, http_json_reply, http_reply};

fn parts(model: ScriptedModel) -> AgentParts {
    let variable = |name: &str| (name == "SCORE_KEY").then(|| ToolSecret::new("s3cret"));
    let http = HttpCallParts { variable: Arc::new(variable), ..HttpCallParts::default() };
    AgentParts { http, ..agent_parts(Arc::new(model), counting_tools().toolbox) }
}

fn fixture(text: &str, model: ScriptedModel) -> AgentFixture {
    let description = AgentDescription::from_toml(text).expect("a description");
    let agent = build_described_agent(&description, &[], &parts(model)).expect("sound");
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    agent.register(&runtime).expect("registered");
    AgentFixture { agent, runtime }
}

/// Asks, and gives the answer or why there is none.
async fn answer(fixture: &AgentFixture, question: &str) -> String {
    let row = fixture.start(question).await.wait().await.expect("a rest");
    match row.status {
        RunStatus::Finished => {
            let view =
                fixture.runtime.view(&fixture.agent.name, &test_thread(), None).await.expect("a state");
            fixture.agent.read_turn(&view.state).expect("a turn").response
        }
        other => format!("{other:?}: {:?}", row.error),
    }
}

fn one_node(http: &str) -> String {
    format!(
        r#"
name = "scored"
start = "score"

[[node]]
name = "score"
use = "http"
http = {http}
then = "say"

[[node]]
name = "say"
use = "respond"
text = "{{{{ values.score }}}}"
then = "end"
"#
    )
}

#[tokio::test]
async fn a_node_sends_what_the_file_says_and_keeps_what_it_names() {
    let server = HttpTestServer::start(|_| http_json_reply(&json!({ "points": [1, 2], "note": "ok" })));
    let text = one_node(&format!(
        r#"{{ url = "{}?q={{{{ question }}}}", private = true, method = "PUT", key_variable = "SCORE_KEY", headers = {{ x-team = "team {{{{ values.team or 'a' }}}} {{{{ question | length }}}}" }}, body = {{ ask = "{{{{ question }}}}", all = "{{{{ values }}}}", n = 3 }}, result = "{{{{ response.points }}}}" }}"#,
        server.url("/score")
    ));
    let fixture = fixture(&text, ScriptedModel::new([]));
    assert_eq!(answer(&fixture, "\"몇\" 점?").await, "[1, 2]");
    let asked = &server.requests()[0];
    assert_eq!(
        (asked.method.as_str(), asked.target.as_str()),
        ("PUT", "/score?q=%22%EB%AA%87%22%20%EC%A0%90%3F")
    );
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(asked.header("x-team"), Some("team a 6"));
    assert!(asked.header("idempotency-key").is_some());
    let body: Value = serde_json::from_str(&asked.body).expect("JSON");
    assert_eq!(body, json!({ "ask": "\"몇\" 점?", "all": {}, "n": 3 }));
}

#[tokio::test]
async fn what_fills_a_header_cannot_begin_another() {
    let server = HttpTestServer::start(|_| http_json_reply(&json!("fine")));
    let text = one_node(&format!(
        r#"{{ url = "{}", private = true, headers = {{ x-asked = "{{{{ question }}}}" }} }}"#,
        server.url("/")
    ));
    assert_eq!(answer(&fixture(&text, ScriptedModel::new([])), " A 7\n").await, "fine");
    for question in ["a\r\nx-admin: 1", "a\nb", "몇 점?"] {
        let failed = answer(&fixture(&text, ScriptedModel::new([])), question).await;
        assert!(failed.contains("the header `x-asked` takes ASCII characters"), "{failed}");
    }
    let asked = server.requests();
    assert_eq!((asked.len(), asked[0].header("x-asked")), (1, Some("A 7")));
}

#[tokio::test]
async fn a_busy_program_gets_the_request_again_under_the_same_key_and_a_refusal_is_final() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let server = HttpTestServer::start(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => http_reply("503 Service Unavailable", "", b"busy"),
        _ => http_json_reply(&json!("fine")),
    });
    let text = one_node(&format!(r#"{{ url = "{}", private = true }}"#, server.url("/")));
    assert_eq!(answer(&fixture(&text, ScriptedModel::new([])), "a").await, "fine");
    let keys: Vec<_> =
        server.requests().iter().map(|one| one.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");

    let server = HttpTestServer::start(|_| http_reply("422 Unprocessable Content", "", b"no such customer"));
    let text = one_node(&format!(r#"{{ url = "{}", private = true }}"#, server.url("/")));
    let failed = answer(&fixture(&text, ScriptedModel::new([])), "a").await;
    assert!(failed.contains("node `score`: status 422: no such customer"), "{failed}");
    assert_eq!(failed.matches("node `score`").count(), 1, "{failed}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_unless_the_file_says_so() {
    let server = HttpTestServer::start(|_| http_json_reply(&json!(1)));
    for url in [server.url("/"), format!("http://localhost:{}/", server.address.port())] {
        let text = one_node(&format!(r#"{{ url = "{url}", retries = 0 }}"#));
        let failed = answer(&fixture(&text, ScriptedModel::new([])), "a").await;
        assert!(failed.contains("private = true"), "{url}: {failed}");
    }
    assert_eq!(server.requests().len(), 0);
    // Who cannot be reached is named, without the path and what it may hold.
    let text = one_node(r#"{ url = "http://127.0.0.1:1/secret", private = true, retries = 0 }"#);
    let failed = answer(&fixture(&text, ScriptedModel::new([])), "a").await;
    assert!(failed.contains("`http://127.0.0.1:1`: ") && !failed.contains("secret"), "{failed}");
    // A redirect leads nowhere.
    let other = server.url("/");
    let redirecting = HttpTestServer::start(move |_| crate::http_test_server::redirect_reply(&other));
    let text = one_node(&format!(r#"{{ url = "{}", private = true, retries = 0 }}"#, redirecting.url("/")));
    assert!(answer(&fixture(&text, ScriptedModel::new([])), "a").await.contains("status 302"));
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_map_calls_for_each_item_and_keeps_their_order() {
    let server = HttpTestServer::start(|asked| match asked.target.as_str() {
        "/list" => http_json_reply(&json!([{ "id": "a/b" }, { "id": "c" }, { "id": "d" }])),
        item => http_json_reply(&json!({ "price": item })),
    });
    let text = format!(
        r#"
name = "prices"
start = "list"

[[node]]
name = "list"
use = "http"
http = {{ url = "{list}", method = "GET", private = true }}
then = "prices"

[[node]]
name = "prices"
use = "map"
over = "{{{{ values.list }}}}"
http = {{ url = "{item}/{{{{ item.id }}}}/{{{{ index }}}}", method = "GET", private = true, result = "{{{{ response.price }}}}" }}
then = "each"

[[node]]
name = "each"
use = "map"
over = "{{{{ values.prices }}}}"
prompt = "Name {{{{ item }}}}."
then = "say"

[[node]]
name = "say"
use = "respond"
text = "{{{{ values.prices | tojson }}}} {{{{ values.each | tojson }}}}"
then = "end"
"#,
        list = server.url("/list"),
        item = server.url("/item"),
    );
    let model = ScriptedModel::new(["eins", "zwei", "drei"].map(ScriptedReply::text));
    let fixture = fixture(&text, model.clone());
    assert_eq!(
        answer(&fixture, "?").await,
        r#"["/item/a%2Fb/0", "/item/c/1", "/item/d/2"] ["eins", "zwei", "drei"]"#
    );
    assert!(model.requests()[0].messages[0].text().contains("Name /item/a%2Fb/0."));
}

#[tokio::test]
async fn an_item_that_fails_lets_the_others_under_way_end_and_they_are_not_called_again() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let mended = is_mended.clone();
    let server = HttpTestServer::start(move |asked| match asked.target.as_str() {
        "/pay/1" if !mended.load(Ordering::SeqCst) => http_reply("400 Bad Request", "", b"no"),
        item => {
            if item == "/pay/0" {
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            http_json_reply(&json!({ "paid": item }))
        }
    });
    let text = format!(
        r#"
name = "payments"
start = "pay"

[[node]]
name = "pay"
use = "map"
over = "{{{{ [0, 1, 2, 3, 4, 5, 6, 7] }}}}"
http = {{ url = "{}/{{{{ item }}}}", private = true, once = true, result = "{{{{ response.paid }}}}" }}
then = "say"

[[node]]
name = "say"
use = "respond"
text = "{{{{ values.pay | length }}}}"
then = "end"
"#,
        server.url("/pay")
    );
    let fixture = fixture(&text, ScriptedModel::new([]));
    let run = fixture.start("?").await;
    assert_eq!(run.wait().await.expect("a rest").status, RunStatus::Failed);
    let called = server.requests().len();
    assert!((2..8).contains(&called), "no call is begun after the failure: {called}");
    is_mended.store(true, Ordering::SeqCst);
    let again = fixture.runtime.retry(&run.key()).await.expect("tried again");
    let ended = again.wait().await.expect("a rest");
    assert_eq!(ended.status, RunStatus::Finished, "{:?}", ended.error);
    let mut targets: Vec<String> = server.requests().into_iter().map(|one| one.target).collect();
    targets.sort();
    let expected = ["0", "1", "1", "2", "3", "4", "5", "6", "7"].map(|item| format!("/pay/{item}"));
    assert_eq!(targets, expected, "each is paid once, and what was refused is asked for again");
}

#[tokio::test]
async fn a_tool_that_happens_once_is_asked_about_if_its_answer_cannot_be_used() {
    let server =
        HttpTestServer::start(|_| http_reply("200 OK", "content-type: application/json\r\n", b"{ broken"));
    let text = format!(
        r#"
name = "orders"
start = "talk"

[[tool]]
name = "pay"
en = "Pays."
ko = "지불합니다."
http = {{ url = "{}", private = true, once = true }}
policy = "allow"

[[node]]
name = "talk"
use = "call_model"
prompt = "Answer."
tools = ["pay"]
branch = {{ to = {{ tools = "run", answer = "end" }} }}

[[node]]
name = "run"
use = "call_tools"
then = "talk"
"#,
        server.url("/pay")
    );
    let model = ScriptedModel::new([ScriptedReply::call("pay", json!({})), ScriptedReply::text("냈습니다.")]);
    let fixture = fixture(&text, model);
    let row = fixture.start("내 줘").await.wait().await.expect("a rest");
    assert_eq!(row.status, RunStatus::Paused, "{:?}", row.error);
    let open = fixture.runtime.open_questions(&test_thread()).await.expect("questions");
    assert_eq!(open[0].1.kind, QuestionKind::EffectUnknown);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_tool_of_the_file_is_called_with_checked_arguments() {
    let server = HttpTestServer::start(|_| http_json_reply(&json!({ "status": "shipped" })));
    let text = format!(
        r#"
name = "orders"
start = "talk"

[[tool]]
name = "order_status"
en = "Looks up an order."
ko = "주문을 조회합니다."
parameters = {{ type = "object", properties = {{ order = {{ type = "string" }} }}, required = ["order"], additionalProperties = false }}
http = {{ url = "{}/{{{{ arguments.order }}}}", method = "GET", private = true, result = "{{{{ response.status }}}}" }}

[[node]]
name = "talk"
use = "call_model"
prompt = "Answer."
tools = ["order_status"]
branch = {{ to = {{ tools = "run", answer = "end" }} }}

[[node]]
name = "run"
use = "call_tools"
then = "talk"
"#,
        server.url("/orders")
    );
    let model = ScriptedModel::new([
        ScriptedReply::call("order_status", json!({ "order": 7 })),
        ScriptedReply::call("order_status", json!({ "order": "A 7" })),
        ScriptedReply::text("발송되었습니다."),
    ]);
    let fixture = fixture(&text, model.clone());
    assert_eq!(answer(&fixture, "주문 A 7은?").await, "발송되었습니다.");
    let targets: Vec<String> = server.requests().into_iter().map(|one| one.target).collect();
    assert_eq!(targets, ["/orders/A%207"], "arguments that do not fit are not sent");
    let texts: Vec<String> = model.requests()[2]
        .messages
        .iter()
        .flat_map(|message| message.tool_results().map(|result| result.text.clone()).collect::<Vec<_>>())
        .collect();
    assert!(texts.iter().any(|text| text.contains("shipped")), "{texts:?}");
}

#[test]
fn a_mistake_names_the_node_and_the_way_out() {
    let check = |http: &str, expected: &str| {
        let description = AgentDescription::from_toml(&one_node(http)).expect("a description");
        let error = build_described_agent(&description, &[], &parts(ScriptedModel::new([])));
        let error = error.expect_err("a mistake").to_string();
        assert!(error.contains("agent `scored`, node `score`") && error.contains(expected), "{error}");
    };
    check(r#"{ url = "http://{{ values.host }}/" }"#, "the scheme, host and port are fixed");
    check(
        r#"{ url = "http://a.example/{{ item }}" }"#,
        "`url` uses `item`; it may use: question, summary, values",
    );
    check(r#"{ url = "http://a.example/", body = { a = ["{{ response }}"] } }"#, "`body` uses `response`");
    check(
        r#"{ url = "http://a.example/", key_variable = "OTHER" }"#,
        "the environment variable `OTHER` is not set",
    );
    check(
        r#"{ url = "http://a.example/", headers = { x-a = "{{ item }}" } }"#,
        "`headers` uses `item`; it may use: question, summary, values",
    );
    check(
        r#"{ url = "http://a.example/", key_variable = "SCORE_KEY", headers = { Authorization = "x" } }"#,
        "the header `Authorization` carries the key",
    );
    check(r#"{ url = "http://a.example/", once = true, retries = 3 }"#, "takes no `retries`");
    let unknown = AgentDescription::from_toml(&one_node(r#"{ url = "http://a.example/", verb = "GET" }"#));
    assert!(unknown.expect_err("unknown").to_string().contains("verb"));
}

#[test]
fn the_templates_are_agents_and_their_comments_are_too() {
    for language in [Language::Korean, Language::English] {
        let text = template("mine", language);
        let description = AgentDescription::from_toml(&text).expect("a description");
        build_described_agent(&description, &[], &parts(ScriptedModel::new([]))).expect("sound");
        assert_eq!(description.name, "mine");
        // The parts that are commented out begin with a table and end with an empty line.
        let mut is_table = false;
        let uncommented: Vec<&str> = text
            .lines()
            .map(|line| {
                is_table = (is_table || line.starts_with("# [[")) && !line.is_empty();
                if is_table { line.trim_start_matches('#').trim_start() } else { line }
            })
            .collect();
        let whole = AgentDescription::from_toml(&uncommented.join("\n")).expect("a description");
        let nodes: Vec<&str> = whole.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(nodes, ["sort", "search", "person", "reply", "answer", "credit", "prices", "translation"]);
        assert_eq!(whole.tools[0].name, "order_status");
    }
}

#[test]
fn the_schema_for_editors_is_that_of_the_types() {
    let schema = serde_json::to_string_pretty(&AgentDescription::json_schema()).expect("JSON");
    expect_file!["../../agent.schema.json"].assert_eq(&format!("{schema}\n"));
}
