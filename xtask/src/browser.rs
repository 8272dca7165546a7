//! The page in a real browser, against the real program. Says loudly when the parts for that are not there.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::command::{root, run_cargo};

/// Builds the program and the slow server, and runs the tests of the page against them. Pictures of what was seen are
/// kept in `target/browser`.
pub fn run() -> Outcome {
    if let Some(why) = missing() {
        return skip(why);
    }
    run_cargo(&["build", "--locked", "--package", "doran"])?;
    run_cargo(&["build", "--locked", "--package", "doran-server", "--example", "paced"])?;
    let built = target().join("debug");
    eprintln!("$ node e2e/run.mjs");
    let status = Command::new("node")
        .current_dir(directory())
        .arg("e2e/run.mjs")
        .arg("--doran")
        .arg(built.join("doran"))
        .arg("--slow")
        .arg(built.join("examples").join("paced"))
        .arg("--shots")
        .arg(target().join("browser"))
        .status()
        .map_err(|why| format!("browser: node does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err("browser: a test of the page failed".to_string()) }
}

fn skip(why: &str) -> Outcome {
    if std::env::var_os("DORAN_REQUIRE_PARTS").is_some() {
        return Err(format!("browser: {why}"));
    }
    eprintln!("browser: SKIPPED, the page was not tried in a browser: {why}");
    eprintln!(
        "browser: 브라우저에서 페이지를 시험하지 않았습니다. Node.js와 Chromium이 필요합니다 (Debian, Ubuntu: apt-get install nodejs npm chromium)."
    );
    Ok(())
}

/// What is missing, if anything.
fn missing() -> Option<&'static str> {
    let runs = |program: &str| {
        let tried =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    if !runs("node") {
        return Some("Node.js is not installed");
    }
    let named = std::env::var_os("CHROMIUM").is_some();
    if !named && !["chromium", "chromium-browser", "google-chrome"].iter().any(|name| runs(name)) {
        return Some("no Chromium was found; set CHROMIUM to its path");
    }
    if !directory().join("node_modules").join("playwright-core").exists() {
        return Some("`npm ci` has not been run in crates/server/ui");
    }
    None
}

fn directory() -> PathBuf {
    root().join("crates").join("server").join("ui")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
