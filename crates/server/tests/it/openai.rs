//! OpenAI's dialect where its clients cannot look: what becomes of the conversation they keep, of an answer that begins
//! anew, and of a run that asks back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::HeaderValue;
use doran_agents::RequestPurpose;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, ModelError, ModelInfo};
use doran_offline::OfflineModel;
use doran_server::{ServerApp, ServerLimits};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::{app, app_with, get, json as fetched, post, send, text, with_header};

async fn completion_text(app: &ServerApp, model: &str, messages: Value) -> String {
    let asked = json!({ "model": model, "messages": messages });
    let answer = fetched(app, post("/v1/chat/completions", &asked.to_string())).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    answer["choices"][0]["message"]["content"].as_str().expect("words").to_owned()
}

/// The words of a stream, the word it ended with, and whether it was done.
async fn streamed_completion(
    app: &ServerApp,
    model: &str,
    question: &str,
) -> (String, Option<String>, String) {
    let messages = json!([{ "role": "user", "content": question }]);
    let asked = json!({ "model": model, "messages": messages, "stream": true });
    let frames = text(send(app, post("/v1/chat/completions", &asked.to_string())).await).await;
    let chunks =
        frames.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let (mut words, mut finish) = (String::new(), None);
    for chunk in chunks {
        words.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        finish = chunk["choices"][0]["finish_reason"].as_str().map(str::to_owned).or(finish);
    }
    (words, finish, frames)
}

/// The reasoning of an answer under the name that most clients know, once it is the same under both.
fn reasoning_text(said: &Value) -> String {
    assert_eq!(said.get("reasoning_content"), said.get("reasoning"), "{said}");
    assert!(said.get("tool_calls").is_none(), "the tools are the agent's: {said}");
    said["reasoning_content"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn activities_of_an_agent_are_sent_as_reasoning_in_the_language_of_the_question() {
    let app = app();
    for (agent, question, thought) in [
        ("assistant", "연차휴가는 며칠인가요?", "찾"),
        ("docqa", "When must receipts be uploaded?", "looking documents up"),
        ("contract", "중도에 해지하면 위약금은 얼마인가요?", "hybrid_search {"),
    ] {
        let (_, finish, frames) = streamed_completion(&app, agent, question).await;
        assert_eq!(finish.as_deref(), Some("stop"), "{frames}");
        let mut live = String::new();
        for frame in frames.lines().filter_map(|line| line.strip_prefix("data: {")) {
            let chunk: Value = serde_json::from_str(&format!("{{{frame}")).expect("JSON");
            live.push_str(&reasoning_text(&chunk["choices"][0]["delta"]));
        }
        let asked = json!({ "model": agent, "messages": [{ "role": "user", "content": question }] });
        let whole = fetched(&app, post("/v1/chat/completions", &asked.to_string())).await;
        assert_eq!(reasoning_text(&whole["choices"][0]["message"]), live, "{agent}");
        assert!(live.contains(thought) && live.ends_with('\n'), "{agent}: {live}");
    }
}

#[tokio::test]
async fn open_webui_gets_steps_and_sources_when_it_requests_them_and_nobody_else_does() {
    let app = app();
    let messages = json!([{ "role": "user", "content": "연차휴가는 며칠인가요?" }]);
    let asked = json!({ "model": "assistant", "messages": messages, "stream": true }).to_string();
    let ask = || post("/v1/chat/completions", &asked);
    let reply = text(send(&app, with_header(ask(), "x-doran-events", "open-webui")).await).await;
    let (mut kinds, mut words) = (Vec::new(), String::new());
    for line in reply.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let line: Value = serde_json::from_str(&format!("{{{line}")).expect("JSON");
        assert_eq!(reasoning_text(&line["choices"][0]["delta"]), "", "it is told once");
        words.push_str(line["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        let event = &line["event"];
        match event["type"].as_str() {
            Some("status") => kinds.push(format!("status {}", event["data"]["done"])),
            Some("source") => {
                let data = &event["data"];
                assert!(data["source"]["name"].as_str().is_some_and(|name| name.contains("휴가")), "{data}");
                let quote = data["document"][0].as_str().expect("a quote");
                let is_first = !kinds.iter().any(|kind| kind == "source");
                assert!(quote.contains("15일") || !is_first, "{data}");
                assert_eq!(data["metadata"].as_array().map(Vec::len), Some(1), "{data}");
                kinds.push("source".into());
            }
            Some(other) => panic!("{other}"),
            None => assert_eq!(line["object"], "chat.completion.chunk", "{line}"),
        }
    }
    assert!(words.contains("15일") && reply.ends_with("data: [DONE]\n\n"), "{reply}");
    assert_eq!(kinds.first().map(String::as_str), Some("status false"), "{kinds:?}");
    assert!(kinds.ends_with(&["source".into(), "status true".into()]), "{kinds:?}");
    let plain = text(send(&app, ask()).await).await;
    assert!(!plain.contains(r#"{"event":"#), "{plain}");
    let wrong = send(&app, with_header(ask(), "x-doran-events", "all")).await;
    assert_eq!(wrong.status(), 400);
}

#[tokio::test]
async fn a_second_question_is_answered_like_a_first() {
    let app = app();
    let first = json!([{ "role": "user", "content": "When must receipts be uploaded?" }]);
    let alone = completion_text(&app, "assistant", first).await;
    assert!(alone.contains("seven days"), "{alone}");
    let second = json!([
        { "role": "system", "content": "짧게 답하세요." },
        { "role": "user", "content": "연차휴가는 며칠인가요?" },
        { "role": "assistant", "content": "15일입니다." },
        { "role": "user", "content": "When must receipts be uploaded?" },
    ]);
    assert_eq!(completion_text(&app, "assistant", second).await, alone, "in its language, and nothing else");
    for agent in ["assistant", "react", "docqa", "contract"] {
        let names = json!([
            { "role": "user", "content": "내 이름은 민준이야." },
            { "role": "assistant", "content": "반갑습니다." },
            { "role": "user", "content": "연차휴가는 며칠인가요?" },
        ]);
        let said = completion_text(&app, agent, names).await;
        assert!(
            !said.is_empty() && !said.contains("민준") && !said.contains("[이전 대화"),
            "{agent}: {said}"
        );
    }
    let known = json!([
        { "role": "user", "content": "내 이름은 철수야." },
        { "role": "assistant", "content": "반갑습니다." },
        { "role": "user", "content": "내 이름이 뭐야?" },
    ]);
    assert!(completion_text(&app, "assistant", known).await.contains("철수"));
}

#[tokio::test]
async fn what_a_client_keeps_becomes_messages_and_what_it_says_as_the_system_one() {
    let app = app();
    let said = async |name: &str| {
        let read = fetched(&app, get(&format!("/api/threads/{name}/messages"))).await;
        let said = read["messages"].as_array().expect("messages").iter();
        said.map(|said| {
            format!("{} {}", said["role"].as_str().expect("a role"), said["text"].as_str().expect("text"))
        })
        .collect::<Vec<_>>()
    };
    let asked = json!({ "model": "assistant", "messages": [
        { "role": "system", "content": "짧게." },
        { "role": "user", "content": "내 이름은 철수야." },
        { "role": "assistant", "content": "반갑습니다." },
        { "role": "user", "content": "내 이름이 뭐야?" },
    ] });
    let response = send(&app, post("/v1/chat/completions", &asked.to_string())).await;
    let thread = response.headers()["x-thread-id"].to_str().expect("text").to_owned();
    text(response).await;
    let kept = said(&thread).await;
    assert_eq!(
        kept[..4],
        ["user 짧게.", "user 내 이름은 철수야.", "assistant 반갑습니다.", "user 내 이름이 뭐야?"]
    );
    assert_eq!(kept.len(), 5, "{kept:?}");
    for question in ["내 이름은 영희야.", "내 이름이 뭐야?"] {
        let mut asked = asked.clone();
        asked["metadata"] = json!({ "thread_id": "mine" });
        asked["messages"][3]["content"] = json!(question);
        text(send(&app, post("/v1/chat/completions", &asked.to_string())).await).await;
    }
    let kept = said("mine").await;
    assert_eq!(kept.iter().filter(|said| *said == "user 짧게.").count(), 1, "{kept:?}");
    // The thread was new with the first of them, and has what was said before from then on.
    assert_eq!(kept.iter().filter(|said| said.contains("철수")).count(), 1, "{kept:?}");
    assert_eq!(kept.len(), 7, "{kept:?}");
    // Of several messages after the last answer, none is lost.
    let mut two = asked.clone();
    two["metadata"] = json!({ "thread_id": "mine" });
    let messages = two["messages"].as_array_mut().expect("a list");
    messages[3]["content"] = json!("내 나이는 서른이야.");
    messages.push(json!({ "role": "user", "content": "내 나이는?" }));
    text(send(&app, post("/v1/chat/completions", &two.to_string())).await).await;
    let kept = said("mine").await;
    assert_eq!(kept[7..9], ["user 내 나이는 서른이야.", "user 내 나이는?"], "{kept:?}");
}

#[tokio::test]
async fn a_conversation_is_as_long_as_one_message_may_be() {
    let app =
        app_with(Arc::new(OfflineModel), ServerLimits { max_message_bytes: 100, ..ServerLimits::default() });
    let long = "가".repeat(20);
    for role in ["system", "user", "assistant"] {
        let messages = json!([{ "role": role, "content": long }, { "role": "user", "content": long }]);
        let asked = json!({ "model": "assistant", "messages": messages }).to_string();
        let response = send(&app, post("/v1/chat/completions", &asked)).await;
        assert_eq!(response.status(), 400, "{role}");
        let nul = json!([{ "role": role, "content": "\0" }, { "role": "user", "content": "?" }]);
        let asked = json!({ "model": "assistant", "messages": nul }).to_string();
        assert_eq!(send(&app, post("/v1/chat/completions", &asked)).await.status(), 400, "{role}");
    }
}

/// Breaks off after some words, and would answer the next request.
#[derive(Default)]
struct BreaksOffOnceModel {
    asked: Arc<AtomicUsize>,
}

impl ChatModel for BreaksOffOnceModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let say = |text: &str| Ok(Delta::Text { text: text.to_owned() });
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let broken = ModelError::Broken { reason: "it broke off".into() };
            return stream::iter([say("안녕하"), Err(broken)]).boxed();
        }
        let end = Delta::Done { usage: doran_llm::Usage::default(), finish: doran_llm::FinishReason::Stop };
        stream::iter([say("안녕하세요."), Ok(end)]).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_not_asked_for_again_and_ends_with_an_error() {
    let model = BreaksOffOnceModel::default();
    let asked = model.asked.clone();
    let app = app_with(Arc::new(model), ServerLimits::default());
    let (words, finish, frames) = streamed_completion(&app, "assistant", "안녕?").await;
    assert!("안녕하".starts_with(&words) && finish.is_none(), "{frames}");
    assert!(frames.contains("\"model_truncated\"") && !frames.contains("[DONE]"), "{frames}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_run_that_asks_back_says_where_to_answer() {
    let app = app();
    let (words, finish, frames) = streamed_completion(&app, "react", "15 * 4").await;
    assert_eq!(finish.as_deref(), Some("stop"), "{frames}");
    assert!(words.contains("waits for an approval") && words.contains("/t/"), "{words}");
    assert!(words.contains("calculator") && frames.ends_with("data: [DONE]\n\n"), "{frames}");
    let whole =
        completion_text(&app, "react", json!([{ "role": "user", "content": "15 * 4는 얼마야?" }])).await;
    assert!(whole.contains("승인을 기다립니다") && whole.contains("`calculator "), "{whole}");
}

#[tokio::test]
async fn a_thread_name_that_no_header_can_carry_is_refused_with_the_name_of_the_header() {
    let app = app();
    let mut asked =
        json!({ "model": "assistant", "messages": [{ "role": "user", "content": "안녕하세요" }] });
    let mut request = post("/v1/chat/completions", &asked.to_string());
    let name = HeaderValue::from_bytes("한글스레드".as_bytes()).expect("a header");
    request.headers_mut().insert("x-thread-id", name);
    let response = send(&app, request).await;
    let (status, reply) = (response.status(), text(response).await);
    let reply: Value = serde_json::from_str(&reply).expect("JSON");
    assert_eq!((status.as_u16(), &reply["error"]["code"]), (400, &json!("bad_header")), "{reply}");
    assert_eq!(reply["error"]["param"], "x-thread-id", "{reply}");
    assert!(reply["error"]["message"].as_str().is_some_and(|text| text.contains("`metadata.thread_id`")));
    let mut two = asked.clone();
    two["metadata"] = json!({ "thread_id": "mine" });
    let request = with_header(post("/v1/chat/completions", &two.to_string()), "x-thread-id", "other");
    assert!(text(send(&app, request).await).await.contains(r#""param":"metadata.thread_id""#));
    two["metadata"] = json!({ "thread_id": 7 });
    let refused = send(&app, post("/v1/chat/completions", &two.to_string())).await;
    assert!(text(refused).await.contains(r#""param":"metadata.thread_id""#));
    asked["metadata"] = json!({ "thread_id": "한글스레드" });
    assert_eq!(send(&app, post("/v1/chat/completions", &asked.to_string())).await.status(), 200);
}

#[tokio::test]
async fn a_chat_of_open_webui_is_one_thread_and_a_temporary_one_is_none() {
    let app = app();
    let asked = json!({ "model": "assistant", "messages": [{ "role": "user", "content": "안녕하세요" }] })
        .to_string();
    let thread_of = async |chat: &str, named: Option<&str>| {
        let mut request = with_header(post("/v1/chat/completions", &asked), "x-openwebui-chat-id", chat);
        if let Some(named) = named {
            request = with_header(request, "x-thread-id", named);
        }
        let response = send(&app, request).await;
        assert_eq!(response.status(), 200);
        response.headers()["x-thread-id"].to_str().expect("text").to_owned()
    };
    let chat = "0b2e6e5e-1111-4222-8333-1234567890ab";
    assert_eq!(thread_of(chat, None).await, chat);
    assert_eq!(thread_of(chat, Some("mine")).await, "mine", "a name that a client gives comes first");
    for temporary in ["local", "local:abc"] {
        let threads = [thread_of(temporary, None).await, thread_of(temporary, None).await];
        assert!(threads[0] != threads[1] && !threads[0].starts_with("local"), "{threads:?}");
    }
}
