//! Checks that dependencies between crates point one way. Reads the manifests, not the code: a crate that is not in a
//! manifest cannot be used.

use super::{RepositoryFile, TidyFinding};

/// Which packages of the workspace each package may use, as drawn in ARCHITECTURE.md. No package may use `doran`, the
/// program.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "doran",
        &[
            "doran-agents",
            "doran-draw",
            "doran-engine",
            "doran-jail",
            "doran-llm",
            "doran-offline",
            "doran-retrieval",
            "doran-server",
            "doran-store",
        ],
    ),
    ("doran-server", &["doran-agents", "doran-draw", "doran-engine"]),
    ("doran-offline", &["doran-agents", "doran-encoder", "doran-llm", "doran-retrieval"]),
    ("doran-agents", &["doran-engine", "doran-jail", "doran-llm", "doran-retrieval"]),
    ("doran-retrieval", &["doran-encoder", "doran-jail", "doran-llm"]),
    ("doran-store", &["doran-engine"]),
    ("doran-torture", &["doran-agents", "doran-engine", "doran-llm", "doran-retrieval", "doran-store"]),
    ("doran-draw", &["doran-engine"]),
    ("doran-engine", &["doran-macros"]),
    ("doran-encoder", &[]),
    ("doran-jail", &[]),
    ("doran-llm", &[]),
    ("doran-macros", &[]),
    ("xtask", &[]),
    // A client that a benchmark measures next to Doran's. It is not part of the workspace.
    ("llm-peer", &[]),
];

/// Dependencies allowed only for tests, examples and benches. They are not part of a published crate.
const ALLOWED_DEV_DEPENDENCIES: &[(&str, &str)] = &[
    // An example of the engine uses SQLite.
    ("doran-engine", "doran-store"),
    // A derive macro is tested against the trait it implements.
    ("doran-macros", "doran-engine"),
    // Agents and routes are tested with a persistent store and a scripted model.
    ("doran-agents", "doran-store"),
    ("doran-server", "doran-llm"),
    // Both are tested with the built-in model, too.
    ("doran-agents", "doran-offline"),
    ("doran-server", "doran-offline"),
    ("doran-server", "doran-retrieval"),
    ("doran-server", "doran-store"),
];

/// Checks the dependencies between packages of the workspace.
pub fn check(manifests: &[RepositoryFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for file in manifests {
        let manifest = CargoManifest::read(&file.text);
        let Some(name) = manifest.name else { continue };
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(from, _)| *from == name) else {
            findings.push(TidyFinding::new(&file.path, format!("`{name}` has no place in the floor plan")));
            continue;
        };
        for edge in
            manifest.dependencies.iter().filter(|edge| is_workspace_package(&edge.to) && edge.to != name)
        {
            let in_tests = edge.kind == DependencyKind::Dev
                && ALLOWED_DEV_DEPENDENCIES.contains(&(name.as_str(), edge.to.as_str()));
            if !allowed.contains(&edge.to.as_str()) && !in_tests {
                let what = format!("`{name}` may not depend on `{}`", edge.to);
                findings.push(TidyFinding::new(format!("{}:{}", file.path, edge.line), what));
            }
        }
    }
    findings
}

fn is_workspace_package(package: &str) -> bool {
    ALLOWED_DEPENDENCIES.iter().any(|(name, _)| *name == package) || package.starts_with("doran-")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DependencyKind {
    Normal,
    Dev,
}

#[derive(Debug, PartialEq, Eq)]
struct DependencyEdge {
    to: String,
    kind: DependencyKind,
    line: usize,
}

/// The package name and the dependencies in a manifest.
#[derive(Debug, Default)]
struct CargoManifest {
    name: Option<String>,
    dependencies: Vec<DependencyEdge>,
}

impl CargoManifest {
    /// Parses the layouts cargo accepts: `a = …`, `a.workspace = true`, `[dependencies.a]`, target tables, renames.
    fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']').to_string();
                if let Some((kind, Some(name))) = dependency_table(&section) {
                    manifest.dependencies.push(DependencyEdge {
                        to: name.to_string(),
                        kind,
                        line: index + 1,
                    });
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if section == "package" && key == "name" {
                manifest.name = Some(value.trim_matches('"').to_string());
            }
            match dependency_table(&section) {
                Some((kind, None)) => {
                    let name = renamed_package(value).unwrap_or_else(|| key.split('.').next().unwrap_or(key));
                    manifest.dependencies.push(DependencyEdge {
                        to: name.trim_matches('"').to_string(),
                        kind,
                        line: index + 1,
                    });
                }
                Some((_, Some(_))) if key == "package" => {
                    if let Some(edge) = manifest.dependencies.last_mut() {
                        edge.to = value.trim_matches('"').to_string();
                    }
                }
                Some((_, Some(_))) | None => {}
            }
        }
        manifest
    }
}

/// The kind of a dependency table, with the package of a `[dependencies.package]` table.
fn dependency_table(section: &str) -> Option<(DependencyKind, Option<&str>)> {
    let tables = [
        ("dev-dependencies", DependencyKind::Dev),
        ("build-dependencies", DependencyKind::Normal),
        ("dependencies", DependencyKind::Normal),
    ];
    if section.starts_with("workspace") {
        return None;
    }
    for (table, kind) in tables {
        if section == table || (section.starts_with("target.") && section.ends_with(&format!(".{table}"))) {
            return Some((kind, None));
        }
        if let Some((before, name)) = section.split_once(&format!("{table}."))
            && (before.is_empty() || before.starts_with("target."))
        {
            return Some((kind, Some(name)));
        }
    }
    None
}

/// The package in `{ package = "…" }`.
fn renamed_package(value: &str) -> Option<&str> {
    value.split_once("package")?.1.trim_start().strip_prefix('=')?.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_edges(manifest: &str, expected: &str) {
        let manifest = CargoManifest::read(manifest);
        let edges = manifest.dependencies.iter().map(|edge| format!("{:?} {}", edge.kind, edge.to));
        assert_eq!(edges.collect::<Vec<_>>().join(", "), expected);
    }

    fn check_findings(name: &str, table: &str, expected: &str) {
        let text = format!("[package]\nname = \"{name}\"\n{table}");
        let found = check(&[RepositoryFile { path: "Cargo.toml".to_string(), text }]);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn every_layout_of_a_dependency_is_read() {
        check_edges(
            "[dependencies]\nserde.workspace = true # why\ntoml = \"1\"",
            "Normal serde, Normal toml",
        );
        check_edges(
            "[dependencies.a]\nversion = \"1\"\n[dev-dependencies.b]\npath = \".\"",
            "Normal a, Dev b",
        );
        check_edges("[build-dependencies]\na = \"1\"", "Normal a");
        check_edges("[target.'cfg(unix)'.dependencies]\na = \"1\"", "Normal a");
        check_edges("[target.'cfg(unix)'.dev-dependencies.a]\nversion = \"1\"", "Dev a");
        check_edges("[features]\na = []\n[workspace.dependencies]\nb = \"1\"", "");
    }

    #[test]
    fn a_rename_hides_nothing() {
        check_edges("[dependencies]\nnice = { package = \"doran-llm\", path = \"x\" }", "Normal doran-llm");
        check_edges("[dependencies.nice]\npackage = \"doran-llm\"", "Normal doran-llm");
    }

    #[test]
    fn the_wrong_way_is_found() {
        check_findings("doran-store", "[dependencies]\ndoran-engine.workspace = true", "");
        check_findings(
            "doran-engine",
            "[dependencies]\ndoran-llm.workspace = true",
            "Cargo.toml:4: `doran-engine` may not depend on `doran-llm`",
        );
        check_findings(
            "doran-server",
            "[dependencies]\ndoran = { path = \"../cli\" }",
            "Cargo.toml:4: `doran-server` may not depend on `doran`",
        );
    }

    #[test]
    fn tests_may_go_back_only_where_it_is_listed() {
        check_findings("doran-engine", "[dev-dependencies]\ndoran-store.workspace = true", "");
        check_findings(
            "doran-engine",
            "[dependencies]\ndoran-store.workspace = true",
            "Cargo.toml:4: `doran-engine` may not depend on `doran-store`",
        );
        check_findings(
            "doran-llm",
            "[dev-dependencies]\ndoran-engine.workspace = true",
            "Cargo.toml:4: `doran-llm` may not depend on `doran-engine`",
        );
    }

    #[test]
    fn a_new_crate_needs_a_place_in_the_plan() {
        check_findings("doran-utils", "", "Cargo.toml: `doran-utils` has no place in the floor plan");
    }
}
