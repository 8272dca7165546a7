//! Runs of evaluations: one at a time for each tenant, in the background, without a trace in the threads of the tenant. How a run
//! stands is stored after every question, and so is what the question used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use doran_agents::Agent;
use doran_agents::eval::{
    AgentEvalReport, AgentEvalSet, EvalCaseOptions, EvalCaseRun, EvalDocuments, EvalError, EvalVariant,
    compare_reports, run_eval_case,
};
use doran_agents::failure::BUDGET_SPENT_CODE;
use doran_engine::runtime::RunGate;
use doran_engine::store::StoreError;
use doran_engine::{EngineError, MisuseError, TenantId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ServerApp;
use crate::api::{EvalRunInfo, EvalRunStatus};
use crate::budget::now_millis;
use crate::error::{ApiError, ApiErrorCode};
use crate::eval_budget::EvalBudget;
use crate::eval_leases::{EvalLease, EvalLeaseStatus, EvalLeases};
use crate::eval_store::{EvalStore, EvalStoreError};
use crate::eval_usage::EvalUsage;

/// How often a run says that it goes on, and looks whether another replica got a request to stop it.
const LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// The runs of this server. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct EvalRuns {
    leases: EvalLeases,
    /// How to stop the runs that this server works on, by tenant.
    stops: Arc<Mutex<HashMap<TenantId, CancellationToken>>>,
    /// Every run that this server works on listens to it.
    working: Arc<watch::Sender<()>>,
}

impl EvalRuns {
    /// The runs of a server whose replicas share these leases.
    pub(crate) fn with_leases(leases: EvalLeases) -> Self {
        Self { leases, ..Self::default() }
    }

    /// The run of a set that goes on or ended last.
    pub(crate) async fn of_set(
        &self,
        store: &dyn EvalStore,
        tenant: &TenantId,
        set: &str,
    ) -> Result<Option<EvalRunInfo>, ApiError> {
        let Some(run) = store.last_run(tenant, set).await? else { return Ok(None) };
        if run.status != EvalRunStatus::Running {
            return Ok(Some(run));
        }
        if self.leases.may_be_held_by(tenant, &run.id).await.map_err(lease_error)? {
            return Ok(Some(run));
        }
        // A run stores its end before it gives its lease back. One that has done neither is dead.
        let again = store.last_run(tenant, set).await?;
        Ok(again.map(|again| {
            if again == run { EvalRunInfo { status: EvalRunStatus::Interrupted, ..again } } else { again }
        }))
    }

    /// Starts to ask. `None` if the tenant has a run that goes on.
    pub(crate) async fn start(
        &self,
        app: &ServerApp,
        store: Arc<dyn EvalStore>,
        eval: RequestedEval,
    ) -> Result<Option<EvalRunInfo>, ApiError> {
        let RequestedEval { tenant, key, name, set, variants } = eval;
        let info = EvalRunInfo {
            id: uuid::Uuid::now_v7().simple().to_string(),
            set: name,
            status: EvalRunStatus::Running,
            variants,
            started_at: now_millis(),
            done: 0,
            total: 0,
            failed: 0,
            case: None,
            en: None,
            ko: None,
        };
        let info = EvalRunInfo { total: set.cases.len() * info.variants.len(), ..info };
        let lease = EvalLease { run: info.id.clone(), set: info.set.clone(), stop: false };
        if !self.leases.take(&tenant, &lease).await.map_err(lease_error)? {
            return Ok(None);
        }
        if let Err(error) = store.save_run(&tenant, &info).await {
            self.leases.give_back(&tenant, &info.id).await.map_err(lease_error)?;
            return Err(error.into());
        }
        let stop = app.draining.child_token();
        self.lock_stops().insert(tenant.clone(), stop.clone());
        let work = EvalWork { app: app.clone(), store, tenant, key, stop, info: info.clone() };
        let working = self.working.subscribe();
        tokio::spawn(async move {
            work.run(lease, &set).await;
            drop(working);
        });
        Ok(Some(info))
    }

    /// Stops the run of a set. Whether there was one.
    pub(crate) async fn stop(&self, tenant: &TenantId, set: &str) -> Result<bool, ApiError> {
        let is_asked = self.leases.ask_to_stop(tenant, set).await.map_err(lease_error)?;
        if is_asked && let Some(stop) = self.lock_stops().get(tenant) {
            stop.cancel();
        }
        Ok(is_asked)
    }

    /// Waits until the runs of this server have stored how they ended.
    pub(crate) async fn wait_for_end(&self) {
        self.working.closed().await;
    }

    fn lock_stops(&self) -> std::sync::MutexGuard<'_, HashMap<TenantId, CancellationToken>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The set to run, and for whom.
pub(crate) struct RequestedEval {
    pub(crate) tenant: TenantId,
    /// The name of the API key that pays for it.
    pub(crate) key: Option<Arc<str>>,
    /// The name of the set.
    pub(crate) name: String,
    pub(crate) set: AgentEvalSet,
    pub(crate) variants: Vec<EvalVariant>,
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
    key: Option<Arc<str>>,
    stop: CancellationToken,
    info: EvalRunInfo,
}

impl EvalWork {
    async fn run(mut self, lease: EvalLease, set: &AgentEvalSet) {
        let (runs, tenant, stop) = (self.app.eval_runs.clone(), self.tenant.clone(), self.stop.clone());
        let has_lease = {
            let asking = async {
                let end = self.ask_all(set).await;
                self.save_end(end).await;
            };
            tokio::select! {
                () = asking => true,
                () = keep_lease(&runs.leases, &tenant, &lease, &stop) => false,
            }
        };
        runs.lock_stops().remove(&tenant);
        if has_lease && let Err(error) = runs.leases.give_back(&tenant, &lease.run).await {
            tracing::debug!(%error, "the lease of an evaluation runs out by itself");
        }
    }

    async fn save_end(&mut self, end: Result<(), EvalEnd>) {
        self.info.case = None;
        self.info.status = match end {
            Ok(()) => EvalRunStatus::Finished,
            Err(EvalEnd::Stopped) if self.app.draining.is_cancelled() => EvalRunStatus::Interrupted,
            Err(EvalEnd::Stopped) => EvalRunStatus::Stopped,
            Err(EvalEnd::Failed(error)) => {
                (self.info.en, self.info.ko) = (Some(error.en), Some(error.ko));
                EvalRunStatus::Failed
            }
        };
        if let Err(error) = self.save_info().await {
            tracing::error!(%error, set = self.info.set, "the end of an evaluation could not be stored");
        }
    }

    /// Stores how the run stands, unless its set was deleted meanwhile.
    async fn save_info(&self) -> Result<(), EvalStoreError> {
        if self.store.read(&self.tenant, &self.info.set).await?.is_none() {
            return Ok(());
        }
        self.store.save_run(&self.tenant, &self.info).await
    }

    async fn ask_all(&mut self, set: &AgentEvalSet) -> Result<(), EvalEnd> {
        let agents = tokio::select! {
            agents = self.store.agents(set.documents) => agents?,
            () = self.stop.cancelled() => return Err(EvalEnd::Stopped),
        };
        set.check_agents_exist(&agents).map_err(|error| unusual(&error.to_string()))?;
        for variant in self.info.variants.clone() {
            let report = self.ask_variant(set, &agents, variant).await?;
            self.store.save_report(&self.tenant, &self.info.set, &report).await?;
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
        let set = set.clone().for_variant(&variant);
        let mut report = AgentEvalReport { variant, ..AgentEvalReport::default() };
        for case in &set.cases {
            let Some(agent) = agents.iter().find(|agent| agent.name == case.agent) else { continue };
            let own = || agent.model().map(|model| model.name).unwrap_or_default();
            report.model = report.variant.model.clone().unwrap_or_else(own);
            let options = EvalCaseOptions {
                tenant: tenant.clone(),
                limits: self.app.runtime.default_limits().clone(),
                gate: self.gate(),
                stop: self.stop.clone(),
            };
            self.info.case = Some(case.id.clone());
            self.save_info().await?;
            let EvalCaseRun { outcome, usage, .. } = run_eval_case(case, agent, &options).await;
            // What was spent is counted, whatever the result.
            self.add_usage(EvalUsage::of_case(now_millis(), &agent.name, self.key.as_deref(), usage)).await?;
            if self.stop.is_cancelled() {
                return Err(EvalEnd::Stopped);
            }
            let outcome = outcome.map_err(|error| eval_end(&error))?;
            self.info.done += 1;
            self.info.failed += usize::from(!outcome.failures.is_empty());
            report.cases.push(outcome);
        }
        report.ended_at = now_millis();
        let before = self.store.reports(&self.tenant, &self.info.set).await?;
        if let Some(before) = before.iter().find(|before| before.variant == report.variant) {
            report.changes = compare_reports(before, &report);
        }
        Ok(report)
    }

    async fn add_usage(&self, usage: EvalUsage) -> Result<(), EvalEnd> {
        if let Some(log) = self.app.eval_usage.as_ref().filter(|_| usage.turns > 0) {
            log.add(&self.tenant, usage).await?;
        }
        if let Some(budget) = &self.app.budget {
            budget.forget_sum(&self.tenant);
        }
        Ok(())
    }

    /// Decides whether the next question, or the next turn of it, is asked.
    fn gate(&self) -> Option<Arc<dyn RunGate>> {
        let budget = self.app.budget.clone()?;
        let (runtime, tenant) = (self.app.runtime.clone(), self.tenant.clone());
        Some(Arc::new(EvalBudget { budget, runtime, tenant }))
    }
}

/// Why a question that could not be asked ends the evaluation.
fn eval_end(error: &EvalError) -> EvalEnd {
    match error {
        EvalError::Engine { source: EngineError::Misuse(MisuseError::NotAdmitted(failure)), .. }
            if failure.code == BUDGET_SPENT_CODE =>
        {
            let info = ApiErrorCode::BudgetSpent.info();
            EvalEnd::Failed(EvalStoreError { en: info.en.to_owned(), ko: info.ko.to_owned() })
        }
        error => unusual(&error.to_string()),
    }
}

/// Holds the lease of a run, and stops the run when another replica got the request to. Ends if another run has the lease.
async fn keep_lease(leases: &EvalLeases, tenant: &TenantId, lease: &EvalLease, stop: &CancellationToken) {
    loop {
        tokio::time::sleep(LEASE_RENEWAL_INTERVAL).await;
        let status = match leases.renew(tenant, &lease.run).await {
            // A machine that slept may take it again if nobody else has.
            Ok(EvalLeaseStatus::Lost) => leases
                .take(tenant, lease)
                .await
                .map(|is_taken| if is_taken { EvalLeaseStatus::Held } else { EvalLeaseStatus::Lost }),
            status => status,
        };
        match status {
            Ok(EvalLeaseStatus::Held) => {}
            Ok(EvalLeaseStatus::StopAsked) => stop.cancel(),
            Ok(EvalLeaseStatus::Lost) => return,
            Err(error) => tracing::debug!(%error, "the lease of an evaluation could not be renewed"),
        }
    }
}

fn lease_error(error: StoreError) -> ApiError {
    EngineError::from(error).into()
}

/// A cause that is only known in English.
fn unusual(cause: &str) -> EvalEnd {
    EvalEnd::Failed(EvalStoreError {
        en: format!("the evaluation ended early: {cause}"),
        ko: format!("평가가 도중에 끝났습니다: {cause}"),
    })
}
