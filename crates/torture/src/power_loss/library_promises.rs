//! What a library and its facts had promised when the power failed.

use std::collections::{BTreeMap, BTreeSet};

use crate::power_loss::io_trace::TraceRecord;
use crate::power_loss::library_victim::{LibraryAction, LibraryLine};

/// What may be there. Something that was begun and not done may be there or not.
#[derive(Default)]
pub struct LibraryPromises {
    /// The versions that a document may have; `None`: it may be absent.
    pub documents: BTreeMap<String, BTreeSet<Option<u64>>>,
    /// Every version that was ever begun.
    pub versions: BTreeMap<String, BTreeSet<u64>>,
    /// Whether a fact may be there, and may be absent.
    pub facts: BTreeMap<u64, BTreeSet<bool>>,
    /// What was acknowledged.
    pub acknowledged: u64,
    /// What went wrong without a power failure.
    pub failures: Vec<String>,
}

impl LibraryPromises {
    pub fn from_records(records: &[TraceRecord<LibraryLine>]) -> Self {
        let mut promises = Self::default();
        for record in records {
            match record {
                TraceRecord::Line(LibraryLine::Begun(action)) => promises.add(action, false),
                TraceRecord::Line(LibraryLine::Done(action)) => {
                    promises.acknowledged += 1;
                    promises.add(action, true);
                }
                TraceRecord::Line(LibraryLine::Failed(why)) => promises.failures.push(why.clone()),
                TraceRecord::ProcessStarted | TraceRecord::Disk(_) => {}
            }
        }
        promises
    }

    fn add(&mut self, action: &LibraryAction, done: bool) {
        match action {
            LibraryAction::Add { name, version } => {
                self.versions.entry(name.clone()).or_default().insert(*version);
                set_or_add(self.documents.entry(name.clone()), None, Some(*version), done);
            }
            LibraryAction::Remove { name } => {
                set_or_add(self.documents.entry(name.clone()), None, None, done);
            }
            LibraryAction::Keep { fact } => set_or_add(self.facts.entry(*fact), false, true, done),
            LibraryAction::Forget { fact } => set_or_add(self.facts.entry(*fact), false, false, done),
        }
    }
}

/// A finished action replaces the allowed values; a started one adds to them.
fn set_or_add<K: Ord, V: Ord>(
    entry: std::collections::btree_map::Entry<'_, K, BTreeSet<V>>,
    at_first: V,
    value: V,
    done: bool,
) {
    let allowed = entry.or_insert_with(|| BTreeSet::from([at_first]));
    if done {
        allowed.clear();
    }
    allowed.insert(value);
}
