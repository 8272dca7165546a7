//! Scores passages: BM25 in each layer, each layer scaled to its best passage, the two added.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::passage::Passage;
use crate::retriever::Filter;
use crate::text::Layer;

use super::query::Query;
use super::ranking::Ranking;
use super::segment::{LAYERS, Segment};
use super::{Held, article, phrase, typo};

/// A segment with the documents its slots stand for. `None` stands for a document that was removed.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    held: Vec<Option<Arc<Held>>>,
    /// How many were removed.
    gone: usize,
}

impl Part {
    pub(crate) fn new(segment: Segment, held: Vec<Option<Arc<Held>>>) -> Self {
        let gone = held.iter().filter(|held| held.is_none()).count();
        Self { segment: Arc::new(segment), held, gone }
    }

    pub(crate) fn held(&self) -> &[Option<Arc<Held>>] {
        &self.held
    }

    /// How many of its documents are there.
    pub(crate) fn live(&self) -> usize {
        self.held.len() - self.gone
    }

    /// Takes a document out of sight.
    pub(crate) fn take_out(&mut self, gone: &Arc<Held>) {
        for held in &mut self.held {
            if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, gone)) {
                *held = None;
                self.gone += 1;
            }
        }
    }

    /// The passage in a slot, unless its document was removed.
    pub(crate) fn passage(&self, slot: usize) -> Option<&Passage> {
        let document = self.segment.document_of(slot);
        let within = slot - self.segment.slots_of(document).start;
        self.held[document].as_ref()?.passages.get(within)
    }
}

/// Where a passage was found, and how well it fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) score: f32,
    pub(crate) part: usize,
    pub(crate) slot: usize,
}

/// The scores of every slot of all parts, a row for each layer.
type Scores = [Vec<f32>; LAYERS];

thread_local! {
    static SCORES: RefCell<Scores> = const { RefCell::new([Vec::new(), Vec::new()]) };
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
    filter: &Filter,
    limit: usize,
) -> Vec<Found> {
    let masks: Vec<Mask> = parts.iter().map(|part| mask(part, filter)).collect();
    let about = About::of(parts, &masks);
    if limit == 0 || about.passages == 0 {
        return Vec::new();
    }
    SCORES.with_borrow_mut(|scores| {
        let total: usize = parts.iter().map(|part| part.segment.slots()).sum();
        for layer in scores.iter_mut() {
            layer.clear();
            layer.resize(total, 0.0);
        }
        add_terms(parts, &masks, &about, query, ranking, scores);
        combine(parts, query, ranking, scores, &masks);
        let mut found = best(parts, &scores[0], limit.max(LIFTED));
        lift(parts, query, ranking, &mut found);
        found.truncate(limit);
        found
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

pub(crate) fn mask(part: &Part, filter: &Filter) -> Mask {
    let open = *filter == Filter::default();
    if open && part.gone == 0 {
        return None;
    }
    let admits = |held: &Held| open || filter.admits(&held.document);
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
    scores: &mut Scores,
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
    scores: &mut Scores,
) {
    let layer = layer as usize;
    let flat = ranking.k1 * (1.0 - ranking.b);
    let steep = ranking.k1 * ranking.b / about.averages[layer];
    let mut base = 0;
    for ((part, mask), place) in parts.iter().zip(masks).zip(places) {
        let slots = part.segment.slots();
        if let Some(term) = place {
            let lengths = part.segment.lengths();
            let scores = &mut scores[layer][base..base + slots];
            let mut add = |slot: u32, count: u32| {
                let slot = slot as usize;
                let length = u32::from_le_bytes(lengths[slot][layer]) as f32;
                let count = count as f32;
                scores[slot] += weight * count / (count + flat + steep * length);
            };
            match mask {
                None => part.segment.decode(*term, add),
                Some(mask) => part.segment.decode(*term, |slot, count| {
                    if mask[slot as usize] {
                        add(slot, count);
                    }
                }),
            }
        }
        base += slots;
    }
}

/// Scales each layer to its best and adds them, into the first.
fn combine(parts: &[Part], query: &Query, ranking: &Ranking, scores: &mut Scores, masks: &[Mask]) {
    let highest =
        |scores: &[f32]| scores.iter().fold(0.0_f32, |high, score| if *score > high { *score } else { high });
    let scale = |scores: &[f32], weight: f32| match highest(scores) {
        high if high > 0.0 => weight / high,
        _ => 0.0,
    };
    let [first, second] = scores;
    let (pairs, stems) = (scale(first, 1.0), scale(second, ranking.stems));
    for (sum, stem) in first.iter_mut().zip(second) {
        *sum = *sum * pairs + *stem * stems;
    }
    add_articles(parts, query, ranking, masks, first);
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

/// The slots with the highest sums above zero.
fn best(parts: &[Part], sums: &[f32], limit: usize) -> Vec<Found> {
    let least = least_of_best(sums, limit);
    let mut found: Vec<(f32, usize)> =
        sums.iter().enumerate().filter(|(_, sum)| **sum >= least).map(|(at, sum)| (*sum, at)).collect();
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

/// What the last of the best so many sums has; the smallest number above zero where there are fewer.
fn least_of_best(sums: &[f32], limit: usize) -> f32 {
    let mut heap: BinaryHeap<Reverse<u32>> = BinaryHeap::with_capacity(limit.min(sums.len()) + 1);
    let mut least = f32::MIN_POSITIVE;
    for sum in sums {
        if *sum < least {
            continue;
        }
        // The bits of numbers above zero are ordered as the numbers are.
        heap.push(Reverse(sum.to_bits()));
        if heap.len() > limit {
            heap.pop();
        }
        if heap.len() == limit {
            least = heap.peek().map_or(least, |Reverse(bits)| f32::from_bits(*bits));
        }
    }
    if heap.len() < limit { f32::MIN_POSITIVE } else { least }
}

/// So many of the best are looked at again, for what single words do not show.
const LIFTED: usize = 20;

/// Lifts passages that say the words of the question side by side, and those whose heading is what was asked.
fn lift(parts: &[Part], query: &Query, ranking: &Ranking, found: &mut [Found]) {
    if ranking.phrase <= 0.0 && ranking.heading <= 0.0 || query.words.is_empty() {
        return;
    }
    let count = found.len().min(LIFTED);
    for found in &mut found[..count] {
        let Some(passage) = parts[found.part].passage(found.slot) else { continue };
        found.score += ranking.phrase * phrase::said(&query.words, &passage.text)
            + ranking.heading * phrase::headed(&query.stems, &passage.title);
    }
    // The sort is stable: equals stay in the order of documents.
    found[..count].sort_by(|left, right| right.score.total_cmp(&left.score));
}
