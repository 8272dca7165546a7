//! The look at all rows: products of bytes first, then of the numbers themselves for the best of them.

use std::collections::BinaryHeap;

use super::{Rows, quantized};

/// So many of the first look are looked at again, at least, and so many times the number wanted.
const AGAIN: usize = 50;
const TIMES: usize = 2;
/// From so many products on, several threads share the look: below, starting them costs more than it saves.
const WORTH_SHARING: usize = 1 << 23;
/// The most threads of one look; other searches want some too.
const MOST_THREADS: usize = 8;

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
pub fn nearest(
    parts: &[&Rows],
    vector: &[f32],
    limit: usize,
    admits: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Vec<Near> {
    let wanted = if limit == 0 { 0 } else { limit.saturating_mul(TIMES).max(AGAIN) };
    let (_, small) = quantized(vector);
    let query: Vec<i16> = small.into_iter().map(i16::from).collect();
    let spans = spans(parts, vector.len());
    let mut best = Best::new(wanted);
    if spans.len() <= 1 {
        spans.into_iter().for_each(|span| span.look(parts, &query, admits, &mut best));
    } else {
        std::thread::scope(|scope| {
            let looks: Vec<_> = spans
                .into_iter()
                .map(|span| {
                    let query = &query;
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
        .map(|Found { part, row, .. }| Near { part, row, score: parts[part].dot(row, vector) })
        .collect();
    found.sort_by(|left, right| {
        right.score.total_cmp(&left.score).then_with(|| (left.part, left.row).cmp(&(right.part, right.row)))
    });
    found.truncate(limit);
    found
}

/// Rows that one thread looks at: from a row of a part, so many, into the next parts.
struct Span {
    part: usize,
    row: usize,
    rows: usize,
}

fn spans(parts: &[&Rows], dimension: usize) -> Vec<Span> {
    let total: usize = parts.iter().map(|rows| rows.len()).sum();
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
        while part < parts.len() && ahead >= parts[part].len() - row {
            ahead -= parts[part].len() - row;
            (part, row) = (part + 1, 0);
        }
        row += ahead;
    }
    spans
}

impl Span {
    fn look(&self, parts: &[&Rows], query: &[i16], admits: &dyn Fn(usize, usize) -> bool, best: &mut Best) {
        let (mut part, mut first, mut left) = (self.part, self.row, self.rows);
        while left > 0 && part < parts.len() {
            let rows = parts[part];
            let end = rows.len().min(first + left);
            if rows.dimension() == query.len() && !query.is_empty() {
                let small = &rows.small()[first * query.len()..end * query.len()];
                let scales = rows.scales()[first * 4..end * 4].chunks_exact(4);
                for (at, (bytes, scale)) in small.chunks_exact(query.len()).zip(scales).enumerate() {
                    let row = first + at;
                    if admits(part, row) {
                        let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]);
                        best.offer(Found { score: product(bytes, query) as f32 * scale, part, row });
                    }
                }
            }
            left -= end - first;
            (part, first) = (part + 1, 0);
        }
    }
}

/// The product of a row of bytes with a vector of small numbers. Written so that the compiler makes vector
/// instructions of it on every machine: 16 lanes side by side, widened before they are multiplied.
fn product(bytes: &[u8], query: &[i16]) -> i32 {
    const LANES: usize = 16;
    let (rows, rest) = bytes.as_chunks::<LANES>();
    let (queries, query_rest) = query.as_chunks::<LANES>();
    let mut sums = [0_i32; LANES];
    for (row, query) in rows.iter().zip(queries) {
        for lane in 0..LANES {
            sums[lane] += i32::from(i16::from(row[lane].cast_signed())) * i32::from(query[lane]);
        }
    }
    let tail: i32 = rest
        .iter()
        .zip(query_rest)
        .map(|(byte, query)| i32::from(byte.cast_signed()) * i32::from(*query))
        .sum();
    sums.iter().sum::<i32>() + tail
}

#[derive(Clone, Copy, PartialEq)]
struct Found {
    score: f32,
    part: usize,
    row: usize,
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
struct Best {
    wanted: usize,
    heap: BinaryHeap<Found>,
}

impl Best {
    fn new(wanted: usize) -> Self {
        Self { wanted, heap: BinaryHeap::with_capacity(wanted.min(1 << 16) + 1) }
    }

    fn offer(&mut self, found: Found) {
        if self.heap.len() < self.wanted {
            self.heap.push(found);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && found < *worst
        {
            *worst = found;
        }
    }
}
