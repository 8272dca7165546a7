//! Opening what lies beneath a directory, and nothing else.
//!
//! The kernel resolves the path (`openat2`) from a directory that was opened at start, and refuses to leave it: by `..`,
//! by a symbolic link or by a mount. A file with a second name (a hard link) is refused too: the other name may lie
//! outside. Directories of the kernel (`/proc`, `/sys`) cannot be opened at all. There is no check before the opening that could be true then and false later.
//! What was opened is looked at through its own handle. A kernel that cannot do this gets no weaker way.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, statat};
use rustix::io::Errno;

/// The most entries of a directory that are listed.
const MAX_DIRECTORY_ENTRIES: usize = 500;
/// The longest path.
const MAX_PATH_BYTES: usize = 4096;

/// A directory whose inside may be read.
#[derive(Debug)]
pub(super) struct ConfinedDirectory {
    directory: OwnedFd,
}

/// Why something cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenRefusal {
    /// The path leads out, or goes through a link.
    LeadsOut,
    NotThere,
    /// Neither a file nor a directory.
    NotAFile,
    /// Too long, or with a zero in it.
    BadPath,
    NotPermitted,
    /// The kernel cannot keep a path beneath a directory.
    Kernel,
    Broken,
}

/// What was opened.
pub(super) enum OpenedPath {
    File { file: File, size: u64 },
    Directory(OwnedFd),
}

/// An entry of a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    pub(super) name: String,
    pub(super) directory: bool,
    pub(super) size: u64,
}

impl ConfinedDirectory {
    pub(super) fn open(root: &Path) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(root, flags, Mode::empty())?;
        if is_kernel_directory(&directory)? {
            return Err(std::io::Error::other("it shows the kernel and other processes, not files"));
        }
        Ok(Self { directory })
    }

    /// Opens what is at `path` beneath the directory; the empty path is the directory itself.
    pub(super) fn open_path(&self, path: &str) -> Result<OpenedPath, OpenRefusal> {
        if path.contains('\0') || path.len() > MAX_PATH_BYTES {
            return Err(OpenRefusal::BadPath);
        }
        let path = if path.is_empty() { "." } else { path };
        let opened = open_beneath(&self.directory, path).map_err(refusal_from_errno)?;
        let about = fstat(&opened).map_err(refusal_from_errno)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile if has_other_names(&about) => Err(OpenRefusal::LeadsOut),
            FileType::RegularFile => Ok(OpenedPath::File {
                file: File::from(opened),
                size: u64::try_from(about.st_size).unwrap_or(0),
            }),
            FileType::Directory => Ok(OpenedPath::Directory(opened)),
            _ => Err(OpenRefusal::NotAFile),
        }
    }
}

/// Whether a file has another name, which may be anywhere on its file system.
fn has_other_names(about: &rustix::fs::Stat) -> bool {
    about.st_nlink > 1
}

/// Whether this is a directory of `proc` or `sysfs`.
#[cfg(target_os = "linux")]
fn is_kernel_directory(directory: &OwnedFd) -> std::io::Result<bool> {
    const KERNEL_FILE_SYSTEMS: [u32; 2] = [0x9fa0, 0x6265_6572];
    // The type's width differs between platforms. All values fit in 32 bits.
    Ok(KERNEL_FILE_SYSTEMS.contains(&(rustix::fs::fstatfs(directory)?.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_kernel_directory(_directory: &OwnedFd) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
fn open_beneath(directory: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    // Without `O_NONBLOCK` the opening of a pipe would wait for somebody to write to it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_directory: &OwnedFd, _path: &str) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}

/// The beginning of a file, at most `most` bytes; the size it claims is not believed.
pub(super) fn read_prefix(file: File, max_bytes: usize) -> Result<Vec<u8>, OpenRefusal> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes).map_err(|_| OpenRefusal::Broken)?;
    Ok(bytes)
}

/// The files and directories in a directory, by name, and whether there are more. Links and devices are left out, as
/// they cannot be read.
pub(super) fn list_directory(directory: &OwnedFd) -> Result<(Vec<DirectoryEntry>, bool), OpenRefusal> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory).map_err(refusal_from_errno)? {
        let entry = entry.map_err(refusal_from_errno)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let about = statat(directory, entry.file_name(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        let Ok(about) = about else { continue };
        let directory = match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile if has_other_names(&about) => continue,
            FileType::RegularFile => false,
            FileType::Directory => true,
            _ => continue,
        };
        if entries.len() == MAX_DIRECTORY_ENTRIES {
            entries.sort_by(|a: &DirectoryEntry, b: &DirectoryEntry| a.name.cmp(&b.name));
            return Ok((entries, true));
        }
        entries.push(DirectoryEntry { name, directory, size: u64::try_from(about.st_size).unwrap_or(0) });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((entries, false))
}

fn refusal_from_errno(error: Errno) -> OpenRefusal {
    match error {
        Errno::XDEV | Errno::LOOP => OpenRefusal::LeadsOut,
        Errno::NOENT | Errno::NOTDIR => OpenRefusal::NotThere,
        Errno::NAMETOOLONG | Errno::INVAL => OpenRefusal::BadPath,
        Errno::ACCESS | Errno::PERM => OpenRefusal::NotPermitted,
        Errno::NOSYS => OpenRefusal::Kernel,
        Errno::NXIO | Errno::NODEV | Errno::WOULDBLOCK => OpenRefusal::NotAFile,
        _ => OpenRefusal::Broken,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    /// Openings while a directory and a link that leads out change places as fast as they can.
    const RACES: u32 = 100_000;

    #[test]
    fn no_race_between_looking_and_opening_leads_out() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        for folder in ["root", "root/swap", "outside"] {
            std::fs::create_dir(path(folder)).expect("a directory");
        }
        std::fs::write(path("root/swap/passwd"), "fine").expect("a file");
        std::fs::write(path("outside/passwd"), "secret").expect("a file");
        std::os::unix::fs::symlink(path("outside"), path("root/door")).expect("a link");
        let swap = || renameat_with(CWD, path("root/swap"), CWD, path("root/door"), RenameFlags::EXCHANGE);
        if swap().is_err() {
            println!(
                "SKIPPED: this file system cannot exchange two names / 이 파일 시스템은 두 이름을 맞바꿀 수 없음"
            );
            return;
        }
        let beneath = ConfinedDirectory::open(&path("root")).expect("open");
        let stop = AtomicBool::new(false);
        let (mut fine, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            let swaps = scope.spawn(|| {
                let mut swaps = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    swap().expect("swapped");
                    swaps += 1;
                }
                swaps
            });
            for _ in 0..RACES {
                match beneath.open_path("swap/passwd") {
                    Ok(OpenedPath::File { file, .. }) => {
                        assert_eq!(read_prefix(file, 100).expect("read"), b"fine");
                        fine += 1;
                    }
                    Ok(OpenedPath::Directory(_)) => panic!("a file became a directory"),
                    Err(OpenRefusal::LeadsOut | OpenRefusal::NotThere | OpenRefusal::Broken) => refused += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
            println!("{fine} opened, {refused} refused, {} swaps", swaps.join().expect("the swapper"));
        });
        assert!(fine > 0 && refused > 0, "{fine} opened, {refused} refused: nothing was raced");
    }
}
