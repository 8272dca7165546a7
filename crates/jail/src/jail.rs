//! The side of the parent: start a child, hand it its input, take its answer, and be rid of it.

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

/// How much of what a dying child says is looked at, to tell why it died.
const MAX_STDERR_BYTES: usize = 4096;

/// A place where workers work, one child for each call. Clones share its limits on calls at once.
#[derive(Clone, Debug)]
pub struct Jail {
    limits: JailLimits,
    program: PathBuf,
    read: Vec<PathBuf>,
    leave_out: Vec<IsolationLayer>,
    call_queue: Arc<CallQueue>,
}

/// One piece of work.
#[derive(Clone, Copy, Debug)]
pub struct WorkerCall<'a> {
    /// The hidden first argument that makes the program a worker.
    pub argument: &'a str,
    /// What it works on.
    pub input: &'a [u8],
}

impl Jail {
    /// A jail whose workers are this same program.
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

    /// Takes the workers from another program, which calls [`serve`](crate::serve) for their argument.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Lets workers read these files and directories. Landlock is a must then.
    #[must_use]
    pub fn with_readable(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.read.extend(paths);
        self
    }

    /// Leaves walls out, to see in a test that the others hold by themselves. Too few are still refused.
    #[must_use]
    pub fn without_layers(mut self, layers: &[IsolationLayer]) -> Self {
        self.leave_out.extend_from_slice(layers);
        self
    }

    /// The limits of each call.
    pub fn limits(&self) -> &JailLimits {
        &self.limits
    }

    /// Which walls really stand on this machine. Starts a worker that gets no input.
    pub async fn layers(&self, argument: &str) -> Result<Vec<IsolationLayer>, JailError> {
        let _turn = self.call_queue.acquire().await?;
        let mut started = self.start(argument)?;
        let rules = self.rules();
        match tokio::time::timeout(self.limits.wall, started.read_handshake(&rules)).await {
            Ok(Ok(layers)) => Ok(layers),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(JailError::TimedOut(self.limits.wall)),
        }
    }

    /// Has one piece of work done. Dropping the future kills the child.
    pub async fn run(&self, worker: WorkerCall<'_>) -> Result<Vec<u8>, JailError> {
        if worker.input.len() > self.limits.input {
            return Err(JailError::TooMuchInput(self.limits.input));
        }
        let _turn = self.call_queue.acquire().await?;
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
            // Address space that an allocator sets aside would count as the worker's own and widen its limit.
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
            (Some(input), Some(output), Some(words)) => {
                Ok(WorkerProcess { child, input, output, stderr: words })
            }
            (_, _, _) => Err(not_started(&"it has no pipes")),
        }
    }

    async fn exchange_messages(
        &self,
        mut started: WorkerProcess,
        input: &[u8],
    ) -> Result<Vec<u8>, JailError> {
        started.read_handshake(&self.rules()).await?;
        let WorkerProcess { mut child, input: mut stdin, mut output, stderr: words } = started;
        let talk = async {
            let head = frame::length_prefix(input).map_err(|_| FrameError::TooLong)?;
            // A child that dies before it has read all is told apart below, by how it ended.
            let sent = async { stdin.write_all(&head).await.and(stdin.write_all(input).await) }.await;
            drop(stdin);
            if let Err(error) = sent {
                tracing::debug!(%error, "a worker did not take all its input");
            }
            frame::read_frame(&mut output, self.limits.output).await
        };
        // Words end when the child ends, so they are read beside: they must not hold up an answer that has come.
        let words = tokio::spawn(read_stderr(words));
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
                Ok(status) => self.crash_error(status, &words.await.unwrap_or_default()),
                Err(error) => JailError::Crashed { how: error.to_string() },
            }),
        }
    }

    /// Why a child ended without an answer.
    fn crash_error(&self, status: ExitStatus, words: &str) -> JailError {
        if words.contains("memory allocation of") {
            return JailError::OutOfMemory(self.limits.memory);
        }
        match (status.signal(), status.code()) {
            (Some(SIGXCPU), _) => JailError::TimedOut(self.limits.cpu),
            (Some(signal), _) => JailError::Crashed { how: format!("signal {signal}") },
            (None, code) => JailError::Crashed { how: format!("exit code {}", code.unwrap_or_default()) },
        }
    }
}

/// What the kernel sends at the limit of processor time, on every Linux we know.
const SIGXCPU: i32 = 24;

#[derive(Debug)]
struct WorkerProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    stderr: ChildStderr,
}

impl WorkerProcess {
    /// Hears which walls stand, and refuses when they are too few.
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
            Err(_) => Err(JailError::unavailable("the worker did not say which walls stand")),
        }
    }
}

async fn kill_worker(child: &mut Child) {
    if let Err(error) = child.kill().await {
        tracing::debug!(%error, "a worker was gone before it was ended");
    }
}

/// The beginning of what a child says on standard error. The rest is read and dropped, so that it does not block.
async fn read_stderr(mut from: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let room = MAX_STDERR_BYTES - kept.len();
        kept.extend_from_slice(&piece[..read.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Who may work now, and who may wait.
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

/// A place in the queue, given back when its holder has its turn or leaves.
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
