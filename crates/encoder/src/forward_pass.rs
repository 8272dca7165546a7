//! The forward pass: table rows, pre-norm blocks with attention and SwiGLU, a weighted mean, a projection.

use crate::file::{BlockWeights, EncoderWeights};
use crate::integer_product::IntegerRows;

/// Added to the mean square before its root is taken.
const EPSILON: f32 = 1e-6;

/// The base of the rotary frequencies.
const ROTARY_BASE: f32 = 10_000.0;

/// Float sums are kept in this many lanes, so that they can be computed side by side.
const LANES: usize = 16;

/// Computes the vector of a text from the numbers of its pieces, on the best instructions of this machine.
pub(crate) fn encode_pieces(weights: &EncoderWeights, pieces: &[u32]) -> Vec<f32> {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "a function for newer instructions is called after they were detected")]
    {
        if is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
        {
            // SAFETY: the processor has these instructions, as checked above.
            return unsafe { encode_avx512(weights, pieces) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has these instructions, as checked above.
            return unsafe { encode_avx2(weights, pieces) };
        }
    }
    encode_portable(weights, pieces)
}

/// Computes the vector on the instructions that every machine has.
pub(crate) fn encode_portable(weights: &EncoderWeights, pieces: &[u32]) -> Vec<f32> {
    encode(weights, pieces)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
fn encode_avx512(weights: &EncoderWeights, pieces: &[u32]) -> Vec<f32> {
    encode(weights, pieces)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn encode_avx2(weights: &EncoderWeights, pieces: &[u32]) -> Vec<f32> {
    encode(weights, pieces)
}

/// The buffers of one pass.
#[derive(Default)]
struct PassBuffers {
    normed: Vec<f32>,
    rounded: IntegerRows,
    wide: Vec<f32>,
    narrow: Vec<f32>,
    added: Vec<f32>,
    scores: Vec<f32>,
    values: Vec<f32>,
}

#[inline(always)]
fn encode(weights: &EncoderWeights, pieces: &[u32]) -> Vec<f32> {
    let width = weights.sizes.width;
    let mut start = vec![0.0; pieces.len() * width];
    let factor = (width as f32).sqrt();
    for (row, piece) in start.chunks_exact_mut(width).zip(pieces) {
        weights.table.write_row(*piece as usize, factor, row);
    }
    let mut hidden = start.clone();
    let rotations = rotations(pieces.len(), width / weights.sizes.heads);
    let mut buffers = PassBuffers::default();
    for block in &weights.blocks {
        attend(block, weights.sizes.heads, width, &rotations, &mut hidden, &mut buffers);
        feed_forward(block, width, &mut hidden, &mut buffers);
    }
    normalize_rows(&hidden, width, &mut buffers.normed);
    pool(weights, pieces, &start, &buffers.normed)
}

/// The cosines and sines of every position, for one half of a head.
#[inline(always)]
fn rotations(positions: usize, head: usize) -> Vec<(f32, f32)> {
    let half = head / 2;
    let frequencies: Vec<f32> = (0..half).map(|i| ROTARY_BASE.powf(-(i as f32) / half as f32)).collect();
    (0..positions)
        .flat_map(|at| frequencies.iter().map(move |frequency| at as f32 * frequency))
        .map(|angle| (angle.cos(), angle.sin()))
        .collect()
}

/// Adds attention to the hidden states.
#[inline(always)]
fn attend(
    block: &BlockWeights,
    heads: usize,
    width: usize,
    rotations: &[(f32, f32)],
    hidden: &mut [f32],
    buffers: &mut PassBuffers,
) {
    let PassBuffers { normed, rounded, wide, narrow, added, scores, values } = buffers;
    let positions = hidden.len() / width;
    let (head, triple) = (width / heads, 3 * width);
    normalize_rows(hidden, width, normed);
    rounded.round(normed, width);
    wide.clear();
    wide.resize(positions * triple, 0.0);
    block.query_key_value.multiply(rounded, wide);
    for (row, turns) in wide.chunks_exact_mut(triple).zip(rotations.chunks_exact(head / 2)) {
        for part in row[..2 * width].chunks_exact_mut(head) {
            rotate(part, turns);
        }
    }
    narrow.clear();
    narrow.resize(positions * width, 0.0);
    scores.clear();
    scores.resize(positions, 0.0);
    let scale = 1.0 / (head as f32).sqrt();
    for at in 0..heads {
        // The keys with one row for each dimension, so that the scores of all positions are computed side by side.
        values.clear();
        values.resize(positions * head, 0.0);
        for (position, row) in wide.chunks_exact(triple).enumerate() {
            for (d, value) in row[width + at * head..width + (at + 1) * head].iter().enumerate() {
                values[d * positions + position] = *value;
            }
        }
        for (position, out) in narrow.chunks_exact_mut(width).enumerate() {
            scores.fill(0.0);
            let query = &wide[position * triple + at * head..position * triple + (at + 1) * head];
            for (value, keys) in query.iter().zip(values.chunks_exact(positions)) {
                add_scaled(scores, keys, value * scale);
            }
            softmax(scores);
            let out = &mut out[at * head..(at + 1) * head];
            for (weight, row) in scores.iter().zip(wide.chunks_exact(triple)) {
                add_scaled(out, &row[2 * width + at * head..2 * width + (at + 1) * head], *weight);
            }
        }
    }
    rounded.round(narrow, width);
    added.clear();
    added.resize(positions * width, 0.0);
    block.attention_output.multiply(rounded, added);
    add_scaled(hidden, added, 1.0);
}

/// Adds the feed-forward layer to the hidden states.
#[inline(always)]
fn feed_forward(block: &BlockWeights, width: usize, hidden: &mut [f32], buffers: &mut PassBuffers) {
    let PassBuffers { normed, rounded, wide, narrow, added, .. } = buffers;
    let inner = block.down.columns;
    let positions = hidden.len() / width;
    normalize_rows(hidden, width, normed);
    rounded.round(normed, width);
    wide.clear();
    wide.resize(positions * 2 * inner, 0.0);
    block.gate_up.multiply(rounded, wide);
    narrow.clear();
    narrow.resize(positions * inner, 0.0);
    for (row, out) in wide.chunks_exact(2 * inner).zip(narrow.chunks_exact_mut(inner)) {
        let (gate, up) = row.split_at(inner);
        for ((value, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *value = gate / (1.0 + exp(-gate)) * up;
        }
    }
    rounded.round(narrow, inner);
    added.clear();
    added.resize(positions * width, 0.0);
    block.down.multiply(rounded, added);
    add_scaled(hidden, added, 1.0);
}

/// The weighted mean of the hidden states, projected and scaled to length 1.
#[inline(always)]
fn pool(weights: &EncoderWeights, pieces: &[u32], start: &[f32], hidden: &[f32]) -> Vec<f32> {
    let width = weights.sizes.width;
    let mut shares: Vec<f32> = pieces
        .iter()
        .zip(hidden.chunks_exact(width))
        .map(|(piece, row)| weights.token_logits[*piece as usize] + dot(row, &weights.pooling))
        .collect();
    softmax(&mut shares);
    let mean = |rows: &[f32]| {
        let mut mean = vec![0.0; width];
        for (share, row) in shares.iter().zip(rows.chunks_exact(width)) {
            add_scaled(&mut mean, row, *share);
        }
        mean
    };
    let mut rounded = IntegerRows::default();
    let mut vector = vec![0.0; width];
    rounded.round(&mean(hidden), width);
    weights.projection.multiply(&rounded, &mut vector);
    if let Some(projection) = &weights.static_projection {
        let mut added = vec![0.0; width];
        rounded.round(&mean(start), width);
        projection.multiply(&rounded, &mut added);
        add_scaled(&mut vector, &added, 1.0);
    }
    let length = dot(&vector, &vector).sqrt().max(1e-12);
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

/// Divides every row by the root of its mean square.
#[inline(always)]
fn normalize_rows(rows: &[f32], width: usize, into: &mut Vec<f32>) {
    into.clear();
    for row in rows.chunks_exact(width) {
        let factor = 1.0 / (dot(row, row) / width as f32 + EPSILON).sqrt();
        into.extend(row.iter().map(|value| value * factor));
    }
}

/// Turns a head: dimension `i` together with dimension `i + half`.
#[inline(always)]
fn rotate(head: &mut [f32], turns: &[(f32, f32)]) {
    let (first, second) = head.split_at_mut(turns.len());
    for ((first, second), (cos, sin)) in first.iter_mut().zip(second).zip(turns) {
        (*first, *second) = (*first * cos - *second * sin, *second * cos + *first * sin);
    }
}

#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
    for score in scores.iter_mut() {
        *score = exp(*score - most);
    }
    let sum: f32 = scores.iter().sum();
    let factor = 1.0 / sum;
    for score in scores.iter_mut() {
        *score *= factor;
    }
}

#[inline(always)]
fn add_scaled(into: &mut [f32], from: &[f32], factor: f32) {
    for (into, from) in into.iter_mut().zip(from) {
        *into += from * factor;
    }
}

#[inline(always)]
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (one, other) in one.as_chunks::<LANES>().0.iter().zip(other.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += one[lane] * other[lane];
        }
    }
    sums.iter().sum()
}

/// eˣ, with a relative error below 1e-6. It has no branches and no calls, so that loops with it are computed side by
/// side.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let scaled = (x * std::f32::consts::LOG2_E).clamp(-126.0, 126.0);
    // Adding this number and taking it away again rounds to a whole number.
    let shifted = scaled + 12_582_912.0;
    let whole = shifted - 12_582_912.0;
    let t = (scaled - whole) * std::f32::consts::LN_2;
    let power = 1.0
        + t * (1.0 + t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0 + t * (1.0 / 120.0 + t * (1.0 / 720.0))))));
    let exponent = shifted.to_bits().wrapping_sub(12_582_912.0_f32.to_bits()).wrapping_add(127) << 23;
    power * f32::from_bits(exponent)
}
