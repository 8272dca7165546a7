//! Runs the cases of an evaluation and compares the answers with what is expected.

use std::sync::Arc;
use std::time::Instant;

use doran_engine::runtime::RunGate;
use doran_engine::store::{RamStore, RunFilter, RunRow, RunStatus, RunUsage};
use doran_engine::{
    Acknowledgement, EngineError, RunLimits, Runtime, StartOptions, TenantId, ThreadId, ThreadKey,
};
use tokio_util::sync::CancellationToken;

use super::report::{AgentEvalReport, EvalCaseOutcome, FailedExpectation, ObservedTurn};
use super::{AgentEvalCase, AgentEvalSet, AgentEvalSetError};
use crate::agents::{Agent, AgentTurn};
use crate::protocol::{InterruptQuestion, ModelCallNote, notes_of_entry};

/// Why a set cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// It asks somebody who is not there.
    #[error(transparent)]
    Set(#[from] AgentEvalSetError),
    /// The engine could not do its part.
    #[error("case `{id}`: {source}")]
    Engine {
        /// The case.
        id: String,
        /// Why.
        source: EngineError,
    },
    /// The state of an agent cannot be read.
    #[error("case `{id}`: its state cannot be read: {source}")]
    State {
        /// The case.
        id: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// For whom a question is asked, and how long it may go on.
#[derive(Clone, Debug)]
pub struct EvalCaseOptions {
    /// Whose documents are searched.
    pub tenant: TenantId,
    /// Limits of each turn.
    pub limits: RunLimits,
    /// Decides whether the next turn begins, and what it may cost.
    pub gate: Option<Arc<dyn RunGate>>,
    /// Ends the turn that is under way.
    pub stop: CancellationToken,
}

impl Default for EvalCaseOptions {
    fn default() -> Self {
        Self {
            tenant: TenantId::local(),
            limits: RunLimits::default(),
            gate: None,
            stop: CancellationToken::new(),
        }
    }
}

/// A case that was asked.
#[derive(Debug)]
pub struct EvalCaseRun {
    /// Who was asked.
    pub agent: String,
    /// What came of it.
    pub outcome: Result<EvalCaseOutcome, EvalError>,
    /// What its turns used. That is spent whatever came of them.
    pub usage: EvalCaseUsage,
}

/// What the turns of a case used, earlier questions included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvalCaseUsage {
    /// How many turns there were.
    pub turns: u64,
    /// What they used together.
    pub used: RunUsage,
    /// The requests to models.
    pub model_calls: Vec<ModelCallNote>,
    /// Whether every turn finished. Of one that did not, what a request took is an estimate.
    pub is_exact: bool,
}

/// Asks one question and judges the answer.
pub async fn run_eval_case(case: &AgentEvalCase, agent: &Agent, options: &EvalCaseOptions) -> EvalCaseRun {
    let started = Instant::now();
    let (observed, usage) = run_case(case, agent, options).await;
    let outcome = observed.map(|mut observed| {
        observed.ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        judge_case(case, observed)
    });
    EvalCaseRun { agent: agent.name.clone(), outcome, usage }
}

/// Asks every question, in order. `seen` is called with each as soon as it is judged, also with one that could not be asked.
pub async fn run_eval_set(
    set: &AgentEvalSet,
    agents: &[Agent],
    mut seen: impl AsyncFnMut(&EvalCaseRun),
) -> Result<AgentEvalReport, EvalError> {
    set.check_agents_exist(agents)?;
    let mut report = AgentEvalReport::default();
    for case in &set.cases {
        let Some(agent) = agents.iter().find(|agent| agent.name == case.agent) else { continue };
        report.model = agent.model().map(|model| model.name).unwrap_or_default();
        let asked = run_eval_case(case, agent, &EvalCaseOptions::default()).await;
        seen(&asked).await;
        report.cases.push(asked.outcome?);
    }
    Ok(report)
}

fn judge_case(case: &AgentEvalCase, observed: ObservedTurn) -> EvalCaseOutcome {
    let mut failures = observed.failures(&case.expect);
    let known = case.fails.clone().filter(|_| !failures.is_empty());
    match (&case.fails, &known) {
        (_, Some(_)) => failures.clear(),
        // A note that is no longer true would hide the next failure.
        (Some(why), None) => failures.push(FailedExpectation {
            what: "fails".to_owned(),
            expected: why.clone(),
            was: "it holds; remove `fails`".to_owned(),
        }),
        (None, None) => {}
    }
    EvalCaseOutcome { id: case.id.clone(), agent: case.agent.clone(), failures, known, observed }
}

/// Plays a case on a store of its own, which nothing else sees and nothing is left of. Also gives what that used.
pub(super) async fn run_case(
    case: &AgentEvalCase,
    agent: &Agent,
    options: &EvalCaseOptions,
) -> (Result<ObservedTurn, EvalError>, EvalCaseUsage) {
    let failed = |source: EngineError| EvalError::Engine { id: case.id.clone(), source };
    let name = match ThreadId::new("eval") {
        Ok(name) => name,
        Err(error) => return (Err(failed(error.into())), EvalCaseUsage::default()),
    };
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    if let Some(gate) = &options.gate {
        runtime.set_run_gate(gate.clone());
    }
    let thread = ThreadKey { tenant: options.tenant.clone(), thread: name };
    let observed = ask_case(case, agent, options, &runtime, &thread).await;
    match read_usage(&runtime, &thread).await {
        Ok(usage) => (observed, usage),
        Err(error) => (observed.and(Err(failed(error))), EvalCaseUsage::default()),
    }
}

/// What the runs of a thread used.
async fn read_usage(runtime: &Runtime, thread: &ThreadKey) -> Result<EvalCaseUsage, EngineError> {
    let runs =
        runtime.list_runs(&thread.tenant, &RunFilter { limit: usize::MAX, ..RunFilter::default() }).await?;
    let is_exact = runs.iter().all(|run| run.status == RunStatus::Finished || run.usage.is_zero());
    let mut usage = EvalCaseUsage { turns: runs.len() as u64, is_exact, ..EvalCaseUsage::default() };
    for run in &runs {
        usage.used += run.usage;
    }
    if runs.is_empty() {
        return Ok(usage);
    }
    for entry in runtime.entries(thread, 0, usize::MAX).await? {
        match notes_of_entry(&entry.body) {
            Ok(notes) => usage.model_calls.extend(notes.into_iter().flat_map(|notes| notes.models)),
            Err(_) => usage.is_exact = false,
        }
    }
    Ok(usage)
}

async fn ask_case(
    case: &AgentEvalCase,
    agent: &Agent,
    options: &EvalCaseOptions,
    runtime: &Runtime,
    thread: &ThreadKey,
) -> Result<ObservedTurn, EvalError> {
    let failed = |source: EngineError| EvalError::Engine { id: case.id.clone(), source };
    let unread = |source: serde_json::Error| EvalError::State { id: case.id.clone(), source };
    agent.register(runtime).map_err(failed)?;
    let mut row = None;
    for words in case.before.iter().chain([&case.ask]) {
        let input = agent.input(words, &case.options);
        let start = StartOptions {
            limits: Some(options.limits.clone()),
            acknowledge: Acknowledgement::Rest,
            ..StartOptions::default()
        };
        let run = runtime.start(&agent.name, thread, Some(&input), start).await.map_err(failed)?;
        let rested = tokio::select! {
            rested = run.wait() => rested,
            () = options.stop.cancelled() => runtime.cancel(&run.key()).await,
        };
        let rested = rested.map_err(failed)?;
        let over = rested.status != RunStatus::Finished;
        row = Some(rested);
        // Nobody is here to answer, and a thread that waits or failed takes no further question.
        if over {
            break;
        }
    }
    let state = runtime.view(&agent.name, thread, None).await.map_err(failed)?.state;
    let turn = agent.read_turn(&state).map_err(unread)?;
    let asks = runtime.open_questions(thread).await.map_err(failed)?;
    let asks = asks.first().map(|(_, question)| {
        let interrupt = InterruptQuestion::from_json(&question.question);
        interrupt.tool().map_or("question", |(name, _)| name).to_owned()
    });
    Ok(observed_turn(turn, row, asks))
}

fn observed_turn(turn: AgentTurn, row: Option<RunRow>, asks: Option<String>) -> ObservedTurn {
    let broken = row.as_ref().and_then(|row| row.error.as_ref()).map(|error| error.code.clone());
    ObservedTurn {
        route: turn.route,
        sources: turn.sources.iter().map(|source| source.title.clone()).collect(),
        tools: turn.tools_used,
        response: turn.response,
        model_calls: turn.model_calls,
        cost_micros: row.map_or(0, |row| row.usage.cost_micros),
        error: turn.error_code.or(broken),
        path: turn.path,
        asks,
        ms: 0,
    }
}
