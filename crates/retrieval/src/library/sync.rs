//! From the library to an index: everything anew, or what is missing.

use std::collections::{BTreeMap, HashMap};

use tokio::sync::OwnedMutexGuard;

use super::record::{Key, Record, State};
use super::work::too_many;
use super::{Library, LibraryError, disk};
use crate::passage::{Document, DocumentId, Passage, Tenant};
use crate::retriever::{Filter, Index, Listed};
use crate::split::{CUT, split_within_reason};

/// About so many bytes of text are put into an index at once.
const BATCH: usize = 4 << 20;

impl Library {
    /// Puts every document that is ready into an index. Gives how many there were.
    pub async fn rebuild(&self, index: &dyn Index) -> Result<usize, LibraryError> {
        let records = self.inner.shelf().ready();
        let mut done = 0;
        for record in records {
            let Some((record, _turn)) = self.hold(&record.key()).await else { continue };
            let Some((document, passages)) = self.cut(&record).await? else { continue };
            index.put(&record.tenant, &document, &passages).await?;
            done += 1;
        }
        Ok(done)
    }

    /// Brings an index in step: puts into it what is ready and is not there, or is there in another version or cut by other rules, and removes
    /// from it what the library does not know or does not have ready, but for what is set aside. Gives how many documents
    /// that were. For an index that forgets, or was begun anew, or missed something while another was in use; one that is
    /// in step costs a list.
    pub async fn sync(
        &self,
        index: &dyn Index,
        aside: impl Fn(&DocumentId) -> bool + Send + Sync,
    ) -> Result<usize, LibraryError> {
        let mut by_tenant: BTreeMap<Tenant, Vec<Record>> = BTreeMap::new();
        for record in self.inner.shelf().ready() {
            by_tenant.entry(record.tenant.clone()).or_default().push(record);
        }
        for tenant in index.tenants().await? {
            by_tenant.entry(tenant).or_default();
        }
        let mut done = 0;
        for (tenant, records) in by_tenant {
            let there = index.list(&tenant, &Filter::default()).await?;
            let there: HashMap<DocumentId, Listed> =
                there.into_iter().map(|listed| (listed.id.clone(), listed)).collect();
            for id in there.keys().filter(|id| !aside(id)) {
                done += usize::from(self.drop_stray(index, &tenant, id).await?);
            }
            let missing = records.into_iter().filter(|record| {
                let ready = record.ready.as_ref();
                !ready.is_some_and(|ready| {
                    there.get(&record.id).is_some_and(|listed| {
                        ready.cut == CUT
                            && listed.version == ready.version
                            && listed.kind == ready.kind
                            && listed.passages == ready.passages
                    })
                })
            });
            let mut batch = Batch::default();
            for record in missing {
                let Some((record, turn)) = self.hold(&record.key()).await else { continue };
                done += 1;
                let Some(cut) = self.cut(&record).await? else {
                    index.remove(&tenant, &record.id).await?;
                    continue;
                };
                batch.bytes += cut.0.text.len();
                batch.documents.push(cut);
                batch.turns.push(turn);
                if batch.bytes >= BATCH {
                    self.put_cut(index, &tenant, std::mem::take(&mut batch)).await?;
                }
            }
            self.put_cut(index, &tenant, batch).await?;
        }
        Ok(done)
    }

    /// Removes a document from an index that the library does not know or does not have ready: whoever put it there was
    /// killed before he could say so, or it was removed while another index was in use. Gives whether there was one.
    async fn drop_stray(
        &self,
        index: &dyn Index,
        tenant: &Tenant,
        id: &DocumentId,
    ) -> Result<bool, LibraryError> {
        let key = Key::named(tenant, id);
        let turn = self.inner.shelf().turn(&key);
        let held = turn.map(tokio::sync::Mutex::try_lock_owned);
        if matches!(held, Some(Err(_))) {
            // Whoever has it in hand puts it in.
            return Ok(false);
        }
        let is_ready = self.inner.shelf().record(&key).is_some_and(|record| record.ready.is_some());
        Ok(!is_ready && index.remove(tenant, id).await?)
    }

    /// A document that is ready, as it stands once nobody else has it in hand, and the right to put it into an index:
    /// whoever has read a newer version waits.
    async fn hold(&self, key: &Key) -> Option<(Record, OwnedMutexGuard<()>)> {
        let turn = self.inner.shelf().turn(key)?;
        let turn = turn.lock_owned().await;
        let record = self.inner.shelf().record(key)?;
        (record.ready.is_some() && record.state != State::Removing).then_some((record, turn))
    }

    /// A document with its passages; none where they are too many, which its record then says.
    async fn cut(&self, record: &Record) -> Result<Option<(Document, Vec<Passage>)>, LibraryError> {
        let Some(document) = self.inner.document(record).await? else { return Ok(None) };
        let cut = disk::blocking(&self.inner.root, move || {
            Ok(split_within_reason(&document).map(|passages| (document, passages)))
        })
        .await?;
        if cut.is_none() {
            let key = record.key();
            self.inner.shelf().unready(&key, too_many());
            self.inner.keep(&key).await?;
        }
        Ok(cut)
    }

    /// Puts documents into an index, and notes that they were cut by the rules that hold now.
    async fn put_cut(&self, index: &dyn Index, tenant: &Tenant, batch: Batch) -> Result<(), LibraryError> {
        if batch.documents.is_empty() {
            return Ok(());
        }
        index.put_all(tenant, &batch.documents).await?;
        for (document, passages) in &batch.documents {
            let key = Key::named(tenant, &document.id);
            let noted = self.inner.shelf().cut(&key, &document.version, passages.len());
            if let Some(key) = noted {
                self.inner.keep(&key).await?;
            }
        }
        Ok(())
    }
}

/// Documents that are put at once.
#[derive(Default)]
struct Batch {
    documents: Vec<(Document, Vec<Passage>)>,
    bytes: usize,
    /// Held until they are there.
    turns: Vec<OwnedMutexGuard<()>>,
}
