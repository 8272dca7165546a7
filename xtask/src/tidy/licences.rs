//! Checks licences and sources of dependencies against the lists in `deny.toml`, without cargo-deny.

use super::TidyFinding;

const CRATES_IO_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks all dependencies. `tree` is the output of `cargo tree --format "{p}|{l}"`, `lock` the text of Cargo.lock.
pub fn check(deny: &str, tree: &str, lock: &str) -> Vec<TidyFinding> {
    let allowed = allow_list(deny);
    let mut packages: Vec<(&str, &str)> = tree.lines().filter_map(|line| line.split_once('|')).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut findings = Vec::new();
    for (package, licence) in packages {
        let licence = licence.trim_end_matches(" (*)");
        if !is_allowed(licence, &allowed) {
            findings
                .push(TidyFinding::new(package, format!("licence `{licence}` is not allowed by deny.toml")));
        }
    }
    for (index, line) in lock.lines().enumerate() {
        if let Some(source) = line.strip_prefix("source = ").map(|source| source.trim_matches('"'))
            && source != CRATES_IO_SOURCE
        {
            findings.push(TidyFinding::new(
                format!("Cargo.lock:{}", index + 1),
                format!("comes from `{source}`"),
            ));
        }
    }
    findings
}

/// The strings of the `allow` list in the section `[licenses]`.
fn allow_list(deny: &str) -> Vec<&str> {
    let section = deny.split("[licenses]").nth(1).unwrap_or_default();
    let list = section.split("allow = [").nth(1).unwrap_or_default().split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Whether allowed licences satisfy a licence expression: one side of an `OR`, both sides of an `AND`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = expression.split_whitespace().collect();
    let mut at = 0;
    let answer = parse_or(&tokens, &mut at, allowed);
    answer && at == tokens.len()
}

fn parse_or(tokens: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut answer = parse_and(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        answer |= parse_and(tokens, at, allowed);
    }
    answer
}

fn parse_and(tokens: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let mut answer = parse_licence(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        answer &= parse_licence(tokens, at, allowed);
    }
    answer
}

fn parse_licence(tokens: &[&str], at: &mut usize, allowed: &[&str]) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let answer = parse_or(tokens, at, allowed);
        *at += 1;
        return answer;
    }
    let mut licence = (*token).to_string();
    if tokens.get(*at) == Some(&"WITH") {
        licence = format!("{token} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&licence.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_by_one_or_by_all() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        let check = |expression: &str, expected: bool| {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        };
        check("MIT", true);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0 OR MIT", true);
        check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
        check("MIT AND GPL-3.0", false);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("MIT WITH LLVM-exception", false);
        check("GPL-3.0", false);
        check("", false);
        check("MIT MIT", false);
    }

    #[test]
    fn a_foreign_licence_and_a_foreign_source_are_found() {
        let deny = "[advisories]\n[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\n[bans]\n";
        let tree = "a v1.0.0|MIT\na v1.0.0|MIT (*)\nb v1.0.0|AGPL-3.0";
        let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\nsource = \"git+https://example.org/c\"";
        let found = check(deny, tree, lock);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            "b v1.0.0: licence `AGPL-3.0` is not allowed by deny.toml\nCargo.lock:2: comes from `git+https://example.org/c`"
        );
    }
}
