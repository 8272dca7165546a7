//! From the library to an index: everything anew, or what is missing.

use std::collections::{BTreeMap, HashMap};

use tokio::sync::OwnedMutexGuard;

use super::ingest_worker::too_many_passages;
use super::record::{DocumentKey, DocumentRecord, IngestState};
use super::{Library, LibraryError, disk};
use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{DocumentFilter, DocumentIndex, DocumentSummary};
use crate::split::{SPLIT_RULES_VERSION, split_within_memory_limit};

/// About so many bytes of text are put into an index at once.
const MAX_BATCH_BYTES: usize = 4 << 20;

impl Library {
    /// Puts every document that is ready into an index. Gives how many there were.
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

    /// Brings an index in step: puts into it what is ready and is not there, or is there in another version or cut by other rules, and removes
    /// from it what the library does not know or does not have ready, but for what is set aside. Gives how many documents
    /// that were. For an index that forgets, or was begun anew, or missed something while another was in use; one that is
    /// in step costs a list.
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

    /// Removes a document from an index that the library does not know or does not have ready: whoever put it there was
    /// killed before he could say so, or it was removed while another index was in use. Gives whether there was one.
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
            // Whoever has it in hand puts it in.
            return Ok(false);
        }
        let is_ready = self.inner.catalog().record(&key).is_some_and(|record| record.ready.is_some());
        Ok(!is_ready && index.remove(tenant, id).await?)
    }

    /// A document that is ready, as it stands once nobody else has it in hand, and the right to put it into an index:
    /// whoever has read a newer version waits.
    async fn lock_ready_document(&self, key: &DocumentKey) -> Option<(DocumentRecord, OwnedMutexGuard<()>)> {
        let turn = self.inner.catalog().work_lock(key)?;
        let turn = turn.lock_owned().await;
        let record = self.inner.catalog().record(key)?;
        (record.ready.is_some() && record.state != IngestState::Removing).then_some((record, turn))
    }

    /// A document with its passages; none where they are too many, which its record then says.
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

    /// Puts documents into an index, and notes that they were cut by the rules that hold now.
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

/// Documents that are put at once.
#[derive(Default)]
struct IndexBatch {
    documents: Vec<(Document, Vec<Passage>)>,
    bytes: usize,
    /// Held until they are there.
    work_locks: Vec<OwnedMutexGuard<()>>,
}
