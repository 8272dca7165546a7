//! The forward passes: pre-norm blocks with attention and SwiGLU, for the encoder between table rows and a weighted mean
//! that is projected, for the answer scorer before one number.

use std::ops::Range;

use crate::file::{BlockStack, BlockWeights, EncoderWeights, ScorerWeights};
#[cfg(target_arch = "x86_64")]
use crate::integer_product::{Avx2Product, Avx512Product};
use crate::integer_product::{BlockProduct, IntegerRows, PortableProduct};

/// Added to the mean square before its root is taken.
const EPSILON: f32 = 1e-6;

/// Attention computes this many positions or dimensions side by side. The dimensions of a head are a multiple of it.
const ATTENTION_LANES: usize = 32;

/// Float sums are kept in this many lanes, so that they can be computed side by side.
const LANES: usize = 16;

/// A computation over blocks, for any instructions.
trait ForwardPass {
    type Output;

    /// Computes it. To be inlined into a function for these instructions.
    fn compute<P: BlockProduct>(self, instructions: P) -> Self::Output;
}

/// Computes a pass on the best instructions of this machine.
fn on_best_instructions<F: ForwardPass>(pass: F) -> F::Output {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "a function for newer instructions is called after they were detected")]
    {
        if let Some(instructions) = Avx512Product::detect() {
            // SAFETY: the processor has these instructions, as was detected.
            return unsafe { on_avx512(pass, instructions) };
        }
        if let Some(instructions) = Avx2Product::detect() {
            // SAFETY: the processor has these instructions, as was detected.
            return unsafe { on_avx2(pass, instructions) };
        }
    }
    pass.compute(PortableProduct)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
fn on_avx512<F: ForwardPass>(pass: F, instructions: Avx512Product) -> F::Output {
    pass.compute(instructions)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn on_avx2<F: ForwardPass>(pass: F, instructions: Avx2Product) -> F::Output {
    pass.compute(instructions)
}

/// Computes the vectors of texts from the numbers of their pieces, on the best instructions of this machine. A vector
/// does not depend on the texts beside it.
pub(crate) fn encode_pieces(
    weights: &EncoderWeights,
    texts: &[Vec<u32>],
    buffers: &mut PassBuffers,
) -> Vec<Vec<f32>> {
    on_best_instructions(EncodingPass { weights, texts, buffers })
}

/// Computes the vectors on the instructions that every machine has.
#[cfg(test)]
pub(crate) fn encode_portable(
    weights: &EncoderWeights,
    texts: &[Vec<u32>],
    buffers: &mut PassBuffers,
) -> Vec<Vec<f32>> {
    EncodingPass { weights, texts, buffers }.compute(PortableProduct)
}

struct EncodingPass<'a> {
    weights: &'a EncoderWeights,
    texts: &'a [Vec<u32>],
    buffers: &'a mut PassBuffers,
}

impl ForwardPass for EncodingPass<'_> {
    type Output = Vec<Vec<f32>>;

    #[inline(always)]
    fn compute<P: BlockProduct>(self, instructions: P) -> Vec<Vec<f32>> {
        let Self { weights, texts, buffers } = self;
        let PassBuffers { start, hidden, of_block } = buffers;
        let width = weights.sizes.width;
        let positions = texts.iter().map(Vec::len).sum::<usize>();
        start.resize(positions * width, 0.0);
        let factor = (width as f32).sqrt();
        for (row, piece) in start.chunks_exact_mut(width).zip(texts.iter().flatten()) {
            weights.table.write_row(*piece as usize, factor, row);
        }
        hidden.clone_from(start);
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        run_blocks(&weights.stack, &lengths, instructions, hidden, of_block);
        normalize_rows(hidden, width, &mut of_block.normed);
        pool(weights, texts, start, &of_block.normed, instructions)
    }
}

/// Computes the scores of pairs, on the best instructions of this machine. `hidden` has the rows of all their pieces, and
/// `lengths` says how many each has.
pub(crate) fn score_pieces(
    weights: &ScorerWeights,
    lengths: &[usize],
    hidden: &mut [f32],
    buffers: &mut PassBuffers,
) -> Vec<f32> {
    on_best_instructions(ScoringPass { weights, lengths, hidden, buffers })
}

struct ScoringPass<'a> {
    weights: &'a ScorerWeights,
    lengths: &'a [usize],
    hidden: &'a mut [f32],
    buffers: &'a mut PassBuffers,
}

impl ForwardPass for ScoringPass<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn compute<P: BlockProduct>(self, instructions: P) -> Vec<f32> {
        let Self { weights, lengths, hidden, buffers } = self;
        let width = weights.stack.width;
        run_blocks(&weights.stack, lengths, instructions, hidden, &mut buffers.of_block);
        let mut first = 0;
        let score = |length: &usize| {
            let row = &hidden[first * width..(first + 1) * width];
            first += length;
            let factor = 1.0 / (dot(row, row) / width as f32 + EPSILON).sqrt();
            dot(row, &weights.head) * factor + weights.constant
        };
        lengths.iter().map(score).collect()
    }
}

/// The buffers of a pass. They are used again, because asking the system for fresh memory takes longer than a short pass.
#[derive(Default)]
pub(crate) struct PassBuffers {
    start: Vec<f32>,
    hidden: Vec<f32>,
    of_block: BlockBuffers,
}

/// The buffers of one block.
#[derive(Default)]
struct BlockBuffers {
    normed: Vec<f32>,
    rounded: IntegerRows,
    wide: Vec<f32>,
    narrow: Vec<f32>,
    added: Vec<f32>,
    of_head: HeadBuffers,
}

/// The buffers of the attention of one head.
#[derive(Default)]
struct HeadBuffers {
    keys: Vec<[f32; ATTENTION_LANES]>,
    values: Vec<[f32; ATTENTION_LANES]>,
    scores: Vec<f32>,
}

/// Adds what the blocks compute to the hidden states.
#[inline(always)]
fn run_blocks<P: BlockProduct>(
    stack: &BlockStack,
    lengths: &[usize],
    instructions: P,
    hidden: &mut [f32],
    buffers: &mut BlockBuffers,
) {
    for block in &stack.blocks {
        attend(stack, block, lengths, instructions, hidden, buffers);
        feed_forward(block, stack.width, instructions, hidden, buffers);
    }
}

/// Adds attention to the hidden states.
#[inline(always)]
fn attend<P: BlockProduct>(
    stack: &BlockStack,
    block: &BlockWeights,
    lengths: &[usize],
    instructions: P,
    hidden: &mut [f32],
    buffers: &mut BlockBuffers,
) {
    let BlockBuffers { normed, rounded, wide, narrow, added, of_head } = buffers;
    let (width, heads) = (stack.width, stack.heads);
    let (head, triple) = (width / heads, 3 * width);
    let positions = hidden.len() / width;
    normalize_rows(hidden, width, normed);
    rounded.round(normed, width);
    wide.resize(positions * triple, 0.0);
    block.query_key_value.multiply(instructions, rounded, wide);
    narrow.resize(positions * width, 0.0);
    let (mut rest, mut outputs) = (&mut wide[..], &mut narrow[..]);
    for length in lengths {
        let (rows, out);
        (rows, rest) = rest.split_at_mut(length * triple);
        (out, outputs) = outputs.split_at_mut(length * width);
        for (row, turns) in rows.chunks_exact_mut(triple).zip(stack.rotations.chunks_exact(head / 2)) {
            for part in row[..2 * width].chunks_exact_mut(head) {
                rotate(part, turns);
            }
        }
        for at in 0..heads {
            attend_head(rows, out, width, at * head..(at + 1) * head, of_head);
        }
    }
    rounded.round(narrow, width);
    added.resize(positions * width, 0.0);
    block.attention_output.multiply(instructions, rounded, added);
    add_scaled(hidden, added, 1.0);
}

/// Attention of one head in one text. `rows` has query, key and value of each position.
#[inline(always)]
fn attend_head(rows: &[f32], out: &mut [f32], width: usize, head: Range<usize>, buffers: &mut HeadBuffers) {
    let HeadBuffers { keys, values, scores } = buffers;
    let triple = 3 * width;
    let positions = rows.len() / triple;
    let part = |row: usize, of: usize| &rows[row * triple + of * width..][head.clone()];
    let scale = 1.0 / (head.len() as f32).sqrt();
    // The keys of `ATTENTION_LANES` positions with one row for each dimension; in the last ones, some positions are empty.
    let key_chunks = positions.div_ceil(ATTENTION_LANES);
    keys.clear();
    keys.resize(key_chunks * head.len(), [0.0; ATTENTION_LANES]);
    // The values of `ATTENTION_LANES` dimensions with one row for each position.
    values.clear();
    values.resize(positions * head.len() / ATTENTION_LANES, [0.0; ATTENTION_LANES]);
    for position in 0..positions {
        let (chunk, lane) = (position / ATTENTION_LANES, position % ATTENTION_LANES);
        for (row, value) in keys[chunk * head.len()..].iter_mut().zip(part(position, 1)) {
            row[lane] = value * scale;
        }
        for (at, lanes) in part(position, 2).as_chunks().0.iter().enumerate() {
            values[at * positions + position] = *lanes;
        }
    }
    let row = key_chunks * ATTENTION_LANES;
    scores.resize(2 * row, 0.0);
    // Two positions at a time: their sums do not wait for each other.
    for (pair, out) in out.chunks_mut(2 * width).enumerate() {
        let (first, second) = (2 * pair, (2 * pair + 1).min(positions - 1));
        let (one, other) = scores.split_at_mut(row);
        for (at, keys) in keys.chunks_exact(head.len()).enumerate() {
            let lanes = at * ATTENTION_LANES..(at + 1) * ATTENTION_LANES;
            let sums = weighted_sums([part(first, 0), part(second, 0)], keys);
            one[lanes.clone()].copy_from_slice(&sums[0]);
            other[lanes].copy_from_slice(&sums[1]);
        }
        let (one, other) = (&mut one[..positions], &mut other[..positions]);
        softmax(one);
        softmax(other);
        for (at, values) in values.chunks_exact(positions).enumerate() {
            let sums = weighted_sums([one, other], values);
            for (out, sums) in out.chunks_exact_mut(width).zip(&sums) {
                let start = head.start + at * ATTENTION_LANES;
                out[start..start + ATTENTION_LANES].copy_from_slice(sums);
            }
        }
    }
}

/// The sums of the rows, each multiplied by its weight, for two lists of weights.
#[inline(always)]
fn weighted_sums(
    [first, second]: [&[f32]; 2],
    rows: &[[f32; ATTENTION_LANES]],
) -> [[f32; ATTENTION_LANES]; 2] {
    let mut sums = [[0.0; ATTENTION_LANES]; 2];
    for ((row, first), second) in rows.iter().zip(first).zip(second) {
        for lane in 0..ATTENTION_LANES {
            sums[0][lane] += row[lane] * first;
            sums[1][lane] += row[lane] * second;
        }
    }
    sums
}

/// Adds the feed-forward layer to the hidden states.
#[inline(always)]
fn feed_forward<P: BlockProduct>(
    block: &BlockWeights,
    width: usize,
    instructions: P,
    hidden: &mut [f32],
    buffers: &mut BlockBuffers,
) {
    let BlockBuffers { normed, rounded, wide, narrow, added, .. } = buffers;
    let inner = block.down.columns;
    let positions = hidden.len() / width;
    normalize_rows(hidden, width, normed);
    rounded.round(normed, width);
    wide.resize(positions * 2 * inner, 0.0);
    block.gate_up.multiply(instructions, rounded, wide);
    narrow.resize(positions * inner, 0.0);
    for (row, out) in wide.chunks_exact(2 * inner).zip(narrow.chunks_exact_mut(inner)) {
        let (gate, up) = row.split_at(inner);
        for ((value, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *value = gate / (1.0 + exp(-gate)) * up;
        }
    }
    rounded.round(narrow, inner);
    added.resize(positions * width, 0.0);
    block.down.multiply(instructions, rounded, added);
    add_scaled(hidden, added, 1.0);
}

/// The weighted means of the hidden states of each text, projected and scaled to length 1.
#[inline(always)]
fn pool<P: BlockProduct>(
    weights: &EncoderWeights,
    texts: &[Vec<u32>],
    start: &[f32],
    hidden: &[f32],
    instructions: P,
) -> Vec<Vec<f32>> {
    let width = weights.sizes.width;
    let (mut means, mut static_means) = (vec![0.0; texts.len() * width], vec![0.0; texts.len() * width]);
    let mut first = 0;
    for (at, text) in texts.iter().enumerate() {
        let rows = first * width..(first + text.len()) * width;
        first += text.len();
        let mut shares: Vec<f32> = text
            .iter()
            .zip(hidden[rows.clone()].chunks_exact(width))
            .map(|(piece, row)| weights.token_logits[*piece as usize] + dot(row, &weights.pooling))
            .collect();
        softmax(&mut shares);
        for (means, values) in [(&mut means, hidden), (&mut static_means, start)] {
            for (share, row) in shares.iter().zip(values[rows.clone()].chunks_exact(width)) {
                add_scaled(&mut means[at * width..(at + 1) * width], row, *share);
            }
        }
    }
    let mut rounded = IntegerRows::default();
    let mut vectors = vec![0.0; texts.len() * width];
    rounded.round(&means, width);
    weights.projection.multiply(instructions, &rounded, &mut vectors);
    if let Some(projection) = &weights.static_projection {
        let mut added = vec![0.0; texts.len() * width];
        rounded.round(&static_means, width);
        projection.multiply(instructions, &rounded, &mut added);
        add_scaled(&mut vectors, &added, 1.0);
    }
    vectors
        .chunks_exact(width)
        .map(|vector| {
            let length = dot(vector, vector).sqrt().max(1e-12);
            vector.iter().map(|value| value / length).collect()
        })
        .collect()
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
    let largest = fold_lanes(scores, f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = exp(*score - largest);
    }
    let factor = 1.0 / fold_lanes(scores, 0.0, |sum, score| sum + score);
    for score in scores.iter_mut() {
        *score *= factor;
    }
}

/// Folds the numbers in lanes, and then the lanes.
#[inline(always)]
fn fold_lanes(numbers: &[f32], start: f32, fold: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = fold(lanes[lane], chunk[lane]);
        }
    }
    lanes.iter().chain(rest).fold(start, |one, other| fold(one, *other))
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
