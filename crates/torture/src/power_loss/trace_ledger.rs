//! What had been promised when the power failed: the ledger, from the lines of a trace up to that moment.

use std::collections::HashMap;
use std::time::Duration;

use crate::ledger::{LedgerAnswer, RequestOutcome, TortureLedger};
use crate::power_loss::io_trace::{TraceRecord, VictimLine};
use crate::torture_clients::request_outcome;
use crate::victim_process::VictimReply;
use crate::victim_protocol::{FromVictim, ToVictim, VictimRequest};

/// Makes the ledger of the moment after these records.
pub fn ledger_of(records: &[TraceRecord<VictimLine>], seed: u64) -> TortureLedger {
    let ledger = TortureLedger::new(seed, true, Duration::from_millis(2));
    let mut process = 0;
    let mut requests: HashMap<u64, &VictimRequest> = HashMap::new();
    let mut threads: HashMap<String, String> = HashMap::new();
    for record in records {
        match record {
            TraceRecord::ProcessStarted => {
                // What the one before had not answered it never will.
                requests
                    .drain()
                    .for_each(|(_, what)| record_outcome(&ledger, &mut threads, what, VictimReply::NoAnswer));
                process = ledger.next_process();
            }
            TraceRecord::Line(VictimLine::Heard(ToVictim::Do { id, what })) => {
                requests.insert(*id, what);
            }
            TraceRecord::Line(VictimLine::Said(FromVictim::Answer { id, answer })) => {
                if let Some(what) = requests.remove(id) {
                    let reply = match answer.clone() {
                        Ok(value) => VictimReply::Ok(value),
                        Err(refusal) => VictimReply::Refused(refusal),
                    };
                    record_outcome(&ledger, &mut threads, what, reply);
                }
            }
            TraceRecord::Line(VictimLine::Said(FromVictim::Call(call))) => {
                ledger.record_call(process, call.clone());
            }
            TraceRecord::Line(VictimLine::Said(FromVictim::Seen(seen))) => {
                ledger.record_observed_entry(process, seen.clone());
            }
            TraceRecord::Line(VictimLine::Said(FromVictim::Rested(outcome))) => {
                ledger.record_observed_outcome(outcome.clone());
            }
            _ => {}
        }
    }
    requests.drain().for_each(|(_, what)| record_outcome(&ledger, &mut threads, what, VictimReply::NoAnswer));
    ledger
}

fn record_outcome(
    ledger: &TortureLedger,
    threads: &mut HashMap<String, String>,
    what: &VictimRequest,
    reply: VictimReply,
) {
    let outcome = request_outcome(reply);
    match what {
        VictimRequest::Start(start) => {
            if let RequestOutcome::Acknowledged(run) = &outcome {
                threads.insert(run.clone(), start.thread.clone());
            }
            ledger.record_start(start, outcome);
        }
        VictimRequest::Answer { run, answers } => {
            for (question, value) in answers {
                ledger.record_answer(LedgerAnswer {
                    run: run.clone(),
                    question: question.clone(),
                    value: value.clone(),
                    outcome: outcome.clone(),
                });
            }
        }
        VictimRequest::Cancel { run } => {
            if let (RequestOutcome::Acknowledged(_), Some(thread)) = (&outcome, threads.get(run)) {
                ledger.record_cancel(thread, run);
            }
        }
        _ => {}
    }
}
