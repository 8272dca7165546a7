//! From pieces to one vector: every piece is looked up, three branches look at its neighbours, the sum of all is drawn
//! through a few layers and scaled to length 1.

use super::super::matrix::{Matrix, add, rectify, to_unit_length};
use super::weights::{BRANCH, Branch, WIDTH, WINDOWS, Weights};

/// The vector of a text, given as its pieces.
pub(super) fn encode(weights: &Weights, pieces: &[u32]) -> Vec<f32> {
    let looked_up = look_up(weights, pieces);
    let mut into = looked_up.times(&weights.into);
    into.add_row(&weights.into_bias);
    into.normalize_rows(&weights.into_scale, &weights.into_shift, weights.epsilon);

    let mut features = Matrix::zeros(pieces.len(), WIDTH + WINDOWS.len() * BRANCH);
    for row in 0..pieces.len() {
        features.row_mut(row)[..WIDTH].copy_from_slice(looked_up.row(row));
    }
    for (nth, (branch, (size, left))) in weights.branches.iter().zip(WINDOWS).enumerate() {
        let start = nth * BRANCH;
        let seen = columns(&into, start);
        let out = through(branch, &seen, size, left);
        for row in 0..pieces.len() {
            features.row_mut(row)[WIDTH + start..WIDTH + start + BRANCH].copy_from_slice(out.row(row));
        }
    }
    features.normalize_rows(&weights.out_scale, &weights.out_shift, weights.epsilon);

    // The sum of the pieces commutes with the product, so one row is multiplied instead of all.
    let mut sum = Matrix::zeros(1, features.width);
    for row in 0..features.rows() {
        add(sum.row_mut(0), features.row(row));
    }
    let count = pieces.len() as f32;
    let mut text = sum.times(&weights.out);
    for (x, bias) in text.data.iter_mut().zip(&weights.out_bias) {
        *x = (*x + count * bias) / count.sqrt();
    }
    top(weights, &text)
}

fn look_up(weights: &Weights, pieces: &[u32]) -> Matrix {
    let mut rows = Matrix::zeros(pieces.len(), WIDTH);
    for (row, id) in pieces.iter().enumerate() {
        weights.piece(*id, rows.row_mut(row));
    }
    rows
}

fn columns(from: &Matrix, start: usize) -> Matrix {
    let mut part = Matrix::zeros(from.rows(), BRANCH);
    for row in 0..from.rows() {
        part.row_mut(row).copy_from_slice(&from.row(row)[start..start + BRANCH]);
    }
    part
}

/// Two layers over windows of neighbours, each added to what went in.
fn through(branch: &Branch, seen: &Matrix, size: usize, left: usize) -> Matrix {
    let mut first = windows(seen, size, left).times(&branch.first);
    first.add_row(&branch.first_bias);
    rectify(&mut first.data);
    add(&mut first.data, &seen.data);
    let mut second = windows(&first, size, left).times(&branch.second);
    second.add_row(&branch.second_bias);
    rectify(&mut second.data);
    add(&mut second.data, &first.data);
    second
}

/// Every row with its neighbours side by side; beyond the ends stand zeros.
fn windows(rows: &Matrix, size: usize, left: usize) -> Matrix {
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

fn top(weights: &Weights, text: &Matrix) -> Vec<f32> {
    let top = &weights.top;
    let mut first = text.times(&top.first);
    rectify(&mut first.data);
    let mut second = text.times(&top.around_second);
    add(&mut second.data, &first.times(&top.second).data);
    rectify(&mut second.data);
    let mut third = second.times(&top.third);
    rectify(&mut third.data);
    let mut out = second.times(&top.around_fourth);
    add(&mut out.data, &third.times(&top.fourth).data);
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
        assert_eq!(windows(&rows, 3, 1).data, [0.0, 1.0, 2.0, 1.0, 2.0, 3.0, 2.0, 3.0, 0.0]);
        assert_eq!(windows(&rows, 2, 0).data, [1.0, 2.0, 2.0, 3.0, 3.0, 0.0]);
    }
}
