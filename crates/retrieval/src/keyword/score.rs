//! The slots with the highest scores, without looking at every slot that holds a term.
//!
//! Terms that few passages hold weigh most and have short lists, so they come first. What the terms that are left could
//! still add to any passage is known beforehand; once that is too little for a passage outside the best to come in, the
//! long lists are only asked about the few passages that are left. The scores are, to the last bit, those of a look at
//! everything.

use crate::text::Layer;

use super::part::{Mask, Part};
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

/// Lists of so few slots together are read whole.
const SMALL: usize = if cfg!(test) { 64 } else { 4096 };
/// To ask one list about one slot takes as long as to read so many slots of it.
const ASKED: usize = 24;
/// Sums in another order differ by less than this share.
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
            if left <= SMALL {
                self.terms.iter().for_each(|term| self.add(term, sums));
                return self.settled(sums, limit);
            }
            let mut order: Vec<usize> = (0..self.terms.len()).collect();
            order.sort_by_key(|at| lengths[*at]);
            let bounds: Vec<f32> = self.terms.iter().map(|term| self.bound(term)).collect();
            let mut most = [0.0_f32; LAYERS];
            for (term, bound) in self.terms.iter().zip(&bounds) {
                most[term.layer as usize] += bound;
            }
            for (done, at) in order.iter().enumerate() {
                // A check looks at all sums, so it must be worth it.
                if sums.len() >= limit && left > SMALL && lengths[*at] * 2 > sums.len() {
                    let few = limit + left / (ASKED * self.terms.len());
                    if let Some(found) = self.early(sums, most, limit, few) {
                        return found;
                    }
                }
                let term = &self.terms[*at];
                self.add(term, sums);
                left -= lengths[*at];
                let layer = term.layer as usize;
                // Summed anew: what is left after subtracting would not be exact.
                most[layer] = order[done + 1..]
                    .iter()
                    .filter(|at| self.terms[**at].layer as usize == layer)
                    .map(|at| bounds[*at])
                    .sum();
            }
            self.early(sums, [0.0; LAYERS], limit, usize::MAX).unwrap_or_default()
        })
    }

    /// The best where every term was added in order, so that the sums are the scores.
    fn settled(&self, sums: &Sums, limit: usize) -> Vec<(f32, usize)> {
        let mut all = sums.all();
        all.sort_unstable_by_key(|(at, _)| *at);
        let slots = all.iter().map(|(at, _)| *at).collect();
        let cells: Vec<[f32; LAYERS]> = all.iter().map(|(_, cell)| *cell).collect();
        let highest = cells.iter().fold([0.0; LAYERS], |high: [f32; LAYERS], cell| {
            std::array::from_fn(|layer| high[layer].max(cell[layer]))
        });
        let mut found = self.finished(slots, &cells, highest);
        let least = least_of_best(found.iter().map(|(score, _)| *score), limit);
        found.retain(|(score, _)| *score >= least);
        found
    }

    /// The best, if what is left to add, `most` in each layer, cannot bring in passages that were not seen and leaves no
    /// more than `few` candidates.
    fn early(&self, sums: &Sums, most: [f32; LAYERS], limit: usize, few: usize) -> Option<Vec<(f32, usize)>> {
        let all = sums.all();
        let mut highest = [0.0_f32; LAYERS];
        for layer in 0..LAYERS {
            let sure = all.iter().fold(0.0_f32, |high, (_, cell)| high.max(cell[layer]));
            if most[layer] > 0.0 && most[layer] >= sure * (1.0 - INEXACT) {
                return None;
            }
            if sure > 0.0 {
                let least = sure * (1.0 - INEXACT) - most[layer];
                let near = all.iter().filter(|(_, cell)| cell[layer] >= least);
                let mut near: Vec<usize> = near.take(few.saturating_add(1)).map(|(at, _)| *at).collect();
                if near.len() > few {
                    return None;
                }
                near.sort_unstable();
                let exact = self.exact(&near, Some(layer));
                highest[layer] = exact.iter().fold(0.0, |high, cell| high.max(cell[layer]));
            }
        }
        let [pairs, stems] = self.scales(highest);
        let low = |cell: &[f32; LAYERS]| cell[0] * pairs + cell[1] * stems;
        let least = least_of_best(all.iter().map(|(_, cell)| low(cell)), limit) * (1.0 - INEXACT);
        let more = low(&most) * (1.0 + INEXACT);
        if most != [0.0; LAYERS] && (more >= least || all.len() < limit) {
            return None;
        }
        let near = all.iter().filter(|(_, cell)| low(cell) + more >= least);
        let mut near: Vec<usize> = near.take(few.saturating_add(1)).map(|(at, _)| *at).collect();
        if near.len() > few {
            return None;
        }
        near.extend(self.lifted.iter().map(|(at, _)| *at));
        near.sort_unstable();
        near.dedup();
        let exact = self.exact(&near, None);
        Some(self.finished(near, &exact, highest))
    }

    /// What the sums of the layers are multiplied by.
    fn scales(&self, highest: [f32; LAYERS]) -> [f32; LAYERS] {
        let scale = |high: f32, weight: f32| if high > 0.0 { weight / high } else { 0.0 };
        [scale(highest[0], 1.0), scale(highest[1], self.stems)]
    }

    /// The scores of slots, sorted, from their sums in each layer.
    fn finished(
        &self,
        slots: Vec<usize>,
        cells: &[[f32; LAYERS]],
        highest: [f32; LAYERS],
    ) -> Vec<(f32, usize)> {
        let [pairs, stems] = self.scales(highest);
        let scores = slots.into_iter().zip(cells);
        let mut found: Vec<(f32, usize)> =
            scores.map(|(at, cell)| (cell[0] * pairs + cell[1] * stems, at)).collect();
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
            Some(if count == u8::MAX { 1.0 } else { self.share(layer, f32::from(count), length) })
        });
        term.weight * shares.fold(0.0, f32::max) * (1.0 + INEXACT)
    }

    /// How much of its weight a term gives a passage that holds it so often and is so long.
    #[inline]
    fn share(&self, layer: usize, count: f32, length: f32) -> f32 {
        count / (count + self.flat + self.steep[layer] * length)
    }

    /// Adds what a term gives to every slot that holds it.
    fn add(&self, term: &Term, sums: &mut Sums) {
        let layer = term.layer as usize;
        for (number, (part, mask)) in self.parts.iter().zip(self.masks).enumerate() {
            let Some(place) = term.places[number] else { continue };
            let (base, lengths) = (self.bases[number], part.segment.lengths());
            part.segment.decode(place, |slot, count| {
                let slot = slot as usize;
                if mask.as_ref().is_none_or(|mask| mask[slot]) {
                    let length = u32::from_le_bytes(lengths[slot][layer]) as f32;
                    sums.add(base + slot, layer, self.given(term.weight, layer, count as f32, length));
                }
            });
        }
    }

    /// What is added to the sum of a slot: the same operations in the same order wherever a score is made.
    #[inline]
    fn given(&self, weight: f32, layer: usize, count: f32, length: f32) -> f32 {
        weight * count / (count + self.flat + self.steep[layer] * length)
    }

    /// The sums of some slots, sorted, with the terms in the order of the question; of one layer or of all.
    fn exact(&self, slots: &[usize], only: Option<usize>) -> Vec<[f32; LAYERS]> {
        let mut cells = vec![[0.0; LAYERS]; slots.len()];
        let mut start = 0;
        for (number, part) in self.parts.iter().enumerate() {
            let base = self.bases[number];
            let count = slots[start..].partition_point(|at| *at < base + part.segment.slots());
            let within: Vec<u32> = slots[start..start + count].iter().map(|at| (at - base) as u32).collect();
            let lengths = part.segment.lengths();
            let cells = &mut cells[start..start + count];
            start += count;
            if within.is_empty() {
                continue;
            }
            for term in &self.terms {
                let layer = term.layer as usize;
                let Some(place) = term.places[number] else { continue };
                if only.is_some_and(|only| only != layer) {
                    continue;
                }
                part.segment.postings(place).of(&within, |at, count| {
                    let length = u32::from_le_bytes(lengths[within[at] as usize][layer]) as f32;
                    cells[at][layer] += self.given(term.weight, layer, count as f32, length);
                });
            }
        }
        cells
    }
}

/// What the last of the best so many has; the smallest number above zero where there are fewer.
fn least_of_best(scores: impl Iterator<Item = f32>, limit: usize) -> f32 {
    // The bits of numbers above zero are ordered as the numbers are.
    let mut heap = std::collections::BinaryHeap::with_capacity(limit.min(1 << 12) + 1);
    let mut least = f32::MIN_POSITIVE;
    for score in scores {
        if score < least {
            continue;
        }
        heap.push(std::cmp::Reverse(score.to_bits()));
        if heap.len() > limit {
            heap.pop();
        }
        if heap.len() == limit {
            least = heap.peek().map_or(least, |std::cmp::Reverse(bits)| f32::from_bits(*bits));
        }
    }
    if heap.len() < limit { f32::MIN_POSITIVE } else { least }
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
        self.finished((0..self.total).collect(), &cells, highest)
    }
}
