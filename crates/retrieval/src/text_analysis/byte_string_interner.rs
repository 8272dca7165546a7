//! Assigns numbers to byte strings: 0 to the first, 1 to the next new one, and so on.
//!
//! Numbers are found by a hash with a random seed, so that nobody can write a text whose words all collide.

use std::hash::{BuildHasher, RandomState};

/// Byte strings and their numbers.
#[derive(Debug)]
pub(crate) struct ByteStringInterner {
    seed: u64,
    bytes: Vec<u8>,
    /// The end of each byte string in `bytes`.
    ends: Vec<u32>,
    table: Vec<InternerTableEntry>,
}

/// The serialised form of byte strings, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct SerializedInterner {
    /// The seed of the hash.
    pub(crate) seed: u64,
    /// All byte strings, concatenated.
    pub(crate) bytes: Vec<u8>,
    /// The end of each byte string in `bytes`.
    pub(crate) ends: Vec<u32>,
    /// The hash table for [`find_in_table`]: the number of a byte string plus one, or 0.
    pub(crate) table: Vec<u32>,
}

/// The minimum number of entries in a table.
const MIN_HASH_TABLE_LEN: usize = 64;

/// An entry of the hash table.
#[derive(Clone, Copy, Debug, Default)]
struct InternerTableEntry {
    /// The first bytes of the byte string. They decide most comparisons.
    prefix: [u64; 2],
    hash: u32,
    /// The number of the byte string plus one, or 0.
    number_plus_one: u32,
}

impl Default for ByteStringInterner {
    fn default() -> Self {
        Self::with_seed(RandomState::new().hash_one(0_u8))
    }
}

impl ByteStringInterner {
    /// Creates an empty interner with this hash seed.
    pub(crate) fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            bytes: Vec::new(),
            ends: Vec::new(),
            table: vec![InternerTableEntry::default(); MIN_HASH_TABLE_LEN],
        }
    }

    /// Returns the number of byte strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the serialised form of all of them.
    pub(crate) fn to_serialized(&self) -> SerializedInterner {
        self.to_serialized_subset(0..self.len() as u32)
    }

    /// Returns the serialised form of some of them, in this order.
    pub(crate) fn to_serialized_subset(
        &self,
        numbers: impl ExactSizeIterator<Item = u32>,
    ) -> SerializedInterner {
        let count = numbers.len();
        let places = (count * 3 / 2 + 1).next_power_of_two().max(MIN_HASH_TABLE_LEN);
        let mut table = vec![0; places];
        let (mut bytes, mut ends) = (Vec::with_capacity(count * 8), Vec::with_capacity(count));
        for (new, number) in (1..).zip(numbers) {
            let run = self.bytes_of(number);
            bytes.extend_from_slice(run);
            ends.push(bytes.len() as u32);
            let mut at = hash(self.seed, run) as usize & (places - 1);
            while table[at] != 0 {
                at = (at + 1) & (places - 1);
            }
            table[at] = new;
        }
        SerializedInterner { seed: self.seed, bytes, ends, table }
    }

    /// Returns the number of a byte string, and whether it is new.
    pub(crate) fn intern(&mut self, run: &[u8]) -> (u32, bool) {
        let mask = self.table.len() - 1;
        let hash = hash(self.seed, run);
        let start = inline_prefix(run);
        let mut at = hash as usize & mask;
        while self.table[at].number_plus_one != 0 {
            let entry = self.table[at];
            let number = entry.number_plus_one - 1;
            if entry.prefix == start
                && (run.len() <= MAX_INLINE_BYTES || entry.hash == hash && self.bytes_of(number) == run)
            {
                return (number, false);
            }
            at = (at + 1) & mask;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(run);
        self.ends.push(self.bytes.len() as u32);
        self.table[at] = InternerTableEntry { prefix: start, hash, number_plus_one: number + 1 };
        if self.ends.len() * 3 > self.table.len() * 2 {
            self.grow();
        }
        (number, true)
    }

    /// Returns the byte string with a number.
    pub(crate) fn bytes_of(&self, number: u32) -> &[u8] {
        let start = (number as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[number as usize] as usize]
    }

    /// Removes all byte strings.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.table.fill(InternerTableEntry::default());
    }

    fn grow(&mut self) {
        let mut table = vec![InternerTableEntry::default(); self.table.len() * 2];
        let mask = table.len() - 1;
        for entry in self.table.iter().filter(|entry| entry.number_plus_one != 0) {
            let mut at = entry.hash as usize & mask;
            while table[at].number_plus_one != 0 {
                at = (at + 1) & mask;
            }
            table[at] = *entry;
        }
        self.table = table;
    }
}

/// Byte strings of up to this length are identified by their [`inline_prefix`] alone.
const MAX_INLINE_BYTES: usize = 15;

/// Returns the first bytes of a byte string, and its length if they are all of it.
#[inline]
fn inline_prefix(run: &[u8]) -> [u64; 2] {
    let long = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    match (run.first_chunk(), run.last_chunk()) {
        (Some(first), Some(_)) if run.len() > MAX_INLINE_BYTES => [long(first), u64::MAX],
        (Some(first), Some(last)) => {
            // From the last eight bytes, those that are not among the first eight.
            let rest = if run.len() == 8 { 0 } else { long(last) >> (8 * (16 - run.len())) };
            [long(first), rest | (run.len() as u64) << 56]
        }
        _ => {
            let few = match (run.first_chunk(), run.last_chunk()) {
                (Some(first), Some(last)) => half(first) | half(last) << 32,
                _ => run.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
            };
            [few, (run.len() as u64) << 56]
        }
    }
}

/// Looks up a byte string in the table of a [`SerializedInterner`]. `entry` reads the table, whose length `places` is a
/// power of two; `same` returns whether a number is that of the byte string.
pub(crate) fn find_in_table(
    seed: u64,
    places: usize,
    run: &[u8],
    entry: impl Fn(usize) -> u32,
    same: impl Fn(u32) -> bool,
) -> Option<u32> {
    let mask = places.checked_sub(1)?;
    let start = hash(seed, run) as usize & mask;
    for step in 0..places {
        let number = entry((start + step) & mask).checked_sub(1)?;
        if same(number) {
            return Some(number);
        }
    }
    None
}

/// Multiplies eight bytes at a time into a state and folds the product.
#[inline]
fn hash(seed: u64, run: &[u8]) -> u32 {
    const GOLDEN_RATIO_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let odd = GOLDEN_RATIO_MULTIPLIER ^ seed.rotate_left(32) | 1;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(odd);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = seed ^ run.len() as u64;
    if run.len() > MAX_INLINE_BYTES {
        for word in run.as_chunks::<8>().0 {
            state = fold(state, u64::from_le_bytes(*word));
        }
        state = fold(state, run.last_chunk().map_or(0, |last| u64::from_le_bytes(*last)));
    } else {
        let [first, rest] = inline_prefix(run);
        state = fold(fold(state, first), rest);
    }
    (state ^ state >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_run_has_the_same_number_and_others_have_others() {
        let mut words = ByteStringInterner::default();
        for round in 0..2 {
            for n in 0..5000_u32 {
                let run = format!("단어{n}");
                assert_eq!(words.intern(run.as_bytes()), (n, round == 0), "{run}");
            }
        }
        // Strings of every length that are equal at both ends.
        let mut longer = ByteStringInterner::default();
        let runs: Vec<Vec<u8>> = (0..40)
            .flat_map(|length| (1..4).map(move |step| (length, step)))
            .map(|(length, step)| {
                (0..length).map(|at: usize| if at == length / 2 { step } else { 7 }).collect()
            })
            .collect();
        for run in &runs {
            let (number, _) = longer.intern(run);
            assert_eq!(longer.bytes_of(number), run);
        }
        assert_eq!(longer.len(), 39 * 3 + 1);
        assert_eq!(words.intern(b""), (5000, true));
        assert_eq!((words.len(), words.bytes_of(4999)), (5001, "단어4999".as_bytes()));
        let found = |written: &SerializedInterner, run: &[u8]| {
            let end = |number: u32| written.ends[number as usize] as usize;
            let written_run = |number: u32| &written.bytes[number.checked_sub(1).map_or(0, end)..end(number)];
            let entry = |at: usize| written.table[at];
            find_in_table(written.seed, written.table.len(), run, entry, |number| written_run(number) == run)
        };
        assert_eq!(found(&words.to_serialized(), "단어77".as_bytes()), Some(77));
        assert_eq!(found(&words.to_serialized(), "없음".as_bytes()), None);
        let some = words.to_serialized_subset([78, 77, 5000].into_iter());
        assert_eq!(found(&some, "단어77".as_bytes()), Some(1));
        assert_eq!(found(&some, b""), Some(2));
        assert_eq!(found(&some, "단어79".as_bytes()), None);
        words.clear();
        assert_eq!(words.intern("단어77".as_bytes()), (0, true));
    }
}
