//! A server that is a program: started with nothing of ours, ended with the connection.

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::capped_lines::CappedLines;
use crate::tools::ToolSecret;

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct McpProcess {
    _child: Child,
}

/// Starts it, and gives the two ends to talk through.
pub(super) fn start_process(
    command: &str,
    arguments: &[String],
    environment: &BTreeMap<String, ToolSecret>,
    most: usize,
    server: &str,
) -> io::Result<(McpProcess, CappedLines<ChildStdout>, ChildStdin)> {
    let mut starting = Command::new(command);
    starting
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value.reveal())))
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
    tokio::spawn(log_stderr(words, server.to_string()));
    Ok((McpProcess { _child: child }, CappedLines::new(output, most), input))
}

/// What a server says beside the protocol goes to the log, a line at a time, no line without end.
async fn log_stderr(words: ChildStderr, server: String) {
    let mut words = BufReader::new(words);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut words).take(1000).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tracing::debug!(server, "{}", String::from_utf8_lossy(&line).trim_end()),
        }
    }
}
