//! Rows of numbers, and the nearest of them: by an exact look at all, or, where there are many, along a [`Graph`].
//!
//! Each row is kept twice: as bytes with a scale of its own, which is what a search looks at, and as the numbers that
//! were given, by which the best of the first look are ranked again. A row's place says what it stands for; who keeps
//! the rows knows. All of it is one run of bytes that can be written to a file and mapped back.
//!
//! ```text
//! dimension u32 · rows u32 · scales rows × f32 · bytes rows × dimension × i8 · numbers rows × dimension × f32
//! ```

mod dot_product;
mod hnsw;
mod nearest_search;

use std::fmt;

pub use hnsw::HnswGraph;
pub use nearest_search::{NearestRow, VectorSearchTarget, nearest_rows};

use dot_product::DOT_PRODUCT_KERNEL;

const HEADER_BYTES: usize = 8;

/// Immutable rows of one dimension.
pub struct VectorRows {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    dimension: usize,
    row_count: usize,
}

impl VectorRows {
    /// The bytes of rows that all have this dimension. `None` if one has another, or a number that is none.
    pub fn write<'a>(dimension: usize, rows: impl IntoIterator<Item = &'a [f32]>) -> Option<Vec<u8>> {
        let (mut scales, mut small, mut whole, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0_u32);
        for row in rows {
            if row.len() != dimension || row.iter().any(|number| !number.is_finite()) {
                return None;
            }
            let (scale, bytes) = quantize(row);
            scales.extend_from_slice(&scale.to_le_bytes());
            small.extend_from_slice(&bytes);
            whole.extend(row.iter().flat_map(|number| number.to_le_bytes()));
            count += 1;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + scales.len() + small.len() + whole.len());
        bytes.extend_from_slice(&u32::try_from(dimension).ok()?.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        for part in [scales, small, whole] {
            bytes.extend_from_slice(&part);
        }
        Some(bytes)
    }

    /// Reads rows that were written. `None` if they are not such.
    pub fn open(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Option<Self> {
        let all = bytes.as_ref();
        let long =
            |at: usize| all.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let (dimension, rows) = (long(0)?, long(4)?);
        let numbers = rows.checked_mul(dimension)?;
        let size = numbers.checked_mul(5)?.checked_add(rows.checked_mul(4)?)?.checked_add(HEADER_BYTES)?;
        (size == all.len()).then_some(Self { bytes: Box::new(bytes), dimension, row_count: rows })
    }

    /// No rows at all.
    pub fn empty() -> Self {
        Self { bytes: Box::new([0_u8; HEADER_BYTES]), dimension: 0, row_count: 0 }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// How many numbers a row has.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The numbers of a row as they were given.
    pub fn row_numbers(&self, row: usize) -> Vec<f32> {
        self.row_f32_bytes(row)
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }

    /// The exact product of a row with a vector.
    pub fn dot(&self, row: usize, vector: &[f32]) -> f32 {
        (DOT_PRODUCT_KERNEL.f32_dot)(self.row_f32_bytes(row), &vector[..vector.len().min(self.dimension)])
    }

    /// The bytes of all rows, at hand for many looks.
    fn quantized_view(&self) -> QuantizedRowsView<'_> {
        let scales = HEADER_BYTES..HEADER_BYTES + self.row_count * 4;
        let small = scales.end..scales.end + self.row_count * self.dimension;
        let all = self.as_bytes();
        QuantizedRowsView {
            scales: &all[scales],
            quantized: &all[small],
            dimension: self.dimension,
            int8_dot: DOT_PRODUCT_KERNEL.int8_dot,
        }
    }

    fn row_f32_bytes(&self, row: usize) -> &[u8] {
        let start = HEADER_BYTES + self.row_count * (4 + self.dimension) + row * self.dimension * 4;
        &self.as_bytes()[start..start + self.dimension * 4]
    }

    fn as_bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }
}

/// The rows as bytes.
#[derive(Clone, Copy)]
struct QuantizedRowsView<'a> {
    scales: &'a [u8],
    quantized: &'a [u8],
    dimension: usize,
    int8_dot: fn(&[u8], &[u8]) -> i32,
}

impl<'a> QuantizedRowsView<'a> {
    /// How near a row is to a vector of bytes, short of the scale of that vector.
    fn similarity(&self, row: usize, query: &[u8]) -> f32 {
        (self.int8_dot)(self.quantized_row(row), query) as f32 * self.row_scale(row)
    }

    /// How near two rows are to each other.
    fn row_similarity(&self, left: usize, right: usize) -> f32 {
        self.similarity(left, self.quantized_row(right)) * self.row_scale(right)
    }

    /// Says that a row will be looked at soon.
    fn prefetch_row(&self, row: usize) {
        dot_product::prefetch(self.quantized_row(row));
    }

    fn quantized_row(&self, row: usize) -> &'a [u8] {
        &self.quantized[row * self.dimension..(row + 1) * self.dimension]
    }

    fn row_scale(&self, row: usize) -> f32 {
        let bytes = &self.scales[row * 4..row * 4 + 4];
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl fmt::Debug for VectorRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({} of {})", self.row_count, self.dimension)
    }
}

/// A vector as bytes, and what to multiply them by.
fn quantize(vector: &[f32]) -> (f32, Vec<u8>) {
    let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    if largest == 0.0 {
        return (0.0, vec![0; vector.len()]);
    }
    let scale = largest / 127.0;
    (scale, vector.iter().map(|number| ((number / scale).round() as i8).cast_unsigned()).collect())
}

#[cfg(test)]
mod tests;
