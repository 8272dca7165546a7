//! What goes wrong with the calls of a process to its store: lost answers, refusals, delays, crashes, frozen processes, a
//! clock that jumps.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_engine::store::{Commit, StoreError};
use tokio::time::sleep;

use super::SimulationCounts;
use super::process_freeze::ProcessFreeze;
use super::simulated_world::FinishedTasks;
use super::simulation_rng::SimulationRng;
use crate::support::{KillSwitch, StoreCallDecision, StoreCallGate, ms};

/// What goes wrong with store calls, and how much of it is left.
pub(super) struct StoreFaults {
    pub(super) rng: Arc<Mutex<SimulationRng>>,
    pub(super) faults_left: AtomicU32,
    pub(super) lose_answer_per_mille: u64,
    pub(super) refuse_per_mille: u64,
    pub(super) delay_per_mille: u64,
    pub(super) crash_per_mille: u64,
    pub(super) freeze_per_mille: u64,
    pub(super) clock_jump_per_mille: u64,
    /// What the store's clock is off by, in milliseconds.
    pub(super) clock_offset: Arc<AtomicI64>,
    pub(super) tally: Mutex<SimulationCounts>,
}

impl StoreFaults {
    pub(super) fn count(&self, count: impl FnOnce(&mut SimulationCounts)) {
        count(&mut self.tally.lock().expect("no panic"));
    }
}

pub(super) struct FaultInjectingGate {
    pub(super) kill_switch: KillSwitch,
    pub(super) freeze: ProcessFreeze,
    pub(super) faults: Arc<StoreFaults>,
    pub(super) finished_tasks: Arc<Mutex<FinishedTasks>>,
}

#[async_trait]
impl StoreCallGate for FaultInjectingGate {
    fn on_commit(&self, commit: &Commit) {
        self.finished_tasks.lock().expect("no panic").record_commit(commit);
    }

    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if self.kill_switch.is_killed() {
            return StoreCallDecision::HangBefore;
        }
        let trouble = &self.faults;
        let (roll, wait, coin, long) = {
            let mut dice = trouble.rng.lock().expect("no panic");
            (dice.below(1000), dice.below(8), dice.chance_per_mille(500), dice.below(3000))
        };
        if wait > 5 {
            sleep(ms(wait)).await;
        }
        self.freeze.wait_while_frozen().await;
        if self.kill_switch.is_killed() {
            return StoreCallDecision::HangBefore;
        }
        let writes = !matches!(call, "load" | "entries" | "run" | "runs" | "thread" | "threads" | "cached");
        let mut upto = trouble.crash_per_mille;
        let spend = || {
            trouble
                .faults_left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok()
        };
        if roll < upto && spend() {
            self.kill_switch.kill();
            trouble.count(|tally| tally.crashes += 1);
            return if coin { StoreCallDecision::HangBefore } else { StoreCallDecision::HangAfter };
        }
        upto += trouble.lose_answer_per_mille;
        if roll < upto && writes && spend() {
            trouble.count(|tally| tally.lost += 1);
            return StoreCallDecision::LoseAnswer;
        }
        upto += trouble.refuse_per_mille;
        if roll < upto && spend() {
            trouble.count(|tally| tally.refused += 1);
            let error = "simulated".into();
            return StoreCallDecision::Refuse(if coin {
                StoreError::Full(error)
            } else {
                StoreError::Unavailable(error)
            });
        }
        upto += trouble.freeze_per_mille;
        if roll < upto && spend() {
            trouble.count(|tally| tally.frozen += 1);
            self.freeze.freeze_for(ms(100 + long));
            self.freeze.wait_while_frozen().await;
            return if self.kill_switch.is_killed() {
                StoreCallDecision::HangBefore
            } else {
                StoreCallDecision::Pass
            };
        }
        upto += trouble.clock_jump_per_mille;
        if roll < upto && spend() {
            trouble.count(|tally| tally.clock_jumps += 1);
            let jump = if coin { 100 + long as i64 } else { -(100 + long as i64) };
            trouble.clock_offset.fetch_add(jump, Ordering::SeqCst);
            return StoreCallDecision::Pass;
        }
        upto += trouble.delay_per_mille;
        if roll < upto && spend() {
            trouble.count(|tally| tally.late += 1);
            // Longer than the lease: by then another may have taken over.
            if coin {
                sleep(ms(450)).await;
                return if self.kill_switch.is_killed() {
                    StoreCallDecision::HangBefore
                } else {
                    StoreCallDecision::Pass
                };
            }
            return StoreCallDecision::DelayAnswer(ms(450));
        }
        StoreCallDecision::Pass
    }
}
