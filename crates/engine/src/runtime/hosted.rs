//! A graph as the runtime holds it: its state type is known inside and hidden outside.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::drive::{self, At, Ended, Halt, Journal, RunCx, Tip};
use crate::error::EngineError;
use crate::failure;
use crate::graph::{Core, Drawing};
use crate::id::ThreadKey;
use crate::log::{self, Place, Question};
use crate::plan;
use crate::runtime::hot::Hot;
use crate::state::State;
use crate::store::{
    Claimed, Commit, Committed, Entry, EntryKind, Loaded, RunRow, Seq, Status, Store, StoreError,
};

/// How driving a run ended in this process.
pub(crate) enum RunEnd {
    /// With its state and, when it was written down, its row.
    Finished(Arc<dyn Any + Send + Sync>, Option<Arc<RunRow>>),
    Paused(Vec<Question>),
}

/// The state of a thread at some entry, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The entry.
    pub seq: Seq,
    /// The state after it.
    pub state: Value,
    /// Where the run stood.
    pub at: Place,
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A graph whose state type is forgotten.
pub(crate) trait AnyGraph: Send + Sync {
    fn fingerprint(&self) -> &str;
    fn drawing(&self) -> &Drawing;
    /// Whether this JSON is an update of the state.
    fn check_update(&self, update: &RawValue) -> Result<(), serde_json::Error>;
    /// Where a run begins.
    fn beginning(&self) -> Place;
    fn view(&self, seq: Seq, loaded: &Loaded) -> Result<View, EngineError>;
    /// A state as JSON, if it is one of this graph.
    fn show(&self, state: &(dyn Any + Send + Sync)) -> Option<Value>;
    /// The place of a thread after `node` finished on the state in `loaded` with `edit` folded in.
    fn place_after(&self, node: &str, loaded: &Loaded, edit: &Entry) -> Result<Place, EngineError>;
    /// Drives a claimed run. `first` is its first entry when this process just wrote it.
    fn drive(
        self: Arc<Self>,
        run: RunCx,
        store: Arc<dyn Store>,
        claimed: Claimed,
        first: Option<Vec<u8>>,
    ) -> BoxFuture<(Result<RunEnd, Halt>, Option<Committed>)>;
}

/// A graph with its name and the threads it has at hand.
pub(crate) struct Hosted<S: State> {
    pub name: String,
    pub core: Arc<Core<S>>,
    hot: Mutex<Hot<S>>,
}

impl<S: State> Hosted<S> {
    pub(crate) fn new(name: String, core: Arc<Core<S>>) -> Self {
        Self { name, core, hot: Mutex::default() }
    }

    fn hot(&self) -> MutexGuard<'_, Hot<S>> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state at hand, when the newest entry is still the one it was made from.
    async fn at_hand(
        &self,
        store: &Arc<dyn Store>,
        thread: &ThreadKey,
        head: Seq,
    ) -> Result<Option<At<S>>, EngineError> {
        let taken = self.hot().take(thread, head);
        let Some((writer, at)) = taken else { return Ok(None) };
        let newest = store.entries(thread, head - 1, 1).await?;
        let same = newest.first().is_some_and(|entry| entry.seq == head && entry.run == Some(writer));
        Ok(same.then_some(at))
    }

    /// Where the run stands, from what is at hand or from the log.
    async fn stand(
        &self,
        store: &Arc<dyn Store>,
        claimed: &Claimed,
        first: Option<Vec<u8>>,
    ) -> Result<(At<S>, Last), EngineError> {
        let run = &claimed.run;
        if let (Some(body), Some(parent)) = (first, run.parent_seq)
            && run.first_seq == Some(claimed.head)
        {
            let at = if parent == 0 && claimed.head == 1 {
                Some(At::fresh(plan::Position::default()))
            } else {
                self.at_hand(store, &run.thread, parent).await?
            };
            if let Some(mut at) = at {
                let entry = Entry {
                    seq: claimed.head,
                    parent,
                    base: at.base,
                    run: Some(run.run),
                    at: run.created_at,
                    kind: EntryKind::Started,
                    body,
                };
                at.take(&self.core, &entry)?;
                return Ok((at, Last::default()));
            }
        }
        let loaded = store.load(&run.thread, None).await?;
        // Nobody but the holder of the claim adds entries. When there are more, the claim is lost, and what was read
        // may be the state of another run: its nodes must not run under the name of this one.
        if loaded.head != claimed.head {
            return Err(StoreError::Fenced.into());
        }
        let at = drive::rebuild(&self.core, &loaded)?;
        Ok((at, Last::of(&loaded.entries)))
    }

    async fn drive_claimed(
        &self,
        mut run: RunCx,
        store: Arc<dyn Store>,
        claimed: Claimed,
        first: Option<Vec<u8>>,
    ) -> (Result<RunEnd, Halt>, Option<Committed>) {
        let row = &claimed.run;
        let stood = match drive::caught(self.stand(&store, &claimed, first)).await {
            Ok(Ok(stood)) => Ok(stood),
            Ok(Err(EngineError::Store(error))) if is_gone(&error) => {
                Err((failure::LOG_MISSING, format!("the log of the thread cannot be read: {error}")))
            }
            Ok(Err(EngineError::Store(error))) => return (Err(Halt::Lost(error)), None),
            Ok(Err(error)) => Err((failure::STATE_MISMATCH, error.to_string())),
            Err(said) => Err((failure::PANIC, format!("a reducer panicked while the log was read: {said}"))),
        };
        // However the run goes on, what it writes must be found again from where the log is whole.
        let base = match &stood {
            Ok((at, _)) => Ok(at.base),
            Err(_) => drive::base_after(&store, &claimed).await,
        };
        let base = match base {
            Ok(base) => base,
            Err(error) => return (Err(Halt::Lost(error)), None),
        };
        let tip = tokio::sync::Mutex::new(Tip { head: claimed.head, base });
        run.journal = Some(Journal { store, fence: claimed.fence(), tip });
        let logged = stood.as_ref().map_or(0, |(at, _)| at.position.step);
        run.carry_on(row.steps, logged, row.usage, claimed.records.clone());
        // To end a run nobody has to know where it stands.
        if run.cancel.is_cancelled() {
            return (Err(drive::end_cancelled(&run).await), None);
        }
        let (mut at, last) = match stood {
            Ok(stood) => stood,
            Err((code, message)) => {
                let mut nowhere = At::<Nothing>::fresh(plan::Position::default());
                return fail(&Arc::new(run), &mut nowhere, code, message).await;
            }
        };
        run.worked_before(Duration::from_millis(at.active_ms));
        for (path, body) in std::mem::take(&mut at.inner) {
            run.keep_inner(&path, body);
        }
        let run = Arc::new(run);
        if row.epoch > 1 && row.fingerprint != self.core.fingerprint {
            let message = format!("graph `{}` changed since this run was started", self.name);
            return fail(&run, &mut at, failure::GRAPH_CHANGED, message).await;
        }
        if let Some(astray) = at.astray.clone() {
            return fail(&run, &mut at, failure::GRAPH_CHANGED, astray.to_string()).await;
        }
        if last.restarts > MOST_RESTARTS {
            let message = format!("the process ended {} times in the same step", last.restarts);
            return fail(&run, &mut at, failure::CRASH_LOOP, message).await;
        }
        if row.epoch > 1
            && !last.announces(row.epoch)
            && let Err(halt) = note_restart(&run, &mut at, row.epoch).await
        {
            return (Err(halt), None);
        }
        let outcome = drive::drive_run(&self.core, &run, &mut at).await;
        match outcome {
            Ok((Ended::Finished, committed)) => {
                let state = at.state.clone();
                let row = committed.map(|committed| {
                    self.hot().keep(row.thread.clone(), committed.head, row.run, at);
                    Arc::new(finished(row, &run, &committed))
                });
                (Ok(RunEnd::Finished(state, row)), committed)
            }
            Ok((Ended::Paused(asks), committed)) => (Ok(RunEnd::Paused(asks)), committed),
            Err(halt) => (Err(halt), None),
        }
    }
}

/// The row of a run as the commit that ended it left it.
fn finished(claimed: &RunRow, run: &RunCx, committed: &Committed) -> RunRow {
    let (steps, usage) = run.booked();
    RunRow {
        status: Status::Finished,
        cancel_asked: committed.cancel_asked,
        ended_at: Some(committed.at),
        last_seq: Some(committed.head),
        steps,
        usage,
        ..claimed.clone()
    }
}

/// Restarts in one step after which a run is given up: a node that takes the process with it would go on for ever.
const MOST_RESTARTS: usize = 50;

/// What the newest entries say of how the run came to be claimed.
#[derive(Default)]
struct Last {
    /// Restarts since anything else happened.
    restarts: usize,
    /// The claim that the newest entry tells of.
    epoch: Option<u64>,
}

impl Last {
    fn of(entries: &[Entry]) -> Self {
        let restarts = entries.iter().rev().take_while(|entry| entry.kind == EntryKind::Restarted).count();
        let epoch = entries.last().and_then(|entry| match entry.read() {
            Ok(log::Body::Restarted(restarted)) => Some(restarted.epoch),
            // The claim after the one that asked.
            Ok(log::Body::Resumed(resumed)) => resumed.epoch.map(|asked| asked + 1),
            _ => None,
        });
        Self { restarts, epoch }
    }

    /// Whether the log already tells why this claim was made.
    fn announces(&self, epoch: u64) -> bool {
        self.epoch == Some(epoch)
    }
}

async fn note_restart<S: State>(run: &RunCx, at: &mut At<S>, epoch: u64) -> Result<(), Halt> {
    let body = log::bytes(&log::Restarted { epoch, why: "taken up again".into() });
    let commit = Commit { entries: vec![at.entry(EntryKind::Restarted, body)], ..Commit::default() };
    run.commit(commit).await?;
    Ok(())
}

/// Whether the log itself is gone or makes no sense. A thread that is gone was deleted, and the run with it.
fn is_gone(error: &StoreError) -> bool {
    match error {
        StoreError::NotFound { what, .. } => *what != "thread",
        StoreError::Damaged(_) => true,
        _ => false,
    }
}

async fn fail<S: State>(
    run: &Arc<RunCx>,
    at: &mut At<S>,
    code: &str,
    message: String,
) -> (Result<RunEnd, Halt>, Option<Committed>) {
    (Err(drive::write_failure(run, at, Halt::failed(code, message)).await), None)
}

/// The state of a run whose state cannot be read.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct Nothing {}

impl State for Nothing {
    type Update = ();

    fn apply(&mut self, (): ()) {}
}

impl<S: State> AnyGraph for Hosted<S> {
    fn fingerprint(&self) -> &str {
        &self.core.fingerprint
    }

    fn drawing(&self) -> &Drawing {
        &self.core.drawing
    }

    fn check_update(&self, update: &RawValue) -> Result<(), serde_json::Error> {
        serde_json::from_str::<S::Update>(update.get()).map(|_| ())
    }

    fn beginning(&self) -> Place {
        Place::of(&plan::begin(&self.core.topology, &self.core.start), &self.core)
    }

    fn view(&self, seq: Seq, loaded: &Loaded) -> Result<View, EngineError> {
        let at = drive::rebuild(&self.core, loaded)?;
        let state = serde_json::to_value(&*at.state)
            .map_err(|error| EngineError::StateMismatch { seq, message: error.to_string() })?;
        Ok(View { seq, state, at: Place::of(&at.position, &self.core) })
    }

    fn show(&self, state: &(dyn Any + Send + Sync)) -> Option<Value> {
        serde_json::to_value(state.downcast_ref::<S>()?).ok()
    }

    fn place_after(&self, node: &str, loaded: &Loaded, edit: &Entry) -> Result<Place, EngineError> {
        let unknown = || EngineError::UnknownNode { graph: self.name.clone(), node: node.to_owned() };
        let ix = self.core.find(node).ok_or_else(unknown)?;
        let mut at = drive::rebuild(&self.core, loaded)?;
        at.take(&self.core, edit)?;
        let mismatch = |message: String| EngineError::StateMismatch { seq: edit.seq, message };
        let route = self.core.route(ix, &at.state).map_err(|astray| mismatch(astray.told(node)))?;
        let next = plan::advance(&self.core.topology, &plan::Position::default(), vec![(ix, route)])
            .map_err(|_| mismatch(format!("node `{node}` alone cannot fill the join it leads to")))?;
        Ok(Place::of(&next, &self.core))
    }

    fn drive(
        self: Arc<Self>,
        run: RunCx,
        store: Arc<dyn Store>,
        claimed: Claimed,
        first: Option<Vec<u8>>,
    ) -> BoxFuture<(Result<RunEnd, Halt>, Option<Committed>)> {
        Box::pin(async move { self.drive_claimed(run, store, claimed, first).await })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn entry(kind: EntryKind, body: Vec<u8>) -> Entry {
        Entry { seq: 1, parent: 0, base: 0, run: None, at: 0, kind, body }
    }

    #[test]
    fn an_answer_announces_the_next_claim_and_no_later_one() {
        let resumed = log::Resumed { answers: BTreeMap::new(), epoch: Some(1) };
        let last = Last::of(&[entry(EntryKind::Resumed, log::bytes(&resumed))]);
        assert!(last.announces(2) && !last.announces(3));
        // Written before answers told it.
        let last = Last::of(&[entry(EntryKind::Resumed, b"{\"answers\":{}}".to_vec())]);
        assert!(!last.announces(2));
    }

    #[test]
    fn restarts_are_counted_since_anything_else_happened() {
        let restarted =
            |epoch| entry(EntryKind::Restarted, log::bytes(&log::Restarted { epoch, why: String::new() }));
        let step = entry(EntryKind::Step, Vec::new());
        let last = Last::of(&[restarted(2), step, restarted(3), restarted(4)]);
        assert_eq!((last.restarts, last.epoch), (2, Some(4)));
    }
}
