//! Extracts text from a file in a sandboxed child process.
//!
//! The input is a line of JSON (name and limits) followed by the bytes of the file. The output is JSON: the extracted
//! text or the failure. A child that dies, hangs or uses too much memory is a failure of that file alone.

use std::process::ExitCode;
use std::time::Duration;

use doran_jail::{Jail, JailError, JailLimits, ThreadPermission, WorkerCall};
use serde::{Deserialize, Serialize};

use super::{ExtractedText, IngestFailure, IngestFailureKind, ReadLimits, extract_text};

/// The hidden first argument that starts the program as an extract worker.
pub const EXTRACT_WORKER_ARG: &str = "__extract";

/// The maximum length of a name that is passed on. The end is kept, because the extension matters.
const MAX_NAME_BYTES: usize = 255;

/// Extracts text from files, each in its own child process.
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
    /// The limits of a child: 60 seconds of CPU time, 120 seconds of wall-clock time, 512 MiB of memory.
    pub fn jail_limits(limits: &ReadLimits, at_once: usize) -> JailLimits {
        JailLimits {
            wall: Duration::from_secs(120),
            cpu: Duration::from_secs(60),
            memory: 512 << 20,
            input: limits.input + (64 << 10),
            // JSON escapes some characters, such as quotes and line ends as two bytes, so the output may be larger than
            // the text.
            output: limits.text * 2 + (1 << 20),
            threads: ThreadPermission::None,
            at_once: at_once.max(1),
            waiting: usize::MAX,
        }
    }

    /// Creates a reader whose child processes run this same program.
    pub fn new(limits: ReadLimits, at_once: usize) -> Self {
        Self { jail: Jail::new(Self::jail_limits(&limits, at_once)), limits }
    }

    /// Creates a reader whose child processes run another program.
    pub fn with_program(program: impl Into<std::path::PathBuf>, limits: ReadLimits, at_once: usize) -> Self {
        Self { jail: Jail::new(Self::jail_limits(&limits, at_once)).with_program(program), limits }
    }

    /// Creates a reader with its own jail, for another program or other limits.
    pub fn with_jail(jail: Jail, limits: ReadLimits) -> Self {
        Self { jail, limits }
    }

    /// Returns the limits on a file.
    pub fn limits(&self) -> &ReadLimits {
        &self.limits
    }

    /// Extracts the text of a file. Dropping the future kills the child process.
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
        // The child has parsed an untrusted file, so its output is not trusted either.
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

/// The entry point of the child process. Call it first in `main` if the first argument is [`EXTRACT_WORKER_ARG`].
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
    // A parser that panics has met a file that its authors did not expect.
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
