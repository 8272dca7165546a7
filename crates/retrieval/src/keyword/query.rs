//! Parses a query: its own terms, their synonyms, and the articles that it names by number.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::passage::ArticleNumber;
use crate::text_analysis::{self, TermLayer};

use super::article_numbers::find_article_numbers;
use super::segment::term_key;
use super::stored_document::letters_and_digits;
use super::{phrase, synonyms};

/// A query is cut to this many bytes.
const MAX_QUERY_BYTES: usize = 16 * 1024;
/// The maximum number of terms in a query.
const MAX_QUERY_TERMS: usize = 768;
/// The maximum number of words that are searched as a phrase.
const MAX_PHRASE_WORDS: usize = 32;

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
        text_analysis::for_each_term(text, |layer, term, range| {
            if layer == TermLayer::Stems {
                stems.push(term.to_owned());
            }
            let of_number = |of: &Range<usize>| range.start < of.end && of.start < range.end;
            query.add_term(&mut places, layer, term, articles.iter().any(|(_, of)| of_number(of)));
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
            if !query.articles.contains(&number) {
                query.articles.push(number);
            }
        }
        query
    }

    fn add_term(&mut self, places: &mut HashMap<Vec<u8>, usize>, layer: TermLayer, term: &str, number: bool) {
        let key = term_key(layer, term);
        if let Some(at) = places.get(&key) {
            self.terms[*at].weight += 1.0;
        } else if self.terms.len() < MAX_QUERY_TERMS {
            places.insert(key.clone(), self.terms.len());
            self.terms.push(QueryTerm {
                key,
                layer,
                weight: 1.0,
                synonym_of_keys: Vec::new(),
                is_article_number: number,
            });
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
