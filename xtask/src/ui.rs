//! The web page. Its sources are in `crates/server/ui`, and the built bundle is committed next to them in `dist`.
//! This task builds the bundle again and checks that it matches.
//!
//! Building Doran does not need this. It is for changes to the page and for CI: a bundle that cannot be reproduced
//! from its sources cannot be reviewed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::XtaskResult;
use crate::command::{low_priority, root};
use crate::test::inputs::JobInputs;
use crate::test::jobs::{Job, JobKind};

/// The oldest Node.js version that the build tools support.
const MIN_NODE_VERSION: (u32, u32) = (20, 19);

/// Builds the page into `dist`.
pub fn build() -> XtaskResult {
    if let Some(why) = missing_requirement() {
        return Err(format!("ui: {why}"));
    }
    run_npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    run_npm(&["run", "check"])?;
    run_npm(&["run", "build"])
}

/// `check` as a job beside the tests.
pub fn job() -> Job {
    let mut command = low_priority(&crate::ci::this_program());
    command.args(["ui", "--check"]);
    // The tests in the browser need what it installs, so it runs if that is gone.
    let is_installed = ui_directory().join("node_modules").join("playwright-core").exists();
    let inputs = JobInputs { programs: Vec::new(), folders: vec!["crates/server/ui".to_owned()] };
    Job {
        name: "ui".to_owned(),
        command,
        kind: JobKind::Plain { show: false },
        inputs: is_installed.then_some(inputs),
        after: None,
    }
}

/// Type-checks and tests the page, builds it into another directory and compares. Prints a notice if it cannot.
pub fn check() -> XtaskResult {
    if let Some(why) = missing_requirement() {
        return skip(&why);
    }
    let install = run_npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    if install.is_err() {
        return skip("`npm ci` cannot fetch the build tools");
    }
    run_npm(&["run", "check"])?;
    run_npm(&["test"])?;
    let again = root().join("target").join("ui-dist");
    run_npm(&["run", "build", "--", "--emptyOutDir", "--outDir", &again.to_string_lossy()])?;
    run_npm(&["run", "--silent", "size", "--", &again.to_string_lossy()])?;
    let differing = differing_files(&read_directory(&ui_directory().join("dist"))?, &read_directory(&again)?);
    if differing.is_empty() {
        eprintln!("ui: ok, the page builds to the bytes that are kept");
        return Ok(());
    }
    Err(format!(
        "ui: `dist` is not what its sources build to: {}; run `cargo xtask ui`",
        differing.join(", ")
    ))
}

fn skip(why: &str) -> XtaskResult {
    if std::env::var_os("DORAN_REQUIRE_PARTS").is_some() {
        return Err(format!("ui: {why}"));
    }
    eprintln!("ui: SKIPPED, the page was not built again: {why}");
    eprintln!(
        "ui: 웹 페이지를 다시 빌드해 보지 않았습니다. Node.js {}.{} 이상이 필요합니다.",
        MIN_NODE_VERSION.0, MIN_NODE_VERSION.1
    );
    Ok(())
}

/// What is missing to build the page, if anything.
fn missing_requirement() -> Option<String> {
    let Ok(output) = Command::new("node").arg("--version").stderr(Stdio::null()).output() else {
        return Some("Node.js is not installed".to_string());
    };
    let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
    match is_new_enough(&version) {
        true => None,
        false => Some(format!(
            "Node.js {}.{} or newer is needed, this is `{version}`",
            MIN_NODE_VERSION.0, MIN_NODE_VERSION.1
        )),
    }
}

/// Whether a version, as printed by `node --version`, is new enough.
fn is_new_enough(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= MIN_NODE_VERSION,
        _ => false,
    }
}

fn ui_directory() -> PathBuf {
    root().join("crates").join("server").join("ui")
}

fn run_npm(args: &[&str]) -> XtaskResult {
    eprintln!("$ npm {}", args.join(" "));
    let program = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let status = Command::new(program)
        .current_dir(ui_directory())
        .args(args)
        .status()
        .map_err(|why| format!("npm does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("`npm {}` failed", args.join(" "))) }
}

/// The files of a directory, by name.
fn read_directory(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", directory.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(name, fs::read(entry.path()).map_err(wrong)?);
    }
    Ok(files)
}

/// The names of files that differ or exist on one side only.
fn differing_files(left: &BTreeMap<String, Vec<u8>>, right: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let mut names: Vec<String> = left.keys().chain(right.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names.retain(|name| left.get(name) != right.get(name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_enough_node_is_used() {
        for version in ["v20.19.0", "v22.1.3", "v100.0.0"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["v20.18.9", "v18.20.0", "", "node", "v20"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }

    #[test]
    fn files_that_differ_or_are_missing_are_named() {
        let files = |list: &[(&str, &str)]| {
            list.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect()
        };
        let committed = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(
            differing_files(&committed, &files(&[("a", "1"), ("b", "x"), ("d", "4")])),
            ["b", "c", "d"]
        );
        assert!(differing_files(&committed, &committed).is_empty());
    }
}
