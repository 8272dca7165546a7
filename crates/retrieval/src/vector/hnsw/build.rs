//! Builds a graph: several threads insert rows in parallel, each row linked to the near rows that a search finds.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use super::search_layer::{ScoredRow, VisitedRows, search_layer};
use super::{
    HEADER_BYTES, LAYER_ZERO_LIST_WORDS, MAX_NEIGHBOURS_LAYER_ZERO, MAX_NEIGHBOURS_UPPER_LAYER,
    MAX_UPPER_LAYERS, UPPER_LAYER_LIST_WORDS,
};
use crate::vector::{QuantizedRowsView, VectorRows};

/// The number of candidates when the neighbours of a new row are searched. More gives a better graph, more slowly.
const EF_CONSTRUCTION: usize = 100;

/// The neighbours of a row, layer zero first.
type NeighbourLists = Vec<Vec<u32>>;

struct HnswGraphBuilder<'a> {
    rows: QuantizedRowsView<'a>,
    count: usize,
    neighbour_lists: Vec<Mutex<NeighbourLists>>,
    /// The row where every search starts, and the highest layer, which that row is in.
    entry: RwLock<(u32, usize)>,
}

pub(super) fn build_graph(rows: &VectorRows, threads: usize, stop: &AtomicBool) -> Option<Vec<u8>> {
    let count = u32::try_from(rows.len()).ok().filter(|count| *count > 0)?;
    let lists = (0..count).map(|row| Mutex::new(vec![Vec::new(); 1 + upper_layers_of_row(row)])).collect();
    let builder = HnswGraphBuilder {
        rows: rows.quantized_view(),
        count: rows.len(),
        neighbour_lists: lists,
        entry: RwLock::new((0, upper_layers_of_row(0))),
    };
    let next = AtomicUsize::new(1);
    let work = || {
        let mut marks = VisitedRows::default();
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
    (!stop.load(Ordering::Relaxed)).then(|| builder.into_bytes())
}

/// Returns the number of upper layers that a row is in: pseudo-random, but the same every time.
fn upper_layers_of_row(row: u32) -> usize {
    let mut mixed = u64::from(row).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // Four zero bits for each layer: one row in sixteen is in the next one.
    (mixed.trailing_zeros() as usize / 4).min(MAX_UPPER_LAYERS)
}

impl HnswGraphBuilder<'_> {
    fn insert(&self, row: u32, marks: &mut VisitedRows) {
        let own = upper_layers_of_row(row);
        let (start, highest) = *self.entry.read().unwrap_or_else(PoisonError::into_inner);
        let score = |other: u32| self.rows.row_similarity(row as usize, other as usize);
        let next = |layer: usize| {
            move |other: u32, near: &mut Vec<u32>| {
                near.clear();
                near.extend(self.lock_neighbour_lists(other).get(layer).into_iter().flatten());
            }
        };
        let mut starts = vec![ScoredRow { score: score(start), row: start }];
        for layer in (0..=highest).rev() {
            let sight = if layer > own { 1 } else { EF_CONSTRUCTION };
            let soon = |row: u32| self.rows.prefetch_row(row as usize);
            let mut found =
                search_layer(marks.start_walk(self.count), &starts, sight, next(layer), soon, score, &|_| {
                    true
                });
            found.retain(|near| near.row != row);
            if !found.is_empty() {
                starts = found;
            }
            if layer <= own {
                let chosen = self.select_neighbours(
                    &starts,
                    if layer == 0 { MAX_NEIGHBOURS_LAYER_ZERO / 2 } else { MAX_NEIGHBOURS_UPPER_LAYER },
                );
                self.lock_neighbour_lists(row)[layer].clone_from(&chosen);
                for near in chosen {
                    self.add_neighbour(near, row, layer);
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

    /// Adds a neighbour to a row, and drops the least useful one if there are too many.
    fn add_neighbour(&self, row: u32, new: u32, layer: usize) {
        let limit = if layer == 0 { MAX_NEIGHBOURS_LAYER_ZERO } else { MAX_NEIGHBOURS_UPPER_LAYER };
        let mut lists = self.lock_neighbour_lists(row);
        let Some(list) = lists.get_mut(layer) else { return };
        if list.contains(&new) {
            return;
        }
        list.push(new);
        if list.len() > limit {
            let score = |other: &u32| self.rows.row_similarity(row as usize, *other as usize);
            let mut near: Vec<ScoredRow> =
                list.iter().map(|other| ScoredRow { score: score(other), row: *other }).collect();
            near.sort_unstable_by(|left, right| right.cmp(left));
            *list = self.select_neighbours(&near, limit);
        }
    }

    /// Selects neighbours in different directions. A row that is nearer to a selected one than to this row adds little.
    fn select_neighbours(&self, near: &[ScoredRow], limit: usize) -> Vec<u32> {
        let mut chosen: Vec<u32> = Vec::with_capacity(limit);
        let mut left_out: Vec<u32> = Vec::new();
        for ScoredRow { score, row } in near {
            if chosen.len() == limit {
                break;
            }
            let hidden =
                chosen.iter().any(|other| self.rows.row_similarity(*row as usize, *other as usize) > *score);
            if hidden { left_out.push(*row) } else { chosen.push(*row) }
        }
        let room = limit - chosen.len();
        chosen.extend(left_out.into_iter().take(room));
        chosen
    }

    fn lock_neighbour_lists(&self, row: u32) -> MutexGuard<'_, NeighbourLists> {
        self.neighbour_lists[row as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_bytes(self) -> Vec<u8> {
        let lists: Vec<NeighbourLists> = self
            .neighbour_lists
            .into_iter()
            .map(|lists| lists.into_inner().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let (entry, layers) = self.entry.into_inner().unwrap_or_else(PoisonError::into_inner);
        let above: usize = lists.iter().map(|lists| (lists.len() - 1) * UPPER_LAYER_LIST_WORDS).sum();
        let words = HEADER_BYTES / 4 + lists.len() * (LAYER_ZERO_LIST_WORDS + 1) + 1 + above;
        let mut bytes = Vec::with_capacity(words * 4);
        let word = |bytes: &mut Vec<u8>, word: usize| {
            bytes.extend_from_slice(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
        };
        let list = |bytes: &mut Vec<u8>, list: &[u32], max: usize| {
            word(bytes, list.len());
            list.iter().for_each(|row| bytes.extend_from_slice(&row.to_le_bytes()));
            bytes.resize(bytes.len() + (max - list.len()) * 4, 0);
        };
        for head in [lists.len(), entry as usize, layers, above] {
            word(&mut bytes, head);
        }
        for lists in &lists {
            list(&mut bytes, &lists[0], MAX_NEIGHBOURS_LAYER_ZERO);
        }
        let mut start = 0;
        for lists in &lists {
            word(&mut bytes, start);
            start += (lists.len() - 1) * UPPER_LAYER_LIST_WORDS;
        }
        word(&mut bytes, start);
        for lists in &lists {
            lists[1..].iter().for_each(|above| list(&mut bytes, above, MAX_NEIGHBOURS_UPPER_LAYER));
        }
        bytes
    }
}
