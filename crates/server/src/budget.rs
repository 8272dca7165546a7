//! The budget of a month: what the runs and evaluations of a tenant may cost together. It is looked at before a run begins or
//! goes on, and before each step that follows one that cost something; a run gets no more than what is left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use doran_agents::failure::BUDGET_SPENT_CODE;
use doran_engine::runtime::{RunAdmission, RunGate};
use doran_engine::store::{RunFailure, RunFilter, StoreError};
use doran_engine::{EngineError, Runtime, TenantId};

use crate::error::{ApiError, ApiErrorCode};
use crate::eval_store::{EvalStoreError, EvalUsageStore};

/// How long the sum of older runs and of evaluations is used again.
const SUM_LIFETIME: Duration = Duration::from_secs(5);
/// Runs that began within this time are added up whenever a run starts, so that a burst of them does not spend more than
/// those that work at the same time.
const RECENT_MILLIS: i64 = 60_000;
/// Runs read in one go.
const RUNS_PER_PAGE: usize = 500;
const DAY_MILLIS: i64 = 86_400_000;

/// What the runs and evaluations of a tenant may cost in a calendar month, UTC.
#[derive(Clone)]
pub struct MonthlyBudget {
    /// In millionths of a US dollar.
    pub cost_micros: u64,
    evals: Option<Arc<dyn EvalUsageStore>>,
    sums: Arc<Mutex<HashMap<TenantId, OlderSum>>>,
}

/// What a tenant has spent this month, without its recent and its deleted runs.
#[derive(Clone, Copy)]
struct OlderSum {
    /// When it was added up.
    at: Instant,
    cost_micros: u64,
    /// Runs that began at this time or later are not in it.
    recent_since: i64,
}

/// Why it is not known what was spent.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    /// The runs cannot be read.
    #[error(transparent)]
    Runs(#[from] EngineError),
    /// What evaluations used cannot be read.
    #[error(transparent)]
    Evals(#[from] EvalStoreError),
}

impl From<BudgetError> for ApiError {
    fn from(error: BudgetError) -> Self {
        match error {
            BudgetError::Runs(error) => error.into(),
            BudgetError::Evals(error) => error.into(),
        }
    }
}

impl From<BudgetError> for EngineError {
    fn from(error: BudgetError) -> Self {
        match error {
            BudgetError::Runs(error) => error,
            // It may be there again when it is tried the next time.
            BudgetError::Evals(error) => StoreError::Unavailable(error.into()).into(),
        }
    }
}

impl std::fmt::Debug for MonthlyBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonthlyBudget").field("cost_micros", &self.cost_micros).finish_non_exhaustive()
    }
}

/// The decision about a run that may cost so much more.
pub(crate) fn admission(left_micros: u64) -> RunAdmission {
    match left_micros {
        0 => RunAdmission::Refused(RunFailure {
            code: BUDGET_SPENT_CODE.to_owned(),
            message: ApiErrorCode::BudgetSpent.info().en.to_owned(),
        }),
        left => RunAdmission::Admitted { cost_left: Some(left) },
    }
}

#[async_trait]
impl RunGate for MonthlyBudget {
    async fn admit(&self, runtime: &Runtime, tenant: &TenantId) -> Result<RunAdmission, EngineError> {
        Ok(admission(self.left_micros(runtime, tenant).await?))
    }
}

impl MonthlyBudget {
    /// A budget of so many millionths of a US dollar.
    pub fn new(cost_micros: u64) -> Self {
        Self { cost_micros, evals: None, sums: Arc::default() }
    }

    /// Evaluations spend it too.
    #[must_use]
    pub fn evals(mut self, usage: Arc<dyn EvalUsageStore>) -> Self {
        self.evals = Some(usage);
        self
    }

    /// What is left of it.
    pub(crate) async fn left_micros(&self, runtime: &Runtime, tenant: &TenantId) -> Result<u64, BudgetError> {
        Ok(self.cost_micros.saturating_sub(self.spent_micros(runtime, tenant).await?))
    }

    /// What the runs and evaluations of this month have cost so far, deleted runs included. A run of the older sum that was
    /// deleted since counts twice until that is added up anew: never too little.
    pub(crate) async fn spent_micros(
        &self,
        runtime: &Runtime,
        tenant: &TenantId,
    ) -> Result<u64, BudgetError> {
        let known = self.sums.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).copied();
        if let Some(older) = known.filter(|older| older.at.elapsed() < SUM_LIFETIME) {
            let (_, recent) = sum_runs(runtime, tenant, older.recent_since, older.recent_since).await?;
            return Ok(older.cost_micros + recent + sum_deleted_runs(runtime, tenant).await?);
        }
        let (at, now) = (Instant::now(), now_millis());
        let since = month_start(now);
        let recent_since = since.max(now - RECENT_MILLIS);
        let (mut cost_micros, recent) = sum_runs(runtime, tenant, since, recent_since).await?;
        if let Some(evals) = &self.evals {
            let used = evals.since(tenant, since).await?;
            cost_micros += used.iter().map(|row| row.used.cost_micros).sum::<u64>();
        }
        // Last: a run that is deleted meanwhile may count twice now, but not at all otherwise.
        let deleted = sum_deleted_runs(runtime, tenant).await?;
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.retain(|_, older| older.at.elapsed() < SUM_LIFETIME);
        sums.insert(tenant.clone(), OlderSum { at, cost_micros, recent_since });
        Ok(cost_micros + recent + deleted)
    }

    /// The same, added up anew.
    pub(crate) async fn spent_now_micros(
        &self,
        runtime: &Runtime,
        tenant: &TenantId,
    ) -> Result<u64, BudgetError> {
        self.forget_sum(tenant);
        self.spent_micros(runtime, tenant).await
    }

    /// Adds up anew the next time.
    pub(crate) fn forget_sum(&self, tenant: &TenantId) {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }
}

/// What runs have cost that began since a time: those before `recent_since`, and the others.
async fn sum_runs(
    runtime: &Runtime,
    tenant: &TenantId,
    since: i64,
    recent_since: i64,
) -> Result<(u64, u64), EngineError> {
    let (mut older, mut recent, mut before) = (0, 0, None);
    loop {
        let filter = RunFilter { before, limit: RUNS_PER_PAGE, ..RunFilter::default() };
        let page = runtime.list_runs(tenant, &filter).await?;
        for run in &page {
            if run.created_at < since {
                return Ok((older, recent));
            }
            let sum = if run.created_at < recent_since { &mut older } else { &mut recent };
            *sum += run.usage.cost_micros;
        }
        if page.len() < RUNS_PER_PAGE {
            return Ok((older, recent));
        }
        before = page.last().map(|run| run.run);
    }
}

/// What runs of this month have cost that were deleted.
async fn sum_deleted_runs(runtime: &Runtime, tenant: &TenantId) -> Result<u64, EngineError> {
    let deleted = runtime.deleted_usage(tenant, month_start(now_millis())).await?;
    Ok(deleted.iter().map(|row| row.usage.cost_micros).sum())
}

pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The first millisecond of the month, UTC.
fn month_start(now: i64) -> i64 {
    let days = now.div_euclid(DAY_MILLIS);
    (days - i64::from(day_of_month(days)) + 1) * DAY_MILLIS
}

/// The day of the month, from 1, by the days since 1970. Years are counted from March, so that a leap day comes last.
fn day_of_month(days: i64) -> u8 {
    let day_of_era = (days + 719_468).rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    u8::try_from(day_of_year - (153 * month + 2) / 5 + 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_on_its_first_day() {
        // 2026-11-17, 2024-02-29, 1970-01-01, 2000-03-01, 2026-12-31, in days since 1970.
        for (days, day) in [(20_774, 17), (19_782, 29), (0, 1), (11_017, 1), (20_818, 31)] {
            assert_eq!(day_of_month(days), day, "{days}");
            let start = (days - i64::from(day) + 1) * DAY_MILLIS;
            assert_eq!(month_start(days * DAY_MILLIS + 12_345), start, "{days}");
        }
    }
}
