//! Every documented field of OpenAI's requests, sent: it is used, which is shown here, or it is rejected by its name.

use std::sync::Arc;

use doran_llm::{
    FinishReason, ModelApiKey, ModelConfig, ScriptedDialect, ScriptedReply, ScriptedServer,
    ScriptedVendorAnswer, open_model,
};
use doran_retrieval::BuiltInEncoder;
use doran_server::{
    CHAT_COMPLETION_FIELDS, EMBEDDING_FIELDS, OpenAiFieldSupport, OpenAiRequestField, RESPONSE_FIELDS,
    ServerApp, ServerLimits,
};
use serde_json::{Value, json};

use crate::openai_tools::{call_weather, scripted_app, weather_tool};
use crate::{app_with, get, json as fetched, post, send, text};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const EMBEDDINGS: &str = "/v1/embeddings";

/// The least that a request has.
fn least(path: &str) -> Value {
    match path {
        CHAT => json!({ "model": "react", "messages": [{ "role": "user", "content": "hi" }] }),
        RESPONSES => json!({ "model": "react", "input": "hi" }),
        _ => json!({ "model": "built-in", "input": "hi" }),
    }
}

fn with_field(path: &str, name: &str, value: Value) -> Value {
    let mut body = least(path);
    body[name] = value;
    body
}

/// Status, and the parameter that is wrong.
async fn outcome(path: &str, body: &Value) -> (u16, Value) {
    let (app, _) = scripted_app([ScriptedReply::text("hello")]);
    let app = app.embedder(Arc::new(BuiltInEncoder::open().expect("an encoder")));
    let response = send(&app, post(path, &body.to_string())).await;
    let status = response.status().as_u16();
    let body = text(response).await;
    let problem: Value = serde_json::from_str(&body).unwrap_or_default();
    (status, problem["error"]["param"].clone())
}

async fn check_table(path: &str, table: &[OpenAiRequestField], used: impl AsyncFn(&str) -> bool) {
    for field in table {
        let example: Value = serde_json::from_str(field.example).expect("JSON");
        assert_eq!(
            outcome(path, &with_field(path, field.name, Value::Null)).await.0 == 200,
            !is_required(field.name),
            "{}",
            field.name
        );
        match field.support {
            OpenAiFieldSupport::Used => {
                assert!(used(field.name).await, "{path}: `{}` is not used", field.name);
            }
            OpenAiFieldSupport::Only(values) => {
                let rejected = outcome(path, &with_field(path, field.name, example)).await;
                assert_eq!(rejected, (400, json!(field.name)));
                for value in values {
                    let value: Value = serde_json::from_str(value).expect("JSON");
                    let accepted = outcome(path, &with_field(path, field.name, value)).await;
                    assert_eq!(accepted.0, 200, "{}", field.name);
                }
            }
            OpenAiFieldSupport::Rejected => {
                let rejected = outcome(path, &with_field(path, field.name, example)).await;
                assert_eq!(rejected, (400, json!(field.name)));
            }
        }
    }
    assert_eq!(outcome(path, &with_field(path, "top_k", json!(3))).await, (400, json!("top_k")), "unknown");
}

fn is_required(name: &str) -> bool {
    matches!(name, "model" | "messages" | "input")
}

/// The error about a value of the wrong type names the field.
async fn is_type_checked(path: &str, name: &str) -> bool {
    let wrong = json!({ "no": ["such", { "value": 1 }] });
    let (status, parameter) = outcome(path, &with_field(path, name, wrong)).await;
    status == 400 && parameter.as_str().is_some_and(|parameter| parameter.starts_with(name))
}

/// What is stored with the run of a request.
async fn stored_metadata(path: &str, body: &Value) -> Value {
    let (app, _) = scripted_app([ScriptedReply::text("hello")]);
    fetched(&app, post(path, &body.to_string())).await;
    fetched(&app, get("/api/runs")).await["runs"][0]["metadata"].clone()
}

/// The request that the model gets.
async fn model_request(path: &str, body: &Value) -> doran_llm::ChatRequest {
    let (app, model) = scripted_app([ScriptedReply::text("{}"), ScriptedReply::text("{}")]);
    text(send(&app, post(path, &body.to_string())).await).await;
    model.requests().into_iter().next().expect("a request")
}

/// Whether a field that both routes have is used.
async fn is_shared_field_used(path: &str, name: &str) -> bool {
    let tool = match path {
        CHAT => weather_tool(),
        _ => json!({ "type": "function", "name": "get_weather" }),
    };
    match name {
        "model" => {
            let body = with_field(path, "model", json!("nobody"));
            outcome(path, &body).await.0 == 404 && is_type_checked(path, name).await
        }
        "temperature" => {
            let bad = outcome(path, &with_field(path, name, json!(3))).await;
            let request = model_request(path, &with_field(path, name, json!(0.5))).await;
            request.temperature == Some(0.5) && bad == (400, json!(name)) && is_type_checked(path, name).await
        }
        "top_p" => {
            let bad = outcome(path, &with_field(path, name, json!(1.5))).await;
            let request = model_request(path, &with_field(path, name, json!(0.5))).await;
            // The temperature of the agent is not sent beside it.
            let is_used = request.top_p == Some(0.5) && request.temperature.is_none();
            is_used && bad == (400, json!(name)) && is_type_checked(path, name).await
        }
        "seed" => {
            for seed in [7, -1, i64::MIN, i64::MAX] {
                let request = model_request(path, &with_field(path, name, json!(seed))).await;
                assert_eq!(request.seed, Some(seed));
            }
            let bad = outcome(path, &with_field(path, name, json!(1u64 << 63))).await;
            bad == (400, json!(name)) && is_type_checked(path, name).await
        }
        "stop" => {
            let one = model_request(path, &with_field(path, name, json!("END"))).await;
            let two = model_request(path, &with_field(path, name, json!(["a", "b"]))).await;
            for bad in [json!(["a", "b", "c", "d", "e"]), json!(""), json!([3]), json!("x".repeat(300))] {
                assert_eq!(outcome(path, &with_field(path, name, bad)).await, (400, json!(name)));
            }
            one.stop == ["END"] && two.stop == ["a", "b"] && is_type_checked(path, name).await
        }
        "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
            let bad = outcome(path, &with_field(path, name, json!(0))).await;
            let request = model_request(path, &with_field(path, name, json!(77))).await;
            if path == CHAT {
                let mut both = with_field(path, "max_tokens", json!(77));
                both["max_completion_tokens"] = json!(78);
                assert_eq!(outcome(path, &both).await, (400, json!("max_tokens")));
            }
            request.max_output_tokens == Some(77)
                && bad == (400, json!(name))
                && is_type_checked(path, name).await
        }
        "user" | "safety_identifier" => {
            let mut body = with_field(path, "user", json!("kim"));
            body["safety_identifier"] = json!("lee");
            let stored = stored_metadata(path, &body).await;
            let bad = outcome(path, &with_field(path, name, json!("k\0im"))).await;
            stored[name] == body[name] && bad == (400, json!(name)) && is_type_checked(path, name).await
        }
        "metadata" => {
            let stored = stored_metadata(path, &with_field(path, name, json!({ "team": "sales" }))).await;
            let metadata = if path == CHAT { &stored["metadata"] } else { &stored["response"]["metadata"] };
            let bad = outcome(path, &with_field(path, name, json!({ "team": "s\0ales" }))).await;
            metadata["team"] == "sales"
                && bad == (400, json!(name))
                && outcome(path, &with_field(path, name, json!(3))).await.0 == 400
        }
        "stream" => {
            let (app, _) = scripted_app([ScriptedReply::text("hello")]);
            let body = with_field(path, name, json!(true)).to_string();
            let kind = send(&app, post(path, &body)).await.headers()["content-type"].clone();
            let is_stream = kind.to_str().is_ok_and(|kind| kind.starts_with("text/event-stream"));
            is_stream && is_type_checked(path, name).await
        }
        "tools" => {
            let request = model_request(path, &with_field(path, name, json!([tool]))).await;
            let offered = request.tools.iter().any(|tool| tool.name == "get_weather");
            offered && is_type_checked(path, name).await
        }
        "tool_choice" => {
            let mut body = with_field(path, "tools", json!([tool]));
            body[name] = json!("required");
            let request = model_request(path, &body).await;
            let without_tools = outcome(path, &with_field(path, name, json!("required"))).await;
            request.tool_choice == doran_llm::ToolChoice::Required && without_tools == (400, json!(name))
        }
        "parallel_tool_calls" => {
            let two = call_weather("a").and_call("get_weather", json!({ "city": "b" }));
            let (app, _) = scripted_app([two]);
            let mut body = with_field(path, "tools", json!([tool]));
            body[name] = json!(false);
            let answer = fetched(&app, post(path, &body.to_string())).await;
            let calls = match path {
                CHAT => &answer["choices"][0]["message"]["tool_calls"],
                _ => &answer["output"],
            };
            calls.as_array().map(Vec::len) == Some(1) && is_type_checked(path, name).await
        }
        _ => panic!("`{name}` needs a proof that it is used"),
    }
}

#[tokio::test]
async fn every_field_of_a_chat_completion_is_used_or_rejected() {
    check_table(CHAT, CHAT_COMPLETION_FIELDS, async |name| match name {
        "messages" => {
            let request = model_request(CHAT, &least(CHAT)).await;
            request.question().as_deref() == Some("hi")
                && outcome(CHAT, &json!({ "model": "react" })).await.0 == 400
        }
        "response_format" => {
            let format = json!({ "type": "json_object" });
            let request = model_request(CHAT, &with_field(CHAT, name, format)).await;
            request.schema.is_some() && is_type_checked(CHAT, name).await
        }
        "stream_options" => {
            let (app, _) = scripted_app([ScriptedReply::text("hello")]);
            let mut body = with_field(CHAT, name, json!({ "include_usage": true }));
            body["stream"] = json!(true);
            let frames = text(send(&app, post(CHAT, &body.to_string())).await).await;
            let hidden = with_field(CHAT, name, json!({ "include_obfuscation": true }));
            let hidden = outcome(CHAT, &hidden).await;
            frames.contains("prompt_tokens") && hidden == (400, json!("stream_options.include_obfuscation"))
        }
        name => is_shared_field_used(CHAT, name).await,
    })
    .await;
}

#[tokio::test]
async fn every_field_of_a_response_is_used_or_rejected() {
    check_table(RESPONSES, RESPONSE_FIELDS, async |name| match name {
        "input" => {
            let request = model_request(RESPONSES, &least(RESPONSES)).await;
            let item =
                outcome(RESPONSES, &with_field(RESPONSES, name, json!([{ "type": "web_search_call" }])))
                    .await;
            request.question().as_deref() == Some("hi") && item == (400, json!("input[0].type"))
        }
        "instructions" => {
            let request = model_request(RESPONSES, &with_field(RESPONSES, name, json!("be brief"))).await;
            request.messages.iter().any(|message| message.text() == "be brief")
        }
        "text" => {
            let text = json!({ "format": { "type": "json_object" } });
            let request = model_request(RESPONSES, &with_field(RESPONSES, name, text)).await;
            let wordy =
                outcome(RESPONSES, &with_field(RESPONSES, name, json!({ "verbosity": "high" }))).await;
            request.schema.is_some() && wordy == (400, json!("text.verbosity"))
        }
        "previous_response_id" => {
            let unknown = outcome(RESPONSES, &with_field(RESPONSES, name, json!("resp_1"))).await;
            unknown == (400, json!(name))
        }
        "conversation" => {
            let (app, _) = scripted_app([ScriptedReply::text("hello")]);
            let body = with_field(RESPONSES, name, json!("mine")).to_string();
            send(&app, post(RESPONSES, &body)).await.headers()["x-thread-id"] == "mine"
        }
        "background" => {
            let (app, _) = scripted_app([ScriptedReply::text("hello").then_hangs()]);
            let body = with_field(RESPONSES, name, json!(true)).to_string();
            fetched(&app, post(RESPONSES, &body)).await["output"] == json!([])
        }
        name => is_shared_field_used(RESPONSES, name).await,
    })
    .await;
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_reported_with_json_types() {
    let (app, _) = scripted_app([]);
    let app = app.embedder(Arc::new(BuiltInEncoder::open().expect("an encoder")));
    for (path, name, value, expected) in [
        (CHAT, "temperature", json!("hot"), "expected a number"),
        (CHAT, "max_tokens", json!(-1), "expected a whole number from 0"),
        (CHAT, "seed", json!(0.5), "`0.5`, expected a whole number"),
        (CHAT, "stop", json!(3), "expected a text or a list of texts"),
        (CHAT, "response_format", json!({ "type": "xml" }), "`text`, `json_object` or `json_schema`"),
        (EMBEDDINGS, "input", json!(3), "expected a text or a list of texts"),
    ] {
        let response = send(&app, post(path, &with_field(path, name, value).to_string())).await;
        let (status, reply) = (response.status(), text(response).await);
        assert!(status == 400 && reply.contains(expected) && reply.contains(&format!("`{name}")), "{reply}");
    }
}

#[tokio::test]
async fn every_field_of_a_request_for_embeddings_is_used_or_rejected() {
    let (app, _) = scripted_app([]);
    let app = app.embedder(Arc::new(BuiltInEncoder::open().expect("an encoder")));
    let embed = async |body: Value| fetched(&app, post(EMBEDDINGS, &body.to_string())).await;
    let dimension = embed(least(EMBEDDINGS)).await["data"][0]["embedding"].as_array().expect("numbers").len();
    check_table(EMBEDDINGS, EMBEDDING_FIELDS, async |name| match name {
        "model" => {
            outcome(EMBEDDINGS, &with_field(EMBEDDINGS, name, json!("text-embedding-3"))).await.0 == 404
        }
        "input" => {
            let tokens = outcome(EMBEDDINGS, &with_field(EMBEDDINGS, name, json!([1, 2]))).await;
            let two = embed(with_field(EMBEDDINGS, name, json!(["a", "b"]))).await;
            tokens == (400, json!(name)) && two["data"].as_array().map(Vec::len) == Some(2)
        }
        "encoding_format" => {
            let packed = embed(with_field(EMBEDDINGS, name, json!("base64"))).await;
            packed["data"][0]["embedding"].is_string()
                && outcome(EMBEDDINGS, &with_field(EMBEDDINGS, name, json!("int8"))).await
                    == (400, json!(name))
        }
        "dimensions" => {
            let same = outcome(EMBEDDINGS, &with_field(EMBEDDINGS, name, json!(dimension))).await;
            let other = outcome(EMBEDDINGS, &with_field(EMBEDDINGS, name, json!(dimension + 1))).await;
            same.0 == 200 && other == (400, json!(name))
        }
        name => panic!("`{name}` needs a proof that it is used"),
    })
    .await;
}

/// Settings as a client sends them, by the path.
fn settings(path: &str) -> Vec<(&'static str, Value)> {
    let limit = if path == CHAT { "max_tokens" } else { "max_output_tokens" };
    let both = [("temperature", json!(0.5)), ("top_p", json!(0.5)), (limit, json!(77))];
    let more = [("seed", json!(7)), ("stop", json!("END"))];
    both.into_iter().chain(more.into_iter().filter(|_| path == CHAT)).collect()
}

/// A server with a model of a vendor that is played by a scripted server, strict as the vendor is.
async fn vendor_app(provider: &str, model: &str, wire: ScriptedDialect) -> (ServerApp, ScriptedServer) {
    let vendor = ScriptedServer::start_with_responder(move |_| {
        wire.streamed_response(&ScriptedVendorAnswer::text("hello"))
    });
    let vendor = vendor.await.expect("a server");
    let config = ModelConfig {
        base_url: Some(vendor.url().to_owned()),
        ..ModelConfig::new(format!("{provider}:{model}").parse().expect("a model"))
    };
    let model = open_model(&config, ModelApiKey::new("key")).expect("opened");
    (app_with(model, ServerLimits::default()), vendor)
}

#[tokio::test]
async fn settings_arrive_at_the_vendor_under_its_own_names() {
    for (provider, model, wire, expected) in [
        (
            "openai",
            "gpt-4.1",
            ScriptedDialect::Chat,
            json!({ "temperature": 0.5, "top_p": 0.5, "seed": 7, "stop": ["END"], "max_completion_tokens": 77 }),
        ),
        (
            "mistral",
            "mistral-large",
            ScriptedDialect::Chat,
            json!({ "temperature": 0.5, "top_p": 0.5, "random_seed": 7, "stop": ["END"], "max_tokens": 77 }),
        ),
        (
            "anthropic",
            "claude-3-5-haiku-latest",
            ScriptedDialect::Messages,
            json!({ "temperature": 0.5, "top_p": 0.5, "seed": 400, "stop_sequences": ["END"], "max_tokens": 77 }),
        ),
        (
            "gemini",
            "gemini-3.1-pro",
            ScriptedDialect::Gemini,
            json!({ "generationConfig": {
                "temperature": 0.5, "topP": 0.5, "seed": 7, "stopSequences": ["END"], "maxOutputTokens": 77,
            } }),
        ),
        (
            "openai-responses",
            "gpt-4.1",
            ScriptedDialect::Responses,
            json!({ "temperature": 0.5, "top_p": 0.5, "seed": 400, "stop": 400, "max_output_tokens": 77 }),
        ),
    ] {
        let (app, vendor) = vendor_app(provider, model, wire).await;
        let mut body = least(CHAT);
        for (name, value) in settings(CHAT) {
            // What the vendor does not know is rejected by its name, and the rest is sent without it.
            if expected[name] == 400 {
                let reply = send(&app, post(CHAT, &with_field(CHAT, name, value).to_string())).await;
                let (status, reply) = (reply.status().as_u16(), text(reply).await);
                assert!(
                    status == 400 && reply.contains(&format!(r#""param":"{name}""#)),
                    "{provider}: {reply}"
                );
                continue;
            }
            body[name] = value;
        }
        assert!(vendor.received_requests().is_empty(), "{provider}: nothing was sent");
        let answer = fetched(&app, post(CHAT, &body.to_string())).await;
        assert_eq!(answer["choices"][0]["message"]["content"], "hello", "{provider}: {answer}");
        let sent = vendor.received_requests().pop().expect("a request").body;
        for (name, value) in expected.as_object().expect("fields").iter().filter(|(_, value)| **value != 400)
        {
            let sent = match value.as_object() {
                Some(inner) => inner
                    .keys()
                    .map(|key| (key.clone(), sent[name][key].clone()))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
                None => sent[name].clone(),
            };
            assert_eq!(sent, *value, "{provider}: {name}");
        }
    }
}

#[tokio::test]
async fn a_setting_that_a_model_or_an_agent_does_not_take_is_named() {
    let (app, vendor) = vendor_app("openai", "gpt-5.4", ScriptedDialect::Chat).await;
    for path in [CHAT, RESPONSES] {
        for (name, value) in settings(path).into_iter().filter(|(name, _)| !name.starts_with("max_")) {
            let reply = text(send(&app, post(path, &with_field(path, name, value).to_string())).await).await;
            assert!(
                reply.contains(&format!(r#""param":"{name}""#)) && reply.contains("gpt-5.4"),
                "{path}: {reply}"
            );
        }
        // What asks for what happens anyway is nothing to reject.
        for (name, value) in [("temperature", json!(1)), ("top_p", json!(1))] {
            assert_eq!(
                send(&app, post(path, &with_field(path, name, value).to_string())).await.status(),
                200
            );
        }
    }
    let sent = vendor.received_requests().pop().expect("a request").body;
    assert!(sent.get("temperature").is_none() && sent.get("top_p").is_none(), "{sent}");
    // An agent that does not take a client's wishes knows a temperature and nothing else.
    let (app, model) = scripted_app((0..3).map(|_| ScriptedReply::text("hello")));
    for (name, value) in settings(CHAT) {
        let mut body = with_field(CHAT, name, value);
        body["model"] = json!("docqa");
        let reply = send(&app, post(CHAT, &body.to_string())).await;
        let (status, reply) = (reply.status().as_u16(), text(reply).await);
        match name {
            "temperature" => assert_eq!(status, 200, "{reply}"),
            _ => assert!(status == 400 && reply.contains(&format!(r#""param":"{name}""#)), "{name}: {reply}"),
        }
    }
    assert!(model.requests().iter().any(|request| request.temperature == Some(0.5)));
}

#[tokio::test]
async fn an_answer_that_a_limit_cut_says_so() {
    let cut = || ScriptedReply::text("half an").finish(FinishReason::Length);
    for (path, limit) in [(CHAT, "max_tokens"), (RESPONSES, "max_output_tokens")] {
        let (app, _) = scripted_app([cut(), cut()]);
        let mut body = with_field(path, limit, json!(2));
        let whole = fetched(&app, post(path, &body.to_string())).await;
        body["stream"] = json!(true);
        let streamed = text(send(&app, post(path, &body.to_string())).await).await;
        if path == CHAT {
            assert_eq!(whole["choices"][0]["finish_reason"], "length", "{whole}");
            assert!(streamed.contains(r#""finish_reason":"length""#), "{streamed}");
        } else {
            assert_eq!(whole["status"], "incomplete", "{whole}");
            assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens", "{whole}");
            let later = format!("{RESPONSES}/{}", whole["id"].as_str().expect("an id"));
            assert_eq!(fetched(&app, get(&later)).await["status"], "incomplete");
            assert!(streamed.contains("event: response.incomplete"), "{streamed}");
        }
    }
}
