//! Score accumulators, one for each slot. The memory is reused by the searches of one thread. While few slots have a
//! sum, they are listed, and only those are read and cleared. Once many have one, all slots are scanned in order, which
//! is faster for each slot.

use std::cell::RefCell;

use super::postings::SLOTS_PER_BLOCK;
use super::segment::LAYER_COUNT;

/// The accumulated score of each slot in each layer.
#[derive(Debug, Default)]
pub(super) struct ScoreAccumulators {
    sums_by_layer: [Vec<f32>; LAYER_COUNT],
    /// The slots that have a sum, while there are few of them.
    touched_slots: Vec<u32>,
    slot_count: usize,
    is_dense: bool,
}

/// If one slot in this many has a sum, all slots are scanned.
const DENSE_SHARE_DIVISOR: usize = 8;
/// In an index with at most this many slots, all slots are scanned as soon as more than
/// [`SMALL_INDEX_MAX_SPARSE_SLOTS`] have a sum. Tests use smaller values for both, so that their small indexes run both
/// code paths.
const SMALL_INDEX_MAX_SLOTS: usize = if cfg!(test) { 256 } else { 1 << 14 };
const SMALL_INDEX_MAX_SPARSE_SLOTS: usize = if cfg!(test) { 16 } else { 256 };
/// This many slots are scanned in the time that one listed slot takes.
const DENSE_SCAN_SPEEDUP: usize = 4;
/// The number of slots that are compared at a time.
const LANES: usize = 16;

thread_local! {
    static THREAD_ACCUMULATORS: RefCell<ScoreAccumulators> = RefCell::default();
}

impl ScoreAccumulators {
    /// Calls `work` with accumulators for `slots` slots, all of them zero.
    pub(super) fn with_cleared<T>(slots: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        // Taken out while in use: after a panic no uncleared sums are reused.
        let mut sums = THREAD_ACCUMULATORS.take();
        for cells in &mut sums.sums_by_layer {
            if cells.len() < slots {
                cells.resize(slots, 0.0);
            }
        }
        (sums.slot_count, sums.is_dense) = (slots, false);
        let done = work(&mut sums);
        sums.clear();
        THREAD_ACCUMULATORS.set(sums);
        done
    }

    fn clear(&mut self) {
        for cells in &mut self.sums_by_layer {
            if self.is_dense {
                cells[..self.slot_count].fill(0.0);
            } else {
                self.touched_slots.iter().for_each(|slot| cells[*slot as usize] = 0.0);
            }
        }
        self.touched_slots.clear();
    }

    /// Adds scores to slots. The slot numbers are relative to `base`.
    #[inline]
    pub(super) fn add(&mut self, base: usize, slots: &[u32], layer: usize, more: &[f32; SLOTS_PER_BLOCK]) {
        if !self.is_dense {
            let untouched = |slot: usize| self.sums_by_layer.iter().all(|cells| cells[slot] == 0.0);
            let new = slots
                .iter()
                .zip(more)
                .filter(|(slot, more)| **more > 0.0 && untouched(base + **slot as usize));
            self.touched_slots.extend(new.map(|(slot, _)| base as u32 + slot));
            let listed = self.touched_slots.len();
            self.is_dense = listed * DENSE_SHARE_DIVISOR > self.slot_count
                || self.slot_count <= SMALL_INDEX_MAX_SLOTS && listed > SMALL_INDEX_MAX_SPARSE_SLOTS;
        }
        let cells = &mut self.sums_by_layer[layer][base..self.slot_count];
        for (slot, more) in slots.iter().zip(more) {
            cells[*slot as usize] += more;
        }
    }

    /// Returns up to `count` of the slots that got a sum first.
    pub(super) fn first_touched_slots(&self, count: usize) -> &[u32] {
        &self.touched_slots[..self.touched_slots.len().min(count)]
    }

    /// The cost of scanning every slot that has a sum, counted in listed slots.
    pub(super) fn scan_cost(&self) -> usize {
        if self.is_dense { self.slot_count / DENSE_SCAN_SPEEDUP } else { self.touched_slots.len() }
    }

    /// Returns the sums of a slot.
    pub(super) fn sums_of_slot(&self, slot: usize) -> [f32; LAYER_COUNT] {
        std::array::from_fn(|layer| self.sums_by_layer[layer][slot])
    }

    /// Returns the highest sum of each layer.
    pub(super) fn max_sum_per_layer(&self) -> [f32; LAYER_COUNT] {
        let higher = |left: f32, right: f32| if right > left { right } else { left };
        std::array::from_fn(|layer| {
            let cells = &self.sums_by_layer[layer][..self.slot_count];
            if !self.is_dense {
                return self.touched_slots.iter().fold(0.0, |high, slot| higher(high, cells[*slot as usize]));
            }
            let (chunks, rest) = cells.as_chunks::<LANES>();
            let mut high = [0.0_f32; LANES];
            for chunk in chunks {
                high.iter_mut().zip(chunk).for_each(|(high, cell)| *high = higher(*high, *cell));
            }
            high.iter().chain(rest).fold(0.0, |high, cell| higher(high, *cell))
        })
    }

    /// Calls `each` for every slot whose scaled sums add up to `bar` or more, with that total. The bar is above zero.
    /// `each` returns the bar from then on, or stops the scan.
    #[inline]
    pub(super) fn for_each_slot_above(
        &self,
        scales: [f32; LAYER_COUNT],
        mut bar: f32,
        mut each: impl FnMut(usize, f32) -> Option<f32>,
    ) -> Option<()> {
        let [first, second] = &self.sums_by_layer;
        let of = |first: f32, second: f32| first * scales[0] + second * scales[1];
        if !self.is_dense {
            for slot in &self.touched_slots {
                let at = *slot as usize;
                let score = of(first[at], second[at]);
                if score >= bar {
                    bar = each(at, score)?;
                }
            }
            return Some(());
        }
        let (firsts, first_rest) = first[..self.slot_count].as_chunks::<LANES>();
        let (seconds, second_rest) = second[..self.slot_count].as_chunks::<LANES>();
        let mut start = 0;
        for (first, second) in firsts.iter().zip(seconds) {
            let scores: [f32; LANES] = std::array::from_fn(|at| of(first[at], second[at]));
            if scores.iter().fold(false, |any, score| any | (*score >= bar)) {
                for (at, score) in scores.iter().enumerate() {
                    if *score >= bar {
                        bar = each(start + at, *score)?;
                    }
                }
            }
            start += LANES;
        }
        for (at, (first, second)) in first_rest.iter().zip(second_rest).enumerate() {
            let score = of(*first, *second);
            if score >= bar {
                bar = each(start + at, score)?;
            }
        }
        Some(())
    }
}
