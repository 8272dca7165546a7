//! Finds what fits a question best: BM25 in each layer, each layer scaled to its best passage, the two added.

use crate::retriever::Filter;
use crate::text::Layer;

use super::article;
use super::part::{Mask, Part, mask};
use super::phrase;
use super::query::Query;
use super::ranking::Ranking;
use super::score::{Scoring, Term};
use super::segment::LAYERS;
use super::typo;

/// Where a passage was found, and how well it fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) score: f32,
    pub(crate) part: usize,
    pub(crate) slot: usize,
}

/// So many terms that nothing holds are taken for slips; the rest are left.
const SLIPS: usize = 6;
/// Only questions of so few stems are searched for slips: a longer one has enough words that are right.
const SHORT: usize = 8;
/// So many likely meanings of a slip are looked for.
const LIKELIEST: usize = 2;

/// The best passages, best first; equal ones in the order of documents.
pub(crate) fn search(
    parts: &[Part],
    query: &Query,
    ranking: &Ranking,
    filter: &Filter,
    limit: usize,
) -> Vec<Found> {
    search_by(parts, query, ranking, filter, limit, |scoring, limit| scoring.best(limit))
}

/// The same, with another way to find the slots with the highest scores.
pub(super) fn search_by(
    parts: &[Part],
    query: &Query,
    ranking: &Ranking,
    filter: &Filter,
    limit: usize,
    best: impl Fn(&Scoring<'_>, usize) -> Vec<(f32, usize)>,
) -> Vec<Found> {
    let masks: Vec<Mask> = parts.iter().map(|part| mask(part, filter)).collect();
    let about = About::of(parts, &masks);
    if limit == 0 || about.passages == 0 {
        return Vec::new();
    }
    let terms = terms(parts, &masks, &about, query, ranking);
    let lifted = articles(parts, query, ranking, &masks);
    let scoring = Scoring::new(parts, &masks, about.averages, ranking, terms, lifted);
    let limited = limit.max(LIFTED);
    let mut found = in_order(parts, best(&scoring, limited), limited);
    lift(parts, query, ranking, &mut found, limit);
    found.truncate(limit);
    found
}

/// What BM25 needs to know of all that competes.
struct About {
    passages: usize,
    averages: [f32; LAYERS],
}

impl About {
    fn of(parts: &[Part], masks: &[Mask]) -> Self {
        let mut passages = 0;
        let mut sums = [0_u64; LAYERS];
        for (part, mask) in parts.iter().zip(masks) {
            let Some(mask) = mask else {
                passages += part.segment.slots();
                sums.iter_mut().zip(part.segment.totals()).for_each(|(sum, total)| *sum += total);
                continue;
            };
            for slot in (0..part.segment.slots()).filter(|slot| mask[*slot]) {
                passages += 1;
                let lengths = part.segment.lengths_of(slot as u32);
                sums.iter_mut().zip(lengths).for_each(|(sum, length)| *sum += u64::from(length));
            }
        }
        let averages = sums.map(|sum| (sum as f32 / passages.max(1) as f32).max(1.0));
        Self { passages, averages }
    }
}

/// The terms to look for, with how much each weighs: those that fewest passages hold first, else in the order of the
/// question.
fn terms(parts: &[Part], masks: &[Mask], about: &About, query: &Query, ranking: &Ranking) -> Vec<Term> {
    let rare = |holders: u32| {
        let (holders, passages) = (holders as f32, about.passages as f32);
        (1.0 + (passages - holders + 0.5) / (holders + 0.5)).ln()
    };
    let asked = query.terms.iter().filter(|term| term.layer == Layer::Stems && term.said.is_empty()).count();
    let mut slips_left = if asked <= SHORT { SLIPS } else { 0 };
    let mut terms = Vec::with_capacity(query.terms.len());
    for wanted in &query.terms {
        let places = find(parts, &wanted.key);
        let holders = holders(parts, masks, &places);
        let layer = wanted.layer;
        let mut weight = wanted.weight;
        if !wanted.said.is_empty() {
            // The more the documents themselves speak as the question does, the less it needs to be put otherwise.
            let said = wanted.said.iter().map(|key| rare(self::holders(parts, masks, &find(parts, key))));
            weight *= said.fold(0.0, f32::max) / rare(0);
        }
        if holders > 0 {
            terms.push((holders, Term { layer, places, weight: weight * rare(holders) }));
        } else if wanted.said.is_empty() && !wanted.number && slips_left > 0 {
            slips_left -= 1;
            for (places, holders) in meant_by_slip(parts, masks, &wanted.key) {
                let weight = weight * ranking.slip * rare(holders);
                terms.push((holders, Term { layer, places, weight }));
            }
        }
    }
    terms.sort_by_key(|(holders, _)| *holders);
    terms.into_iter().map(|(_, term)| term).collect()
}

/// Where a term is in each part.
pub(super) type Places = Vec<Option<usize>>;

fn find(parts: &[Part], key: &[u8]) -> Places {
    parts.iter().map(|part| part.segment.find(key)).collect()
}

/// How many of the passages that compete hold a term.
fn holders(parts: &[Part], masks: &[Mask], places: &Places) -> u32 {
    let mut holders = 0;
    for ((part, mask), place) in parts.iter().zip(masks).zip(places) {
        let Some(term) = place else { continue };
        match mask {
            None => holders += part.segment.holders(*term),
            Some(mask) => part.segment.decode(*term, |slot, _| holders += u32::from(mask[slot as usize])),
        }
    }
    holders
}

/// The likeliest terms one slip away from a term that nothing holds: those most passages hold.
fn meant_by_slip(parts: &[Part], masks: &[Mask], key: &[u8]) -> Vec<(Places, u32)> {
    let Some((layer, term)) = key.split_first() else { return Vec::new() };
    let mut found: Vec<(Places, u32)> = Vec::new();
    let mut key = vec![*layer];
    typo::slips(&String::from_utf8_lossy(term), &mut |slip| {
        key.truncate(1);
        key.extend_from_slice(slip);
        if parts.iter().any(|part| part.segment.find(&key).is_some()) {
            let places = find(parts, &key);
            let holders = holders(parts, masks, &places);
            if holders > 0 {
                found.push((places, holders));
            }
        }
    });
    found.sort_by_key(|(_, holders)| std::cmp::Reverse(*holders));
    found.truncate(LIKELIEST);
    found
}

/// What is added for the articles that were asked for by number, in the document that was named, if one was: slots, over
/// all parts, sorted.
fn articles(parts: &[Part], query: &Query, ranking: &Ranking, masks: &[Mask]) -> Vec<(usize, f32)> {
    let mut lifted: Vec<(usize, f32)> = Vec::new();
    for number in &query.articles {
        let term = article::key(*number);
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        let mut base = 0;
        for (part, mask) in parts.iter().zip(masks) {
            if let Some(term) = part.segment.find(&term) {
                part.segment.decode(term, |slot, _| {
                    let slot = slot as usize;
                    if mask.as_ref().is_none_or(|mask| mask[slot])
                        && let Some(held) = &part.held()[part.segment.document_of(slot)]
                    {
                        let named = if query.bare.contains(held.name()) { held.name().len() } else { 0 };
                        candidates.push((base + slot, named));
                    }
                });
            }
            base += part.segment.slots();
        }
        let longest = candidates.iter().map(|(_, named)| *named).max().unwrap_or(0);
        let named = candidates.into_iter().filter(|(_, named)| *named == longest);
        lifted.extend(named.map(|(at, _)| (at, ranking.article)));
    }
    lifted.sort_by_key(|(at, _)| *at);
    lifted
}

/// The best so many of the slots that were found, best first; equal ones in the order of documents.
fn in_order(parts: &[Part], mut found: Vec<(f32, usize)>, limit: usize) -> Vec<Found> {
    let mut starts = vec![0];
    for part in parts {
        starts.push(starts[starts.len() - 1] + part.segment.slots());
    }
    let place = |at: usize| {
        let part = starts.partition_point(|start| *start <= at) - 1;
        (part, at - starts[part])
    };
    let name = |at: usize| {
        let (part, slot) = place(at);
        let document = parts[part].segment.document_of(slot);
        (&parts[part].segment.documents()[document].id, slot)
    };
    let order = |left: &(f32, usize), right: &(f32, usize)| {
        right.0.total_cmp(&left.0).then_with(|| name(left.1).cmp(&name(right.1)))
    };
    if found.len() > limit {
        found.select_nth_unstable_by(limit, order);
        found.truncate(limit);
    }
    found.sort_unstable_by(order);
    found
        .into_iter()
        .map(|(score, at)| {
            let (part, slot) = place(at);
            Found { score, part, slot }
        })
        .collect()
}

/// Sums of scores differ by less than this from what they should be.
const INEXACT: f32 = 1e-4;
/// So many of the best are looked at again, for what single words do not show.
const LIFTED: usize = 20;

/// Lifts passages that say the words of the question side by side, and those whose heading is what was asked. Those that
/// cannot come among the best `limit` that way are left as they are.
fn lift(parts: &[Part], query: &Query, ranking: &Ranking, found: &mut [Found], limit: usize) {
    if ranking.phrase <= 0.0 && ranking.heading <= 0.0 || query.words.is_empty() {
        return;
    }
    let count = found.len().min(LIFTED);
    let found = &mut found[..count];
    let words: Vec<phrase::Word<'_>> = query.words.iter().map(|word| phrase::Word::of(word)).collect();
    let mut said = phrase::Said::new(&words);
    let at = |found: &Found| parts[found.part].at(found.slot);
    // What a passage has at least, by its score and its heading: whoever stays below the last that is wanted is left out.
    let mut sure: Vec<f32> = found.iter().map(|found| found.score).collect();
    let mut bar = least(&sure, limit);
    let mut headed = vec![None; count];
    for (number, found) in found.iter().enumerate() {
        if sure[number] + ranking.heading + ranking.phrase >= bar
            && let Some((held, within)) = at(found)
            && let Some((title, _)) = held.bytes(within)
        {
            let share = phrase::headed(&query.stems, title);
            sure[number] += ranking.heading * share;
            headed[number] = Some(share);
        }
    }
    bar = bar.max(least(&sure, limit));
    for (number, found) in found.iter_mut().enumerate() {
        if sure[number] + ranking.phrase >= bar
            && let Some(headed) = headed[number]
            && let Some((held, within)) = at(found)
            && let Some((_, text)) = held.bytes(within)
        {
            found.score += ranking.phrase * said.share(text) + ranking.heading * headed;
        }
    }
    // The sort is stable: equals stay in the order of documents.
    found.sort_by(|left, right| right.score.total_cmp(&left.score));
}

/// What the last of the best so many has, or a little less: sums are not exact. Nothing where there are fewer.
fn least(scores: &[f32], limit: usize) -> f32 {
    let mut scores = scores.to_vec();
    scores.sort_unstable_by(|left, right| right.total_cmp(left));
    scores.get(limit - 1).map_or(f32::MIN, |least| least - INEXACT)
}
