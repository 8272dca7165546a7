//! What must survive a kill, kept by the driver: everything victims did to the world, everything they acknowledged,
//! everything they showed. Deeds are judged as they come in; the rest when a log is read.
//!
//! A deed later in its task shows that the earlier ones were recorded, and a task later in its run that the earlier
//! ones were committed: neither may be done again after that, in any life.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child::lock;
use crate::rng::Rng;
use crate::wire::{Class, Deed, Seen, Start};

/// How the token of a run begins whose calls all take [`PROBE`].
pub const SLOW: &str = "slow";

/// How the token of a run begins of which only posts take [`PROBE`]: a process that sleeps then sleeps right before a
/// payment, most likely.
pub const RUSH: &str = "rush";

const PROBE: Duration = Duration::from_millis(25);

/// What a violation breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    /// Something acknowledged is gone, or something refused is there.
    Lost,
    /// Something happened twice.
    Doubled,
    /// A run does not move.
    Stuck,
    /// A state that is no step boundary, or not what its log says.
    Torn,
    /// Events with a gap, or shown and not there.
    Events,
    /// A run with no end, or several.
    Ends,
    /// The store itself.
    Damaged,
}

/// How a request to start a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Acknowledged(String),
    Refused(String),
    Unknown,
}

/// An answer to a question, as sent.
#[derive(Clone, Debug)]
pub struct Answered {
    pub run: String,
    pub question: String,
    pub value: Value,
    pub outcome: Outcome,
}

/// Everything the driver knows. Shared by clients, readers and checks.
pub struct Book {
    pages: Mutex<Pages>,
    /// Whether a deed may come only from the one process that holds the run.
    strict: bool,
    /// Up to how long the outside takes to answer a call.
    slowest: Duration,
}

#[derive(Default)]
struct Pages {
    lives: u32,
    rng: Option<Rng>,
    deeds: Vec<Deed>,
    total: usize,
    /// By task: how far it is, in which life that was, and the read that was its last call, if that was one.
    tasks: HashMap<(String, String), (u32, u32, Option<u32>)>,
    /// By run: the rank of the furthest task.
    reached: HashMap<String, usize>,
    complete: HashSet<(String, String)>,
    payments: HashMap<(String, String), u32>,
    keys: HashMap<(String, String, u32), String>,
    starts: Vec<(Start, Outcome)>,
    answers: Vec<Answered>,
    cancels: Vec<(String, String)>,
    /// By run: what watchers saw under each number.
    seen: HashMap<String, BTreeMap<u64, Seen>>,
    /// By life and watcher: the last number.
    watchers: HashMap<(u32, u64), u64>,
    wrong: Vec<(Broken, String)>,
    /// Deeds of slow runs: thread, life, time.
    moved: Vec<(String, u32, Instant)>,
}

impl Book {
    pub fn new(seed: u64, strict: bool, slowest: Duration) -> Self {
        let pages = Pages { rng: Some(Rng::part(seed, 77)), ..Pages::default() };
        Self { pages: Mutex::new(pages), strict, slowest }
    }

    pub fn next_life(&self) -> u32 {
        let mut pages = lock(&self.pages);
        pages.lives += 1;
        pages.lives
    }

    /// Takes a deed down and says how long the outside takes to answer it.
    pub fn deed(&self, life: u32, deed: Deed) -> Duration {
        let mut pages = lock(&self.pages);
        pages.judge(life, &deed, self.strict);
        let slow = deed.token.starts_with(SLOW) || deed.token.starts_with(RUSH) && deed.class == Class::Post;
        let quick = deed.token.starts_with(RUSH);
        if deed.token.starts_with(SLOW) {
            pages.moved.push((deed.thread.clone(), life, Instant::now()));
        }
        pages.deeds.push(deed);
        pages.total += 1;
        match (slow, quick) {
            (true, _) => return PROBE,
            (false, true) => return Duration::ZERO,
            (false, false) => {}
        }
        let slowest = u64::try_from(self.slowest.as_micros()).unwrap_or_default();
        let rng = pages.rng.get_or_insert_with(|| Rng::new(0));
        if rng.chance(40) { Duration::ZERO } else { Duration::from_micros(rng.below(slowest)) }
    }

    pub fn seen(&self, life: u32, seen: Seen) {
        let mut pages = lock(&self.pages);
        if self.strict {
            for link in &seen.links {
                pages.completed(link);
            }
        }
        if let Some(last) = pages.watchers.insert((life, seen.watch), seen.number)
            && seen.number != last + 1
        {
            let what = format!("a watcher of {} was shown event {} after {last}", seen.run, seen.number);
            pages.wrong(Broken::Events, what);
        }
        let known = pages.seen.entry(seen.run.clone()).or_default();
        match known.get(&seen.number) {
            Some(old) if old.digest != seen.digest || old.seq != seen.seq => {
                let what = format!("event {} of {} changed: {old:?}, then {seen:?}", seen.number, seen.run);
                pages.wrong(Broken::Events, what);
            }
            _ => {
                known.insert(seen.number, seen);
            }
        }
    }

    pub fn started(&self, start: &Start, outcome: Outcome) {
        lock(&self.pages).starts.push((start.clone(), outcome));
    }

    pub fn answered(&self, answered: Answered) {
        lock(&self.pages).answers.push(answered);
    }

    pub fn cancelled(&self, thread: &str, run: &str) {
        lock(&self.pages).cancels.push((thread.to_owned(), run.to_owned()));
    }

    /// Takes down that a task is in the log.
    pub fn completed(&self, link: &str) {
        lock(&self.pages).completed(link);
    }

    pub fn wrong(&self, broken: Broken, what: impl Into<String>) {
        lock(&self.pages).wrong(broken, what.into());
    }

    /// Everything that was found wrong so far.
    pub fn verdict(&self) -> Vec<(Broken, String)> {
        lock(&self.pages).wrong.clone()
    }

    pub fn is_clean(&self) -> bool {
        lock(&self.pages).wrong.is_empty()
    }

    /// Whether the outside knows of this payment.
    pub fn was_paid(&self, key: &str) -> bool {
        lock(&self.pages).deeds.iter().any(|deed| deed.class == Class::Pay && deed.key == key)
    }

    /// How many deeds came in, those of forgotten threads too.
    pub fn deeds(&self) -> usize {
        lock(&self.pages).total
    }

    /// When a slow run on this thread was first moved by another life than this one, after that instant.
    pub fn taken_over(&self, thread: &str, life: u32, after: Instant) -> Option<Instant> {
        let pages = lock(&self.pages);
        let moved = pages.moved.iter().find(|(on, by, at)| on == thread && *by != life && *at > after);
        moved.map(|(_, _, at)| *at)
    }

    /// Whether this life moved a slow run on this thread.
    pub fn moves(&self, thread: &str, life: u32) -> bool {
        lock(&self.pages).moved.iter().any(|(on, by, _)| on == thread && *by == life)
    }

    pub fn deeds_of(&self, thread: &str) -> Vec<Deed> {
        lock(&self.pages).deeds.iter().filter(|deed| deed.thread == thread).cloned().collect()
    }

    pub fn starts_of(&self, thread: &str) -> Vec<(Start, Outcome)> {
        lock(&self.pages).starts.iter().filter(|(start, _)| start.thread == thread).cloned().collect()
    }

    pub fn answers_of(&self, run: &str) -> Vec<Answered> {
        lock(&self.pages).answers.iter().filter(|answered| answered.run == run).cloned().collect()
    }

    pub fn cancels_of(&self, thread: &str) -> Vec<String> {
        let pages = lock(&self.pages);
        pages.cancels.iter().filter(|(on, _)| on == thread).map(|(_, run)| run.clone()).collect()
    }

    pub fn seen_of(&self, run: &str) -> Vec<Seen> {
        lock(&self.pages).seen.get(run).map(|seen| seen.values().cloned().collect()).unwrap_or_default()
    }

    /// How many events watchers saw in all, and how many inputs were acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        let pages = lock(&self.pages);
        let acknowledged =
            pages.starts.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Acknowledged(_))).count();
        (pages.seen.values().map(BTreeMap::len).sum(), acknowledged)
    }

    /// Forgets all about a thread that is not looked at any more.
    pub fn forget(&self, thread: &str) {
        let mut pages = lock(&self.pages);
        pages.deeds.retain(|deed| deed.thread != thread || deed.class == Class::Pay);
    }
}

impl Pages {
    fn wrong(&mut self, broken: Broken, what: String) {
        // Every look at the same thread finds the same fault again.
        if self.wrong.len() < 100 && !self.wrong.iter().any(|(_, known)| *known == what) {
            self.wrong.push((broken, what));
        }
    }

    fn completed(&mut self, link: &str) {
        let mut parts = link.splitn(3, '|').skip(1);
        if let (Some(token), Some(task)) = (parts.next(), parts.next()) {
            self.complete.insert((token.to_owned(), task.to_owned()));
        }
    }

    fn judge(&mut self, life: u32, deed: &Deed, strict: bool) {
        let task = (deed.token.clone(), deed.task.clone());
        let name = format!("{:?} {} of task {} of {}", deed.class, deed.nth, deed.task, deed.token);
        match deed.class {
            Class::Pay => {
                let times = self.payments.entry(task.clone()).or_default();
                *times += 1;
                if *times > 1 {
                    self.wrong(Broken::Doubled, format!("{name} happened twice"));
                }
            }
            Class::Post => {
                let known = self
                    .keys
                    .entry((task.0.clone(), task.1.clone(), deed.nth))
                    .or_insert_with(|| deed.key.clone());
                if *known != deed.key {
                    let before: Vec<String> = self
                        .deeds
                        .iter()
                        .filter(|old| old.token == deed.token)
                        .map(|old| {
                            format!("{} {:?} {} {} {}", old.task, old.class, old.links, old.hash, old.key)
                        })
                        .collect();
                    let what = format!("{name} came with another key: {deed:?} after {before:?}");
                    self.wrong(Broken::Doubled, what);
                }
            }
            Class::Read | Class::Done => {}
        }
        if !strict {
            return;
        }
        if self.complete.contains(&task) {
            self.wrong(Broken::Doubled, format!("{name} came after the task was in the log"));
        }
        let rank = rank(&deed.task);
        let reached = self.reached.entry(deed.token.clone()).or_insert(rank);
        if rank < *reached {
            self.wrong(Broken::Doubled, format!("{name} came after a later task of its run"));
        } else {
            *reached = rank;
        }
        let last = match deed.class {
            Class::Done => self.tasks.get(&task).and_then(|(_, _, last)| *last),
            Class::Read => Some(deed.nth),
            Class::Post | Class::Pay => None,
        };
        if let Some((nth, then, before)) = self.tasks.insert(task, (deed.nth, life, last))
            && (deed.nth < nth || deed.nth == nth && then == life)
            // A read that ends its task is recorded with the step, so a kill before that may repeat it.
            && !(nth == u32::MAX && then != life && before == Some(deed.nth) && last == Some(deed.nth))
        {
            self.wrong(
                Broken::Doubled,
                format!("{name} came after deed {nth} of the same task, lives {then} and {life}"),
            );
        }
    }
}

/// The order of a task in its run: its place, and whether it comes after the others of that place.
fn rank(task: &str) -> usize {
    let (place, item) = task.split_once('.').unwrap_or((task, ""));
    let late = match item {
        "b" => 0,
        "g" | "i2" => 2,
        _ => 1,
    };
    place.parse::<usize>().unwrap_or_default() * 3 + late
}
