//! Which language a person writes. Decided by their words alone, so that the same words always get the same prompts.

pub use crate::tools::UserLanguage;

impl UserLanguage {
    /// The language of a text; none where it has no words of either, such as `123 * 456`.
    ///
    /// Korean sentences often hold Latin names and English ones rarely hold Hangul, so Hangul counts double.
    pub fn detect(text: &str) -> Option<Self> {
        let hangul = text.chars().filter(|char| is_hangul(*char)).count();
        let latin = text.chars().filter(char::is_ascii_alphabetic).count();
        match (hangul, latin) {
            (0, 0) => None,
            (hangul, latin) if hangul * 2 >= latin => Some(Self::Ko),
            _ => Some(Self::En),
        }
    }

    /// The language of the newest text that has one; Korean where none has.
    pub fn detect_newest<'a>(newest_first: impl IntoIterator<Item = &'a str>) -> Self {
        newest_first.into_iter().find_map(Self::detect).unwrap_or_default()
    }

    /// Its name in settings and file names.
    pub fn code(self) -> &'static str {
        self.pick("ko", "en")
    }
}

/// Whether a character is a syllable or a letter of Hangul.
pub fn is_hangul(char: char) -> bool {
    matches!(char, '가'..='힣' | '\u{3130}'..='\u{318f}' | '\u{1100}'..='\u{11ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_decide() {
        for (text, language) in [
            ("안녕하세요", Some(UserLanguage::Ko)),
            ("Hello there", Some(UserLanguage::En)),
            ("API key 어디에 있어?", Some(UserLanguage::Ko)),
            ("What does 제5조 say about payment?", Some(UserLanguage::En)),
            ("ㅋㅋ", Some(UserLanguage::Ko)),
            ("123 * 456", None),
            ("", None),
        ] {
            assert_eq!(UserLanguage::detect(text), language, "{text}");
        }
        assert_eq!(UserLanguage::detect_newest(["12 + 3", "thanks", "안녕"]), UserLanguage::En);
        assert_eq!(UserLanguage::detect_newest([]), UserLanguage::Ko);
    }
}
