//! Code that a page shows from a file must match that file. The page marks such a block with a comment right before
//! it: `<!-- file: crates/engine/examples/approve.rs -->`.

use super::{RepositoryFile, TidyFinding};

/// Compares each marked block with its file. `read` returns the text of a path relative to the root.
pub fn check(pages: &[RepositoryFile], read: impl Fn(&str) -> Option<String>) -> Vec<TidyFinding> {
    pages.iter().flat_map(|page| check_page(page, &read)).collect()
}

fn check_page(page: &RepositoryFile, read: &impl Fn(&str) -> Option<String>) -> Vec<TidyFinding> {
    let lines: Vec<&str> = page.text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(path) = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let place = format!("{}:{}", page.path, index + 1);
        match (block_after(&lines[index + 1..]), read(path)) {
            (_, None) => findings.push(TidyFinding::new(place, format!("`{path}` does not exist"))),
            (None, _) => findings.push(TidyFinding::new(place, "a code block should follow")),
            (Some(shown), Some(text)) if shown != text.lines().collect::<Vec<_>>() => {
                findings.push(TidyFinding::new(place, format!("the code below is not that of `{path}`")));
            }
            (Some(_), Some(_)) => {}
        }
    }
    findings
}

/// The lines of the code block that starts here.
fn block_after<'a>(lines: &[&'a str]) -> Option<Vec<&'a str>> {
    let (fence, inside) = lines.split_first()?;
    if !fence.starts_with("```") {
        return None;
    }
    let end = inside.iter().position(|line| line.starts_with("```"))?;
    Some(inside[..end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str, expected: &str) {
        let page = RepositoryFile { path: "README.md".to_string(), text: text.to_string() };
        let found = check(&[page], |path| (path == "a.rs").then(|| "fn a() {}\n".to_string()));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn shown_code_is_the_code() {
        check_text("<!-- file: a.rs -->\n```rust\nfn a() {}\n```\n", "");
        check_text(
            "\n<!-- file: a.rs -->\n```rust\nfn b() {}\n```\n",
            "README.md:2: the code below is not that of `a.rs`",
        );
        check_text("<!-- file: a.rs -->\nNo code.\n", "README.md:1: a code block should follow");
        check_text("<!-- file: b.rs -->\n```\n```\n", "README.md:1: `b.rs` does not exist");
    }
}
