//! What deleted runs had used stays counted.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fixture::*;
use crate::id::ThreadKey;
use crate::store::*;

fn usage(input_tokens: u64, output_tokens: u64, cost_micros: u64) -> RunUsage {
    RunUsage { input_tokens, output_tokens, cost_micros }
}

/// A run of a graph that ends like this.
async fn ended_run<S: Store>(
    b: &StoreFixture<S>,
    thread: &ThreadKey,
    graph: &str,
    spent: RunUsage,
    status: RunStatus,
) -> RunRow {
    let run = expect_started(b.store.submit(NewRun { graph: graph.into(), ..b.new_run(thread) }).await);
    let entries = vec![new_entry(EntryKind::Finished, "out", 0)];
    b.commit(&run, Commit { entries, usage: spent, ..status_commit(status) }).await;
    b.run_row(&run).await
}

/// What stays of these runs.
fn sums_of(runs: &[RunRow]) -> Vec<DeletedUsage> {
    let mut sums: BTreeMap<(Millis, String), DeletedUsage> = BTreeMap::new();
    for run in runs {
        let more = DeletedUsage::of_run(run);
        let sum = sums.entry((more.at, more.graph.clone())).or_insert_with(|| DeletedUsage {
            runs: 0,
            usage: RunUsage::default(),
            is_exact: true,
            ..more.clone()
        });
        sum.runs += 1;
        sum.usage += more.usage;
        sum.is_exact &= more.is_exact;
    }
    sums.into_values().collect()
}

async fn deleted<S: Store>(b: &StoreFixture<S>, since: Millis) -> Vec<DeletedUsage> {
    b.store.deleted_usage(&b.tenant, since).await.expect("usage")
}

pub(super) async fn a_deleted_run_leaves_what_it_used<S: Store>(b: StoreFixture<S>) {
    let (one, two, kept) = (b.new_thread_key(), b.new_thread_key(), b.new_thread_key());
    let mut runs = vec![
        ended_run(&b, &one, "chat", usage(7, 3, 40), RunStatus::Finished).await,
        ended_run(&b, &one, "chat", usage(1, 1, 2), RunStatus::Finished).await,
        ended_run(&b, &one, "draw", usage(5, 0, 0), RunStatus::Failed).await,
    ];
    ended_run(&b, &kept, "chat", usage(100, 100, 100), RunStatus::Finished).await;
    assert_eq!(deleted(&b, 0).await, [], "nothing was deleted yet");
    assert!(b.store.delete_thread(&one).await.expect("delete"));
    assert_eq!(deleted(&b, 0).await, sums_of(&runs));
    let total = deleted(&b, 0).await.iter().fold(RunUsage::default(), |mut sum, row| {
        sum += row.usage;
        sum
    });
    assert_eq!(total, usage(13, 4, 42));

    // A run that is under way counts with what it had spent, and one that waits as a run.
    let live = b.start(&two).await;
    b.commit(&live, Commit { usage: usage(9, 9, 9), ..Commit::default() }).await;
    let waits = b.submit_queued(&two, IfBusy::Enqueue).await;
    runs.extend([b.run_row(&live).await, waits]);
    assert!(b.store.delete_thread(&two).await.expect("delete"));
    assert_eq!(deleted(&b, 0).await, sums_of(&runs));
    assert!(!b.store.delete_thread(&two).await.expect("delete again"));
    refused!(
        b.store.commit(&live.fence(), Commit { usage: usage(1, 1, 1), ..Commit::default() }).await,
        StoreError::Fenced
    );
    assert_eq!(deleted(&b, 0).await, sums_of(&runs), "once");
    let last = deleted(&b, 0).await.last().map_or(0, |row| row.at);
    assert!(!deleted(&b, last).await.is_empty(), "the quarter that begins then");
    assert_eq!(deleted(&b, last + 1).await, []);
}

pub(super) async fn garbage_collection_keeps_what_runs_used<S: Store>(b: StoreFixture<S>) {
    let mut runs = Vec::new();
    for graph in ["chat", "draw", "chat"] {
        runs.push(ended_run(&b, &b.new_thread_key(), graph, usage(2, 1, 5), RunStatus::Finished).await);
    }
    let retention = Retention { idle_threads: Some(Duration::ZERO), ..Retention::default() };
    for _ in 0..6000 {
        b.store.gc(&retention).await.expect("gc");
        if b.store.runs(&b.tenant, &RunFilter::default()).await.expect("runs").is_empty() {
            break;
        }
        sleep_millis(10).await;
    }
    assert_eq!(deleted(&b, 0).await, sums_of(&runs));
}

pub(super) async fn sums_of_deleted_runs_do_not_overflow<S: Store>(b: StoreFixture<S>) {
    let most = i64::MAX.unsigned_abs();
    for _ in 0..2 {
        let thread = b.new_thread_key();
        for _ in 0..2 {
            ended_run(&b, &thread, "chat", usage(most, 1, most), RunStatus::Finished).await;
        }
        assert!(b.store.delete_thread(&thread).await.expect("delete"));
    }
    let rows = deleted(&b, 0).await;
    assert!(
        rows.iter().any(|row| row.usage.cost_micros >= most && row.usage.input_tokens >= most),
        "{rows:?}"
    );
    assert_eq!(
        rows.iter()
            .map(|row| (row.runs, row.usage.output_tokens))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
        (4, 4)
    );
}

pub(super) async fn usage_of_deleted_runs_belongs_to_a_tenant<S: Store>(b: StoreFixture<S>) {
    let (other, thread) = (b.with_other_tenant(), b.new_thread_key());
    ended_run(&b, &thread, "chat", usage(1, 1, 1), RunStatus::Finished).await;
    assert!(b.store.delete_thread(&thread).await.expect("delete"));
    assert_eq!(deleted(&other, 0).await, []);
    assert_eq!(deleted(&b, 0).await.len(), 1);
}
