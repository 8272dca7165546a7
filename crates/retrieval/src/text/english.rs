//! Stems of English words, by the rules of the Porter2 (Snowball English) stemmer.

/// Words that say nothing alone.
const EMPTY: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but",
    "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our",
    "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "those", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who",
    "will", "with", "would", "you", "your",
];

/// Whether a word says nothing alone, such as `the`.
pub(crate) fn is_empty(word: &str) -> bool {
    EMPTY.binary_search(&word).is_ok()
}

/// The stem of a word in lower case. Words with other letters than a–z come back as they are.
pub(crate) fn stem(word: &str) -> String {
    let word = word.strip_suffix("'s").unwrap_or(word).trim_matches('\'');
    if word.len() <= 2 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.replace('\'', "");
    }
    if let Ok(at) = SPECIAL.binary_search_by_key(&word, |(special, _)| special) {
        return SPECIAL[at].1.to_owned();
    }
    let mut word = Word::of(word);
    word.plural();
    if !["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"]
        .iter()
        .any(|kept| word.letters == kept.as_bytes())
    {
        word.past();
        word.last_y();
        word.long_suffixes();
        word.middle_suffixes();
        word.short_suffixes();
        word.last_letter();
    }
    String::from_utf8_lossy(&word.letters).to_lowercase()
}

const SPECIAL: &[(&str, &str)] = &[
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

/// A word being cut. A `Y` is a consonant, `y` a vowel.
struct Word {
    letters: Vec<u8>,
    first: usize,
    second: usize,
}

impl Word {
    fn of(word: &str) -> Self {
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
        let first = known.unwrap_or_else(|| region(&letters, 0));
        let second = region(&letters, first);
        Self { letters, first, second }
    }

    fn ends(&self, suffix: &str) -> bool {
        self.letters.ends_with(suffix.as_bytes())
    }

    /// Whether the suffix stands wholly in the region that starts here.
    fn within(&self, suffix: &str, region: usize) -> bool {
        self.letters.len() >= region + suffix.len()
    }

    fn replace(&mut self, suffix: &str, by: &str) {
        self.letters.truncate(self.letters.len() - suffix.len());
        self.letters.extend_from_slice(by.as_bytes());
    }

    fn has_vowel_before(&self, end: usize) -> bool {
        self.letters[..end].iter().any(|letter| is_vowel(*letter))
    }

    fn plural(&mut self) {
        if self.ends("sses") {
            self.replace("sses", "ss");
        } else if self.ends("ied") || self.ends("ies") {
            let by = if self.letters.len() > 4 { "i" } else { "ie" };
            self.replace("ies", by);
        } else if self.ends("us") || self.ends("ss") {
        } else if self.ends("s") && self.letters.len() > 2 && self.has_vowel_before(self.letters.len() - 2) {
            self.letters.pop();
        }
    }

    fn past(&mut self) {
        for suffix in ["eedly", "eed"] {
            if self.ends(suffix) {
                if self.within(suffix, self.first) {
                    self.replace(suffix, "ee");
                }
                return;
            }
        }
        for suffix in ["ingly", "edly", "ing", "ed"] {
            if !self.ends(suffix) {
                continue;
            }
            if self.has_vowel_before(self.letters.len() - suffix.len()) {
                self.replace(suffix, "");
                self.mend();
            }
            return;
        }
    }

    fn mend(&mut self) {
        if self.ends("at") || self.ends("bl") || self.ends("iz") {
            self.letters.push(b'e');
        } else if let [.., before, last] = self.letters.as_slice()
            && before == last
            && b"bdfgmnprt".contains(last)
        {
            self.letters.pop();
        } else if self.is_short() {
            self.letters.push(b'e');
        }
    }

    fn is_short(&self) -> bool {
        self.first >= self.letters.len() && self.ends_short(self.letters.len())
    }

    fn ends_short(&self, end: usize) -> bool {
        match &self.letters[..end] {
            [vowel, last] => is_vowel(*vowel) && !is_vowel(*last),
            [.., before, vowel, last] => {
                !is_vowel(*before) && is_vowel(*vowel) && !is_vowel(*last) && !b"wxY".contains(last)
            }
            _ => false,
        }
    }

    fn last_y(&mut self) {
        if let [_, .., before, last] = self.letters.as_mut_slice()
            && matches!(last, b'y' | b'Y')
            && !is_vowel(*before)
        {
            *last = b'i';
        }
    }

    fn long_suffixes(&mut self) {
        const PAIRS: &[(&str, &str)] = &[
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
        if let Some((suffix, by)) = PAIRS.iter().find(|(suffix, _)| self.ends(suffix)) {
            if self.within(suffix, self.first) {
                self.replace(suffix, by);
            }
        } else if self.ends("ogi") {
            if self.within("ogi", self.first) && self.ends("logi") {
                self.letters.pop();
            }
        } else if self.ends("li") && self.within("li", self.first) {
            let before = self.letters.len().checked_sub(3).map(|at| self.letters[at]);
            if before.is_some_and(|letter| b"cdeghkmnrt".contains(&letter)) {
                self.replace("li", "");
            }
        }
    }

    fn middle_suffixes(&mut self) {
        const PAIRS: &[(&str, &str)] = &[
            ("ational", "ate"),
            ("tional", "tion"),
            ("alize", "al"),
            ("icate", "ic"),
            ("iciti", "ic"),
            ("ical", "ic"),
            ("ness", ""),
            ("ful", ""),
        ];
        if let Some((suffix, by)) = PAIRS.iter().find(|(suffix, _)| self.ends(suffix)) {
            if self.within(suffix, self.first) {
                self.replace(suffix, by);
            }
        } else if self.ends("ative") && self.within("ative", self.second) {
            self.replace("ative", "");
        }
    }

    fn short_suffixes(&mut self) {
        const GONE: &[&str] = &[
            "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive",
            "ize", "ion", "al", "er", "ic",
        ];
        let Some(suffix) = GONE.iter().find(|suffix| self.ends(suffix)) else { return };
        if !self.within(suffix, self.second) {
            return;
        }
        if *suffix == "ion" {
            let before = self.letters.len().checked_sub(4).map(|at| self.letters[at]);
            if !matches!(before, Some(b's' | b't')) {
                return;
            }
        }
        self.replace(suffix, "");
    }

    fn last_letter(&mut self) {
        let end = self.letters.len().saturating_sub(1);
        if self.ends("e") {
            let far = end >= self.second;
            let near = end >= self.first && !self.ends_short(end);
            if far || near {
                self.letters.pop();
            }
        } else if self.ends("ll") && end >= self.second {
            self.letters.pop();
        }
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// Where the part after the first consonant that follows a vowel starts.
fn region(letters: &[u8], from: usize) -> usize {
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
        assert!(EMPTY.is_sorted() && SPECIAL.is_sorted());
    }
}
