//! Records that other processes write too: the catalog mirrors them and finds what is to be done.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::{Mutex, Notify};

use super::super::record::{DocumentRecord, IngestState};
use super::{Catalog, CatalogEntry, catalog_key};
use crate::passage::DocumentTenant;

impl Catalog {
    /// Puts a record as it was written with this revision.
    pub(in super::super) fn insert_mirrored(&mut self, record: DocumentRecord, revision: u64) {
        // A removal that nobody works on has failed.
        let removal_failed = record.state == IngestState::Removing && record.worker.is_none();
        let entry = CatalogEntry {
            queue_position: revision,
            generation: 0,
            work_lock: Arc::new(Mutex::new(())),
            cancel: Arc::new(Notify::new()),
            removal_failed,
            record,
        };
        self.entries.insert(catalog_key(&entry.record.key()), entry);
    }

    /// The jobs that have documents.
    pub(in super::super) fn mirrored_jobs(&self) -> BTreeSet<String> {
        self.entries.values().filter_map(|held| held.record.worker.clone()).collect()
    }

    /// Copies of the records that fit.
    pub(in super::super) fn records_where(
        &self,
        fits: impl Fn(&DocumentRecord) -> bool,
    ) -> Vec<DocumentRecord> {
        let found = self.entries.values().map(|held| &held.record).filter(|record| fits(record));
        found.cloned().collect()
    }

    /// What is to be done next: of the records that are work and that no job has, the one that was written first, of the
    /// tenant with the fewest that jobs have.
    pub(in super::super) fn next_mirrored(
        &self,
        is_taken: impl Fn(&DocumentRecord) -> bool,
        is_work: impl Fn(&DocumentRecord) -> bool,
    ) -> Option<DocumentRecord> {
        let mut active: HashMap<&DocumentTenant, usize> = HashMap::new();
        for held in self.entries.values().filter(|held| is_taken(&held.record)) {
            *active.entry(&held.record.tenant).or_default() += 1;
        }
        let free = self.entries.values().filter(|held| !is_taken(&held.record) && is_work(&held.record));
        let next = free
            .min_by_key(|held| (active.get(&held.record.tenant).copied().unwrap_or(0), held.queue_position));
        next.map(|held| held.record.clone())
    }
}
