//! The forward pass of BERT for one text at a time, so no padding is needed.

use serde::Deserialize;

use super::super::matrix::{Matrix, add_in_place};
use super::safetensors::SafeTensors;

/// The dimensions in `config.json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BertConfig {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    #[serde(default = "usual_positions")]
    max_position_embeddings: usize,
    #[serde(default = "usual_epsilon")]
    layer_norm_eps: f32,
}

fn usual_positions() -> usize {
    512
}

fn usual_epsilon() -> f32 {
    1e-12
}

impl BertConfig {
    /// Checks that the dimensions are valid.
    pub(super) fn check(&self) -> Result<(), String> {
        let heads = self.num_attention_heads;
        let fits = (1..=64).contains(&heads)
            && (1..=4096).contains(&self.hidden_size)
            && self.hidden_size.is_multiple_of(heads)
            && (1..=64).contains(&self.num_hidden_layers)
            && (1..=16_384).contains(&self.intermediate_size)
            && (3..=65_536).contains(&self.max_position_embeddings);
        if fits { Ok(()) } else { Err("its sizes are not those of an encoder".into()) }
    }

    pub(super) fn positions(&self) -> usize {
        self.max_position_embeddings
    }
}

/// The weights of the encoder.
pub(super) struct BertEncoder {
    word_embeddings: Matrix,
    position_embeddings: Matrix,
    /// The embedding of the first segment, which is added to every token.
    first_text: Vec<f32>,
    norm: BertLayerNorm,
    layers: Vec<BertLayer>,
    heads: usize,
    epsilon: f32,
}

struct BertLayer {
    query: BertDenseLayer,
    key: BertDenseLayer,
    value: BertDenseLayer,
    attention_output: BertDenseLayer,
    attention_output_norm: BertLayerNorm,
    intermediate: BertDenseLayer,
    output: BertDenseLayer,
    output_norm: BertLayerNorm,
}

struct BertDenseLayer {
    weight: Matrix,
    bias: Vec<f32>,
}

struct BertLayerNorm {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl BertEncoder {
    pub(super) fn from_tensors(tensors: &SafeTensors<'_>, shape: &BertConfig) -> Result<Self, String> {
        let (width, wide) = (shape.hidden_size, shape.intermediate_size);
        let dense = |name: String, from, to| -> Result<BertDenseLayer, String> {
            let weight = tensors.transposed(&format!("{name}.weight"), from, to)?;
            Ok(BertDenseLayer { weight, bias: tensors.row(&format!("{name}.bias"), to)? })
        };
        let norm = |name: String| -> Result<BertLayerNorm, String> {
            let part = |part: &str| tensors.row(&format!("{name}.{part}"), width);
            // Older files use these names.
            let either = |new: &str, old: &str| part(new).or_else(|error| part(old).map_err(|_| error));
            Ok(BertLayerNorm { scale: either("weight", "gamma")?, shift: either("bias", "beta")? })
        };
        let layer = |nth: usize| -> Result<BertLayer, String> {
            let at = |part: &str| format!("encoder.layer.{nth}.{part}");
            Ok(BertLayer {
                query: dense(at("attention.self.query"), width, width)?,
                key: dense(at("attention.self.key"), width, width)?,
                value: dense(at("attention.self.value"), width, width)?,
                attention_output: dense(at("attention.output.dense"), width, width)?,
                attention_output_norm: norm(at("attention.output.LayerNorm"))?,
                intermediate: dense(at("intermediate.dense"), width, wide)?,
                output: dense(at("output.dense"), wide, width)?,
                output_norm: norm(at("output.LayerNorm"))?,
            })
        };
        let positions = tensors.rows("embeddings.position_embeddings.weight", width)?;
        if positions.rows() < shape.max_position_embeddings {
            return Err(format!("there are only {} positions", positions.rows()));
        }
        let kinds = tensors.rows("embeddings.token_type_embeddings.weight", width)?;
        if kinds.rows() == 0 {
            return Err("there are no kinds of text".into());
        }
        Ok(Self {
            word_embeddings: tensors.rows("embeddings.word_embeddings.weight", width)?,
            position_embeddings: positions,
            first_text: kinds.row(0).to_vec(),
            norm: norm("embeddings.LayerNorm".into())?,
            layers: (0..shape.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
            heads: shape.num_attention_heads,
            epsilon: shape.layer_norm_eps,
        })
    }

    /// Returns the number of tokens in the embedding table.
    pub(super) fn vocabulary_rows(&self) -> usize {
        self.word_embeddings.rows()
    }

    /// Returns the dimension of a vector.
    pub(super) fn width(&self) -> usize {
        self.word_embeddings.width
    }

    /// Returns one row for each token. There must be no more tokens than positions, and each must be in the table.
    pub(super) fn encode(&self, pieces: &[u32]) -> Matrix {
        let mut rows = Matrix::zeros(pieces.len(), self.width());
        for (at, piece) in pieces.iter().enumerate() {
            let row = rows.row_mut(at);
            row.copy_from_slice(self.word_embeddings.row(*piece as usize));
            add_in_place(row, self.position_embeddings.row(at));
            add_in_place(row, &self.first_text);
        }
        self.norm.apply(&mut rows, self.epsilon);
        for layer in &self.layers {
            rows = self.forward_layer(layer, &rows);
        }
        rows
    }

    fn forward_layer(&self, layer: &BertLayer, rows: &Matrix) -> Matrix {
        let mut seen = layer.attention_output.apply(&self.attention(layer, rows));
        add_in_place(&mut seen.data, &rows.data);
        layer.attention_output_norm.apply(&mut seen, self.epsilon);
        let mut wide = layer.intermediate.apply(&seen);
        wide.data.iter_mut().for_each(|x| *x = gelu(*x));
        let mut out = layer.output.apply(&wide);
        add_in_place(&mut out.data, &seen.data);
        layer.output_norm.apply(&mut out, self.epsilon);
        out
    }

    /// Multi-head self-attention.
    fn attention(&self, layer: &BertLayer, rows: &Matrix) -> Matrix {
        let (query, key, value) = (layer.query.apply(rows), layer.key.apply(rows), layer.value.apply(rows));
        let (count, size) = (rows.rows(), rows.width / self.heads);
        let scale = 1.0 / (size as f32).sqrt();
        let mut out = Matrix::zeros(count, rows.width);
        for head in 0..self.heads {
            let columns = head * size..(head + 1) * size;
            let part = |all: &Matrix| {
                let data = (0..count).flat_map(|row| all.row(row)[columns.clone()].iter().copied()).collect();
                Matrix { data, width: size }
            };
            let mut turned = Matrix::zeros(size, count);
            for row in 0..count {
                for (at, number) in key.row(row)[columns.clone()].iter().enumerate() {
                    turned.data[at * count + row] = *number;
                }
            }
            let mut looks = part(&query).multiply(&turned);
            (0..count).for_each(|row| scaled_softmax(looks.row_mut(row), scale));
            let seen = looks.multiply(&part(&value));
            for row in 0..count {
                out.row_mut(row)[columns.clone()].copy_from_slice(seen.row(row));
            }
        }
        out
    }
}

impl BertDenseLayer {
    fn apply(&self, rows: &Matrix) -> Matrix {
        let mut out = rows.multiply(&self.weight);
        out.add_row(&self.bias);
        out
    }
}

impl BertLayerNorm {
    fn apply(&self, rows: &mut Matrix, epsilon: f32) {
        rows.normalize_rows(&self.scale, &self.shift, epsilon);
    }
}

/// Scales the values and applies softmax.
fn scaled_softmax(row: &mut [f32], scale: f32) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = ((*x - largest) * scale).exp();
        sum += *x;
    }
    row.iter_mut().for_each(|x| *x /= sum);
}

/// GELU in its exact form, which BERT was trained with.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function, accurate to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
fn erf(x: f32) -> f32 {
    let x = f64::from(x);
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let powers = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let sum = powers.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    ((1.0 - sum * (-x * x).exp()) * x.signum()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_known_values() {
        for (x, known) in [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (-2.0, -0.995_322_3)] {
            assert!((erf(x) - known).abs() < 3e-7, "erf({x}) = {}", erf(x));
        }
        assert!((gelu(1.0) - 0.841_344_7).abs() < 1e-6 && gelu(-10.0).abs() < 1e-6);
        let mut row = [1.0, 2.0, 3.0];
        scaled_softmax(&mut row, 1.0);
        assert!((row[2] - 0.665_240_9).abs() < 1e-6 && (row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
}
