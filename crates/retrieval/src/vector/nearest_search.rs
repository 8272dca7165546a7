//! Nearest-neighbour search: int8 products first, with a graph or over all rows, then exact products for the best rows.

use std::collections::BinaryHeap;

use super::{HnswGraph, VectorRows, quantize};

/// The minimum number of candidates that are scored exactly, and the factor by which they exceed the requested number.
const MIN_RESCORED_ROWS: usize = 32;
const RESCORED_ROWS_FACTOR: usize = 2;
/// Each thread of a scan gets at least this many multiplications; below that, starting it costs more than it saves. The
/// value is lower in tests, so that a small set of rows is scanned by several threads.
const PRODUCTS_PER_THREAD: usize = if cfg!(test) { 1 << 14 } else { 1 << 23 };
/// The maximum number of threads of one scan, so that other searches get some too.
const MAX_SCAN_THREADS: usize = 8;
/// A graph is used if at least one row in this many is admitted. With fewer, a walk visits too many rows that are not admitted.
const GRAPH_MAX_ROWS_PER_ADMITTED_ROW: usize = 4;

/// Rows, with a graph over them where there is one.
#[derive(Clone, Copy, Debug)]
pub struct VectorSearchTarget<'a> {
    /// The rows.
    pub rows: &'a VectorRows,
    /// A graph over exactly these rows.
    pub graph: Option<&'a HnswGraph>,
}

/// A row that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearestRow {
    /// The index of the search target.
    pub target: usize,
    /// The row in that target.
    pub row: usize,
    /// Its dot product with the query vector.
    pub score: f32,
}

/// Returns the rows with the largest dot products, largest first; of equal ones, the earlier first. `admits` selects
/// the rows that are searched. Without graphs the result is exact. If few rows of a graph are admitted, those are
/// scanned.
pub fn nearest_rows(
    fields: &[VectorSearchTarget<'_>],
    vector: &[f32],
    limit: usize,
    admits: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Vec<NearestRow> {
    let wanted =
        if limit == 0 { 0 } else { limit.saturating_mul(RESCORED_ROWS_FACTOR).max(MIN_RESCORED_ROWS) };
    let (_, query) = quantize(vector);
    let mut best = BestScannedRows::new(wanted);
    let mut parts: Vec<(usize, &VectorRows)> = Vec::new();
    for (part, field) in fields.iter().enumerate() {
        let fits = field.rows.dimension() == query.len() && !query.is_empty() && wanted > 0;
        match field.graph.filter(|_| fits && enough_rows_admitted(field.rows.len(), &|row| admits(part, row)))
        {
            Some(graph) => {
                graph.search(field.rows, &query, wanted, part, &|row| admits(part, row), &mut best);
            }
            None if fits => parts.push((part, field.rows)),
            None => {}
        }
    }
    let spans = scan_ranges(&parts, query.len());
    if spans.len() <= 1 {
        spans.into_iter().for_each(|span| span.scan(&parts, &query, admits, &mut best));
    } else {
        std::thread::scope(|scope| {
            let looks: Vec<_> = spans
                .into_iter()
                .map(|span| {
                    let (parts, query) = (&parts, &query);
                    scope.spawn(move || {
                        let mut best = BestScannedRows::new(wanted);
                        span.scan(parts, query, admits, &mut best);
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
    let mut found: Vec<NearestRow> = best
        .heap
        .into_iter()
        .map(|ScannedRow { target: part, row, .. }| NearestRow {
            target: part,
            row,
            score: fields[part].rows.dot(row, vector),
        })
        .collect();
    found.sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then_with(|| (left.target, left.row).cmp(&(right.target, right.row)))
    });
    found.truncate(limit);
    found
}

/// Estimates from an even sample whether enough rows are admitted to use a graph.
fn enough_rows_admitted(rows: usize, admits: &dyn Fn(usize) -> bool) -> bool {
    const SAMPLED_ROWS: usize = 200;
    let step = (rows / SAMPLED_ROWS).max(1);
    let sampled = (0..rows).step_by(step);
    let admitted = sampled.clone().filter(|row| admits(*row)).count();
    admitted * GRAPH_MAX_ROWS_PER_ADMITTED_ROW >= sampled.count()
}

/// The rows that one thread scans: a number of rows from a position, across targets.
struct ScanRange {
    part: usize,
    row: usize,
    rows: usize,
}

fn scan_ranges(parts: &[(usize, &VectorRows)], dimension: usize) -> Vec<ScanRange> {
    let total: usize = parts.iter().map(|(_, rows)| rows.len()).sum();
    let products = total.saturating_mul(dimension);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_SCAN_THREADS);
    let threads = (products / PRODUCTS_PER_THREAD).clamp(1, cores);
    let each = total.div_ceil(threads).max(1);
    let mut spans = Vec::new();
    let (mut part, mut row, mut left) = (0, 0, total);
    while left > 0 {
        let rows = each.min(left);
        spans.push(ScanRange { part, row, rows });
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

impl ScanRange {
    fn scan(
        &self,
        parts: &[(usize, &VectorRows)],
        query: &[u8],
        admits: &dyn Fn(usize, usize) -> bool,
        best: &mut BestScannedRows,
    ) {
        let (mut at, mut first, mut left) = (self.part, self.row, self.rows);
        while left > 0 && at < parts.len() {
            let (part, rows) = parts[at];
            let (end, view) = (rows.len().min(first + left), rows.quantized_view());
            for row in (first..end).filter(|row| admits(part, *row)) {
                best.offer(ScannedRow { score: view.similarity(row, query), target: part, row });
            }
            left -= end - first;
            (at, first) = (at + 1, 0);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct ScannedRow {
    pub(super) score: f32,
    pub(super) target: usize,
    pub(super) row: usize,
}

impl Eq for ScannedRow {}

impl Ord for ScannedRow {
    /// The worst is the greatest, so that a heap pops it first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then_with(|| (self.target, self.row).cmp(&(other.target, other.row)))
    }
}

impl PartialOrd for ScannedRow {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The best rows so far, up to a fixed number.
pub(super) struct BestScannedRows {
    wanted: usize,
    heap: BinaryHeap<ScannedRow>,
}

impl BestScannedRows {
    fn new(wanted: usize) -> Self {
        Self { wanted, heap: BinaryHeap::with_capacity(wanted.min(1 << 16) + 1) }
    }

    pub(super) fn offer(&mut self, found: ScannedRow) {
        if self.heap.len() < self.wanted {
            self.heap.push(found);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && found < *worst
        {
            *worst = found;
        }
    }
}
