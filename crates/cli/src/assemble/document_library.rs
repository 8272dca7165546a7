//! The library of the data directory, its index and their vectors.

use std::path::Path;
use std::sync::Arc;

use doran_engine::TenantId;
use doran_retrieval::{
    DocumentFilter, DocumentId, DocumentIndex, DocumentTenant, Library, LibraryError, LibraryOptions,
    LockedLibrary, RetrieveError,
};

use super::locked_store::{LockedStore, lock_shared_store_directory, open_locked_store};
use super::samples;
use super::search_index::{self, OpenedIndex};
use crate::commands::ingest::{progress_bar, show_vector_progress};
use crate::config::{Config, SearchStore};
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pluralize};
use crate::replica::{SharedLibraryDatabase, SharedValues, shares_documents};

/// Whether queued documents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingDocumentPolicy {
    /// Read queued documents as long as the application runs.
    ReadPending,
    /// Do not read them, because the command would end before it could read much.
    LeavePending,
}

/// The message about passages that only a keyword search finds.
pub(super) fn missing_vectors_message(count: usize, reading: PendingDocumentPolicy) -> BilingualMessage {
    let passages = pluralize(count, "passage");
    match reading {
        PendingDocumentPolicy::ReadPending => bilingual!(
            "문단 {count}개의 벡터를 백그라운드에서 계산합니다. 그동안 이 문단은 키워드로만 검색됩니다",
            "the vectors of {passages} are computed in the background; until then these are found by keywords only"
        ),
        PendingDocumentPolicy::LeavePending => bilingual!(
            "문단 {count}개에 아직 벡터가 없어 키워드로만 검색됩니다. `doran documents read`나 `doran serve`가 이어서 계산합니다",
            "{passages} have no vectors yet and are found by keywords only; `doran documents read` or `doran serve` computes the rest"
        ),
    }
}

/// Computes the vectors that an index lacks. `progress` gets the number of passages that are still without.
pub(crate) async fn embed_missing(
    index: &dyn DocumentIndex,
    progress: impl Fn(usize),
) -> Result<(), RetrieveError> {
    if index.passages_without_vectors() > 0 {
        progress(index.passages_without_vectors());
        loop {
            let left = index.embed_some().await?;
            progress(left);
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Locks the library in the data directory. This is done before its index is opened or rebuilt, so that no other
/// process writes to the index.
pub(super) async fn lock_library(config: &Config) -> Result<LockedLibrary, BilingualMessage> {
    let path = config.data_dir.join("library");
    Library::lock_directory(&path).await.map_err(|error| library_open_error(&path, error))
}

/// Opens the locked library and syncs the index: adds ready documents that are missing, and removes documents that
/// were deleted while another index was in use. Queued documents are read after that.
pub(super) async fn open_library(
    config: &Config,
    taken: LockedLibrary,
    index: Arc<dyn DocumentIndex>,
    reading: PendingDocumentPolicy,
    shared: Option<&SharedValues>,
) -> Result<Library, BilingualMessage> {
    let path = config.data_dir.join("library");
    let mut options = LibraryOptions::default();
    if reading == PendingDocumentPolicy::LeavePending {
        options.workers = 0;
    }
    options.index_only = samples::sample_documents().into_iter().map(|sample| sample.id).collect();
    if let Some(values) = shared.filter(|_| shares_documents(config)) {
        let database = Arc::new(SharedLibraryDatabase(values.clone()));
        let process = uuid::Uuid::new_v4().simple().to_string();
        let opened = Library::open_shared(taken, database, index, options, process).await;
        return opened.map_err(|error| library_open_error(&path, error));
    }
    let samples = options.index_only.clone();
    // A cluster may contain documents of other data directories.
    let shared = matches!(config.search.store, SearchStore::OpenSearch(_));
    let aside = |id: &DocumentId| shared || samples.contains(id);
    Library::open_synced(taken, index, options, aside).await.map_err(|error| library_open_error(&path, error))
}

fn library_open_error(path: &Path, error: LibraryError) -> BilingualMessage {
    let (shown, ko) = (path.display(), error.message_ko());
    bilingual!("문서 보관함 `{shown}`을(를) 열 수 없습니다: {ko}", "cannot open the library `{shown}`")
        .with_cause(error)
}

impl LockedStore {
    /// The library, if this process alone may change the data directory. Queued documents are not read.
    pub(crate) async fn open_library(
        &self,
        config: &Config,
        notes: &mut Vec<BilingualMessage>,
    ) -> anyhow::Result<Option<Library>> {
        if self.data_dir_lock.is_none() {
            return Ok(None);
        }
        let locked_library = lock_library(config).await?;
        let OpenedIndex { index, .. } = search_index::open_index(config, notes).await?;
        let (reading, shared) = (PendingDocumentPolicy::LeavePending, self.shared.as_ref());
        Ok(Some(open_library(config, locked_library, index, reading, shared).await?))
    }
}

/// Rebuilds the index from the library. Returns the number of documents and passages in it.
pub(crate) async fn rebuild_index_from_library(
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<(usize, usize)> {
    let _held = lock_shared_store_directory(config, None)?;
    let opened = open_locked_store(config).await?;
    let locked_library = lock_library(config).await?;
    let index = search_index::rebuild_index(config, output).await?;
    // Documents that replicas share are queued to be indexed, so that each of them is indexed once.
    let reading = match shares_documents(config) {
        true => PendingDocumentPolicy::ReadPending,
        false => PendingDocumentPolicy::LeavePending,
    };
    let library =
        open_library(config, locked_library, index.clone(), reading, opened.shared.as_ref()).await?;
    if reading == PendingDocumentPolicy::ReadPending {
        library.wait_until_idle().await;
        library.stop_workers().await;
    } else {
        // Also documents of the old index go that the library does not have.
        let samples = samples::sample_documents();
        let aside = |id: &DocumentId| samples.iter().any(|sample| sample.id == *id);
        library.sync_index(index.as_ref(), aside).await.map_err(anyhow::Error::from)?;
    }
    let bar = progress_bar(0, output);
    embed_missing(index.as_ref(), |left| show_vector_progress(&bar, left)).await?;
    bar.finish_and_clear();
    let mut tenants: Vec<_> = library.tenants();
    let local = DocumentTenant::new(TenantId::local().as_str());
    if !tenants.contains(&local) {
        tenants.push(local);
    }
    let (mut documents, mut passages) = (0, 0);
    for tenant in tenants {
        let listed = index.list(&tenant, &DocumentFilter::default()).await?;
        documents += listed.len();
        passages += listed.iter().map(|listed| listed.passages).sum::<usize>();
    }
    Ok((documents, passages))
}
