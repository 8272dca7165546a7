//! What the cases work with: a store, a tenant of their own, and short ways to say common things.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::id::{RunId, TenantId, ThreadId, ThreadKey};
use crate::store::{
    ClaimedRun, Commit, CommitOutcome, EntryKind, IfBusy, InputDurability, LogEntry, NewEntry, NewRun,
    NewRunEntry, NewStatus, Record, RecordStage, RunFailure, RunFilter, RunRow, RunSignal, RunStatus, Seq,
    Store, StoreError, SubmitOutcome, ThreadRow, WorkerLease,
};

/// A lease no case outlives.
const LONG_LEASE: Duration = Duration::from_secs(600);

/// A store under test and the tenant of one case.
pub struct StoreFixture<S> {
    pub(super) store: Arc<S>,
    pub(super) tenant: TenantId,
}

impl<S> Clone for StoreFixture<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), tenant: self.tenant.clone() }
    }
}

impl<S: Store> StoreFixture<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store: Arc::new(store), tenant: random_tenant() }
    }

    /// The same store for somebody else.
    pub(super) fn with_other_tenant(&self) -> Self {
        Self { store: Arc::clone(&self.store), tenant: random_tenant() }
    }

    pub(super) fn new_thread_key(&self) -> ThreadKey {
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
            claim: Some(long_lease()),
            durability: InputDurability::Now,
        }
    }

    pub(super) async fn start(&self, thread: &ThreadKey) -> ClaimedRun {
        expect_started(self.store.submit(self.new_run(thread)).await)
    }

    /// Hands in a run that nobody starts.
    pub(super) async fn submit_queued(&self, thread: &ThreadKey, if_busy: IfBusy) -> RunRow {
        let run = NewRun { if_busy, claim: None, ..self.new_run(thread) };
        expect_queued(self.store.submit(run).await).0
    }

    pub(super) async fn claim(&self, thread: &ThreadKey) -> Option<ClaimedRun> {
        let mut claimed = self.store.claim(&long_lease(), Some(thread), 10).await.expect("claim");
        assert!(claimed.len() < 2, "a thread has one run to claim, not {}", claimed.len());
        claimed.pop()
    }

    /// Claims a run whose lease runs out about now. A store may prolong leases for the time in which it was busy.
    pub(super) async fn claim_when_lost(&self, thread: &ThreadKey) -> ClaimedRun {
        for _ in 0..6000 {
            if let Some(claimed) = self.claim(thread).await {
                return claimed;
            }
            sleep_millis(10).await;
        }
        panic!("a run that nobody has is not claimed");
    }

    /// Starts a run whose lease ran out, so that the next claim takes it.
    pub(super) async fn start_and_lose(&self, thread: &ThreadKey) -> ClaimedRun {
        let claim = WorkerLease { lease: Duration::from_millis(1), ..long_lease() };
        let claimed =
            expect_started(self.store.submit(NewRun { claim: Some(claim), ..self.new_run(thread) }).await);
        sleep_millis(15).await;
        claimed
    }

    /// Starts a run that writes these entries and ends well.
    pub(super) async fn start_and_finish(&self, thread: &ThreadKey, entries: Vec<NewEntry>) -> RunRow {
        let claimed = self.start(thread).await;
        let head = claimed.head;
        let commit = Commit { head, entries, ..status_commit(RunStatus::Finished) };
        self.store.commit(&claimed.fence(), commit).await.expect("finish");
        self.run_row(&claimed).await
    }

    /// Starts a run that pauses with these open questions of task `0.0`.
    pub(super) async fn start_and_pause(&self, thread: &ThreadKey, questions: &[&str]) -> ClaimedRun {
        let claimed = self.start(thread).await;
        let commit = Commit {
            entries: vec![new_entry(EntryKind::Paused, "ask", 0)],
            records: questions.iter().map(|key| record("0.0", key, RecordStage::Open, "?")).collect(),
            ..status_commit(RunStatus::Paused)
        };
        self.commit(&claimed, commit).await;
        claimed
    }

    /// Starts a run that fails.
    pub(super) async fn start_and_fail(&self, thread: &ThreadKey) -> ClaimedRun {
        let claimed = self.start(thread).await;
        let status = NewStatus { status: RunStatus::Failed, error: Some(run_failure()) };
        let entries = vec![new_entry(EntryKind::Failed, "bad", 0)];
        self.commit(&claimed, Commit { entries, status: Some(status), ..Commit::default() }).await;
        claimed
    }

    /// Commits on top of what the thread has.
    pub(super) async fn commit(&self, claimed: &ClaimedRun, commit: Commit) -> CommitOutcome {
        let head = self.head(&claimed.run.thread).await;
        self.store.commit(&claimed.fence(), Commit { head, ..commit }).await.expect("commit")
    }

    pub(super) async fn write_steps(&self, claimed: &ClaimedRun, bodies: &[&str]) -> CommitOutcome {
        self.commit(claimed, steps_commit(bodies)).await
    }

    pub(super) async fn finish(&self, claimed: &ClaimedRun) -> CommitOutcome {
        let entries = vec![new_entry(EntryKind::Finished, "out", 0)];
        self.commit(claimed, Commit { entries, ..status_commit(RunStatus::Finished) }).await
    }

    pub(super) async fn cancel(&self, run: &RunRow) -> RunRow {
        self.store.signal(&run.key(), RunSignal::Cancel { body: b"cancel".to_vec() }).await.expect("cancel")
    }

    pub(super) async fn run_row(&self, claimed: &ClaimedRun) -> RunRow {
        self.store.run(&claimed.run.key()).await.expect("run")
    }

    pub(super) async fn thread_row(&self, thread: &ThreadKey) -> ThreadRow {
        self.store.thread(thread).await.expect("thread")
    }

    pub(super) async fn head(&self, thread: &ThreadKey) -> Seq {
        self.thread_row(thread).await.head
    }

    pub(super) async fn log_entries(&self, thread: &ThreadKey) -> Vec<LogEntry> {
        self.store.entries(thread, 0, 10_000).await.expect("entries")
    }

    /// The bodies of the log, as text.
    pub(super) async fn log_text(&self, thread: &ThreadKey) -> String {
        bodies_text(&self.log_entries(thread).await)
    }

    /// `snapshot | bodies after it` of a loaded state.
    pub(super) async fn loaded_text(&self, thread: &ThreadKey, at: Option<Seq>) -> String {
        let loaded = self.store.load(thread, at).await.expect("load");
        let seed =
            loaded.snapshot.map_or("-".to_owned(), |(seq, body)| format!("{seq}={}", lossy_text(&body)));
        format!("{seed} | {}", bodies_text(&loaded.entries))
    }

    /// Appends edits to a thread that is free.
    pub(super) async fn append_edits(&self, thread: &ThreadKey, entries: Vec<NewEntry>) {
        for entry in entries {
            let head = self.head(thread).await;
            self.store.append_entry(thread, head, entry).await.expect("append");
        }
    }

    /// Everything that can be read of a thread, to see that nothing changed.
    pub(super) async fn dump_thread(&self, thread: &ThreadKey) -> String {
        let filter = RunFilter { thread: Some(thread.thread.clone()), limit: 1000, ..RunFilter::default() };
        let runs = self.store.runs(&self.tenant, &filter).await.expect("runs");
        let row = self.thread_row(thread).await;
        let loaded = self.store.load(thread, None).await.expect("load");
        format!("{row:#?}\n{runs:#?}\n{:#?}\n{loaded:#?}", self.log_entries(thread).await)
    }
}

pub(super) fn random_tenant() -> TenantId {
    TenantId::new(ThreadId::random().as_str()).expect("a UUID is a fine tenant")
}

pub(super) fn long_lease() -> WorkerLease {
    WorkerLease { worker: "worker".into(), lease: LONG_LEASE, graphs: None }
}

pub(super) async fn sleep_millis(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

pub(super) fn new_entry(kind: EntryKind, body: &str, base: Seq) -> NewEntry {
    NewEntry { kind, body: body.into(), parent: None, base, snapshot: None }
}

pub(super) fn step_entry(body: &str) -> NewEntry {
    new_entry(EntryKind::Step, body, 0)
}

/// A step with a snapshot of its own.
pub(super) fn step_with_snapshot(body: &str, base: Seq, snapshot: &str) -> NewEntry {
    NewEntry { snapshot: Some(snapshot.into()), ..new_entry(EntryKind::Step, body, base) }
}

/// A step that follows another entry than the one before it.
pub(super) fn step_on_branch(body: &str, parent: Seq, base: Seq) -> NewEntry {
    NewEntry { parent: Some(parent), ..new_entry(EntryKind::Step, body, base) }
}

pub(super) fn steps_commit(bodies: &[&str]) -> Commit {
    Commit { entries: bodies.iter().map(|body| step_entry(body)).collect(), ..Commit::default() }
}

pub(super) fn status_commit(status: RunStatus) -> Commit {
    Commit { status: Some(NewStatus { status, error: None }), ..Commit::default() }
}

pub(super) fn run_failure() -> RunFailure {
    RunFailure { code: "node".into(), message: "모델이 답하지 않습니다".into() }
}

pub(super) fn record(path: &str, key: &str, stage: RecordStage, body: &str) -> Record {
    Record { path: path.into(), key: key.into(), stage, body: body.into() }
}

pub(super) fn answer_signal(answers: &[(&str, &str)]) -> RunSignal {
    let answers = answers.iter().map(|(key, body)| ("0.0".into(), (*key).into(), (*body).into())).collect();
    RunSignal::Answer { answers, body: b"answer".to_vec() }
}

pub(super) fn retry_signal() -> RunSignal {
    RunSignal::Retry { body: b"again".to_vec(), fingerprint: "f2".into() }
}

pub(super) fn metadata_from_json(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).expect("an object")
}

pub(super) fn metadata_with_key(key: &str) -> Map<String, Value> {
    metadata_from_json(json!({ key: key }))
}

/// `path key stage body` of each record, in order.
pub(super) fn record_lines(records: &[Record]) -> Vec<String> {
    let line = |r: &Record| format!("{} {} {:?} {}", r.path, r.key, r.stage, lossy_text(&r.body));
    let mut lines: Vec<String> = records.iter().map(line).collect();
    lines.sort();
    lines
}

pub(super) fn bodies_text(entries: &[LogEntry]) -> String {
    entries.iter().map(|entry| lossy_text(&entry.body)).collect::<Vec<_>>().join(" ")
}

fn lossy_text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

pub(super) fn expect_started(submitted: Result<SubmitOutcome, StoreError>) -> ClaimedRun {
    match submitted {
        Ok(SubmitOutcome::Started(claimed)) => claimed,
        other => panic!("the run should start, not {other:?}"),
    }
}

pub(super) fn expect_queued(submitted: Result<SubmitOutcome, StoreError>) -> (RunRow, Option<RunId>) {
    match submitted {
        Ok(SubmitOutcome::Queued { run, stop }) => (run, stop),
        other => panic!("the run should wait, not {other:?}"),
    }
}

pub(super) fn expect_repeated(submitted: Result<SubmitOutcome, StoreError>) -> RunRow {
    match submitted {
        Ok(SubmitOutcome::Repeated(row)) => row,
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
