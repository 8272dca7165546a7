//! What a deployment holds: a simulation of turns that wait for processors, disks and models.
//!
//! The costs come from `bench/RESULTS.md`. Turns arrive at random, as in the busiest hour of a day. Each passes the stations of
//! [`TURN_STAGES`] in order; a station that is busy lets it wait. The chapter on capacity in the book prints the tables.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::XtaskResult;

/// Processor time of one turn in a server, in seconds: `chat64/ram`.
const SERVER_SECONDS: f64 = 0.000_22;
/// What a turn on PostgreSQL takes beyond that, for client and database together: `chat64/postgres`.
const DATABASE_SECONDS: f64 = 0.000_66;
/// The same on SQLite: `chat64/sqlite`.
const SQLITE_SECONDS: f64 = 0.000_33;
/// A keyword and a vector search in 100,000 passages.
const SEARCH_SECONDS: f64 = 0.001_5;
/// One sync of a disk with a write cache that survives power loss. All commits that wait share it.
const SYNC_SECONDS: f64 = 0.001;
const BYTES_PER_TURN: f64 = 2_647.0;
const BYTES_PER_STREAM: f64 = 21_600.0;
/// Each stream has a connection of its own, and a server accepts `max_connections`. It reaches them before `max_streams`.
const CONNECTIONS_PER_SERVER: f64 = 10_000.0;
/// One tenant gets half of `max_streams`. API keys that name no tenant are all of one.
const STREAMS_PER_TENANT: f64 = 8_192.0;
/// The requests a second that a server accepts of one API key in the long run.
const REQUESTS_PER_KEY: f64 = 1_200.0 / 60.0;

const TURNS_PER_USER: f64 = 10.0;
/// The share of a day that falls into its busiest hour.
const BUSIEST_HOUR: f64 = 0.2;
const MODEL_SECONDS: f64 = 20.0;
/// The longest wait, beyond the model's, that one turn in a hundred may have.
const LONGEST_WAIT_SECONDS: f64 = 0.25;
const SEED: u64 = 20_261_117;

struct Deployment {
    name: &'static str,
    servers: usize,
    cores_per_server: usize,
    /// None: SQLite on the machine of the server.
    database_cores: Option<usize>,
    /// None: the index is on the machine of the server.
    search_cores: Option<usize>,
}

const DEPLOYMENTS: [Deployment; 3] = [
    Deployment {
        name: "one machine, SQLite",
        servers: 1,
        cores_per_server: 2,
        database_cores: None,
        search_cores: None,
    },
    Deployment {
        name: "2 replicas, PostgreSQL, OpenSearch",
        servers: 2,
        cores_per_server: 2,
        database_cores: Some(4),
        search_cores: Some(4),
    },
    Deployment {
        name: "16 replicas, PostgreSQL, OpenSearch",
        servers: 16,
        cores_per_server: 2,
        database_cores: Some(16),
        search_cores: Some(16),
    },
];

#[derive(Clone, Copy, PartialEq)]
enum TurnStage {
    Server,
    Database,
    Sync,
    Search,
    Model,
}

/// A message is stored before it is accepted, and an answer before it is shown: two waits for the disk.
const TURN_STAGES: [TurnStage; 8] = [
    TurnStage::Server,
    TurnStage::Database,
    TurnStage::Sync,
    TurnStage::Search,
    TurnStage::Model,
    TurnStage::Server,
    TurnStage::Database,
    TurnStage::Sync,
];

/// A number of equal processors with one queue.
struct Processors {
    count: usize,
    busy: usize,
    waiting: VecDeque<(usize, f64)>,
    worked: f64,
}

impl Processors {
    fn new(count: usize) -> Self {
        Self { count, busy: 0, waiting: VecDeque::new(), worked: 0.0 }
    }
}

/// A disk that syncs for all who wait at once.
#[derive(Default)]
struct Disk {
    is_syncing: bool,
    waiting: Vec<usize>,
    worked: f64,
}

struct SimulatedTurn {
    stage: usize,
    server: usize,
    arrived: f64,
    in_model: f64,
}

enum CapacityEvent {
    Arrival,
    /// A stage of a turn ended that needs no processor.
    Waited(usize),
    /// The processors with this index finished a stage of a turn.
    Processed(usize, usize),
    Synced(Vec<usize>),
}

/// A source of random numbers that gives the same ones for the same seed (SplitMix64).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}

struct CapacityResult {
    turns_per_second: f64,
    /// Open at the same time on one server.
    streams: f64,
    /// The longest wait beyond the model's of 99 in 100 turns, in seconds.
    p99_wait: f64,
    /// How busy each part was, from 0 to 1.
    loads: Vec<(&'static str, f64)>,
}

impl CapacityResult {
    fn bottleneck(&self) -> (&'static str, f64) {
        self.loads.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("nothing", 0.0))
    }

    fn holds(&self) -> bool {
        self.p99_wait <= LONGEST_WAIT_SECONDS && self.loads.iter().all(|(_, load)| *load < 1.0)
    }
}

struct CapacitySimulation<'a> {
    deployment: &'a Deployment,
    /// The most streams that its users may have open on one server.
    most_streams: f64,
    random: RandomNumbers,
    now: f64,
    /// Times in nanoseconds, which are ordered; then the order of making.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    happenings: Vec<Option<CapacityEvent>>,
    free: Vec<usize>,
    turns: Vec<SimulatedTurn>,
    free_turns: Vec<usize>,
    /// One for each server, then that of the database, then that of the search.
    processors: Vec<Processors>,
    disk: Disk,
    waits: Vec<f64>,
    in_model: usize,
    most_in_model: usize,
}

impl<'a> CapacitySimulation<'a> {
    fn new(deployment: &'a Deployment, most_streams: f64) -> Self {
        let mut processors: Vec<_> =
            (0..deployment.servers).map(|_| Processors::new(deployment.cores_per_server)).collect();
        processors.push(Processors::new(deployment.database_cores.unwrap_or(0)));
        processors.push(Processors::new(deployment.search_cores.unwrap_or(0)));
        Self {
            deployment,
            most_streams,
            random: RandomNumbers(SEED),
            now: 0.0,
            agenda: BinaryHeap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            turns: Vec::new(),
            free_turns: Vec::new(),
            processors,
            disk: Disk::default(),
            waits: Vec::new(),
            in_model: 0,
            most_in_model: 0,
        }
    }

    fn schedule(&mut self, after: f64, happening: CapacityEvent) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() - 1
        });
        self.happenings[index] = Some(happening);
        self.agenda.push(Reverse((((self.now + after) * 1e9) as u64, index)));
    }

    fn run(&mut self, turns_per_second: f64) -> CapacityResult {
        let settled = 3.0 * MODEL_SECONDS;
        let end = settled + (20_000.0 / turns_per_second).clamp(10.0, 600.0);
        let mut is_settled = false;
        self.schedule(0.0, CapacityEvent::Arrival);
        while let Some(Reverse((time, index))) = self.agenda.pop() {
            self.now = time as f64 / 1e9;
            if self.now > end {
                break;
            }
            if !is_settled && self.now > settled {
                is_settled = true;
                self.forget_the_start();
            }
            self.free.push(index);
            match self.happenings[index].take() {
                Some(CapacityEvent::Arrival) => {
                    let next = self.random.exponential(1.0 / turns_per_second);
                    self.schedule(next, CapacityEvent::Arrival);
                    self.arrive();
                }
                Some(CapacityEvent::Waited(turn)) => {
                    self.in_model -= 1;
                    self.next_stage(turn);
                }
                Some(CapacityEvent::Processed(processors, turn)) => self.processed(processors, turn),
                Some(CapacityEvent::Synced(turns)) => self.synced(turns),
                None => {}
            }
        }
        self.result(turns_per_second, end - settled)
    }

    fn forget_the_start(&mut self) {
        for processors in &mut self.processors {
            processors.worked = 0.0;
        }
        self.disk.worked = 0.0;
        self.waits.clear();
        self.most_in_model = self.in_model;
    }

    fn arrive(&mut self) {
        let server = (self.random.uniform() * self.deployment.servers as f64) as usize;
        let turn = SimulatedTurn { stage: 0, server, arrived: self.now, in_model: 0.0 };
        let index = match self.free_turns.pop() {
            Some(index) => {
                self.turns[index] = turn;
                index
            }
            None => {
                self.turns.push(turn);
                self.turns.len() - 1
            }
        };
        self.begin_stage(index);
    }

    fn begin_stage(&mut self, index: usize) {
        let turn = &self.turns[index];
        let (database, search) = (self.deployment.servers, self.deployment.servers + 1);
        let server = turn.server;
        match TURN_STAGES[turn.stage] {
            TurnStage::Server => self.process(server, index, SERVER_SECONDS / 2.0),
            TurnStage::Database if self.deployment.database_cores.is_some() => {
                self.process(database, index, DATABASE_SECONDS / 2.0);
            }
            TurnStage::Database => self.process(server, index, SQLITE_SECONDS / 2.0),
            TurnStage::Search if self.deployment.search_cores.is_some() => {
                self.process(search, index, SEARCH_SECONDS);
            }
            TurnStage::Search => self.process(server, index, SEARCH_SECONDS),
            TurnStage::Sync => {
                self.disk.waiting.push(index);
                self.sync();
            }
            TurnStage::Model => {
                let takes = self.random.exponential(MODEL_SECONDS);
                self.turns[index].in_model = takes;
                self.in_model += 1;
                self.most_in_model = self.most_in_model.max(self.in_model);
                self.schedule(takes, CapacityEvent::Waited(index));
            }
        }
    }

    fn process(&mut self, processors: usize, turn: usize, mean: f64) {
        let takes = self.random.exponential(mean);
        self.processors[processors].waiting.push_back((turn, takes));
        self.start_waiting(processors);
    }

    fn start_waiting(&mut self, index: usize) {
        let processors = &mut self.processors[index];
        if processors.busy < processors.count
            && let Some((turn, takes)) = processors.waiting.pop_front()
        {
            processors.busy += 1;
            processors.worked += takes;
            self.schedule(takes, CapacityEvent::Processed(index, turn));
        }
    }

    fn processed(&mut self, processors: usize, turn: usize) {
        self.processors[processors].busy -= 1;
        self.start_waiting(processors);
        self.next_stage(turn);
    }

    fn sync(&mut self) {
        if !self.disk.is_syncing && !self.disk.waiting.is_empty() {
            self.disk.is_syncing = true;
            self.disk.worked += SYNC_SECONDS;
            let turns = std::mem::take(&mut self.disk.waiting);
            self.schedule(SYNC_SECONDS, CapacityEvent::Synced(turns));
        }
    }

    fn synced(&mut self, turns: Vec<usize>) {
        self.disk.is_syncing = false;
        self.sync();
        for turn in turns {
            self.next_stage(turn);
        }
    }

    fn next_stage(&mut self, index: usize) {
        let turn = &mut self.turns[index];
        turn.stage += 1;
        if turn.stage < TURN_STAGES.len() {
            self.begin_stage(index);
        } else {
            self.waits.push(self.now - turn.arrived - turn.in_model);
            self.free_turns.push(index);
        }
    }

    fn result(&mut self, turns_per_second: f64, seconds: f64) -> CapacityResult {
        let servers = self.deployment.servers;
        let load = |processors: &Processors| processors.worked / seconds / processors.count.max(1) as f64;
        let busiest = self.processors[..servers].iter().map(load).fold(0.0, f64::max);
        let streams = self.most_in_model as f64 / servers as f64;
        let mut loads =
            vec![("processors of the servers", busiest), ("streams", streams / self.most_streams)];
        if self.deployment.database_cores.is_some() {
            loads.push(("processors of the database", load(&self.processors[servers])));
        }
        if self.deployment.search_cores.is_some() {
            loads.push(("processors of the search", load(&self.processors[servers + 1])));
        }
        self.waits.sort_by(f64::total_cmp);
        // Nothing came through: the queues grow without end.
        let p99_wait = self.waits.get(self.waits.len() * 99 / 100).copied().unwrap_or(f64::INFINITY);
        CapacityResult { turns_per_second, streams, p99_wait, loads }
    }
}

fn simulate(deployment: &Deployment, users: f64, most_streams: f64) -> CapacityResult {
    let turns_per_second = users * TURNS_PER_USER * BUSIEST_HOUR / 3_600.0;
    CapacitySimulation::new(deployment, most_streams).run(turns_per_second)
}

/// The most users a day that a deployment holds, to two digits.
fn most_users(deployment: &Deployment, most_streams: f64) -> f64 {
    let (mut held, mut missed) = (1_000.0, 1_000.0);
    while simulate(deployment, missed, most_streams).holds() {
        held = missed;
        missed *= 2.0;
    }
    while missed / held > 1.05 {
        let middle = f64::midpoint(held, missed);
        if simulate(deployment, middle, most_streams).holds() {
            held = middle;
        } else {
            missed = middle;
        }
    }
    held
}

/// Prints the tables of the chapter on capacity.
pub fn run() -> XtaskResult {
    println!(
        "| users a day | deployment | turns/s | open streams | p99 added | busiest part | new data a day |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (users, deployment) in [(1e3, 0), (1e5, 0), (1e5, 1), (1e7, 2)] {
        let result = simulate(&DEPLOYMENTS[deployment], users, STREAMS_PER_TENANT);
        let (part, load) = result.bottleneck();
        println!(
            "| {users} | {} | {:.1} | {:.0} ({:.0} MB) a server | {} | {part}, {:.1} % | {:.2} GB |",
            DEPLOYMENTS[deployment].name,
            result.turns_per_second,
            result.streams,
            result.streams * BYTES_PER_STREAM / 1e6,
            if result.holds() {
                format!("{:.1} ms", result.p99_wait * 1e3)
            } else {
                "does not hold".to_owned()
            },
            load * 100.0,
            users * TURNS_PER_USER * BYTES_PER_TURN / 1e9,
        );
    }
    println!(
        "\n| deployment | cores | users of | most users a day | turns/s | streams a server | what gives out first |\n\
         |---|---|---|---|---|---|---|"
    );
    for deployment in &DEPLOYMENTS {
        for (whose, most_streams) in
            [("one tenant", STREAMS_PER_TENANT), ("several tenants", CONNECTIONS_PER_SERVER)]
        {
            let users = most_users(deployment, most_streams);
            let result = simulate(deployment, users, most_streams);
            let cores = deployment.servers * deployment.cores_per_server
                + deployment.database_cores.unwrap_or(0)
                + deployment.search_cores.unwrap_or(0);
            println!(
                "| {} | {cores} | {whose} | {users:.0} | {:.0} | {:.0} | {} |",
                deployment.name,
                result.turns_per_second,
                result.streams,
                result.bottleneck().0
            );
        }
    }
    println!(
        "\nOne API key carries {:.0} users a day on one server, if a turn is one request.",
        REQUESTS_PER_KEY * 3_600.0 / (TURNS_PER_USER * BUSIEST_HOUR)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_as_long_as_theory_says() {
        let alone = Deployment {
            name: "one processor for each part",
            servers: 1,
            cores_per_server: 1,
            database_cores: Some(1),
            search_cores: Some(1),
        };
        // The search is busy 80 % of the time, so a turn stays there 1 / (1 - 0.8) times as long as it takes.
        let turns_per_second = 0.8 / SEARCH_SECONDS;
        let stay = |takes: f64| takes / (1.0 - takes * turns_per_second);
        let stays = stay(SERVER_SECONDS) + stay(DATABASE_SECONDS) + stay(SEARCH_SECONDS);
        let mut simulation = CapacitySimulation::new(&alone, STREAMS_PER_TENANT);
        simulation.run(turns_per_second);
        let mean = simulation.waits.iter().sum::<f64>() / simulation.waits.len() as f64;
        // A commit waits for its own sync and at most for the one before it, twice a turn.
        let (min, max) = (stays + 2.0 * SYNC_SECONDS, stays + 4.0 * SYNC_SECONDS);
        assert!(mean > min * 0.85 && mean < max * 1.15, "{min} < {mean} < {max}");
    }

    #[test]
    fn streams_are_those_of_the_model_and_the_bottleneck_moves_with_the_cores() {
        let result = simulate(&DEPLOYMENTS[1], 2e5, STREAMS_PER_TENANT);
        // Arrivals per second times seconds each.
        let expected = result.turns_per_second * MODEL_SECONDS / 2.0;
        assert!((result.streams / expected - 1.0).abs() < 0.15, "{} {expected}", result.streams);
        assert!(result.holds(), "{}", result.p99_wait);

        let few = Deployment { database_cores: Some(1), ..DEPLOYMENTS[2] };
        let full = simulate(&few, 4e6, STREAMS_PER_TENANT);
        assert_eq!(full.bottleneck().0, "processors of the database");
        assert!(!full.holds());
    }

    #[test]
    fn a_server_holds_no_more_streams_than_it_accepts_connections() {
        let users = most_users(&DEPLOYMENTS[0], CONNECTIONS_PER_SERVER);
        let result = simulate(&DEPLOYMENTS[0], users, CONNECTIONS_PER_SERVER);
        assert!(result.streams < doran_limits().0, "{}", result.streams);
        assert!(STREAMS_PER_TENANT <= doran_limits().1 / 2.0);
    }

    /// `max_connections` and `max_streams`, as the server has them.
    fn doran_limits() -> (f64, f64) {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/server/src/lib.rs");
        let source = std::fs::read_to_string(source).expect("the server");
        let limit = |name: &str| {
            let line = source.lines().map(str::trim).find(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ") && !rest.contains("usize"))
            });
            let number = line.and_then(|line| line.split(": ").nth(1)).expect(name);
            number.trim_end_matches(',').replace('_', "").parse::<f64>().expect("a number")
        };
        (limit("max_connections"), limit("max_streams"))
    }
}
