//! How a run ends in its log, other than with its last step: failed, cancelled, or with nothing to do.

use std::sync::Arc;

use crate::drive::{At, Halt, Journal, Limits, RunCx, Tip};
use crate::log;
use crate::state::State;
use crate::store::{
    Claimed, Commit, Committed, EntryKind, NewEntry, NewStatus, Seq, Signal, Status, Store, StoreError,
};

/// Ends a run that came to rest while somebody asked to cancel it: its claim is over, so the store does it.
pub(super) async fn cancel_paused(run: &RunCx) -> Halt {
    let Some(journal) = &run.journal else { return Halt::Cancelled };
    let key = journal.fence.thread.run(journal.fence.run);
    let body = log::bytes(&log::Cancelled::default());
    match journal.store.signal(&key, Signal::Cancel { body }).await {
        Ok(_) => Halt::Cancelled,
        Err(error) => Halt::Lost(error),
    }
}

/// Writes the end of a run that failed. Gives back what is to be told: the failure, or that it could not be written.
pub(crate) async fn write_failure<S: State>(run: &Arc<RunCx>, at: &mut At<S>, halt: Halt) -> Halt {
    let Halt::Failed { failure, node, usage, records } = halt else { return halt };
    let body = log::bytes(&log::Failed { failure: failure.clone(), node: node.clone() });
    let commit = Commit {
        entries: vec![at.entry(EntryKind::Failed, body)],
        records,
        usage,
        status: Some(NewStatus { status: Status::Failed, error: Some(failure.clone()) }),
        ..Commit::default()
    };
    match run.commit(commit).await {
        Ok(_) => Halt::Failed { failure, node, usage, records: Vec::new() },
        Err(error) => Halt::Lost(error),
    }
}

pub(crate) async fn end_cancelled(run: &RunCx) -> Halt {
    let partial = run.live.as_ref().map(|live| live.partial()).unwrap_or_default();
    let body = log::bytes(&log::Cancelled { partial });
    let entry = NewEntry { kind: EntryKind::Cancelled, body, parent: None, base: 0, snapshot: None };
    let commit = Commit {
        entries: vec![entry],
        clear_records: true,
        usage: run.unbooked(),
        status: Some(NewStatus { status: Status::Cancelled, error: None }),
        ..Commit::default()
    };
    match run.commit(commit).await {
        Ok(_) => Halt::Cancelled,
        Err(error) => Halt::Lost(error),
    }
}

/// A run that was started where nothing is due ends with an entry of its own.
pub(super) async fn finish_at_once<S: State>(run: &RunCx, at: &mut At<S>) -> Result<Option<Committed>, Halt> {
    let commit = Commit {
        entries: vec![at.entry(EntryKind::Finished, b"{}".to_vec())],
        clear_records: true,
        status: Some(NewStatus { status: Status::Finished, error: None }),
        ..Commit::default()
    };
    Ok(run.commit(commit).await?)
}

/// Cancels a claimed run without its graph: an end needs none.
pub(crate) async fn cancel_claimed(store: Arc<dyn Store>, claimed: Claimed) -> Halt {
    let (fence, row, head) = (claimed.fence(), &claimed.run, claimed.head);
    let base = match base_after(&store, &claimed).await {
        Ok(base) => base,
        Err(error) => return Halt::Lost(error),
    };
    let mut run = RunCx::new(Limits::default(), *row.run.as_uuid().as_bytes());
    run.journal = Some(Journal { store, fence, tip: tokio::sync::Mutex::new(Tip { head, base }) });
    run.carry_on(row.steps, 0, row.usage, claimed.records);
    end_cancelled(&run).await
}

/// What the next entry of a run starts its replay from, when the log itself could not be read. The newest entry knows
/// it: a snapshot that it carries itself may be passed over, since nothing is cleared while a run is under way.
pub(crate) async fn base_after(store: &Arc<dyn Store>, claimed: &Claimed) -> Result<Seq, StoreError> {
    let newest = store.entries(&claimed.run.thread, claimed.head.saturating_sub(1), 1).await?;
    match newest.first().filter(|entry| entry.seq == claimed.head) {
        Some(entry) => Ok(entry.base),
        // A claim is of a run that began, so there is an entry unless the thread went on without it.
        None => Err(StoreError::Fenced),
    }
}
