//! How a run ends in its log, other than with its last step: failed, cancelled, or with nothing to do.

use std::sync::Arc;

use crate::drive::{HaltReason, LogTip, RunContext, RunJournal, RunLimits, ThreadState};
use crate::log;
use crate::runtime::ClaimLease;
use crate::state::State;
use crate::store::{
    ClaimedRun, Commit, CommitOutcome, EntryKind, NewEntry, NewStatus, RunFailure, RunSignal, RunStatus, Seq,
    Store, StoreError,
};

/// Most bytes of the sentence of a failure.
const MAX_FAILURE_MESSAGE_BYTES: usize = 16 * 1024;

/// Ends a run that came to rest while its cancel was requested: its claim is over, so the store does it.
pub(super) async fn cancel_paused(run: &RunContext) -> HaltReason {
    let Some(journal) = &run.journal else { return HaltReason::Cancelled };
    let key = journal.fence.thread.run(journal.fence.run);
    let body = log::to_json_bytes(&log::RunCancelledEntry::default());
    let cancel = || journal.store.signal(&key, RunSignal::Cancel { body: body.clone() });
    match journal.retry(cancel).await {
        Ok(_) => HaltReason::Cancelled,
        Err(error) => HaltReason::Lost(error),
    }
}

/// Cuts the sentence of a failure to what is stored of it.
pub(super) fn shorten_failure(failure: &mut RunFailure) {
    if failure.message.len() > MAX_FAILURE_MESSAGE_BYTES {
        failure.message.truncate(failure.message.floor_char_boundary(MAX_FAILURE_MESSAGE_BYTES));
        failure.message.push('…');
    }
}

/// Writes the end of a run that failed. Gives back what to report: the failure, or that it could not be written.
pub(crate) async fn write_failure<S: State>(
    run: &Arc<RunContext>,
    at: &mut ThreadState<S>,
    halt: HaltReason,
) -> HaltReason {
    let HaltReason::Failed { mut failure, node, usage, records } = halt else { return halt };
    // A failure is written where nothing else could be, so it must be small.
    shorten_failure(&mut failure);
    let unfinished = run.take_unfinished_tasks();
    let body =
        log::to_json_bytes(&log::RunFailedEntry { failure: failure.clone(), node: node.clone(), unfinished });
    let commit = Commit {
        entries: vec![at.new_entry(EntryKind::Failed, body)],
        records,
        usage,
        status: Some(NewStatus { status: RunStatus::Failed, error: Some(failure.clone()) }),
        ..Commit::default()
    };
    match run.commit(commit).await {
        Ok(_) => HaltReason::Failed { failure, node, usage, records: Vec::new() },
        Err(error) => HaltReason::Lost(error),
    }
}

pub(crate) async fn write_cancelled(run: &RunContext) -> HaltReason {
    let partial = run.live_feed.as_ref().map(|live| live.partial_text()).unwrap_or_default();
    let (calls, unfinished) = (run.unfinished_calls(), run.take_unfinished_tasks());
    let body = log::to_json_bytes(&log::RunCancelledEntry { partial, calls, unfinished });
    let entry = NewEntry { kind: EntryKind::Cancelled, body, parent: None, base: 0, snapshot: None };
    let commit = Commit {
        entries: vec![entry],
        clear_records: true,
        usage: run.unbooked_usage(),
        status: Some(NewStatus { status: RunStatus::Cancelled, error: None }),
        ..Commit::default()
    };
    match run.commit(commit).await {
        Ok(_) => HaltReason::Cancelled,
        Err(error) => HaltReason::Lost(error),
    }
}

/// A run that was started where nothing is due ends with an entry of its own.
pub(super) async fn finish_without_step<S: State>(
    run: &RunContext,
    at: &mut ThreadState<S>,
) -> Result<Option<CommitOutcome>, HaltReason> {
    let commit = Commit {
        entries: vec![at.new_entry(EntryKind::Finished, b"{}".to_vec())],
        clear_records: true,
        status: Some(NewStatus { status: RunStatus::Finished, error: None }),
        ..Commit::default()
    };
    Ok(run.commit(commit).await?)
}

/// Cancels a claimed run without its graph: an end needs none.
pub(crate) async fn cancel_claimed(
    store: Arc<dyn Store>,
    claimed: ClaimedRun,
    lease: Arc<ClaimLease>,
) -> HaltReason {
    let (row, head) = (&claimed.run, claimed.head);
    let base = match replay_base_after(&store, &claimed).await {
        Ok(base) => base,
        Err(error) => return HaltReason::Lost(error),
    };
    let mut run = RunContext::new(RunLimits::default(), *row.run.as_uuid().as_bytes());
    run.journal = Some(RunJournal::new(store, &claimed, lease, LogTip { head, base }));
    run.continue_from_claim(row.steps, 0, row.usage, claimed.records);
    write_cancelled(&run).await
}

/// What the next entry of a run starts its replay from, when the log itself could not be read. The newest entry knows
/// it: a snapshot that it carries itself may be passed over, since nothing is cleared while a run is under way.
pub(crate) async fn replay_base_after(
    store: &Arc<dyn Store>,
    claimed: &ClaimedRun,
) -> Result<Seq, StoreError> {
    let newest = store.entries(&claimed.run.thread, claimed.head.saturating_sub(1), 1).await?;
    match newest.first().filter(|entry| entry.seq == claimed.head) {
        Some(entry) => Ok(entry.base),
        // A claim is of a run that began, so there is an entry unless the thread went on without it.
        None => Err(StoreError::Fenced),
    }
}
