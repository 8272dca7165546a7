//! An MCP server that is a child process. It gets the variables it is given and nothing else of this process, and ends
//! with the connection.

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::capped_lines::CappedLines;
use super::result_text::clean_and_truncate;
use crate::tools::ToolSecret;

/// How many bytes of what a server wrote to its standard error are kept.
const MAX_STDERR_BYTES: usize = 4096;
/// How many of them an error tells: the last ones.
const MAX_TOLD_STDERR_BYTES: usize = 800;
/// How long an error waits for the rest of what a server that ended wrote.
const STDERR_END_WAIT: Duration = Duration::from_secs(1);
/// Shorter values than this are not taken out of what a server wrote: they would match anywhere.
const MIN_SECRET_BYTES: usize = 4;

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct McpProcess {
    _child: Child,
}

/// What a server wrote last to its standard error, without the secrets it was given.
#[derive(Clone, Debug)]
pub(super) struct StderrTail {
    text: Arc<Mutex<String>>,
    ended: Arc<watch::Sender<bool>>,
}

/// The program and its surroundings.
pub(super) struct McpCommand<'a> {
    pub(super) command: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) inherited: &'a BTreeMap<String, String>,
    pub(super) environment: &'a BTreeMap<String, ToolSecret>,
}

/// Starts it, and gives the two ends to talk through.
pub(super) fn start_process(
    program: &McpCommand<'_>,
    max_bytes: usize,
    server: &str,
    stderr: &StderrTail,
) -> io::Result<(McpProcess, CappedLines<ChildStdout>, ChildStdin)> {
    let mut starting = Command::new(program.command);
    starting
        .args(program.arguments)
        .env_clear()
        .envs(program.inherited)
        .envs(program.environment.iter().map(|(name, value)| (name, value.reveal())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // Its own group, so that an interrupt at the terminal ends us and we end it.
    #[cfg(unix)]
    starting.process_group(0);
    let mut child = starting.spawn()?;
    let (Some(input), Some(output), Some(words)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("it has no pipes"));
    };
    let secrets = program.environment.values().filter(|value| value.reveal().len() >= MIN_SECRET_BYTES);
    tokio::spawn(stderr.clone().read(words, secrets.cloned().collect(), server.to_string()));
    Ok((McpProcess { _child: child }, CappedLines::new(output, max_bytes), input))
}

impl Default for StderrTail {
    fn default() -> Self {
        Self { text: Arc::default(), ended: Arc::new(watch::Sender::new(false)) }
    }
}

impl StderrTail {
    /// What a server says beside the protocol goes to the log, a line at a time, no line without end. The last of it is
    /// kept for errors.
    async fn read(self, words: ChildStderr, secrets: Vec<ToolSecret>, server: String) {
        let mut words = BufReader::new(words);
        let mut line = Vec::new();
        while let Ok(1..) = {
            line.clear();
            (&mut words).take(1000).read_until(b'\n', &mut line).await
        } {
            let mut shown = String::from_utf8_lossy(&line).into_owned();
            for secret in &secrets {
                shown = shown.replace(secret.reveal(), "***");
            }
            tracing::debug!(server, "{}", shown.trim_end());
            let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&shown);
            if text.len() > MAX_STDERR_BYTES {
                let cut = text.ceil_char_boundary(text.len() - MAX_STDERR_BYTES);
                text.drain(..cut);
            }
        }
        self.end();
    }

    /// Nobody writes any more.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// The last words of a server that ended or did not answer; empty if it wrote nothing.
    pub(super) async fn last_words(&self) -> String {
        // A child of the server may keep the pipe open. Then what is there is reported.
        timeout(STDERR_END_WAIT, self.ended.subscribe().wait_for(|ended| *ended)).await.ok();
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.trim();
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TOLD_STDERR_BYTES));
        clean_and_truncate(&text[start..], MAX_TOLD_STDERR_BYTES)
    }
}
