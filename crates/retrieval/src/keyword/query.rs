//! What a question looks for: its own terms, words that mean the same, and articles asked for by number.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::passage::ArticleNumber;
use crate::text::{self, Layer};

use super::article::articles_named;
use super::held::bare;
use super::segment::key_of;
use super::{everyday, phrase};

/// No question is longer than this, in bytes; the rest is not looked at.
const LONGEST: usize = 16 * 1024;
/// The most terms of a question.
const MOST: usize = 768;
/// The most words of a question that are looked for side by side.
const MOST_WORDS: usize = 32;

/// A term that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Vec<u8>,
    pub(crate) layer: Layer,
    pub(crate) weight: f32,
    /// For a word that was not asked: the keys of those it stands for.
    pub(crate) said: Vec<Vec<u8>>,
    /// Whether it is part of the number of an article, which is never a slip for another word.
    pub(crate) number: bool,
}

/// A question as the index sees it.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) terms: Vec<Wanted>,
    pub(crate) articles: Vec<ArticleNumber>,
    /// The letters without spaces, to find the name of a document in.
    pub(crate) bare: String,
    /// The words in their order.
    pub(crate) words: Vec<String>,
    /// The stems that were asked for.
    pub(crate) stems: HashSet<String>,
}

impl Query {
    /// Reads a question. Words that mean the same as asked ones weigh `meant`.
    pub(crate) fn of(text: &str, meant: f32) -> Self {
        let text = &text[..text.floor_char_boundary(LONGEST)];
        let mut query = Self { bare: bare(text), words: phrase::words(text), ..Self::default() };
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut stems = Vec::new();
        let articles = articles_named(text);
        text::terms(text, |layer, term, range| {
            if layer == Layer::Stems {
                stems.push(term.to_owned());
            }
            let of_number = |of: &Range<usize>| range.start < of.end && of.start < range.end;
            query.want(&mut places, layer, term, articles.iter().any(|(_, of)| of_number(of)));
        });
        if meant > 0.0 {
            for (word, said) in everyday::meant_by(&stems) {
                let said: Vec<Vec<u8>> = said.iter().map(|stem| key_of(Layer::Stems, stem)).collect();
                text::terms(&word, |layer, term, _| query.mean(&mut places, layer, term, meant, &said));
            }
        }
        query.words.truncate(MOST_WORDS);
        query.stems = stems.into_iter().collect();
        for (number, _) in articles {
            if !query.articles.contains(&number) {
                query.articles.push(number);
            }
        }
        query
    }

    fn want(&mut self, places: &mut HashMap<Vec<u8>, usize>, layer: Layer, term: &str, number: bool) {
        let key = key_of(layer, term);
        if let Some(at) = places.get(&key) {
            self.terms[*at].weight += 1.0;
        } else if self.terms.len() < MOST {
            places.insert(key.clone(), self.terms.len());
            self.terms.push(Wanted { key, layer, weight: 1.0, said: Vec::new(), number });
        }
    }

    /// Looks for a term that stands for others, unless it was asked for or is looked for already.
    fn mean(
        &mut self,
        places: &mut HashMap<Vec<u8>, usize>,
        layer: Layer,
        term: &str,
        weight: f32,
        said: &[Vec<u8>],
    ) {
        let key = key_of(layer, term);
        if self.terms.len() < MOST && !places.contains_key(&key) {
            places.insert(key.clone(), self.terms.len());
            self.terms.push(Wanted { key, layer, weight, said: said.to_vec(), number: false });
        }
    }
}
