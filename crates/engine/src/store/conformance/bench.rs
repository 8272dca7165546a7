//! What the cases work with: a store, a tenant of their own, and short ways to say common things.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::id::{RunId, Tenant, ThreadId, ThreadKey};
use crate::store::{
    Claim, Claimed, Commit, Committed, Entry, EntryKind, IfBusy, NewEntry, NewRun, NewRunEntry, NewStatus,
    Record, RunFailure, RunFilter, RunRow, Seq, Signal, Stage, Status, Store, StoreError, Submitted,
    ThreadRow,
};

/// A lease no case outlives.
const LONG: Duration = Duration::from_secs(600);

/// A store under test and the tenant of one case.
pub struct Bench<S> {
    pub(super) store: Arc<S>,
    pub(super) tenant: Tenant,
}

impl<S> Clone for Bench<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), tenant: self.tenant.clone() }
    }
}

impl<S: Store> Bench<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store: Arc::new(store), tenant: random_tenant() }
    }

    /// The same store for somebody else.
    pub(super) fn neighbour(&self) -> Self {
        Self { store: Arc::clone(&self.store), tenant: random_tenant() }
    }

    pub(super) fn key(&self) -> ThreadKey {
        ThreadKey { tenant: self.tenant.clone(), thread: ThreadId::random() }
    }

    /// A run of `thread` that starts at once and is rejected when it cannot.
    pub(super) fn new_run(&self, thread: &ThreadKey) -> NewRun {
        NewRun {
            thread: thread.clone(),
            run: RunId::random(),
            graph: "chat".into(),
            fingerprint: "f1".into(),
            first: NewRunEntry { kind: EntryKind::Started, body: b"in".to_vec(), parent: None },
            if_busy: IfBusy::Reject,
            idempotency: None,
            metadata: Map::new(),
            thread_metadata: Map::new(),
            options: Vec::new(),
            stop_body: b"stop".to_vec(),
            claim: Some(worker()),
        }
    }

    pub(super) async fn start(&self, thread: &ThreadKey) -> Claimed {
        started(self.store.submit(self.new_run(thread)).await)
    }

    /// Hands in a run that nobody starts.
    pub(super) async fn queue(&self, thread: &ThreadKey, if_busy: IfBusy) -> RunRow {
        let run = NewRun { if_busy, claim: None, ..self.new_run(thread) };
        queued(self.store.submit(run).await).0
    }

    pub(super) async fn claim(&self, thread: &ThreadKey) -> Option<Claimed> {
        let mut claimed = self.store.claim(&worker(), Some(thread), 10).await.expect("claim");
        assert!(claimed.len() < 2, "a thread has one run to claim, not {}", claimed.len());
        claimed.pop()
    }

    /// Starts a run whose lease ran out, so that the next claim takes it.
    pub(super) async fn start_and_lose(&self, thread: &ThreadKey) -> Claimed {
        let claim = Claim { lease: Duration::from_millis(1), ..worker() };
        let claimed = started(self.store.submit(NewRun { claim: Some(claim), ..self.new_run(thread) }).await);
        pause(15).await;
        claimed
    }

    /// Starts a run that writes these entries and ends well.
    pub(super) async fn finished(&self, thread: &ThreadKey, entries: Vec<NewEntry>) -> RunRow {
        let claimed = self.start(thread).await;
        let head = claimed.head;
        let commit = Commit { head, entries, ..to(Status::Finished) };
        self.store.commit(&claimed.fence(), commit).await.expect("finish");
        self.row(&claimed).await
    }

    /// Starts a run that pauses with these open questions of task `0.0`.
    pub(super) async fn paused(&self, thread: &ThreadKey, questions: &[&str]) -> Claimed {
        let claimed = self.start(thread).await;
        let commit = Commit {
            entries: vec![entry(EntryKind::Paused, "ask", 0)],
            records: questions.iter().map(|key| record("0.0", key, Stage::Open, "?")).collect(),
            ..to(Status::Paused)
        };
        self.commit(&claimed, commit).await;
        claimed
    }

    /// Starts a run that fails.
    pub(super) async fn failed(&self, thread: &ThreadKey) -> Claimed {
        let claimed = self.start(thread).await;
        let status = NewStatus { status: Status::Failed, error: Some(failure()) };
        let entries = vec![entry(EntryKind::Failed, "bad", 0)];
        self.commit(&claimed, Commit { entries, status: Some(status), ..Commit::default() }).await;
        claimed
    }

    /// Commits on top of what the thread has.
    pub(super) async fn commit(&self, claimed: &Claimed, commit: Commit) -> Committed {
        let head = self.head(&claimed.run.thread).await;
        self.store.commit(&claimed.fence(), Commit { head, ..commit }).await.expect("commit")
    }

    pub(super) async fn write(&self, claimed: &Claimed, bodies: &[&str]) -> Committed {
        self.commit(claimed, steps(bodies)).await
    }

    pub(super) async fn finish(&self, claimed: &Claimed) -> Committed {
        let entries = vec![entry(EntryKind::Finished, "out", 0)];
        self.commit(claimed, Commit { entries, ..to(Status::Finished) }).await
    }

    pub(super) async fn cancel(&self, run: &RunRow) -> RunRow {
        self.store.signal(&run.key(), Signal::Cancel { body: b"cancel".to_vec() }).await.expect("cancel")
    }

    pub(super) async fn row(&self, claimed: &Claimed) -> RunRow {
        self.store.run(&claimed.run.key()).await.expect("run")
    }

    pub(super) async fn thread(&self, thread: &ThreadKey) -> ThreadRow {
        self.store.thread(thread).await.expect("thread")
    }

    pub(super) async fn head(&self, thread: &ThreadKey) -> Seq {
        self.thread(thread).await.head
    }

    pub(super) async fn log(&self, thread: &ThreadKey) -> Vec<Entry> {
        self.store.entries(thread, 0, 10_000).await.expect("entries")
    }

    /// The bodies of the log, as text.
    pub(super) async fn bodies(&self, thread: &ThreadKey) -> String {
        text(&self.log(thread).await)
    }

    /// `snapshot | bodies after it` of a loaded state.
    pub(super) async fn loaded(&self, thread: &ThreadKey, at: Option<Seq>) -> String {
        let loaded = self.store.load(thread, at).await.expect("load");
        let seed = loaded.snapshot.map_or("-".to_owned(), |(seq, body)| format!("{seq}={}", lossy(&body)));
        format!("{seed} | {}", text(&loaded.entries))
    }

    /// Appends edits to a thread that is free.
    pub(super) async fn edit(&self, thread: &ThreadKey, entries: Vec<NewEntry>) {
        for entry in entries {
            let head = self.head(thread).await;
            self.store.append(thread, head, entry).await.expect("append");
        }
    }

    /// Everything that can be read of a thread, to see that nothing changed.
    pub(super) async fn all(&self, thread: &ThreadKey) -> String {
        let filter = RunFilter { thread: Some(thread.thread.clone()), limit: 1000, ..RunFilter::default() };
        let runs = self.store.runs(&self.tenant, &filter).await.expect("runs");
        let row = self.thread(thread).await;
        let loaded = self.store.load(thread, None).await.expect("load");
        format!("{row:#?}\n{runs:#?}\n{:#?}\n{loaded:#?}", self.log(thread).await)
    }
}

pub(super) fn random_tenant() -> Tenant {
    Tenant::new(ThreadId::random().as_str()).expect("a UUID is a fine tenant")
}

pub(super) fn worker() -> Claim {
    Claim { worker: "worker".into(), lease: LONG }
}

pub(super) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

pub(super) fn entry(kind: EntryKind, body: &str, base: Seq) -> NewEntry {
    NewEntry { kind, body: body.into(), parent: None, base, snapshot: None }
}

pub(super) fn step(body: &str) -> NewEntry {
    entry(EntryKind::Step, body, 0)
}

/// A step with a snapshot of its own.
pub(super) fn snap(body: &str, base: Seq, snapshot: &str) -> NewEntry {
    NewEntry { snapshot: Some(snapshot.into()), ..entry(EntryKind::Step, body, base) }
}

/// A step that follows another entry than the one before it.
pub(super) fn branch(body: &str, parent: Seq, base: Seq) -> NewEntry {
    NewEntry { parent: Some(parent), ..entry(EntryKind::Step, body, base) }
}

pub(super) fn steps(bodies: &[&str]) -> Commit {
    Commit { entries: bodies.iter().map(|body| step(body)).collect(), ..Commit::default() }
}

pub(super) fn to(status: Status) -> Commit {
    Commit { status: Some(NewStatus { status, error: None }), ..Commit::default() }
}

pub(super) fn failure() -> RunFailure {
    RunFailure { code: "node".into(), message: "모델이 답하지 않습니다".into() }
}

pub(super) fn record(path: &str, key: &str, stage: Stage, body: &str) -> Record {
    Record { path: path.into(), key: key.into(), stage, body: body.into() }
}

pub(super) fn answer(answers: &[(&str, &str)]) -> Signal {
    let answers = answers.iter().map(|(key, body)| ("0.0".into(), (*key).into(), (*body).into())).collect();
    Signal::Answer { answers, body: b"answer".to_vec() }
}

pub(super) fn retry() -> Signal {
    Signal::Retry { body: b"again".to_vec(), fingerprint: "f2".into() }
}

pub(super) fn pairs(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).expect("an object")
}

pub(super) fn one(key: &str) -> Map<String, Value> {
    pairs(json!({ key: key }))
}

/// `path key stage body` of each record, in order.
pub(super) fn noted(records: &[Record]) -> Vec<String> {
    let line = |r: &Record| format!("{} {} {:?} {}", r.path, r.key, r.stage, lossy(&r.body));
    let mut lines: Vec<String> = records.iter().map(line).collect();
    lines.sort();
    lines
}

pub(super) fn text(entries: &[Entry]) -> String {
    entries.iter().map(|entry| lossy(&entry.body)).collect::<Vec<_>>().join(" ")
}

fn lossy(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

pub(super) fn started(submitted: Result<Submitted, StoreError>) -> Claimed {
    match submitted {
        Ok(Submitted::Started(claimed)) => claimed,
        other => panic!("the run should start, not {other:?}"),
    }
}

pub(super) fn queued(submitted: Result<Submitted, StoreError>) -> (RunRow, Option<RunId>) {
    match submitted {
        Ok(Submitted::Queued { run, stop }) => (run, stop),
        other => panic!("the run should wait, not {other:?}"),
    }
}

pub(super) fn repeated(submitted: Result<Submitted, StoreError>) -> RunRow {
    match submitted {
        Ok(Submitted::Repeated(row)) => row,
        other => panic!("the run should be the same as before, not {other:?}"),
    }
}

/// Checks which error came.
macro_rules! refused {
    ($result:expr, $error:pat) => {
        match $result {
            Err($error) => {}
            other => panic!("should be {}, not {other:?}", stringify!($error)),
        }
    };
}
pub(super) use refused;
