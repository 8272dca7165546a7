//! Images that come with a message: sent to language models, refused with a reason otherwise.

use std::sync::{Arc, Mutex};

use doran_llm::{
    ChatModel, ChatRequest, DeltaStream, MessagePart, ModelInfo, ModelKind, Role, ScriptedModel,
    ScriptedReply,
};
use doran_offline::OfflineModel;
use doran_server::ServerLimits;
use serde_json::{Value, json};

use crate::openai_tools::scripted_app;
use crate::{app, app_with, get, json, post, send, text};

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgo=";

/// Says that it is a language model and keeps what it was asked.
#[derive(Default)]
struct SeeingModel(Mutex<Vec<ChatRequest>>);

impl ChatModel for SeeingModel {
    fn info(&self) -> ModelInfo {
        ModelInfo { name: "seeing".into(), kind: ModelKind::Language, ..OfflineModel.info() }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.0.lock().expect("a lock").push(request.clone());
        OfflineModel.stream(request)
    }
}

fn ask(agent: &str, images: &[&str]) -> String {
    json!({ "agent": agent, "message": "이 그림에 무엇이 있나요?", "images": images }).to_string()
}

#[tokio::test]
async fn an_image_reaches_the_model_and_stays_in_the_conversation() {
    let model = Arc::new(SeeingModel::default());
    let app = app_with(model.clone(), ServerLimits::default());
    for agent in ["assistant", "react"] {
        let path = format!("/api/threads/{agent}");
        json(&app, post(&format!("{path}/runs?wait=true"), &ask(agent, &[IMAGE]))).await;
        let seen = std::mem::take(&mut *model.0.lock().expect("a lock"));
        let parts = seen.iter().flat_map(|request| &request.messages).flat_map(|message| &message.parts);
        let images: Vec<&str> = parts
            .filter_map(|part| match part {
                MessagePart::Image(image) => Some(image.url.as_str()),
                _ => None,
            })
            .collect();
        assert!(images.contains(&IMAGE), "{agent}: {images:?}");
        let messages = json(&app, get(&format!("{path}/messages"))).await;
        assert!(messages["messages"][0]["parts"].to_string().contains(IMAGE), "{messages}");
    }
}

/// What the model was asked, each message as its parts.
fn asked_parts(model: &ScriptedModel) -> Vec<Vec<MessagePart>> {
    let messages = model.requests().into_iter().flat_map(|request| request.messages);
    messages.filter(|message| message.role == Role::User).map(|message| message.parts).collect()
}

#[tokio::test]
async fn an_image_without_words_is_a_question_in_every_dialect() {
    for agent in ["assistant", "react"] {
        let image = json!([{ "type": "image_url", "image_url": { "url": IMAGE } }]);
        let input_image = json!([{ "type": "input_image", "image_url": IMAGE, "detail": "auto" }]);
        let message = |content: &Value| json!([{ "role": "user", "content": content }]);
        for (path, body) in [
            ("/v1/chat/completions", json!({ "model": agent, "messages": message(&image) })),
            ("/v1/responses", json!({ "model": agent, "input": message(&input_image) })),
            ("/api/threads/t/runs?wait=true", json!({ "agent": agent, "message": "", "images": [IMAGE] })),
        ] {
            let (seeing, model) = scripted_app([ScriptedReply::text("a picture")]);
            json(&seeing, post(path, &body.to_string())).await;
            let parts = asked_parts(&model);
            assert!(
                matches!(&parts[..], [only] if matches!(&only[..], [MessagePart::Image(image)] if image.url == IMAGE)),
                "{agent} {path}: {parts:?}"
            );
            // The built-in model says why it cannot.
            let response = send(&app(), post(path, &body.to_string())).await;
            let (status, reply) = (response.status(), text(response).await);
            assert!(status == 400 && reply.contains("built-in model"), "{path}: {reply}");
        }
        for wrong in [
            "data:image/png;base64,",
            "data:image/png;base64,a b",
            "data:image/svg+xml;base64,PHN2Zz4=",
            "http://",
            "https://a b/",
        ] {
            let image = json!([{ "type": "image_url", "image_url": { "url": wrong } }]);
            let body = json!({ "model": agent, "messages": message(&image) }).to_string();
            let reply = text(send(&scripted_app([]).0, post("/v1/chat/completions", &body)).await).await;
            assert!(reply.contains(r#""param":"messages[0].content[0].image_url.url""#), "{wrong}: {reply}");
        }
        // Nothing at all is still no question.
        let nothing = json!({ "model": agent, "messages": message(&json!([])) }).to_string();
        let (seeing, _) = scripted_app([]);
        assert_eq!(send(&seeing, post("/v1/chat/completions", &nothing)).await.status(), 400);
    }
}

#[tokio::test]
async fn images_that_nobody_can_look_at_are_refused_with_the_reason() {
    let seeing = app_with(Arc::new(SeeingModel::default()), ServerLimits::default());
    let refused = async |app: &doran_server::ServerApp, body: String| {
        let response = send(app, post("/api/threads/t/runs", &body)).await;
        assert_eq!(response.status(), 400, "{body}");
        let problem: Value = serde_json::from_str(&text(response).await).expect("JSON");
        problem["detail"].as_str().expect("a reason").to_owned()
    };
    let reason = refused(&app(), ask("assistant", &[IMAGE])).await;
    assert!(reason.contains("cannot look at images"), "{reason}");
    let reason = refused(&seeing, ask("contract", &[IMAGE])).await;
    assert!(reason.contains("does not look at images"), "{reason}");
    for wrong in [
        "https://example.com/a.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:text/html;base64,PHA+",
        "data:image/png;base64,",
        "data:image/png;base64,a b",
        "file:///etc/passwd",
    ] {
        let reason = refused(&seeing, ask("assistant", &[wrong])).await;
        assert!(reason.contains("data:TYPE;base64,DATA"), "{wrong}: {reason}");
    }
    let reason = refused(&seeing, ask("assistant", &[IMAGE; 5])).await;
    assert!(reason.contains("at most 4 images"), "{reason}");
    let huge = format!("data:image/png;base64,{}", "A".repeat(600_000));
    let reason = refused(&seeing, ask("assistant", &[&huge])).await;
    assert!(reason.contains("at most 4 images"), "{reason}");
    // Nothing was begun.
    assert_eq!(json(&seeing, get("/api/runs")).await["runs"], json!([]));
}
