//! Doran's own text encoder: turns a Korean or English text into a vector whose dot product with another says how near
//! the two are in meaning. On the same table of pieces, an [`AnswerScorer`] reads a question and a sentence together and
//! says how well the sentence answers. The weights are compiled in. Nothing needs a server, a key or a download.
//!
//! `training/` in the repository makes the weights, and `training/README.md` describes the file and the forward pass.

mod answer_scorer;
mod file;
mod forward_pass;
mod integer_product;
mod pieces;

use std::sync::{Mutex, OnceLock, PoisonError};

pub use self::answer_scorer::{AnswerCandidate, AnswerScorer};
pub use self::file::EncoderFileError;
use self::file::EncoderWeights;
use self::forward_pass::PassBuffers;

/// The weights of this version.
static BUILT_IN: &[u8] = include_bytes!("../weights/encoder.bin");

/// The number of the piece that stands before a query, and before a passage.
const QUERY_PIECE: u32 = 3;
const PASSAGE_PIECE: u32 = 4;

/// The most pieces of a text. The text after them does not change the vector.
pub const MAX_PIECES: usize = 255;

/// Texts are computed together until they have this many pieces. More is not faster, and their numbers take 14 KB a piece.
const BATCH_PIECES: usize = 256;

/// Buffers for at most this many pieces are kept for the next calls: enough for most questions, 0.9 MB.
const KEPT_PIECES: usize = 64;

/// Which side of a search a text is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSide {
    /// What is asked.
    Query,
    /// What is searched.
    Passage,
}

/// A text encoder.
pub struct TextEncoder {
    weights: EncoderWeights,
    /// Small buffers that are not in use, for the next calls.
    buffers: Mutex<Vec<PassBuffers>>,
}

impl TextEncoder {
    /// Returns the encoder that is compiled in. The first call reads the weights, which takes a few milliseconds.
    pub fn built_in() -> Result<&'static Self, &'static EncoderFileError> {
        static READ: OnceLock<Result<TextEncoder, EncoderFileError>> = OnceLock::new();
        READ.get_or_init(|| TextEncoder::read(BUILT_IN)).as_ref()
    }

    /// Reads an encoder file, which stays in memory as it is: its table is used in place.
    pub fn read(file: &'static [u8]) -> Result<Self, EncoderFileError> {
        Ok(Self { weights: EncoderWeights::read(file)?, buffers: Mutex::default() })
    }

    /// Returns how many numbers a vector has.
    pub fn dimension(&self) -> usize {
        self.weights.sizes.width
    }

    /// Returns the start of the hash of the weights. Encoders with different ones give different vectors.
    pub fn weights_hash(&self) -> &str {
        &self.weights.hash
    }

    /// Returns the vector of a text. Its length is 1. The same text and side give the same vector on the same machine.
    pub fn encode(&self, text: &str, side: TextSide) -> Vec<f32> {
        self.encode_all(&[text], side).swap_remove(0)
    }

    /// Returns the vectors of texts, in order. Each is the one that [`encode`](Self::encode) returns for its text.
    pub fn encode_all<T: AsRef<str>>(&self, texts: &[T], side: TextSide) -> Vec<Vec<f32>> {
        let free = || self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = free().pop().unwrap_or_default();
        let mut vectors = Vec::with_capacity(texts.len());
        let mut batch = Vec::new();
        let mut pieces = 0;
        let mut most_pieces = 0;
        for (at, text) in texts.iter().enumerate() {
            let text = self.pieces(text.as_ref(), side);
            pieces += text.len();
            batch.push(text);
            if pieces >= BATCH_PIECES || at + 1 == texts.len() {
                vectors.extend(forward_pass::encode_pieces(&self.weights, &batch, &mut buffers));
                batch.clear();
                most_pieces = most_pieces.max(pieces);
                pieces = 0;
            }
        }
        if most_pieces <= KEPT_PIECES {
            free().push(buffers);
        }
        vectors
    }

    /// Returns the numbers of the pieces of a text, the one of its side first.
    fn pieces(&self, text: &str, side: TextSide) -> Vec<u32> {
        let mut pieces = vec![match side {
            TextSide::Query => QUERY_PIECE,
            TextSide::Passage => PASSAGE_PIECE,
        }];
        pieces.extend(self.weights.tokenizer.split(text, MAX_PIECES));
        pieces
    }
}

#[cfg(test)]
mod tests;
