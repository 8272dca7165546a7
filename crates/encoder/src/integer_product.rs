//! Products of rows with matrices of 8-bit weights. The rows are rounded to 15 bits, the sums are exact integers.

/// A matrix with one scale a row. The product with a vector has one number for each row.
pub(crate) struct IntegerMatrix {
    /// The 8-bit weights, row after row. They are kept in 16 bits because that is what the processor multiplies.
    pub(crate) values: Vec<i16>,
    pub(crate) scales: Vec<f32>,
    pub(crate) columns: usize,
}

/// The largest rounded value.
const LARGEST: f32 = 16383.0;

/// The most columns of a matrix: so many products of rounded values with weights up to 127 stay below 2³¹.
pub(crate) const MAX_COLUMNS: usize = 1024;

/// Rows rounded to integers, with one scale each.
#[derive(Default)]
pub(crate) struct IntegerRows {
    values: Vec<i16>,
    scales: Vec<f32>,
}

impl IntegerRows {
    /// Rounds rows of `columns` numbers.
    #[inline(always)]
    pub(crate) fn round(&mut self, rows: &[f32], columns: usize) {
        self.values.clear();
        self.scales.clear();
        for row in rows.chunks_exact(columns) {
            let largest = row.iter().fold(0.0_f32, |most, value| most.max(value.abs())).max(1e-20);
            let factor = LARGEST / largest;
            // The cast saturates; adding a half before it rounds.
            self.values.extend(row.iter().map(|value| {
                let scaled = value * factor;
                (scaled + 0.5_f32.copysign(scaled)) as i16
            }));
            self.scales.push(largest / LARGEST);
        }
    }
}

impl IntegerMatrix {
    /// Writes the product of every row with this matrix.
    #[inline(always)]
    pub(crate) fn multiply(&self, rows: &IntegerRows, product: &mut [f32]) {
        let columns = self.columns;
        let outputs = self.scales.len();
        // Four rows of weights against two rows at a time: the weights stay near, and a loaded value is used more than once.
        for (at, weights) in self.values.chunks_exact(4 * columns).enumerate() {
            let weight_scales = &self.scales[4 * at..4 * at + 4];
            for ((pair, scales), out) in rows
                .values
                .chunks(2 * columns)
                .zip(rows.scales.chunks(2))
                .zip(product.chunks_mut(2 * outputs))
            {
                let (first, second) = pair.split_at(columns);
                // A last single row is multiplied twice, and the second result is dropped.
                let second = if second.is_empty() { first } else { second };
                let sums = dot_two_by_four(first, second, weights, columns);
                for ((out, sums), scale) in out.chunks_exact_mut(outputs).zip(&sums).zip(scales) {
                    for ((out, sum), weight_scale) in
                        out[4 * at..4 * at + 4].iter_mut().zip(sums).zip(weight_scales)
                    {
                        *out = *sum as f32 * weight_scale * scale;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn dot_two_by_four(first: &[i16], second: &[i16], weights: &[i16], columns: usize) -> [[i32; 4]; 2] {
    let (w0, rest) = weights.split_at(columns);
    let (w1, rest) = rest.split_at(columns);
    let (w2, w3) = rest.split_at(columns);
    let mut sums = [[0_i32; 4]; 2];
    let (first, second) = (&first[..columns], &second[..columns]);
    let (w2, w3) = (&w2[..columns], &w3[..columns]);
    for c in 0..columns {
        let w = [w0[c], w1[c], w2[c], w3[c]];
        for k in 0..4 {
            sums[0][k] = add_product(sums[0][k], first[c], w[k]);
            sums[1][k] = add_product(sums[1][k], second[c], w[k]);
        }
    }
    sums
}

/// Adds a product to a sum. [`MAX_COLUMNS`] keeps the sums small enough; a check in the loop would keep the compiler from
/// computing them side by side.
#[inline(always)]
fn add_product(sum: i32, one: i16, other: i16) -> i32 {
    sum.wrapping_add(i32::from(one).wrapping_mul(i32::from(other)))
}
