//! A simulator: one seed makes a small graph and a history of trouble (crashes before and after any store call, lost
//! answers, refusals, delays, processes that are frozen and go on later, a store whose clock jumps, callers that leave,
//! people who answer wrongly, logs that are cleared, programs that do not fit) and drives it with the real runtime in
//! paused time. However it goes, the run must end as the unbroken one does and the world must
//! have seen what the effect classes promise.
//!
//! The test plays the same seeds every time; `./x torture sim` plays others, and `./x torture sim --seed N --kills 1` one
//! alone.

mod invariants;
mod process_freeze;
mod random_graph;
mod simulated_world;
mod simulation;
mod simulation_rng;
mod spending_limit;
mod store_faults;

use simulation::{Simulation, SimulationPlan};
use simulation_rng::SimulationRng;

#[test]
fn a_run_ends_as_the_unbroken_one_whatever_happens_on_the_way() {
    let started = std::time::Instant::now();
    let mut total = SimulationCounts::default();
    check_fixed_histories().expect("the limit holds");
    for seed in 0..300 {
        match run_seed(seed) {
            Ok(tally) => total.add(&tally),
            Err(SimulationFailure { kind, text }) => {
                panic!(
                    "seed {seed} (./x torture sim --seed {seed} --kills 1 plays it alone): {kind:?}: {text}"
                )
            }
        }
    }
    println!("{:?}: {total:?}", started.elapsed());
    assert!(total.crashes > 0 && total.lost > 0 && total.takeovers > 0 && total.unknown > 0, "{total:?}");
    assert!(total.cleared > 0 && total.misfits > 0 && total.cancelled > 0, "{total:?}");
    assert!(total.frozen > 0 && total.clock_jumps > 0 && total.disconnected > 0, "{total:?}");
    assert!(total.wrong_answers > 0, "{total:?}");
}

/// What happened, so that a simulator that finds nothing because it does nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimulationCounts {
    pub(crate) runs: u32,
    pub(crate) crashes: u32,
    pub(crate) lost: u32,
    pub(crate) refused: u32,
    pub(crate) late: u32,
    pub(crate) takeovers: u32,
    pub(crate) unknown: u32,
    pub(crate) cancelled: u32,
    /// Entries cleared away.
    pub(crate) cleared: u32,
    /// Runs of a program with another state.
    pub(crate) misfits: u32,
    /// Processes that were frozen for a while.
    pub(crate) frozen: u32,
    /// Jumps of the store's clock.
    pub(crate) clock_jumps: u32,
    /// Callers that left before they had their answer.
    pub(crate) disconnected: u32,
    /// Answers of people that do not fit the question.
    pub(crate) wrong_answers: u32,
}

impl SimulationCounts {
    pub(crate) fn add(&mut self, more: &Self) {
        self.runs += more.runs;
        self.crashes += more.crashes;
        self.lost += more.lost;
        self.refused += more.refused;
        self.late += more.late;
        self.takeovers += more.takeovers;
        self.unknown += more.unknown;
        self.cancelled += more.cancelled;
        self.cleared += more.cleared;
        self.misfits += more.misfits;
        self.frozen += more.frozen;
        self.clock_jumps += more.clock_jumps;
        self.disconnected += more.disconnected;
        self.wrong_answers += more.wrong_answers;
    }
}

/// What a history broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimulationFailureKind {
    Lost,
    Doubled,
    Stuck,
    Torn,
    Ends,
}

/// What is wrong with a history.
#[derive(Debug)]
pub(crate) struct SimulationFailure {
    pub(crate) kind: SimulationFailureKind,
    pub(crate) text: String,
}

impl SimulationFailure {
    fn new(kind: SimulationFailureKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// A store that does not let itself be read.
impl From<String> for SimulationFailure {
    fn from(text: String) -> Self {
        Self::new(SimulationFailureKind::Torn, text)
    }
}

/// What needs no seed.
pub(crate) fn check_fixed_histories() -> Result<(), SimulationFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(spending_limit::check_limit_after_pause())
}

/// Plays one seed, unbroken and broken.
pub(crate) fn run_seed(seed: u64) -> Result<SimulationCounts, SimulationFailure> {
    let world = |broken: bool| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let mut dice = SimulationRng(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
            let blocks = random_graph::random_blocks(&mut dice);
            let (runs, replicas) = (1 + dice.below(2), 1 + dice.below(2) as usize);
            let cancel_at = dice.chance_per_mille(100).then(|| dice.below(400));
            let (paced, misfit) = (dice.chance_per_mille(200), dice.chance_per_mille(500));
            let plan = SimulationPlan {
                replicas: if broken { replicas } else { 1 },
                runs: if paced { 4 } else { runs },
                cancel_at: cancel_at.filter(|_| broken && !paced),
                one_run_at_a_time: paced,
                runs_mismatched_program: misfit,
            };
            let words = plan.runs * random_graph::expected_word_count(&blocks);
            let mut sim = Simulation::new(&mut dice, plan, blocks, broken);
            let keys = sim.run_to_end().await?;
            invariants::check_invariants(&sim, &keys, plan.cancel_at.is_some()).await?;
            // A replica that lost the run and does not know it yet may begin what the other finished; alone, and as
            // long as nobody ends the run from outside, nothing that is on disk is begun again.
            let begun_again = sim.world.finished_tasks.lock().expect("no panic").begun_again.clone();
            if plan.replicas == 1 && plan.cancel_at.is_none() && !begun_again.is_empty() {
                let text = format!("finished and begun again: {begun_again:?}");
                return Err(SimulationFailure::new(SimulationFailureKind::Doubled, text));
            }
            let state = sim.final_state().await?;
            if plan.cancel_at.is_none() && state.said.len() as u64 != words {
                let text = format!("{} words instead of {words}: {}", state.said.len(), state.said_text());
                return Err(SimulationFailure::new(SimulationFailureKind::Doubled, text));
            }
            let tally = *sim.store_faults.tally.lock().expect("no panic");
            Ok((state, tally, plan.cancel_at.is_some()))
        })
    };
    let unbroken = |problem: SimulationFailure| SimulationFailure {
        text: format!("unbroken: {}", problem.text),
        ..problem
    };
    let (expected, ..) = world(false).map_err(unbroken)?;
    let (state, tally, cancelled) = world(true)?;
    if !cancelled && state != expected {
        let text = format!("ended with\n  {}\ninstead of\n  {}", state.said_text(), expected.said_text());
        return Err(SimulationFailure::new(SimulationFailureKind::Torn, text));
    }
    Ok(tally)
}
