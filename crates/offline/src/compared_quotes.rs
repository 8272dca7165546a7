//! Quotes of articles that were laid beside each other: of one subject both articles whole, of whole contracts the sentences in
//! which two articles differ.

use std::collections::BTreeSet;

use doran_agents::agents::contract::{ComparisonRemark, StandardComparison};
use doran_retrieval::HEADING_SEPARATOR;

use super::cues::Cue;
use super::quotes::{ComparisonExtent, QuotesFound, letters, quotable};
use super::ranking::{AskedQuestion, UnitIndex};
use super::text::squeezed;
use super::units::{QuotableSource, SourceCitation};

/// More articles than these were found for contracts as a whole, whatever was asked.
const MAX_ARTICLES_OF_SUBJECT: usize = 8;

/// An article of a subject is quoted whole up to so many sentences, a longer one by those that answer best.
const MAX_SENTENCES_OF_ARTICLE: usize = 8;
const MAX_BEST_SENTENCES: usize = 4;

/// Of two articles that differ in more sentences than these, so many of each are quoted that are most alike.
const MAX_DIFFERING_SENTENCES: usize = 3;
const MAX_QUOTED_PAIRS: usize = 2;

/// How much more alike two sentences count that differ in a number.
const OTHER_NUMBER: f64 = 0.25;

/// The quotes of the articles that a comparison found.
pub(super) fn compared_quotes<'a>(
    wanted: StandardComparison,
    asked: AskedQuestion<'_>,
    sources: &[QuotableSource<'a>],
) -> QuotesFound<'a> {
    let mut found = QuotesFound::default();
    let is_found = |title: &str| ComparisonRemark::of_title(title).is_some();
    let marked = sources.iter().filter(|source| match source.cite {
        SourceCitation::Number(_) => is_found(source.title),
        SourceCitation::Tool(_) | SourceCitation::Given => {
            source.text.lines().any(|line| is_found(line.trim_matches(['[', ']'])))
        }
    });
    let marked: Vec<QuotableSource<'a>> = marked.copied().collect();
    if wanted == StandardComparison::Same && marked.len() <= MAX_ARTICLES_OF_SUBJECT {
        add_subject(asked, &marked, &mut found);
        return found;
    }
    found.extent = ComparisonExtent::Whole;
    for source in &marked {
        let other = marked.iter().find(|other| answer_to_each_other(source, other));
        let own: Vec<String> = sentences_of(source);
        let quoted = match other {
            Some(other) => differing_sentences(&own, &sentences_of(other)),
            None => own.into_iter().take(1).collect(),
        };
        quoted.into_iter().for_each(|words| found.add(words, *source, true));
    }
    found
}

/// Adds the articles of a subject.
fn add_subject<'a>(asked: AskedQuestion<'_>, marked: &[QuotableSource<'a>], found: &mut QuotesFound<'a>) {
    let mut index = None;
    for (number, source) in marked.iter().enumerate() {
        let mut quoted = sentences_of(source);
        if quoted.len() > MAX_SENTENCES_OF_ARTICLE {
            let index = index.get_or_insert_with(|| UnitIndex::new(marked));
            let ranked = index.rank(asked);
            let best = ranked.iter().filter(|one| one.unit.source == number).take(MAX_BEST_SENTENCES);
            let best: BTreeSet<String> = best.map(|one| letters(one.unit.text)).collect();
            quoted.retain(|words| {
                best.iter().any(|one| letters(words).contains(one) || one.contains(&letters(words)))
            });
        }
        quoted.into_iter().for_each(|words| found.add(words, *source, true));
    }
}

/// The sentences of an article, without its heading. The signatures below the last article are none of it.
fn sentences_of(source: &QuotableSource<'_>) -> Vec<String> {
    let title = letters(source.title);
    let heading = article_heading(source);
    let body =
        |words: String| words.strip_prefix(heading).map(|rest| rest.trim().to_owned()).unwrap_or(words);
    let is_sentence = |words: &String| !title.contains(&letters(words)) && !Cue::SignsContract.is_in(words);
    quotable(source).filter(is_sentence).map(body).collect()
}

/// The sentences of an article that decide how it differs from another: those that the other does not have, or where these are
/// many, those that are most like one of the other.
fn differing_sentences(own: &[String], other: &[String]) -> Vec<String> {
    let lacks = |all: &[String], one: &String| !all.iter().any(|known| squeezed(known) == squeezed(one));
    let ours: Vec<&String> = own.iter().filter(|one| lacks(other, one)).collect();
    let theirs: Vec<&String> = other.iter().filter(|one| lacks(own, one)).collect();
    if ours.is_empty() {
        return own.iter().take(1).cloned().collect();
    }
    if ours.len() <= MAX_DIFFERING_SENTENCES && theirs.len() <= MAX_DIFFERING_SENTENCES {
        return ours.into_iter().cloned().collect();
    }
    // The same sentences are found from either side, in whatever order they stand.
    let mut alike: Vec<(f64, &String, &String)> = Vec::new();
    for one in &ours {
        alike.extend(theirs.iter().map(|other| (likeness(one, other), *one, *other)));
    }
    alike.sort_by(|left, right| right.0.total_cmp(&left.0));
    let mut quoted: Vec<(&String, &String)> = Vec::new();
    for (_, one, other) in alike {
        if quoted.len() < MAX_QUOTED_PAIRS && quoted.iter().all(|known| known.0 != one && known.1 != other) {
            quoted.push((one, other));
        }
    }
    let is_picked = |one: &&String| quoted.is_empty() || quoted.iter().any(|(known, _)| known == one);
    ours.into_iter().filter(is_picked).take(MAX_DIFFERING_SENTENCES).cloned().collect()
}

/// How alike two sentences are, by the pairs of letters that they share. Those that say a different number of the same are
/// what people look for.
fn likeness(left: &str, right: &str) -> f64 {
    let pairs = |text: &str| -> BTreeSet<(char, char)> {
        let letters: Vec<char> = letters(text).chars().collect();
        letters.windows(2).map(|pair| (pair[0], pair[1])).collect()
    };
    let numbers = |text: &str| -> BTreeSet<String> {
        let numbers = text.split(|char: char| !char.is_ascii_digit() && char != '.' && char != ',');
        numbers
            .filter(|number| number.contains(|char: char| char.is_ascii_digit()))
            .map(str::to_owned)
            .collect()
    };
    let (one, other) = (pairs(left), pairs(right));
    let total = (one.len() + other.len()).max(1) as f64;
    let shared = 2.0 * one.intersection(&other).count() as f64 / total;
    let (one, other) = (numbers(left), numbers(right));
    let is_other_number = !one.is_empty() && !other.is_empty() && one != other;
    shared + if is_other_number { OTHER_NUMBER * shared } else { 0.0 }
}

/// Whether one of two articles is the one of the standard that answers to the other.
pub(super) fn answer_to_each_other(left: &QuotableSource<'_>, right: &QuotableSource<'_>) -> bool {
    let names = |source: &QuotableSource<'_>, other: &QuotableSource<'_>| match ComparisonRemark::of_title(
        source.title,
    ) {
        Some(
            ComparisonRemark::DiffersFrom { title, article }
            | ComparisonRemark::SameAs { title, article }
            | ComparisonRemark::AnswersTo { title, article },
        ) => is_article_of(other, title, article),
        Some(ComparisonRemark::NotIn(_)) | None => false,
    };
    left.is_standard() != right.is_standard() && names(left, right) && names(right, left)
}

fn is_article_of(source: &QuotableSource<'_>, document: &str, article: &str) -> bool {
    let place = ComparisonRemark::without_remark(source.title);
    let heading = article_heading(source);
    let is_numbered = place.rsplit(HEADING_SEPARATOR).next().and_then(|last| last.strip_prefix(article));
    is_numbered
        .or_else(|| heading.strip_prefix(article))
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        && place.split(HEADING_SEPARATOR).any(|part| part == document)
}

/// What an article calls itself in its first line, or else in its title.
pub(super) fn article_heading<'a>(source: &QuotableSource<'a>) -> &'a str {
    let first = source.text.lines().next().unwrap_or_default().trim_matches(['#', '*', ' ']);
    let is_heading = !first.is_empty() && letters(source.title).contains(&letters(first));
    let place = ComparisonRemark::without_remark(source.title);
    if is_heading { first } else { place.rsplit(HEADING_SEPARATOR).next().unwrap_or_default() }
}
