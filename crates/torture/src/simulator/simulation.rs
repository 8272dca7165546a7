//! Plays one history: processes that live and die, requests, answers, cancels, clearing, a program that does not fit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doran_engine::store::{
    HistoryStore, IfBusy, RamStore, Retention, RunIdempotencyKey, RunStatus, ThreadMaintenance,
};
use doran_engine::{
    EngineError, EntryBody, Graph, GraphHandle, NodeError, PendingQuestion, QuestionKind, RunError, RunKey,
    Runtime, Snap, StartOptions, State, ThreadEntry, node,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::process_freeze::ProcessFreeze;
use super::random_graph::{GraphBlock, SimulatedAction, build_graph};
use super::simulated_world::{SimulatedWorld, call_result};
use super::simulation_rng::SimulationRng;
use super::store_faults::{FaultInjectingGate, StoreFaults};
use super::{SimulationFailure, SimulationFailureKind};
use crate::support::{
    EngineTestState, EngineTestStateUpdate, GatedStore, KillSwitch, local_thread, ms, short_lease_options,
};

/// What is to be played.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulationPlan {
    pub(super) replicas: usize,
    pub(super) runs: u64,
    pub(super) cancel_at: Option<u64>,
    /// Each run is waited for, and the log cleared before the next.
    pub(super) one_run_at_a_time: bool,
    /// Between two runs somebody starts a program whose state does not fit.
    pub(super) runs_mismatched_program: bool,
}

/// A state that cannot read the thread.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct MismatchedState {
    sum: String,
}

/// A process: a runtime with its own way to the store and the world, which end together.
struct SimulatedProcess {
    graph_handle: GraphHandle<EngineTestState>,
    kill_switch: KillSwitch,
}

/// One history on one thread.
pub(super) struct Simulation {
    store: RamStore,
    plan: SimulationPlan,
    blocks: Vec<GraphBlock>,
    pub(super) world: SimulatedWorld,
    pub(super) store_faults: Arc<StoreFaults>,
    /// A process that does not know what it wrote ends, as on a store that cannot go on after that.
    dies_on_unknown_write: bool,
    started_processes: u32,
    /// Runs of a program with another state.
    mismatched_runs: usize,
    disconnect_per_mille: u64,
    wrong_answer_per_mille: u64,
}

impl Simulation {
    pub(super) fn new(
        dice: &mut SimulationRng,
        plan: SimulationPlan,
        blocks: Vec<GraphBlock>,
        broken: bool,
    ) -> Self {
        let shared = Arc::new(Mutex::new(SimulationRng(dice.next())));
        let clock_offset = Arc::new(AtomicI64::new(0));
        let mut rate = |limit: u64| if broken && dice.chance_per_mille(600) { dice.below(limit) } else { 0 };
        let trouble = StoreFaults {
            rng: shared.clone(),
            faults_left: AtomicU32::new(14),
            lose_answer_per_mille: rate(60),
            refuse_per_mille: rate(60),
            delay_per_mille: rate(60),
            crash_per_mille: rate(80),
            freeze_per_mille: rate(40),
            clock_jump_per_mille: rate(30),
            clock_offset: clock_offset.clone(),
            tally: Mutex::default(),
        };
        let (disconnect_per_mille, wrong_answer_per_mille) = (rate(400), rate(500));
        let world = SimulatedWorld {
            calls: Arc::default(),
            finished_tasks: Arc::default(),
            rng: shared,
            kill_switch: KillSwitch::default(),
            freeze: ProcessFreeze::default(),
        };
        let strict = dice.chance_per_mille(500);
        let started = Instant::now();
        let clock = move || {
            let gone = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
            1_700_000_000_000 + gone + clock_offset.load(Ordering::SeqCst)
        };
        Self {
            store: RamStore::with_clock(Arc::new(clock)),
            disconnect_per_mille,
            wrong_answer_per_mille,
            plan,
            blocks,
            world,
            store_faults: Arc::new(trouble),
            dies_on_unknown_write: strict,
            started_processes: 0,
            mismatched_runs: 0,
        }
    }

    fn start_process(&mut self) -> SimulatedProcess {
        self.started_processes += 1;
        let (kill_switch, freeze) = (KillSwitch::default(), ProcessFreeze::default());
        let gate = Arc::new(FaultInjectingGate {
            kill_switch: kill_switch.clone(),
            freeze: freeze.clone(),
            faults: self.store_faults.clone(),
            finished_tasks: self.world.finished_tasks.clone(),
        });
        let store = GatedStore { inner: self.store.clone(), gate };
        let runtime = Runtime::with_options(
            Arc::new(store),
            short_lease_options(&format!("worker {}", self.started_processes)),
        );
        let world = SimulatedWorld { kill_switch: kill_switch.clone(), freeze, ..self.world.clone() };
        let graph_handle =
            runtime.register_graph("g", &build_graph(&world, &self.blocks)).expect("registered");
        // The first look for work may fail; the keeper looks again.
        tokio::spawn(async move { drop(runtime.start_worker().await) });
        SimulatedProcess { graph_handle, kill_switch }
    }

    /// Hands a run in until somebody says it was accepted, always with the same key.
    async fn submit_until_accepted(
        &mut self,
        processes: &mut [SimulatedProcess],
        nth: u64,
    ) -> Result<RunKey, SimulationFailure> {
        for round in 0..200 {
            self.restart_dead_processes(processes);
            let graph_handle = processes[round % processes.len()].graph_handle.clone();
            let options = StartOptions {
                if_busy: IfBusy::Enqueue,
                idempotency: Some(RunIdempotencyKey { key: format!("run {nth}"), hash: "h".into() }),
                ..StartOptions::default()
            };
            let on = local_thread("t");
            let accepted = graph_handle.start_with(&on, Some(self.run_input(nth)), options);
            if let Ok(Ok(run)) = timeout(self.caller_wait(), accepted).await {
                return Ok(run.key());
            }
        }
        Err(SimulationFailure::new(SimulationFailureKind::Stuck, "no run was ever accepted"))
    }

    /// How long a caller waits for an answer. Some leave at once, or in the middle.
    fn caller_wait(&self) -> Duration {
        let leaves = self
            .world
            .with_rng(|dice| dice.chance_per_mille(self.disconnect_per_mille).then(|| ms(dice.below(12))));
        self.store_faults.count(|tally| tally.disconnected += u32::from(leaves.is_some()));
        leaves.unwrap_or(ms(1000))
    }

    /// Starts dead processes anew, and may end those that do not know what they wrote.
    fn restart_dead_processes(&mut self, processes: &mut [SimulatedProcess]) {
        for process in processes {
            if self.dies_on_unknown_write
                && process.graph_handle.runtime().unknown_write_reason().borrow().is_some()
            {
                process.kill_switch.kill();
            }
            if process.kill_switch.is_killed() {
                *process = self.start_process();
            }
        }
    }

    /// Answers what the run waits for, through some process.
    async fn answer_paused_run(&self, graph_handle: &GraphHandle<EngineTestState>, run: &RunKey) {
        let entries = self.store.entries(&local_thread("t"), 0, 10_000).await.expect("entries");
        let newest = entries.last().map(|entry| ThreadEntry::from_log(entry).expect("readable").body);
        let Some(EntryBody::Paused { questions, .. }) = newest else { return };
        let some = self.world.with_rng(|dice| if dice.chance_per_mille(300) { 1 } else { questions.len() });
        let answers = match self.wrong_answer(&questions) {
            Some(wrong) => wrong,
            None => questions.iter().take(some).map(|ask| (ask.id.clone(), self.answer_for(ask))).collect(),
        };
        // A process that dies meanwhile never answers; the next round asks again.
        drop(timeout(self.caller_wait(), graph_handle.runtime().answer(run, &answers)).await);
    }

    /// Something that is no answer: to a question that nobody asked, or of a kind that does not fit. The run asks
    /// again, or did not notice.
    fn wrong_answer(&self, questions: &[PendingQuestion]) -> Option<BTreeMap<String, Value>> {
        let kind = self
            .world
            .with_rng(|dice| dice.chance_per_mille(self.wrong_answer_per_mille).then(|| dice.below(3)))?;
        let ask = questions.first().filter(|ask| ask.kind != QuestionKind::Breakpoint)?;
        self.store_faults.count(|tally| tally.wrong_answers += 1);
        Some(match kind {
            0 => BTreeMap::from([(ask.id.clone(), json!({ "what": [1, null] }))]),
            1 => BTreeMap::from([(ask.id.clone(), json!(7))]),
            _ => BTreeMap::from([(format!("{}x", ask.id), json!("?")), (ask.id.clone(), json!("said"))]),
        })
    }

    fn answer_for(&self, ask: &PendingQuestion) -> Value {
        match ask.kind {
            QuestionKind::Ask => json!(format!("said {}", ask.question.as_str().unwrap_or_default())),
            QuestionKind::Breakpoint | QuestionKind::Timer => Value::Null,
            QuestionKind::EffectUnknown => {
                self.store_faults.count(|tally| tally.unknown += 1);
                let call = ask.question["call"].as_str().unwrap_or_default().trim_start_matches("once ");
                let seen = self.world.calls.lock().expect("no panic");
                match seen.contains_key(&(call.to_owned(), SimulatedAction::Once)) {
                    true => json!({ "result": call_result(call) }),
                    false => json!({ "retry": true }),
                }
            }
        }
    }

    /// What the n-th run is given. Long pages that are overwritten make the log outgrow the state, so that there is
    /// something to clear.
    fn run_input(&self, nth: u64) -> EngineTestStateUpdate {
        let input = EngineTestState::update().sum(1);
        match (self.plan.one_run_at_a_time, nth % 3) {
            (false, _) => input,
            (true, 2) => input.text(nth.to_string()),
            (true, _) => input.text(nth.to_string().repeat(50_000)),
        }
    }

    /// Plays it to its end.
    pub(super) async fn run_to_end(&mut self) -> Result<Vec<RunKey>, SimulationFailure> {
        let mut processes: Vec<SimulatedProcess> =
            (0..self.plan.replicas).map(|_| self.start_process()).collect();
        let mut keys = Vec::new();
        for nth in 0..self.plan.runs {
            if self.plan.one_run_at_a_time && nth > 0 {
                self.drive_to_end(&mut processes, &keys).await?;
                self.clear_old_entries().await?;
                if self.plan.runs_mismatched_program && nth % 2 == 1 {
                    self.run_mismatched_program().await?;
                }
            }
            keys.push(self.submit_until_accepted(&mut processes, nth).await?);
        }
        self.drive_to_end(&mut processes, &keys).await?;
        Ok(keys)
    }

    /// Clears what is not needed any more.
    async fn clear_old_entries(&self) -> Result<(), SimulationFailure> {
        let retention = Retention { old_entries: Some(Duration::ZERO), ..Retention::default() };
        let cleared = self.store.gc(&retention).await.map_err(|error| error.to_string())?;
        self.store_faults.count(|tally| tally.cleared += cleared.entries as u32);
        Ok(())
    }

    /// A program with another state fails on the thread, and changes nothing.
    async fn run_mismatched_program(&mut self) -> Result<(), SimulationFailure> {
        let nothing =
            node(|_: Snap<MismatchedState>| async { Ok::<_, NodeError>(MismatchedState::update()) });
        let graph = Graph::named().node("a", nothing.end()).start("a").build().expect("sound");
        let runtime = Runtime::new(Arc::new(self.store.clone()));
        let graph_handle = runtime.register_graph("g", &graph).map_err(|error| error.to_string())?;
        self.mismatched_runs += 1;
        self.store_faults.count(|tally| tally.misfits += 1);
        match graph_handle.run(&local_thread("t"), MismatchedState::update()).await {
            Err(EngineError::Run(RunError::Failed(failure))) if failure.code == "state_mismatch" => Ok(()),
            other => Err(SimulationFailure::new(
                SimulationFailureKind::Torn,
                format!("a state that does not fit gives {other:?}"),
            )),
        }
    }

    /// Drives everything that was handed in to its end.
    async fn drive_to_end(
        &mut self,
        processes: &mut [SimulatedProcess],
        keys: &[RunKey],
    ) -> Result<(), SimulationFailure> {
        let started = Instant::now();
        let mut cancel = self.plan.cancel_at.map(ms);
        for round in 0usize.. {
            self.restart_dead_processes(processes);
            let mut open = None;
            for key in keys {
                let row = self.store.run(key).await.map_err(|error| error.to_string())?;
                if !row.status.is_end() {
                    open = Some(row);
                    break;
                }
            }
            let Some(row) = open else { return Ok(()) };
            if started.elapsed() > ms(600_000) {
                return Err(SimulationFailure::new(SimulationFailureKind::Stuck, format!("stuck: {row:?}")));
            }
            let graph_handle = processes[round % processes.len()].graph_handle.clone();
            if cancel.is_some_and(|at| started.elapsed() >= at)
                && let Ok(Ok(_)) = timeout(self.caller_wait(), graph_handle.runtime().cancel(&keys[0])).await
            {
                cancel = None;
            }
            if row.status == RunStatus::Paused {
                // Long enough for a call of a process that lost the run to have come to its end.
                sleep(ms(2000)).await;
                self.answer_paused_run(&graph_handle, &row.key()).await;
            } else {
                sleep(ms(25)).await;
            }
        }
        unreachable!("the loop above has no end of its own")
    }

    /// The state of the thread, by a process that nothing happens to.
    pub(super) async fn final_state(&self) -> Result<EngineTestState, SimulationFailure> {
        let runtime = Runtime::new(Arc::new(self.store.clone()));
        let graph_handle = runtime
            .register_graph("g", &build_graph(&self.world, &self.blocks))
            .map_err(|error| error.to_string())?;
        let state = graph_handle.state(&local_thread("t")).await.map_err(|error| error.to_string())?;
        Ok((*state).clone())
    }

    /// What is left of the log, and how many runs there were besides those that were asked for.
    pub(super) fn store_and_mismatched_runs(&self) -> (&RamStore, usize) {
        (&self.store, self.mismatched_runs)
    }
}
