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
use crate::frame::{self, Broken, Hello};
use crate::limits::{Layer, Limits, Rules};

/// How much of what a dying child says is looked at, to tell why it died.
const MOST_LAST_WORDS: usize = 4096;

/// A place where workers work, one child for each call. Clones share its limits on calls at once.
#[derive(Clone, Debug)]
pub struct Jail {
    limits: Limits,
    program: PathBuf,
    read: Vec<PathBuf>,
    leave_out: Vec<Layer>,
    turns: Arc<Turns>,
}

/// One piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    /// The hidden first argument that makes the program a worker.
    pub argument: &'a str,
    /// What it works on.
    pub input: &'a [u8],
}

impl Jail {
    /// A jail whose workers are this same program.
    pub fn new(limits: Limits) -> Self {
        let turns = Turns {
            free: Semaphore::new(limits.at_once.max(1)),
            waiting: AtomicUsize::new(0),
            most: limits.waiting,
        };
        Self {
            limits,
            program: PathBuf::from("/proc/self/exe"),
            read: Vec::new(),
            leave_out: Vec::new(),
            turns: Arc::new(turns),
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
    pub fn without(mut self, layers: &[Layer]) -> Self {
        self.leave_out.extend_from_slice(layers);
        self
    }

    /// The limits of each call.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Which walls really stand on this machine. Starts a worker that gets no input.
    pub async fn layers(&self, argument: &str) -> Result<Vec<Layer>, JailError> {
        let _turn = self.turns.take().await?;
        let mut started = self.start(argument)?;
        let rules = self.rules();
        match tokio::time::timeout(self.limits.wall, started.hello(&rules)).await {
            Ok(Ok(layers)) => Ok(layers),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(JailError::TimedOut(self.limits.wall)),
        }
    }

    /// Has one piece of work done. Dropping the future kills the child.
    pub async fn run(&self, worker: Worker<'_>) -> Result<Vec<u8>, JailError> {
        if worker.input.len() > self.limits.input {
            return Err(JailError::TooMuchInput(self.limits.input));
        }
        let _turn = self.turns.take().await?;
        let started = self.start(worker.argument)?;
        match tokio::time::timeout(self.limits.wall, self.work(started, worker.input)).await {
            Ok(result) => result,
            Err(_) => Err(JailError::TimedOut(self.limits.wall)),
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            limits: self.limits.clone(),
            read: self.read.clone(),
            leave_out: self.leave_out.clone(),
            parent: std::process::id(),
        }
    }

    fn start(&self, argument: &str) -> Result<Started, JailError> {
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
            (Some(input), Some(output), Some(words)) => Ok(Started { child, input, output, words }),
            (_, _, _) => Err(not_started(&"it has no pipes")),
        }
    }

    async fn work(&self, mut started: Started, input: &[u8]) -> Result<Vec<u8>, JailError> {
        started.hello(&self.rules()).await?;
        let Started { mut child, input: mut stdin, mut output, words } = started;
        let talk = async {
            let head = frame::head(input).map_err(|_| Broken::TooLong)?;
            // A child that dies before it has read all is told apart below, by how it ended.
            let sent = async { stdin.write_all(&head).await.and(stdin.write_all(input).await) }.await;
            drop(stdin);
            if let Err(error) = sent {
                tracing::debug!(%error, "a worker did not take all its input");
            }
            frame::read(&mut output, self.limits.output).await
        };
        // Words end when the child ends, so they are read beside: they must not hold up an answer that has come.
        let words = tokio::spawn(last_words(words));
        match talk.await {
            Ok(answer) => {
                end(&mut child).await;
                Ok(answer)
            }
            Err(Broken::TooLong) => {
                end(&mut child).await;
                Err(JailError::TooMuchOutput(self.limits.output))
            }
            Err(Broken::Gone) => Err(match child.wait().await {
                Ok(status) => self.cause(status, &words.await.unwrap_or_default()),
                Err(error) => JailError::Crashed { how: error.to_string() },
            }),
        }
    }

    /// Why a child ended without an answer.
    fn cause(&self, status: ExitStatus, words: &str) -> JailError {
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
struct Started {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    words: ChildStderr,
}

impl Started {
    /// Hears which walls stand, and refuses when they are too few.
    async fn hello(&mut self, rules: &Rules) -> Result<Vec<Layer>, JailError> {
        let Ok(words) = frame::read(&mut self.output, frame::MOST_HELLO).await else {
            end(&mut self.child).await;
            return Err(JailError::unavailable("the worker did not start"));
        };
        match serde_json::from_slice(&words) {
            Ok(Hello::Held(layers)) if rules.are_met_by(&layers) => Ok(layers),
            Ok(Hello::Held(layers)) => Err(JailError::unavailable(format!("only {layers:?} would hold"))),
            Ok(Hello::Refused(why)) => Err(JailError::unavailable(why)),
            Err(_) => Err(JailError::unavailable("the worker did not say which walls stand")),
        }
    }
}

async fn end(child: &mut Child) {
    if let Err(error) = child.kill().await {
        tracing::debug!(%error, "a worker was gone before it was ended");
    }
}

/// The beginning of what a child says on standard error. The rest is read and dropped, so that it does not block.
async fn last_words(mut from: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let room = MOST_LAST_WORDS - kept.len();
        kept.extend_from_slice(&piece[..read.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Who may work now, and who may wait.
#[derive(Debug)]
struct Turns {
    free: Semaphore,
    waiting: AtomicUsize,
    most: usize,
}

impl Turns {
    async fn take(&self) -> Result<SemaphorePermit<'_>, JailError> {
        if let Ok(permit) = self.free.try_acquire() {
            return Ok(permit);
        }
        let _place = Place::take(self)?;
        self.free.acquire().await.map_err(|_| JailError::Busy(self.most))
    }
}

/// A place in the queue, given back when its holder has its turn or leaves.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(turns: &'a Turns) -> Result<Self, JailError> {
        let before = turns.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Self(&turns.waiting);
        if before < turns.most { Ok(place) } else { Err(JailError::Busy(turns.most)) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
