//! Formatting, lints and links in the documentation of the code. Warnings are errors here.

use crate::XtaskResult;
use crate::command::{cargo, run_cargo};
use crate::test::SHIPPED_FEATURES;

/// Runs all checks even if one fails, so that one run shows all findings.
pub fn run() -> XtaskResult {
    let format = run_cargo(&["fmt", "--all", "--check"]);
    // This feature adds no build time, so it is checked too.
    let features = format!("{SHIPPED_FEATURES},doran/sentence-transformer");
    let all = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--features",
        &features,
        "--",
        "-D",
        "warnings",
    ];
    let lints = run_cargo(&all);
    format.and(lints).and(check_doc_links(&features))
}

/// Documentation must not name items that do not exist.
fn check_doc_links(features: &str) -> XtaskResult {
    let args =
        ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked", "--features", features];
    eprintln!("$ cargo {}", args.join(" "));
    let flags = "-D rustdoc::broken_intra_doc_links -D rustdoc::private_intra_doc_links";
    let status = cargo(&args).env("RUSTDOCFLAGS", flags).status();
    let status = status.map_err(|why| format!("cargo does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err("the documentation of the code has broken links".to_owned()) }
}
