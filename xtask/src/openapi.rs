//! The files that are generated from the routes of the server: `crates/server/openapi.json` and the types of the page in
//! `crates/server/ui/src/api-types.ts`. Tests compare them with the routes. This task lets those tests write them.

use crate::XtaskResult;
use crate::command::cargo;

/// Writes the generated files.
pub fn run() -> XtaskResult {
    let args = ["test", "--quiet", "--package", "doran-server", "--test", "it", "generated_files"];
    eprintln!("$ UPDATE_EXPECT=1 cargo {}", args.join(" "));
    let status = cargo(&args).env("UPDATE_EXPECT", "1").status();
    let status = status.map_err(|why| format!("cargo does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err("openapi: the files cannot be generated".to_owned()) }
}
