//! Computes the vectors of files that have none, some passages at a time. A file whose vectors are complete replaces the
//! one without. Searches and writes continue meanwhile.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use doran_llm::{Embedder, EmbedderInfo};

use super::computed_vectors::{ComputedVectors, EmbeddedTextKey, embedded_text_key, remove_computed_vectors};
use super::tenant_index::{FileMergeInput, FileMergeOutput, TenantIndex};
use super::{LocalIndexInner, io_error, run_blocking};
use crate::embedding;
use crate::passage::{DocumentTenant, Passage};
use crate::retriever::RetrieveError;
use crate::vector::VectorRows;

/// The number of passages that are embedded in one step.
const PASSAGES_PER_STEP: usize = 64;

/// A file whose vectors are being computed.
pub(super) struct EmbeddingJob {
    tenant: DocumentTenant,
    tenant_index: Arc<RwLock<TenantIndex>>,
    file: FileMergeInput,
    content: FileMergeOutput,
    /// The passages in the order of the rows.
    passages: Vec<(EmbeddedTextKey, Passage)>,
    /// How many passages have their vectors in `computed`.
    done: usize,
    computed: ComputedVectors,
}

/// Does one step, and returns how many passages are still without vectors. Only one step runs at a time.
pub(super) async fn embed_some(
    inner: &Arc<LocalIndexInner>,
    embedder: &Arc<dyn Embedder>,
    current: &tokio::sync::Mutex<Option<EmbeddingJob>>,
) -> Result<usize, RetrieveError> {
    let mut current = current.lock().await;
    let about = embedder.info();
    let mut job = match current.take() {
        Some(job) => job,
        None => {
            let (inner, about) = (Arc::clone(inner), about.clone());
            match run_blocking(move || inner.next_embedding_job(&about)).await? {
                Some(job) => job,
                None => return Ok(0),
            }
        }
    };
    let batch = job.next_batch();
    if !batch.is_empty() {
        let passages: Vec<&Passage> = batch.iter().map(|at| &job.passages[*at].1).collect();
        let vectors = match embedding::embed_passages(&**embedder, &passages).await {
            Ok(vectors) => vectors,
            Err(error) => {
                *current = Some(job);
                return Err(error);
            }
        };
        let keys = batch.iter().map(|at| job.passages[*at].0);
        let new: Vec<(EmbeddedTextKey, Vec<f32>)> = keys.zip(vectors).collect();
        job = run_blocking(move || {
            job.computed.add(new).map_err(computed_error)?;
            Ok(job)
        })
        .await?;
    }
    let done = job.count_done();
    if done == job.passages.len() {
        let inner = Arc::clone(inner);
        return run_blocking(move || {
            inner.finish_embedding_job(job, about.dimension)?;
            Ok(inner.passages_without_vectors())
        })
        .await;
    }
    let left = inner.passages_without_vectors().saturating_sub(done).max(1);
    *current = Some(job);
    Ok(left)
}

impl EmbeddingJob {
    /// Returns the next passages whose vectors are not known.
    fn next_batch(&self) -> Vec<usize> {
        let unknown = |at: &usize| self.computed.get(&self.passages[*at].0).is_none();
        (self.done..self.passages.len()).filter(unknown).take(PASSAGES_PER_STEP).collect()
    }

    /// Counts the passages from the start whose vectors are known.
    fn count_done(&mut self) -> usize {
        while self.passages.get(self.done).is_some_and(|(key, _)| self.computed.get(key).is_some()) {
            self.done += 1;
        }
        self.done
    }
}

impl LocalIndexInner {
    /// Returns how many passages have no vectors.
    pub(super) fn passages_without_vectors(&self) -> usize {
        let tenants = self.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner);
        let count = |index: &Arc<RwLock<TenantIndex>>| {
            index.read().unwrap_or_else(PoisonError::into_inner).passages_without_vectors()
        };
        tenants.values().map(count).sum()
    }

    /// Chooses a file without vectors.
    fn next_embedding_job(&self, embedder: &EmbedderInfo) -> Result<Option<EmbeddingJob>, RetrieveError> {
        let tenants: Vec<(DocumentTenant, Arc<RwLock<TenantIndex>>)> = {
            let tenants = self.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner);
            tenants.iter().map(|(tenant, index)| (tenant.clone(), Arc::clone(index))).collect()
        };
        for (tenant, tenant_index) in tenants {
            let file = tenant_index.write().unwrap_or_else(PoisonError::into_inner).begin_embedding();
            let Some(file) = file else { continue };
            let Some(content) = file.merge()? else { continue };
            let passages = content.documents.iter().flat_map(|held| held.passages());
            let passages = passages.map(|passage| (embedded_text_key(&passage), passage)).collect();
            let computed = ComputedVectors::open(&self.directory, embedder).map_err(computed_error)?;
            return Ok(Some(EmbeddingJob {
                tenant,
                tenant_index,
                file,
                content,
                passages,
                done: 0,
                computed,
            }));
        }
        Ok(None)
    }

    /// Replaces the file by one with vectors, unless it was replaced meanwhile.
    fn finish_embedding_job(&self, job: EmbeddingJob, dimension: usize) -> Result<(), RetrieveError> {
        let EmbeddingJob { tenant, tenant_index, file, mut content, passages, computed, .. } = job;
        let rows = passages.iter().filter_map(|(key, _)| computed.get(key)).map(Vec::as_slice);
        content.vector_bytes =
            VectorRows::write(dimension, rows).ok_or_else(|| RetrieveError::Unavailable {
                reason: "computed vectors have another size".to_owned(),
                source: None,
            })?;
        drop(computed);
        let merging = tenant_index.read().unwrap_or_else(PoisonError::into_inner).merge_lock();
        let _merging = merging.lock().unwrap_or_else(PoisonError::into_inner);
        if tenant_index.write().unwrap_or_else(PoisonError::into_inner).end_embedding(&file) {
            self.replace_files(&tenant, &tenant_index, &file, Some(content))?;
            remove_computed_vectors(&self.directory).map_err(computed_error)?;
        }
        Ok(())
    }
}

fn computed_error(error: io::Error) -> RetrieveError {
    io_error("computed vectors cannot be stored", error)
}
