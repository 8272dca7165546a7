//! How many passages contain a term, and what that makes the term worth.

use super::live_segment::{LiveSegment, SlotMask};

/// The number of a term in each segment, `None` where the segment does not contain it.
pub(super) type SegmentTermNumbers = Vec<Option<usize>>;

pub(super) fn find_in_segments(parts: &[LiveSegment], key: &[u8]) -> SegmentTermNumbers {
    parts.iter().map(|part| part.segment.find_term(key)).collect()
}

/// Returns how many of the searched passages contain a term.
pub(super) fn document_frequency(
    parts: &[LiveSegment],
    masks: &[SlotMask],
    places: &SegmentTermNumbers,
) -> u32 {
    let mut frequency = 0;
    for ((part, mask), place) in parts.iter().zip(masks).zip(places) {
        let Some(term) = place else { continue };
        match mask {
            None => frequency += part.segment.document_frequency(*term),
            Some(mask) => {
                part.segment.for_each_posting(*term, |slot, _| frequency += u32::from(mask[slot as usize]));
            }
        }
    }
    frequency
}

/// The weight of a term that so many of all passages contain, as in BM25: the rarer, the higher.
pub(super) fn inverse_document_frequency(frequency: u32, passages: f32) -> f32 {
    let frequency = frequency as f32;
    (1.0 + (passages - frequency + 0.5) / (frequency + 0.5)).ln()
}
