//! A disk that loses power: what is sure to be on it, and what may be.
//!
//! A write is sure once a sync of its file that began after it has ended. Until then any part of it may be there, in
//! pieces of a sector, whatever became of the writes before and after it. A name is sure once its folder is synced. The
//! names of one folder change in order; what one folder keeps says nothing about another.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::power_loss::io_trace::{DiskOperation, SyncTarget};
use crate::seeded_rng::SeededRng;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// The folder that everything is in.
const ROOT: usize = 0;

/// What becomes of the writes that no sync covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsyncedWrites {
    /// All are there, as after a kill.
    Kept,
    /// None is there.
    Dropped,
    /// Some are there, whatever their order was.
    SomeKept,
    /// Of each some sectors are there.
    Torn,
    /// The first ones are there, and some sectors of the next.
    CutOff,
}

pub const UNSYNCED_WRITES: [UnsyncedWrites; 5] = [
    UnsyncedWrites::Kept,
    UnsyncedWrites::Dropped,
    UnsyncedWrites::SomeKept,
    UnsyncedWrites::Torn,
    UnsyncedWrites::CutOff,
];

/// What a disk holds: files with their content and folders, by their paths.
#[derive(Debug, Default)]
pub struct DiskImage(BTreeMap<String, Option<Vec<u8>>>);

impl DiskImage {
    /// Makes a folder that holds this and nothing else.
    pub fn write_to(&self, folder: &Path) -> std::io::Result<()> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir(folder)?;
        // A folder comes before what is in it.
        self.0.iter().try_for_each(|(path, content)| match content {
            Some(content) => std::fs::write(folder.join(path), content),
            None => std::fs::create_dir(folder.join(path)),
        })
    }
}

/// The disk.
pub struct SimulatedDisk {
    nodes: Vec<DiskNode>,
    /// Syncs under way: what they are for, and how many of its changes they cover.
    syncs: HashMap<usize, (usize, usize)>,
}

/// A file or a folder. It keeps its place when it is renamed or removed.
enum DiskNode {
    File(PendingQueue<FileChange, Vec<u8>>),
    Folder { names: Names, kept: PendingQueue<NameChange, Names> },
}

type Names = BTreeMap<String, usize>;

/// What is sure, and changes to it that are not.
struct PendingQueue<T, D> {
    durable: D,
    durable_changes: usize,
    changes: Vec<T>,
}

impl<T, D: Default> Default for PendingQueue<T, D> {
    fn default() -> Self {
        Self { durable: D::default(), durable_changes: 0, changes: Vec::new() }
    }
}

impl<T, D> PendingQueue<T, D> {
    fn total(&self) -> usize {
        self.durable_changes + self.changes.len()
    }

    /// The changes up to the given total are sure now.
    fn settle(&mut self, total: usize, apply: impl Fn(&T, &mut D)) {
        let count = total.saturating_sub(self.durable_changes);
        self.durable_changes += count;
        for change in self.changes.drain(..count) {
            apply(&change, &mut self.durable);
        }
    }
}

enum FileChange {
    Write { at: usize, bytes: Vec<u8> },
    SetLength(usize),
}

enum NameChange {
    Add(String, usize),
    Remove(String),
    Rename(String, String),
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Add(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Remove(name) => drop(names.remove(name)),
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

impl FileChange {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => write_at(content, *at, bytes),
            Self::SetLength(length) => content.resize(*length, 0),
        }
    }

    /// Some sectors of it.
    fn apply_torn(&self, content: &mut Vec<u8>, rng: &mut SeededRng) {
        match self {
            Self::Write { at, bytes } => {
                let mut done = 0;
                while done < bytes.len() {
                    let end = ((at + done) / SECTOR_BYTES + 1) * SECTOR_BYTES - at;
                    let end = end.min(bytes.len());
                    if rng.chance_percent(50) {
                        write_at(content, at + done, &bytes[done..end]);
                    }
                    done = end;
                }
            }
            Self::SetLength(_) if rng.chance_percent(50) => self.apply(content),
            Self::SetLength(_) => {}
        }
    }
}

fn write_at(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self { nodes: vec![DiskNode::new_folder()], syncs: HashMap::new() }
    }
}

impl DiskNode {
    fn new_folder() -> Self {
        Self::Folder { names: Names::new(), kept: PendingQueue::default() }
    }
}

impl SimulatedDisk {
    /// The process that synced is gone.
    pub fn forget_syncs(&mut self) {
        self.syncs.clear();
    }

    /// Does what a process did.
    pub fn apply(&mut self, operation: &DiskOperation) {
        match operation {
            DiskOperation::Write { file, at, bytes } => {
                self.change_file(file, FileChange::Write { at: *at, bytes: bytes.clone() });
            }
            DiskOperation::SetLength { file, length } => {
                self.change_file(file, FileChange::SetLength(*length));
            }
            DiskOperation::SyncStarted { number, target } => {
                let (SyncTarget::File(path) | SyncTarget::Folder(path)) = target;
                if let Some(node) = self.find(path) {
                    let total = match &self.nodes[node] {
                        DiskNode::File(content) => content.total(),
                        DiskNode::Folder { kept, .. } => kept.total(),
                    };
                    self.syncs.insert(*number, (node, total));
                }
            }
            DiskOperation::SyncEnded { number } => {
                if let Some((node, total)) = self.syncs.remove(number) {
                    match &mut self.nodes[node] {
                        DiskNode::File(content) => content.settle(total, FileChange::apply),
                        DiskNode::Folder { kept, .. } => kept.settle(total, NameChange::apply),
                    }
                }
            }
            DiskOperation::Remove { path } => {
                let (folder, name) = split_path(path);
                self.change_name(folder, NameChange::Remove(name.to_owned()));
            }
            DiskOperation::MakeFolder { path } => self.add(path, DiskNode::new_folder()),
            DiskOperation::Rename { from, to } => {
                let (folder, from) = split_path(from);
                self.change_name(folder, NameChange::Rename(from.to_owned(), split_path(to).1.to_owned()));
            }
        }
    }

    /// Changes a file, which the first change makes.
    fn change_file(&mut self, path: &str, change: FileChange) {
        if self.find(path).is_none() {
            self.add(path, DiskNode::File(PendingQueue::default()));
        }
        if let Some(node) = self.find(path)
            && let DiskNode::File(content) = &mut self.nodes[node]
        {
            content.changes.push(change);
        }
    }

    fn add(&mut self, path: &str, node: DiskNode) {
        let (folder, name) = split_path(path);
        self.nodes.push(node);
        self.change_name(folder, NameChange::Add(name.to_owned(), self.nodes.len() - 1));
    }

    fn change_name(&mut self, folder: &str, change: NameChange) {
        if let Some(folder) = self.find(folder)
            && let DiskNode::Folder { names, kept } = &mut self.nodes[folder]
        {
            change.apply(names);
            kept.changes.push(change);
        }
    }

    /// The file or folder that has this path now.
    fn find(&self, path: &str) -> Option<usize> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |folder, name| {
            match &self.nodes[folder] {
                DiskNode::Folder { names, .. } => names.get(name).copied(),
                DiskNode::File(_) => None,
            }
        })
    }

    /// Whether anything is there that a power failure may take.
    pub fn has_unsynced_writes(&self) -> bool {
        self.nodes.iter().any(|node| match node {
            DiskNode::File(content) => !content.changes.is_empty(),
            DiskNode::Folder { kept, .. } => !kept.changes.is_empty(),
        })
    }

    /// What may be found after a power failure now.
    pub fn image(&self, unsynced: UnsyncedWrites, rng: &mut SeededRng) -> DiskImage {
        let mut image = DiskImage::default();
        self.add_to_image(&mut image, ROOT, "", unsynced, rng);
        image
    }

    fn add_to_image(
        &self,
        image: &mut DiskImage,
        node: usize,
        path: &str,
        unsynced: UnsyncedWrites,
        rng: &mut SeededRng,
    ) {
        match &self.nodes[node] {
            DiskNode::File(file) => drop(image.0.insert(path.to_owned(), Some(file.content(unsynced, rng)))),
            DiskNode::Folder { kept, .. } => {
                if !path.is_empty() {
                    image.0.insert(path.to_owned(), None);
                }
                for (name, node) in kept.surviving_names(unsynced, rng) {
                    let path = if path.is_empty() { name } else { format!("{path}/{name}") };
                    self.add_to_image(image, node, &path, unsynced, rng);
                }
            }
        }
    }
}

/// A path as its folder and its name.
fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl PendingQueue<NameChange, Names> {
    fn surviving_names(&self, unsynced: UnsyncedWrites, rng: &mut SeededRng) -> Names {
        let mut names = self.durable.clone();
        let survivors = match unsynced {
            UnsyncedWrites::Kept => self.changes.len(),
            UnsyncedWrites::Dropped => 0,
            _ => usize::try_from(rng.below(self.changes.len() as u64 + 1)).unwrap_or_default(),
        };
        self.changes[..survivors].iter().for_each(|change| change.apply(&mut names));
        names
    }
}

impl PendingQueue<FileChange, Vec<u8>> {
    fn content(&self, unsynced: UnsyncedWrites, rng: &mut SeededRng) -> Vec<u8> {
        let mut content = self.durable.clone();
        let cut = usize::try_from(rng.below(self.changes.len() as u64 + 1)).unwrap_or_default();
        for (place, change) in self.changes.iter().enumerate() {
            match unsynced {
                UnsyncedWrites::Kept => change.apply(&mut content),
                UnsyncedWrites::Dropped => {}
                UnsyncedWrites::SomeKept if rng.chance_percent(50) => change.apply(&mut content),
                UnsyncedWrites::SomeKept => {}
                UnsyncedWrites::Torn => change.apply_torn(&mut content, rng),
                UnsyncedWrites::CutOff if place < cut => change.apply(&mut content),
                UnsyncedWrites::CutOff if place == cut => change.apply_torn(&mut content, rng),
                UnsyncedWrites::CutOff => {}
            }
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &str, at: usize, letter: u8, count: usize) -> DiskOperation {
        DiskOperation::Write { file: file.into(), at, bytes: vec![letter; count] }
    }

    fn sync(disk: &mut SimulatedDisk, number: usize, target: SyncTarget) {
        disk.apply(&DiskOperation::SyncStarted { number, target });
        disk.apply(&DiskOperation::SyncEnded { number });
    }

    fn file() -> SyncTarget {
        SyncTarget::File("f".into())
    }

    fn root() -> SyncTarget {
        SyncTarget::Folder(String::new())
    }

    fn content(disk: &SimulatedDisk, unsynced: UnsyncedWrites, path: &str) -> Option<String> {
        let image = disk.image(unsynced, &mut SeededRng::new(7));
        let content = image.0.get(path)?.as_deref().unwrap_or(b"a folder");
        Some(String::from_utf8_lossy(content).into_owned())
    }

    fn image(disk: &SimulatedDisk, unsynced: UnsyncedWrites) -> Option<String> {
        content(disk, unsynced, "f")
    }

    #[test]
    fn what_was_not_synced_may_be_gone_and_what_was_is_there() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write("f", 0, b'a', 3));
        assert_eq!(image(&disk, UnsyncedWrites::Dropped), None, "not even the name is sure");
        sync(&mut disk, 1, file());
        sync(&mut disk, 2, root());
        assert!(!disk.has_unsynced_writes());
        disk.apply(&write("f", 1, b'b', 3));
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some("aaa"));
        assert_eq!(image(&disk, UnsyncedWrites::Kept).as_deref(), Some("abbb"));
    }

    #[test]
    fn a_sync_covers_what_was_written_before_it_began() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write("f", 0, b'a', 1));
        sync(&mut disk, 1, root());
        disk.apply(&DiskOperation::SyncStarted { number: 2, target: file() });
        disk.apply(&write("f", 1, b'b', 1));
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some(""), "it has not ended");
        disk.apply(&DiskOperation::SyncEnded { number: 2 });
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some("a"));
    }

    #[test]
    fn a_torn_write_leaves_whole_sectors() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write("f", 0, b'a', 4096));
        sync(&mut disk, 1, file());
        sync(&mut disk, 2, root());
        disk.apply(&write("f", 100, b'b', 3000));
        let torn = image(&disk, UnsyncedWrites::Torn).expect("a file");
        let sectors: Vec<&str> = (0..8).map(|n| &torn[n * 512..(n + 1) * 512]).collect();
        let of = |letter: char| sectors.iter().filter(|sector| sector.ends_with(letter)).count();
        assert_eq!(of('a') + of('b'), 8);
        assert!(of('b') > 0 && of('b') < 7, "{}", of('b'));
        assert!(sectors[1..6].iter().all(|sector| sector.chars().all(|letter| sector.starts_with(letter))));
    }

    #[test]
    fn an_unlinked_file_may_still_be_there() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write("f", 0, b'a', 1));
        sync(&mut disk, 1, file());
        sync(&mut disk, 2, root());
        disk.apply(&DiskOperation::Remove { path: "f".into() });
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some("a"));
        assert_eq!(image(&disk, UnsyncedWrites::Kept), None);
    }

    #[test]
    fn a_rename_is_sure_once_its_own_folder_is_synced() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&DiskOperation::MakeFolder { path: "d".into() });
        disk.apply(&write("d/new", 0, b'a', 1));
        sync(&mut disk, 1, SyncTarget::File("d/new".into()));
        disk.apply(&DiskOperation::Rename { from: "d/new".into(), to: "d/f".into() });
        sync(&mut disk, 2, root());
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d").as_deref(), Some("a folder"));
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d/f"), None, "another folder was synced");
        sync(&mut disk, 3, SyncTarget::Folder("d".into()));
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d/f").as_deref(), Some("a"));
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d/new"), None);
    }

    #[test]
    fn a_folder_that_is_made_again_is_another_one() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&DiskOperation::MakeFolder { path: "d".into() });
        disk.apply(&write("d/f", 0, b'a', 1));
        sync(&mut disk, 1, SyncTarget::File("d/f".into()));
        sync(&mut disk, 2, SyncTarget::Folder("d".into()));
        sync(&mut disk, 3, root());
        for path in ["d/f", "d"] {
            disk.apply(&DiskOperation::Remove { path: path.into() });
        }
        disk.apply(&DiskOperation::MakeFolder { path: "d".into() });
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d/f").as_deref(), Some("a"), "nothing is sure");
        sync(&mut disk, 4, root());
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d").as_deref(), Some("a folder"));
        assert_eq!(content(&disk, UnsyncedWrites::Dropped, "d/f"), None);
    }
}
