//! The budget of a month holds for runs of schedules too: it is looked at when such a run is due.

use async_trait::async_trait;
use doran_engine::runtime::{ScheduledRunDecision, ScheduledRunGate};
use doran_engine::store::StoreError;
use doran_engine::{EngineError, RunLimits, Runtime, TenantId};

use crate::budget::{BudgetError, MonthlyBudget};

#[async_trait]
impl ScheduledRunGate for MonthlyBudget {
    async fn decide(
        &self,
        runtime: &Runtime,
        tenant: &TenantId,
        limits: Option<RunLimits>,
    ) -> Result<ScheduledRunDecision, EngineError> {
        let limits = self.run_limits(runtime, tenant, limits).await.map_err(|error| match error {
            BudgetError::Runs(error) => error,
            // It may be there again when the run is tried the next time.
            BudgetError::Evals(error) => StoreError::Unavailable(error.into()).into(),
        })?;
        Ok(match limits {
            Some(limits) => ScheduledRunDecision::Start(Some(limits)),
            None => ScheduledRunDecision::Skip("the budget of the month is spent".to_owned()),
        })
    }
}
