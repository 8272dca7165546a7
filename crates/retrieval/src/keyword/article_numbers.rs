//! Finds article numbers in text, whatever the width of the digits or the Unicode form of the syllables. The accepted
//! spellings are those of [`find_article_references`].

use std::ops::Range;

use crate::contract::{find_article_references, parse_circled_number};
use crate::passage::{ArticleNumber, Passage};
use crate::text_analysis::normalization::normalize;

/// Returns the article numbers in a text with their byte ranges.
pub fn find_article_numbers(text: &str) -> Vec<(ArticleNumber, Range<usize>)> {
    let mut folded = String::with_capacity(text.len());
    // For each byte offset in the folded text: the range of the original character.
    let mut places: Vec<(usize, Range<usize>)> = Vec::new();
    for letter in normalize(text) {
        let from = letter.start as usize..letter.end as usize;
        places.push((folded.len(), from.clone()));
        // ① is a clause number, not the digit that it is folded to.
        folded.push(
            text[from]
                .chars()
                .next()
                .filter(|char| parse_circled_number(*char).is_some())
                .unwrap_or(letter.char),
        );
    }
    let at = |byte: usize| places.partition_point(|(start, _)| *start < byte);
    let place = |range: Range<usize>| {
        let first = places.get(at(range.start)).map_or(text.len(), |(_, from)| from.start);
        let last = at(range.end).checked_sub(1).and_then(|last| places.get(last));
        first..last.map_or(first, |(_, from)| from.end)
    };
    let named = find_article_references(&folded).into_iter();
    named
        .flat_map(|reference| {
            let place = place(reference.range.clone());
            reference.counted_articles().map(move |article| (article, place.clone()))
        })
        .collect()
}

/// Where a text names articles: in order, and apart from each other.
pub(super) struct ArticlePlaces(Vec<Range<usize>>);

impl ArticlePlaces {
    pub(super) fn new(articles: &[(ArticleNumber, Range<usize>)]) -> Self {
        let mut places: Vec<Range<usize>> = articles.iter().map(|(_, place)| place.clone()).collect();
        places.sort_by_key(|place| place.start);
        places.dedup_by(|next, last| {
            let is_joined = next.start <= last.end;
            last.end = if is_joined { last.end.max(next.end) } else { last.end };
            is_joined
        });
        Self(places)
    }

    /// Returns whether a range has a part of any of them.
    pub(super) fn overlap(&self, range: &Range<usize>) -> bool {
        let at = self.0.partition_point(|place| place.end <= range.start);
        self.0.get(at).is_some_and(|place| place.start < range.end)
    }
}

/// Returns the article of a passage, either from its metadata or from the last heading above it.
pub(crate) fn article_of_passage(passage: &Passage) -> Option<ArticleNumber> {
    passage.article.or_else(|| last_article_in_title(&passage.title))
}

/// Returns the last article number in a title.
pub(crate) fn last_article_in_title(title: &str) -> Option<ArticleNumber> {
    find_article_numbers(title).last().map(|(number, _)| *number)
}

/// Returns the term under which an article is indexed.
pub(super) fn article_term_key(number: ArticleNumber) -> Vec<u8> {
    format!("a{}_{}", number.number, number.branch).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let named: Vec<String> =
            find_article_numbers(text).iter().map(|(number, _)| number.to_string()).collect();
        assert_eq!(named.join(" "), expected, "{text}");
    }

    #[test]
    fn an_article_is_read_however_it_is_written() {
        check("민법 제750조", "제750조");
        check("근로기준법60조 전문 보여줘", "제60조");
        check("제 5 조 제2항과 제76조의 2", "제5조 제76조의2");
        check("제십조의2, 제이십삼조는?", "제10조의2 제23조");
        check("第十條, 第二三條", "제10조 제23조");
        check("제１０조", "제10조");
        check("see Article 5 and section 12", "제5조 제12조");
        check("제3조의 2항", "제3조");
        check("5조가 뭐야? 7조에서", "제5조 제7조");
    }

    #[test]
    fn every_reader_of_articles_reads_the_same_spellings() {
        for line in include_str!("../contract/article_number_spellings.tsv").lines() {
            let (text, expected) = line.split_once('\t').expect("two columns");
            check(text, expected);
        }
    }

    #[test]
    fn a_range_overlaps_a_place_if_they_share_a_byte() {
        let number = ArticleNumber { number: 1, branch: 0 };
        let articles = [(number, 8..10), (number, 2..4), (number, 2..4), (number, 3..5), (number, 5..6)];
        let places = ArticlePlaces::new(&articles);
        for start in 0..12 {
            for end in start + 1..13 {
                let expected = articles.iter().any(|(_, of)| start < of.end && of.start < end);
                assert_eq!(places.overlap(&(start..end)), expected, "{start}..{end}");
            }
        }
    }

    #[test]
    fn money_and_other_words_are_no_articles() {
        for text in [
            "5조 원",
            "3.4조 원 감소",
            "5조원",
            "제1조정위원회",
            "조건 3조각",
            "제조업",
            "2조 5천억",
            "이십조",
        ] {
            check(text, "");
        }
    }
}
