//! Finds the articles that a comparison of one subject is about, in a contract and its standard: by number, by title, or by
//! the words that they share with it. Two articles on one matter are found together, whichever of them has the words.

use std::collections::BTreeSet;

use doran_retrieval::contract::{
    ArticleReference, Contract, ContractArticle, ContractComparison, find_article_references,
};
use doran_retrieval::{ArticleNumber, Document, is_hangul_syllable, stem_synonyms, text_stems};

use super::call_planning::is_of_standard;

/// Most pairs of articles on one subject: those that have its words almost alike.
const MAX_PAIRS_OF_SUBJECT: usize = 2;
/// A pair is on the subject as well if it has this share of what the best has.
const MIN_SHARE_OF_BEST: f64 = 0.85;
/// A pair must have this share of the words of the subject, weighed by how rare they are.
const MIN_SHARE_OF_WORDS: f64 = 0.49;
/// How much a word counts that stands in the title of an article.
const TITLE_WEIGHT: f64 = 2.0;
/// How far a word is there of which only a part or another word for it is.
const PART_HOLDS: f64 = 0.5;
const SYNONYM_HOLDS: f64 = 0.8;

/// An article of the contract with the one of the standard that answers to it, or one of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArticlePair {
    pub(super) own: Option<ArticleNumber>,
    pub(super) standard: Option<ArticleNumber>,
}

/// How a subject names articles; the later, the surer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubjectMatch {
    Similar,
    Mentioned,
    Titled,
    Numbered,
}

/// A contract beside its standard.
#[derive(Clone, Copy)]
pub(super) struct ComparedContracts<'a> {
    pub(super) own: (&'a Contract, &'a Document),
    pub(super) standard: (&'a Contract, &'a Document),
    pub(super) comparison: &'a ContractComparison,
}

impl ComparedContracts<'_> {
    /// All articles of both, in the order of the contract and then of what only the standard has.
    pub(super) fn pairs(&self) -> Vec<ArticlePair> {
        let answering = |own: ArticleNumber| {
            self.comparison.matched.iter().find(|pair| pair.own == own).map(|pair| pair.standard)
        };
        let own = self.own.0.articles.iter().map(|article| article.number);
        let own = own.map(|own| ArticlePair { own: Some(own), standard: answering(own) });
        let missing = self.comparison.missing.iter();
        own.chain(missing.map(|standard| ArticlePair { own: None, standard: Some(*standard) })).collect()
    }

    /// The articles that a subject names, and how; nothing where neither contract has any.
    pub(super) fn find_subject(&self, subject: &str) -> Option<(SubjectMatch, Vec<ArticlePair>)> {
        let pairs = self.pairs();
        let with_own = |number| pairs.iter().find(|pair| pair.own == Some(number)).copied();
        let with_standard = |number| pairs.iter().find(|pair| pair.standard == Some(number)).copied();
        if let Some((reference, of_standard)) = named_article(subject) {
            let own = if of_standard { None } else { with_own(reference.article) };
            // An article that the contract lacks may still be one of the standard.
            let how =
                if own.is_some() || of_standard { SubjectMatch::Numbered } else { SubjectMatch::Similar };
            return own.or_else(|| with_standard(reference.article)).map(|pair| (how, vec![pair]));
        }
        let titled = |contract: &Contract, equal: bool| {
            let found = contract.articles_by_title(subject).into_iter().next();
            found.filter(|(_, likeness)| !equal || *likeness >= 1.0).map(|(article, _)| article.number)
        };
        let by_title = |equal: bool| {
            let own = titled(self.own.0, equal).and_then(with_own);
            own.or_else(|| titled(self.standard.0, equal).and_then(with_standard)).map(|pair| vec![pair])
        };
        let (how, mut found) = by_title(true)
            .map(|pairs| (SubjectMatch::Titled, pairs))
            .or_else(|| self.pairs_with_words(&pairs, subject).map(|pairs| (SubjectMatch::Mentioned, pairs)))
            .or_else(|| by_title(false).map(|pairs| (SubjectMatch::Similar, pairs)))?;
        if how > SubjectMatch::Similar {
            found.iter_mut().for_each(|pair| self.add_missing_side(pair, subject));
        }
        Some((how, found))
    }

    /// Lays beside an article that only one side has the article of the other side that has most of the words of the subject:
    /// one may have as a clause what the other has as an article.
    fn add_missing_side(&self, pair: &mut ArticlePair, subject: &str) {
        let numbers = |contract: &Contract| -> Vec<ArticleNumber> {
            contract.articles.iter().map(|article| article.number).collect()
        };
        let alone: Vec<ArticlePair> = match pair {
            ArticlePair { own: None, .. } => numbers(self.own.0)
                .into_iter()
                .map(|own| ArticlePair { own: Some(own), standard: None })
                .collect(),
            ArticlePair { standard: None, .. } => numbers(self.standard.0)
                .into_iter()
                .map(|standard| ArticlePair { own: None, standard: Some(standard) })
                .collect(),
            ArticlePair { .. } => return,
        };
        if let Some([other, ..]) = self.pairs_with_words(&alone, subject).as_deref() {
            *pair = ArticlePair { own: pair.own.or(other.own), standard: pair.standard.or(other.standard) };
        }
    }

    /// The pairs that have most of the words of a subject.
    fn pairs_with_words(&self, pairs: &[ArticlePair], subject: &str) -> Option<Vec<ArticlePair>> {
        let (words, squeezed) = (subject_words(subject), squeeze(subject));
        let read = |(contract, document): (&Contract, &Document), number: Option<ArticleNumber>| {
            number
                .and_then(|number| contract.article(number))
                .map(|article| ArticleWords::new(document, article))
        };
        let texts: Vec<Vec<ArticleWords>> = pairs
            .iter()
            .map(|pair| [read(self.own, pair.own), read(self.standard, pair.standard)].into_iter().flatten())
            .map(Iterator::collect)
            .collect();
        // A word that few articles have tells more.
        let weights: Vec<f64> = words
            .iter()
            .map(|word| {
                let holders =
                    texts.iter().filter(|texts| texts.iter().any(|text| text.all.holds(word) > 0.0));
                (1.0 + texts.len() as f64 / holders.count().max(1) as f64).ln()
            })
            .collect();
        let total: f64 = weights.iter().sum();
        let sum = |texts: &[ArticleWords], held: &dyn Fn(&ArticleWords, &SubjectWord) -> f64| -> f64 {
            let most = |word: &SubjectWord| texts.iter().map(|text| held(text, word)).fold(0.0, f64::max);
            words.iter().zip(&weights).map(|(word, weight)| weight * most(word)).sum()
        };
        let mut scored: Vec<(f64, ArticlePair)> = Vec::new();
        for (pair, texts) in pairs.iter().zip(&texts) {
            let share = sum(texts, &|text, word| text.all.holds(word)) / total;
            let is_titled = texts.iter().any(|text| text.has_title_in(&squeezed));
            if share >= MIN_SHARE_OF_WORDS || is_titled {
                let titled = |text: &ArticleWords, word: &SubjectWord| {
                    (TITLE_WEIGHT * text.title.holds(word)).max(text.all.holds(word))
                };
                scored.push((sum(texts, &titled), *pair));
            }
        }
        // Equal ones keep the order of the contract.
        scored.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let best = scored.first()?.0;
        scored.retain(|(score, _)| *score >= best * MIN_SHARE_OF_BEST);
        Some(scored.into_iter().take(MAX_PAIRS_OF_SUBJECT).map(|(_, pair)| pair).collect())
    }
}

/// The article that a subject names by number, and whether it is one of the standard: 표준계약서 제9조.
pub(super) fn named_article(subject: &str) -> Option<(ArticleReference, bool)> {
    let found = find_article_references(subject).into_iter().find(|one| one.law.is_none());
    let reference = found.or_else(|| ArticleReference::parse(subject))?;
    let of_standard = is_of_standard(&subject[..reference.range.start], &subject[reference.range.end..]);
    Some((reference, of_standard))
}

/// Whether any article of a contract has a word of a subject.
pub(super) fn mentions_subject(contract: &Contract, document: &Document, subject: &str) -> bool {
    let words = subject_words(subject);
    let holds = |article: &ContractArticle| {
        let text = ArticleWords::new(document, article);
        words.iter().any(|word| text.all.holds(word) > 0.0)
    };
    contract.articles.iter().any(holds)
}

/// A word of a subject.
struct SubjectWord {
    /// It in lower case. Its end may be a particle.
    letters: Vec<char>,
    stems: Vec<String>,
    /// Other words for it, as stems.
    others: Vec<Vec<String>>,
}

fn subject_words(subject: &str) -> Vec<SubjectWord> {
    let words = subject.split(|char: char| !char.is_alphanumeric());
    let words = words.filter(|word| word.chars().count() > 1);
    let read = |word: &str| {
        let stems: Vec<String> = text_stems(word).into_iter().map(|(stem, _)| stem).collect();
        let others = stem_synonyms(&stems).into_iter().map(|(other, _)| other);
        let others = others.map(|other| text_stems(&other).into_iter().map(|(stem, _)| stem).collect());
        let others = others.filter(|stems: &Vec<String>| !stems.is_empty()).collect();
        SubjectWord { letters: word.chars().flat_map(char::to_lowercase).collect(), stems, others }
    };
    words.map(read).collect()
}

/// The words of an article: of its title, and of all of it.
struct ArticleWords {
    title: WordsOfText,
    all: WordsOfText,
}

impl ArticleWords {
    fn new(document: &Document, article: &ContractArticle) -> Self {
        let body = document.text.get(article.body.clone()).unwrap_or_default();
        Self {
            title: WordsOfText::new(&article.title),
            all: WordsOfText::new(&format!("{}\n{body}", article.title)),
        }
    }

    /// Whether a subject names the whole title, as 지체상금 상한 does 지체상금.
    fn has_title_in(&self, squeezed: &str) -> bool {
        self.title.squeezed.chars().count() > 1 && squeezed.contains(&self.title.squeezed)
    }
}

/// The letters and digits of a text in lower case.
fn squeeze(text: &str) -> String {
    text.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

struct WordsOfText {
    squeezed: String,
    stems: BTreeSet<String>,
}

impl WordsOfText {
    fn new(text: &str) -> Self {
        Self { squeezed: squeeze(text), stems: text_stems(text).into_iter().map(|(stem, _)| stem).collect() }
    }

    /// How far the text has a word, from 0 to 1. Of a Korean word the end may be a particle, and its front may be there alone.
    fn holds(&self, word: &SubjectWord) -> f64 {
        let has_all =
            |stems: &[String]| !stems.is_empty() && stems.iter().all(|stem| self.stems.contains(stem));
        let is_korean = word.letters.iter().copied().any(is_hangul_syllable);
        let whole = match is_korean {
            true => self.holds_front(&word.letters),
            false if has_all(&word.stems) => 1.0,
            false => 0.0,
        };
        let is_long = |stem: &String| stem.chars().count() > 1;
        let by_stems = is_korean && word.stems.iter().all(is_long) && has_all(&word.stems);
        let alike = by_stems || word.others.iter().any(|stems| has_all(stems));
        whole.max(if alike { SYNONYM_HOLDS } else { 0.0 })
    }

    fn holds_front(&self, letters: &[char]) -> f64 {
        let count = letters.len();
        for length in (2.max(count.div_ceil(2))..=count).rev() {
            let front: String = letters[..length].iter().collect();
            if self.squeezed.contains(&front) {
                // A particle has one syllable, or two after a longer word.
                let is_whole = count - length <= 1 || count - length == 2 && length > 2;
                return if is_whole { 1.0 } else { PART_HOLDS };
            }
        }
        0.0
    }
}
