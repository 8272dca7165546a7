//! Reads a file in a child process that can reach nothing.
//!
//! The message in is a line of JSON (name and limits), then the bytes of the file. The message out is JSON: what was
//! read, or why not. A child that dies, hangs or grows too large is a failure of that file alone.

use std::process::ExitCode;
use std::time::Duration;

use doran_jail::{Jail, JailError, JailLimits, ThreadPermission, WorkerCall};
use serde::{Deserialize, Serialize};

use super::{ExtractedText, IngestFailure, IngestFailureKind, ReadLimits, extract_text};

/// The hidden first argument that makes the program a reader.
pub const EXTRACT_WORKER_ARG: &str = "__extract";

/// The most bytes of a name that are handed on: only its end matters.
const MAX_NAME_BYTES: usize = 255;

/// Reads files, each in a child of its own.
#[derive(Clone, Debug)]
pub struct JailedFileReader {
    jail: Jail,
    limits: ReadLimits,
}

#[derive(Debug, Serialize, Deserialize)]
struct ExtractTask {
    name: String,
    limits: ReadLimits,
}

impl JailedFileReader {
    /// The limits of a child: a minute of time, 512 MiB of memory.
    pub fn jail_limits(limits: &ReadLimits, at_once: usize) -> JailLimits {
        JailLimits {
            wall: Duration::from_secs(120),
            cpu: Duration::from_secs(60),
            memory: 512 << 20,
            input: limits.input + (64 << 10),
            // JSON writes a control character as six bytes, and every other one as itself.
            output: limits.text * 2 + (1 << 20),
            threads: ThreadPermission::None,
            at_once: at_once.max(1),
            waiting: usize::MAX,
        }
    }

    /// A reader whose children are this same program.
    pub fn new(limits: ReadLimits, at_once: usize) -> Self {
        Self { jail: Jail::new(Self::jail_limits(&limits, at_once)), limits }
    }

    /// A reader whose children are this other program.
    pub fn with_program(program: impl Into<std::path::PathBuf>, limits: ReadLimits, at_once: usize) -> Self {
        Self { jail: Jail::new(Self::jail_limits(&limits, at_once)).with_program(program), limits }
    }

    /// A reader with a jail of its own, for another program or other limits.
    pub fn with_jail(jail: Jail, limits: ReadLimits) -> Self {
        Self { jail, limits }
    }

    /// The limits on a file.
    pub fn limits(&self) -> &ReadLimits {
        &self.limits
    }

    /// Reads a file. Dropping the future ends the child.
    pub async fn read(&self, name: &str, bytes: &[u8]) -> Result<ExtractedText, IngestFailure> {
        if bytes.is_empty() {
            return Err(IngestFailure::new(IngestFailureKind::Empty, "0 bytes"));
        }
        if bytes.len() > self.limits.input {
            return Err(IngestFailure::new(IngestFailureKind::TooLarge, format!("{} bytes", bytes.len())));
        }
        let tail = name.len() - name.len().min(MAX_NAME_BYTES);
        let name = name[name.ceil_char_boundary(tail)..].to_owned();
        let mut input =
            serde_json::to_vec(&ExtractTask { name, limits: self.limits }).map_err(IngestFailure::corrupt)?;
        input.push(b'\n');
        input.extend_from_slice(bytes);
        let output = self
            .jail
            .run(WorkerCall { argument: EXTRACT_WORKER_ARG, input: &input })
            .await
            .map_err(|error| failure_from_jail(&error))?;
        // The child has read a hostile file: its answer is believed no more than the file.
        let found: Result<ExtractedText, IngestFailure> = serde_json::from_slice(&output)
            .map_err(|error| IngestFailure::new(IngestFailureKind::Crashed, error.to_string()))?;
        let found =
            found.map_err(|failure| IngestFailure::new(failure.kind, failure.detail))?.with_short_title();
        let ordered = found.pages.windows(2).all(|pair| pair[0] <= pair[1]);
        let inside = found.pages.iter().all(|start| found.text.is_char_boundary(*start));
        if found.text.len() > self.limits.text || !ordered || !inside {
            return Err(IngestFailure::new(
                IngestFailureKind::Crashed,
                "an answer that does not hold together",
            ));
        }
        Ok(found)
    }
}

/// The whole life of a child that reads. Called first thing in `main` when the first argument is [`WORKER`].
pub fn extract_worker_main() -> ExitCode {
    doran_jail::serve(|input| {
        let answer = extract_in_worker(&input);
        serde_json::to_vec(&answer).unwrap_or_default()
    })
}

fn extract_in_worker(input: &[u8]) -> Result<ExtractedText, IngestFailure> {
    let line =
        input.iter().position(|byte| *byte == b'\n').ok_or_else(|| IngestFailure::corrupt("no task"))?;
    let task: ExtractTask = serde_json::from_slice(&input[..line]).map_err(IngestFailure::corrupt)?;
    // A reader that panics has met a file that its authors did not expect.
    let read = std::panic::catch_unwind(|| extract_text(&task.name, &input[line + 1..], &task.limits));
    read.unwrap_or_else(|_| Err(IngestFailure::corrupt("the reader gave up")))
}

fn failure_from_jail(error: &JailError) -> IngestFailure {
    let kind = match error {
        JailError::TimedOut(_) => IngestFailureKind::TimedOut,
        JailError::OutOfMemory(_) => IngestFailureKind::OutOfMemory,
        JailError::TooMuchOutput(_) | JailError::TooMuchInput(_) => IngestFailureKind::TooLarge,
        JailError::Crashed { .. } | JailError::Busy(_) => IngestFailureKind::Crashed,
        JailError::Unavailable { .. } => IngestFailureKind::NoJail,
    };
    IngestFailure::new(kind, error.to_string())
}
