//! The test programs of the workspace: building them, and the command that starts one as `cargo test` would.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::SHIPPED_FEATURES;
use crate::command::{cargo, root};

/// A program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BuiltProgram {
    package: String,
    version: String,
    directory: PathBuf,
    /// `lib`, `bin`, `test` or `example`.
    kind: String,
    target: String,
    is_test: bool,
    executable: PathBuf,
}

/// A test program.
#[derive(Clone, Debug)]
pub struct TestProgram {
    /// Such as `doran-store it` or `doran-store unit tests`.
    pub name: String,
    pub package: String,
    version: String,
    /// The folder of its package.
    pub directory: PathBuf,
    pub executable: PathBuf,
    /// The other programs and the examples of its package. It may start them.
    pub companions: Vec<PathBuf>,
}

impl TestProgram {
    /// A program without a package.
    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self {
            name: String::new(),
            package: String::new(),
            version: String::new(),
            directory: PathBuf::new(),
            executable: PathBuf::new(),
            companions: Vec::new(),
        }
    }

    /// A command that runs its tests, with the folder and the variables that `cargo test` sets.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .env("CARGO_MANIFEST_PATH", self.directory.join("Cargo.toml"))
            .env("CARGO_PKG_NAME", &self.package)
            .env("CARGO_PKG_VERSION", &self.version)
            .envs(eval_data())
            .arg("--show-output");
        command
    }
}

/// The directory of the evaluation sets, which are not part of the repository. By default it is next to the
/// repository.
pub fn eval_data() -> Option<(&'static str, PathBuf)> {
    let beside = root().parent()?.join("shared").join("data");
    (std::env::var_os("DORAN_EVAL_DATA").is_none() && beside.is_dir()).then_some(("DORAN_EVAL_DATA", beside))
}

/// Builds all tests of the workspace and lists their programs.
pub fn build() -> Result<Vec<TestProgram>, String> {
    let args = ["test", "--no-run", "--locked", "--workspace", "--features", SHIPPED_FEATURES];
    eprintln!("$ cargo {}", args.join(" "));
    let mut child = cargo(&args)
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("cargo does not start: {why}"))?;
    let mut built = Vec::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(|why| format!("what cargo says cannot be read: {why}"))?;
        built.extend(parse_artifact(&line));
    }
    let status = child.wait().map_err(|why| format!("cargo did not end: {why}"))?;
    if !status.success() {
        return Err("a test did not build".to_owned());
    }
    Ok(test_programs(&built))
}

fn test_programs(built: &[BuiltProgram]) -> Vec<TestProgram> {
    let tests = built.iter().filter(|program| program.is_test);
    tests
        .map(|program| {
            let companions = built
                .iter()
                .filter(|other| !other.is_test && other.package == program.package)
                .map(|other| other.executable.clone());
            let target = match program.kind.as_str() {
                "test" => program.target.clone(),
                "bin" if program.target != program.package => format!("unit tests of {}", program.target),
                _ => "unit tests".to_owned(),
            };
            TestProgram {
                name: format!("{} {target}", program.package),
                package: program.package.clone(),
                version: program.version.clone(),
                directory: program.directory.clone(),
                executable: program.executable.clone(),
                companions: companions.collect(),
            }
        })
        .collect()
}

/// Reads a message of cargo about a program that it built or that was there already.
fn parse_artifact(line: &str) -> Option<BuiltProgram> {
    if !line.starts_with(r#"{"reason":"compiler-artifact""#) {
        return None;
    }
    let executable = PathBuf::from(text_after(line, r#""executable":"#)?);
    let (package, version) = parse_package_id(&text_after(line, r#""package_id":"#)?)?;
    let manifest = text_after(line, r#""manifest_path":"#)?;
    let target = line.split_once(r#""target":{"#)?.1;
    let profile = line.split_once(r#""profile":{"#)?.1.split_once('}')?.0;
    Some(BuiltProgram {
        package,
        version,
        directory: Path::new(&manifest).parent()?.to_path_buf(),
        kind: text_after(target, r#""kind":["#)?,
        target: text_after(target, r#""name":"#)?,
        is_test: profile.contains(r#""test":true"#),
        executable,
    })
}

/// Name and version in `path+file:///repository/crates/cli#doran@0.1.0` or `path+file:///repository/xtask#0.1.0`.
fn parse_package_id(id: &str) -> Option<(String, String)> {
    let (place, rest) = id.rsplit_once('#')?;
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, version),
        None => (place.rsplit('/').next()?, rest),
    };
    Some((name.to_owned(), version.to_owned()))
}

/// The JSON text that follows the first `before`. None if something else follows.
fn text_after(json: &str, before: &str) -> Option<String> {
    let mut chars = json.split_once(before)?.1.strip_prefix('"')?.chars();
    let mut text = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            // Paths have no other escapes than those of `\` and `"`.
            '\\' => text.push(chars.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IT: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///r/crates/cli#doran@0.1.0","manifest_path":"/r/crates/cli/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"it","src_path":"/r/crates/cli/tests/it/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":"line-tables-only","debug_assertions":true,"overflow_checks":true,"test":true},"features":["python"],"filenames":["/r/target/debug/deps/it-1"],"executable":"/r/target/debug/deps/it-1","fresh":false}"#;

    fn program(kind: &str, name: &str, is_test: bool) -> String {
        IT.replace(r#"["test"]"#, &format!(r#"["{kind}"]"#))
            .replace(r#""name":"it""#, &format!(r#""name":"{name}""#))
            .replace(r#"true},"features""#, &format!(r#"{is_test}}},"features""#))
            .replace("it-1", &format!("{name}-{is_test}"))
    }

    #[test]
    fn a_test_program_knows_its_package_and_what_it_may_start() {
        let lines = [
            IT.to_owned(),
            program("bin", "doran", true),
            program("bin", "doran", false),
            program("bin", "helper", true),
            IT.replace(r#""executable":"/r/target/debug/deps/it-1""#, r#""executable":null"#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let built: Vec<BuiltProgram> = lines.iter().filter_map(|line| parse_artifact(line)).collect();
        let found = test_programs(&built);
        let names: Vec<&str> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["doran it", "doran unit tests", "doran unit tests of helper"]);
        assert_eq!(found[0].companions, [PathBuf::from("/r/target/debug/deps/doran-false")]);
        assert_eq!(
            (found[0].version.as_str(), found[0].directory.as_path()),
            ("0.1.0", Path::new("/r/crates/cli"))
        );
    }

    #[test]
    fn a_package_that_is_named_like_its_folder_has_a_short_id() {
        let id = parse_package_id("path+file:///r/xtask#0.1.0");
        assert_eq!(id, Some(("xtask".to_owned(), "0.1.0".to_owned())));
    }

    #[test]
    fn quotes_and_backslashes_in_paths_are_read() {
        assert_eq!(text_after(r#"{"a":"C:\\x\"y"}"#, r#""a":"#).as_deref(), Some("C:\\x\"y"));
        assert_eq!(text_after(r#"{"a":null}"#, r#""a":"#), None);
    }
}
