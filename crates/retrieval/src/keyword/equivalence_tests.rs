//! Pruned search returns the same hits as an exhaustive search, bit for bit.

use std::sync::Arc;

use super::live_segment::LiveSegment;
use super::query::KeywordQuery;
use super::search::search_with_scorer;
use super::*;

/// A generator of reproducible pseudo-random text.
struct RandomSentences(u64);

impl RandomSentences {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// Returns small numbers often and large ones rarely.
    fn skewed_below(&mut self, end: usize) -> usize {
        let end = self.below(end) + 1;
        let end = self.below(end) + 1;
        self.below(end)
    }

    fn sentence(&mut self, words: &[&str], length: usize) -> String {
        let particles = ["은", "는", "이", "를", "", "에서"];
        let word = |_| {
            format!("{}{}", words[self.skewed_below(words.len())], particles[self.below(particles.len())])
        };
        (0..length).map(word).collect::<Vec<_>>().join(" ")
    }
}

const VOCABULARY: &[&str] = &[
    "계약",
    "휴가",
    "근무",
    "연차휴가",
    "손해배상",
    "agreement",
    "임금",
    "퇴직",
    "출장비",
    "제3조",
    "비밀유지",
    "영수증",
    "VPN",
    "보안",
    "노트북",
    "재택근무",
    "receipts",
    "대금",
    "지급",
    "해지",
    "갑",
    "을",
    "기간",
    "통지",
    "서면",
    "제12조",
    "관할",
    "법원",
    "분쟁",
    "중재",
    "party",
    "양도",
    "금지",
    "책임",
    "한도",
    "면책",
    "불가항력",
    "위약금",
    "보증",
    "하자",
];

/// Builds segments of very different sizes, with some of their documents removed.
fn random_segments(dice: &mut RandomSentences, sizes: &[usize]) -> Vec<LiveSegment> {
    let mut number = 0;
    let mut part = |size: &usize| {
        let held: Vec<Arc<StoredDocument>> = (0..*size)
            .map(|_| {
                number += 1;
                let length = 1 + dice.skewed_below(60);
                let text =
                    format!("{}\n\n{}", dice.sentence(VOCABULARY, length), dice.sentence(VOCABULARY, 5));
                let document = Document::new(format!("d{number}"), dice.sentence(VOCABULARY, 2), text);
                let passages = split_into_passages(&document);
                Arc::new(StoredDocument::new(&document, &passages))
            })
            .collect();
        let segment = Segment::from_stored_documents(held.iter().map(|held| &**held)).expect("a segment");
        let gone = dice.below(2) * 7;
        let held =
            held.into_iter().enumerate().map(|(at, held)| (gone == 0 || at % gone != 3).then_some(held));
        LiveSegment::new(segment, held.collect())
    };
    sizes.iter().map(&mut part).collect()
}

#[test]
fn the_short_way_finds_what_a_look_at_everything_finds() {
    let mut dice = RandomSentences(3);
    let ranking = RankingParameters::default();
    let mut found = 0;
    for sizes in [&[1][..], &[40, 3], &[300, 20, 1, 60], &[700]] {
        let parts = random_segments(&mut dice, sizes);
        for round in 0..40 {
            let length = 1 + dice.below(9);
            let text = dice.sentence(VOCABULARY, length);
            let query = KeywordQuery::parse(&text, ranking.synonym_weight);
            let collection = (round % 8 == 7).then(|| "none".to_owned());
            let documents = if round % 4 == 1 {
                (0..9).map(|n| DocumentId::new(format!("d{}", n * 5 + 1))).collect()
            } else {
                Vec::new()
            };
            let filter = DocumentFilter { collection, documents, ..DocumentFilter::default() };
            for limit in [1, 10, 33] {
                let ranges = |found: Vec<search::KeywordHit>| -> Vec<(u32, usize, usize)> {
                    found.iter().map(|found| (found.score.to_bits(), found.segment, found.slot)).collect()
                };
                let short = ranges(search::search(&parts, &query, &ranking, &filter, limit));
                let whole =
                    ranges(search_with_scorer(&parts, &query, &ranking, &filter, limit, |scoring, _| {
                        scoring.score_all_slots()
                    }));
                assert_eq!(short, whole, "{text}, {limit} of {sizes:?}, {filter:?}");
                found += short.len();
            }
        }
    }
    assert!(found > 1000, "{found} were found");
}
