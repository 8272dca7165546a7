//! Changes the index on disk: writes the files first, then the manifest, then updates what searches see.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use crate::keyword::{Segment, StoredDocument};
use crate::passage::{DocumentId, DocumentTenant};
use crate::retriever::RetrieveError;

use super::background_graph::{self, VectorsWithGraph};
use super::manifest::{IndexFileEntry, IndexManifest, part_path};
use super::tenant_index::{FileMergeInput, FileMergeOutput, TenantIndex};
use super::{LocalIndexInner, index_file, io_error};

impl LocalIndexInner {
    /// Stores documents with different identifiers and replaces older ones. Their vectors are computed later.
    pub(super) fn put(
        &self,
        tenant: &DocumentTenant,
        held: &[Arc<StoredDocument>],
    ) -> Result<(), RetrieveError> {
        let segment = Segment::from_stored_documents(held.iter().map(|held| &**held))?;
        let tenant_index = self.tenant_index_or_create(tenant);
        // Files are written in parallel. Only the change of the manifest is serialised.
        let number = self.next_file_number();
        let content = self.write_file(number, held, segment, &[])?;
        {
            let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let mut next = manifest.clone();
            {
                let tenant_index = tenant_index.read().unwrap_or_else(PoisonError::into_inner);
                for place in held.iter().filter_map(|held| tenant_index.location(&held.metadata().id)) {
                    next.mark_deleted(place);
                }
            }
            next.add_file(tenant, number, Vec::new());
            self.commit_manifest(&mut manifest, next)?;
            tenant_index.write().unwrap_or_else(PoisonError::into_inner).add_file(number, content, &[]);
        }
        self.merge_files(tenant, &tenant_index, false)
    }

    /// Removes a document. Returns whether it existed.
    pub(super) fn remove(&self, tenant: &DocumentTenant, id: &DocumentId) -> Result<bool, RetrieveError> {
        let Some(tenant_index) = self.tenant_index(tenant) else { return Ok(false) };
        {
            let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(place) = tenant_index.read().unwrap_or_else(PoisonError::into_inner).location(id) else {
                return Ok(false);
            };
            let mut next = manifest.clone();
            next.mark_deleted(place);
            self.commit_manifest(&mut manifest, next)?;
            tenant_index.write().unwrap_or_else(PoisonError::into_inner).remove_document(id);
        }
        self.merge_files(tenant, &tenant_index, true)?;
        Ok(true)
    }

    /// Rewrites every file that still contains text of replaced or removed documents.
    pub(super) fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        let tenant_indexes: Vec<(DocumentTenant, Arc<RwLock<TenantIndex>>)> = {
            let tenant_indexes = self.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner);
            tenant_indexes
                .iter()
                .map(|(tenant, tenant_index)| (tenant.clone(), Arc::clone(tenant_index)))
                .collect()
        };
        let unclean = |tenant_index: &RwLock<TenantIndex>| {
            tenant_index
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .file_with_deleted_documents()
                .is_some()
        };
        tenant_indexes
            .iter()
            .filter(|(_, tenant_index)| unclean(tenant_index))
            .try_for_each(|(tenant, tenant_index)| self.merge_files(tenant, tenant_index, true))
    }

    /// Merges files of a tenant where there are many, and rewrites those in which most documents are deleted. Writes
    /// continue meanwhile; what they delete is also deleted in the new file. Only one merge runs at a time: if another
    /// one is running, this returns without waiting. With `clean` it waits for its turn and also rewrites every file
    /// that contains any deleted document.
    fn merge_files(
        &self,
        tenant: &DocumentTenant,
        tenant_index: &RwLock<TenantIndex>,
        clean: bool,
    ) -> Result<(), RetrieveError> {
        let turn = tenant_index.read().unwrap_or_else(PoisonError::into_inner).merge_lock();
        let _turn = match turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) if clean => turn.lock().unwrap_or_else(PoisonError::into_inner),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        loop {
            let joining = {
                let tenant_index = tenant_index.read().unwrap_or_else(PoisonError::into_inner);
                let mut old = tenant_index.files_to_merge();
                if old.is_empty() && clean {
                    old.extend(tenant_index.file_with_deleted_documents());
                }
                if old.is_empty() {
                    return Ok(());
                }
                tenant_index.merge_input(old)
            };
            self.replace_files(tenant, tenant_index, &joining, joining.merge()?)?;
        }
    }

    /// Replaces files by one with this content, or by none. The caller holds the merge lock.
    pub(super) fn replace_files(
        &self,
        tenant: &DocumentTenant,
        tenant_index: &RwLock<TenantIndex>,
        joining: &FileMergeInput,
        content: Option<FileMergeOutput>,
    ) -> Result<(), RetrieveError> {
        let new = match content {
            Some(FileMergeOutput { documents: held, segment, vector_bytes: rows }) => {
                let number = self.next_file_number();
                Some((number, self.write_file(number, &held, segment, &rows)?))
            }
            None => None,
        };
        let old = joining.file_numbers();
        {
            let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = tenant_index.read().unwrap_or_else(PoisonError::into_inner).deleted_since(joining);
            let mut next = manifest.clone();
            next.parts.retain(|entry| !old.contains(&entry.file));
            if let Some((number, _)) = &new {
                next.add_file(tenant, *number, gone.clone());
            }
            self.commit_manifest(&mut manifest, next)?;
            let number = new.as_ref().map(|(number, _)| *number);
            let new = new.map(|(number, content)| (number, content, gone));
            let vectors =
                tenant_index.write().unwrap_or_else(PoisonError::into_inner).replace_files(old, new);
            if let Some(number) = number {
                self.ensure_graph(number, vectors);
            }
        }
        for number in old {
            // The manifest no longer refers to it. If this fails, the next open removes it.
            let old = part_path(&self.directory, *number);
            if let Err(error) = std::fs::remove_file(&old) {
                tracing::debug!(%error, number, "a joined file stays for now");
            }
            // Most files have no graph.
            std::fs::remove_file(background_graph::graph_path(&old)).ok();
        }
        Ok(())
    }

    /// Makes sure that a file with many vectors gets a graph.
    pub(super) fn ensure_graph(&self, number: u64, vectors: Option<Arc<VectorsWithGraph>>) {
        if let Some(vectors) = vectors.filter(|vectors| vectors.rows().len() >= self.min_graph_rows) {
            vectors.ensure_graph(&part_path(&self.directory, number));
        }
    }

    /// Returns the number of the next file.
    fn next_file_number(&self) -> u64 {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        manifest.next += 1;
        manifest.next - 1
    }

    fn write_file(
        &self,
        number: u64,
        held: &[Arc<StoredDocument>],
        segment: Segment,
        rows: &[u8],
    ) -> Result<index_file::IndexFileContent, RetrieveError> {
        index_file::write_index_file(&part_path(&self.directory, number), held, segment, rows)
    }

    /// Saves the manifest. From here on the change is durable.
    fn commit_manifest(
        &self,
        manifest: &mut IndexManifest,
        next: IndexManifest,
    ) -> Result<(), RetrieveError> {
        next.save(&self.directory).map_err(|error| io_error("the index cannot be written", error))?;
        *manifest = next;
        Ok(())
    }
}

impl IndexManifest {
    /// Adds a file of a tenant, of which some documents are deleted.
    fn add_file(&mut self, tenant: &DocumentTenant, file: u64, dead: Vec<u32>) {
        let embedder = self.about.embedder.as_ref().map(|embedder| embedder.id.clone());
        self.parts.push(IndexFileEntry { tenant: tenant.as_str().to_owned(), file, dead, embedder });
    }

    /// Marks a document as deleted.
    fn mark_deleted(&mut self, (file, place): (u64, u32)) {
        if let Some(entry) = self.parts.iter_mut().find(|entry| entry.file == file) {
            entry.dead.push(place);
        }
    }
}

/// Reads the documents of an index by tenant, whatever analyser and embedder it was made with.
pub(super) fn read_all_documents(
    directory: &Path,
) -> Result<BTreeMap<DocumentTenant, Vec<Arc<StoredDocument>>>, RetrieveError> {
    let manifest = IndexManifest::load(directory)?;
    let mut all: BTreeMap<DocumentTenant, Vec<Arc<StoredDocument>>> = BTreeMap::new();
    for entry in &manifest.parts {
        let held = index_file::read_documents(&part_path(directory, entry.file))?;
        let live = held
            .into_iter()
            .enumerate()
            .filter(|(at, _)| !entry.dead.iter().any(|dead| *dead as usize == *at));
        all.entry(DocumentTenant::new(&entry.tenant)).or_default().extend(live.map(|(_, held)| held));
    }
    Ok(all)
}
