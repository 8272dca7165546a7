//! The kill loop: a victim on SQLite is used by eight clients at once, killed at some instant, started again, and what
//! it holds is compared with the book. Then the same at every fail point.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::book::{Book, Broken};
use crate::child::{Birth, Victim};
use crate::clients::{Crowd, Settles, answer_all};
use crate::report::Figures;
use crate::rng::Rng;
use crate::wire::What;
use crate::{Options, check};

/// Points at which a victim ends itself, with the clients' work that passes them.
///
/// Of the names that the tests know, `llm.*` and `ingest.*` belong to parts that do not run here.
pub const POINTS: [&str; 20] = [
    "api.before_accept_commit",
    "api.after_accept_commit",
    "api.before_reply",
    "sched.after_claim",
    "sched.before_renew",
    "node.before_start",
    "tool.before_intent",
    "tool.after_intent",
    "tool.after_effect",
    "tool.before_result",
    "cp.before_begin",
    "cp.mid_write",
    "cp.before_commit",
    "cp.after_commit",
    "event.before_publish",
    "interrupt.after_commit",
    "resume.before_consume",
    "resume.after_consume",
    "cancel.after_commit",
    "migrate.mid",
];

/// How long a run may stand still after a restart.
const STUCK: Duration = Duration::from_secs(5);

/// Rounds whose threads are looked at after each kill.
const WINDOW: usize = 3;

/// A series of lives on one store.
pub struct Campaign {
    pub book: Arc<Book>,
    dir: tempfile::TempDir,
    seed: u64,
    round: u64,
    lease: Duration,
    env: Vec<(String, String)>,
    recent: VecDeque<Vec<String>>,
    all: Vec<String>,
    /// How long it took until everything moved on after a restart.
    pub slowest: Duration,
}

/// How a life ends.
pub enum End {
    /// Killed after so long.
    After(Duration),
    /// By itself, at this point, the k-th time it is passed.
    At(&'static str, u64),
}

impl Campaign {
    pub fn new(seed: u64, env: Vec<(String, String)>) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("doran-torture-").tempdir();
        Ok(Self {
            book: Arc::new(Book::new(seed, true, Duration::from_millis(6))),
            dir: dir.map_err(|error| format!("no folder to work in: {error}"))?,
            seed,
            round: 0,
            lease: Duration::from_secs(10),
            env,
            recent: VecDeque::new(),
            all: Vec::new(),
            slowest: Duration::ZERO,
        })
    }

    fn birth(&self, more: &[(String, String)]) -> Result<Arc<Victim>, String> {
        let file: PathBuf = self.dir.path().join("doran.db");
        let birth = Birth {
            url: format!("sqlite:{}", file.display()),
            lease: self.lease,
            hard: true,
            log: &self.dir.path().join("victims.log"),
            env: self.env.iter().chain(more).cloned().collect(),
        };
        Victim::start(&birth, &self.book).map(Arc::new)
    }

    /// One life: look at what the last one left, work, die. `true` when it died where it should.
    pub fn life(&mut self, end: &End) -> Result<bool, String> {
        self.round += 1;
        let mut rng = Rng::part(self.seed, self.round);
        let mut env = Vec::new();
        if let End::At(point, nth) = end {
            env.push(("DORAN_FAILPOINT".to_owned(), format!("{point}:{nth}")));
            self.lease = Duration::from_secs(if *point == "sched.before_renew" { 1 } else { 10 });
        }
        let victim = self.birth(&env)?;
        if let Err(why) = victim.ready() {
            // It may have met its point on the way.
            return match end {
                End::At(..) if victim.is_over() => Ok(died_by_itself(&victim)),
                _ => Err(self.told(&why)),
            };
        }
        // Every now and then the next kill comes before the last one is dealt with.
        if !rng.chance(25) || matches!(end, End::At(..)) && self.round.is_multiple_of(2) {
            self.look(&victim, false)?;
            if rng.chance(60) {
                for thread in self.recent.iter().flatten() {
                    answer_all(
                        &victim,
                        &self.book,
                        thread,
                        &mut rng,
                        &format!("{}-a", self.round),
                        Settles::Yes,
                    );
                }
            }
        }
        let threads: Vec<String> = (0..3).map(|n| format!("r{}-{n}", self.round)).collect();
        self.all.extend(threads.iter().cloned());
        self.recent.push_back(threads.clone());
        if self.recent.len() > WINDOW {
            for thread in self.recent.pop_front().into_iter().flatten() {
                self.book.forget(&thread);
            }
        }
        let crowd = Crowd::new(&self.book, threads);
        match end {
            End::After(time) => std::thread::scope(|scope| {
                let (victim, time) = (&victim, *time);
                scope.spawn(move || {
                    std::thread::sleep(time);
                    victim.kill();
                });
                crowd.run(victim, self.seed, self.round, Duration::from_secs(5));
                Ok(true)
            }),
            End::At(..) => {
                crowd.run(&victim, self.seed, self.round, Duration::from_millis(2000));
                let met = died_by_itself(&victim);
                victim.kill();
                Ok(met)
            }
        }
    }

    /// Waits until all rests and compares what is there with the book.
    fn look(&mut self, victim: &Victim, all: bool) -> Result<(), String> {
        let threads: Vec<String> =
            if all { self.all.clone() } else { self.recent.iter().flatten().cloned().collect() };
        let begun = Instant::now();
        let ms = u64::try_from(STUCK.as_millis()).unwrap_or(u64::MAX);
        // A victim with a fail point may die anywhere, here too.
        let Some(moving) = self.ask(victim, What::Rest { threads: threads.clone(), ms })? else {
            return Ok(());
        };
        self.slowest = self.slowest.max(begun.elapsed());
        for run in moving.as_array().into_iter().flatten() {
            self.book.wrong(Broken::Stuck, format!("{run} does not move"));
        }
        match check::threads(victim, &threads, &self.book) {
            // The end of its output is seen a little earlier than the end of the process.
            Err(why) if victim.over_within(Duration::from_secs(1)).is_none() => Err(self.told(&why)),
            _ => Ok(()),
        }
    }

    fn ask(&self, victim: &Victim, what: What) -> Result<Option<serde_json::Value>, String> {
        match victim.must(what) {
            Ok(value) => Ok(Some(value)),
            Err(_) if victim.is_over() => Ok(None),
            Err(why) => Err(self.told(&why)),
        }
    }

    /// The last look: everything is answered and comes to its end.
    pub fn finish(&mut self) -> Result<(), String> {
        self.round += 1;
        self.lease = Duration::from_secs(10);
        let mut rng = Rng::part(self.seed, self.round);
        let victim = self.birth(&[])?;
        victim.ready().map_err(|why| self.told(&why))?;
        for turn in 0..20 {
            self.look(&victim, false)?;
            if !self.book.is_clean() {
                return Ok(());
            }
            let before = self.book.deeds();
            for thread in self.recent.iter().flatten() {
                answer_all(
                    &victim,
                    &self.book,
                    thread,
                    &mut rng,
                    &format!("{}-{turn}", self.round),
                    Settles::Yes,
                );
            }
            victim.must(What::Rest { threads: self.recent.iter().flatten().cloned().collect(), ms: 5000 })?;
            if self.book.deeds() == before {
                break;
            }
        }
        self.look(&victim, false)?;
        if let Err(why) = victim.must(What::Whole) {
            self.book.wrong(Broken::Damaged, why);
        }
        Ok(())
    }

    /// Where the store lies, kept when something was found wrong.
    pub fn keep_if_wrong(self, figures: &mut Figures) {
        if !self.book.is_clean() {
            let kept = self.dir.keep();
            figures.note(format!("the store is kept in {}", kept.display()));
        }
    }

    /// An error with the last words of the victims.
    fn told(&self, why: &str) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("victims.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        format!("{why} (round {}; the victims said: {lines:?})", self.round)
    }
}

/// Whether the process ended by its own hand, as it does at a fail point.
fn died_by_itself(victim: &Victim) -> bool {
    const SIGABRT: i32 = 6;
    victim.over_within(Duration::from_millis(200)).is_some_and(|status| status.signal() == Some(SIGABRT))
}

/// Runs the torture.
pub fn run(options: &Options) -> Result<Figures, String> {
    let kills = options.kills.unwrap_or(if options.quick { 30 } else { 1000 });
    let mut figures = Figures::new("kill", options.seed);
    let begun = Instant::now();
    let mut campaign = Campaign::new(options.seed, options.mutant_env())?;
    let mut rng = Rng::part(options.seed, 5);
    let mut done = 0;
    while done < kills && campaign.book.is_clean() {
        campaign.life(&End::After(Duration::from_micros(rng.below(150_000))))?;
        done += 1;
        if done.is_multiple_of(100) {
            eprintln!("kill      {done} of {kills}");
        }
    }
    if campaign.book.is_clean()
        && let Err(why) = campaign.finish()
    {
        campaign.book.wrong(Broken::Damaged, why);
    }
    figures.add("kills", done);
    figures.take(&campaign.book);
    figures.add("slowest_restart_ms", campaign.slowest.as_millis());
    let clean = campaign.book.is_clean();
    if options.mutant.is_none() {
        campaign.keep_if_wrong(&mut figures);
    }
    if clean && options.mutant.is_none() {
        points(options, &mut figures)?;
    }
    figures.add("seconds", begun.elapsed().as_secs());
    Ok(figures)
}

/// The same at every fail point.
fn points(options: &Options, figures: &mut Figures) -> Result<(), String> {
    let times = if options.quick { 1 } else { 20 };
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    let mut campaign = Campaign::new(options.seed ^ 1, Vec::new())?;
    let mut rng = Rng::part(options.seed, 6);
    for point in POINTS {
        let count = met.entry(point).or_default();
        for nth in 0..times {
            if point == "migrate.mid" {
                // Only a new file is brought to the newest format.
                let mut fresh = Campaign::new(options.seed ^ nth, Vec::new())?;
                *count += u64::from(fresh.life(&End::At(point, 1))?);
                fresh.life(&End::After(Duration::from_millis(50)))?;
                fresh.finish()?;
                figures.take(&fresh.book);
                continue;
            }
            let often = if options.quick || point == "sched.before_renew" { 2 } else { 8 };
            let met = campaign.life(&End::At(point, 1 + rng.below(often)))?
                || campaign.life(&End::At(point, 1))?
                || campaign.life(&End::At(point, 1))?;
            *count += u64::from(met);
            if !campaign.book.is_clean() {
                break;
            }
        }
    }
    campaign.finish()?;
    figures.take(&campaign.book);
    figures.add("points", POINTS.len());
    figures.add("point_kills", met.values().sum::<u64>());
    for (point, count) in &met {
        // A short run may miss one by chance; a long one that does has killed nobody there.
        if *count == 0 && options.quick {
            figures.note(format!("fail point {point} was never reached"));
        } else if *count == 0 {
            figures.wrong(Broken::Stuck, format!("fail point {point} was never reached"));
        }
    }
    figures.add("points_never_reached", met.values().filter(|count| **count == 0).count());
    Ok(())
}
