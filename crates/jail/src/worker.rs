//! The child side: activate the isolation, report it, work, and return the result.

use std::io::Write;
use std::process::ExitCode;

use crate::frame::{self, WorkerHandshake};
use crate::limits::JailRules;
use crate::lockdown;

/// Runs a worker: processes one message and returns the exit code. Call it at the start of `main`.
///
/// The isolation is active before the input is read. What `work` prints to standard output is discarded. A program
/// that a user starts with the hidden argument has no rules and exits with code 2.
pub fn serve(work: impl FnOnce(Vec<u8>) -> Vec<u8>) -> ExitCode {
    let Some((rules, mut answer, input)) = lock_down_and_read_input() else { return ExitCode::from(2) };
    let output = work(input);
    if output.len() > rules.limits.output {
        // The length alone tells the parent that the result is too long. It would not read the bytes.
        return exit_code(frame::length_prefix(&output).and_then(|head| answer.write_all(&head)).is_ok());
    }
    exit_code(frame::write_frame_blocking(&mut answer, &output).is_ok())
}

/// The first half of [`serve`], for workers that need to do more between the steps. Activates the isolation and
/// returns the rules, the output and the input. The result must be one message: a length of four bytes,
/// little-endian, then the bytes.
pub fn lock_down_and_read_input() -> Option<(JailRules, impl Write, Vec<u8>)> {
    let rules: JailRules = serde_json::from_str(&std::env::args().nth(2)?).ok()?;
    let mut answer = lockdown::take_stdout().ok()?;
    let hello = match lockdown::lock_down(&rules) {
        Ok(layers) => WorkerHandshake::Held(layers),
        Err(error) => WorkerHandshake::Refused(error.to_string()),
    };
    let words = serde_json::to_vec(&hello).ok()?;
    frame::write_frame_blocking(&mut answer, &words).ok()?;
    let WorkerHandshake::Held(_) = hello else { return None };
    let input = frame::read_frame_blocking(&mut std::io::stdin().lock(), rules.limits.input).ok()?;
    Some((rules, answer, input))
}

fn exit_code(sent: bool) -> ExitCode {
    if sent { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
