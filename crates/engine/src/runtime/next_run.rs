//! The run that goes on with a thread when another one has ended. The commit that ends the one claims the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runtime::registered_graph::AnyGraph;
use crate::runtime::{LeaseTime, RuntimeInner};
use crate::store::{ClaimedRun, CommitOutcome, WorkerLease};

/// What a run under way claims for its worker when it ends.
pub(crate) struct NextRun {
    inner: Arc<RuntimeInner>,
    claimed: Mutex<Option<(ClaimedRun, LeaseTime)>>,
}

impl NextRun {
    pub(super) fn new(inner: Arc<RuntimeInner>) -> Self {
        Self { inner, claimed: Mutex::default() }
    }

    /// The claim that a commit with a new status makes. A process that shuts down claims nothing. The run that ends makes
    /// room for the one that is claimed.
    pub(crate) fn claim(&self) -> Option<WorkerLease> {
        (!self.inner.stop.is_cancelled()).then(|| self.inner.claim_of_known_graphs())
    }

    /// Takes the claimed run from what a commit led to. The claim was requested at `requested_at`.
    pub(crate) fn note(&self, committed: &mut CommitOutcome, requested_at: LeaseTime) {
        if let Some(next) = committed.next.take() {
            *self.claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some((*next, requested_at));
        }
    }

    /// The run that was claimed, once.
    pub(super) fn take(&self) -> Option<(ClaimedRun, LeaseTime)> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl RuntimeInner {
    /// Keeps the list that claims carry, while the graphs are locked.
    pub(super) fn note_graph_names(&self, graphs: &HashMap<String, Arc<dyn AnyGraph>>) {
        let names = graphs.keys().cloned().collect();
        *self.graph_names.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// A claim of runs of the graphs that are known here.
    pub(super) fn claim_of_known_graphs(&self) -> WorkerLease {
        let graphs = self.graph_names.read().unwrap_or_else(PoisonError::into_inner).clone();
        WorkerLease { graphs: Some(graphs), ..self.claim.clone() }
    }
}
