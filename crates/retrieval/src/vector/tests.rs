//! Compares searches with an exact reference.

use std::sync::atomic::AtomicBool;

use super::*;

/// A generator of reproducible pseudo-random vectors.
struct RandomUnitVectors(u64);

impl RandomUnitVectors {
    fn next_number(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn next_unit_vector(&mut self, dimension: usize) -> Vec<f32> {
        let numbers: Vec<f32> = (0..dimension).map(|_| self.next_number()).collect();
        let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
        numbers.into_iter().map(|number| number / length).collect()
    }
}

fn rows(vectors: &[Vec<f32>]) -> VectorRows {
    let dimension = vectors.first().map_or(0, Vec::len);
    VectorRows::open(VectorRows::write(dimension, vectors.iter().map(Vec::as_slice)).expect("numbers"))
        .expect("rows")
}

fn without_graph(rows: &VectorRows) -> VectorSearchTarget<'_> {
    VectorSearchTarget { rows, graph: None }
}

/// The exact result, with row numbers counted across all targets.
fn exact_nearest(
    vectors: &[Vec<f32>],
    vector: &[f32],
    limit: usize,
    admits: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let dot = |row: &[f32]| row.iter().zip(vector).map(|(left, right)| left * right).sum::<f32>();
    let mut all: Vec<usize> = (0..vectors.len()).filter(|row| admits(*row)).collect();
    all.sort_by(|left, right| dot(&vectors[*right]).total_cmp(&dot(&vectors[*left])).then(left.cmp(right)));
    all.truncate(limit);
    all
}

fn check(count: usize, dimension: usize, cut: usize, admits: fn(usize) -> bool) {
    let mut dice = RandomUnitVectors(count as u64);
    let vectors: Vec<Vec<f32>> = (0..count).map(|_| dice.next_unit_vector(dimension)).collect();
    let (front, back) = vectors.split_at(cut);
    let parts = [rows(front), rows(back)];
    let parts: Vec<VectorSearchTarget<'_>> = parts.iter().map(without_graph).collect();
    for _ in 0..5 {
        let asked = dice.next_unit_vector(dimension);
        let found = nearest_rows(&parts, &asked, 10, &|part, row| admits(part * cut + row));
        let found: Vec<usize> = found.iter().map(|near| near.target * cut + near.row).collect();
        assert_eq!(found, exact_nearest(&vectors, &asked, 10, admits), "{count} × {dimension}, cut at {cut}");
    }
}

#[test]
fn the_scan_finds_what_exact_arithmetic_finds() {
    for (count, dimension, cut) in [(1, 7, 0), (9, 1, 3), (300, 33, 299), (600, 64, 200)] {
        check(count, dimension, cut, |_| true);
        check(count, dimension, cut, |row| row % 7 == 3);
        check(count, dimension, cut, |_| false);
    }
}

#[test]
fn many_threads_find_what_one_finds() {
    // More products than one thread takes.
    check(1100, 64, 300, |row| row % 2 == 0);
}

#[test]
fn rows_that_are_none_are_refused() {
    assert!(VectorRows::write(2, [&[1.0, f32::NAN][..]]).is_none());
    assert!(VectorRows::write(2, [&[1.0][..]]).is_none());
    let good = VectorRows::write(2, [&[1.0, 0.5][..], &[0.0, 0.0][..]]).expect("numbers");
    assert_eq!(VectorRows::open(good.clone()).expect("rows").row_numbers(0), [1.0, 0.5]);
    for end in 0..good.len() {
        assert!(VectorRows::open(good[..end].to_vec()).is_none(), "cut at {end}");
    }
    let huge = [u32::MAX.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    assert!(VectorRows::open(huge).is_none());
}

#[test]
fn equal_rows_come_in_order_and_a_wrong_size_finds_nothing() {
    let same = rows(&vec![vec![0.5, 0.5]; 100]);
    let found = nearest_rows(&[without_graph(&same)], &[1.0, 1.0], 3, &|_, _| true);
    assert_eq!(found.iter().map(|near| near.row).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(nearest_rows(&[without_graph(&same)], &[1.0], 3, &|_, _| true), []);
    assert_eq!(nearest_rows(&[without_graph(&same)], &[1.0, 1.0], 0, &|_, _| true), []);
    assert_eq!(nearest_rows(&[], &[1.0, 1.0], 3, &|_, _| true), []);
}

/// Returns the recall at ten of a graph, and checks that only admitted rows are found.
fn recall(vectors: &[Vec<f32>], threads: usize, admits: fn(usize) -> bool) -> f64 {
    let rows = rows(vectors);
    let bytes = HnswGraph::write(&rows, threads, &AtomicBool::new(false)).expect("a graph");
    let graph = HnswGraph::open(bytes, rows.len()).expect("a graph");
    let mut dice = RandomUnitVectors(99);
    let (mut right, mut all) = (0, 0);
    for _ in 0..20 {
        let asked = dice.next_unit_vector(rows.dimension());
        let field = VectorSearchTarget { rows: &rows, graph: Some(&graph) };
        let found = nearest_rows(&[field], &asked, 10, &|_, row| admits(row));
        assert!(found.iter().all(|near| admits(near.row)), "only what is admitted is found");
        let truth = exact_nearest(vectors, &asked, 10, admits);
        right += truth.iter().filter(|row| found.iter().any(|near| near.row == **row)).count();
        all += truth.len();
    }
    right as f64 / all.max(1) as f64
}

#[test]
fn a_graph_finds_nearly_all_that_exact_arithmetic_finds() {
    let mut dice = RandomUnitVectors(5);
    let vectors: Vec<Vec<f32>> = (0..800).map(|_| dice.next_unit_vector(12)).collect();
    for threads in [1, 4] {
        assert!(recall(&vectors, threads, |_| true) >= 0.95, "{threads} threads");
    }
    assert!(recall(&vectors, 1, |row| row % 2 == 0) >= 0.95, "half of the rows");
    assert!(recall(&vectors, 1, |row| row % 97 == 3) >= 1.0, "where few compete all are looked at");
    assert!(recall(&vectors[..1], 1, |_| true) >= 1.0, "one row");
    assert!(recall(&vec![vec![0.5; 4]; 200], 2, |_| false) <= 0.0, "none");
}

#[test]
fn a_graph_of_other_rows_or_a_damaged_one_is_refused() {
    let mut dice = RandomUnitVectors(6);
    let rows = rows(&(0..300).map(|_| dice.next_unit_vector(8)).collect::<Vec<_>>());
    let stopped = AtomicBool::new(true);
    assert!(HnswGraph::write(&rows, 2, &stopped).is_none(), "whoever stops it gets none");
    assert!(HnswGraph::write(&VectorRows::empty(), 1, &AtomicBool::new(false)).is_none());
    let good = HnswGraph::write(&rows, 1, &AtomicBool::new(false)).expect("a graph");
    assert!(HnswGraph::open(good.clone(), 299).is_none() && HnswGraph::open(good.clone(), 300).is_some());
    for end in (0..good.len()).step_by(101) {
        assert!(HnswGraph::open(good[..end].to_vec(), 300).is_none(), "cut at {end}");
    }
    for at in (0..good.len()).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] = 0xff;
        if let Some(graph) = HnswGraph::open(bytes, 300) {
            // A graph that is accepted can be searched without leaving the rows.
            let field = VectorSearchTarget { rows: &rows, graph: Some(&graph) };
            assert!(nearest_rows(&[field], &dice.next_unit_vector(8), 10, &|_, _| true).len() <= 10);
        }
    }
}
