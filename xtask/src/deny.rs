//! Licences, sources, bans and advisories, as configured in `deny.toml`.
//!
//! `cargo-deny` is not part of a toolchain and takes minutes to build, so it is used only if it is installed. `tidy`
//! also checks the licence and source rules and needs no other tool. Only the advisories depend on this task.

use std::process::Stdio;

use crate::XtaskResult;
use crate::command::{cargo, run_cargo};

/// Runs `cargo deny check`, or prints a notice that it did not.
pub fn run() -> XtaskResult {
    if is_missing() {
        eprintln!("deny: SKIPPED, advisories were not checked: cargo-deny is not installed");
        eprintln!("deny: to have it, `cargo install cargo-deny --locked`");
        return Ok(());
    }
    run_cargo(&["deny", "--locked", "check"])
}

fn is_missing() -> bool {
    let version = cargo(&["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    !version.is_ok_and(|status| status.success())
}
