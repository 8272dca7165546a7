//! The languages that Doran speaks, and how the language of a text is detected. The only `Language` of the workspace:
//! search, agents, the server and the terminal all use it.

use serde::{Deserialize, Serialize};

/// A language of the people who use Doran. Everything a person reads is written in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Language {
    /// Korean.
    #[default]
    #[serde(rename = "ko")]
    Korean,
    /// English.
    #[serde(rename = "en")]
    English,
}

impl Language {
    /// Every language.
    pub const ALL: [Self; 2] = [Self::Korean, Self::English];

    /// The value for this language.
    pub fn pick<T>(self, ko: T, en: T) -> T {
        match self {
            Self::Korean => ko,
            Self::English => en,
        }
    }

    /// Its code in settings, JSON and file names.
    pub fn code(self) -> &'static str {
        self.pick("ko", "en")
    }

    /// The language of a text. `None` if it has no words of either, such as `123 * 456`.
    ///
    /// Korean sentences often contain Latin names and English ones rarely contain Hangul, so Hangul counts double.
    pub fn detect(text: &str) -> Option<Self> {
        let hangul = text.chars().filter(|char| is_hangul(*char)).count();
        let latin = text.chars().filter(char::is_ascii_alphabetic).count();
        match (hangul, latin) {
            (0, 0) => None,
            (hangul, latin) if hangul * 2 >= latin => Some(Self::Korean),
            _ => Some(Self::English),
        }
    }
}

/// Whether a character is a Hangul syllable, such as `가`.
pub fn is_hangul_syllable(char: char) -> bool {
    ('가'..='힣').contains(&char)
}

/// Whether a character is a Hangul syllable or a single Hangul letter, such as `ㅋ`.
pub fn is_hangul(char: char) -> bool {
    is_hangul_syllable(char) || matches!(char, '\u{3130}'..='\u{318f}' | '\u{1100}'..='\u{11ff}')
}

/// Whether a word is spoken with a consonant at its end, as particles need to know: of a Hangul syllable its last letter, of a
/// digit its Korean name. Signs after the word, such as a closing bracket, are not spoken.
pub fn ends_in_consonant(word: &str) -> bool {
    let last = word.chars().rev().find(|char| char.is_alphanumeric());
    match last {
        Some(syllable) if is_hangul_syllable(syllable) => !(syllable as u32 - '가' as u32).is_multiple_of(28),
        Some(digit) => matches!(digit, '0' | '1' | '3' | '6' | '7' | '8'),
        None => false,
    }
}

/// The particle that means "and" or "with" after a word: 계약과, 계약서와.
pub fn with_particle(word: &str) -> &'static str {
    if ends_in_consonant(word) { "과" } else { "와" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_particle_follows_the_last_sound() {
        for (word, particle) in [
            ("표준 용역계약서", "와"),
            ("표준 근로계약", "과"),
            ("용역계약(안)", "과"),
            ("제10조의2", "와"),
            ("제10조의3", "과"),
            ("Services Agreement", "와"),
        ] {
            assert_eq!(with_particle(word), particle, "{word}");
        }
    }

    #[test]
    fn the_words_decide() {
        for (text, language) in [
            ("안녕하세요", Some(Language::Korean)),
            ("Hello there", Some(Language::English)),
            ("API key 어디에 있어?", Some(Language::Korean)),
            ("What does 제5조 say about payment?", Some(Language::English)),
            ("ㅋㅋ", Some(Language::Korean)),
            ("123 * 456", None),
            ("", None),
        ] {
            assert_eq!(Language::detect(text), language, "{text}");
        }
    }

    #[test]
    fn a_language_is_stored_as_its_code() {
        for language in Language::ALL {
            assert_eq!(serde_json::to_value(language).expect("JSON"), language.code());
        }
    }
}
