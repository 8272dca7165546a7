//! The similarity of two titles, by shared jamo pairs, and of two texts, by shared character pairs.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

/// A title prepared for comparison: without blanks and brackets, decomposed into jamo.
#[derive(Clone, Debug)]
pub(super) struct NormalizedTitle {
    normalized: String,
    pairs: Vec<(char, char)>,
}

impl NormalizedTitle {
    pub(super) fn new(title: &str) -> Self {
        let bare: String =
            title.nfkc().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        // Jamo instead of syllables, so that 손해배상 and 손해배샹 are similar.
        let letters: Vec<char> = bare.nfd().collect();
        let mut pairs: Vec<(char, char)> = letters.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.sort_unstable();
        Self { normalized: bare, pairs }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.normalized.is_empty()
    }

    /// Returns the similarity from 0 to 1; 1 only for equal titles. A title inside the other counts for more than its
    /// share of letters.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        if self.is_empty() || other.is_empty() {
            return 0.0;
        }
        if self.normalized == other.normalized {
            return 1.0;
        }
        let shared = count_shared_pairs(&self.pairs, &other.pairs) as f64;
        let total = (self.pairs.len() + other.pairs.len()) as f64;
        let dice = if total > 0.0 { 2.0 * shared / total } else { 0.0 };
        let (short, long) = match self.normalized.len() <= other.normalized.len() {
            true => (&self.normalized, &other.normalized),
            false => (&other.normalized, &self.normalized),
        };
        let within = short.chars().count() > 1 && long.contains(short.as_str());
        let share = short.len() as f64 / long.len() as f64;
        if within { dice.max(0.6 + 0.35 * share) } else { dice * 0.98 }
    }
}

fn count_shared_pairs(left: &[(char, char)], right: &[(char, char)]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, count) = (i + 1, j + 1, count + 1),
        }
    }
    count
}

/// Texts as vectors of weighted character pairs. A pair that every text has weighs little, such as 갑 and 을 in
/// contracts.
#[derive(Debug)]
pub(super) struct TextVectors {
    vectors: Vec<Vec<(u64, f64)>>,
}

impl TextVectors {
    pub(super) fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let counts: Vec<HashMap<u64, u32>> = texts.into_iter().map(count_character_pairs).collect();
        let mut holders: HashMap<u64, u32> = HashMap::new();
        for pair in counts.iter().flat_map(HashMap::keys) {
            *holders.entry(*pair).or_default() += 1;
        }
        let total = counts.len() as f64;
        let vectors = counts.into_iter().map(|counts| {
            let mut vector: Vec<(u64, f64)> = counts
                .into_iter()
                .map(|(pair, count)| {
                    let held = f64::from(holders.get(&pair).copied().unwrap_or(1));
                    (pair, (1.0 + f64::from(count).ln()) * (1.0 + total / held).ln())
                })
                .collect();
            vector.sort_unstable_by_key(|(pair, _)| *pair);
            let length = vector.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
            vector.iter_mut().for_each(|(_, weight)| *weight /= length);
            vector
        });
        Self { vectors: vectors.collect() }
    }

    /// Returns the cosine similarity of two of the texts, from 0 to 1.
    pub(super) fn similarity(&self, left: usize, right: usize) -> f64 {
        let (Some(left), Some(right)) = (self.vectors.get(left), self.vectors.get(right)) else { return 0.0 };
        let (mut i, mut j, mut sum) = (0, 0, 0.0);
        while let (Some((a, weight)), Some((b, other))) = (left.get(i), right.get(j)) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => {
                    sum += weight * other;
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
        sum
    }
}

fn count_character_pairs(text: &str) -> HashMap<u64, u32> {
    let mut counts = HashMap::new();
    let mut before: Option<char> = None;
    for char in text.chars() {
        if !char.is_alphanumeric() {
            continue;
        }
        let char = char.to_lowercase().next().unwrap_or(char);
        if let Some(before) = before {
            *counts.entry((before as u64) << 32 | char as u64).or_insert(0) += 1;
        }
        before = Some(char);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title_similarity(left: &str, right: &str) -> f64 {
        NormalizedTitle::new(left).similarity(&NormalizedTitle::new(right))
    }

    #[test]
    fn the_same_title_in_other_dress_is_the_same() {
        assert_eq!(title_similarity("손해배상", " 손해 배상 "), 1.0);
        assert_eq!(title_similarity("Term & Renewal", "term renewal"), 1.0);
    }

    #[test]
    fn a_slip_is_closer_than_another_word() {
        assert!(
            title_similarity("손해배상", "손해배샹") > 0.7,
            "{}",
            title_similarity("손해배상", "손해배샹")
        );
        assert!(title_similarity("손해배상", "손해배상 및 책임의 제한") > 0.6);
        assert!(title_similarity("손해배상", "계약의 해지") < 0.4);
        assert!(title_similarity("", "x") == 0.0);
    }

    #[test]
    fn texts_that_share_words_are_closer() {
        let texts = TextVectors::new([
            "갑은 을에게 대가를 지급한다",
            "을에게 갑이 대가를 지급하여야 한다",
            "비밀을 지킨다",
        ]);
        assert!(texts.similarity(0, 1) > 0.3 && texts.similarity(0, 2) < 0.1);
        assert!((texts.similarity(0, 0) - 1.0).abs() < 1e-9);
    }
}
