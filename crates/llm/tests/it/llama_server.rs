//! A real language model: SmolLM2-135M on a llama.cpp server, asked through OpenAI's dialect.
//!
//! `DORAN_TEST_LLAMA_PYTHON` names an interpreter that has what `tests/llama/requirements.txt` pins. Without it the test
//! says `SKIPPED`, or fails when `DORAN_REQUIRE_PARTS=1`. What so small a model says is not judged, only that it says
//! it in the right shape.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use doran_llm::{
    ChatModel, ChatRequest, Delta, FinishReason, Message, ModelApiKey, ModelConfig, ModelId,
    TokenCountSource, collect_reply, discover_server_at, open_model, request_structured,
};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// A server at work. Dropped, it is killed.
struct LlamaServer {
    child: Child,
    address: String,
}

impl LlamaServer {
    /// Starts it and waits until the model is loaded; `None`: skipped, in words.
    fn start() -> Option<Self> {
        let Some(python) = env::var_os("DORAN_TEST_LLAMA_PYTHON") else {
            let required = env::var("DORAN_REQUIRE_PARTS").as_deref() == Ok("1");
            assert!(!required, "a llama.cpp server is required (DORAN_REQUIRE_PARTS=1); run `./x test`");
            eprintln!("SKIPPED: no llama.cpp server, run `./x test` / llama.cpp 서버가 없어 건너뜀");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/llama/serve.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "the server did not start: {line:?}");
        Some(Self { child, address })
    }

    /// Whether it is writing an answer.
    async fn is_busy(&self) -> bool {
        let url = format!("{}/slots", self.address);
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
        let body = client.get(url).send().await.expect("slots").text().await.expect("slots");
        let slots: Value = serde_json::from_str(&body).expect("JSON");
        slots.as_array().expect("slots").iter().any(|slot| slot["is_processing"] == true)
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn request(text: &str, max_output_tokens: u64) -> ChatRequest {
    let messages = vec![Message::system("s", "You are a helpful assistant."), Message::user("m", text)];
    ChatRequest {
        temperature: Some(0.0),
        seed: Some(7),
        max_output_tokens: Some(max_output_tokens),
        ..ChatRequest::new(messages)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CityAnswer {
    #[schemars(length(max = 24))]
    city: String,
    #[schemars(range(min = 0, max = 99))]
    millions: u8,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_answers_in_text_in_json_and_in_pieces_and_stops_when_cancelled() {
    let Some(llama) = tokio::task::spawn_blocking(LlamaServer::start).await.expect("started") else { return };

    // It is found, and whose it is shows in how it lists its models.
    let found = discover_server_at(&llama.address).await.expect("found");
    assert_eq!((found.provider, found.models.as_slice()), ("llamacpp", &["smollm2-135m".to_owned()][..]));
    let id = found.model_id(&found.models[0]);
    assert_eq!(id.to_string(), format!("llamacpp:{}/v1#smollm2-135m", llama.address));
    assert_eq!(id.to_string().parse::<ModelId>().expect("a name"), id);
    let config = ModelConfig::new(id);
    let model = open_model(&config, ModelApiKey::none()).expect("open");

    let reply = collect_reply(model.stream(request("Say hello to Minsu.", 16))).await.expect("words");
    assert!(reply.text.chars().any(char::is_alphabetic), "{reply:?}");
    assert!(matches!(reply.finish, FinishReason::Stop | FinishReason::Length), "{reply:?}");
    assert_eq!(reply.usage.counted, TokenCountSource::Reported, "{reply:?}");
    assert!((1..=16).contains(&reply.usage.output_tokens) && reply.usage.input_tokens > 10, "{reply:?}");

    let whole = ModelConfig { streaming: doran_llm::StreamingMode::Whole, ..config };
    let whole = open_model(&whole, ModelApiKey::none()).expect("open");
    let again = collect_reply(whole.stream(request("Say hello to Minsu.", 16))).await.expect("words");
    assert_eq!((again.text, again.finish), (reply.text, reply.finish), "whole is streamed");

    let question =
        request("Name a city in Korea and how many million people live there. Answer in JSON.", 64);
    let place: CityAnswer = request_structured(model.as_ref(), question).await.expect("JSON that fits").0;
    assert!(place.city.chars().count() <= 24 && place.millions <= 99, "{place:?}");

    stops_when_nobody_listens(&llama, &model).await;
}

async fn stops_when_nobody_listens(llama: &LlamaServer, model: &Arc<dyn ChatModel>) {
    let mut deltas = model.stream(request("Count from one to one thousand, one number a line.", 3_000));
    let mut pieces = 0;
    while pieces < 3 {
        match deltas.next().await {
            Some(Ok(Delta::Text { .. })) => pieces += 1,
            Some(Ok(Delta::Done { .. })) | None => panic!("it ended after {pieces} pieces"),
            Some(other) => drop(other.expect("a piece")),
        }
    }
    assert!(llama.is_busy().await, "it goes on while somebody listens");
    drop(deltas);
    let dropped = Instant::now();
    while llama.is_busy().await {
        assert!(dropped.elapsed() < Duration::from_secs(60), "nobody listens and it goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
