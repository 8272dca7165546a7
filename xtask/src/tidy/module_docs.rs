//! Checks that modules start with a doc comment and contain no macros that mark unfinished work.

use super::{RepositoryFile, TidyFinding};

/// Macros that mark unfinished work. They are written in pieces so that this file passes its own check.
const UNFINISHED: &[&str] = &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!(")];

/// Checks that every module has a doc comment and none of those macros.
pub fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    files.iter().filter(|file| is_module(&file.path)).flat_map(check_one).collect()
}

/// Whether the file is compiled into a crate. Tests, examples and fixtures are not.
pub fn is_module(path: &str) -> bool {
    path.starts_with("src/") || path.contains("/src/")
}

fn check_one(file: &RepositoryFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let opening = file.text.lines().next().unwrap_or_default();
    if opening.trim_start_matches("//!").trim().len() < 3 || !opening.starts_with("//!") {
        findings.push(TidyFinding::new(
            format!("{}:1", file.path),
            "a module opens with `//!` and says what it is for",
        ));
    }
    if file.path.ends_with("/tests.rs") {
        return findings;
    }
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        for word in UNFINISHED {
            if line.contains(word) {
                let what = format!("`{}` is left over", word.trim_end_matches('('));
                findings.push(TidyFinding::new(format!("{}:{}", file.path, index + 1), what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str, expected: &str) {
        let found =
            check(&[RepositoryFile { path: "crates/a/src/b.rs".to_string(), text: text.to_string() }]);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn a_module_says_what_it_is_for() {
        check_text("//! Counts beans.\n", "");
        let missing = "crates/a/src/b.rs:1: a module opens with `//!` and says what it is for";
        check_text("fn a() {}\n", missing);
        check_text("//! .\n", missing);
        check_text("", missing);
    }

    #[test]
    fn nothing_is_left_for_later_outside_tests() {
        let unfinished = UNFINISHED[0];
        check_text(
            &format!("//! Beans.\nfn a() {{ {unfinished}) }}"),
            "crates/a/src/b.rs:2: `todo!` is left over",
        );
        check_text(&format!("//! Beans.\n// Not {unfinished}) any more.\n"), "");
        check_text(&format!("//! Beans.\n#[cfg(test)]\nmod tests {{ {unfinished}) }}"), "");
    }
}
