//! A graph over rows, for when there are too many to look at all: each row knows rows near it, and a search walks from
//! neighbour to neighbour towards the vector. What it finds is nearly, not surely, the nearest.
//!
//! This is the hierarchical navigable small world of Malkov and Yashunin. A graph is made from rows and nothing else, so
//! it can be made again at any time; as bytes it can be written to a file and mapped back.
//!
//! ```text
//! rows, entry, layers, words above 4 × u32 · ground rows × (1 + 32) × u32 · starts above (rows + 1) × u32
//! above: for each row and each layer it has above the ground, (1 + 16) × u32
//! ```

mod build;
mod walk;

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::AtomicBool;

use super::Rows;
use super::scan::{Best, Found};
use walk::{Marks, Scored, walk};

/// The most neighbours of a row on the ground, and on each layer above.
const GROUND: usize = 32;
const ABOVE: usize = 16;
/// The words of a list on the ground and above: how many there are, then they.
const GROUND_WORDS: usize = GROUND + 1;
const ABOVE_WORDS: usize = ABOVE + 1;
/// The most layers above the ground; a sixteenth of the rows of one is on the next.
const MOST_LAYERS: usize = 12;
const HEAD: usize = 16;
/// At least so many rows are kept in sight on the way.
const SIGHT: usize = 40;

/// A graph over the rows it was made from.
pub struct Graph {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    rows: usize,
    entry: u32,
    layers: usize,
}

thread_local! {
    static MARKS: RefCell<Marks> = RefCell::new(Marks::default());
}

impl Graph {
    /// The bytes of a graph over rows, made by so many threads. `None` if there are no rows or `stop` was raised.
    pub fn write(rows: &Rows, threads: usize, stop: &AtomicBool) -> Option<Vec<u8>> {
        build::build(rows, threads, stop)
    }

    /// Reads a graph that was written for so many rows. `None` if it is no such graph.
    pub fn open(bytes: impl AsRef<[u8]> + Send + Sync + 'static, rows: usize) -> Option<Self> {
        let all = bytes.as_ref();
        let word = |at: usize| {
            all.get(at * 4..at * 4 + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
        };
        let (count, entry, layers, above) = (word(0)?, word(1)?, word(2)?, word(3)?);
        let words = count.checked_mul(GROUND_WORDS + 1)?.checked_add(above)?.checked_add(HEAD / 4 + 1)?;
        if count != rows || entry >= rows || layers > MOST_LAYERS || words.checked_mul(4)? != all.len() {
            return None;
        }
        let graph = Self { bytes: Box::new(bytes), rows, entry: u32::try_from(entry).ok()?, layers };
        graph.view().is_sound(above).then_some(graph)
    }

    /// Offers rows near a vector of bytes, of those that are admitted; `wanted` of them if there are as many.
    pub(super) fn look(
        &self,
        rows: &Rows,
        query: &[u8],
        wanted: usize,
        part: usize,
        admits: &dyn Fn(usize) -> bool,
        best: &mut Best,
    ) {
        let (view, lists) = (rows.view(), self.view());
        let score = |row: u32| view.near(row as usize, query);
        let mut at = Scored { score: score(self.entry), row: self.entry };
        let mut near: Vec<u32> = Vec::new();
        for layer in (1..=self.layers).rev() {
            loop {
                let before = at;
                lists.neighbours(at.row, layer, &mut near);
                for row in near.drain(..) {
                    at = at.max(Scored { score: score(row), row });
                }
                if at == before {
                    break;
                }
            }
        }
        MARKS.with_borrow_mut(|marks| {
            let next = |row: u32, near: &mut Vec<u32>| lists.neighbours(row, 0, near);
            let soon = |row: u32| view.soon(row as usize);
            let found =
                walk(marks.anew(self.rows), &[at], wanted.max(self.sight()), next, soon, score, admits);
            for Scored { score, row } in found.into_iter().take(wanted) {
                best.offer(Found { score, part, row: row as usize });
            }
        });
    }

    /// How many rows are kept in sight: of many, more have to be, to find as large a share of the nearest. With 512 numbers
    /// a row, 48 in sight of 10,000 found 0.977 of the ten nearest; of 100,000 48 found 0.924, 60 0.947, 71 0.958
    /// and 80 0.972.
    fn sight(&self) -> usize {
        SIGHT.max(((self.rows as f64).powf(0.25) * 4.0) as usize)
    }

    fn view(&self) -> View<'_> {
        View { bytes: (*self.bytes).as_ref(), rows: self.rows }
    }
}

/// The bytes of a graph, at hand for many looks.
#[derive(Clone, Copy)]
struct View<'a> {
    bytes: &'a [u8],
    rows: usize,
}

impl<'a> View<'a> {
    /// Whether every list lies within and names rows that there are.
    fn is_sound(&self, above: usize) -> bool {
        let fits = |count: u32, most: usize| count as usize <= most;
        let mut before = 0;
        for row in 0..self.rows {
            let list = self.words(HEAD / 4 + row * GROUND_WORDS, GROUND_WORDS);
            let (start, end) = self.lists(row as u32);
            if start != before || end < start || end > above || (end - start) % ABOVE_WORDS != 0 {
                return false;
            }
            before = end;
            let mut all = std::iter::once((list, GROUND)).chain(
                (start..end)
                    .step_by(ABOVE_WORDS)
                    .map(|at| (self.words(self.above() + at, ABOVE_WORDS), ABOVE)),
            );
            if !all.all(|(list, most)| {
                fits(first(list), most) && named(list).all(|row| (row as usize) < self.rows)
            }) {
                return false;
            }
        }
        before == above
    }

    /// The neighbours of a row on a layer; none where the row does not reach that high.
    fn neighbours(&self, row: u32, layer: usize, near: &mut Vec<u32>) {
        near.clear();
        if layer == 0 {
            near.extend(named(self.words(HEAD / 4 + row as usize * GROUND_WORDS, GROUND_WORDS)));
            return;
        }
        let (start, end) = self.lists(row);
        let at = start + (layer - 1) * ABOVE_WORDS;
        if at < end {
            near.extend(named(self.words(self.above() + at, ABOVE_WORDS)));
        }
    }

    /// Where the lists of a row above the ground begin and end, in words.
    fn lists(&self, row: u32) -> (usize, usize) {
        let at = HEAD / 4 + self.rows * GROUND_WORDS + row as usize;
        let pair = self.words(at, 2);
        (first(pair) as usize, first(&pair[4..]) as usize)
    }

    /// The first word of the lists above the ground.
    fn above(&self) -> usize {
        HEAD / 4 + self.rows * GROUND_WORDS + self.rows + 1
    }

    fn words(&self, at: usize, count: usize) -> &'a [u8] {
        &self.bytes[at * 4..(at + count) * 4]
    }
}

fn first(words: &[u8]) -> u32 {
    u32::from_le_bytes([words[0], words[1], words[2], words[3]])
}

/// The rows a list names.
fn named(list: &[u8]) -> impl Iterator<Item = u32> {
    list[4..].chunks_exact(4).take(first(list) as usize).map(first)
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} rows, {} layers)", self.rows, self.layers)
    }
}
