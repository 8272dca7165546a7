//! Vectors in rows, and nearest-neighbour search: an exact scan, or an [`HnswGraph`] where there are many rows.
//!
//! Each row is stored twice: as int8 with its own scale, which a search reads first, and as the original f32 values, by
//! which the best candidates are ranked again. The owner of the rows knows which passage a row number stands for. All
//! rows are one byte string that can be written to a file and memory-mapped.
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
    /// Encodes rows of one dimension. Returns `None` if a row has another dimension or a value that is not finite.
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

    /// Opens encoded rows. Returns `None` if the bytes are not valid.
    pub fn open(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Option<Self> {
        let all = bytes.as_ref();
        let long =
            |at: usize| all.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let (dimension, rows) = (long(0)?, long(4)?);
        let numbers = rows.checked_mul(dimension)?;
        let size = numbers.checked_mul(5)?.checked_add(rows.checked_mul(4)?)?.checked_add(HEADER_BYTES)?;
        (size == all.len()).then_some(Self { bytes: Box::new(bytes), dimension, row_count: rows })
    }

    /// Returns an empty set of rows.
    pub fn empty() -> Self {
        Self { bytes: Box::new([0_u8; HEADER_BYTES]), dimension: 0, row_count: 0 }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Returns the number of values in a row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the original values of a row.
    pub(crate) fn row_numbers(&self, row: usize) -> Vec<f32> {
        self.row_f32_bytes(row)
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }

    /// Returns the exact dot product of a row with a vector.
    pub fn dot(&self, row: usize, vector: &[f32]) -> f32 {
        (DOT_PRODUCT_KERNEL.f32_dot)(self.row_f32_bytes(row), &vector[..vector.len().min(self.dimension)])
    }

    /// Returns a view of the int8 rows.
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

/// A view of the int8 rows.
#[derive(Clone, Copy)]
struct QuantizedRowsView<'a> {
    scales: &'a [u8],
    quantized: &'a [u8],
    dimension: usize,
    int8_dot: fn(&[u8], &[u8]) -> i32,
}

impl<'a> QuantizedRowsView<'a> {
    /// Returns the similarity of a row and a quantised vector, without the scale of that vector.
    fn similarity(&self, row: usize, query: &[u8]) -> f32 {
        (self.int8_dot)(self.quantized_row(row), query) as f32 * self.row_scale(row)
    }

    /// Returns the similarity of two rows.
    fn row_similarity(&self, left: usize, right: usize) -> f32 {
        self.similarity(left, self.quantized_row(right)) * self.row_scale(right)
    }

    /// Prefetches a row that will be read soon.
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

/// Quantises a vector to int8. Returns its scale and the bytes.
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
