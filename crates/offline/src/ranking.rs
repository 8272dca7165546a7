//! Ranks the units of the material by how well they answer a question: by the words they share, by meaning, and by the
//! kind of answer that is asked for. The weights are fitted by `training/answers`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;

use doran_encoder::AnswerCandidate;
use doran_retrieval::{is_hangul, is_one_typo_apart, is_question_word, stem_synonyms, text_stems};
use regex::Regex;

use super::cues::Cue;
use super::meaning;
use super::units::{QuotableSource, QuotableUnit, UnitKind, row_cells, split_units};
use super::weights;

/// The most units that are ranked; material beyond is not read.
const MAX_UNITS: usize = 2000;

/// Words are weighed as if there were at least so many units, so that they weigh alike in little and in much material.
const MIN_WEIGHED_UNITS: f64 = 40.0;

/// The most units whose meaning is compared: those that answer best by words. The rest counts as the least near of them.
const MAX_COMPARED_MEANINGS: usize = 24;

/// The most units that the answer scorer reads: the best by words and meaning.
const MAX_SCORED_UNITS: usize = 12;

/// The names of the features, in order. `own` is the share of the words of the question that stand in the unit, weighed by how
/// rare they are. A name says of whom the question is. `rank` falls with the place of the passage in the search. `scorer` is
/// what the answer scorer says, which reads the question and the unit together.
pub(super) const FEATURES: [&str; 6] = ["own", "name_near", "meaning", "kind_misses", "rank", "scorer"];

/// The place of the feature that says that a unit is not of the kind that is asked for.
pub(super) const KIND_MISSES: usize = 3;

/// The place of the share of the words.
const OWN: usize = 0;

/// The places of the features that are computed for the best units only.
const MEANING: usize = 2;
const SCORER: usize = 5;

/// How far the scores of the answer scorer count. A unit that it did not read has the least.
const MIN_SCORE: f64 = -10.0;
const MAX_SCORE: f64 = 10.0;

/// What is known of a unit as an answer to a question.
pub(super) type Features = [f64; FEATURES.len()];

#[allow(clippy::expect_used, reason = "the pattern is fixed, and every test uses it")]
static COUNTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[^A-Za-z0-9_-])(\d[\d,]*)([가-힣])").expect("a pattern"));

/// A kind of answer that a question asks for, such as a time or a person.
pub(super) struct AnswerKind {
    asks: Regex,
    looks: Regex,
    heads: Regex,
}

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static ANSWER_KINDS: LazyLock<Vec<AnswerKind>> = LazyLock::new(|| {
    let lines = include_str!("data/answer_kinds.tsv").lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let mut columns = line.split('\t').skip(1);
        let [asks, looks, heads] = [(); 3].map(|()| {
            let column = columns.next().expect("four columns");
            Regex::new(&format!("(?i){column}")).expect("a pattern")
        });
        AnswerKind { asks, looks, heads }
    };
    lines.map(read).collect()
});

impl AnswerKind {
    /// Whether a text may be an answer of this kind.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.looks.is_match(text)
    }

    /// Whether a column with this head has answers of this kind.
    pub(super) fn is_headed(&self, head: &str) -> bool {
        self.heads.is_match(head)
    }
}

/// A question, with the one before it where it leans on that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AskedQuestion<'q> {
    /// What is asked.
    pub(super) question: &'q str,
    /// What was asked before; empty where the question stands alone.
    pub(super) before: &'q str,
}

impl AskedQuestion<'_> {
    /// The kind of answer that is asked for, where the question tells.
    pub(super) fn answer_kind(&self) -> Option<&'static AnswerKind> {
        let kind_of = |text: &str| ANSWER_KINDS.iter().find(|kind| kind.asks.is_match(text));
        kind_of(self.question).or_else(|| kind_of(self.before))
    }
}

/// How much a word of the question before counts.
const BEFORE_SHARE: f64 = 0.4;

/// A word of a question, with other words for it.
pub(super) struct QuestionTerm {
    pub(super) stem: String,
    share: f64,
    /// Words that mean the same: all stems of one of these stand for the term.
    pub(super) others: Vec<Vec<String>>,
    /// Of a noun with a head of one syllable, such as 급여일, what stands before the head. It is a part of what is asked.
    front: Option<Box<QuestionTerm>>,
}

/// How far a word is held where only another word for it is there, and where only its front is.
const SYNONYM_DEGREE: f64 = 0.8;
const FRONT_DEGREE: f64 = 0.4;

/// How far a word is held that stands in the answer to a frequent question and not in that question.
const ANSWER_DEGREE: f64 = 0.8;

impl QuestionTerm {
    /// Whether a short text, such as a title or a cell, holds the word.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        self.stem.chars().count() > 1 && !text.is_empty() && TextTerms::of(text).match_degree(self) > 0.0
    }
}

/// What a text holds.
#[derive(Default)]
struct TextTerms {
    stems: HashSet<String>,
    squeezed: String,
    /// Where words begin in the squeezed text, and where it ends.
    bounds: BTreeSet<usize>,
}

impl TextTerms {
    fn of(text: &str) -> Self {
        let mut terms = Self::default();
        terms.add(&stems_of(text), text);
        terms
    }

    fn add(&mut self, stems: &[String], text: &str) {
        self.stems.extend(stems.iter().cloned());
        for word in text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()) {
            self.bounds.insert(self.squeezed.len());
            self.squeezed.extend(word.chars().flat_map(char::to_lowercase));
        }
        self.bounds.insert(self.squeezed.len());
    }

    /// Whether a word stands in the text, with or without spaces in it: 손해배상 in "손해 배상". A Korean word may also be a part of
    /// another one.
    fn contains(&self, word: &str) -> bool {
        let is_korean = word.chars().any(is_hangul);
        self.squeezed.match_indices(word).any(|(start, _)| {
            let end = start + word.len();
            let is_whole = self.bounds.contains(&start) && (is_korean || self.bounds.contains(&end));
            is_whole || is_korean && self.bounds.range(start + 1..end).next().is_none()
        })
    }

    /// How far the text holds a term: 1 for the word itself.
    fn match_degree(&self, term: &QuestionTerm) -> f64 {
        let long = term.stem.chars().count() > 1;
        if self.stems.contains(&term.stem) || (long && self.contains(&term.stem)) {
            1.0
        } else if term.others.iter().any(|other| other.iter().all(|stem| self.stems.contains(stem))) {
            SYNONYM_DEGREE
        } else {
            term.front.as_ref().map_or(0.0, |front| FRONT_DEGREE * self.match_degree(front))
        }
    }
}

fn stems_of(text: &str) -> Vec<String> {
    text_stems(text).into_iter().map(|(stem, _)| stem).chain(counted_numbers(text)).collect()
}

/// Numbers with the syllable behind them: 3인 in 3인실, 6개 in 6개월. The number alone stands for any of them.
fn counted_numbers(text: &str) -> Vec<String> {
    let found = COUNTED.captures_iter(text);
    found.map(|counted| format!("{}{}", counted[1].replace(',', ""), &counted[2])).collect()
}

/// The words of a question that say what it is about.
pub(super) fn question_terms(question: &str) -> Vec<QuestionTerm> {
    let found = text_stems(question);
    let mut stems: Vec<String> = found.iter().map(|(stem, _)| stem.clone()).collect();
    let synonyms = stem_synonyms(&stems);
    let compounds = compounds(question, &found);
    let counted = counted_numbers(question);
    // The number alone stands for any of them.
    let is_counted = |stem: &String| {
        stem.bytes().all(|byte| byte.is_ascii_digit())
            && counted.iter().any(|number| number.starts_with(stem.as_str()))
    };
    stems.retain(|stem| !is_counted(stem));
    stems.extend(counted);
    stems.retain(|stem| !is_question_word(stem));
    let mut seen = BTreeSet::new();
    stems.retain(|stem| seen.insert(stem.clone()));
    let meant = |is_meant: &dyn Fn(&Vec<String>) -> bool| {
        let words = synonyms.iter().filter(|(_, said)| is_meant(said)).map(|(word, _)| word);
        let stems = |word: &String| text_stems(word).into_iter().map(|(stem, _)| stem).collect::<Vec<_>>();
        // A word that search takes for a verb, such as 하자, has no stem: no text is known to hold it.
        words.map(stems).filter(|stems| !stems.is_empty()).collect()
    };
    let term = |stem: String| {
        let others = meant(&|said| said.contains(&stem));
        QuestionTerm { others, share: 1.0, stem, front: None }
    };
    let heads: Vec<&String> = compounds.iter().map(|[_, head]| head).collect();
    let mut terms = Vec::new();
    for stem in stems {
        match compounds.iter().find(|[front, _]| *front == stem) {
            Some([front, head]) => {
                let others = meant(&|said| *said == [front.clone(), head.clone()]);
                let whole = format!("{front}{head}");
                terms.push(QuestionTerm {
                    others,
                    share: 1.0,
                    stem: whole,
                    front: Some(Box::new(term(stem))),
                });
            }
            None if heads.contains(&&stem) => {}
            None => terms.push(term(stem)),
        }
    }
    terms
}

/// The nouns of a question with a head of one syllable, as two stems: 급여 and 일 of 급여일.
fn compounds(question: &str, stems: &[(String, Range<usize>)]) -> Vec<[String; 2]> {
    let is_noun = |(stem, range): &(String, Range<usize>)| {
        question[range.clone()] == *stem && stem.chars().all(is_hangul) && !is_question_word(stem)
    };
    let pairs = stems.windows(2).filter(|pair| {
        pair[0].1.end == pair[1].1.start
            && pair.iter().all(is_noun)
            && pair[0].0.chars().count() > 1
            && pair[1].0.chars().count() == 1
    });
    pairs.map(|pair| [pair[0].0.clone(), pair[1].0.clone()]).collect()
}

/// A unit with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct RankedUnit<'a> {
    /// The unit.
    pub(super) unit: QuotableUnit<'a>,
    /// Its features.
    pub(super) features: Features,
    /// The weight of the rarest word of the question that stands neither in it nor around it.
    pub(super) rarest_missing: f64,
    /// How well it answers, by the fitted weights.
    pub(super) score: f64,
}

impl RankedUnit<'_> {
    /// Whether it holds every word of the question that counts.
    pub(super) fn has_all_words(&self) -> bool {
        self.features[OWN] > 0.99
    }
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

/// A unit with its words.
struct IndexedUnit<'a> {
    unit: QuotableUnit<'a>,
    own: TextTerms,
    /// Those of the question that it answers.
    question: TextTerms,
    /// Its words and those around it.
    with_context: TextTerms,
}

/// The material, read once for several questions.
pub(super) struct UnitIndex<'a> {
    units: Vec<IndexedUnit<'a>>,
    documents: BTreeMap<&'a str, TextTerms>,
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
        // Titles, headings and heads of tables are the same for many units.
        let mut known: HashMap<&'a str, Rc<Vec<String>>> = HashMap::new();
        let mut stems = |text: &'a str| known.entry(text).or_insert_with(|| Rc::new(stems_of(text))).clone();
        let mut documents: BTreeMap<&str, TextTerms> = BTreeMap::new();
        let mut units = Vec::with_capacity(count);
        for (source, split) in sources.iter().zip(split) {
            let document = documents.entry(source.document()).or_default();
            document.add(&stems(source.title), source.title);
            document.add(&stems_of(source.text), source.text);
            for unit in split {
                let (mut own, mut with_context) = (TextTerms::default(), TextTerms::default());
                for text in [unit.header.unwrap_or_default(), unit.text] {
                    own.add(&stems(text), text);
                    with_context.add(&stems(text), text);
                }
                let question = TextTerms::of(unit.question_above());
                [unit.lead, unit.heading, source.title]
                    .into_iter()
                    .for_each(|text| with_context.add(&stems(text), text));
                units.push(IndexedUnit { unit, own, question, with_context });
            }
        }
        Self { units, documents, sources: sources.to_vec() }
    }

    /// The sources it was made of.
    pub(super) fn sources(&self) -> &[QuotableSource<'a>] {
        &self.sources
    }

    /// The units, in order.
    pub(super) fn units(&self) -> impl Iterator<Item = &QuotableUnit<'a>> {
        self.units.iter().map(|one| &one.unit)
    }

    /// The terms of a question, with those of the one before it.
    fn terms(&self, asked: AskedQuestion<'_>) -> Vec<QuestionTerm> {
        let mut terms = question_terms(asked.question);
        for earlier in question_terms(asked.before) {
            if terms.iter().all(|term| term.stem != earlier.stem) {
                terms.push(QuestionTerm { share: BEFORE_SHARE, ..earlier });
            }
        }
        self.correct_typos(&mut terms);
        terms
    }

    /// The units, those that answer best first.
    pub(super) fn rank(&self, asked: AskedQuestion<'_>) -> Vec<RankedUnit<'a>> {
        let terms = self.terms(asked);
        let degrees =
            |text: &TextTerms| -> Vec<f64> { terms.iter().map(|term| text.match_degree(term)).collect() };
        let own: Vec<Vec<f64>> = self
            .units
            .iter()
            .map(|one| match one.unit.question_above() {
                "" => degrees(&one.own),
                _ => {
                    let own: Vec<f64> = degrees(&one.own).iter().map(|own| own * ANSWER_DEGREE).collect();
                    most(&own, &degrees(&one.question))
                }
            })
            .collect();
        let with_context: Vec<Vec<f64>> = self.units.iter().map(|one| degrees(&one.with_context)).collect();
        let documents: BTreeMap<&str, Vec<f64>> =
            self.documents.iter().map(|(title, document)| (*title, degrees(document))).collect();
        let count = (self.units.len() as f64).max(MIN_WEIGHED_UNITS);
        let rarity: Vec<f64> = (0..terms.len())
            .map(|at| {
                let holders = with_context.iter().filter(|degrees| degrees[at] >= 0.5).count() as f64;
                (1.0 + (count - holders + 0.5) / (holders + 0.5)).ln() / (1.0 + count).ln()
            })
            .collect();
        // What a number is counted in, such as 시 in "몇 시", need not be there.
        let counters = counters(asked.question);
        // A word of one syllable is mostly a part of a verb.
        let is_noun = |at: &usize| terms[*at].stem.chars().count() > 1;
        let weights: Vec<f64> = (0..terms.len())
            .map(|at| {
                let share = if is_noun(&at) { 1.0 } else { SYLLABLE_SHARE };
                let counts = !counters.contains(&terms[at].stem);
                if counts { terms[at].share * rarity[at] * share } else { 0.0 }
            })
            .collect();
        let whole = weights.iter().sum::<f64>().max(1e-9);
        let share = |degrees: &[f64]| {
            degrees.iter().zip(&weights).map(|(degree, weight)| degree * weight).sum::<f64>() / whole
        };
        let nouns: Vec<usize> =
            (0..terms.len()).filter(|at| terms[*at].share == 1.0 && is_noun(at)).collect();
        let names = names_of(asked.question, &terms, &nouns);
        let must_hold: Vec<usize> =
            nouns.into_iter().filter(|word| !counters.contains(&terms[*word].stem)).collect();
        let kind = asked.answer_kind();
        let meant = self.documents_meant(asked.question, &terms);
        let mut ranked: Vec<RankedUnit<'a>> = Vec::with_capacity(self.units.len());
        for (at, IndexedUnit { unit, .. }) in self.units.iter().enumerate() {
            let document = self.sources[unit.source].document();
            if !meant.contains(document) {
                continue;
            }
            let around = most(&own[at], &with_context[at]);
            let near = self.beside(at).fold(around.clone(), |degrees, other| most(&degrees, &own[other]));
            let rarest_missing = |word: &usize| {
                let of_document = if names.contains(word) { documents[document][*word] } else { 0.0 };
                rarity[*word] * (1.0 - near[*word].max(of_document))
            };
            let named = names.iter().map(|word| around[*word]).sum::<f64>() / names.len().max(1) as f64;
            let head = unit.header.unwrap_or_default();
            let misses = kind.is_some_and(|kind| {
                !kind.is_in(unit.text)
                    && !kind.is_in(head)
                    && !row_cells(head).iter().any(|head| kind.is_headed(head))
            });
            let features = [
                share(&own[at]),
                if names.is_empty() { 1.0 } else { named },
                0.0,
                f64::from(u8::from(misses)),
                1.0 / (1.0 + unit.source as f64),
                MIN_SCORE,
            ];
            ranked.push(RankedUnit {
                unit: unit.clone(),
                features,
                rarest_missing: must_hold.iter().map(rarest_missing).fold(0.0, f64::max),
                score: weights::score(&features),
            });
        }
        let by_score = |left: &RankedUnit<'_>, right: &RankedUnit<'_>| right.score.total_cmp(&left.score);
        ranked.sort_by(by_score);
        let question = format!("{} {}", asked.before, asked.question);
        self.add_meaning(&question, &mut ranked);
        ranked.sort_by(by_score);
        let alone = (!asked.before.is_empty()).then_some(asked.question);
        self.add_scores(std::iter::once(question.as_str()).chain(alone), &mut ranked);
        ranked.sort_by(by_score);
        ranked
    }

    /// The sentences before and after a sentence in its paragraph.
    fn beside(&self, at: usize) -> impl Iterator<Item = usize> {
        let unit = &self.units[at].unit;
        let around = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        around.filter(move |other| {
            self.units.get(*other).is_some_and(|IndexedUnit { unit: other, .. }| {
                unit.kind == UnitKind::Sentence && (other.source, other.block) == (unit.source, unit.block)
            })
        })
    }

    /// The share of the words of a question that each unit holds.
    pub(super) fn share_words(&self, question: &str) -> Vec<(f64, &'a str)> {
        let terms = question_terms(question);
        let count = terms.len().max(1) as f64;
        let share = |own: &TextTerms| terms.iter().map(|term| own.match_degree(term)).sum::<f64>() / count;
        self.units.iter().map(|one| (share(&one.own), one.unit.text)).collect()
    }

    /// A word that stands nowhere may be a word of the material with a typo.
    fn correct_typos(&self, terms: &mut [QuestionTerm]) {
        for term in terms {
            if self.units.iter().any(|one| one.with_context.match_degree(term) > 0.0) {
                continue;
            }
            let words: BTreeSet<&String> =
                self.units.iter().flat_map(|one| &one.with_context.stems).collect();
            let meant = words.into_iter().filter(|word| is_one_typo_apart(&term.stem, word));
            let meant: Vec<Vec<String>> = meant.map(|word| vec![word.clone()]).collect();
            term.others.extend(meant);
        }
    }

    /// The documents that a question may mean: where a word of it stands in titles, the documents that hold the word.
    fn documents_meant(&self, question: &str, terms: &[QuestionTerm]) -> BTreeSet<&'a str> {
        let all = || self.documents.keys().copied();
        let named = |term: &&QuestionTerm| {
            let is_in_title = |title: &str| TextTerms::of(title).contains(&term.stem);
            term.share == 1.0 && term.stem.chars().count() > 1 && all().any(is_in_title)
        };
        let named: Vec<&QuestionTerm> = terms.iter().filter(named).collect();
        let has_all = |title: &&str| named.iter().all(|term| self.documents[title].contains(&term.stem));
        let meant: BTreeSet<&str> = all().filter(has_all).collect();
        // A question that compares may name several.
        if meant.is_empty() || Cue::Compares.is_in(question) { all().collect() } else { meant }
    }

    /// The documents with the most words of a text in their titles, if any has one, and the text without the words of titles. A word
    /// of most titles, such as 계약서, tells none of them apart.
    pub(super) fn split_off_titles(&self, text: &str) -> (BTreeSet<&'a str>, String) {
        let is_in = |word: &str, title: &str| question_terms(word).iter().any(|term| term.is_named_in(title));
        let titles_with = |word: &str| -> Vec<&'a str> {
            self.documents.keys().copied().filter(|title| is_in(word, title)).collect()
        };
        let (mut counts, mut rest): (BTreeMap<&'a str, usize>, Vec<&str>) = (BTreeMap::new(), Vec::new());
        for word in text.split_whitespace() {
            let titles = titles_with(word);
            if titles.is_empty() {
                rest.push(word);
            } else if titles.len() * 2 <= self.documents.len() {
                titles.into_iter().for_each(|title| *counts.entry(title).or_default() += 1);
            }
        }
        let most = counts.values().copied().max();
        let named = counts.into_iter().filter(|(_, count)| Some(*count) == most);
        (named.map(|(title, _)| title).collect(), rest.join(" "))
    }

    /// Compares the meanings of the best units with the question.
    fn add_meaning(&self, question: &str, ranked: &mut [RankedUnit<'a>]) {
        let candidate_text = |one: &RankedUnit<'_>| {
            let unit = &one.unit;
            let title = self.sources[unit.source].title;
            format!("{title} {} {} {}", unit.lead_or_question(), unit.header.unwrap_or_default(), unit.text)
        };
        let texts: Vec<String> = ranked.iter().take(MAX_COMPARED_MEANINGS).map(candidate_text).collect();
        let near = meaning::nearness(question, texts);
        let least = near.iter().copied().reduce(f64::min).unwrap_or(0.0);
        for (at, one) in ranked.iter_mut().enumerate() {
            one.features[MEANING] = near.get(at).copied().unwrap_or(least);
            one.score = weights::score(&one.features);
        }
    }

    /// Lets the answer scorer read the best units with each wording of the question. The better score counts.
    fn add_scores<'q>(&self, wordings: impl Iterator<Item = &'q str>, ranked: &mut [RankedUnit<'a>]) {
        let candidates: Vec<AnswerCandidate<'_>> = ranked
            .iter()
            .take(MAX_SCORED_UNITS)
            .map(|one| AnswerCandidate {
                title: self.sources[one.unit.source].title,
                lead: one.unit.lead_or_question(),
                header: one.unit.header.unwrap_or_default(),
                sentence: one.unit.text,
            })
            .collect();
        for scores in
            wordings.map(|question| meaning::answer_scores(question, &candidates)).collect::<Vec<_>>()
        {
            for (one, score) in ranked.iter_mut().zip(scores) {
                one.features[SCORER] = score.clamp(one.features[SCORER], MAX_SCORE);
                one.score = weights::score(&one.features);
            }
        }
    }
}

/// How much a word of one syllable counts.
const SYLLABLE_SHARE: f64 = 0.4;

/// The larger of each pair.
fn most(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left.max(*right)).collect()
}

/// Which of the nouns of a question name whom it is about: in Korean the first of several, in English those that are written
/// large.
fn names_of(question: &str, terms: &[QuestionTerm], nouns: &[usize]) -> Vec<usize> {
    if question.chars().any(is_hangul) {
        return nouns.split_last().and_then(|(_, rest)| rest.first()).copied().into_iter().collect();
    }
    let start = |word: &str| word.chars().take(4).collect::<String>().to_lowercase();
    let words = question
        .split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '-'))
        .filter(|word| !word.is_empty());
    let large: Vec<String> = words
        .skip(1)
        .filter(|word| *word != "I" && word.starts_with(char::is_uppercase))
        .map(start)
        .collect();
    nouns.iter().copied().filter(|at| large.contains(&start(&terms[*at].stem))).collect()
}

/// The stems after 몇: 시 in "몇 시".
fn counters(question: &str) -> Vec<String> {
    let is_after_how_many = |at: usize| question[..at].trim_end().ends_with('몇');
    let stems = text_stems(question).into_iter().filter(|(_, range)| is_after_how_many(range.start));
    stems.map(|(stem, _)| stem).collect()
}
