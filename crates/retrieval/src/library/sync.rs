//! From the library to an index: everything anew, or what is missing.

use std::collections::{BTreeMap, HashMap};

use super::record::{Key, Record};
use super::{Library, LibraryError, disk};
use crate::passage::{Document, DocumentId, Passage, Tenant};
use crate::retriever::{Filter, Index, Listed};
use crate::split::{CUT, split};

/// About so many bytes of text are put into an index at once.
const BATCH: usize = 4 << 20;

impl Library {
    /// Puts every document that is ready into an index. Gives how many there were.
    pub async fn rebuild(&self, index: &dyn Index) -> Result<usize, LibraryError> {
        let records = self.inner.shelf().ready();
        let mut done = 0;
        for record in records {
            let Some(document) = self.inner.document(&record).await? else { continue };
            let (document, passages) = disk::blocking(&self.inner.root, move || {
                let passages = split(&document);
                Ok((document, passages))
            })
            .await?;
            index.put(&record.tenant, &document, &passages).await?;
            done += 1;
        }
        Ok(done)
    }

    /// Brings an index in step: puts into it what is ready and is not there, or is there in another version or cut by other rules, and removes
    /// from it what the library does not know, but for what is set aside. Gives how many documents that were. For an
    /// index that forgets, or was begun anew, or missed something while another was in use; one that is in step costs a
    /// list.
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
                // One that is on its way is known too: whoever reads it puts it in or takes it out.
                if self.inner.shelf().record(&Key::named(&tenant, id)).is_none() {
                    index.remove(&tenant, id).await?;
                    done += 1;
                }
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
            let mut batch = Vec::new();
            let mut bytes = 0;
            for record in missing {
                let Some(document) = self.inner.document(&record).await? else { continue };
                bytes += document.text.len();
                let cut = disk::blocking(&self.inner.root, move || {
                    let passages = split(&document);
                    Ok((document, passages))
                });
                batch.push(cut.await?);
                done += 1;
                if bytes >= BATCH {
                    self.put_cut(index, &tenant, &std::mem::take(&mut batch)).await?;
                    bytes = 0;
                }
            }
            if !batch.is_empty() {
                self.put_cut(index, &tenant, &batch).await?;
            }
        }
        Ok(done)
    }

    /// Puts documents into an index, and notes that they were cut by the rules that hold now.
    async fn put_cut(
        &self,
        index: &dyn Index,
        tenant: &Tenant,
        batch: &[(Document, Vec<Passage>)],
    ) -> Result<(), LibraryError> {
        index.put_all(tenant, batch).await?;
        for (document, passages) in batch {
            let key = Key::named(tenant, &document.id);
            let noted = self.inner.shelf().cut(&key, &document.version, passages.len());
            if let Some(key) = noted {
                self.inner.keep(&key).await?;
            }
        }
        Ok(())
    }
}
