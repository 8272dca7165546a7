//! The files that are generated from the routes of the server: `crates/server/openapi.json`, and the types and the client of
//! the page, `api-types.ts` and `api-client.ts` in `crates/server/ui/src`. Tests compare them with the routes. This task lets
//! those tests write them.

use crate::XtaskResult;
use crate::command::cargo;
use crate::test::SHIPPED_FEATURES;

/// Writes the generated files.
pub fn run() -> XtaskResult {
    // The package of the program is named too, so that the features are those of the other tests and nothing is compiled
    // again.
    let packages = ["--package", "doran", "--package", "doran-server", "--features", SHIPPED_FEATURES];
    let args = [&["test", "--quiet"], &packages[..], &["--test", "it", "generated_files"]].concat();
    eprintln!("$ UPDATE_EXPECT=1 cargo {}", args.join(" "));
    let status = cargo(&args).env("UPDATE_EXPECT", "1").status();
    let status = status.map_err(|why| format!("cargo does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err("openapi: the files cannot be generated".to_owned()) }
}
