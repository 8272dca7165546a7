//! Histories of threads: runs that pause inside an inner graph, answers, cancels, edits, rewinds, forks, garbage collection and
//! processes that start anew, in random order. Every state is what the program says it is, and stays so as long as it can be
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use doran_engine::store::{IfBusy, RamStore, Retention, RunFilter, RunStatus, Seq, Store, StoreError};
use doran_engine::{
    Cx, EngineError, EntryBody, Event, Graph, NodeError, RunKey, Runtime, Snap, StartOptions, State,
    StateEdit, TenantId, ThreadId, ThreadKey, WatchUntil, node, subgraph,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Long enough that every third run writes a snapshot.
const FILLER_BYTES: usize = 60_000;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct StoryState {
    #[reduce(append)]
    words: Vec<u64>,
    /// Replaced by each run, so that the log outgrows the state.
    filler: String,
}

/// Says how many words there were when it began, and asks for one if it is told to.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct ChapterState {
    #[reduce(append)]
    words: Vec<u64>,
    count: u64,
    asks: bool,
}

fn count(words: &[u64]) -> u64 {
    words.len() as u64
}

fn story() -> Graph<StoryState> {
    let chapter = Graph::named()
        .node(
            "think",
            node(|state: Snap<ChapterState>| async move {
                Ok::<_, NodeError>(ChapterState::update().words(vec![state.count]))
            })
            .then("ask"),
        )
        .node(
            "ask",
            node(|state: Snap<ChapterState>, cx: Cx| async move {
                let answer = if state.asks { vec![cx.ask::<u64, _>("which?").await?] } else { Vec::new() };
                Ok::<_, NodeError>(ChapterState::update().words(answer))
            })
            .end(),
        )
        .start("think")
        .build()
        .expect("sound");
    let inner = subgraph(
        chapter,
        |outer: &StoryState| {
            ChapterState::update().count(count(&outer.words)).asks(outer.filler.ends_with('?'))
        },
        |inner: &ChapterState| StoryState::update().words(inner.words.clone()),
    );
    Graph::named()
        .node(
            "say",
            node(|state: Snap<StoryState>| async move {
                let mark =
                    if state.words.last().is_some_and(|word| word.is_multiple_of(3)) { "?" } else { "." };
                let filler = "x".repeat(FILLER_BYTES) + mark;
                Ok::<_, NodeError>(StoryState::update().words(vec![count(&state.words)]).filler(filler))
            })
            .then("inner"),
        )
        .node("inner", node(inner).then("end"))
        .node(
            "end",
            node(|state: Snap<StoryState>| async move {
                Ok::<_, NodeError>(StoryState::update().words(vec![count(&state.words)]))
            })
            .end(),
        )
        .start("say")
        .build()
        .expect("sound")
}

struct HistoryRng(u64);

impl HistoryRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A run that waits for its answer.
#[derive(Clone)]
struct ExpectedPause {
    run: RunKey,
    /// Words before the run began.
    before: Vec<u64>,
    /// What the inner graph counted.
    counted: u64,
}

/// What a thread has to hold.
#[derive(Clone, Default)]
struct ExpectedThread {
    words: Vec<u64>,
    paused: Option<ExpectedPause>,
    /// Runs that wait for their turn: their words, and the entries they begin at.
    queue: Vec<(RunKey, u64, Option<Seq>)>,
    /// The words after each entry.
    states: BTreeMap<Seq, Vec<u64>>,
    /// Entries that cannot be read any more.
    cleared: BTreeSet<Seq>,
}

struct HistoryTest {
    store: Arc<dyn Store>,
    processes: Vec<Runtime>,
    rng: HistoryRng,
    threads: BTreeMap<String, ExpectedThread>,
    made: usize,
    done: Vec<String>,
    /// Entries that watchers of runs were shown, by their numbers.
    shown: BTreeMap<(RunKey, u64), Seq>,
}

impl HistoryTest {
    fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        let mut test = Self {
            store,
            processes: Vec::new(),
            rng: HistoryRng(seed),
            threads: BTreeMap::new(),
            made: 0,
            done: Vec::new(),
            shown: BTreeMap::new(),
        };
        test.processes = (0..2).map(|_| test.new_process()).collect();
        test
    }

    fn new_process(&self) -> Runtime {
        let runtime = Runtime::new(self.store.clone());
        runtime.register_graph("story", &story()).expect("registered");
        runtime
    }

    fn process(&mut self) -> Runtime {
        let place = self.rng.below(self.processes.len());
        self.processes[place].clone()
    }

    async fn act(&mut self) {
        let names: Vec<String> = self.threads.keys().cloned().collect();
        if names.is_empty() || (names.len() < 2 && self.rng.below(8) == 0) {
            let name = self.new_name();
            self.threads.insert(name.clone(), ExpectedThread::default());
            return self.start(&name).await;
        }
        let name = names[self.rng.below(names.len())].clone();
        match self.rng.below(20) {
            0..7 => self.start(&name).await,
            7 => self.cancel_queued(&name).await,
            8..12 => self.answer_or_cancel(&name).await,
            12..14 => self.edit(&name).await,
            14..16 => self.fork(&name).await,
            16..18 => self.collect_garbage().await,
            18 => {
                self.done.push("restart".into());
                let (place, process) = (self.rng.below(self.processes.len()), self.new_process());
                self.processes[place] = process;
            }
            _ => self.delete(&name).await,
        }
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("t{}", self.made)
    }

    /// An entry of a thread, which may have been cleared.
    fn any_entry(&mut self, name: &str) -> Option<Seq> {
        let seqs: Vec<Seq> = self.threads[name].states.keys().copied().collect();
        if seqs.is_empty() { None } else { Some(self.rng.pick(&seqs)) }
    }

    async fn start(&mut self, name: &str) {
        let runtime = self.process();
        let word = 1_000 + self.rng.below(1_000) as u64;
        let from = if self.rng.below(3) == 0 { self.any_entry(name) } else { None };
        let if_busy = self.rng.pick(&[IfBusy::Reject, IfBusy::Enqueue, IfBusy::Interrupt, IfBusy::Rollback]);
        self.done.push(format!("start {name} {word} from {from:?} {if_busy:?}"));
        let expected = self.threads[name].clone();
        let options = StartOptions { if_busy, from, ..StartOptions::default() };
        let input = json!({ "words": [word] });
        let started = runtime.start("story", &key(name), Some(&input), options).await;
        let is_cleared = from.is_some_and(|from| expected.cleared.contains(&from));
        let run = match started {
            Err(EngineError::Store(StoreError::NotFound { .. })) if is_cleared => return,
            Err(EngineError::Store(StoreError::Busy { .. }))
                if expected.paused.is_some() && if_busy == IfBusy::Reject =>
            {
                return;
            }
            started => started.expect("accepted"),
        };
        assert!(!is_cleared, "what was cleared leads nowhere: {:?}", self.done);
        let before = match expected.paused {
            Some(_) if if_busy == IfBusy::Enqueue => {
                self.expect(name).queue.push((run.key(), word, from));
                return;
            }
            // A rollback begins where the run that it ends had begun.
            Some(paused) if if_busy == IfBusy::Rollback => paused.before,
            _ => from.map_or(expected.words, |from| expected.states[&from].clone()),
        };
        self.expect(name).paused = None;
        self.rest(name, &run.key(), word, before).await;
        self.run_queue(name).await;
    }

    fn expect(&mut self, name: &str) -> &mut ExpectedThread {
        self.threads.get_mut(name).expect("a thread")
    }

    /// Waits for a run that begins with these words before it.
    async fn rest(&mut self, name: &str, run: &RunKey, word: u64, before: Vec<u64>) {
        let handle = self.process().run_handle(run).await.expect("the run");
        let row = handle.wait().await.expect("it rests");
        let mut words = [before.as_slice(), &[word]].concat();
        words.push(count(&words));
        let counted = count(&words);
        let mut paused = None;
        if word.is_multiple_of(3) {
            assert_eq!(row.status, RunStatus::Paused, "{:?}", self.done);
            paused = Some(ExpectedPause { run: run.clone(), before, counted });
        } else {
            assert_eq!(row.status, RunStatus::Finished, "{:?}", self.done);
            words.push(counted);
            words.push(count(&words));
        }
        let expected = self.expect(name);
        (expected.words, expected.paused) = (words, paused);
    }

    /// Runs that wait go on by themselves as soon as the thread is free.
    async fn run_queue(&mut self, name: &str) {
        while self.threads[name].paused.is_none() && !self.threads[name].queue.is_empty() {
            let (run, word, from) = self.expect(name).queue.remove(0);
            let expected = &self.threads[name];
            let before = from.map_or(&expected.words, |from| &expected.states[&from]).clone();
            self.rest(name, &run, word, before).await;
        }
    }

    async fn cancel_queued(&mut self, name: &str) {
        if self.threads[name].queue.is_empty() {
            return;
        }
        let place = self.rng.below(self.threads[name].queue.len());
        let (run, ..) = self.expect(name).queue.remove(place);
        self.done.push(format!("cancel a waiting run of {name}"));
        let row = self.process().cancel(&run).await.expect("cancelled");
        assert_eq!(row.status, RunStatus::Cancelled);
    }

    async fn answer_or_cancel(&mut self, name: &str) {
        let Some(ExpectedPause { run, counted, .. }) = self.threads[name].paused.clone() else { return };
        let runtime = self.process();
        if self.rng.below(3) == 0 {
            self.done.push(format!("cancel {name}"));
            let row = runtime.cancel(&run).await.expect("cancelled");
            assert_eq!(row.status, RunStatus::Cancelled);
        } else {
            let word = self.rng.below(1_000) as u64;
            self.done.push(format!("answer {name} {word}"));
            let asked = runtime.open_questions(&key(name)).await.expect("questions");
            assert_eq!(asked.len(), 1, "{:?}", self.done);
            assert_eq!(asked[0].0, run);
            let answers = BTreeMap::from([(asked[0].1.id.clone(), json!(word))]);
            let handle = runtime.answer(&run, &answers).await.expect("answered");
            let row = handle.wait().await.expect("it rests");
            assert_eq!(row.status, RunStatus::Finished, "{:?}", self.done);
            let again = runtime.answer(&run, &answers).await;
            assert!(matches!(again, Err(EngineError::Store(StoreError::Conflict(_)))), "answered once");
            let words = &mut self.expect(name).words;
            words.extend([counted, word]);
            words.push(count(words));
        }
        self.expect(name).paused = None;
        self.run_queue(name).await;
    }

    async fn edit(&mut self, name: &str) {
        let word = 5_000 + self.rng.below(1_000) as u64;
        let at = if self.rng.below(2) == 0 { self.any_entry(name) } else { None };
        self.done.push(format!("edit {name} {word} at {at:?}"));
        let expected = self.threads[name].clone();
        let edit = StateEdit { update: Some(json!({ "words": [word] })), ..StateEdit::default() };
        let runtime = self.process();
        let edited = runtime.edit("story", &key(name), at, &edit).await;
        let head = expected.states.keys().next_back().copied();
        let in_the_past = at.is_some() && at != head;
        match edited {
            Err(EngineError::Store(StoreError::NotFound { .. }))
                if at.is_some_and(|at| expected.cleared.contains(&at)) => {}
            Err(EngineError::Store(StoreError::Busy { .. })) if expected.paused.is_some() && in_the_past => {}
            edited => {
                edited.unwrap_or_else(|error| panic!("{error}: {:?}", self.done));
                let words = match at {
                    Some(at) => &expected.states[&at],
                    None => &expected.words,
                };
                let words = [words.as_slice(), &[word]].concat();
                self.expect(name).words = words;
            }
        }
    }

    async fn fork(&mut self, name: &str) {
        if self.threads.len() > 3 {
            return;
        }
        let at = if self.rng.below(2) == 0 { self.any_entry(name) } else { None };
        let to = self.new_name();
        self.done.push(format!("fork {name} at {at:?} to {to}"));
        let source = self.threads[name].clone();
        let runtime = self.process();
        let forked = runtime.fork(&key(name), at, &ThreadId::new(&to).expect("a name")).await;
        match forked {
            Err(EngineError::Store(StoreError::NotFound { .. }))
                if at.is_some_and(|at| source.cleared.contains(&at)) => {}
            forked => {
                forked.unwrap_or_else(|error| panic!("{error}: {:?}", self.done));
                let words = at.map_or(&source.words, |at| &source.states[&at]).clone();
                self.threads.insert(to, ExpectedThread { words, paused: None, queue: Vec::new(), ..source });
            }
        }
    }

    async fn collect_garbage(&mut self) {
        self.done.push("gc".into());
        let retention = Retention { old_entries: Some(Duration::ZERO), ..Retention::default() };
        self.store.gc(&retention).await.expect("collected");
        let runtime = self.new_process();
        for (name, expected) in &mut self.threads {
            let entries = runtime.entries(&key(name), 0, usize::MAX >> 1).await.expect("entries");
            let left: BTreeSet<Seq> = entries.iter().map(|entry| entry.seq).collect();
            for seq in expected.states.keys() {
                let read = runtime.view("story", &key(name), Some(*seq)).await;
                let is_gone = matches!(read, Err(EngineError::Store(StoreError::NotFound { .. })));
                assert!(left.contains(seq) || is_gone, "entry {seq} of {name}: {:?}", self.done);
                if is_gone {
                    expected.cleared.insert(*seq);
                }
            }
            let head = expected.states.keys().next_back();
            assert!(head.is_none_or(|head| !expected.cleared.contains(head)), "the newest state stays");
        }
    }

    async fn delete(&mut self, name: &str) {
        self.done.push(format!("delete {name}"));
        let runtime = self.process();
        assert!(runtime.delete_thread(&key(name)).await.expect("deleted"));
        let expected = self.threads.remove(name).expect("a thread");
        if let Some(paused) = expected.paused {
            let answered = runtime.answer(&paused.run, &BTreeMap::new()).await;
            assert!(matches!(answered, Err(EngineError::Store(StoreError::NotFound { .. }))));
        }
        let read = runtime.view("story", &key(name), None).await;
        assert!(matches!(read, Err(EngineError::Store(StoreError::NotFound { .. }))));
    }

    /// Whoever watches a run sees it to its end or its question. A number stands for the same entry for ever, and what is
    /// missing is told.
    async fn watch_runs(&mut self) {
        let runtime = self.process();
        let filter = RunFilter { limit: usize::MAX >> 1, ..RunFilter::default() };
        for row in runtime.list_runs(&TenantId::local(), &filter).await.expect("runs") {
            if row.status == RunStatus::Queued {
                continue;
            }
            let until = WatchUntil::RunEndedOrPaused;
            let mut watch = runtime.watch(&row.key(), 0, until).await.expect("watch");
            let (mut last, mut kind) = (0, None);
            while let Some(event) = watch.try_next().await.expect("an event") {
                match event {
                    Event::Removed { after, next } => {
                        assert!(after == last && next > after + 1, "{:?}", self.done);
                        last = next - 1;
                    }
                    Event::Entry(number, entry) => {
                        assert_eq!(number, last + 1, "{:?}", self.done);
                        let seq = *self.shown.entry((row.key(), number)).or_insert(entry.seq);
                        assert!(entry.seq == seq || entry.seq == 0, "{number}: {:?}", self.done);
                        (last, kind) = (number, Some(entry.body.clone()));
                    }
                    Event::Delta(_) => {}
                }
            }
            let fits = match row.status {
                RunStatus::Paused => matches!(kind, Some(EntryBody::Paused { .. })),
                RunStatus::Cancelled => matches!(kind, Some(EntryBody::Cancelled { .. })),
                _ => matches!(kind, Some(EntryBody::Finished)),
            };
            assert!(fits, "{:?} ended with {kind:?}: {:?}", row.status, self.done);
        }
    }

    /// Every thread stands where it should, and every state that can be read is what it was.
    async fn check(&mut self, all_states: bool) {
        let (fresh, known) = (self.new_process(), self.process());
        for (name, expected) in &mut self.threads {
            let row = fresh.thread_row(&key(name)).await.expect("the thread");
            assert_eq!(row.active, expected.paused.as_ref().map(|paused| paused.run.run), "{:?}", self.done);
            let newest = expected.states.keys().next_back().copied().unwrap_or(0);
            for entry in fresh.entries(&key(name), newest, usize::MAX >> 1).await.expect("entries") {
                let words = read_words(&fresh, name, Some(entry.seq)).await.expect("a new entry");
                expected.states.insert(entry.seq, words);
            }
            for runtime in [&fresh, &known] {
                let words = read_words(runtime, name, None).await.expect("the newest state");
                assert_eq!(words, expected.words, "{name}: {:?}", self.done);
            }
            for (seq, words) in expected.states.iter().filter(|_| all_states) {
                match read_words(&fresh, name, Some(*seq)).await {
                    Ok(read) => assert_eq!(read, *words, "entry {seq} of {name}: {:?}", self.done),
                    Err(EngineError::Store(StoreError::NotFound { .. }))
                        if expected.cleared.contains(seq) => {}
                    Err(error) => panic!("entry {seq} of {name}: {error}: {:?}", self.done),
                }
            }
        }
    }
}

async fn read_words(runtime: &Runtime, name: &str, at: Option<Seq>) -> Result<Vec<u64>, EngineError> {
    let view = runtime.view("story", &key(name), at).await?;
    Ok(serde_json::from_value(view.state["words"].clone()).expect("words"))
}

fn key(name: &str) -> ThreadKey {
    ThreadKey::local(name).expect("a name")
}

/// Gives how many entries were cleared.
async fn play(store: Arc<dyn Store>, seed: u64, actions: usize) -> usize {
    let mut test = HistoryTest::new(store, seed);
    for _ in 0..actions {
        test.act().await;
        let now_and_then = test.rng.below(6) == 0;
        test.check(now_and_then).await;
        if now_and_then {
            test.watch_runs().await;
        }
    }
    test.threads.values().map(|expected| expected.cleared.len()).sum()
}

#[tokio::test]
async fn a_thread_in_memory_is_what_its_history_says() {
    let mut cleared = 0;
    for seed in 0..12 {
        cleared += play(Arc::new(RamStore::new()), seed, 60).await;
    }
    assert!(cleared > 100, "{cleared} entries were cleared");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_thread_on_sqlite_is_what_its_history_says() {
    let mut cleared = 0;
    for seed in 100..104 {
        let store = doran_store::sqlite::SqliteStore::in_memory().expect("open");
        cleared += play(Arc::new(store), seed, 60).await;
    }
    assert!(cleared > 20, "{cleared} entries were cleared");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_thread_on_postgres_is_what_its_history_says() {
    let Some(url) = crate::postgres_server::fresh_schema_url() else { return };
    let store = doran_store::postgres::PostgresStore::open(&url).await.expect("open");
    play(Arc::new(store), 200, 40).await;
}

/// Conversations go on while others fork and delete, and garbage is collected all the time.
async fn converse_under_maintenance(store: Arc<dyn Store>) {
    let new_process = || {
        let runtime = Runtime::new(store.clone());
        runtime.register_graph("story", &story()).expect("registered");
        runtime
    };
    let talks = (0..4).map(|talk| {
        let processes = [new_process(), new_process()];
        tokio::spawn(async move {
            let thread = key(&format!("talk{talk}"));
            let mut words = Vec::new();
            for turn in 0..20 {
                let runtime = &processes[turn % 2];
                // A word that nobody is asked about.
                let word = 1_000 + 3 * turn as u64;
                let input = json!({ "words": [word] });
                let started = runtime.start("story", &thread, Some(&input), StartOptions::default()).await;
                let row = started.expect("accepted").wait().await.expect("it rests");
                assert_eq!(row.status, RunStatus::Finished, "{:?}", row.error);
                words.push(word);
                words.push(count(&words));
                words.push(count(&words));
                words.push(count(&words));
                assert_eq!(read_words(runtime, &format!("talk{talk}"), None).await.expect("a state"), words);
            }
        })
    });
    let talks: Vec<_> = talks.collect();
    let caretaker = new_process();
    let mut forks = 0;
    while talks.iter().any(|talk| !talk.is_finished()) {
        let retention = Retention { old_entries: Some(Duration::ZERO), ..Retention::default() };
        caretaker.collect_garbage(&retention).await.expect("collected");
        forks += 1;
        let (from, to) = (format!("talk{}", forks % 4), format!("fork{forks}"));
        match caretaker.fork(&key(&from), None, &ThreadId::new(&to).expect("a name")).await {
            // Nobody has said anything yet.
            Err(EngineError::Store(StoreError::NotFound { .. })) => {}
            forked => {
                forked.expect("forked");
                read_words(&caretaker, &to, None).await.expect("the fork is whole");
                assert!(caretaker.delete_thread(&key(&to)).await.expect("deleted"));
            }
        }
        tokio::task::yield_now().await;
    }
    for talk in talks {
        talk.await.expect("it went well");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_not_hurt_by_garbage_collection_and_forks() {
    converse_under_maintenance(Arc::new(RamStore::new())).await;
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().expect("folder");
        let store = doran_store::sqlite::SqliteStore::open(folder.path().join("doran.db")).expect("open");
        converse_under_maintenance(Arc::new(store)).await;
    }
    #[cfg(feature = "postgres")]
    if let Some(url) = crate::postgres_server::fresh_schema_url() {
        let store = doran_store::postgres::PostgresStore::open(&url).await.expect("open");
        converse_under_maintenance(Arc::new(store)).await;
    }
}
