//! Copies the documents of the library into an index: all of them, or those that are missing.

use std::collections::{BTreeMap, HashMap};

use tokio::sync::OwnedMutexGuard;

use super::ingest_worker::too_many_passages;
use super::record::{DocumentKey, DocumentRecord, IngestState};
use super::{Library, LibraryError, disk};
use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{DocumentFilter, DocumentIndex, DocumentSummary};
use crate::split::{SPLIT_RULES_VERSION, split_within_memory_limit};

/// Documents are stored in batches of about this many bytes of text.
const MAX_BATCH_BYTES: usize = 4 << 20;

impl Library {
    /// Stores every ready document in an index. Returns their number.
    pub async fn rebuild_index(&self, index: &dyn DocumentIndex) -> Result<usize, LibraryError> {
        let records = self.inner.catalog().ready_records();
        let mut done = 0;
        for record in records {
            let Some((record, _turn)) = self.lock_ready_document(&record.key()).await else { continue };
            let Some((document, passages)) = self.split_ready_document(&record).await? else { continue };
            index.put(&record.tenant, &document, &passages).await?;
            done += 1;
        }
        Ok(done)
    }

    /// Synchronises an index with the library. Stores each ready document that the index lacks, has in another version
    /// or has split by other rules. Removes documents that the library does not have or that are not ready, except
    /// those for which `aside` returns true. Returns how many documents changed. This is for an index that is not
    /// persistent, was reset, or missed changes while another one was in use. If nothing differs, it only lists the
    /// index.
    pub async fn sync_index(
        &self,
        index: &dyn DocumentIndex,
        aside: impl Fn(&DocumentId) -> bool + Send + Sync,
    ) -> Result<usize, LibraryError> {
        let mut by_tenant: BTreeMap<DocumentTenant, Vec<DocumentRecord>> = BTreeMap::new();
        for record in self.inner.catalog().ready_records() {
            by_tenant.entry(record.tenant.clone()).or_default().push(record);
        }
        for tenant in index.tenants().await? {
            by_tenant.entry(tenant).or_default();
        }
        let mut done = 0;
        for (tenant, records) in by_tenant {
            let there = index.list(&tenant, &DocumentFilter::default()).await?;
            let there: HashMap<DocumentId, DocumentSummary> =
                there.into_iter().map(|listed| (listed.id.clone(), listed)).collect();
            for id in there.keys().filter(|id| !aside(id)) {
                done += usize::from(self.remove_stray(index, &tenant, id).await?);
            }
            let missing = records.into_iter().filter(|record| {
                let ready = record.ready.as_ref();
                !ready.is_some_and(|ready| {
                    there.get(&record.id).is_some_and(|listed| {
                        ready.cut == SPLIT_RULES_VERSION
                            && listed.version == ready.version
                            && listed.kind == ready.kind
                            && listed.passages == ready.passages
                    })
                })
            });
            let mut batch = IndexBatch::default();
            for record in missing {
                let Some((record, turn)) = self.lock_ready_document(&record.key()).await else { continue };
                done += 1;
                let Some(cut) = self.split_ready_document(&record).await? else {
                    index.remove(&tenant, &record.id).await?;
                    continue;
                };
                batch.bytes += cut.0.text.len();
                batch.documents.push(cut);
                batch.work_locks.push(turn);
                if batch.bytes >= MAX_BATCH_BYTES {
                    self.put_batch(index, &tenant, std::mem::take(&mut batch)).await?;
                }
            }
            self.put_batch(index, &tenant, batch).await?;
        }
        Ok(done)
    }

    /// Removes a document that the library does not have, or that is not ready: the process was killed before it wrote
    /// the record, or the document was removed while another index was in use. Returns whether it existed.
    async fn remove_stray(
        &self,
        index: &dyn DocumentIndex,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<bool, LibraryError> {
        let key = DocumentKey::for_id(tenant, id);
        let turn = self.inner.catalog().work_lock(&key);
        let held = turn.map(tokio::sync::Mutex::try_lock_owned);
        if matches!(held, Some(Err(_))) {
            // A worker is processing this document and will store it.
            return Ok(false);
        }
        let is_ready = self.inner.catalog().record(&key).is_some_and(|record| record.ready.is_some());
        Ok(!is_ready && index.remove(tenant, id).await?)
    }

    /// Locks a document and returns its record if it is still ready. A worker that has read a newer version waits for
    /// the lock.
    async fn lock_ready_document(&self, key: &DocumentKey) -> Option<(DocumentRecord, OwnedMutexGuard<()>)> {
        let turn = self.inner.catalog().work_lock(key)?;
        let turn = turn.lock_owned().await;
        let record = self.inner.catalog().record(key)?;
        (record.ready.is_some() && record.state != IngestState::Removing).then_some((record, turn))
    }

    /// Returns a document with its passages. If there are too many, marks it as failed and returns `None`.
    async fn split_ready_document(
        &self,
        record: &DocumentRecord,
    ) -> Result<Option<(Document, Vec<Passage>)>, LibraryError> {
        let Some(document) = self.inner.load_document(record).await? else { return Ok(None) };
        let cut = disk::run_blocking(&self.inner.root, move || {
            Ok(split_within_memory_limit(&document).map(|passages| (document, passages)))
        })
        .await?;
        if cut.is_none() {
            let key = record.key();
            self.inner.catalog().mark_not_ready(&key, too_many_passages());
            self.inner.save_record(&key).await?;
        }
        Ok(cut)
    }

    /// Stores documents in an index, and records that they were split by the current rules.
    async fn put_batch(
        &self,
        index: &dyn DocumentIndex,
        tenant: &DocumentTenant,
        batch: IndexBatch,
    ) -> Result<(), LibraryError> {
        if batch.documents.is_empty() {
            return Ok(());
        }
        index.put_all(tenant, &batch.documents).await?;
        for (document, passages) in &batch.documents {
            let key = DocumentKey::for_id(tenant, &document.id);
            let noted = self.inner.catalog().mark_split(&key, &document.version, passages.len());
            if let Some(key) = noted {
                self.inner.save_record(&key).await?;
            }
        }
        Ok(())
    }
}

/// Documents that are stored in one call.
#[derive(Default)]
struct IndexBatch {
    documents: Vec<(Document, Vec<Passage>)>,
    bytes: usize,
    /// Held until the documents are stored.
    work_locks: Vec<OwnedMutexGuard<()>>,
}
