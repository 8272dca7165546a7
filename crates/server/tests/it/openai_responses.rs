//! OpenAI's Responses API: whole and streamed, continued, in the background, with tools of the client.

use std::sync::Arc;

use doran_llm::{ScriptedModel, ScriptedReply};
use doran_server::{ServerApp, ServerLimits};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::openai_tools::{call_weather, scripted_app};
use crate::{
    PausingModel, app, app_for_tenant, app_with, get, json as fetched, json_request, post, send, text,
    two_keys, until, with_key_of,
};

async fn create(app: &ServerApp, body: Value) -> Value {
    fetched(app, post("/v1/responses", &body.to_string())).await
}

fn output_text(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().expect("text")
}

/// The events of a stream. Each has the name of its type, and their numbers grow.
fn read_events(frames: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    for frame in frames.split("\n\n").filter(|frame| frame.starts_with("event: ")) {
        let (name, data) = frame.split_once("\ndata: ").expect("a frame");
        let event: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(event["type"], name["event: ".len()..]);
        assert!(events.last().is_none_or(|last| number_of(last) < number_of(&event)), "{event}");
        events.push(event);
    }
    events
}

fn number_of(event: &Value) -> u64 {
    event["sequence_number"].as_u64().expect("a number")
}

async fn stream(app: &ServerApp, mut body: Value) -> Vec<Value> {
    body["stream"] = json!(true);
    read_events(&text(send(app, post("/v1/responses", &body.to_string())).await).await)
}

/// The rest of a stream, after the event with this number.
async fn resume(app: &ServerApp, response: &Value, after: u64) -> Vec<Value> {
    let id = response["id"].as_str().expect("an id");
    let path = format!("/v1/responses/{id}?stream=true&starting_after={after}");
    // Links have the host that was asked.
    read_events(&text(send(app, get(&path)).await).await.replace("localhost:7979", "127.0.0.1:7979"))
}

/// What all pieces of text say, and the other events.
fn words_and_events(events: &[Value]) -> (String, Vec<Value>) {
    let is_text = |event: &&Value| event["type"] == "response.output_text.delta";
    let words = events.iter().filter(is_text).filter_map(|event| event["delta"].as_str()).collect();
    (words, events.iter().filter(|event| !is_text(event)).cloned().collect())
}

fn weather_tool() -> Value {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    json!({ "type": "function", "name": "get_weather", "description": "Weather of a city", "parameters": schema })
}

#[tokio::test]
async fn a_response_is_the_same_whole_streamed_and_read_again() {
    let app = app();
    let body = json!({ "model": "assistant", "input": "When must receipts be uploaded?" });
    let whole = create(&app, body.clone()).await;
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
    assert!(output_text(&whole).contains("seven days"), "{whole}");
    let annotation = &whole["output"][0]["content"][0]["annotations"][0];
    assert_eq!(annotation["type"], "url_citation");
    assert!(annotation["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:7979/api/")));
    assert!(whole["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    let read = fetched(&app, get(&format!("/v1/responses/{}", whole["id"].as_str().expect("an id")))).await;
    for same in ["id", "status", "model", "usage", "tools", "text", "store"] {
        assert_eq!(read[same], whole[same], "{same}");
    }
    assert_eq!(output_text(&read), output_text(&whole));

    let events = stream(&app, body).await;
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let mut without_repeats = kinds.clone();
    without_repeats.dedup();
    assert_eq!(
        without_repeats,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.annotation.added",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let words: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(words, output_text(&whole));
    assert_eq!(output_text(&events.last().expect("an event")["response"]), words);
}

#[tokio::test]
async fn a_stream_continues_after_any_of_its_events() {
    let said = ScriptedReply::text("날씨를 찾아볼게요.");
    let calling = said.and_call("get_weather", json!({ "city": "서울" }));
    let (scripted, _) = scripted_app([calling]);
    let ask = json!({ "model": "react", "input": "서울 날씨는?", "tools": [weather_tool()] });
    let cited = json!({ "model": "assistant", "input": "When must receipts be uploaded?" });
    for (app, body) in [(scripted, ask), (app(), cited)] {
        let events = stream(&app, body).await;
        let response = events.last().expect("an event")["response"].clone();
        for (at, event) in events.iter().enumerate() {
            let rest = resume(&app, &response, number_of(event)).await;
            let again = [&events[..=at], &rest].concat();
            assert_eq!(words_and_events(&again), words_and_events(&events), "after {event}");
        }
        let first = number_of(&events[0]);
        for unknown in [first + 1, number_of(&events[4]) - 1, 1 << 40, u64::MAX] {
            let reply = resume(&app, &response, unknown).await;
            let [error] = &reply[..] else { panic!("{reply:?}") };
            assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("unknown_event")));
        }
        let path = format!("/v1/responses/{}", response["id"].as_str().expect("an id"));
        for query in ["starting_after=0", "stream=true&starting_after=-1", "stream=true&starting_after=x"] {
            let refused = text(send(&app, get(&format!("{path}?{query}"))).await).await;
            assert!(refused.contains(r#""param":"starting_after""#), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_was_left_continues_while_the_answer_is_written() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let body = json!({ "model": "assistant", "input": "연차는?", "stream": true, "background": true });
    let response = send(&app, post("/v1/responses", &body.to_string())).await;
    let (mut frames, mut seen) = (response.into_body().into_data_stream(), String::new());
    while !seen.contains("음… ") {
        seen.push_str(
            std::str::from_utf8(&frames.next().await.expect("a frame").expect("bytes")).expect("text"),
        );
    }
    drop(frames);
    let seen = read_events(&seen);
    leave.notify_one();
    let rest = resume(&app, &seen[0]["response"], number_of(seen.last().expect("an event"))).await;
    let (words, events) = words_and_events(&[seen, rest].concat());
    assert_eq!(output_text(&events.last().expect("an event")["response"]), words);
    assert!(words.starts_with("음… ") && words.len() > "음… ".len(), "{words}");
}

#[tokio::test]
async fn an_answer_that_began_anew_is_not_continued_as_if_it_had_not() {
    let (app, _) = scripted_app([ScriptedReply::text("하나 둘 셋"), ScriptedReply::text("하나 물 셋")]);
    let (first, other) = (
        stream(&app, json!({ "model": "react", "input": "?" })).await,
        stream(&app, json!({ "model": "react", "input": "?" })).await,
    );
    let written = first.iter().find(|event| event["type"] == "response.output_text.done").expect("text");
    let reply = resume(&app, &other.last().expect("an event")["response"], number_of(written)).await;
    assert_eq!((reply.len(), &reply[0]["code"]), (1, &json!("unknown_event")), "{reply:?}");
}

#[tokio::test]
async fn a_response_that_continues_a_run_has_the_parameters_of_its_own_request() {
    let (app, _) = scripted_app([call_weather("서울"), ScriptedReply::text("맑습니다.")]);
    let ask = json!({ "model": "react", "input": "?", "tools": [weather_tool()], "metadata": { "n": "1" }, "user": "kim" });
    let first = create(&app, ask).await;
    let output =
        json!({ "type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "맑음" });
    let next = json!({
        "model": "react", "input": [output], "previous_response_id": first["id"], "instructions": "짧게",
        "metadata": { "n": "2" }, "safety_identifier": "lee",
    });
    let second = create(&app, next).await;
    for (made, metadata) in [(&first, json!({ "n": "1" })), (&second, json!({ "n": "2" }))] {
        let read =
            fetched(&app, get(&format!("/v1/responses/{}", made["id"].as_str().expect("an id")))).await;
        for field in
            ["metadata", "instructions", "previous_response_id", "user", "safety_identifier", "tools"]
        {
            assert_eq!(read[field], made[field], "{field}");
        }
        assert_eq!(read["metadata"], metadata);
    }
    let no_part = format!("/v1/responses/{}_999", first["id"].as_str().expect("an id"));
    assert_eq!(send(&app, get(&no_part)).await.status(), 404);
}

#[tokio::test]
async fn a_response_follows_the_one_it_names_and_no_other() {
    let replies = ["하나", "둘", "셋"].map(ScriptedReply::text);
    let (app, model) = scripted_app(replies);
    let first = create(&app, json!({ "model": "react", "input": "1?" })).await;
    let ask = |input: &str, after: &Value| json!({ "model": "react", "input": input, "previous_response_id": after["id"] });
    let second = create(&app, ask("2?", &first)).await;
    assert_eq!(second["previous_response_id"], first["id"]);
    create(&app, ask("3?", &first)).await;
    let said = |request: usize| {
        let requests = model.requests();
        let spoken = requests[request].messages.iter().skip(1);
        spoken.map(|message| message.text()).collect::<Vec<_>>()
    };
    assert_eq!(said(1), ["1?", "하나", "2?"]);
    assert_eq!(said(2), ["1?", "하나", "3?"], "the second response is on another branch");
    let both =
        json!({ "model": "react", "input": "4?", "previous_response_id": first["id"], "conversation": "t" });
    assert_eq!(send(&app, post("/v1/responses", &both.to_string())).await.status(), 400);
}

#[tokio::test]
async fn everything_that_follows_a_response_reaches_the_model() {
    let replies = [call_weather("서울"), ScriptedReply::text("맑습니다."), ScriptedReply::text("네.")];
    let (app, model) = scripted_app(replies);
    let user = |text: &str| json!({ "role": "user", "content": text });
    let tools = json!([weather_tool()]);
    let ask = json!({ "model": "react", "input": "날씨는?", "tools": tools, "instructions": "하나" });
    let first = create(&app, ask).await;
    let output = json!({
        "type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "맑음",
    });
    let second = create(
        &app,
        json!({ "model": "react", "previous_response_id": first["id"], "tools": tools, "instructions": "둘",
            "input": [output, user("짧게"), user("영어로")] }),
    )
    .await;
    let words = |at: usize| {
        let requests = model.requests();
        requests[at].messages.iter().skip(1).map(|message| message.text()).collect::<Vec<_>>()
    };
    assert_eq!(words(1), ["둘", "날씨는?", "", "", "짧게", "영어로"], "{second}");
    create(
        &app,
        json!({ "model": "react", "previous_response_id": second["id"], "input": [user("내일은?"), user("모레는?")] }),
    )
    .await;
    assert_eq!(words(2)[6..], ["맑습니다.", "내일은?", "모레는?"]);
}

#[tokio::test]
async fn a_tool_of_the_client_ends_a_response_and_its_output_begins_the_next() {
    for streamed in [false, true] {
        let (app, model) = scripted_app([call_weather("서울"), ScriptedReply::text("맑습니다.")]);
        let respond = async |body: Value| match streamed {
            true => stream(&app, body).await.pop().expect("an event")["response"].clone(),
            false => create(&app, body).await,
        };
        let asked = json!({ "model": "react", "input": "서울 날씨는?", "tools": [weather_tool()] });
        let first = respond(asked.clone()).await;
        let call = &first["output"][0];
        assert_eq!(
            (&call["type"], &call["name"]),
            (&json!("function_call"), &json!("get_weather")),
            "{first}"
        );
        assert_eq!(call["arguments"], json!({ "city": "서울" }).to_string());
        let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "맑음" });
        let next = match streamed {
            // Only the output, after the response.
            false => {
                json!({ "model": "react", "previous_response_id": first["id"], "input": [output], "tools": [weather_tool()] })
            }
            // The whole conversation.
            true => {
                let question = json!({ "role": "user", "content": "서울 날씨는?" });
                json!({ "model": "react", "input": [question, call, output], "tools": [weather_tool()] })
            }
        };
        let second = respond(next.clone()).await;
        assert_eq!(output_text(&second), "맑습니다.", "{second}");
        assert_ne!(second["id"], first["id"]);
        assert_eq!(output_text(&respond(next).await), "맑습니다.", "again");
        assert_eq!(model.requests().len(), 2);
        for part in [&first, &second] {
            let read =
                fetched(&app, get(&format!("/v1/responses/{}", part["id"].as_str().expect("an id")))).await;
            assert_eq!(read["output"], part["output"]);
        }
    }
}

#[tokio::test]
async fn items_of_responses_can_be_named_instead_of_sent() {
    let replies = [call_weather("서울"), ScriptedReply::text("맑습니다."), ScriptedReply::text("네.")];
    let (app, model) = scripted_app(replies);
    let user = |text: &str| json!({ "role": "user", "content": text });
    let reference = |item: &Value| json!({ "type": "item_reference", "id": item["id"] });
    let ask = |input: Value| json!({ "model": "react", "input": input, "tools": [weather_tool()] });
    let first = create(&app, ask(json!([user("날씨는?")]))).await;
    let call = &first["output"][0];
    let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "맑음" });
    let second = create(&app, ask(json!([user("날씨는?"), reference(call), output]))).await;
    assert_eq!(output_text(&second), "맑습니다.");
    let items =
        json!([user("날씨는?"), reference(call), output, reference(&second["output"][0]), user("정말?")]);
    create(&app, ask(items)).await;
    let read: Vec<String> =
        model.requests()[2].messages.iter().skip(1).map(|message| message.text()).collect();
    assert_eq!(
        (read[0].as_str(), &read[read.len() - 2..]),
        ("날씨는?", &["맑습니다.".to_owned(), "정말?".to_owned()][..])
    );
    let unknown = ask(json!([{ "type": "item_reference", "id": "msg_1" }, user("?")])).to_string();
    assert_eq!(send(&app, post("/v1/responses", &unknown)).await.status(), 400);
}

#[tokio::test]
async fn a_response_that_ended_is_read_while_its_run_goes_on() {
    let (app, _) = scripted_app([call_weather("서울"), ScriptedReply::text("음").then_hangs()]);
    let first = create(&app, json!({ "model": "react", "input": "?", "tools": [weather_tool()] })).await;
    let call_id = &first["output"][0]["call_id"];
    let output = json!({ "type": "function_call_output", "call_id": call_id, "output": "맑음" });
    let next = json!({
        "model": "react", "input": [output], "previous_response_id": first["id"], "background": true,
    });
    let second = create(&app, next).await;
    let read = async |response: &Value| {
        fetched(&app, get(&format!("/v1/responses/{}", response["id"].as_str().expect("an id")))).await
    };
    assert_eq!(read(&first).await["output"], first["output"]);
    assert_ne!(read(&second).await["status"], "completed");
}

#[tokio::test]
async fn a_response_in_the_background_is_there_later_and_can_be_cancelled() {
    let (app, _) = scripted_app([ScriptedReply::text("나중에."), ScriptedReply::text("아직").then_hangs()]);
    let begun = create(&app, json!({ "model": "react", "input": "?", "background": true })).await;
    assert!(["queued", "in_progress", "completed"].iter().any(|status| begun["status"] == *status));
    let path = format!("/v1/responses/{}", begun["id"].as_str().expect("an id"));
    until(async || fetched(&app, get(&path)).await["status"] == "completed").await;
    let read = fetched(&app, get(&path)).await;
    assert_eq!((output_text(&read), &read["background"]), ("나중에.", &json!(true)));
    let hanging = create(&app, json!({ "model": "react", "input": "?", "background": true })).await;
    let cancel = format!("/v1/responses/{}/cancel", hanging["id"].as_str().expect("an id"));
    let cancelled = fetched(&app, post(&cancel, "")).await;
    assert_eq!((&cancelled["status"], &cancelled["output"]), (&json!("cancelled"), &json!([])));
}

#[tokio::test]
async fn a_response_is_deleted_with_its_thread_unless_others_need_it() {
    let (app, _) = scripted_app(["하나", "둘"].map(ScriptedReply::text));
    let first = create(&app, json!({ "model": "react", "input": "1?" })).await;
    let path = format!("/v1/responses/{}", first["id"].as_str().expect("an id"));
    let delete = || json_request("delete", &path, "");
    let next = json!({ "model": "react", "input": "2?", "previous_response_id": first["id"] });
    let other = scripted_app([ScriptedReply::text("하나")]).0;
    let alone = create(&other, json!({ "model": "react", "input": "1?" })).await;
    let alone = format!("/v1/responses/{}", alone["id"].as_str().expect("an id"));
    let deleted = fetched(&other, json_request("delete", &alone, "")).await;
    assert_eq!(deleted["deleted"], true);
    assert_eq!(send(&other, get(&alone)).await.status(), 404);
    create(&app, next).await;
    assert_eq!(send(&app, delete()).await.status(), 409);
    assert_eq!(send(&app, get(&path)).await.status(), 200);
}

#[tokio::test]
async fn a_response_belongs_to_its_tenant() {
    let model = Arc::new(ScriptedModel::new([call_weather("서울"), ScriptedReply::text("남의 것")]));
    let (app, _) = app_for_tenant(model, "a");
    let app = app.keys(two_keys()).limits(ServerLimits::default());
    let asked = json!({ "model": "react", "input": "?", "tools": [weather_tool()] }).to_string();
    let made = fetched(&app, with_key_of("a", post("/v1/responses", &asked))).await;
    let id = made["id"].as_str().expect("an id");
    let path = format!("/v1/responses/{id}");
    assert_eq!(send(&app, with_key_of("b", get(&path))).await.status(), 404);
    assert_eq!(send(&app, with_key_of("b", post(&format!("{path}/cancel"), ""))).await.status(), 404);
    assert_eq!(send(&app, with_key_of("b", json_request("delete", &path, ""))).await.status(), 404);
    let next = json!({ "model": "react", "input": "?", "previous_response_id": id }).to_string();
    assert_eq!(send(&app, with_key_of("b", post("/v1/responses", &next))).await.status(), 400);
    let call = &made["output"][0];
    let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "x" });
    let stolen = json!({ "model": "react", "input": [{ "role": "user", "content": "?" }, call, output] });
    let answer = fetched(&app, with_key_of("b", post("/v1/responses", &stolen.to_string()))).await;
    assert_eq!(output_text(&answer), "남의 것", "a conversation of its own, with a run of its own");
    let still = fetched(&app, with_key_of("a", get(&path))).await;
    assert_eq!(still["output"], made["output"], "the run of the other tenant still waits");
}
