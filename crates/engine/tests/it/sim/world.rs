//! The world outside: it outlives every process and remembers what was done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use doran_engine::log;
use doran_engine::store::{Commit, EntryKind};
use doran_engine::{Cx, NodeError};
use tokio::time::sleep;

use super::dice::Dice;
use super::shape::Act;
use crate::support::{Life, ms};

/// The keys of all calls, by what was called.
pub(super) type Book = BTreeMap<(String, Act), Vec<String>>;

/// Which tasks of the run in progress are on disk as finished, and which of them were begun all the same.
#[derive(Debug, Default)]
pub(super) struct Done {
    tasks: BTreeSet<String>,
    pub(super) begun_again: Vec<String>,
}

impl Done {
    pub(super) fn wrote(&mut self, commit: &Commit) {
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
    pub(super) fn begins(&mut self, task: &str) {
        let path = task.trim_end_matches(')').rsplit(' ').next().unwrap_or_default();
        if self.tasks.contains(path) {
            self.begun_again.push(task.to_owned());
        }
    }
}

/// The world outside. It outlives every process and remembers what was done to it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) seen: Arc<Mutex<Book>>,
    pub(super) done: Arc<Mutex<Done>>,
    pub(super) dice: Arc<Mutex<Dice>>,
    pub(super) life: Life,
}

impl World {
    pub(super) fn dice<T>(&self, roll: impl FnOnce(&mut Dice) -> T) -> T {
        roll(&mut self.dice.lock().expect("no panic"))
    }

    /// Waits a little, or for ever when the process is dead.
    pub(super) async fn pass(&self) {
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

    pub(super) fn note(&self, call: &str, act: Act, key: String) {
        self.seen.lock().expect("no panic").entry((call.to_owned(), act)).or_default().push(key);
    }
}

/// What the world answers to a call, whenever it is made.
pub(super) fn result_of(call: &str) -> String {
    format!("{:x}", call.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte)) & 0xffff)
}

pub(super) async fn act(world: &World, cx: &Cx, call: String, act: Act) -> Result<String, NodeError> {
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
