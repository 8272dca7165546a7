//! Sums for slots, of which a search touches few: a thread keeps the room and only what was touched is cleared.

use std::cell::RefCell;

use super::segment::LAYERS;

/// A sum for each slot and layer.
#[derive(Debug, Default)]
pub(super) struct Sums {
    cells: Vec<[f32; LAYERS]>,
    touched: Vec<u32>,
}

thread_local! {
    static ROOM: RefCell<Sums> = const { RefCell::new(Sums { cells: Vec::new(), touched: Vec::new() }) };
}

impl Sums {
    /// Works with sums for so many slots, all zero.
    pub(super) fn with<T>(slots: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        // Taken out while it is used: a panic leaves nothing uncleared behind.
        let mut sums = ROOM.take();
        if sums.cells.len() < slots {
            sums.cells.resize(slots, [0.0; LAYERS]);
        }
        let done = work(&mut sums);
        for slot in sums.touched.drain(..) {
            sums.cells[slot as usize] = [0.0; LAYERS];
        }
        ROOM.set(sums);
        done
    }

    /// Adds to a slot.
    #[inline]
    pub(super) fn add(&mut self, slot: usize, layer: usize, more: f32) {
        if more <= 0.0 {
            return;
        }
        let cell = &mut self.cells[slot];
        if *cell == [0.0; LAYERS] {
            self.touched.push(slot as u32);
        }
        cell[layer] += more;
    }

    /// How many slots have a sum.
    pub(super) fn len(&self) -> usize {
        self.touched.len()
    }

    /// The sum of a slot.
    pub(super) fn of(&self, slot: usize) -> [f32; LAYERS] {
        self.cells[slot]
    }

    /// Every slot that has a sum.
    pub(super) fn all(&self) -> Vec<(usize, [f32; LAYERS])> {
        self.touched.iter().map(|slot| (*slot as usize, self.cells[*slot as usize])).collect()
    }
}
