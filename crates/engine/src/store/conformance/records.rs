//! Records of the step in progress.

use super::bench::*;
use crate::store::*;

fn noting(records: Vec<Record>) -> Commit {
    Commit { records, ..Commit::default() }
}

/// What the next worker finds.
async fn found<S: Store>(b: &Bench<S>, lost: &Claimed) -> Vec<String> {
    let claimed = b.claim(&lost.run.thread).await.expect("a lost run");
    noted(&claimed.records)
}

pub(super) async fn records_come_back_with_the_claim<S: Store>(b: Bench<S>) {
    let run = b.start_and_lose(&b.key()).await;
    b.commit(&run, noting(vec![record("3.0/1.2", "effect 부르기#1", Stage::Done, "답")])).await;
    assert_eq!(found(&b, &run).await, ["3.0/1.2 effect 부르기#1 Done 답"]);
}

pub(super) async fn tasks_and_keys_are_told_apart<S: Store>(b: Bench<S>) {
    let run = b.start_and_lose(&b.key()).await;
    let two = vec![record("0.0", "a", Stage::Done, "1"), record("0.0", "b", Stage::Done, "2")];
    b.commit(&run, noting(two)).await;
    b.commit(&run, noting(vec![record("0.1", "a", Stage::Done, "3")])).await;
    b.commit(
        &run,
        noting(vec![record("0.1/0.0", "a", Stage::Done, "4"), record("0", ".1 a", Stage::Done, "5")]),
    )
    .await;
    let expected = ["0 .1 a Done 5", "0.0 a Done 1", "0.0 b Done 2", "0.1 a Done 3", "0.1/0.0 a Done 4"];
    assert_eq!(found(&b, &run).await, expected);
}

pub(super) async fn a_record_written_again_is_replaced<S: Store>(b: Bench<S>) {
    let run = b.start_and_lose(&b.key()).await;
    b.commit(&run, noting(vec![record("0.0", "a", Stage::Begun, "")])).await;
    b.commit(&run, noting(vec![record("0.0", "a", Stage::Done, "x")])).await;
    b.commit(&run, noting(vec![record("0.0", "a", Stage::Done, "y")])).await;
    b.commit(
        &run,
        noting(vec![record("0.0", "a", Stage::Failed, "1"), record("0.0", "a", Stage::Done, "z")]),
    )
    .await;
    assert_eq!(found(&b, &run).await, ["0.0 a Done z"]);
}

pub(super) async fn every_stage_survives<S: Store>(b: Bench<S>) {
    let run = b.start_and_lose(&b.key()).await;
    let stages = [Stage::Begun, Stage::Done, Stage::Failed, Stage::Open];
    let records = stages.iter().map(|stage| record("0.0", &format!("{stage:?}"), *stage, "x")).collect();
    b.commit(&run, noting(records)).await;
    let expected = ["0.0 Begun Begun x", "0.0 Done Done x", "0.0 Failed Failed x", "0.0 Open Open x"];
    assert_eq!(found(&b, &run).await, expected);
}

pub(super) async fn records_are_cleared_for_the_next_step<S: Store>(b: Bench<S>) {
    let run = b.start_and_lose(&b.key()).await;
    b.commit(&run, noting(vec![record("0.0", "a", Stage::Done, "1")])).await;
    // An entry alone clears nothing; only the writer knows when a step is over.
    b.write(&run, &["inner"]).await;
    let next = vec![record("1.0", "a", Stage::Done, "2")];
    b.commit(&run, Commit { clear_records: true, ..noting(next) }).await;
    b.commit(&run, noting(vec![record("1.1", "a", Stage::Done, "3")])).await;
    assert_eq!(found(&b, &run).await, ["1.0 a Done 2", "1.1 a Done 3"]);
}

pub(super) async fn records_are_no_entries<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start(&thread).await;
    let committed = b.commit(&run, noting(vec![record("0.0", "a", Stage::Done, "1")])).await;
    assert_eq!(committed.head, 1);
    assert_eq!(b.loaded(&thread, None).await, "- | in");
}

pub(super) async fn records_belong_to_their_run<S: Store>(b: Bench<S>) {
    let (one, two) = (b.key(), b.key());
    let failed = b.start(&one).await;
    b.commit(
        &failed,
        Commit { status: to(Status::Failed).status, ..noting(vec![record("0.0", "a", Stage::Done, "1")]) },
    )
    .await;
    let next = b.start_and_lose(&one).await;
    let other = b.start_and_lose(&two).await;
    b.commit(&other, Commit { clear_records: true, ..noting(vec![record("0.0", "a", Stage::Done, "2")]) })
        .await;
    assert_eq!(found(&b, &next).await, [""; 0]);
    assert_eq!(found(&b, &other).await, ["0.0 a Done 2"]);
}
