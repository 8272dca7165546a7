//! Licences, sources, bans and advisories, as `deny.toml` states them.
//!
//! `cargo-deny` is not part of a toolchain and takes minutes to build, so it is used when it is there. The licence and
//! source rules are also kept by `tidy`, which needs nothing; only advisories depend on this chore.

use std::process::Stdio;

use crate::command::{cargo, run_cargo};

/// Whether the chore could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deny {
    /// Everything was checked.
    Checked,
    /// `cargo-deny` is not installed.
    Missing,
}

/// Runs `cargo deny check`, or says loudly that it did not.
pub fn run() -> Result<Deny, String> {
    let there = cargo(&["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        eprintln!("deny: SKIPPED, cargo-deny is not installed (`cargo install cargo-deny --locked`)");
        eprintln!("deny: advisories were not checked");
        return Ok(Deny::Missing);
    }
    run_cargo(&["deny", "--locked", "check"]).map(|()| Deny::Checked)
}
