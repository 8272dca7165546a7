//! The tokenizer: normalises a text and splits it into the pieces with the highest total score.

use unicode_normalization::UnicodeNormalization;

use crate::file::EncoderFileError;

/// Stands for a space. Every word begins with it.
const WORD_START: &str = "\u{2581}";

/// How far an unknown character scores below the worst piece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Characters without width, which are dropped.
const DROPPED: [char; 10] = [
    '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{2060}', '\u{fe0e}', '\u{fe0f}',
    '\u{feff}',
];

/// What a piece of the vocabulary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// A piece that is matched in a text.
    Normal,
    /// A piece with a function, such as padding. It is not matched.
    Control,
    /// One byte of a character that no normal piece covers.
    Byte,
}

/// A vocabulary of scored pieces.
pub(crate) struct PieceTokenizer {
    /// The normal pieces in byte order, with their numbers.
    pieces: Vec<(&'static [u8], u32)>,
    /// Where the pieces that start with a byte begin in `pieces`; entry 256 is the end.
    starts: Vec<u32>,
    scores: Vec<f32>,
    /// The number of the piece for byte 0; the other bytes follow it.
    first_byte: u32,
    unknown_score: f32,
}

impl PieceTokenizer {
    /// Builds the tokenizer from all pieces in the order of their numbers.
    pub(crate) fn new(vocabulary: Vec<(PieceKind, f32, &'static [u8])>) -> Result<Self, EncoderFileError> {
        let damaged = |reason| EncoderFileError::Damaged { reason };
        let mut pieces = Vec::new();
        let mut scores = Vec::with_capacity(vocabulary.len());
        let mut first_byte = None;
        let mut byte_pieces = 0_usize;
        let mut worst = f32::INFINITY;
        for (number, (kind, score, text)) in (0_u32..).zip(vocabulary) {
            if !score.is_finite() {
                return Err(damaged("a score is not a number"));
            }
            match kind {
                PieceKind::Normal if text.is_empty() => return Err(damaged("a piece is empty")),
                PieceKind::Normal => {
                    worst = worst.min(score);
                    pieces.push((text, number));
                }
                PieceKind::Control => {}
                PieceKind::Byte => {
                    first_byte.get_or_insert(number);
                    byte_pieces += 1;
                }
            }
            scores.push(score);
        }
        let first_byte = first_byte.ok_or(damaged("the byte pieces are missing"))?;
        if byte_pieces != 256 || scores.len() < first_byte as usize + 256 {
            return Err(damaged("the byte pieces are missing"));
        }
        if pieces.is_empty() {
            return Err(damaged("the vocabulary is empty"));
        }
        pieces.sort();
        let mut starts = Vec::with_capacity(257);
        for byte in 0..=256_usize {
            let before = pieces.partition_point(|(piece, _)| usize::from(piece[0]) < byte);
            starts.push(u32::try_from(before).map_err(|_| damaged("the vocabulary is too large"))?);
        }
        Ok(Self { pieces, starts, scores, first_byte, unknown_score: worst - UNKNOWN_PENALTY })
    }

    /// Returns the numbers of the first `most` pieces of a text.
    pub(crate) fn split(&self, text: &str, limit: usize) -> Vec<u32> {
        // Few pieces have more bytes than this. The rest of a longer text would be cut off anyway.
        let text = &text[..text.floor_char_boundary(limit.saturating_mul(64))];
        let mut numbers = Vec::with_capacity(limit);
        let mut word = String::new();
        for part in normalize(text).split(' ').filter(|part| !part.is_empty()) {
            if numbers.len() >= limit {
                break;
            }
            word.clear();
            word.push_str(WORD_START);
            word.push_str(part);
            self.split_word(&word, &mut numbers);
        }
        numbers.truncate(limit);
        numbers
    }

    /// Appends the pieces of a word: the segmentation with the highest sum of scores. Of equal ones, the one found
    /// first wins.
    fn split_word(&self, word: &str, numbers: &mut Vec<u32>) {
        let bytes = word.as_bytes();
        // For every end: the best score, where its last piece starts, and that piece (none: an unknown character).
        let mut best: Vec<(f32, usize, Option<u32>)> = vec![(f32::NEG_INFINITY, 0, None); bytes.len() + 1];
        best[0].0 = 0.0;
        for (from, char) in word.char_indices() {
            let base = best[from].0;
            let one = char.len_utf8();
            let mut single = false;
            self.each_prefix(&bytes[from..], |length, number| {
                single |= length == one;
                let score = base + self.scores[number as usize];
                if score > best[from + length].0 {
                    best[from + length] = (score, from, Some(number));
                }
            });
            let unknown = base + self.unknown_score;
            if !single && unknown > best[from + one].0 {
                best[from + one] = (unknown, from, None);
            }
        }
        let first = numbers.len();
        let mut at = bytes.len();
        while at > 0 {
            let (_, from, number) = best[at];
            match number {
                Some(number) => numbers.push(number),
                None => numbers
                    .extend(bytes[from..at].iter().rev().map(|byte| self.first_byte + u32::from(*byte))),
            }
            at = from;
        }
        numbers[first..].reverse();
    }

    /// Calls `found` for every piece that is a prefix of the bytes, shortest first.
    fn each_prefix(&self, bytes: &[u8], mut found: impl FnMut(usize, u32)) {
        let Some(first) = bytes.first() else { return };
        let first = usize::from(*first);
        let mut range = &self.pieces[self.starts[first] as usize..self.starts[first + 1] as usize];
        for (depth, byte) in bytes.iter().enumerate() {
            if depth > 0 {
                let start = range.partition_point(|(piece, _)| piece.get(depth) < Some(byte));
                range = &range[start..];
                let end = range.partition_point(|(piece, _)| piece.get(depth) == Some(byte));
                range = &range[..end];
            }
            match range.first() {
                None => return,
                Some((piece, number)) if piece.len() == depth + 1 => found(depth + 1, *number),
                Some(_) => {}
            }
        }
    }
}

/// Normalises a text: NFKC, lower case, no zero-width characters, a space for every white space or control character.
fn normalize(text: &str) -> String {
    let composed: String = text.nfkc().collect();
    composed
        .to_lowercase()
        .chars()
        .filter(|char| !DROPPED.contains(char))
        .map(|char| if char.is_whitespace() || char.is_control() || char == '\u{2581}' { ' ' } else { char })
        .collect()
}
