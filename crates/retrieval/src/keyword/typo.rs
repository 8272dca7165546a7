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

/// Gives everything one slip away from a term, for terms that are wholly Korean or wholly English.
pub(super) fn slips(term: &str, each: &mut dyn FnMut(&[u8])) {
    let letters = term.chars().count();
    if (2..=6).contains(&letters) && term.chars().all(is_syllable) {
        korean(term, each);
    } else if (SHORTEST..=LONGEST).contains(&letters) && term.bytes().all(|byte| byte.is_ascii_lowercase()) {
        english(term.as_bytes(), each);
    }
}

fn korean(term: &str, each: &mut dyn FnMut(&[u8])) {
    let mut slip = term.as_bytes().to_vec();
    for (at, letter) in term.char_indices() {
        let code = letter as u32 - BASE;
        let (initial, vowel, last) = (code / (VOWELS * FINALS), code / FINALS % VOWELS, code % FINALS);
        let initials = (0..INITIALS).map(|other| (other, vowel, last));
        let vowels = (0..VOWELS).map(|other| (initial, other, last));
        let lasts = (0..FINALS).map(|other| (initial, vowel, other));
        for (initial, vowel, last) in initials.chain(vowels).chain(lasts) {
            let other = char::from_u32(BASE + (initial * VOWELS + vowel) * FINALS + last).unwrap_or(letter);
            if other != letter {
                other.encode_utf8(&mut slip[at..at + letter.len_utf8()]);
                each(&slip);
            }
        }
        letter.encode_utf8(&mut slip[at..at + letter.len_utf8()]);
    }
}

fn english(term: &[u8], each: &mut dyn FnMut(&[u8])) {
    for at in 0..=term.len() {
        let (before, after) = term.split_at(at);
        (b'a'..=b'z').for_each(|letter| each(&[before, &[letter], after].concat()));
        if let Some((_, rest)) = after.split_first() {
            each(&[before, rest].concat());
            (b'a'..=b'z').for_each(|letter| each(&[before, &[letter], rest].concat()));
        }
        if let [first, second, rest @ ..] = after {
            each(&[before, &[*second, *first], rest].concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(term: &str) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        slips(term, &mut |slip| all.push(slip.to_vec()));
        all
    }

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
            assert!(all(wrong).contains(&right.as_bytes().to_vec()), "{wrong}");
        }
        assert!(all("a1").is_empty() && all("vpn을").is_empty() && all("the").is_empty());
    }
}
