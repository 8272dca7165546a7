//! Sums for slots. A thread keeps the room for them. While few slots have one they are listed, and only those are looked
//! at and cleared; once many do, all slots are gone through in order, which is faster for each.

use std::cell::RefCell;

use super::postings::BLOCK;
use super::segment::LAYERS;

/// A sum for each slot and layer.
#[derive(Debug, Default)]
pub(super) struct Sums {
    cells: [Vec<f32>; LAYERS],
    /// The slots that have a sum, while they are few.
    touched: Vec<u32>,
    slots: usize,
    many: bool,
}

/// When one slot in so many has a sum, they are many.
const MANY: usize = 8;
/// Of slots so few that all are gone through at once, these are many.
const SMALL: usize = if cfg!(test) { 256 } else { 1 << 14 };
const SOME: usize = if cfg!(test) { 16 } else { 256 };
/// So many slots are gone through in the time that one takes that is listed.
const FASTER: usize = 4;
/// So many slots are compared at a time.
const LANES: usize = 16;

thread_local! {
    static ROOM: RefCell<Sums> = RefCell::default();
}

impl Sums {
    /// Works with sums for so many slots, all zero.
    pub(super) fn with<T>(slots: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        // Taken out while it is used: a panic leaves nothing uncleared behind.
        let mut sums = ROOM.take();
        for cells in &mut sums.cells {
            if cells.len() < slots {
                cells.resize(slots, 0.0);
            }
        }
        (sums.slots, sums.many) = (slots, false);
        let done = work(&mut sums);
        sums.clear();
        ROOM.set(sums);
        done
    }

    fn clear(&mut self) {
        for cells in &mut self.cells {
            if self.many {
                cells[..self.slots].fill(0.0);
            } else {
                self.touched.iter().for_each(|slot| cells[*slot as usize] = 0.0);
            }
        }
        self.touched.clear();
    }

    /// Adds to slots from `base` on.
    #[inline]
    pub(super) fn add(&mut self, base: usize, slots: &[u32], layer: usize, more: &[f32; BLOCK]) {
        if !self.many {
            let untouched = |slot: usize| self.cells.iter().all(|cells| cells[slot] == 0.0);
            let new = slots
                .iter()
                .zip(more)
                .filter(|(slot, more)| **more > 0.0 && untouched(base + **slot as usize));
            self.touched.extend(new.map(|(slot, _)| base as u32 + slot));
            let listed = self.touched.len();
            self.many = listed * MANY > self.slots || self.slots <= SMALL && listed > SOME;
        }
        let cells = &mut self.cells[layer][base..self.slots];
        for (slot, more) in slots.iter().zip(more) {
            cells[*slot as usize] += more;
        }
    }

    /// Some of the slots that had a sum first.
    pub(super) fn first(&self, count: usize) -> &[u32] {
        &self.touched[..self.touched.len().min(count)]
    }

    /// How long it takes to look at every slot that has a sum, in slots that are listed.
    pub(super) fn effort(&self) -> usize {
        if self.many { self.slots / FASTER } else { self.touched.len() }
    }

    /// The sums of a slot.
    pub(super) fn of(&self, slot: usize) -> [f32; LAYERS] {
        std::array::from_fn(|layer| self.cells[layer][slot])
    }

    /// The highest sum of each layer.
    pub(super) fn highest(&self) -> [f32; LAYERS] {
        let higher = |left: f32, right: f32| if right > left { right } else { left };
        std::array::from_fn(|layer| {
            let cells = &self.cells[layer][..self.slots];
            if !self.many {
                return self.touched.iter().fold(0.0, |high, slot| higher(high, cells[*slot as usize]));
            }
            let (chunks, rest) = cells.as_chunks::<LANES>();
            let mut high = [0.0_f32; LANES];
            for chunk in chunks {
                high.iter_mut().zip(chunk).for_each(|(high, cell)| *high = higher(*high, *cell));
            }
            high.iter().chain(rest).fold(0.0, |high, cell| higher(high, *cell))
        })
    }

    /// Gives every slot whose sums, each multiplied by its scale, come to `bar` or more, with what they come to. The bar
    /// is above zero, and `each` says where it is from then on, or that it has seen enough.
    #[inline]
    pub(super) fn above(
        &self,
        scales: [f32; LAYERS],
        mut bar: f32,
        mut each: impl FnMut(usize, f32) -> Option<f32>,
    ) -> Option<()> {
        let [first, second] = &self.cells;
        let of = |first: f32, second: f32| first * scales[0] + second * scales[1];
        if !self.many {
            for slot in &self.touched {
                let at = *slot as usize;
                let score = of(first[at], second[at]);
                if score >= bar {
                    bar = each(at, score)?;
                }
            }
            return Some(());
        }
        let (firsts, first_rest) = first[..self.slots].as_chunks::<LANES>();
        let (seconds, second_rest) = second[..self.slots].as_chunks::<LANES>();
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
