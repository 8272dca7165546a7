//! What single words do not show: whether a passage says the words of a question side by side, and whether its heading
//! is what was asked.

use std::collections::HashSet;

use crate::text::letters::{Letter, is_letter, is_syllable, letters};
use crate::text::{self, Layer};

/// The words of a text as they are compared.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut spaced = Vec::new();
    space(text, &mut spaced);
    split(&spaced).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The longest run of words of a question that a text says side by side, as a share of the question; 0 for a single
/// word, which says nothing that its score does not. The last word of a run may go on: 휴가 is said by 휴가는. `spaced` is
/// room to work in.
pub(super) fn said(question: &[String], text: &str, spaced: &mut Vec<u8>) -> f32 {
    if question.len() < 2 {
        return 0.0;
    }
    space(text, spaced);
    let words: Vec<&[u8]> = split(spaced).collect();
    let mut longest = 0;
    for from in 0..words.len() {
        for start in 0..question.len() - 1 {
            if question.len() - start <= longest {
                break;
            }
            let asked = question[start..].iter().map(String::as_bytes);
            let same = words[from..].iter().zip(asked).take_while(|(said, asked)| *said == asked);
            let run = same.count();
            let next = words.get(from + run).zip(question.get(start + run));
            let goes_on = run > 0 && next.is_some_and(|(said, asked)| said.starts_with(asked.as_bytes()));
            longest = longest.max(run + usize::from(goes_on));
        }
    }
    if longest < 2 { 0.0 } else { longest as f32 / question.len() as f32 }
}

fn split(spaced: &[u8]) -> impl Iterator<Item = &[u8]> {
    spaced.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// The words of a text as they are compared, with spaces between.
fn space(text: &str, spaced: &mut Vec<u8>) {
    spaced.clear();
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return,
            [byte, rest @ ..] if byte.is_ascii() => {
                spaced.push(if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b' ' });
                rest
            }
            // Whole syllables are compared as they stand, unless something that belongs to them follows.
            [first, second, third, rest @ ..] if is_whole(*first, *second, *third) => {
                spaced.extend_from_slice(&[*first, *second, *third]);
                rest
            }
            _ => break,
        };
    }
    spaced.clear();
    for Letter { char, .. } in letters(text) {
        let char = if is_letter(char) { char } else { ' ' };
        spaced.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Whether three bytes are a whole Korean syllable.
fn is_whole(first: u8, second: u8, third: u8) -> bool {
    let low = |byte: u8| u32::from(byte & 0x3f);
    let code = u32::from(first & 0x0f) << 12 | low(second) << 6 | low(third);
    first >> 4 == 0xe && char::from_u32(code).is_some_and(is_syllable)
}

/// How much of the last heading above a passage was asked for.
pub(super) fn headed(asked: &HashSet<String>, title: &str) -> f32 {
    let heading = title.rsplit(" › ").next().unwrap_or(title);
    let (mut all, mut known) = (0_u32, 0_u32);
    text::terms(heading, |layer, term, _| {
        if layer == Layer::Stems {
            all += 1;
            known += u32::from(asked.contains(term));
        }
    });
    if all == 0 { 0.0 } else { known as f32 / all as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, text: &str, expected: f32) {
        let said = said(&words(question), text, &mut Vec::new());
        assert!((said - expected).abs() < 1e-6, "{question} | {text}");
    }

    #[test]
    fn words_side_by_side_are_a_phrase() {
        check("연차 유급 휴가", "근로자의 연차 유급 휴가는 15일이다.", 1.0);
        check("연차 유급 휴가", "연차 유급은 휴가가 아니다.", 2.0 / 3.0);
        check("연차 휴가", "휴가 연차", 0.0);
        check("휴가", "휴가", 0.0);
        check("Net Profit margin", "the net-profit, margin", 1.0);
        check("", "글", 0.0);
    }

    #[test]
    fn words_are_the_same_in_every_form() {
        for (text, expected) in [
            ("휴가(연차) VPN-Net", "휴가 연차 vpn net"),
            ("\u{1112}\u{1172}\u{1100}\u{1161} ＶＰＮ", "휴가 vpn"),
            ("휴가\u{301}는 e\u{301}", "휴가 는 é"),
            ("가\u{11a8} 힣 ퟀ 契約書", "각 힣 ퟀ 契約書"),
        ] {
            let spaced: String =
                letters(text).iter().map(|letter| if is_letter(letter.char) { letter.char } else { ' ' }).collect();
            let expected: Vec<&str> = expected.split(' ').collect();
            assert_eq!(words(text), spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
            assert_eq!(words(text), expected);
        }
    }

    #[test]
    fn a_heading_counts_by_how_much_of_it_was_asked() {
        let asked = |text: &str| {
            let mut stems = HashSet::new();
            text::terms(text, |layer, term, _| {
                if layer == Layer::Stems {
                    stems.insert(term.to_owned());
                }
            });
            stems
        };
        let all = headed(&asked("비밀유지 의무는?"), "용역계약서 › 비밀유지");
        assert!((all - 1.0).abs() < 1e-6, "{all}");
        assert!(headed(&asked("비밀유지 의무는?"), "용역계약서 › 대금 지급") <= 0.0);
        assert!(headed(&asked("비밀유지"), "") <= 0.0);
    }
}
