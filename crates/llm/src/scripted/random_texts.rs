//! Random texts of what parsers, renderers and protocols trip over: brackets, code, Markdown, Korean, control characters.

/// Pieces that parsers, renderers and protocols trip over.
const PIECES: &[&str] = &[
    "- [ ] 할 일",
    "- [x] ",
    "[    ]년",
    "m[4][1]",
    "[1]",
    "[1][2]",
    "[12, 3]",
    "[^1]",
    "![그림](a.png)",
    "[",
    "]",
    "[]",
    "(",
    "{",
    "}}",
    "```rust\nfn main() { let a = [0; 4]; a[0]; }\n```",
    "`",
    "~~~\n",
    "|a|b|\n|-|-|\n",
    "# 제목\n",
    "> 인용\n",
    "**굵게**",
    "<b>",
    "</",
    "&amp;",
    "&",
    "\"",
    "'",
    "\\",
    "\\n",
    "\\u0000",
    "$x_1$",
    "%s",
    "%00",
    "{0}",
    "data: ",
    "data: [DONE]\n\n",
    "event: done\n",
    ": comment\n\n",
    "id: 3\n",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "  ",
    " ",
    "\u{b}",
    "\u{c}",
    "\u{0}",
    "\u{1}",
    "\u{7}",
    "\u{8}",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{10ffff}",
    "가",
    "각",
    "ᄀ",
    "ᄀ\u{1161}\u{11a8}",
    "뷁",
    "ㅋㅋ",
    "한글과 English",
    "연차는 15일입니다.",
    "제5조(손해배상)",
    "①",
    "漢字",
    "ﬁ",
    "é",
    "e\u{301}",
    "😀",
    "👨\u{200d}👩\u{200d}👧",
    "🇰🇷",
    "İ",
    "ß",
    "null",
    "true",
    "0",
    "-1.5e300",
    "…",
    "[이전 대화 요약]",
    "---SUMMARY_BREAK---",
    "Error: ",
];

/// Makes random texts. The same seed gives the same texts, so that a failure can be repeated.
#[derive(Clone, Debug)]
pub struct RandomTexts(u64);

impl RandomTexts {
    /// Texts of this seed, which is not 0.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or_default()
    }

    /// A text that is not blank, because an answer without a word is a failure of the vendor.
    pub fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(24) {
            text.push_str(PIECES[self.below(PIECES.len())]);
        }
        if text.trim().is_empty() {
            text.push('가');
        }
        text
    }

    /// The same text in pieces of a few characters, as a vendor streams it.
    pub fn split(&mut self, text: &str) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        // Some texts come letter by letter, most in longer pieces.
        let longest = if self.below(8) == 0 { 3 } else { 24 };
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < letters.len() {
            let end = (at + 1 + self.below(longest)).min(letters.len());
            pieces.push(letters[at..end].iter().collect());
            at = end;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_repeatable_and_whole_in_pieces() {
        let (mut one, mut same) = (RandomTexts::new(7), RandomTexts::new(7));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let text = one.text();
            assert_eq!(text, same.text());
            let pieces = one.split(&text);
            assert_eq!(pieces.concat(), text);
            assert_eq!(pieces, same.split(&text));
            seen.insert(text);
        }
        assert!(seen.len() > 190, "{}", seen.len());
    }
}
