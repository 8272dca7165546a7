//! What the process knows of every document, and who is next. Decides; the disk and the index are touched elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::{Mutex, Notify};

use super::record::{Incoming, Key, Ready, Record, State, Status, now};
use super::{LibraryError, LibraryOptions};
use crate::ingest::Failure;
use crate::passage::{DocumentId, DocumentKind, Tenant};
use crate::split::CUT;

/// All documents of the library.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    held: BTreeMap<(Tenant, DocumentId), Held>,
    queues: BTreeMap<Tenant, BTreeSet<(u64, DocumentId)>>,
    active: HashMap<Tenant, usize>,
    writing: HashMap<(Tenant, DocumentId), Arc<Mutex<()>>>,
    next_place: u64,
    leftovers: Leftovers,
}

/// Whether the index may hold words of versions that were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Leftovers {
    #[default]
    None,
    Some,
    /// Somebody sees to them.
    Going,
}

#[derive(Debug)]
struct Held {
    record: Record,
    place: u64,
    /// Rises with every change of what is wanted: a worker whose number is older has been overtaken.
    wanted: u64,
    /// Held by the worker that has the document in hand.
    turn: Arc<Mutex<()>>,
    stop: Arc<Notify>,
    /// Its removal failed and is tried again.
    stuck: bool,
}

/// How far a document is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It goes now.
    Soon,
    /// It could not be removed; that is tried again.
    Stuck,
}

impl Held {
    /// Whether it is on its way out, and nothing speaks against it.
    fn is_leaving(&self) -> bool {
        self.record.state == State::Removing && !self.stuck
    }
}

/// A document to be worked on.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) record: Record,
    pub(super) incoming: Incoming,
    pub(super) wanted: u64,
    pub(super) turn: Arc<Mutex<()>>,
    pub(super) stop: Arc<Notify>,
}

fn at(key: &Key) -> (Tenant, DocumentId) {
    (key.tenant.clone(), key.id.clone())
}

impl Shelf {
    /// Takes a record that was on disk.
    pub(super) fn take(&mut self, record: Record) {
        let key = record.key();
        let queued = record.state == State::Queued;
        let held = Held {
            record,
            place: self.next_place,
            wanted: 0,
            turn: Arc::new(Mutex::new(())),
            stop: Arc::new(Notify::new()),
            stuck: false,
        };
        self.next_place += 1;
        self.held.insert(at(&key), held);
        if queued {
            self.enqueue(&key);
        }
    }

    /// Takes a new document, or a new version of one. Gives the hash of a version that it overtook before that was ready.
    pub(super) fn put(&mut self, record: Record) -> (Status, Option<String>) {
        let key = record.key();
        let mut overtaken = None;
        match self.held.get_mut(&at(&key)) {
            Some(held) => {
                // What is on its way into the index will be named as ready.
                let goes_in = held.record.state == State::Indexing;
                overtaken = held.record.incoming.take().map(|old| old.hash).filter(|_| !goes_in);
                held.record =
                    Record { ready: held.record.ready.take(), added_at: held.record.added_at, ..record };
                self.want(&key);
                self.enqueue(&key);
            }
            None => self.take(record),
        }
        let record = &self.held[&at(&key)].record;
        (record.status(), overtaken.filter(|hash| !record.names(hash)))
    }

    /// The status of a document for which these bytes are nothing new.
    pub(super) fn same(&self, key: &Key, incoming: &Incoming, kind: &DocumentKind) -> Option<Status> {
        let record = &self.held.get(&at(key))?.record;
        let coming = record.incoming.as_ref().is_some_and(|known| known.hash == incoming.hash);
        let there = record.ready.as_ref().is_some_and(|ready| ready.hash == incoming.hash);
        let same = match record.state {
            State::Ready => there,
            State::Queued | State::Reading | State::Indexing | State::Paused => coming,
            State::Failed | State::Cancelled | State::Removing => false,
        };
        (same && record.kind == *kind).then(|| record.status())
    }

    /// Notes where a known document lies now. Gives its status, if that was news.
    pub(super) fn moved(&mut self, key: &Key, origin: &str) -> Option<Status> {
        let held = self.held.get_mut(&at(key))?;
        let news = held.record.origin.as_deref() != Some(origin);
        held.record.origin = Some(origin.to_owned());
        news.then(|| held.record.status())
    }

    /// How many documents of a tenant wait or are worked on.
    pub(super) fn pending(&self, tenant: &Tenant) -> usize {
        let own = self.held.iter().filter(|((whose, _), _)| whose == tenant);
        own.filter(|(_, held)| held.record.state.is_pending()).count()
    }

    /// Puts what is worked on back into the queue as if nobody had begun: its worker was told to stop, so the file is not
    /// to blame. Gives what that concerned.
    pub(super) fn let_go(&mut self) -> Vec<Key> {
        let begun = |record: &Record| matches!(record.state, State::Reading | State::Indexing);
        let mut keys = Vec::new();
        for held in self.held.values_mut().filter(|held| begun(&held.record)) {
            held.record.state = State::Queued;
            held.record.attempts = held.record.attempts.saturating_sub(1);
            keys.push(held.record.key());
        }
        self.active.clear();
        // Nobody is left to see to them before the next start.
        self.leftovers = Leftovers::None;
        keys.iter().for_each(|key| self.enqueue(key));
        keys
    }

    /// Whether there is room for a document.
    pub(super) fn admits(
        &self,
        key: &Key,
        incoming: &Incoming,
        options: &LibraryOptions,
    ) -> Result<(), LibraryError> {
        let own = self
            .held
            .range((key.tenant.clone(), DocumentId::default())..)
            .take_while(|((tenant, _), _)| *tenant == key.tenant);
        let (mut waiting, mut bytes) = (0, 0u64);
        for ((_, id), held) in own {
            let record = &held.record;
            if *id != key.id {
                waiting += usize::from(record.state.is_pending());
                bytes += record.incoming.as_ref().map_or(0, |new| new.bytes);
            }
            bytes += record.ready.as_ref().map_or(0, |ready| ready.bytes);
        }
        if waiting >= options.waiting {
            return Err(LibraryError::Busy(waiting));
        }
        if bytes.saturating_add(incoming.bytes) > options.bytes {
            return Err(LibraryError::Full(options.bytes));
        }
        Ok(())
    }

    pub(super) fn list(&self, tenant: &Tenant) -> Vec<Status> {
        let own = self.held.iter().filter(|((whose, _), held)| whose == tenant && !held.is_leaving());
        let mut own: Vec<&Held> = own.map(|(_, held)| held).collect();
        own.sort_by_key(|held| std::cmp::Reverse((held.record.changed_at, held.place)));
        own.into_iter().map(|held| held.record.status()).collect()
    }

    pub(super) fn status(&self, key: &Key) -> Option<Status> {
        let held = self.held.get(&at(key)).filter(|held| !held.is_leaving())?;
        Some(held.record.status())
    }

    pub(super) fn record(&self, key: &Key) -> Option<Record> {
        self.held.get(&at(key)).map(|held| held.record.clone())
    }

    /// How far a document is on its way out; none when it stays.
    pub(super) fn leaving(&self, key: &Key) -> Option<Leaving> {
        let held = self.held.get(&at(key)).filter(|held| held.record.state == State::Removing)?;
        Some(if held.stuck { Leaving::Stuck } else { Leaving::Soon })
    }

    /// The removal of a document did not succeed for now: it is shown again.
    pub(super) fn stuck(&mut self, key: &Key) {
        if let Some(held) = self.held.get_mut(&at(key)) {
            held.stuck = true;
        }
    }

    /// Whether files of a version are of no use any more.
    pub(super) fn is_forgotten(&self, key: &Key, hash: &str) -> bool {
        self.held.get(&at(key)).is_none_or(|held| !held.record.names(hash))
    }

    /// The index may hold words of versions that were replaced.
    pub(super) fn leave_words(&mut self) {
        self.leftovers = Leftovers::Some;
    }

    /// Whether somebody should see to such words now: there are some, and nothing else is to be done.
    pub(super) fn sweeps(&mut self) -> bool {
        let due = self.leftovers == Leftovers::Some
            && self.active.is_empty()
            && self.queues.values().all(BTreeSet::is_empty);
        if due {
            self.leftovers = Leftovers::Going;
        }
        due
    }

    /// That was done, or is left to the next start.
    pub(super) fn swept(&mut self) {
        if self.leftovers == Leftovers::Going {
            self.leftovers = Leftovers::None;
        }
    }

    /// The records of what can be found.
    pub(super) fn ready(&self) -> Vec<Record> {
        let ready = self
            .held
            .values()
            .filter(|held| held.record.ready.is_some() && held.record.state != State::Removing);
        ready.map(|held| held.record.clone()).collect()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.leftovers == Leftovers::None
            && self.active.values().all(|count| *count == 0)
            && self.held.values().all(|held| !held.record.state.is_pending())
    }

    /// Keeps a document from being read. What is on its way into the index cannot be called back.
    pub(super) fn hold(&mut self, key: &Key, state: State) -> Option<Status> {
        self.status(key)?;
        let held = self.held.get_mut(&at(key))?;
        let from = [State::Queued, State::Reading, State::Paused];
        if from.contains(&held.record.state) && held.record.state != state {
            held.record.state = state;
            self.want(key);
            self.unqueue(key);
        }
        self.status(key)
    }

    /// Lets a document be read that stands in one of these states.
    pub(super) fn again(&mut self, key: &Key, from: &[State]) -> Option<Status> {
        self.status(key)?;
        let held = self.held.get_mut(&at(key))?;
        if from.contains(&held.record.state) && held.record.incoming.is_some() {
            held.record.state = State::Queued;
            held.record.failure = None;
            held.record.attempts = 0;
            self.want(key);
            self.enqueue(key);
        }
        self.status(key)
    }

    /// Marks a document as going away. Gives its key, and whether it was going already.
    pub(super) fn removing(&mut self, key: &Key) -> Option<(Key, bool)> {
        let held = self.held.get_mut(&at(key))?;
        let again = held.record.state == State::Removing;
        held.record.state = State::Removing;
        let key = held.record.key();
        if !again {
            self.want(&key);
            self.unqueue(&key);
        }
        Some((key, again))
    }

    /// What the worker of a document holds.
    pub(super) fn turn(&self, key: &Key) -> Option<Arc<Mutex<()>>> {
        self.held.get(&at(key)).map(|held| held.turn.clone())
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.held.remove(&at(key));
        self.writing.remove(&at(key));
    }

    /// The lock that writers of a document's files share.
    pub(super) fn writing(&mut self, key: &Key) -> Arc<Mutex<()>> {
        self.writing.entry(at(key)).or_default().clone()
    }

    /// The next document: of the tenant with the fewest in work, the one that waits longest.
    pub(super) fn next(&mut self) -> Option<Job> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let least = waiting.min_by_key(|(tenant, queue)| {
            let first = queue.first().map_or(u64::MAX, |(place, _)| *place);
            (self.active.get(*tenant).copied().unwrap_or(0), first)
        });
        let tenant = least.map(|(tenant, _)| tenant.clone())?;
        let (_, id) = self.queues.get_mut(&tenant)?.pop_first()?;
        let held = self.held.get_mut(&(tenant.clone(), id))?;
        let incoming = held.record.incoming.clone()?;
        held.record.state = State::Reading;
        held.record.attempts += 1;
        held.stop = Arc::new(Notify::new());
        *self.active.entry(tenant).or_default() += 1;
        Some(Job {
            record: held.record.clone(),
            incoming,
            wanted: held.wanted,
            turn: held.turn.clone(),
            stop: held.stop.clone(),
        })
    }

    /// A worker has let go of a document.
    pub(super) fn done(&mut self, tenant: &Tenant) {
        if let Some(count) = self.active.get_mut(tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.active.remove(tenant);
            }
        }
    }

    /// Whether a worker still does what is wanted.
    pub(super) fn is_wanted(&self, key: &Key, wanted: u64) -> bool {
        self.held.get(&at(key)).is_some_and(|held| held.wanted == wanted)
    }

    /// Goes from reading to indexing, if that is still wanted.
    pub(super) fn indexing(&mut self, key: &Key, wanted: u64) -> bool {
        let held = self.held.get_mut(&at(key)).filter(|held| held.wanted == wanted);
        held.is_some_and(|held| {
            held.record.state = State::Indexing;
            true
        })
    }

    /// A version can be found. Gives the hash of the one it took the place of.
    pub(super) fn found(&mut self, key: &Key, wanted: u64, ready: Ready) -> Option<String> {
        let held = self.held.get_mut(&at(key))?;
        let hash = ready.hash.clone();
        let old = held.record.ready.replace(ready);
        held.record.changed_at = now();
        if held.wanted == wanted {
            held.record.state = State::Ready;
            held.record.incoming = None;
            held.record.failure = None;
            held.record.attempts = 0;
        }
        let coming = held.record.incoming.as_ref().map(|new| new.hash.clone());
        if old.is_some() {
            self.leftovers = Leftovers::Some;
        }
        old.map(|old| old.hash).filter(|old| *old != hash && Some(old) != coming.as_ref())
    }

    /// A version was cut into passages by the rules that hold now. Gives the key of its record, if that is news.
    pub(super) fn cut(&mut self, key: &Key, version: &str, passages: usize) -> Option<Key> {
        let record = &mut self.held.get_mut(&at(key))?.record;
        let ready = record.ready.as_mut().filter(|ready| ready.version == version)?;
        let news = (ready.cut, ready.passages) != (CUT, passages);
        (ready.cut, ready.passages) = (CUT, passages);
        news.then(|| record.key())
    }

    /// What was ready cannot be found any more. It is kept, and can be tried again.
    pub(super) fn unready(&mut self, key: &Key, failure: Failure) {
        let Some(record) = self.held.get_mut(&at(key)).map(|held| &mut held.record) else { return };
        let Some(Ready { hash, bytes, .. }) = record.ready.take() else { return };
        record.changed_at = now();
        if record.state == State::Ready {
            record.state = State::Failed;
            record.failure = Some(failure);
        }
        record.incoming.get_or_insert(Incoming { hash, bytes });
    }

    pub(super) fn failed(&mut self, key: &Key, wanted: u64, failure: Failure) {
        if let Some(held) = self.held.get_mut(&at(key)).filter(|held| held.wanted == wanted) {
            held.record.state = State::Failed;
            held.record.failure = Some(failure);
            held.record.changed_at = now();
        }
    }

    fn want(&mut self, key: &Key) {
        if let Some(held) = self.held.get_mut(&at(key)) {
            held.wanted += 1;
            held.record.changed_at = now();
            held.stop.notify_one();
        }
    }

    fn enqueue(&mut self, key: &Key) {
        self.unqueue(key);
        let place = self.next_place;
        self.next_place += 1;
        if let Some(held) = self.held.get_mut(&at(key)) {
            held.place = place;
            self.queues.entry(key.tenant.clone()).or_default().insert((place, key.id.clone()));
        }
    }

    fn unqueue(&mut self, key: &Key) {
        let place = self.held.get(&at(key)).map(|held| held.place);
        if let (Some(place), Some(queue)) = (place, self.queues.get_mut(&key.tenant)) {
            queue.remove(&(place, key.id.clone()));
            if queue.is_empty() {
                self.queues.remove(&key.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
