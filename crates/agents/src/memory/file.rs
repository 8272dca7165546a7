//! Memories in a log file.
//!
//! Every change is one line, `checksum json`, written and synced before it is acknowledged. A line that a crash left
//! half written at the end was never acknowledged and is cut off at the next start; a broken line anywhere else is
//! damage, and is reported rather than skipped. When most of the log is history it is written anew beside the old one and
//! takes its place by a rename. What was forgotten is then gone from the disk too. One process has the log at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ram::FactsByOwner;
use super::{MemoryError, MemoryFact, MemoryOwner, MemoryStore};

/// The log is written anew when it has so many lines more than facts.
const MAX_STALE_LOG_LINES: usize = 200;

/// Facts that survive the process.
#[derive(Clone, Debug)]
pub struct FileMemoryStore {
    inner: Arc<Mutex<MemoryLog>>,
}

#[derive(Debug)]
struct MemoryLog {
    path: PathBuf,
    log: File,
    /// Held for as long as the log is in use; its own file, since the log is replaced.
    _lock: File,
    facts: FactsByOwner,
    lines: usize,
    /// Bytes of the log that were acknowledged.
    bytes: u64,
    /// A write failed: what lies behind the acknowledged bytes is not known.
    broken: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum MemoryLogLine {
    Keep { owner: MemoryOwner, fact: MemoryFact },
    Forget { owner: MemoryOwner, id: String },
}

impl FileMemoryStore {
    /// Opens the log at `path`, or begins one.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MemoryError> {
        let path = path.into();
        let lock = private_file().truncate(false).open(path.with_extension("lock"))?;
        acquire_lock(&lock)?;
        let mut log = private_file().truncate(false).open(&path)?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        let (facts, lines, whole) = replay_log(&bytes)?;
        if whole < bytes.len() {
            log.set_len(whole as u64)?;
        }
        // A process that was killed may have written its last line without syncing it. Keeping the same fact again is
        // acknowledged without a write, so the line must be on disk by then.
        log.sync_data()?;
        log.seek(SeekFrom::End(0))?;
        sync_directory(&path)?;
        let bytes = whole as u64;
        let inner = MemoryLog { path, log, _lock: lock, facts, lines, bytes, broken: false };
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    /// Whether the log at `path` can be read. Changes nothing, and takes no lock.
    pub fn check_file(path: &Path) -> Result<(), MemoryError> {
        replay_log(&std::fs::read(path)?).map(drop)
    }

    /// Every fact of every owner.
    pub(super) async fn all_facts(&self) -> Result<Vec<(MemoryOwner, MemoryFact)>, MemoryError> {
        self.run_blocking(|inner| {
            let by_owner = inner.facts.0.iter();
            Ok(by_owner
                .flat_map(|(owner, facts)| facts.values().map(|fact| (owner.clone(), fact.clone())))
                .collect())
        })
        .await
    }

    /// Runs `work` where it may wait for the disk.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut MemoryLog) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&mut inner.lock().unwrap_or_else(PoisonError::into_inner))
        });
        done.await.map_err(|_| MemoryError::Io(std::io::Error::other("interrupted")))?
    }
}

#[async_trait]
impl MemoryStore for FileMemoryStore {
    async fn keep(&self, owner: &MemoryOwner, fact: MemoryFact) -> Result<MemoryFact, MemoryError> {
        let owner = owner.clone();
        self.run_blocking(move |inner| {
            if let Some(known) = inner.facts.existing_fact(&owner, &fact)? {
                return Ok(known);
            }
            inner.append(&MemoryLogLine::Keep { owner: owner.clone(), fact: fact.clone() })?;
            inner.facts.put(&owner, fact.clone());
            Ok(fact)
        })
        .await
    }

    async fn find(
        &self,
        owner: &MemoryOwner,
        query: &str,
        limit: usize,
    ) -> Result<Vec<MemoryFact>, MemoryError> {
        let (owner, query) = (owner.clone(), query.to_owned());
        self.run_blocking(move |inner| Ok(inner.facts.find(&owner, &query, limit))).await
    }

    async fn list(&self, owner: &MemoryOwner) -> Result<Vec<MemoryFact>, MemoryError> {
        let owner = owner.clone();
        self.run_blocking(move |inner| Ok(inner.facts.list(&owner))).await
    }

    async fn forget(&self, owner: &MemoryOwner, id: &str) -> Result<bool, MemoryError> {
        let (owner, id) = (owner.clone(), id.to_owned());
        self.run_blocking(move |inner| {
            if !inner.facts.0.get(&owner).is_some_and(|facts| facts.contains_key(&id)) {
                return Ok(false);
            }
            inner.append(&MemoryLogLine::Forget { owner: owner.clone(), id: id.clone() })?;
            inner.facts.remove(&owner, &id);
            if let Err(error) = inner.compact_if_due() {
                tracing::warn!(%error, "cannot compact the file of memories; it keeps growing until this works");
            }
            Ok(true)
        })
        .await
    }
}

impl MemoryLog {
    fn append(&mut self, line: &MemoryLogLine) -> Result<(), MemoryError> {
        if self.broken {
            self.cut_unacknowledged()?;
        }
        let line = encode_line(line)?;
        self.broken = true;
        self.log.write_all(line.as_bytes())?;
        self.log.sync_data()?;
        self.broken = false;
        self.bytes += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// Removes what a failed write left behind. The disk may have been full, and may have room again.
    fn cut_unacknowledged(&mut self) -> Result<(), MemoryError> {
        let mut log = private_file().truncate(false).open(&self.path)?;
        log.set_len(self.bytes)?;
        log.sync_all()?;
        sync_directory(&self.path)?;
        log.seek(SeekFrom::End(0))?;
        (self.log, self.broken) = (log, false);
        Ok(())
    }

    /// Writes the log anew when most of it is history.
    fn compact_if_due(&mut self) -> Result<(), MemoryError> {
        let count: usize = self.facts.0.values().map(std::collections::BTreeMap::len).sum();
        if self.lines < count + MAX_STALE_LOG_LINES {
            return Ok(());
        }
        let beside = self.path.with_extension("new");
        let mut log = private_file().truncate(true).open(&beside)?;
        let mut bytes = 0;
        for (owner, facts) in &self.facts.0 {
            for fact in facts.values() {
                let line = encode_line(&MemoryLogLine::Keep { owner: owner.clone(), fact: fact.clone() })?;
                log.write_all(line.as_bytes())?;
                bytes += line.len() as u64;
            }
        }
        log.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        (self.log, self.lines, self.bytes) = (log, count, bytes);
        // Until the new name is sure, nothing that is appended to this file is.
        self.broken = true;
        sync_directory(&self.path)?;
        self.broken = false;
        Ok(())
    }
}

/// Opens a file or makes it, for its owner only.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Takes the lock. A program that this process is just starting holds a copy of every lock, for as long as it takes to
/// become that program: so one look is not enough.
fn acquire_lock(lock: &File) -> Result<(), MemoryError> {
    let mut left = 50;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if left == 0 => return Err(MemoryError::InUse),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        left -= 1;
    }
}

/// The facts of a log, how many lines it has, and how many bytes of it are whole.
fn replay_log(bytes: &[u8]) -> Result<(FactsByOwner, usize, usize), MemoryError> {
    let (mut facts, mut lines, mut whole) = (FactsByOwner::default(), 0, 0);
    while whole < bytes.len() {
        let end = bytes[whole..].iter().position(|byte| *byte == b'\n').map(|at| whole + at);
        let json = end.and_then(|end| Some((checked_json(&bytes[whole..end])?, end)));
        let Some((json, end)) = json else {
            // Only the last line can be one that was never acknowledged.
            let last = end.is_none_or(|end| end + 1 == bytes.len());
            if last {
                break;
            }
            return Err(MemoryError::Damaged(lines + 1));
        };
        match serde_json::from_slice(json).map_err(|_| MemoryError::Newer(lines + 1))? {
            MemoryLogLine::Keep { owner, fact } => facts.put(&owner, fact),
            MemoryLogLine::Forget { owner, id } => drop(facts.remove(&owner, &id)),
        }
        whole = end + 1;
        lines += 1;
    }
    Ok((facts, lines, whole))
}

fn encode_line(line: &MemoryLogLine) -> Result<String, MemoryError> {
    let json = serde_json::to_string(line).map_err(std::io::Error::other)?;
    Ok(format!("{} {json}\n", checksum(json.as_bytes())))
}

/// The JSON of a line that was written whole.
fn checked_json(line: &[u8]) -> Option<&[u8]> {
    let (sum, json) = line.split_at_checked(17)?;
    (sum.strip_suffix(b" ") == Some(checksum(json).as_bytes())).then_some(json)
}

fn checksum(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..8])
}

/// Makes a new name in a directory durable.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Taint;

    fn fact(id: &str) -> MemoryFact {
        MemoryFact { id: id.into(), text: format!("fact {id}"), at_ms: 1, taint: Taint::default() }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memories_work_again_once_a_full_disk_has_room() {
        let place = tempfile::tempdir().expect("a directory");
        let (path, owner) = (place.path().join("memory.log"), MemoryOwner::new("t", "s"));
        let store = FileMemoryStore::open(&path).expect("opens");
        store.keep(&owner, fact("a")).await.expect("kept");
        // Half a line got through, the rest did not.
        OpenOptions::new()
            .append(true)
            .open(&path)
            .expect("the log")
            .write_all(b"0123 half")
            .expect("written");
        store.inner.lock().expect("free").log =
            OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
        assert!(store.keep(&owner, fact("b")).await.is_err());
        assert_eq!(store.list(&owner).await.expect("a list").len(), 1, "what failed is not there");
        store.keep(&owner, fact("c")).await.expect("there is room again");
        assert!(store.forget(&owner, "a").await.expect("forgotten"));
        drop(store);
        let ids: Vec<String> = FileMemoryStore::open(&path)
            .expect("whole")
            .list(&owner)
            .await
            .expect("a list")
            .into_iter()
            .map(|fact| fact.id)
            .collect();
        assert_eq!(ids, ["c"]);
    }

    #[test]
    fn a_whole_line_that_this_version_cannot_read_is_left_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("memory.log");
        let json = r#"{"later":{"owner":{}}}"#;
        let line = format!("{} {json}\n", checksum(json.as_bytes()));
        std::fs::write(&path, &line).expect("written");
        assert!(matches!(FileMemoryStore::open(&path), Err(MemoryError::Newer(1))));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), line);
    }
}
