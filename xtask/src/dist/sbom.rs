//! The list of everything that is compiled into the program (SBOM), in the JSON format of CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::command::{read_cargo, root};

/// Returns the document for a target.
pub fn document(triple: &str, version: &str) -> Result<String, String> {
    let tree = read_cargo(&[
        "tree",
        "--locked",
        "--package",
        "doran",
        "--features",
        "doran/python",
        "--target",
        triple,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}|{r}",
    ])?;
    let lock = root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|why| format!("{}: {why}", lock.display()))?;
    Ok(render(&tree, &checksums(&lock), version))
}

/// The SHA-256 of each package in `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |key: &str| {
            let value = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            value.map(|value| value.trim_end_matches('"').to_string())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

/// `tree` has a line `NAME vVERSION (REMARK)|LICENCE|REPOSITORY` for each package, some several times.
fn render(tree: &str, checksums: &BTreeMap<(String, String), String>, version: &str) -> String {
    let mut components = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let mut fields = line.trim_end_matches(" (*)").split('|');
        let (package, licence, repository) = (fields.next(), fields.next(), fields.next());
        let mut words = package.unwrap_or_default().split_whitespace();
        let name = words.next().unwrap_or_default();
        let number = words.next().unwrap_or_default().trim_start_matches('v');
        if name == "doran" {
            continue;
        }
        let purl = format!("pkg:cargo/{name}@{number}");
        let mut component = format!(
            r#"{{ "type": "library", "bom-ref": "{purl}", "name": "{name}", "version": "{number}", "purl": "{purl}""#
        );
        // An old way to write `OR`, which is no SPDX expression.
        if let Some(licence) = licence.filter(|licence| !licence.is_empty()) {
            let expression = licence.replace('/', " OR ").replace("  ", " ");
            component.push_str(&format!(r#", "licenses": [{{ "expression": "{expression}" }}]"#));
        }
        if let Some(hash) = checksums.get(&(name.to_string(), number.to_string())) {
            component.push_str(&format!(r#", "hashes": [{{ "alg": "SHA-256", "content": "{hash}" }}]"#));
        }
        if let Some(repository) = repository.filter(|url| url.starts_with("https://") && !url.contains('"')) {
            component.push_str(&format!(
                r#", "externalReferences": [{{ "type": "vcs", "url": "{}" }}]"#,
                repository.trim_end_matches(" (*)")
            ));
        }
        components.insert(component + " }");
    }
    let components = components.into_iter().collect::<Vec<_>>().join(",\n    ");
    format!(
        r#"{{
  "bomFormat": "CycloneDX",
  "specVersion": "1.5",
  "version": 1,
  "metadata": {{
    "component": {{ "type": "application", "bom-ref": "doran", "name": "doran", "version": "{version}", "licenses": [{{ "expression": "MIT OR Apache-2.0" }}] }}
  }},
  "components": [
    {components}
  ]
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_listed_once_with_licence_and_checksum() {
        let lock = "version = 4\n\n[[package]]\nname = \"hex\"\nversion = \"0.4.3\"\nsource = \"registry\"\nchecksum = \"abc\"\n";
        let tree = "doran v0.1.0 (/x/crates/cli)|MIT|\nhex v0.4.3|MIT/Apache-2.0|https://example.com/hex\nserde v1.0.0|MIT OR Apache-2.0|\nhex v0.4.3|MIT/Apache-2.0|https://example.com/hex (*)\n";
        let text = render(tree, &checksums(lock), "0.1.0");
        let expected = r#"{ "type": "library", "bom-ref": "pkg:cargo/hex@0.4.3", "name": "hex", "version": "0.4.3", "purl": "pkg:cargo/hex@0.4.3", "licenses": [{ "expression": "MIT OR Apache-2.0" }], "hashes": [{ "alg": "SHA-256", "content": "abc" }], "externalReferences": [{ "type": "vcs", "url": "https://example.com/hex" }] }"#;
        assert_eq!(text.matches(expected).count(), 1, "{text}");
        assert_eq!(text.matches("bom-ref").count(), 3, "{text}");
    }
}
