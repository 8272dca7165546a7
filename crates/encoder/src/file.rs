//! The file of an encoder: a header with a hash, the sizes, the weights and the vocabulary. All numbers are little-endian.

use crate::MAX_PIECES;
use crate::integer_product::{IntegerMatrix, MAX_COLUMNS};
use crate::pieces::{PieceKind, PieceTokenizer};

const MAGIC: &[u8; 8] = b"DORANENC";
const SCORER_MAGIC: &[u8; 8] = b"DORANANS";
const VERSION: u32 = 1;
const HASH_BYTES: usize = 32;

/// Sizes above this are damage, not a larger encoder.
const MAX_SIZE: usize = 1 << 17;

/// The base of the rotary frequencies.
const ROTARY_BASE: f32 = 10_000.0;

/// Why a file is not an encoder.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncoderFileError {
    /// The file is something else.
    #[error("this is not an encoder file: it does not start with `DORANENC`")]
    NotAnEncoder,
    /// The file is not an answer scorer.
    #[error("this is not a file of an answer scorer: it does not start with `DORANANS`")]
    NotAScorer,
    /// The file has another version.
    #[error("the encoder file has version {found}, and this program reads version {VERSION}")]
    OtherVersion {
        /// The version in the file.
        found: u32,
    },
    /// The content makes no sense.
    #[error("the encoder file is damaged: {reason}")]
    Damaged {
        /// What is wrong.
        reason: &'static str,
    },
}

/// The sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncoderSizes {
    pub(crate) vocabulary: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
}

impl EncoderSizes {
    fn fit_each_other(&self) -> bool {
        let fitting = self.width.is_multiple_of(self.heads * 32) && self.hidden.is_multiple_of(32);
        fitting && self.width <= MAX_COLUMNS && self.hidden <= MAX_COLUMNS
    }
}

/// The token table: a scale and a row of small integers for every piece.
pub(crate) struct TokenTable {
    scales: Vec<f32>,
    /// Rows of `width` bytes, or of `width / 2` bytes with two values each. They stay where they are: the table is most
    /// of the file.
    rows: &'static [u8],
    bits: usize,
    width: usize,
}

impl TokenTable {
    /// Writes the row of a piece scaled to length 1, or zeros if it has no length.
    pub(crate) fn write_direction(&self, piece: usize, into: &mut [f32]) {
        self.write_row(piece, 1.0, into);
        let length = into.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-12);
        into.iter_mut().for_each(|value| *value /= length);
    }

    /// Writes the row of a piece, multiplied by `factor`.
    pub(crate) fn write_row(&self, piece: usize, factor: f32, into: &mut [f32]) {
        let scale = self.scales[piece] * factor;
        let bytes = self.width * self.bits / 8;
        let row = &self.rows[piece * bytes..(piece + 1) * bytes];
        if self.bits == 8 {
            for (value, byte) in into.iter_mut().zip(row) {
                *value = f32::from(byte.cast_signed()) * scale;
            }
        } else {
            for (pair, byte) in into.chunks_exact_mut(2).zip(row) {
                pair[0] = (f32::from(byte & 15) - 8.0) * scale;
                pair[1] = (f32::from(byte >> 4) - 8.0) * scale;
            }
        }
    }
}

/// The matrices of a block.
pub(crate) struct BlockWeights {
    pub(crate) query_key_value: IntegerMatrix,
    pub(crate) attention_output: IntegerMatrix,
    pub(crate) gate_up: IntegerMatrix,
    pub(crate) down: IntegerMatrix,
}

/// Blocks that follow each other, with what their attention needs.
pub(crate) struct BlockStack {
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) blocks: Vec<BlockWeights>,
    /// The cosines and sines of every position, for one half of a head.
    pub(crate) rotations: Vec<(f32, f32)>,
}

impl BlockStack {
    fn read(reader: &mut ByteReader, sizes: &EncoderSizes) -> Result<Self, EncoderFileError> {
        let EncoderSizes { width, heads, hidden, layers, .. } = *sizes;
        let block = |_| {
            Ok(BlockWeights {
                query_key_value: reader.matrix(3 * width, width)?,
                attention_output: reader.matrix(width, width)?,
                gate_up: reader.matrix(2 * hidden, width)?,
                down: reader.matrix(width, hidden)?,
            })
        };
        let blocks = (0..layers).map(block).collect::<Result<_, EncoderFileError>>()?;
        Ok(Self { width, heads, blocks, rotations: rotations(MAX_PIECES + 1, width / heads) })
    }
}

/// Everything that the file holds.
pub(crate) struct EncoderWeights {
    /// The first bytes of the hash of the file, in hexadecimal.
    pub(crate) hash: String,
    pub(crate) sizes: EncoderSizes,
    pub(crate) table: TokenTable,
    /// The logit of every piece in the weighted mean.
    pub(crate) token_logits: Vec<f32>,
    /// Adds the logit that depends on the hidden state.
    pub(crate) pooling: Vec<f32>,
    pub(crate) stack: BlockStack,
    pub(crate) projection: IntegerMatrix,
    /// Projects the mean of the table rows, if the encoder uses it.
    pub(crate) static_projection: Option<IntegerMatrix>,
    pub(crate) tokenizer: PieceTokenizer,
}

impl EncoderWeights {
    /// Reads a file and checks that its parts fit each other.
    pub(crate) fn read(file: &'static [u8]) -> Result<Self, EncoderFileError> {
        let rest = file.strip_prefix(MAGIC).ok_or(EncoderFileError::NotAnEncoder)?;
        let mut reader = ByteReader(rest);
        let found = reader.u32()?;
        if found != VERSION {
            return Err(EncoderFileError::OtherVersion { found });
        }
        // Not compared with the content, which would read the whole table at every start. A test compares it.
        let hash = reader.take(HASH_BYTES)?;
        let sizes = EncoderSizes {
            vocabulary: reader.size()?,
            width: reader.size()?,
            heads: reader.size()?,
            hidden: reader.size()?,
            layers: reader.size()?,
        };
        let (bits, uses_static) = (reader.u32()?, reader.u32()? == 1);
        if !sizes.fit_each_other() || !(bits == 8 || bits == 4) {
            return Err(EncoderFileError::Damaged { reason: "the sizes do not fit each other" });
        }
        let EncoderSizes { vocabulary, width, .. } = sizes;
        let table = TokenTable {
            scales: reader.floats(vocabulary)?,
            rows: reader.take(vocabulary * width * bits as usize / 8)?,
            bits: bits as usize,
            width,
        };
        let token_logits = reader.floats(vocabulary)?;
        let pooling = reader.floats(width)?;
        let stack = BlockStack::read(&mut reader, &sizes)?;
        let projection = reader.matrix(width, width)?;
        let static_projection = if uses_static { Some(reader.matrix(width, width)?) } else { None };
        let pieces = (0..vocabulary).map(|_| reader.piece()).collect::<Result<_, _>>()?;
        if !reader.0.is_empty() {
            return Err(EncoderFileError::Damaged { reason: "bytes follow the vocabulary" });
        }
        let tokenizer = PieceTokenizer::new(pieces)?;
        Ok(Self {
            hash: hash[..4].iter().map(|byte| format!("{byte:02x}")).collect(),
            sizes,
            table,
            token_logits,
            pooling,
            stack,
            projection,
            static_projection,
            tokenizer,
        })
    }
}

/// The weights of the answer scorer: blocks of its own over the table and the pieces of the encoder.
pub(crate) struct ScorerWeights {
    /// What is added to a piece of the question, of the context and of the sentence.
    pub(crate) parts: [Vec<f32>; 3],
    /// What is added to a piece that the other side has.
    pub(crate) same: Vec<f32>,
    /// What is added to a piece, multiplied by the cosine of the nearest piece of the other side.
    pub(crate) near: Vec<f32>,
    pub(crate) head: Vec<f32>,
    pub(crate) constant: f32,
    pub(crate) stack: BlockStack,
}

impl ScorerWeights {
    /// Reads a file that was made for an encoder of these sizes.
    pub(crate) fn read(file: &'static [u8], encoder: &EncoderSizes) -> Result<Self, EncoderFileError> {
        let rest = file.strip_prefix(SCORER_MAGIC).ok_or(EncoderFileError::NotAScorer)?;
        let mut reader = ByteReader(rest);
        let found = reader.u32()?;
        if found != VERSION {
            return Err(EncoderFileError::OtherVersion { found });
        }
        let sizes = EncoderSizes {
            vocabulary: encoder.vocabulary,
            width: reader.size()?,
            heads: reader.size()?,
            hidden: reader.size()?,
            layers: reader.size()?,
        };
        if !sizes.fit_each_other() || sizes.width != encoder.width {
            return Err(EncoderFileError::Damaged { reason: "the sizes do not fit each other" });
        }
        let mut row = || reader.floats(sizes.width);
        let parts = [row()?, row()?, row()?];
        let (same, near, head) = (row()?, row()?, row()?);
        let constant = reader.floats(1)?[0];
        let stack = BlockStack::read(&mut reader, &sizes)?;
        if !reader.0.is_empty() {
            return Err(EncoderFileError::Damaged { reason: "bytes follow the weights" });
        }
        Ok(Self { parts, same, near, head, constant, stack })
    }
}

fn rotations(positions: usize, head: usize) -> Vec<(f32, f32)> {
    let half = head / 2;
    let frequencies: Vec<f32> = (0..half).map(|i| ROTARY_BASE.powf(-(i as f32) / half as f32)).collect();
    (0..positions)
        .flat_map(|at| frequencies.iter().map(move |frequency| at as f32 * frequency))
        .map(|angle| (angle.cos(), angle.sin()))
        .collect()
}

/// Reads numbers from the front of a slice.
struct ByteReader(&'static [u8]);

impl ByteReader {
    fn take(&mut self, count: usize) -> Result<&'static [u8], EncoderFileError> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(EncoderFileError::Damaged { reason: "it is cut short" })?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, EncoderFileError> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, EncoderFileError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn size(&mut self) -> Result<usize, EncoderFileError> {
        match self.u32()? as usize {
            size @ 1..=MAX_SIZE => Ok(size),
            _ => Err(EncoderFileError::Damaged { reason: "a size is out of range" }),
        }
    }

    fn floats(&mut self, count: usize) -> Result<Vec<f32>, EncoderFileError> {
        let values: Vec<f32> =
            self.take(count * 4)?.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(EncoderFileError::Damaged { reason: "a weight is not a number" })
        }
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Result<IntegerMatrix, EncoderFileError> {
        let scales = self.floats(rows)?;
        let values: Vec<i8> = self.take(rows * columns)?.iter().map(|byte| byte.cast_signed()).collect();
        Ok(IntegerMatrix::new(&values, scales, columns))
    }

    fn piece(&mut self) -> Result<(PieceKind, f32, &'static [u8]), EncoderFileError> {
        let kind = match self.byte()? {
            0 => PieceKind::Normal,
            1 => PieceKind::Control,
            2 => PieceKind::Byte,
            _ => return Err(EncoderFileError::Damaged { reason: "a piece has an unknown kind" }),
        };
        let score = self.floats(1)?[0];
        let length = usize::from(self.byte()?);
        Ok((kind, score, self.take(length)?))
    }
}
