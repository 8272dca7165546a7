//! Keyword and vector search in a directory on the local disk.
//!
//! What `put` and `remove` have acknowledged survives a power loss: a file with the documents and their terms is synced,
//! then the manifest is replaced by one that lists it. Searches read memory-mapped files and never wait for disk writes.
//! Documents can be found by keywords at once. Their vectors are computed afterwards, by
//! [`DocumentIndex::embed_some`]. The directory records which analyser made it; with another one it is rejected and must
//! be rebuilt, which [`LocalIndex::rebuild`] does beside the old index. With another embedder all vectors are computed
//! again, and until then the passages are found by keywords.

mod background_graph;
mod computed_vectors;
mod embedding_job;
mod index_file;
mod index_writer;
mod manifest;
mod tenant_index;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use doran_llm::{Embedder, EmbedderInfo};

use crate::embedding;
use crate::keyword::query::KeywordQuery;
use crate::keyword::{RankingParameters, StoredDocument};
use crate::library::disk;
use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{
    DocumentFilter, DocumentIndex, DocumentSummary, Hit, RetrieveError, Retriever, SearchQuery,
};
use crate::score_fusion::{FusionWeights, fuse_hits};

use embedding_job::EmbeddingJob;
use manifest::{IndexFingerprint, IndexManifest};
use tenant_index::TenantIndex;

/// The number of hits of each search that are fused, however few are requested. Scores are scaled to their list, so a
/// shorter list would give another ranking.
const FUSION_DEPTH: usize = 100;
/// A keyword search over at most this many passages takes a fraction of a millisecond and runs on the calling thread.
const MAX_INLINE_SEARCH_SLOTS: usize = 20_000;
/// The number of documents that are written in one call when an index is rebuilt.
const REBUILD_BATCH_DOCUMENTS: usize = 256;

/// An index in a directory. With an embedder it searches by vectors as well as by keywords.
pub struct LocalIndex {
    inner: Arc<LocalIndexInner>,
    embedder: Option<Arc<dyn Embedder>>,
    /// The file whose vectors are being computed.
    embedding_job: tokio::sync::Mutex<Option<EmbeddingJob>>,
    weights: FusionWeights,
}

struct LocalIndexInner {
    directory: PathBuf,
    tenant_indexes: RwLock<HashMap<DocumentTenant, Arc<RwLock<TenantIndex>>>>,
    /// The manifest on disk. Writers hold this lock while they change it.
    manifest: Mutex<IndexManifest>,
    ranking: RankingParameters,
    /// A file with at least this many vectors gets a graph.
    min_graph_rows: usize,
    _lock: fs::File,
}

impl Drop for LocalIndexInner {
    fn drop(&mut self) {
        for tenant_index in self.tenant_indexes.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            tenant_index.read().unwrap_or_else(PoisonError::into_inner).abandon_graphs();
        }
    }
}

impl LocalIndex {
    /// Opens the index in a directory, or creates one. An index made by another analyser is rejected as stale.
    pub async fn open(
        root: impl Into<PathBuf>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        Self::open_with(root.into(), embedder, background_graph::MIN_GRAPH_ROWS).await
    }

    async fn open_with(
        root: PathBuf,
        embedder: Option<Arc<dyn Embedder>>,
        graph_from: usize,
    ) -> Result<Self, RetrieveError> {
        let about = IndexFingerprint::for_embedder(embedder.as_ref().map(|embedder| embedder.info()));
        let inside = run_blocking(move || {
            let lock = lock_directory(&root)?;
            let number = match manifest::current_generation(&root)? {
                Some(number) => number,
                None => create_empty_generation(&root, 1, &about)?,
            };
            let directory = manifest::generation_directory(&root, number);
            let mut manifest = IndexManifest::load(&directory)?;
            let before = manifest.clone();
            if manifest.parts.is_empty() {
                // The index is empty, so it holds nothing that could be compared wrongly.
                manifest.about = about.clone();
            }
            manifest.check_compatible(&about, &root)?;
            manifest.set_embedder(about.embedder);
            if manifest != before {
                manifest.save(&directory).map_err(|error| io_error("the index cannot be written", error))?;
            }
            let tidied = manifest
                .remove_unreferenced_files(&directory)
                .and_then(|()| manifest::remove_other_generations(&root, number));
            tidied.map_err(|error| io_error("what a crash left behind cannot be removed", error))?;
            LocalIndexInner::load(directory, manifest, lock, graph_from)
        })
        .await?;
        Ok(Self::from_inner(inside, embedder))
    }

    /// Rebuilds an index from its own documents beside the old one, and then switches to it. After a crash the old
    /// index is unchanged.
    pub async fn rebuild(
        root: impl Into<PathBuf>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let root = root.into();
        let about = IndexFingerprint::for_embedder(embedder.as_ref().map(|embedder| embedder.info()));
        let place = root.clone();
        let (inside, documents, number) = run_blocking(move || {
            let lock = lock_directory(&place)?;
            let (documents, number) = match manifest::current_generation(&place)? {
                Some(number) => (
                    index_writer::read_all_documents(&manifest::generation_directory(&place, number))?,
                    number + 1,
                ),
                None => (std::collections::BTreeMap::new(), 1),
            };
            let directory = manifest::generation_directory(&place, number);
            if directory.exists() {
                fs::remove_dir_all(&directory)
                    .map_err(|error| io_error("an older attempt cannot be removed", error))?;
            }
            let manifest = IndexManifest::new(about);
            manifest.save(&directory).map_err(|error| io_error("the index cannot be written", error))?;
            Ok((
                LocalIndexInner::load(directory, manifest, lock, background_graph::MIN_GRAPH_ROWS)?,
                documents,
                number,
            ))
        })
        .await?;
        let index = Self::from_inner(inside, embedder);
        for (tenant, held) in documents {
            for some in held.chunks(REBUILD_BATCH_DOCUMENTS) {
                index.put_stored(&tenant, some.to_vec()).await?;
            }
        }
        run_blocking(move || {
            manifest::switch_generation(&root, number)
                .map_err(|error| io_error("the new index cannot take its place", error))
        })
        .await?;
        Ok(index)
    }

    /// Replaces whatever is there with an empty index, for when it is damaged. The caller has the documents and must
    /// store them again.
    pub async fn reset(
        root: impl Into<PathBuf>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let root = root.into();
        let about = IndexFingerprint::for_embedder(embedder.as_ref().map(|embedder| embedder.info()));
        let place = root.clone();
        run_blocking(move || {
            let _lock = lock_directory(&place)?;
            let number = manifest::highest_generation(&place)
                .map_err(|error| io_error(format!("`{}` cannot be read", place.display()), error))?;
            create_empty_generation(&place, number + 1, &about)
        })
        .await?;
        Self::open(root, embedder).await
    }

    /// Returns the embedder whose vectors the index contains.
    pub fn embedder(&self) -> Option<EmbedderInfo> {
        self.embedder.as_ref().map(|embedder| embedder.info())
    }

    fn from_inner(inside: LocalIndexInner, embedder: Option<Arc<dyn Embedder>>) -> Self {
        let weights = embedder
            .as_ref()
            .map_or_else(FusionWeights::default, |embedder| FusionWeights::for_embedder(&embedder.info()));
        Self { inner: Arc::new(inside), embedder, embedding_job: tokio::sync::Mutex::default(), weights }
    }

    async fn put_stored(
        &self,
        tenant: &DocumentTenant,
        held: Vec<Arc<StoredDocument>>,
    ) -> Result<(), RetrieveError> {
        let (inside, tenant) = (Arc::clone(&self.inner), tenant.clone());
        run_blocking(move || inside.put(&tenant, &held)).await
    }
}

impl LocalIndexInner {
    fn load(
        directory: PathBuf,
        manifest: IndexManifest,
        lock: fs::File,
        graph_from: usize,
    ) -> Result<Self, RetrieveError> {
        let mut tenant_indexes: HashMap<DocumentTenant, TenantIndex> = HashMap::new();
        let mut loaded = Vec::new();
        for entry in &manifest.parts {
            let mut content = index_file::open_index_file(&manifest::part_path(&directory, entry.file))?;
            let embedder = manifest.embedder_of_file(entry);
            content.rows = content
                .rows
                .filter(|rows| embedder.is_some_and(|embedder| embedder.dimension == rows.dimension()));
            let tenant_index = tenant_indexes.entry(DocumentTenant::new(&entry.tenant)).or_default();
            loaded.push((entry.file, tenant_index.add_file(entry.file, content, &entry.dead)));
        }
        let tenant_indexes = tenant_indexes
            .into_iter()
            .map(|(tenant, tenant_index)| (tenant, Arc::new(RwLock::new(tenant_index))))
            .collect();
        let inside = Self {
            directory,
            tenant_indexes: RwLock::new(tenant_indexes),
            manifest: Mutex::new(manifest),
            ranking: RankingParameters::default(),
            min_graph_rows: graph_from,
            _lock: lock,
        };
        for (number, vectors) in loaded {
            inside.ensure_graph(number, vectors);
        }
        Ok(inside)
    }

    fn search(&self, question: &SearchQuery, vector: Option<&[f32]>, weights: &FusionWeights) -> Vec<Hit> {
        let Some(tenant_index) = self.tenant_index(&question.tenant) else { return Vec::new() };
        let query = KeywordQuery::parse(&question.text, self.ranking.synonym_weight);
        let tenant_index = tenant_index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(vector) = vector else {
            return tenant_index.to_hits(&tenant_index.search_keywords(
                &query,
                &self.ranking,
                &question.filter,
                question.limit,
            ));
        };
        let depth = question.limit.max(FUSION_DEPTH);
        let found = tenant_index.search_keywords(&query, &self.ranking, &question.filter, depth);
        let near = tenant_index.search_vectors(vector, &question.filter, depth, &found);
        fuse_hits(&question.text, &tenant_index.to_hits(&found), &near, weights, question.limit)
    }

    /// Returns whether a keyword search is faster than handing it to another thread.
    fn is_small_tenant(&self, tenant: &DocumentTenant) -> bool {
        let Some(tenant_index) = self.tenant_index(tenant) else { return true };
        // A writer may hold the lock for long, so this does not wait for it.
        tenant_index.try_read().is_ok_and(|tenant_index| tenant_index.slot_count() <= MAX_INLINE_SEARCH_SLOTS)
    }

    fn tenant_index(&self, tenant: &DocumentTenant) -> Option<Arc<RwLock<TenantIndex>>> {
        self.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    fn tenant_index_or_create(&self, tenant: &DocumentTenant) -> Arc<RwLock<TenantIndex>> {
        let mut tenant_indexes = self.tenant_indexes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tenant_indexes.entry(tenant.clone()).or_default())
    }
}

#[async_trait]
impl Retriever for LocalIndex {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        if question.limit == 0 {
            return Ok(Vec::new());
        }
        let vector = match &self.embedder {
            Some(_) if !embedding::has_terms(&question.text) => return Ok(Vec::new()),
            Some(embedder) => Some(embedding::embed_query(&**embedder, &question.text).await?),
            None if self.inner.is_small_tenant(&question.tenant) => {
                return Ok(self.inner.search(question, None, &self.weights));
            }
            None => None,
        };
        let (inside, question, weights) = (Arc::clone(&self.inner), question.clone(), self.weights);
        run_blocking(move || Ok(inside.search(&question, vector.as_deref(), &weights))).await
    }
}

#[async_trait]
impl DocumentIndex for LocalIndex {
    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.put_stored(tenant, vec![Arc::new(StoredDocument::new(document, passages))]).await
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        let held = StoredDocument::latest_by_id(documents);
        if held.is_empty() { Ok(()) } else { self.put_stored(tenant, held).await }
    }

    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        let (inside, tenant, document) = (Arc::clone(&self.inner), tenant.clone(), document.clone());
        run_blocking(move || inside.remove(&tenant, &document)).await
    }

    async fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        let inside = Arc::clone(&self.inner);
        run_blocking(move || inside.expunge_deleted()).await
    }

    async fn embed_some(&self) -> Result<usize, RetrieveError> {
        let Some(embedder) = &self.embedder else { return Ok(0) };
        embedding_job::embed_some(&self.inner, embedder, &self.embedding_job).await
    }

    fn passages_without_vectors(&self) -> usize {
        if self.embedder.is_some() { self.inner.passages_without_vectors() } else { 0 }
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        Ok(self.inner.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect())
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        let Some(tenant_index) = self.inner.tenant_index(tenant) else { return Ok(Vec::new()) };
        let tenant_index = tenant_index.read().unwrap_or_else(PoisonError::into_inner);
        let held = tenant_index.documents().filter(|held| filter.admits(held.metadata()));
        Ok(held.map(|held| DocumentSummary::from_document(held.metadata(), held.len())).collect())
    }

    async fn titles(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Result<Vec<String>, RetrieveError> {
        let Some(tenant_index) = self.inner.tenant_index(tenant) else { return Ok(Vec::new()) };
        let tenant_index = tenant_index.read().unwrap_or_else(PoisonError::into_inner);
        let held = tenant_index.documents().map(|held| held.metadata()).filter(|held| filter.admits(held));
        Ok(held.take(limit).map(|held| held.title.clone()).collect())
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        let Some(tenant_index) = self.inner.tenant_index(tenant) else { return Ok(None) };
        let tenant_index = tenant_index.read().unwrap_or_else(PoisonError::into_inner);
        Ok(tenant_index.document(id).map(|held| held.to_document()))
    }
}

fn lock_directory(root: &Path) -> Result<fs::File, RetrieveError> {
    disk::lock_library_directory(root)
        .map_err(|error| io_error(format!("`{}` cannot be opened", root.display()), error))
}

/// Creates an empty generation and makes it the current one.
fn create_empty_generation(root: &Path, number: u64, about: &IndexFingerprint) -> Result<u64, RetrieveError> {
    let made = IndexManifest::new(about.clone()).save(&manifest::generation_directory(root, number));
    let made = made.and_then(|()| manifest::switch_generation(root, number));
    made.map_err(|error| io_error(format!("`{}` cannot be written", root.display()), error))?;
    Ok(number)
}

fn io_error(reason: impl Into<String>, error: io::Error) -> RetrieveError {
    RetrieveError::Unavailable { reason: reason.into(), source: Some(Box::new(error)) }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RetrieveError> + Send + 'static,
) -> Result<T, RetrieveError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(RetrieveError::Unavailable {
            reason: "the work was broken off".to_owned(),
            source: Some(Box::new(error)),
        }),
    }
}

#[cfg(test)]
mod tests;
