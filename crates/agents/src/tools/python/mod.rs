//! `python_repl`: runs Python that a model wrote, with nothing in reach, and keeps its variables through the thread.
//!
//! The interpreter is a subset of Python written in Rust. It runs in a child of its own ([`doran_jail`]), one for each
//! call; what it knows at the end is handed back as the session, and given to the next child. Nothing lives between
//! calls, so the variables survive a restart and move with the thread.
//!
//! A session is signed for its tenant. One that was changed, or that another version of the interpreter made, is not
//! loaded: the call then starts with no variables and says so.

mod session_signing;
#[cfg(feature = "python")]
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use async_trait::async_trait;
use doran_jail::{IsolationLayer, Jail, JailError, JailLimits, WorkerCall};
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use session_signing::SessionSigningKey;

use crate::admission::{AdmissionPolicy, FairAdmission};

use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect, names};

/// The hidden argument that makes the program a worker of this tool.
pub const WORKER_ARGUMENT: &str = "__python";

/// How much a call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonLimits {
    /// The longest a piece of code may run.
    pub time: Duration,
    /// The most memory, in bytes.
    pub memory: u64,
    /// The most bytes of code.
    pub code: usize,
    /// The most bytes of output.
    pub output: usize,
    /// The most bytes of variables that are kept for the next call.
    pub session: usize,
    /// How many calls run at once, in all threads.
    pub at_once: usize,
    /// How many more may wait.
    pub waiting: usize,
}

impl Default for PythonLimits {
    /// Five seconds, 128 MiB, 64 KiB of code and of output, 256 KiB of variables, two at once.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(5),
            memory: 128 << 20,
            code: 64 << 10,
            output: 64 << 10,
            session: 256 << 10,
            at_once: 2,
            waiting: 64,
        }
    }
}

/// The tool.
#[derive(Debug)]
pub struct PythonTool {
    info: ToolInfo,
    limits: PythonLimits,
    jail: Jail,
    /// Turns to run, shared out by tenant.
    turns: FairAdmission,
    key: SessionSigningKey,
}

impl PythonTool {
    /// The tool, with the key that signs its sessions. A key that is lost costs the variables of every thread.
    pub fn new(bounds: PythonLimits, key: SessionSigningKey) -> Self {
        let turns = FairAdmission::new(bounds.at_once, bounds.waiting, AdmissionPolicy::UseAll);
        Self { info: tool_info(&bounds), jail: Jail::new(jail_limits(&bounds)), turns, limits: bounds, key }
    }

    /// Takes its workers from another program than this one.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<std::path::PathBuf>) -> Self {
        self.jail = self.jail.with_program(program);
        self
    }

    /// The walls around a worker on this machine, or why there are none.
    pub async fn layers(&self) -> Result<Vec<IsolationLayer>, JailError> {
        self.jail.layers(WORKER_ARGUMENT).await
    }
}

#[async_trait]
impl Tool for PythonTool {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let arguments: PythonArguments = serde_json::from_value(arguments)
            .map_err(|error| ToolError::BadArguments(format!("`python_repl`: {error}")))?;
        check_code(&arguments.code, &self.limits, call.language)?;
        let (session, lost) = match call.session.filter(|session| !session.is_empty() && !arguments.fresh) {
            None => (None, SessionLoss::Nothing),
            Some(session) => match self.key.open(call.tenant, session) {
                Some(session) => (Some(session), SessionLoss::Nothing),
                None => (None, SessionLoss::Earlier),
            },
        };
        let request = PythonWorkerRequest {
            code: arguments.code,
            session,
            time_ms: u64::try_from(self.limits.time.as_millis()).unwrap_or(u64::MAX),
            output: self.limits.output,
            most_session: self.limits.session,
        };
        let input = serde_json::to_vec(&request).map_err(|error| ToolError::Failed(error.to_string()))?;
        let turn = self.turns.acquire(call.tenant, 1).await;
        let _turn =
            turn.map_err(|_| jail_tool_error(&JailError::Busy(self.limits.waiting), call.language))?;
        let answer = self.jail.run(WorkerCall { argument: WORKER_ARGUMENT, input: &input }).await;
        let reply: PythonWorkerReply = match answer {
            Ok(answer) => serde_json::from_slice(&answer)
                .map_err(|_| ToolError::Failed("the interpreter's answer makes no sense".to_string()))?,
            Err(error) => return Err(jail_tool_error(&error, call.language)),
        };
        Ok(self.to_output(reply, lost, call))
    }
}

impl PythonTool {
    fn to_output(
        &self,
        reply: PythonWorkerReply,
        lost: SessionLoss,
        call: ToolCallContext<'_>,
    ) -> ToolOutput {
        let mut text = reply.printed;
        let mut line = |words: &str| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(words);
        };
        if let Some(value) = &reply.value {
            line(value);
        }
        if let Some(error) = &reply.error {
            line(error);
        }
        if lost == SessionLoss::Earlier || reply.session_was_foreign {
            line(call.language.pick(
                "[이전 변수를 되살릴 수 없어 빈 상태에서 실행했습니다]",
                "[the earlier variables could not be restored; this ran without them]",
            ));
        }
        let session = match reply.session {
            PythonSessionDump::Whole(session) => self.key.seal(call.tenant, &session),
            PythonSessionDump::TooLarge(bytes) => {
                line(&session_dropped_note(bytes, self.limits.session, call.language));
                String::new()
            }
        };
        if text.is_empty() {
            text.push_str(call.language.pick("[출력 없음]", "[no output]"));
        }
        let kind = reply.kind.unwrap_or_default();
        ToolOutput {
            text,
            data: json!({ "ok": reply.error.is_none(), "error": kind }),
            session: Some(session),
            ..ToolOutput::default()
        }
    }
}

/// Answers one request, as a worker. Called first thing in `main` when the first argument is [`WORKER_ARGUMENT`].
#[cfg(feature = "python")]
pub fn worker_main() -> ExitCode {
    doran_jail::serve(|input| worker::answer_request(&input))
}

/// This program was built without an interpreter.
#[cfg(not(feature = "python"))]
pub fn worker_main() -> ExitCode {
    ExitCode::from(2)
}

/// Whether earlier variables were requested and are gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionLoss {
    Nothing,
    Earlier,
}

#[derive(Deserialize)]
struct PythonArguments {
    code: String,
    #[serde(default)]
    fresh: bool,
}

/// The request to a worker.
#[derive(Debug, Serialize, Deserialize)]
struct PythonWorkerRequest {
    code: String,
    /// What [`PythonWorkerReply::session`] was, in base64.
    session: Option<String>,
    time_ms: u64,
    output: usize,
    most_session: usize,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
struct PythonWorkerReply {
    printed: String,
    /// The value of the last line, if it is an expression.
    value: Option<String>,
    /// The traceback, shortened.
    error: Option<String>,
    /// The kind of the exception.
    kind: Option<String>,
    session: PythonSessionDump,
    /// The session that was given could not be loaded.
    session_was_foreign: bool,
}

/// What is left of the variables.
#[derive(Debug, Serialize, Deserialize)]
enum PythonSessionDump {
    /// All of them, in base64.
    Whole(String),
    /// They take this many bytes, which is too many.
    TooLarge(usize),
}

fn jail_limits(bounds: &PythonLimits) -> JailLimits {
    // The interpreter counts its own time and ends with a traceback; the jail is there for what it cannot count.
    let wall = bounds.time + Duration::from_secs(1);
    // Text grows at most sixfold as JSON; a session is base64 already.
    let session = bounds.session.div_ceil(3) * 4;
    JailLimits {
        wall,
        cpu: wall,
        memory: bounds.memory,
        input: bounds.code * 6 + session + 4096,
        output: (bounds.output * 3 + REPLY_OVERHEAD_BYTES) * 6 + session,
        at_once: bounds.at_once,
        waiting: bounds.waiting,
        ..JailLimits::default()
    }
}

/// Room in an answer for what is neither output nor session.
const REPLY_OVERHEAD_BYTES: usize = 16 << 10;

fn check_code(code: &str, bounds: &PythonLimits, language: Language) -> Result<(), ToolError> {
    let why = if !cfg!(feature = "python") {
        return Err(ToolError::NotConfigured(
            language
                .pick(
                    "이 프로그램은 Python 없이 빌드되었습니다. `python` 기능을 켜고 다시 빌드하세요",
                    "this program was built without Python; build it with the feature `python`",
                )
                .to_string(),
        ));
    } else if code.trim().is_empty() {
        language.pick("실행할 코드가 없습니다", "there is no code to run").to_string()
    } else if code.len() > bounds.code {
        let (bytes, max_bytes) = (code.len(), bounds.code);
        match language {
            Language::Korean => format!("코드가 너무 깁니다: {bytes}바이트 (최대 {max_bytes})"),
            Language::English => format!("the code is too long: {bytes} bytes (at most {max_bytes})"),
        }
    } else if code.contains('\0') {
        language.pick("코드에 NUL 문자가 있습니다", "the code contains a NUL character").to_string()
    } else {
        return Ok(());
    };
    Err(ToolError::BadArguments(why))
}

fn jail_tool_error(error: &JailError, language: Language) -> ToolError {
    let (words, after) = language.pick(
        (error.ko(), "변수는 이 호출 전과 같습니다"),
        (error.to_string(), "the variables are as before this call"),
    );
    match error {
        JailError::TimedOut(_) => ToolError::OutcomeUnknown(format!("TimeoutError: {words}; {after}")),
        JailError::OutOfMemory(_) => ToolError::Failed(format!("MemoryError: {words}; {after}")),
        JailError::TooMuchOutput(_) | JailError::Crashed { .. } => {
            ToolError::Failed(format!("Python: {words}; {after}"))
        }
        JailError::TooMuchInput(_) => ToolError::BadArguments(words),
        JailError::Busy(_) => ToolError::Unavailable(words),
        JailError::Unavailable { .. } => ToolError::NotConfigured(words),
    }
}

fn session_dropped_note(bytes: usize, max_bytes: usize, language: Language) -> String {
    let (bytes, max_bytes) = (bytes.div_ceil(1024), max_bytes / 1024);
    match language {
        Language::Korean => {
            format!(
                "[변수가 {bytes} KiB로, 보관할 수 있는 {max_bytes} KiB를 넘어 버렸습니다. 다음 호출은 빈 상태에서 시작합니다]"
            )
        }
        Language::English => {
            format!(
                "[the variables take {bytes} KiB, more than the {max_bytes} KiB that are kept; the next call starts without any]"
            )
        }
    }
}

fn tool_info(bounds: &PythonLimits) -> ToolInfo {
    let (seconds, mib) = (bounds.time.as_secs(), bounds.memory >> 20);
    ToolInfo {
        spec: ToolSpec {
            name: names::PYTHON_REPL.into(),
            description: format!(
                "Runs Python and returns what was printed and the value of the last expression. Variables and functions \
                 are kept for later calls in this conversation. It is a subset of Python: functions, lambdas, \
                 comprehensions, f-strings, try/except, dataclasses and simple classes work; class inheritance, \
                 `@property`, `yield`, `match`, `del`, `eval` and `exec` do not. Modules: math, json, re, datetime, \
                 collections, itertools, functools, dataclasses, typing, base64, unicodedata; no others, and no numpy or \
                 pandas. No files, no network, no other programs. At most {seconds} seconds and {mib} MiB. Print what \
                 you want to see."
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "code": { "type": "string", "description": "Python code", "maxLength": bounds.code },
                    "fresh": { "type": "boolean", "description": "true to forget earlier variables first" }
                },
                "required": ["code"],
                "additionalProperties": false
            }),
        },
        ko: "격리된 곳에서 Python 코드를 실행합니다. 변수는 대화 동안 유지되며, 파일·네트워크·다른 프로그램에는 닿을 수 없습니다".to_string(),
        en: "Runs Python in a jail. Variables are kept through the conversation; files, network and other programs are out of reach".to_string(),
        // A later call builds on the variables of an earlier one, so calls take turns; and words of a document that
        // want code to be run are not followed without a person.
        side_effect: ToolSideEffect::Idempotent,
        outward: false,
        origin: TextOrigin::Tool,
        // A call may have to wait for others before it runs.
        timeout: bounds.time + Duration::from_secs(15),
        max_output_bytes: bounds.output,
    }
}
