//! Rows of numbers, and the nearest of them: by an exact look at all, or, where there are many, along a [`Graph`].
//!
//! Each row is kept twice: as bytes with a scale of its own, which is what a search looks at, and as the numbers that
//! were given, by which the best of the first look are ranked again. A row's place says what it stands for; who keeps
//! the rows knows. All of it is one run of bytes that can be written to a file and mapped back.
//!
//! ```text
//! dimension u32 · rows u32 · scales rows × f32 · bytes rows × dimension × i8 · numbers rows × dimension × f32
//! ```

mod graph;
mod kernel;
mod scan;

use std::fmt;

pub use graph::Graph;
pub use scan::{Field, Near, nearest};

use kernel::KERNEL;

const HEAD: usize = 8;

/// Immutable rows of one dimension.
pub struct Rows {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    dimension: usize,
    rows: usize,
}

impl Rows {
    /// The bytes of rows that all have this dimension. `None` if one has another, or a number that is none.
    pub fn write<'a>(dimension: usize, rows: impl IntoIterator<Item = &'a [f32]>) -> Option<Vec<u8>> {
        let (mut scales, mut small, mut whole, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0_u32);
        for row in rows {
            if row.len() != dimension || row.iter().any(|number| !number.is_finite()) {
                return None;
            }
            let (scale, bytes) = quantized(row);
            scales.extend_from_slice(&scale.to_le_bytes());
            small.extend_from_slice(&bytes);
            whole.extend(row.iter().flat_map(|number| number.to_le_bytes()));
            count += 1;
        }
        let mut bytes = Vec::with_capacity(HEAD + scales.len() + small.len() + whole.len());
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
        let size = numbers.checked_mul(5)?.checked_add(rows.checked_mul(4)?)?.checked_add(HEAD)?;
        (size == all.len()).then_some(Self { bytes: Box::new(bytes), dimension, rows })
    }

    /// No rows at all.
    pub fn none() -> Self {
        Self { bytes: Box::new([0_u8; HEAD]), dimension: 0, rows: 0 }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// How many numbers a row has.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The numbers of a row as they were given.
    pub fn row(&self, row: usize) -> Vec<f32> {
        self.whole(row).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// The exact product of a row with a vector.
    pub fn dot(&self, row: usize, vector: &[f32]) -> f32 {
        (KERNEL.numbers)(self.whole(row), &vector[..vector.len().min(self.dimension)])
    }

    /// The bytes of all rows, at hand for many looks.
    fn view(&self) -> View<'_> {
        let scales = HEAD..HEAD + self.rows * 4;
        let small = scales.end..scales.end + self.rows * self.dimension;
        let all = self.all();
        View { scales: &all[scales], small: &all[small], dimension: self.dimension, product: KERNEL.bytes }
    }

    fn whole(&self, row: usize) -> &[u8] {
        let start = HEAD + self.rows * (4 + self.dimension) + row * self.dimension * 4;
        &self.all()[start..start + self.dimension * 4]
    }

    fn all(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }
}

/// The rows as bytes.
#[derive(Clone, Copy)]
struct View<'a> {
    scales: &'a [u8],
    small: &'a [u8],
    dimension: usize,
    product: fn(&[u8], &[u8]) -> i32,
}

impl<'a> View<'a> {
    /// How near a row is to a vector of bytes, short of the scale of that vector.
    fn near(&self, row: usize, query: &[u8]) -> f32 {
        (self.product)(self.row(row), query) as f32 * self.scale(row)
    }

    /// How near two rows are to each other.
    fn alike(&self, left: usize, right: usize) -> f32 {
        self.near(left, self.row(right)) * self.scale(right)
    }

    /// Says that a row will be looked at soon.
    fn soon(&self, row: usize) {
        kernel::soon(self.row(row));
    }

    fn row(&self, row: usize) -> &'a [u8] {
        &self.small[row * self.dimension..(row + 1) * self.dimension]
    }

    fn scale(&self, row: usize) -> f32 {
        let bytes = &self.scales[row * 4..row * 4 + 4];
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({} of {})", self.rows, self.dimension)
    }
}

/// A vector as bytes, and what to multiply them by.
fn quantized(vector: &[f32]) -> (f32, Vec<u8>) {
    let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    if largest == 0.0 {
        return (0.0, vec![0; vector.len()]);
    }
    let scale = largest / 127.0;
    (scale, vector.iter().map(|number| ((number / scale).round() as i8).cast_unsigned()).collect())
}

#[cfg(test)]
mod tests;
