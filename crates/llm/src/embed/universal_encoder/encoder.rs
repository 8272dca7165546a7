//! Computes the vector of a text: looks up its tokens, applies three convolution branches, sums the result, applies the
//! top layers and scales to length 1.

use super::super::matrix::{Matrix, add_in_place, relu, to_unit_length};
use super::weights::{
    BRANCH_WIDTH, BRANCH_WINDOWS, ConvolutionBranch, EMBEDDING_WIDTH, UniversalEncoderWeights,
};

/// Returns the vector of a text, given as its tokens.
pub(super) fn encode(weights: &UniversalEncoderWeights, pieces: &[u32]) -> Vec<f32> {
    let looked_up = piece_vectors(weights, pieces);
    let mut into = looked_up.multiply(&weights.branch_input);
    into.add_row(&weights.branch_input_bias);
    into.normalize_rows(&weights.branch_input_scale, &weights.branch_input_shift, weights.epsilon);

    let mut features = Matrix::zeros(pieces.len(), EMBEDDING_WIDTH + BRANCH_WINDOWS.len() * BRANCH_WIDTH);
    for row in 0..pieces.len() {
        features.row_mut(row)[..EMBEDDING_WIDTH].copy_from_slice(looked_up.row(row));
    }
    for (nth, (branch, (size, left))) in weights.branches.iter().zip(BRANCH_WINDOWS).enumerate() {
        let start = nth * BRANCH_WIDTH;
        let seen = column_block(&into, start);
        let out = apply_branch(branch, &seen, size, left);
        for row in 0..pieces.len() {
            features.row_mut(row)[EMBEDDING_WIDTH + start..EMBEDDING_WIDTH + start + BRANCH_WIDTH]
                .copy_from_slice(out.row(row));
        }
    }
    features.normalize_rows(&weights.out_scale, &weights.out_shift, weights.epsilon);

    // The sum over tokens commutes with the product, so one row is multiplied instead of all.
    let mut sum = Matrix::zeros(1, features.width);
    for row in 0..features.rows() {
        add_in_place(sum.row_mut(0), features.row(row));
    }
    let count = pieces.len() as f32;
    let mut text = sum.multiply(&weights.out);
    for (x, bias) in text.data.iter_mut().zip(&weights.out_bias) {
        *x = (*x + count * bias) / count.sqrt();
    }
    apply_top_layers(weights, &text)
}

fn piece_vectors(weights: &UniversalEncoderWeights, pieces: &[u32]) -> Matrix {
    let mut rows = Matrix::zeros(pieces.len(), EMBEDDING_WIDTH);
    for (row, id) in pieces.iter().enumerate() {
        weights.write_piece_vector(*id, rows.row_mut(row));
    }
    rows
}

fn column_block(from: &Matrix, start: usize) -> Matrix {
    let mut part = Matrix::zeros(from.rows(), BRANCH_WIDTH);
    for row in 0..from.rows() {
        part.row_mut(row).copy_from_slice(&from.row(row)[start..start + BRANCH_WIDTH]);
    }
    part
}

/// Applies two convolution layers, each with a residual connection.
fn apply_branch(branch: &ConvolutionBranch, seen: &Matrix, size: usize, left: usize) -> Matrix {
    let mut first = neighbour_windows(seen, size, left).multiply(&branch.first);
    first.add_row(&branch.first_bias);
    relu(&mut first.data);
    add_in_place(&mut first.data, &seen.data);
    let mut second = neighbour_windows(&first, size, left).multiply(&branch.second);
    second.add_row(&branch.second_bias);
    relu(&mut second.data);
    add_in_place(&mut second.data, &first.data);
    second
}

/// Returns every row joined with its neighbours; zeros stand beyond the ends.
fn neighbour_windows(rows: &Matrix, size: usize, left: usize) -> Matrix {
    let width = rows.width;
    let mut windows = Matrix::zeros(rows.rows(), size * width);
    for at in 0..rows.rows() {
        for slot in 0..size {
            let neighbour = (at + slot).checked_sub(left).filter(|neighbour| *neighbour < rows.rows());
            if let Some(neighbour) = neighbour {
                windows.row_mut(at)[slot * width..(slot + 1) * width].copy_from_slice(rows.row(neighbour));
            }
        }
    }
    windows
}

fn apply_top_layers(weights: &UniversalEncoderWeights, text: &Matrix) -> Vec<f32> {
    let top = &weights.top;
    let mut first = text.multiply(&top.first);
    relu(&mut first.data);
    let mut second = text.multiply(&top.around_second);
    add_in_place(&mut second.data, &first.multiply(&top.second).data);
    relu(&mut second.data);
    let mut third = second.multiply(&top.third);
    relu(&mut third.data);
    let mut out = second.multiply(&top.around_fourth);
    add_in_place(&mut out.data, &third.multiply(&top.fourth).data);
    out.data.iter_mut().for_each(|x| *x = x.tanh());
    to_unit_length(&mut out.data);
    out.data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_where_the_text_does() {
        let rows = Matrix { data: vec![1.0, 2.0, 3.0], width: 1 };
        assert_eq!(neighbour_windows(&rows, 3, 1).data, [0.0, 1.0, 2.0, 1.0, 2.0, 3.0, 2.0, 3.0, 0.0]);
        assert_eq!(neighbour_windows(&rows, 2, 0).data, [1.0, 2.0, 2.0, 3.0, 3.0, 0.0]);
    }
}
