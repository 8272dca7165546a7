//! Licences, sources, bans and advisories, as `deny.toml` states them.
//!
//! `cargo-deny` is not part of a toolchain and takes minutes to build, so it is used when it is there. The licence and
//! source rules are also kept by `tidy`, which needs nothing; only advisories depend on this chore.

use std::process::Stdio;

use crate::XtaskResult;
use crate::command::{cargo, run_cargo};

/// Runs `cargo deny check`, or says loudly that it did not.
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
