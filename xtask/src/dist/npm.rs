//! The npm packages: one for each platform with the program, and `doran`, which starts the one of this platform.
//! `npx doran` fetches both.

use super::package_files::{PackageFile, tar_gz};
use super::{DistContent, TARGETS, read};
use crate::command::root;

/// Returns the names and the bytes of the package for a platform and of `doran`.
pub fn packages(platform: (&str, &str), content: &DistContent) -> Result<[(String, Vec<u8>); 2], String> {
    let version = &content.version;
    let (system, processor) = platform;
    let name = format!("doran-{system}-{processor}");
    let common = format!(r#""version": "{version}", "license": "(MIT OR Apache-2.0)""#);
    let manifest = format!(
        r#"{{ "name": "{name}", {common}, "description": "Doran for {system} {processor}", "os": ["{system}"], "cpu": ["{processor}"], "files": ["doran"] }}"#
    );
    let carrier = with_licences(
        content,
        vec![
            PackageFile::new("package/package.json", manifest),
            PackageFile::program("package/doran", content.program.clone()),
        ],
    );
    let platforms: Vec<String> = TARGETS
        .iter()
        .map(|target| format!(r#""doran-{}-{}": "{version}""#, target.npm.0, target.npm.1))
        .collect();
    let manifest = format!(
        r#"{{ "name": "doran", {common}, "description": "Durable chat agents in one program", "bin": {{ "doran": "doran.js" }}, "files": ["doran.js"], "engines": {{ "node": ">=18" }}, "optionalDependencies": {{ {} }} }}"#,
        platforms.join(", ")
    );
    let starter = with_licences(
        content,
        vec![
            PackageFile::new("package/package.json", manifest),
            PackageFile::program("package/doran.js", read(&root().join("deploy/npm/doran.js"))?),
            PackageFile::new("package/README.md", content.readme.clone()),
        ],
    );
    Ok([
        (format!("{name}-{version}.tgz"), tar_gz(&carrier, content.modified)?),
        (format!("doran-{version}.tgz"), tar_gz(&starter, content.modified)?),
    ])
}

fn with_licences(content: &DistContent, mut files: Vec<PackageFile>) -> Vec<PackageFile> {
    for file in content.shared.iter().filter(|file| file.path.contains("LICENSE")) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        files.push(PackageFile::new(format!("package/{name}"), file.content.clone()));
    }
    files
}
