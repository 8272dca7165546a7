//! Tasks of this repository: `cargo xtask check|tidy|deny|test|torture|bugs|openapi|ui|browser|ci|dist|capacity`.
//!
//! Each task is one file. It prints what it does on stderr and returns an `XtaskResult`.

mod browser;
mod bugs;
mod capacity;
mod check;
mod ci;
mod command;
mod deny;
mod dist;
mod openapi;
mod test;
mod tidy;
mod torture;
mod ui;

use std::process::ExitCode;

/// The result of a task. The error is a message for the user.
type XtaskResult = Result<(), String>;

const USAGE: &str = "\
cargo xtask check          format, lints and links in doc comments, as CI does
cargo xtask tidy           dependency direction, module docs, names, links, licences; lists the largest files
cargo xtask deny           licences, sources, bans and advisories with cargo-deny, when it is installed
cargo xtask test [ARGS]    cargo test, with the results of all test programs summed
cargo xtask torture        the short version of every torture
cargo xtask bugs [NAME]    one-line bugs in the engine and the stores, and whether tests notice each; takes long
cargo xtask openapi        the OpenAPI document and the types of the web page, generated anew
cargo xtask ui             the web page, built anew
cargo xtask ui --check     the web page type-checked, tested and compared with a new build
cargo xtask browser        the web page in Chromium, against the program; needs `cargo xtask ui --check` before
cargo xtask ci [--all]     check, tidy, deny, test, ui --check, browser and torture: what CI runs. Outside CI, what did not
                           change since it passed is left out, unless `--all` is given
cargo xtask dist [TARGET]  archives and packages of the program, with checksums, in target/dist
cargo xtask capacity       how many users a deployment holds, simulated from measured costs";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next();
    let rest: Vec<String> = args.collect();
    match (chore.as_deref(), rest.is_empty()) {
        (Some("check"), true) => exit_code(check::run()),
        (Some("tidy"), true) => exit_code(tidy::run()),
        (Some("deny"), true) => exit_code(deny::run()),
        (Some("test"), _) => test::run(&rest),
        (Some("torture"), true) => exit_code(torture::run()),
        (Some("bugs"), _) => exit_code(bugs::run(&rest)),
        (Some("openapi"), true) => exit_code(openapi::run()),
        (Some("ui"), true) => exit_code(ui::build()),
        (Some("ui"), false) if rest == ["--check"] => exit_code(ui::check()),
        (Some("browser"), true) => exit_code(browser::run()),
        (Some("ci"), true) => ci::run(false),
        (Some("ci"), false) if rest == ["--all"] => ci::run(true),
        (Some("capacity"), true) => exit_code(capacity::run()),
        (Some("dist"), _) => exit_code(dist::run(&rest)),
        _ => exit_code(Err(USAGE.to_string())),
    }
}

fn exit_code(outcome: XtaskResult) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
