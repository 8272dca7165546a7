//! Files of a package, and the formats that packages are packed in. Equal content gives equal bytes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};

/// A file of a package.
pub struct PackageFile {
    /// Relative, with `/`.
    pub path: String,
    /// The permissions.
    pub mode: u32,
    pub content: Vec<u8>,
}

impl PackageFile {
    /// A file that everybody may read.
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, content: content.into() }
    }

    /// A file that everybody may run.
    pub fn program(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::new(path, content) }
    }
}

/// The files below a directory, sorted.
pub fn read_tree(directory: &Path) -> Result<Vec<PackageFile>, String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let inside = read_tree(&path)?;
            found.extend(
                inside.into_iter().map(|file| PackageFile { path: format!("{name}/{}", file.path), ..file }),
            );
        } else {
            found.push(PackageFile::new(name, fs::read(&path).map_err(wrong)?));
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

/// A compressed tar with these files and the directories they are in. All belong to root.
pub fn tar_gz(files: &[PackageFile], modified: u64) -> Result<Vec<u8>, String> {
    let mut tar = Vec::new();
    let mut directories = BTreeSet::new();
    for file in files {
        let parents = file.path.match_indices('/').map(|(at, _)| &file.path[..=at]);
        for parent in parents.filter(|parent| *parent != "./") {
            if directories.insert(parent) {
                tar.extend(tar_header(parent, 0o755, 0, modified, b'5')?);
            }
        }
        tar.extend(tar_header(&file.path, file.mode, file.content.len(), modified, b'0')?);
        tar.extend(&file.content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    gzip(&tar)
}

pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    packed.write_all(bytes).and_then(|()| packed.finish()).map_err(|why| why.to_string())
}

/// The header of an entry in the format `ustar`.
fn tar_header(path: &str, mode: u32, bytes: usize, modified: u64, kind: u8) -> Result<[u8; 512], String> {
    if path.len() > 100 {
        return Err(format!("`{path}` is too long for a tar"));
    }
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{bytes:011o}"));
    put(136, &format!("{modified:011o}"));
    put(148, "        ");
    put(257, "ustar\u{0}00");
    put(265, "root");
    put(297, "root");
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\u{0} ").as_bytes());
    Ok(header)
}

/// An archive in the format of `ar`, which a Debian package is.
pub fn ar(files: &[(&str, Vec<u8>)], modified: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, content) in files {
        let length = content.len();
        archive.extend(
            format!("{name:<16}{modified:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, "100644").into_bytes(),
        );
        archive.extend(content);
        if length % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tar_is_read_by_the_program_of_that_name() {
        let files = [
            PackageFile::program("top/doran", "binary"),
            PackageFile::new("top/share/man/doran.1", vec![b'x'; 600]),
        ];
        let path = std::env::temp_dir().join(format!("doran-dist-{}.tar.gz", std::process::id()));
        fs::write(&path, tar_gz(&files, 1_000_000_000).expect("packed")).expect("written");
        let list =
            std::process::Command::new("tar").arg("-tvzf").arg(&path).env("TZ", "UTC").output().expect("tar");
        fs::remove_file(&path).ok();
        let text = String::from_utf8(list.stdout).expect("text");
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
        let found: Vec<(&str, &str)> =
            lines.iter().map(|line| (&line[..10], line.rsplit(' ').next().unwrap_or_default())).collect();
        let expected = [
            ("drwxr-xr-x", "top/"),
            ("-rwxr-xr-x", "top/doran"),
            ("drwxr-xr-x", "top/share/"),
            ("drwxr-xr-x", "top/share/man/"),
            ("-rw-r--r--", "top/share/man/doran.1"),
        ];
        assert_eq!(found, expected);
        assert!(tar_gz(&[PackageFile::new("x".repeat(101), "")], 0).is_err());
    }

    #[test]
    fn an_ar_pads_odd_lengths() {
        let archive = ar(&[("debian-binary", b"2.0".to_vec()), ("b", Vec::new())], 7);
        let text = String::from_utf8(archive).expect("text");
        let expected = "!<arch>\ndebian-binary   7           0     0     100644  3         `\n2.0\nb               7           0     0     100644  0         `\n";
        assert_eq!(text, expected);
    }
}
