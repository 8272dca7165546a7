//! Checks that links to files of this repository exist. External links are not followed.

use super::{RepositoryFile, TidyFinding, prose};

/// Checks the local links of every page. `exists` answers for a path relative to the root.
pub fn check(pages: &[RepositoryFile], exists: impl Fn(&str) -> bool) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for page in pages {
        for (line, target) in link_targets(&page.text) {
            if is_external(&target) {
                continue;
            }
            let path = target.split('#').next().unwrap_or_default();
            match resolve(&page.path, path) {
                Some(path) if exists(&path) => {}
                Some(_) | None => {
                    let place = format!("{}:{line}", page.path);
                    findings.push(TidyFinding::new(place, format!("link to `{target}` leads nowhere")));
                }
            }
        }
    }
    findings
}

fn is_external(target: &str) -> bool {
    target.starts_with('#') || target.contains("://") || target.starts_with("mailto:")
}

/// The link targets of a Markdown page, with their lines. Code is skipped.
fn link_targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            let target = target.split_whitespace().next().unwrap_or_default();
            found.push((number, target.trim_matches(['<', '>']).to_string()));
            rest = after;
        }
        if let Some((_, target)) = line.trim_start().strip_prefix('[').and_then(|line| line.split_once("]: "))
        {
            found.push((number, target.trim().to_string()));
        }
    }
    found
}

/// The path relative to the root that `target` refers to on the page `page`. `None` if it is outside the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_page(text: &str, expected: &str) {
        let page = RepositoryFile { path: "docs/src/a.md".to_string(), text: text.to_string() };
        let found = check(&[page], |path| ["docs/src/b.md", "README.md", "docs/adr"].contains(&path));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn a_link_is_read_from_where_the_page_lies() {
        check_page("[b](b.md), [readme](../../README.md#top) and [decisions](../adr/)", "");
        check_page("[c](c.md)", "docs/src/a.md:1: link to `c.md` leads nowhere");
        check_page("\n[out](../../../b.md)", "docs/src/a.md:2: link to `../../../b.md` leads nowhere");
        check_page("[absolute](/README.md)", "docs/src/a.md:1: link to `/README.md` leads nowhere");
    }

    #[test]
    fn references_and_titles_are_links_too() {
        check_page("[b]: b.md\n[c]: c.md", "docs/src/a.md:2: link to `c.md` leads nowhere");
        check_page(
            "![picture](b.md \"title\") [code `x`](c.md)",
            "docs/src/a.md:1: link to `c.md` leads nowhere",
        );
    }

    #[test]
    fn code_and_other_places_are_left_alone() {
        check_page("`[c](c.md)`\n```\n[c](c.md)\n```\n[w](https://example.org/c.md) [here](#part)", "");
    }
}
