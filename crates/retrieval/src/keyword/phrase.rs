//! What single words do not show: whether a passage says the words of a question side by side, and whether its heading
//! is what was asked.

use std::collections::HashSet;

use crate::text::letters::{Letter, is_letter, letters};
use crate::text::{self, Layer};

/// The words of a text as they are compared.
pub(super) fn words(text: &str) -> Vec<String> {
    spaced(text).split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The longest run of words of a question that a text says side by side, as a share of the question; 0 for a single
/// word, which says nothing that its score does not. The last word of a run may go on: 휴가 is said by 휴가는.
pub(super) fn said(question: &[String], text: &str) -> f32 {
    if question.len() < 2 {
        return 0.0;
    }
    let spaced = spaced(text);
    let words: Vec<&str> = spaced.split(' ').filter(|word| !word.is_empty()).collect();
    let mut longest = 0;
    for from in 0..words.len() {
        for start in 0..question.len() - 1 {
            if question.len() - start <= longest {
                break;
            }
            let same = words[from..].iter().zip(&question[start..]).take_while(|(said, asked)| said == asked);
            let run = same.count();
            let next = words.get(from + run).zip(question.get(start + run));
            let goes_on = run > 0 && next.is_some_and(|(said, asked)| said.starts_with(asked.as_str()));
            longest = longest.max(run + usize::from(goes_on));
        }
    }
    if longest < 2 { 0.0 } else { longest as f32 / question.len() as f32 }
}

/// The words of a text as they are compared, with spaces between.
fn spaced(text: &str) -> String {
    let letter = |letter: &Letter| if is_letter(letter.char) { letter.char } else { ' ' };
    let mut spaced = String::with_capacity(text.len());
    spaced.extend(letters(text).iter().map(letter));
    spaced
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
        assert!((said(&words(question), text) - expected).abs() < 1e-6, "{question} | {text}");
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
