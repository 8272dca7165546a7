//! The look at rows: products of bytes first, along a graph or of all, then of the numbers themselves for the best.

use std::collections::BinaryHeap;

use super::{Graph, Rows, quantized};

/// So many of the first look are looked at again, at least, and so many times the number wanted.
const AGAIN: usize = 50;
const TIMES: usize = 2;
/// From so many products on, several threads share the look: below, starting them costs more than it saves.
const WORTH_SHARING: usize = if cfg!(test) { 1 << 14 } else { 1 << 23 };
/// The most threads of one look; other searches want some too.
const MOST_THREADS: usize = 8;
/// A graph is used when at least one row in so many competes: else the walk passes too many that do not.
const OPEN: usize = 4;

/// Rows, with a graph over them where there is one.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The rows.
    pub rows: &'a Rows,
    /// A graph over exactly these rows.
    pub graph: Option<&'a Graph>,
}

/// A row found: which of the given rows, where in it, and the product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// Which of the parts that were searched.
    pub part: usize,
    /// The row there.
    pub row: usize,
    /// Its product with the vector.
    pub score: f32,
}

/// The rows with the largest products, largest first; of equal ones the earlier. `admits` says which rows compete.
/// Without graphs these are surely the largest. Where few rows of a graph compete, all of those are looked at.
pub fn nearest(
    fields: &[Field<'_>],
    vector: &[f32],
    limit: usize,
    admits: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Vec<Near> {
    let wanted = if limit == 0 { 0 } else { limit.saturating_mul(TIMES).max(AGAIN) };
    let (_, query) = quantized(vector);
    let mut best = Best::new(wanted);
    let mut parts: Vec<(usize, &Rows)> = Vec::new();
    for (part, field) in fields.iter().enumerate() {
        let fits = field.rows.dimension() == query.len() && !query.is_empty() && wanted > 0;
        match field.graph.filter(|_| fits && is_open(field.rows.len(), &|row| admits(part, row))) {
            Some(graph) => {
                graph.look(field.rows, &query, wanted, part, &|row| admits(part, row), &mut best);
            }
            None if fits => parts.push((part, field.rows)),
            None => {}
        }
    }
    let spans = spans(&parts, query.len());
    if spans.len() <= 1 {
        spans.into_iter().for_each(|span| span.look(&parts, &query, admits, &mut best));
    } else {
        std::thread::scope(|scope| {
            let looks: Vec<_> = spans
                .into_iter()
                .map(|span| {
                    let (parts, query) = (&parts, &query);
                    scope.spawn(move || {
                        let mut best = Best::new(wanted);
                        span.look(parts, query, admits, &mut best);
                        best
                    })
                })
                .collect();
            for look in looks {
                match look.join() {
                    Ok(found) => found.heap.into_iter().for_each(|found| best.offer(found)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    let mut found: Vec<Near> = best
        .heap
        .into_iter()
        .map(|Found { part, row, .. }| Near { part, row, score: fields[part].rows.dot(row, vector) })
        .collect();
    found.sort_by(|left, right| {
        right.score.total_cmp(&left.score).then_with(|| (left.part, left.row).cmp(&(right.part, right.row)))
    });
    found.truncate(limit);
    found
}

/// Whether so many rows compete that a walk meets them soon. Some are asked, evenly spread.
fn is_open(rows: usize, admits: &dyn Fn(usize) -> bool) -> bool {
    const ASKED: usize = 200;
    let step = (rows / ASKED).max(1);
    let asked = (0..rows).step_by(step);
    let admitted = asked.clone().filter(|row| admits(*row)).count();
    admitted * OPEN >= asked.count()
}

/// Rows that one thread looks at: from a row of a part, so many, into the next parts.
struct Span {
    part: usize,
    row: usize,
    rows: usize,
}

fn spans(parts: &[(usize, &Rows)], dimension: usize) -> Vec<Span> {
    let total: usize = parts.iter().map(|(_, rows)| rows.len()).sum();
    let products = total.saturating_mul(dimension);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = (products / WORTH_SHARING).clamp(1, cores);
    let each = total.div_ceil(threads).max(1);
    let mut spans = Vec::new();
    let (mut part, mut row, mut left) = (0, 0, total);
    while left > 0 {
        let rows = each.min(left);
        spans.push(Span { part, row, rows });
        left -= rows;
        let mut ahead = rows;
        while part < parts.len() && ahead >= parts[part].1.len() - row {
            ahead -= parts[part].1.len() - row;
            (part, row) = (part + 1, 0);
        }
        row += ahead;
    }
    spans
}

impl Span {
    fn look(
        &self,
        parts: &[(usize, &Rows)],
        query: &[u8],
        admits: &dyn Fn(usize, usize) -> bool,
        best: &mut Best,
    ) {
        let (mut at, mut first, mut left) = (self.part, self.row, self.rows);
        while left > 0 && at < parts.len() {
            let (part, rows) = parts[at];
            let end = rows.len().min(first + left);
            for row in (first..end).filter(|row| admits(part, *row)) {
                best.offer(Found { score: rows.near(row, query), part, row });
            }
            left -= end - first;
            (at, first) = (at + 1, 0);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) score: f32,
    pub(super) part: usize,
    pub(super) row: usize,
}

impl Eq for Found {}

impl Ord for Found {
    /// The worst is the greatest, so that a heap gives it up first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then_with(|| (self.part, self.row).cmp(&(other.part, other.row)))
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The best so many.
pub(super) struct Best {
    wanted: usize,
    heap: BinaryHeap<Found>,
}

impl Best {
    fn new(wanted: usize) -> Self {
        Self { wanted, heap: BinaryHeap::with_capacity(wanted.min(1 << 16) + 1) }
    }

    pub(super) fn offer(&mut self, found: Found) {
        if self.heap.len() < self.wanted {
            self.heap.push(found);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && found < *worst
        {
            *worst = found;
        }
    }
}
