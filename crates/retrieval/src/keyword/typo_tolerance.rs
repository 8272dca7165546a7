//! Typo tolerance: candidates for a word that no passage contains, one jamo or one letter away.

use crate::language::is_hangul_syllable;

const HANGUL_BASE: u32 = '가' as u32;
const VOWEL_COUNT: u32 = 21;
const FINAL_COUNT: u32 = 28;
const INITIAL_COUNT: u32 = 19;
/// Shorter English words have too many neighbours to be corrected.
const MIN_ENGLISH_LETTERS: usize = 4;
/// Longer terms are names or noise and are not corrected.
const MAX_ENGLISH_LETTERS: usize = 24;

/// Calls `each` for every term that is one edit away, for terms that are wholly Korean or wholly English.
pub(super) fn for_each_typo_candidate(term: &str, each: &mut dyn FnMut(&[u8])) {
    let letters = term.chars().count();
    if (2..=6).contains(&letters) && term.chars().all(is_hangul_syllable) {
        korean_typo_candidates(term, each);
    } else if (MIN_ENGLISH_LETTERS..=MAX_ENGLISH_LETTERS).contains(&letters)
        && term.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        english_typo_candidates(term.as_bytes(), each);
    }
}

/// Returns whether one jamo or one letter makes one word out of another.
pub fn is_one_typo_apart(one: &str, other: &str) -> bool {
    let letters = one.chars().count();
    if (2..=6).contains(&letters) && one.chars().chain(other.chars()).all(is_hangul_syllable) {
        let mut slips = one.chars().zip(other.chars()).filter(|(one, other)| one != other);
        let slip = slips.next().map(|(one, other)| (jamo_of(one), jamo_of(other)));
        let jamo_apart = |(one, other): ([u32; 3], [u32; 3])| {
            one.iter().zip(other).filter(|(one, other)| *one != other).count()
        };
        return other.chars().count() == letters && slips.next().is_none() && slip.map(jamo_apart) == Some(1);
    }
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let is_english = |word: &[u8]| word.iter().all(u8::is_ascii_lowercase);
    if !(MIN_ENGLISH_LETTERS..=MAX_ENGLISH_LETTERS).contains(&letters)
        || !is_english(one)
        || !is_english(other)
    {
        return false;
    }
    let same = |(one, other): &(&u8, &u8)| one == other;
    let start = one.iter().zip(other).take_while(same).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(same).count();
    match (&one[..one.len() - end], &other[..other.len() - end]) {
        ([first, second], [third, fourth]) => (first, second) == (fourth, third),
        (one, other) => one.len().max(other.len()) == 1,
    }
}

fn jamo_of(syllable: char) -> [u32; 3] {
    let code = syllable as u32 - HANGUL_BASE;
    [code / (VOWEL_COUNT * FINAL_COUNT), code / FINAL_COUNT % VOWEL_COUNT, code % FINAL_COUNT]
}

fn korean_typo_candidates(term: &str, each: &mut dyn FnMut(&[u8])) {
    let mut slip = term.as_bytes().to_vec();
    for (at, letter) in term.char_indices() {
        let [initial, vowel, last] = jamo_of(letter);
        let initials = (0..INITIAL_COUNT).map(|other| (other, vowel, last));
        let vowels = (0..VOWEL_COUNT).map(|other| (initial, other, last));
        let lasts = (0..FINAL_COUNT).map(|other| (initial, vowel, other));
        for (initial, vowel, last) in initials.chain(vowels).chain(lasts) {
            let other = char::from_u32(HANGUL_BASE + (initial * VOWEL_COUNT + vowel) * FINAL_COUNT + last)
                .unwrap_or(letter);
            if other != letter {
                other.encode_utf8(&mut slip[at..at + letter.len_utf8()]);
                each(&slip);
            }
        }
        letter.encode_utf8(&mut slip[at..at + letter.len_utf8()]);
    }
}

fn english_typo_candidates(term: &[u8], each: &mut dyn FnMut(&[u8])) {
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

    fn typo_candidates(term: &str) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for_each_typo_candidate(term, &mut |slip| all.push(slip.to_vec()));
        all
    }

    #[test]
    fn one_typo_is_undone() {
        for (wrong, right) in [
            ("손헤", "손해"),
            ("게약", "계약"),
            ("휴까", "휴가"),
            ("recieve", "receive"),
            ("agrement", "agreement"),
            ("partyy", "party"),
        ] {
            assert!(typo_candidates(wrong).contains(&right.as_bytes().to_vec()), "{wrong}");
            assert!(is_one_typo_apart(wrong, right), "{wrong}");
        }
        for (one, other) in
            [("계약", "계약"), ("계약", "기한"), ("게약", "계약서"), ("lease", "leases"), ("party", "prtay")]
        {
            let is_candidate = typo_candidates(one).contains(&other.as_bytes().to_vec()) && one != other;
            assert_eq!(is_one_typo_apart(one, other), is_candidate, "{one} {other}");
        }
        assert!(
            typo_candidates("a1").is_empty()
                && typo_candidates("vpn을").is_empty()
                && typo_candidates("the").is_empty()
        );
    }
}
