//! Plays one history: processes that live and die, requests, answers, cancels, clearing, a program that does not fit.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doran_engine::log::{self, AskKind, Question};
use doran_engine::store::{EntryKind, History, Idempotency, IfBusy, RamStore, Retention, Status, Upkeep};
use doran_engine::{Bot, EngineError, Graph, NodeError, RunKey, Runtime, Snap, StartOptions, State, node};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::dice::Dice;
use super::shape::{Act, Block, build};
use super::trouble::{SimGate, Trouble};
use super::world::{World, result_of};
use super::{Kind, Problem};
use crate::support::{GatedStore, Life, Notes, NotesUpdate, hasty, ms, ram, thread};

/// What is to be played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) replicas: usize,
    pub(super) runs: u64,
    pub(super) cancel_at: Option<u64>,
    /// Each run is waited for, and the log cleared before the next.
    pub(super) paced: bool,
    /// Between two runs somebody starts a program whose state does not fit.
    pub(super) misfit: bool,
}

/// A state that cannot read the thread.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Misfit {
    sum: String,
}

/// A process: a runtime with its own way to the store and the world, which end together.
struct Process {
    bot: Bot<Notes>,
    life: Life,
}

/// One history on one thread.
pub(super) struct Sim {
    store: RamStore,
    plan: Plan,
    blocks: Vec<Block>,
    pub(super) world: World,
    pub(super) trouble: Arc<Trouble>,
    /// A process that does not know what it wrote ends, as on a store that cannot go on after that.
    strict: bool,
    born: u32,
    /// Runs of a program with another state.
    misfits: usize,
}

impl Sim {
    pub(super) fn new(dice: &mut Dice, plan: Plan, blocks: Vec<Block>, broken: bool) -> Self {
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
        Self { store: ram(), plan, blocks, world, trouble: Arc::new(trouble), strict, born: 0, misfits: 0 }
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
    async fn submit(&mut self, processes: &mut [Process], nth: u64) -> Result<RunKey, Problem> {
        for round in 0..200 {
            self.revive(processes);
            let bot = processes[round % processes.len()].bot.clone();
            let options = StartOptions {
                if_busy: IfBusy::Enqueue,
                idempotency: Some(Idempotency { key: format!("run {nth}"), hash: "h".into() }),
                ..StartOptions::default()
            };
            let on = thread("t");
            let accepted = bot.start_with(&on, Some(self.input(nth)), options);
            if let Ok(Ok(run)) = timeout(ms(1000), accepted).await {
                return Ok(run.key());
            }
        }
        Err(Problem::new(Kind::Stuck, "no run was ever accepted"))
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

    /// What the n-th run is given. Long pages that are overwritten make the log outgrow the state, so that there is
    /// something to clear.
    fn input(&self, nth: u64) -> NotesUpdate {
        let input = Notes::update().sum(1);
        match (self.plan.paced, nth % 3) {
            (false, _) => input,
            (true, 2) => input.text(nth.to_string()),
            (true, _) => input.text(nth.to_string().repeat(50_000)),
        }
    }

    /// Plays it to its end.
    pub(super) async fn play(&mut self) -> Result<Vec<RunKey>, Problem> {
        let mut processes: Vec<Process> = (0..self.plan.replicas).map(|_| self.process()).collect();
        let mut keys = Vec::new();
        for nth in 0..self.plan.runs {
            if self.plan.paced && nth > 0 {
                self.end(&mut processes, &keys).await?;
                self.clear().await?;
                if self.plan.misfit && nth % 2 == 1 {
                    self.fail_to_read().await?;
                }
            }
            keys.push(self.submit(&mut processes, nth).await?);
        }
        self.end(&mut processes, &keys).await?;
        Ok(keys)
    }

    /// Clears what is not needed any more.
    async fn clear(&self) -> Result<(), Problem> {
        let retention = Retention { old_entries: Some(Duration::ZERO), ..Retention::default() };
        let cleared = self.store.gc(&retention).await.map_err(|error| error.to_string())?;
        self.trouble.note(|tally| tally.cleared += cleared.entries as u32);
        Ok(())
    }

    /// A program with another state fails on the thread, and changes nothing.
    async fn fail_to_read(&mut self) -> Result<(), Problem> {
        let nothing = node(|_: Snap<Misfit>| async { Ok::<_, NodeError>(Misfit::update()) });
        let graph = Graph::named().node("a", nothing.end()).start("a").build().expect("sound");
        let runtime = Runtime::new(Arc::new(self.store.clone()));
        let bot = runtime.graph("g", &graph).map_err(|error| error.to_string())?;
        self.misfits += 1;
        self.trouble.note(|tally| tally.misfits += 1);
        match bot.run(&thread("t"), Misfit::update()).await {
            Err(EngineError::Failed(failure)) if failure.code == "state_mismatch" => Ok(()),
            other => Err(Problem::new(Kind::Torn, format!("a state that does not fit gives {other:?}"))),
        }
    }

    /// Drives everything that was handed in to its end.
    async fn end(&mut self, processes: &mut [Process], keys: &[RunKey]) -> Result<(), Problem> {
        let begun = Instant::now();
        let mut cancel = self.plan.cancel_at.map(ms);
        for round in 0usize.. {
            self.revive(processes);
            let mut open = None;
            for key in keys {
                let row = self.store.run(key).await.map_err(|error| error.to_string())?;
                if !row.status.is_end() {
                    open = Some(row);
                    break;
                }
            }
            let Some(row) = open else { return Ok(()) };
            if begun.elapsed() > ms(600_000) {
                return Err(Problem::new(Kind::Stuck, format!("stuck: {row:?}")));
            }
            let bot = processes[round % processes.len()].bot.clone();
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
    pub(super) async fn state(&self) -> Result<Notes, Problem> {
        let runtime = Runtime::new(Arc::new(self.store.clone()));
        let bot = runtime.graph("g", &build(&self.world, &self.blocks)).map_err(|error| error.to_string())?;
        let state = bot.state(&thread("t")).await.map_err(|error| error.to_string())?;
        Ok((*state).clone())
    }

    /// What is left of the log, and how many runs there were besides those that were asked for.
    pub(super) fn left(&self) -> (&RamStore, usize) {
        (&self.store, self.misfits)
    }
}
