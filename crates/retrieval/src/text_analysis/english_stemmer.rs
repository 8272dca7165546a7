//! English stems, by the rules of the Porter2 (Snowball English) stemmer.

/// Words without meaning for a search.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but",
    "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our",
    "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "those", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who",
    "will", "with", "would", "you", "your",
];

/// Returns whether a word has no meaning for a search, such as `the`.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Returns the stem of a lower-case word. Words with other letters than a–z are returned unchanged.
pub(crate) fn stem(word: &str) -> String {
    let word = word.strip_suffix("'s").unwrap_or(word).trim_matches('\'');
    if word.len() <= 2 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.replace('\'', "");
    }
    if let Ok(at) = STEM_EXCEPTIONS.binary_search_by_key(&word, |(special, _)| special) {
        return STEM_EXCEPTIONS[at].1.to_owned();
    }
    let mut word = PorterWord::new(word);
    word.step_1a_plural();
    if !["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"]
        .iter()
        .any(|kept| word.letters == kept.as_bytes())
    {
        word.step_1b_past();
        word.step_1c_final_y();
        word.step_2_suffixes();
        word.step_3_suffixes();
        word.step_4_suffixes();
        word.step_5_final_letter();
    }
    String::from_utf8_lossy(&word.letters).to_lowercase()
}

const STEM_EXCEPTIONS: &[(&str, &str)] = &[
    ("andes", "andes"),
    ("atlas", "atlas"),
    ("bias", "bias"),
    ("cosmos", "cosmos"),
    ("dying", "die"),
    ("early", "earli"),
    ("gently", "gentl"),
    ("howe", "howe"),
    ("idly", "idl"),
    ("lying", "lie"),
    ("news", "news"),
    ("only", "onli"),
    ("singly", "singl"),
    ("skies", "sky"),
    ("skis", "ski"),
    ("sky", "sky"),
    ("tying", "tie"),
    ("ugly", "ugli"),
];

/// A word being stemmed. `Y` is a consonant, `y` a vowel.
struct PorterWord {
    letters: Vec<u8>,
    r1_start: usize,
    r2_start: usize,
}

impl PorterWord {
    fn new(word: &str) -> Self {
        let mut letters = word.as_bytes().to_vec();
        for at in 0..letters.len() {
            if letters[at] == b'y' && (at == 0 || is_vowel(letters[at - 1])) {
                letters[at] = b'Y';
            }
        }
        let known = [&b"gener"[..], b"commun", b"arsen"]
            .iter()
            .find(|start| letters.starts_with(start))
            .map(|s| s.len());
        let first = known.unwrap_or_else(|| region_start(&letters, 0));
        let second = region_start(&letters, first);
        Self { letters, r1_start: first, r2_start: second }
    }

    fn ends_with(&self, suffix: &str) -> bool {
        self.letters.ends_with(suffix.as_bytes())
    }

    /// Returns whether the suffix is wholly inside the region that starts here.
    fn suffix_is_in_region(&self, suffix: &str, region: usize) -> bool {
        self.letters.len() >= region + suffix.len()
    }

    fn replace_suffix(&mut self, suffix: &str, by: &str) {
        self.letters.truncate(self.letters.len() - suffix.len());
        self.letters.extend_from_slice(by.as_bytes());
    }

    fn has_vowel_before(&self, end: usize) -> bool {
        self.letters[..end].iter().any(|letter| is_vowel(*letter))
    }

    fn step_1a_plural(&mut self) {
        if self.ends_with("sses") {
            self.replace_suffix("sses", "ss");
        } else if self.ends_with("ied") || self.ends_with("ies") {
            let by = if self.letters.len() > 4 { "i" } else { "ie" };
            self.replace_suffix("ies", by);
        } else if self.ends_with("us") || self.ends_with("ss") {
        } else if self.ends_with("s")
            && self.letters.len() > 2
            && self.has_vowel_before(self.letters.len() - 2)
        {
            self.letters.pop();
        }
    }

    fn step_1b_past(&mut self) {
        for suffix in ["eedly", "eed"] {
            if self.ends_with(suffix) {
                if self.suffix_is_in_region(suffix, self.r1_start) {
                    self.replace_suffix(suffix, "ee");
                }
                return;
            }
        }
        for suffix in ["ingly", "edly", "ing", "ed"] {
            if !self.ends_with(suffix) {
                continue;
            }
            if self.has_vowel_before(self.letters.len() - suffix.len()) {
                self.replace_suffix(suffix, "");
                self.repair_after_step_1b();
            }
            return;
        }
    }

    fn repair_after_step_1b(&mut self) {
        if self.ends_with("at") || self.ends_with("bl") || self.ends_with("iz") {
            self.letters.push(b'e');
        } else if let [.., before, last] = self.letters.as_slice()
            && before == last
            && b"bdfgmnprt".contains(last)
        {
            self.letters.pop();
        } else if self.is_short_word() {
            self.letters.push(b'e');
        }
    }

    fn is_short_word(&self) -> bool {
        self.r1_start >= self.letters.len() && self.ends_in_short_syllable(self.letters.len())
    }

    fn ends_in_short_syllable(&self, end: usize) -> bool {
        match &self.letters[..end] {
            [vowel, last] => is_vowel(*vowel) && !is_vowel(*last),
            [.., before, vowel, last] => {
                !is_vowel(*before) && is_vowel(*vowel) && !is_vowel(*last) && !b"wxY".contains(last)
            }
            _ => false,
        }
    }

    fn step_1c_final_y(&mut self) {
        if let [_, .., before, last] = self.letters.as_mut_slice()
            && matches!(last, b'y' | b'Y')
            && !is_vowel(*before)
        {
            *last = b'i';
        }
    }

    fn step_2_suffixes(&mut self) {
        const STEP_2_REPLACEMENTS: &[(&str, &str)] = &[
            ("ization", "ize"),
            ("ational", "ate"),
            ("fulness", "ful"),
            ("ousness", "ous"),
            ("iveness", "ive"),
            ("tional", "tion"),
            ("biliti", "ble"),
            ("lessli", "less"),
            ("entli", "ent"),
            ("ation", "ate"),
            ("alism", "al"),
            ("aliti", "al"),
            ("ousli", "ous"),
            ("iviti", "ive"),
            ("fulli", "ful"),
            ("enci", "ence"),
            ("anci", "ance"),
            ("abli", "able"),
            ("izer", "ize"),
            ("ator", "ate"),
            ("alli", "al"),
            ("bli", "ble"),
        ];
        if let Some((suffix, by)) = STEP_2_REPLACEMENTS.iter().find(|(suffix, _)| self.ends_with(suffix)) {
            if self.suffix_is_in_region(suffix, self.r1_start) {
                self.replace_suffix(suffix, by);
            }
        } else if self.ends_with("ogi") {
            if self.suffix_is_in_region("ogi", self.r1_start) && self.ends_with("logi") {
                self.letters.pop();
            }
        } else if self.ends_with("li") && self.suffix_is_in_region("li", self.r1_start) {
            let before = self.letters.len().checked_sub(3).map(|at| self.letters[at]);
            if before.is_some_and(|letter| b"cdeghkmnrt".contains(&letter)) {
                self.replace_suffix("li", "");
            }
        }
    }

    fn step_3_suffixes(&mut self) {
        const STEP_3_REPLACEMENTS: &[(&str, &str)] = &[
            ("ational", "ate"),
            ("tional", "tion"),
            ("alize", "al"),
            ("icate", "ic"),
            ("iciti", "ic"),
            ("ical", "ic"),
            ("ness", ""),
            ("ful", ""),
        ];
        if let Some((suffix, by)) = STEP_3_REPLACEMENTS.iter().find(|(suffix, _)| self.ends_with(suffix)) {
            if self.suffix_is_in_region(suffix, self.r1_start) {
                self.replace_suffix(suffix, by);
            }
        } else if self.ends_with("ative") && self.suffix_is_in_region("ative", self.r2_start) {
            self.replace_suffix("ative", "");
        }
    }

    fn step_4_suffixes(&mut self) {
        const REMOVED_SUFFIXES: &[&str] = &[
            "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive",
            "ize", "ion", "al", "er", "ic",
        ];
        let Some(suffix) = REMOVED_SUFFIXES.iter().find(|suffix| self.ends_with(suffix)) else { return };
        if !self.suffix_is_in_region(suffix, self.r2_start) {
            return;
        }
        if *suffix == "ion" {
            let before = self.letters.len().checked_sub(4).map(|at| self.letters[at]);
            if !matches!(before, Some(b's' | b't')) {
                return;
            }
        }
        self.replace_suffix(suffix, "");
    }

    fn step_5_final_letter(&mut self) {
        let end = self.letters.len().saturating_sub(1);
        if self.ends_with("e") {
            let far = end >= self.r2_start;
            let near = end >= self.r1_start && !self.ends_in_short_syllable(end);
            if far || near {
                self.letters.pop();
            }
        } else if self.ends_with("ll") && end >= self.r2_start {
            self.letters.pop();
        }
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// Returns the start of the region after the first consonant that follows a vowel.
fn region_start(letters: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < letters.len() {
        if !is_vowel(letters[at]) && is_vowel(letters[at - 1]) {
            return at + 1;
        }
        at += 1;
    }
    letters.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (words, expected) in [
            ("terminate terminates terminated terminating termination", "termin"),
            ("liability liable", "liabil liabl"),
            ("party parties", "parti"),
            ("confidential confidentiality", "confidenti"),
            ("disclose disclosed disclosing", "disclos"),
            ("agreement agreements agreed", "agreement agreement agre"),
            ("hopping hoping", "hop hope"),
            ("generously consistency knightly", "generous consist knight"),
            ("contractor's contractors", "contractor"),
            ("dying gas this kiwis", "die gas this kiwi"),
            ("sky happy say by", "sky happi say by"),
            ("relational operator rationality", "relat oper ration"),
        ] {
            let stems: Vec<String> = words.split(' ').map(stem).collect();
            let expected: Vec<&str> = expected.split(' ').collect();
            if expected.len() == 1 {
                assert!(stems.iter().all(|stem| stem == expected[0]), "{words}: {stems:?}");
            } else {
                assert_eq!(stems, expected, "{words}");
            }
        }
    }

    #[test]
    fn the_lists_are_in_order() {
        assert!(STOP_WORDS.is_sorted() && STEM_EXCEPTIONS.is_sorted());
    }
}
