//! Who may read what lies in the data directory, and to whom it belongs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The bits of a mode by which others than the owner get in.
const OTHERS: u32 = 0o077;
/// The bit of a directory that many users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

pub(super) fn exposed_paths(directory: &Path) -> Vec<PathBuf> {
    let mut exposed = Vec::new();
    // The directory may be a link; what lies in it is not followed anywhere.
    if mode_of(fs::metadata(directory)).is_some_and(|mode| mode & OTHERS != 0 && mode & STICKY == 0) {
        exposed.push(directory.to_owned());
    }
    for path in children(directory).into_iter().filter(|path| is_ours(path)) {
        collect_exposed(path, &mut exposed);
    }
    exposed
}

pub(super) fn is_exposed(path: &Path) -> bool {
    mode_of(fs::symlink_metadata(path)).is_some_and(|mode| mode & OTHERS != 0)
}

/// Nobody gets into a directory that is its owner's, so what is inside is not looked at.
fn collect_exposed(path: PathBuf, exposed: &mut Vec<PathBuf>) {
    if !is_exposed(&path) {
        return;
    }
    let inside = children(&path);
    exposed.push(path);
    inside.into_iter().for_each(|path| collect_exposed(path, exposed));
}

pub(super) fn make_private(path: &Path) -> std::io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS))
}

pub(super) fn is_of_another_user(path: &Path) -> bool {
    let own = rustix::process::geteuid();
    !own.is_root() && fs::metadata(path).is_ok_and(|about| about.is_dir() && about.uid() != own.as_raw())
}

/// What root writes in the directory of another user belongs to that user, or the service of that user could not read
/// it.
pub(super) fn give_to_owner_of_directory(file: &fs::File, path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let directory = fs::metadata(parent.unwrap_or(Path::new(".")))?;
    let own = file.metadata()?;
    if (directory.uid(), directory.gid()) == (own.uid(), own.gid()) || directory.uid() == 0 {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(directory.uid()), Some(directory.gid()))
}

fn mode_of(about: std::io::Result<fs::Metadata>) -> Option<u32> {
    let about = about.ok()?;
    (about.is_dir() || about.is_file()).then(|| about.permissions().mode())
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let is_directory =
        fs::symlink_metadata(directory).is_ok_and(|about| about.is_dir() || about.is_symlink());
    let entries = is_directory.then(|| fs::read_dir(directory).ok()).flatten();
    let mut paths: Vec<PathBuf> =
        entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn is_ours(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).and_then(super::classify_entry).is_some()
}
