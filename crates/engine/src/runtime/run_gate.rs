//! The part that decides whether runs may begin and go on, such as a budget that many runs share.
//!
//! The gate of a runtime is called before a run is accepted, when a worker takes a run that waited or had stopped, and before
//! each step that follows one that cost something.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::error::{EngineError, MisuseError};
use crate::id::TenantId;
use crate::runtime::{Runtime, RuntimeInner};
use crate::store::{RunFailure, StoreError};

/// Decides whether runs may begin and go on.
#[async_trait]
pub trait RunGate: std::fmt::Debug + Send + Sync + 'static {
    /// Whether a run of this tenant may begin or go on now. A [`StoreError`] that may pass is tried again.
    async fn admit(&self, runtime: &Runtime, tenant: &TenantId) -> Result<RunAdmission, EngineError>;
}

/// Whether a run may begin or go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAdmission {
    /// It may.
    Admitted {
        /// What it may cost from now on, in millionths of a US dollar. Any amount if `None`.
        cost_left: Option<u64>,
    },
    /// It must not. A run that was not accepted yet is refused with this, and one that a worker takes fails with it. A run
    /// under way may finish what costs nothing: [`Cx::check_may_spend`](crate::Cx::check_may_spend).
    Refused(RunFailure),
}

impl Runtime {
    /// Sets who decides about runs in this process. Without anybody, all of them begin and go on.
    pub fn set_run_gate(&self, gate: Arc<dyn RunGate>) {
        *self.0.run_gate.write().unwrap_or_else(PoisonError::into_inner) = Some(gate);
    }

    /// Asks the gate about a run that is to be accepted.
    pub(super) async fn admit_new_run(&self, tenant: &TenantId) -> Result<Option<RunAdmission>, EngineError> {
        let Some(gate) = self.0.run_gate() else { return Ok(None) };
        match gate.admit(self, tenant).await? {
            RunAdmission::Refused(failure) => Err(MisuseError::NotAdmitted(failure).into()),
            admitted @ RunAdmission::Admitted { .. } => Ok(Some(admitted)),
        }
    }
}

impl RuntimeInner {
    fn run_gate(&self) -> Option<Arc<dyn RunGate>> {
        self.run_gate.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The gate of a run that this process drives. `admitted` is what it answered when the run was accepted, just now.
    pub(super) fn gate_of_run(
        self: &Arc<Self>,
        tenant: &TenantId,
        admitted: Option<RunAdmission>,
    ) -> Option<RunGateCheck> {
        Some(RunGateCheck {
            gate: self.run_gate()?,
            runtime: Runtime(self.clone()),
            tenant: tenant.clone(),
            known: Mutex::new(admitted),
            asked_at: Mutex::default(),
        })
    }
}

/// The gate, for one run.
pub(crate) struct RunGateCheck {
    gate: Arc<dyn RunGate>,
    runtime: Runtime,
    tenant: TenantId,
    /// An answer that was not looked at yet.
    known: Mutex<Option<RunAdmission>>,
    /// What the run had cost at the last check.
    asked_at: Mutex<Option<u64>>,
}

/// Which question about a run is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateQuestion {
    /// Whether it may begin, or go on after it had stopped.
    Begin,
    /// Whether it may spend more.
    Spend,
}

impl RunGateCheck {
    /// What to ask about a run that has cost this much: nothing if it has not cost more since the last time.
    pub(crate) fn due_question(&self, cost: u64) -> Option<GateQuestion> {
        let mut asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        match asked_at.replace(cost) {
            None => Some(GateQuestion::Begin),
            Some(before) if before == cost => None,
            Some(_) => Some(GateQuestion::Spend),
        }
    }

    /// Asks, unless the answer is known.
    pub(crate) async fn ask(&self) -> Result<RunAdmission, StoreError> {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(known);
        }
        self.gate.admit(&self.runtime, &self.tenant).await.map_err(|error| match error {
            EngineError::Store(error) => error,
            error => StoreError::Other(error.into()),
        })
    }
}
