//! Changes of the index on the disk: first the files, then the manifest, then what searches see.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use crate::keyword::{Held, Segment};
use crate::passage::{DocumentId, Tenant};
use crate::retriever::RetrieveError;

use super::grow::{self, Vectors};
use super::manifest::{Entry, Manifest, part};
use super::shelf::{Joined, Shelf};
use super::{Inside, broken, file};

impl Inside {
    /// Puts documents of different names in the place of older ones. `rows` are the vectors of all their passages.
    pub(super) fn put(&self, tenant: &Tenant, held: &[Arc<Held>], rows: &[u8]) -> Result<(), RetrieveError> {
        let segment = Segment::of(held.iter().map(|held| &**held));
        let shelf = self.shelf_for(tenant);
        // Files are written side by side; only the change of the manifest waits its turn.
        let number = self.number();
        let content = self.write(number, held, segment, rows)?;
        let vectors = {
            let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let mut next = manifest.clone();
            {
                let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
                for place in held.iter().filter_map(|held| shelf.place(&held.about().id)) {
                    next.bury(place);
                }
            }
            next.add(tenant, number, Vec::new());
            self.acknowledge(&mut manifest, next)?;
            shelf.write().unwrap_or_else(PoisonError::into_inner).add(number, content, &[])
        };
        let tidied = self.tidy(tenant, &shelf, false);
        // One that was joined with others at once needs no graph of its own.
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        if manifest.parts.iter().any(|entry| entry.file == number) {
            self.grow(number, vectors);
        }
        tidied
    }

    /// Removes a document. Gives whether there was one.
    pub(super) fn remove(&self, tenant: &Tenant, id: &DocumentId) -> Result<bool, RetrieveError> {
        let Some(shelf) = self.shelf(tenant) else { return Ok(false) };
        {
            let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(place) = shelf.read().unwrap_or_else(PoisonError::into_inner).place(id) else {
                return Ok(false);
            };
            let mut next = manifest.clone();
            next.bury(place);
            self.acknowledge(&mut manifest, next)?;
            shelf.write().unwrap_or_else(PoisonError::into_inner).take_out(id);
        }
        self.tidy(tenant, &shelf, true)?;
        Ok(true)
    }

    /// Writes every file anew that still has words of what was replaced or removed.
    pub(super) fn sweep(&self) -> Result<(), RetrieveError> {
        let shelves: Vec<(Tenant, Arc<RwLock<Shelf>>)> = {
            let shelves = self.shelves.read().unwrap_or_else(PoisonError::into_inner);
            shelves.iter().map(|(tenant, shelf)| (tenant.clone(), Arc::clone(shelf))).collect()
        };
        let unclean =
            |shelf: &RwLock<Shelf>| shelf.read().unwrap_or_else(PoisonError::into_inner).unclean().is_some();
        shelves
            .iter()
            .filter(|(_, shelf)| unclean(shelf))
            .try_for_each(|(tenant, shelf)| self.tidy(tenant, shelf, true))
    }

    /// Joins files of a tenant where there are many, and writes anew those that are mostly gone. Others go on writing
    /// meanwhile; what they take out is taken out of the new file too. One joins at a time, and whoever finds another at
    /// it leaves it to him. To `clean`, though, waits its turn and writes every file anew that still has words of what is
    /// gone.
    fn tidy(&self, tenant: &Tenant, shelf: &RwLock<Shelf>, clean: bool) -> Result<(), RetrieveError> {
        let turn = shelf.read().unwrap_or_else(PoisonError::into_inner).turn();
        let _turn = match turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) if clean => turn.lock().unwrap_or_else(PoisonError::into_inner),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        loop {
            let joining = {
                let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
                let mut old = shelf.worth_joining();
                if old.is_empty() && clean {
                    old.extend(shelf.unclean());
                }
                if old.is_empty() {
                    return Ok(());
                }
                shelf.joining(old)
            };
            let new = match joining.join() {
                Some(Joined { held, segment, rows }) => {
                    let number = self.number();
                    Some((number, self.write(number, &held, segment, &rows)?))
                }
                None => None,
            };
            let old = joining.files();
            {
                let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
                let gone = shelf.read().unwrap_or_else(PoisonError::into_inner).gone(&joining);
                let mut next = manifest.clone();
                next.parts.retain(|entry| !old.contains(&entry.file));
                if let Some((number, _)) = &new {
                    next.add(tenant, *number, gone.clone());
                }
                self.acknowledge(&mut manifest, next)?;
                let number = new.as_ref().map(|(number, _)| *number);
                let new = new.map(|(number, content)| (number, content, gone));
                let vectors = shelf.write().unwrap_or_else(PoisonError::into_inner).swap(old, new);
                if let Some(number) = number {
                    self.grow(number, vectors);
                }
            }
            for number in old {
                // Nothing names it any more: if it stays, it goes when the index is opened next.
                let old = part(&self.directory, *number);
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

    /// The number of the next file.
    fn number(&self) -> u64 {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        manifest.next += 1;
        manifest.next - 1
    }

    fn write(
        &self,
        number: u64,
        held: &[Arc<Held>],
        segment: Segment,
        rows: &[u8],
    ) -> Result<file::Content, RetrieveError> {
        file::write(&part(&self.directory, number), held, segment, rows)
    }

    /// From here on the change survives everything.
    fn acknowledge(&self, manifest: &mut Manifest, next: Manifest) -> Result<(), RetrieveError> {
        next.save(&self.directory).map_err(|error| broken("the index cannot be written", error))?;
        *manifest = next;
        Ok(())
    }
}

impl Manifest {
    /// Names a file of a tenant, some of whose documents are gone.
    fn add(&mut self, tenant: &Tenant, file: u64, dead: Vec<u32>) {
        self.parts.push(Entry { tenant: tenant.as_str().to_owned(), file, dead });
    }

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
