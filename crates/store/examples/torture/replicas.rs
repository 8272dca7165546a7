//! Two replicas on one PostgreSQL: one is killed, put to sleep for longer than its lease, or loses the database in one
//! of several ways, while clients use both. Every thread must keep one total order of steps, and the other replica must
//! take over in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::book::{Book, Broken, Outcome, RUSH, SLOW};
use crate::child::{Birth, Told, Victim, lock};
use crate::clients::{Crowd, Settles, answer_all, outcome};
use crate::pg::{self, Server};
use crate::proxy::{Mode, Proxy};
use crate::report::Figures;
use crate::rng::Rng;
use crate::wire::{Act, Dump, Start, What};
use crate::{Options, check};

/// Faults between two looks.
const BATCH: u64 = 6;

/// What is done to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Sleep,
    Cut,
    CutAfter(u64),
    Delay,
    BlackHole,
    Stop,
}

/// The place where a replica lives, one after another.
struct Slot {
    proxy: Proxy,
    victim: Mutex<Option<Arc<Victim>>>,
    /// Nobody starts it again for now.
    down: AtomicBool,
}

struct Field<'a> {
    book: Arc<Book>,
    slots: Vec<Slot>,
    server: Option<&'a Server>,
    url: Url,
    lease: Duration,
    /// Runs in a hurry before a replica falls asleep.
    rushes: u64,
    env: Vec<(String, String)>,
    dir: tempfile::TempDir,
    takeovers: Mutex<Vec<Duration>>,
    over: AtomicBool,
}

/// The parts of a database's address.
#[derive(Clone)]
struct Url {
    user: String,
    host: String,
    rest: String,
}

/// Runs the torture.
pub fn run(options: &Options) -> Result<Figures, String> {
    let all = [
        Fault::Kill,
        Fault::Sleep,
        Fault::Cut,
        Fault::CutAfter(0),
        Fault::Delay,
        Fault::BlackHole,
        Fault::Stop,
    ];
    if options.quick {
        return series(options, &all, &[(12, 2000)]);
    }
    // The second series has the lease of a real replica, for the time of a takeover.
    let faults = options.kills.unwrap_or(300);
    let slow = (faults / 10).max(1);
    series(options, &all, &[(faults - slow, 1500), (slow, 10_000)])
}

/// Only replicas that sleep and wake up.
pub fn run_zombies(options: &Options) -> Result<Figures, String> {
    series(options, &[Fault::Sleep], &[(12, 1000)])
}

fn series(options: &Options, faults: &[Fault], parts: &[(u64, u64)]) -> Result<Figures, String> {
    let begun = Instant::now();
    let server = Server::start();
    let base = match (&server, std::env::var("DORAN_TEST_POSTGRES")) {
        (Ok(server), _) => server.tcp_url(pg::PASSWORD),
        (Err(_), Ok(url)) => url,
        (Err(why), Err(_)) => {
            let why = format!("no PostgreSQL: {why}");
            return Ok(Figures::skipped("replicas", options.seed, why));
        }
    };
    let mut figures = Figures::new("replicas", options.seed);
    let mut takeovers = [Vec::new(), Vec::new()];
    for (part, (count, lease)) in parts.iter().enumerate() {
        let field = Field::new(options, server.as_ref().ok(), &base, Duration::from_millis(*lease))?;
        let done = field.torture(options, faults, *count, part as u64)?;
        figures.add("faults", done);
        figures.add("kills", done);
        figures.take(&field.book);
        takeovers[usize::from(*lease > 5000)].extend(lock(&field.takeovers).iter().copied());
        if !field.book.is_clean() {
            break;
        }
    }
    for (name, times) in ["", "_10s_lease"].into_iter().zip(&mut takeovers) {
        times.sort();
        if times.is_empty() && !options.quick && figures.holds() {
            figures.wrong(Broken::Stuck, format!("no takeover was measured{name}"));
        }
        if let Some(last) = times.last() {
            let at = |share: usize| times.get(times.len() * share / 100).unwrap_or(last).as_millis();
            figures.add(&format!("takeovers{name}"), times.len());
            figures.add(&format!("takeover{name}_p50_ms"), at(50));
            figures.add(&format!("takeover{name}_p99_ms"), at(99));
            figures.add(&format!("takeover{name}_max_ms"), last.as_millis());
            // A lease of 10 s or less, the look for runs that nobody holds, and some time on a busy machine.
            if last.as_secs() >= 15 {
                figures.wrong(Broken::Stuck, format!("a takeover took {last:?}"));
            }
        }
    }
    figures.add("seconds", begun.elapsed().as_secs());
    Ok(figures)
}

impl<'a> Field<'a> {
    fn new(
        options: &Options,
        server: Option<&'a Server>,
        base: &str,
        lease: Duration,
    ) -> Result<Self, String> {
        let url = Url::parse(&pg::with_schema(base, &pg::fresh_name()))?;
        let to: SocketAddr =
            url.host.parse().map_err(|_| format!("`{}` is no address and port", url.host))?;
        let slot = || {
            let proxy = Proxy::start(to)?;
            Ok::<_, String>(Slot { proxy, victim: Mutex::default(), down: AtomicBool::new(false) })
        };
        Ok(Self {
            book: Arc::new(Book::new(options.seed, false, Duration::from_millis(8))),
            slots: vec![slot()?, slot()?],
            server,
            url,
            lease,
            rushes: if options.mutant.is_some() { 20 } else { 4 },
            env: options.mutant_env(),
            dir: tempfile::Builder::new()
                .prefix("doran-torture-")
                .tempdir()
                .map_err(|error| error.to_string())?,
            takeovers: Mutex::default(),
            over: AtomicBool::new(false),
        })
    }

    /// Gives the number of faults done.
    fn torture(&self, options: &Options, faults: &[Fault], count: u64, part: u64) -> Result<u64, String> {
        std::thread::scope(|scope| {
            for slot in &self.slots {
                scope.spawn(|| self.keep_alive(slot));
            }
            let done = self.batches(options, faults, count, part);
            self.over.store(true, Ordering::SeqCst);
            done
        })
    }

    fn batches(&self, options: &Options, faults: &[Fault], count: u64, part: u64) -> Result<u64, String> {
        let mut rng = Rng::part(options.seed, 900 + part);
        let mut done = 0;
        let mut batch = part * 10_000;
        while done < count && self.book.is_clean() {
            batch += 1;
            self.everybody()?;
            let size = BATCH.min(count - done);
            let chosen: Vec<Fault> = (0..size)
                .filter_map(|n| {
                    faults.get(usize::try_from((done + n) % faults.len() as u64).unwrap_or(0)).copied()
                })
                .collect();
            self.batch(options.seed, batch, &chosen, &mut rng)?;
            done += size;
            if done.is_multiple_of(60) {
                eprintln!("replicas  {done} of {count}");
            }
        }
        Ok(done)
    }

    /// Clients at work on both replicas, faults meanwhile; then all is healed and looked at.
    fn batch(&self, seed: u64, batch: u64, faults: &[Fault], rng: &mut Rng) -> Result<(), String> {
        let threads: Vec<String> = (0..4).map(|n| format!("b{batch}-{n}")).collect();
        let mut crowd = Crowd::new(&self.book, threads.clone());
        (crowd.pause, crowd.settles) = (Duration::from_millis(40), Settles::No);
        let busy = AtomicBool::new(true);
        let mut all = threads;
        let did: Result<(), String> = std::thread::scope(|scope| {
            let pick = |rng: &mut Rng| loop {
                if !busy.load(Ordering::SeqCst) {
                    return None;
                }
                let slot = rng.pick(&self.slots)?;
                if let Some(victim) = lock(&slot.victim).clone()
                    && !slot.down.load(Ordering::SeqCst)
                {
                    return Some(victim);
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            let crowd = &crowd;
            let clients = scope.spawn(move || crowd.run_on(&pick, seed, batch));
            let mut did = Ok(());
            for (n, fault) in faults.iter().enumerate() {
                did = self.fault(*fault, &format!("{batch}-{n}"), rng, &mut all);
                if did.is_err() || !self.book.is_clean() {
                    break;
                }
            }
            busy.store(false, Ordering::SeqCst);
            clients.join().ok();
            did
        });
        did?;
        self.settle(batch, rng, &all)
    }

    fn fault(&self, fault: Fault, name: &str, rng: &mut Rng, all: &mut Vec<String>) -> Result<(), String> {
        let place = usize::try_from(rng.below(2)).unwrap_or_default();
        let slot = &self.slots[place];
        let Some(victim) = self.living(slot) else { return Err("a replica does not start".into()) };
        std::thread::sleep(Duration::from_millis(rng.below(200)));
        match fault {
            Fault::Kill | Fault::Sleep => {
                if fault == Fault::Sleep {
                    self.rush(&victim, name, all);
                }
                let probes = self.probe(&victim, name, all);
                slot.down.store(true, Ordering::SeqCst);
                let begun = Instant::now();
                if fault == Fault::Kill {
                    victim.kill();
                } else {
                    victim.signal("STOP")?;
                }
                let longest = self.lease + Duration::from_secs(5);
                self.measure(&probes, victim.life, begun, longest);
                if fault == Fault::Sleep {
                    let rest = (self.lease * 3 / 2).saturating_sub(begun.elapsed());
                    std::thread::sleep(rest);
                    victim.signal("CONT")?;
                }
                slot.down.store(false, Ordering::SeqCst);
            }
            Fault::Cut => slot.proxy.cut(),
            Fault::CutAfter(_) => slot.proxy.cut_after(1 + rng.below(20_000)),
            Fault::Delay => {
                slot.proxy.set(Mode::Delay(Duration::from_millis(20 + rng.below(200))));
                std::thread::sleep(self.lease / 2);
                slot.proxy.set(Mode::Pass);
            }
            Fault::BlackHole => {
                slot.proxy.set(Mode::BlackHole);
                std::thread::sleep(self.lease * 3 / 2);
                slot.proxy.cut();
                slot.proxy.set(Mode::Pass);
            }
            Fault::Stop => match self.server {
                Some(server) => {
                    server.stop()?;
                    std::thread::sleep(Duration::from_millis(300));
                    server.go()?;
                }
                // Somebody else's server is left alone.
                None => self.slots.iter().for_each(|slot| slot.proxy.cut()),
            },
        }
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// Starts runs that are about to pay when the replica falls asleep. When it wakes up, the other one has paid.
    fn rush(&self, victim: &Victim, name: &str, all: &mut Vec<String>) {
        let starts: Vec<Start> = (0..self.rushes)
            .map(|n| Start {
                thread: format!("q{name}-{n}"),
                token: format!("{RUSH}{name}-{n}"),
                plan: [Act::Mix].repeat(6),
                if_busy: 0,
                key: None,
                load: 0,
            })
            .collect();
        let pending: Vec<_> = starts.iter().map(|start| victim.send(What::Start(start.clone()))).collect();
        for (start, pending) in starts.into_iter().zip(pending) {
            self.book.started(&start, outcome(pending.wait()));
            all.push(start.thread);
        }
    }

    /// Starts slow runs on a replica, so that there is something to take over.
    fn probe(&self, victim: &Victim, name: &str, all: &mut Vec<String>) -> Vec<String> {
        let mut probes = Vec::new();
        for n in 0..2 {
            let start = Start {
                thread: format!("p{name}-{n}"),
                token: format!("{SLOW}{name}-{n}"),
                plan: [Act::Read].repeat(60),
                if_busy: 0,
                key: None,
                load: 0,
            };
            let told = outcome(victim.ask(What::Start(start.clone())));
            self.book.started(&start, told.clone());
            all.push(start.thread.clone());
            if matches!(told, Outcome::Acknowledged(_)) {
                probes.push(start.thread);
            }
        }
        std::thread::sleep(Duration::from_millis(150));
        probes.retain(|thread| self.book.moves(thread, victim.life));
        probes
    }

    /// Waits until other lives move the probes.
    fn measure(&self, probes: &[String], life: u32, begun: Instant, longest: Duration) {
        for thread in probes {
            let taken = loop {
                match self.book.taken_over(thread, life, begun) {
                    Some(at) => break Some(at - begun),
                    None if begun.elapsed() > longest => break None,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            match taken {
                Some(time) => lock(&self.takeovers).push(time),
                None => self.book.wrong(Broken::Stuck, format!("nobody took {thread} over in {longest:?}")),
            }
        }
    }

    /// Everything is healed: all comes to rest, what is unknown is settled, and the logs are read.
    fn settle(&self, batch: u64, rng: &mut Rng, threads: &[String]) -> Result<(), String> {
        self.everybody()?;
        let patience = self.lease * 2 + Duration::from_secs(8);
        let ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        for turn in 0..3 {
            let moving = self.must(&What::Rest { threads: threads.to_vec(), ms })?;
            for run in moving.as_array().into_iter().flatten() {
                self.book.wrong(Broken::Stuck, format!("{run} does not move"));
            }
            if let Some(victim) = self.living(&self.slots[0]) {
                for thread in threads {
                    let name = format!("{batch}-s{turn}");
                    answer_all(&victim, &self.book, thread, rng, &name, Settles::Yes);
                }
            }
        }
        self.must(&What::Rest { threads: threads.to_vec(), ms })?;
        for thread in threads {
            let dump = self.must(&What::Dump { thread: thread.clone() });
            let dump: Dump = match dump {
                Ok(dump) => serde_json::from_value(dump).map_err(|error| error.to_string())?,
                Err(why) if why.contains("not_found") => Dump::empty(),
                Err(why) => return Err(why),
            };
            check::thread(thread, &dump, &self.book);
            self.book.forget(thread);
        }
        Ok(())
    }

    /// Asks any replica until one answers.
    fn must(&self, what: &What) -> Result<serde_json::Value, String> {
        let begun = Instant::now();
        loop {
            let mut why = "no replica".to_owned();
            for slot in &self.slots {
                let Some(victim) = self.living(slot) else { continue };
                match victim.ask(what.clone()) {
                    Told::Ok(value) => return Ok(value),
                    Told::Refused(refusal) if refusal.code == "not_found" => return Err(refusal.code),
                    Told::Refused(refusal) => why = format!("{}: {}", refusal.code, refusal.message),
                    Told::Nothing => why = "it is gone".into(),
                }
            }
            if begun.elapsed() > Duration::from_secs(40) {
                return Err(format!("{what:?}: {why}"));
            }
        }
    }

    /// Waits until both replicas live.
    fn everybody(&self) -> Result<(), String> {
        for slot in &self.slots {
            if self.living(slot).is_none() {
                let log = std::fs::read_to_string(self.dir.path().join("victims.log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(format!("a replica does not start: {lines:?}"));
            }
        }
        Ok(())
    }

    /// The replica in a slot, once it is ready.
    fn living(&self, slot: &Slot) -> Option<Arc<Victim>> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(40) {
            if let Some(victim) = lock(&slot.victim).clone()
                && !victim.is_over()
            {
                return Some(victim);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Starts a replica again whenever it is gone, as a supervisor does.
    fn keep_alive(&self, slot: &Slot) {
        while !self.over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
            let gone = lock(&slot.victim).as_ref().is_none_or(|victim| victim.is_over());
            if !gone || slot.down.load(Ordering::SeqCst) {
                continue;
            }
            let birth = Birth {
                url: self.url.through(slot.proxy.port),
                lease: self.lease,
                hard: true,
                log: &self.dir.path().join("victims.log"),
                env: self.env.clone(),
            };
            // A replica that cannot reach the database ends by itself and is started again.
            if let Ok(victim) = Victim::start(&birth, &self.book)
                && victim.ready().is_ok()
            {
                *lock(&slot.victim) = Some(Arc::new(victim));
            }
        }
        *lock(&slot.victim) = None;
    }
}

impl Url {
    fn parse(url: &str) -> Result<Self, String> {
        let bad =
            || "the address of PostgreSQL must be postgres://USER:PASSWORD@ADDRESS:PORT/DATABASE".to_owned();
        let (_, behind) = url.split_once("://").ok_or_else(bad)?;
        let (user, behind) = behind.split_once('@').ok_or_else(bad)?;
        let (host, rest) = behind.split_once('/').ok_or_else(bad)?;
        Ok(Self { user: user.into(), host: host.replace("localhost", "127.0.0.1"), rest: rest.into() })
    }

    fn through(&self, port: u16) -> String {
        format!("postgres://{}@127.0.0.1:{port}/{}", self.user, self.rest)
    }
}
