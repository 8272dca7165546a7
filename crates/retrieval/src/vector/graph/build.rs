//! Makes a graph: rows are put in one after another, by several threads at once, each joined with the rows found near it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use super::walk::{Marks, Scored, walk};
use super::{ABOVE, ABOVE_WORDS, GROUND, GROUND_WORDS, HEAD, MOST_LAYERS};
use crate::vector::{Rows, View};

/// So many rows are kept in sight while a row looks for its neighbours. More makes a better graph, more slowly.
const SIGHT: usize = 100;

/// The neighbours of a row, on the ground first.
type Lists = Vec<Vec<u32>>;

struct Builder<'a> {
    rows: View<'a>,
    count: usize,
    lists: Vec<Mutex<Lists>>,
    /// The row from which every walk starts, and the highest layer, which is its own.
    entry: RwLock<(u32, usize)>,
}

pub(super) fn build(rows: &Rows, threads: usize, stop: &AtomicBool) -> Option<Vec<u8>> {
    let count = u32::try_from(rows.len()).ok().filter(|count| *count > 0)?;
    let lists = (0..count).map(|row| Mutex::new(vec![Vec::new(); 1 + layers_of(row)])).collect();
    let builder =
        Builder { rows: rows.view(), count: rows.len(), lists, entry: RwLock::new((0, layers_of(0))) };
    let next = AtomicUsize::new(1);
    let work = || {
        let mut marks = Marks::default();
        while !stop.load(Ordering::Relaxed) {
            let row = next.fetch_add(1, Ordering::Relaxed);
            match u32::try_from(row) {
                Ok(row) if row < count => builder.insert(row, &mut marks),
                _ => return,
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(work)).collect();
        work();
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    (!stop.load(Ordering::Relaxed)).then(|| builder.written())
}

/// How many layers above the ground a row is on: by chance, yet the same every time.
fn layers_of(row: u32) -> usize {
    let mut mixed = u64::from(row).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // Four bits of zeros for each layer: one in sixteen goes higher.
    (mixed.trailing_zeros() as usize / 4).min(MOST_LAYERS)
}

impl Builder<'_> {
    fn insert(&self, row: u32, marks: &mut Marks) {
        let own = layers_of(row);
        let (start, highest) = *self.entry.read().unwrap_or_else(PoisonError::into_inner);
        let score = |other: u32| self.rows.alike(row as usize, other as usize);
        let next = |layer: usize| {
            move |other: u32, near: &mut Vec<u32>| {
                near.clear();
                near.extend(self.lists(other).get(layer).into_iter().flatten());
            }
        };
        let mut starts = vec![Scored { score: score(start), row: start }];
        for layer in (0..=highest).rev() {
            let sight = if layer > own { 1 } else { SIGHT };
            let soon = |row: u32| self.rows.soon(row as usize);
            let mut found = walk(marks.anew(self.count), &starts, sight, next(layer), soon, score, &|_| true);
            found.retain(|near| near.row != row);
            if !found.is_empty() {
                starts = found;
            }
            if layer <= own {
                let chosen = self.chosen(&starts, if layer == 0 { GROUND / 2 } else { ABOVE });
                self.lists(row)[layer].clone_from(&chosen);
                for near in chosen {
                    self.join(near, row, layer);
                }
            }
        }
        if own > highest {
            let mut entry = self.entry.write().unwrap_or_else(PoisonError::into_inner);
            if own > entry.1 {
                *entry = (row, own);
            }
        }
    }

    /// Lets a row know a new neighbour, and forget the least useful one where it knows too many.
    fn join(&self, row: u32, new: u32, layer: usize) {
        let most = if layer == 0 { GROUND } else { ABOVE };
        let mut lists = self.lists(row);
        let Some(list) = lists.get_mut(layer) else { return };
        if list.contains(&new) {
            return;
        }
        list.push(new);
        if list.len() > most {
            let score = |other: &u32| self.rows.alike(row as usize, *other as usize);
            let mut near: Vec<Scored> =
                list.iter().map(|other| Scored { score: score(other), row: *other }).collect();
            near.sort_unstable_by(|left, right| right.cmp(left));
            *list = self.chosen(&near, most);
        }
    }

    /// Neighbours in different directions: one that is nearer to a chosen one than to the row itself adds little.
    fn chosen(&self, near: &[Scored], most: usize) -> Vec<u32> {
        let mut chosen: Vec<u32> = Vec::with_capacity(most);
        let mut left_out: Vec<u32> = Vec::new();
        for Scored { score, row } in near {
            if chosen.len() == most {
                break;
            }
            let hidden = chosen.iter().any(|other| self.rows.alike(*row as usize, *other as usize) > *score);
            if hidden { left_out.push(*row) } else { chosen.push(*row) }
        }
        let room = most - chosen.len();
        chosen.extend(left_out.into_iter().take(room));
        chosen
    }

    fn lists(&self, row: u32) -> MutexGuard<'_, Lists> {
        self.lists[row as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(self) -> Vec<u8> {
        let lists: Vec<Lists> = self
            .lists
            .into_iter()
            .map(|lists| lists.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let (entry, layers) = self.entry.into_inner().unwrap_or_else(PoisonError::into_inner);
        let above: usize = lists.iter().map(|lists| (lists.len() - 1) * ABOVE_WORDS).sum();
        let words = HEAD / 4 + lists.len() * (GROUND_WORDS + 1) + 1 + above;
        let mut bytes = Vec::with_capacity(words * 4);
        let word = |bytes: &mut Vec<u8>, word: usize| {
            bytes.extend_from_slice(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
        };
        let list = |bytes: &mut Vec<u8>, list: &[u32], most: usize| {
            word(bytes, list.len());
            list.iter().for_each(|row| bytes.extend_from_slice(&row.to_le_bytes()));
            bytes.resize(bytes.len() + (most - list.len()) * 4, 0);
        };
        for head in [lists.len(), entry as usize, layers, above] {
            word(&mut bytes, head);
        }
        for lists in &lists {
            list(&mut bytes, &lists[0], GROUND);
        }
        let mut start = 0;
        for lists in &lists {
            word(&mut bytes, start);
            start += (lists.len() - 1) * ABOVE_WORDS;
        }
        word(&mut bytes, start);
        for lists in &lists {
            lists[1..].iter().for_each(|above| list(&mut bytes, above, ABOVE));
        }
        bytes
    }
}
