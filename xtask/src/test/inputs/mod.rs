//! What a job of the tests depends on, as one hash: the bytes of the programs it runs and of the files it reads, the
//! variables and tools that select its parts, and this program.
//!
//! A job is left out only if one with the same hash passed before. So it is better to name a file too many here than one
//! too few.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::programs::{TestProgram, eval_data};
use crate::command::root;

/// Files outside its own folder that the tests of a package read while they run. `""` is the whole repository.
const READ_ELSEWHERE: &[(&str, &[&str])] = &[
    ("agents", &["evals"]),
    (
        "cli",
        &[
            "README.md",
            "README.ko.md",
            "crates/agents/samples",
            "crates/llm/tests",
            "crates/server/openapi.json",
            "crates/server/src/routes",
            "crates/server/tests",
            "deploy",
            "docs",
            "evals",
            "examples",
        ],
    ),
    ("offline", &["evals"]),
    ("server", &["crates/cli/tests", "crates/retrieval", "docs", "evals", "examples"]),
    ("xtask", &[""]),
];

/// Variables that tests or the programs they start look at, besides those of Doran.
const VARIABLES: [&str; 11] = [
    "CHROMIUM",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "NODE_OPTIONS",
    "PATH",
    "PYTHON",
    "RUST_BACKTRACE",
    "RUST_TEST_THREADS",
    "TMPDIR",
    "TZ",
];

/// Tools that tests start if they are there. A newer one is another input.
const TOOLS: [&str; 15] = [
    "cc",
    "chromium",
    "chromium-browser",
    "curl",
    "google-chrome",
    "java",
    "mount",
    "node",
    "npm",
    "pg_ctl",
    "python3",
    "script",
    "sh",
    "systemd-analyze",
    "unshare",
];

/// What one job depends on.
#[derive(Clone, Debug, Default)]
pub struct JobInputs {
    /// Programs, by their path.
    pub programs: Vec<PathBuf>,
    /// Files and folders of the repository.
    pub folders: Vec<String>,
}

impl JobInputs {
    /// The inputs of a test program: itself, the programs of its package, its folder, and what it reads elsewhere.
    pub fn of_test_program(program: &TestProgram) -> Self {
        let folder = program.directory.strip_prefix(root()).unwrap_or(&program.directory);
        let folder = folder.to_string_lossy().replace('\\', "/");
        let mut programs = vec![program.executable.clone()];
        programs.extend(program.companions.iter().cloned());
        let elsewhere = read_elsewhere(folder.rsplit('/').next().unwrap_or_default());
        let folders = elsewhere.iter().map(|path| (*path).to_owned()).chain([folder]).collect();
        Self { programs, folders }
    }
}

fn read_elsewhere(folder: &str) -> &'static [&'static str] {
    READ_ELSEWHERE.iter().find(|(name, _)| *name == folder).map_or(&[], |(_, paths)| paths)
}

/// What all jobs depend on, and the hashes of the files of the repository. Read once for a run.
pub struct SharedInputs {
    common: Vec<u8>,
    /// Reads the hashes.
    list: fn() -> Result<BTreeMap<String, Vec<u8>>, String>,
    files: BTreeMap<String, Vec<u8>>,
}

impl SharedInputs {
    /// Nothing in common and no files.
    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self { common: Vec::new(), list: || Ok(BTreeMap::new()), files: BTreeMap::new() }
    }

    /// Reads them. Fails where a hash cannot say enough, such as outside a checkout of git.
    pub fn read() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|why| format!("this program is not found: {why}"))?;
        let mut common = Sha256::new();
        add(&mut common, &hash_file(&program)?);
        let variables = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
        for (name, value) in chosen_variables(variables) {
            add(&mut common, name.as_bytes());
            add(&mut common, value.as_bytes());
        }
        for line in machine() {
            add(&mut common, line.as_bytes());
        }
        for (path, hash) in parts()? {
            add(&mut common, path.as_bytes());
            add(&mut common, &hash);
        }
        let list = repository_files;
        Ok(Self { common: common.finalize().to_vec(), list, files: list()? })
    }

    /// The same, with what was changed in the meantime.
    pub fn read_again(&self) -> Result<Self, String> {
        Ok(Self { common: self.common.clone(), list: self.list, files: (self.list)()? })
    }

    /// The key of a job. It differs if a byte of an input differs, or if a file is added, removed or renamed.
    pub fn key(&self, name: &str, inputs: &JobInputs) -> Result<String, String> {
        let mut key = Sha256::new();
        add(&mut key, name.as_bytes());
        add(&mut key, &self.common);
        // Cargo names them in any order.
        for program in inputs.programs.iter().collect::<BTreeSet<_>>() {
            add(&mut key, &hash_file(program)?);
        }
        for (path, hash) in &self.files {
            if inputs.folders.iter().any(|folder| is_below(path, folder)) {
                add(&mut key, path.as_bytes());
                add(&mut key, hash);
            }
        }
        Ok(hex::encode(key.finalize()))
    }
}

/// Adds one part, with its length: two lists of parts never look alike.
fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The variables that count, in order.
fn chosen_variables(all: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let mut chosen: BTreeMap<String, String> = all
        .filter(|(name, _)| {
            VARIABLES.contains(&name.as_str())
                || name.starts_with("DORAN_")
                || name.starts_with("LC_")
                || name.to_lowercase().ends_with("_proxy")
        })
        .collect();
    // A server that `x` started for this run has another port and password each time. `x` says which version it is.
    if chosen.contains_key("DORAN_TEST_POSTGRES_VERSION") {
        chosen.remove("DORAN_TEST_POSTGRES");
    }
    chosen
}

/// The kernel, the user, and the tools in the search path.
fn machine() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let user = read("/proc/self/status").lines().find(|line| line.starts_with("Uid:")).map(str::to_owned);
    let mut lines =
        vec![std::env::consts::OS.to_owned(), read("/proc/sys/kernel/osrelease"), user.unwrap_or_default()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    for tool in TOOLS {
        let places = std::env::split_paths(&path).map(|folder| folder.join(tool));
        let found = places.filter_map(|place| place.canonicalize().ok()).find(|place| place.is_file());
        let changed = found.and_then(|place| {
            let facts = fs::metadata(&place).ok()?;
            Some(format!("{} {} {:?}", place.display(), facts.len(), facts.modified().ok()))
        });
        lines.push(format!("{tool} {changed:?}"));
    }
    lines
}

/// The stamps of the downloaded parts, and the evaluation sets.
fn parts() -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let folder = root().join(".parts");
    for part in fs::read_dir(&folder).into_iter().flatten().flatten() {
        for stamp in ["doran-stamp", "whole"] {
            let path = part.path().join(stamp);
            if path.is_file() {
                found.insert(path.to_string_lossy().into_owned(), hash_file(&path)?);
            }
        }
    }
    let sets = std::env::var_os("DORAN_EVAL_DATA").map(PathBuf::from).or(eval_data().map(|(_, path)| path));
    if let Some(sets) = sets {
        hash_folder(&sets, &mut found)?;
    }
    Ok(found)
}

fn hash_folder(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            hash_folder(&path, found)?;
        } else {
            found.insert(path.to_string_lossy().into_owned(), hash_file(&path)?);
        }
    }
    Ok(())
}

/// The hashes of all files that are tracked, or that are new and not ignored.
fn repository_files() -> Result<BTreeMap<String, Vec<u8>>, String> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root()).args(args).stderr(Stdio::null()).output();
    let output = output.map_err(|why| format!("git does not start: {why}"))?;
    if !output.status.success() {
        return Err("this is no checkout of git".to_owned());
    }
    let list = String::from_utf8(output.stdout).map_err(|why| format!("a path is no text: {why}"))?;
    hash_listed(&root(), list.split('\0').filter(|path| !path.is_empty()))
}

fn hash_listed<'a>(
    root: &Path,
    paths: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    for path in paths {
        let place = root.join(path);
        let hash = match fs::symlink_metadata(&place) {
            Ok(facts) if facts.is_symlink() => {
                let target = fs::read_link(&place).map_err(|why| format!("{path}: {why}"))?;
                target.to_string_lossy().into_owned().into_bytes()
            }
            Ok(facts) if facts.is_file() => hash_file(&place)?,
            // It is tracked, and deleted or replaced by a folder.
            _ => Vec::new(),
        };
        files.insert(path.to_owned(), hash);
    }
    Ok(files)
}

fn hash_file(path: &Path) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(hash.finalize().to_vec()),
                count => hash.update(&piece[..count]),
            }
        }
    };
    read().map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests;
