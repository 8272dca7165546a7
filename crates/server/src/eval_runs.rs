//! Runs of evaluations: one at a time for each tenant, in the background, without a trace in the threads of the tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use doran_agents::Agent;
use doran_agents::eval::{
    AgentEvalReport, AgentEvalSet, EvalCaseOptions, EvalDocuments, EvalVariant, compare_reports,
    run_eval_case,
};
use doran_engine::{RunLimits, TenantId};
use tokio_util::sync::CancellationToken;

use crate::ServerApp;
use crate::api::{EvalRunInfo, EvalRunStatus};
use crate::budget::now_millis;
use crate::error::ApiErrorCode;
use crate::eval_store::{EvalStore, EvalStoreError};

/// The run of each tenant that goes on or ended last. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct EvalRuns {
    runs: Arc<Mutex<HashMap<TenantId, EvalRun>>>,
    /// Held while a set is read, changed and written.
    pub(crate) edits: Arc<tokio::sync::Mutex<()>>,
}

struct EvalRun {
    info: EvalRunInfo,
    stop: CancellationToken,
}

impl EvalRuns {
    /// The run of a set that goes on or ended last.
    pub(crate) fn of_set(&self, tenant: &TenantId, set: &str) -> Option<EvalRunInfo> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(tenant).map(|run| run.info.clone()).filter(|info| info.set == set)
    }

    /// Starts to ask. `None` if the tenant has a run that goes on.
    pub(crate) fn start(
        &self,
        app: &ServerApp,
        store: Arc<dyn EvalStore>,
        tenant: &TenantId,
        name: &str,
        set: AgentEvalSet,
        variants: Vec<EvalVariant>,
    ) -> Option<EvalRunInfo> {
        let info = EvalRunInfo {
            set: name.to_owned(),
            status: EvalRunStatus::Running,
            done: 0,
            total: set.cases.len() * variants.len(),
            failed: 0,
            case: None,
            en: None,
            ko: None,
        };
        let stop = app.draining.child_token();
        {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            if runs.get(tenant).is_some_and(|run| run.info.status == EvalRunStatus::Running) {
                return None;
            }
            runs.insert(tenant.clone(), EvalRun { info: info.clone(), stop: stop.clone() });
        }
        let work = EvalWork {
            app: app.clone(),
            store,
            tenant: tenant.clone(),
            name: name.to_owned(),
            stop,
            spent_micros: 0,
        };
        tokio::spawn(work.run(set, variants));
        Some(info)
    }

    /// Stops the run of a set. Whether there was one.
    pub(crate) fn stop(&self, tenant: &TenantId, set: &str) -> bool {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let run =
            runs.get(tenant).filter(|run| run.info.set == set && run.info.status == EvalRunStatus::Running);
        run.inspect(|run| run.stop.cancel()).is_some()
    }

    fn update(&self, tenant: &TenantId, change: impl FnOnce(&mut EvalRunInfo)) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = runs.get_mut(tenant) {
            change(&mut run.info);
        }
    }
}

/// Why a run ended before its last question.
enum EvalEnd {
    Stopped,
    Failed(EvalStoreError),
}

impl From<EvalStoreError> for EvalEnd {
    fn from(error: EvalStoreError) -> Self {
        Self::Failed(error)
    }
}

/// A run that goes on.
struct EvalWork {
    app: ServerApp,
    store: Arc<dyn EvalStore>,
    tenant: TenantId,
    name: String,
    stop: CancellationToken,
    /// What its questions have cost so far.
    spent_micros: u64,
}

impl EvalWork {
    async fn run(mut self, set: AgentEvalSet, variants: Vec<EvalVariant>) {
        let end = self.ask_all(&set, variants).await;
        self.app.eval_runs.update(&self.tenant, |info| {
            info.case = None;
            info.status = match end {
                Ok(()) => EvalRunStatus::Finished,
                Err(EvalEnd::Stopped) => EvalRunStatus::Stopped,
                Err(EvalEnd::Failed(error)) => {
                    (info.en, info.ko) = (Some(error.en), Some(error.ko));
                    EvalRunStatus::Failed
                }
            };
        });
    }

    async fn ask_all(&mut self, set: &AgentEvalSet, variants: Vec<EvalVariant>) -> Result<(), EvalEnd> {
        let agents = tokio::select! {
            agents = self.store.agents(set.documents) => agents?,
            () = self.stop.cancelled() => return Err(EvalEnd::Stopped),
        };
        set.check_agents_exist(&agents).map_err(|error| unusual(&error.to_string()))?;
        for variant in variants {
            let report = self.ask_variant(set, &agents, variant).await?;
            self.store.save_report(&self.tenant, &self.name, &report)?;
        }
        Ok(())
    }

    async fn ask_variant(
        &mut self,
        set: &AgentEvalSet,
        agents: &[Agent],
        variant: EvalVariant,
    ) -> Result<AgentEvalReport, EvalEnd> {
        // The samples belong to the tenant that a program without keys has.
        let tenant = match set.documents {
            EvalDocuments::Library => self.tenant.clone(),
            EvalDocuments::Samples => TenantId::local(),
        };
        let asked = set.clone().for_variant(&variant);
        let mut report = AgentEvalReport { variant, ..AgentEvalReport::default() };
        for case in &asked.cases {
            let Some(agent) = agents.iter().find(|agent| agent.name == case.agent) else { continue };
            let own = || agent.model().map(|model| model.name).unwrap_or_default();
            report.model = report.variant.model.clone().unwrap_or_else(own);
            self.app.eval_runs.update(&self.tenant, |info| info.case = Some(case.id.clone()));
            let options = EvalCaseOptions {
                tenant: tenant.clone(),
                limits: self.limits().await?,
                stop: self.stop.clone(),
            };
            let outcome = run_eval_case(case, agent, &options).await;
            if self.stop.is_cancelled() {
                return Err(EvalEnd::Stopped);
            }
            let outcome = outcome.map_err(|error| unusual(&error.to_string()))?;
            self.spent_micros += outcome.observed.cost_micros;
            self.app.eval_runs.update(&self.tenant, |info| {
                info.done += 1;
                info.failed += usize::from(!outcome.failures.is_empty());
            });
            report.cases.push(outcome);
        }
        report.ended_at = now_millis();
        let before = self.store.reports(&self.tenant, &self.name)?;
        if let Some(before) = before.iter().find(|before| before.variant == report.variant) {
            report.changes = compare_reports(before, &report);
        }
        Ok(report)
    }

    /// The limits of the next question: those of every run, and what is left of the budget of the month.
    async fn limits(&self) -> Result<RunLimits, EvalEnd> {
        let Some(budget) = &self.app.budget else { return Ok(self.app.runtime.default_limits().clone()) };
        let limits = budget.run_limits(&self.app.runtime, &self.tenant, None).await;
        let limits = limits.map_err(|error| unusual(&error.to_string()))?;
        let left = limits.map(|mut limits| {
            limits.cost_micros = limits.cost_micros.map(|left| left.saturating_sub(self.spent_micros));
            limits
        });
        left.filter(|limits| limits.cost_micros != Some(0)).ok_or_else(|| {
            let info = ApiErrorCode::BudgetSpent.info();
            EvalEnd::Failed(EvalStoreError { en: info.en.to_owned(), ko: info.ko.to_owned() })
        })
    }
}

/// A cause that is only known in English.
fn unusual(cause: &str) -> EvalEnd {
    EvalEnd::Failed(EvalStoreError {
        en: format!("the evaluation ended early: {cause}"),
        ko: format!("평가가 도중에 끝났습니다: {cause}"),
    })
}
