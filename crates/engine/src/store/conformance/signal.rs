//! Signals: cancel, answer, try again.

use super::bench::*;
use crate::id::RunId;
use crate::store::*;

pub(super) async fn a_queued_run_is_cancelled_without_an_entry<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let first = b.queue(&thread, IfBusy::Enqueue).await;
    let second = b.queue(&thread, IfBusy::Enqueue).await;
    let row = b.cancel(&first).await;
    assert_eq!((row.status, row.first_seq, row.last_seq), (Status::Cancelled, None, None));
    assert!(row.ended_at.is_some() && row.started_at.is_none());
    assert_eq!(b.store.run(&first.key()).await.expect("run"), row);
    assert_eq!(b.bodies(&thread).await, "");
    assert_eq!(b.claim(&thread).await.expect("the second").run.run, second.run);
}

pub(super) async fn a_paused_run_is_cancelled_with_an_entry<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.paused(&thread, &["q"]).await;
    let waits = b.queue(&thread, IfBusy::Enqueue).await;
    let row = b.cancel(&run.run).await;
    assert_eq!((row.status, row.last_seq), (Status::Cancelled, Some(3)));
    assert!(row.ended_at.is_some());
    let log = b.log(&thread).await;
    assert_eq!((log[2].kind, log[2].parent, log[2].run), (EntryKind::Cancelled, 2, Some(run.run.run)));
    assert_eq!(b.bodies(&thread).await, "in ask cancel");
    assert_eq!(b.thread(&thread).await.active, None);
    assert_eq!(b.claim(&thread).await.expect("the run that waits").run.run, waits.run);
    refused!(b.store.signal(&run.run.key(), answer(&[("q", "a")])).await, StoreError::Conflict(_));
}

pub(super) async fn a_running_run_is_asked_to_cancel<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start_and_lose(&thread).await;
    let row = b.cancel(&run.run).await;
    assert_eq!((row.status, row.cancel_asked), (Status::Running, true));
    assert_eq!(b.bodies(&thread).await, "in");
    let next = b.claim(&thread).await.expect("a lost run");
    assert!(next.run.cancel_asked, "the next worker is told");
    b.cancel(&run.run).await;
    b.commit(&next, to(Status::Cancelled)).await;
    assert_eq!(b.row(&run).await.status, Status::Cancelled);
}

pub(super) async fn a_run_to_be_cancelled_does_not_wait<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start(&thread).await;
    b.cancel(&run.run).await;
    let records = vec![record("0.0", "q", Stage::Open, "?")];
    let entries = vec![entry(EntryKind::Paused, "ask", 0)];
    let paused = b.commit(&run, Commit { records, entries, ..to(Status::Paused) }).await;
    assert!(paused.cancel_asked && paused.next_waits);
    assert_eq!(b.row(&run).await.status, Status::Running);
    refused!(b.store.signal(&run.run.key(), answer(&[("q", "a")])).await, StoreError::Conflict(_));
    refused!(b.store.commit(&run.fence(), to(Status::Running)).await, StoreError::Fenced);
    let next = b.claim(&thread).await.expect("it is to be ended");
    assert!(next.run.cancel_asked && next.run.epoch == 2);
    b.commit(&next, to(Status::Cancelled)).await;
    assert_eq!(b.row(&run).await.status, Status::Cancelled);
}

pub(super) async fn a_start_leaves_a_run_that_was_let_go_on<S: Store>(b: Bench<S>) {
    for if_busy in [IfBusy::Enqueue, IfBusy::Interrupt, IfBusy::Rollback] {
        let thread = b.key();
        let run = b.paused(&thread, &["q"]).await;
        b.store.signal(&run.run.key(), answer(&[("q", "a")])).await.expect("answer");
        let new = NewRun { if_busy, claim: Some(worker()), ..b.new_run(&thread) };
        let (waits, _) = queued(b.store.submit(new).await);
        assert_eq!((waits.status, waits.epoch), (Status::Queued, 0));
        assert_eq!(b.claim(&thread).await.expect("the answered run").run.run, run.run.run);
    }
}

pub(super) async fn cancelling_an_ended_run_changes_nothing<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let row = b.finished(&thread, vec![]).await;
    let before = b.all(&thread).await;
    assert_eq!(b.cancel(&row).await, row);
    assert_eq!(b.all(&thread).await, before);
}

pub(super) async fn an_answer_lets_the_run_be_claimed<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.paused(&thread, &["p", "q"]).await;
    b.queue(&thread, IfBusy::Enqueue).await;
    let row = b.store.signal(&run.run.key(), answer(&[("q", "네"), ("p", "no")])).await.expect("answer");
    assert_eq!((row.status, row.epoch), (Status::Running, 1));
    let log = b.log(&thread).await;
    assert_eq!((log[2].kind, log[2].parent, log[2].run), (EntryKind::Resumed, 2, Some(run.run.run)));
    assert_eq!(b.thread(&thread).await.active, Some(run.run.run));
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!((next.run.run, next.run.epoch, next.head), (run.run.run, 2, 3));
    assert_eq!(noted(&next.records), ["0.0 p Done no", "0.0 q Done 네"]);
    assert_eq!(b.bodies(&thread).await, "in ask answer");
    assert!(b.claim(&thread).await.is_none());
}

pub(super) async fn an_answer_is_taken_once<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.paused(&thread, &["q"]).await;
    let key = run.run.key();
    b.store.signal(&key, answer(&[("q", "first")])).await.expect("answer");
    let before = b.all(&thread).await;
    refused!(b.store.signal(&key, answer(&[("q", "second")])).await, StoreError::Conflict(_));
    assert_eq!(b.all(&thread).await, before);
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!(noted(&next.records), ["0.0 q Done first"]);
    // It pauses again with the question still noted as answered.
    b.commit(&next, to(Status::Paused)).await;
    refused!(b.store.signal(&key, answer(&[("q", "third")])).await, StoreError::Conflict(_));
}

pub(super) async fn a_bad_answer_takes_nothing<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start(&thread).await;
    let records = vec![record("0.0", "q", Stage::Open, "?"), record("0.0", "done", Stage::Done, "!")];
    b.commit(&run, Commit { records, ..to(Status::Paused) }).await;
    let before = b.all(&thread).await;
    for bad in [&[("q", "a"), ("none", "b")][..], &[("q", "a"), ("done", "b")], &[("q", "a"), ("q", "b")]] {
        refused!(b.store.signal(&run.run.key(), answer(bad)).await, StoreError::Conflict(_));
    }
    assert_eq!(b.all(&thread).await, before);
    assert!(b.claim(&thread).await.is_none());
    b.store.signal(&run.run.key(), answer(&[("q", "a")])).await.expect("the question is still open");
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!(noted(&next.records), ["0.0 done Done !", "0.0 q Done a"]);
}

pub(super) async fn some_questions_may_stay_open<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.paused(&thread, &["p", "q"]).await;
    b.store.signal(&run.run.key(), answer(&[("p", "1")])).await.expect("the first answer");
    let next = b.claim(&thread).await.expect("the answered run");
    assert_eq!(noted(&next.records), ["0.0 p Done 1", "0.0 q Open ?"]);
    b.commit(&next, to(Status::Paused)).await;
    b.store.signal(&run.run.key(), answer(&[("q", "2")])).await.expect("the second answer");
    let last = b.claim(&thread).await.expect("the answered run");
    assert_eq!(
        (last.run.epoch, noted(&last.records)),
        (3, vec!["0.0 p Done 1".into(), "0.0 q Done 2".into()])
    );
}

pub(super) async fn only_a_paused_run_is_answered<S: Store>(b: Bench<S>) {
    let queued = b.queue(&b.key(), IfBusy::Reject).await;
    let running = b.start(&b.key()).await;
    let open = vec![record("0.0", "q", Stage::Open, "?")];
    b.commit(&running, Commit { records: open, ..Commit::default() }).await;
    let ended = b.finished(&b.key(), vec![]).await;
    for row in [queued, running.run, ended] {
        let before = b.all(&row.thread).await;
        refused!(b.store.signal(&row.key(), answer(&[("q", "a")])).await, StoreError::Conflict(_));
        assert_eq!(b.all(&row.thread).await, before);
    }
}

pub(super) async fn an_answered_run_takes_no_write_before_its_claim<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.paused(&thread, &["q"]).await;
    b.store.signal(&run.run.key(), answer(&[("q", "a")])).await.expect("answer");
    let before = b.all(&thread).await;
    let commit = Commit { head: 3, ..steps(&["old"]) };
    refused!(b.store.commit(&run.fence(), commit).await, StoreError::Fenced);
    assert_eq!(b.store.renew(&worker(), &[run.fence()]).await.expect("renew"), [Renewed::Lost]);
    assert_eq!(b.all(&thread).await, before);
    assert!(b.claim(&thread).await.is_some());
}

pub(super) async fn a_failed_run_goes_on_where_it_stopped<S: Store>(b: Bench<S>) {
    let thread = b.key();
    let run = b.start(&thread).await;
    b.cancel(&run.run).await;
    let commit = Commit {
        entries: vec![entry(EntryKind::Failed, "bad", 0)],
        records: vec![record("0.0", "a", Stage::Done, "1")],
        status: Some(NewStatus { status: Status::Failed, error: Some(failure()) }),
        ..Commit::default()
    };
    b.commit(&run, commit).await;
    let row = b.store.signal(&run.run.key(), retry()).await.expect("retry");
    assert_eq!((row.status, row.fingerprint.as_str(), row.cancel_asked), (Status::Running, "f2", false));
    assert_eq!((row.error.clone(), row.ended_at, row.last_seq, row.first_seq), (None, None, None, Some(1)));
    assert_eq!(b.thread(&thread).await.active, Some(run.run.run));
    let next = b.claim(&thread).await.expect("the run to try again");
    assert_eq!((next.run.epoch, next.head, noted(&next.records)), (2, 3, vec!["0.0 a Done 1".to_owned()]));
    let log = b.log(&thread).await;
    assert_eq!(
        (log[2].kind, log[2].parent, text(&log)),
        (EntryKind::Restarted, 2, "in bad again".to_owned())
    );
    b.finish(&next).await;
    assert_eq!(b.row(&run).await.last_seq, Some(4));
}

pub(super) async fn only_a_failed_run_is_retried<S: Store>(b: Bench<S>) {
    let queued = b.queue(&b.key(), IfBusy::Reject).await;
    let running = b.start(&b.key()).await.run;
    let paused = b.paused(&b.key(), &["q"]).await.run;
    let finished = b.finished(&b.key(), vec![]).await;
    let cancelled = b.paused(&b.key(), &["q"]).await.run;
    b.cancel(&cancelled).await;
    for row in [queued, running, paused, finished, cancelled] {
        let before = b.all(&row.thread).await;
        refused!(b.store.signal(&row.key(), retry()).await, StoreError::Conflict(_));
        assert_eq!(b.all(&row.thread).await, before);
    }
}

pub(super) async fn a_retry_needs_its_own_entry_on_top<S: Store>(b: Bench<S>) {
    let (edited, busy, later) = (b.key(), b.key(), b.key());
    let runs = [b.failed(&edited).await, b.failed(&busy).await, b.failed(&later).await];
    b.edit(&edited, vec![entry(EntryKind::Edited, "e", 0)]).await;
    b.start(&busy).await;
    b.finished(&later, vec![]).await;
    for run in runs {
        let before = b.all(&run.run.thread).await;
        refused!(b.store.signal(&run.run.key(), retry()).await, StoreError::Conflict(_));
        assert_eq!(b.all(&run.run.thread).await, before);
    }
}

pub(super) async fn a_run_that_is_not_there_is_not_found<S: Store>(b: Bench<S>) {
    let key = b.key().run(RunId::random());
    for signal in [Signal::Cancel { body: vec![] }, answer(&[]), retry()] {
        refused!(b.store.signal(&key, signal).await, StoreError::NotFound { .. });
    }
}
