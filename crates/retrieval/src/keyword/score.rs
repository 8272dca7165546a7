//! The slots with the highest scores, without looking at every slot that holds a term.
//!
//! Terms that few passages hold weigh most and have short lists, so they come first. What the terms that are left could
//! still add to any passage is known beforehand; once that is too little for a passage outside the best to come in, the
//! long lists are only asked about the few passages that are left. The scores are, to the last bit, those of a look at
//! everything.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::text::Layer;

use super::part::{Mask, Part};
use super::postings::{BLOCK, Block};
use super::ranking::Ranking;
use super::search::Places;
use super::segment::LAYERS;
use super::sums::Sums;

/// A term that is looked for.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) layer: Layer,
    /// Where it is in each part.
    pub(super) places: Places,
    /// How much it weighs, its rarity included.
    pub(super) weight: f32,
}

/// When so few slots are left to read, they are read.
const SMALL: usize = if cfg!(test) { 64 } else { 4096 };
/// To ask the lists about one slot takes as long as to read so many slots of them: two or three have to be asked until
/// the slot is no longer wanted.
const ASKED: usize = 256;
/// To look at all slots takes as long as to read so many times as many slots of lists, and often it is in vain.
const WORTH: usize = if cfg!(test) { 1 } else { 4 };
/// While the terms that are left can add more than this share of a score, no candidate is ruled out.
const HOPELESS: f32 = if cfg!(test) { 2.0 } else { 0.5 };
/// So many of the slots that hold the rarest terms are looked at before all others.
const SOME: usize = 1024;
/// So many slots may seem to be among the best before the list of them is looked through.
const ENOUGH: usize = 1024;
/// What is added or multiplied in another order differs by less than this share.
const INEXACT: f32 = 1e-4;

/// What is scored.
pub(super) struct Scoring<'a> {
    parts: &'a [Part],
    masks: &'a [Mask],
    /// The first slot of each part.
    bases: Vec<usize>,
    total: usize,
    terms: Vec<Term>,
    /// What is added to some slots beyond their terms, sorted by slot.
    lifted: Vec<(usize, f32)>,
    stems: f32,
    flat: f32,
    steep: [f32; LAYERS],
}

impl<'a> Scoring<'a> {
    pub(super) fn new(
        parts: &'a [Part],
        masks: &'a [Mask],
        averages: [f32; LAYERS],
        ranking: &Ranking,
        terms: Vec<Term>,
        lifted: Vec<(usize, f32)>,
    ) -> Self {
        let mut total = 0;
        let bases = parts.iter().map(|part| {
            total += part.segment.slots();
            total - part.segment.slots()
        });
        let bases = bases.collect();
        let flat = ranking.k1 * (1.0 - ranking.b);
        let steep = averages.map(|average| ranking.k1 * ranking.b / average);
        Self { parts, masks, bases, total, terms, lifted, stems: ranking.stems, flat, steep }
    }

    /// The slots with the highest scores above zero: the best `limit` are among them, with their scores.
    pub(super) fn best(&self, limit: usize) -> Vec<(f32, usize)> {
        Sums::with(self.total, |sums| {
            let lengths: Vec<usize> = self.terms.iter().map(|term| self.length(term)).collect();
            let mut left: usize = lengths.iter().sum();
            let bounds: Vec<f32> = self.terms.iter().map(|term| self.bound(term)).collect();
            for (done, term) in self.terms.iter().enumerate() {
                // A check looks at all sums, so it must be worth it.
                if done > 0 && left > SMALL && left > sums.effort() * WORTH {
                    let few = limit + left / ASKED;
                    if let Some(found) = self.early(sums, done, &bounds, limit, few) {
                        return found;
                    }
                }
                self.add(term, sums);
                left -= lengths[done];
            }
            let done = self.terms.len();
            self.early(sums, done, &bounds, limit, usize::MAX).unwrap_or_default()
        })
    }

    /// What the terms that are not `done` can add to any slot, in each layer.
    fn most(&self, bounds: &[f32], done: usize) -> [f32; LAYERS] {
        let mut most = [0.0_f32; LAYERS];
        for (term, bound) in self.terms[done..].iter().zip(&bounds[done..]) {
            most[term.layer as usize] += bound;
        }
        most
    }

    /// The best, if the terms that are not `done` cannot bring in passages that were not seen and leave no more than
    /// `few` candidates.
    fn early(
        &self,
        sums: &Sums,
        done: usize,
        bounds: &[f32],
        limit: usize,
        few: usize,
    ) -> Option<Vec<(f32, usize)>> {
        let (sure, most) = (sums.highest(), self.most(bounds, done));
        if (0..LAYERS).any(|layer| most[layer] > 0.0 && most[layer] >= sure[layer] * (1.0 - INEXACT)) {
            return None;
        }
        // About what it will be: most that fail fail here, before any list is asked.
        if self.low(&most, sure) > HOPELESS {
            return None;
        }
        let mut near = self.near(sums, sure, most, limit, few)?;
        let mut highest = sure;
        for layer in (0..LAYERS).filter(|layer| most[*layer] > 0.0) {
            let high = |some: &[Slot]| some.iter().fold(0.0_f32, |high, (_, cell)| high.max(cell[layer]));
            let least = sure[layer] * (1.0 - INEXACT) - most[layer];
            let scales = std::array::from_fn(|of| if of == layer { 1.0 } else { 0.0 });
            let mut some: Vec<Slot> = Vec::new();
            sums.above(scales, least, |slot, _| {
                some.push((slot, sums.of(slot)));
                (some.len() <= few).then_some(least)
            })?;
            some.sort_unstable_by_key(|(at, _)| *at);
            self.finish(&mut some, done, Some(layer), |some, done| {
                let least = high(some) * (1.0 - INEXACT) - self.most(bounds, done)[layer];
                some.retain(|(_, cell)| cell[layer] >= least);
            });
            highest[layer] = high(&some);
        }
        if highest != sure {
            near = self.near(sums, highest, most, limit, few)?;
        }
        for (slot, _) in &self.lifted {
            if let Err(at) = near.binary_search_by_key(slot, |(at, _)| *at) {
                near.insert(at, (*slot, sums.of(*slot)));
            }
        }
        self.finish(&mut near, done, None, |some, done| {
            let scores = some.iter().map(|(_, cell)| self.low(cell, highest));
            let least = least_of_best(scores, limit) * (1.0 - INEXACT);
            let more = self.low(&self.most(bounds, done), highest) * (1.0 + INEXACT);
            let is_lifted = |slot: &usize| self.lifted.binary_search_by_key(slot, |(at, _)| *at).is_ok();
            some.retain(|(at, cell)| self.low(cell, highest) + more >= least || is_lifted(at));
        });
        Some(self.finished(near, highest))
    }

    /// The slots that can be among the best, sorted, if they are few and no other slot can.
    fn near(
        &self,
        sums: &Sums,
        highest: [f32; LAYERS],
        most: [f32; LAYERS],
        limit: usize,
        few: usize,
    ) -> Option<Vec<Slot>> {
        let more = self.low(&most, highest) * (1.0 + INEXACT);
        // Slots that hold the rarest terms are likely among the best: they say where the bar is at least.
        let first = sums.first(SOME).iter().map(|slot| self.low(&sums.of(*slot as usize), highest));
        let floor = least_of_best(first, limit);
        let mut best = Best::new(limit);
        // What a slot needs to be among the best rises on the way; those that had enough before are looked at again.
        let bar = |best: &Best| {
            let least = best.least().max(floor) * (1.0 - INEXACT);
            (least - more).max(f32::MIN_POSITIVE) * (1.0 - INEXACT)
        };
        let mut near: Vec<(f32, usize)> = Vec::new();
        let (enough, mut full) = (few.saturating_mul(8).saturating_add(ENOUGH), ENOUGH);
        sums.above(self.scales(highest), bar(&best), |slot, score| {
            best.offer(score);
            near.push((score, slot));
            if near.len() >= full {
                let least = best.least().max(floor) * (1.0 - INEXACT);
                near.retain(|(score, _)| score + more >= least);
                full = (near.len() * 2).max(ENOUGH);
            }
            (near.len() <= enough).then(|| bar(&best))
        })?;
        // Below the bar lie none of the best, so those that were offered are all that count.
        let least = best.least().max(floor) * (1.0 - INEXACT);
        if more > 0.0 && more >= least {
            return None;
        }
        near.retain(|(score, _)| score + more >= least);
        if near.len() > few {
            return None;
        }
        let mut near: Vec<Slot> = near.into_iter().map(|(_, slot)| (slot, sums.of(slot))).collect();
        near.sort_unstable_by_key(|(at, _)| *at);
        Some(near)
    }

    /// The score of a slot from its sums.
    #[inline]
    fn low(&self, cell: &[f32; LAYERS], highest: [f32; LAYERS]) -> f32 {
        let [pairs, stems] = self.scales(highest);
        cell[0] * pairs + cell[1] * stems
    }

    /// What the sums of the layers are multiplied by.
    fn scales(&self, highest: [f32; LAYERS]) -> [f32; LAYERS] {
        let scale = |high: f32, weight: f32| if high > 0.0 { weight / high } else { 0.0 };
        [scale(highest[0], 1.0), scale(highest[1], self.stems)]
    }

    /// The scores of slots, sorted, from their sums.
    fn finished(&self, slots: Vec<Slot>, highest: [f32; LAYERS]) -> Vec<(f32, usize)> {
        let mut found: Vec<(f32, usize)> =
            slots.into_iter().map(|(at, cell)| (self.low(&cell, highest), at)).collect();
        for (slot, more) in &self.lifted {
            match found.binary_search_by_key(slot, |(_, at)| *at) {
                Ok(at) => found[at].0 += more,
                Err(at) => found.insert(at, (*more, *slot)),
            }
        }
        found.retain(|(score, _)| *score > 0.0);
        found
    }

    /// How many slots hold a term, removed ones included.
    fn length(&self, term: &Term) -> usize {
        let places = self.parts.iter().zip(&term.places);
        places.filter_map(|(part, place)| Some(part.segment.holders((*place)?) as usize)).sum()
    }

    /// The most a term adds to any slot.
    fn bound(&self, term: &Term) -> f32 {
        let layer = term.layer as usize;
        let places = self.parts.iter().zip(&term.places);
        let shares = places.filter_map(|(part, place)| {
            let count = part.segment.most((*place)?);
            let length = part.segment.least()[layer].max(u32::from(count)) as f32;
            Some(if count == u8::MAX { 1.0 } else { self.given(1.0, layer, f32::from(count), length) })
        });
        term.weight * shares.fold(0.0, f32::max) * (1.0 + INEXACT)
    }

    /// Adds what a term gives to every slot that holds it.
    fn add(&self, term: &Term, sums: &mut Sums) {
        let layer = term.layer as usize;
        let mut block = Block::new();
        let mut more = [0.0; BLOCK];
        for (number, (part, mask)) in self.parts.iter().zip(self.masks).enumerate() {
            let Some(place) = term.places[number] else { continue };
            let (base, lengths) = (self.bases[number], part.segment.lengths());
            part.segment.postings(place).blocks(&mut block, |block| {
                let slots = block.slots();
                let length = |slot: &u32| u32::from_le_bytes(lengths[*slot as usize][layer]) as f32;
                match block.counts() {
                    None => more.iter_mut().zip(slots).for_each(|(more, slot)| {
                        *more = self.given(term.weight, layer, 1.0, length(slot));
                    }),
                    Some(counts) => {
                        more.iter_mut().zip(slots.iter().zip(counts)).for_each(|(more, (slot, count))| {
                            *more = self.given(term.weight, layer, *count as f32, length(slot));
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

    /// What is added to the sum of a slot: the same operations in the same order wherever a score is made.
    #[inline]
    fn given(&self, weight: f32, layer: usize, count: f32, length: f32) -> f32 {
        weight * count / (count + self.flat + self.steep[layer] * length)
    }

    /// Adds what the terms that are not `done` give to some slots, sorted; of one layer or of all. After each term
    /// `narrow` takes out those that are no longer wanted; it is told how many terms are done.
    fn finish(
        &self,
        slots: &mut Vec<Slot>,
        done: usize,
        only: Option<usize>,
        narrow: impl Fn(&mut Vec<Slot>, usize),
    ) {
        let mut within = Vec::new();
        for (at, term) in self.terms.iter().enumerate().skip(done) {
            let layer = term.layer as usize;
            if only.is_some_and(|only| only != layer) {
                continue;
            }
            let mut start = 0;
            for (number, part) in self.parts.iter().enumerate() {
                let base = self.bases[number];
                let end = start + slots[start..].partition_point(|(at, _)| *at < base + part.segment.slots());
                let some = &mut slots[start..end];
                start = end;
                let Some(place) = term.places[number].filter(|_| !some.is_empty()) else { continue };
                within.clear();
                within.extend(some.iter().map(|(at, _)| (at - base) as u32));
                let lengths = part.segment.lengths();
                part.segment.postings(place).of(&within, |at, count| {
                    let length = u32::from_le_bytes(lengths[within[at] as usize][layer]) as f32;
                    some[at].1[layer] += self.given(term.weight, layer, count as f32, length);
                });
            }
            narrow(slots, at + 1);
        }
    }
}

/// A slot and its sums.
type Slot = (usize, [f32; LAYERS]);

/// The highest so many of scores above zero.
struct Best {
    limit: usize,
    /// The bits of numbers above zero are ordered as the numbers are.
    heap: BinaryHeap<Reverse<u32>>,
}

impl Best {
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

    /// What the last of them has; the smallest number above zero where there are fewer.
    fn least(&self) -> f32 {
        match self.heap.peek() {
            Some(Reverse(bits)) if self.heap.len() >= self.limit => f32::from_bits(*bits),
            _ => f32::MIN_POSITIVE,
        }
    }
}

/// What the last of the best so many has; the smallest number above zero where there are fewer.
fn least_of_best(scores: impl Iterator<Item = f32>, limit: usize) -> f32 {
    let mut best = Best::new(limit);
    scores.for_each(|score| best.offer(score));
    best.least()
}

#[cfg(test)]
impl Scoring<'_> {
    /// The best by a look at everything: every term added in order, every slot scored.
    pub(super) fn everything(&self) -> Vec<(f32, usize)> {
        let mut cells = vec![[0.0_f32; LAYERS]; self.total];
        for term in &self.terms {
            let layer = term.layer as usize;
            for (number, (part, mask)) in self.parts.iter().zip(self.masks).enumerate() {
                let Some(place) = term.places[number] else { continue };
                part.segment.decode(place, |slot, count| {
                    if mask.as_ref().is_none_or(|mask| mask[slot as usize]) {
                        let length = part.segment.lengths_of(slot)[layer] as f32;
                        cells[self.bases[number] + slot as usize][layer] +=
                            self.given(term.weight, layer, count as f32, length);
                    }
                });
            }
        }
        let high = |layer: usize| cells.iter().fold(0.0_f32, |high, cell| high.max(cell[layer]));
        let highest = [high(0), high(1)];
        self.finished(cells.into_iter().enumerate().collect(), highest)
    }
}
