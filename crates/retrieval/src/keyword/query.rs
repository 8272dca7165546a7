//! What a question looks for: its own terms, words that mean the same, and articles asked for by number.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::passage::ArticleNumber;
use crate::text_analysis::{self, TermLayer};

use super::article_numbers::find_article_numbers;
use super::segment::term_key;
use super::stored_document::letters_and_digits;
use super::{phrase, synonyms};

/// No question is longer than this, in bytes; the rest is not looked at.
const MAX_QUERY_BYTES: usize = 16 * 1024;
/// The most terms of a question.
const MAX_QUERY_TERMS: usize = 768;
/// The most words of a question that are looked for side by side.
const MAX_PHRASE_WORDS: usize = 32;

/// A term that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct QueryTerm {
    pub(crate) key: Vec<u8>,
    pub(crate) layer: TermLayer,
    pub(crate) weight: f32,
    /// For a word that was not asked: the keys of those it stands for.
    pub(crate) synonym_of_keys: Vec<Vec<u8>>,
    /// Whether it is part of the number of an article, which is never a slip for another word.
    pub(crate) is_article_number: bool,
}

/// A question as the index sees it.
#[derive(Debug, Default)]
pub(crate) struct KeywordQuery {
    pub(crate) terms: Vec<QueryTerm>,
    pub(crate) articles: Vec<ArticleNumber>,
    /// The letters without spaces, to find the name of a document in.
    pub(crate) letters_and_digits: String,
    /// The words in their order.
    pub(crate) words: Vec<String>,
    /// The stems that were asked for.
    pub(crate) stems: HashSet<String>,
}

impl KeywordQuery {
    /// Reads a question. Words that mean the same as asked ones weigh `meant`.
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
            for (word, said) in synonyms::find_synonyms(&stems) {
                let said: Vec<Vec<u8>> = said.iter().map(|stem| term_key(TermLayer::Stems, stem)).collect();
                text_analysis::for_each_term(&word, |layer, term, _| {
                    query.add_synonym(&mut places, layer, term, meant, &said)
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

    /// Looks for a term that stands for others, unless it was asked for or is looked for already.
    fn add_synonym(
        &mut self,
        places: &mut HashMap<Vec<u8>, usize>,
        layer: TermLayer,
        term: &str,
        weight: f32,
        said: &[Vec<u8>],
    ) {
        let key = term_key(layer, term);
        if self.terms.len() < MAX_QUERY_TERMS && !places.contains_key(&key) {
            places.insert(key.clone(), self.terms.len());
            self.terms.push(QueryTerm {
                key,
                layer,
                weight,
                synonym_of_keys: said.to_vec(),
                is_article_number: false,
            });
        }
    }
}
