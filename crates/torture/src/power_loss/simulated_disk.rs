//! A disk that loses power: what is sure to be on it, and what may be.
//!
//! A write is sure once a sync of its file that began after it has ended. Until then any part of it may be there, in
//! pieces of a sector, whatever became of the writes before and after it. A name is sure once its folder is synced;
//! names change in order.

use std::collections::{BTreeMap, HashMap};

use crate::power_loss::io_trace::{SyncTarget, TraceRecord};
use crate::seeded_rng::SeededRng;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

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

/// The files of a disk image, by name.
pub type DiskImage = BTreeMap<String, Vec<u8>>;

/// The disk.
#[derive(Default)]
pub struct SimulatedDisk {
    files: Vec<SimulatedFile>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: PendingQueue<NameChange>,
    /// Syncs under way, with what they cover when they end.
    syncs: HashMap<usize, (Option<usize>, usize)>,
}

#[derive(Default)]
struct SimulatedFile {
    durable: Vec<u8>,
    pending: PendingQueue<FileChange>,
}

/// Changes that are not sure yet, with how many are.
struct PendingQueue<T> {
    durable: usize,
    changes: Vec<T>,
}

impl<T> Default for PendingQueue<T> {
    fn default() -> Self {
        Self { durable: 0, changes: Vec::new() }
    }
}

impl<T> PendingQueue<T> {
    fn total(&self) -> usize {
        self.durable + self.changes.len()
    }

    /// Takes the changes up to the given total: they are sure now.
    fn take_until(&mut self, total: usize) -> std::vec::Drain<'_, T> {
        let count = total.saturating_sub(self.durable);
        self.durable += count;
        self.changes.drain(..count)
    }
}

enum FileChange {
    Write { at: usize, bytes: Vec<u8> },
    SetLength(usize),
}

enum NameChange {
    Create(String, usize),
    Remove(String),
    Rename(String, String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create(name, file) => drop(names.insert(name.clone(), *file)),
            Self::Remove(name) => drop(names.remove(name)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
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

impl SimulatedDisk {
    /// Does what a process did.
    pub fn apply(&mut self, record: &TraceRecord) {
        match record {
            TraceRecord::ProcessStarted => self.syncs.clear(),
            TraceRecord::Write { file, at, bytes } => {
                let change = FileChange::Write { at: *at, bytes: bytes.clone() };
                self.file(file).pending.changes.push(change);
            }
            TraceRecord::SetLength { file, length } => {
                self.file(file).pending.changes.push(FileChange::SetLength(*length));
            }
            TraceRecord::SyncStarted { number, target } => {
                let covered = match target {
                    SyncTarget::Folder => (None, self.name_changes.total()),
                    SyncTarget::File(name) => match self.names.get(name) {
                        Some(file) => (Some(*file), self.files[*file].pending.total()),
                        None => return,
                    },
                };
                self.syncs.insert(*number, covered);
            }
            TraceRecord::SyncEnded { number } => match self.syncs.remove(number) {
                Some((None, total)) => {
                    for change in self.name_changes.take_until(total) {
                        change.apply(&mut self.durable_names);
                    }
                }
                Some((Some(file), total)) => {
                    let SimulatedFile { durable, pending } = &mut self.files[file];
                    for change in pending.take_until(total) {
                        change.apply(durable);
                    }
                }
                None => {}
            },
            TraceRecord::Unlink { file } => self.change_name(NameChange::Remove(file.clone())),
            TraceRecord::Rename { from, to } => {
                self.change_name(NameChange::Rename(from.clone(), to.clone()));
            }
            TraceRecord::Heard(_) | TraceRecord::Said(_) => {}
        }
    }

    /// A file, which the first write makes.
    fn file(&mut self, name: &str) -> &mut SimulatedFile {
        let file = match self.names.get(name) {
            Some(file) => *file,
            None => {
                let file = self.files.len();
                self.files.push(SimulatedFile::default());
                self.change_name(NameChange::Create(name.to_owned(), file));
                file
            }
        };
        &mut self.files[file]
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.changes.push(change);
    }

    /// Whether anything is there that a power failure may take.
    pub fn has_unsynced_writes(&self) -> bool {
        !self.name_changes.changes.is_empty()
            || self.files.iter().any(|file| !file.pending.changes.is_empty())
    }

    /// What may be found after a power failure now.
    pub fn image(&self, unsynced: UnsyncedWrites, rng: &mut SeededRng) -> DiskImage {
        let mut names = self.durable_names.clone();
        let changes = &self.name_changes.changes;
        let survivors = match unsynced {
            UnsyncedWrites::Kept => changes.len(),
            UnsyncedWrites::Dropped => 0,
            _ => usize::try_from(rng.below(changes.len() as u64 + 1)).unwrap_or_default(),
        };
        for change in &changes[..survivors] {
            change.apply(&mut names);
        }
        names.into_iter().map(|(name, file)| (name, self.files[file].content(unsynced, rng))).collect()
    }
}

impl SimulatedFile {
    fn content(&self, unsynced: UnsyncedWrites, rng: &mut SeededRng) -> Vec<u8> {
        let mut content = self.durable.clone();
        let changes = &self.pending.changes;
        let cut = usize::try_from(rng.below(changes.len() as u64 + 1)).unwrap_or_default();
        for (place, change) in changes.iter().enumerate() {
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

    fn write(at: usize, letter: u8, count: usize) -> TraceRecord {
        TraceRecord::Write { file: "f".into(), at, bytes: vec![letter; count] }
    }

    fn sync(disk: &mut SimulatedDisk, number: usize, target: SyncTarget) {
        disk.apply(&TraceRecord::SyncStarted { number, target });
        disk.apply(&TraceRecord::SyncEnded { number });
    }

    fn file() -> SyncTarget {
        SyncTarget::File("f".into())
    }

    fn image(disk: &SimulatedDisk, unsynced: UnsyncedWrites) -> Option<String> {
        let image = disk.image(unsynced, &mut SeededRng::new(7));
        image.get("f").map(|content| String::from_utf8_lossy(content).into_owned())
    }

    #[test]
    fn what_was_not_synced_may_be_gone_and_what_was_is_there() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write(0, b'a', 3));
        assert_eq!(image(&disk, UnsyncedWrites::Dropped), None, "not even the name is sure");
        sync(&mut disk, 1, file());
        sync(&mut disk, 2, SyncTarget::Folder);
        assert!(!disk.has_unsynced_writes());
        disk.apply(&write(1, b'b', 3));
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some("aaa"));
        assert_eq!(image(&disk, UnsyncedWrites::Kept).as_deref(), Some("abbb"));
    }

    #[test]
    fn a_sync_covers_what_was_written_before_it_began() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write(0, b'a', 1));
        sync(&mut disk, 1, SyncTarget::Folder);
        disk.apply(&TraceRecord::SyncStarted { number: 2, target: file() });
        disk.apply(&write(1, b'b', 1));
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some(""), "it has not ended");
        disk.apply(&TraceRecord::SyncEnded { number: 2 });
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some("a"));
    }

    #[test]
    fn a_torn_write_leaves_whole_sectors() {
        let mut disk = SimulatedDisk::default();
        disk.apply(&write(0, b'a', 4096));
        sync(&mut disk, 1, file());
        sync(&mut disk, 2, SyncTarget::Folder);
        disk.apply(&write(100, b'b', 3000));
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
        disk.apply(&write(0, b'a', 1));
        sync(&mut disk, 1, file());
        sync(&mut disk, 2, SyncTarget::Folder);
        disk.apply(&TraceRecord::Unlink { file: "f".into() });
        assert_eq!(image(&disk, UnsyncedWrites::Dropped).as_deref(), Some("a"));
        assert_eq!(image(&disk, UnsyncedWrites::Kept), None);
    }
}
