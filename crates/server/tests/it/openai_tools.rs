//! Tools that OpenAI clients run, and answers in a format of theirs: what the model is offered, how the run waits, and how it
//! goes on.

use std::sync::Arc;

use doran_agents::{AgentParts, build_default_agents};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{ScriptedModel, ScriptedReply, ToolChoice};
use doran_retrieval::RamKeywordIndex;
use doran_server::{ServerApp, ServerLimits};
use serde_json::{Value, json};

use crate::{app_with, get, json as fetched, post, send, text, with_header};

/// A server whose model says this.
pub fn scripted_app(replies: impl IntoIterator<Item = ScriptedReply>) -> (ServerApp, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::new(replies));
    (app_with(model.clone(), ServerLimits::default()), model)
}

/// A tool as a chat completion has it.
pub fn weather_tool() -> Value {
    let schema = json!({
        "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
        "additionalProperties": false,
    });
    json!({ "type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city", "parameters": schema, "strict": true,
    } })
}

pub fn call_weather(city: &str) -> ScriptedReply {
    ScriptedReply::call("get_weather", json!({ "city": city }))
}

async fn complete(app: &ServerApp, body: &Value) -> Value {
    fetched(app, post("/v1/chat/completions", &body.to_string())).await
}

fn question() -> Value {
    json!({
        "model": "react", "tools": [weather_tool()],
        "messages": [{ "role": "user", "content": "서울 날씨는?" }],
    })
}

/// The next request: all that was said, and what the tools gave.
fn with_results(mut asked: Value, answer: &Value, outputs: &[&str]) -> Value {
    let message = answer["choices"][0]["message"].clone();
    let calls = message["tool_calls"].as_array().expect("calls").clone();
    let messages = asked["messages"].as_array_mut().expect("messages");
    messages.push(message);
    for (call, output) in calls.iter().zip(outputs) {
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": output }));
    }
    asked
}

#[tokio::test]
async fn a_tool_call_has_one_result() {
    let two = call_weather("서울").and_call("get_weather", json!({ "city": "부산" }));
    let (app, _) = scripted_app([two]);
    let first = complete(&app, &question()).await;
    let mut next = with_results(question(), &first, &["맑음", "비"]);
    let messages = next["messages"].as_array_mut().expect("messages");
    let again = messages.last().expect("a result").clone();
    messages.push(again);
    let refused = wrong_parameter(&app, "/v1/chat/completions", &next).await;
    assert_eq!(refused, (400, "messages[4]".to_owned()));
}

/// Status and parameter of an answer that says what is wrong.
async fn wrong_parameter(app: &ServerApp, path: &str, body: &Value) -> (u16, String) {
    let response = send(app, post(path, &body.to_string())).await;
    let status = response.status().as_u16();
    let problem: Value = serde_json::from_str(&text(response).await).expect("JSON");
    (status, problem["error"]["param"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_run_waits_for_the_clients_tool_and_goes_on_with_its_result() {
    let (app, model) = scripted_app([call_weather("서울"), ScriptedReply::text("맑습니다.")]);
    let asked = question();
    let response = send(&app, post("/v1/chat/completions", &asked.to_string())).await;
    let thread = response.headers()["x-thread-id"].clone();
    let first: Value = serde_json::from_str(&text(response).await).expect("JSON");
    let choice = &first["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{first}");
    assert_eq!(choice["message"]["content"], Value::Null);
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("get_weather")));
    assert_eq!(call["function"]["arguments"], json!({ "city": "서울" }).to_string());
    let offered: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["calculator", "get_weather"], "beside the agent's own");

    let next = with_results(asked, &first, &["맑음, 23도"]);
    let response = send(&app, post("/v1/chat/completions", &next.to_string())).await;
    assert_eq!(response.headers()["x-thread-id"], thread, "the same run goes on");
    let second: Value = serde_json::from_str(&text(response).await).expect("JSON");
    assert_eq!(second["choices"][0]["message"]["content"], "맑습니다.");
    assert_eq!(second["choices"][0]["finish_reason"], "stop");
    assert_ne!(second["id"], first["id"]);
    let read = model.requests()[1].messages.last().expect("a message").clone();
    assert_eq!(read.tool_results().map(|result| result.text.as_str()).collect::<Vec<_>>(), ["맑음, 23도"]);

    let again = complete(&app, &next).await;
    assert_eq!(again["choices"], second["choices"], "a request may be sent again");
    assert_eq!(model.requests().len(), 2, "and costs nothing");
}

#[tokio::test]
async fn what_a_client_says_with_its_results_reaches_the_model() {
    for agent in ["react", "assistant"] {
        let route = json!({ "route": "agent", "reason": "x" });
        let routed = (agent == "assistant").then(|| ScriptedReply::json(&route));
        let replies = [call_weather("서울"), ScriptedReply::text("Es soleado.")];
        let (app, model) = scripted_app(routed.into_iter().chain(replies));
        let mut asked = question();
        asked["model"] = json!(agent);
        asked["messages"] = json!([
            { "role": "system", "content": "Hand over to another agent." },
            { "role": "user", "content": "서울 날씨는?" },
        ]);
        let first = complete(&app, &asked).await;
        assert_eq!(first["choices"][0]["finish_reason"], "tool_calls", "{first}");
        let mut next = with_results(asked, &first, &["맑음"]);
        let messages = next["messages"].as_array_mut().expect("messages");
        messages[0]["content"] = json!("Answer in Spanish.");
        messages.push(json!({ "role": "user", "content": "짧게요." }));
        let second = complete(&app, &next).await;
        assert_eq!(second["choices"][0]["message"]["content"], "Es soleado.", "{second}");
        let read = model.requests().pop().expect("a request").messages;
        let words: Vec<String> = read.iter().skip(1).map(|message| message.text()).collect();
        assert_eq!(words, ["Answer in Spanish.", "서울 날씨는?", "", "", "짧게요."], "{agent}");
        assert_eq!(read[read.len() - 2].tool_results().count(), 1, "the result comes before it");
        let asked_before = model.requests().len();
        assert_eq!(complete(&app, &next).await["choices"], second["choices"], "a request may be sent again");
        assert_eq!(model.requests().len(), asked_before, "and costs nothing");
    }
}

#[tokio::test]
async fn a_new_thread_of_the_clients_name_begins_with_what_was_said_before() {
    let (app, model) = scripted_app([ScriptedReply::text("3"), ScriptedReply::text("5")]);
    let user = |text: &str| json!({ "role": "user", "content": text });
    let assistant = |text: &str| json!({ "role": "assistant", "content": text });
    let mut said = vec![user("1?"), assistant("1"), user("3?")];
    for _ in 0..2 {
        let body = json!({ "model": "react", "messages": said }).to_string();
        let request = with_header(post("/v1/chat/completions", &body), "x-thread-id", "own");
        let answer: Value = serde_json::from_str(&text(send(&app, request).await).await).expect("JSON");
        said.extend([
            assistant(answer["choices"][0]["message"]["content"].as_str().expect("words")),
            user("5?"),
        ]);
    }
    let requests = model.requests();
    let words = |at: usize| requests[at].messages.iter().skip(1).map(|one| one.text()).collect::<Vec<_>>();
    assert_eq!(words(0), ["1?", "1", "3?"]);
    assert_eq!(words(1), ["1?", "1", "3?", "3", "5?"], "and has them once");
}

#[tokio::test]
async fn a_run_that_waits_for_its_client_survives_a_restart() {
    let store = Arc::new(RamStore::new());
    let start = |replies: Vec<ScriptedReply>| {
        let index =
            Arc::new(RamKeywordIndex::from_documents(&doran_retrieval::DocumentTenant::new("local"), &[]));
        let parts = AgentParts::new(Arc::new(ScriptedModel::new(replies)), index);
        let agents = build_default_agents(&parts).expect("sound graphs");
        let runtime = Runtime::new(store.clone());
        agents.iter().for_each(|agent| agent.register(&runtime).expect("registered"));
        ServerApp::new(runtime, store.clone(), agents)
    };
    let before = start(vec![call_weather("서울")]);
    let first = complete(&before, &question()).await;
    drop(before);
    let after = start(vec![ScriptedReply::text("맑습니다.")]);
    let second = complete(&after, &with_results(question(), &first, &["맑음"])).await;
    assert_eq!(second["choices"][0]["message"]["content"], "맑습니다.", "{second}");
}

#[tokio::test]
async fn a_stream_ends_with_the_calls_and_the_next_one_has_the_answer() {
    let (app, _) = scripted_app([
        ScriptedReply::text("찾아볼게요.").and_call("get_weather", json!({ "city": "서울" })),
        ScriptedReply::text("맑습니다."),
    ]);
    let mut asked = question();
    asked["stream"] = json!(true);
    asked["stream_options"] = json!({ "include_usage": true });
    let chunks = async |body: &Value| {
        let frames = text(send(&app, post("/v1/chat/completions", &body.to_string())).await).await;
        assert!(frames.ends_with("data: [DONE]\n\n"), "{frames}");
        let lines = frames.lines().filter_map(|line| line.strip_prefix("data: {"));
        lines
            .map(|line| serde_json::from_str::<Value>(&format!("{{{line}")).expect("JSON"))
            .collect::<Vec<_>>()
    };
    let said = |chunks: &[Value]| {
        let words = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
        words.collect::<String>()
    };
    let finish = |chunks: &[Value]| {
        chunks.iter().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str().map(str::to_owned))
    };
    let first = chunks(&asked).await;
    assert_eq!((said(&first).as_str(), finish(&first).as_deref()), ("찾아볼게요.", Some("tool_calls")));
    let calls: Vec<&Value> = first
        .iter()
        .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array())
        .flatten()
        .collect();
    assert_eq!((calls.len(), &calls[0]["index"]), (1, &json!(0)));
    let reply = first.iter().any(|chunk| chunk["choices"][0]["delta"].to_string().contains("reasoning"));
    assert!(!reply, "a call of the client is no reasoning: {first:?}");
    let message = json!({ "role": "assistant", "content": said(&first), "tool_calls": calls });
    let answer = json!({ "choices": [{ "message": message }] });
    let next = with_results(asked, &answer, &["맑음"]);
    let second = chunks(&next).await;
    assert_eq!((said(&second).as_str(), finish(&second).as_deref()), ("맑습니다.", Some("stop")));
    assert!(second.last().expect("a chunk")["usage"]["total_tokens"].is_u64());
    assert_eq!(said(&chunks(&next).await), "맑습니다.", "again");
}

#[tokio::test]
async fn a_choice_of_tools_is_passed_on_and_holds_once() {
    for (choice, expected) in [
        (json!("required"), ToolChoice::Required),
        (
            json!({ "type": "function", "function": { "name": "get_weather" } }),
            ToolChoice::Named("get_weather".into()),
        ),
    ] {
        let (app, model) = scripted_app([call_weather("서울"), ScriptedReply::text("맑습니다.")]);
        let mut asked = question();
        asked["tool_choice"] = choice;
        let first = complete(&app, &asked).await;
        asked["tool_choice"] = json!("auto");
        complete(&app, &with_results(asked, &first, &["맑음"])).await;
        let requests = model.requests();
        assert_eq!((&requests[0].tool_choice, requests[0].tools.len()), (&expected, 1));
        assert_eq!((&requests[1].tool_choice, requests[1].tools.len()), (&ToolChoice::Auto, 2));
    }
    let (app, model) = scripted_app([ScriptedReply::text("모릅니다.")]);
    let mut asked = question();
    asked["tool_choice"] = json!("none");
    complete(&app, &asked).await;
    let offered: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["calculator"], "the agent keeps its own");
}

#[tokio::test]
async fn calls_of_one_reply_come_together_or_one_at_a_time() {
    let both = || call_weather("서울").and_call("get_weather", json!({ "city": "부산" }));
    let (app, _) = scripted_app([both(), ScriptedReply::text("둘 다 맑습니다.")]);
    let first = complete(&app, &question()).await;
    assert_eq!(first["choices"][0]["message"]["tool_calls"].as_array().map(Vec::len), Some(2));
    let half = with_results(question(), &first, &["맑음"]);
    assert_eq!(wrong_parameter(&app, "/v1/chat/completions", &half).await, (400, "messages".into()));
    let whole = complete(&app, &with_results(question(), &first, &["맑음", "흐림"])).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "둘 다 맑습니다.");
    let (app, _) = scripted_app([both()]);
    let mut asked = question();
    asked["parallel_tool_calls"] = json!(false);
    let one = complete(&app, &asked).await;
    assert_eq!(one["choices"][0]["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{one}");
}

#[tokio::test]
async fn results_that_nobody_waits_for_are_part_of_a_conversation() {
    let (app, model) =
        scripted_app([call_weather("서울"), ScriptedReply::text("하나"), ScriptedReply::text("둘")]);
    let first = complete(&app, &question()).await;
    complete(&app, &with_results(question(), &first, &["맑음"])).await;
    let other = complete(&app, &with_results(question(), &first, &["눈"])).await;
    assert_eq!(other["choices"][0]["message"]["content"], "둘", "another result is another conversation");
    let read = &model.requests()[2].messages;
    assert_eq!(
        read.last().and_then(|last| last.tool_results().next()).map(|result| result.text.as_str()),
        Some("눈")
    );
    let mut foreign = with_results(question(), &first, &["비"]);
    foreign["messages"][1]["tool_calls"][0]["id"] = json!("toolu_1");
    assert_eq!(wrong_parameter(&app, "/v1/chat/completions", &foreign).await, (400, "messages[2]".into()));
}

#[tokio::test]
async fn arguments_that_do_not_fit_a_strict_tool_go_back_to_the_model() {
    let (app, model) =
        scripted_app([ScriptedReply::call("get_weather", json!({ "town": 3 })), call_weather("서울")]);
    let first = complete(&app, &question()).await;
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls", "{first}");
    let reply = model.requests()[1].messages.last().expect("a message").clone();
    let reply: Vec<_> = reply.tool_results().map(|result| (result.failed, result.text.clone())).collect();
    assert!(reply[0].0 && reply[0].1.contains("get_weather"), "{reply:?}");
}

#[tokio::test]
async fn a_new_question_on_the_thread_ends_the_wait_for_a_tool() {
    let (app, _) = scripted_app([call_weather("서울"), ScriptedReply::text("안녕하세요.")]);
    let ask = |body: &Value| with_header(post("/v1/chat/completions", &body.to_string()), "x-thread-id", "t");
    text(send(&app, ask(&question())).await).await;
    let hello = json!({ "model": "react", "messages": [{ "role": "user", "content": "안녕?" }] });
    let answer = fetched(&app, ask(&hello)).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "안녕하세요.");
    let runs = fetched(&app, get("/api/threads/t/runs")).await;
    let status: Vec<&str> =
        runs["runs"].as_array().expect("runs").iter().filter_map(|run| run["status"].as_str()).collect();
    assert_eq!(status, ["finished", "cancelled"]);
}

fn city_format() -> Value {
    let schema = json!({
        "type": "object", "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
        "required": ["city", "days"], "additionalProperties": false,
    });
    json!({ "type": "json_schema", "json_schema": { "name": "city", "strict": true, "schema": schema } })
}

#[tokio::test]
async fn an_answer_in_a_format_is_checked_and_asked_for_once_more() {
    let body = json!({
        "model": "react", "response_format": city_format(),
        "messages": [{ "role": "user", "content": "서울은?" }],
    });
    let good = json!({ "city": "서울", "days": 3 });
    let (app, model) = scripted_app([ScriptedReply::text("서울입니다."), ScriptedReply::json(&good)]);
    let answer = complete(&app, &body).await;
    let content = answer["choices"][0]["message"]["content"].as_str().expect("text");
    assert_eq!(serde_json::from_str::<Value>(content).expect("JSON"), good);
    let requests = model.requests();
    assert_eq!(requests[0].schema.as_ref().map(|schema| schema.name.as_str()), Some("city"));
    let repair = requests[1].messages.last().expect("a message").text();
    assert!(repair.contains("JSON"), "the model is told what is wrong: {repair}");

    let fenced = format!("```json\n{good}\n```");
    let (app, _) = scripted_app([ScriptedReply::text(&fenced)]);
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let frames = text(send(&app, post("/v1/chat/completions", &streamed.to_string())).await).await;
    assert!(!frames.contains("```") && frames.contains("서울"), "{frames}");

    let (app, _) = scripted_app([ScriptedReply::json(&json!({ "city": 3 })), ScriptedReply::text("아니요")]);
    let response = send(&app, post("/v1/chat/completions", &body.to_string())).await;
    assert_eq!(response.status(), 502, "no answer is better than one that does not fit");
}

#[tokio::test]
async fn tools_and_a_format_go_together() {
    let good = json!({ "city": "서울", "days": 3 });
    let (app, model) = scripted_app([call_weather("서울"), ScriptedReply::json(&good)]);
    let mut asked = question();
    asked["response_format"] = city_format();
    let first = complete(&app, &asked).await;
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls", "{first}");
    let second = complete(&app, &with_results(asked, &first, &["맑음"])).await;
    assert_eq!(second["choices"][0]["message"]["content"], good.to_string());
    assert!(model.requests().iter().all(|request| request.schema.is_some()));
}

#[tokio::test]
async fn the_assistant_takes_tools_and_images_too() {
    let route = ScriptedReply::json(&json!({ "route": "agent", "reason": "x" }));
    let (app, model) = scripted_app([route, call_weather("서울"), ScriptedReply::text("맑습니다.")]);
    let image = "data:image/png;base64,iVBORw0KGgo=";
    let mut asked = question();
    asked["model"] = json!("assistant");
    asked["messages"][0]["content"] = json!([{ "type": "text", "text": "여기 날씨는?" }, { "type": "image_url", "image_url": { "url": image } }]);
    let first = complete(&app, &asked).await;
    let second = complete(&app, &with_results(asked, &first, &["맑음"])).await;
    assert_eq!(second["choices"][0]["message"]["content"], "맑습니다.", "{first} {second}");
    let request = serde_json::to_string(&model.requests()[1].messages).expect("JSON");
    assert!(request.contains(image), "{request}");
}

#[tokio::test]
async fn what_an_agent_or_a_model_cannot_do_is_rejected_by_its_name() {
    let (app, _) = scripted_app([]);
    let mut asked = question();
    for agent in ["docqa", "contract"] {
        asked["model"] = json!(agent);
        assert_eq!(wrong_parameter(&app, "/v1/chat/completions", &asked).await, (400, "tools".into()));
    }
    let offline = crate::app();
    assert_eq!(wrong_parameter(&offline, "/v1/chat/completions", &question()).await, (400, "tools".into()));
    let image = json!([{ "type": "text", "text": "?" }, { "type": "image_url", "image_url": { "url": "https://a/b.png" } }]);
    let body = json!({ "model": "react", "messages": [{ "role": "user", "content": image }] });
    assert_eq!(wrong_parameter(&offline, "/v1/chat/completions", &body).await, (400, "messages".into()));
}

#[tokio::test]
async fn citations_are_links_that_work() {
    let app = crate::app();
    let body = json!({ "model": "assistant", "messages": [{ "role": "user", "content": "When must receipts be uploaded?" }] });
    let answer = complete(&app, &body).await;
    let url =
        answer["choices"][0]["message"]["annotations"][0]["url_citation"]["url"].as_str().expect("a link");
    let path = url.strip_prefix("http://127.0.0.1:7979").expect("the address that was asked");
    assert_eq!(send(&app, get(path)).await.status(), 200, "{url}");
}
