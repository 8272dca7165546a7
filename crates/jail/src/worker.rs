//! The side of the child: lock in, say which walls stand, work, answer.

use std::io::Write;
use std::process::ExitCode;

use crate::frame::{self, WorkerHandshake};
use crate::limits::JailRules;
use crate::lockdown;

/// Works on one message and leaves. This is the whole life of a worker, called first thing in `main`.
///
/// The walls are up before the input is read. What `work` prints to standard output goes nowhere. A program that is
/// started by hand with the hidden argument has no rules and leaves with code 2.
pub fn serve(work: impl FnOnce(Vec<u8>) -> Vec<u8>) -> ExitCode {
    let Some((rules, mut answer, input)) = lock_down_and_read_input() else { return ExitCode::from(2) };
    let output = work(input);
    if output.len() > rules.limits.output {
        // The length alone tells the parent; the bytes would not be taken.
        return exit_code(frame::length_prefix(&output).and_then(|head| answer.write_all(&head)).is_ok());
    }
    exit_code(frame::write_frame_blocking(&mut answer, &output).is_ok())
}

/// Locks in and gives the rules, the way to answer, and the input: [`serve`] in two halves, for workers that do
/// something unusual between them. The answer is one message: its length in four bytes, little end first, and itself.
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

fn exit_code(told: bool) -> ExitCode {
    if told { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
