//! Parses a query: its own terms, their synonyms, and the articles that it names by number.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::passage::ArticleNumber;
use crate::text_analysis::question_words::is_question_word;
use crate::text_analysis::{self, TermLayer, text_stems};

use super::article_numbers::{ArticlePlaces, find_article_numbers};
use super::segment::term_key;
use super::stored_document::letters_and_digits;
use super::{phrase, synonyms};

/// A query is cut to this many bytes.
pub(super) const MAX_QUERY_BYTES: usize = 16 * 1024;
/// The maximum number of terms in a query.
const MAX_QUERY_TERMS: usize = 768;
/// The maximum number of articles that a query asks for by number. The first ones count.
const MAX_QUERY_ARTICLES: usize = 64;
/// The maximum number of words that are searched as a phrase.
const MAX_PHRASE_WORDS: usize = 32;

/// A longer query is a text, in which all words count alike.
const MAX_QUESTION_BYTES: usize = 2000;
/// The weight of words such as "how" and "알려 주세요" beside words that say what is asked for.
const QUESTION_WORD_WEIGHT: f32 = 0.2;

/// A term of a query.
#[derive(Clone, Debug)]
pub(crate) struct QueryTerm {
    pub(crate) key: Vec<u8>,
    pub(crate) layer: TermLayer,
    pub(crate) weight: f32,
    /// For a synonym: the keys of the query terms that it stands for.
    pub(crate) synonym_of_keys: Vec<Vec<u8>>,
    /// Whether it is part of an article number. Article numbers are not corrected as typos.
    pub(crate) is_article_number: bool,
}

/// A parsed query.
#[derive(Debug, Default)]
pub(crate) struct KeywordQuery {
    pub(crate) terms: Vec<QueryTerm>,
    pub(crate) articles: Vec<ArticleNumber>,
    /// The letters and digits without spaces, in which titles of documents are searched.
    pub(crate) letters_and_digits: String,
    /// The words, in order.
    pub(crate) words: Vec<String>,
    /// The stems of the query, without synonyms.
    pub(crate) stems: HashSet<String>,
}

impl KeywordQuery {
    /// Parses a query. Synonyms get the weight `meant`.
    pub(crate) fn parse(text: &str, meant: f32) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_QUERY_BYTES)];
        let mut query = Self {
            letters_and_digits: letters_and_digits(text),
            words: phrase::normalized_words(text),
            ..Self::default()
        };
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut stems = Vec::new();
        let articles = find_article_numbers(text);
        let places_of_articles = ArticlePlaces::new(&articles);
        let asking = question_word_places(text);
        let overlaps =
            |one: &Range<usize>, other: &Range<usize>| one.start < other.end && other.start < one.end;
        text_analysis::for_each_term(text, |layer, term, range| {
            if layer == TermLayer::Stems {
                stems.push(term.to_owned());
            }
            let weight =
                if asking.iter().any(|word| overlaps(word, &range)) { QUESTION_WORD_WEIGHT } else { 1.0 };
            let is_article_number = places_of_articles.overlap(&range);
            query.add_term(&mut places, layer, term, weight, is_article_number);
        });
        if meant > 0.0 {
            for (word, synonyms_of_word) in synonyms::find_synonyms(&stems) {
                let keys: Vec<Vec<u8>> =
                    synonyms_of_word.iter().map(|stem| term_key(TermLayer::Stems, stem)).collect();
                text_analysis::for_each_term(&word, |layer, term, _| {
                    query.add_synonym(&mut places, layer, term, meant, &keys);
                });
            }
        }
        query.words.truncate(MAX_PHRASE_WORDS);
        query.stems = stems.into_iter().collect();
        for (number, _) in articles {
            if query.articles.len() < MAX_QUERY_ARTICLES && !query.articles.contains(&number) {
                query.articles.push(number);
            }
        }
        query
    }

    fn add_term(
        &mut self,
        places: &mut HashMap<Vec<u8>, usize>,
        layer: TermLayer,
        term: &str,
        weight: f32,
        is_article_number: bool,
    ) {
        let key = term_key(layer, term);
        if let Some(at) = places.get(&key) {
            self.terms[*at].weight += weight;
        } else if self.terms.len() < MAX_QUERY_TERMS {
            places.insert(key.clone(), self.terms.len());
            self.terms.push(QueryTerm { key, layer, weight, synonym_of_keys: Vec::new(), is_article_number });
        }
    }

    /// Adds a synonym, unless it is already a term of the query.
    fn add_synonym(
        &mut self,
        places: &mut HashMap<Vec<u8>, usize>,
        layer: TermLayer,
        term: &str,
        weight: f32,
        keys: &[Vec<u8>],
    ) {
        let key = term_key(layer, term);
        if self.terms.len() < MAX_QUERY_TERMS && !places.contains_key(&key) {
            places.insert(key.clone(), self.terms.len());
            self.terms.push(QueryTerm {
                key,
                layer,
                weight,
                synonym_of_keys: keys.to_vec(),
                is_article_number: false,
            });
        }
    }
}

/// Where words stand in a query that say nothing about what is asked for, if others do.
fn question_word_places(text: &str) -> Vec<Range<usize>> {
    if text.len() > MAX_QUESTION_BYTES {
        return Vec::new();
    }
    let stems = text_stems(text);
    let mut asking: HashMap<Range<usize>, bool> = HashMap::new();
    for (stem, range) in &stems {
        let word = word_around(text, range);
        *asking.entry(word).or_insert(true) &= is_question_word(stem);
    }
    let (asking, others): (Vec<_>, Vec<_>) = asking.into_iter().partition(|(_, asks)| *asks);
    if others.is_empty() { Vec::new() } else { asking.into_iter().map(|(word, _)| word).collect() }
}

/// The word between spaces in which a range lies.
fn word_around(text: &str, range: &Range<usize>) -> Range<usize> {
    let space = text[..range.start].char_indices().rev().find(|(_, char)| char.is_whitespace());
    let start = space.map_or(0, |(at, char)| at + char.len_utf8());
    let end = text[range.end..].find(char::is_whitespace).map_or(text.len(), |at| range.end + at);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_bounded_number_of_articles() {
        let text: String = (0..200).map(|at| format!("제{}~{}조 ", at * 50 + 1, at * 50 + 50)).collect();
        let query = KeywordQuery::parse(&text, 1.0);
        let numbers: Vec<u32> = query.articles.iter().map(|article| article.number).collect();
        assert_eq!(numbers, (1..=64).collect::<Vec<_>>());
        assert!(query.terms.iter().all(|term| term.is_article_number), "{:?}", query.terms);
    }
}
