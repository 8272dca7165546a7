//! Tests of a library that several replicas share: each of them lists, serves and removes what another one has, and what one
//! that died had begun is finished once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentTenant, IndexWrapper, IngestState, Library,
    LibraryDatabase, LibraryError, LibraryOptions, Passage, RamKeywordIndex, RecordChange, RecordChanges,
    RecordWrite, RetrieveError, split_into_passages,
};
use tokio::sync::Semaphore;

use crate::fresh_directory;
use crate::library::{has_jail, new_document, options, search_texts};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A database in memory.
#[derive(Default)]
pub(crate) struct RamLibraryDatabase(Mutex<RamRecords>);

#[derive(Default)]
struct RamRecords {
    revision: u64,
    records: BTreeMap<String, (u64, Option<Vec<u8>>)>,
    files: BTreeMap<(String, String), Vec<u8>>,
    workers: BTreeSet<String>,
    /// Workers that cannot renew their lease any more.
    dead: BTreeSet<String>,
}

impl RamLibraryDatabase {
    fn lock(&self) -> MutexGuard<'_, RamRecords> {
        self.0.lock().expect("no panic")
    }

    /// Lets the lease of a process run out.
    fn expire(&self, process: &str) {
        let mut database = self.lock();
        database.workers.remove(process);
        database.dead.insert(process.to_owned());
    }

    fn file_count(&self) -> usize {
        self.lock().files.len()
    }
}

#[async_trait]
impl LibraryDatabase for RamLibraryDatabase {
    async fn changes(&self, after: u64) -> Result<RecordChanges, LibraryError> {
        let database = self.lock();
        let changed = database.records.iter().filter(|(_, (revision, _))| *revision > after);
        let mut changes: Vec<RecordChange> = changed
            .map(|(key, (revision, record))| RecordChange {
                key: key.clone(),
                record: record.clone(),
                revision: *revision,
            })
            .collect();
        changes.sort_by_key(|change| change.revision);
        changes.truncate(3);
        Ok(RecordChanges { from_start: after == 0, changes })
    }

    async fn write(&self, write: RecordWrite<'_>) -> Result<Option<u64>, LibraryError> {
        // Others come in between.
        tokio::task::yield_now().await;
        let mut database = self.lock();
        let known = database.records.get(write.key).filter(|(_, record)| record.is_some());
        if known.map(|(revision, _)| *revision) != write.expected {
            return Ok(None);
        }
        database.revision += 1;
        let revision = database.revision;
        database.records.insert(write.key.to_owned(), (revision, write.record.map(<[u8]>::to_vec)));
        database.files.retain(|(key, name), _| {
            key != write.key || (write.record.is_some() && !write.delete_files.contains(&name.as_str()))
        });
        for (name, bytes) in write.put_files {
            database.files.insert((write.key.to_owned(), (*name).to_owned()), bytes.to_vec());
        }
        Ok(Some(revision))
    }

    async fn file(&self, key: &str, name: &str) -> Result<Option<Vec<u8>>, LibraryError> {
        Ok(self.lock().files.get(&(key.to_owned(), name.to_owned())).cloned())
    }

    async fn renew_worker(&self, worker: &str, _: Duration) -> Result<(), LibraryError> {
        let mut database = self.lock();
        if !database.dead.contains(worker) {
            database.workers.insert(worker.to_owned());
        }
        Ok(())
    }

    async fn end_worker(&self, worker: &str) -> Result<(), LibraryError> {
        self.lock().workers.remove(worker);
        Ok(())
    }

    async fn live_workers(&self) -> Result<BTreeSet<String>, LibraryError> {
        Ok(self.lock().workers.clone())
    }
}

/// The index of one replica. All write to the same one; a gate holds the writes of this replica back.
struct GatedIndex {
    index: Arc<RamKeywordIndex>,
    /// Writes that have come to the gate.
    arrived: Semaphore,
    gate: Semaphore,
    writes: AtomicUsize,
}

impl GatedIndex {
    fn new(index: &Arc<RamKeywordIndex>, open: usize) -> Arc<Self> {
        let (arrived, gate) = (Semaphore::new(0), Semaphore::new(open));
        Arc::new(Self { index: index.clone(), arrived, gate, writes: AtomicUsize::new(0) })
    }

    async fn wait_for_write(&self) {
        let arrived = tokio::time::timeout(PATIENCE, self.arrived.acquire()).await;
        arrived.expect("in time").expect("open").forget();
    }
}

#[async_trait]
impl IndexWrapper for GatedIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &*self.index
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.arrived.add_permits(1);
        self.gate.acquire().await.expect("open").forget();
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.index.put(tenant, document, passages).await
    }
}

/// Many more writes than a test makes.
const OPEN: usize = 10_000;

async fn open_replica(
    database: &Arc<RamLibraryDatabase>,
    index: &Arc<GatedIndex>,
    root: &Path,
    process: &str,
    workers: usize,
) -> Library {
    let taken = Library::lock_directory(root).await.expect("locked");
    let options = LibraryOptions { workers, ..options() };
    let opened =
        Library::open_shared(taken, database.clone(), index.clone(), options, process.to_owned()).await;
    opened.expect("a library")
}

/// Two replicas: the first one with one worker and a shut gate, the second one with `workers` and an open gate.
struct Replicas {
    database: Arc<RamLibraryDatabase>,
    index: Arc<RamKeywordIndex>,
    first_index: Arc<GatedIndex>,
    second_index: Arc<GatedIndex>,
    first: Library,
    second: Library,
}

impl Replicas {
    async fn open(name: &str, workers: usize) -> Self {
        let (database, index) = (Arc::<RamLibraryDatabase>::default(), Arc::<RamKeywordIndex>::default());
        let (first_index, second_index) = (GatedIndex::new(&index, 0), GatedIndex::new(&index, OPEN));
        let (here, there) =
            (fresh_directory(&format!("{name}-first")), fresh_directory(&format!("{name}-second")));
        let first = open_replica(&database, &first_index, &here, "first", 1).await;
        let second = open_replica(&database, &second_index, &there, "second", workers).await;
        Self { database, index, first_index, second_index, first, second }
    }
}

fn tenant() -> DocumentTenant {
    DocumentTenant::new("t")
}

/// The state of the only document of a replica; none if it has none.
async fn state_of(library: &Library) -> Option<IngestState> {
    library.refresh().await.expect("refreshed");
    library.list(&tenant()).first().map(|status| status.state)
}

async fn wait_for_state(library: &Library, expected: Option<IngestState>) {
    let waiting = async {
        while state_of(library).await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{:?} does not become {expected:?}", state_of(library).await);
}

#[tokio::test]
async fn what_one_replica_adds_the_others_list_serve_change_and_remove() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, first, second, .. } = Replicas::open("shared", 0).await;
    first_index.gate.add_permits(OPEN);
    let added = second.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    wait_for_state(&first, Some(IngestState::Ready)).await;
    wait_for_state(&second, Some(IngestState::Ready)).await;
    assert_eq!(first.list(&tenant()), second.list(&tenant()));
    assert_eq!(search_texts(&*index, "t", "사과").await, ["사과 하나."]);
    let text = second.document(&tenant(), &added.id).await.expect("read").expect("there").text;
    assert_eq!(text, "사과 하나.");
    let original = second.original(&tenant(), &added.id).await.expect("read");
    assert_eq!(original.as_deref(), Some("사과 하나.".as_bytes()));
    let same = first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    assert_eq!((same.state, same.version), (IngestState::Ready, second.list(&tenant())[0].version.clone()));

    second.add(new_document("t", "a.txt", "배 하나.")).await.expect("added");
    let waiting = async {
        while search_texts(&*index, "t", "배").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    wait_for_state(&second, Some(IngestState::Ready)).await;
    assert_eq!(search_texts(&*index, "t", "사과").await, [""; 0]);
    assert_eq!(database.file_count(), 2, "the original and the text of the new version");

    first.remove(&tenant(), &added.id).await.expect("removed");
    assert_eq!(state_of(&second).await, None);
    assert!(matches!(second.remove(&tenant(), &added.id).await, Err(LibraryError::Unknown(_))));
    assert_eq!(second.document(&tenant(), &added.id).await.expect("read"), None);
    assert_eq!((search_texts(&*index, "t", "배").await.len(), database.file_count()), (0, 0));
}

#[tokio::test]
async fn what_a_replica_that_died_had_begun_another_one_finishes() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, first, second, .. } = Replicas::open("died", 1).await;
    // The first replica may take it or the second: the one that takes it has to begin with the first.
    second.stop_workers().await;
    first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    first_index.wait_for_write().await;
    let there = fresh_directory("died-third");
    let third_index = GatedIndex::new(&index, OPEN);
    let third = open_replica(&database, &third_index, &there, "third", 1).await;
    assert_eq!(state_of(&third).await, Some(IngestState::Indexing));
    assert_eq!(third_index.writes.load(Ordering::SeqCst), 0, "the first one is alive");
    database.expire("first");
    wait_for_state(&third, Some(IngestState::Ready)).await;
    assert_eq!(search_texts(&*index, "t", "사과").await, ["사과 하나."]);

    // It was not dead after all. What it writes late is no harm.
    first_index.gate.add_permits(1);
    wait_for_state(&first, Some(IngestState::Ready)).await;
    third.add(new_document("t", "b.txt", "배 하나.")).await.expect("added");
    assert_eq!(third.list(&tenant()).len(), 2);
}

#[tokio::test]
async fn a_replica_that_was_taken_for_dead_does_not_bring_a_removed_document_back() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, first, second, .. } = Replicas::open("late", 0).await;
    let added = first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    first_index.wait_for_write().await;
    second.close().await;
    database.expire("first");
    let there = fresh_directory("late-third");
    let third = open_replica(&database, &GatedIndex::new(&index, OPEN), &there, "third", 1).await;
    wait_for_state(&third, Some(IngestState::Ready)).await;
    third.remove(&tenant(), &added.id).await.expect("removed");
    assert_eq!(search_texts(&*index, "t", "사과").await, [""; 0]);
    first_index.gate.add_permits(1);
    let waiting = async {
        while first_index.writes.load(Ordering::SeqCst) == 0
            || !search_texts(&*index, "t", "사과").await.is_empty()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it removes what it wrote");
    assert_eq!((state_of(&first).await, database.file_count()), (None, 0));
}

#[tokio::test]
async fn a_document_that_is_removed_while_another_replica_indexes_it_is_gone_everywhere() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, first, second, .. } = Replicas::open("removed", 0).await;
    let added = first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    first_index.wait_for_write().await;
    let (library, id) = (second.clone(), added.id.clone());
    let removing = tokio::spawn(async move { library.remove(&tenant(), &id).await });
    // It is not listed any more, and the one who indexes it removes it.
    wait_for_state(&first, None).await;
    assert!(!removing.is_finished());
    first_index.gate.add_permits(1);
    tokio::time::timeout(PATIENCE, removing).await.expect("in time").expect("no panic").expect("removed");
    assert_eq!((search_texts(&*index, "t", "사과").await.len(), database.file_count()), (0, 0));
    assert_eq!(state_of(&second).await, None);
}

#[tokio::test]
async fn a_version_that_is_added_while_another_one_is_indexed_comes_after_it() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, second_index, first, second, .. } =
        Replicas::open("overtaken", 0).await;
    first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    first_index.wait_for_write().await;
    second.add(new_document("t", "a.txt", "배 하나.")).await.expect("added");
    let there = fresh_directory("overtaken-third");
    let third = open_replica(&database, &second_index, &there, "third", 1).await;
    // It takes what was written first, so it has passed over the document when it has read a later one.
    let later = second.add(new_document("t", "b.txt", "감 하나.")).await.expect("added").id;
    let waiting = async {
        while third.status(&tenant(), &later).is_none_or(|status| status.state != IngestState::Ready) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    assert_eq!(second_index.writes.load(Ordering::SeqCst), 1, "the older version is still on its way");
    first_index.gate.add_permits(OPEN);
    let waiting = async {
        while search_texts(&*index, "t", "배").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    tokio::time::timeout(PATIENCE, third.wait_until_idle()).await.expect("in time");
    assert_eq!(search_texts(&*index, "t", "사과").await, [""; 0]);
    assert_eq!(database.file_count(), 4, "no file of the older version is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_documents_on_two_replicas_are_each_indexed_once() {
    if !has_jail().await {
        return;
    }
    let Replicas { index, first_index, second_index, first, second, .. } = Replicas::open("many", 2).await;
    first_index.gate.add_permits(OPEN);
    for number in 0..30 {
        let library = if number % 2 == 0 { &first } else { &second };
        let text = format!("문서 {number}의 내용.");
        library.add(new_document("t", &format!("{number}.txt"), &text)).await.expect("added");
    }
    let waiting = async {
        first.wait_until_idle().await;
        second.wait_until_idle().await;
    };
    tokio::time::timeout(PATIENCE * 2, waiting).await.expect("in time");
    first.refresh().await.expect("refreshed");
    let listed = first.list(&tenant());
    assert_eq!(listed.len(), 30);
    assert!(listed.iter().all(|status| status.state == IngestState::Ready), "{listed:?}");
    let writes = [&first_index, &second_index].map(|index| index.writes.load(Ordering::SeqCst));
    assert_eq!(writes.iter().sum::<usize>(), 30, "{writes:?}");
    assert_eq!(index.list(&tenant(), &DocumentFilter::default()).await.expect("list").len(), 30);
}

#[tokio::test]
async fn a_replica_that_is_stopped_leaves_its_documents_to_the_others() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, first, second, .. } = Replicas::open("stopped", 0).await;
    first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    first_index.wait_for_write().await;
    first.stop_workers().await;
    assert_eq!(state_of(&second).await, Some(IngestState::Queued));
    let there = fresh_directory("stopped-third");
    let third = open_replica(&database, &GatedIndex::new(&index, OPEN), &there, "third", 1).await;
    wait_for_state(&third, Some(IngestState::Ready)).await;
}

#[tokio::test]
async fn the_documents_of_a_directory_are_moved_into_the_database_once() {
    if !has_jail().await {
        return;
    }
    let root = fresh_directory("imported").join("library");
    let index = Arc::<RamKeywordIndex>::default();
    let library = Library::open(&root, index.clone(), options()).await.expect("a library");
    let added = library.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    library.wait_until_idle().await;
    library.close().await;
    let database = Arc::<RamLibraryDatabase>::default();
    let index = GatedIndex::new(&index, OPEN);
    for _ in 0..2 {
        let shared = open_replica(&database, &index, &root, "first", 1).await;
        assert_eq!(state_of(&shared).await, Some(IngestState::Ready));
        let text = shared.document(&tenant(), &added.id).await.expect("read").expect("there").text;
        assert_eq!(text, "사과 하나.");
        shared.close().await;
    }
    assert_eq!(index.writes.load(Ordering::SeqCst), 0, "the index has it already");
    assert!(root.with_extension("imported").join("_t").is_dir());
}

#[tokio::test]
async fn a_document_that_the_index_lacks_is_indexed_again() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, first_index, first, .. } = Replicas::open("lacking", 0).await;
    first_index.gate.add_permits(OPEN);
    first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added");
    wait_for_state(&first, Some(IngestState::Ready)).await;
    let empty = Arc::<RamKeywordIndex>::default();
    let there = fresh_directory("lacking-third");
    let third = open_replica(&database, &GatedIndex::new(&empty, OPEN), &there, "third", 0).await;
    assert_eq!(search_texts(&*empty, "t", "사과").await, [""; 0], "nobody reads here");
    third.close().await;
    first.stop_workers().await;
    let there = fresh_directory("lacking-fourth");
    let fourth = open_replica(&database, &GatedIndex::new(&empty, OPEN), &there, "fourth", 1).await;
    let waiting = async {
        while search_texts(&*empty, "t", "사과").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    wait_for_state(&fourth, Some(IngestState::Ready)).await;
}

#[tokio::test]
async fn an_index_that_was_lost_gets_the_older_version_of_a_document_whose_newer_one_failed() {
    if !has_jail().await {
        return;
    }
    let (database, root) = (Arc::<RamLibraryDatabase>::default(), fresh_directory("older"));
    let index = Arc::<RamKeywordIndex>::default();
    let first = open_replica(&database, &GatedIndex::new(&index, OPEN), &root, "first", 1).await;
    let id = first.add(new_document("t", "a.txt", "사과 하나.")).await.expect("added").id;
    wait_for_state(&first, Some(IngestState::Ready)).await;
    first.add(new_document("t", "a.txt", "   \n")).await.expect("added");
    wait_for_state(&first, Some(IngestState::Failed)).await;
    assert_eq!(search_texts(&*index, "t", "사과").await, ["사과 하나."]);
    first.close().await;

    let empty = Arc::<RamKeywordIndex>::default();
    let second = open_replica(&database, &GatedIndex::new(&empty, OPEN), &root, "second", 1).await;
    tokio::time::timeout(PATIENCE, second.wait_until_idle()).await.expect("in time");
    assert_eq!(search_texts(&*empty, "t", "사과").await, ["사과 하나."]);
    // The newer version is still the one that failed, and can be tried again.
    assert_eq!(state_of(&second).await, Some(IngestState::Failed));
    assert_eq!(database.file_count(), 3, "the originals of both and the text of the older one");
    second.retry(&tenant(), &id).await.expect("tried");
    tokio::time::timeout(PATIENCE, second.wait_until_idle()).await.expect("in time");
    assert_eq!(state_of(&second).await, Some(IngestState::Failed));
    assert_eq!(search_texts(&*empty, "t", "사과").await, ["사과 하나."]);
}

#[tokio::test]
async fn a_document_that_is_removed_or_replaced_while_it_is_restored_to_the_index_ends_as_the_person_wants() {
    if !has_jail().await {
        return;
    }
    let (database, root) = (Arc::<RamLibraryDatabase>::default(), fresh_directory("restored"));
    let index = Arc::<RamKeywordIndex>::default();
    let first = open_replica(&database, &GatedIndex::new(&index, OPEN), &root, "first", 1).await;
    let mut ids = Vec::new();
    for name in ["a.txt", "b.txt"] {
        ids.push(first.add(new_document("t", name, "사과 하나.")).await.expect("added").id);
        first.wait_until_idle().await;
        first.add(new_document("t", name, "   \n")).await.expect("added");
        first.wait_until_idle().await;
    }
    first.close().await;

    let empty = Arc::<RamKeywordIndex>::default();
    let gated = GatedIndex::new(&empty, 0);
    let second = open_replica(&database, &gated, &root, "second", 2).await;
    gated.wait_for_write().await;
    gated.wait_for_write().await;
    let (library, id) = (second.clone(), ids[0].clone());
    let removing = tokio::spawn(async move { library.remove(&tenant(), &id).await });
    second.add(new_document("t", "b.txt", "배 하나.")).await.expect("added");
    let waiting = async {
        while second.list(&tenant()).iter().any(|listed| listed.id == ids[0]) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    gated.gate.add_permits(OPEN);
    tokio::time::timeout(PATIENCE, removing).await.expect("in time").expect("no panic").expect("removed");
    tokio::time::timeout(PATIENCE, second.wait_until_idle()).await.expect("in time");
    assert_eq!(state_of(&second).await, Some(IngestState::Ready));
    assert_eq!(search_texts(&*empty, "t", "사과").await, [""; 0]);
    assert_eq!(search_texts(&*empty, "t", "배").await, ["배 하나."]);
    assert_eq!(database.file_count(), 2, "the original and the text of the newest version");
}

/// An index that keeps removals waiting.
struct HeldRemovalIndex {
    index: Arc<RamKeywordIndex>,
    arrived: Semaphore,
    gate: Semaphore,
}

#[async_trait]
impl IndexWrapper for HeldRemovalIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &*self.index
    }

    async fn remove(&self, tenant: &DocumentTenant, id: &DocumentId) -> Result<bool, RetrieveError> {
        self.arrived.add_permits(1);
        self.gate.acquire().await.expect("open").forget();
        self.index.remove(tenant, id).await
    }
}

#[tokio::test]
async fn a_document_that_is_added_while_its_ghost_is_removed_from_the_index_stays() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first, second, .. } = Replicas::open("ghost", 1).await;
    first.close().await;
    // The index has a version that the restored database does not know.
    let id = Library::document_id(&tenant(), "", "a.txt");
    let ghost = Document::new(id.as_str(), "a", "옛 사과.");
    index.put(&tenant(), &ghost, &split_into_passages(&ghost)).await.expect("put");
    let (arrived, gate) = (Semaphore::new(0), Semaphore::new(0));
    let held = Arc::new(HeldRemovalIndex { index: index.clone(), arrived, gate });
    let (there, shared, removing) = (fresh_directory("ghost-third"), database.clone(), held.clone());
    let opening = tokio::spawn(async move {
        let taken = Library::lock_directory(&there).await.expect("locked");
        Library::open_shared(taken, shared, removing, options(), "third".to_owned()).await.expect("a library")
    });
    let arrived = tokio::time::timeout(PATIENCE, held.arrived.acquire()).await;
    arrived.expect("it is removed").expect("open").forget();
    let library = second.clone();
    let adding = tokio::spawn(async move { library.add(new_document("t", "a.txt", "새 사과.")).await });
    // Whoever adds it now waits, or it would be written and then removed with the ghost.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!adding.is_finished() && search_texts(&*index, "t", "사과").await == ["옛 사과."]);
    held.gate.add_permits(1);
    adding.await.expect("no panic").expect("added");
    let opened = tokio::time::timeout(PATIENCE, opening).await.expect("in time").expect("no panic");
    wait_for_state(&opened, Some(IngestState::Ready)).await;
    assert_eq!(search_texts(&*index, "t", "사과").await, ["새 사과."]);
}

#[tokio::test]
async fn a_start_removes_ghosts_and_leaves_what_is_queued_kept_or_of_a_newer_version() {
    if !has_jail().await {
        return;
    }
    let Replicas { database, index, first_index, first, second, .. } = Replicas::open("stray", 0).await;
    let put = async |id: &str, text: &str| {
        let document = Document::new(id, id, text);
        index.put(&tenant(), &document, &split_into_passages(&document)).await.expect("put");
    };
    // The first replica has it and does not finish.
    let queued = first.add(new_document("t", "queued.txt", "사과 하나.")).await.expect("added").id;
    first_index.wait_for_write().await;
    put(queued.as_str(), "사과 둘.").await;
    put("ghost", "사과 셋.").await;
    put("samples/a", "사과 넷.").await;
    // The record of this one cannot be read by this version.
    let newer = DocumentId::new("newer");
    put(newer.as_str(), "사과 다섯.").await;
    let key = record_key_of(&tenant(), &newer);
    let write = RecordWrite {
        key: &key,
        expected: None,
        record: Some(b"of a newer version"),
        put_files: &[],
        delete_files: &[],
    };
    database.write(write).await.expect("written").expect("a revision");

    let there = fresh_directory("stray-third");
    let taken = Library::lock_directory(&there).await.expect("locked");
    let options = LibraryOptions { index_only: BTreeSet::from([DocumentId::new("samples/a")]), ..options() };
    let opening = Library::open_shared(taken, database.clone(), index.clone(), options, "third".to_owned());
    let third = tokio::time::timeout(PATIENCE, opening).await.expect("in time").expect("a library");
    let listed = index.list(&tenant(), &DocumentFilter::default()).await.expect("a list");
    let ids: BTreeSet<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
    assert_eq!(ids, BTreeSet::from([queued.as_str(), "newer", "samples/a"]));
    assert_eq!(third.list(&tenant()).len(), 1);
    drop((first, second));
}

/// The key of a record in the database.
fn record_key_of(tenant: &DocumentTenant, id: &DocumentId) -> String {
    use sha2::{Digest, Sha256};
    let hash = |text: &str| hex::encode(Sha256::digest(text.as_bytes()));
    format!("{}/{}", &hash(tenant.as_str())[..32], hash(id.as_str()))
}
