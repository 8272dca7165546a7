//! The world outside: it outlives every process and remembers what was done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use doran_engine::log;
use doran_engine::store::{Commit, EntryKind};
use doran_engine::{Cx, NodeError};
use tokio::time::sleep;

use super::process_freeze::ProcessFreeze;
use super::random_graph::SimulatedAction;
use super::simulation_rng::SimulationRng;
use crate::support::{KillSwitch, ms};

/// The keys of all calls, by what was called.
pub(super) type SimulatedCallLog = BTreeMap<(String, SimulatedAction), Vec<String>>;

/// Which tasks of the run in progress are on disk as finished, and which of them were begun all the same.
#[derive(Debug, Default)]
pub(super) struct FinishedTasks {
    tasks: BTreeSet<String>,
    pub(super) begun_again: Vec<String>,
}

impl FinishedTasks {
    pub(super) fn record_commit(&mut self, commit: &Commit) {
        let results = commit.records.iter().filter(|record| record.key == "=");
        self.tasks.extend(results.map(|record| record.path.clone()));
        for entry in &commit.entries {
            if entry.kind.is_end() {
                self.tasks.clear();
            } else if matches!(entry.kind, EntryKind::Step | EntryKind::Inner) {
                let step: log::StepEntry = serde_json::from_slice(&entry.body).expect("a step");
                let within = if step.path.is_empty() { String::new() } else { format!("{}/", step.path) };
                let tasks =
                    (0..step.tasks.len()).map(|place| format!("{within}{}.{place}", step.at.step - 1));
                self.tasks.extend(tasks);
            }
        }
    }

    /// `task` is `Cx(node path)`.
    pub(super) fn record_begin(&mut self, task: &str) {
        let path = task.trim_end_matches(')').rsplit(' ').next().unwrap_or_default();
        if self.tasks.contains(path) {
            self.begun_again.push(task.to_owned());
        }
    }
}

/// The world outside. It outlives every process and remembers what was done to it.
#[derive(Clone)]
pub(super) struct SimulatedWorld {
    pub(super) calls: Arc<Mutex<SimulatedCallLog>>,
    pub(super) finished_tasks: Arc<Mutex<FinishedTasks>>,
    pub(super) rng: Arc<Mutex<SimulationRng>>,
    pub(super) kill_switch: KillSwitch,
    pub(super) freeze: ProcessFreeze,
}

impl SimulatedWorld {
    pub(super) fn with_rng<T>(&self, roll: impl FnOnce(&mut SimulationRng) -> T) -> T {
        roll(&mut self.rng.lock().expect("no panic"))
    }

    /// Waits a little, or for ever when the process is dead. A frozen process waits until it goes on.
    pub(super) async fn random_wait(&self) {
        self.time_on_the_way().await;
        self.freeze.wait_while_frozen().await;
        self.kill_switch.hang_if_killed().await;
    }

    async fn time_on_the_way(&self) {
        self.kill_switch.hang_if_killed().await;
        let wait = self.with_rng(|dice| if dice.chance_per_mille(500) { 0 } else { dice.below(40) });
        if wait > 0 {
            sleep(ms(wait)).await;
        }
        self.kill_switch.hang_if_killed().await;
    }

    /// A call from a process. It happens, unless the process is dead by then; the answer may not come home. A call that is
    /// on its way does not care whether its process is frozen.
    async fn call(&self, call: String, act: SimulatedAction, key: String) -> Result<String, NodeError> {
        self.time_on_the_way().await;
        self.record_call(&call, act, key);
        self.random_wait().await;
        Ok(call_result(&call))
    }

    pub(super) fn record_call(&self, call: &str, act: SimulatedAction, key: String) {
        self.calls.lock().expect("no panic").entry((call.to_owned(), act)).or_default().push(key);
    }
}

/// What the world answers to a call, whenever it is made.
pub(super) fn call_result(call: &str) -> String {
    format!("{:x}", call.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte)) & 0xffff)
}

pub(super) async fn perform_action(
    world: &SimulatedWorld,
    cx: &Cx,
    call: String,
    act: SimulatedAction,
) -> Result<String, NodeError> {
    let w = world.clone();
    match act {
        SimulatedAction::Read => {
            let name = call.clone();
            let read = async move { w.call(name, act, String::new()).await };
            // Whichever way it is recorded, the rules below hold.
            if call.len().is_multiple_of(2) {
                cx.effect("read", read).await
            } else {
                cx.closing_effect("read", read).await
            }
        }
        SimulatedAction::Write => {
            cx.idempotent_effect("write", |key| async move { w.call(call, act, key).await }).await
        }
        SimulatedAction::Once => {
            // The name travels with the question, so that the answer can be found in the world's ledger.
            let name = format!("once {call}");
            cx.effect_at_most_once(&name, |key| async move { w.call(call, act, key).await }).await
        }
        SimulatedAction::Nap => {
            world.random_wait().await;
            Ok("nap".into())
        }
        SimulatedAction::Token => {
            cx.emit_text("piece");
            Ok("token".into())
        }
        SimulatedAction::Draw => {
            world.record_call(&call, act, format!("{} {}", cx.random(), cx.new_id()));
            Ok("drew".into())
        }
        SimulatedAction::Ask => cx.ask::<String, _>(call).await,
        SimulatedAction::Together => {
            let read = |n: u32| {
                let (w, name) = (w.clone(), format!("{call}.{n}"));
                cx.effect("read", async move { w.call(name, SimulatedAction::Read, String::new()).await })
            };
            let (one, two, three) = (read(1), read(2), read(3));
            let (three, one, two) = tokio::try_join!(three, one, two)?;
            Ok(format!("{one}{two}{three}"))
        }
    }
}
