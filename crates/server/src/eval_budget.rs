//! The budget of a month for the questions of an evaluation.

use async_trait::async_trait;
use doran_engine::runtime::{RunAdmission, RunGate};
use doran_engine::store::RunFilter;
use doran_engine::{EngineError, Runtime, TenantId};

use crate::budget::{MonthlyBudget, admission};

/// The budget of a tenant, checked for the turns of a question. They run in a separate runtime, and their cost is not
/// in the total of the tenant until the question ends.
#[derive(Debug)]
pub(crate) struct EvalBudget {
    pub(crate) budget: MonthlyBudget,
    /// Where the runs of the tenant are.
    pub(crate) runtime: Runtime,
    pub(crate) tenant: TenantId,
}

#[async_trait]
impl RunGate for EvalBudget {
    async fn admit(&self, eval_runtime: &Runtime, tenant: &TenantId) -> Result<RunAdmission, EngineError> {
        let left = self.budget.left_micros(&self.runtime, &self.tenant).await?;
        let eval_runs =
            eval_runtime.list_runs(tenant, &RunFilter { limit: usize::MAX, ..RunFilter::default() }).await?;
        let spent: u64 = eval_runs.iter().map(|run| run.usage.cost_micros).sum();
        Ok(admission(left.saturating_sub(spent)))
    }
}
