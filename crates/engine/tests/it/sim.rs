//! A simulator: one seed makes a small graph and a history of trouble (crashes before and after any store call, lost
//! answers, refusals, delays, replicas that wake up late) and drives it with the real runtime in paused time. However
//! it goes, the run must end as the unbroken one does and the world must have seen what the effect classes promise.
//!
//! `DORAN_SIM_SEED=n` runs one seed alone; `DORAN_SIM_SEEDS=n` runs so many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_engine::graph::{NamedBuilder, Open};
use doran_engine::log::{self, AskKind, Question};
use doran_engine::store::{
    Commit, EntryKind, History, Idempotency, IfBusy, RamStore, RunFilter, Status, StoreError,
};
use doran_engine::{Bot, Cx, Def, Graph, NodeError, RunKey, Runtime, Snap, StartOptions, To, node, subgraph};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Gate, GatedStore, Life, Notes, Verdict, hasty, ms, printed, ram, thread};

#[test]
fn a_run_ends_as_the_unbroken_one_whatever_happens_on_the_way() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("DORAN_SIM_SEED") {
        println!("{}", check(seed).unwrap_or_else(|problem| panic!("seed {seed}: {problem}")));
        return;
    }
    let seeds = number("DORAN_SIM_SEEDS").unwrap_or(300);
    let begun = std::time::Instant::now();
    let mut total = Tally::default();
    for seed in 0..seeds {
        match check(seed) {
            Ok(tally) => total.add(&tally),
            Err(problem) => panic!("seed {seed} (DORAN_SIM_SEED={seed} runs it alone): {problem}"),
        }
    }
    println!("{seeds} seeds in {:?}: {total}", begun.elapsed());
    assert!(total.crashes > 0 && total.lost > 0 && total.takeovers > 0 && total.unknown > 0, "{total}");
}

/// What happened, so that a simulator that finds nothing because it does nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    runs: u32,
    crashes: u32,
    lost: u32,
    refused: u32,
    late: u32,
    takeovers: u32,
    unknown: u32,
    cancelled: u32,
}

impl Tally {
    fn add(&mut self, more: &Self) {
        self.runs += more.runs;
        self.crashes += more.crashes;
        self.lost += more.lost;
        self.refused += more.refused;
        self.late += more.late;
        self.takeovers += more.takeovers;
        self.unknown += more.unknown;
        self.cancelled += more.cancelled;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} runs, {} crashes, {} answers lost, {} refusals, {} late, {} takeovers, {} unknown effects, {} cancelled",
            self.runs,
            self.crashes,
            self.lost,
            self.refused,
            self.late,
            self.takeovers,
            self.unknown,
            self.cancelled
        )
    }
}

/// Numbers from a seed (SplitMix64).
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True in so many of a thousand cases.
    fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// What a node does, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Read,
    Write,
    Once,
    Nap,
    Token,
    Draw,
    Ask,
    /// Three reads side by side.
    Together,
}

/// One node: acts, or a graph inside.
#[derive(Clone, Debug)]
enum Cell {
    Leaf(String, Vec<Act>),
    Sub(String, Vec<Cell>),
}

/// A piece of a graph; pieces follow each other.
#[derive(Clone, Debug)]
enum Block {
    Line(Cell),
    Loop(Cell, usize),
    Fan(Vec<Vec<Cell>>),
    Each(Cell, u64),
}

fn leaf(dice: &mut Dice, name: String) -> Cell {
    const ACTS: [Act; 11] = [
        Act::Read,
        Act::Read,
        Act::Write,
        Act::Write,
        Act::Once,
        Act::Once,
        Act::Nap,
        Act::Token,
        Act::Draw,
        Act::Ask,
        Act::Together,
    ];
    let acts = (0..dice.below(4)).map(|_| ACTS[dice.below(11) as usize]).collect();
    Cell::Leaf(name, acts)
}

fn cell(dice: &mut Dice, name: String, depth: u32) -> Cell {
    if depth < 2 && dice.chance(250) {
        let inner = (0..=dice.below(2)).map(|n| cell(dice, format!("{name}i{n}"), depth + 1)).collect();
        return Cell::Sub(name, inner);
    }
    leaf(dice, name)
}

fn blocks(dice: &mut Dice) -> Vec<Block> {
    (0..=dice.below(4))
        .map(|n| match dice.below(4) {
            0 => Block::Line(cell(dice, format!("b{n}"), 0)),
            1 => Block::Loop(leaf(dice, format!("b{n}")), 1 + dice.below(3) as usize),
            2 => Block::Fan(
                (0..2 + dice.below(2))
                    .map(|branch| {
                        (0..=dice.below(2)).map(|at| cell(dice, format!("b{n}x{branch}s{at}"), 0)).collect()
                    })
                    .collect(),
            ),
            _ => Block::Each(leaf(dice, format!("b{n}w")), dice.below(4)),
        })
        .collect()
}

/// The keys of all calls, by what was called.
type Book = BTreeMap<(String, Act), Vec<String>>;

/// Which tasks of the run in progress are on disk as finished, and which of them were begun all the same.
#[derive(Debug, Default)]
struct Done {
    tasks: BTreeSet<String>,
    begun_again: Vec<String>,
}

impl Done {
    fn wrote(&mut self, commit: &Commit) {
        let results = commit.records.iter().filter(|record| record.key == "=");
        self.tasks.extend(results.map(|record| record.path.clone()));
        for entry in &commit.entries {
            if entry.kind.is_end() {
                self.tasks.clear();
            } else if matches!(entry.kind, EntryKind::Step | EntryKind::Inner) {
                let step: log::Step = serde_json::from_slice(&entry.body).expect("a step");
                let within = if step.path.is_empty() { String::new() } else { format!("{}/", step.path) };
                let tasks =
                    (0..step.tasks.len()).map(|place| format!("{within}{}.{place}", step.at.step - 1));
                self.tasks.extend(tasks);
            }
        }
    }

    /// `task` is `Cx(node path)`.
    fn begins(&mut self, task: &str) {
        let path = task.trim_end_matches(')').rsplit(' ').next().unwrap_or_default();
        if self.tasks.contains(path) {
            self.begun_again.push(task.to_owned());
        }
    }
}

/// The world outside. It outlives every process and remembers what was done to it.
#[derive(Clone)]
struct World {
    seen: Arc<Mutex<Book>>,
    done: Arc<Mutex<Done>>,
    dice: Arc<Mutex<Dice>>,
    life: Life,
}

impl World {
    fn dice<T>(&self, roll: impl FnOnce(&mut Dice) -> T) -> T {
        roll(&mut self.dice.lock().expect("no panic"))
    }

    /// Waits a little, or for ever when the process is dead.
    async fn pass(&self) {
        self.life.pulse().await;
        let wait = self.dice(|dice| if dice.chance(500) { 0 } else { dice.below(40) });
        if wait > 0 {
            sleep(ms(wait)).await;
        }
        self.life.pulse().await;
    }

    /// A call from a process. It happens, unless the process is dead by then; the answer may not come home.
    async fn call(&self, call: String, act: Act, key: String) -> Result<String, NodeError> {
        self.pass().await;
        self.note(&call, act, key);
        self.pass().await;
        Ok(result_of(&call))
    }

    fn note(&self, call: &str, act: Act, key: String) {
        self.seen.lock().expect("no panic").entry((call.to_owned(), act)).or_default().push(key);
    }
}

/// What the world answers to a call, whenever it is made.
fn result_of(call: &str) -> String {
    format!("{:x}", call.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte)) & 0xffff)
}

async fn act(world: &World, cx: &Cx, call: String, act: Act) -> Result<String, NodeError> {
    let w = world.clone();
    match act {
        Act::Read => {
            let name = call.clone();
            let read = async move { w.call(name, act, String::new()).await };
            // Whichever way it is recorded, the rules below hold.
            if call.len().is_multiple_of(2) {
                cx.effect("read", read).await
            } else {
                cx.closing_effect("read", read).await
            }
        }
        Act::Write => cx.idempotent("write", |key| async move { w.call(call, act, key).await }).await,
        Act::Once => {
            // The name travels with the question, so that whoever answers can look into the world's book.
            let name = format!("once {call}");
            cx.once(&name, |key| async move { w.call(call, act, key).await }).await
        }
        Act::Nap => {
            world.pass().await;
            Ok("nap".into())
        }
        Act::Token => {
            cx.token("piece");
            Ok("token".into())
        }
        Act::Draw => {
            world.note(&call, act, format!("{} {}", cx.random(), cx.new_id()));
            Ok("drew".into())
        }
        Act::Ask => cx.ask::<String, _>(call).await,
        Act::Together => {
            let read = |n: u32| {
                let (w, name) = (w.clone(), format!("{call}.{n}"));
                cx.effect("read", async move { w.call(name, Act::Read, String::new()).await })
            };
            let (one, two, three) = (read(1), read(2), read(3));
            let (three, one, two) = tokio::try_join!(three, one, two)?;
            Ok(format!("{one}{two}{three}"))
        }
    }
}

/// A node that does its acts and says what came of them.
fn open(world: &World, cell: &Cell) -> Open<Notes> {
    match cell {
        Cell::Leaf(name, acts) => {
            let (world, name, acts) = (world.clone(), name.clone(), acts.clone());
            node(move |state: Snap<Notes>, cx: Cx| {
                let (world, name, acts) = (world.clone(), name.clone(), acts.clone());
                async move {
                    world.pass().await;
                    world.done.lock().expect("no panic").begins(&format!("{cx:?}"));
                    let mut results = Vec::new();
                    for (nth, what) in acts.into_iter().enumerate() {
                        // The run, the task and the act name a call for good.
                        let call = format!("{} {cx:?} {nth}", state.sum);
                        results.push(act(&world, &cx, call, what).await?);
                    }
                    let item = cx.input::<u64>().map(|item| item.to_string()).unwrap_or_default();
                    world.pass().await;
                    Ok::<_, NodeError>(
                        Notes::update().said(vec![format!("{name}{item}({})", results.join(","))]),
                    )
                }
            })
        }
        Cell::Sub(_, inner) => {
            let names: Vec<String> = inner.iter().map(|cell| name_of(cell).to_owned()).collect();
            let mut graph = Graph::named();
            for (nth, cell) in inner.iter().enumerate() {
                graph = graph.node(&names[nth], way(open(world, cell), names.get(nth + 1).cloned()));
            }
            let graph = graph.start(&names[0]).build().expect("sound");
            node(subgraph(
                graph,
                |state: &Notes| Notes::update().sum(state.sum),
                |inner: &Notes| Notes::update().said(inner.said.clone()),
            ))
        }
    }
}

fn name_of(cell: &Cell) -> &str {
    match cell {
        Cell::Leaf(name, _) | Cell::Sub(name, _) => name,
    }
}

fn way(open: Open<Notes>, next: Option<String>) -> Def<Notes, String> {
    match next {
        Some(next) => open.then(next),
        None => open.end(),
    }
}

fn build(world: &World, blocks: &[Block]) -> Graph<Notes> {
    let plain = || node(|_: Snap<Notes>| async { Ok::<_, NodeError>(Notes::update()) });
    let mut graph: NamedBuilder<Notes> = Graph::named();
    for (n, block) in blocks.iter().enumerate() {
        let (entry, join) = (format!("b{n}"), format!("b{n}j"));
        let next = (n + 1 < blocks.len()).then(|| format!("b{}", n + 1));
        graph = match block {
            Block::Line(cell) => graph.node(&entry, way(open(world, cell), next)),
            Block::Loop(cell, rounds) => {
                let (rounds, word, again) = (*rounds, format!("{}(", name_of(cell)), entry.clone());
                let mut targets = vec![entry.clone()];
                targets.extend(next.clone());
                let choose = move |state: &Notes| {
                    let said = state.said.iter().filter(|said| said.starts_with(&word)).count();
                    match &next {
                        _ if said % rounds != 0 => To::Node(again.clone()),
                        Some(next) => To::Node(next.clone()),
                        None => To::End,
                    }
                };
                graph.node(&entry, open(world, cell).branch_or_end(targets, choose))
            }
            Block::Fan(branches) => {
                let heads: Vec<String> = branches.iter().map(|cells| name_of(&cells[0]).to_owned()).collect();
                let lasts: Vec<String> =
                    branches.iter().map(|cells| name_of(&cells[cells.len() - 1]).to_owned()).collect();
                let mut graph = graph.node(&entry, plain().then_all(heads));
                for cells in branches {
                    for (at, cell) in cells.iter().enumerate() {
                        let next = cells.get(at + 1).map_or(join.clone(), |cell| name_of(cell).to_owned());
                        graph = graph.node(name_of(cell), open(world, cell).then(next));
                    }
                }
                graph.node(&join, way(plain(), next).after_all(lasts))
            }
            Block::Each(cell, items) => {
                let (work, after, items) = (name_of(cell).to_owned(), join.clone(), *items);
                let targets = [work.clone(), join.clone()];
                let choose = move |_: &Notes| To::each(work.clone(), 0..items, To::Node(after.clone()));
                graph
                    .node(&entry, plain().branch(targets, choose))
                    .node(name_of(cell), open(world, cell).then(join.clone()))
                    .node(&join, way(plain(), next))
            }
        };
    }
    graph.start("b0").build().expect("sound")
}

/// What goes wrong with store calls, and how much of it is left.
struct Trouble {
    dice: Arc<Mutex<Dice>>,
    left: AtomicU32,
    lose: u64,
    refuse: u64,
    late: u64,
    crash: u64,
    tally: Mutex<Tally>,
}

impl Trouble {
    fn note(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.lock().expect("no panic"));
    }
}

struct SimGate {
    life: Life,
    trouble: Arc<Trouble>,
    done: Arc<Mutex<Done>>,
}

#[async_trait]
impl Gate for SimGate {
    fn wrote(&self, commit: &Commit) {
        self.done.lock().expect("no panic").wrote(commit);
    }

    async fn enter(&self, call: &'static str) -> Verdict {
        if self.life.is_over() {
            return Verdict::HangBefore;
        }
        let trouble = &self.trouble;
        let (roll, wait, coin) = {
            let mut dice = trouble.dice.lock().expect("no panic");
            (dice.below(1000), dice.below(8), dice.chance(500))
        };
        if wait > 5 {
            sleep(ms(wait)).await;
            if self.life.is_over() {
                return Verdict::HangBefore;
            }
        }
        let writes = !matches!(call, "load" | "entries" | "run" | "runs" | "thread" | "threads" | "cached");
        let mut upto = trouble.crash;
        let spend = || {
            trouble.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        };
        if roll < upto && spend() {
            self.life.end();
            trouble.note(|tally| tally.crashes += 1);
            return if coin { Verdict::HangBefore } else { Verdict::HangAfter };
        }
        upto += trouble.lose;
        if roll < upto && writes && spend() {
            trouble.note(|tally| tally.lost += 1);
            return Verdict::Lose;
        }
        upto += trouble.refuse;
        if roll < upto && spend() {
            trouble.note(|tally| tally.refused += 1);
            let error = "simulated".into();
            return Verdict::Refuse(if coin {
                StoreError::Full(error)
            } else {
                StoreError::Unavailable(error)
            });
        }
        upto += trouble.late;
        if roll < upto && spend() {
            trouble.note(|tally| tally.late += 1);
            // Longer than the lease: by then another may have taken over.
            if coin {
                sleep(ms(450)).await;
                return if self.life.is_over() { Verdict::HangBefore } else { Verdict::Pass };
            }
            return Verdict::Late(ms(450));
        }
        Verdict::Pass
    }
}

/// A process: a runtime with its own way to the store and the world, which end together.
struct Process {
    bot: Bot<Notes>,
    life: Life,
}

struct Sim {
    store: RamStore,
    blocks: Vec<Block>,
    world: World,
    trouble: Arc<Trouble>,
    /// A process that does not know what it wrote ends, as on a store that cannot go on after that.
    strict: bool,
    born: u32,
}

impl Sim {
    fn new(dice: &mut Dice, blocks: Vec<Block>, broken: bool) -> Self {
        let shared = Arc::new(Mutex::new(Dice(dice.next())));
        let mut rate = |most: u64| if broken && dice.chance(600) { dice.below(most) } else { 0 };
        let trouble = Trouble {
            dice: shared.clone(),
            left: AtomicU32::new(14),
            lose: rate(60),
            refuse: rate(60),
            late: rate(60),
            crash: rate(80),
            tally: Mutex::default(),
        };
        let world = World { seen: Arc::default(), done: Arc::default(), dice: shared, life: Life::default() };
        let strict = dice.chance(500);
        Self { store: ram(), blocks, world, trouble: Arc::new(trouble), strict, born: 0 }
    }

    fn process(&mut self) -> Process {
        self.born += 1;
        let life = Life::default();
        let gate = Arc::new(SimGate {
            life: life.clone(),
            trouble: self.trouble.clone(),
            done: self.world.done.clone(),
        });
        let store = GatedStore { inner: self.store.clone(), gate };
        let runtime = Runtime::with(Arc::new(store), hasty(&format!("worker {}", self.born)));
        let world = World { life: life.clone(), ..self.world.clone() };
        let bot = runtime.graph("g", &build(&world, &self.blocks)).expect("registered");
        // The first look for work may fail; the keeper looks again.
        tokio::spawn(async move { drop(runtime.work().await) });
        Process { bot, life }
    }

    /// Hands a run in until somebody says it was accepted, always with the same key.
    async fn submit(&mut self, processes: &mut [Process], nth: u64) -> Result<RunKey, String> {
        for round in 0..200 {
            self.revive(processes);
            let bot = processes[round % processes.len()].bot.clone();
            let options = StartOptions {
                if_busy: IfBusy::Enqueue,
                idempotency: Some(Idempotency { key: format!("run {nth}"), hash: "h".into() }),
                ..StartOptions::default()
            };
            let on = thread("t");
            let accepted = bot.start_with(&on, Some(Notes::update().sum(1)), options);
            if let Ok(Ok(run)) = timeout(ms(1000), accepted).await {
                return Ok(run.key());
            }
        }
        Err("no run was ever accepted".into())
    }

    /// Starts dead processes anew, and may end those that do not know what they wrote.
    fn revive(&mut self, processes: &mut [Process]) {
        for process in processes {
            if self.strict && process.bot.runtime().trouble().borrow().is_some() {
                process.life.end();
            }
            if process.life.is_over() {
                *process = self.process();
            }
        }
    }

    /// Answers what the run waits for, through some process.
    async fn answer(&self, bot: &Bot<Notes>, run: &RunKey) {
        let entries = self.store.entries(&thread("t"), 0, 10_000).await.expect("entries");
        let Some(entry) = entries.last().filter(|entry| entry.kind == EntryKind::Paused) else { return };
        let paused: log::Paused = serde_json::from_slice(&entry.body).expect("a pause");
        let some = self.world.dice(|dice| if dice.chance(300) { 1 } else { paused.asks.len() });
        let answers = paused.asks.iter().take(some).map(|ask| (ask.id.clone(), self.reply(ask))).collect();
        // A process that dies meanwhile never answers; the next round asks again.
        drop(timeout(ms(1000), bot.runtime().answer(run, &answers)).await);
    }

    fn reply(&self, ask: &Question) -> Value {
        match ask.kind {
            AskKind::Ask => json!(format!("said {}", ask.question.as_str().unwrap_or_default())),
            AskKind::Breakpoint => Value::Null,
            AskKind::EffectUnknown => {
                self.trouble.note(|tally| tally.unknown += 1);
                let call = ask.question["call"].as_str().unwrap_or_default().trim_start_matches("once ");
                let seen = self.world.seen.lock().expect("no panic");
                match seen.contains_key(&(call.to_owned(), Act::Once)) {
                    true => json!({ "result": result_of(call) }),
                    false => json!({ "retry": true }),
                }
            }
        }
    }

    /// Drives everything to its end.
    async fn play(
        &mut self,
        replicas: usize,
        runs: u64,
        cancel_at: Option<u64>,
    ) -> Result<Vec<RunKey>, String> {
        let mut processes: Vec<Process> = (0..replicas).map(|_| self.process()).collect();
        let mut keys = Vec::new();
        for nth in 0..runs {
            keys.push(self.submit(&mut processes, nth).await?);
        }
        let begun = Instant::now();
        let mut cancel = cancel_at.map(ms);
        for round in 0usize.. {
            self.revive(&mut processes);
            let mut open = None;
            for key in &keys {
                let row = self.store.run(key).await.map_err(|error| error.to_string())?;
                if !row.status.is_end() {
                    open = Some(row);
                    break;
                }
            }
            let Some(row) = open else { return Ok(keys) };
            if begun.elapsed() > ms(600_000) {
                return Err(format!("stuck: {row:?}"));
            }
            let bot = processes[round % replicas].bot.clone();
            if cancel.is_some_and(|at| begun.elapsed() >= at)
                && let Ok(Ok(_)) = timeout(ms(1000), bot.runtime().cancel(&keys[0])).await
            {
                cancel = None;
            }
            if row.status == Status::Paused {
                // Long enough for a call of a process that lost the run to have come to its end.
                sleep(ms(2000)).await;
                self.answer(&bot, &row.key()).await;
            } else {
                sleep(ms(25)).await;
            }
        }
        unreachable!("the loop above has no end of its own")
    }

    /// The state of the thread, by a process that nothing happens to.
    async fn state(&self) -> Result<Notes, String> {
        let runtime = Runtime::new(Arc::new(self.store.clone()));
        let bot = runtime.graph("g", &build(&self.world, &self.blocks)).map_err(|error| error.to_string())?;
        bot.state(&thread("t")).await.map(|state| (*state).clone()).map_err(|error| error.to_string())
    }

    /// What must hold however it went.
    async fn verify(&self, keys: &[RunKey], cancelled: bool) -> Result<(), String> {
        let entries = self.store.entries(&thread("t"), 0, 10_000).await.map_err(|error| error.to_string())?;
        for (entry, seq) in entries.iter().zip(1..) {
            if entry.seq != seq {
                return Err(format!("entry {} where {seq} should be", entry.seq));
            }
        }
        let all = self
            .store
            .runs(&thread("t").tenant, &RunFilter::default())
            .await
            .map_err(|error| error.to_string())?;
        if all.len() != keys.len() {
            return Err(format!("{} runs for {} requests", all.len(), keys.len()));
        }
        let mut claims = 0;
        for key in keys {
            let row = self.store.run(key).await.map_err(|error| error.to_string())?;
            claims += row.epoch;
            let own: Vec<_> = entries.iter().filter(|entry| entry.run == Some(key.run)).collect();
            let ends = own.iter().filter(|entry| entry.kind.is_end()).count();
            let shown = || own.iter().map(|entry| printed(entry)).collect::<Vec<_>>().join(" | ");
            if ends != 1 && !(cancelled && own.is_empty()) {
                return Err(format!("{ends} ends: {}", shown()));
            }
            if own.windows(2).any(|pair| pair[1].seq != pair[0].seq + 1) {
                return Err("entries of two runs are mixed".into());
            }
            if row.status != Status::Finished && !(cancelled && row.status == Status::Cancelled) {
                return Err(format!("{:?} {:?}: {}", row.status, row.error, shown()));
            }
        }
        self.trouble.note(|tally| {
            tally.runs += keys.len() as u32;
            tally.takeovers += (claims as u32).saturating_sub(keys.len() as u32);
            tally.cancelled += u32::from(cancelled);
        });
        for ((call, act), seen) in self.world.seen.lock().expect("no panic").iter() {
            let keys: BTreeSet<&String> = seen.iter().collect();
            let fits = match act {
                Act::Once => seen.len() == 1,
                Act::Write | Act::Draw => keys.len() == 1,
                _ => seen.len() as u64 <= claims,
            };
            if !fits {
                return Err(format!(
                    "{act:?} `{call}` was seen {} times with {} claims: {seen:?}",
                    seen.len(),
                    claims
                ));
            }
        }
        Ok(())
    }
}

/// Plays one seed, unbroken and broken.
fn check(seed: u64) -> Result<Tally, String> {
    let world = |broken: bool| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let mut dice = Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
            let blocks = blocks(&mut dice);
            let (runs, replicas) = (1 + dice.below(2), 1 + dice.below(2) as usize);
            let cancel_at = dice.chance(100).then(|| dice.below(400));
            let mut sim = Sim::new(&mut dice, blocks, broken);
            let cancel_at = cancel_at.filter(|_| broken);
            let replicas = if broken { replicas } else { 1 };
            let keys = sim.play(replicas, runs, cancel_at).await?;
            sim.verify(&keys, cancel_at.is_some()).await?;
            // A replica that lost the run and does not know it yet may begin what the other finished; alone, and as
            // long as nobody ends the run from outside, nothing that is on disk is begun again.
            let begun_again = sim.world.done.lock().expect("no panic").begun_again.clone();
            if replicas == 1 && cancel_at.is_none() && !begun_again.is_empty() {
                return Err(format!("finished and begun again: {begun_again:?}"));
            }
            let state = sim.state().await?;
            let tally = *sim.trouble.tally.lock().expect("no panic");
            Ok::<_, String>((state, tally, cancel_at.is_some()))
        })
    };
    let (expected, ..) = world(false).map_err(|problem| format!("unbroken: {problem}"))?;
    let (state, tally, cancelled) = world(true)?;
    if !cancelled && state != expected {
        return Err(format!("ended with\n  {}\ninstead of\n  {}", state.line(), expected.line()));
    }
    Ok(tally)
}
