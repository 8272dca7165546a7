//! Moves the documents of a directory into the database. That happens once, when a library that was one replica's becomes
//! shared.

use std::path::{Path, PathBuf};

use super::super::record::{DocumentRecord, IngestState};
use super::super::{LibraryError, disk};
use super::{LibraryDatabase, RecordWrite, original_name, record_key, text_name};

/// Writes the documents of the directory into the database and moves their files to `library.imported` beside it. A
/// document that the database has already is left as it is there.
pub(super) async fn import_directory(
    root: &Path,
    database: &dyn LibraryDatabase,
) -> Result<(), LibraryError> {
    let path = root.to_owned();
    let records = disk::run_blocking(root, move || disk::load_records(&path)).await?;
    let mut imported = 0;
    for record in records {
        if record.state != IngestState::Removing && import_record(root, database, record).await? {
            imported += 1;
        }
    }
    let path = root.to_owned();
    let moved = disk::run_blocking(root, move || move_imported(&path)).await?;
    if moved {
        tracing::warn!(
            documents = imported,
            "the documents of the directory were moved into the database; their files are kept in `library.imported`"
        );
    }
    Ok(())
}

async fn import_record(
    root: &Path,
    database: &dyn LibraryDatabase,
    record: DocumentRecord,
) -> Result<bool, LibraryError> {
    let record = record.after_interruption();
    let directory = disk::document_directory(root, &record.key());
    let hashes = record.incoming.iter().map(|new| &new.hash);
    let mut hashes: Vec<String> =
        hashes.chain(record.ready.iter().map(|ready| &ready.hash)).cloned().collect();
    hashes.dedup();
    let files = disk::run_blocking(root, move || {
        let mut files = Vec::new();
        for hash in hashes {
            files.push((original_name(&hash), std::fs::read(disk::original_path(&directory, &hash))?));
            match std::fs::read(disk::text_path(&directory, &hash)) {
                Ok(bytes) => files.push((text_name(&hash), bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    })
    .await?;
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let bytes = record.to_bytes().map_err(|error| LibraryError::Database(error.into()))?;
    let key = record_key(&record.key());
    let write =
        RecordWrite { key: &key, expected: None, record: Some(&bytes), put_files: &files, delete_files: &[] };
    Ok(database.write(write).await?.is_some())
}

/// Moves the directories of tenants aside. Returns whether there were any.
fn move_imported(root: &Path) -> std::io::Result<bool> {
    let aside: PathBuf = root.with_extension("imported");
    let mut is_moved = false;
    for directory in disk::subdirectories(root)? {
        let Some(name) = directory.file_name() else { continue };
        std::fs::create_dir_all(&aside)?;
        let mut target = aside.join(name);
        for number in 2.. {
            if !target.exists() {
                break;
            }
            target = aside.join(format!("{}-{number}", name.to_string_lossy()));
        }
        std::fs::rename(&directory, &target)?;
        is_moved = true;
    }
    Ok(is_moved)
}
