//! The kill loop: a victim on SQLite is used by eight clients at once, killed at some instant, started again, and what
//! it holds is compared with the ledger. Then the same at every fail point.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::{TortureLedger, Violation};
use crate::report::TortureReport;
use crate::seeded_rng::SeededRng;
use crate::torture_clients::{TortureClients, UnknownCallPolicy, answer_open_questions};
use crate::victim_process::{VictimLaunch, VictimProcess};
use crate::victim_protocol::VictimRequest;
use crate::{TortureOptions, consistency_check};

/// Points at which a victim ends itself, with the clients' work that passes them.
pub const FAIL_POINTS: [&str; 20] = [
    "submit.before_commit",
    "submit.after_commit",
    "submit.before_reply",
    "worker.after_claim",
    "worker.before_renew",
    "node.before_start",
    "effect.before_intent",
    "effect.after_intent",
    "effect.after_call",
    "effect.before_result",
    "commit.before_begin",
    "commit.mid_write",
    "commit.before_commit",
    "commit.after_commit",
    "commit.after_publish",
    "pause.after_commit",
    "answer.before_consume",
    "answer.after_consume",
    "cancel.after_commit",
    "migration.mid_transaction",
];

/// How long a run may stand still after a restart.
const STUCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Rounds whose threads are looked at after each kill.
const RECENT_ROUNDS: usize = 3;

/// A series of victims on one store.
pub struct KillCampaign {
    pub ledger: Arc<TortureLedger>,
    dir: tempfile::TempDir,
    seed: u64,
    round: u64,
    lease: Duration,
    env: Vec<(String, String)>,
    recent: VecDeque<Vec<String>>,
    all: Vec<String>,
    /// How long it took until everything moved on after a restart.
    pub slowest_recovery: Duration,
}

/// How a victim ends.
pub enum VictimEnd {
    /// Killed after so long.
    KilledAfter(Duration),
    /// By itself, at this point, the k-th time it is passed.
    AtFailPoint(&'static str, u64),
}

impl KillCampaign {
    pub fn new(seed: u64, env: Vec<(String, String)>) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("doran-torture-").tempdir();
        Ok(Self {
            ledger: Arc::new(TortureLedger::new(seed, true, Duration::from_millis(6))),
            dir: dir.map_err(|error| format!("no folder to work in: {error}"))?,
            seed,
            round: 0,
            lease: Duration::from_secs(10),
            env,
            recent: VecDeque::new(),
            all: Vec::new(),
            slowest_recovery: Duration::ZERO,
        })
    }

    fn launch_victim(&self, more: &[(String, String)]) -> Result<Arc<VictimProcess>, String> {
        let file: PathBuf = self.dir.path().join("doran.db");
        let launch = VictimLaunch {
            url: format!("sqlite:{}", file.display()),
            lease: self.lease,
            abort_on_failure: true,
            log: &self.dir.path().join("victims.log"),
            env: self.env.iter().chain(more).cloned().collect(),
        };
        VictimProcess::start(&launch, &self.ledger).map(Arc::new)
    }

    /// One victim: it looks at what the last one left, works and dies. `true` when it died where it should.
    pub fn run_one_victim(&mut self, end: &VictimEnd) -> Result<bool, String> {
        self.round += 1;
        let mut rng = SeededRng::for_part(self.seed, self.round);
        let mut env = Vec::new();
        if let VictimEnd::AtFailPoint(point, nth) = end {
            env.push(("DORAN_FAILPOINT".to_owned(), format!("{point}:{nth}")));
            self.lease = Duration::from_secs(if *point == "worker.before_renew" { 1 } else { 10 });
        }
        let victim = self.launch_victim(&env)?;
        if let Err(why) = victim.wait_until_ready() {
            // It may have met its point on the way.
            return match end {
                VictimEnd::AtFailPoint(..) if victim.has_exited() => Ok(aborted_itself(&victim)),
                _ => Err(self.error_with_victim_log(&why)),
            };
        }
        // Every now and then the next kill comes before the last one is dealt with.
        if !rng.chance_percent(25)
            || matches!(end, VictimEnd::AtFailPoint(..)) && self.round.is_multiple_of(2)
        {
            self.wait_and_check(&victim, false)?;
            if rng.chance_percent(60) {
                for thread in self.recent.iter().flatten() {
                    answer_open_questions(
                        &victim,
                        &self.ledger,
                        thread,
                        &mut rng,
                        &format!("{}-a", self.round),
                        UnknownCallPolicy::Settle,
                    );
                }
            }
        }
        let threads: Vec<String> = (0..8).map(|n| format!("r{}-{n}", self.round)).collect();
        self.all.extend(threads.iter().cloned());
        self.recent.push_back(threads.clone());
        if self.recent.len() > RECENT_ROUNDS {
            for thread in self.recent.pop_front().into_iter().flatten() {
                self.ledger.forget_thread(&thread);
            }
        }
        let crowd = TortureClients::new(&self.ledger, threads);
        match end {
            VictimEnd::KilledAfter(time) => std::thread::scope(|scope| {
                let (victim, time) = (&victim, *time);
                scope.spawn(move || {
                    std::thread::sleep(time);
                    victim.kill();
                });
                crowd.run(victim, self.seed, self.round, Duration::from_secs(5));
                Ok(true)
            }),
            VictimEnd::AtFailPoint(..) => {
                crowd.run(&victim, self.seed, self.round, Duration::from_millis(2000));
                let met = aborted_itself(&victim);
                victim.kill();
                Ok(met)
            }
        }
    }

    /// Waits until all rests and compares what is there with the ledger.
    fn wait_and_check(&mut self, victim: &VictimProcess, all: bool) -> Result<(), String> {
        let threads: Vec<String> =
            if all { self.all.clone() } else { self.recent.iter().flatten().cloned().collect() };
        let started = Instant::now();
        let ms = u64::try_from(STUCK_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        // A victim with a fail point may die anywhere, here too.
        let Some(moving) =
            self.ask_unless_dead(victim, VictimRequest::Rest { threads: threads.clone(), ms })?
        else {
            return Ok(());
        };
        self.slowest_recovery = self.slowest_recovery.max(started.elapsed());
        for run in moving.as_array().into_iter().flatten() {
            self.ledger.record_violation(Violation::Stuck, format!("{run} does not move"));
        }
        match consistency_check::check_threads(victim, &threads, &self.ledger) {
            // The end of its output is seen a little earlier than the end of the process.
            Err(why) if victim.wait_for_exit(Duration::from_secs(10)).is_none() => {
                Err(self.error_with_victim_log(&why))
            }
            _ => Ok(()),
        }
    }

    fn ask_unless_dead(
        &self,
        victim: &VictimProcess,
        what: VictimRequest,
    ) -> Result<Option<serde_json::Value>, String> {
        match victim.ask_or_error(what) {
            Ok(value) => Ok(Some(value)),
            Err(_) if victim.has_exited() => Ok(None),
            Err(why) => Err(self.error_with_victim_log(&why)),
        }
    }

    /// The last look: everything is answered and comes to its end.
    pub fn finish(&mut self) -> Result<(), String> {
        self.round += 1;
        self.lease = Duration::from_secs(10);
        let mut rng = SeededRng::for_part(self.seed, self.round);
        let victim = self.launch_victim(&[])?;
        victim.wait_until_ready().map_err(|why| self.error_with_victim_log(&why))?;
        for turn in 0..20 {
            self.wait_and_check(&victim, false)?;
            if !self.ledger.has_no_violations() {
                return Ok(());
            }
            let before = self.ledger.call_count();
            for thread in self.recent.iter().flatten() {
                answer_open_questions(
                    &victim,
                    &self.ledger,
                    thread,
                    &mut rng,
                    &format!("{}-{turn}", self.round),
                    UnknownCallPolicy::Settle,
                );
            }
            victim.ask_or_error(VictimRequest::Rest {
                threads: self.recent.iter().flatten().cloned().collect(),
                ms: 5000,
            })?;
            if self.ledger.call_count() == before {
                break;
            }
        }
        self.wait_and_check(&victim, false)?;
        if let Err(why) = victim.ask_or_error(VictimRequest::Whole) {
            self.ledger.record_violation(Violation::Damaged, why);
        }
        Ok(())
    }

    /// Where the store lies, kept when something was found wrong.
    pub fn keep_store_if_violated(self, figures: &mut TortureReport) {
        if !self.ledger.has_no_violations() {
            let kept_dir = self.dir.keep();
            figures.add_note(format!("the store is kept in {}", kept_dir.display()));
        }
    }

    /// An error with the last words of the victims.
    fn error_with_victim_log(&self, why: &str) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("victims.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        format!("{why} (round {}; output of the victims: {lines:?})", self.round)
    }
}

/// Whether the process ended by its own hand, as it does at a fail point.
fn aborted_itself(victim: &VictimProcess) -> bool {
    const SIGABRT: i32 = 6;
    victim.wait_for_exit(Duration::from_millis(200)).is_some_and(|status| status.signal() == Some(SIGABRT))
}

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let kills = options.kills.unwrap_or(if options.quick { 30 } else { 1000 });
    let mut figures = TortureReport::new("kill", options.seed);
    let started = Instant::now();
    let mut campaign = KillCampaign::new(options.seed, options.mutant_env())?;
    let mut rng = SeededRng::for_part(options.seed, 5);
    let mut done = 0;
    while done < kills && campaign.ledger.has_no_violations() {
        campaign.run_one_victim(&VictimEnd::KilledAfter(Duration::from_micros(rng.below(150_000))))?;
        done += 1;
        if done.is_multiple_of(100) {
            eprintln!("kill      {done} of {kills}");
        }
    }
    if campaign.ledger.has_no_violations()
        && let Err(why) = campaign.finish()
    {
        campaign.ledger.record_violation(Violation::Damaged, why);
    }
    figures.add_number("kills", done);
    figures.take_violations(&campaign.ledger);
    figures.add_number("slowest_restart_ms", campaign.slowest_recovery.as_millis());
    let clean = campaign.ledger.has_no_violations();
    if options.mutant.is_none() {
        campaign.keep_store_if_violated(&mut figures);
    }
    if clean && options.mutant.is_none() {
        kill_at_fail_points(options, &mut figures)?;
    }
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

/// The same at every fail point.
fn kill_at_fail_points(options: &TortureOptions, figures: &mut TortureReport) -> Result<(), String> {
    let times = if options.quick { 1 } else { 20 };
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    let mut campaign = KillCampaign::new(options.seed ^ 1, Vec::new())?;
    let mut rng = SeededRng::for_part(options.seed, 6);
    for point in FAIL_POINTS {
        let count = met.entry(point).or_default();
        for nth in 0..times {
            if point == "migration.mid_transaction" {
                // Only a new file is brought to the newest format.
                let mut fresh = KillCampaign::new(options.seed ^ nth, Vec::new())?;
                *count += u64::from(fresh.run_one_victim(&VictimEnd::AtFailPoint(point, 1))?);
                fresh.run_one_victim(&VictimEnd::KilledAfter(Duration::from_millis(50)))?;
                fresh.finish()?;
                figures.take_violations(&fresh.ledger);
                continue;
            }
            let often = if options.quick || point == "worker.before_renew" { 2 } else { 8 };
            let met = campaign.run_one_victim(&VictimEnd::AtFailPoint(point, 1 + rng.below(often)))?
                || campaign.run_one_victim(&VictimEnd::AtFailPoint(point, 1))?
                || campaign.run_one_victim(&VictimEnd::AtFailPoint(point, 1))?;
            *count += u64::from(met);
            if !campaign.ledger.has_no_violations() {
                break;
            }
        }
    }
    campaign.finish()?;
    figures.take_violations(&campaign.ledger);
    figures.add_number("points", FAIL_POINTS.len());
    figures.add_number("point_kills", met.values().sum::<u64>());
    for (point, count) in &met {
        // A short run may miss one by chance; a long one that does has killed nobody there.
        if *count == 0 && options.quick {
            figures.add_note(format!("fail point {point} was never reached"));
        } else if *count == 0 {
            figures.record_violation(Violation::Stuck, format!("fail point {point} was never reached"));
        }
    }
    figures.add_number("points_never_reached", met.values().filter(|count| **count == 0).count());
    Ok(())
}
