//! Signals: cancel, answer, try again.

use super::fixture::*;
use crate::id::RunId;
use crate::store::*;

pub(super) async fn a_queued_run_is_cancelled_without_an_entry<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let first = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let second = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let row = b.cancel(&first).await;
    assert_eq!((row.status, row.first_seq, row.last_seq), (RunStatus::Cancelled, None, None));
    assert!(row.ended_at.is_some() && row.started_at.is_none());
    assert_eq!(b.store.run(&first.key()).await.expect("run"), row);
    assert_eq!(b.log_text(&thread).await, "");
    assert_eq!(b.claim(&thread).await.expect("the second").run.run, second.run);
}

pub(super) async fn a_paused_run_is_cancelled_with_an_entry<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    let waits = b.submit_queued(&thread, IfBusy::Enqueue).await;
    let row = b.cancel(&run.run).await;
    assert_eq!((row.status, row.last_seq), (RunStatus::Cancelled, Some(3)));
    assert!(row.ended_at.is_some());
    let log = b.log_entries(&thread).await;
    assert_eq!((log[2].kind, log[2].parent, log[2].run), (EntryKind::Cancelled, 2, Some(run.run.run)));
    assert_eq!(b.log_text(&thread).await, "in ask cancel");
    assert_eq!(b.thread_row(&thread).await.active, None);
    assert_eq!(b.claim(&thread).await.expect("the run that waits").run.run, waits.run);
    refused!(b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await, StoreError::Conflict(_));
}

pub(super) async fn a_cancel_of_a_running_run_is_noted_for_its_worker<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_lose(&thread).await;
    let row = b.cancel(&run.run).await;
    assert_eq!((row.status, row.cancel_asked), (RunStatus::Running, true));
    assert_eq!(b.log_text(&thread).await, "in");
    let next = b.claim(&thread).await.expect("a lost run");
    assert!(next.run.cancel_asked, "the next worker is told");
    b.cancel(&run.run).await;
    b.commit(&next, status_commit(RunStatus::Cancelled)).await;
    assert_eq!(b.run_row(&run).await.status, RunStatus::Cancelled);
}

pub(super) async fn a_run_to_be_cancelled_does_not_wait<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.cancel(&run.run).await;
    let records = vec![record("0.0", "q", RecordStage::Open, "?")];
    let entries = vec![new_entry(EntryKind::Paused, "ask", 0)];
    let paused = b.commit(&run, Commit { records, entries, ..status_commit(RunStatus::Paused) }).await;
    assert!(paused.cancel_asked && paused.next_waits);
    assert_eq!(b.run_row(&run).await.status, RunStatus::Running);
    refused!(b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await, StoreError::Conflict(_));
    refused!(b.store.commit(&run.fence(), status_commit(RunStatus::Running)).await, StoreError::Fenced);
    let next = b.claim(&thread).await.expect("it is to be ended");
    assert!(next.run.cancel_asked && next.run.epoch == 2);
    b.commit(&next, status_commit(RunStatus::Cancelled)).await;
    assert_eq!(b.run_row(&run).await.status, RunStatus::Cancelled);
}

pub(super) async fn a_start_leaves_a_run_that_was_let_go_on<S: Store>(b: StoreFixture<S>) {
    for if_busy in [IfBusy::Enqueue, IfBusy::Interrupt, IfBusy::Rollback] {
        let thread = b.new_thread_key();
        let run = b.start_and_pause(&thread, &["q"]).await;
        b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await.expect("answer");
        let new = NewRun { if_busy, claim: Some(long_lease()), ..b.new_run(&thread) };
        let (waits, _) = expect_queued(b.store.submit(new).await);
        assert_eq!((waits.status, waits.epoch), (RunStatus::Queued, 0));
        assert_eq!(b.claim(&thread).await.expect("the answered run").run.run, run.run.run);
    }
}

pub(super) async fn cancelling_an_ended_run_changes_nothing<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let row = b.start_and_finish(&thread, vec![]).await;
    let before = b.dump_thread(&thread).await;
    assert_eq!(b.cancel(&row).await, row);
    assert_eq!(b.dump_thread(&thread).await, before);
}

pub(super) async fn an_answer_lets_the_run_be_claimed<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["p", "q"]).await;
    b.submit_queued(&thread, IfBusy::Enqueue).await;
    let row =
        b.store.signal(&run.run.key(), answer_signal(&[("q", "네"), ("p", "no")])).await.expect("answer");
    assert_eq!((row.status, row.epoch), (RunStatus::Running, 1));
    let log = b.log_entries(&thread).await;
    assert_eq!((log[2].kind, log[2].parent, log[2].run), (EntryKind::Resumed, 2, Some(run.run.run)));
    assert_eq!(b.thread_row(&thread).await.active, Some(run.run.run));
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!((next.run.run, next.run.epoch, next.head), (run.run.run, 2, 3));
    assert_eq!(record_lines(&next.records), ["0.0 p Done no", "0.0 q Done 네"]);
    assert_eq!(b.log_text(&thread).await, "in ask answer");
    assert!(b.claim(&thread).await.is_none());
}

pub(super) async fn an_answer_is_taken_once<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    let key = run.run.key();
    b.store.signal(&key, answer_signal(&[("q", "first")])).await.expect("answer");
    let before = b.dump_thread(&thread).await;
    refused!(b.store.signal(&key, answer_signal(&[("q", "second")])).await, StoreError::Conflict(_));
    assert_eq!(b.dump_thread(&thread).await, before);
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!(record_lines(&next.records), ["0.0 q Done first"]);
    // It pauses again with the question still noted as answered.
    b.commit(&next, status_commit(RunStatus::Paused)).await;
    refused!(b.store.signal(&key, answer_signal(&[("q", "third")])).await, StoreError::Conflict(_));
}

pub(super) async fn a_bad_answer_takes_nothing<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    let records =
        vec![record("0.0", "q", RecordStage::Open, "?"), record("0.0", "done", RecordStage::Done, "!")];
    b.commit(&run, Commit { records, ..status_commit(RunStatus::Paused) }).await;
    let before = b.dump_thread(&thread).await;
    for bad in [&[("q", "a"), ("none", "b")][..], &[("q", "a"), ("done", "b")], &[("q", "a"), ("q", "b")]] {
        refused!(b.store.signal(&run.run.key(), answer_signal(bad)).await, StoreError::Conflict(_));
    }
    assert_eq!(b.dump_thread(&thread).await, before);
    assert!(b.claim(&thread).await.is_none());
    b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await.expect("the question is still open");
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!(record_lines(&next.records), ["0.0 done Done !", "0.0 q Done a"]);
}

pub(super) async fn some_questions_may_stay_open<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["p", "q"]).await;
    b.store.signal(&run.run.key(), answer_signal(&[("p", "1")])).await.expect("the first answer");
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!(record_lines(&next.records), ["0.0 p Done 1", "0.0 q Open ?"]);
    b.commit(&next, status_commit(RunStatus::Paused)).await;
    b.store.signal(&run.run.key(), answer_signal(&[("q", "2")])).await.expect("the second answer");
    let last = b.claim(&thread).await.expect("the answered run");
    assert_eq!(
        (last.run.epoch, record_lines(&last.records)),
        (3, vec!["0.0 p Done 1".into(), "0.0 q Done 2".into()])
    );
}

pub(super) async fn only_a_paused_run_is_answered<S: Store>(b: StoreFixture<S>) {
    let queued = b.submit_queued(&b.new_thread_key(), IfBusy::Reject).await;
    let running = b.start(&b.new_thread_key()).await;
    let open = vec![record("0.0", "q", RecordStage::Open, "?")];
    b.commit(&running, Commit { records: open, ..Commit::default() }).await;
    let ended = b.start_and_finish(&b.new_thread_key(), vec![]).await;
    for row in [queued, running.run, ended] {
        let before = b.dump_thread(&row.thread).await;
        refused!(b.store.signal(&row.key(), answer_signal(&[("q", "a")])).await, StoreError::Conflict(_));
        assert_eq!(b.dump_thread(&row.thread).await, before);
    }
}

pub(super) async fn an_answered_run_takes_no_write_before_its_claim<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await.expect("answer");
    let before = b.dump_thread(&thread).await;
    let commit = Commit { head: 3, ..steps_commit(&["old"]) };
    refused!(b.store.commit(&run.fence(), commit).await, StoreError::Fenced);
    assert_eq!(b.store.renew(&long_lease(), &[run.fence()]).await.expect("renew"), [LeaseRenewal::Lost]);
    assert_eq!(b.dump_thread(&thread).await, before);
    assert!(b.claim(&thread).await.is_some());
}

pub(super) async fn a_failed_run_goes_on_where_it_stopped<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start(&thread).await;
    b.cancel(&run.run).await;
    let commit = Commit {
        entries: vec![new_entry(EntryKind::Failed, "bad", 0)],
        records: vec![record("0.0", "a", RecordStage::Done, "1")],
        status: Some(NewStatus { status: RunStatus::Failed, error: Some(run_failure()) }),
        ..Commit::default()
    };
    b.commit(&run, commit).await;
    let row = b.store.signal(&run.run.key(), retry_signal()).await.expect("retry");
    assert_eq!((row.status, row.fingerprint.as_str(), row.cancel_asked), (RunStatus::Running, "f2", false));
    assert_eq!((row.error.clone(), row.ended_at, row.last_seq, row.first_seq), (None, None, None, Some(1)));
    assert_eq!(b.thread_row(&thread).await.active, Some(run.run.run));
    let next = b.claim(&thread).await.expect("the run to try again");
    assert_eq!(
        (next.run.epoch, next.head, record_lines(&next.records)),
        (2, 3, vec!["0.0 a Done 1".to_owned()])
    );
    let log = b.log_entries(&thread).await;
    assert_eq!(
        (log[2].kind, log[2].parent, bodies_text(&log)),
        (EntryKind::Restarted, 2, "in bad again".to_owned())
    );
    b.finish(&next).await;
    assert_eq!(b.run_row(&run).await.last_seq, Some(4));
}

pub(super) async fn only_a_failed_run_is_retried<S: Store>(b: StoreFixture<S>) {
    let queued = b.submit_queued(&b.new_thread_key(), IfBusy::Reject).await;
    let running = b.start(&b.new_thread_key()).await.run;
    let paused = b.start_and_pause(&b.new_thread_key(), &["q"]).await.run;
    let finished = b.start_and_finish(&b.new_thread_key(), vec![]).await;
    let cancelled = b.start_and_pause(&b.new_thread_key(), &["q"]).await.run;
    b.cancel(&cancelled).await;
    for row in [queued, running, paused, finished, cancelled] {
        let before = b.dump_thread(&row.thread).await;
        refused!(b.store.signal(&row.key(), retry_signal()).await, StoreError::Conflict(_));
        assert_eq!(b.dump_thread(&row.thread).await, before);
    }
}

pub(super) async fn a_retry_needs_its_own_entry_on_top<S: Store>(b: StoreFixture<S>) {
    let (edited, busy, later) = (b.new_thread_key(), b.new_thread_key(), b.new_thread_key());
    let runs =
        [b.start_and_fail(&edited).await, b.start_and_fail(&busy).await, b.start_and_fail(&later).await];
    b.append_edits(&edited, vec![new_entry(EntryKind::Edited, "e", 0)]).await;
    b.start(&busy).await;
    b.start_and_finish(&later, vec![]).await;
    for run in runs {
        let before = b.dump_thread(&run.run.thread).await;
        refused!(b.store.signal(&run.run.key(), retry_signal()).await, StoreError::Conflict(_));
        assert_eq!(b.dump_thread(&run.run.thread).await, before);
    }
}

pub(super) async fn a_run_that_is_not_there_is_not_found<S: Store>(b: StoreFixture<S>) {
    let key = b.new_thread_key().run(RunId::random());
    let edit = RunSignal::Edit { head: 0, body: vec![] };
    for signal in [RunSignal::Cancel { body: vec![] }, answer_signal(&[]), retry_signal(), edit] {
        refused!(b.store.signal(&key, signal).await, StoreError::NotFound { .. });
    }
}

pub(super) async fn a_paused_run_is_edited<S: Store>(b: StoreFixture<S>) {
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    let edit = RunSignal::Edit { head: 2, body: b"edit".to_vec() };
    let row = b.store.signal(&run.run.key(), edit).await.expect("edit");
    assert_eq!((row.status, row.epoch), (RunStatus::Paused, 1));
    assert!(b.claim(&thread).await.is_none(), "it still waits");
    let entries = b.store.entries(&thread, 2, 10).await.expect("entries");
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!((entry.seq, entry.parent, entry.run), (3, 2, Some(run.run.run)));
    assert_eq!((entry.kind, entry.body.as_slice()), (EntryKind::Paused, b"edit".as_slice()));
    assert_eq!(b.head(&thread).await, 3);
    b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await.expect("the question is still open");
    let claimed = b.claim(&thread).await.expect("answered");
    assert_eq!((claimed.head, claimed.run.epoch), (4, 2));
    assert_eq!(claimed.records, [record("0.0", "q", RecordStage::Done, "a")]);
}

pub(super) async fn an_edit_of_a_paused_run_needs_the_newest_entry<S: Store>(b: StoreFixture<S>) {
    let edit = |head| RunSignal::Edit { head, body: b"edit".to_vec() };
    let thread = b.new_thread_key();
    let run = b.start_and_pause(&thread, &["q"]).await;
    for head in [1, 3] {
        refused!(b.store.signal(&run.run.key(), edit(head)).await, StoreError::Conflict(_));
    }
    assert_eq!(b.head(&thread).await, 2, "nothing was written");
    b.store.signal(&run.run.key(), answer_signal(&[("q", "a")])).await.expect("answer");
    refused!(b.store.signal(&run.run.key(), edit(3)).await, StoreError::Conflict(_));
    let other = b.start(&b.new_thread_key()).await;
    refused!(b.store.signal(&other.run.key(), edit(1)).await, StoreError::Conflict(_));
    assert_eq!(b.head(&thread).await, 3);
}
