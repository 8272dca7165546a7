//! The rules of the repository: which crate may depend on which, how files and types are named, that every module has
//! a doc comment, that links and paths in the documents exist, that code excerpts match their files, that both
//! languages have the same pages and the Korean ones use the glossary, and which licences the dependencies have.
//!
//! Each rule is a module of plain functions from text to [`TidyFinding`]s. This module finds the files and prints the
//! findings.

mod code_excerpts;
mod crate_dependencies;
mod documented_paths;
mod file_sizes;
mod glossary;
mod licences;
mod links;
mod module_docs;
mod module_names;
mod translations;
mod type_names;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::XtaskResult;
use crate::command::{read_cargo, root};

/// A violated rule: where it is and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TidyFinding {
    /// The path relative to the root, with a line number if there is one.
    pub location: String,
    /// What is wrong.
    pub message: String,
}

impl TidyFinding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { location: place.into(), message: what.into() }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// A file of the repository.
pub struct RepositoryFile {
    /// The path relative to the root, with `/` on every platform.
    pub path: String,
    /// The content.
    pub text: String,
}

/// Checks every rule and lists the largest source files.
pub fn run() -> XtaskResult {
    let root = root();
    let manifests = read_all(&root, |path| path.ends_with("Cargo.toml"))?;
    let code = read_all(&root, |path| path.ends_with(".rs"))?;
    let pages = read_all(&root, |path| path.ends_with(".md"))?;
    let korean = read_all(&root, glossary::is_korean)?;
    let deny = fs::read_to_string(root.join("deny.toml")).map_err(|why| format!("deny.toml: {why}"))?;
    let tree = read_cargo(&[
        "tree",
        "--workspace",
        "--locked",
        "--all-features",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ])?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).map_err(|why| format!("Cargo.lock: {why}"))?;

    let mut findings = crate_dependencies::check(&manifests);
    findings.extend(module_docs::check(&code));
    findings.extend(module_names::check(&code));
    findings.extend(type_names::check(&code));
    findings.extend(links::check(&pages, |path| root.join(path).exists()));
    findings.extend(documented_paths::check(&pages, |path| root.join(path).exists()));
    findings.extend(code_excerpts::check(&pages, |path| fs::read_to_string(root.join(path)).ok()));
    findings.extend(translations::check(&pages));
    findings.extend(glossary::check(&korean));
    findings.extend(licences::check(&deny, &tree, &lock));

    for line in file_sizes::report(&code) {
        eprintln!("{line}");
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    if findings.is_empty() {
        eprintln!("tidy: ok");
        return Ok(());
    }
    Err(format!("tidy: {} to put right", findings.len()))
}

/// Reads the files below `root` that `wanted` selects, sorted by path.
fn read_all(root: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<RepositoryFile>, String> {
    let mut paths = Vec::new();
    walk(root, &mut paths).map_err(|why| format!("the repository cannot be read: {why}"))?;
    let mut files = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        if wanted(&name) {
            let text = fs::read_to_string(&path).map_err(|why| format!("{name}: {why}"))?;
            files.push(RepositoryFile { path: name, text });
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

/// The lines of a Markdown page with their numbers. Code blocks are left out, and `·` replaces code between back-ticks.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push((index + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("·")));
        }
    }
    lines
}

/// Directories without source files of this project.
const SKIPPED_DIRECTORIES: &[&str] = &["target", "node_modules", "dist"];

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !SKIPPED_DIRECTORIES.contains(&name.as_ref()) {
                walk(&entry.path(), found)?;
            }
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}
