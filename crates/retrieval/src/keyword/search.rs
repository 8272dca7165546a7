//! Keyword search over segments: BM25 in each layer, each layer scaled to its best passage, both added.

use crate::retriever::DocumentFilter;
use crate::text_analysis::TermLayer;

use super::article_numbers;
use super::bm25_scoring::{TopSlotScorer, WeightedQueryTerm};
use super::document_frequency::{
    SegmentTermNumbers, document_frequency, find_in_segments, inverse_document_frequency,
};
use super::live_segment::{LiveSegment, SlotMask, slot_mask};
use super::phrase;
use super::query::KeywordQuery;
use super::ranking::{ARTICLE_NUMBER_BOOST, RankingParameters};
use super::segment::LAYER_COUNT;
use super::typo_tolerance;

/// The position of a hit and its score.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeywordHit {
    pub(crate) score: f32,
    pub(crate) segment: usize,
    pub(crate) slot: usize,
}

/// At most this many terms that occur in no passage are corrected as typos.
const MAX_TYPO_TERMS: usize = 6;
/// Typos are only corrected in queries with at most this many stems. A longer query has enough correct words.
pub(crate) const MAX_STEMS_FOR_TYPO_TOLERANCE: usize = 8;
/// The maximum number of corrections for one typo.
const MAX_TYPO_CORRECTIONS: usize = 2;

/// Returns the best hits, best first. Equal scores are in the order of the documents.
pub(crate) fn search(
    parts: &[LiveSegment],
    query: &KeywordQuery,
    ranking: &RankingParameters,
    filter: &DocumentFilter,
    limit: usize,
) -> Vec<KeywordHit> {
    search_with_scorer(parts, query, ranking, filter, limit, |scoring, limit| scoring.top_slots(limit))
}

/// Like [`search`], with another function to find the slots with the highest scores.
pub(super) fn search_with_scorer(
    parts: &[LiveSegment],
    query: &KeywordQuery,
    ranking: &RankingParameters,
    filter: &DocumentFilter,
    limit: usize,
    best: impl Fn(&TopSlotScorer<'_>, usize) -> Vec<(f32, usize)>,
) -> Vec<KeywordHit> {
    let masks: Vec<SlotMask> = parts.iter().map(|part| slot_mask(part, filter)).collect();
    let about = CollectionStatistics::from_segments(parts, &masks);
    if limit == 0 || about.passage_count == 0 {
        return Vec::new();
    }
    let terms = weighted_query_terms(parts, &masks, &about, query, ranking);
    let lifted = article_boosts(parts, query, &masks);
    let scoring = TopSlotScorer::new(parts, &masks, about.average_lengths, ranking, terms, lifted);
    let limited = limit.max(MAX_RESCORED_HITS);
    let mut found = top_hits_in_order(parts, best(&scoring, limited), limited);
    boost_phrases_and_headings(parts, query, ranking, &mut found, limit);
    found.truncate(limit);
    found
}

/// The statistics that BM25 needs of all passages that are searched.
struct CollectionStatistics {
    passage_count: usize,
    average_lengths: [f32; LAYER_COUNT],
}

impl CollectionStatistics {
    fn from_segments(parts: &[LiveSegment], masks: &[SlotMask]) -> Self {
        let mut passages = 0;
        let mut sums = [0_u64; LAYER_COUNT];
        for (part, mask) in parts.iter().zip(masks) {
            let Some(mask) = mask else {
                passages += part.segment.slot_count();
                sums.iter_mut().zip(part.segment.total_lengths()).for_each(|(sum, total)| *sum += total);
                continue;
            };
            for slot in (0..part.segment.slot_count()).filter(|slot| mask[*slot]) {
                passages += 1;
                let lengths = part.segment.lengths_of_slot(slot as u32);
                sums.iter_mut().zip(lengths).for_each(|(sum, length)| *sum += u64::from(length));
            }
        }
        let averages = sums.map(|sum| (sum as f32 / passages.max(1) as f32).max(1.0));
        Self { passage_count: passages, average_lengths: averages }
    }
}

/// Returns the terms of a query with their weights. The terms with the lowest document frequency come first; equal ones
/// are in the order of the query.
fn weighted_query_terms(
    parts: &[LiveSegment],
    masks: &[SlotMask],
    about: &CollectionStatistics,
    query: &KeywordQuery,
    ranking: &RankingParameters,
) -> Vec<WeightedQueryTerm> {
    let rarity = |frequency: u32| inverse_document_frequency(frequency, about.passage_count as f32);
    let stem_count = query
        .terms
        .iter()
        .filter(|term| term.layer == TermLayer::Stems && term.synonym_of_keys.is_empty())
        .count();
    let mut typos_left = if stem_count <= MAX_STEMS_FOR_TYPO_TOLERANCE { MAX_TYPO_TERMS } else { 0 };
    let mut terms = Vec::with_capacity(query.terms.len());
    for wanted in &query.terms {
        let places = find_in_segments(parts, &wanted.key);
        let frequency = document_frequency(parts, masks, &places);
        let layer = wanted.layer;
        let mut weight = wanted.weight;
        if !wanted.synonym_of_keys.is_empty() {
            // The more terms of the query the documents contain, the less the synonyms weigh.
            let rarities = wanted
                .synonym_of_keys
                .iter()
                .map(|key| rarity(document_frequency(parts, masks, &find_in_segments(parts, key))));
            weight *= rarities.fold(0.0, f32::max) / rarity(0);
        }
        if frequency > 0 {
            terms.push((
                frequency,
                WeightedQueryTerm { layer, term_numbers: places, weight: weight * rarity(frequency) },
            ));
        } else if wanted.synonym_of_keys.is_empty() && !wanted.is_article_number && typos_left > 0 {
            typos_left -= 1;
            for (places, frequency) in typo_corrections(parts, masks, &wanted.key) {
                let weight = weight * ranking.typo_weight * rarity(frequency);
                terms.push((frequency, WeightedQueryTerm { layer, term_numbers: places, weight }));
            }
        }
    }
    terms.sort_by_key(|(frequency, _)| *frequency);
    terms.into_iter().map(|(_, term)| term).collect()
}

/// Returns the likeliest corrections of a term that occurs nowhere: the terms one edit away with the highest document
/// frequency.
fn typo_corrections(parts: &[LiveSegment], masks: &[SlotMask], key: &[u8]) -> Vec<(SegmentTermNumbers, u32)> {
    let Some((layer, term)) = key.split_first() else { return Vec::new() };
    let mut found: Vec<(SegmentTermNumbers, u32)> = Vec::new();
    let mut key = vec![*layer];
    typo_tolerance::for_each_typo_candidate(&String::from_utf8_lossy(term), &mut |slip| {
        key.truncate(1);
        key.extend_from_slice(slip);
        if parts.iter().any(|part| part.segment.find_term(&key).is_some()) {
            let places = find_in_segments(parts, &key);
            let holders = document_frequency(parts, masks, &places);
            if holders > 0 {
                found.push((places, holders));
            }
        }
    });
    found.sort_by_key(|(_, holders)| std::cmp::Reverse(*holders));
    found.truncate(MAX_TYPO_CORRECTIONS);
    found
}

/// Returns the boosts for articles that the query names by number: slots over all segments, sorted. If the query names
/// a document, only its articles are boosted.
fn article_boosts(parts: &[LiveSegment], query: &KeywordQuery, masks: &[SlotMask]) -> Vec<(usize, f32)> {
    let mut lifted: Vec<(usize, f32)> = Vec::new();
    for number in &query.articles {
        let term = article_numbers::article_term_key(*number);
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        let mut base = 0;
        for (part, mask) in parts.iter().zip(masks) {
            if let Some(term) = part.segment.find_term(&term) {
                part.segment.for_each_posting(term, |slot, _| {
                    let slot = slot as usize;
                    if mask.as_ref().is_none_or(|mask| mask[slot])
                        && let Some(held) = &part.documents()[part.segment.document_of_slot(slot)]
                    {
                        let named = if query.letters_and_digits.contains(held.normalized_title()) {
                            held.normalized_title().len()
                        } else {
                            0
                        };
                        candidates.push((base + slot, named));
                    }
                });
            }
            base += part.segment.slot_count();
        }
        let longest = candidates.iter().map(|(_, named)| *named).max().unwrap_or(0);
        let named = candidates.into_iter().filter(|(_, named)| *named == longest);
        lifted.extend(named.map(|(at, _)| (at, ARTICLE_NUMBER_BOOST)));
    }
    lifted.sort_by_key(|(at, _)| *at);
    lifted
}

/// Returns the best `limit` slots as hits, best first. Equal scores are in the order of the documents.
fn top_hits_in_order(parts: &[LiveSegment], mut found: Vec<(f32, usize)>, limit: usize) -> Vec<KeywordHit> {
    let mut starts = vec![0];
    for part in parts {
        starts.push(starts[starts.len() - 1] + part.segment.slot_count());
    }
    let place = |at: usize| {
        let part = starts.partition_point(|start| *start <= at) - 1;
        (part, at - starts[part])
    };
    let name = |at: usize| {
        let (part, slot) = place(at);
        let document = parts[part].segment.document_of_slot(slot);
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
            KeywordHit { score, segment: part, slot }
        })
        .collect()
}

/// Rounding changes a sum of scores by less than this.
const ABSOLUTE_ROUNDING_TOLERANCE: f32 = 1e-4;
/// The number of best hits that are checked for phrases and headings.
const MAX_RESCORED_HITS: usize = 20;

/// Boosts passages that contain the words of the query side by side, and those whose heading matches the query.
/// Passages that cannot reach the best `limit` that way keep their score.
fn boost_phrases_and_headings(
    parts: &[LiveSegment],
    query: &KeywordQuery,
    ranking: &RankingParameters,
    found: &mut [KeywordHit],
    limit: usize,
) {
    if ranking.phrase_boost <= 0.0 && ranking.heading_boost <= 0.0 || query.words.is_empty() {
        return;
    }
    let count = found.len().min(MAX_RESCORED_HITS);
    let found = &mut found[..count];
    let words: Vec<phrase::PhraseWord<'_>> =
        query.words.iter().map(|word| phrase::PhraseWord::new(word)).collect();
    let mut phrases = phrase::PhraseMatcher::new(&words);
    let at = |found: &KeywordHit| parts[found.segment].document_at_slot(found.slot);
    // A lower bound for each score, from the score and the heading. Passages that cannot exceed the last one are
    // skipped.
    let mut sure: Vec<f32> = found.iter().map(|found| found.score).collect();
    let mut bar = score_threshold(&sure, limit);
    let mut headed = vec![None; count];
    for (number, found) in found.iter().enumerate() {
        if sure[number] + ranking.heading_boost + ranking.phrase_boost >= bar
            && let Some((held, within)) = at(found)
            && let Some((title, _)) = held.passage_title_and_bytes(within)
        {
            let share = phrase::heading_overlap(&query.stems, title);
            sure[number] += ranking.heading_boost * share;
            headed[number] = Some(share);
        }
    }
    bar = bar.max(score_threshold(&sure, limit));
    for (number, found) in found.iter_mut().enumerate() {
        if sure[number] + ranking.phrase_boost >= bar
            && let Some(headed) = headed[number]
            && let Some((held, within)) = at(found)
            && let Some((_, text)) = held.passage_title_and_bytes(within)
        {
            found.score +=
                ranking.phrase_boost * phrases.longest_phrase_share(text) + ranking.heading_boost * headed;
        }
    }
    // The sort is stable: equal scores stay in the order of the documents.
    found.sort_by(|left, right| right.score.total_cmp(&left.score));
}

/// Returns the lowest of the best `limit` scores, less the rounding tolerance, or `f32::MIN` if there are fewer.
fn score_threshold(scores: &[f32], limit: usize) -> f32 {
    let mut scores = scores.to_vec();
    scores.sort_unstable_by(|left, right| right.total_cmp(left));
    scores.get(limit - 1).map_or(f32::MIN, |least| least - ABSOLUTE_ROUNDING_TOLERANCE)
}
