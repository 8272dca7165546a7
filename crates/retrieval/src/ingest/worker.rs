//! Reads a file in a child process that can reach nothing.
//!
//! The message in is a line of JSON (name and limits), then the bytes of the file. The message out is JSON: what was
//! read, or why not. A child that dies, hangs or grows too large is a failure of that file alone.

use std::process::ExitCode;
use std::time::Duration;

use doran_jail::{Jail, JailError, Limits, Threads, Worker};
use serde::{Deserialize, Serialize};

use super::{Extracted, Failure, FailureKind, ReadLimits, extract};

/// The hidden first argument that makes the program a reader.
pub const WORKER: &str = "__extract";

/// The most bytes of a name that are handed on: only its end matters.
const NAME: usize = 255;

/// Reads files, each in a child of its own.
#[derive(Clone, Debug)]
pub struct Reader {
    jail: Jail,
    limits: ReadLimits,
}

#[derive(Debug, Serialize, Deserialize)]
struct Task {
    name: String,
    limits: ReadLimits,
}

impl Reader {
    /// The limits of a child: a minute of time, 512 MiB of memory.
    pub fn jail_limits(limits: &ReadLimits, at_once: usize) -> Limits {
        Limits {
            wall: Duration::from_secs(120),
            cpu: Duration::from_secs(60),
            memory: 512 << 20,
            input: limits.input + (64 << 10),
            // JSON writes a control character as six bytes, and every other one as itself.
            output: limits.text * 2 + (1 << 20),
            threads: Threads::None,
            at_once: at_once.max(1),
            waiting: usize::MAX,
        }
    }

    /// A reader whose children are this same program.
    pub fn new(limits: ReadLimits, at_once: usize) -> Self {
        Self { jail: Jail::new(Self::jail_limits(&limits, at_once)), limits }
    }

    /// A reader whose children are this other program.
    pub fn of_program(program: impl Into<std::path::PathBuf>, limits: ReadLimits, at_once: usize) -> Self {
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
    pub async fn read(&self, name: &str, bytes: &[u8]) -> Result<Extracted, Failure> {
        if bytes.is_empty() {
            return Err(Failure::new(FailureKind::Empty, "0 bytes"));
        }
        if bytes.len() > self.limits.input {
            return Err(Failure::new(FailureKind::TooLarge, format!("{} bytes", bytes.len())));
        }
        let tail = name.len() - name.len().min(NAME);
        let name = name[name.ceil_char_boundary(tail)..].to_owned();
        let mut input = serde_json::to_vec(&Task { name, limits: self.limits }).map_err(Failure::corrupt)?;
        input.push(b'\n');
        input.extend_from_slice(bytes);
        let output =
            self.jail.run(Worker { argument: WORKER, input: &input }).await.map_err(|error| told(&error))?;
        // The child has read a hostile file: its answer is believed no more than the file.
        let found: Result<Extracted, Failure> = serde_json::from_slice(&output)
            .map_err(|error| Failure::new(FailureKind::Crashed, error.to_string()))?;
        let found = found.map_err(|failure| Failure::new(failure.kind, failure.detail))?.with_short_title();
        let ordered = found.pages.windows(2).all(|pair| pair[0] <= pair[1]);
        let inside = found.pages.iter().all(|start| found.text.is_char_boundary(*start));
        if found.text.len() > self.limits.text || !ordered || !inside {
            return Err(Failure::new(FailureKind::Crashed, "an answer that does not hold together"));
        }
        Ok(found)
    }
}

/// The whole life of a child that reads. Called first thing in `main` when the first argument is [`WORKER`].
pub fn worker_main() -> ExitCode {
    doran_jail::serve(|input| {
        let answer = work(&input);
        serde_json::to_vec(&answer).unwrap_or_default()
    })
}

fn work(input: &[u8]) -> Result<Extracted, Failure> {
    let line = input.iter().position(|byte| *byte == b'\n').ok_or_else(|| Failure::corrupt("no task"))?;
    let task: Task = serde_json::from_slice(&input[..line]).map_err(Failure::corrupt)?;
    // A reader that panics has met a file that its authors did not expect.
    let read = std::panic::catch_unwind(|| extract(&task.name, &input[line + 1..], &task.limits));
    read.unwrap_or_else(|_| Err(Failure::corrupt("the reader gave up")))
}

fn told(error: &JailError) -> Failure {
    let kind = match error {
        JailError::TimedOut(_) => FailureKind::TimedOut,
        JailError::OutOfMemory(_) => FailureKind::OutOfMemory,
        JailError::TooMuchOutput(_) | JailError::TooMuchInput(_) => FailureKind::TooLarge,
        JailError::Crashed { .. } | JailError::Busy(_) => FailureKind::Crashed,
        JailError::Unavailable { .. } => FailureKind::NoJail,
    };
    Failure::new(kind, error.to_string())
}
