//! Passages by words and by meaning, in a directory of the local disk.
//!
//! What `put` and `remove` acknowledged survives a loss of power: a file with the documents, their words and vectors
//! is forced to the disk, then a manifest that names it takes the place of the older one. Searches look at mapped
//! files and never wait for the disk to be written. The directory knows what made it; with another embedder, or after
//! words are cut otherwise, it is refused and must be built anew, which [`LocalIndex::rebuild`] does beside the old one.

mod file;
mod grow;
mod manifest;
mod shelf;
mod write;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use doran_llm::{Embedder, EmbedderAbout};

use crate::embedding;
use crate::fuse::{Weights, fuse};
use crate::keyword::query::Query;
use crate::keyword::{Held, Ranking};
use crate::library::disk;
use crate::passage::{Document, DocumentId, Passage, Tenant};
use crate::retriever::{Filter, Hit, Index, Listed, Question, RetrieveError, Retriever};

use manifest::{About, Manifest};
use shelf::Shelf;

/// So many passages of each way of searching are fused, however few are wanted: the scores of a list are scaled to
/// it, so a shorter list would rank otherwise.
const DEPTH: usize = 100;
/// Among so few passages words are found within a fraction of a millisecond.
const SMALL: usize = 20_000;
/// So many documents are written at once when an index is built anew.
const BATCH: usize = 256;

/// An index in a directory. With an embedder it finds by meaning as well as by words.
pub struct LocalIndex {
    inside: Arc<Inside>,
    embedder: Option<Arc<dyn Embedder>>,
    weights: Weights,
}

struct Inside {
    directory: PathBuf,
    shelves: RwLock<HashMap<Tenant, Arc<RwLock<Shelf>>>>,
    /// What is on the disk. Whoever changes it holds this.
    manifest: Mutex<Manifest>,
    ranking: Ranking,
    /// From so many vectors on a file gets a graph.
    graph_from: usize,
    _lock: fs::File,
}

impl Drop for Inside {
    fn drop(&mut self) {
        for shelf in self.shelves.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            shelf.read().unwrap_or_else(PoisonError::into_inner).leave();
        }
    }
}

impl LocalIndex {
    /// Opens the index of a directory, or makes one. An index that something else made is refused as stale.
    pub async fn open(
        root: impl Into<PathBuf>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        Self::open_with(root.into(), embedder, grow::FROM).await
    }

    async fn open_with(
        root: PathBuf,
        embedder: Option<Arc<dyn Embedder>>,
        graph_from: usize,
    ) -> Result<Self, RetrieveError> {
        let about = About::of(embedder.as_ref().map(|embedder| embedder.about()));
        let inside = blocking(move || {
            let lock = lock(&root)?;
            let number = match manifest::current(&root)? {
                Some(number) => number,
                None => begin(&root, 1, &about)?,
            };
            let directory = manifest::generation(&root, number);
            let mut manifest = Manifest::load(&directory)?;
            if manifest.parts.is_empty() && manifest.about != about {
                // Nothing is in it that could be compared wrongly.
                manifest.about = about.clone();
                manifest.save(&directory).map_err(|error| broken("the index cannot be written", error))?;
            }
            manifest.fits(&about, &root)?;
            let tidied = manifest.tidy(&directory).and_then(|()| manifest::only(&root, number));
            tidied.map_err(|error| broken("what a crash left behind cannot be removed", error))?;
            Inside::load(directory, manifest, lock, graph_from)
        })
        .await?;
        Ok(Self::over(inside, embedder))
    }

    /// Builds an index anew from the documents of the one that is there, beside it, and then takes its place. A crash
    /// leaves the old one as it was.
    pub async fn rebuild(
        root: impl Into<PathBuf>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let root = root.into();
        let about = About::of(embedder.as_ref().map(|embedder| embedder.about()));
        let place = root.clone();
        let (inside, documents, number) = blocking(move || {
            let lock = lock(&place)?;
            let (documents, number) = match manifest::current(&place)? {
                Some(number) => (write::documents(&manifest::generation(&place, number))?, number + 1),
                None => (std::collections::BTreeMap::new(), 1),
            };
            let directory = manifest::generation(&place, number);
            if directory.exists() {
                fs::remove_dir_all(&directory)
                    .map_err(|error| broken("an older attempt cannot be removed", error))?;
            }
            let manifest = Manifest::new(about);
            manifest.save(&directory).map_err(|error| broken("the index cannot be written", error))?;
            Ok((Inside::load(directory, manifest, lock, grow::FROM)?, documents, number))
        })
        .await?;
        let index = Self::over(inside, embedder);
        for (tenant, held) in documents {
            for some in held.chunks(BATCH) {
                index.put_held(&tenant, some.to_vec()).await?;
            }
        }
        blocking(move || {
            manifest::switch(&root, number)
                .map_err(|error| broken("the new index cannot take its place", error))
        })
        .await?;
        Ok(index)
    }

    /// Begins an empty index in the place of whatever is there, for when that is damaged: whoever keeps the documents
    /// puts them in again.
    pub async fn renew(
        root: impl Into<PathBuf>,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let root = root.into();
        let about = About::of(embedder.as_ref().map(|embedder| embedder.about()));
        let place = root.clone();
        blocking(move || {
            let _lock = lock(&place)?;
            let number = manifest::highest(&place)
                .map_err(|error| broken(format!("`{}` cannot be read", place.display()), error))?;
            begin(&place, number + 1, &about)
        })
        .await?;
        Self::open(root, embedder).await
    }

    /// Counts vectors like this beside words.
    pub fn weighted(mut self, weights: Weights) -> Self {
        self.weights = weights;
        self
    }

    /// The embedder whose vectors are in it.
    pub fn embedder(&self) -> Option<EmbedderAbout> {
        self.embedder.as_ref().map(|embedder| embedder.about())
    }

    fn over(inside: Inside, embedder: Option<Arc<dyn Embedder>>) -> Self {
        let weights =
            embedder.as_ref().map_or_else(Weights::default, |embedder| Weights::of(&embedder.about()));
        Self { inside: Arc::new(inside), embedder, weights }
    }

    async fn put_held(&self, tenant: &Tenant, held: Vec<Arc<Held>>) -> Result<(), RetrieveError> {
        let rows = match &self.embedder {
            Some(embedder) => {
                let passages: Vec<Passage> = held.iter().flat_map(|held| held.passages()).collect();
                embedding::rows(&**embedder, &passages.iter().collect::<Vec<_>>()).await?
            }
            None => Vec::new(),
        };
        let (inside, tenant) = (Arc::clone(&self.inside), tenant.clone());
        blocking(move || inside.put(&tenant, &held, &rows)).await
    }
}

impl Inside {
    fn load(
        directory: PathBuf,
        manifest: Manifest,
        lock: fs::File,
        graph_from: usize,
    ) -> Result<Self, RetrieveError> {
        let mut shelves: HashMap<Tenant, Shelf> = HashMap::new();
        let mut loaded = Vec::new();
        for entry in &manifest.parts {
            let content = file::open(&manifest::part(&directory, entry.file))?;
            let dimension = content.rows.as_ref().map(|rows| rows.dimension());
            if dimension != manifest.about.embedder.as_ref().map(|embedder| embedder.dimension) {
                let reason = format!("file {} has vectors of another size", entry.file);
                return Err(RetrieveError::Stale { reason });
            }
            let shelf = shelves.entry(Tenant::new(&entry.tenant)).or_default();
            loaded.push((entry.file, shelf.add(entry.file, content, &entry.dead)));
        }
        let shelves =
            shelves.into_iter().map(|(tenant, shelf)| (tenant, Arc::new(RwLock::new(shelf)))).collect();
        let inside = Self {
            directory,
            shelves: RwLock::new(shelves),
            manifest: Mutex::new(manifest),
            ranking: Ranking::default(),
            graph_from,
            _lock: lock,
        };
        for (number, vectors) in loaded {
            inside.grow(number, vectors);
        }
        Ok(inside)
    }

    fn search(&self, question: &Question, vector: Option<&[f32]>, weights: &Weights) -> Vec<Hit> {
        let Some(shelf) = self.shelf(&question.tenant) else { return Vec::new() };
        let query = Query::of(&question.text, self.ranking.meant);
        let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
        let Some(vector) = vector else {
            return shelf.hits(&shelf.by_words(&query, &self.ranking, &question.filter, question.limit));
        };
        let depth = question.limit.max(DEPTH);
        let found = shelf.by_words(&query, &self.ranking, &question.filter, depth);
        let near = shelf.by_vector(vector, &question.filter, depth, &found);
        fuse(&question.text, &shelf.hits(&found), &near, weights, question.limit)
    }

    /// Whether to look for words takes less than to hand the work to another thread and wait for it.
    fn is_small(&self, tenant: &Tenant) -> bool {
        let Some(shelf) = self.shelf(tenant) else { return true };
        // Whoever writes holds it for long.
        shelf.try_read().is_ok_and(|shelf| shelf.slots() <= SMALL)
    }

    fn shelf(&self, tenant: &Tenant) -> Option<Arc<RwLock<Shelf>>> {
        self.shelves.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    fn shelf_for(&self, tenant: &Tenant) -> Arc<RwLock<Shelf>> {
        let mut shelves = self.shelves.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shelves.entry(tenant.clone()).or_default())
    }
}

#[async_trait]
impl Retriever for LocalIndex {
    async fn retrieve(&self, question: &Question) -> Result<Vec<Hit>, RetrieveError> {
        if question.limit == 0 {
            return Ok(Vec::new());
        }
        let vector = match &self.embedder {
            Some(_) if !embedding::says_something(&question.text) => return Ok(Vec::new()),
            Some(embedder) => Some(embedding::question(&**embedder, &question.text).await?),
            None if self.inside.is_small(&question.tenant) => {
                return Ok(self.inside.search(question, None, &self.weights));
            }
            None => None,
        };
        let (inside, question, weights) = (Arc::clone(&self.inside), question.clone(), self.weights);
        blocking(move || Ok(inside.search(&question, vector.as_deref(), &weights))).await
    }
}

#[async_trait]
impl Index for LocalIndex {
    async fn put(
        &self,
        tenant: &Tenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.put_held(tenant, vec![Arc::new(Held::new(document, passages))]).await
    }

    async fn put_all(
        &self,
        tenant: &Tenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        let held = Held::latest(documents);
        if held.is_empty() { Ok(()) } else { self.put_held(tenant, held).await }
    }

    async fn remove(&self, tenant: &Tenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        let (inside, tenant, document) = (Arc::clone(&self.inside), tenant.clone(), document.clone());
        blocking(move || inside.remove(&tenant, &document)).await
    }

    async fn sweep(&self) -> Result<(), RetrieveError> {
        let inside = Arc::clone(&self.inside);
        blocking(move || inside.sweep()).await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, RetrieveError> {
        Ok(self.inside.shelves.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect())
    }

    async fn list(&self, tenant: &Tenant, filter: &Filter) -> Result<Vec<Listed>, RetrieveError> {
        let Some(shelf) = self.inside.shelf(tenant) else { return Ok(Vec::new()) };
        let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
        let held = shelf.documents().filter(|held| filter.admits(held.about()));
        Ok(held.map(|held| Listed::of(held.about(), held.len())).collect())
    }

    async fn document(&self, tenant: &Tenant, id: &DocumentId) -> Result<Option<Document>, RetrieveError> {
        let Some(shelf) = self.inside.shelf(tenant) else { return Ok(None) };
        let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
        Ok(shelf.document(id).map(|held| held.document()))
    }
}

fn lock(root: &Path) -> Result<fs::File, RetrieveError> {
    disk::lock(root).map_err(|error| broken(format!("`{}` cannot be opened", root.display()), error))
}

/// Makes an empty index and lets it be the current one.
fn begin(root: &Path, number: u64, about: &About) -> Result<u64, RetrieveError> {
    let made = Manifest::new(about.clone()).save(&manifest::generation(root, number));
    let made = made.and_then(|()| manifest::switch(root, number));
    made.map_err(|error| broken(format!("`{}` cannot be written", root.display()), error))?;
    Ok(number)
}

fn broken(reason: impl Into<String>, error: io::Error) -> RetrieveError {
    RetrieveError::Unavailable { reason: reason.into(), source: Some(Box::new(error)) }
}

async fn blocking<T: Send + 'static>(
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
