//! What must hold however it went.

use std::collections::BTreeSet;

use doran_engine::store::{HistoryStore, LogEntry, RunFilter, RunStatus};
use doran_engine::{RunKey, ThreadEntry};

use super::random_graph::SimulatedAction;
use super::simulation::Simulation;
use super::{SimulationFailure, SimulationFailureKind};
use crate::support::{entry_text, local_thread};

/// Looks at the log, the rows of the runs, and the ledger of the world.
pub(super) async fn check_invariants(
    sim: &Simulation,
    keys: &[RunKey],
    cancelled: bool,
) -> Result<(), SimulationFailure> {
    let (store, misfits) = sim.store_and_mismatched_runs();
    let entries = store.entries(&local_thread("t"), 0, 10_000).await.map_err(|error| error.to_string())?;
    let first = entries.first().map_or(1, |entry| entry.seq);
    for (entry, seq) in entries.iter().zip(first..) {
        if entry.seq != seq {
            return Err(SimulationFailure::new(
                SimulationFailureKind::Torn,
                format!("entry {} where {seq} should be", entry.seq),
            ));
        }
    }
    let all = store
        .runs(&local_thread("t").tenant, &RunFilter::default())
        .await
        .map_err(|error| error.to_string())?;
    let expected = keys.len() + misfits;
    if all.len() != expected {
        let kind =
            if all.len() < expected { SimulationFailureKind::Lost } else { SimulationFailureKind::Doubled };
        return Err(SimulationFailure::new(kind, format!("{} runs for {expected} requests", all.len())));
    }
    let mut claims = 0;
    for key in keys {
        let row = store.run(key).await.map_err(|error| error.to_string())?;
        claims += row.epoch;
        let own: Vec<_> = entries.iter().filter(|entry| entry.run == Some(key.run)).collect();
        let ends = own.iter().filter(|entry| entry.kind.is_end()).count();
        let shown = || own.iter().map(|entry| stored_entry_text(entry)).collect::<Vec<_>>().join(" | ");
        let cleared = row.last_seq.is_some_and(|last| last < first);
        if ends != usize::from(!cleared) && !(cancelled && own.is_empty()) {
            return Err(SimulationFailure::new(
                SimulationFailureKind::Ends,
                format!("{ends} ends: {}", shown()),
            ));
        }
        if own.windows(2).any(|pair| pair[1].seq != pair[0].seq + 1) {
            return Err(SimulationFailure::new(SimulationFailureKind::Torn, "entries of two runs are mixed"));
        }
        if row.status != RunStatus::Finished && !(cancelled && row.status == RunStatus::Cancelled) {
            return Err(SimulationFailure::new(
                SimulationFailureKind::Lost,
                format!("{:?} {:?}: {}", row.status, row.error, shown()),
            ));
        }
    }
    sim.store_faults.count(|tally| {
        tally.runs += keys.len() as u32;
        tally.takeovers += (claims as u32).saturating_sub(keys.len() as u32);
        tally.cancelled += u32::from(cancelled);
    });
    for ((call, act), seen) in sim.world.calls.lock().expect("no panic").iter() {
        let distinct: BTreeSet<&String> = seen.iter().collect();
        let fits = match act {
            SimulatedAction::Once => seen.len() == 1,
            SimulatedAction::Write | SimulatedAction::Draw => distinct.len() == 1,
            _ => seen.len() as u64 <= claims,
        };
        if !fits {
            let times = seen.len();
            let text = format!("{act:?} `{call}` was seen {times} times with {claims} claims: {seen:?}");
            return Err(SimulationFailure::new(SimulationFailureKind::Doubled, text));
        }
    }
    Ok(())
}

/// An entry of the store as text.
fn stored_entry_text(entry: &LogEntry) -> String {
    entry_text(&ThreadEntry::from_log(entry).expect("readable"))
}
