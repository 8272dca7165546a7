//! The directory of the library. Files are written atomically: to a temporary file that is synced and renamed, after
//! which the directory is synced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::LibraryError;
use super::record::{DocumentKey, DocumentRecord, IngestState, RECORD_LAYOUT_VERSION, title_from_file_name};
use crate::ingest::ExtractedText;
use crate::passage::{Document, DocumentKind};

/// The maximum size of a record file.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// Makes the names of temporary files unique. Those of a process that died are removed when the library is opened.
static NEXT_DRAFT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Runs blocking disk work on the blocking thread pool.
pub(super) async fn run_blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LibraryError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|source| LibraryError::Disk { path: path.to_owned(), source })
}

/// Returns the directory of a document.
pub(super) fn document_directory(root: &Path, key: &DocumentKey) -> PathBuf {
    root.join(encode_path_component(key.tenant.as_str()))
        .join(encode_path_component(&key.collection))
        .join(encode_path_component(key.id.as_str()))
}

pub(super) fn record_path(directory: &Path) -> PathBuf {
    directory.join("record.json")
}

pub(super) fn original_path(directory: &Path, hash: &str) -> PathBuf {
    directory.join(format!("original-{hash}"))
}

pub(super) fn text_path(directory: &Path, hash: &str) -> PathBuf {
    directory.join(format!("text-{hash}.json"))
}

/// Encodes a name as one path component for any file system: lower-case letters, digits and `%xx`. A name that is too
/// long is replaced by its hash.
fn encode_path_component(name: &str) -> String {
    let mut text = String::from("_");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    if text.len() > 120 { format!("~{}", sha256_hex(name.as_bytes())) } else { text }
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Writes a file atomically. The content survives a power loss.
pub(crate) fn write_file_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_pieces_atomically(path, &[bytes])
}

/// Writes a file from several pieces atomically. The content survives a power loss.
pub(crate) fn write_pieces_atomically(path: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    create_directory(directory)?;
    // Several tasks may write the same file at once, each through its own temporary file.
    let draft = NEXT_DRAFT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{draft}.new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    pieces.iter().try_for_each(|piece| file.write_all(piece))?;
    file.sync_all()?;
    drop(file);
    fs::rename(&beside, path)?;
    sync_directory(directory)
}

fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    // New directories are entries of their parents, which are synced too, up to the root.
    directory.ancestors().skip(1).take(3).try_for_each(sync_directory)
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes the directory of a document, its record last. After a crash the record says that the removal must continue.
pub(super) fn remove_document_directory(directory: &Path) -> io::Result<()> {
    let last = record_path(directory);
    match fs::read_dir(directory) {
        Ok(entries) => {
            for entry in entries {
                let path = entry?.path();
                if path != last {
                    fs::remove_file(path)?;
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    ignore_not_found(fs::remove_file(&last))?;
    ignore_not_found(fs::remove_dir(directory))?;
    directory.parent().map_or(Ok(()), sync_directory)
}

fn ignore_not_found(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes the files of one version.
pub(super) fn remove_version_files(directory: &Path, hash: &str) -> io::Result<()> {
    ignore_not_found(fs::remove_file(original_path(directory, hash)))?;
    ignore_not_found(fs::remove_file(text_path(directory, hash)))
}

/// Removes the files of a document that its record does not refer to.
fn remove_unreferenced_files(directory: &Path, kept: &DocumentRecord) -> io::Result<()> {
    let hashes = kept.incoming.iter().map(|new| &new.hash).chain(kept.ready.iter().map(|ready| &ready.hash));
    let mut named: Vec<PathBuf> =
        hashes.flat_map(|hash| [original_path(directory, hash), text_path(directory, hash)]).collect();
    named.push(record_path(directory));
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !named.contains(&path) {
            ignore_not_found(fs::remove_file(path))?;
        }
    }
    Ok(())
}

/// Locks the library for this process. The operating system releases the lock when the process ends, even if it is
/// killed.
pub(crate) fn lock_library_directory(root: &Path) -> io::Result<File> {
    create_directory(root)?;
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(root.join("lock"))?;
    // A child process that is just being started shares every open file until it executes its program, and with it a
    // lock that was released meanwhile. That takes only moments, so the lock is retried.
    let mut attempts_left = 40;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if attempts_left > 0 => {
                attempts_left -= 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process has it open"));
            }
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Loads every record below the root. Files that a crash left incomplete are removed: they were never acknowledged.
pub(super) fn load_records(root: &Path) -> io::Result<Vec<DocumentRecord>> {
    create_directory(root)?;
    let mut records = Vec::new();
    for tenant in subdirectories(root)? {
        for collection in subdirectories(&tenant)? {
            for document in subdirectories(&collection)? {
                match read_record(&record_path(&document)) {
                    Ok(Some(found)) if document_directory(root, &found.key()) == document => {
                        if found.state != IngestState::Removing {
                            remove_unreferenced_files(&document, &found)?;
                        }
                        // A process that was killed may have renamed this record without syncing the directory. Adding the
                        // same file again is acknowledged without a write, so the record must be on disk by then.
                        if found.state.is_pending() {
                            sync_directory(&document)?;
                        }
                        records.push(found);
                    }
                    Ok(Some(found)) => {
                        tracing::warn!(path = %document.display(), id = %found.id, "a record in the wrong place is left alone");
                    }
                    Ok(None) => remove_document_directory(&document)?,
                    // One unreadable record must not prevent the others from being loaded.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        tracing::warn!(path = %document.display(), %error, "a record that cannot be read is left alone");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    records.sort_by(|left, right| (left.added_at, &left.id).cmp(&(right.added_at, &right.id)));
    Ok(records)
}

/// Reads every record below the root without a lock, so another process may have the library open. Documents that
/// appear or disappear meanwhile are skipped.
pub(super) fn read_records_without_lock(root: &Path) -> io::Result<Vec<DocumentRecord>> {
    let mut found = Vec::new();
    let inside = |path: &Path| match subdirectories(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    };
    for tenant in inside(root)? {
        for collection in inside(&tenant)? {
            for document in inside(&collection)? {
                match read_record(&record_path(&document)) {
                    Ok(record) => found.extend(record),
                    // The process that opens the library reports it.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(found)
}

pub(super) fn subdirectories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The part of a record that every layout has.
#[derive(serde::Deserialize)]
struct RecordLayout {
    layout: u32,
}

/// Reads a record, if the file exists. A file that is not a record is `InvalidData`; a record with a newer layout is an
/// error of its own.
fn read_record(path: &Path) -> io::Result<Option<DocumentRecord>> {
    let bytes = match File::open(path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, MAX_RECORD_BYTES), &mut bytes)?;
            bytes
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let odd = |error: serde_json::Error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let made: RecordLayout = serde_json::from_slice(&bytes).map_err(odd)?;
    if made.layout > RECORD_LAYOUT_VERSION {
        return Err(io::Error::other(format!("{} is of a newer doran", path.display())));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(odd)
}

/// Reads the extracted text of a document.
pub(super) fn read_extracted_text(path: &Path) -> io::Result<Option<ExtractedText>> {
    match fs::read(path) {
        Ok(bytes) => {
            let kept: ExtractedText = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
            Ok(Some(kept.with_short_title()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Builds a document from its text and its record.
pub(super) fn read_document(path: &Path, record: &DocumentRecord) -> io::Result<Document> {
    let extracted = read_extracted_text(path)?
        .ok_or_else(|| io::Error::other(format!("{} is missing", path.display())))?;
    let kind = record.ready.as_ref().map_or(&record.kind, |ready| &ready.kind);
    Ok(document_from_extracted(record, kind, extracted))
}

/// Builds a document of this kind from extracted text.
pub(super) fn document_from_extracted(
    record: &DocumentRecord,
    kind: &DocumentKind,
    extracted: ExtractedText,
) -> Document {
    let ExtractedText { title, text, pages, .. } = extracted;
    Document {
        id: record.id.clone(),
        title: title.unwrap_or_else(|| title_from_file_name(&record.name)),
        collection: record.collection.clone(),
        kind: kind.clone(),
        version: sha256_hex(text.as_bytes())[..16].to_owned(),
        text,
        pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_library() {
        for name in [
            "..",
            "../../etc/passwd",
            "/abs",
            "CON",
            "a\\b",
            "",
            ".",
            "a\0b",
            "ㄱ/ㄴ",
            "A",
            "\u{202e}x",
            "con.txt",
        ] {
            let step = encode_path_component(name);
            assert!(step.starts_with('_') && step.len() <= 120, "{name:?} → {step}");
            assert!(
                step.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'%' | b'_')),
                "{name:?} → {step}"
            );
        }
        assert!(encode_path_component(&"가".repeat(5000)).len() < 100);
        assert_ne!(
            encode_path_component("a"),
            encode_path_component("A"),
            "some file systems do not tell them apart"
        );
        assert_ne!(encode_path_component("a_b"), encode_path_component("a b"));
    }
}
