//! Two replicas on one PostgreSQL: one is killed, put to sleep for longer than its lease, or loses the database in one
//! of several ways, while clients use both. Every thread must keep one total order of steps, and the other replica must
//! take over in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fault_proxy::{FaultProxy, FaultProxyMode};
use crate::ledger::{RequestOutcome, SLOW_POST_TOKEN_PREFIX, SLOW_TOKEN_PREFIX, TortureLedger, Violation};
use crate::postgres_server::{self, TestPostgresServer};
use crate::report::TortureReport;
use crate::seeded_rng::SeededRng;
use crate::torture_clients::{TortureClients, UnknownCallPolicy, answer_open_questions, request_outcome};
use crate::victim_process::{VictimLaunch, VictimProcess, VictimReply, lock_ignoring_poison};
use crate::victim_protocol::{PlannedAction, ThreadDump, VictimRequest, VictimStartRequest};
use crate::{TortureOptions, consistency_check};

/// Faults between two looks.
const FAULTS_PER_BATCH: u64 = 6;

/// What is done to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicaFault {
    Kill,
    Sleep,
    CutConnections,
    CutConnectionsAfterBytes(u64),
    Delay,
    BlackHole,
    RestartDatabase,
}

/// A slot for a replica; processes follow each other in it.
struct ReplicaSlot {
    proxy: FaultProxy,
    victim: Mutex<Option<Arc<VictimProcess>>>,
    /// Nobody starts it again for now.
    down: AtomicBool,
}

struct ReplicaCluster<'a> {
    ledger: Arc<TortureLedger>,
    slots: Vec<ReplicaSlot>,
    server: Option<&'a TestPostgresServer>,
    url: TortureDatabaseUrl,
    lease: Duration,
    /// Runs in a hurry before a replica falls asleep.
    runs_before_sleep: u64,
    env: Vec<(String, String)>,
    dir: tempfile::TempDir,
    takeovers: Mutex<Vec<Duration>>,
    /// The database was stopped hard since threads were last looked at.
    database_stopped: AtomicBool,
    finished: AtomicBool,
}

/// The parts of a database's address.
#[derive(Clone)]
struct TortureDatabaseUrl {
    user: String,
    host: String,
    rest: String,
}

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let all = [
        ReplicaFault::Kill,
        ReplicaFault::Sleep,
        ReplicaFault::CutConnections,
        ReplicaFault::CutConnectionsAfterBytes(0),
        ReplicaFault::Delay,
        ReplicaFault::BlackHole,
        ReplicaFault::RestartDatabase,
    ];
    if options.quick {
        return run_series(options, &all, &[(12, 2000)]);
    }
    // The second series has the lease of a real replica, for the time of a takeover.
    let faults = options.kills.unwrap_or(300);
    let slow = (faults / 10).max(1);
    run_series(options, &all, &[(faults - slow, 1500), (slow, 10_000)])
}

/// Only replicas that sleep and wake up.
pub fn run_sleeping_replicas(options: &TortureOptions) -> Result<TortureReport, String> {
    run_series(options, &[ReplicaFault::Sleep], &[(12, 1000)])
}

fn run_series(
    options: &TortureOptions,
    faults: &[ReplicaFault],
    parts: &[(u64, u64)],
) -> Result<TortureReport, String> {
    let started = Instant::now();
    let server = TestPostgresServer::start();
    let base = match (&server, std::env::var("DORAN_TEST_POSTGRES")) {
        (Ok(server), _) => server.tcp_url(postgres_server::PASSWORD),
        (Err(_), Ok(url)) => url,
        (Err(why), Err(_)) => {
            let why = format!("no PostgreSQL: {why}");
            return Ok(TortureReport::skipped("replicas", options.seed, why));
        }
    };
    let mut figures = TortureReport::new("replicas", options.seed);
    let mut takeovers = [Vec::new(), Vec::new()];
    for (part, (count, lease)) in parts.iter().enumerate() {
        let field = ReplicaCluster::new(options, server.as_ref().ok(), &base, Duration::from_millis(*lease))?;
        let done = field.run_faults(options, faults, *count, part as u64)?;
        figures.add_number("faults", done);
        figures.add_number("kills", done);
        figures.take_violations(&field.ledger);
        takeovers[usize::from(*lease > 5000)].extend(lock_ignoring_poison(&field.takeovers).iter().copied());
        if !field.ledger.has_no_violations() {
            break;
        }
    }
    for (name, times) in ["", "_10s_lease"].into_iter().zip(&mut takeovers) {
        times.sort();
        if times.is_empty() && !options.quick && figures.has_no_violations() {
            figures.record_violation(Violation::Stuck, format!("no takeover was measured{name}"));
        }
        if let Some(last) = times.last() {
            let at = |share: usize| times.get(times.len() * share / 100).unwrap_or(last).as_millis();
            figures.add_number(&format!("takeovers{name}"), times.len());
            figures.add_number(&format!("takeover{name}_p50_ms"), at(50));
            figures.add_number(&format!("takeover{name}_p99_ms"), at(99));
            figures.add_number(&format!("takeover{name}_max_ms"), last.as_millis());
            // A lease of 10 s or less, the look for runs that nobody holds, and much time on a busy machine.
            if last.as_secs() >= 60 {
                figures.record_violation(Violation::Stuck, format!("a takeover took {last:?}"));
            }
        }
    }
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

impl<'a> ReplicaCluster<'a> {
    fn new(
        options: &TortureOptions,
        server: Option<&'a TestPostgresServer>,
        base: &str,
        lease: Duration,
    ) -> Result<Self, String> {
        let url = TortureDatabaseUrl::parse(&postgres_server::with_schema(
            base,
            &postgres_server::fresh_schema_name(),
        ))?;
        let to: SocketAddr =
            url.host.parse().map_err(|_| format!("`{}` is no address and port", url.host))?;
        let slot = || {
            let proxy = FaultProxy::start(to)?;
            Ok::<_, String>(ReplicaSlot { proxy, victim: Mutex::default(), down: AtomicBool::new(false) })
        };
        Ok(Self {
            ledger: Arc::new(TortureLedger::new(options.seed, false, Duration::from_millis(8))),
            slots: vec![slot()?, slot()?],
            server,
            url,
            lease,
            runs_before_sleep: if options.mutant.is_some() { 20 } else { 4 },
            env: options.mutant_env(),
            dir: tempfile::Builder::new()
                .prefix("doran-torture-")
                .tempdir()
                .map_err(|error| error.to_string())?,
            takeovers: Mutex::default(),
            database_stopped: AtomicBool::new(false),
            finished: AtomicBool::new(false),
        })
    }

    /// Gives the number of faults done.
    fn run_faults(
        &self,
        options: &TortureOptions,
        faults: &[ReplicaFault],
        count: u64,
        part: u64,
    ) -> Result<u64, String> {
        std::thread::scope(|scope| {
            for slot in &self.slots {
                scope.spawn(|| self.restart_when_dead(slot));
            }
            let done = self.run_batches(options, faults, count, part);
            self.finished.store(true, Ordering::SeqCst);
            done
        })
    }

    fn run_batches(
        &self,
        options: &TortureOptions,
        faults: &[ReplicaFault],
        count: u64,
        part: u64,
    ) -> Result<u64, String> {
        let mut rng = SeededRng::for_part(options.seed, 900 + part);
        let mut done = 0;
        let mut batch = part * 10_000;
        while done < count && self.ledger.has_no_violations() {
            batch += 1;
            self.wait_for_all_replicas()?;
            let size = FAULTS_PER_BATCH.min(count - done);
            let chosen: Vec<ReplicaFault> = (0..size)
                .filter_map(|n| {
                    faults.get(usize::try_from((done + n) % faults.len() as u64).unwrap_or(0)).copied()
                })
                .collect();
            self.run_batch(options.seed, batch, &chosen, &mut rng)?;
            done += size;
            if done.is_multiple_of(60) {
                eprintln!("replicas  {done} of {count}");
            }
        }
        Ok(done)
    }

    /// Clients at work on both replicas, faults meanwhile; then all is healed and looked at.
    fn run_batch(
        &self,
        seed: u64,
        batch: u64,
        faults: &[ReplicaFault],
        rng: &mut SeededRng,
    ) -> Result<(), String> {
        let threads: Vec<String> = (0..4).map(|n| format!("b{batch}-{n}")).collect();
        let mut crowd = TortureClients::new(&self.ledger, threads.clone());
        (crowd.pause, crowd.unknown_calls) = (Duration::from_millis(40), UnknownCallPolicy::LeaveOpen);
        let busy = AtomicBool::new(true);
        let mut all = threads;
        let did: Result<(), String> = std::thread::scope(|scope| {
            let pick = |rng: &mut SeededRng| loop {
                if !busy.load(Ordering::SeqCst) {
                    return None;
                }
                let slot = rng.pick(&self.slots)?;
                if let Some(victim) = lock_ignoring_poison(&slot.victim).clone()
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
                did = self.inject_fault(*fault, &format!("{batch}-{n}"), rng, &mut all);
                if did.is_err() || !self.ledger.has_no_violations() {
                    break;
                }
            }
            busy.store(false, Ordering::SeqCst);
            clients.join().ok();
            did
        });
        did?;
        self.heal_and_check(batch, rng, &all)
    }

    fn inject_fault(
        &self,
        fault: ReplicaFault,
        name: &str,
        rng: &mut SeededRng,
        all: &mut Vec<String>,
    ) -> Result<(), String> {
        let place = usize::try_from(rng.below(2)).unwrap_or_default();
        let slot = &self.slots[place];
        let Some(victim) = self.wait_for_replica(slot) else { return Err("a replica does not start".into()) };
        std::thread::sleep(Duration::from_millis(rng.below(200)));
        match fault {
            ReplicaFault::Kill | ReplicaFault::Sleep => {
                if fault == ReplicaFault::Sleep {
                    self.start_runs_before_sleep(&victim, name, all);
                }
                let probes = self.start_slow_runs(&victim, name, all);
                slot.down.store(true, Ordering::SeqCst);
                let started = Instant::now();
                if fault == ReplicaFault::Kill {
                    victim.kill();
                } else {
                    victim.signal("STOP")?;
                }
                let longest = self.lease + Duration::from_secs(60);
                self.measure_takeovers(&probes, victim.process_number, started, longest);
                if fault == ReplicaFault::Sleep {
                    let rest = (self.lease * 3 / 2).saturating_sub(started.elapsed());
                    std::thread::sleep(rest);
                    victim.signal("CONT")?;
                }
                slot.down.store(false, Ordering::SeqCst);
            }
            ReplicaFault::CutConnections => slot.proxy.cut(),
            ReplicaFault::CutConnectionsAfterBytes(_) => slot.proxy.cut_after(1 + rng.below(20_000)),
            ReplicaFault::Delay => {
                slot.proxy.set(FaultProxyMode::Delay(Duration::from_millis(20 + rng.below(200))));
                std::thread::sleep(self.lease / 2);
                slot.proxy.set(FaultProxyMode::Pass);
            }
            ReplicaFault::BlackHole => {
                slot.proxy.set(FaultProxyMode::BlackHole);
                std::thread::sleep(self.lease * 3 / 2);
                slot.proxy.cut();
                slot.proxy.set(FaultProxyMode::Pass);
            }
            ReplicaFault::RestartDatabase => match self.server {
                Some(server) => {
                    server.stop_immediately()?;
                    self.database_stopped.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(300));
                    server.start_process()?;
                }
                // Somebody else's server is left alone.
                None => self.slots.iter().for_each(|slot| slot.proxy.cut()),
            },
        }
        std::thread::sleep(Duration::from_millis(100));
        Ok(())
    }

    /// Starts runs that are about to pay when the replica falls asleep. When it wakes up, the other one has paid.
    fn start_runs_before_sleep(&self, victim: &VictimProcess, name: &str, all: &mut Vec<String>) {
        let starts: Vec<VictimStartRequest> = (0..self.runs_before_sleep)
            .map(|n| VictimStartRequest {
                thread: format!("q{name}-{n}"),
                token: format!("{SLOW_POST_TOKEN_PREFIX}{name}-{n}"),
                plan: [PlannedAction::Mix].repeat(6),
                if_busy: 0,
                key: None,
                load: 0,
                waits: false,
            })
            .collect();
        let pending: Vec<_> =
            starts.iter().map(|start| victim.send(VictimRequest::Start(start.clone()))).collect();
        for (start, pending) in starts.into_iter().zip(pending) {
            self.ledger.record_start(&start, request_outcome(pending.wait()));
            all.push(start.thread);
        }
    }

    /// Starts slow runs on a replica, so that there is something to take over.
    fn start_slow_runs(&self, victim: &VictimProcess, name: &str, all: &mut Vec<String>) -> Vec<String> {
        let mut probes = Vec::new();
        for n in 0..2 {
            let start = VictimStartRequest {
                thread: format!("p{name}-{n}"),
                token: format!("{SLOW_TOKEN_PREFIX}{name}-{n}"),
                plan: [PlannedAction::Read].repeat(60),
                if_busy: 0,
                key: None,
                load: 0,
                waits: false,
            };
            let outcome = request_outcome(victim.ask(VictimRequest::Start(start.clone())));
            self.ledger.record_start(&start, outcome.clone());
            all.push(start.thread.clone());
            if matches!(outcome, RequestOutcome::Acknowledged(_)) {
                probes.push(start.thread);
            }
        }
        std::thread::sleep(Duration::from_millis(150));
        probes.retain(|thread| self.ledger.has_slow_run_calls(thread, victim.process_number));
        probes
    }

    /// Waits until other processes move the probes.
    fn measure_takeovers(&self, probes: &[String], process_number: u32, started: Instant, longest: Duration) {
        for thread in probes {
            let taken_over = loop {
                match self.ledger.first_takeover(thread, process_number, started) {
                    Some(at) => break Some(at - started),
                    None if started.elapsed() > longest => break None,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            match taken_over {
                Some(time) => lock_ignoring_poison(&self.takeovers).push(time),
                None => self
                    .ledger
                    .record_violation(Violation::Stuck, format!("nobody took {thread} over in {longest:?}")),
            }
        }
    }

    /// Everything is healed: all comes to rest, what is unknown is settled, and the logs are read.
    fn heal_and_check(&self, batch: u64, rng: &mut SeededRng, threads: &[String]) -> Result<(), String> {
        self.wait_for_all_replicas()?;
        let time_limit = self.lease * 2 + Duration::from_secs(30);
        let ms = u64::try_from(time_limit.as_millis()).unwrap_or(u64::MAX);
        for turn in 0..3 {
            let moving = self.ask_any_replica(&VictimRequest::Rest { threads: threads.to_vec(), ms })?;
            for run in moving.as_array().into_iter().flatten() {
                self.ledger.record_violation(Violation::Stuck, format!("{run} does not move"));
            }
            if let Some(victim) = self.wait_for_replica(&self.slots[0]) {
                for thread in threads {
                    let name = format!("{batch}-s{turn}");
                    answer_open_questions(
                        &victim,
                        &self.ledger,
                        thread,
                        rng,
                        &name,
                        UnknownCallPolicy::Settle,
                    );
                }
            }
        }
        self.ask_any_replica(&VictimRequest::Rest { threads: threads.to_vec(), ms })?;
        if self.database_stopped.swap(false, Ordering::SeqCst) {
            self.ledger.record_power_failure();
        }
        for thread in threads {
            let dump = self.ask_any_replica(&VictimRequest::Dump { thread: thread.clone() });
            let dump: ThreadDump = match dump {
                Ok(dump) => serde_json::from_value(dump).map_err(|error| error.to_string())?,
                Err(why) if why.contains("not_found") => ThreadDump::empty(),
                Err(why) => return Err(why),
            };
            consistency_check::check_thread(thread, &dump, &self.ledger);
            self.ledger.forget_thread(thread);
        }
        Ok(())
    }

    /// Asks any replica until one answers.
    fn ask_any_replica(&self, what: &VictimRequest) -> Result<serde_json::Value, String> {
        let started = Instant::now();
        loop {
            let mut why = "no replica".to_owned();
            for slot in &self.slots {
                let Some(victim) = self.wait_for_replica(slot) else { continue };
                match victim.ask(what.clone()) {
                    VictimReply::Ok(value) => return Ok(value),
                    VictimReply::Refused(refusal) if refusal.code == "not_found" => return Err(refusal.code),
                    VictimReply::Refused(refusal) => why = format!("{}: {}", refusal.code, refusal.message),
                    VictimReply::NoAnswer => why = "it is gone".into(),
                }
            }
            if started.elapsed() > Duration::from_secs(40) {
                return Err(format!("{what:?}: {why}"));
            }
        }
    }

    /// Waits until both replicas live.
    fn wait_for_all_replicas(&self) -> Result<(), String> {
        for slot in &self.slots {
            if self.wait_for_replica(slot).is_none() {
                let log = std::fs::read_to_string(self.dir.path().join("victims.log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().rev().take(5).collect();
                return Err(format!("a replica does not start: {lines:?}"));
            }
        }
        Ok(())
    }

    /// The replica in a slot, once it is ready.
    fn wait_for_replica(&self, slot: &ReplicaSlot) -> Option<Arc<VictimProcess>> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(40) {
            if let Some(victim) = lock_ignoring_poison(&slot.victim).clone()
                && !victim.has_exited()
            {
                return Some(victim);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Starts a replica again whenever it is gone, as a supervisor does.
    fn restart_when_dead(&self, slot: &ReplicaSlot) {
        while !self.finished.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
            let gone = lock_ignoring_poison(&slot.victim).as_ref().is_none_or(|victim| victim.has_exited());
            if !gone || slot.down.load(Ordering::SeqCst) {
                continue;
            }
            let launch = VictimLaunch {
                url: self.url.through_proxy_port(slot.proxy.port),
                lease: self.lease,
                abort_on_failure: true,
                log: &self.dir.path().join("victims.log"),
                env: self.env.clone(),
            };
            // A replica that cannot reach the database ends by itself and is started again.
            if let Ok(victim) = VictimProcess::start(&launch, &self.ledger)
                && victim.wait_until_ready().is_ok()
            {
                *lock_ignoring_poison(&slot.victim) = Some(Arc::new(victim));
            }
        }
        *lock_ignoring_poison(&slot.victim) = None;
    }
}

impl TortureDatabaseUrl {
    fn parse(url: &str) -> Result<Self, String> {
        let bad =
            || "the address of PostgreSQL must be postgres://USER:PASSWORD@ADDRESS:PORT/DATABASE".to_owned();
        let (_, behind) = url.split_once("://").ok_or_else(bad)?;
        let (user, behind) = behind.split_once('@').ok_or_else(bad)?;
        let (host, rest) = behind.split_once('/').ok_or_else(bad)?;
        Ok(Self { user: user.into(), host: host.replace("localhost", "127.0.0.1"), rest: rest.into() })
    }

    fn through_proxy_port(&self, port: u16) -> String {
        format!("postgres://{}@127.0.0.1:{port}/{}", self.user, self.rest)
    }
}
