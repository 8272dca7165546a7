//! Checks that paths between back-ticks in the contributors' documents exist.

use super::{RepositoryFile, TidyFinding};

/// The documents whose paths are checked.
const PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "README.ko.md", "SECURITY.md"];

/// Checks the paths in those pages and in the decision records. `exists` answers for a path relative to the root. A
/// path may also be relative to `crates/`, as in ARCHITECTURE.md.
pub fn check(pages: &[RepositoryFile], exists: impl Fn(&str) -> bool) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for page in
        pages.iter().filter(|page| PAGES.contains(&page.path.as_str()) || page.path.starts_with("docs/adr/"))
    {
        for (line, path) in paths(&page.text) {
            let stem = path.trim_end_matches('/');
            if !exists(stem) && !exists(&format!("crates/{stem}")) {
                findings
                    .push(TidyFinding::new(format!("{}:{line}", page.path), format!("there is no `{path}`")));
            }
        }
    }
    findings
}

/// The texts between back-ticks that look like paths of this repository, with their lines. Code blocks and paths with
/// a placeholder (`agents/src/tools/NEW.rs`, `crates/*`) are skipped.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if !in_code {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter(|span| is_path(span)).map(|span| (index + 1, span)));
        }
    }
    found
}

fn is_path(span: &str) -> bool {
    let is_plain = span.chars().all(|char| char.is_ascii_alphanumeric() || "/._-".contains(char));
    let has_placeholder = span
        .split(['/', '.', '_'])
        .any(|part| part.len() > 1 && part.chars().all(|char| char.is_ascii_uppercase()));
    let first = span.split('/').next().unwrap_or_default();
    let is_ours = [
        "crates",
        "docs",
        "xtask",
        "bench",
        "evals",
        "agents",
        "cli",
        "engine",
        "jail",
        "llm",
        "retrieval",
        "server",
        "store",
    ]
    .contains(&first);
    is_plain && is_ours && span.contains('/') && (!has_placeholder || span.ends_with("README.md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_page(text: &str, expected: &[&str]) {
        let page = RepositoryFile { path: "ARCHITECTURE.md".to_owned(), text: text.to_owned() };
        let there = ["crates/engine/src/plan", "docs/adr", "xtask/src/main.rs"];
        let found = check(&[page], |path| there.contains(&path));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_found() {
        check_page("`engine/src/plan`, `docs/adr/` and `xtask/src/main.rs`", &[]);
        check_page("text\n`engine/src/gone.rs`", &["ARCHITECTURE.md:2: there is no `engine/src/gone.rs`"]);
    }

    #[test]
    fn placeholders_other_words_and_code_blocks_are_left_alone() {
        check_page(
            "`agents/src/tools/NEW.rs` `text/plain` `crates/*` `a/b`\n```\n`engine/src/gone.rs`\n```",
            &[],
        );
    }
}
