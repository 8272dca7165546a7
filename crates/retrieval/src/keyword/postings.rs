//! The posting list of a term: which slots contain it, and how often.
//!
//! A list is split into blocks of 64 slots. A slot is stored as its distance from the previous one, in as many bytes as
//! the largest distance of the block needs. One bit for each slot then says whether it contains the term more than
//! once; the counts follow as varints. A list of several blocks starts with a skip table: the last slot and the end
//! offset of each block. A slot can then be looked up without reading everything before it.
//!
//! ```text
//! last slot, end 2 × u32 for each block, if there is more than one
//! for each block: width of distances and 8 if any count is above 1, u8 · distances · bits, counts if any is above 1
//! ```

/// The number of slots in a block.
pub(super) const SLOTS_PER_BLOCK: usize = 64;
const SKIP_ENTRY_BYTES: usize = 8;
/// The flag in the head of a block in which some slots contain the term more than once.
const HAS_COUNTS_FLAG: u8 = 8;

/// The posting list of one term, as bytes.
#[derive(Clone, Copy)]
pub(super) struct Postings<'a> {
    skip_table: &'a [u8],
    blocks: &'a [u8],
    document_frequency: usize,
    /// The number of slots in the segment. Slots in a list are below it.
    slot_count: u32,
}

/// The decoded slots of one block.
pub(super) struct PostingsBlock {
    slots: [u32; SLOTS_PER_BLOCK],
    counts: [u32; SLOTS_PER_BLOCK],
    length: usize,
    has_counts: bool,
}

impl PostingsBlock {
    pub(super) fn new() -> Self {
        Self { slots: [0; SLOTS_PER_BLOCK], counts: [1; SLOTS_PER_BLOCK], length: 0, has_counts: false }
    }

    /// Returns the slots, in order.
    #[inline]
    pub(super) fn slots(&self) -> &[u32] {
        &self.slots[..self.length]
    }

    /// Returns how often each slot contains the term, or `None` if all contain it once.
    #[inline]
    pub(super) fn counts(&self) -> Option<&[u32]> {
        self.has_counts.then(|| &self.counts[..self.length])
    }

    /// Decodes `length` slots, starting at `next`, and returns the bytes that follow. Returns `None` if the bytes are
    /// not a valid block of slots below `slots`.
    #[inline]
    fn decode<'a>(&mut self, bytes: &'a [u8], length: usize, next: u32, slots: u32) -> Option<&'a [u8]> {
        let (head, rest) = bytes.split_first()?;
        let width = usize::from(head & !HAS_COUNTS_FLAG);
        let (distances, mut rest) = rest.split_at_checked(width * length)?;
        // Wide enough for any sum, so the slots stay in order and the last one is the highest.
        let mut after = u64::from(next);
        let mut put = |at: usize, distance: u32| {
            after += u64::from(distance) + 1;
            self.slots[at] = (after - 1) as u32;
        };
        match width {
            1 => distances.iter().enumerate().for_each(|(at, byte)| put(at, u32::from(*byte))),
            2 => {
                let all = distances.as_chunks::<2>().0.iter();
                all.enumerate().for_each(|(at, bytes)| put(at, u32::from(u16::from_le_bytes(*bytes))));
            }
            4 => {
                let all = distances.as_chunks::<4>().0.iter();
                all.enumerate().for_each(|(at, bytes)| put(at, u32::from_le_bytes(*bytes)));
            }
            _ => return None,
        }
        if after > u64::from(slots) {
            return None;
        }
        if self.has_counts {
            self.counts = [1; SLOTS_PER_BLOCK];
        }
        self.has_counts = head & HAS_COUNTS_FLAG != 0;
        if self.has_counts {
            let (bits, tail) = rest.split_at_checked(length.div_ceil(8))?;
            rest = tail;
            for (at, byte) in bits.iter().enumerate() {
                let mut bits = *byte;
                while bits != 0 {
                    let at = at * 8 + bits.trailing_zeros() as usize;
                    *self.counts.get_mut(at)? = read_varint(&mut rest)?;
                    bits &= bits - 1;
                }
            }
        }
        self.length = length;
        Some(rest)
    }
}

impl<'a> Postings<'a> {
    /// Creates a view of these bytes: a list of `holders` postings in a segment of `slots` slots.
    pub(super) fn new(bytes: &'a [u8], holders: u32, slots: u32) -> Self {
        let holders = holders as usize;
        let (table, body) = bytes.split_at_checked(skip_table_bytes(holders)).unwrap_or((&[], &[]));
        Self { skip_table: table, blocks: body, document_frequency: holders, slot_count: slots }
    }

    /// Calls `each` for every block of the list.
    #[inline]
    pub(super) fn for_each_block(&self, block: &mut PostingsBlock, mut each: impl FnMut(&PostingsBlock)) {
        let (mut rest, mut left, mut next) = (self.blocks, self.document_frequency, 0);
        while left > 0 {
            let length = left.min(SLOTS_PER_BLOCK);
            let Some(tail) = block.decode(rest, length, next, self.slot_count) else { return };
            each(block);
            next = block.slots[length - 1].wrapping_add(1);
            (rest, left) = (tail, left - length);
        }
    }

    /// Calls `each` for every slot with its count.
    #[inline]
    pub(super) fn for_each_posting(&self, mut each: impl FnMut(u32, u32)) {
        self.for_each_block(&mut PostingsBlock::new(), |block| {
            block.slots().iter().zip(&block.counts).for_each(|(slot, count)| each(*slot, *count));
        });
    }

    /// Calls `each` for those of the given slots, sorted, that contain the term, with the position in `slots` and the
    /// count.
    pub(super) fn lookup_slots(&self, slots: &[u32], mut each: impl FnMut(usize, u32)) {
        let blocks = self.document_frequency.div_ceil(SLOTS_PER_BLOCK);
        let mut read = PostingsBlock::new();
        let (mut block, mut at) = (0, 0);
        while at < slots.len() && block < blocks {
            let (mut from, mut next) = (0, 0);
            if blocks > 1 {
                block += self.blocks_before_slot(block, blocks, slots[at]);
                if block == blocks {
                    return;
                }
                if let Some(before) = block.checked_sub(1) {
                    let (last, ended) = self.skip_entry(before);
                    (next, from) = (last.wrapping_add(1), ended as usize);
                }
            }
            let length = (self.document_frequency - block * SLOTS_PER_BLOCK).min(SLOTS_PER_BLOCK);
            let body = self.blocks.get(from..).unwrap_or_default();
            if read.decode(body, length, next, self.slot_count).is_none() {
                return;
            }
            let mut within = 0;
            while at < slots.len() && within < length {
                match read.slots[within].cmp(&slots[at]) {
                    std::cmp::Ordering::Less => within += 1,
                    std::cmp::Ordering::Greater => at += 1,
                    std::cmp::Ordering::Equal => {
                        each(at, read.counts[within]);
                        (at, within) = (at + 1, within + 1);
                    }
                }
            }
            block += 1;
        }
    }

    /// Returns how many blocks from this one on end before a slot.
    fn blocks_before_slot(&self, block: usize, blocks: usize, slot: u32) -> usize {
        // The block is usually near, so this is a galloping search.
        let before = |at: usize| self.skip_entry(at).0 < slot;
        let mut step = 1;
        while block + step <= blocks && before(block + step - 1) {
            step *= 2;
        }
        let (mut low, mut high) = (step / 2, step.min(blocks - block));
        while low < high {
            let middle = low.midpoint(high);
            if before(block + middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the last slot of a block and its end offset.
    fn skip_entry(&self, block: usize) -> (u32, u32) {
        let long = |at: usize| {
            let bytes = self.skip_table.get(at..at + 4).unwrap_or(&[0xff; 4]);
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        (long(block * SKIP_ENTRY_BYTES), long(block * SKIP_ENTRY_BYTES + 4))
    }
}

/// Returns the size of the skip table of a list.
fn skip_table_bytes(holders: usize) -> usize {
    if holders > SLOTS_PER_BLOCK { holders.div_ceil(SLOTS_PER_BLOCK) * SKIP_ENTRY_BYTES } else { 0 }
}

/// Writes a posting list: sorted slots with their counts.
pub(super) fn write_postings(list: &[(u32, u32)], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + skip_table_bytes(list.len()), 0);
    let body = bytes.len();
    let mut next = 0;
    for (block, some) in list.chunks(SLOTS_PER_BLOCK).enumerate() {
        let (mut widest, mut after, mut often) = (0, next, false);
        for (slot, count) in some {
            widest = widest.max(slot - after);
            after = slot + 1;
            often |= *count > 1;
        }
        let width = match widest {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        bytes.push(width as u8 | if often { HAS_COUNTS_FLAG } else { 0 });
        for (slot, _) in some {
            bytes.extend_from_slice(&(slot - next).to_le_bytes()[..width]);
            next = slot + 1;
        }
        if often {
            for eight in some.chunks(8) {
                let bits = eight.iter().enumerate();
                bytes.push(bits.fold(0, |bits, (at, (_, count))| bits | u8::from(*count > 1) << at));
            }
            some.iter().filter(|(_, count)| *count > 1).for_each(|(_, count)| write_varint(bytes, *count));
        }
        if list.len() > SLOTS_PER_BLOCK {
            let at = start + block * SKIP_ENTRY_BYTES;
            let end = (bytes.len() - body) as u32;
            bytes[at..at + 4].copy_from_slice(&(next - 1).to_le_bytes());
            bytes[at + 4..at + SKIP_ENTRY_BYTES].copy_from_slice(&end.to_le_bytes());
        }
    }
}

#[inline]
fn read_varint(rest: &mut &[u8]) -> Option<u32> {
    let (first, tail) = rest.split_first()?;
    if *first < 0x80 {
        *rest = tail;
        return Some(u32::from(*first));
    }
    let mut value = 0_u32;
    for (at, byte) in rest.iter().enumerate().take(5) {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_found_again_and_no_other() {
        let sizes =
            [(0, 1), (1, 1), (63, 3), (64, 1), (65, 1), (128, 7), (1000, 1), (999, 301), (70, 90_000)];
        for (length, step) in sizes {
            let list: Vec<(u32, u32)> = (0..length)
                .map(|n| (n * step * 2 + n % 2 + 5, if n % 192 < 64 { 1 } else { n % 300 + 1 }))
                .collect();
            let mut bytes = vec![7; 3];
            write_postings(&list, &mut bytes);
            let slots = length * step * 2 + 20;
            let postings = Postings::new(&bytes[3..], list.len() as u32, slots);
            let mut all = Vec::new();
            postings.for_each_posting(|slot, count| all.push((slot, count)));
            assert_eq!(all, list, "{length} × {step}");
            for every in [1, 2, 5, 64, 700] {
                let asked: Vec<u32> = (0..slots.min(700_000)).step_by(every).collect();
                let mut found = Vec::new();
                postings.lookup_slots(&asked, |at, count| found.push((asked[at], count)));
                let expected: Vec<(u32, u32)> =
                    list.iter().copied().filter(|(slot, _)| asked.binary_search(slot).is_ok()).collect();
                assert_eq!(found, expected, "{length} × {step}, every {every}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_list_are_read_without_harm() {
        let noise: Vec<u8> = (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for head in [1, 2, 4, 9, 10, 12, 77] {
            for holders in [0, 1, 64, 65, 500, u32::MAX] {
                let mut bytes = noise.clone();
                bytes.get_mut(skip_table_bytes(holders as usize)).into_iter().for_each(|first| *first = head);
                let postings = Postings::new(&bytes, holders, 300);
                postings.for_each_posting(|slot, _| assert!(slot < 300));
                postings.lookup_slots(&[0, 1, 2, 70, 9000, u32::MAX], |at, _| assert!(at < 6));
            }
        }
    }
}
