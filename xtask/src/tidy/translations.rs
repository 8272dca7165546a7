//! Checks that English and Korean pages correspond: the same pages, headings and code blocks.
//!
//! This finds a page that was changed in one language only. The wording is compared in review.

use super::{RepositoryFile, TidyFinding};

/// Checks README.md against README.ko.md, and each page of the book against its translation.
pub fn check(pages: &[RepositoryFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for page in pages {
        let Some(other) = translated_path(&page.path) else { continue };
        let Some(twin) = pages.iter().find(|twin| twin.path == other) else {
            findings.push(TidyFinding::new(&page.path, format!("`{other}` is missing")));
            continue;
        };
        if page.path > twin.path {
            continue;
        }
        let (ours, theirs) = (page_outline(&page.text), page_outline(&twin.text));
        if ours != theirs {
            let what = format!("{ours}, but `{other}` has {theirs}");
            findings.push(TidyFinding::new(&page.path, what));
        }
    }
    findings
}

fn translated_path(path: &str) -> Option<String> {
    match path {
        "README.md" => return Some("README.ko.md".to_string()),
        "README.ko.md" => return Some("README.md".to_string()),
        _ => {}
    }
    let inside = path.strip_prefix("docs/src/")?;
    match inside.split_once('/')? {
        ("en", page) => Some(format!("docs/src/ko/{page}")),
        ("ko", page) => Some(format!("docs/src/en/{page}")),
        _ => None,
    }
}

/// Describes the headings by depth and the code blocks of a page.
fn page_outline(text: &str) -> String {
    let mut headings = [0_usize; 6];
    let mut blocks = 0;
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            blocks += usize::from(!in_code);
            in_code = !in_code;
        } else if !in_code {
            let depth = line.bytes().take_while(|byte| *byte == b'#').count();
            if (1..=6).contains(&depth) && line.as_bytes().get(depth) == Some(&b' ') {
                headings[depth - 1] += 1;
            }
        }
    }
    let headings = headings.map(|count| count.to_string()).join("/");
    format!("{headings} headings and {blocks} code blocks")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_pair(english: &str, korean: &str, expected: &str) {
        let page = |path: &str, text: &str| RepositoryFile { path: path.to_string(), text: text.to_string() };
        let found = check(&[page("README.ko.md", korean), page("README.md", english)]);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn the_two_languages_have_the_same_shape() {
        check_pair("# A\n## B\n```sh\n# not a heading\n```\n", "# 가\n## 나\n```sh\n```\n", "");
        check_pair(
            "# A\n## B\n",
            "# 가\n### 나\n",
            "README.ko.md: 1/0/1/0/0/0 headings and 0 code blocks, but `README.md` has 1/1/0/0/0/0 headings and 0 code blocks",
        );
    }

    #[test]
    fn a_page_of_the_book_needs_its_other_half() {
        let page = RepositoryFile { path: "docs/src/en/start.md".to_string(), text: String::new() };
        assert_eq!(check(&[page])[0].to_string(), "docs/src/en/start.md: `docs/src/ko/start.md` is missing");
    }
}
