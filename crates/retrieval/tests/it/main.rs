//! Integration tests of the public API.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod file_formats;
mod hostile_files;
mod library;
mod library_crash_recovery;
mod library_startup;
mod local_index;
mod opensearch;
mod opensearch_loss;
mod opensearch_node;
mod shared_library;

use std::path::{Path, PathBuf};

use doran_jail::Jail;
use doran_retrieval::ingest::{
    ExtractedText, IngestFailure, IngestFailureKind, JailedFileReader, ReadLimits,
};

/// The program that the reader of these tests runs as its child process.
const EXTRACT_WORKER: &str = env!("CARGO_BIN_EXE_extract-worker");

/// Returns a fixture by name.
fn read_fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns an empty directory for one test.
fn fresh_directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// Returns a reader in a jail, like that of the program.
fn jailed_reader(limits: ReadLimits) -> JailedFileReader {
    JailedFileReader::with_jail(
        Jail::new(JailedFileReader::jail_limits(&limits, 2)).with_program(EXTRACT_WORKER),
        limits,
    )
}

/// Reads a file in the jail. On a machine without one the test prints that it is skipped.
async fn read_in_jail(
    reader: &JailedFileReader,
    name: &str,
    bytes: &[u8],
) -> Option<Result<ExtractedText, IngestFailure>> {
    match reader.read(name, bytes).await {
        Err(IngestFailure { kind: IngestFailureKind::NoJail, detail }) => {
            assert!(std::env::var_os("DORAN_REQUIRE_PARTS").is_none(), "no jail here: {detail}");
            eprintln!("SKIPPED: no jail on this machine / 이 기계에서는 격리할 수 없음: {detail}");
            None
        }
        read => Some(read),
    }
}
