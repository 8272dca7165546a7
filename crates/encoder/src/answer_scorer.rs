//! Reads a question and a sentence together and says how well the sentence answers the question.
//!
//! The scorer has blocks of its own over the table and the pieces of the encoder. A piece also says on which side it
//! stands, whether the other side has it, and how near the nearest piece of the other side is.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::file::{EncoderFileError, ScorerWeights};
use crate::forward_pass::{PassBuffers, score_pieces};
use crate::{BATCH_PIECES, PASSAGE_PIECE, QUERY_PIECE, TextEncoder};

/// The weights of this version.
pub(crate) static BUILT_IN_SCORER: &[u8] = include_bytes!("../weights/scorer.bin");

/// The piece before the sentence. In the training of the encoder it stands for a hidden piece.
const SENTENCE_PIECE: u32 = 2;

/// Pieces up to this one are marks and match nothing.
const LAST_MARK: u32 = 4;

pub(crate) const MAX_QUESTION_PIECES: usize = 40;
const MAX_TITLE_PIECES: usize = 18;
const MAX_LEAD_PIECES: usize = 14;
const MAX_HEADER_PIECES: usize = 20;
const MAX_SENTENCE_PIECES: usize = 96;

/// The most pieces of a pair, its marks included. The end of a sentence that does not fit is left out.
const MAX_PAIR_PIECES: usize = 128;

/// A sentence that may answer a question, with what stands around it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerCandidate<'a> {
    /// The title of its document, with the headings above it.
    pub title: &'a str,
    /// The sentence before it, or the line that leads to its list or table.
    pub lead: &'a str,
    /// The head of its table.
    pub header: &'a str,
    /// The sentence, list item or table row.
    pub sentence: &'a str,
}

/// Scores sentences as answers.
pub struct AnswerScorer {
    encoder: &'static TextEncoder,
    weights: ScorerWeights,
}

impl AnswerScorer {
    /// Returns the scorer that is compiled in.
    pub fn built_in() -> Result<&'static Self, &'static EncoderFileError> {
        static READ: OnceLock<Result<AnswerScorer, EncoderFileError>> = OnceLock::new();
        let encoder = TextEncoder::built_in()?;
        READ.get_or_init(|| AnswerScorer::read(BUILT_IN_SCORER, encoder)).as_ref()
    }

    /// Reads the file of a scorer that was made for an encoder.
    pub fn read(file: &'static [u8], encoder: &'static TextEncoder) -> Result<Self, EncoderFileError> {
        Ok(Self { encoder, weights: ScorerWeights::read(file, &encoder.weights.sizes)? })
    }

    /// Returns a score for each candidate. The odds that a candidate answers are `exp(score)` to 1 for "none of them".
    pub fn score(&self, question: &str, candidates: &[AnswerCandidate<'_>]) -> Vec<f32> {
        let asked = self.encoder.weights.tokenizer.split(question, MAX_QUESTION_PIECES);
        let mut nearness = PieceNearness::new(self.encoder, &asked);
        let mut buffers = PassBuffers::default();
        let (mut hidden, mut lengths, mut scores) = (Vec::new(), Vec::new(), Vec::new());
        for (at, candidate) in candidates.iter().enumerate() {
            let pieces = self.pieces(&asked, candidate);
            lengths.push(pieces.len());
            self.add_rows(&pieces, &mut nearness, &mut hidden);
            let is_full = lengths.iter().sum::<usize>() >= BATCH_PIECES;
            if is_full || at + 1 == candidates.len() {
                scores.extend(score_pieces(&self.weights, &lengths, &mut hidden, &mut buffers));
                hidden.clear();
                lengths.clear();
            }
        }
        scores
    }

    /// The pieces of a pair, each with its part: the question, the context, the sentence.
    pub(crate) fn pieces(&self, asked: &[u32], candidate: &AnswerCandidate<'_>) -> Vec<(u32, usize)> {
        let split = |text: &str, most| self.encoder.weights.tokenizer.split(text, most);
        let mut pieces = vec![(QUERY_PIECE, 0)];
        pieces.extend(asked.iter().map(|piece| (*piece, 0)));
        pieces.push((PASSAGE_PIECE, 1));
        for (text, most) in [
            (candidate.title, MAX_TITLE_PIECES),
            (candidate.lead, MAX_LEAD_PIECES),
            (candidate.header, MAX_HEADER_PIECES),
        ] {
            pieces.extend(split(text, most).into_iter().map(|piece| (piece, 1)));
        }
        pieces.push((SENTENCE_PIECE, 2));
        let room = MAX_SENTENCE_PIECES.min(MAX_PAIR_PIECES - pieces.len());
        pieces.extend(split(candidate.sentence, room).into_iter().map(|piece| (piece, 2)));
        pieces
    }

    /// Adds the first hidden states of a pair.
    fn add_rows(&self, pieces: &[(u32, usize)], nearness: &mut PieceNearness<'_>, hidden: &mut Vec<f32>) {
        let width = self.weights.stack.width;
        let factor = (width as f32).sqrt();
        let told: Vec<u32> = pieces
            .iter()
            .filter(|(piece, part)| *part > 0 && *piece > LAST_MARK)
            .map(|(piece, _)| *piece)
            .collect();
        let of_asked = nearness.nearest_to_asked(&told);
        let start = hidden.len();
        hidden.resize(start + pieces.len() * width, 0.0);
        for (at, (row, (piece, part))) in hidden[start..].chunks_exact_mut(width).zip(pieces).enumerate() {
            self.encoder.weights.table.write_row(*piece as usize, factor, row);
            let (is_same, near) = match part {
                _ if *piece <= LAST_MARK => (false, 0.0),
                0 => (told.contains(piece), of_asked[at - 1]),
                _ => (nearness.asked.contains(piece), nearness.nearest_asked(*piece)),
            };
            let added = self.weights.parts[*part].iter().zip(&self.weights.same).zip(&self.weights.near);
            for (value, ((part, same), by_nearness)) in row.iter_mut().zip(added) {
                *value += part + if is_same { *same } else { 0.0 } + near * by_nearness;
            }
        }
    }
}

/// How near pieces are to those of a question, by the cosines of their rows in the table.
struct PieceNearness<'a> {
    encoder: &'a TextEncoder,
    asked: &'a [u32],
    /// The rows of the pieces of the question, scaled to length 1.
    directions: Vec<f32>,
    /// The cosines of a piece with each piece of the question.
    known: HashMap<u32, Vec<f32>>,
}

impl<'a> PieceNearness<'a> {
    fn new(encoder: &'a TextEncoder, asked: &'a [u32]) -> Self {
        let width = encoder.weights.sizes.width;
        let mut directions = vec![0.0; asked.len() * width];
        for (row, piece) in directions.chunks_exact_mut(width).zip(asked) {
            encoder.weights.table.write_direction(*piece as usize, row);
        }
        Self { encoder, asked, directions, known: HashMap::new() }
    }

    fn cosines(&mut self, piece: u32) -> &[f32] {
        self.known.entry(piece).or_insert_with(|| {
            let width = self.encoder.weights.sizes.width;
            let mut row = vec![0.0; width];
            self.encoder.weights.table.write_direction(piece as usize, &mut row);
            let product = |asked: &[f32]| asked.iter().zip(&row).map(|(one, other)| one * other).sum();
            self.directions.chunks_exact(width).map(product).collect()
        })
    }

    /// The cosine of the nearest piece of the question, at least 0.
    fn nearest_asked(&mut self, piece: u32) -> f32 {
        self.cosines(piece).iter().copied().fold(0.0, f32::max)
    }

    /// For each piece of the question the cosine of the nearest of these pieces, at least 0.
    fn nearest_to_asked(&mut self, told: &[u32]) -> Vec<f32> {
        let mut nearest = vec![0.0; self.asked.len()];
        for piece in told {
            for (nearest, cosine) in nearest.iter_mut().zip(self.cosines(*piece)) {
                *nearest = f32::max(*nearest, *cosine);
            }
        }
        nearest
    }
}
