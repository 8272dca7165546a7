//! The contract of models over real sockets: dialects, recorded streams, faults.

#![allow(clippy::expect_used, reason = "a helper of a test fails as the test does")]

mod bench_table;
mod conformance;
mod embeddings;
mod llama_server;
mod recorded_streams;
mod request_bodies;
mod rerankers;
mod tls_certificates;
mod unfinished_tool_calls;
mod vendor_faults;

use std::sync::Arc;
use std::time::Duration;

use doran_llm::{
    ChatModel, ChatRequest, Message, ModelApiKey, ModelConfig, ModelId, ModelRetryPolicy, ModelTimeouts,
    ScriptedDialect, ScriptedHttpResponse, ScriptedServer, StreamingMode, open_model,
};

/// A key that no message may ever hold.
pub(crate) const TEST_API_KEY: &str = "sk-doran-test-key-0123456789";

/// Waits that a busy machine does not mistake for silence, and short pauses between tries.
pub(crate) fn test_model_config(provider: &str, model: &str, base_url: String) -> ModelConfig {
    let id = ModelId { provider: provider.into(), model: model.into(), base_url: None };
    let second = Duration::from_secs(1);
    ModelConfig {
        base_url: Some(base_url),
        timeouts: Some(ModelTimeouts { connect: 10 * second, first_byte: 30 * second, idle: 30 * second }),
        ..ModelConfig::new(id)
    }
}

/// Three requests with short waits between them.
pub(crate) const TEST_RETRIES: ModelRetryPolicy = ModelRetryPolicy {
    max_requests: 3,
    first_wait: Duration::from_millis(1),
    max_wait: Duration::from_millis(5),
    max_elapsed: Duration::from_secs(20),
};

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerDelivery {
    Streamed,
    Unstreamed,
}

pub(crate) const ANSWER_DELIVERIES: [AnswerDelivery; 2] =
    [AnswerDelivery::Streamed, AnswerDelivery::Unstreamed];

impl AnswerDelivery {
    pub(crate) fn streaming_mode(self) -> StreamingMode {
        match self {
            Self::Streamed => StreamingMode::Streamed,
            Self::Unstreamed => StreamingMode::Whole,
        }
    }

    /// An answer as this mode has it.
    pub(crate) fn response(
        self,
        wire: ScriptedDialect,
        answer: &doran_llm::ScriptedVendorAnswer,
    ) -> ScriptedHttpResponse {
        match self {
            Self::Streamed => wire.streamed_response(answer),
            Self::Unstreamed => wire.whole_response(answer),
        }
    }
}

/// A model of the dialect's vendor, at the scripted server.
pub(crate) fn open_scripted_vendor(
    wire: ScriptedDialect,
    mode: AnswerDelivery,
    server: &ScriptedServer,
) -> Arc<dyn ChatModel> {
    let config = ModelConfig {
        streaming: mode.streaming_mode(),
        ..test_model_config(wire.provider(), model_name(wire), server.url())
    };
    open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open")
}

pub(crate) fn model_name(wire: ScriptedDialect) -> &'static str {
    match wire {
        ScriptedDialect::Chat => "gpt-4.1-mini",
        ScriptedDialect::Responses => "gpt-5.4-mini",
        ScriptedDialect::Messages => "claude-haiku-4-5",
        ScriptedDialect::Gemini => "gemini-2.5-flash",
    }
}

pub(crate) fn greeting_request() -> ChatRequest {
    ChatRequest::new(vec![Message::system("s", "짧게 답하세요."), Message::user("m1", "안녕하세요?")])
}
