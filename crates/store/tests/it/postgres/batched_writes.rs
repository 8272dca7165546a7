//! Many runs at once on PostgreSQL: their writes share statements, and none notices.

use doran_engine::id::ThreadKey;
use doran_engine::store::{
    ClaimedRun, Commit, EntryKind, Fence, HistoryStore, IfBusy, NewEntry, NewRun, NewStatus, Record,
    RecordStage, RunFilter, RunSignal, RunStatus, RunStore, RunUsage, StoreError, SubmitOutcome,
};
use doran_store::postgres::PostgresStore;
use serde_json::{Map, Value};

use super::{connect_plain, local_thread, new_run, open, step};
use crate::postgres_server;

const RUN_COUNT: usize = 40;

#[tokio::test]
async fn writes_of_many_runs_share_transactions() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let threads: Vec<ThreadKey> = (0..RUN_COUNT).map(|n| local_thread(&format!("t{n}"))).collect();
    for turn in 0..2_u64 {
        let begun = join_all(threads.iter().map(|thread| start(&store, thread, IfBusy::Reject))).await;
        let claimed: Vec<ClaimedRun> = begun.into_iter().map(expect_started).collect();
        let first = turn * 4 + 1;
        for (claimed, thread) in claimed.iter().zip(&threads) {
            assert_eq!((claimed.head, claimed.run.first_seq), (first, Some(first)));
            // What the caller is told is what the table holds.
            assert_eq!(store.run(&claimed.run.key()).await.expect("run"), claimed.run);
            let row = store.thread(thread).await.expect("thread");
            assert_eq!((row.head, row.active), (first, Some(claimed.run.run)));
            assert_eq!(row.metadata.get("title"), Some(&Value::from(thread.thread.as_str())));
        }
        let fences: Vec<Fence> = claimed.iter().map(ClaimedRun::fence).collect();
        let steps = fences.iter().map(|fence| store.commit(fence, step(first, "step")));
        for committed in join_all(steps).await {
            let committed = committed.expect("commit");
            assert_eq!(
                (committed.head, committed.cancel_asked, committed.next_waits),
                (first + 1, false, false)
            );
        }
        let ends = fences.iter().map(|fence| store.commit(fence, finish_commit(first + 1)));
        for committed in join_all(ends).await {
            assert_eq!(committed.expect("end").head, first + 3);
        }
        for (claimed, thread) in claimed.iter().zip(&threads) {
            let row = store.run(&claimed.run.key()).await.expect("run");
            assert_eq!((row.status, row.steps, row.last_seq), (RunStatus::Finished, 2, Some(first + 3)));
            assert_eq!((row.usage.input_tokens, row.ended_at.is_some()), (7, true));
            let home = store.thread(thread).await.expect("thread");
            assert_eq!((home.head, home.active), (first + 3, None));
        }
    }
    for thread in &threads {
        let log = store.entries(thread, 0, 100).await.expect("entries");
        let seqs: Vec<(u64, u64)> = log.iter().map(|entry| (entry.seq, entry.parent)).collect();
        assert_eq!(seqs, (1..=8).map(|seq| (seq, seq - 1)).collect::<Vec<_>>());
        assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at), "the times of a log run forward");
    }
    let sql = "select count(distinct xmin::text) from entries where kind = 2";
    let transactions: i64 = connect_plain(&url).await.query_one(sql, &[]).await.expect("count").get(0);
    let most = i64::try_from(RUN_COUNT).expect("fits") / 2;
    assert!(transactions < most, "{} steps took {transactions} transactions", RUN_COUNT * 4);
}

#[tokio::test]
async fn the_records_of_a_run_end_with_it() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (store, admin) = (open(&url).await, connect_plain(&url).await);
    let run = expect_started(start(&store, &local_thread("t"), IfBusy::Reject).await);
    let records =
        vec![Record { path: "0.0".into(), key: "k".into(), stage: RecordStage::Done, body: vec![] }];
    let recorded = Commit { head: 1, records, ..Commit::default() };
    store.commit(&run.fence(), recorded).await.expect("records");
    let count =
        async || -> i64 { admin.query_one("select count(*) from records", &[]).await.expect("count").get(0) };
    assert_eq!(count().await, 1);
    store.commit(&run.fence(), finish_commit(1)).await.expect("end");
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn one_that_is_refused_harms_nobody_beside_it() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let busy = local_thread("busy");
    let held = expect_started(start(&store, &busy, IfBusy::Reject).await);
    // On the busy thread one is refused, one waits, and two of the same new thread come at once.
    let twin = local_thread("twin");
    let asked = [
        (local_thread("a"), IfBusy::Reject),
        (local_thread("b"), IfBusy::Reject),
        (busy.clone(), IfBusy::Reject),
        (busy.clone(), IfBusy::Enqueue),
        (twin.clone(), IfBusy::Enqueue),
        (twin.clone(), IfBusy::Enqueue),
        (local_thread("c"), IfBusy::Reject),
    ];
    let came = join_all(asked.iter().map(|(thread, if_busy)| start(&store, thread, *if_busy))).await;
    assert!(matches!(&came[2], Err(StoreError::Busy { run, .. }) if *run == held.run.run), "{:?}", came[2]);
    assert!(matches!(&came[3], Ok(SubmitOutcome::Queued { .. })), "{:?}", came[3]);
    let of_twin = came[4..6].iter().filter(|came| matches!(came, Ok(SubmitOutcome::Started(_)))).count();
    let waits = came[4..6].iter().filter(|came| matches!(came, Ok(SubmitOutcome::Queued { .. }))).count();
    assert_eq!((of_twin, waits), (1, 1), "{came:?}");
    let mut runs: Vec<ClaimedRun> = Vec::new();
    for (n, came) in came.into_iter().enumerate() {
        if [0, 1, 6].contains(&n) {
            runs.push(expect_started(came));
        }
    }
    runs.push(held);
    // One has lost its claim, one has a wrong idea of the log, one is to be cancelled.
    let mut fences: Vec<Fence> = runs.iter().map(|claimed| claimed.fence()).collect();
    fences[0].epoch += 1;
    store.signal(&runs[2].run.key(), RunSignal::Cancel { body: b"stop".to_vec() }).await.expect("cancel");
    let heads = [1, 9, 1, 1];
    let came =
        join_all(fences.iter().zip(heads).map(|(fence, head)| store.commit(fence, step(head, "x")))).await;
    assert!(matches!(came[0], Err(StoreError::Fenced)), "{:?}", came[0]);
    assert!(matches!(came[1], Err(StoreError::Conflict(_))), "{:?}", came[1]);
    assert!(came[2].as_ref().is_ok_and(|done| done.cancel_asked), "{:?}", came[2]);
    assert!(came[3].as_ref().is_ok_and(|done| !done.cancel_asked), "{:?}", came[3]);
    let heads = [1, 1, 2, 2];
    let came =
        join_all(fences.iter().zip(heads).map(|(fence, head)| store.commit(fence, finish_commit(head))))
            .await;
    assert!(matches!(came[0], Err(StoreError::Fenced)), "{:?}", came[0]);
    for came in &came[1..] {
        assert!(came.is_ok(), "{came:?}");
    }
    assert!(
        came[3].as_ref().is_ok_and(|done| done.next_waits),
        "somebody waits for the thread: {:?}",
        came[3]
    );
    let filter = RunFilter { status: Some(RunStatus::Finished), ..RunFilter::default() };
    assert_eq!(store.runs(&busy.tenant, &filter).await.expect("runs").len(), 3);
}

#[tokio::test]
async fn a_row_that_somebody_holds_holds_up_its_own_write_alone() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let threads: Vec<ThreadKey> = (0..RUN_COUNT).map(|n| local_thread(&format!("t{n}"))).collect();
    let holder = connect_plain(&url).await;
    let begun = join_all(threads.iter().map(|thread| start(&store, thread, IfBusy::Reject))).await;
    let fences: Vec<Fence> = begun.into_iter().map(|came| expect_started(came).fence()).collect();
    let rows = [
        "select 1 from runs where thread = 't5' for update",
        "select 1 from threads where thread = 't5' for update",
    ];
    let commits = [step(1, "step"), finish_commit(2)];
    for (row, commit) in rows.iter().zip(commits) {
        holder.batch_execute(&format!("begin; {row}")).await.expect("held");
        let mut writes: Vec<_> =
            fences.iter().map(|fence| Box::pin(store.commit(fence, commit.clone()))).collect();
        let mut held = writes.remove(5);
        let others = join_all(writes.into_iter());
        let others = tokio::select! {
            biased;
            came = &mut held => panic!("it does not wait: {came:?}"),
            others = others => others,
        };
        assert!(others.iter().all(Result::is_ok), "{others:?}");
        holder.batch_execute("rollback").await.expect("let go");
        held.await.expect("its turn");
    }
    // All are free now; one is held by somebody and the others start.
    holder.batch_execute(&format!("begin; {}", rows[1])).await.expect("held");
    let mut starts: Vec<_> =
        threads.iter().map(|thread| Box::pin(start(&store, thread, IfBusy::Reject))).collect();
    let mut held = starts.remove(5);
    let others = tokio::select! {
        biased;
        came = &mut held => panic!("it does not wait: {came:?}"),
        others = join_all(starts.into_iter()) => others,
    };
    assert!(others.iter().all(Result::is_ok), "{others:?}");
    holder.batch_execute("rollback").await.expect("let go");
    assert_eq!(expect_started(held.await).head, 5);
}

/// All of them side by side.
async fn join_all<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    futures_util::future::join_all(all).await
}

async fn start(
    store: &PostgresStore,
    thread: &ThreadKey,
    if_busy: IfBusy,
) -> Result<SubmitOutcome, StoreError> {
    let title = Map::from_iter([("title".to_owned(), Value::from(thread.thread.as_str()))]);
    let run = NewRun {
        if_busy,
        metadata: Map::from_iter([("누구".to_owned(), Value::from("둘리"))]),
        thread_metadata: title,
        options: b"options".to_vec(),
        ..new_run(thread)
    };
    store.submit(run).await
}

fn expect_started(came: Result<SubmitOutcome, StoreError>) -> ClaimedRun {
    match came.expect("submit") {
        SubmitOutcome::Started(claimed) => claimed,
        other => panic!("should start, not {other:?}"),
    }
}

fn entry(kind: EntryKind, body: &str) -> NewEntry {
    NewEntry { kind, body: body.as_bytes().to_vec(), parent: None, base: 0, snapshot: None }
}

fn finish_commit(head: u64) -> Commit {
    Commit {
        head,
        entries: vec![entry(EntryKind::Step, "last"), entry(EntryKind::Finished, "{}")],
        usage: RunUsage { input_tokens: 7, ..RunUsage::default() },
        steps: 2,
        status: Some(NewStatus { status: RunStatus::Finished, error: None }),
        ..Commit::default()
    }
}
