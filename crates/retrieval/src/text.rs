//! Terms of Korean and English text: pairs of neighbouring characters for scripts that join words to particles, whole
//! words for ASCII.

/// The terms of a text, in order, repeats included.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        for run in runs(word) {
            if run.is_ascii() {
                terms.push(singular(run).to_owned());
                continue;
            }
            let chars: Vec<char> = run.chars().collect();
            match chars.as_slice() {
                [alone] => terms.push(alone.to_string()),
                several => terms.extend(several.windows(2).map(|pair| pair.iter().collect::<String>())),
            }
        }
    }
    terms
}

/// Cuts a word such as `vpn은` where ASCII meets another script, so that it meets `VPN`.
fn runs(word: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut before: Option<bool> = None;
    for (at, char) in word.char_indices() {
        if before.is_some_and(|ascii| ascii != char.is_ascii()) {
            runs.push(&word[start..at]);
            start = at;
        }
        before = Some(char.is_ascii());
    }
    runs.push(&word[start..]);
    runs
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        Some(_) | None => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(terms(text).join(" "), expected);
    }

    #[test]
    fn korean_gives_pairs_and_english_words() {
        check("연차휴가는 15일", "연차 차휴 휴가 가는 15 일");
        check("VPN은 Receipts, class!", "vpn 은 receipt class");
        check(" .,\n", "");
    }
}
