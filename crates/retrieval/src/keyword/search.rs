//! Scores passages: BM25 in each layer, each layer scaled to its best passage, the two added.

use std::cell::RefCell;
use std::sync::Arc;

use crate::text::Layer;

use super::query::Query;
use super::ranking::Ranking;
use super::segment::{LAYERS, Segment};
use super::{Held, article, typo};

/// A segment with the documents its slots stand for. `None` stands for a document that was removed.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    pub(crate) held: Vec<Option<Arc<Held>>>,
}

/// Where a passage was found, and how well it fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) score: f32,
    pub(crate) part: usize,
    pub(crate) slot: usize,
}

thread_local! {
    static SCORES: RefCell<Vec<[f32; LAYERS]>> = const { RefCell::new(Vec::new()) };
}

/// So many terms that nothing holds are taken for slips; the rest are left.
const SLIPS: usize = 6;
/// Only questions of so few stems are searched for slips: a longer one has enough words that are right.
const SHORT: usize = 8;
/// So many likely meanings of a slip are looked for.
const LIKELIEST: usize = 2;

/// Which slots of a part compete. `None` means all of them.
pub(crate) type Mask = Option<Vec<bool>>;

/// The best passages, best first; equal ones in the order of documents.
pub(crate) fn search(
    parts: &[Part],
    query: &Query,
    ranking: &Ranking,
    admits: &dyn Fn(&Held) -> bool,
    limit: usize,
) -> Vec<Found> {
    let masks: Vec<Mask> = parts.iter().map(|part| mask(part, admits)).collect();
    let about = About::of(parts, &masks);
    if limit == 0 || about.passages == 0 {
        return Vec::new();
    }
    SCORES.with_borrow_mut(|scores| {
        let total: usize = parts.iter().map(|part| part.segment.slots()).sum();
        scores.clear();
        scores.resize(total, [0.0; LAYERS]);
        add_terms(parts, &masks, &about, query, ranking, scores);
        let sums = combine(parts, query, ranking, scores, &masks);
        best(parts, sums, limit)
    })
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
            for slot in 0..part.segment.slots() {
                if mask.as_ref().is_none_or(|mask| mask[slot]) {
                    passages += 1;
                    let lengths = part.segment.lengths_of(slot as u32);
                    sums.iter_mut().zip(lengths).for_each(|(sum, length)| *sum += u64::from(length));
                }
            }
        }
        let averages = sums.map(|sum| (sum as f32 / passages.max(1) as f32).max(1.0));
        Self { passages, averages }
    }
}

pub(crate) fn mask(part: &Part, admits: &dyn Fn(&Held) -> bool) -> Mask {
    let documents: Vec<bool> = part.held.iter().map(|held| held.as_deref().is_some_and(admits)).collect();
    if documents.iter().all(|admitted| *admitted) {
        return None;
    }
    let mut slots = vec![false; part.segment.slots()];
    for (at, _) in documents.iter().enumerate().filter(|(_, admitted)| **admitted) {
        slots[part.segment.slots_of(at)].fill(true);
    }
    Some(slots)
}

fn add_terms(
    parts: &[Part],
    masks: &[Mask],
    about: &About,
    query: &Query,
    ranking: &Ranking,
    scores: &mut [[f32; LAYERS]],
) {
    let rare = |holders: u32| {
        let (holders, passages) = (holders as f32, about.passages as f32);
        (1.0 + (passages - holders + 0.5) / (holders + 0.5)).ln()
    };
    let asked = query.terms.iter().filter(|term| term.layer == Layer::Stems && term.said.is_empty()).count();
    let mut slips_left = if asked <= SHORT { SLIPS } else { 0 };
    for wanted in &query.terms {
        let places = find(parts, &wanted.key);
        let holders = holders(parts, masks, &places);
        let mut weight = wanted.weight;
        if !wanted.said.is_empty() {
            // The more the documents themselves speak as the question does, the less it needs to be put otherwise.
            let said = wanted.said.iter().map(|key| rare(self::holders(parts, masks, &find(parts, key))));
            weight *= said.fold(0.0, f32::max) / rare(0);
        }
        if holders > 0 {
            add_term(parts, masks, about, ranking, wanted.layer, &places, weight * rare(holders), scores);
        } else if wanted.said.is_empty() && slips_left > 0 {
            slips_left -= 1;
            for (places, holders) in meant_by_slip(parts, masks, &wanted.key) {
                let weight = weight * ranking.slip * rare(holders);
                add_term(parts, masks, about, ranking, wanted.layer, &places, weight, scores);
            }
        }
    }
}

/// Where a term is in each part.
type Places = Vec<Option<usize>>;

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
    for slip in typo::slips(&String::from_utf8_lossy(term)) {
        let key = [&[*layer], slip.as_bytes()].concat();
        let places = find(parts, &key);
        if places.iter().any(Option::is_some) {
            let holders = holders(parts, masks, &places);
            if holders > 0 {
                found.push((places, holders));
            }
        }
    }
    found.sort_by_key(|(_, holders)| std::cmp::Reverse(*holders));
    found.truncate(LIKELIEST);
    found
}

#[allow(clippy::too_many_arguments, reason = "the parts of one sum, used in one place")]
fn add_term(
    parts: &[Part],
    masks: &[Mask],
    about: &About,
    ranking: &Ranking,
    layer: Layer,
    places: &Places,
    weight: f32,
    scores: &mut [[f32; LAYERS]],
) {
    let layer = layer as usize;
    let flat = ranking.k1 * (1.0 - ranking.b);
    let steep = ranking.k1 * ranking.b / about.averages[layer];
    let mut base = 0;
    for ((part, mask), place) in parts.iter().zip(masks).zip(places) {
        let slots = part.segment.slots();
        if let Some(term) = place {
            let lengths = part.segment.lengths();
            let scores = &mut scores[base..base + slots];
            part.segment.decode(*term, |slot, count| {
                let slot = slot as usize;
                if mask.as_ref().is_some_and(|mask| !mask[slot]) {
                    return;
                }
                let at = slot * 4 * LAYERS + layer * 4;
                let length =
                    u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
                let count = count as f32;
                scores[slot][layer] += weight * count / (count + flat + steep * length as f32);
            });
        }
        base += slots;
    }
}

fn combine(
    parts: &[Part],
    query: &Query,
    ranking: &Ranking,
    scores: &[[f32; LAYERS]],
    masks: &[Mask],
) -> Vec<f32> {
    let mut highest = [0.0_f32; LAYERS];
    for score in scores {
        highest.iter_mut().zip(score).for_each(|(high, score)| *high = high.max(*score));
    }
    let scale = |layer: Layer, weight: f32| match highest[layer as usize] {
        high if high > 0.0 => weight / high,
        _ => 0.0,
    };
    let (pairs, stems) = (scale(Layer::Pairs, 1.0), scale(Layer::Stems, ranking.stems));
    let mut sums: Vec<f32> = scores.iter().map(|[pair, stem]| pair * pairs + stem * stems).collect();
    add_articles(parts, query, ranking, masks, &mut sums);
    sums
}

/// Lifts the articles that were asked for by number, in the document that was named, if one was.
fn add_articles(parts: &[Part], query: &Query, ranking: &Ranking, masks: &[Mask], sums: &mut [f32]) {
    for number in &query.articles {
        let term = article::key(*number);
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        let mut base = 0;
        for (part, mask) in parts.iter().zip(masks) {
            if let Some(term) = part.segment.find(&term) {
                part.segment.decode(term, |slot, _| {
                    let slot = slot as usize;
                    if mask.as_ref().is_none_or(|mask| mask[slot])
                        && let Some(held) = &part.held[part.segment.document_of(slot)]
                    {
                        let named = if query.bare.contains(&*held.name) { held.name.len() } else { 0 };
                        candidates.push((base + slot, named));
                    }
                });
            }
            base += part.segment.slots();
        }
        let longest = candidates.iter().map(|(_, named)| *named).max().unwrap_or(0);
        for (at, _) in candidates.into_iter().filter(|(_, named)| *named == longest) {
            sums[at] += ranking.article;
        }
    }
}

fn best(parts: &[Part], sums: Vec<f32>, limit: usize) -> Vec<Found> {
    let mut found: Vec<(f32, usize)> =
        sums.into_iter().enumerate().filter(|(_, sum)| *sum > 0.0).map(|(at, sum)| (sum, at)).collect();
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
