//! Tests the web page in a real browser against the real program. Prints a notice if something it needs is missing.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::XtaskResult;
use crate::command::{root, run_cargo, target_directory};
use crate::test::{TestRun, TestTally};

/// Builds the program and runs the browser tests against it.
pub fn run() -> XtaskResult {
    if missing_requirement().is_none() {
        // As the tests of the program build it: other features would compile its dependencies again.
        let program = ["--package", "doran", "--features", "doran/python", "--test", "it"];
        run_cargo(&[&["test", "--locked", "--no-run"], &program[..]].concat())?;
        let graphs = ["--package", "doran-server", "--features", "doran/python", "--example", "four_graphs"];
        run_cargo(&[&["build", "--locked", "--package", "doran"], &graphs[..]].concat())?;
    }
    check().outcome
}

/// Runs the browser tests against the program that earlier tests have built. Screenshots are stored in
/// `target/browser`.
pub fn check() -> TestRun {
    let mut tally = TestTally::default();
    if let Some(why) = missing_requirement() {
        return skip(why);
    }
    let outcome = run_page_tests(&mut tally);
    TestRun { tally, outcome }
}

fn run_page_tests(tally: &mut TestTally) -> XtaskResult {
    eprintln!("$ node e2e/run.mjs");
    let mut child = Command::new("node")
        .current_dir(ui_directory())
        .arg("e2e/run.mjs")
        .arg("--doran")
        .arg(target_directory().join("debug").join("doran"))
        .arg("--graphs")
        .arg(target_directory().join("debug").join("examples").join("four_graphs"))
        .arg("--shots")
        .arg(target_directory().join("browser"))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("node does not start: {why}"))?;
    let mut last = String::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        last = line.map_err(|why| format!("what node says cannot be read: {why}"))?;
        println!("{last}");
    }
    let status = child.wait().map_err(|why| format!("node did not end: {why}"))?;
    match parse_summary_line(&last) {
        Some(found) => tally.add(&found),
        None => return Err("the tests of the page did not come to their end".to_string()),
    }
    if status.success() { Ok(()) } else { Err("a test of the page failed".to_string()) }
}

/// Parses `31 passed, 0 failed, 0 skipped`.
fn parse_summary_line(line: &str) -> Option<TestTally> {
    let mut tally = TestTally::default();
    let mut parts = line.split(", ");
    for (field, name) in
        [(&mut tally.passed, " passed"), (&mut tally.failed, " failed"), (&mut tally.skipped, " skipped")]
    {
        *field = parts.next()?.strip_suffix(name)?.parse().ok()?;
    }
    Some(tally)
}

fn skip(why: &str) -> TestRun {
    let tally = TestTally { skipped: 1, ..TestTally::default() };
    if std::env::var_os("DORAN_REQUIRE_PARTS").is_some() {
        return TestRun { tally, outcome: Err(why.to_string()) };
    }
    eprintln!("browser: SKIPPED, the page was not tried in a browser: {why}");
    eprintln!(
        "browser: 브라우저에서 페이지를 시험하지 않았습니다. Node.js와 Chromium이 필요합니다 (Debian, Ubuntu: apt-get install nodejs npm chromium)."
    );
    TestRun { tally, outcome: Ok(()) }
}

/// What is missing to run the tests, if anything.
fn missing_requirement() -> Option<&'static str> {
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
    if !ui_directory().join("node_modules").join("playwright-core").exists() {
        return Some("`npm ci` has not been run in crates/server/ui");
    }
    None
}

fn ui_directory() -> PathBuf {
    root().join("crates").join("server").join("ui")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_page_is_counted() {
        assert_eq!(
            parse_summary_line("31 passed, 2 failed, 1 skipped"),
            Some(TestTally { passed: 31, failed: 2, skipped: 1 })
        );
        for line in ["", "ok      provider stop", "31 passed", "x passed, 0 failed, 0 skipped"] {
            assert_eq!(parse_summary_line(line), None, "{line}");
        }
    }
}
