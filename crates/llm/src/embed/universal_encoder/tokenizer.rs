//! A SentencePiece unigram tokenizer: reads the protobuf model file, normalises text by the rules in it, and segments
//! it into the pieces with the highest total score.

/// Stands for a space; a word begins with it.
const SPACE_MARKER: &str = "\u{2581}";

/// The piece for characters that no piece covers, and the pieces at the start and end of every text.
const UNKNOWN_PIECE: u32 = 0;
const BEGIN_PIECE: u32 = 1;
const END_PIECE: u32 = 2;

/// How far an unknown character scores below the worst piece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A unigram model.
pub(super) struct UnigramTokenizer {
    /// The pieces in byte order, with their numbers in the file.
    pieces: Vec<(Box<[u8]>, u32)>,
    scores: Vec<f32>,
    unknown_score: f64,
    rules: NormalizationRules,
}

/// Why a model cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tokenizer file is not what it should be: {0}")]
pub(super) struct TokenizerFileError(&'static str);

impl UnigramTokenizer {
    /// Reads a model file.
    pub(super) fn read(file: &[u8]) -> Result<Self, TokenizerFileError> {
        let mut pieces = Vec::new();
        let mut scores: Vec<f32> = Vec::new();
        let mut rules = NormalizationRules::default();
        for field in ProtobufFields(file) {
            match field? {
                (1, ProtobufField::Bytes(piece)) => {
                    let id =
                        u32::try_from(scores.len()).map_err(|_| TokenizerFileError("too many pieces"))?;
                    let (text, score, kind) = parse_piece(piece)?;
                    // Only normal pieces are matched in a text; control pieces such as `<s>` cannot be typed.
                    if kind == NORMAL_PIECE_TYPE && !text.is_empty() {
                        pieces.push((text.into(), id));
                    }
                    scores.push(score);
                }
                // The settings of the normalizer; their field 2 is the compiled rule table.
                (3, ProtobufField::Bytes(normalizer)) => {
                    for field in ProtobufFields(normalizer) {
                        if let (2, ProtobufField::Bytes(table)) = field? {
                            rules = NormalizationRules::read(table)?;
                        }
                    }
                }
                _ => {}
            }
        }
        if pieces.is_empty() {
            return Err(TokenizerFileError("it has no pieces"));
        }
        pieces.sort();
        let worst = scores.iter().copied().fold(f32::INFINITY, f32::min);
        Ok(Self { pieces, scores, unknown_score: f64::from(worst) - UNKNOWN_PENALTY, rules })
    }

    /// Returns the number of pieces in the file.
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns the pieces of a text with the start and end pieces, at most `most`.
    pub(super) fn encode(&self, text: &str, max_tokens: usize) -> Vec<u32> {
        // A piece has at least one byte, and few have more than this. A longer text would be truncated anyway.
        let text = &text[..text.floor_char_boundary(max_tokens * 64)];
        let mut ids = vec![BEGIN_PIECE];
        ids.extend(self.best_segmentation(&self.rules.normalize(text)));
        ids.truncate(max_tokens.saturating_sub(1).max(1));
        ids.push(END_PIECE);
        ids
    }

    /// Returns the segmentation with the highest total score. Of equal ones, the earlier start wins.
    fn best_segmentation(&self, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return vec![UNKNOWN_PIECE];
        }
        let bytes = text.as_bytes();
        let mut best = vec![(f64::NEG_INFINITY, 0_usize, UNKNOWN_PIECE); bytes.len() + 1];
        best[0].0 = 0.0;
        for (from, char) in text.char_indices() {
            let base = best[from].0;
            let one = char.len_utf8();
            let mut single = false;
            self.each_prefix(&bytes[from..], |length, id| {
                single |= length == one;
                let score = base + f64::from(self.scores[id as usize]);
                if score > best[from + length].0 {
                    best[from + length] = (score, from, id);
                }
            });
            let unknown = base + self.unknown_score;
            if !single && unknown > best[from + one].0 {
                best[from + one] = (unknown, from, UNKNOWN_PIECE);
            }
        }
        let mut ids = Vec::new();
        let mut at = bytes.len();
        while at > 0 {
            let (_, from, id) = best[at];
            ids.push(id);
            at = from;
        }
        ids.reverse();
        ids
    }

    /// Calls `found` for every piece that is a prefix of the bytes, shortest first. The sorted list is narrowed byte by
    /// byte.
    fn each_prefix(&self, bytes: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut range = &self.pieces[..];
        for (depth, byte) in bytes.iter().enumerate() {
            let start = range.partition_point(|(piece, _)| piece.get(depth) < Some(byte));
            range = &range[start..];
            let end = range.partition_point(|(piece, _)| piece.get(depth) == Some(byte));
            range = &range[..end];
            match range.first() {
                None => return,
                Some((piece, id)) if piece.len() == depth + 1 => found(depth + 1, *id),
                Some(_) => {}
            }
        }
    }
}

/// The type of a normal piece, which is matched in text.
const NORMAL_PIECE_TYPE: u64 = 1;

/// Parses the text, score and type of a piece.
fn parse_piece(message: &[u8]) -> Result<(&[u8], f32, u64), TokenizerFileError> {
    let (mut text, mut score, mut kind) = (&[][..], 0.0, NORMAL_PIECE_TYPE);
    for field in ProtobufFields(message) {
        match field? {
            (1, ProtobufField::Bytes(bytes)) => text = bytes,
            (2, ProtobufField::Fixed32(bytes)) => score = f32::from_le_bytes(bytes),
            (3, ProtobufField::Varint(number)) => kind = number,
            _ => {}
        }
    }
    Ok((text, score, kind))
}

/// The normalisation rules: a double-array trie from byte sequences to offsets in a table of texts.
#[derive(Default)]
struct NormalizationRules {
    units: Vec<u32>,
    texts: Vec<u8>,
}

impl NormalizationRules {
    fn read(table: &[u8]) -> Result<Self, TokenizerFileError> {
        let (size, rest) =
            table.split_first_chunk::<4>().ok_or(TokenizerFileError("its rules are cut short"))?;
        let size = u32::from_le_bytes(*size) as usize;
        let trie = rest.get(..size).ok_or(TokenizerFileError("its rules are cut short"))?;
        let units = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Ok(Self { units, texts: rest[size..].to_vec() })
    }

    /// Normalises a text: replaces characters by the rules, collapses runs of spaces, and marks spaces.
    fn normalize(&self, text: &str) -> String {
        let mut bytes = text.as_bytes();
        let mut out: Vec<u8> = SPACE_MARKER.as_bytes().to_vec();
        let mut after_space = true;
        while !bytes.is_empty() {
            let (replaced, length) = self.longest_replacement(bytes);
            bytes = &bytes[length..];
            for byte in replaced {
                match (*byte == b' ', after_space) {
                    (true, true) => {}
                    (true, false) => {
                        out.extend_from_slice(SPACE_MARKER.as_bytes());
                        after_space = true;
                    }
                    (false, _) => {
                        out.push(*byte);
                        after_space = false;
                    }
                }
            }
        }
        let mut text = String::from_utf8_lossy(&out).into_owned();
        while text.ends_with(SPACE_MARKER) {
            text.truncate(text.len() - SPACE_MARKER.len());
        }
        text
    }

    /// Returns the replacement of the longest rule that matches the start, and the number of bytes it replaces. A
    /// character without a rule is returned unchanged.
    fn longest_replacement<'a>(&'a self, bytes: &'a [u8]) -> (&'a [u8], usize) {
        let mut longest = None;
        let mut node = self.units.first().map_or(0, |unit| trie_offset(*unit));
        for (at, byte) in bytes.iter().enumerate() {
            node ^= *byte as usize;
            let Some(unit) = self.units.get(node) else { break };
            if unit & 0x8000_00FF != u32::from(*byte) {
                break;
            }
            node ^= trie_offset(*unit);
            if unit & 0x100 != 0
                && let Some(leaf) = self.units.get(node)
            {
                longest = Some((at + 1, (leaf & 0x7FFF_FFFF) as usize));
            }
        }
        let text = longest.and_then(|(length, place)| {
            let text = self.texts.get(place..)?;
            let end = text.iter().position(|byte| *byte == 0)?;
            Some((&text[..end], length))
        });
        text.unwrap_or_else(|| {
            let length = utf8_length(bytes[0]).min(bytes.len());
            (&bytes[..length], length)
        })
    }
}

fn trie_offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 0x200) >> 6)) as usize
}

fn utf8_length(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

/// A field of a protobuf message.
enum ProtobufField<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
    Fixed64,
}

/// Iterates over the fields of a protobuf message.
struct ProtobufFields<'a>(&'a [u8]);

impl<'a> ProtobufFields<'a> {
    fn read_varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn read_field(&mut self) -> Option<(u64, ProtobufField<'a>)> {
        let tag = self.read_varint()?;
        let field = match tag & 7 {
            0 => ProtobufField::Varint(self.read_varint()?),
            1 => {
                self.0 = self.0.get(8..)?;
                ProtobufField::Fixed64
            }
            2 => {
                let length = usize::try_from(self.read_varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                ProtobufField::Bytes(bytes)
            }
            5 => {
                let (four, rest) = self.0.split_first_chunk::<4>()?;
                self.0 = rest;
                ProtobufField::Fixed32(*four)
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

impl<'a> Iterator for ProtobufFields<'a> {
    type Item = Result<(u64, ProtobufField<'a>), TokenizerFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read_field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(TokenizerFileError("it breaks off")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
        let mut message = vec![0x0A, text.len() as u8];
        message.extend(text.as_bytes());
        message.push(0x15);
        message.extend(score.to_le_bytes());
        message.extend([0x18, kind]);
        let mut field = vec![0x0A, message.len() as u8];
        field.extend(message);
        field
    }

    fn model() -> UnigramTokenizer {
        let pieces = [
            ("<unk>", 0.0, 2),
            ("<s>", 0.0, 3),
            ("</s>", 0.0, 3),
            ("▁", -3.0, 1),
            ("▁연차", -1.0, 1),
            ("휴가", -1.0, 1),
            ("휴", -2.0, 1),
            ("가", -2.0, 1),
        ];
        let file: Vec<u8> =
            pieces.iter().flat_map(|(text, score, kind)| piece(text, *score, *kind)).collect();
        UnigramTokenizer::read(&file).expect("a model")
    }

    #[test]
    fn the_best_cut_wins_and_unknown_characters_have_a_piece() {
        let model = model();
        assert_eq!(model.encode("연차휴가", 10), [1, 4, 5, 2]);
        assert_eq!(model.encode("  연차   휴가 ", 10), [1, 4, 3, 5, 2]);
        assert_eq!(model.encode("연차 x", 10), [1, 4, 3, 0, 2]);
        assert_eq!(model.encode("", 10), [1, 0, 2]);
        assert_eq!(model.len(), 8);
    }

    #[test]
    fn a_marker_cannot_be_typed() {
        assert!(!model().encode("<s></s>", 50)[1..].contains(&1));
    }

    #[test]
    fn a_long_text_is_cut_to_the_limit() {
        assert_eq!(model().encode(&"휴가".repeat(100_000), 7).len(), 7);
        assert_eq!(model().encode("휴가", 1).len(), 2);
    }

    #[test]
    fn a_broken_file_is_refused() {
        for file in [
            &b""[..],
            b"\x0A",
            b"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            b"\xFF",
            b"\x08\x01",
            b"\x1A\x03\x12\x01\x00",
        ] {
            assert!(UnigramTokenizer::read(file).is_err(), "{file:?}");
        }
    }
}
