//! Finds the slots with the highest BM25 scores without scoring every slot that contains a term.
//!
//! Rare terms weigh most and have short posting lists, so they are read first. The most that the remaining terms can
//! add to any passage is known beforehand. Once that is too little to bring another passage into the best, the long
//! lists are only looked up for the few candidates that are left. The scores are bit for bit those of an exhaustive
//! search.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::text_analysis::TermLayer;

use super::accumulators::ScoreAccumulators;
use super::document_frequency::SegmentTermNumbers;
use super::live_segment::{LiveSegment, SlotMask};
use super::postings::{PostingsBlock, SLOTS_PER_BLOCK};
use super::ranking::RankingParameters;
use super::segment::LAYER_COUNT;

/// A query term with its weight.
#[derive(Debug)]
pub(super) struct WeightedQueryTerm {
    pub(super) layer: TermLayer,
    /// Its term number in each segment.
    pub(super) term_numbers: SegmentTermNumbers,
    /// Its weight, which includes the inverse document frequency.
    pub(super) weight: f32,
}

/// With fewer postings left than this, they are read instead of pruned. In tests this and the two limits of
/// pruning below have other values, so that small indexes run the pruning code.
const MIN_REMAINING_POSTINGS_FOR_PRUNING: usize = if cfg!(test) { 64 } else { 4096 };
/// Looking up one slot in the posting lists costs as much as reading this many postings: two or three lists are
/// searched until the slot is ruled out.
const LOOKUP_COST_IN_POSTINGS: usize = 256;
/// Scanning all slots costs as much as reading this many times as many postings, and often rules nothing out.
const PRUNING_CHECK_COST_FACTOR: usize = if cfg!(test) { 1 } else { 4 };
/// While the remaining terms can add more than this share of a score, no candidate is ruled out.
const MAX_REMAINING_SCORE_SHARE: f32 = if cfg!(test) { 2.0 } else { 0.5 };
/// The number of slots with the rarest terms that are scored before all others.
const RARE_TERM_SAMPLE_SLOTS: usize = 1024;
/// The list of candidates is pruned when it reaches this length.
const CANDIDATE_PRUNING_THRESHOLD: usize = 1024;
/// Sums and products in another order differ by less than this share.
const RELATIVE_ROUNDING_TOLERANCE: f32 = 1e-4;

/// Computes the best slots over all segments.
pub(super) struct TopSlotScorer<'a> {
    segments: &'a [LiveSegment],
    masks: &'a [SlotMask],
    /// The first slot of each segment.
    first_slots: Vec<usize>,
    slot_count: usize,
    terms: Vec<WeightedQueryTerm>,
    /// Scores that are added to some slots beyond their terms, sorted by slot.
    slot_boosts: Vec<(usize, f32)>,
    stem_layer_weight: f32,
    length_norm_constant: f32,
    length_norm_slopes: [f32; LAYER_COUNT],
}

impl<'a> TopSlotScorer<'a> {
    pub(super) fn new(
        parts: &'a [LiveSegment],
        masks: &'a [SlotMask],
        averages: [f32; LAYER_COUNT],
        ranking: &RankingParameters,
        terms: Vec<WeightedQueryTerm>,
        lifted: Vec<(usize, f32)>,
    ) -> Self {
        let mut total = 0;
        let bases = parts.iter().map(|part| {
            total += part.segment.slot_count();
            total - part.segment.slot_count()
        });
        let bases = bases.collect();
        let flat = ranking.k1 * (1.0 - ranking.b);
        let steep = averages.map(|average| ranking.k1 * ranking.b / average);
        Self {
            segments: parts,
            masks,
            first_slots: bases,
            slot_count: total,
            terms,
            slot_boosts: lifted,
            stem_layer_weight: ranking.stem_layer_weight,
            length_norm_constant: flat,
            length_norm_slopes: steep,
        }
    }

    /// Returns slots with scores above zero. The best `limit` slots are among them.
    pub(super) fn top_slots(&self, limit: usize) -> Vec<(f32, usize)> {
        ScoreAccumulators::with_cleared(self.slot_count, |sums| {
            let lengths: Vec<usize> = self.terms.iter().map(|term| self.posting_count(term)).collect();
            let mut left: usize = lengths.iter().sum();
            let bounds: Vec<f32> = self.terms.iter().map(|term| self.term_score_bound(term)).collect();
            for (done, term) in self.terms.iter().enumerate() {
                // A check scans all sums, so it runs only when it is likely to pay off.
                if done > 0
                    && left > MIN_REMAINING_POSTINGS_FOR_PRUNING
                    && left > sums.scan_cost() * PRUNING_CHECK_COST_FACTOR
                {
                    let few = limit + left / LOOKUP_COST_IN_POSTINGS;
                    if let Some(found) = self.try_finish_early(sums, done, &bounds, limit, few) {
                        return found;
                    }
                }
                self.accumulate_term(term, sums);
                left -= lengths[done];
            }
            let done = self.terms.len();
            self.try_finish_early(sums, done, &bounds, limit, usize::MAX).unwrap_or_default()
        })
    }

    /// Returns the most that the terms after the first `done` can add to any slot, in each layer.
    fn remaining_score_bounds(&self, bounds: &[f32], done: usize) -> [f32; LAYER_COUNT] {
        let mut bounds_left = [0.0_f32; LAYER_COUNT];
        for (term, bound) in self.terms[done..].iter().zip(&bounds[done..]) {
            bounds_left[term.layer as usize] += bound;
        }
        bounds_left
    }

    /// Returns the best slots, if the terms after the first `done` cannot bring in other passages and at most `few`
    /// candidates are left. Returns `None` otherwise.
    fn try_finish_early(
        &self,
        sums: &ScoreAccumulators,
        done: usize,
        bounds: &[f32],
        limit: usize,
        few: usize,
    ) -> Option<Vec<(f32, usize)>> {
        let (sure, bounds_left) = (sums.max_sum_per_layer(), self.remaining_score_bounds(bounds, done));
        if (0..LAYER_COUNT).any(|layer| {
            bounds_left[layer] > 0.0
                && bounds_left[layer] >= sure[layer] * (1.0 - RELATIVE_ROUNDING_TOLERANCE)
        }) {
            return None;
        }
        // An estimate. Most attempts fail here, before any list is searched.
        if self.score_from_sums(&bounds_left, sure) > MAX_REMAINING_SCORE_SHARE {
            return None;
        }
        let mut near = self.find_candidates(sums, sure, bounds_left, limit, few)?;
        let mut highest = sure;
        for layer in (0..LAYER_COUNT).filter(|layer| bounds_left[*layer] > 0.0) {
            let high =
                |some: &[CandidateSlot]| some.iter().fold(0.0_f32, |high, (_, cell)| high.max(cell[layer]));
            let least = sure[layer] * (1.0 - RELATIVE_ROUNDING_TOLERANCE) - bounds_left[layer];
            let scales = std::array::from_fn(|of| if of == layer { 1.0 } else { 0.0 });
            let mut some: Vec<CandidateSlot> = Vec::new();
            sums.for_each_slot_above(scales, least, |slot, _| {
                some.push((slot, sums.sums_of_slot(slot)));
                (some.len() <= few).then_some(least)
            })?;
            some.sort_unstable_by_key(|(at, _)| *at);
            self.add_remaining_terms(&mut some, done, Some(layer), |some, done| {
                let least = high(some) * (1.0 - RELATIVE_ROUNDING_TOLERANCE)
                    - self.remaining_score_bounds(bounds, done)[layer];
                some.retain(|(_, cell)| cell[layer] >= least);
            });
            highest[layer] = high(&some);
        }
        if highest != sure {
            near = self.find_candidates(sums, highest, bounds_left, limit, few)?;
        }
        for (slot, _) in &self.slot_boosts {
            if let Err(at) = near.binary_search_by_key(slot, |(at, _)| *at) {
                near.insert(at, (*slot, sums.sums_of_slot(*slot)));
            }
        }
        self.add_remaining_terms(&mut near, done, None, |some, done| {
            let scores = some.iter().map(|(_, cell)| self.score_from_sums(cell, highest));
            let least = top_scores_threshold(scores, limit) * (1.0 - RELATIVE_ROUNDING_TOLERANCE);
            let more = self.score_from_sums(&self.remaining_score_bounds(bounds, done), highest)
                * (1.0 + RELATIVE_ROUNDING_TOLERANCE);
            let is_lifted = |slot: &usize| self.slot_boosts.binary_search_by_key(slot, |(at, _)| *at).is_ok();
            some.retain(|(at, cell)| self.score_from_sums(cell, highest) + more >= least || is_lifted(at));
        });
        Some(self.final_scores(near, highest))
    }

    /// Returns the slots that can be among the best, sorted, if they are few and no other slot can be.
    fn find_candidates(
        &self,
        sums: &ScoreAccumulators,
        highest: [f32; LAYER_COUNT],
        bounds_left: [f32; LAYER_COUNT],
        limit: usize,
        few: usize,
    ) -> Option<Vec<CandidateSlot>> {
        let more = self.score_from_sums(&bounds_left, highest) * (1.0 + RELATIVE_ROUNDING_TOLERANCE);
        // Slots with the rarest terms are likely to be among the best. They give a lower bound for the bar.
        let first = sums
            .first_touched_slots(RARE_TERM_SAMPLE_SLOTS)
            .iter()
            .map(|slot| self.score_from_sums(&sums.sums_of_slot(*slot as usize), highest));
        let floor = top_scores_threshold(first, limit);
        let mut best = TopScores::new(limit);
        // The bar rises during the scan, so slots that passed it earlier are checked again.
        let bar = |best: &TopScores| {
            let least = best.threshold().max(floor) * (1.0 - RELATIVE_ROUNDING_TOLERANCE);
            (least - more).max(f32::MIN_POSITIVE) * (1.0 - RELATIVE_ROUNDING_TOLERANCE)
        };
        let mut near: Vec<(f32, usize)> = Vec::new();
        let (enough, mut full) =
            (few.saturating_mul(8).saturating_add(CANDIDATE_PRUNING_THRESHOLD), CANDIDATE_PRUNING_THRESHOLD);
        sums.for_each_slot_above(self.layer_scales(highest), bar(&best), |slot, score| {
            best.offer(score);
            near.push((score, slot));
            if near.len() >= full {
                let least = best.threshold().max(floor) * (1.0 - RELATIVE_ROUNDING_TOLERANCE);
                near.retain(|(score, _)| score + more >= least);
                full = (near.len() * 2).max(CANDIDATE_PRUNING_THRESHOLD);
            }
            (near.len() <= enough).then(|| bar(&best))
        })?;
        // None of the best are below the bar, so the offered slots are complete.
        let least = best.threshold().max(floor) * (1.0 - RELATIVE_ROUNDING_TOLERANCE);
        if more > 0.0 && more >= least {
            return None;
        }
        near.retain(|(score, _)| score + more >= least);
        if near.len() > few {
            return None;
        }
        let mut near: Vec<CandidateSlot> =
            near.into_iter().map(|(_, slot)| (slot, sums.sums_of_slot(slot))).collect();
        near.sort_unstable_by_key(|(at, _)| *at);
        Some(near)
    }

    /// Returns the score of a slot from its sums.
    #[inline]
    fn score_from_sums(&self, cell: &[f32; LAYER_COUNT], highest: [f32; LAYER_COUNT]) -> f32 {
        let [pairs, stems] = self.layer_scales(highest);
        cell[0] * pairs + cell[1] * stems
    }

    /// Returns the factors that the sums of the layers are multiplied by.
    fn layer_scales(&self, highest: [f32; LAYER_COUNT]) -> [f32; LAYER_COUNT] {
        let scale = |high: f32, weight: f32| if high > 0.0 { weight / high } else { 0.0 };
        [scale(highest[0], 1.0), scale(highest[1], self.stem_layer_weight)]
    }

    /// Returns the scores of slots from their sums. The slots are sorted.
    fn final_scores(&self, slots: Vec<CandidateSlot>, highest: [f32; LAYER_COUNT]) -> Vec<(f32, usize)> {
        let mut found: Vec<(f32, usize)> =
            slots.into_iter().map(|(at, cell)| (self.score_from_sums(&cell, highest), at)).collect();
        for (slot, more) in &self.slot_boosts {
            match found.binary_search_by_key(slot, |(_, at)| *at) {
                Ok(at) => found[at].0 += more,
                Err(at) => found.insert(at, (*more, *slot)),
            }
        }
        found.retain(|(score, _)| *score > 0.0);
        found
    }

    /// Returns the number of slots that contain a term, including removed ones.
    fn posting_count(&self, term: &WeightedQueryTerm) -> usize {
        let places = self.segments.iter().zip(&term.term_numbers);
        places.filter_map(|(part, place)| Some(part.segment.document_frequency((*place)?) as usize)).sum()
    }

    /// Returns the most that a term can add to any slot.
    fn term_score_bound(&self, term: &WeightedQueryTerm) -> f32 {
        let layer = term.layer as usize;
        let places = self.segments.iter().zip(&term.term_numbers);
        let shares = places.filter_map(|(part, place)| {
            let count = part.segment.max_term_count((*place)?);
            let length = part.segment.min_lengths()[layer].max(u32::from(count)) as f32;
            Some(if count == u8::MAX {
                1.0
            } else {
                self.bm25_term_score(1.0, layer, f32::from(count), length)
            })
        });
        term.weight * shares.fold(0.0, f32::max) * (1.0 + RELATIVE_ROUNDING_TOLERANCE)
    }

    /// Adds the score of a term to every slot that contains it.
    fn accumulate_term(&self, term: &WeightedQueryTerm, sums: &mut ScoreAccumulators) {
        let layer = term.layer as usize;
        let mut block = PostingsBlock::new();
        let mut more = [0.0; SLOTS_PER_BLOCK];
        for (number, (part, mask)) in self.segments.iter().zip(self.masks).enumerate() {
            let Some(place) = term.term_numbers[number] else { continue };
            let (base, lengths) = (self.first_slots[number], part.segment.lengths());
            part.segment.postings(place).for_each_block(&mut block, |block| {
                let slots = block.slots();
                let length = |slot: &u32| u32::from_le_bytes(lengths[*slot as usize][layer]) as f32;
                match block.counts() {
                    None => more.iter_mut().zip(slots).for_each(|(more, slot)| {
                        *more = self.bm25_term_score(term.weight, layer, 1.0, length(slot));
                    }),
                    Some(counts) => {
                        more.iter_mut().zip(slots.iter().zip(counts)).for_each(|(more, (slot, count))| {
                            *more = self.bm25_term_score(term.weight, layer, *count as f32, length(slot));
                        });
                    }
                }
                if let Some(mask) = mask {
                    let outside = more.iter_mut().zip(slots).filter(|(_, slot)| !mask[**slot as usize]);
                    outside.for_each(|(more, _)| *more = 0.0);
                }
                sums.add(base, slots, layer, &more);
            });
        }
    }

    /// The score of one term in one slot. Every code path uses the same operations in the same order.
    #[inline]
    fn bm25_term_score(&self, weight: f32, layer: usize, count: f32, length: f32) -> f32 {
        weight * count / (count + self.length_norm_constant + self.length_norm_slopes[layer] * length)
    }

    /// Adds the scores of the terms after the first `done` to some slots, sorted, in one layer or in all. After each
    /// term `narrow` removes the slots that are no longer candidates; it gets the number of terms that are done.
    fn add_remaining_terms(
        &self,
        slots: &mut Vec<CandidateSlot>,
        done: usize,
        only: Option<usize>,
        narrow: impl Fn(&mut Vec<CandidateSlot>, usize),
    ) {
        let mut within = Vec::new();
        for (at, term) in self.terms.iter().enumerate().skip(done) {
            let layer = term.layer as usize;
            if only.is_some_and(|only| only != layer) {
                continue;
            }
            let mut start = 0;
            for (number, part) in self.segments.iter().enumerate() {
                let base = self.first_slots[number];
                let end =
                    start + slots[start..].partition_point(|(at, _)| *at < base + part.segment.slot_count());
                let some = &mut slots[start..end];
                start = end;
                let Some(place) = term.term_numbers[number].filter(|_| !some.is_empty()) else { continue };
                within.clear();
                within.extend(some.iter().map(|(at, _)| (at - base) as u32));
                let lengths = part.segment.lengths();
                part.segment.postings(place).lookup_slots(&within, |at, count| {
                    let length = u32::from_le_bytes(lengths[within[at] as usize][layer]) as f32;
                    some[at].1[layer] += self.bm25_term_score(term.weight, layer, count as f32, length);
                });
            }
            narrow(slots, at + 1);
        }
    }
}

/// A slot and its sums.
type CandidateSlot = (usize, [f32; LAYER_COUNT]);

/// The highest scores above zero, up to a fixed number.
struct TopScores {
    limit: usize,
    /// The bits of positive floats are ordered as the floats are.
    heap: BinaryHeap<Reverse<u32>>,
}

impl TopScores {
    fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::with_capacity(limit.min(1 << 12) + 1) }
    }

    fn offer(&mut self, score: f32) {
        if self.heap.len() < self.limit {
            if score >= f32::MIN_POSITIVE {
                self.heap.push(Reverse(score.to_bits()));
            }
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0 < score.to_bits()
            && score > 0.0
        {
            least.0 = score.to_bits();
        }
    }

    /// Returns the lowest of the kept scores, or the smallest positive number if fewer were offered than are kept.
    fn threshold(&self) -> f32 {
        match self.heap.peek() {
            Some(Reverse(bits)) if self.heap.len() >= self.limit => f32::from_bits(*bits),
            _ => f32::MIN_POSITIVE,
        }
    }
}

/// Returns the lowest of the best `limit` scores, or the smallest positive number if there are fewer.
fn top_scores_threshold(scores: impl Iterator<Item = f32>, limit: usize) -> f32 {
    let mut best = TopScores::new(limit);
    scores.for_each(|score| best.offer(score));
    best.threshold()
}

#[cfg(test)]
impl TopSlotScorer<'_> {
    /// The reference for tests: adds every term in order and scores every slot.
    pub(super) fn score_all_slots(&self) -> Vec<(f32, usize)> {
        let mut cells = vec![[0.0_f32; LAYER_COUNT]; self.slot_count];
        for term in &self.terms {
            let layer = term.layer as usize;
            for (number, (part, mask)) in self.segments.iter().zip(self.masks).enumerate() {
                let Some(place) = term.term_numbers[number] else { continue };
                part.segment.for_each_posting(place, |slot, count| {
                    if mask.as_ref().is_none_or(|mask| mask[slot as usize]) {
                        let length = part.segment.lengths_of_slot(slot)[layer] as f32;
                        cells[self.first_slots[number] + slot as usize][layer] +=
                            self.bm25_term_score(term.weight, layer, count as f32, length);
                    }
                });
            }
        }
        let high = |layer: usize| cells.iter().fold(0.0_f32, |high, cell| high.max(cell[layer]));
        let highest = [high(0), high(1)];
        self.final_scores(cells.into_iter().enumerate().collect(), highest)
    }
}
