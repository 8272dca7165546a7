//! What must survive a kill, kept by the driver: everything victims did to the world, everything they acknowledged,
//! everything they showed. Calls are judged as they come in; the rest when a log is read.
//!
//! A call later in its task shows that the earlier ones were recorded, and a task later in its run that the earlier
//! ones were committed: neither may be done again after that, by any process. A power failure may take what nobody could
//! notice: reads and steps after the last call that the outside knows by its key.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::seeded_rng::SeededRng;
use crate::victim_process::lock_ignoring_poison;
use crate::victim_protocol::{
    ExternalCall, ExternalCallKind, ObservedEntry, ObservedOutcome, VictimStartRequest,
};

/// How the token of a run begins whose calls all take [`SLOW_CALL_DELAY`].
pub const SLOW_TOKEN_PREFIX: &str = "slow";

/// How the token of a run begins of which only posts take [`SLOW_CALL_DELAY`]: a process that sleeps then sleeps right before a
/// payment, most likely.
pub const SLOW_POST_TOKEN_PREFIX: &str = "rush";

const SLOW_CALL_DELAY: Duration = Duration::from_millis(25);

/// What a violation breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
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
pub enum RequestOutcome {
    Acknowledged(String),
    Refused(String),
    Unknown,
}

/// An answer to a question, as sent.
#[derive(Clone, Debug)]
pub struct LedgerAnswer {
    pub run: String,
    pub question: String,
    pub value: Value,
    pub outcome: RequestOutcome,
}

/// Everything the driver knows. Shared by clients, readers and checks.
pub struct TortureLedger {
    state: Mutex<LedgerState>,
    /// Whether a call may come only from the one process that holds the run.
    single_owner: bool,
    /// Up to how long the outside takes to answer a call.
    max_call_delay: Duration,
}

#[derive(Default)]
struct LedgerState {
    process_starts: u32,
    rng: Option<SeededRng>,
    calls: Vec<ExternalCall>,
    total_calls: usize,
    /// By task: how far it is, by which process, and the read that was its last call, if that was one.
    tasks: HashMap<(String, String), (u32, u32, Option<u32>)>,
    /// By run: the rank of the furthest task.
    reached: HashMap<String, usize>,
    complete: HashSet<(String, String)>,
    payments: HashMap<(String, String), u32>,
    keys: HashMap<(String, String, u32), String>,
    starts: Vec<(VictimStartRequest, RequestOutcome)>,
    answers: Vec<LedgerAnswer>,
    cancels: Vec<(String, String)>,
    /// By run: what watchers saw under each number.
    seen: HashMap<String, BTreeMap<u64, ObservedEntry>>,
    /// How runs rested, as those who waited for them saw it.
    outcomes: Vec<ObservedOutcome>,
    /// By process and watcher: the last number.
    watchers: HashMap<(u32, u64), u64>,
    violations: Vec<(Violation, String)>,
    /// Calls of slow runs: thread, process, time.
    slow_run_calls: Vec<(String, u32, Instant)>,
}

impl TortureLedger {
    pub fn new(seed: u64, strict: bool, slowest: Duration) -> Self {
        let state = LedgerState { rng: Some(SeededRng::for_part(seed, 77)), ..LedgerState::default() };
        Self { state: Mutex::new(state), single_owner: strict, max_call_delay: slowest }
    }

    pub fn next_process(&self) -> u32 {
        let mut state = lock_ignoring_poison(&self.state);
        state.process_starts += 1;
        state.process_starts
    }

    /// Takes a call down and says how long the outside takes to answer it.
    pub fn record_call(&self, process: u32, external_call: ExternalCall) -> Duration {
        let mut state = lock_ignoring_poison(&self.state);
        state.check_call(process, &external_call, self.single_owner);
        let slow = external_call.token.starts_with(SLOW_TOKEN_PREFIX)
            || external_call.token.starts_with(SLOW_POST_TOKEN_PREFIX)
                && external_call.class == ExternalCallKind::Post;
        let quick = external_call.token.starts_with(SLOW_POST_TOKEN_PREFIX);
        if external_call.token.starts_with(SLOW_TOKEN_PREFIX) {
            state.slow_run_calls.push((external_call.thread.clone(), process, Instant::now()));
        }
        state.calls.push(external_call);
        state.total_calls += 1;
        match (slow, quick) {
            (true, _) => return SLOW_CALL_DELAY,
            (false, true) => return Duration::ZERO,
            (false, false) => {}
        }
        let slowest = u64::try_from(self.max_call_delay.as_micros()).unwrap_or_default();
        let rng = state.rng.get_or_insert_with(|| SeededRng::new(0));
        if rng.chance_percent(40) { Duration::ZERO } else { Duration::from_micros(rng.below(slowest)) }
    }

    pub fn record_observed_entry(&self, process: u32, seen: ObservedEntry) {
        let mut state = lock_ignoring_poison(&self.state);
        if self.single_owner {
            for link in &seen.links {
                state.record_completed_task(link);
            }
        }
        if let Some(last) = state.watchers.insert((process, seen.watch), seen.number)
            && seen.number != last + 1
        {
            let what = format!("a watcher of {} was shown event {} after {last}", seen.run, seen.number);
            state.record_violation(Violation::Events, what);
        }
        let known = state.seen.entry(seen.run.clone()).or_default();
        match known.get(&seen.number) {
            Some(old) if old.digest != seen.digest || old.seq != seen.seq => {
                let what = format!("event {} of {} changed: {old:?}, then {seen:?}", seen.number, seen.run);
                state.record_violation(Violation::Events, what);
            }
            _ => {
                known.insert(seen.number, seen);
            }
        }
    }

    pub fn record_observed_outcome(&self, outcome: ObservedOutcome) {
        lock_ignoring_poison(&self.state).outcomes.push(outcome);
    }

    /// The power failed. What nobody could notice may be lost, and done again. A call that the outside knows by its key
    /// was made when everything before it was on disk; that it was made may be lost.
    pub fn record_power_failure(&self) {
        let mut state = lock_ignoring_poison(&self.state);
        let LedgerState { calls, tasks, reached, .. } = &mut *state;
        (*tasks, *reached) = (HashMap::new(), HashMap::new());
        for call in calls {
            if matches!(call.class, ExternalCallKind::Read | ExternalCallKind::Done) {
                call.may_be_lost = true;
                continue;
            }
            let rank = task_rank(&call.task);
            let furthest = reached.entry(call.token.clone()).or_insert(rank);
            *furthest = rank.max(*furthest);
            // No process has this number, so the next one may repeat the call and none before it.
            let task = (call.token.clone(), call.task.clone());
            let last = tasks.entry(task).or_insert((call.nth, 0, None));
            last.0 = call.nth.max(last.0);
        }
    }

    pub fn record_start(&self, start: &VictimStartRequest, outcome: RequestOutcome) {
        lock_ignoring_poison(&self.state).starts.push((start.clone(), outcome));
    }

    pub fn record_answer(&self, answered: LedgerAnswer) {
        lock_ignoring_poison(&self.state).answers.push(answered);
    }

    pub fn record_cancel(&self, thread: &str, run: &str) {
        lock_ignoring_poison(&self.state).cancels.push((thread.to_owned(), run.to_owned()));
    }

    /// Takes down that a task is in the log.
    pub fn record_completed_task(&self, link: &str) {
        lock_ignoring_poison(&self.state).record_completed_task(link);
    }

    pub fn record_violation(&self, broken: Violation, what: impl Into<String>) {
        lock_ignoring_poison(&self.state).record_violation(broken, what.into());
    }

    /// Everything that was found wrong so far.
    pub fn violations(&self) -> Vec<(Violation, String)> {
        lock_ignoring_poison(&self.state).violations.clone()
    }

    pub fn has_no_violations(&self) -> bool {
        lock_ignoring_poison(&self.state).violations.is_empty()
    }

    /// Whether the outside knows of this payment.
    pub fn was_paid(&self, key: &str) -> bool {
        lock_ignoring_poison(&self.state)
            .calls
            .iter()
            .any(|external_call| external_call.class == ExternalCallKind::Pay && external_call.key == key)
    }

    /// How many calls came in, those of forgotten threads too.
    pub fn call_count(&self) -> usize {
        lock_ignoring_poison(&self.state).total_calls
    }

    /// When a slow run on this thread was first moved by another process than this one, after that instant.
    pub fn first_takeover(&self, thread: &str, process: u32, after: Instant) -> Option<Instant> {
        let state = lock_ignoring_poison(&self.state);
        let moved =
            state.slow_run_calls.iter().find(|(on, by, at)| on == thread && *by != process && *at > after);
        moved.map(|(_, _, at)| *at)
    }

    /// Whether this process moved a slow run on this thread.
    pub fn has_slow_run_calls(&self, thread: &str, process: u32) -> bool {
        lock_ignoring_poison(&self.state)
            .slow_run_calls
            .iter()
            .any(|(on, by, _)| on == thread && *by == process)
    }

    pub fn calls_of_thread(&self, thread: &str) -> Vec<ExternalCall> {
        lock_ignoring_poison(&self.state)
            .calls
            .iter()
            .filter(|external_call| external_call.thread == thread)
            .cloned()
            .collect()
    }

    pub fn starts_of_thread(&self, thread: &str) -> Vec<(VictimStartRequest, RequestOutcome)> {
        lock_ignoring_poison(&self.state)
            .starts
            .iter()
            .filter(|(start, _)| start.thread == thread)
            .cloned()
            .collect()
    }

    pub fn answers_of_run(&self, run: &str) -> Vec<LedgerAnswer> {
        lock_ignoring_poison(&self.state)
            .answers
            .iter()
            .filter(|answered| answered.run == run)
            .cloned()
            .collect()
    }

    pub fn cancels_of_thread(&self, thread: &str) -> Vec<String> {
        let state = lock_ignoring_poison(&self.state);
        state.cancels.iter().filter(|(on, _)| on == thread).map(|(_, run)| run.clone()).collect()
    }

    pub fn outcomes_of_thread(&self, thread: &str) -> Vec<ObservedOutcome> {
        let state = lock_ignoring_poison(&self.state);
        state.outcomes.iter().filter(|outcome| outcome.thread == thread).cloned().collect()
    }

    pub fn observed_entries_of_run(&self, run: &str) -> Vec<ObservedEntry> {
        lock_ignoring_poison(&self.state)
            .seen
            .get(run)
            .map(|seen| seen.values().cloned().collect())
            .unwrap_or_default()
    }

    /// How many events watchers saw in all, and how many inputs were acknowledged.
    pub fn observed_and_acknowledged_counts(&self) -> (usize, usize) {
        let state = lock_ignoring_poison(&self.state);
        let acknowledged = state
            .starts
            .iter()
            .filter(|(_, outcome)| matches!(outcome, RequestOutcome::Acknowledged(_)))
            .count();
        (state.seen.values().map(BTreeMap::len).sum(), acknowledged)
    }

    /// Forgets all about a thread that is not looked at any more.
    pub fn forget_thread(&self, thread: &str) {
        let mut state = lock_ignoring_poison(&self.state);
        state.calls.retain(|external_call| {
            external_call.thread != thread || external_call.class == ExternalCallKind::Pay
        });
    }
}

impl LedgerState {
    fn record_violation(&mut self, broken: Violation, what: String) {
        // Every look at the same thread finds the same fault again.
        if self.violations.len() < 100 && !self.violations.iter().any(|(_, known)| *known == what) {
            self.violations.push((broken, what));
        }
    }

    fn record_completed_task(&mut self, link: &str) {
        let mut parts = link.splitn(3, '|').skip(1);
        if let (Some(token), Some(task)) = (parts.next(), parts.next()) {
            self.complete.insert((token.to_owned(), task.to_owned()));
        }
    }

    fn check_call(&mut self, process: u32, external_call: &ExternalCall, strict: bool) {
        let task = (external_call.token.clone(), external_call.task.clone());
        let name = format!(
            "{:?} {} of task {} of {}",
            external_call.class, external_call.nth, external_call.task, external_call.token
        );
        match external_call.class {
            ExternalCallKind::Pay => {
                let times = self.payments.entry(task.clone()).or_default();
                *times += 1;
                if *times > 1 {
                    self.record_violation(Violation::Doubled, format!("{name} happened twice"));
                }
            }
            ExternalCallKind::Post => {
                let known = self
                    .keys
                    .entry((task.0.clone(), task.1.clone(), external_call.nth))
                    .or_insert_with(|| external_call.key.clone());
                if *known != external_call.key {
                    let before: Vec<String> = self
                        .calls
                        .iter()
                        .filter(|old| old.token == external_call.token)
                        .map(|old| {
                            format!("{} {:?} {} {} {}", old.task, old.class, old.links, old.hash, old.key)
                        })
                        .collect();
                    let what = format!("{name} came with another key: {external_call:?} after {before:?}");
                    self.record_violation(Violation::Doubled, what);
                }
            }
            ExternalCallKind::Read | ExternalCallKind::Done => {}
        }
        if !strict {
            return;
        }
        if self.complete.contains(&task) {
            self.record_violation(Violation::Doubled, format!("{name} came after the task was in the log"));
        }
        let rank = task_rank(&external_call.task);
        let reached = self.reached.entry(external_call.token.clone()).or_insert(rank);
        if rank < *reached {
            self.record_violation(Violation::Doubled, format!("{name} came after a later task of its run"));
        } else {
            *reached = rank;
        }
        let last = match external_call.class {
            ExternalCallKind::Done => self.tasks.get(&task).and_then(|(_, _, last)| *last),
            ExternalCallKind::Read => Some(external_call.nth),
            ExternalCallKind::Post | ExternalCallKind::Pay => None,
        };
        if let Some((nth, then, before)) = self.tasks.insert(task, (external_call.nth, process, last))
            && (external_call.nth < nth || external_call.nth == nth && then == process)
            // A read that ends its task is recorded with the step, so a kill before that may repeat it.
            && !(nth == u32::MAX && then != process && before == Some(external_call.nth) && last == Some(external_call.nth))
        {
            self.record_violation(
                Violation::Doubled,
                format!("{name} came after call {nth} of the same task, processes {then} and {process}"),
            );
        }
    }
}

/// The order of a task in its run: its place, and whether it comes after the others of that place.
fn task_rank(task: &str) -> usize {
    let (place, item) = task.split_once('.').unwrap_or((task, ""));
    let late = match item {
        "b" => 0,
        "g" | "i2" => 2,
        _ => 1,
    };
    place.parse::<usize>().unwrap_or_default() * 3 + late
}
