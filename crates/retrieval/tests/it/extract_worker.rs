//! The helper program of the tests: extracts one file in the jail like `doran __extract`, or adds files to a library or
//! documents to an index until it is killed.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use doran_retrieval::ingest::{self, JailedFileReader, ReadLimits};
use doran_retrieval::{
    Document, DocumentId, DocumentIndex, DocumentKind, DocumentTenant, Library, LibraryOptions, LocalIndex,
    NewDocument, split_into_passages,
};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(ingest::EXTRACT_WORKER_ARG) => ingest::extract_worker_main(),
        Some("__library") => match (args.next(), args.next(), args.next()) {
            (Some(root), Some(search), Some(files)) => {
                library(Path::new(&root), Path::new(&search), Path::new(&files))
            }
            (_, _, _) => ExitCode::from(2),
        },
        Some("__index") => match (args.next(), args.next().and_then(|first| first.parse().ok())) {
            (Some(root), Some(first)) => index(Path::new(&root), first),
            (_, _) => ExitCode::from(2),
        },
        Some(_) | None => ExitCode::from(2),
    }
}

/// Stores documents in an index, removes every fifth and prints what was acknowledged, until the process is killed.
fn index(root: &Path, first: usize) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let done: std::io::Result<()> = runtime.block_on(async {
        let index = LocalIndex::open(root, None).await.map_err(std::io::Error::other)?;
        let tenant = DocumentTenant::new("t");
        let mut out = std::io::stdout();
        for at in first.. {
            let name = at.to_string();
            let document = Document::new(&name, "t", format!("문서의 글 {name}.\n\n").repeat(3));
            index
                .put(&tenant, &document, &split_into_passages(&document))
                .await
                .map_err(std::io::Error::other)?;
            writeln!(out, "put {name}")?;
            if at % 5 == 4 {
                let name = (at - 2).to_string();
                index.remove(&tenant, &DocumentId::new(&name)).await.map_err(std::io::Error::other)?;
                writeln!(out, "removed {name}")?;
            }
            out.flush()?;
        }
        Ok(())
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Adds every file of a directory to the library, again and again, until the process is killed.
fn library(root: &Path, search: &Path, files: &Path) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
    else {
        return ExitCode::FAILURE;
    };
    let done: std::io::Result<()> = runtime.block_on(async {
        let reader = JailedFileReader::new(ReadLimits::default(), 2);
        let options = LibraryOptions { reader, workers: 2, ..LibraryOptions::default() };
        let taken = Library::lock_directory(root).await.map_err(std::io::Error::other)?;
        let index = Arc::new(LocalIndex::open(search, None).await.map_err(std::io::Error::other)?);
        let library = Library::open_synced(taken, index, options, |_| false).await;
        let library = library.map_err(std::io::Error::other)?;
        for entry in std::fs::read_dir(files)? {
            let entry = entry?;
            let new = NewDocument {
                tenant: DocumentTenant::new("t"),
                name: entry.file_name().to_string_lossy().into_owned(),
                collection: String::new(),
                kind: Some(DocumentKind::General),
                bytes: std::fs::read(entry.path())?,
            };
            library.add(new).await.map_err(std::io::Error::other)?;
        }
        library.wait_until_idle().await;
        std::future::pending().await
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
