//! The parent side: start a child, send its input, read its result, and end it.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::JailError;
use crate::frame::{self, FrameError, WorkerHandshake};
use crate::limits::{IsolationLayer, JailLimits, JailRules};

/// How much of a child's standard error is kept to explain why it died.
const MAX_STDERR_BYTES: usize = 4096;

/// Runs workers, one child process per call. Clones share the limits on concurrent and waiting calls.
#[derive(Clone, Debug)]
pub struct Jail {
    limits: JailLimits,
    program: PathBuf,
    read: Vec<PathBuf>,
    leave_out: Vec<IsolationLayer>,
    call_queue: Arc<CallQueue>,
}

/// One call of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerCall<'a> {
    /// The hidden first argument that makes the program a worker.
    pub argument: &'a str,
    /// The bytes to work on.
    pub input: &'a [u8],
}

impl Jail {
    /// Creates a jail whose workers are the current program.
    pub fn new(limits: JailLimits) -> Self {
        let turns = CallQueue {
            free: Semaphore::new(limits.at_once.max(1)),
            waiting: AtomicUsize::new(0),
            max_waiting: limits.waiting,
        };
        Self {
            limits,
            program: PathBuf::from("/proc/self/exe"),
            read: Vec::new(),
            leave_out: Vec::new(),
            call_queue: Arc::new(turns),
        }
    }

    /// Starts workers from another program, which must call [`serve`](crate::serve) for their argument.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Lets workers read these files and directories. Workers then require Landlock.
    #[must_use]
    pub fn with_readable(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.read.extend(paths);
        self
    }

    /// Leaves layers out, to test that the others are sufficient alone. A call still fails if too few are left.
    #[must_use]
    pub fn without_layers(mut self, layers: &[IsolationLayer]) -> Self {
        self.leave_out.extend_from_slice(layers);
        self
    }

    /// The limits of each call.
    pub fn limits(&self) -> &JailLimits {
        &self.limits
    }

    /// Which isolation layers work on this machine. Starts a worker that gets no input.
    pub async fn layers(&self, argument: &str) -> Result<Vec<IsolationLayer>, JailError> {
        let _permit = self.call_queue.acquire().await?;
        let mut started = self.start(argument)?;
        let rules = self.rules();
        match tokio::time::timeout(self.limits.wall, started.read_handshake(&rules)).await {
            Ok(Ok(layers)) => Ok(layers),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(JailError::TimedOut(self.limits.wall)),
        }
    }

    /// Runs one call and returns its result. Dropping the future kills the child.
    pub async fn run(&self, worker: WorkerCall<'_>) -> Result<Vec<u8>, JailError> {
        if worker.input.len() > self.limits.input {
            return Err(JailError::TooMuchInput(self.limits.input));
        }
        let _permit = self.call_queue.acquire().await?;
        let started = self.start(worker.argument)?;
        match tokio::time::timeout(self.limits.wall, self.exchange_messages(started, worker.input)).await {
            Ok(result) => result,
            Err(_) => Err(JailError::TimedOut(self.limits.wall)),
        }
    }

    fn rules(&self) -> JailRules {
        JailRules {
            limits: self.limits.clone(),
            read: self.read.clone(),
            leave_out: self.leave_out.clone(),
            parent: std::process::id(),
        }
    }

    fn start(&self, argument: &str) -> Result<WorkerProcess, JailError> {
        if !cfg!(target_os = "linux") {
            return Err(JailError::unavailable("this is not Linux"));
        }
        let not_started = |why: &dyn std::fmt::Display| JailError::unavailable(format!("no worker: {why}"));
        let rules = serde_json::to_string(&self.rules()).map_err(|error| not_started(&error))?;
        let mut child = Command::new(&self.program)
            .arg(argument)
            .arg(rules)
            .env_clear()
            // Address space that an allocator reserves would count as part of the program and raise the worker's
            // limit.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| not_started(&error))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(stderr)) => Ok(WorkerProcess { child, input, output, stderr }),
            (_, _, _) => Err(not_started(&"it has no pipes")),
        }
    }

    async fn exchange_messages(
        &self,
        mut started: WorkerProcess,
        input: &[u8],
    ) -> Result<Vec<u8>, JailError> {
        started.read_handshake(&self.rules()).await?;
        let WorkerProcess { mut child, input: mut stdin, mut output, stderr } = started;
        let talk = async {
            let head = frame::length_prefix(input).map_err(|_| FrameError::TooLong)?;
            // If the child dies before it has read everything, its exit status tells why, below.
            let sent = async { stdin.write_all(&head).await.and(stdin.write_all(input).await) }.await;
            drop(stdin);
            if let Err(error) = sent {
                tracing::debug!(%error, "the worker closed its input early");
            }
            frame::read_frame(&mut output, self.limits.output).await
        };
        // Standard error ends when the child ends. It is read by a separate task so that it does not delay the
        // result.
        let stderr = tokio::spawn(read_stderr(stderr));
        match talk.await {
            Ok(answer) => {
                kill_worker(&mut child).await;
                Ok(answer)
            }
            Err(FrameError::TooLong) => {
                kill_worker(&mut child).await;
                Err(JailError::TooMuchOutput(self.limits.output))
            }
            Err(FrameError::Gone) => Err(match child.wait().await {
                Ok(status) => self.crash_error(status, &stderr.await.unwrap_or_default()),
                Err(error) => JailError::Crashed { how: error.to_string() },
            }),
        }
    }

    /// Explains why a child ended without a result.
    fn crash_error(&self, status: ExitStatus, stderr: &str) -> JailError {
        if stderr.contains("memory allocation of") {
            return JailError::OutOfMemory(self.limits.memory);
        }
        match (status.signal(), status.code()) {
            (Some(SIGXCPU), _) => JailError::TimedOut(self.limits.cpu),
            (Some(signal), _) => JailError::Crashed { how: format!("signal {signal}") },
            (None, code) => JailError::Crashed { how: format!("exit code {}", code.unwrap_or_default()) },
        }
    }
}

/// The signal at the CPU time limit. It has this number on every supported Linux.
const SIGXCPU: i32 = 24;

#[derive(Debug)]
struct WorkerProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    stderr: ChildStderr,
}

impl WorkerProcess {
    /// Reads which layers are active, and returns an error if they are not sufficient.
    async fn read_handshake(&mut self, rules: &JailRules) -> Result<Vec<IsolationLayer>, JailError> {
        let Ok(words) = frame::read_frame(&mut self.output, frame::MAX_HANDSHAKE_BYTES).await else {
            kill_worker(&mut self.child).await;
            return Err(JailError::unavailable("the worker did not start"));
        };
        match serde_json::from_slice(&words) {
            Ok(WorkerHandshake::Held(layers)) if rules.is_satisfied_by(&layers) => Ok(layers),
            Ok(WorkerHandshake::Held(layers)) => {
                Err(JailError::unavailable(format!("only {layers:?} would hold")))
            }
            Ok(WorkerHandshake::Refused(why)) => Err(JailError::unavailable(why)),
            Err(_) => Err(JailError::unavailable("the worker did not report its sandbox")),
        }
    }
}

async fn kill_worker(child: &mut Child) {
    if let Err(error) = child.kill().await {
        tracing::debug!(%error, "the worker had already ended");
    }
}

/// Reads the beginning of the child's standard error. The rest is read and dropped, so that the child does not block.
async fn read_stderr(mut from: ChildStderr) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let room = MAX_STDERR_BYTES - text.len();
        text.extend_from_slice(&piece[..read.min(room)]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Limits concurrent and waiting calls.
#[derive(Debug)]
struct CallQueue {
    free: Semaphore,
    waiting: AtomicUsize,
    max_waiting: usize,
}

impl CallQueue {
    async fn acquire(&self) -> Result<SemaphorePermit<'_>, JailError> {
        if let Ok(permit) = self.free.try_acquire() {
            return Ok(permit);
        }
        let _place = WaitingSlot::acquire(self)?;
        self.free.acquire().await.map_err(|_| JailError::Busy(self.max_waiting))
    }
}

/// A place in the queue. It is released when the call starts or is dropped.
struct WaitingSlot<'a>(&'a AtomicUsize);

impl<'a> WaitingSlot<'a> {
    fn acquire(turns: &'a CallQueue) -> Result<Self, JailError> {
        let before = turns.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Self(&turns.waiting);
        if before < turns.max_waiting { Ok(place) } else { Err(JailError::Busy(turns.max_waiting)) }
    }
}

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
