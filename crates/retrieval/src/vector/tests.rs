//! The scan beside the plain truth.

use super::*;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn number(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn unit(&mut self, dimension: usize) -> Vec<f32> {
        let numbers: Vec<f32> = (0..dimension).map(|_| self.number()).collect();
        let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
        numbers.into_iter().map(|number| number / length).collect()
    }
}

fn rows(vectors: &[Vec<f32>]) -> Rows {
    let dimension = vectors.first().map_or(0, Vec::len);
    Rows::open(Rows::write(dimension, vectors.iter().map(Vec::as_slice)).expect("numbers")).expect("rows")
}

/// The truth, row numbers counted through all parts.
fn truth(vectors: &[Vec<f32>], vector: &[f32], limit: usize, admits: impl Fn(usize) -> bool) -> Vec<usize> {
    let dot = |row: &[f32]| row.iter().zip(vector).map(|(left, right)| left * right).sum::<f32>();
    let mut all: Vec<usize> = (0..vectors.len()).filter(|row| admits(*row)).collect();
    all.sort_by(|left, right| dot(&vectors[*right]).total_cmp(&dot(&vectors[*left])).then(left.cmp(right)));
    all.truncate(limit);
    all
}

fn check(count: usize, dimension: usize, cut: usize, admits: fn(usize) -> bool) {
    let mut dice = Dice(count as u64);
    let vectors: Vec<Vec<f32>> = (0..count).map(|_| dice.unit(dimension)).collect();
    let (front, back) = vectors.split_at(cut);
    let parts = [rows(front), rows(back)];
    let parts: Vec<&Rows> = parts.iter().collect();
    for _ in 0..5 {
        let asked = dice.unit(dimension);
        let found = nearest(&parts, &asked, 10, &|part, row| admits(part * cut + row));
        let found: Vec<usize> = found.iter().map(|near| near.part * cut + near.row).collect();
        assert_eq!(found, truth(&vectors, &asked, 10, admits), "{count} × {dimension}, cut at {cut}");
    }
}

#[test]
fn the_scan_finds_what_exact_arithmetic_finds() {
    for (count, dimension, cut) in [(1, 7, 0), (9, 1, 3), (300, 33, 299), (2000, 64, 700)] {
        check(count, dimension, cut, |_| true);
        check(count, dimension, cut, |row| row % 7 == 3);
        check(count, dimension, cut, |_| false);
    }
}

#[test]
fn many_threads_find_what_one_finds() {
    // More products than one thread looks at.
    check(9000, 1024, 1000, |row| row % 2 == 0);
}

#[test]
fn rows_that_are_none_are_refused() {
    assert!(Rows::write(2, [&[1.0, f32::NAN][..]]).is_none());
    assert!(Rows::write(2, [&[1.0][..]]).is_none());
    let good = Rows::write(2, [&[1.0, 0.5][..], &[0.0, 0.0][..]]).expect("numbers");
    assert_eq!(Rows::open(good.clone()).expect("rows").row(0), [1.0, 0.5]);
    for end in 0..good.len() {
        assert!(Rows::open(good[..end].to_vec()).is_none(), "cut at {end}");
    }
    let huge = [u32::MAX.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    assert!(Rows::open(huge).is_none());
}

#[test]
fn equal_rows_come_in_order_and_a_wrong_size_finds_nothing() {
    let same = rows(&vec![vec![0.5, 0.5]; 100]);
    let found = nearest(&[&same], &[1.0, 1.0], 3, &|_, _| true);
    assert_eq!(found.iter().map(|near| near.row).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(nearest(&[&same], &[1.0], 3, &|_, _| true), []);
    assert_eq!(nearest(&[&same], &[1.0, 1.0], 0, &|_, _| true), []);
    assert_eq!(nearest(&[], &[1.0, 1.0], 3, &|_, _| true), []);
}
