//! What a word that no passage holds may have been meant to be: one jamo, one letter off.

use crate::text::letters::is_syllable;

const BASE: u32 = '가' as u32;
const VOWELS: u32 = 21;
const FINALS: u32 = 28;
const INITIALS: u32 = 19;
/// English words shorter than this have too many neighbours.
const SHORTEST: usize = 4;
/// Longer terms are names or noise.
const LONGEST: usize = 24;

/// Everything one slip away from a term, for terms that are wholly Korean or wholly English.
pub(super) fn slips(term: &str) -> Vec<String> {
    let letters: Vec<char> = term.chars().collect();
    if letters.len() >= 2 && letters.len() <= 6 && letters.iter().all(|char| is_syllable(*char)) {
        korean(&letters)
    } else if (SHORTEST..=LONGEST).contains(&letters.len()) && letters.iter().all(char::is_ascii_lowercase) {
        english(&letters)
    } else {
        Vec::new()
    }
}

fn korean(letters: &[char]) -> Vec<String> {
    let mut slips = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        let code = *letter as u32 - BASE;
        let (initial, vowel, last) = (code / (VOWELS * FINALS), code / FINALS % VOWELS, code % FINALS);
        let initials = (0..INITIALS).map(|other| (other, vowel, last));
        let vowels = (0..VOWELS).map(|other| (initial, other, last));
        let lasts = (0..FINALS).map(|other| (initial, vowel, other));
        for (initial, vowel, last) in initials.chain(vowels).chain(lasts) {
            let other = BASE + (initial * VOWELS + vowel) * FINALS + last;
            if other != *letter as u32 {
                slips.push(with(letters, at..at + 1, char::from_u32(other)));
            }
        }
    }
    slips
}

fn english(letters: &[char]) -> Vec<String> {
    let mut slips = Vec::new();
    for at in 0..=letters.len() {
        slips.extend(('a'..='z').map(|letter| with(letters, at..at, Some(letter))));
        if at < letters.len() {
            slips.push(with(letters, at..at + 1, None));
            slips.extend(('a'..='z').map(|letter| with(letters, at..at + 1, Some(letter))));
        }
        if at + 1 < letters.len() {
            let mut swapped = letters.to_vec();
            swapped.swap(at, at + 1);
            slips.push(swapped.into_iter().collect());
        }
    }
    slips
}

fn with(letters: &[char], place: std::ops::Range<usize>, by: Option<char>) -> String {
    letters[..place.start].iter().copied().chain(by).chain(letters[place.end..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_is_undone() {
        for (wrong, right) in [
            ("손헤", "손해"),
            ("게약", "계약"),
            ("휴까", "휴가"),
            ("recieve", "receive"),
            ("agrement", "agreement"),
            ("partyy", "party"),
        ] {
            assert!(slips(wrong).contains(&right.to_owned()), "{wrong}");
        }
        assert!(slips("a1").is_empty() && slips("vpn을").is_empty() && slips("the").is_empty());
    }
}
