//! One-line bugs: do the tests of the engine and the stores notice them? The list is `crates/torture/one_line_bugs.txt`.
//!
//! The changes are made in a copy of the repository, all of them behind a switch, so that it is built once. Then the tests run
//! once for each bug, with its name in the environment. A bug that no test notices is printed as `MISSED`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::XtaskResult;
use crate::command::{cargo, root, target_directory};

const LIST: &str = "crates/torture/one_line_bugs.txt";

/// Where the switch is defined.
const SWITCH_FILE: &str = "crates/engine/src/failpoint.rs";
const SWITCH: &str = "
/// Whether this bug is switched on.
pub fn one_line_bug(name: &'static str) -> bool {
    static BUG: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    BUG.get_or_init(|| std::env::var(\"ONE_LINE_BUG\").ok()).as_deref() == Some(name)
}
";

/// Begins a comment above a bug that no test can notice, and says why.
const NO_DIFFERENCE: &str = "# No difference";

/// Tests with a bug that run longer than this hang, which is noticed too.
const MAX_TEST_TIME: Duration = Duration::from_secs(600);

/// The share of bugs that tests have to notice, in percent.
const MIN_CAUGHT_PERCENT: usize = 95;

/// Tests that take long, or compile something, and that no bug is left to.
const SKIPPED_TESTS: [&str; 3] = ["ten_thousand_firings", "examples", "what_the_derives_refuse"];

/// A change that makes a line wrong while `BUG` holds.
#[derive(Debug, PartialEq, Eq)]
struct OneLineBug {
    name: String,
    file: String,
    before: String,
    after: String,
    /// Tests can notice it.
    is_visible: bool,
}

/// Runs the tests with each bug of the list, or with those that are named.
pub fn run(names: &[String]) -> XtaskResult {
    let list = fs::read_to_string(root().join(LIST)).map_err(|why| format!("{LIST}: {why}"))?;
    let bugs = parse_list(&list)?;
    if let Some(unknown) = names.iter().find(|name| bugs.iter().all(|bug| bug.name != **name)) {
        return Err(format!("there is no bug `{unknown}` in {LIST}"));
    }
    let copy = target_directory().join("one-line-bugs");
    copy_repository(&copy)?;
    switch_bugs(&copy, &bugs)?;
    if !run_tests(&copy, "", &["--no-run"])? {
        return Err("the repository with the bugs does not build".to_owned());
    }
    if !run_tests(&copy, "", &[])? {
        return Err("the tests fail without a bug".to_owned());
    }
    let chosen: Vec<&OneLineBug> = bugs
        .iter()
        .filter(|bug| if names.is_empty() { bug.is_visible } else { names.contains(&bug.name) })
        .collect();
    let mut caught = 0;
    for bug in &chosen {
        let missed = run_tests(&copy, &bug.name, &[])?;
        println!("{} {}", if missed { "MISSED" } else { "caught" }, bug.name);
        caught += usize::from(!missed);
    }
    let invisible = bugs.iter().filter(|bug| !bug.is_visible).count();
    println!("{caught} of {} bugs were noticed; {invisible} others cannot be", chosen.len());
    match caught * 100 >= chosen.len() * MIN_CAUGHT_PERCENT {
        true => Ok(()),
        false => Err(format!("less than {MIN_CAUGHT_PERCENT} % of the bugs were noticed")),
    }
}

/// Reads the list: a line with the name and the file, lines with `-` that the file has, and lines with `+` in their place. A
/// comment says of the bug below it that it makes no difference.
fn parse_list(list: &str) -> Result<Vec<OneLineBug>, String> {
    let (mut bugs, mut is_visible): (Vec<OneLineBug>, bool) = (Vec::new(), true);
    for (number, line) in list.lines().enumerate() {
        let wrong = || format!("{LIST}, line {}: `{line}` is not understood", number + 1);
        if line.is_empty() || line.starts_with('#') {
            is_visible &= !line.starts_with(NO_DIFFERENCE);
            continue;
        }
        if let Some(before) = line.strip_prefix('-') {
            push_line(&mut bugs.last_mut().ok_or_else(wrong)?.before, before);
        } else if let Some(after) = line.strip_prefix('+') {
            push_line(&mut bugs.last_mut().ok_or_else(wrong)?.after, after);
        } else {
            let (name, file) = line.split_once(' ').ok_or_else(wrong)?;
            let (name, file) = (name.to_owned(), file.to_owned());
            bugs.push(OneLineBug { name, file, before: String::new(), after: String::new(), is_visible });
            is_visible = true;
        }
    }
    Ok(bugs)
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Copies what git knows of, as it is in the working tree.
fn copy_repository(copy: &Path) -> XtaskResult {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let listed = listed.map_err(|why| format!("git does not start: {why}"))?;
    for name in listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let (from, to) = (root().join(&name), copy.join(&name));
        let Ok(bytes) = fs::read(&from) else { continue };
        // A file that stays the same keeps its time, so that it is not built again.
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, bytes));
        made.map_err(|why| format!("{}: {why}", to.display()))?;
    }
    Ok(())
}

/// Makes all changes in the copy, each behind a switch.
fn switch_bugs(copy: &Path, bugs: &[OneLineBug]) -> XtaskResult {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let read = |file: &str| fs::read_to_string(root().join(file)).map_err(|why| format!("{file}: {why}"));
    for bug in bugs {
        if !texts.contains_key(bug.file.as_str()) {
            texts.insert(&bug.file, read(&bug.file)?);
        }
        let Some(text) = texts.get_mut(bug.file.as_str()) else { continue };
        *text = with_bug(text, bug)?;
    }
    texts.insert(SWITCH_FILE, read(SWITCH_FILE)? + SWITCH);
    for (file, text) in texts {
        fs::write(copy.join(file), text).map_err(|why| format!("{file}: {why}"))?;
    }
    Ok(())
}

fn with_bug(text: &str, bug: &OneLineBug) -> Result<String, String> {
    let found = text.matches(&bug.before).count();
    if found != 1 {
        return Err(format!("{}: the lines of `{}` were found {found} times", bug.file, bug.name));
    }
    let engine = if bug.file.starts_with("crates/engine/") { "crate" } else { "doran_engine" };
    let switch = format!("{engine}::failpoint::one_line_bug(\"{}\")", bug.name);
    Ok(text.replace(&bug.before, &bug.after.replace("BUG", &switch)))
}

/// Runs the tests of the engine and the stores with a bug. Whether all of them passed.
fn run_tests(copy: &Path, bug: &str, more: &[&str]) -> Result<bool, String> {
    let mut command = cargo(&["test", "--quiet", "--locked", "-p", "doran-engine", "-p", "doran-store"]);
    command.args(["--lib", "--test", "it"]).args(more).arg("--");
    for test in SKIPPED_TESTS {
        command.args(["--skip", test]);
    }
    // Cargo tells the crates of two copies of a workspace apart by their build directory only.
    command.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target")).env("ONE_LINE_BUG", bug);
    let silent = || if bug.is_empty() { Stdio::inherit() } else { Stdio::null() };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(silent())
        .stderr(silent())
        .spawn()
        .map_err(|why| format!("cargo does not start: {why}"))?;
    let began = Instant::now();
    loop {
        match child.try_wait().map_err(|why| why.to_string())? {
            Some(status) => return Ok(status.success()),
            None if !bug.is_empty() && began.elapsed() > MAX_TEST_TIME => {
                drop(child.kill());
                drop(child.wait());
                return Ok(false);
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_a_name_a_file_and_lines_that_are_replaced() {
        let list = "# comment\n\none crates/store/src/a.rs\n-    a\n-    b\n+    if !BUG { a }\n+    b\n";
        let bugs = parse_list(list).expect("a list");
        assert_eq!(bugs.len(), 1);
        assert_eq!((bugs[0].before.as_str(), bugs[0].name.as_str()), ("    a\n    b", "one"));
        let switched = with_bug("x\n    a\n    b\ny\n", &bugs[0]).expect("it fits");
        assert_eq!(switched, "x\n    if !doran_engine::failpoint::one_line_bug(\"one\") { a }\n    b\ny\n");
        assert!(with_bug("x", &bugs[0]).is_err() && with_bug("    a\n    b    a\n    b", &bugs[0]).is_err());
        assert!(parse_list("- a").is_err() && parse_list("name").is_err());
        let marked = parse_list("# No difference: x\na f\n-x\n+y\n\nb f\n-x\n+y").expect("a list");
        assert_eq!(marked.iter().map(|bug| bug.is_visible).collect::<Vec<_>>(), [false, true]);
    }
}
