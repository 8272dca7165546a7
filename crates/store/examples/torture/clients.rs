//! People who use a victim all at once: they start runs, send the same request twice, answer questions (twice), cancel
//! and watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::book::{Answered, Book, Outcome};
use crate::child::{Pending, Told, Victim, lock};
use crate::rng::Rng;
use crate::wire::{Act, Start, What};

/// How many there are.
pub const CLIENTS: u64 = 8;

const ACTS: [Act; 9] =
    [Act::Read, Act::Post, Act::Pay, Act::Mix, Act::Ask, Act::Fan, Act::FanAsk, Act::Sub, Act::Bulk];

/// Whether somebody knows for sure what became of a call: nobody does while a process that may still make it only
/// sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Settles {
    Yes,
    No,
}

/// What the clients of one round share.
pub struct Crowd<'a> {
    pub book: &'a Book,
    pub threads: Vec<String>,
    /// How long a client rests between two requests.
    pub pause: Duration,
    /// Whether clients may say what became of a call with an unknown outcome.
    pub settles: Settles,
    runs: Mutex<Vec<(String, String)>>,
    repeatable: Mutex<Vec<Start>>,
}

impl<'a> Crowd<'a> {
    pub fn new(book: &'a Book, threads: Vec<String>) -> Self {
        Self {
            book,
            threads,
            pause: Duration::ZERO,
            settles: Settles::Yes,
            runs: Mutex::default(),
            repeatable: Mutex::default(),
        }
    }

    /// Lets everybody loose on the victim until it is dead or the time is over.
    pub fn run(&self, victim: &Arc<Victim>, seed: u64, round: u64, time: Duration) {
        let until = Instant::now() + time;
        let pick = |_: &mut Rng| (Instant::now() < until && !victim.is_over()).then(|| victim.clone());
        self.run_on(&pick, seed, round);
    }

    /// Lets everybody loose on whom `pick` names, until it names nobody.
    pub fn run_on(&self, pick: &(dyn Fn(&mut Rng) -> Option<Arc<Victim>> + Sync), seed: u64, round: u64) {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut rng = Rng::part(seed, round * 64 + client + 1000);
                scope.spawn(move || {
                    let mut number = 0;
                    while let Some(victim) = pick(&mut rng) {
                        number += 1;
                        self.one(&victim, &mut rng, &format!("{round}-{client}-{number}"));
                        std::thread::sleep(self.pause);
                    }
                });
            }
        });
    }

    fn one(&self, victim: &Victim, rng: &mut Rng, name: &str) {
        let Some(thread) = rng.pick(&self.threads).cloned() else { return };
        match rng.below(100) {
            0..45 => self.start(victim, rng, name, thread),
            45..55 => self.repeat(victim, rng),
            55..75 => answer_all(victim, self.book, &thread, rng, name, self.settles),
            75..85 => self.cancel(victim, rng),
            _ => self.watch(victim, rng),
        }
    }

    fn start(&self, victim: &Victim, rng: &mut Rng, name: &str, thread: String) {
        let acts = 1 + rng.below(4);
        let start = Start {
            thread,
            token: format!("t{name}"),
            plan: (0..acts).filter_map(|_| rng.pick(&ACTS).copied()).collect(),
            // Most wait their turn, so that the others have something to meet.
            if_busy: [1, 1, 1, 0, 2, 3].get(usize::try_from(rng.below(6)).unwrap_or(0)).copied().unwrap_or(1),
            key: rng.chance(40).then(|| format!("k{name}")),
            load: 0,
        };
        let twice = start.key.is_some() && rng.chance(50);
        if start.key.is_some() {
            lock(&self.repeatable).push(start.clone());
        }
        let first = victim.send(What::Start(start.clone()));
        let second = twice.then(|| victim.send(What::Start(start.clone())));
        self.book_start(&start, first);
        if let Some(second) = second {
            self.book_start(&start, second);
        }
    }

    fn repeat(&self, victim: &Victim, rng: &mut Rng) {
        let start = rng.pick(&lock(&self.repeatable)).cloned();
        if let Some(start) = start {
            self.book_start(&start, victim.send(What::Start(start.clone())));
        }
    }

    fn book_start(&self, start: &Start, pending: Pending) {
        let outcome = outcome(pending.wait());
        if let Outcome::Acknowledged(run) = &outcome {
            lock(&self.runs).push((start.thread.clone(), run.clone()));
        }
        self.book.started(start, outcome);
    }

    fn cancel(&self, victim: &Victim, rng: &mut Rng) {
        let found = rng.pick(&lock(&self.runs)).cloned();
        if let Some((thread, run)) = found
            && let Told::Ok(_) = victim.ask(What::Cancel { run: run.clone() })
        {
            self.book.cancelled(&thread, &run);
        }
    }

    fn watch(&self, victim: &Victim, rng: &mut Rng) {
        let found = rng.pick(&lock(&self.runs)).cloned();
        if let Some((_, run)) = found {
            // Nobody waits for its end: what it sees comes in by itself.
            drop(victim.send(What::Watch { run, after: 0 }));
        }
    }
}

/// Answers what a thread asks, sometimes twice at once.
pub fn answer_all(victim: &Victim, book: &Book, thread: &str, rng: &mut Rng, name: &str, settles: Settles) {
    let Told::Ok(questions) = victim.ask(What::Questions { thread: thread.to_owned() }) else { return };
    let questions: Vec<(String, Value)> = serde_json::from_value(questions).unwrap_or_default();
    for (run, question) in questions {
        let Some(id) = question["id"].as_str() else { continue };
        let value = match question["kind"].as_str() {
            Some("effect_unknown") if settles == Settles::No => continue,
            Some("effect_unknown") => {
                let key = question["question"]["key"].as_str().unwrap_or_default();
                if book.was_paid(key) { json!({ "result": name }) } else { json!({ "retry": true }) }
            }
            _ => json!(name),
        };
        let send = |value: &Value| {
            let answers = BTreeMap::from([(id.to_owned(), value.clone())]);
            victim.send(What::Answer { run: run.clone(), answers })
        };
        let mut sent = vec![(value.clone(), send(&value))];
        if rng.chance(30) && value.is_string() {
            let other = json!(format!("{name}, again"));
            sent.push((other.clone(), send(&other)));
        }
        for (value, pending) in sent {
            let outcome = outcome(pending.wait());
            book.answered(Answered { run: run.clone(), question: id.to_owned(), value, outcome });
        }
    }
}

/// What a reply to a write means.
pub fn outcome(told: Told) -> Outcome {
    match told {
        Told::Ok(run) => Outcome::Acknowledged(run.as_str().unwrap_or_default().to_owned()),
        Told::Refused(refusal) if refusal.code == "unknown" => Outcome::Unknown,
        Told::Refused(refusal) => Outcome::Refused(refusal.code),
        Told::Nothing => Outcome::Unknown,
    }
}
