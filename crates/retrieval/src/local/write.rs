//! Changes of the index on the disk: first the files, then the manifest, then what searches see.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::keyword::{Held, Segment};
use crate::passage::{DocumentId, Tenant};
use crate::retriever::RetrieveError;

use super::grow::{self, Vectors};
use super::manifest::{Entry, Manifest, part};
use super::{Inside, broken, file};

impl Inside {
    /// Puts documents of different names in the place of older ones. `rows` are the vectors of all their passages.
    pub(super) fn put(
        &self,
        tenant: &Tenant,
        held: Vec<Arc<Held>>,
        rows: &[u8],
    ) -> Result<(), RetrieveError> {
        let segment = Segment::build(held.iter().map(|held| (held.listed(), held.passages.as_slice())));
        let shelf = self.shelf_for(tenant);
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = manifest.clone();
        {
            let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
            for place in held.iter().filter_map(|held| shelf.place(&held.document.id)) {
                next.bury(place);
            }
        }
        let (number, content) = self.write(&mut next, tenant, &held, &segment, rows)?;
        self.acknowledge(&mut manifest, next)?;
        let vectors = shelf.write().unwrap_or_else(PoisonError::into_inner).add(number, content, &[]);
        let tidied = self.tidy(tenant, &mut manifest);
        // One that was joined with others at once needs no graph of its own.
        if manifest.parts.iter().any(|entry| entry.file == number) {
            self.grow(number, vectors);
        }
        tidied
    }

    /// Removes a document. Gives whether there was one.
    pub(super) fn remove(&self, tenant: &Tenant, id: &DocumentId) -> Result<bool, RetrieveError> {
        let Some(shelf) = self.shelf(tenant) else { return Ok(false) };
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = shelf.read().unwrap_or_else(PoisonError::into_inner).place(id) else {
            return Ok(false);
        };
        let mut next = manifest.clone();
        next.bury(place);
        self.acknowledge(&mut manifest, next)?;
        shelf.write().unwrap_or_else(PoisonError::into_inner).take_out(id);
        self.tidy(tenant, &mut manifest)?;
        Ok(true)
    }

    /// Joins files of a tenant where there are many, and writes anew those that are mostly gone.
    fn tidy(&self, tenant: &Tenant, manifest: &mut Manifest) -> Result<(), RetrieveError> {
        let shelf = self.shelf_for(tenant);
        loop {
            let old = shelf.read().unwrap_or_else(PoisonError::into_inner).worth_joining();
            if old.is_empty() {
                return Ok(());
            }
            let joined = shelf.read().unwrap_or_else(PoisonError::into_inner).joined(&old);
            let mut next = manifest.clone();
            next.parts.retain(|entry| !old.contains(&entry.file));
            let new = match joined {
                Some((held, segment, rows)) => Some(self.write(&mut next, tenant, &held, &segment, &rows)?),
                None => None,
            };
            self.acknowledge(manifest, next)?;
            let number = new.as_ref().map(|(number, _)| *number);
            let vectors = shelf.write().unwrap_or_else(PoisonError::into_inner).swap(&old, new);
            if let Some(number) = number {
                self.grow(number, vectors);
            }
            for number in old {
                // Nothing names it any more: if it stays, it goes when the index is opened next.
                let old = part(&self.directory, number);
                if let Err(error) = std::fs::remove_file(&old) {
                    tracing::debug!(%error, number, "a joined file stays for now");
                }
                // Most files have none.
                std::fs::remove_file(grow::beside(&old)).ok();
            }
        }
    }

    /// Sees to it that many vectors get a graph.
    pub(super) fn grow(&self, number: u64, vectors: Option<Arc<Vectors>>) {
        if let Some(vectors) = vectors.filter(|vectors| vectors.rows().len() >= self.graph_from) {
            vectors.grow(&part(&self.directory, number));
        }
    }

    fn write(
        &self,
        manifest: &mut Manifest,
        tenant: &Tenant,
        held: &[Arc<Held>],
        segment: &Segment,
        rows: &[u8],
    ) -> Result<(u64, file::Content), RetrieveError> {
        let number = manifest.next;
        let path = part(&self.directory, number);
        file::write(&path, held, segment, rows)
            .map_err(|error| broken("the index cannot be written", error))?;
        manifest.next += 1;
        manifest.parts.push(Entry { tenant: tenant.as_str().to_owned(), file: number, dead: Vec::new() });
        Ok((number, file::open(&path)?))
    }

    /// From here on the change survives everything.
    fn acknowledge(&self, manifest: &mut Manifest, next: Manifest) -> Result<(), RetrieveError> {
        next.save(&self.directory).map_err(|error| broken("the index cannot be written", error))?;
        *manifest = next;
        Ok(())
    }
}

impl Manifest {
    /// Marks a document as gone.
    fn bury(&mut self, (file, place): (u64, u32)) {
        if let Some(entry) = self.parts.iter_mut().find(|entry| entry.file == file) {
            entry.dead.push(place);
        }
    }
}

/// The documents of an index, by tenant, whatever made it.
pub(super) fn documents(directory: &Path) -> Result<BTreeMap<Tenant, Vec<Arc<Held>>>, RetrieveError> {
    let manifest = Manifest::load(directory)?;
    let mut all: BTreeMap<Tenant, Vec<Arc<Held>>> = BTreeMap::new();
    for entry in &manifest.parts {
        let held = file::documents(&part(directory, entry.file))?;
        let live = held
            .into_iter()
            .enumerate()
            .filter(|(at, _)| !entry.dead.iter().any(|dead| *dead as usize == *at));
        all.entry(Tenant::new(&entry.tenant)).or_default().extend(live.map(|(_, held)| held));
    }
    Ok(all)
}
