//! Models that chats choose: who may change them, and what of a choice reaches the model.

use std::sync::{Arc, Mutex};

use doran_agents::{AgentParts, ModelCatalog, build_default_agents, samples};
use doran_engine::store::RamStore;
use doran_engine::{Runtime, TenantId};
use doran_llm::{ChatModel, ChatRequest, DeltaStream, ModelError, ModelInfo, ModelKind};
use doran_offline::OfflineModel;
use doran_retrieval::RamKeywordIndex;
use doran_server::api::{ModelOffers, ModelOption, ModelTest};
use doran_server::{
    ApiKey, ApiKeys, KeyHash, ModelRegistry, ModelRegistryError, ServerApp, SubmittedModelKey,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{get, json, json_request, post, problem, send, text, with_key_of};

/// Answers as the built-in model does, under another name, and keeps what it was asked.
#[derive(Default)]
struct OtherModel(Mutex<Vec<ChatRequest>>);

impl ChatModel for OtherModel {
    fn info(&self) -> ModelInfo {
        ModelInfo { name: "other".into(), ..OfflineModel.info() }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.0.lock().expect("a lock").push(request.clone());
        OfflineModel.stream(request)
    }
}

/// Answers as the built-in model does, and says that it is a language model.
struct LanguageModel;

impl ChatModel for LanguageModel {
    fn info(&self) -> ModelInfo {
        ModelInfo { name: "language".into(), kind: ModelKind::Language, ..OfflineModel.info() }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        OfflineModel.stream(request)
    }
}

/// A registry with three models that keeps the keys it is given.
#[derive(Default)]
struct TestRegistry {
    other: Arc<OtherModel>,
    keys: Mutex<Vec<(String, String)>>,
}

impl ModelCatalog for TestRegistry {
    fn open(&self, name: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        match name {
            "default" => Ok(Arc::new(OfflineModel)),
            "other" => Ok(self.other.clone()),
            "language" => Ok(Arc::new(LanguageModel)),
            _ => Err(ModelError::Rejected { reason: "gone".into() }),
        }
    }
}

impl ModelRegistry for TestRegistry {
    fn options(&self) -> Vec<ModelOption> {
        let option = |id: &str, model: ModelInfo, is_default| ModelOption {
            id: id.into(),
            model,
            is_default,
            added: !is_default,
        };
        vec![
            option("default", OfflineModel.info(), true),
            option("other", self.other.info(), false),
            option("language", LanguageModel.info(), false),
        ]
    }

    fn offers(&self) -> BoxFuture<'_, ModelOffers> {
        async { ModelOffers { servers: Vec::new(), providers: Vec::new() } }.boxed()
    }

    fn provider_models<'a>(
        &'a self,
        provider: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, ModelRegistryError>> {
        async move { Ok(vec![format!("{provider}:m")]) }.boxed()
    }

    fn test<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<ModelTest, ModelRegistryError>> {
        async { Ok(ModelTest { ok: true, ms: 1, text: Some("OK".into()), error: None }) }.boxed()
    }

    fn add(&self, model: &str) -> Result<(), ModelRegistryError> {
        match model {
            "wrong" => Err(ModelRegistryError { en: "wrong".into(), ko: "틀림".into() }),
            _ => Ok(()),
        }
    }

    fn remove(&self, _: &str) -> Result<(), ModelRegistryError> {
        Ok(())
    }

    fn set_default(&self, _: &str) -> Result<(), ModelRegistryError> {
        Ok(())
    }

    fn set_key(&self, provider: &str, key: &SubmittedModelKey) -> Result<(), ModelRegistryError> {
        self.keys.lock().expect("a lock").push((provider.to_owned(), key.reveal().to_owned()));
        Ok(())
    }

    fn remove_key(&self, _: &str) -> Result<(), ModelRegistryError> {
        Ok(())
    }
}

fn app_with_registry() -> (ServerApp, Arc<TestRegistry>) {
    let registry = Arc::new(TestRegistry::default());
    let index = Arc::new(RamKeywordIndex::from_documents(
        &doran_retrieval::DocumentTenant::new("local"),
        &samples::rule_books(),
    ));
    let catalog: Arc<dyn ModelCatalog> = registry.clone();
    let parts = AgentParts { catalog: Some(catalog), ..AgentParts::new(Arc::new(OfflineModel), index) };
    let agents = build_default_agents(&parts).expect("sound graphs");
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    (ServerApp::new(runtime, store, agents).models(registry.clone()), registry)
}

#[tokio::test]
async fn only_the_user_of_this_machine_or_an_administrator_changes_models() {
    let (app, registry) = app_with_registry();
    let changes = [
        ("get", "/api/models/offers", json!({})),
        ("get", "/api/models/providers/openai", json!({})),
        ("put", "/api/models/ollama:x", json!({})),
        ("put", "/api/models/default", json!({ "model": "other" })),
        ("put", "/api/models/test", json!({ "model": "other" })),
        ("put", "/api/models/keys/openai", json!({ "key": "sk-hunter2" })),
        ("delete", "/api/models/keys/openai", json!({})),
        ("delete", "/api/models/ollama:x", json!({})),
    ];
    let key = |name: &str, is_admin| ApiKey {
        name: name.into(),
        tenant: TenantId::new(name).expect("a name"),
        hash: KeyHash::from_secret(&format!("key-{name}")),
        is_admin,
    };
    let guarded = app.clone().keys(ApiKeys::new(vec![key("user", false), key("boss", true)]));
    for (method, path, body) in changes {
        let request = || json_request(method, path, &body.to_string());
        assert!(send(&app, request()).await.status().is_success(), "{method} {path}");
        assert!(
            send(&guarded, with_key_of("boss", request())).await.status().is_success(),
            "{method} {path}"
        );
        assert_eq!(problem(&guarded, with_key_of("user", request())).await, "403 admin_only", "{path}");
        assert_eq!(problem(&guarded, request()).await, "401 no_key", "{path}");
    }
    assert_eq!(json(&guarded, with_key_of("user", get("/api/models"))).await["may_change"], false);
    assert_eq!(json(&guarded, with_key_of("boss", get("/api/models"))).await["may_change"], true);
    let stored = registry.keys.lock().expect("a lock").clone();
    assert_eq!(stored, vec![("openai".to_owned(), "sk-hunter2".to_owned()); 2]);
}

#[tokio::test]
async fn a_key_is_never_in_an_answer_nor_printed() {
    let (app, _) = app_with_registry();
    let put = |key: &str| json_request("put", "/api/models/keys/openai", &json!({ "key": key }).to_string());
    assert!(text(send(&app, put("sk-hunter2")).await).await.is_empty());
    for wrong in ["", "two words", "한글", &"k".repeat(1001)] {
        let answer = text(send(&app, put(wrong)).await).await;
        assert!(answer.contains("bad_input"), "{answer}");
        assert!(wrong.is_empty() || !answer.contains(wrong), "{answer}");
    }
    let key: SubmittedModelKey = serde_json::from_value(json!("sk-hunter2")).expect("a key");
    assert!(!format!("{key:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_message_may_choose_its_model_and_the_thread_keeps_its_own() {
    let (app, registry) = app_with_registry();
    let ask = async |model: &str| {
        let asked = json!({ "agent": "assistant", "message": "안녕하세요", "model": model }).to_string();
        json(&app, post("/api/threads/t/runs?wait=true", &asked)).await;
        std::mem::take(&mut *registry.other.0.lock().expect("a lock")).len()
    };
    assert!(ask("other").await > 0);
    assert_eq!(json(&app, get("/api/threads/t")).await["model"], json!(null));
    assert_eq!(ask("default").await, 0);
    let unknown = json!({ "agent": "assistant", "message": "안녕하세요", "model": "ollama:x" }).to_string();
    assert_eq!(problem(&app, post("/api/threads/t/runs", &unknown)).await, "400 bad_input");
}

#[tokio::test]
async fn the_model_of_the_message_decides_how_many_passages_are_read() {
    let (app, _) = app_with_registry();
    let passages = async |thread: &str, model: &str| {
        let asked = json!({ "agent": "docqa", "message": "연차휴가는 며칠인가요?", "model": model });
        json(&app, post(&format!("/api/threads/{thread}/runs?wait=true"), &asked.to_string())).await;
        let state = json(&app, get(&format!("/api/threads/{thread}/state"))).await;
        state["state"]["documents"].as_array().map_or(0, Vec::len)
    };
    let (extractive, language) = (passages("e", "default").await, passages("l", "language").await);
    assert!(extractive > 10, "{extractive}");
    assert!((1..10).contains(&language), "{language}");
}

#[tokio::test]
async fn the_settings_of_a_chat_reach_its_model_and_can_be_taken_back() {
    let (app, registry) = app_with_registry();
    let settings = json!({ "model": "other", "temperature": 0.25, "instructions": "짧게 답하세요." });
    let thread = json(&app, post("/api/threads", &settings.to_string())).await;
    assert_eq!((&thread["model"], &thread["temperature"]), (&json!("other"), &json!(0.25)));
    let path = format!("/api/threads/{}", thread["id"].as_str().expect("an id"));
    let ask = async || {
        let asked = r#"{"agent":"assistant","message":"안녕하세요"}"#;
        json(&app, post(&format!("{path}/runs?wait=true"), asked)).await;
        std::mem::take(&mut *registry.other.0.lock().expect("a lock"))
    };
    let asked = ask().await;
    let answer = asked.iter().find(|request| !request.tools.is_empty() || request.schema.is_none());
    let answer = answer.expect("a request for the answer");
    assert_eq!(answer.temperature, Some(0.25));
    assert!(answer.messages.iter().any(|message| message.text() == "짧게 답하세요."));
    // They are a setting, and nobody said them.
    let messages = json(&app, get(&format!("{path}/messages"))).await;
    assert_eq!(messages["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(messages["messages"][1]["model"], "other");
    let change = json!({ "model": null, "instructions": null, "temperature": null }).to_string();
    let thread = json(&app, json_request("patch", &path, &change)).await;
    assert_eq!((&thread["model"], &thread["instructions"]), (&json!(null), &json!("")));
    assert!(ask().await.is_empty(), "the default model answers again");
    let state = json(&app, get(&format!("{path}/state"))).await;
    assert!(!state["state"].to_string().contains("짧게 답하세요."));
    for wrong in [
        json!({ "model": "ollama:somewhere" }),
        json!({ "temperature": 2.5 }),
        json!({ "instructions": "x".repeat(8001) }),
    ] {
        let request = json_request("patch", &path, &wrong.to_string());
        assert_eq!(problem(&app, request).await, "400 bad_input", "{wrong}");
    }
    let unknown = json_request("patch", &path, r#"{"modell":"other"}"#);
    assert_eq!(problem(&app, unknown).await, "400 bad_json");
}
