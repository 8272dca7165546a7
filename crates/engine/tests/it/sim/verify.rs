//! What must hold however it went.

use std::collections::BTreeSet;

use doran_engine::RunKey;
use doran_engine::store::{History, RunFilter, Status};

use super::play::Sim;
use super::shape::Act;
use super::{Kind, Problem};
use crate::support::{printed, thread};

/// Looks at the log, the rows of the runs, and the book of the world.
pub(super) async fn verify(sim: &Sim, keys: &[RunKey], cancelled: bool) -> Result<(), Problem> {
    let (store, misfits) = sim.left();
    let entries = store.entries(&thread("t"), 0, 10_000).await.map_err(|error| error.to_string())?;
    let first = entries.first().map_or(1, |entry| entry.seq);
    for (entry, seq) in entries.iter().zip(first..) {
        if entry.seq != seq {
            return Err(Problem::new(Kind::Torn, format!("entry {} where {seq} should be", entry.seq)));
        }
    }
    let all =
        store.runs(&thread("t").tenant, &RunFilter::default()).await.map_err(|error| error.to_string())?;
    let asked = keys.len() + misfits;
    if all.len() != asked {
        let kind = if all.len() < asked { Kind::Lost } else { Kind::Doubled };
        return Err(Problem::new(kind, format!("{} runs for {asked} requests", all.len())));
    }
    let mut claims = 0;
    for key in keys {
        let row = store.run(key).await.map_err(|error| error.to_string())?;
        claims += row.epoch;
        let own: Vec<_> = entries.iter().filter(|entry| entry.run == Some(key.run)).collect();
        let ends = own.iter().filter(|entry| entry.kind.is_end()).count();
        let shown = || own.iter().map(|entry| printed(entry)).collect::<Vec<_>>().join(" | ");
        let cleared = row.last_seq.is_some_and(|last| last < first);
        if ends != usize::from(!cleared) && !(cancelled && own.is_empty()) {
            return Err(Problem::new(Kind::Ends, format!("{ends} ends: {}", shown())));
        }
        if own.windows(2).any(|pair| pair[1].seq != pair[0].seq + 1) {
            return Err(Problem::new(Kind::Torn, "entries of two runs are mixed"));
        }
        if row.status != Status::Finished && !(cancelled && row.status == Status::Cancelled) {
            return Err(Problem::new(Kind::Lost, format!("{:?} {:?}: {}", row.status, row.error, shown())));
        }
    }
    sim.trouble.note(|tally| {
        tally.runs += keys.len() as u32;
        tally.takeovers += (claims as u32).saturating_sub(keys.len() as u32);
        tally.cancelled += u32::from(cancelled);
    });
    for ((call, act), seen) in sim.world.seen.lock().expect("no panic").iter() {
        let distinct: BTreeSet<&String> = seen.iter().collect();
        let fits = match act {
            Act::Once => seen.len() == 1,
            Act::Write | Act::Draw => distinct.len() == 1,
            _ => seen.len() as u64 <= claims,
        };
        if !fits {
            let times = seen.len();
            let text = format!("{act:?} `{call}` was seen {times} times with {claims} claims: {seen:?}");
            return Err(Problem::new(Kind::Doubled, text));
        }
    }
    Ok(())
}
