//! People who use a victim all at once: they start runs, send the same request twice, answer questions (twice), cancel
//! and watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ledger::{LedgerAnswer, RequestOutcome, TortureLedger};
use crate::seeded_rng::SeededRng;
use crate::victim_process::{PendingVictimReply, VictimProcess, VictimReply, lock_ignoring_poison};
use crate::victim_protocol::{PlannedAction, VictimRequest, VictimStartRequest};

/// How many there are.
pub const CLIENT_COUNT: u64 = 8;

const ALL_ACTIONS: [PlannedAction; 9] = [
    PlannedAction::Read,
    PlannedAction::Post,
    PlannedAction::Pay,
    PlannedAction::Mix,
    PlannedAction::Ask,
    PlannedAction::Fan,
    PlannedAction::FanAsk,
    PlannedAction::Sub,
    PlannedAction::Bulk,
];

/// Whether somebody knows for sure what became of a call: nobody does while a process that may still make it only
/// sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UnknownCallPolicy {
    Settle,
    LeaveOpen,
}

/// What the clients of one round share.
pub struct TortureClients<'a> {
    pub ledger: &'a TortureLedger,
    pub threads: Vec<String>,
    /// How long a client rests between two requests.
    pub pause: Duration,
    /// Whether clients may say what became of a call with an unknown outcome.
    pub unknown_calls: UnknownCallPolicy,
    runs: Mutex<Vec<(String, String)>>,
    repeatable_starts: Mutex<Vec<VictimStartRequest>>,
}

impl<'a> TortureClients<'a> {
    pub fn new(ledger: &'a TortureLedger, threads: Vec<String>) -> Self {
        Self {
            ledger,
            threads,
            pause: Duration::ZERO,
            unknown_calls: UnknownCallPolicy::Settle,
            runs: Mutex::default(),
            repeatable_starts: Mutex::default(),
        }
    }

    /// Lets everybody loose on the victim until it is dead or the time is over.
    pub fn run(&self, victim: &Arc<VictimProcess>, seed: u64, round: u64, time: Duration) {
        let until = Instant::now() + time;
        let pick =
            |_: &mut SeededRng| (Instant::now() < until && !victim.has_exited()).then(|| victim.clone());
        self.run_on(&pick, seed, round);
    }

    /// Lets everybody loose on whom `pick` names, until it names nobody.
    pub fn run_on(
        &self,
        pick: &(dyn Fn(&mut SeededRng) -> Option<Arc<VictimProcess>> + Sync),
        seed: u64,
        round: u64,
    ) {
        std::thread::scope(|scope| {
            for client in 0..CLIENT_COUNT {
                let mut rng = SeededRng::for_part(seed, round * 64 + client + 1000);
                scope.spawn(move || {
                    let mut number = 0;
                    while let Some(victim) = pick(&mut rng) {
                        number += 1;
                        self.send_random_request(&victim, &mut rng, &format!("{round}-{client}-{number}"));
                        std::thread::sleep(self.pause);
                    }
                });
            }
        });
    }

    fn send_random_request(&self, victim: &VictimProcess, rng: &mut SeededRng, name: &str) {
        let Some(thread) = rng.pick(&self.threads).cloned() else { return };
        match rng.below(100) {
            0..45 => self.start(victim, rng, name, thread),
            45..55 => self.repeat(victim, rng),
            55..75 => answer_open_questions(victim, self.ledger, &thread, rng, name, self.unknown_calls),
            75..85 => self.cancel(victim, rng),
            _ => self.watch(victim, rng),
        }
    }

    fn start(&self, victim: &VictimProcess, rng: &mut SeededRng, name: &str, thread: String) {
        let acts = 1 + rng.below(4);
        let start = VictimStartRequest {
            thread,
            token: format!("t{name}"),
            plan: (0..acts).filter_map(|_| rng.pick(&ALL_ACTIONS).copied()).collect(),
            // Most wait their turn, so that the others have something to meet.
            if_busy: [1, 1, 1, 0, 2, 3].get(usize::try_from(rng.below(6)).unwrap_or(0)).copied().unwrap_or(1),
            key: rng.chance_percent(40).then(|| format!("k{name}")),
            load: 0,
            waits: rng.chance_percent(40),
        };
        let twice = start.key.is_some() && rng.chance_percent(50);
        if start.key.is_some() {
            lock_ignoring_poison(&self.repeatable_starts).push(start.clone());
        }
        let first = victim.send(VictimRequest::Start(start.clone()));
        let second = twice.then(|| victim.send(VictimRequest::Start(start.clone())));
        let started = self.record_start_outcome(&start, first);
        // Many stay and watch what they started.
        if let RequestOutcome::Acknowledged(run) = started
            && rng.chance_percent(50)
        {
            watch_run(victim, run);
        }
        if let Some(second) = second {
            self.record_start_outcome(&start, second);
        }
    }

    fn repeat(&self, victim: &VictimProcess, rng: &mut SeededRng) {
        let start = rng.pick(&lock_ignoring_poison(&self.repeatable_starts)).cloned();
        if let Some(start) = start {
            self.record_start_outcome(&start, victim.send(VictimRequest::Start(start.clone())));
        }
    }

    fn record_start_outcome(
        &self,
        start: &VictimStartRequest,
        pending: PendingVictimReply,
    ) -> RequestOutcome {
        let outcome = request_outcome(pending.wait());
        if let RequestOutcome::Acknowledged(run) = &outcome {
            lock_ignoring_poison(&self.runs).push((start.thread.clone(), run.clone()));
        }
        self.ledger.record_start(start, outcome.clone());
        outcome
    }

    fn cancel(&self, victim: &VictimProcess, rng: &mut SeededRng) {
        let found = rng.pick(&lock_ignoring_poison(&self.runs)).cloned();
        if let Some((thread, run)) = found
            && let VictimReply::Ok(_) = victim.ask(VictimRequest::Cancel { run: run.clone() })
        {
            self.ledger.record_cancel(&thread, &run);
        }
    }

    fn watch(&self, victim: &VictimProcess, rng: &mut SeededRng) {
        let found = rng.pick(&lock_ignoring_poison(&self.runs)).cloned();
        if let Some((_, run)) = found {
            watch_run(victim, run);
        }
    }
}

/// Watches a run. Nobody waits for its end: what it shows comes in by itself.
fn watch_run(victim: &VictimProcess, run: String) {
    drop(victim.send(VictimRequest::Watch { run, after: 0 }));
}

/// Answers what a thread asks, sometimes twice at once.
pub fn answer_open_questions(
    victim: &VictimProcess,
    ledger: &TortureLedger,
    thread: &str,
    rng: &mut SeededRng,
    name: &str,
    settles: UnknownCallPolicy,
) {
    let VictimReply::Ok(questions) = victim.ask(VictimRequest::Questions { thread: thread.to_owned() })
    else {
        return;
    };
    let questions: Vec<(String, Value)> = serde_json::from_value(questions)
        .unwrap_or_else(|error| panic!("the victim sent questions that cannot be read: {error}"));
    for (run, question) in questions {
        let Some(id) = question["id"].as_str() else { continue };
        let value = match question["kind"].as_str() {
            Some("effect_unknown") if settles == UnknownCallPolicy::LeaveOpen => continue,
            Some("effect_unknown") => {
                let key = question["question"]["key"].as_str().unwrap_or_default();
                if ledger.was_paid(key) { json!({ "result": name }) } else { json!({ "retry": true }) }
            }
            _ => json!(name),
        };
        let send = |value: &Value| {
            let answers = BTreeMap::from([(id.to_owned(), value.clone())]);
            victim.send(VictimRequest::Answer { run: run.clone(), answers })
        };
        let mut sent = vec![(value.clone(), send(&value))];
        if rng.chance_percent(30) && value.is_string() {
            let other = json!(format!("{name}, again"));
            sent.push((other.clone(), send(&other)));
        }
        for (value, pending) in sent {
            let outcome = request_outcome(pending.wait());
            ledger.record_answer(LedgerAnswer { run: run.clone(), question: id.to_owned(), value, outcome });
        }
    }
}

/// What a reply to a write means.
pub fn request_outcome(reply: VictimReply) -> RequestOutcome {
    match reply {
        VictimReply::Ok(run) => RequestOutcome::Acknowledged(run.as_str().unwrap_or_default().to_owned()),
        VictimReply::Refused(refusal) if refusal.code == "unknown" => RequestOutcome::Unknown,
        VictimReply::Refused(refusal) => RequestOutcome::Refused(refusal.code),
        VictimReply::NoAnswer => RequestOutcome::Unknown,
    }
}
