//! Checks file names, and so module names. A name must say what the module is about.

use super::module_docs::is_module;
use super::{RepositoryFile, TidyFinding};

/// Words that name no subject. The project's vocabulary is in ARCHITECTURE.md.
const EMPTY_WORDS: &[&str] = &["common", "helper", "helpers", "manager", "misc", "stuff", "util", "utils"];

/// Finds modules whose name, or its last word, is one of those. Directories are modules too.
pub fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_module(&file.path)) {
        let inside = file.path.rsplit_once("src/").map_or(file.path.as_str(), |(_, inside)| inside);
        for part in inside.trim_end_matches(".rs").split('/') {
            let last = part.rsplit('_').next().unwrap_or(part);
            if EMPTY_WORDS.contains(&last) {
                findings.push(TidyFinding::new(
                    &file.path,
                    format!("`{last}` names no subject: what is it about?"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_path(path: &str, expected: usize) {
        let found = check(&[RepositoryFile { path: path.to_string(), text: String::new() }]);
        assert_eq!(found.len(), expected, "{path}: {found:?}");
    }

    #[test]
    fn names_without_a_subject_are_found() {
        check_path("crates/a/src/utils.rs", 1);
        check_path("crates/a/src/common/mod.rs", 1);
        check_path("crates/a/src/run_manager.rs", 1);
    }

    #[test]
    fn a_word_that_only_qualifies_is_fine() {
        check_path("crates/a/src/data_dir.rs", 0);
        check_path("crates/a/src/plan/mod.rs", 0);
        check_path("crates/a/tests/it/session.rs", 0);
    }
}
