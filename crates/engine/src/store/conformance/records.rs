//! Records of the step in progress.

use super::fixture::*;
use crate::store::*;

fn records_commit(records: Vec<Record>) -> Commit {
    Commit { records, ..Commit::default() }
}

/// What the next worker finds.
async fn claimed_record_lines<S: Store>(b: &StoreFixture<S>, lost: &ClaimedRun) -> Vec<String> {
    let claimed = b.claim(&lost.run.thread).await.expect("a lost run");
    record_lines(&claimed.records)
}

pub(super) async fn records_come_back_with_the_claim<S: Store>(b: StoreFixture<S>) {
    let run = b.start_and_lose(&b.new_thread_key()).await;
    b.commit(&run, records_commit(vec![record("3.0/1.2", "effect 부르기#1", RecordStage::Done, "답")])).await;
    assert_eq!(claimed_record_lines(&b, &run).await, ["3.0/1.2 effect 부르기#1 Done 답"]);
}

pub(super) async fn tasks_and_keys_are_distinguished<S: Store>(b: StoreFixture<S>) {
    let run = b.start_and_lose(&b.new_thread_key()).await;
    let two = vec![record("0.0", "a", RecordStage::Done, "1"), record("0.0", "b", RecordStage::Done, "2")];
    b.commit(&run, records_commit(two)).await;
    b.commit(&run, records_commit(vec![record("0.1", "a", RecordStage::Done, "3")])).await;
    b.commit(
        &run,
        records_commit(vec![
            record("0.1/0.0", "a", RecordStage::Done, "4"),
            record("0", ".1 a", RecordStage::Done, "5"),
        ]),
    )
    .await;
    let expected = ["0 .1 a Done 5", "0.0 a Done 1", "0.0 b Done 2", "0.1 a Done 3", "0.1/0.0 a Done 4"];
    assert_eq!(claimed_record_lines(&b, &run).await, expected);
}

pub(super) async fn a_record_written_again_is_replaced<S: Store>(b: StoreFixture<S>) {
    let run = b.start_and_lose(&b.new_thread_key()).await;
    b.commit(&run, records_commit(vec![record("0.0", "a", RecordStage::Begun, "")])).await;
    b.commit(&run, records_commit(vec![record("0.0", "a", RecordStage::Done, "x")])).await;
    b.commit(&run, records_commit(vec![record("0.0", "a", RecordStage::Done, "y")])).await;
    b.commit(
        &run,
        records_commit(vec![
            record("0.0", "a", RecordStage::Failed, "1"),
            record("0.0", "a", RecordStage::Done, "z"),
        ]),
    )
    .await;
    assert_eq!(claimed_record_lines(&b, &run).await, ["0.0 a Done z"]);
}

pub(super) async fn every_stage_survives<S: Store>(b: StoreFixture<S>) {
    let run = b.start_and_lose(&b.new_thread_key()).await;
    let stages = [RecordStage::Begun, RecordStage::Done, RecordStage::Failed, RecordStage::Open];
    let records = stages.iter().map(|stage| record("0.0", &format!("{stage:?}"), *stage, "x")).collect();
    b.commit(&run, records_commit(records)).await;
    let expected = ["0.0 Begun Begun x", "0.0 Done Done x", "0.0 Failed Failed x", "0.0 Open Open x"];
    assert_eq!(claimed_record_lines(&b, &run).await, expected);
}

pub(super) async fn records_are_cleared_for_the_next_step<S: Store>(b: StoreFixture<S>) {
    let run = b.start_and_lose(&b.new_thread_key()).await;
    b.commit(&run, records_commit(vec![record("0.0", "a", RecordStage::Done, "1")])).await;
    // An entry alone clears nothing; only the writer knows when a step is over.
    b.write_steps(&run, &["inner"]).await;
    let next = vec![record("1.0", "a", RecordStage::Done, "2")];
    b.commit(&run, Commit { clear_records: true, ..records_commit(next) }).await;
    b.commit(&run, records_commit(vec![record("1.1", "a", RecordStage::Done, "3")])).await;
    assert_eq!(claimed_record_lines(&b, &run).await, ["1.0 a Done 2", "1.1 a Done 3"]);
}

pub(super) async fn records_are_no_entries<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    let committed = b.commit(&run, records_commit(vec![record("0.0", "a", RecordStage::Done, "1")])).await;
    assert_eq!(committed.head, 1);
    assert_eq!(b.loaded_text(&thread, None).await, "- | in");
}

pub(super) async fn records_belong_to_their_run<S: Store>(b: StoreFixture<S>) {
    let (one, two) = (b.new_thread_key(), b.new_thread_key());
    let failed = b.start(&one).await;
    b.commit(
        &failed,
        Commit {
            status: status_commit(RunStatus::Failed).status,
            ..records_commit(vec![record("0.0", "a", RecordStage::Done, "1")])
        },
    )
    .await;
    let next = b.start_and_lose(&one).await;
    let other = b.start_and_lose(&two).await;
    b.commit(
        &other,
        Commit { clear_records: true, ..records_commit(vec![record("0.0", "a", RecordStage::Done, "2")]) },
    )
    .await;
    assert_eq!(claimed_record_lines(&b, &next).await, [""; 0]);
    assert_eq!(claimed_record_lines(&b, &other).await, ["0.0 a Done 2"]);
}
