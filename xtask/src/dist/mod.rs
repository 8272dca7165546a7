//! Packages: static archives, a Debian package, a wheel and npm packages with the program, checksums and an SBOM, all in
//! `target/dist`.
//!
//! Linux programs are linked with musl and need nothing of the system they run on. `cargo-zigbuild` brings the C compiler
//! for every target: `pip install cargo-zigbuild ziglang`. The Rust toolchain brings the linker and musl.

mod debian;
mod npm;
mod package_files;
mod sbom;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use self::package_files::{PackageFile, tar_gz};
use crate::XtaskResult;
use crate::command::{read_cargo, root, run_cargo, target_directory};

/// A platform that packages are made for.
struct DistTarget {
    triple: &'static str,
    /// The architecture of a Debian package.
    debian: Option<&'static str>,
    /// The platforms of a wheel.
    wheel: &'static str,
    /// The platform of an npm package: system and processor.
    npm: (&'static str, &'static str),
}

const TARGETS: [DistTarget; 4] = [
    DistTarget {
        triple: "x86_64-unknown-linux-musl",
        debian: Some("amd64"),
        wheel: "manylinux2014_x86_64.musllinux_1_1_x86_64",
        npm: ("linux", "x64"),
    },
    DistTarget {
        triple: "aarch64-unknown-linux-musl",
        debian: Some("arm64"),
        wheel: "manylinux2014_aarch64.musllinux_1_1_aarch64",
        npm: ("linux", "arm64"),
    },
    DistTarget {
        triple: "x86_64-apple-darwin",
        debian: None,
        wheel: "macosx_10_12_x86_64",
        npm: ("darwin", "x64"),
    },
    DistTarget {
        triple: "aarch64-apple-darwin",
        debian: None,
        wheel: "macosx_11_0_arm64",
        npm: ("darwin", "arm64"),
    },
];

/// The profile of the program in packages.
const PROFILE: &str = "release-small";

/// How Linux programs are linked: by the linker of the Rust toolchain, with the musl of the target. Zig's linker can do neither
/// of the last two.
const LINUX_LINKING: [&str; 5] = [
    "-Clinker=rust-lld",
    "-Clinker-flavor=ld.lld",
    "-Clink-self-contained=yes",
    // One bit for each address that the start of the program adjusts, instead of 24 bytes.
    "-Clink-arg=--pack-dyn-relocs=relr",
    // Functions with the same code are kept once.
    "-Clink-arg=--icf=all",
];

/// What all packages of one target are made from.
struct DistContent {
    version: String,
    /// The time of the commit, so that the same sources make the same bytes.
    modified: u64,
    program: Vec<u8>,
    readme: String,
    /// Man pages, completions, licences and the like, by their place below `/usr/share`.
    shared: Vec<PackageFile>,
}

/// Makes the packages of the named targets, or of this machine. `--no-build` packs programs that are built already.
pub fn run(args: &[String]) -> XtaskResult {
    let (options, names): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.starts_with("--"));
    if let Some(unknown) = options.iter().find(|option| option.as_str() != "--no-build") {
        return Err(format!("dist: there is no option `{unknown}`"));
    }
    let targets = if names.is_empty() {
        vec![host_target()?]
    } else {
        names.iter().map(|name| find_target(name)).collect::<Result<_, _>>()?
    };
    let out = target_directory().join("dist");
    fs::create_dir_all(&out).map_err(|why| format!("{}: {why}", out.display()))?;
    let version = package_version()?;
    let modified = commit_time();
    for target in targets {
        if options.is_empty() {
            build(target)?;
        }
        let path = target_directory().join(target.triple).join(PROFILE).join("doran");
        let program = read(&path)?;
        let shared = shared_files(&path, &out)?;
        let readme = String::from_utf8_lossy(&read(&root().join("README.md"))?).into_owned();
        let content = DistContent { version: version.clone(), modified, program, readme, shared };
        write(&out, &format!("doran-{version}-{}.tar.gz", target.triple), &archive(target, &content)?)?;
        if let Some(architecture) = target.debian {
            let name = format!("doran_{version}_{architecture}.deb");
            write(&out, &name, &debian::package(architecture, &content)?)?;
        }
        let (name, bytes) = wheel::package(target.wheel, &content)?;
        write(&out, &name, &bytes)?;
        for (name, bytes) in npm::packages(target.npm, &content)? {
            write(&out, &name, &bytes)?;
        }
        let sbom = sbom::document(target.triple, &version)?;
        write(&out, &format!("doran-{version}-{}.cdx.json", target.triple), sbom.as_bytes())?;
    }
    write_checksums(&out)
}

fn host_target() -> Result<&'static DistTarget, String> {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    find_target(&format!("{}-{system}", std::env::consts::ARCH))
}

fn find_target(name: &str) -> Result<&'static DistTarget, String> {
    TARGETS.iter().find(|target| target.triple == name).ok_or_else(|| {
        let known = TARGETS.map(|target| target.triple).join(", ");
        format!("dist: there are no packages for `{name}`, only for {known}")
    })
}

fn build(target: &DistTarget) -> XtaskResult {
    let args = ["--profile", PROFILE, "--locked", "--target", target.triple, "--package", "doran"];
    let args = [&args[..], &["--features", "doran/python", "--bin", "doran"]].concat();
    if !target.triple.contains("linux") {
        return run_cargo(&[&["build"], &args[..]].concat());
    }
    // `cargo zigbuild` takes no arguments for the linker.
    let args = [&["rustc"], &args[..], &["--"], &LINUX_LINKING[..]].concat();
    eprintln!("$ cargo-zigbuild {}", args.join(" "));
    let status = Command::new("cargo-zigbuild").current_dir(root()).args(&args).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`cargo-zigbuild {}` failed", args.join(" "))),
        Err(why) => {
            Err(format!("cargo-zigbuild does not start: {why}; run `pip install cargo-zigbuild ziglang`"))
        }
    }
}

/// The version of the workspace.
fn package_version() -> Result<String, String> {
    let id = read_cargo(&["pkgid", "--offline", "--package", "doran"])?;
    id.trim().rsplit(['#', '@']).next().map(str::to_string).ok_or_else(|| format!("no version in `{id}`"))
}

/// Seconds since 1970. Without a Git repository it is 1980, the first year that a zip knows.
fn commit_time() -> u64 {
    const EARLIEST: u64 = 315_619_200;
    let log = Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]).output();
    let text = log.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.trim().parse().unwrap_or(EARLIEST)
}

/// Man pages, completions and licences. The program writes the former; one for another processor cannot be started, so
/// those of a program that was packed before are used.
fn shared_files(program: &Path, out: &Path) -> Result<Vec<PackageFile>, String> {
    let pages = out.join("share");
    let runs = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    if runs.is_ok_and(|status| status.success()) {
        fs::remove_dir_all(&pages).ok();
        for (folder, language) in [("man/man1", "en"), ("man/ko/man1", "ko")] {
            let folder = pages.join(folder);
            run_program(program, &["man", &folder.to_string_lossy(), "--lang", language])?;
        }
        for (shell, place) in [
            ("bash", "bash-completion/completions/doran"),
            ("zsh", "zsh/vendor-completions/_doran"),
            ("fish", "fish/vendor_completions.d/doran.fish"),
        ] {
            let text = run_program(program, &["completions", shell, "--lang", "en"])?;
            let path = pages.join(place);
            let written =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
            written.map_err(|why| format!("{}: {why}", path.display()))?;
        }
    } else if !pages.exists() {
        return Err(format!(
            "dist: {} does not run here, and there are no man pages yet; make the packages of this machine first",
            program.display()
        ));
    }
    let mut files = package_files::read_tree(&pages)?;
    for name in ["README.md", "README.ko.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        files.push(PackageFile::new(format!("doc/doran/{name}"), read(&root().join(name))?));
    }
    Ok(files)
}

fn run_program(program: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(program).args(args).stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("{} does not start: {why}", program.display()))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("`doran {}` failed", args.join(" ")))
    }
}

/// The plain archive: one directory with the program and everything that belongs to it.
fn archive(target: &DistTarget, content: &DistContent) -> Result<Vec<u8>, String> {
    let top = format!("doran-{}-{}", content.version, target.triple);
    let mut files = vec![PackageFile::program(format!("{top}/doran"), content.program.clone())];
    for file in &content.shared {
        let path = file
            .path
            .strip_prefix("doc/doran/")
            .map_or_else(|| format!("share/{}", file.path), str::to_string);
        files.push(PackageFile::new(format!("{top}/{path}"), file.content.clone()));
    }
    if target.debian.is_some() {
        let unit = read(&root().join("deploy/systemd/doran.service"))?;
        files.push(PackageFile::new(format!("{top}/share/systemd/doran.service"), unit));
    }
    tar_gz(&files, content.modified)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|why| format!("{}: {why}", path.display()))
}

fn write(out: &Path, name: &str, bytes: &[u8]) -> XtaskResult {
    let path = out.join(name);
    fs::write(&path, bytes).map_err(|why| format!("{}: {why}", path.display()))?;
    eprintln!("dist: {name} ({:.1} MB)", bytes.len() as f64 / 1e6);
    Ok(())
}

/// Writes `SHA256SUMS` of all packages, as `sha256sum --check` reads it.
fn write_checksums(out: &Path) -> XtaskResult {
    let entries = fs::read_dir(out).map_err(|why| format!("{}: {why}", out.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.is_file() && !path.ends_with("SHA256SUMS"));
    paths.sort();
    let mut lines = String::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lines.push_str(&format!("{}  {name}\n", hex::encode(Sha256::digest(read(&path)?))));
    }
    write(out, "SHA256SUMS", lines.as_bytes())
}
