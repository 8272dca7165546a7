//! The contract of models over real sockets: dialects, recorded streams, faults.

#![allow(clippy::expect_used, reason = "a helper of a test fails as the test does")]

mod bench_table;
mod conformance;
mod embeddings;
mod faults;
mod fixtures;
mod llama;
mod requests;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use doran_llm::{
    ChatModel, ChatRequest, Message, ModelConfig, ModelId, Retries, ScriptedServer, Secret, Streaming,
    Timeouts, Turn, Wire, open,
};

/// A key that no message may ever hold.
pub(crate) const KEY: &str = "sk-doran-test-key-0123456789";

/// Waits that a busy machine does not mistake for silence, and short pauses between tries.
pub(crate) fn config(provider: &str, model: &str, base_url: String) -> ModelConfig {
    let id = ModelId { provider: provider.into(), model: model.into(), base_url: None };
    let second = Duration::from_secs(1);
    ModelConfig {
        base_url: Some(base_url),
        timeouts: Some(Timeouts { connect: 10 * second, first_byte: 30 * second, idle: 30 * second }),
        retries: Retries {
            tries: 3,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(5),
            patience: 20 * second,
        },
        ..ModelConfig::new(id)
    }
}

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Streamed,
    Whole,
}

pub(crate) const MODES: [Mode; 2] = [Mode::Streamed, Mode::Whole];

impl Mode {
    pub(crate) fn streaming(self) -> Streaming {
        match self {
            Self::Streamed => Streaming::Pieces,
            Self::Whole => Streaming::Whole,
        }
    }

    /// An answer as this mode has it.
    pub(crate) fn turn(self, wire: Wire, said: &doran_llm::Said) -> Turn {
        match self {
            Self::Streamed => wire.streamed(said),
            Self::Whole => wire.whole(said),
        }
    }
}

/// A model of the dialect's vendor, at the scripted server.
pub(crate) fn model(wire: Wire, mode: Mode, server: &ScriptedServer) -> Arc<dyn ChatModel> {
    let config =
        ModelConfig { streaming: mode.streaming(), ..config(wire.provider(), name(wire), server.url()) };
    open(&config, Secret::new(KEY)).expect("open")
}

pub(crate) fn name(wire: Wire) -> &'static str {
    match wire {
        Wire::Chat => "gpt-4.1-mini",
        Wire::Responses => "gpt-5.4-mini",
        Wire::Messages => "claude-haiku-4-5",
        Wire::Gemini => "gemini-2.5-flash",
    }
}

pub(crate) fn question() -> ChatRequest {
    ChatRequest::new(vec![Message::system("s", "짧게 답하세요."), Message::user("m1", "안녕하세요?")])
}
