//! Changes a list of hits before it is used: removes duplicates and adds neighbouring passages.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::passage::{DocumentId, Passage, PassageId};
use crate::retriever::Hit;
use crate::text_analysis::normalization::{is_letter_or_digit, normalize};

/// The score of a neighbour is that of the hit, multiplied by this once for each place between them.
const NEIGHBOUR_SCORE_FACTOR: f64 = 0.5;

/// Removes hits whose article and text equal those of a better hit from the same kind of document. Whitespace and
/// punctuation are ignored. Words and numbers are not: a single one may be all that distinguishes two contracts of one
/// form, or this year's rule from last year's.
pub(crate) fn remove_duplicate_hits(hits: Vec<Hit>) -> Vec<Hit> {
    let mut seen = HashSet::new();
    let mut kept = hits;
    kept.retain(|hit| {
        let Passage { kind, article, text, .. } = &hit.passage;
        seen.insert((kind.clone(), *article, comparable_text(text)))
    });
    kept
}

/// Adds to each hit the passages up to `reach` places before and after it in its document, best hits first, while all
/// of them fit into `room` bytes of text. `passages` holds the passages of each document in order. No passage is
/// returned twice.
pub fn add_neighbouring_passages(
    hits: &[Hit],
    passages: &BTreeMap<DocumentId, Vec<Passage>>,
    reach: usize,
    room: usize,
) -> Vec<Hit> {
    let mut taken: BTreeSet<&PassageId> = hits.iter().map(|hit| &hit.passage.id).collect();
    let mut left = room.saturating_sub(hits.iter().map(|hit| hit.passage.text.len()).sum());
    let mut all = Vec::new();
    for hit in hits {
        all.push(hit.clone());
        let Some(siblings) = passages.get(&hit.passage.document) else { continue };
        let Some(at) = siblings.iter().position(|passage| passage.id == hit.passage.id) else { continue };
        for distance in 1..=reach {
            for near in [at.checked_sub(distance), at.checked_add(distance)].into_iter().flatten() {
                let Some(passage) = siblings.get(near) else { continue };
                if passage.text.len() <= left && taken.insert(&passage.id) {
                    left -= passage.text.len();
                    let score =
                        hit.score * NEIGHBOUR_SCORE_FACTOR.powi(i32::try_from(distance).unwrap_or(i32::MAX));
                    all.push(Hit { passage: passage.clone(), score });
                }
            }
        }
    }
    all
}

/// Returns the letters and digits of a text, and the punctuation between two digits, so that 1.2 differs from 12.
fn comparable_text(text: &str) -> String {
    let letters = normalize(text);
    let digit = |at: Option<usize>| {
        at.and_then(|at| letters.get(at)).is_some_and(|letter| letter.char.is_ascii_digit())
    };
    let says = |(at, char): &(usize, char)| {
        let parts = *char != ',' && !char.is_whitespace();
        is_letter_or_digit(*char) || parts && digit(at.checked_sub(1)) && digit(Some(at + 1))
    };
    let chars = letters.iter().map(|letter| letter.char).enumerate();
    chars.filter(says).map(|(_, char)| char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::{Document, DocumentKind};
    use crate::split::split_into_passages;

    fn passages(id: &str, text: &str) -> Vec<Passage> {
        split_into_passages(&Document::new(id, "t", text))
    }

    fn hit(passage: &Passage, score: f64) -> Hit {
        Hit { passage: passage.clone(), score }
    }

    fn joined_texts(hits: &[Hit]) -> String {
        hits.iter().map(|hit| hit.passage.text.clone()).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn of_copies_only_the_best_stays() {
        let one = passages("a", "연차휴가는 1년에 15일을 준다.").remove(0);
        let two = passages("b", "연차휴가는  1년에 15일을 준다").remove(0);
        let other = passages("c", "출장 식비는 하루 4만 원까지.").remove(0);
        let hits = vec![hit(&one, 2.0), hit(&two, 1.5), hit(&other, 1.0)];
        assert_eq!(
            joined_texts(&remove_duplicate_hits(hits.clone())),
            "연차휴가는 1년에 15일을 준다. | 출장 식비는 하루 4만 원까지."
        );
        let mut standard = hits;
        standard[1].passage.kind = DocumentKind::Standard("용역".to_owned());
        assert_eq!(remove_duplicate_hits(standard).len(), 3, "a standard beside a contract is no copy");
    }

    #[test]
    fn what_differs_in_one_word_or_number_is_no_copy() {
        for (one, two) in [
            (
                "연차유급휴가는 1년에 15일을 준다. 휴가는 미리 청구한다.",
                "연차유급휴가는 1년에 18일을 준다. 휴가는 미리 청구한다.",
            ),
            ("알파상사에 계약금액 5,000만 원을 준다.", "베타상사에 계약금액 5,000만 원을 준다."),
            ("을은 이를 다시 맡길 수 있다.", "을은 이를 다시 맡길 수 없다."),
            ("지연 이자는 연 1.2퍼센트이다.", "지연 이자는 연 12퍼센트이다."),
        ] {
            let hits = vec![hit(&passages("a", one)[0], 2.0), hit(&passages("b", two)[0], 1.0)];
            assert_eq!(remove_duplicate_hits(hits).len(), 2, "{one}");
        }
    }

    #[test]
    fn neighbours_come_after_their_hit_while_there_is_room() {
        let all = passages("a", "하나.\n\n둘둘.\n\n셋.\n\n넷넷넷.\n\n다섯.");
        let by_document = BTreeMap::from([(DocumentId::new("a"), all.clone())]);
        let hits = [hit(&all[1], 2.0), hit(&all[2], 1.0)];
        assert_eq!(
            joined_texts(&add_neighbouring_passages(&hits, &by_document, 1, 1000)),
            "둘둘. | 하나. | 셋. | 넷넷넷."
        );
        assert_eq!(
            joined_texts(&add_neighbouring_passages(&hits, &by_document, 1, 20)),
            "둘둘. | 하나. | 셋."
        );
        assert_eq!(joined_texts(&add_neighbouring_passages(&hits, &by_document, 0, 1000)), "둘둘. | 셋.");
        assert_eq!(joined_texts(&add_neighbouring_passages(&hits, &BTreeMap::new(), 3, 1000)), "둘둘. | 셋.");
        assert!(
            add_neighbouring_passages(&hits, &by_document, 9, usize::MAX).iter().all(|hit| hit.score > 0.0)
        );
    }
}
