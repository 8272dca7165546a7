//! The search in one layer, used both to build a graph and to query it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A row with its similarity. The more similar row is greater; of equal ones, the one with the lower number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoredRow {
    pub(super) score: f32,
    pub(super) row: u32,
}

impl Eq for ScoredRow {}

impl Ord for ScoredRow {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.row.cmp(&self.row))
    }
}

impl PartialOrd for ScoredRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The rows that were visited in a search. Reused between searches without clearing.
#[derive(Debug, Default)]
pub(super) struct VisitedRows {
    last_visit: Vec<u32>,
    current_walk: u32,
}

impl VisitedRows {
    /// Starts a new search.
    pub(super) fn start_walk(&mut self, rows: usize) -> &mut Self {
        self.current_walk = self.current_walk.wrapping_add(1);
        if self.current_walk == 0 || self.last_visit.len() < rows {
            self.last_visit.clear();
            self.last_visit.resize(rows, 0);
            self.current_walk = 1;
        }
        self
    }

    /// Marks a row as visited and returns whether that is new.
    fn mark_visited(&mut self, row: u32) -> bool {
        let seen = &mut self.last_visit[row as usize];
        let new = *seen != self.current_walk;
        *seen = self.current_walk;
        new
    }
}

/// Returns the nearest rows, best first, found from `starts` with `sight` candidates. The search continues while an
/// unvisited row is nearer than the worst candidate. Only admitted rows are returned; all are walked through. `marks`
/// must be fresh, and `soon` is called with the rows that are scored next.
pub(super) fn search_layer(
    marks: &mut VisitedRows,
    starts: &[ScoredRow],
    sight: usize,
    mut neighbours: impl FnMut(u32, &mut Vec<u32>),
    soon: impl Fn(u32),
    score: impl Fn(u32) -> f32,
    admits: &dyn Fn(usize) -> bool,
) -> Vec<ScoredRow> {
    let mut open: BinaryHeap<ScoredRow> = BinaryHeap::new();
    let mut found: BinaryHeap<Reverse<ScoredRow>> = BinaryHeap::with_capacity(sight + 1);
    let mut near: Vec<u32> = Vec::new();
    for start in starts {
        if marks.mark_visited(start.row) {
            open.push(*start);
            if admits(start.row as usize) {
                found.push(Reverse(*start));
            }
        }
    }
    while found.len() > sight {
        found.pop();
    }
    let mut worst = if found.len() == sight { lowest_score(&found) } else { f32::NEG_INFINITY };
    while let Some(at) = open.pop() {
        if at.score < worst {
            break;
        }
        neighbours(at.row, &mut near);
        near.retain(|row| marks.mark_visited(*row));
        near.iter().for_each(|row| soon(*row));
        for row in near.drain(..) {
            let seen = ScoredRow { score: score(row), row };
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
                    worst = lowest_score(&found);
                }
            }
        }
    }
    let mut found: Vec<ScoredRow> = found.into_iter().map(|Reverse(scored)| scored).collect();
    found.sort_unstable_by(|left, right| right.cmp(left));
    found
}

fn lowest_score(found: &BinaryHeap<Reverse<ScoredRow>>) -> f32 {
    found.peek().map_or(f32::NEG_INFINITY, |Reverse(scored)| scored.score)
}
