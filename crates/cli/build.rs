//! Passes the target and the commit to `doran --version`.
//!
//! Only optimised builds name their commit. Others would be compiled again after every commit, or name an older one.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DORAN_COMMIT");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=DORAN_BUILD_TARGET={target}");
    println!("cargo::rustc-env=DORAN_BUILD_COMMIT={}", commit().unwrap_or_default());
}

/// Returns the commit: `DORAN_COMMIT`, for builds without a Git repository, or the current one.
fn commit() -> Option<String> {
    if let Ok(commit) = std::env::var("DORAN_COMMIT") {
        return Some(commit);
    }
    if std::env::var("PROFILE").ok()? != "release" {
        return None;
    }
    // Changes with every commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
