//! What the crate promises from outside.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod formats;
mod hostile;
mod kills;
mod library;
mod local;
mod opensearch;
mod starts;

use std::path::{Path, PathBuf};

use doran_jail::Jail;
use doran_retrieval::ingest::{Extracted, Failure, FailureKind, ReadLimits, Reader};

/// The program whose child reads the files of these tests.
const WORKER: &str = env!("CARGO_BIN_EXE_extract-worker");

/// A fixture, by name.
fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An empty directory for one test.
fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// A reader in a jail, as the program has it.
fn reader(limits: ReadLimits) -> Reader {
    Reader::with_jail(Jail::new(Reader::jail_limits(&limits, 2)).with_program(WORKER), limits)
}

/// Reads a file in the jail. On a machine without one there is nothing to test, and that is said.
async fn read(reader: &Reader, name: &str, bytes: &[u8]) -> Option<Result<Extracted, Failure>> {
    match reader.read(name, bytes).await {
        Err(Failure { kind: FailureKind::NoJail, detail }) => {
            assert!(std::env::var_os("DORAN_REQUIRE_PARTS").is_none(), "no jail here: {detail}");
            eprintln!("SKIPPED: no jail on this machine / 이 기계에서는 격리할 수 없음: {detail}");
            None
        }
        read => Some(read),
    }
}
