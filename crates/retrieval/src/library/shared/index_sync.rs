//! Makes the index agree with the database: after a restore of an older dump, after somebody has deleted the index, after an
//! update of the rules for passages.

use std::collections::BTreeMap;

use super::super::record::{DocumentKey, DocumentRecord, IncomingVersion, IngestState, unix_seconds_now};
use super::super::{LibraryError, LibraryInner};
use super::{RecordChoice, RecordFiles, SharedDocuments, record_key};
use crate::retriever::DocumentSummary;
use crate::split::SPLIT_RULES_VERSION;

impl SharedDocuments {
    /// Queues documents whose ready version the index lacks, has in another version or has split by other rules. Removes
    /// documents from the index that the library does not have. What another process adds meanwhile is left to that one.
    pub(in super::super) async fn sync_index(&self, inner: &LibraryInner) -> Result<(), LibraryError> {
        self.refresh(inner).await?;
        // What becomes ready from here on is indexed by the job that makes it ready.
        let ready = inner.catalog().ready_records().into_iter();
        let mut missing: BTreeMap<DocumentKey, DocumentRecord> =
            ready.map(|record| (DocumentKey::for_id(&record.tenant, &record.id), record)).collect();
        let (mut after, mut removed) = (None, 0_usize);
        loop {
            let page = inner.index.list_page(after.as_deref()).await?;
            // Only now: what is in the list has been in the database before.
            self.refresh(inner).await?;
            for (tenant, listed) in page.documents {
                let key = DocumentKey::for_id(&tenant, &listed.id);
                if missing.get(&key).is_some_and(|record| is_indexed(record, &listed)) {
                    missing.remove(&key);
                } else if !inner.options.index_only.contains(&listed.id) {
                    removed += usize::from(self.remove_stray(inner, &key, &listed).await?);
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if removed > 0 {
            tracing::warn!(
                documents = removed,
                "documents that the library does not have were removed from the index"
            );
        }
        for record in missing.values() {
            self.index_again(inner, record).await?;
        }
        Ok(())
    }

    /// Removes a document from the index that the library does not have, or that is not ready and in no queue. Until it is
    /// gone this job has it in the database, so who adds it meanwhile waits. Returns whether it was one.
    async fn remove_stray(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        listed: &DocumentSummary,
    ) -> Result<bool, LibraryError> {
        let known = self.known(inner, key).map(|(record, _)| record);
        if !is_stray(known.as_ref()) || self.mirror().unreadable.contains(&record_key(key)) {
            return Ok(false);
        }
        let job = self.job_name();
        let is_taken = self
            .change(inner, key, RecordFiles::default(), |before| {
                if !is_stray(before.as_ref()) {
                    return Ok(RecordChoice::Keep(false));
                }
                let record = before.unwrap_or_else(|| removed_record(key, listed));
                let record = DocumentRecord { worker: Some(job.clone()), ..record };
                Ok(RecordChoice::Write(Box::new(record), true))
            })
            .await?;
        if is_taken {
            self.finish_removal(inner, key, &job).await?;
        }
        Ok(is_taken)
    }
}

fn is_indexed(record: &DocumentRecord, listed: &DocumentSummary) -> bool {
    record.ready.as_ref().is_some_and(|ready| {
        listed.version == ready.version
            && listed.kind == ready.kind
            && listed.passages == ready.passages
            && ready.cut == SPLIT_RULES_VERSION
    })
}

/// Whether the index should not have a document with this record.
fn is_stray(record: Option<&DocumentRecord>) -> bool {
    record.is_none_or(|record| {
        let is_at_rest =
            matches!(record.state, IngestState::Failed | IngestState::Paused | IngestState::Cancelled);
        is_at_rest && record.ready.is_none() && record.worker.is_none()
    })
}

/// The record of a document that is being removed from the index and was not in the database.
fn removed_record(key: &DocumentKey, listed: &DocumentSummary) -> DocumentRecord {
    let key = DocumentKey { collection: listed.collection.clone(), ..key.clone() };
    let nothing = IncomingVersion { hash: String::new(), bytes: 0 };
    let record = DocumentRecord::new(&key, listed.title.clone(), Some(listed.kind.clone()), nothing);
    DocumentRecord { state: IngestState::Removing, incoming: None, changed_at: unix_seconds_now(), ..record }
}
