//! What goes wrong with the calls of a process to its store: lost answers, refusals, delays, crashes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use doran_engine::store::{Commit, StoreError};
use tokio::time::sleep;

use super::Tally;
use super::dice::Dice;
use super::world::Done;
use crate::support::{Gate, Life, Verdict, ms};

/// What goes wrong with store calls, and how much of it is left.
pub(super) struct Trouble {
    pub(super) dice: Arc<Mutex<Dice>>,
    pub(super) left: AtomicU32,
    pub(super) lose: u64,
    pub(super) refuse: u64,
    pub(super) late: u64,
    pub(super) crash: u64,
    pub(super) tally: Mutex<Tally>,
}

impl Trouble {
    pub(super) fn note(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.lock().expect("no panic"));
    }
}

pub(super) struct SimGate {
    pub(super) life: Life,
    pub(super) trouble: Arc<Trouble>,
    pub(super) done: Arc<Mutex<Done>>,
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
