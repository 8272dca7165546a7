//! The Debian package: the program, a systemd unit, settings, man pages and completions.

use std::fs;

use super::package_files::{PackageFile, ar, gzip, tar_gz};
use super::{DistContent, read};
use crate::command::root;

/// Returns the package for this architecture.
pub fn package(architecture: &str, content: &DistContent) -> Result<Vec<u8>, String> {
    let deploy = root().join("deploy");
    let mut files = vec![
        PackageFile::new("./etc/doran/doran.toml", read(&deploy.join("debian/doran.toml"))?),
        PackageFile::program("./usr/bin/doran", content.program.clone()),
        PackageFile::new(
            "./usr/lib/systemd/system/doran.service",
            read(&deploy.join("systemd/doran.service"))?,
        ),
    ];
    for file in &content.shared {
        // The policy of Debian wants man pages packed, and the licences in one file.
        if file.path.starts_with("man/") {
            files.push(PackageFile::new(format!("./usr/share/{}.gz", file.path), gzip(&file.content)?));
        } else if !file.path.contains("LICENSE") {
            files.push(PackageFile::new(format!("./usr/share/{}", file.path), file.content.clone()));
        }
    }
    let mut licences =
        b"Doran may be used under the MIT licence or under the Apache licence 2.0.\n\n".to_vec();
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        licences.extend(read(&root().join(name))?);
    }
    files.push(PackageFile::new("./usr/share/doc/doran/copyright", licences));

    let installed = files.iter().map(|file| file.content.len().div_ceil(1024)).sum::<usize>();
    let mut control = vec![
        PackageFile::new("./control", control_file(architecture, &content.version, installed)),
        PackageFile::new("./conffiles", "/etc/doran/doran.toml\n"),
    ];
    for script in ["postinst", "prerm", "postrm"] {
        let path = deploy.join("debian").join(script);
        let text = fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        control.push(PackageFile::program(format!("./{script}"), text));
    }
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tar_gz(&control, content.modified)?),
        ("data.tar.gz", tar_gz(&files, content.modified)?),
    ];
    Ok(ar(&parts, content.modified))
}

fn control_file(architecture: &str, version: &str, installed: usize) -> String {
    format!(
        "Package: doran
Version: {version}
Architecture: {architecture}
Maintainer: The Doran authors <doran@localhost>
Installed-Size: {installed}
Depends: passwd
Recommends: ca-certificates
Suggests: postgresql, postgresql-client
Section: net
Priority: optional
Description: durable chat agents in one program
 Doran runs chat agents that never lose or repeat a step: a graph engine, agents,
 tools, search in Korean and English documents, an HTTP server, a web page and a
 terminal. `systemctl enable --now doran` starts the server.
"
    )
}
