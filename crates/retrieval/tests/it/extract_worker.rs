//! Reads one file inside the jail as `doran __extract` does; or takes files into a library until it is killed.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use doran_retrieval::ingest::{self, ReadLimits, Reader};
use doran_retrieval::{DocumentKind, Library, LibraryOptions, NewDocument, RamKeyword, Tenant};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(ingest::WORKER) => ingest::worker_main(),
        Some("__library") => match (args.next(), args.next()) {
            (Some(root), Some(files)) => library(Path::new(&root), Path::new(&files)),
            (_, _) => ExitCode::from(2),
        },
        Some(_) | None => ExitCode::from(2),
    }
}

/// Takes every file of a directory into the library, again and again, until somebody ends this.
fn library(root: &Path, files: &Path) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
    else {
        return ExitCode::FAILURE;
    };
    let done: std::io::Result<()> = runtime.block_on(async {
        let reader = Reader::new(ReadLimits::default(), 2);
        let options = LibraryOptions { reader, workers: 2, ..LibraryOptions::default() };
        let index = Arc::new(RamKeyword::default());
        let library = Library::open(root, index, options).await.map_err(std::io::Error::other)?;
        for entry in std::fs::read_dir(files)? {
            let entry = entry?;
            let new = NewDocument {
                tenant: Tenant::new("t"),
                name: entry.file_name().to_string_lossy().into_owned(),
                collection: String::new(),
                kind: DocumentKind::General,
                bytes: std::fs::read(entry.path())?,
            };
            library.add(new).await.map_err(std::io::Error::other)?;
        }
        library.settled().await;
        std::future::pending().await
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
