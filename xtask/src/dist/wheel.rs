//! The wheel: `uvx doran`, `pipx install doran` and `pip install doran` put the program on the path.

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{DateTime, ZipWriter};

use super::DistContent;
use super::package_files::PackageFile;

/// Returns the name and the bytes of the wheel for these platforms.
pub fn package(platforms: &str, content: &DistContent) -> Result<(String, Vec<u8>), String> {
    let version = &content.version;
    let info = format!("doran-{version}.dist-info");
    let tags: String = platforms.split('.').map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    let mut files = vec![
        // What is in `scripts` is installed on the path as it is.
        PackageFile::program(format!("doran-{version}.data/scripts/doran"), content.program.clone()),
        PackageFile::new(format!("{info}/METADATA"), metadata(content)),
        PackageFile::new(
            format!("{info}/WHEEL"),
            format!("Wheel-Version: 1.0\nGenerator: doran\nRoot-Is-Purelib: false\n{tags}"),
        ),
    ];
    for file in content.shared.iter().filter(|file| file.path.contains("LICENSE")) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        files.push(PackageFile::new(format!("{info}/licenses/{name}"), file.content.clone()));
    }
    let record = format!("{info}/RECORD");
    let mut lines = String::new();
    for file in &files {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&file.content));
        lines.push_str(&format!("{},sha256={hash},{}\n", file.path, file.content.len()));
    }
    lines.push_str(&format!("{record},,\n"));
    files.push(PackageFile::new(record, lines));
    let bytes = zip(&files).map_err(|why| format!("cannot pack the wheel: {why}"))?;
    Ok((format!("doran-{version}-py3-none-{platforms}.whl"), bytes))
}

fn metadata(content: &DistContent) -> String {
    format!(
        "Metadata-Version: 2.4
Name: doran
Version: {}
Summary: Durable chat agents in one program
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{}",
        content.version, content.readme
    )
}

fn zip(files: &[PackageFile]) -> zip::result::ZipResult<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let options = SimpleFileOptions::default()
            .unix_permissions(0o100_000 | file.mode)
            .last_modified_time(DateTime::default());
        archive.start_file(&file.path, options)?;
        archive.write_all(&file.content)?;
    }
    Ok(archive.finish()?.into_inner())
}
