//! Ranks the units of the material by how well they answer a question: by the words they share, by meaning, and by the
//! kind of answer that is asked for. The weights are fitted by `training/answers`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use doran_retrieval::{BuiltInEncoder, is_one_typo_apart, stem_synonyms, text_stems};
use regex::Regex;

use super::units::{QuotableSource, QuotableUnit, UnitKind, split_units};

/// The most units that are ranked; material beyond is not read.
const MAX_UNITS: usize = 2000;

/// Words are weighed as if there were at least so many units, so that they weigh alike in little and in much material.
const MIN_WEIGHED_UNITS: f64 = 40.0;

/// The most units whose meaning is compared. Those that share most words come first.
const MAX_ENCODED_UNITS: usize = 96;

/// The names of the features, in order.
pub(super) const FEATURES: [&str; 13] = [
    "own",
    "wide",
    "weight",
    "meaning",
    "kind_fits",
    "kind_misses",
    "rank",
    "other_model",
    "other_document",
    "absent",
    "fragment",
    "absent_in_passage",
    "first_passage",
];

/// The places of features that are computed apart.
const MEANING: usize = 3;
const RANK: usize = 6;

/// What is known of a unit as an answer to a question.
pub(super) type Features = [f64; FEATURES.len()];

#[allow(clippy::expect_used, reason = "the pattern is fixed, and every test uses it")]
static MODEL_NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([A-Za-z]{1,5})-?(\d+[A-Za-z0-9]*)").expect("a pattern"));

static QUESTION_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("data/question_words.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
});

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static ANSWER_KINDS: LazyLock<Vec<[Regex; 2]>> = LazyLock::new(|| {
    let lines = include_str!("data/answer_kinds.tsv").lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let mut columns = line.split('\t').skip(1);
        [(); 2].map(|()| {
            let column = columns.next().expect("three columns");
            Regex::new(&format!("(?i){column}")).expect("a pattern")
        })
    };
    lines.map(read).collect()
});

/// A question, with the one before it where it leans on that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AskedQuestion<'q> {
    /// What is asked.
    pub(super) question: &'q str,
    /// What was asked before; empty where the question stands alone.
    pub(super) before: &'q str,
}

impl AskedQuestion<'_> {
    /// What an answer of the kind that is asked for looks like, where the question tells.
    pub(super) fn answer_pattern(&self) -> Option<&'static Regex> {
        let kind_of = |text: &str| ANSWER_KINDS.iter().find(|[asks, _]| asks.is_match(text));
        kind_of(self.question).or_else(|| kind_of(self.before)).map(|[_, looks]| looks)
    }
}

/// How much a word of the question before counts.
const BEFORE_SHARE: f64 = 0.6;

/// A word of a question, with other words for it.
pub(super) struct QuestionTerm {
    pub(super) stem: String,
    share: f64,
    /// Words that mean the same: all stems of one of these stand for the term.
    others: Vec<Vec<String>>,
}

impl QuestionTerm {
    /// Whether a short text, such as a title or a cell, holds the word.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        self.stem.chars().count() > 1 && !text.is_empty() && TextTerms::of(text).holds(self) > 0.0
    }
}

/// What a text holds.
struct TextTerms {
    stems: HashSet<String>,
    squeezed: String,
}

impl TextTerms {
    fn of(text: &str) -> Self {
        let mut stems: HashSet<String> = text_stems(text).into_iter().map(|(stem, _)| stem).collect();
        stems.extend(model_names(text).into_iter().map(|(name, _)| name));
        let squeezed = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        Self { stems, squeezed }
    }

    /// How far the text holds a term: 1 for the word itself.
    fn holds(&self, term: &QuestionTerm) -> f64 {
        let long = term.stem.chars().count() > 1;
        if self.stems.contains(&term.stem) || (long && self.squeezed.contains(&term.stem)) {
            1.0
        } else if term.others.iter().any(|other| other.iter().all(|stem| self.stems.contains(stem))) {
            0.8
        } else {
            0.0
        }
    }
}

/// Names such as `A-200`, `LP60`, `E3`, in lower case without the dash, each with its letters.
fn model_names(text: &str) -> Vec<(String, String)> {
    let found = MODEL_NAME.captures_iter(text);
    found.map(|name| (format!("{}{}", &name[1], &name[2]).to_lowercase(), name[1].to_lowercase())).collect()
}

/// Whether a stem of a question says nothing about what is asked for.
pub(super) fn is_question_word(stem: &str) -> bool {
    QUESTION_WORDS.contains(stem)
}

/// The words of a question that say what it is about.
pub(super) fn question_terms(question: &str) -> Vec<QuestionTerm> {
    let mut stems: Vec<String> = text_stems(question).into_iter().map(|(stem, _)| stem).collect();
    let synonyms = stem_synonyms(&stems);
    let names = model_names(question);
    // The parts of a name say less than the name.
    stems.retain(|stem| {
        !names
            .iter()
            .any(|(name, letters)| stem == letters || name.strip_prefix(letters.as_str()) == Some(stem))
    });
    stems.extend(names.into_iter().map(|(name, _)| name));
    stems.retain(|stem| !is_question_word(stem));
    let mut seen = BTreeSet::new();
    stems.retain(|stem| seen.insert(stem.clone()));
    let others = |stem: &String| {
        let meant = synonyms.iter().filter(|(_, said)| said.contains(stem));
        meant.map(|(word, _)| text_stems(word).into_iter().map(|(stem, _)| stem).collect()).collect()
    };
    stems.into_iter().map(|stem| QuestionTerm { others: others(&stem), share: 1.0, stem }).collect()
}

/// A unit with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct RankedUnit<'a> {
    /// The unit.
    pub(super) unit: QuotableUnit<'a>,
    /// Its features.
    pub(super) features: Features,
    /// How well it answers, by the fitted weights.
    pub(super) score: f64,
}

/// Gives a list that is a passage of its own the sentence that leads to it, which ends a passage of the same place.
fn join_lists<'a>(split: &mut [Vec<QuotableUnit<'a>>], sources: &[QuotableSource<'a>]) {
    let leads: Vec<Option<&'a str>> = split
        .iter()
        .map(|units| units.last().filter(|last| last.leads_to_list()).map(|last| last.text))
        .collect();
    for (number, units) in split.iter_mut().enumerate() {
        let open =
            units.first().is_some_and(|first| first.kind != UnitKind::Sentence && first.lead.is_empty());
        let same = |other: &usize| sources[*other].title == sources[number].title && *other != number;
        let lead = (0..sources.len()).filter(same).find_map(|other| leads[other]);
        let (Some(lead), true) = (lead, open) else { continue };
        let block = units[0].block;
        units.iter_mut().filter(|unit| unit.block == block).for_each(|unit| unit.lead = lead);
    }
}

/// The material, read once for several questions.
pub(super) struct UnitIndex<'a> {
    units: Vec<(QuotableUnit<'a>, TextTerms, TextTerms)>,
    documents: Vec<(&'a str, TextTerms)>,
    passages: Vec<TextTerms>,
    sources: Vec<QuotableSource<'a>>,
}

impl<'a> UnitIndex<'a> {
    /// Reads the sources.
    pub(super) fn new(sources: &[QuotableSource<'a>]) -> Self {
        let mut split: Vec<Vec<QuotableUnit<'a>>> = Vec::new();
        let mut count = 0;
        for (number, source) in sources.iter().enumerate() {
            let units = if count < MAX_UNITS { split_units(source, number) } else { Vec::new() };
            count += units.len();
            split.push(units);
        }
        join_lists(&mut split, sources);
        let mut documents: BTreeMap<&str, String> = BTreeMap::new();
        let mut units = Vec::with_capacity(count);
        for (source, split) in sources.iter().zip(split) {
            let all = documents.entry(source.document()).or_insert_with(|| source.document().to_owned());
            all.push(' ');
            all.push_str(source.text);
            for unit in split {
                let own = format!("{} {}", unit.header.unwrap_or_default(), unit.text);
                let wide = format!("{own} {} {} {}", unit.lead, unit.heading, source.title);
                units.push((unit, TextTerms::of(&own), TextTerms::of(&wide)));
            }
        }
        let documents = documents.into_iter().map(|(title, all)| (title, TextTerms::of(&all))).collect();
        let passages = sources
            .iter()
            .map(|source| TextTerms::of(&format!("{} {}", source.title, source.text)))
            .collect();
        Self { units, documents, passages, sources: sources.to_vec() }
    }

    /// The sources it was made of.
    pub(super) fn sources(&self) -> &[QuotableSource<'a>] {
        &self.sources
    }

    /// The units, in order.
    pub(super) fn units(&self) -> impl Iterator<Item = &QuotableUnit<'a>> {
        self.units.iter().map(|(unit, _, _)| unit)
    }

    /// The units, those that answer best first.
    pub(super) fn rank(&self, asked: AskedQuestion<'_>) -> Vec<RankedUnit<'a>> {
        let question = asked.question;
        let mut terms = question_terms(question);
        let names = model_names(question);
        for earlier in question_terms(asked.before) {
            // "A-300은요?" after a question about A-100 asks about A-300 alone.
            let replaced = names
                .iter()
                .any(|(_, letters)| model_names(&earlier.stem).iter().any(|(_, other)| other == letters));
            if !replaced && terms.iter().all(|term| term.stem != earlier.stem) {
                terms.push(QuestionTerm { share: BEFORE_SHARE, ..earlier });
            }
        }
        self.correct_typos(&mut terms);
        let held: Vec<Vec<(f64, f64)>> = terms
            .iter()
            .map(|term| self.units.iter().map(|(_, own, wide)| (own.holds(term), wide.holds(term))).collect())
            .collect();
        let count = (self.units.len() as f64).max(MIN_WEIGHED_UNITS);
        let weights: Vec<f64> = held
            .iter()
            .zip(&terms)
            .map(|(held, term)| {
                let holders = held.iter().filter(|(_, wide)| *wide > 0.0).count() as f64;
                if holders > 0.0 {
                    term.share * (1.0 + (count - holders + 0.5) / (holders + 0.5)).ln()
                } else {
                    0.0
                }
            })
            .collect();
        // A word of one syllable is mostly a part of a verb.
        let mut nouns: Vec<&QuestionTerm> =
            terms.iter().filter(|term| term.stem.chars().count() > 1).collect();
        if nouns.iter().any(|term| term.share == 1.0) {
            // What a follow-up adds must be there, too.
            nouns.retain(|term| term.share == 1.0);
        }
        let absent_from = |holds: &dyn Fn(&QuestionTerm) -> bool| {
            nouns.iter().filter(|term| !holds(term)).count() as f64 / (nouns.len().max(1) as f64)
        };
        let absent = absent_from(&|term| self.passages.iter().any(|passage| passage.holds(term) > 0.0));
        let absent_in: Vec<f64> =
            self.passages.iter().map(|passage| absent_from(&|term| passage.holds(term) > 0.0)).collect();
        let whole: f64 = weights.iter().sum::<f64>().max(1e-9);
        let looks = asked.answer_pattern();
        let document_share = self.document_shares(&terms);
        let mut ranked: Vec<RankedUnit<'a>> = Vec::with_capacity(self.units.len());
        for (at, (unit, _, _)) in self.units.iter().enumerate() {
            let sum = |of: &dyn Fn(&(f64, f64)) -> f64| -> f64 {
                held.iter().zip(&weights).map(|(held, weight)| of(&held[at]) * weight).sum()
            };
            let (own, wide) = (sum(&|held| held.0), sum(&|held| held.1));
            let told = format!("{} {}", unit.header.unwrap_or_default(), unit.text);
            let fits = looks.map(|looks| looks.is_match(unit.text));
            let here = model_names(&told);
            let other = names.iter().any(|(name, letters)| {
                !here.iter().any(|(one, _)| one == name) && here.iter().any(|(_, one)| one == letters)
            });
            let shared = document_share.get(self.sources[unit.source].document()).copied().unwrap_or(0.0);
            let is = |yes: bool| f64::from(u8::from(yes));
            let features = [
                own / whole,
                wide / whole,
                (1.0 + wide).ln(),
                0.0,
                is(fits == Some(true)),
                is(fits == Some(false)),
                1.0 / (1.0 + unit.source as f64),
                is(other),
                1.0 - shared,
                absent,
                is(unit.is_fragment()),
                absent_in[unit.source],
                is(unit.source == 0),
            ];
            ranked.push(RankedUnit { unit: unit.clone(), features, score: 0.0 });
        }
        self.add_meaning(&format!("{} {question}", asked.before), &mut ranked);
        for one in &mut ranked {
            one.score = super::weights::score(&one.features);
        }
        ranked.sort_by(|left, right| right.score.total_cmp(&left.score));
        ranked
    }

    /// The share of the words of a question that each unit holds.
    pub(super) fn share_words(&self, question: &str) -> Vec<(f64, &'a str)> {
        let terms = question_terms(question);
        let count = terms.len().max(1) as f64;
        let share = |own: &TextTerms| terms.iter().map(|term| own.holds(term)).sum::<f64>() / count;
        self.units.iter().map(|(unit, own, _)| (share(own), unit.text)).collect()
    }

    /// A word that stands nowhere may be a word of the material with a typo.
    fn correct_typos(&self, terms: &mut [QuestionTerm]) {
        let vocabulary: BTreeSet<&String> = self.units.iter().flat_map(|(_, _, wide)| &wide.stems).collect();
        for term in terms {
            if self.units.iter().any(|(_, _, wide)| wide.holds(term) > 0.0) {
                continue;
            }
            let meant = vocabulary.iter().filter(|word| is_one_typo_apart(&term.stem, word));
            term.others.extend(meant.map(|word| vec![(*word).clone()]));
        }
    }

    /// How far each document holds the words of the question, relative to the one that holds most.
    fn document_shares(&self, terms: &[QuestionTerm]) -> BTreeMap<&'a str, f64> {
        let count = |all: &TextTerms| terms.iter().map(|term| all.holds(term)).sum::<f64>();
        let counts: Vec<(&str, f64)> =
            self.documents.iter().map(|(title, all)| (*title, count(all))).collect();
        let most = counts.iter().map(|(_, count)| *count).fold(1e-9, f64::max);
        counts.into_iter().map(|(title, count)| (title, count / most)).collect()
    }

    /// Compares meanings. Without the encoder, which is compiled in, words alone decide.
    fn add_meaning(&self, question: &str, ranked: &mut [RankedUnit<'a>]) {
        let Ok(encoder) = BuiltInEncoder::open() else { return };
        let mut order: Vec<usize> = (0..ranked.len()).collect();
        let likely = |at: &usize| ranked[*at].features[..2].iter().sum::<f64>() + ranked[*at].features[RANK];
        order.sort_by(|left, right| likely(right).total_cmp(&likely(left)));
        order.truncate(MAX_ENCODED_UNITS);
        let asked = encoder.embed_query(question);
        let near =
            |vector: &Vec<f32>| vector.iter().zip(&asked).map(|(left, right)| f64::from(left * right)).sum();
        let told = |at: &usize| {
            let unit = &ranked[*at].unit;
            let title = self.sources[unit.source].title;
            format!("{title} {} {} {}", unit.lead, unit.header.unwrap_or_default(), unit.text)
        };
        let texts: Vec<String> = order.iter().map(told).collect();
        let vectors = encoder.embed_passages(&texts);
        for (at, vector) in order.into_iter().zip(&vectors) {
            ranked[at].features[MEANING] = near(vector);
        }
    }
}
