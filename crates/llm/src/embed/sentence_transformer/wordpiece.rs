//! The WordPiece tokenizer of BERT: splits a text into words and punctuation, then takes the longest known piece from
//! the left.

use std::collections::HashMap;

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A word with more characters than this becomes the unknown token.
const MAX_WORD_CHARS: usize = 100;

/// The maximum number of characters that are read for each token that is kept.
const MAX_CHARS_PER_PIECE: usize = 64;

/// The vocabulary and its options.
pub(super) struct WordPieceTokenizer {
    pieces: HashMap<String, u32>,
    unknown: u32,
    start: u32,
    end: u32,
    lower: bool,
    strip_accents: bool,
    split_ideographs: bool,
}

impl WordPieceTokenizer {
    /// Reads `tokenizer.json`.
    pub(super) fn from_tokenizer_json(file: &Value) -> Result<Self, String> {
        let table =
            file.pointer("/model/vocab").and_then(Value::as_object).ok_or("there is no vocabulary")?;
        let number = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        let pieces: Option<HashMap<String, u32>> =
            table.iter().map(|(piece, id)| Some((piece.clone(), number(id)?))).collect();
        let mut pieces = pieces.ok_or("a piece has no number")?;
        for added in file.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
            if let (Some(piece), Some(id)) = (added["content"].as_str(), number(&added["id"])) {
                pieces.entry(piece.to_owned()).or_insert(id);
            }
        }
        let option = |name: &str| file.pointer(&format!("/normalizer/{name}")).and_then(Value::as_bool);
        let lower = option("lowercase").unwrap_or(true);
        let prefix = file.pointer("/model/continuing_subword_prefix").and_then(Value::as_str);
        if prefix.is_some_and(|prefix| prefix != "##") {
            return Err("pieces within words are not marked by `##`".into());
        }
        Self::from_vocabulary(
            pieces,
            lower,
            option("strip_accents").unwrap_or(lower),
            option("handle_chinese_chars"),
        )
    }

    /// Reads `vocab.txt`: one piece on each line, numbered from 0.
    pub(super) fn from_vocab_txt(text: &str, lower: bool) -> Result<Self, String> {
        let pieces = text.lines().zip(0..).map(|(piece, id)| (piece.to_owned(), id)).collect();
        Self::from_vocabulary(pieces, lower, lower, None)
    }

    fn from_vocabulary(
        pieces: HashMap<String, u32>,
        lower: bool,
        strip_accents: bool,
        ideographs: Option<bool>,
    ) -> Result<Self, String> {
        let special = |name: &str| pieces.get(name).copied().ok_or_else(|| format!("there is no `{name}`"));
        let (unknown, start, end) = (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        let split_ideographs = ideographs.unwrap_or(true);
        Ok(Self { pieces, unknown, start, end, lower, strip_accents, split_ideographs })
    }

    /// Returns the largest token number plus one.
    pub(super) fn len(&self) -> usize {
        self.pieces.values().max().map_or(0, |largest| *largest as usize + 1)
    }

    /// Returns the tokens of a text with the start and end tokens, at most `most` in all.
    pub(super) fn encode(&self, text: &str, max_tokens: usize) -> Vec<u32> {
        let max_tokens = max_tokens.max(2);
        let text: String = text.chars().take(max_tokens.saturating_mul(MAX_CHARS_PER_PIECE)).collect();
        let mut pieces = vec![self.start];
        for word in self.split_words(&text) {
            if pieces.len() >= max_tokens {
                break;
            }
            self.push_word_pieces(&word, &mut pieces);
        }
        pieces.truncate(max_tokens - 1);
        pieces.push(self.end);
        pieces
    }

    /// Splits a text into cleaned words. Punctuation and ideographs are words of their own.
    fn split_words(&self, text: &str) -> Vec<String> {
        let clean = text.chars().filter(|letter| !is_removed_char(*letter));
        let lower: String = match self.lower {
            true => clean.flat_map(char::to_lowercase).collect(),
            false => clean.collect(),
        };
        let plain: String = match self.strip_accents {
            true => lower.nfd().filter(|letter| !is_nonspacing(*letter)).collect(),
            false => lower,
        };
        let mut words = Vec::new();
        let mut word = String::new();
        for letter in plain.chars() {
            let alone = is_punctuation(letter) || (self.split_ideographs && is_ideograph(letter));
            if letter.is_whitespace() || alone {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if alone {
                    words.push(letter.into());
                }
            } else {
                word.push(letter);
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
        words
    }

    /// Adds the pieces of a word, the longest from the left, or the unknown token.
    fn push_word_pieces(&self, word: &str, pieces: &mut Vec<u32>) {
        let before = pieces.len();
        let mut rest = word;
        let mut known = word.chars().count() <= MAX_WORD_CHARS;
        while known && !rest.is_empty() {
            let front = if rest.len() == word.len() { "" } else { "##" };
            let ends: Vec<usize> = rest.char_indices().map(|(at, letter)| at + letter.len_utf8()).collect();
            let longest = ends.into_iter().rev().find_map(|end| {
                let id = self.pieces.get(format!("{front}{}", &rest[..end]).as_str())?;
                Some((*id, end))
            });
            match longest {
                Some((id, end)) => {
                    pieces.push(id);
                    rest = &rest[end..];
                }
                None => known = false,
            }
        }
        if !known {
            pieces.truncate(before);
            pieces.push(self.unknown);
        }
    }
}

/// Returns whether a character is removed: NUL, U+FFFD, and control characters that are not whitespace.
fn is_removed_char(letter: char) -> bool {
    letter == '\0'
        || letter == '\u{fffd}'
        || (letter.is_control() && !letter.is_whitespace())
        || is_format(letter)
}

/// Returns whether a character is a format character.
fn is_format(letter: char) -> bool {
    matches!(letter as u32, 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x2064 | 0x2066..=0x206f | 0xfeff | 0xfff9..=0xfffb)
}

/// Returns whether a character is a nonspacing mark.
fn is_nonspacing(letter: char) -> bool {
    is_combining_mark(letter)
        && !matches!(letter as u32, 0x903 | 0x93b | 0x93e..=0x940 | 0x949..=0x94c | 0x94e..=0x94f | 0x982..=0x983 | 0x302e..=0x302f)
}

fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(letter as u32,
            0xa1 | 0xa7 | 0xab | 0xb6..=0xb7 | 0xbb | 0xbf | 0x37e | 0x387 | 0x55a..=0x55f | 0x589..=0x58a | 0x5be
            | 0x5c0 | 0x5c3 | 0x5c6 | 0x5f3..=0x5f4 | 0x609..=0x60a | 0x60c..=0x60d | 0x61b | 0x61d..=0x61f
            | 0x66a..=0x66d | 0x6d4 | 0x964..=0x965 | 0xe4f | 0xe5a..=0xe5b | 0x2010..=0x2027 | 0x2030..=0x2043
            | 0x2045..=0x2051 | 0x2053..=0x205e | 0x207d..=0x207e | 0x208d..=0x208e | 0x2308..=0x230b
            | 0x2329..=0x232a | 0x2768..=0x2775 | 0x27c5..=0x27c6 | 0x27e6..=0x27ef | 0x2983..=0x2998
            | 0x29d8..=0x29db | 0x29fc..=0x29fd | 0x2cf9..=0x2cfc | 0x2cfe..=0x2cff | 0x2e00..=0x2e2e
            | 0x2e30..=0x2e4f | 0x2e52..=0x2e5d | 0x3001..=0x3003 | 0x3008..=0x3011 | 0x3014..=0x301f | 0x3030
            | 0x303d | 0x30a0 | 0x30fb | 0xfd3e..=0xfd3f | 0xfe10..=0xfe19 | 0xfe30..=0xfe52 | 0xfe54..=0xfe61
            | 0xfe63 | 0xfe68 | 0xfe6a..=0xfe6b | 0xff01..=0xff03 | 0xff05..=0xff0a | 0xff0c..=0xff0f
            | 0xff1a..=0xff1b | 0xff1f..=0xff20 | 0xff3b..=0xff3d | 0xff3f | 0xff5b | 0xff5d | 0xff5f..=0xff65)
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter as u32, 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x2a6df | 0x2a700..=0x2ceaf | 0x2f800..=0x2fa1f)
}
