//! The list of a term: which slots hold it, and how often.
//!
//! A slot is written as its distance from the one before and a mark whether the term is there more than once; then how
//! often, if so; all as varints. A long list is cut into blocks, and a table before it says with which slot each block
//! ends and where, so that a slot can be looked up without reading all before it.
//!
//! ```text
//! last slot, end 2 × u32 for each block, if there are more holders than fit one · distances and counts
//! ```

/// So many slots make a block.
const BLOCK: usize = 64;
const ENTRY: usize = 8;

/// The list of one term, as bytes.
#[derive(Clone, Copy)]
pub(super) struct Postings<'a> {
    table: &'a [u8],
    body: &'a [u8],
}

impl<'a> Postings<'a> {
    /// The list in these bytes, of so many slots.
    pub(super) fn new(bytes: &'a [u8], holders: u32) -> Self {
        let (table, body) = bytes.split_at_checked(table_size(holders as usize)).unwrap_or((&[], &[]));
        Self { table, body }
    }

    /// Gives every slot, and how often it holds the term.
    #[inline]
    pub(super) fn each(&self, mut each: impl FnMut(u32, u32)) {
        read(self.body, 0, |slot, count| {
            each(slot, count);
            true
        });
    }

    /// Gives those of some slots, sorted, that hold the term: the place among them, and how often.
    pub(super) fn of(&self, slots: &[u32], mut each: impl FnMut(usize, u32)) {
        let blocks = self.table.len() / ENTRY;
        let (mut block, mut at) = (0, 0);
        while at < slots.len() {
            let (mut from, mut end, mut next) = (0, self.body.len(), 0);
            if blocks > 0 {
                block += self.skip(block, blocks, slots[at]);
                if block == blocks {
                    return;
                }
                if let Some(before) = block.checked_sub(1) {
                    let (last, ended) = self.entry(before);
                    (next, from) = (last.wrapping_add(1), ended as usize);
                }
                end = self.entry(block).1 as usize;
            }
            let Some(body) = self.body.get(from..end) else { return };
            read(body, next, |slot, count| {
                while at < slots.len() && slots[at] < slot {
                    at += 1;
                }
                if at < slots.len() && slots[at] == slot {
                    each(at, count);
                    at += 1;
                }
                at < slots.len()
            });
            if blocks == 0 {
                return;
            }
            let (last, _) = self.entry(block);
            while at < slots.len() && slots[at] <= last {
                at += 1;
            }
            block += 1;
        }
    }

    /// How many blocks from this one on end before a slot.
    fn skip(&self, block: usize, blocks: usize, slot: u32) -> usize {
        // Most often it is near, so steps double.
        let before = |at: usize| self.entry(at).0 < slot;
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

    /// The last slot of a block, and where it ends.
    fn entry(&self, block: usize) -> (u32, u32) {
        let long = |at: usize| {
            let bytes = self.table.get(at..at + 4).unwrap_or(&[0xff; 4]);
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        (long(block * ENTRY), long(block * ENTRY + 4))
    }
}

/// The bytes of the table of a list.
fn table_size(holders: usize) -> usize {
    if holders > BLOCK { holders.div_ceil(BLOCK) * ENTRY } else { 0 }
}

/// Writes a list of slots, sorted, with how often each holds the term.
pub(super) fn write(list: &[(u32, u32)], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + table_size(list.len()), 0);
    let body = bytes.len();
    let mut next = 0;
    for (block, some) in list.chunks(BLOCK).enumerate() {
        for (slot, count) in some {
            put_varint(bytes, (slot - next) << 1 | u32::from(*count > 1));
            if *count > 1 {
                put_varint(bytes, *count);
            }
            next = slot + 1;
        }
        if list.len() > BLOCK {
            let at = start + block * ENTRY;
            let end = (bytes.len() - body) as u32;
            bytes[at..at + 4].copy_from_slice(&(next - 1).to_le_bytes());
            bytes[at + 4..at + ENTRY].copy_from_slice(&end.to_le_bytes());
        }
    }
}

/// Reads slots as long as they are wanted.
#[inline]
fn read(mut rest: &[u8], mut next: u32, mut each: impl FnMut(u32, u32) -> bool) {
    while let Some(code) = varint(&mut rest) {
        // Not checked for overflow: whoever takes the slot checks that it is one.
        let slot = next.wrapping_add(code >> 1);
        let count = if code & 1 == 0 { 1 } else { varint(&mut rest).unwrap_or(1) };
        if !each(slot, count) {
            return;
        }
        next = slot.wrapping_add(1);
    }
}

#[inline]
fn varint(rest: &mut &[u8]) -> Option<u32> {
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

fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
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
        for (length, step) in [(0, 1), (1, 1), (63, 3), (64, 1), (65, 1), (128, 7), (1000, 1), (999, 301)] {
            let list: Vec<(u32, u32)> =
                (0..length).map(|n| (n * step * 2 + n % 2 + 5, n % 300 + 1)).collect();
            let mut bytes = vec![7; 3];
            write(&list, &mut bytes);
            let postings = Postings::new(&bytes[3..], list.len() as u32);
            let mut all = Vec::new();
            postings.each(|slot, count| all.push((slot, count)));
            assert_eq!(all, list, "{length} × {step}");
            for every in [1, 2, 5, 64, 700] {
                let asked: Vec<u32> = (0..length * step * 2 + 20).step_by(every).collect();
                let mut found = Vec::new();
                postings.of(&asked, |at, count| found.push((asked[at], count)));
                let expected: Vec<(u32, u32)> =
                    list.iter().copied().filter(|(slot, _)| asked.contains(slot)).collect();
                assert_eq!(found, expected, "{length} × {step}, every {every}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_list_are_read_without_harm() {
        let noise: Vec<u8> = (0..2000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for holders in [0, 1, 64, 65, 500, u32::MAX] {
            let postings = Postings::new(&noise, holders);
            postings.each(|_, _| ());
            postings.of(&[0, 1, 2, 70, 9000, u32::MAX], |at, _| assert!(at < 6));
        }
    }
}
