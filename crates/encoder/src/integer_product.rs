//! Products of rows with matrices of 8-bit weights. The rows are rounded to 8 bits with a scale each, the sums are exact
//! integers, so that every set of instructions gives the same result.
//!
//! Matrices and rows are stored in the order in which they are multiplied: [`PANEL`] outputs of a matrix with [`BLOCK`]
//! rows at a time, four columns after four columns.

mod block_product;

#[cfg(target_arch = "x86_64")]
pub(crate) use self::block_product::{Avx2Product, Avx512Product};
pub(crate) use self::block_product::{BlockProduct, PortableProduct};

/// The outputs of a matrix that are computed at a time. The outputs of every matrix are a multiple of it.
pub(crate) const PANEL: usize = 32;
/// The rows that are multiplied at a time.
pub(crate) const BLOCK: usize = 8;
/// The columns that stand next to each other.
const QUAD: usize = 4;

/// The largest rounded value.
const LARGEST: f32 = 127.0;
/// Added to the rounded values of a row, so that they are unsigned: the instructions want one unsigned side.
const OFFSET: i32 = 128;

/// Adding this to a small number rounds it to a whole one.
const ROUNDING: f32 = 12_582_912.0;

/// The most columns of a matrix: so many products of values up to 255 with weights up to 128 stay far below 2³¹.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// A matrix with one scale a row. The product with a vector has one number for each row.
pub(crate) struct IntegerMatrix {
    /// For each panel: `QUAD` columns of every output, then the next ones.
    panels: Vec<i8>,
    /// What the sum of each output starts with. It takes the offset of the rows away again.
    starts: Vec<i32>,
    scales: Vec<f32>,
    pub(crate) columns: usize,
}

/// Rows rounded to integers, with one scale each.
#[derive(Default)]
pub(crate) struct IntegerRows {
    /// For each block: `QUAD` columns of every row, then the next ones. The last block is filled up.
    blocks: Vec<u8>,
    scales: Vec<f32>,
}

impl IntegerRows {
    /// Rounds rows of `columns` numbers.
    #[inline(always)]
    pub(crate) fn round(&mut self, rows: &[f32], columns: usize) {
        self.scales.clear();
        let blocks = rows.len().div_ceil(columns * BLOCK);
        self.blocks.resize(blocks * BLOCK * columns, 0);
        for (block, rows) in self.blocks.chunks_exact_mut(BLOCK * columns).zip(rows.chunks(BLOCK * columns)) {
            for (at, row) in rows.chunks_exact(columns).enumerate() {
                let largest = row
                    .iter()
                    .fold(0.0_f32, |largest_so_far, value| largest_so_far.max(value.abs()))
                    .max(1e-20);
                let factor = LARGEST / largest;
                self.scales.push(largest / LARGEST);
                let quads = block.as_chunks_mut::<{ BLOCK * QUAD }>().0;
                for (quads, values) in quads.iter_mut().zip(row.as_chunks::<QUAD>().0) {
                    // The sum is so large that its last bits are the rounded number.
                    let bytes =
                        values.map(|value| (value * factor + (ROUNDING + OFFSET as f32)).to_bits() as u8);
                    quads[at * QUAD..(at + 1) * QUAD].copy_from_slice(&bytes);
                }
            }
        }
    }
}

impl IntegerMatrix {
    /// Arranges the weights, given row after row. The number of rows is a multiple of [`PANEL`], that of columns of 4.
    pub(crate) fn new(values: &[i8], scales: Vec<f32>, columns: usize) -> Self {
        let mut panels = Vec::with_capacity(values.len());
        for rows in values.chunks_exact(PANEL * columns) {
            for at in (0..columns).step_by(QUAD) {
                panels.extend(rows.chunks_exact(columns).flat_map(|row| &row[at..at + QUAD]));
            }
        }
        let starts = values
            .chunks_exact(columns)
            .map(|row| -OFFSET * row.iter().map(|weight| i32::from(*weight)).sum::<i32>())
            .collect();
        Self { panels, starts, scales, columns }
    }

    /// Writes the product of every row with this matrix.
    #[inline(always)]
    pub(crate) fn multiply<P: BlockProduct>(&self, instructions: P, rows: &IntegerRows, product: &mut [f32]) {
        let outputs = self.scales.len();
        let mut sums = [[0; PANEL]; BLOCK];
        let panels = self.panels.chunks_exact(PANEL * self.columns);
        let starts = self.starts.as_chunks::<PANEL>().0;
        let weight_scales = self.scales.as_chunks::<PANEL>().0;
        for (at, ((panel, start), weight_scales)) in panels.zip(starts).zip(weight_scales).enumerate() {
            for ((block, scales), product) in rows
                .blocks
                .chunks_exact(BLOCK * self.columns)
                .zip(rows.scales.chunks(BLOCK))
                .zip(product.chunks_mut(BLOCK * outputs))
            {
                instructions.multiply(panel, start, block, &mut sums);
                for ((out, sums), scale) in product.chunks_exact_mut(outputs).zip(&sums).zip(scales) {
                    for ((out, sum), weight_scale) in
                        out[at * PANEL..(at + 1) * PANEL].iter_mut().zip(sums).zip(weight_scales)
                    {
                        *out = *sum as f32 * weight_scale * scale;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same in every run.
    fn numbers(seed: u64, count: usize) -> impl Iterator<Item = u64> {
        let mut state = seed;
        (0..count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        })
    }

    /// Multiplies as the definition says: each product on its own, in 64 bits.
    fn expected(values: &[i8], scales: &[f32], rows: &[f32], columns: usize) -> Vec<f32> {
        let rounded = |row: &[f32]| -> (Vec<i64>, f32) {
            let largest =
                row.iter().fold(0.0_f32, |largest_so_far, value| largest_so_far.max(value.abs())).max(1e-20);
            let integers = row.iter().map(|value| (value * (LARGEST / largest)).round_ties_even() as i64);
            (integers.collect(), largest / LARGEST)
        };
        rows.chunks_exact(columns)
            .flat_map(|row| {
                let (row, scale) = rounded(row);
                values.chunks_exact(columns).zip(scales).map(move |(weights, weight_scale)| {
                    let sum: i64 = weights.iter().zip(&row).map(|(w, x)| i64::from(*w) * x).sum();
                    sum as f32 * weight_scale * scale
                })
            })
            .collect()
    }

    fn check<P: BlockProduct>(instructions: P, name: &str) {
        for (columns, outputs, count) in [(32, 32, 1), (256, 64, 8), (512, 96, 21), (MAX_COLUMNS, 32, 3)] {
            let values: Vec<i8> = numbers(7, columns * outputs).map(|n| (n as u8).cast_signed()).collect();
            let scales: Vec<f32> = numbers(9, outputs).map(|n| (n % 100) as f32 / 1000.0).collect();
            let mut rows: Vec<f32> =
                numbers(11, columns * count).map(|n| (n % 2001) as f32 / 100.0 - 10.0).collect();
            // The largest sums: every value and weight at its limit.
            rows[..columns].fill(-5.0);
            let mut values = values;
            values[..columns].fill(i8::MIN);
            let matrix = IntegerMatrix::new(&values, scales.clone(), columns);
            let mut integers = IntegerRows::default();
            integers.round(&vec![1.0; 40 * columns], columns);
            integers.round(&rows, columns);
            let mut product = vec![0.0; count * outputs];
            matrix.multiply(instructions, &integers, &mut product);
            assert_eq!(
                product,
                expected(&values, &scales, &rows, columns),
                "{name}: {columns} columns, {outputs} outputs, {count} rows"
            );
        }
    }

    #[test]
    fn every_set_of_instructions_gives_the_exact_product() {
        check(PortableProduct, "portable");
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(instructions) = Avx2Product::detect() {
                check(instructions, "AVX2");
            }
            if let Some(instructions) = Avx512Product::detect() {
                check(instructions, "AVX-512 VNNI");
            }
        }
    }
}
