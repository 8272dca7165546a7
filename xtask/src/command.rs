//! Runs other programs from the root of the repository. Their output is passed through unless it is captured.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::XtaskResult;

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The directory of build results.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command that runs in the root of the repository, to which more arguments can be added.
pub fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(args);
    command
}

/// A command that leaves the processor to others that want it, where there is `nice`.
pub fn low_priority(program: &OsStr) -> Command {
    if cfg!(unix) {
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(program);
        return command;
    }
    Command::new(program)
}

/// Runs cargo with its output shown.
pub fn run_cargo(args: &[&str]) -> XtaskResult {
    eprintln!("$ cargo {}", args.join(" "));
    let status = cargo(args).status().map_err(|why| format!("cargo does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo {}` failed", args.join(" "))) }
}

/// Runs cargo and returns what it printed on stdout.
pub fn read_cargo(args: &[&str]) -> Result<String, String> {
    let output = cargo(args)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| format!("cargo does not start: {why}"))?;
    if !output.status.success() {
        return Err(format!("`cargo {}` failed", args.join(" ")));
    }
    String::from_utf8(output.stdout)
        .map_err(|why| format!("`cargo {}` printed no text: {why}", args.join(" ")))
}
