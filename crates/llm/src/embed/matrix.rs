//! Dense row-major `f32` matrices, with the few operations that the encoders need.

/// A row-major matrix.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    /// All values, row after row.
    pub(super) data: Vec<f32>,
    /// The number of columns.
    pub(super) width: usize,
}

impl Matrix {
    /// Creates a matrix of zeros.
    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        Self { data: vec![0.0; rows * width], width }
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.data.len().checked_div(self.width).unwrap_or(0)
    }

    /// Returns a row.
    pub(super) fn row(&self, at: usize) -> &[f32] {
        &self.data[at * self.width..(at + 1) * self.width]
    }

    /// Returns a row for writing.
    pub(super) fn row_mut(&mut self, at: usize) -> &mut [f32] {
        &mut self.data[at * self.width..(at + 1) * self.width]
    }

    /// Multiplies this matrix by another. The inner dimensions must agree.
    pub(super) fn multiply(&self, other: &Self) -> Self {
        let (rows, inner, width) = (self.rows(), self.width, other.width);
        assert_eq!(inner, other.rows(), "the inner sizes of a product agree");
        let mut product = Self::zeros(rows, width);
        if rows == 0 || inner == 0 || width == 0 {
            return product;
        }
        let (across, down) = (width.cast_signed(), inner.cast_signed());
        #[allow(
            unsafe_code,
            reason = "the product is the one hot loop, and the crate that knows the machine wants pointers"
        )]
        // SAFETY: the three slices hold rows×inner, inner×width and rows×width values, as checked and allocated above.
        // The strides are those of dense rows, so nothing outside the slices is accessed. `product` is not aliased.
        unsafe {
            matrixmultiply::sgemm(
                rows,
                inner,
                width,
                1.0,
                self.data.as_ptr(),
                down,
                1,
                other.data.as_ptr(),
                across,
                1,
                0.0,
                product.data.as_mut_ptr(),
                across,
                1,
            );
        }
        product
    }

    /// Adds a vector to every row.
    pub(super) fn add_row(&mut self, row: &[f32]) {
        for mine in self.data.chunks_exact_mut(row.len()) {
            add_in_place(mine, row);
        }
    }

    /// Normalises every row to mean 0 and variance 1, then scales and shifts it.
    pub(super) fn normalize_rows(&mut self, scale: &[f32], shift: &[f32], epsilon: f32) {
        let width = self.width;
        for row in self.data.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f32>() / width as f32;
            row.iter_mut().for_each(|x| *x -= mean);
            let variance = row.iter().map(|x| x * x).sum::<f32>() / width as f32;
            let factor = 1.0 / (variance + epsilon).sqrt();
            for ((x, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
                *x = *x * factor * scale + shift;
            }
        }
    }
}

/// Adds two vectors element by element.
pub(super) fn add_in_place(to: &mut [f32], what: &[f32]) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += what;
    }
}

/// Sets negative values to zero.
pub(super) fn relu(numbers: &mut [f32]) {
    numbers.iter_mut().for_each(|x| *x = x.max(0.0));
}

/// Scales a vector to length 1. A vector of zeros becomes the first unit vector, so that every result has length 1.
pub(super) fn to_unit_length(numbers: &mut [f32]) {
    let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 && length.is_finite() {
        numbers.iter_mut().for_each(|x| *x /= length);
        return;
    }
    numbers.fill(0.0);
    if let Some(first) = numbers.first_mut() {
        *first = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_a_product() {
        let left = Matrix { data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], width: 3 };
        let right = Matrix { data: vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0], width: 2 };
        assert_eq!(left.multiply(&right).data, [4.0, 5.0, 10.0, 11.0]);
        assert_eq!(Matrix::zeros(0, 3).multiply(&right).rows(), 0);
    }

    #[test]
    fn every_vector_gets_its_length() {
        let mut numbers = [3.0, 4.0];
        to_unit_length(&mut numbers);
        assert_eq!(numbers, [0.6, 0.8]);
        for mut odd in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 0.0]] {
            to_unit_length(&mut odd);
            assert_eq!(odd, [1.0, 0.0]);
        }
    }
}
