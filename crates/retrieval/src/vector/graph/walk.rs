//! The walk from neighbour to neighbour, the same while a graph is made and when it is searched.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A row with its nearness. The nearer is the greater; of equally near ones the earlier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    pub(super) score: f32,
    pub(super) row: u32,
}

impl Eq for Scored {}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.row.cmp(&self.row))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Which rows were seen on this walk. Kept between walks so that nothing has to be cleared.
#[derive(Debug, Default)]
pub(super) struct Marks {
    seen: Vec<u32>,
    walk: u32,
}

impl Marks {
    /// Forgets the walk before.
    pub(super) fn anew(&mut self, rows: usize) -> &mut Self {
        self.walk = self.walk.wrapping_add(1);
        if self.walk == 0 || self.seen.len() < rows {
            self.seen.clear();
            self.seen.resize(rows, 0);
            self.walk = 1;
        }
        self
    }

    /// Whether a row is seen for the first time.
    fn first(&mut self, row: u32) -> bool {
        let seen = &mut self.seen[row as usize];
        let new = *seen != self.walk;
        *seen = self.walk;
        new
    }
}

/// The rows nearest to something, best first, found from `starts` with `sight` rows in sight: the walk goes on while
/// an unvisited row is nearer than the worst in sight. Only admitted rows are found; all are walked through. `marks` are
/// fresh, and `soon` is told the rows that are scored next.
pub(super) fn walk(
    marks: &mut Marks,
    starts: &[Scored],
    sight: usize,
    mut neighbours: impl FnMut(u32, &mut Vec<u32>),
    soon: impl Fn(u32),
    score: impl Fn(u32) -> f32,
    admits: &dyn Fn(usize) -> bool,
) -> Vec<Scored> {
    let mut open: BinaryHeap<Scored> = BinaryHeap::new();
    let mut found: BinaryHeap<Reverse<Scored>> = BinaryHeap::with_capacity(sight + 1);
    let mut near: Vec<u32> = Vec::new();
    for start in starts {
        if marks.first(start.row) {
            open.push(*start);
            if admits(start.row as usize) {
                found.push(Reverse(*start));
            }
        }
    }
    while found.len() > sight {
        found.pop();
    }
    let mut worst = if found.len() == sight { lowest(&found) } else { f32::NEG_INFINITY };
    while let Some(at) = open.pop() {
        if at.score < worst {
            break;
        }
        neighbours(at.row, &mut near);
        near.retain(|row| marks.first(*row));
        near.iter().for_each(|row| soon(*row));
        for row in near.drain(..) {
            let seen = Scored { score: score(row), row };
            if seen.score <= worst {
                continue;
            }
            open.push(seen);
            if admits(row as usize) {
                found.push(Reverse(seen));
                if found.len() > sight {
                    found.pop();
                }
                if found.len() == sight {
                    worst = lowest(&found);
                }
            }
        }
    }
    let mut found: Vec<Scored> = found.into_iter().map(|Reverse(scored)| scored).collect();
    found.sort_unstable_by(|left, right| right.cmp(left));
    found
}

fn lowest(found: &BinaryHeap<Reverse<Scored>>) -> f32 {
    found.peek().map_or(f32::NEG_INFINITY, |Reverse(scored)| scored.score)
}
