//! Who is measured in processes of their own: other clients, and the server they all ask.

use std::process::Command;

use serde::Deserialize;
use serde_json::json;

use crate::LlmBenchError;
use crate::measurements::ClientFigures;
use crate::peer::{Program, script};

/// Another client.
pub(crate) struct PeerClient {
    program: Program,
    pub(crate) name: String,
}

#[derive(Deserialize)]
struct PeerReadyLine {
    name: String,
}

impl PeerClient {
    /// The `openai` client of Python.
    pub(crate) fn python() -> Result<Self, LlmBenchError> {
        Self::start(script("llm")?)
    }

    /// `async-openai`.
    pub(crate) fn rust() -> Result<Self, LlmBenchError> {
        let place = std::env::var_os("DORAN_BENCH_LLM_PEER").filter(|path| !path.is_empty());
        Self::start(Command::new(place.ok_or("DORAN_BENCH_LLM_PEER is not set")?))
    }

    fn start(command: Command) -> Result<Self, LlmBenchError> {
        let (program, PeerReadyLine { name }) = Program::ready(command)?;
        Ok(Self { program, name })
    }

    /// Asks for a measurement.
    pub(crate) fn measure(
        &mut self,
        case: &str,
        url: &str,
        model: &str,
        count: usize,
    ) -> Result<ClientFigures, LlmBenchError> {
        self.program.ask(&json!({ "case": case, "url": url, "model": model, "count": count }))
    }
}

/// The server.
pub(crate) struct VendorServerProcess {
    /// It ends with this.
    _program: Program,
    /// Its address, up to the version.
    pub(crate) url: String,
}

impl VendorServerProcess {
    pub(crate) fn start() -> Result<Self, LlmBenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--serve");
        let (program, address) = Program::start(command)?;
        Ok(Self { _program: program, url: format!("{}/v1", address.trim()) })
    }
}
